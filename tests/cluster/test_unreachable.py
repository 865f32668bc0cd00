"""What the log and `mhub ctl cluster status` say of addresses where no node answers."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mhub.cluster.dials import Dial
from mhub.cluster.unreachable import MOST, PERIOD_S, REMIND_S, Unreachable
from tests.cluster.test_service import Case

DEAD_S = 10.0


class WarningTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.unreachable = Unreachable(DEAD_S)
        self.now = 1000.0

    def dial(self, address: str = "b:7883", member: str = "") -> Dial:
        dial = Dial(address, self.now)
        dial.member = member
        dial.failing_since = self.now
        return dial

    def fails(self, dial: Dial, reason: str, after_s: float = 0.0) -> list[str]:
        self.now += after_s
        dial.failures += 1
        dial.reason = reason
        return self.unreachable.failed(dial, self.now)

    def test_when_it_begins_and_not_each_time(self) -> None:
        dial = self.dial()
        self.assertEqual(self.fails(dial, "refused"), ["no link with b:7883: refused"])
        for _ in range(10):
            self.assertEqual(self.fails(dial, "refused", 15.0), [])

    def test_when_the_reason_is_another_one(self) -> None:
        dial = self.dial()
        self.fails(dial, "refused")
        said = self.fails(dial, "the shared secrets differ", 5.0)
        expected = "no link with b:7883: the shared secrets differ (2 attempts in 5 s)"
        self.assertEqual(said, [expected])

    def test_now_and_then_while_it_lasts(self) -> None:
        dial = self.dial()
        self.fails(dial, "refused")
        self.assertEqual(self.fails(dial, "refused", REMIND_S - 1.0), [])
        said = self.fails(dial, "refused", 1.0)
        self.assertEqual(said, ["no link with b:7883: refused (3 attempts in 600 s)"])

    def test_of_a_node_that_was_linked_when_it_is_dead(self) -> None:
        dial = self.dial(member="b")
        self.assertEqual(self.fails(dial, "refused"), [])
        self.assertEqual(self.fails(dial, "refused", DEAD_S - 1.0), [])
        said = self.fails(dial, "refused", 1.0)
        self.assertEqual(said, ["no link with node b at b:7883: refused"])

    def test_anew_when_it_was_reached_meanwhile(self) -> None:
        dial = self.dial()
        self.fails(dial, "refused")
        self.unreachable.forget_others(set())
        self.assertEqual(len(self.fails(dial, "refused", 1.0)), 1)
        self.unreachable.forget_others({dial.address})
        self.assertEqual(self.fails(dial, "refused", 1.0), [])

    def test_a_bounded_number_in_a_minute(self) -> None:
        said: list[str] = []
        for number in range(MOST + 5):
            said += self.fails(self.dial(f"b{number}:7883"), "refused")
        self.assertEqual(len(said), MOST)
        dial = self.dial()
        said = self.fails(dial, "timed out", PERIOD_S)
        self.assertEqual(len(said), 2)
        self.assertIn("5 more warnings about nodes that cannot be reached were left out", said[0])
        for number in range(100):
            said += self.fails(dial, f"reason {number}")
        self.assertEqual(len(said), MOST + 1)


class NodeTests(Case):
    def setUp(self) -> None:
        super().setUp()
        self.warned: list[str] = []
        self.cluster.node.warn = self.warned.append
        self.cluster.node.seeds = ["nobody:7883", "b:7883"]
        self.cluster.node.tick(self.world.now)

    def shown(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.operations.cluster_status()["unreachable"]
        return found

    def test_it_is_shown_until_somebody_answers(self) -> None:
        node = self.cluster.node
        self.assertEqual(self.shown(), [])
        node.dial_failed("nobody:7883", "DNS lookup failed")
        self.world.now += 3.0
        node.tick(self.world.now)
        node.dial_failed("nobody:7883", "DNS lookup failed")
        (said,) = self.shown()
        wait_s = said.pop("next_call_s")
        self.assertTrue(0.7 < wait_s < 1.3, wait_s)
        expected = {
            "address": "nobody:7883",
            "node": "",
            "reason": "DNS lookup failed",
            "since_s": 3.0,
            "attempts": 2,
        }
        self.assertEqual(said, expected)
        self.assertEqual(self.warned, ["no link with nobody:7883: DNS lookup failed"])
        link = self.link("b", dialled="nobody:7883")
        self.assertEqual(self.shown(), [])
        node.tick(self.world.now)
        node.lost(link, "reset")
        self.assertEqual(self.shown(), [])

    def test_an_address_that_is_gone_from_the_list(self) -> None:
        node = self.cluster.node
        node.dial_failed("nobody:7883", "DNS lookup failed")
        node.seeds = ["b:7883"]
        node.tick(self.world.now)
        self.assertEqual(self.shown(), [])

    def test_not_this_node_itself(self) -> None:
        self.cluster.node.dial_failed("b:7883", "the other side says: it is this node itself")
        self.assertEqual((self.shown(), self.warned), ([], []))

    def test_not_a_node_that_has_called_us(self) -> None:
        node = self.cluster.node
        link = self.link("b", address="b:7883")
        node.tick(self.world.now)
        node.dial_failed("b:7883", "refused")
        self.assertEqual((self.shown(), self.warned), ([], []))
        node.lost(link, "reset")
        (said,) = self.shown()
        self.assertEqual((said["node"], said["reason"]), ("b", "refused"))
