"""Rights change at random while messages flow, clients come and go, and the broker restarts.

Invariant: a PUBLISH that is written to a client is of a topic that its user may receive at that
moment, and came by a subscription that the user was allowed when the message was published.  And
nothing else is lost by it: a client whose rights never change gets all, in order, once.
"""

from random import Random
from typing import Any
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mhub.core.principal import Principal
from mhub.wire.topics import matches, split_share
from tests.core.disk import Disk, crash
from tests.core.rules import NO, Trusting
from tests.core.world import Client, World
from tests.helpers import packets as p
from tests.helpers.packets import Prop
from tests.helpers.splits import steady

TOPICS = ("a", "b", "c/1")
FILTERS = ("a", "b", "#", "+", "c/+", "$share/g/#", "$share/g/a")
PLAIN = ("a", "b", "#", "+", "c/+")
USERS = ("one", "two", "three")
STEADY = "steady"


class Policy:
    """(action, user, topic or filter) that are denied; a filter is denied by its own name."""

    def __init__(self) -> None:
        self.denied: set[tuple[str, str, str]] = set()

    def _may(self, action: str, user: str, topic: str) -> bool:
        return (action, user, topic) not in self.denied

    def connect(self, principal: Principal) -> int:
        return 0 if self._may("connect", principal.user, "") else NO

    def publish(self, principal: Principal, topic: str, qos: int, retain: bool) -> int:
        return 0

    def will(self, principal: Principal, topic: str, qos: int, retain: bool) -> int:
        return 0

    def subscribe(self, principal: Principal, topic_filter: str, qos: int, share: str) -> int:
        return 0 if self._may("subscribe", principal.user, topic_filter) else NO

    def receive(self, principal: Principal, topic: str) -> bool:
        return self._may("receive", principal.user, topic)

    def rule_of(self, *_: object) -> str:
        return "r"

    def may_get(self, user: str, filters: set[str], topic: str) -> bool:
        """Whether one of these filters brings a topic, by what is allowed now."""
        plain = [split_share(name)[1] for name in filters]
        return any(matches(f, topic) and self._may("subscribe", user, f) for f in plain)


class Play:
    """A broker with a store, three clients whose rights change, one whose rights do not."""

    def __init__(self, window: int, tell: bool) -> None:
        self.policy = Policy()
        self.world = World(sys_interval_s=0, portion=3, max_inflight=4, tell_withdrawn=tell)
        self.disk: Disk = Disk(self.world, window=window)
        self.clients: dict[str, Client] = {}
        self.filters: dict[str, set[str]] = {user: set() for user in (*USERS, STEADY)}
        self.published: list[tuple[str, set[str], bool]] = []  # topic, who may get it, retained
        self.got: list[bytes] = []  # by the one whose rights do not change
        self.unacked: dict[str, list[int]] = {}
        self.control()
        self.writer = self.connect("writer", 4, True)
        self.connect(STEADY, 4, False)
        self.subscribe(STEADY, "#", 1)
        self.let_all_in()

    def control(self) -> None:
        self.world.hub.admission.authenticator = Trusting()
        self.world.hub.authorize_with(self.policy)

    # What may happen

    def connect(self, user: str, version: int, clean: bool) -> Client:
        client = self.world.open(version)
        client.outlet.on_write = lambda: self.check(user, client)
        self.clients[user] = client
        self.unacked[user] = []
        props: Any = [(Prop.SESSION_EXPIRY, 3600)] if version == 5 and not clean else None
        client.send(p.connect(user, version, clean, username=user, props=props))
        if clean and ("connect", user, "") not in self.policy.denied:
            self.filters.setdefault(user, set()).clear()
        return client

    def lose(self, user: str) -> None:
        if user in self.clients and not self.clients[user].closed:
            self.clients[user].lose()

    def subscribe(self, user: str, name: str, qos: int) -> None:
        client = self.clients.get(user)
        if client is not None and not client.closed:
            self.filters[user].add(name)
            client.send(p.subscribe(1, (name, qos), version=client.version))

    def publish(self, topic: str, qos: int, retain: bool) -> None:
        if self.writer.closed:
            self.writer = self.connect("writer", 4, True)
        if self.world.hub.sessions.get("writer") is None:
            self.let_all_in()
        number = len(self.published)
        may = {u for u, names in self.filters.items() if self.policy.may_get(u, names, topic)}
        self.published.append((topic, may, retain))
        self.writer.publish(topic, b"%d" % number, qos, retain=retain)

    def change(self, action: str, user: str, what: str, of_all: bool) -> None:
        self.policy.denied ^= {(action, user, what)}
        self.world.hub.rights_changed(None if of_all else {user})

    def allow_all(self) -> None:
        self.policy.denied.clear()
        self.world.hub.rights_changed()

    def turn(self) -> None:
        self.world.turn()

    def step(self) -> None:
        if self.disk.busy():
            self.disk.step()

    def block(self, user: str) -> None:
        client = self.clients.get(user)
        if client is not None and not client.closed:
            if client.connection.blocked:
                client.unblock()
            else:
                client.outlet.full = True

    def acknowledge(self, user: str) -> None:
        pids, self.unacked[user] = self.unacked.get(user, []), []
        client = self.clients.get(user)
        if client is not None and not client.closed:
            for pid in pids:
                if pid in client.session.inflight.deliveries:
                    qos = client.session.inflight.deliveries[pid].qos
                    if qos == 1:
                        client.send(p.puback(pid))
                    else:
                        client.send(p.pubrec(pid))
                        client.send(p.pubcomp(pid))

    def restart(self) -> None:
        self.disk.settle()
        self.world, self.disk = crash(self.world, self.disk)
        self.clients = {}
        self.control()
        self.writer = self.connect("writer", 4, True)
        self.connect(STEADY, 4, False)
        self.let_all_in()

    def let_all_in(self) -> None:
        self.disk.settle()

    # What must not happen

    def check(self, user: str, client: Client) -> None:
        for packet in client.take():
            if packet.type != "PUBLISH":
                continue
            topic, may, retained = self.published[int(packet.payload)]
            assert ("receive", user, topic) not in self.policy.denied, f"{user} got {packet}"
            # What another member of a group leaves may come by a subscription of later.
            is_member = any(name.startswith("$share/") for name in self.filters[user])
            may_get = user in may or retained or is_member
            assert may_get, f"{user} got {packet}, by no subscription of its own"
            if packet.pid:
                self.unacked[user].append(packet.pid)
            if user == STEADY and packet.payload not in self.got:
                self.got.append(packet.payload)

    def finish(self) -> None:
        """All come back, and get what there is."""
        for user in (*USERS, STEADY):
            client = self.clients.get(user)
            if client is None or client.closed:
                self.connect(user, 4, False)
            elif client.connection.blocked:
                client.unblock()
        for _ in range(200):
            self.disk.settle()
            if not any(self.unacked.values()):
                break
            for user in list(self.unacked):
                self.acknowledge(user)
        expected = [b"%d" % number for number in range(len(self.published))]
        assert self.got == expected, (self.got, expected)


class Player:
    """Chooses what happens next: mostly clients that are there, and messages for them."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.play = Play(self.random.randint(1, 6), self.random.random() < 0.5)

    def go(self, steps: int) -> None:
        doings = [
            *([self.publish] * 12),
            *([self.step] * 6),
            *([self.connect] * 4),
            *([self.change] * 4),
            *([self.subscribe] * 3),
            *([self.acknowledge] * 4),
            *([self.block] * 2),
            *([self.lose] * 2),
            self.play.turn,
            self.settle,
        ]
        for _ in range(steps):
            if self.random.random() < 0.01:
                self.play.restart()
            self.random.choice(doings)()
        self.play.finish()

    def user(self) -> str:
        return self.random.choice(USERS)

    def connect(self) -> None:
        user = self.user()
        client = self.play.clients.get(user)
        if client is None or client.closed or self.random.random() < 0.1:
            is_clean = self.random.random() < 0.1
            self.play.connect(user, self.random.choice((4, 5)), is_clean)
            for _ in range(self.random.choice((0, 1, 2, 10))):
                self.play.step()
            if not self.play.filters[user]:
                self.subscribe(user)

    def subscribe(self, user: str = "") -> None:
        name = self.random.choice(FILTERS)
        self.play.subscribe(user or self.user(), name, self.random.randrange(3))

    def publish(self) -> None:
        qos = self.random.choice((1, 1, 2))
        self.play.publish(self.random.choice(TOPICS), qos, self.random.random() < 0.2)

    def change(self) -> None:
        dice = self.random.random()
        if dice < 0.2:
            self.play.allow_all()
            return
        action, names = "receive", TOPICS
        if dice > 0.6:
            action, names = "subscribe", PLAIN
        elif dice > 0.57:
            action, names = "connect", ("",)
        of_all = self.random.random() < 0.5
        self.play.change(action, self.user(), self.random.choice(names), of_all)

    def step(self) -> None:
        for _ in range(self.random.choice((1, 1, 5))):
            self.play.step()

    def settle(self) -> None:
        self.play.disk.settle()

    def block(self) -> None:
        self.play.block(self.user())

    def lose(self) -> None:
        self.play.lose(self.user())

    def acknowledge(self) -> None:
        self.play.acknowledge(self.random.choice((*USERS, STEADY, "writer")))


class RandomTests(TestCase):
    @steady
    @given(st.integers(0, 1 << 30), st.integers(1, 300))
    def test_nobody_gets_what_it_may_not(self, seed: int, steps: int) -> None:
        Player(seed).go(steps)
