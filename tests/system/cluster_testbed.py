"""A cluster of three nodes under load, from its beginning to the verdict."""

import random
import time
from collections.abc import Callable
from pathlib import Path

from tests.system.cluster_check import ClusterVerdict, judge, judge_retained, missing
from tests.system.cluster_clients import ClusterLoad
from tests.system.cluster_processes import PORT, PROXIED_PORT, QUICK, SQLITE, ClusterProcesses
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


class Testbed:
    """A cluster of three under load."""

    def __init__(
        self,
        directory: Path,
        rng: random.Random,
        seconds: float,
        trace: Trace | None = None,
        is_brief: bool = False,
        store: str = SQLITE,
        timing: str = QUICK,
        version: int = 4,
        moves: int = 0,
    ) -> None:
        self.rng = rng
        self.seconds = seconds  # how long each thing lasts
        self.is_brief = is_brief  # what could happen to each node happens to one
        self.moves = moves  # how often a client that roams goes to another node
        self.trace = trace or Trace()
        self.cluster = ClusterProcesses(directory, self.trace, store, timing)
        self.load = ClusterLoad(
            rng, self.addresses, lambda: self.cluster.is_split, self.trace, version
        )
        self.nothing_failed = False  # then the checks are stricter
        self.wrong: list[str] = []
        self.said: list[str] = []  # what was measured, for people
        self.proxy: Haproxy | None = None

    def addresses(self) -> list[Address]:
        """Where clients may go."""
        if self.proxy is not None:
            return [self.proxy.address]
        return [(self.cluster.nodes[name].host, PORT) for name in self.cluster.open_nodes]

    def begin(self) -> None:
        """Nodes that see each other, and clients that are connected and have subscribed."""
        self.cluster.start()
        self.load.calmly_until(seldom(self.cluster.whole), "three nodes that see each other")
        self.load.calmly_until(self.load.everybody, "sessions and subscriptions")
        self.work()

    def add_proxy(self) -> None:
        """All clients go through HAProxy, from their first connection on."""
        hosts = {name: node.host for name, node in self.cluster.nodes.items()}
        self.proxy = Haproxy(self.cluster.directory, hosts, PROXIED_PORT)

    def victims(self) -> list[str]:
        """Names of nodes to which something happens, in turn."""
        names = list(self.cluster.nodes)
        return [self.rng.choice(names)] if self.is_brief else names

    def work(self, seconds: float | None = None) -> None:
        """Load, for a while."""
        self.load.run(self.seconds if seconds is None else seconds, acknowledged=20)

    def until_whole(self) -> None:
        """Under load, until all nodes see each other."""
        self.load.run_until(seldom(self.cluster.whole), "nodes that see each other")

    def until_ended(self, name: str) -> None:
        self.load.run_until(lambda: self.cluster.ended(name), f"the end of {name}")

    def rest(self) -> None:
        """Each client has one session, nothing waits for a node, and no queue has anything."""
        load, cluster = self.load, self.cluster
        load.calmly_until(seldom(cluster.whole), "nodes that see each other")
        load.end_exemptions()
        load.calmly_until(load.everybody, "everybody connected")
        load.calmly_until(lambda: all(each.idle for each in load.publishers), "acknowledgements")
        # A link may have broken since: what was retained then is in no queue for the other side.
        load.calmly_until(
            seldom(lambda: cluster.whole() and cluster.at_rest(len(load.clients))),
            "one session for each client, and empty queues between nodes that see each other",
        )
        load.drain()
        load.settle(seldom(lambda: not self._missing()))
        load.be_heard()

    def _missing(self) -> bool:
        """Whether anything has to come yet."""
        return any(
            missing(publisher, subscriber)
            for publisher in (*self.load.publishers, self.load.last)
            for subscriber in self.load.subscribers
            if subscriber.wants(publisher.name)
        )

    def finish(self) -> ClusterVerdict:
        self.rest()
        for subscriber in self.load.subscribers:
            subscriber.look_for_open()
        for name, node in self.cluster.nodes.items():
            self.wrong += judge_retained(name, (node.host, PORT), self.load.publishers)
        self.load.close()
        self.cluster.stop()
        return self.judge()

    def judge(self) -> ClusterVerdict:
        verdict = judge(self.load, self.nothing_failed)
        verdict.wrong += self.wrong + self.cluster.wrong
        return verdict

    def close(self) -> None:
        """Whatever happened."""
        self.load.close()
        if self.proxy is not None:
            self.proxy.close()
        self.cluster.close()
        self.trace.close()
