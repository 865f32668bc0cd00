"""A cluster of three nodes under load, from its beginning to the verdict."""

import random
import time
from collections.abc import Callable
from pathlib import Path

from tests.system.cluster_check import ClusterVerdict, judge, judge_retained
from tests.system.cluster_clients import ClusterLoad
from tests.system.cluster_house import PORT, PROXIED_PORT, House
from tests.system.cluster_proxy import Haproxy
from tests.system.cluster_trace import Trace
from tests.system.raw import Address

LOOK_S = 0.1


def seldom(done: Callable[[], bool]) -> Callable[[], bool]:
    """The same question, asked a few times a second: nodes have other things to do."""
    again_at = 0.0

    def look() -> bool:
        nonlocal again_at
        now = time.monotonic()
        if now < again_at:
            return False
        again_at = now + LOOK_S
        return done()

    return look


class Stage:
    """A cluster of three under load."""

    def __init__(
        self,
        directory: Path,
        rng: random.Random,
        seconds: float,
        trace: Trace | None = None,
        is_brief: bool = False,
    ) -> None:
        self.rng = rng
        self.seconds = seconds  # how long each thing lasts
        self.is_brief = is_brief  # what could happen to each node happens to one
        self.trace = trace or Trace()
        self.house = House(directory, self.trace)
        self.load = ClusterLoad(rng, self.doors, self.house.parted, self.trace)
        self.wrong: list[str] = []
        self.said: list[str] = []  # what was measured, for people
        self.proxy: Haproxy | None = None

    def doors(self) -> list[Address]:
        """Where clients may go."""
        if self.proxy is not None:
            return [self.proxy.address]
        return [(self.house.nodes[name].host, PORT) for name in self.house.doors]

    def begin(self) -> None:
        self.house.add("a", "b", "c")
        self._begin()

    def _begin(self) -> None:
        house = self.house
        house.start()
        self.load.calmly_until(seldom(house.whole), "three nodes that see each other")
        self.load.calmly_until(self.load.everybody, "sessions and subscriptions")
        self.work()

    def begin_behind_proxy(self) -> None:
        """The same, with all clients through HAProxy from their first connection on."""
        house = self.house
        house.add("a", "b", "c")
        hosts = {name: node.host for name, node in house.nodes.items()}
        self.proxy = Haproxy(house.directory, hosts, PROXIED_PORT)
        self._begin()

    def victims(self) -> list[str]:
        """Names of nodes to which something happens, in turn."""
        names = list(self.house.nodes)
        return [self.rng.choice(names)] if self.is_brief else names

    def work(self, seconds: float | None = None) -> None:
        """Load, for a while."""
        self.load.run(self.seconds if seconds is None else seconds, acknowledged=20)

    def until_whole(self) -> None:
        """Under load, until all nodes see each other."""
        self.load.run_until(seldom(self.house.whole), "nodes that see each other")

    def until_ended(self, name: str) -> None:
        self.load.run_until(lambda: self.house.ended(name), f"the end of {name}")

    def rest(self) -> None:
        """Each client has one session, nothing waits for a node, and no queue has anything."""
        load, house = self.load, self.house
        load.calmly_until(seldom(house.whole), "nodes that see each other")
        load.calmly_until(load.everybody, "everybody connected")
        load.calmly_until(lambda: all(each.idle for each in load.publishers), "acknowledgements")
        load.calmly_until(
            seldom(lambda: house.at_rest(len(load.clients))),
            "one session for each client, and empty queues between nodes",
        )
        load.drain()
        for subscriber in load.subscribers:
            subscriber.merged()

    def finish(self) -> ClusterVerdict:
        self.rest()
        for subscriber in self.load.subscribers:
            subscriber.look_for_open()
        for name, node in self.house.nodes.items():
            self.wrong += judge_retained(name, (node.host, PORT), self.load.publishers)
        self.load.close()
        self.house.stop()
        return self.judge()

    def judge(self) -> ClusterVerdict:
        verdict = judge(self.load)
        verdict.wrong += self.wrong + self.house.wrong
        return verdict

    def close(self) -> None:
        """Whatever happened."""
        self.load.close()
        if self.proxy is not None:
            self.proxy.close()
        self.house.close()
        self.trace.close()
