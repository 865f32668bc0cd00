"""Clients that reconnect to any node of a cluster, and the load that they make.

They are those of `tests.system.durability_clients`, and know besides that a broker may have no
session for them: while a node is dead its sessions are, too.  Then a publisher sends again what was
not acknowledged, which may have been accepted before, and a subscriber subscribes again.

A CONNACK with Session Present 0 that the client has read is the only thing that excuses a broker.
It ends a lifetime of the client, and another one begins (see `tests.system.cluster_check`).

While the network is split, the two sides may each have a session for a client.  The first time that
it goes to the other side it reads Session Present 0; then it may go to and fro between two
sessions, which are merged only after the split.  So a client that has read Session Present 0 during
a split is exempt until its next CONNACK after the split.

A node that says nothing any more is left for another one, as a client with a short keep-alive does.
"""

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

from tests.helpers.packets import Packet
from tests.system.cluster_trace import Trace
from tests.system.durability import PATIENCE_S, Load, Stuck
from tests.system.durability_clients import (
    RESTLESS,
    STEADY,
    Client,
    Copy,
    Habit,
    Publisher,
    Subscriber,
)
from tests.system.raw import Address, dial

PING_S = 0.5
SILENCE_S = 4.0
"""A connection on which nothing comes for so long is given up; with pings, something should."""

CONNECT_S = 10.0
"""The same before CONNACK, for which a node may wait for others."""

SETTLE_S = 20.0
"""How long the last deliveries may take without any progress: only failures wait that long."""

LONGEST_S = 900.0
"""However much happens meanwhile, nothing may take longer than this."""

PID_STEP = 1000
"""So far apart are the packet ids for two sessions that a client has at the same time."""

Choose = Callable[[], Address | None]
"""The node for the next connection; None: there is none."""

IsSplit = Callable[[], bool]
"""Whether some nodes do not see each other."""


class Roaming(Client):
    """What is different for all clients of a cluster."""

    choose: Choose
    is_split: IsSplit
    trace: Trace
    silence_s = SILENCE_S
    connect_s = CONNECT_S
    forgotten = 0  # how often it read Session Present 0, but for the first time
    resumed = 0  # how often Session Present 1
    refused = 0
    is_exempt = False  # it has read Session Present 0 during a split
    _heard_at = 0.0
    _pinged_at = 0.0

    def come(self, port: int = 0) -> None:
        """To any node."""
        address = self.choose()
        if address is None:
            return
        try:
            self._sock = dial(address)
        except OSError:
            return  # it has just died
        self.trace.note(self.name, f"connects to {address[0]}")
        self._sock.setblocking(False)
        self._heard_at = self._pinged_at = time.monotonic()
        self._send(self._connect())

    def leave(self) -> None:
        if self.is_here:
            self.trace.note(self.name, f"closes, with {len(self._out)} bytes not sent")
        super().leave()

    def _send(self, data: bytes) -> None:
        self.trace.sent(self.name, data, self.version)
        super()._send(data)

    def _handle(self, packet: Packet) -> None:
        self.trace.came(self.name, packet)
        super()._handle(packet)

    def _dismissed(self, packet: Packet) -> None:
        """Session taken over, or the node stops; it closes now."""
        self.trace.came(self.name, packet)

    def read(self) -> None:
        self._heard_at = time.monotonic()
        super().read()

    def watch(self, now: float) -> None:
        """Leave a node that says nothing."""
        if not self.is_here:
            return
        if now - self._heard_at > (self.silence_s if self.live else self.connect_s):
            self.leave()
        elif self.live and now - self._pinged_at > PING_S:
            self._pinged_at = now
            self.ping()

    def _welcome(self, packet: Packet) -> None:
        self.trace.came(self.name, packet)
        if packet.reason != 0:
            self.refused += 1  # it is about to stop; it closes now
            return
        was_exempt, is_split = self.is_exempt, self.is_split()
        if packet.session_present:
            self.resumed += 1
            if was_exempt:
                self._switch()
            self.is_exempt = was_exempt and is_split
        elif self.welcomes:
            self.forgotten += 1
            self._lose()
            self.is_exempt = is_split
        self.live = True
        self.welcomes += 1
        self._resume()

    def _lose(self) -> None:
        """The broker has no session."""

    def _switch(self) -> None:
        """The broker has one, which may be another one than before: the client is exempt."""


class RoamingPublisher(Roaming, Publisher):
    def __init__(
        self, name: str, qos: int, retain: bool = False, window: int = 1, habit: Habit = STEADY
    ) -> None:
        super().__init__(name, qos, retain, window, habit)
        self.may_double: set[int] = set()  # sent again to a broker that had no session
        self.unordered: set[int] = set()  # published while it was exempt, or a node was frozen
        self.lost_after: list[int] = []  # the last number before each Session Present 0
        self.lost_at = 0.0  # when the last of these came
        self._pid_base = 0

    def publish(self) -> None:
        before = self.sent
        super().publish()
        if self.is_exempt and self.sent > before:
            self.unordered.add(self.sent)

    def _free_pid(self, above: int = 0) -> int:
        return super()._free_pid(self._pid_base)

    def _lose(self) -> None:
        self.may_double |= set(self._waiting.values())
        self.lost_after.append(self.sent)
        self.lost_at = time.monotonic()
        self._releasing.clear()
        if self.is_split():
            # The other side's session may still wait for PUBREL, and would take a message with
            # the same packet id for one that it has.
            self._pid_base = (self._pid_base + PID_STEP) % 60_000

    def _switch(self) -> None:
        self.may_double |= set(self._waiting.values())


@dataclass
class Lifetime:
    """Of a subscriber: from one Session Present 0 to the next."""

    began_at: float = math.inf  # what was published before may come late
    required_from: float = math.inf  # what was published since has to come
    ordered_from: float = 0.0  # what was published before may come late as well


class RoamingSubscriber(Roaming, Subscriber):
    def __init__(self, name: str, qos: int, of: str = "", habit: Habit = STEADY) -> None:
        super().__init__(name, qos, of, habit)
        self.lifetimes = [Lifetime()]

    def look_for_open(self) -> None:
        """All should be at its end: PUBREL must have come for each PUBREC."""
        if self._open and not self.is_exempt:
            numbers = " ".join(map(str, sorted(self._open)))
            self.wrong.append(f"{self.name}: no PUBREL for the packet ids {numbers}")

    def _lose(self) -> None:
        self.lifetimes.append(Lifetime())
        self.subscribed = False
        self._open.clear()

    def _switch(self) -> None:
        # The subscription is there already; but nothing is known of what this session has open.
        required_from = self.lifetimes[-1].required_from
        self.lifetimes.append(Lifetime(time.monotonic(), required_from))
        self._open.clear()

    def _collide(self, pid: int, known: tuple[str, int], message: tuple[str, int]) -> None:
        if self.is_exempt:
            del self._open[pid]
        else:
            super()._collide(pid, known, message)

    def _handle(self, packet: Packet) -> None:
        was_subscribed = self.subscribed
        super()._handle(packet)
        if self.subscribed and not was_subscribed:
            lifetime = self.lifetimes[-1]
            lifetime.began_at = lifetime.required_from = time.monotonic()

    def _copy(self, packet: Packet, number: int) -> Copy:
        copy = super()._copy(packet, number)
        return copy._replace(lifetime=len(self.lifetimes) - 1, is_exempt=self.is_exempt)


def publishers() -> list[RoamingPublisher]:
    return [
        RoamingPublisher("p1", 1, window=10),
        RoamingPublisher("p2", 2, window=10),
        RoamingPublisher("p3", 1, retain=True, window=3, habit=RESTLESS),
        RoamingPublisher("p4", 2, retain=True, window=5, habit=RESTLESS),
        RoamingPublisher("p5", 2, window=5, habit=RESTLESS),
    ]


def subscribers() -> list[RoamingSubscriber]:
    away = Habit(leaves=0.02, comes=0.005)
    return [
        RoamingSubscriber("steady-1", 1),
        RoamingSubscriber("steady-2", 2),
        RoamingSubscriber("restless-1", 1, habit=RESTLESS),
        RoamingSubscriber("restless-2", 2, habit=RESTLESS),
        RoamingSubscriber("narrow-2", 2, of="p2", habit=RESTLESS),
        RoamingSubscriber("away-2", 2, habit=away),
    ]


class ClusterLoad(Load):
    """`addresses` says where nodes accept clients, at any moment."""

    publishers: list[RoamingPublisher]  # type: ignore[assignment]
    subscribers: list[RoamingSubscriber]  # type: ignore[assignment]

    def __init__(
        self,
        rng: random.Random,
        addresses: Callable[[], list[Address]],
        is_split: IsSplit,
        trace: Trace,
        version: int = 4,
    ) -> None:
        super().__init__(rng)
        self._addresses = addresses
        self._is_split = is_split
        self._trace = trace
        self._version = version
        self._turns = cycle(range(840))  # divided by all numbers of nodes up to 8
        self.last = self._last = RoamingPublisher("last", 2)
        self.set_clients(publishers(), subscribers())

    def set_clients(
        self, publishers: Sequence[RoamingPublisher], subscribers: Sequence[RoamingSubscriber]
    ) -> None:
        """Who makes the load."""
        self.publishers = list(publishers)
        self.subscribers = list(subscribers)
        self.clients: list[Roaming] = [*self.publishers, *self.subscribers, self.last]
        self._clients = list(self.clients)
        for client in self.clients:
            client.version = self._version
            client.is_split = self._is_split
            client.trace = self._trace
            if not hasattr(client, "choose"):
                client.choose = self._choose

    def together_again(self, since: float) -> None:
        """All nodes see each other; one of them did not since then.

        It may have been told of sessions that began meanwhile only now, and had what was published
        there for the older ones.  And what a publisher had published meanwhile may have come to it
        only now, behind what the same publisher has published there after Session Present 0.
        """
        for publisher in self.publishers:
            if publisher.lost_at >= since:
                publisher.unordered |= {
                    number
                    for number in range(1, publisher.lost_after[-1] + 1)
                    if publisher.last_sent_at[number] >= since
                }
        for subscriber in self.subscribers:
            for lifetime in subscriber.lifetimes:
                if since <= lifetime.began_at < math.inf:
                    lifetime.ordered_from = time.monotonic()

    def _choose(self) -> Address | None:
        """In turn, as a load balancer does."""
        addresses = self._addresses()
        return addresses[next(self._turns) % len(addresses)] if addresses else None

    def drain(self) -> None:
        """Until every queue is empty; each client has one session by now."""
        self.calmly_until(lambda: self.last.live, "a connection to publish by")
        self.last.publish()
        self.calmly_until(self._everywhere, "the last message, at every subscriber")
        self.settle(self._all_idle)

    def end_exemptions(self) -> None:
        """Who is exempt may have a packet id open that no session knows any more.

        It comes back, and is a client like any other.
        """
        for each in self.subscribers:
            if each.is_exempt:
                each.leave()

    def be_heard(self) -> None:
        """Until the nodes have handled all that was written to them, and nothing more comes.

        What they have not read when a client closes may be lost, if the client has not read all.
        """
        state = -1
        while state != self._state():
            self.settle(self._all_idle)
            state = self._state()
            self._hear_pongs()

    def _hear_pongs(self) -> None:
        before = {client.name: (client.pongs, client.welcomes) for client in self.clients}
        for client in self.clients:
            if client.live:
                client.ping()

        def is_heard(client: Roaming) -> bool:
            return (client.pongs, client.welcomes) > before[client.name]

        self.calmly_until(lambda: all(map(is_heard, self.clients)), "pings")

    def _all_idle(self) -> bool:
        return all(each.idle for each in self.subscribers)

    def settle(self, done: Callable[[], bool]) -> None:
        """Until that is done, or nothing comes any more; what is missing then is found later."""
        state, changed_at = self._state(), time.monotonic()

        def is_over() -> bool:
            nonlocal state, changed_at
            if done():
                return True
            now, before, state = time.monotonic(), state, self._state()
            if state != before:
                changed_at = now
            return now - changed_at > SETTLE_S

        self.calmly_until(is_over, "the last deliveries")

    def everybody(self) -> bool:
        """Whether everybody is connected, and has subscribed."""
        return all(client.live for client in self.clients) and all(
            each.subscribed for each in self.subscribers
        )

    def hear_from_nodes(self) -> None:
        """Until everybody has a connection to a node that answers."""
        before = {client.name: (client.pongs, client.welcomes) for client in self.clients}

        def answered(client: Roaming) -> bool:
            pongs, welcomes = before[client.name]
            # The first one may have been on its way before.
            return client.live and (client.welcomes > welcomes or client.pongs > pongs + 1)

        self.calmly_until(lambda: all(map(answered, self.clients)), "an answer to everybody")
        self.calmly_until(self.everybody, "subscriptions")

    def _everywhere(self) -> bool:
        """Whether the last message has come to all that listen to all."""
        number = self.last.sent
        return self.last.idle and all(
            any(copy.number == number for copy in each.got.get(self.last.name, []))
            for each in self._wide()
        )

    def tell_all_by(self, address: Address) -> None:
        """A message by this node reaches all, though nobody of them was ever there."""
        last = self.last
        last.leave()
        last.choose = lambda: address
        self.calmly_until(lambda: last.live, "a connection to the node")
        last.publish()
        self.calmly_until(self._everywhere, "a message from the new node, at every subscriber")
        last.choose = self._choose

    def calmly_until(self, done: Callable[[], bool], what: str) -> None:
        """Nothing new, and nobody leaves, until that is done."""
        self._calmly(done, what)

    def _turn(self, is_calm: bool = False) -> None:
        now = time.monotonic()
        for client in self.clients:
            client.watch(now)
        super()._turn(is_calm)

    def _progress(self, what: str) -> Iterator[int]:
        """Turns without end, but for a time in which nothing changes, or for a very long one."""
        deadline = time.monotonic() + LONGEST_S
        for number in super()._progress(what):
            if time.monotonic() > deadline:
                raise Stuck(f"waited too long for {what}; {self._unfinished()}")
            yield number

    def _state(self) -> int:
        """Grows with whatever happens, but for pings, which are always answered."""
        came = sum(len(copies) for each in self.subscribers for copies in each.got.values())
        return self.acknowledged() + came + sum(client.welcomes for client in self.clients)

    def run(self, seconds: float, acknowledged: int = 0, turns: int = 0) -> None:
        """As ever; but long times pass in pieces, each of which has its own patience."""
        while seconds > PATIENCE_S / 2:
            super().run(PATIENCE_S / 2)
            seconds -= PATIENCE_S / 2
        super().run(seconds, acknowledged, turns)
