"""What a client has here, connected or not: subscriptions, queue, messages in flight.

The way out of a message, for QoS 1 and 2:

    deliver() -> queue -> pump() -> inflight[pid] -> (PUBREC, PUBREL) -> PUBACK / PUBCOMP: gone

and straight to inflight when nothing waits and the window is open.  QoS 0 goes straight to the
connection.  Everything waits in the queue while the client is away or does not read fast enough;
the queue is bounded, and what happens at the bound is the listener's choice.  Retained messages for
a new subscription wait in lists of their own, outside of these bounds.

A session with a `sid` is in the store, too, with all its messages; of a long queue only the first
part is in memory, and `spilled` messages are in the store alone until it is their turn.
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from mhub.core import limits
from mhub.core.delivery import Delivery, Subscription
from mhub.core.journal import AckTracker
from mhub.core.limits import Limits
from mhub.core.ports import Intake
from mhub.core.records import DeliveryRecord, Row, publish_of
from mhub.core.shared import Group
from mhub.core.timers import Timed
from mhub.wire.packets import PUBREL
from mhub.wire.publish import Publish
from mhub.wire.reasons import PACKET_ID_NOT_FOUND, QUOTA_EXCEEDED, UNSPECIFIED

if TYPE_CHECKING:
    from mhub.core.connection import Connection
    from mhub.core.hub import Hub


STATE_LOST: Final = "lost/"
"""Notes about sessions whose client is to be told Session Present 0 begin so."""

SNAPSHOT: Final = 100_000
"""So many retained messages may wait for one session; more are looked up when these are out."""

LOAD_MESSAGES: Final = 2048
"""So many messages of a queue come back from the store at a time, for a client that is here."""


class Feed:
    """The retained messages for one new subscription; there is at least one."""

    def __init__(self, subscription: Subscription, messages: list[Publish]) -> None:
        self.subscription = subscription
        self.messages = messages  # the next one last


class Session(Timed):
    def __init__(self, hub: "Hub", client_id: str, allowed: Limits) -> None:
        super().__init__()
        self.hub = hub
        self.client_id = client_id
        self.limits = allowed
        self.username = ""
        self.listener = ""  # where it was connected last, and
        self.mount = ""  # that listener's mount point
        self.sid = 0  # its number in the store; 0: it is not there
        self.last_seq = 0  # of its deliveries in the store
        self.connection: Connection | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.shares = False  # whether it ever was a member of a shared group
        self.window = allowed.max_inflight
        self.outstanding = 0  # deliveries that take a place in the window
        self.inflight: dict[int, Delivery] = {}
        self.resend: list[int] | None = None  # packet ids of `inflight` still to be sent again
        self.last_pid = 0
        self.queue: deque[Delivery] | None = None
        self.queued_bytes = 0
        self.queued_qos0 = 0
        self.spilled = 0  # messages behind those of `queue`, in the store alone
        self.tail_seq = 0  # the last one that is not among them
        self.loading = False  # the next of them are on their way
        self.stale_load = False  # they are not wanted any more
        self.feeds: deque[Feed] | None = None  # retained messages for new subscriptions
        self.feeding = 0  # how many they are
        self.later: dict[str, Subscription] | None = None  # ... of which nothing is looked up yet
        self.incoming: dict[int, bool] = {}  # QoS 2 packet ids that wait for PUBREL: came just now?
        self.expiry_s = 0
        self.ends_at = 0.0  # 0: not before the connection does
        self.epoch = 0  # of the claim under which it is held
        self.began = 0  # the epoch with which it began anew
        self.clean = False  # it began with a clean start
        self.frozen = False  # nothing passes between it and a client any more
        self.intake: Intake | None = None  # decides what is for it, where that is a question
        self.state_lost = False  # it is not what its client knows: that is told so
        self.will: Publish | None = None
        self.will_delay_s = 0
        self.will_at = 0.0

    # Towards the client

    def ready(self) -> bool:
        """Whether a QoS 1 message would leave at once."""
        connection = self.connection
        return (
            connection is not None
            and not connection.busy()
            and self.queue is None
            and not self.spilled
            and not self.fed()
            and self.resend is None
            and self.outstanding < self.window
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
                    return
            elif not connection.busy() and not self.queued_qos0 and not self.fed():
                connection.publish(message, 0, 0, retain, subscription.ids, False, 0)
                return
        delivery = Delivery(message, qos, retain, subscription.ids)
        delivery.group = subscription.group
        if qos and self.ready():
            if self.sid:
                self.hub.require_journal().add(self, delivery)
            self._send(delivery)
        else:
            self.enqueue(delivery)
            if self.waiting() and connection is not None:
                self.hub.continue_later(connection)

    # What the client knows

    def reset_state(self) -> None:
        """It is not what the client knows any more: what was in flight waits, as if never sent."""
        inflight = list(self.inflight.values())
        self.inflight = {}
        for pid in self.incoming:
            if self.sid:
                self.hub.require_journal().incoming(self, pid, False)
        self.incoming = {}
        waiting: list[Delivery] = []
        for delivery in inflight:
            if delivery.released:
                self._discard(delivery)  # the client has it
            elif self.spilled:
                self.requeue(delivery)  # a place in front, the store cannot give it
            else:
                if delivery.record is not None:
                    self.hub.require_journal().sent(delivery, 0)
                waiting.append(delivery)
        self._put_back(waiting)

    def lose_state(self, lost: bool) -> None:
        """Whether a client that comes is told that its session is gone."""
        if lost != self.state_lost:
            self.state_lost = lost
            if self.sid:
                self.hub.require_journal().note(STATE_LOST + self.client_id, "1" if lost else "")

    def requeue(self, delivery: Delivery) -> None:
        """A delivery that the store has takes its place at the end of the queue."""
        again = Delivery(delivery.message, delivery.qos, delivery.retain, delivery.ids)
        again.group = delivery.group
        again.fed = delivery.fed
        self.enqueue(again)
        self._discard(delivery)  # only now, so that it is kept at all times

    def _put_back(self, deliveries: list[Delivery]) -> None:
        """In front of all others."""
        if not deliveries:
            return
        if self.queue is None:
            self.queue = deque()
        for delivery in reversed(deliveries):
            self.queue.appendleft(delivery)
            self._count(len(delivery.message.payload) + len(delivery.message.topic_data))
            if delivery.qos == 0:
                self.queued_qos0 += 1

    def _send(self, delivery: Delivery) -> None:
        """The first PUBLISH of a QoS 1 or 2 delivery, with a free packet id [MQTT-2.2.1-4]."""
        connection = self.connection
        if connection is None:
            return
        pid = self.last_pid + 1
        if pid > 65535:
            pid = 1
        while pid in self.inflight:
            pid = pid + 1 if pid < 65535 else 1
        self.last_pid = pid
        record = delivery.record
        if record is not None:
            self.hub.require_journal().sent(delivery, pid)
        if self._publish(connection, delivery, pid, False):
            self.inflight[pid] = delivery
            delivery.counted = True
            self.outstanding += 1
        else:
            self._discard(delivery)

    def _publish(self, connection: "Connection", delivery: Delivery, pid: int, dup: bool) -> bool:
        # A QoS 2 message must come again with the same packet id, so that id has to be safe first.
        record = delivery.record
        after = record.batch if record is not None and delivery.qos == 2 else 0
        return connection.publish(
            delivery.message, delivery.qos, pid, delivery.retain, delivery.ids, dup, after
        )

    def _discard(self, delivery: Delivery) -> None:
        """A delivery is over: the store need not have it any more."""
        if delivery.record is not None:
            self.hub.require_journal().remove(delivery)

    def enqueue(self, delivery: Delivery) -> None:
        """Keep a delivery for later, within the bounds."""
        size = len(delivery.message.payload) + len(delivery.message.topic_data)
        if not self._make_room(delivery, size):
            return
        if self.sid and (delivery.qos or self.connection is None):
            journal = self.hub.require_journal()
            journal.add(self, delivery)
            # What a shared group may take over is at hand, but for what comes back after a start.
            if self.spilled or (self.queued() >= journal.window and not self.shares):
                if not self.spilled:
                    self.tail_seq = self.last_seq - 1
                self.spilled += 1
                self._count(size)
                return
        elif self.spilled:
            self.hub.stats.dropped_queue_full += 1  # QoS 0, and the client is far behind
            return
        self.keep(delivery)

    def queued(self) -> int:
        """How many messages wait."""
        queue = self.queue
        return self.spilled if queue is None else len(queue) + self.spilled

    def _count(self, size: int) -> None:
        self.queued_bytes += size
        self.hub.queued_bytes += size

    def page_out(self, record: DeliveryRecord) -> None:
        """A message behind all others, in the store alone."""
        self.spilled += 1
        self._count(record.size_bytes)

    def keep(self, delivery: Delivery) -> None:
        """Behind all others, whatever the bounds are."""
        if self.queue is None:
            self.queue = deque()
        self.queue.append(delivery)
        self._count(len(delivery.message.payload) + len(delivery.message.topic_data))
        if delivery.qos == 0:
            self.queued_qos0 += 1

    def _make_room(self, delivery: Delivery, size: int) -> bool:
        while self._full(size):
            self.hub.stats.dropped_queue_full += 1
            policy = self.limits.queue_full
            oldest = policy == limits.DROP_OLDEST and not self.frozen
            if oldest and delivery.qos and self.queue is not None:
                self._discard(self._take())
                self.refill()
                continue
            if policy == limits.DISCONNECT and delivery.qos and self.connection is not None:
                self.hub.dismiss(self.connection, QUOTA_EXCEEDED, "it does not keep up")
            return False
        return True

    def _full(self, size: int) -> bool:
        """Whether a bound would be passed: of this session, or of all together."""
        total = self.hub.max_queued_bytes_total
        if total and self.hub.queued_bytes + size > total:
            return True
        waiting = self.queued()
        if not waiting:
            return False
        most = self.limits.max_queued_messages
        most_bytes = self.limits.max_queued_bytes
        return bool(
            (most and waiting >= most) or (most_bytes and self.queued_bytes + size > most_bytes)
        )

    def _take(self) -> Delivery:
        """The oldest delivery of the queue, which there must be."""
        queue = self.queue
        assert queue is not None
        delivery = queue.popleft()
        self._count(-len(delivery.message.payload) - len(delivery.message.topic_data))
        if not queue:
            self.queue = None  # an empty deque holds half a kilobyte
        if delivery.qos == 0:
            self.queued_qos0 -= 1
        return delivery

    # The part of the queue that is in the store alone

    def refill(self) -> None:
        """Ask for more before the memory's part of the queue is empty."""
        if not self.spilled or self.loading:
            return
        enough = self.portion()
        if self.queue is None or len(self.queue) < enough // 2 or self.shares:
            self.loading = True
            self.hub.load(self)

    def portion(self) -> int:
        """How much of the queue is to be at hand: much, if somebody takes it."""
        return LOAD_MESSAGES if self.connection is not None else self.hub.require_journal().window

    def take_back(self, rows: list[Row]) -> None:
        """Messages from the store: they are next."""
        epoch = self.hub.require_journal().epoch
        for row in rows:
            record = row.record
            self.tail_seq = record.seq
            self.spilled -= 1
            self._count(-record.size_bytes)
            found = self.revive(row, epoch)
            if found is not None:
                self.keep(found)

    def forget_load(self) -> None:
        """What the store was asked for is not wanted any more."""
        self.stale_load = self.loading

    def clear_sent(self) -> None:
        """Forget what was in flight, and retained replay."""
        for delivery in self.inflight.values():
            self._discard(delivery)
        self.inflight = {}
        self.feeds = None
        self.feeding = 0
        self.later = None

    def clear(self) -> None:
        """Forget all messages; what the store has goes with the session."""
        self.hub.queued_bytes -= self.queued_bytes
        self.queued_bytes = 0
        self.queued_qos0 = 0
        self.queue = None
        self.spilled = 0
        self.inflight = {}
        self.incoming = {}
        self.feeds = None
        self.feeding = 0
        self.later = None

    def give_up_spilled(self) -> None:
        """What should be in the store is not."""
        self.loading = False
        self.spilled = 0
        if self.queue is None:
            self._count(-self.queued_bytes)

    def revive(self, row: Row, epoch: float) -> Delivery | None:
        """A delivery as it was when it was stored; None if the store has damaged it."""
        record = row.record
        try:
            message = publish_of(row.body, epoch)
        except ValueError as error:
            self.hub.events.crashed(f"a stored message for {self.client_id!r}", error)
            self.hub.require_journal().forget(record)
            return None
        tracker = AckTracker()
        tracker.unsettled = 1
        message.tracker = tracker
        delivery = Delivery(message, record.qos, record.retain, record.ids)
        delivery.record = record
        delivery.released = record.released
        delivery.fed = record.retain  # as far as the store knows
        if record.share:
            for subscription in self.subscriptions.values():
                group = subscription.group
                if group is not None and group.full_name == record.share:
                    delivery.group = group
        return delivery

    def pump(self, most: int) -> None:
        """Send what waits, as far as window and socket let it, and not more than `most`."""
        connection = self.connection
        if connection is None:
            return
        if self.resend is not None:
            most -= self._send_again(connection, most)
        if self.resend is None and self.fed():
            most -= self._send_retained(connection, most)
        while (
            self.queue is not None
            and self.resend is None
            and not self.fed()
            and most > 0
            and not connection.busy()
        ):
            if self.queue[0].qos and self.outstanding >= self.window:
                break
            most -= 1
            self.hub.work += 1
            delivery = self._take()
            message = delivery.message
            if message.expires_at and message.expires_at <= self.hub.now:  # [MQTT-3.3.2-5]
                self.hub.stats.dropped_expired += 1
                self._discard(delivery)
            elif delivery.qos:
                self._send(delivery)
            else:
                connection.publish(message, 0, 0, delivery.retain, delivery.ids, False, 0)
                self._discard(delivery)
        if self.spilled:
            self.refill()
        if self.waiting():
            self.hub.continue_later(connection)

    def waiting(self) -> bool:
        """Whether pump() would find something that may be sent now."""
        connection = self.connection
        if connection is None or connection.blocked or connection.output_held_until:
            return False
        if self.resend is not None:
            return self.outstanding < self.window
        if self.feeds is not None:
            feed = self.feeds[0]
            qos = min(feed.messages[-1].qos, feed.subscription.qos)
            return qos == 0 or self.outstanding < self.window
        if self.later is not None:
            return True
        return self.queue is not None and (self.queue[0].qos == 0 or self.outstanding < self.window)

    def resume(self, connection: "Connection") -> None:
        """A connection is back: what was in flight goes out again in its first order.

        PUBRELs at once, as no window holds them back [MQTT-4.9.0-3]; PUBLISHes by pump().
        """
        self.outstanding = 0
        for pid in self.incoming:
            self.incoming[pid] = False
        for pid, delivery in self.inflight.items():
            delivery.counted = False
            if delivery.released:
                record = delivery.record
                connection.acknowledge(PUBREL, pid, 0, record.batch if record else 0, None)
        pids = [pid for pid, delivery in self.inflight.items() if not delivery.released]
        pids.reverse()  # taken from the end
        self.resend = pids if pids else None

    def _send_again(self, connection: "Connection", most: int) -> int:
        """Resend with DUP and the old packet ids [MQTT-4.4.0-1, MQTT-3.3.1-1]."""
        sent = 0
        while self.resend and sent < most and not connection.busy():
            if self.outstanding >= self.window:
                break
            pid = self.resend.pop()
            delivery = self.inflight.get(pid)
            if delivery is None:
                continue
            sent += 1
            if self._publish(connection, delivery, pid, True):
                delivery.counted = True
                self.outstanding += 1
            else:
                del self.inflight[pid]
                self._discard(delivery)
        if not self.resend:
            self.resend = None
        return sent

    # Retained messages for new subscriptions

    def fed(self) -> bool:
        """Whether retained messages wait; then everything else waits behind them."""
        return self.feeds is not None or self.later is not None

    def feed_later(self, name: str, subscription: Subscription) -> None:
        """Send what is retained now; with very much to do already it is looked up later."""
        hub = self.hub
        if self.later is None and self.feeding < SNAPSHOT and hub.work < hub.work_per_turn:
            self._look_up(subscription)
        elif self.later is None:
            self.later = {name: subscription}
        else:
            self.later[name] = subscription

    def _look_up(self, subscription: Subscription) -> None:
        hub = self.hub
        found = hub.retained.match(subscription.topic_filter, hub.now)
        hub.work += hub.retained.effort()
        if subscription.no_local:
            found = [m for m in found if m.sender != self.client_id]
        if found:
            found.reverse()
            self.feeding += len(found)
            if self.feeds is None:
                self.feeds = deque()
            self.feeds.append(Feed(subscription, found))

    def _send_retained(self, connection: "Connection", most: int) -> int:
        """Feed the new subscriptions one after the other."""
        hub = self.hub
        sent = 0
        while self.fed() and sent < most and not connection.busy():
            if self.feeds is None:
                if hub.work >= hub.work_per_turn:
                    break
                self._look_up_next()
                continue
            feed = self.feeds[0]
            message = feed.messages[-1]
            qos = message.qos if message.qos < feed.subscription.qos else feed.subscription.qos
            if qos and self.outstanding >= self.window:
                break
            feed.messages.pop()
            if not feed.messages:
                self.feeds.popleft()
                if not self.feeds:
                    self.feeds = None
            self.feeding -= 1
            sent += 1
            hub.work += 1
            if message.expires_at and message.expires_at <= hub.now:
                hub.stats.dropped_expired += 1
            elif qos:
                delivery = Delivery(message, qos, True, feed.subscription.ids)
                delivery.fed = True
                if self.sid:
                    hub.require_journal().add(self, delivery)
                self._send(delivery)
            else:
                connection.publish(message, 0, 0, True, feed.subscription.ids, False, 0)
        return sent

    def replay(self) -> list[tuple[Subscription, Publish]]:
        """Retained messages that are still to be sent."""
        while self.later is not None:
            self._look_up_next()
        found: list[tuple[Subscription, Publish]] = []
        if self.feeds is not None:
            for feed in self.feeds:
                for message in reversed(feed.messages):
                    found.append((feed.subscription, message))
        return found

    def _look_up_next(self) -> None:
        if self.later is not None:
            subscription = self.later.pop(next(iter(self.later)))
            if not self.later:
                self.later = None
            self._look_up(subscription)

    # From the client

    def puback(self, pid: int) -> bool:
        """The end of a QoS 1 delivery; False if there was none."""
        delivery = self.inflight.get(pid)
        if delivery is None or delivery.qos != 1:
            return False
        self._settle(pid, delivery)
        return True

    def _settle(self, pid: int, delivery: Delivery) -> None:
        """A delivery is over; its place in the window is free for the next."""
        del self.inflight[pid]
        if delivery.record is not None:
            self.hub.require_journal().remove(delivery)
        if delivery.counted:
            self.outstanding -= 1
        if self.queue is not None or self.resend is not None or self.spilled or self.fed():
            self.pump(self.hub.portion)

    def pubrec(self, pid: int, reason: int, connection: "Connection") -> None:
        delivery = self.inflight.get(pid)
        if delivery is None or delivery.qos != 2:
            connection.acknowledge(PUBREL, pid, PACKET_ID_NOT_FOUND, 0, None)
        elif reason >= UNSPECIFIED:  # it is settled [MQTT-4.4.0-2]
            self._settle(pid, delivery)
        else:
            # To the end of the line: PUBRELs are resent in the order of the PUBRECs [MQTT-4.6.0-4].
            del self.inflight[pid]
            self.inflight[pid] = delivery
            delivery.released = True
            after = 0
            if delivery.record is not None:
                # Else the message would be sent again after a crash, to a client that is done.
                self.hub.require_journal().released(delivery)
                after = delivery.record.batch
            connection.acknowledge(PUBREL, pid, 0, after, None)  # [MQTT-4.3.3-4]

    def pubcomp(self, pid: int) -> bool:
        delivery = self.inflight.get(pid)
        if delivery is None or not delivery.released:
            return False
        self._settle(pid, delivery)
        return True

    # Shared subscriptions

    def hand_over(self, group: Group | None, ended: bool) -> None:
        """Give what others of a shared group can take to them: all groups, or one that was left.

        What was sent and not acknowledged goes along at QoS 1; begun QoS 2 deliveries stay.
        """
        if not self.shares:
            return
        if self.queue is not None:
            for _ in range(len(self.queue)):
                delivery = self._take()
                if not self._pass_on(delivery, group, ended):
                    self.keep(delivery)
        if group is not None:
            return  # deliveries that have begun are finished after an UNSUBSCRIBE
        for pid in [p for p, d in self.inflight.items() if d.qos == 1 and d.group is not None]:
            if self._pass_on(self.inflight[pid], None, ended):
                del self.inflight[pid]

    def _pass_on(self, delivery: Delivery, only: Group | None, ended: bool) -> bool:
        group = delivery.group
        if group is None or (only is not None and group is not only):
            return False
        if not ended and only is None and not group.has_live_member(self):
            return False
        chosen = group.choose(self)
        peers = self.hub.peers
        if peers is not None and (chosen is None or chosen.session.connection is None):
            if group.peers is not None and peers.pass_on(delivery.message, group):
                self._discard(delivery)
                return True
        if chosen is None:
            return False
        message = delivery.message
        qos = message.qos if message.qos < chosen.qos else chosen.qos
        chosen.session.deliver(message, qos, chosen)
        self._discard(delivery)
        return True

    # Time

    def rest(self, now: float) -> None:
        """Nobody is connected: it lasts as long as it may."""
        if self.expiry_s == 0:
            self.hub.end_session(self)
            return
        if not self.ends_at and self.expiry_s != limits.NEVER:
            self.ends_at = now + self.expiry_s
        deadline = self.will_at or self.ends_at
        if deadline:
            self.hub.wheel.arm(self, deadline)

    def fire(self, now: float) -> float:
        """Delayed will and session expiry; the earlier deadline of those that are left."""
        if self.connection is not None or self.frozen:
            return 0.0
        if self.will_at and self.will_at <= now:
            self.hub.publish_will(self)
        if self.ends_at and self.ends_at <= now:
            self.hub.stats.sessions_expired += 1
            self.hub.end_session(self)
            return 0.0
        if self.will_at and (not self.ends_at or self.will_at < self.ends_at):
            return self.will_at
        return self.ends_at
