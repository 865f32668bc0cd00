"""PUBLISH and PUBREL from a client: the way of a message in."""

from typing import TYPE_CHECKING, Final, cast

from mhub.core import events
from mhub.core.accounts import owner_of
from mhub.core.aliases import TopicAliases
from mhub.core.authorization import Authorizer
from mhub.core.connection import Connection
from mhub.core.journal import AckTracker
from mhub.core.limits import DISCONNECT
from mhub.core.router import CACHED_BYTES
from mhub.wire import reasons
from mhub.wire.errors import ProtocolFault
from mhub.wire.packets import PUBACK, PUBCOMP, PUBREC, V5
from mhub.wire.publish import Publish, decode

if TYPE_CHECKING:
    from mhub.core.hub import Hub

NO: Final = 64
"""Times a bit that says yes: the bit that says no."""


class Publishing:
    def __init__(self, hub: "Hub") -> None:
        self.hub = hub

    def publish(self, connection: Connection, data: bytes, first: int, body: int, end: int) -> None:
        """Decode a message, route it, give it to its subscribers, and acknowledge it."""
        hub = self.hub
        stats = hub.stats
        allowed = connection.limits
        stats.packets_received += 1
        stats.publish_received += 1
        message = decode(data, first, body, end, connection.version, allowed.max_control_size)
        size = len(message.payload)
        stats.publish_bytes_received += size
        connection.messages_in += 1
        connection.bytes_in += size
        if message.alias or not message.topic_data:
            self._resolve_alias(connection, message)
        if connection.namespace is not None:
            message.topic_data = connection.namespace.mounted_data(message.topic_data)
        route = hub.router.find(message.topic_data)
        message.topic = route.topic
        message.topic_field = route.topic_field
        message.sender = connection.client_id
        qos = message.qos
        if qos > allowed.max_qos:  # [MQTT-3.2.2-11]
            raise ProtocolFault(reasons.QOS_NOT_SUPPORTED, f"QoS {qos} is not supported here")
        if message.retain and not allowed.retain_available:  # [MQTT-3.2.2-14]
            raise ProtocolFault(reasons.RETAIN_NOT_SUPPORTED, "retain is not supported here")
        if message.expiry_s >= 0:
            message.expires_at = hub.now + message.expiry_s
        if qos == 2 and hub.peers is not None:
            message.journaled = connection.owner().sid != 0
        if qos == 2 and not self._first_of_qos2(connection, message.pid, message.dup):
            after = hub.mark(connection.owner())
            others = hub.peers.wait_for_channels() if hub.peers is not None else None
            connection.acknowledge(PUBREC, message.pid, 0, after, others)  # [MQTT-4.3.3-10]
            return
        reason = 0
        if route.reserved:
            reason = reasons.NOT_AUTHORIZED
        elif hub.authorizer is not None and (
            # The one object of a route: it stays the same until subscriptions or rights change.
            route.topic is not connection.permitted
            or qos != connection.permitted_qos
            or message.retain
            or connection.rights != hub.rights
        ):
            reason = self._permission(connection, message, hub.authorizer)
        if reason:
            stats.publish_denied += 1
            rule = hub.events.denied(
                connection, events.PUBLISH, message.topic, reason, qos, message.retain
            )
            connection.owner().note_denied(events.PUBLISH, message.topic, rule, qos, message.retain)
            if connection.version < V5 and hub.denied_publish == DISCONNECT:
                self._disconnect(connection, message, reason)
                return
        elif allowed.message_size_limit and len(message.payload) > allowed.message_size_limit:
            stats.publish_refused_size += 1
            reason = reasons.IMPLEMENTATION_SPECIFIC
        elif qos and hub.peers is not None and hub.peers_refuse(route):
            reason = self._too_much(connection, message)
        else:
            retains = message.retain
            if retains:
                hub.retained.refused = False
                message.owner = owner_of(connection.principal)
                if message.payload and hub.retained_quota_reached(connection, message.topic):
                    message.retain = False  # on all nodes
                    hub.retained.refused = True
            if not hub.publish(message, route):
                reason = reasons.NO_MATCHING_SUBSCRIBERS
            if retains and hub.retained.refused:
                reason = reasons.QUOTA_EXCEEDED  # all subscribers have it, later ones will not
        if qos:
            self._reply(connection, message, reason)

    def skip(self, connection: Connection, data: bytes, first: int, body: int, end: int) -> None:
        """A message of QoS 0 that is dropped before it is routed; its alias counts all the same."""
        stats = self.hub.stats
        stats.packets_received += 1
        stats.publish_received += 1
        stats.dropped_rate += 1
        most = connection.limits.max_control_size
        message = decode(data, first, body, end, connection.version, most)
        size = len(message.payload)
        stats.publish_bytes_received += size
        connection.messages_in += 1
        connection.bytes_in += size
        if message.alias or not message.topic_data:
            self._resolve_alias(connection, message)

    def _permission(self, connection: Connection, message: Publish, authorizer: Authorizer) -> int:
        """0 if a client may publish this, else why not.

        Each connection remembers the answers for some topics, with a bit for each QoS with and
        without retain, for yes and for no; and apart the last one, as most clients publish to few
        topics.
        """
        decisions = connection.decisions
        if decisions is None or connection.rights != self.hub.rights:
            connection.decisions = decisions = {}
            connection.rights = self.hub.rights
            connection.permitted = None
        known = decisions.get(message.topic_data, 0)
        qos = message.qos
        bit = 1 if qos == 0 else 4 if qos == 1 else 16  # a table of them would be slower, compiled
        if message.retain:
            bit += bit
        if known & bit:
            if not message.retain:
                connection.permitted = message.topic
                connection.permitted_qos = qos
            return 0
        refused = bit * NO
        if known & refused:
            return reasons.NOT_AUTHORIZED
        self.hub.stats.publish_cache_misses += 1
        reason = authorizer.publish(
            connection.principal, message.topic, message.qos, message.retain
        )
        if len(message.topic_data) <= CACHED_BYTES and self.hub.publish_cache_size:
            if len(decisions) >= self.hub.publish_cache_size and not known:
                decisions.clear()
            if reason == 0:
                decisions[message.topic_data] = known | bit
            elif reason == reasons.NOT_AUTHORIZED:
                decisions[message.topic_data] = known | refused
        return reason

    def _disconnect(self, connection: Connection, message: Publish, reason: int) -> None:
        """What MQTT 3 has in the place of a refusal [MQTT-3.3.5-2]."""
        if message.qos == 2:
            connection.owner().incoming.pop(message.pid, None)  # it was not taken
        name = message.topic
        if connection.namespace is not None:
            name = connection.namespace.unmounted(name)
        connection.fail(reason, f"not authorized to publish to {name!r}")

    def _too_much(self, connection: Connection, message: Publish) -> int:
        """A peer that has to get the message does not keep up, or is away for long."""
        if connection.version < V5:  # it cannot be told, and must not believe that it was taken
            if message.qos == 2:
                connection.owner().incoming.pop(message.pid, None)  # it comes again, as a new one
            raise ProtocolFault(reasons.QUOTA_EXCEEDED, "the queue for another node is full")
        return reasons.QUOTA_EXCEEDED

    def _reply(self, connection: Connection, message: Publish, reason: int) -> None:
        """PUBACK or PUBREC; MQTT 3 clients are told nothing of a refusal [MQTT-3.3.5-2]."""
        if connection.version < V5:
            reason = 0
        session = connection.owner()
        if message.qos == 1:
            if message.tracker is None:
                connection.acknowledge(PUBACK, message.pid, reason, 0, None)
            else:
                tracker = cast(AckTracker, message.tracker)
                connection.acknowledge(PUBACK, message.pid, reason, 0, tracker)
            return
        if reason >= reasons.UNSPECIFIED:
            session.incoming.pop(message.pid, None)  # [MQTT-4.3.3-9]
            connection.unreleased -= 1
        elif session.sid:
            self.hub.require_journal().incoming(session, message.pid, True)
        after = self.hub.mark(session)
        waits = None
        if message.tracker is not None:
            waits = cast(AckTracker, message.tracker)
        connection.acknowledge(PUBREC, message.pid, reason, after, waits)

    def _first_of_qos2(self, connection: Connection, pid: int, dup: bool) -> bool:
        """Whether a QoS 2 message is new, and then its packet id taken."""
        incoming = connection.owner().incoming
        if pid in incoming:
            # In a cluster, a session that could not be had may have left an old packet id: what
            # was sent before comes with DUP [MQTT-3.3.1-1], so this is something new.
            if dup or incoming[pid] or self.hub.peers is None:
                return False
            del incoming[pid]
        most = connection.limits.receive_maximum
        # Only MQTT 5 has told the client of a bound [MQTT-3.3.4-7].
        if connection.version == V5 and connection.unreleased >= most:
            raise ProtocolFault(
                reasons.RECEIVE_MAXIMUM_EXCEEDED, f"more than {most} messages without PUBREL"
            )
        incoming[pid] = True
        connection.unreleased += 1
        return True

    def _resolve_alias(self, connection: Connection, message: Publish) -> None:
        alias = message.alias
        most = connection.limits.max_topic_alias
        if alias > most:  # [MQTT-3.3.2-9]
            raise ProtocolFault(
                reasons.TOPIC_ALIAS_INVALID, f"topic alias {alias}, at most {most} are allowed"
            )
        if connection.aliases is None:
            connection.aliases = TopicAliases()
        connection.aliases.resolve(message)

    def release(self, connection: Connection, pid: int) -> None:
        """PUBREL: the packet id is free for a new message [MQTT-4.3.3-11, MQTT-4.3.3-12]."""
        incoming = connection.owner().incoming
        session = connection.owner()
        if pid not in incoming:
            after = self.hub.mark(session)
            connection.acknowledge(PUBCOMP, pid, reasons.PACKET_ID_NOT_FOUND, after, None)
            return
        if incoming.pop(pid):
            connection.unreleased -= 1
        if session.sid:
            self.hub.require_journal().incoming(session, pid, False)
        connection.acknowledge(PUBCOMP, pid, 0, self.hub.mark(session), None)
