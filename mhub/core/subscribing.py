"""SUBSCRIBE and UNSUBSCRIBE."""

from typing import TYPE_CHECKING, Final

from mhub.core import events
from mhub.core.connection import Connection
from mhub.core.delivery import Subscription
from mhub.core.journal import subscription_record
from mhub.core.limits import Limits
from mhub.core.namespace import Namespace, mounted
from mhub.core.records import SubscriptionRecord
from mhub.core.redistribution import redistribute
from mhub.core.session import Session
from mhub.wire import encode, reasons
from mhub.wire.errors import ProtocolFault
from mhub.wire.packets import V5, Request, Subscribe, Unsubscribe
from mhub.wire.topics import check_filter, has_wildcard, split_share

if TYPE_CHECKING:
    from mhub.core.hub import Hub

QUESTION: Final = 10
"""Whether a filter is allowed takes as long as so many deliveries: a client that asks for ever
more, and is refused, has its turn like all others."""


class Subscribing:
    def __init__(self, hub: "Hub") -> None:
        self.hub = hub

    def subscribe(self, connection: Connection, session: Session, packet: Subscribe) -> None:
        """One SUBACK, a code for each filter in their order; then the retained messages."""
        codes: list[int] = []
        problem = ""
        for request in packet.requests:
            self._check(request)
        for request in packet.requests:
            code = self._take(session, connection.limits, request, packet.subscription_id)
            if code >= reasons.UNSPECIFIED:
                problem = reasons.name(code)
                codes.append(code if connection.version == V5 else reasons.UNSPECIFIED)
            else:
                codes.append(code)
        if session.counted is not None:
            self.hub.count(session)
        if not connection.problem_info:
            problem = ""
        reply = encode.suback(
            packet.pid, bytes(codes), connection.version, problem, connection.max_packet_out
        )
        # Whoever publishes on another node after this reply reaches those here.
        peers = self.hub.peers
        others = peers.wait_for_table() if peers is not None else None
        connection.send_when_durable(reply, self.hub.mark(session), others)
        session.drain_queue(self.hub.portion)

    def subscribe_for(self, session: Session, request: Request, identifier: int) -> int:
        """The same for a client that has not asked for it, and may be away: the code of its SUBACK.

        It is checked by what that client may do, and its limits.  ProtocolFault: the filter is
        none.
        """
        hub = self.hub
        self._check(request)
        code = self._take(session, hub.limits_of(session), request, identifier)
        if session.counted is not None:
            hub.count(session)
        session.drain_queue(hub.portion)
        return code

    def _take(self, session: Session, allowed: Limits, request: Request, identifier: int) -> int:
        """Make a subscription: its QoS, or the reason why there is none."""
        group, topic_filter = split_share(request.topic_filter)
        topic_filter = mounted(session.namespace, topic_filter)
        code = self._refusal(session, allowed, request, group, topic_filter)
        if code:
            self.hub.stats.subscriptions_refused += 1
            return code
        known = request.topic_filter in session.subscriptions
        subscription = self._add(session, allowed, request, identifier)
        if not group and (
            request.retain_handling == 0 or (request.retain_handling == 1 and not known)
        ):
            session.replay_retained(request.topic_filter, subscription)
        return subscription.qos

    def _check(self, request: Request) -> None:
        """What breaks a rule of MQTT ends the connection, before anything else is done."""
        group, topic_filter = split_share(request.topic_filter)
        max_levels = self.hub.router.max_levels
        if topic_filter.count("/") < max_levels:  # else it is refused, whatever its form
            check_filter(topic_filter, max_levels)
        if group and request.no_local:  # [MQTT-3.8.3-4]
            raise ProtocolFault(
                reasons.PROTOCOL_ERROR, "No Local is not allowed with a shared subscription"
            )

    def _refusal(
        self,
        session: Session,
        allowed: Limits,
        request: Request,
        group: str,
        topic_filter: str,
    ) -> int:
        """Why a subscription to this filter, which is in full, is not possible; 0 if it is."""
        if group and not allowed.shared_subscriptions:
            return reasons.SHARED_NOT_SUPPORTED
        if not allowed.wildcard_subscriptions and has_wildcard(topic_filter):
            return reasons.WILDCARDS_NOT_SUPPORTED
        if (
            allowed.max_subscriptions
            and request.topic_filter not in session.subscriptions
            and len(session.subscriptions) >= allowed.max_subscriptions
        ):
            self._limited(session, events.SUBSCRIPTIONS)
            return reasons.QUOTA_EXCEEDED
        reason = self._beyond(session, allowed, request.topic_filter)
        if reason:
            return reason
        if self.hub.router.refuses(topic_filter):
            self.hub.stats.subscriptions_refused_patterns += 1
            return reasons.QUOTA_EXCEEDED
        authorizer = self.hub.authorizer
        if authorizer is None:
            return 0
        self.hub.work += QUESTION
        reason = authorizer.subscribe(session.principal, topic_filter, request.qos, group)
        if reason:
            self._denied(session, topic_filter, reason, request.qos)
        return reason

    def _denied(self, session: Session, topic_filter: str, reason: int, qos: int) -> None:
        connection = session.connection
        if connection is None:
            session.tell_denied(events.SUBSCRIBE, topic_filter, "", qos, False)
            return
        rule = self.hub.events.denied(connection, events.SUBSCRIBE, topic_filter, reason, qos)
        session.note_denied(events.SUBSCRIBE, topic_filter, rule, qos, False)

    def _limited(self, session: Session, limit: int) -> None:
        if session.connection is None:
            session.tell_limited(limit)
        else:
            self.hub.limited(session.connection, limit)

    def _beyond(self, session: Session, allowed: Limits, name: str) -> int:
        """Whether a filter is beyond what its user, or tenant, or client may have; 0: no."""
        hub = self.hub
        if len(name) * 4 > allowed.max_topic_length:
            if len(name.encode("utf-8")) > allowed.max_topic_length:
                self._limited(session, events.TOPIC_LENGTH)
                return reasons.TOPIC_FILTER_INVALID
        _, topic_filter = split_share(name)
        # What a user's own limits allow does not go beyond what the broker was built for.
        if topic_filter.count("/") >= min(allowed.max_topic_levels, hub.router.max_levels):
            self._limited(session, events.TOPIC_LEVELS)
            return reasons.TOPIC_FILTER_INVALID
        if not allowed.max_user_subscriptions and not allowed.max_tenant_subscriptions:
            return 0
        if name in session.subscriptions:
            return 0
        hub.count(session)
        limit = hub.accounts.subscription_limit(session.principal, allowed)
        if limit < 0:
            return 0
        self._limited(session, limit)
        return reasons.QUOTA_EXCEEDED

    def _add(
        self, session: Session, allowed: Limits, request: Request, identifier: int
    ) -> Subscription:
        record = SubscriptionRecord(session.sid, request.topic_filter)
        record.qos = min(request.qos, allowed.max_qos)
        record.no_local = request.no_local
        record.retain_as_published = request.retain_as_published
        record.identifier = identifier
        subscription = session.put_subscription(record)
        self.hub.router.add(subscription)
        if session.sid:
            self.hub.require_journal().subscribed(record)
        return subscription

    def unsubscribe(self, connection: Connection, session: Session, packet: Unsubscribe) -> None:
        codes: list[int] = []
        for topic_filter in packet.filters:
            subscription = session.subscriptions.get(topic_filter)  # [MQTT-3.10.4-1]
            if subscription is None:
                codes.append(reasons.NO_SUBSCRIPTION_EXISTED)
                continue
            codes.append(reasons.SUCCESS)
            self._remove(session, topic_filter, subscription)
        reply = encode.unsuback(packet.pid, bytes(codes), connection.version)
        connection.send_when_durable(reply, self.hub.mark(session), None)

    def unsubscribe_for(self, session: Session, name: str) -> bool:
        """The same for a client that has not asked for it: whether there was such a one."""
        subscription = session.subscriptions.get(name)
        if subscription is None:
            return False
        self._remove(session, name, subscription)
        return True

    def _remove(self, session: Session, name: str, subscription: Subscription) -> None:
        del session.subscriptions[name]
        self.hub.router.remove(subscription)
        if session.sid:
            self.hub.require_journal().unsubscribed(session, name)
        if subscription.group is not None:
            redistribute(session, subscription.group, False)
        if session.counted is not None:
            self.hub.count(session)

    def withdraw(self, session: Session, name: str, subscription: Subscription) -> None:
        """A session may not have a subscription any more, whatever its client wants."""
        self.hub.stats.subscriptions_withdrawn += 1
        self._remove(session, name, subscription)
        replay = session.replay
        if replay is not None:
            replay.withdraw(name, subscription)
            if replay.is_over():
                session.replay = None


def remount(session: Session, namespace: Namespace | None) -> None:
    """A session comes back with another mount point: its subscriptions follow it there.

    The store has them as the client wrote them, and the mount point with the session.
    """
    hub = session.hub
    session.namespace = namespace
    for name, before in list(session.subscriptions.items()):
        hub.router.remove(before)
        if before.group is not None:
            redistribute(session, before.group, False)
        hub.router.add(session.put_subscription(subscription_record(session.sid, name, before)))
