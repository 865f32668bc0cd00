"""One network connection: packets in, frames out.

    receive(data, now)   everything that one read brought; cuts it into packets and acts on each
    out                  frames that wait for the end of the turn, when the hub flushes them at once
    blocked              the socket takes no more: publishes wait in the session's queue meanwhile
    deferred             frames that promise something which is not safe in the store yet

States, of which those in parentheses may be left out:

    NEW -> (AUTHENTICATING <->) (PENDING ->) (WAITING ->) READY -> CLOSED

AUTHENTICATING is for the client's next AUTH, PENDING for the answer of an authenticator
(`mhub.core.authentication`), WAITING for the session, which another node has; during the latter two
nothing of the client is handled.  A fault of the peer ends in fail(): the reason goes to an MQTT 5
client, the connection closes, the will is published.

There are several reasons to read nothing from a client, which come and go independently: `paused`
is the set of them, and reading goes on when it is empty.  UNREAD and DEFERRED are about replies
that gather.  The others, PUT_OFF, say what bytes that were read and not handled (`partial`) wait
for: one thing at a time, as they are in order.  A connection that waits while there are no such
bytes is read from, so that it is noticed when its client goes away.  How fast its client may send
and receive is in `meter` (`mhub.core.rates`); most connections have none.

It has up to four deadlines, of which deadline() is the earliest and fire() acts on any: until when
its CONNECT or next AUTH has to come (`answer_by`), until when an authenticator has to answer, when
the authentication is not valid any longer (`expires_at`), and keep-alive, which moves with each
packet.

It has more attributes than other classes.  What is rare is apart and mostly absent (`partial`,
`aliases`, `authentication`, `welcome`, `deferred`); what is left is looked at for each read, packet
or write, and an object of its own for the output, say, would cost each frame one more step and each
idle connection 50 bytes.
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from mhub.core import events, frames
from mhub.core.aliases import TopicAliases
from mhub.core.authentication import Authentication
from mhub.core.journal import AckTracker, DeferredFrame, Waiter
from mhub.core.limits import DISCONNECT, DROP, Limits
from mhub.core.namespace import namespace_of
from mhub.core.partial import COUNTED_BYTES, Partial
from mhub.core.ports import Outlet, Tap
from mhub.core.principal import Principal
from mhub.core.rates import END, HOLD, PASS, SKIP, Gate, Meter
from mhub.core.timers import earliest
from mhub.core.traffic import ClientRates
from mhub.wire import decode, encode, reasons
from mhub.wire import packets as kinds
from mhub.wire.errors import ProtocolFault
from mhub.wire.packets import V5, V31
from mhub.wire.primitives import malformed
from mhub.wire.publish import Publish

if TYPE_CHECKING:
    from mhub.core.hub import Hub
    from mhub.core.session import Session

NEW: Final = 0
AUTHENTICATING: Final = 1
READY: Final = 2
CLOSED: Final = 3
WAITING: Final = 4
PENDING: Final = 5

HALTED: Final = WAITING
"""From this state on, what the client sends is put off."""

# Why nothing is read from a client: a set of these.
UNREAD: Final = 1  # it does not read its replies
DEFERRED: Final = 2  # its replies wait for the store, or for other nodes
TURN: Final = 4  # this turn has done enough: what was read waits for the next one,
STORE: Final = 8  # for the store, which is behind and would have to keep the next message,
IDENTITY: Final = 16  # for authentication to answer,
SESSION: Final = 32  # for its session, which comes from another node
RATE: Final = 64  # until it may send more

PUT_OFF: Final = TURN | STORE | IDENTITY | SESSION | RATE
AWAITED: Final = STORE | RATE
"""What ends when somebody says so, and not with the next turn."""

OURS: Final = DEFERRED | STORE | RATE
"""While it is read from no more for one of these, its keep-alive does not count."""

# Fixed-header flags that each packet type must have, since MQTT 3.1.1; -1: PUBLISH, which uses
# them [MQTT-2.2.2-2].
FLAGS: Final = (-2, 0, 0, -1, 0, 0, 2, 0, 2, 0, 2, 0, 0, 0, 0, 0)

UNREAD_BYTES: Final = 64 * 1024
"""Replies held for a client that does not read them; beyond, nothing more is read from it."""

DEFERRED_MOST: Final = 1000
"""Promises that wait for the store; beyond, nothing more is read from the client."""

ENOUGH: Final = 1024 * 1024
"""Bytes that gather for one client in a turn; what comes on top waits for the next."""

LARGE: Final = 16 * 1024
"""From here on a payload is not copied into each client's frame, but written behind its head."""

UNLIMITED: Final = 1 << 28
"""More than any packet has."""


class Gone:
    """The outlet of a connection that has ended: takes everything, does nothing.

    In the place of the real one it breaks the circle of references between the two, so that both
    are freed at once and not by a garbage collection.
    """

    def write(self, data: bytes) -> bool:
        return True

    def close(self, linger: bool) -> None:
        pass

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass


GONE: Final = Gone()


class Welcome:
    """A CONNECT that was found good."""

    def __init__(self, packet: kinds.Connect, expiry_s: int, answer: bytes) -> None:
        self.packet = packet
        self.expiry_s = expiry_s
        self.answer = answer  # properties of the CONNACK


class Connection(Waiter):
    def __init__(
        self,
        hub: "Hub",
        outlet: Outlet,
        allowed: Limits,
        now: float,
        address: str = "",
        listener: str = "",
    ) -> None:
        super().__init__()
        self.hub = hub
        self.outlet = outlet
        self.listener_limits = allowed
        self.limits = allowed  # those of its user, as soon as that is known
        self.principal = Principal(address, listener)
        self.client_id = ""  # the principal's, which each message names
        self.namespace = namespace_of(allowed.mount_point)
        self.state = NEW
        self.session: Session | None = None
        self.connected_at = 0.0  # when it got its session
        self.received_at = now
        self.messages_in = 0  # PUBLISH packets, since then,
        self.bytes_in = 0  # and their payloads
        self.messages_out = 0
        self.bytes_out = 0
        self.rates: ClientRates | None = None  # None: there were no messages yet
        self.keepalive_s = 0
        self.max_packet_in = allowed.max_packet_size
        self.max_packet_out = UNLIMITED
        self.problem_info = True
        self.partial: Partial | None = None
        self.out: list[bytes] = []
        self.large = False  # something in `out` is too large to be copied
        self.out_bytes = 0  # of the messages in `out`
        self.dirty = False
        self.blocked = False
        self.unread_bytes = 0
        self.deferred: deque[DeferredFrame] | None = None
        self.output_held_until = 0  # nothing leaves before this batch is safe; 0: none
        self.paused = 0  # the set of reasons why nothing is read from it
        self.meter: Meter | None = None  # None: it may send and receive as fast as it can
        self.output_limited = False  # messages wait until it may receive more
        self.unreleased = 0  # QoS 2 messages of this connection that wait for PUBREL
        self.unfinished = False  # listed with the hub, to go on in the next turn
        self.tap: Tap | None = None  # who looks on at what comes, while it is traced
        self.aliases: TopicAliases | None = None
        self.authentication: Authentication | None = None  # under way, or an enhanced one
        self.welcome: Welcome | None = None  # what a CONNECT comes to, while WAITING
        self.epoch = 0  # of the claim that the CONNECT made, on the cluster's clock
        self.untold = False  # it may not know yet that its session was gone
        self.expires_at = 0.0  # when its authentication ends, on the hub's clock; 0: never
        self.rights = 0  # the revision of the rights that `decisions` are about
        self.decisions: dict[bytes, int] | None = None  # topics it has published to: Publishing
        self.permitted: str | None = None  # the topic of the last one that it may publish to, not
        self.permitted_qos = 0  # retained, with this QoS
        self.answer_by = now + allowed.connect_timeout_s
        hub.wheel.arm(self, self.answer_by)

    # Bytes in

    def receive(self, data: bytes, now: float) -> None:
        """Handle what one read brought."""
        hub = self.hub
        hub.now = now
        hub.stats.bytes_received += len(data)
        if self.tap is not None:
            self.tap.received(data)
        if self.untold and self.state == READY:
            self.untold = False  # it goes on, so it has read the CONNACK
            self.owner().lose_state(False)
        partial = self.partial
        if partial is not None:
            partial.data += data
            if self.paused & AWAITED or self.state >= HALTED:
                return
            if not partial.is_due():
                progress = partial.has_progress()
                if progress:
                    self.received_at = now
                if partial.counted:
                    hub.partials.grow(self, partial, len(data), progress)
                    self._bound_partials()
                return
            data = bytes(partial.data)
            self._end_partial(partial)
        self._handle(data)

    def _end_partial(self, partial: Partial) -> None:
        self.partial = None
        if partial.counted:
            self.hub.partials.end(self, partial)

    def _bound_partials(self) -> None:
        """All unfinished packets together may have become too much."""
        hub = self.hub
        while True:
            slowest = hub.partials.excess()
            if slowest is None:
                return
            assert isinstance(slowest, Connection)
            hub.stats.disconnected_partial += 1
            hub.dismiss(
                slowest,
                reasons.QUOTA_EXCEEDED,
                "unfinished packets take too much memory (limits.max_partial_bytes)",
            )

    def _handle(self, data: bytes) -> None:
        """All whole packets of data; the rest is kept."""
        hub = self.hub
        size = len(data)
        pos = 0
        needed = 0
        try:
            while pos < size and self.state != CLOSED:
                if self.state >= HALTED:
                    self._put_off(self._awaited())
                    break
                if hub.work >= hub.work_per_turn:
                    hub.continue_later(self)
                    self._put_off(TURN)
                    break
                first = data[pos]
                if pos + 1 < size and data[pos + 1] < 0x80:
                    body = pos + 2
                    end = body + data[pos + 1]
                else:
                    body, end = decode.frame(data, pos, size)
                    if end == 0:
                        needed = size - pos + 1
                        break
                if body - pos > 2 or end - pos > self.max_packet_in:
                    self._check_length(data, pos, body, end)
                if end > size:
                    needed = end - pos
                    break
                is_message = first >> 4 == kinds.PUBLISH and self.state == READY
                # QoS 1, QoS 2 or retained: it would be stored.
                if is_message and hub.storage.behind and first & 0x07:
                    hub.storage.stalled.append(self)
                    self._put_off(STORE)
                    break
                if self.meter is not None and self.state == READY:
                    verdict = self._measure(self.meter, data, pos, body, end)
                    if verdict == HOLD:
                        break
                    if verdict == SKIP:
                        pos = end
                        continue
                if is_message:
                    hub.publishing.publish(self, data, first, body, end)
                else:
                    self._on_packet(data, first, body, end)
                pos = end
        except ProtocolFault as fault:
            hub.stats.protocol_errors += 1
            self.fail(fault.reason, fault.text)
        if pos:
            self.received_at = hub.now
        if pos < size and self.state != CLOSED:
            partial = Partial(data[pos:] if pos else data, needed)
            self.partial = partial
            if needed > COUNTED_BYTES:
                if partial.has_progress():
                    self.received_at = hub.now
                hub.partials.begin(self, partial)
                self._bound_partials()

    def _check_length(self, data: bytes, pos: int, body: int, end: int) -> None:
        """What is asked of a longer packet before it is waited for."""
        if self.state == NEW and not decode.may_be_connect(data[pos]):
            raise self._not_connect(data[pos])
        most = self.max_packet_in
        if data[pos] >> 4 != kinds.PUBLISH:
            most = min(most, self.limits.max_control_size)
        if end - pos > most:
            raise ProtocolFault(
                reasons.PACKET_TOO_LARGE,
                f"{kinds.NAMES[data[pos] >> 4]} of {end - pos} bytes, at most {most} are allowed",
            )
        if self.version == V5 and body - pos > 2 and data[body - 1] == 0:
            raise malformed("the remaining length is longer than it needs to be")

    def _measure(self, meter: Meter, data: bytes, pos: int, body: int, end: int) -> int:
        """Whether a packet may be handled: PASS, HOLD or SKIP."""
        hub = self.hub
        first = data[pos]
        if first >> 4 == kinds.PUBLISH:
            self._check_topic(meter, data, body, end)
        waited = meter.granted is not None
        verdict = meter.judge(first, end - pos, hub.now)
        if verdict == PASS:
            return PASS
        gate = meter.stopped
        assert gate is not None
        if verdict == END:
            hub.limited(self, gate.cause)
            limit = events.LIMITS[gate.cause]
            is_bytes = limit.endswith("bytes_per_s")
            raise ProtocolFault(
                reasons.QUOTA_EXCEEDED if is_bytes else reasons.MESSAGE_RATE_TOO_HIGH,
                f"faster than limits.{limit} allows",
            )
        if verdict == SKIP:
            hub.limited(self, gate.cause)
            hub.publishing.skip(self, data, first, body, end)
            return SKIP
        if not waited:  # else it was counted when it began to wait
            hub.limited(self, gate.cause)
        hub.throttle.wait(gate, self)
        self._put_off(RATE)
        return HOLD

    def _check_topic(self, meter: Meter, data: bytes, body: int, end: int) -> None:
        """Length and levels of a message's topic; where an alias stands for it, it was checked."""
        if body + 2 > end:
            return  # it is malformed
        size = data[body] << 8 | data[body + 1]
        if meter.longest_topic and size > meter.longest_topic:
            self.hub.limited(self, events.TOPIC_LENGTH)
            raise ProtocolFault(
                reasons.TOPIC_NAME_INVALID,
                f"a topic of {size} bytes, at most {meter.longest_topic} are allowed",
            )
        if meter.most_levels and size > meter.most_levels:
            if data.count(b"/", body + 2, body + 2 + size) >= meter.most_levels:
                self.hub.limited(self, events.TOPIC_LEVELS)
                raise ProtocolFault(
                    reasons.TOPIC_NAME_INVALID,
                    f"the topic has more than {meter.most_levels} levels",
                )

    def _not_connect(self, first: int) -> ProtocolFault:
        return ProtocolFault(reasons.PROTOCOL_ERROR, f"{kinds.NAMES[first >> 4]} before CONNECT")

    def _on_packet(self, data: bytes, first: int, body: int, end: int) -> None:
        """Any packet but a PUBLISH of a connected client."""
        kind = first >> 4
        self.hub.stats.packets_received += 1
        if first & 0x0F != FLAGS[kind] and kind != kinds.PUBLISH:
            version = self.version
            if self.state == NEW:
                if kind != kinds.CONNECT:
                    raise self._not_connect(first)
                version, _, _ = decode.connect_version(data, body, end)
            # MQTT 3.1 sets DUP on what it repeats, and has no use for the others.
            if version != V31:
                raise malformed(f"wrong flags in {kinds.NAMES[kind]}")
        if self.state == NEW:
            if kind != kinds.CONNECT:  # [MQTT-3.1.0-1]
                raise self._not_connect(first)
            self._on_connect(data, body, end)
        elif kind == kinds.AUTH:
            self._on_auth(data, body, end)
        elif self.state == AUTHENTICATING:
            if kind != kinds.DISCONNECT:  # [MQTT-3.1.2-30]
                raise ProtocolFault(
                    reasons.PROTOCOL_ERROR, f"{kinds.NAMES[kind]} during authentication"
                )
            self._on_disconnect(data, body, end)
        elif kind == kinds.PUBACK:
            pid, _ = self._ack(data, body, end, reasons.PUBLISH_REPLIES)
            self.owner().puback(pid)
        elif kind == kinds.PUBREC:
            pid, reason = self._ack(data, body, end, reasons.PUBLISH_REPLIES)
            self.owner().pubrec(pid, reason, self)
        elif kind == kinds.PUBREL:
            pid, _ = self._ack(data, body, end, reasons.RELEASE_REPLIES)
            self.hub.publishing.release(self, pid)
        elif kind == kinds.PUBCOMP:
            pid, _ = self._ack(data, body, end, reasons.RELEASE_REPLIES)
            self.owner().pubcomp(pid)
        elif kind == kinds.PINGREQ:
            decode.empty(body, end)
            self.write(encode.PINGRESP)
        elif kind == kinds.SUBSCRIBE:
            self._on_subscribe(data, body, end)
        elif kind == kinds.UNSUBSCRIBE:
            self._on_unsubscribe(data, body, end)
        elif kind == kinds.DISCONNECT:
            self._on_disconnect(data, body, end)
        elif kind == kinds.CONNECT:  # [MQTT-3.1.0-2]
            raise ProtocolFault(reasons.PROTOCOL_ERROR, "a second CONNECT")
        else:
            raise ProtocolFault(
                reasons.PROTOCOL_ERROR, f"{kinds.NAMES[kind]} must not be sent by clients"
            )

    def owner(self) -> "Session":
        """The session of a connection that is READY."""
        session = self.session
        assert session is not None
        return session

    def _ack(self, data: bytes, body: int, end: int, allowed: frozenset[int]) -> tuple[int, int]:
        if end - body == 2:
            pid = data[body] << 8 | data[body + 1]
            if pid:
                return pid, 0
        return decode.ack(data, body, end, self.version, allowed)

    # The rarer packets: admission and subscribing know what they mean

    def _on_connect(self, data: bytes, body: int, end: int) -> None:
        self.hub.admission.connect(self, data, body, end)

    def _on_auth(self, data: bytes, body: int, end: int) -> None:
        self.hub.admission.auth(self, data, body, end)

    def _on_subscribe(self, data: bytes, body: int, end: int) -> None:
        packet = decode.subscribe(data, body, end, self.version)
        self.hub.subscribing.subscribe(self, self.owner(), packet)

    def _on_unsubscribe(self, data: bytes, body: int, end: int) -> None:
        packet = decode.unsubscribe(data, body, end, self.version)
        self.hub.subscribing.unsubscribe(self, self.owner(), packet)

    def _on_disconnect(self, data: bytes, body: int, end: int) -> None:
        packet = decode.disconnect(data, body, end, self.version)
        session = self.session
        if session is None:
            self._close(packet.reason, "", events.CLIENT)
            return
        if packet.session_expiry_s >= 0:
            if session.expiry_s == 0 and packet.session_expiry_s > 0:
                raise ProtocolFault(
                    reasons.PROTOCOL_ERROR, "the Session Expiry Interval cannot be raised from 0"
                )
            session.expiry_s = min(packet.session_expiry_s, self.limits.max_session_expiry_s)
        if packet.reason == reasons.SUCCESS:
            session.will = None  # [MQTT-3.14.4-3, MQTT-3.1.2-10]
        self._close(packet.reason, "", events.CLIENT)

    # Frames out

    def write(self, frame: bytes) -> None:
        """A reply of ours: it leaves with the flush that ends this turn."""
        if self.state == CLOSED:
            return
        if len(frame) > self.max_packet_out:  # [MQTT-3.1.2-24]
            self.fail(reasons.PACKET_TOO_LARGE, "a reply is larger than the client takes")
            return
        self.hub.stats.packets_sent += 1
        self.out.append(frame)
        if self.blocked:
            self.unread_bytes += len(frame)
            if self.unread_bytes > UNREAD_BYTES:
                self._pause(UNREAD)
        else:
            self._mark_dirty()

    def send_when_durable(self, frame: bytes, after: int, tracker: AckTracker | None) -> None:
        """A reply that may leave when batch `after` is safe, and its message too; in order."""
        if self.deferred is None and after <= self.hub.durable:
            if tracker is None or tracker.free(self.hub.durable):
                self.write(frame)
                return
        self._hold(DeferredFrame(frame, b"", after, tracker))

    def _hold(self, deferred: DeferredFrame) -> None:
        if self.state == CLOSED:
            return
        if self.deferred is None:
            self.deferred = deque()
            self.hub.storage.holding[self] = True
        self.deferred.append(deferred)
        if deferred.tracker is not None:
            deferred.tracker.waiter = self
        if len(self.deferred) >= DEFERRED_MOST:
            self._pause(DEFERRED)

    def hold_output(self, until: int) -> None:
        """Nothing may leave before a batch is safe."""
        if until > self.hub.durable:
            self.output_held_until = until
            self.hub.storage.holding[self] = True

    def release(self) -> None:
        """Let go what need not wait any more."""
        durable = self.hub.durable
        if self.output_held_until and self.output_held_until <= durable:
            self.output_held_until = 0
            self._mark_dirty()
            self.hub.continue_later(self)
        deferred = self.deferred
        if deferred is not None:
            while deferred and deferred[0].free(durable):
                if deferred[0].pid and (self.blocked or self.output_held_until):
                    break  # a PUBLISH in `out` could not be taken back while that waits
                first = deferred.popleft()
                if first.tracker is not None:
                    first.tracker.waiter = None
                if first.pid:
                    if self._may_leave(first):
                        self._put(first.frame, first.payload)
                else:
                    self.write(first.frame)
            if not deferred:
                self.deferred = None
            if self.paused & DEFERRED and len(deferred) < DEFERRED_MOST // 2:
                self._read_on(DEFERRED)
        if self.deferred is None and not self.output_held_until:
            self.hub.storage.holding.pop(self, None)

    def _may_leave(self, deferred: DeferredFrame) -> bool:
        """Whether a PUBLISH that has waited for the store may still be sent."""
        session = self.owner()
        if session.rights != self.hub.rights:
            deferred.unchecked = True
            session.distrust()  # and all that wait behind it
        delivery = session.inflight.deliveries.get(deferred.pid)
        if not deferred.unchecked or delivery is None:
            return True
        if session.may_receive(delivery.message.topic):
            return True
        session.inflight.drop(deferred.pid)
        session.revoke(delivery, deferred.frame[0] & 0x08 != 0)  # DUP: its client may have it
        return False

    def _mark_dirty(self) -> None:
        """There is output: the end of the turn writes it."""
        if not self.dirty:
            self.dirty = True
            self.hub.dirty.append(self)

    def acknowledge(
        self, kind: int, pid: int, reason: int, after: int, tracker: AckTracker | None
    ) -> None:
        """PUBACK, PUBREC, PUBREL or PUBCOMP, when what it says is safe."""
        if self.version < V5:
            reason = 0
        if reason >= reasons.UNSPECIFIED and self.problem_info:
            text = reasons.name(reason)
            if reason == reasons.IMPLEMENTATION_SPECIFIC:  # the one limit that has no code
                text = f"the payload has more than {self.limits.message_size_limit} bytes"
            frame = encode.ack_explained(kind, pid, reason, text, self.max_packet_out)
        else:
            frame = encode.ack(kind, pid, reason)
        self.send_when_durable(frame, after, tracker)

    def publish(
        self,
        message: Publish,
        qos: int,
        pid: int,
        retain: bool,
        ids: bytes,
        dup: bool,
        after: int,
    ) -> bool:
        """Send a message; False if the client cannot get it.

        It is larger than the client takes [MQTT-3.1.2-24, -25], or it came for the session while
        that had another mount point.

        It leaves when batch `after` is safe; 0: at once.
        """
        first = 0x30 | qos << 1
        if retain:
            first |= 1
        if dup:
            first |= 8
        payload = message.payload
        follows = 0
        if first != 0x30 and len(payload) >= LARGE:
            follows = len(payload)
            payload = b""
        later = after > self.hub.durable or (after != 0 and self.deferred is not None)
        topic = None
        stats = self.hub.stats
        if self.namespace is not None:
            topic = self.namespace.unmounted_field(message)
            if topic is None:
                stats.dropped_unmounted += 1
                self.owner().tell_drop(events.UNMOUNTED)
                return False
        if self.version < V5:
            frame = frames.frame_v3(message, topic, first, pid, payload, follows)
        else:
            now = self.hub.now
            aliases = None if later else self.aliases  # none may begin with what leaves later
            most = self.max_packet_out
            frame = frames.frame_v5(
                message, topic, first, pid, ids, payload, follows, now, aliases, most
            )
        if len(frame) + follows > self.max_packet_out:
            stats.dropped_too_large += 1
            self.owner().tell_drop(events.TOO_LARGE)
            return False
        if self.meter is not None and self.meter.out is not None:
            self._pay_output(self.meter.out)
        stats.publish_sent += 1
        size = len(message.payload)
        stats.publish_bytes_sent += size
        self.messages_out += 1
        self.bytes_out += size
        stats.packets_sent += 1
        if later:
            deferred = DeferredFrame(frame, message.payload if follows else b"", after, None)
            deferred.pid = pid
            self._hold(deferred)
        else:
            self._put(frame, message.payload if follows else b"")
        return True

    def _put(self, frame: bytes, payload: bytes) -> None:
        """A PUBLISH to those that leave with the end of the turn."""
        size = len(frame) + len(payload)
        self.out.append(frame)
        self.out_bytes += size
        if size >= LARGE:
            self.large = True
            if payload:
                self.out.append(payload)
        self._mark_dirty()

    def _pay_output(self, gate: Gate) -> None:
        """A message leaves; those that follow may have to wait."""
        now = self.hub.now
        gate.bucket.take(gate.token_s, now)
        if gate.is_empty(now) and not self.output_limited:
            self.output_limited = True
            self.hub.throttle.wait(gate, self)

    def drops_output(self) -> bool:
        """Whether a message of QoS 0 that would have to wait is dropped, which is counted."""
        meter = self.meter
        if meter is None or meter.out is None or meter.out.action != DROP:
            return False
        self.hub.limited(self, meter.out.cause)
        self.hub.stats.dropped_rate += 1
        return True

    def check_output(self) -> None:
        """A message waits, as there are more than the client may have."""
        meter = self.meter
        if meter is not None and meter.out is not None and meter.out.action == DISCONNECT:
            self.hub.limited(self, meter.out.cause)
            limit = events.LIMITS[meter.out.cause]
            text = f"messages for it come faster than limits.{limit} allows"
            self.hub.dismiss(self, reasons.MESSAGE_RATE_TOO_HIGH, text)

    def busy(self) -> bool:
        """Whether messages have to wait: the socket is full, or there is enough for this turn."""
        return (
            self.blocked
            or self.out_bytes >= ENOUGH
            or self.output_held_until != 0
            or self.output_limited
        )

    def flush(self) -> None:
        """One write for all that has gathered."""
        self.dirty = False
        out = self.out
        if not out or self.blocked or self.output_held_until:
            return
        if self.out_bytes >= ENOUGH:
            self.hub.continue_later(self)
        self.out_bytes = 0
        if self.large:
            self._flush_large()
            return
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        self.hub.stats.bytes_sent += len(data)
        if not self.outlet.write(data):
            self.blocked = True

    def _flush_large(self) -> None:
        """Piece by piece: joining would copy what is shared, and what the socket may not take."""
        out = self.out
        done = 0
        while done < len(out) and not self.blocked:
            data = out[done]
            done += 1
            self.hub.stats.bytes_sent += len(data)
            if not self.outlet.write(data):
                self.blocked = True
        del out[:done]
        self.large = bool(out)

    def writable(self, now: float) -> None:
        """The outlet has room again."""
        self.hub.now = now
        self.blocked = False
        self.unread_bytes = 0
        self._read_on(UNREAD)
        self.flush()
        if self.deferred is not None:
            self.release()
        if self.session is not None:
            self.session.drain_queue(self.hub.portion)

    def proceed(self, now: float) -> None:
        """Go on with what an earlier turn left: bytes not yet handled, messages not yet sent."""
        self.hub.now = now
        authentication = self.authentication
        if authentication is not None and authentication.later is not None:
            step = authentication.later.step
            if step is not None and self.state != CLOSED:
                self.hub.admission.answered(self, authentication, step)
        if self.state == CLOSED:
            return
        if self.state >= HALTED:
            if self.paused & PUT_OFF:
                self._put_off(self._awaited())
            return
        partial = self.partial
        if partial is not None and partial.is_due() and not self.paused & AWAITED:
            data = bytes(partial.data)
            self._end_partial(partial)
            self._handle(data)
        if self.paused & PUT_OFF and (self.partial is None or not self.partial.is_due()):
            self._read_on(PUT_OFF)
        if self.session is not None:
            self.session.drain_queue(self.hub.portion)

    def rate_opened(self, gate: Gate, now: float) -> None:
        """It may send or receive more."""
        meter = self.meter
        if meter is None or self.state == CLOSED:
            return
        self.hub.now = now
        if gate is meter.out:
            self.output_limited = False
            session = self.session
            if session is not None and (session.queue is not None or session.replay is not None):
                self.hub.limited(self, gate.cause)
                session.drain_queue(self.hub.portion)
            return
        if not self.paused & RATE:
            return
        meter.granted = gate
        self.paused = self.paused & ~PUT_OFF | TURN
        try:
            self.proceed(now)
        except Exception as error:
            self.hub.crash(self, error)
        meter.granted = None

    def set_meter(self, meter: Meter | None) -> None:
        """Its limits are others now; what it waits for may not be there any more."""
        before = self.meter
        self.meter = meter
        if before is None:
            return
        self.hub.throttle.leave(self, before)
        self.output_limited = False
        self.handle_soon(RATE)

    def go_on_soon(self) -> None:
        """What it waited for has come, outside of a turn."""
        self.hub.continue_later(self)
        self.hub.wake()

    # Reading pauses and goes on

    def _pause(self, reason: int) -> None:
        if not self.paused:
            self.outlet.pause()
        self.paused |= reason

    def _put_off(self, reason: int) -> None:
        """What is left of a read waits for something; nothing more is read meanwhile."""
        if not self.paused:
            self.outlet.pause()
        self.paused = self.paused & ~PUT_OFF | reason

    def _awaited(self) -> int:
        """Why nothing is handled in this state."""
        return SESSION if self.state == WAITING else IDENTITY

    def _read_on(self, reasons_over: int) -> None:
        """Some reasons are over; it is read from if there is no other, and its socket has room."""
        if not self.paused:
            return
        self.paused &= ~reasons_over
        if self.paused or self.state == CLOSED:
            return
        if self.blocked:
            self.paused = UNREAD
        else:
            self.outlet.resume()

    def handle_soon(self, reason: int) -> None:
        """What put off its input is over: the next turn goes on with that."""
        if self.paused & reason:
            self.paused = self.paused & ~PUT_OFF | TURN
        self.hub.continue_later(self)

    # The end

    def fail(self, reason: int, text: str, told: str | None = None) -> None:
        """The peer broke a rule or has to go: say so where MQTT lets us, and close.

        `told` is what the client is told, if that is not the text for the log.
        """
        self._dismiss(reason, text, text if told is None else told, events.BROKER)

    def kick(self, reason: int, text: str) -> None:
        """An operator wants it gone."""
        if self.state != CLOSED:
            self.hub.events.kicked(self.principal, self.version, reason, text)
            self._dismiss(reason, text, text, events.OPERATOR)

    def _dismiss(self, reason: int, text: str, told: str, by: str) -> None:
        if self.state == CLOSED:
            return
        if self.state != READY:
            self.hub.admission.refuse(self, reason, text, told)
        elif self.version == V5:
            reference = self.hub.reference(reason)
            last = encode.disconnect(reason, told, self.max_packet_out, reference)
            if len(last) <= self.max_packet_out:
                self.write(last)
        self._close(reason, text, by)

    def close(self, reason: int, text: str) -> None:
        """Send what is left and close; the will goes out unless it was taken back."""
        self._close(reason, text, events.BROKER)

    def _close(self, reason: int, text: str, by: str) -> None:
        if self.state == CLOSED:
            return
        ready = self.state == READY
        self.state = CLOSED
        if self.output_held_until:
            self.out = []  # what it says is not safe, and now it never needs to be said
            self.output_held_until = 0
        last_words = bool(self.out)
        if not self.large:
            self.blocked = False  # the outlet buffers it: it is little, and the last
        self.flush()
        self.outlet.close(last_words)
        self._gone(ready, reason, text, by)

    def lost(self, text: str) -> None:
        """The network connection ended."""
        if self.state == CLOSED:
            return
        ready = self.state == READY
        self.state = CLOSED
        self._gone(ready, reasons.UNSPECIFIED, text, events.NETWORK)

    def _gone(self, ready: bool, reason: int, text: str, by: str) -> None:
        self.hub.wheel.disarm(self)
        if self.meter is not None:
            self.hub.throttle.leave(self, self.meter)
            self.hub.throttle.forget_client(self.client_id, self.hub.now)
            self.meter = None
        self.outlet = GONE
        self.out = []
        if self.deferred is not None:
            for deferred in self.deferred:
                if deferred.tracker is not None:
                    deferred.tracker.waiter = None
            self.deferred = None
        self.hub.storage.holding.pop(self, None)
        if self.partial is not None:
            self._end_partial(self.partial)
        if self.authentication is not None:
            self.hub.admission.abandon(self.authentication)
        if self.hub.admission.waiting:
            self.hub.admission.waiting.pop(self, None)
        if ready:
            self.hub.detach(self)
            self.hub.events.disconnected(self, reason, text, by)

    # Time

    def deadline(self) -> float:
        if self.state == CLOSED or self.state == WAITING:
            return 0.0
        at = 0.0
        authentication = self.authentication
        if authentication is not None and authentication.later is not None:
            at = authentication.deadline
        if self.state == READY:
            at = earliest(at, self.expires_at)
            if self.keepalive_s:
                at = earliest(at, self.received_at + 1.5 * self.keepalive_s)
        elif self.state != PENDING:
            at = earliest(at, self.answer_by)
        return at

    def fire(self, now: float) -> None:
        """CONNECT time-out, authentication, its end, and keep-alive."""
        if self.state == CLOSED or self.state == WAITING:
            return
        authentication = self.authentication
        if authentication is not None and authentication.later is not None:
            if authentication.deadline <= now:
                self.hub.admission.timed_out(self, authentication)
                return
        if self.state == READY:
            if self.expires_at and self.expires_at <= now:
                self.fail(reasons.MAXIMUM_CONNECT_TIME, "the authentication has expired")
            elif self.keepalive_s:
                self._check_keepalive(now)
        elif self.state != PENDING and self.answer_by <= now:
            what = "CONNECT" if self.state == NEW else "AUTH"
            self.close(reasons.KEEP_ALIVE_TIMEOUT, "")
            timeout_s = self.limits.connect_timeout_s
            self.hub.events.refused(
                self, reasons.KEEP_ALIVE_TIMEOUT, f"no {what} within {timeout_s:g} s"
            )

    def _check_keepalive(self, now: float) -> None:
        """Close if nothing was received for too long [MQTT-3.1.2-22]."""
        if self.paused & OURS:
            self.received_at = now  # it is not read from, so nothing can come
        elif self.received_at + 1.5 * self.keepalive_s <= now - self.hub.overload.drift_s:
            # What it has sent may lie in its socket for as long as the broker is late.
            self.hub.stats.keepalive_timeouts += 1
            self.fail(
                reasons.KEEP_ALIVE_TIMEOUT, f"nothing received for {now - self.received_at:.0f} s"
            )
