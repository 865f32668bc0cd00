"""What a client has here, connected or not: who it is, its subscriptions, its messages, how long.

The way out of a message, for QoS 1 and 2:

    deliver() -> queue -> drain_queue() -> inflight -> (PUBREC, PUBREL) -> PUBACK / PUBCOMP: gone

and straight to `inflight` when nothing waits and the window is open.  QoS 0 goes straight to the
connection.  Everything waits in the queue while the client is away or does not read fast enough;
the queue is bounded, and what happens at the bound is the listener's choice.

The parts know nothing of each other, of the connection or of the store; the rules between them are
here.  Of what waits, drain_queue() sends what is to be sent again first, then retained messages for
new subscriptions, then the queue; a new message goes straight out only if none of the three is
there.

    inflight    `mhub.core.inflight`: packet ids, the window, what is sent again
    replay      `mhub.core.replay`: retained messages for new subscriptions; None: there are none
    queue       `mhub.core.outgoing`: what waits; None: nothing does

A session with a `sid` is in the store, too, with all its messages; of a long queue only the first
part is in memory, and the rest is paged out: in the store alone until it is its turn.
"""

from typing import TYPE_CHECKING, Final

from mhub.core import events, limits, records
from mhub.core.accounts import Counted
from mhub.core.delivery import Delivery, Subscriber, Subscription
from mhub.core.denials import Denial
from mhub.core.inflight import Inflight
from mhub.core.limits import Limits
from mhub.core.namespace import Namespace, mount_point_of, mounted
from mhub.core.outgoing import OutgoingQueue
from mhub.core.ports import Intake
from mhub.core.records import SessionRecord, SubscriptionRecord
from mhub.core.replay import RetainedReplay
from mhub.core.timers import earliest
from mhub.wire import properties
from mhub.wire.packets import PUBREL, V5
from mhub.wire.publish import Publish
from mhub.wire.reasons import NOT_AUTHORIZED, PACKET_ID_NOT_FOUND, QUOTA_EXCEEDED, UNSPECIFIED
from mhub.wire.topics import split_share

if TYPE_CHECKING:
    from mhub.core.connection import Connection
    from mhub.core.hub import Hub


MAX_VERDICTS: Final = 10_000
"""Topics of waiting messages for which an answer is remembered, ..."""

MAX_VERDICT: Final = 256
"""... of up to so many characters: those of 65,535 bytes would take 640 MiB for one session."""

MAX_WITHDRAWN: Final = 100
"""Withdrawn subscriptions that a client which is away is told of when it comes back."""

STATE_LOST: Final = "lost/"
"""Notes about sessions whose client is to be told Session Present 0 begin so."""


class Will:
    def __init__(self, message: Publish, delay_s: int) -> None:
        self.message = message
        self.delay_s = delay_s
        self.due_at = 0.0  # 0: the client is connected


class Session(Subscriber):
    def __init__(self, hub: "Hub", client_id: str, allowed: Limits) -> None:
        super().__init__(client_id)
        # First what lists of all sessions look at, so that it comes with one fetch from memory.
        self.connection: Connection | None = None
        self.queue: OutgoingQueue | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.inflight = Inflight(allowed.max_inflight)
        self.hub = hub
        self.limits = allowed
        self.counted_at = ""  # the listener among whose sessions it counts
        self.namespace: Namespace | None = None  # of the last connection; None: all topics
        self.shares = False  # whether it ever was a member of a shared group
        self.replay: RetainedReplay | None = None
        self.incoming: dict[int, bool] = {}  # QoS 2 packet ids that wait for PUBREL: came just now?
        self.expiry_s = 0
        self.ends_at = 0.0  # 0: not before the connection does
        self.offline_at = 0.0  # when its last connection ended, if that was here; 0: none did
        self.will: Will | None = None
        self.epoch = 0  # under which it is held; a higher one is newer
        self.began = 0  # the epoch with which it began
        self.clean = False  # it began with a clean start
        self.frozen = False  # nothing passes between it and a client any more
        self.intake: Intake | None = None  # decides what is for it, where that is a question
        self.state_lost = False  # it is not what its client knows: that is told so
        self.burst: events.Burst | None = None  # of messages for it that were dropped lately
        self.rights = 0  # the revision of the rights under which what waits was put here
        self.verdicts: dict[str, bool] | None = None  # what it may receive of what is unchecked
        self.withdrawn: list[str] | None = None  # subscriptions that its client does not know of
        self.counted: Counted | None = None  # what it counts for, of a user or tenant
        self.denials: dict[int, Denial] | None = None  # the last one of each kind

    # Towards the client

    def is_connected(self) -> bool:
        return self.connection is not None

    def ready(self) -> bool:
        """Whether a QoS 1 message would leave at once."""
        connection = self.connection
        return (
            connection is not None
            and not connection.busy()
            and self.queue is None
            and self.replay is None
            and self.inflight.has_room()
        )

    def deliver(self, message: Publish, qos: int, subscription: Subscription) -> None:
        """Take a message over: send it now, or keep it as long as it takes."""
        self.hub.work += 1
        if self.intake is not None and not self.intake.admits(message, qos, subscription):
            return
        retain = message.retain and subscription.retain_as_published
        connection = self.connection
        if qos == 0:
            if connection is None:
                if not self.limits.queue_qos0_offline or not self.expiry_s:
                    self.hub.stats.dropped_offline += 1
                    self.tell_drop(events.OFFLINE)
                    return
            elif (
                not connection.busy()
                and (self.queue is None or not self.queue.qos0)
                and self.replay is None
            ):
                connection.publish(message, 0, 0, retain, subscription.ids, False, 0)
                return
            elif connection.output_limited and connection.drops_output():
                return
        delivery = Delivery(message, qos, retain, subscription.ids)
        delivery.group = subscription.group
        if qos and connection is not None and self.ready():
            if self.sid:
                self.hub.require_journal().add(self, delivery)
            self._send(connection, delivery)
        else:
            self.enqueue(delivery)
            if connection is not None:
                if self.waiting():
                    self.hub.continue_later(connection)
                elif connection.output_limited:
                    connection.check_output()

    def drain_queue(self, most: int) -> None:
        """Send what waits, as far as window and socket let it, and not more than `most`."""
        connection = self.connection
        if connection is None:
            return
        if self.rights != self.hub.rights:
            self.distrust()
        inflight = self.inflight
        if inflight.resend is not None:
            most -= self._send_again(connection, most)
        if inflight.resend is None and self.replay is not None:
            most -= self._send_retained(connection, most)
        queue = self.queue
        if queue is not None:
            if inflight.resend is None and self.replay is None:
                self._send_queued(connection, queue, most)
            if queue.paged_out:
                self.hub.storage.refill(self)
        else:
            self.verdicts = None
        if self.waiting():
            self.hub.continue_later(connection)

    def waiting(self) -> bool:
        """Whether drain_queue() would find something that may be sent now."""
        connection = self.connection
        if (
            connection is None
            or connection.blocked
            or connection.output_held_until
            or connection.output_limited
        ):
            return False
        inflight = self.inflight
        has_place = inflight.has_place()
        if inflight.resend is not None:
            return has_place
        replay = self.replay
        if replay is not None:
            return not replay.snapshots or has_place or replay.next_qos() == 0
        queue = self.queue
        if queue is None or not queue.at_hand:
            return False
        return has_place or queue.begins_with_qos0()

    def _send(self, connection: "Connection", delivery: Delivery) -> None:
        """The first PUBLISH of a QoS 1 or 2 delivery."""
        pid = self.inflight.add(delivery)
        if delivery.record is not None:
            self.hub.require_journal().sent(delivery, pid)
        self._publish(connection, delivery, pid, False)

    def _publish(self, connection: "Connection", delivery: Delivery, pid: int, dup: bool) -> None:
        """PUBLISH of what is in flight; what the client does not take is not, any more."""
        # A QoS 2 message must come again with the same packet id, so that id has to be safe first.
        record = delivery.record
        after = record.batch if record is not None and delivery.qos == 2 else 0
        if not connection.publish(
            delivery.message, delivery.qos, pid, delivery.retain, delivery.ids, dup, after
        ):
            self.inflight.drop(pid)
            self.discard(delivery)

    def discard(self, delivery: Delivery) -> None:
        """A delivery is over: the store need not have it any more."""
        if delivery.record is not None:
            self.hub.require_journal().remove(delivery)

    # Subscriptions

    def put_subscription(self, record: SubscriptionRecord) -> Subscription:
        """Make a subscription of what the client wrote; the caller has it routed."""
        share, topic_filter = split_share(record.name)
        subscription = Subscription(self, mounted(self.namespace, topic_filter), share)
        subscription.qos = record.qos
        subscription.no_local = record.no_local
        subscription.retain_as_published = record.retain_as_published
        subscription.lasting = record.qos > 0 and self.expiry_s > 0
        if record.identifier:
            subscription.ids = properties.number(properties.SUBSCRIPTION_ID, record.identifier)
        if share:
            self.shares = True
        self.subscriptions[record.name] = subscription
        return subscription

    # In flight

    def resume(self, connection: "Connection") -> None:
        """A connection is back: what was in flight goes out again in its first order.

        PUBRELs at once, as no window holds them back [MQTT-4.9.0-3]; PUBLISHes by drain_queue().
        """
        for pid in self.incoming:
            self.incoming[pid] = False
        self.inflight.begin_resend()
        for pid, delivery in self.inflight.deliveries.items():
            if delivery.released:
                record = delivery.record
                connection.acknowledge(PUBREL, pid, 0, record.batch if record else 0, None)

    def _send_again(self, connection: "Connection", most: int) -> int:
        """Resend with DUP and the old packet ids [MQTT-4.4.0-1, MQTT-3.3.1-1]."""
        inflight = self.inflight
        sent = 0
        while sent < most and not connection.busy():
            pid = inflight.next_resend()
            if not pid:
                break
            sent += 1
            delivery = inflight.deliveries[pid]
            if self.may_receive(delivery.message.topic):
                self._publish(connection, delivery, pid, True)
            else:
                inflight.drop(pid)
                self.revoke(delivery, True)
        return sent

    def puback(self, pid: int) -> None:
        delivery = self.inflight.end(pid, 1)
        if delivery is not None:
            self._settle(delivery)

    def pubrec(self, pid: int, reason: int, connection: "Connection") -> None:
        delivery = self.inflight.release(pid)
        if delivery is None:
            if reason < UNSPECIFIED:  # else the client expects no PUBREL
                connection.acknowledge(PUBREL, pid, PACKET_ID_NOT_FOUND, 0, None)
        elif reason >= UNSPECIFIED:  # it is over [MQTT-4.4.0-2]
            self.inflight.drop(pid)
            self._settle(delivery)
        else:
            after = 0
            if delivery.record is not None:
                # Else the message would be sent again after a crash, to a client that is done.
                self.hub.require_journal().released(delivery)
                after = delivery.record.batch
            connection.acknowledge(PUBREL, pid, 0, after, None)  # [MQTT-4.3.3-4]

    def pubcomp(self, pid: int) -> None:
        delivery = self.inflight.end(pid, 2)
        if delivery is not None:
            self._settle(delivery)

    def _settle(self, delivery: Delivery) -> None:
        """A delivery is over, and what waits may use its place."""
        if delivery.record is not None:
            self.hub.require_journal().remove(delivery)
        if self.queue is not None or self.replay is not None or self.inflight.resend is not None:
            self.drain_queue(self.hub.portion)

    # Retained messages for new subscriptions

    def replay_retained(self, name: str, subscription: Subscription) -> None:
        """Send what is retained now; with very much to do already it is looked up later."""
        hub = self.hub
        replay = self.replay if self.replay is not None else RetainedReplay(self.client_id)
        if replay.may_look_up() and hub.may_look_up():
            effort = replay.look_up(subscription, hub.retained, hub.now, hub.authorizer)
            hub.looked_up(effort)
        else:
            replay.pending[name] = subscription
        self.replay = None if replay.is_over() else replay

    def replay_entries(self) -> list[tuple[Subscription, Publish]]:
        """Retained messages that are still to be sent."""
        replay = self.replay
        if replay is None:
            return []
        hub = self.hub
        while replay.pending:
            hub.work += replay.look_up_next(hub.retained, hub.now, hub.authorizer)
        return replay.entries()

    def _send_retained(self, connection: "Connection", most: int) -> int:
        """Send them for one subscription after the other."""
        hub = self.hub
        replay = self.replay
        sent = 0
        while replay is not None and sent < most and not connection.busy():
            if not replay.snapshots:
                if not hub.may_look_up():
                    break
                hub.looked_up(replay.look_up_next(hub.retained, hub.now, hub.authorizer))
            else:
                qos = replay.next_qos()
                if qos and not self.inflight.has_room():
                    break
                sent += 1
                hub.work += 1
                ids = replay.snapshots[0].subscription.ids
                self._send_one_retained(connection, replay.take(), qos, ids, replay.unchecked)
            if replay.is_over():
                self.replay = replay = None
        return sent

    def _send_one_retained(
        self,
        connection: "Connection",
        message: Publish,
        qos: int,
        ids: bytes,
        is_unchecked: bool,
    ) -> None:
        hub = self.hub
        if message.expires_at and message.expires_at <= hub.now:
            hub.stats.dropped_expired += 1
            self.tell_drop(events.EXPIRED)
        elif is_unchecked and not self.may_receive(message.topic):
            self.tell_denied_receive(message.topic)
        elif qos:
            delivery = Delivery(message, qos, True, ids)
            if self.sid:
                hub.require_journal().add(self, delivery)
            self._send(connection, delivery)
        else:
            connection.publish(message, 0, 0, True, ids, False, 0)

    # The queue

    def queued(self) -> int:
        """How many messages wait in the queue."""
        queue = self.queue
        return 0 if queue is None else len(queue)

    def enqueue(self, delivery: Delivery) -> None:
        """Keep a delivery for later, within the bounds."""
        size_bytes = delivery.size_bytes()
        if self._is_full(size_bytes) and not self._make_room(delivery, size_bytes):
            return
        is_paged = self.queue is not None and self.queue.paged_out > 0
        if self.sid and (delivery.qos or self.connection is None):
            journal = self.hub.require_journal()
            journal.add(self, delivery)
            # What a shared group may take over is at hand, but for what comes back after a start.
            if is_paged or (self.queued() >= journal.window and not self.shares):
                self.page_out(size_bytes)
                if not is_paged and self.queue is not None:
                    self.queue.tail_seq = self.last_seq - 1
                return
        elif is_paged:
            self.hub.stats.dropped_queue_full += 1  # QoS 0, and the client is far behind
            self.tell_drop(events.QUEUE_FULL)
            return
        if self.queue is None:
            self.queue = OutgoingQueue(self.hub.queues)
        self.queue.append(delivery, size_bytes)

    def keep(self, delivery: Delivery) -> None:
        """Behind all others in memory, whatever the bounds are."""
        if self.queue is None:
            self.queue = OutgoingQueue(self.hub.queues)
        self.queue.append(delivery, delivery.size_bytes())

    def page_out(self, size_bytes: int) -> None:
        """A message behind all others, in the store alone."""
        if self.queue is None:
            self.queue = OutgoingQueue(self.hub.queues)
        self.queue.page_out(1, size_bytes)

    def requeue(self, delivery: Delivery) -> None:
        """A delivery that the store has takes its place at the end of the queue."""
        again = Delivery(delivery.message, delivery.qos, delivery.retain, delivery.ids)
        again.group = delivery.group
        self.enqueue(again)
        self.discard(delivery)  # only now, so that it is kept at all times

    def _make_room(self, delivery: Delivery, size_bytes: int) -> bool:
        """A bound is reached: whether older ones have gone for a delivery, or the new one goes."""
        while self._is_full(size_bytes):
            self.hub.stats.dropped_queue_full += 1
            self.tell_drop(events.QUEUE_FULL)
            policy = self.limits.queue_full
            oldest = policy == limits.DROP_OLDEST and not self.frozen
            if oldest and delivery.qos and self.queue is not None and self.queue.at_hand:
                self.discard(self.queue.take())
                self.end_queue()
                self.hub.storage.refill(self)
                continue
            if policy == limits.DISCONNECT and delivery.qos and self.connection is not None:
                self.hub.dismiss(self.connection, QUOTA_EXCEEDED, "the client does not keep up")
            return False
        return True

    def _is_full(self, size_bytes: int) -> bool:
        """Whether a bound would be passed: of this session, or of all together."""
        queue = self.queue
        if queue is None:
            return self.hub.queues.is_exceeded_by(size_bytes)
        return queue.is_exceeded_by(size_bytes, self.limits)

    def _send_queued(self, connection: "Connection", queue: OutgoingQueue, most: int) -> None:
        inflight = self.inflight
        while most > 0 and not connection.busy():
            if not queue.at_hand:
                self.end_queue()
                return
            if not inflight.has_place() and not queue.begins_with_qos0():
                return
            most -= 1
            self.hub.work += 1
            is_unchecked = queue.unchecked != 0
            delivery = queue.take()
            message = delivery.message
            if message.expires_at and message.expires_at <= self.hub.now:  # [MQTT-3.3.2-5]
                self.hub.stats.dropped_expired += 1
                self.tell_drop(events.EXPIRED)
                self.discard(delivery)
            elif is_unchecked and not self.may_receive(message.topic):
                self.revoke(delivery, False)
            elif delivery.qos:
                self._send(connection, delivery)
            else:
                connection.publish(message, 0, 0, delivery.retain, delivery.ids, False, 0)
                self.discard(delivery)
        self.end_queue()

    def tell_drop(self, cause: int) -> None:
        """A message for it was dropped: the first of a burst is an event, others are counted."""
        burst = self._burst()
        if burst.add(cause):
            self.hub.events.tell_burst(burst, cause, 0)

    def tell_limited(self, limit: int) -> None:
        """One of events.LIMITS holds for what its client has left."""
        self.hub.stats.limited[limit] += 1
        cause = events.FIRST_LIMIT + limit
        burst = self._burst()
        if burst.add(cause):
            self.hub.events.tell_burst(burst, cause, 0)

    def _burst(self) -> events.Burst:
        burst = self.burst
        if burst is None or burst.over:
            burst = self.hub.events.begin_burst(self.principal)
            self.burst = burst
        return burst

    def forget_load(self) -> None:
        """What the store was asked for is not wanted any more."""
        if self.queue is not None:
            self.queue.stale_load = self.queue.loading

    def end_queue(self) -> None:
        """Have no queue, if nothing is in it."""
        if self.queue is not None and self.queue.is_over():
            self.queue.forget()
            self.queue = None

    # Rights that have changed: `mhub.core.revocation`

    def distrust(self) -> None:
        """What waits is from before: each message is asked for again when its turn comes."""
        self.rights = self.hub.rights
        self.verdicts = None
        if self.queue is not None:
            self.queue.unchecked = self.queue.at_hand
        if self.replay is not None:
            self.replay.unchecked = True
        connection = self.connection
        if connection is not None and connection.deferred is not None:
            for deferred in connection.deferred:
                deferred.unchecked = True

    def may_receive(self, topic: str) -> bool:
        authorizer = self.hub.authorizer
        if authorizer is None:
            return True
        verdicts = self.verdicts
        if verdicts is None or len(verdicts) >= MAX_VERDICTS:
            self.verdicts = verdicts = {}
        known = verdicts.get(topic)
        if known is None:
            self.hub.work += 1
            known = authorizer.receive(self.principal, topic)
            if len(topic) <= MAX_VERDICT:
                verdicts[topic] = known
        return known

    def may_receive_now(self, topic: str) -> bool:
        """The same outside of drain_queue()."""
        if self.rights != self.hub.rights:
            self.distrust()
        return self.may_receive(topic)

    def revoke(self, delivery: Delivery, begun: bool) -> None:
        """A delivery that waited, and that its client may not receive any more.

        Another member of its group may; a QoS 2 delivery that has begun is this client's.
        """
        self.tell_denied_receive(delivery.message.topic)
        if delivery.group is None or (begun and delivery.qos == 2):
            self.discard(delivery)
        elif not self.hub.pass_on(self, delivery):
            self.discard(delivery)

    def drop_of_other_user(self) -> None:
        """A message came that had waited for another user with the same client id."""
        self.hub.stats.dropped_other_user += 1
        self.tell_drop(events.OTHER_USER)

    def tell_denied_receive(self, topic: str) -> None:
        self.hub.stats.receive_denied += 1
        self.tell_denied(events.RECEIVE, topic, "", 0, False)

    def tell_denied(self, cause: int, topic: str, text: str, qos: int, retain: bool) -> None:
        rule = self.hub.events.denied_to(
            self._burst(), self.principal, cause, topic, text, qos, retain
        )
        self.note_denied(cause, topic, rule, qos, retain)

    def note_denied(self, cause: int, topic: str, rule: str, qos: int, retain: bool) -> None:
        """Remember a denial; `rule` is "" for those that no event tells of one by one."""
        if self.denials is None:
            self.denials = {}
        known = self.denials.get(cause)
        if known is None or known.topic != topic:
            self.denials[cause] = Denial(cause, topic, rule, qos, retain, self.hub.now)
        else:
            known.again(rule, qos, retain, self.hub.now)

    def begin_review(self) -> list[str]:
        hub = self.hub
        # One that migrates is reviewed where it arrives, or when it stays.
        if self.granted == hub.rights or self.frozen or not self._is_current():
            return []
        if hub.end_if_deleted(self):
            return []
        authorizer = hub.authorizer
        connection = self.connection
        if authorizer is not None and connection is not None:
            reason = authorizer.connect(self.principal)
            if reason:
                hub.stats.connect_denied += 1
                hub.events.denied(connection, events.CONNECT, self.client_id, reason)
                connection.fail(reason, "not authorized to connect any longer")
        return list(self.subscriptions)

    def _is_current(self) -> bool:
        return self.hub.sessions.get(self.client_id) is self

    def review(self, name: str) -> bool:
        subscription = self.subscriptions.get(name)
        authorizer = self.hub.authorizer
        if subscription is None or authorizer is None or self.frozen:
            return True
        if not authorizer.subscribe(
            self.principal, subscription.topic_filter, subscription.qos, subscription.share
        ):
            return True
        name_in_full, qos = subscription.topic_filter, subscription.qos
        self.tell_denied(events.SUBSCRIBE, name_in_full, "it was withdrawn", qos, False)
        self.hub.subscribing.withdraw(self, name, subscription)
        return False

    def end_review(self, withdrawn: list[str], is_whole: bool) -> None:
        hub = self.hub
        if is_whole and not self.frozen:
            self.granted = hub.rights
        if not withdrawn or not hub.tell_withdrawn:
            return
        connection = self.connection
        if connection is None:
            # A list of them would grow with each change that its client does not see.
            self.withdrawn = [*(self.withdrawn or ()), *withdrawn][:MAX_WITHDRAWN]
        elif connection.version == V5:
            connection.fail(NOT_AUTHORIZED, describe_withdrawn(withdrawn))

    # What is forgotten

    def reset_state(self) -> None:
        """It is not what the client knows any more: what was in flight waits, as if never sent."""
        for pid in self.incoming:
            if self.sid:
                self.hub.require_journal().incoming(self, pid, False)
        self.incoming = {}
        waiting: list[Delivery] = []
        for delivery in self.inflight.take_all():
            if delivery.released:
                self.discard(delivery)  # the client has it
            elif self.queue is not None and self.queue.paged_out:
                self.requeue(delivery)  # a place in front, the store cannot give it
            else:
                if delivery.record is not None:
                    self.hub.require_journal().sent(delivery, 0)
                waiting.append(delivery)
        if waiting:
            if self.queue is None:
                self.queue = OutgoingQueue(self.hub.queues)
            self.queue.put_back(waiting)

    def lose_state(self, lost: bool) -> None:
        """Whether a client that comes is told that its session is gone."""
        if lost != self.state_lost:
            self.state_lost = lost
            if self.sid:
                self.hub.require_journal().note(STATE_LOST + self.client_id, "1" if lost else "")

    def clear_sent(self) -> None:
        """Forget what was in flight, and retained replay."""
        for delivery in self.inflight.take_all():
            self.discard(delivery)
        self.replay = None

    def clear(self) -> None:
        """Forget all messages; what the store has goes with the session."""
        self.forget_queue()
        self.inflight.take_all()
        self.incoming = {}
        self.replay = None

    def forget_queue(self) -> None:
        if self.queue is not None:
            self.queue.forget()
            self.queue = None

    def record(self, clock_offset_s: float) -> SessionRecord:
        """What the store has of it, without subscriptions and messages."""
        record = SessionRecord(self.sid, self.client_id)
        record.principal = self.principal.to_text()
        record.listener = self.principal.listener
        record.mount = mount_point_of(self.namespace)
        record.expiry_s = self.expiry_s
        record.epoch = self.epoch
        record.began = self.began
        record.ends_at = self.ends_at + clock_offset_s if self.ends_at else 0.0
        will = self.will
        if will is not None:
            record.will = records.message(will.message, clock_offset_s)
            record.will_delay_s = will.delay_s
            record.will_at = will.due_at + clock_offset_s if will.due_at else 0.0
        return record

    # Time

    def is_will_due(self, now: float) -> bool:
        """Whether its client is gone, and has been for longer than the will's delay.

        Of a frozen session another node decides that, as soon as it has it.
        """
        will = self.will
        return will is not None and 0.0 < will.due_at <= now and not self.frozen

    def leaves_will_at_stop(self, now: float) -> bool:
        """Whether a clean stop of the broker makes the will due.

        The connection ends with it, and a session that is not in the store does, too.  A delay that
        is not over is the chance of a client to resume its session, also after a restart.
        """
        will = self.will
        if will is None or self.frozen:
            return False
        if not self.sid:
            return True
        return self.is_will_due(now) or (self.connection is not None and will.delay_s == 0)

    def deadline(self) -> float:
        """Of a delayed will, or of the end."""
        if self.connection is not None or self.frozen:
            return 0.0
        return earliest(self.will.due_at if self.will is not None else 0.0, self.ends_at)

    def rest(self, now: float) -> None:
        """Nobody is connected: it lasts as long as it may."""
        if self.expiry_s == 0:
            self.hub.end_session(self)
            return
        if not self.ends_at and self.expiry_s != limits.NEVER:
            self.ends_at = now + self.expiry_s
        self.hub.wheel.arm(self, self.deadline())

    def fire(self, now: float) -> None:
        """Delayed will and session expiry."""
        if self.connection is not None or self.frozen:
            return
        if self.is_will_due(now):
            self.hub.publish_will(self)
        if self.ends_at and self.ends_at <= now:
            self.hub.events.session_expired(self.principal)
            self.hub.end_session(self)
            self.ends_at = 0.0
            self.will = None


def describe_withdrawn(names: list[str]) -> str:
    """For the client, whose own names these are."""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"not authorized any longer: the subscription to {names[0]!r}{more} was withdrawn"
