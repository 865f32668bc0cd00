"""Load on a broker that crashes, by clients that miss nothing; and what must hold afterwards.

durability_clients   publishers and subscribers with persistent sessions
durability_check     what must hold
durability_store     stores that can fail, and a broker with several lives

`Load` turns the crank of all clients in one thread.  `crashes` and `store_crashes` are the runs
that the short test and the long one share.  Chance decides when who comes, goes and dies, and the
seed decides what chance does; but the system's own timing is never the same, so a seed makes a
failure likely again, not certain.
"""

import random
import select
import time
from collections.abc import Callable, Iterator
from itertools import count

from tests.helpers.redis import RedisServer
from tests.system.durability_check import Verdict, judge, judge_retained
from tests.system.durability_clients import (
    ABSENT,
    MOSTLY_AWAY,
    RESTLESS,
    Client,
    Publisher,
    Subscriber,
)
from tests.system.durability_store import Lives

PATIENCE_S = 60.0
"""How long nothing may change while something is waited for: only failures wait that long."""

TURN_S = 0.005
PAUSE_S = 0.002
"""The rest of a turn, for the broker; and so that the load leaves something of the machine."""

MOMENTS_S = (0.02, 0.2, 0.8)
"""A kill comes within one of these after the broker is back."""

STILLBORN = 0.15
"""So often, a broker that was killed is killed again while it starts."""

Tell = Callable[[int, int], None]
"""Is told the number of each kill, and how many messages are acknowledged by then."""


class Stuck(Exception):
    """Nothing happens any more, and something has to."""


def publishers() -> list[Publisher]:
    return [
        Publisher("p1", 1, window=20),
        Publisher("p2", 2, window=20),
        Publisher("p3", 1, window=3, habit=RESTLESS),
        Publisher("p4", 2, window=10, habit=RESTLESS),
        Publisher("p5", 1, retain=True, window=10),
        Publisher("p6", 2, retain=True, window=10),
        Publisher("p7", 2, retain=True, window=1, habit=RESTLESS),
    ]


def subscribers() -> list[Subscriber]:
    return [
        Subscriber("steady-1", 1),
        Subscriber("steady-2", 2),
        Subscriber("restless-1", 1, habit=RESTLESS),
        Subscriber("restless-2", 2, habit=RESTLESS),
        Subscriber("narrow-2", 2, of="p4", habit=RESTLESS),
        Subscriber("away-1", 1, habit=MOSTLY_AWAY),
        Subscriber("away-2", 2, habit=MOSTLY_AWAY),
    ]


class Load:
    def __init__(self, rng: random.Random) -> None:
        self.port = 0
        self.publishers = publishers()
        self.subscribers = subscribers()
        self._rng = rng
        # After everything else it publishes what shows that a queue is empty.
        self._last = Publisher("last", 2)
        self._clients: list[Client] = [*self.publishers, *self.subscribers, self._last]

    def begin(self, port: int) -> None:
        """Everybody has a session, and every subscription is acknowledged."""
        self.port = port
        self._calmly(
            lambda: (
                all(client.live for client in self._clients)
                and all(each.subscribed for each in self.subscribers)
            ),
            "sessions and subscriptions",
        )

    def acknowledged(self) -> int:
        return sum(len(publisher.acknowledged) for publisher in self.publishers)

    def run(self, seconds: float, acknowledged: int = 0, turns: int = 0) -> None:
        """For so long, until so many more messages are acknowledged, and for so many turns."""
        end = time.monotonic() + seconds
        enough = self.acknowledged() + acknowledged
        for number in self._progress(f"{acknowledged} acknowledgements"):
            is_over = number >= turns and time.monotonic() > end
            if is_over and self.acknowledged() >= enough:
                return
            self._chance()
            self._turn()

    def run_until(self, done: Callable[[], bool], what: str) -> None:
        for _ in self._progress(what):
            if done():
                return
            self._chance()
            self._turn()

    def absent(self, subscriber: Subscriber) -> None:
        """It leaves, and stays away until the end: so no message is done with before."""
        subscriber.habit = ABSENT
        subscriber.leave()

    def lost(self) -> None:
        """The broker is dead: what it had sent is read, then everybody is without a connection."""
        for client in self._clients:
            while client.is_here:
                client.read()

    def drain(self) -> None:
        """Everybody comes back and stays, until every queue is empty and nothing is open."""
        self._calmly(lambda: all(each.idle for each in self.publishers), "acknowledgements")
        number = self._last.sent + 1
        self._last.publish()
        self._calmly(
            lambda: self._last.idle and all(_has(each, number) for each in self._wide()),
            "the last message, at every subscriber",
        )
        self._calmly(lambda: all(each.idle for each in self.subscribers), "the end of QoS 2")
        # What was written before is handled when the answer comes.
        pongs = {client.name: client.pongs for client in self._clients}
        for client in self._clients:
            client.ping()
        self._calmly(
            lambda: all(client.pongs > pongs[client.name] for client in self._clients), "pings"
        )

    def _wide(self) -> list[Subscriber]:
        """Those that listen to all."""
        return [each for each in self.subscribers if each.wants(self._last.name)]

    def judge(self, is_killed: bool) -> Verdict:
        return judge([*self.publishers, self._last], self.subscribers, is_killed)

    def close(self) -> None:
        for client in self._clients:
            client.leave()

    # A turn

    def _chance(self) -> None:
        """Who comes, who goes, who publishes."""
        rng = self._rng
        for client in self._clients:
            habit = client.habit
            if client.is_here and rng.random() < habit.leaves:
                client.leave()
            elif not client.is_here and rng.random() < habit.comes:
                client.come(self.port)
        for publisher in self.publishers:
            publisher.publish_some(rng)

    def _turn(self, is_calm: bool = False) -> None:
        for client in self._clients:
            if is_calm or self._rng.random() < client.habit.speaks:
                client.write()
        here = [client for client in self._clients if client.is_here]
        readable: list[Client] = select.select(here, [], [], TURN_S)[0]
        for client in readable:
            client.read()
        time.sleep(PAUSE_S)

    def _calmly(self, done: Callable[[], bool], what: str) -> None:
        """Nothing new, and nobody leaves, until that is done."""
        for _ in self._progress(what):
            for client in self._clients:
                if not client.is_here:
                    client.come(self.port)
            self._turn(is_calm=True)
            if done():
                return

    def _progress(self, what: str) -> Iterator[int]:
        """Turns without end, but for PATIENCE_S in which nothing changes."""
        state, changed = -1, time.monotonic()
        for number in count():
            if number % 100 == 0:
                now, before, state = time.monotonic(), state, self._state()
                if state != before:
                    changed = now
                elif now - changed > PATIENCE_S:
                    raise Stuck(f"waited in vain for {what}; {self._unfinished()}")
            yield number

    def _state(self) -> int:
        """A number that grows with whatever happens, but for connections."""
        came = sum(len(copies) for each in self.subscribers for copies in each.got.values())
        return self.acknowledged() + came + sum(client.pongs for client in self._clients)

    def _unfinished(self) -> str:
        busy = [each.name for each in self._clients if not each.idle]
        return f"not idle: {' '.join(busy) or 'nobody'}"


def _has(subscriber: Subscriber, number: int) -> bool:
    return any(copy.number == number for copy in subscriber.got.get("last", []))


def crashes(lives: Lives, load: Load, kills: int, rng: random.Random, tell: Tell) -> Verdict:
    """Kill the broker so many times under load, let it come to rest, and look what was lost."""
    wrong: list[str] = []
    lives.start()
    load.begin(lives.port)
    told = 0
    while lives.kills < kills:
        _work(load, rng)
        lives.kill()
        load.lost()
        if lives.kills < kills and rng.random() < STILLBORN:
            lives.start_and_kill(rng.random())
        lives.start()
        load.port = lives.port
        # Now, before publishers bring others.
        wrong += judge_retained(lives.port, load.publishers)
        while told < lives.kills:
            told += 1
            tell(told, load.acknowledged())
    return finish(lives, load, wrong, is_killed=True)


def store_crashes(
    lives: Lives, load: Load, server: RedisServer, kills: int, rng: random.Random, tell: Tell
) -> Verdict:
    """Kill the store instead: the broker goes on without it, then with it, and loses nothing."""
    lives.start()
    load.begin(lives.port)
    for number in range(1, kills + 1):
        _work(load, rng)
        server.kill()
        load.run(rng.random() * rng.choice(MOMENTS_S))
        server.start()
        tell(number, load.acknowledged())
    return finish(lives, load, [], is_killed=False)


def finish(lives: Lives, load: Load, wrong: list[str], is_killed: bool) -> Verdict:
    """Let everything come to rest, and judge; `wrong` is what was seen before."""
    load.drain()
    wrong = wrong + judge_retained(lives.port, load.publishers)
    load.close()
    lives.stop()
    verdict = load.judge(is_killed)
    verdict.wrong += wrong + lives.wrong
    return verdict


def _work(load: Load, rng: random.Random) -> None:
    """Until the moment has come."""
    load.run(rng.random() * rng.choice(MOMENTS_S), rng.choice((0, 1, 50, 200)))
