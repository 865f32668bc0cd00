"""Which messages are for a session that has migrated, or migrates, by the node that published them.

It is the `intake` of its session, which asks it for each message (`mhub.core.ports`); a session
that nothing is pending for has none.  What comes by a shared subscription comes to nobody else, so
it is never turned away.
"""

from collections.abc import Callable

from mhub.cluster.migration.pending import CLOSED, marks_in
from mhub.cluster.migration.segments import Gates, publisher
from mhub.core.channel_records import Entry
from mhub.core.delivery import Subscription
from mhub.core.peers import Peers
from mhub.core.session import Session
from mhub.wire.publish import Publish

Divert = Callable[[Publish, int, Subscription], bool]


class Intake:
    def __init__(self, session: Session, peers: Peers) -> None:
        self._session = session
        self._peers = peers
        self.sid = 0  # of the session in the store, if there are notes about it
        self.gates: Gates = {}
        self.closed: set[str] = set()  # nodes whose messages another session gets from now on
        # What a source does with a message; False: nothing else is to be done
        self.divert: Divert | None = None
        self._is_direct = False

    def is_needed(self) -> bool:
        return bool(self.gates or self.closed or self.divert is not None)

    def admits(self, message: Publish, qos: int, subscription: Subscription) -> bool:
        if subscription.group is None and not self._is_direct:
            peers = self._peers
            node = peers.publisher.name if peers.publisher is not None else peers.node
            mark = 0
            if peers.publisher_controls:
                mark = marks_in(peers.publisher_controls).get(self._session.client_id, 0)
            gate = self.gates.get(node)
            if (gate is not None and mark < gate.epoch) or node in self.closed or mark == CLOSED:
                return False
        return self.divert is None or self.divert(message, qos, subscription)

    def is_new(self, sender: str, via: str) -> bool:
        """Whether a message that a node sends again is not one that has come another way."""
        name = publisher(via)
        if not via or name == self._peers.node:
            return True
        gate = self.gates.get(name)
        return gate is not None and gate.is_new(via, name == sender)

    def takes_copy(self, name: str, copy: Entry) -> bool:
        """Whether a message that is in another node's channel to that one is still to come here."""
        origin = copy.origin
        gate = self.gates.get(origin.node) if origin is not None else None
        if gate is None or origin is None or copy.direct or not copy.plain:
            return False
        mark = marks_in(origin.controls).get(self._session.client_id, 0)
        return gate.takes_copy(name, origin.channel_epoch, origin.n, mark, mark == CLOSED)

    def deliver(self, message: Publish) -> None:
        """A message that was sent again for this session alone."""
        session = self._session
        route = session.hub.router.find(message.topic_data)
        message.topic = route.topic
        message.topic_field = route.topic_field
        self._is_direct = True
        for subscription in route.targets:
            if subscription.session is session:
                chosen: Subscription | None = subscription
                if subscription.no_local and message.sender == session.client_id:
                    chosen = subscription.own  # [MQTT-3.8.3-3]
                if chosen is not None:
                    session.deliver(message, min(message.qos, chosen.qos), chosen)
        self._is_direct = False
