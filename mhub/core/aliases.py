"""Topic aliases of one MQTT 5 connection, in both directions.

They end with the connection.  One that neither sets an alias nor takes any has no TopicAliases.
"""

from mhub.wire import reasons
from mhub.wire.errors import ProtocolFault
from mhub.wire.publish import Publish


class TopicAliases:
    def __init__(self) -> None:
        self.incoming: dict[int, bytes] = {}  # what the client has set
        self.outgoing: dict[str, int] = {}  # what the client was told
        self.max_outgoing = 0  # the client's Topic Alias Maximum, or what the listener allows

    def resolve(self, message: Publish) -> None:
        """The topic of a message from the client that has an alias, or no topic name."""
        if message.topic_data:
            self.incoming[message.alias] = message.topic_data
            return
        known = self.incoming.get(message.alias)
        if known is None:
            raise ProtocolFault(
                reasons.PROTOCOL_ERROR, f"neither a topic name nor a known alias ({message.alias})"
            )
        message.topic_data = known

    def introduce(self, topic: str) -> int:
        """A new alias, which the client learns with the next frame; 0: there are enough."""
        if len(self.outgoing) >= self.max_outgoing:  # [MQTT-3.3.2-11]
            return 0
        alias = len(self.outgoing) + 1
        self.outgoing[topic] = alias
        return alias
