"""Clients that come back to any node of a cluster, and the load that they make.

They are those of `tests.system.durability_clients`, and know besides that a broker may have no
session for them: while a node is dead its sessions are, too.  Then a publisher sends again what was
not acknowledged, which may have been taken before, and a subscriber subscribes again, with a second
session until the two are one.  Exactly once is promised between sessions that were there.

Nodes that do not see each other may each have a session for a client, and say so: whoever goes from
one side to the other counts as if the session had not been there.

A node that says nothing any more is left for another one, as a client with a short keep-alive does.
"""

import random
import time
from collections.abc import Callable, Iterator
from itertools import count, cycle

from tests.helpers import packets as p
from tests.helpers.packets import Packet
from tests.system.cluster_trace import Trace
from tests.system.durability import PATIENCE_S, Load, Stuck
from tests.system.durability_clients import (
    RESTLESS,
    STEADY,
    Client,
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

Choose = Callable[[], Address | None]
"""The node for the next connection; None: there is none."""

Parted = Callable[[Address, Address], bool]
"""Whether two nodes do not see each other."""


class Roaming(Client):
    """What is different for all clients of a cluster."""

    choose: Choose
    parted: Parted
    trace: Trace
    forgotten = 0  # how often a broker had no session for it
    resumed = 0  # how often one had
    refused = 0
    _last: Address | None = None  # where it was before
    _crossed = False  # nodes that do not see each other may each have a session
    _came_at = 0.0
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
        self.trace.note(self.name, f"comes to {address[0]}")
        if self._last is not None and self.parted(self._last, address):
            self._crossed = True
        self._last = address
        self._sock.setblocking(False)
        self._came_at = self._heard_at = self._pinged_at = time.monotonic()
        self._send(p.connect(self.name, clean=False))

    def leave(self) -> None:
        if self.is_here:
            self.trace.note(self.name, f"leaves, with {len(self._out)} bytes not sent")
        super().leave()

    def _send(self, data: bytes) -> None:
        self.trace.sent(self.name, data)
        super()._send(data)

    def _handle(self, packet: Packet) -> None:
        self.trace.came(self.name, packet)
        super()._handle(packet)

    def read(self) -> None:
        self._heard_at = time.monotonic()
        super().read()

    def watch(self, now: float) -> None:
        """Leave a node that says nothing."""
        if not self.is_here:
            return
        if now - self._heard_at > (SILENCE_S if self.live else CONNECT_S):
            self.leave()
        elif self.live and now - self._pinged_at > PING_S:
            self._pinged_at = now
            self.ping()

    def _welcome(self, packet: Packet) -> None:
        self.trace.came(self.name, packet)
        if packet.reason != 0:
            self.refused += 1  # it is about to stop; it closes now
            return
        if packet.session_present:
            self.resumed += 1
            if self._crossed:
                self._doubt()
        elif self.welcomes:
            self.forgotten += 1
            self._lose()
        self._crossed = False
        self.live = True
        self.welcomes += 1
        self._resume()

    def _lose(self) -> None:
        """The broker has no session."""

    def _doubt(self) -> None:
        """The broker has one, which may not be the last one that the client had."""


class RoamingPublisher(Roaming, Publisher):
    def __init__(
        self, name: str, qos: int, retain: bool = False, window: int = 1, habit: Habit = STEADY
    ) -> None:
        super().__init__(name, qos, retain, window, habit)
        self.may_double: set[int] = set()  # sent again to a broker that had no session

    def _lose(self) -> None:
        self._doubt()
        self._releasing.clear()

    def _doubt(self) -> None:
        self.may_double |= set(self._waiting.values())


class RoamingSubscriber(Roaming, Subscriber):
    def __init__(self, name: str, qos: int, of: str = "", habit: Habit = STEADY) -> None:
        super().__init__(name, qos, of, habit)
        self.is_split = False  # it may have several sessions
        self.split: set[tuple[str, int]] = set()  # what came then: by publisher, places in `got`
        self._doubtful: set[int] = set()  # QoS 2 packet ids of that time

    def merged(self) -> None:
        """It has one session again.

        Between nodes that do not see each other it may have gone from one session to another, with
        Session Present 1 from both: for what it had open in the first one no PUBREL comes.
        """
        self.is_split = False
        self._open -= self._doubtful
        self._doubtful.clear()

    def look_for_open(self) -> None:
        """All should be at its end: PUBREL must have come for each PUBREC."""
        if self._open:
            numbers = " ".join(map(str, sorted(self._open)))
            self.wrong.append(f"{self.name}: no PUBREL for the packet ids {numbers}")

    def _lose(self) -> None:
        self.is_split = True
        self.subscribed = False
        self._open.clear()

    def _doubt(self) -> None:
        self.is_split = True
        self._doubtful |= self._open

    def _handle(self, packet: Packet) -> None:
        if packet.type == "SUBACK" and self.subscribed:
            return  # to an earlier connection's SUBSCRIBE
        super()._handle(packet)

    def _keep(self, packet: Packet) -> None:
        super()._keep(packet)
        if self.is_split and packet.qos == 2 and packet.pid is not None:
            self._doubtful.add(packet.pid)
        name = packet.payload.split(b" ", 1)[0].decode()
        copies = self.got[name]
        if packet.retain:
            # It comes for a new subscription, whether it came before or not.
            if any(copy.number == copies[-1].number for copy in copies[:-1]):
                copies.pop()
                return
        if self.is_split:
            self.split.add((name, len(copies) - 1))


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
    """`doors` says where nodes let clients in, at any moment."""

    publishers: list[RoamingPublisher]  # type: ignore[assignment]
    subscribers: list[RoamingSubscriber]  # type: ignore[assignment]

    def __init__(
        self,
        rng: random.Random,
        doors: Callable[[], list[Address]],
        parted: Parted,
        trace: Trace,
    ) -> None:
        super().__init__(rng)
        self.publishers = publishers()
        self.subscribers = subscribers()
        self.last = self._last = RoamingPublisher("last", 2)
        self.clients: list[Roaming] = [*self.publishers, *self.subscribers, self.last]
        self._clients = list(self.clients)
        self._doors = doors
        self._turns = cycle(range(840))  # divided by all numbers of nodes up to 8
        for client in self.clients:
            client.choose = self._choose
            client.parted = parted
            client.trace = trace

    def _choose(self) -> Address | None:
        """In turn, as a load balancer does."""
        doors = self._doors()
        return doors[next(self._turns) % len(doors)] if doors else None

    def drain(self) -> None:
        """Until every queue is empty; each client has one session by now."""
        self.calmly_until(lambda: self.last.live, "a connection to publish by")
        self.last.publish()
        self.calmly_until(self._everywhere, "the last message, at every subscriber")
        deadline = time.monotonic() + SILENCE_S
        self.calmly_until(
            lambda: all(each.idle for each in self.subscribers) or time.monotonic() > deadline,
            "the end of QoS 2",
        )

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
        """There is always something that happens, so the time has an end."""
        deadline = time.monotonic() + PATIENCE_S
        for number in count():
            if time.monotonic() > deadline:
                raise Stuck(f"waited in vain for {what}; {self._unfinished()}")
            yield number

    def run(self, seconds: float, acknowledged: int = 0, turns: int = 0) -> None:
        """As ever; but long times pass in pieces, each of which has its own patience."""
        while seconds > PATIENCE_S / 2:
            super().run(PATIENCE_S / 2)
            seconds -= PATIENCE_S / 2
        super().run(seconds, acknowledged, turns)
