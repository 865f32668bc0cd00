"""A hub under attack: connections that do what a script says, and witnesses who live with it.

The bounds of the hub and of the attackers' listener are small, so that a short script meets them.
The witnesses come by another listener, read everything and answer.
"""

from typing import Any

from mhub.core.authentication import Claim, Later, Step, failure, proceed, success
from mhub.core.connection import CLOSED, UNREAD_BYTES
from mhub.core.limits import DISCONNECT, DROP_NEWEST, DROP_OLDEST, Limits
from mhub.core.principal import Identity
from tests.core.world import Client, World
from tests.fuzz import script
from tests.helpers import packets as p
from tests.helpers.packets import Packet, Prop

READ_SIZE = 4096
MOST_ATTACKERS = 6
LONGEST_LIFE_S = 60
POLICIES = (DROP_NEWEST, DROP_OLDEST, DISCONNECT)


class Handshake:
    """An authentication method of two steps that lets everybody in."""

    def __init__(self, claim: Claim) -> None:
        self.steps = 0

    def step(self, data: bytes) -> Step | Later:
        self.steps += 1
        if self.steps < 2:
            return proceed(data[:50])
        return success(Identity("somebody", "any"), data[:50])


class Slow:
    """An authenticator, and a method, that answers with the next turn, or never."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Later, Step]] = []

    def authenticate(self, claim: Claim) -> Step | Later:
        user = claim.username or ""
        return self._later(failure("no") if user == "u" else success(Identity(user, "slow")))

    def __call__(self, claim: Claim) -> "SlowHandshake":
        return SlowHandshake(self, claim)

    def _later(self, step: Step) -> Later:
        self.waiting.append((Later(), step))
        return self.waiting[-1][0]

    def give(self) -> None:
        waiting, self.waiting = self.waiting, []
        for later, step in waiting:
            later.give(step)


class SlowHandshake(Handshake):
    def __init__(self, slow: Slow, claim: Claim) -> None:
        super().__init__(claim)
        self.slow = slow

    def step(self, data: bytes) -> Step | Later:
        step = super().step(data)
        assert isinstance(step, Step)
        return self.slow._later(step)


class Attacker(Client):
    """A connection whose reads wait, as in a kernel, while the hub does not want them."""

    def __init__(self, world: World, limits: Limits) -> None:
        super().__init__(world, 4, limits)
        self.waiting = bytearray()
        self.heard = bytearray()

    def pour(self, most: int) -> None:
        """Bring what waits in reads of at most so many bytes, as far as the hub reads."""
        while self.waiting and self.outlet.reading and self.connection.state != CLOSED:
            piece = bytes(self.waiting[:most])
            del self.waiting[:most]
            self.connection.receive(piece, self.world.now)

    def hear(self) -> None:
        self.heard += self.outlet.data
        self.outlet.data.clear()


class Crowd:
    def __init__(self, setup: int) -> None:
        self.world = World(
            work_per_turn=(5, 1000)[setup & 1],
            portion=(2, 100)[setup >> 1 & 1],
            route_cache_size=4,
            max_topic_levels=5,
            max_retained_messages=3,
            max_retained_bytes=4000,
            sys_interval_s=0,
        )
        self.slow = Slow()
        admission = self.world.hub.admission
        admission.methods["any"] = Handshake if setup & 0xF0 != 0x40 else self.slow
        self.limits = Limits(
            max_packet_size=400,
            max_control_size=300,
            max_subscriptions=3,
            receive_maximum=2,
            max_inflight=2,
            max_queued_messages=3,
            max_queued_bytes=300,
            queue_full=POLICIES[setup % 3],
            queue_qos0_offline=bool(setup >> 3 & 1),
            max_topic_alias=2,
            max_topic_alias_out=2,
            max_qos=1 if setup & 0xF0 == 0x10 else 2,
            mount_point="m/" if setup & 0xF0 == 0x20 else "",
            retain_available=setup & 0xF0 != 0x30,
            connect_timeout_s=5,
            max_session_expiry_s=LONGEST_LIFE_S,
            session_expiry_v3_s=LONGEST_LIFE_S,
        )
        self.attackers: list[Attacker] = []
        self.at = 0
        self.witness = self.world.client("a witness", 5)
        self.witness.subscribe("#", 2)
        self.witness.subscribe("$witness/#", 1)
        self.other = self.world.client("another witness", 4)
        self.other.subscribe("#", 0)
        if setup & 0xF0 == 0x40:
            admission.authenticator = self.slow

    # What a script says

    def do(self, action: int, data: bytes) -> None:
        attacker = self._attacker()
        if action in (script.READ, script.DRIP):
            attacker.waiting += data
            attacker.pour(READ_SIZE if action == script.READ else 1)
        elif action == script.TURN:
            self.world.hub.flush()
            self.slow.give()
            self.world.turn()
        elif action == script.WAIT:
            self.world.wait(int.from_bytes(data[:2], "big") / 10)
        elif action == script.FULL:
            attacker.outlet.full = True
        elif action == script.ROOM:
            attacker.outlet.full = False
            if attacker.connection.state != CLOSED:
                attacker.connection.writable(self.world.now)
        elif action == script.LOST:
            attacker.outlet.closed = True
            attacker.connection.lost("the script says so")
        elif action == script.OPEN and len(self.attackers) < MOST_ATTACKERS:
            self._open()
        elif action == script.SWITCH:
            self.at = (data or b"\0")[0] % len(self.attackers)
        for attacker in self.attackers:
            attacker.hear()
        self._answer()

    def _attacker(self) -> Attacker:
        """The one whose turn it is; a new one in the place of one that has gone."""
        if not self.attackers or (
            self.attackers[self.at].closed and len(self.attackers) < MOST_ATTACKERS
        ):
            self._open()
        return self.attackers[self.at]

    def _open(self) -> None:
        self.attackers.append(Attacker(self.world, self.limits))
        self.at = len(self.attackers) - 1

    # The witnesses

    def _answer(self) -> list[Packet]:
        """The first witness acknowledges what it got, until nothing comes any more."""
        self.other.take()
        found: list[Packet] = []
        while packets := self.witness.take():
            found += packets
            for packet in packets:
                pid = packet.pid or 0
                if packet.type == "PUBLISH" and packet.qos:
                    self.witness.send((p.puback if packet.qos == 1 else p.pubrec)(pid))
                elif packet.type == "PUBREL":
                    self.witness.send(p.pubcomp(pid))
        return found

    def check_others(self) -> None:
        """Both witnesses are there, and a message passes from the one to the other and back."""
        self._settle()
        for sender, payload in ((self.other, b"from the other"), (self.witness, b"from the one")):
            assert not sender.closed, "a witness was thrown out"
            sender.publish("$witness/said", payload, 1)
            self._settle()
            got = [packet.payload for packet in self.heard if packet.topic == "$witness/said"]
            assert got == [payload], got

    def _settle(self) -> None:
        self.heard: list[Packet] = []
        self.world.hub.flush()
        for _ in range(10_000):
            self.heard += self._answer()
            if not self.world.hub.unfinished:
                return
            self.world.turn()
        raise AssertionError("the hub does not come to rest")

    # What has to hold

    def check_bounds(self) -> None:
        """Nothing has grown beyond what the limits let it."""
        hub, limits = self.world.hub, self.limits
        assert len(hub.router.cache) <= 4
        assert len(hub.retained) <= 3 and hub.retained.size_bytes <= 4000
        assert len(hub.sessions) <= len(self.attackers) + 2
        entries = sum(len(listed) for listed in hub.wheel.slots.values())
        assert entries <= 2 * len(self.attackers) + 2, entries
        for name, session in hub.sessions.items():
            if not name.endswith("a witness") and name != "another witness":
                assert len(session.queue or ()) <= limits.max_queued_messages
                if session.queue is not None:
                    most = limits.max_queued_bytes + limits.max_packet_size
                    assert session.queue.size_bytes <= most
                assert len(session.inflight) <= limits.max_inflight
                assert session.inflight.outstanding <= limits.max_inflight
                assert len(session.subscriptions) <= limits.max_subscriptions
        for attacker in self.attackers:
            connection = attacker.connection
            assert (
                len(connection.partial.data if connection.partial else b"")
                <= limits.max_packet_size + READ_SIZE
            )
            held = sum(map(len, connection.out))
            assert held <= UNREAD_BYTES + 100 * READ_SIZE, held
            if connection.aliases is not None:
                assert len(connection.aliases.incoming) <= limits.max_topic_alias
                assert len(connection.aliases.outgoing) <= limits.max_topic_alias_out

    def check_words(self) -> None:
        """All that was written is packets that a server may send, in an order that it may."""
        for attacker in self.attackers:
            attacker.version = attacker.connection.version or 4
            attacker.hear()
            attacker.outlet.data, attacker.heard = attacker.heard, bytearray()
            packets = attacker.take()
            types = [packet.type for packet in packets]
            beginning = [name for name in types if name != "AUTH"]
            assert not beginning or beginning[0] == "CONNACK", types
            assert types.count("CONNACK") <= 1 and types.count("DISCONNECT") <= 1, types
            assert "DISCONNECT" not in types[:-1], types
            most = attacker.connection.max_packet_out
            assert all(packet.size <= most for packet in packets), (most, packets)
            for packet in packets:
                alias = packet.prop(Prop.TOPIC_ALIAS, 0)
                aliases = attacker.connection.aliases
                assert alias <= (aliases.max_outgoing if aliases else 0), packet

    def check_residue(self) -> None:
        """When all have gone and their time is over, only the witnesses are left."""
        for attacker in self.attackers:
            if attacker.connection.state != CLOSED:
                attacker.outlet.closed = True
                attacker.connection.lost("the end")
        for _ in range(3):
            self.world.wait(LONGEST_LIFE_S + 1)
            self._settle()
        hub = self.world.hub
        assert set(hub.sessions) == {"a witness", "another witness"}, set(hub.sessions)
        assert hub.connected == 2 and not hub.wheel.slots, (hub.connected, hub.wheel.slots)
        assert hub.router.subscriptions == 3 and not hub.router.shared_subscriptions
        assert not (hub.dirty or hub.unfinished or hub.dismissed)
        self.witness.send(p.unsubscribe(1, "#", "$witness/#", version=5))
        self.other.send(p.unsubscribe(1, "#"))
        assert hub.router.filters.root.empty() and not hub.router.filters.exact

    def transcript(self) -> tuple[Any, ...]:
        """All that came of it, for a comparison."""
        for attacker in self.attackers:
            attacker.hear()
        stats = self.world.stats
        found = {name: getattr(stats, name) for name in dir(stats) if not name.startswith("_")}
        return (
            [bytes(attacker.heard) for attacker in self.attackers],
            [attacker.connection.state for attacker in self.attackers],
            self.world.diary.lines,
            {name: value for name, value in found.items() if not callable(value)},
        )
