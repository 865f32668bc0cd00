"""`/stats`, `/ready` and `/health`: what they say of a hub in each state."""

import json
from dataclasses import asdict
from typing import Any

from mhub.core.events import LIMITS
from mhub.core.metrics import BROKER, CLUSTER, TEXT
from mhub.operations.series import SERIES
from mhub.operations.stats import MOST_RULES, RATES
from tests.core.test_sys import Cluster as SysCluster
from tests.operations.watched import WatchedCase

MEMBER = {
    "node": "b",
    "state": "up",
    "latency_ms": 1.5,
    "queued_messages": 2,
    "queued_bytes": 16,
    "sent": 3,
    "received": 5,
    "dropped": 0,
}


class FakeCluster:
    is_ready = True

    def status(self) -> dict[str, Any]:
        return {"members": [MEMBER | {"node": "c", "latency_ms": None}, MEMBER]}


class StatsTests(WatchedCase):
    def test_numbers(self) -> None:
        self.world.client("a").subscribe("t/#", 1)
        self.world.client("b").publish("t/1", b"12345", 0)
        self.world.wait(60.0)
        found = self.operations.stats()
        self.assertEqual((found.sessions.total, found.sessions.subscriptions), (2, 1))
        self.assertEqual((found.messages.received, found.messages.received_bytes), (1, 5))
        self.assertEqual(set(found.limited), set(LIMITS))
        self.assertEqual([each.name for each in found.listeners], ["mqtt"])
        self.assertEqual([each.name for each in found.access.authenticators], ["registry"])
        self.assertIsNone(found.cluster)
        self.assertEqual((found.state, found.ready, found.uptime_s), ("running", "ready", 60.0))
        self.assertGreater(found.process.resident_bytes, 1 << 20)
        json.dumps(asdict(found))

    def test_rates_also_without_sys(self) -> None:
        self.world.hub.sys.interval_s = 0.0
        client = self.world.client("b")
        for _ in range(60):
            client.publish("t")
        self.world.wait(60.0, 30)
        rates = self.operations.stats().rates
        self.assertEqual(set(rates), set(RATES))
        of = rates["messages_in"]
        self.assertTrue(of.per_s_1min > of.per_s_5min > of.per_s_15min > 0, of)

    def test_rules_that_deny_the_most(self) -> None:
        for number in range(MOST_RULES + 5):
            self.world.stats.denied_by_rule[f"r{number}"] = number
        found = self.operations.stats().access.denied_by_rule
        self.assertEqual(list(found)[:2], ["r54", "r53"])
        self.assertEqual(len(found), MOST_RULES)

    def test_of_a_node(self) -> None:
        SysCluster.join(self)  # type: ignore[arg-type]
        self.around.cluster = FakeCluster()
        found = self.operations.stats().cluster
        assert found is not None
        self.assertEqual((found.node, found.members_up, found.members), ("a", 1, 2))
        self.assertEqual([each.node for each in found.links], ["b", "c"])
        self.assertEqual([each.latency_s for each in found.links], [0.0015, None])

    def test_what_is_read_exists(self) -> None:
        """A name that is not there would be 0 for ever."""
        SysCluster.join(self)  # type: ignore[arg-type]
        numbers = self.operations.numbers()
        asked: set[str] = set()

        class Asked(dict[str, Any]):
            def get(self, name: str, default: Any = None) -> Any:
                asked.add(name)
                return super().get(name, default)

        object.__setattr__(numbers, "values", Asked(numbers.values))
        for series in SERIES:
            series.read(numbers)
        monitor = self.operations.monitor
        monitor.numbers = lambda: numbers  # type: ignore[method-assign]
        self.operations.stats()
        known = {metric.name for metric in (*BROKER, *CLUSTER) if metric.kind != TEXT}
        loads = {name for name in asked if name.startswith("load/")}
        self.assertEqual(asked - known - loads, set())


class ReadyTests(WatchedCase):
    def word(self) -> str:
        found = self.operations.ready()
        self.assertEqual(found.ready, found.state == "ready")
        return found.state

    def test_ready(self) -> None:
        self.assertEqual(self.word(), "ready")
        self.assertEqual(self.operations.health().status, "up")

    def test_what_the_broker_is_doing(self) -> None:
        for state in ("starting", "leaving", "stopping"):
            self.around.state = lambda state=state: state  # type: ignore[misc]
            self.assertEqual(self.word(), state)
        self.assertEqual(self.operations.health().status, "down")

    def test_no_listener(self) -> None:
        self.around.listeners = list  # type: ignore[method-assign]
        self.assertEqual(self.word(), "closed")

    def test_a_store_that_fails(self) -> None:
        self.world.hub.storage.state = "failing: disk full"
        self.assertEqual(self.word(), "store")
        self.assertEqual(self.operations.health().status, "up")

    def test_a_cluster_that_was_not_joined(self) -> None:
        self.around.cluster = FakeCluster()
        self.assertEqual(self.word(), "ready")
        self.around.cluster.is_ready = False
        self.assertEqual(self.word(), "cluster")

    def test_overload(self) -> None:
        for _ in range(2):
            self.world.hub.measure_drift(10.0, self.world.now)
        self.assertEqual(self.word(), "overloaded")
