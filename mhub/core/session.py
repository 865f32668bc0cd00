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
from mhub.core.divided import Divided
from mhub.core.journal import Row, publish_of
from mhub.core.ledger import Keeping
from mhub.core.limits import Limits
from mhub.core.shared import Group
from mhub.core.timers import Timed
from mhub.wire.packets import PUBREL
from mhub.wire.publish import Publish
from mhub.wire.reasons import PACKET_ID_NOT_FOUND, QUOTA_EXCEEDED, UNSPECIFIED

if TYPE_CHECKING:
    from mhub.core.connection import Connection
    from mhub.core.hub import Hub


STAMP: Final = "stamp/"
"""Notes about when a session's client had connected, on the cluster's clock, begin so."""

HOLLOW: Final = "hollow/"
"""Notes about sessions whose state is on another node begin so."""

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
        self.feeds: deque[Feed] | None = None  # retained messages for new subscriptions
        self.feeding = 0  # how many they are
        self.later: dict[str, Subscription] | None = None  # ... of which nothing is looked up yet
        self.incoming: dict[int, bool] = {}  # QoS 2 packet ids that wait for PUBREL: came just now?
        self.expiry_s = 0
        self.ends_at = 0.0  # 0: not before the connection does
        self.stamp = 0  # of its last CONNECT, on the cluster's clock
        self.known = 0  # the highest other stamp of this client that was known then
        self.divided: Divided | None = None  # while other nodes have a part of it
        self.leaving = False  # it is on its way to another node
        self.hollow = False  # another node has what the client knows of it
        self.restored = False  # it comes from the store, and its client was not here since
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
        divided = self.divided
        if divided is not None and qos and message.uid and not divided.first(message.uid):
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
        if divided is not None and divided.late is not None and not self.spilled:
            # Behind what another node still has for this session; safe, but without its place.
            if self.sid:
                self.hub.book().add(self, delivery)
            divided.late.append(delivery)
            return
        if qos and self.ready():
            if self.sid:
                self.hub.book().add(self, delivery)
            self._send(delivery)
        else:
            self.enqueue(delivery)
            if self.waiting() and connection is not None:
                self.hub.continue_later(connection)

    def stands_back(self) -> bool:
        """Whether another node's part has to come first."""
        return self.divided is not None and self.divided.late is not None

    def complete(self) -> None:
        """Another node has given all it had: what came meanwhile takes its place."""
        divided = self.divided
        if divided is not None and divided.late is not None:
            for delivery in divided.late:
                self._queue_again(delivery)
            divided.late = None

    def _queue_again(self, delivery: Delivery) -> None:
        """A delivery that the store has takes its place at the end of the queue."""
        again = Delivery(delivery.message, delivery.qos, delivery.retain, delivery.ids)
        again.group = delivery.group
        again.fed = delivery.fed
        self.enqueue(again)
        self._discard(delivery)  # only now, so that it is kept at all times

    # To another node and back

    def divide(self) -> Divided:
        """From now on, messages may come on two ways: know them by their names."""
        divided = self.divided
        if divided is None:
            divided = self.divided = Divided(self)
        waiting = list(self.queue) if self.queue is not None else []
        for delivery in waiting + list(self.inflight.values()):
            # A retained message came for a subscription: the same one as a new one counts, too.
            if delivery.message.uid and not delivery.fed:
                divided.add(delivery.message.uid)
        return divided

    def unite(self) -> None:
        """All of it is here, and nothing of it can come again."""
        if self.divided is not None:
            self.divided.forget()
            self.divided = None

    def demote(self, inflight: dict[int, Delivery]) -> None:
        """What was in flight is not what the client knows any more: it waits, as if never sent."""
        waiting: list[Delivery] = []
        for delivery in inflight.values():
            if delivery.released:
                self._name(delivery)
                self._discard(delivery)
            elif self.spilled:
                self._queue_again(delivery)  # a place in front, the store cannot give it
            else:
                if delivery.record is not None:
                    self.hub.book().sent(delivery, 0)
                waiting.append(delivery)
        self.take_again(waiting)

    def forget_incoming(self) -> None:
        if self.sid:
            for pid in self.incoming:
                self.hub.book().incoming(self, pid, False)
        self.incoming = {}

    def give_up_state(self) -> None:
        """What the client knows of its session is not what is here: forget the packet ids."""
        inflight = self.inflight
        self.inflight = {}
        self.demote(inflight)
        self.forget_incoming()

    def stand_back(self) -> None:
        """Other nodes have a part of it: what is in the queue waits behind what comes from them."""
        late: list[Delivery] = []
        self.divide().late = late
        while self.queue is not None and not self.spilled:
            late.append(self._take())

    def give(self) -> Delivery | None:
        """The next message of the queue, for another node; None: there is none at hand.

        Not before it is safe here, with what keeps its sender's QoS 2 from being taken twice.
        """
        delivery: Delivery | None = None
        if self.queue is not None and self.is_safe(self.queue[0]):
            delivery = self._take()
        self.refill()
        return delivery

    def is_safe(self, delivery: Delivery) -> bool:
        record = delivery.record
        return record is None or record.born <= self.hub.durable

    def take_again(self, given: list[Delivery]) -> None:
        """They are still ours, in front of all others."""
        if not given:
            return
        if self.queue is None:
            self.queue = deque()
        for delivery in reversed(given):
            self.queue.appendleft(delivery)
            self._count(len(delivery.message.payload) + len(delivery.message.topic_data))
            if delivery.qos == 0:
                self.queued_qos0 += 1

    def learn_names(self, names: list[int]) -> None:
        """The client has these: they are not for it, if they came here, too."""
        divided = self.divided
        if divided is None:
            return
        if divided.late is not None:
            known = set(names)
            late = divided.late
            divided.late = [d for d in late if d.message.uid not in known]
            for delivery in late:
                if delivery.message.uid in known:
                    self._discard(delivery)
        for uid in names:
            if self.spilled or (self.queue is not None and not divided.seen.get(uid, True)):
                divided.twins.add(uid)  # it may be in the queue, which is sent later
            divided.name(uid)

    def _name(self, delivery: Delivery) -> None:
        """The client has it."""
        if self.divided is not None and not delivery.fed:
            self.divided.name(delivery.message.uid)

    def stamped(self, stamp: int, known: int) -> None:
        """What is here is what the client knows since that CONNECT."""
        self.stamp = stamp
        self.known = known
        if self.sid and stamp:
            self.hub.book().note(STAMP + self.client_id, f"{stamp} {known}")

    def hollow_out(self, hollow: bool) -> None:
        """Whether a client that comes here has to be told that its session is gone."""
        if hollow != self.hollow:
            self.hollow = hollow
            if self.sid:
                self.hub.book().note(HOLLOW + self.client_id, "1" if hollow else "")

    def in_doubt(self, stamp: int) -> None:
        """What is here may not be what the client knows, and what comes with that stamp, neither.

        So only a CONNECT after this one ends the doubt: no part has a stamp that is higher by one.
        """
        self.give_up_state()
        self.hollow_out(True)
        self.stamped(stamp + 1, stamp)

    def let_go(self, delivery: Delivery) -> None:
        """Another node has it now, for good."""
        self._discard(delivery)

    def receive(self, delivery: Delivery, pid: int, released: bool) -> None:
        """A message that another node had for this session."""
        divided = self.divided
        assert divided is not None
        uid = delivery.message.uid
        # If the client is not back yet, it goes on with the packet ids that it knows.
        known = pid != 0 and divided.late is not None and pid not in self.inflight
        if uid and not delivery.fed:
            if uid in divided.seen:
                if not known or (divided.seen[uid] and not released):
                    return
                divided.twins.add(uid)
            elif self.spilled:
                divided.twins.add(uid)  # what the store alone has of the queue is not known by name
            divided.add(uid)
        if known:
            delivery.released = released
            if self.sid:
                book = self.hub.book()
                book.add(self, delivery)
                book.sent(delivery, pid)
                if released:
                    book.released(delivery)
            self.inflight[pid] = delivery
        elif released:
            self._name(delivery)
        else:
            self.enqueue(delivery)
            if self.waiting() and self.connection is not None:
                self.hub.continue_later(self.connection)

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
            self.hub.book().sent(delivery, pid)
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
            self.hub.book().remove(delivery)

    def enqueue(self, delivery: Delivery) -> None:
        """Keep a delivery for later, within the bounds."""
        size = len(delivery.message.payload) + len(delivery.message.topic_data)
        if not self._make_room(delivery, size):
            return
        if self.sid and (delivery.qos or self.connection is None):
            book = self.hub.book()
            book.add(self, delivery)
            # What a shared group may take over is at hand, but for what comes back after a start;
            # and so is all while another node still has a part that comes in front of it.
            at_hand = self.shares or self.stands_back()
            if self.spilled or (self.queued() >= book.window and not at_hand):
                if not self.spilled:
                    self.tail_seq = self.last_seq - 1
                self.spilled += 1
                self._count(size)
                return
        elif self.spilled:
            self.hub.stats.dropped_queue_full += 1  # QoS 0, and the client is far behind
            return
        self._keep(delivery)

    def queued(self) -> int:
        """How many messages wait."""
        queue = self.queue
        return self.spilled if queue is None else len(queue) + self.spilled

    def _count(self, size: int) -> None:
        self.queued_bytes += size
        self.hub.queued_bytes += size

    def _keep(self, delivery: Delivery) -> None:
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
            if policy == limits.DROP_OLDEST and delivery.qos and self.queue is not None:
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
        busy = self.connection is not None or self.leaving
        return LOAD_MESSAGES if busy else self.hub.book().window

    def take_back(self, rows: list[Row]) -> None:
        """Messages from the store: they are next."""
        epoch = self.hub.book().epoch
        divided = self.divided
        inflight: set[int] = set()
        if divided is not None:
            inflight = {d.message.uid for d in self.inflight.values() if not d.fed}
        for row in rows:
            record = row.record
            self.tail_seq = record.seq
            self.spilled -= 1
            self._count(-record.size_bytes)
            found = self.revive(row, epoch)
            if found is not None:
                uid = found.message.uid
                if divided is not None and uid and uid in inflight and not found.fed:
                    divided.twins.add(uid)  # it came from another node, with its packet id
                self._keep(found)

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
            self.hub.book().forget(record)
            return None
        keeping = Keeping()
        keeping.unsettled = 1
        message.keeping = keeping
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
            elif self.divided is not None and self._came_already(delivery):
                self._discard(delivery)  # it came on another way
            elif delivery.qos:
                self._send(delivery)
            else:
                connection.publish(message, 0, 0, delivery.retain, delivery.ids, False, 0)
                self._discard(delivery)
        if self.spilled:
            self.refill()
        elif self.queue is None and self.divided is not None:
            self.divided.twins.clear()
        if self.waiting():
            self.hub.continue_later(connection)

    def _came_already(self, delivery: Delivery) -> bool:
        """Whether the client has it on another way."""
        divided = self.divided
        uid = delivery.message.uid
        return divided is not None and uid != 0 and not delivery.fed and divided.has(uid)

    def waiting(self) -> bool:
        """Whether pump() would find something that may be sent now."""
        connection = self.connection
        if connection is None or connection.blocked or connection.muted_until:
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
                    hub.book().add(self, delivery)
                self._send(delivery)
            else:
                connection.publish(message, 0, 0, True, feed.subscription.ids, False, 0)
        return sent

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
        if self.divided is not None:
            self._name(delivery)
        if delivery.record is not None:
            self.hub.book().remove(delivery)
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
                self.hub.book().released(delivery)
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
                    self._keep(delivery)
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
        if self.connection is not None or self.leaving:
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
