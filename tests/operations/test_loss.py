"""What the loss of a node would mean."""

from typing import Any

import msgspec
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mhub.operations import loss
from mhub.operations.cluster_results import Holdings, NodeLoss, NodeReport
from mhub.operations.slices import Slices
from tests.core.world import World
from tests.operations.around import Around, Pauses


def member(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "node": name,
        "host": "",
        "state": "up",
        "address": f"{name}:7883",
        "version": "0",
        "latency_ms": 0.5,
        "queued_messages": 0,
        "queued_bytes": 0,
        "routes": 1,
        "clients": 2,
        "since_s": 1.0,
        "sent": 0,
        "received": 0,
        "dropped": 0,
        "dropped_qos0": 0,
        "dropped_full": 0,
        "refused": 0,
        "sessions": {},
        "held_s": None,
        "calls_failed": 0,
        "call_error": "",
        "next_call_s": None,
        "revision": "",
        "takeover": False,
        "note": "",
        **changes,
    }


def report(name: str, members: list[dict[str, Any]], has: Holdings) -> NodeReport:
    state = {
        "cluster": "plant",
        "node": name,
        "version": "0",
        "protocol": 3,
        "ready": True,
        "leaving": False,
        "address": f"{name}:7883",
        "routes": 0,
        "clients": 0,
        "refused": 0,
        "sessions": {},
        "registry": {
            "revision": "",
            "entries": 0,
            "tombstones": 0,
            "collected": 0,
            "refused": 0,
            "known": [],
            "behind": [],
        },
        "members": members,
        "strangers": {},
        "unreachable": [],
    }
    return msgspec.convert({"state": state, "holdings": vars(has)}, NodeReport)


class LossTests(SynchronousTestCase):
    def losses(self, reports: list[NodeReport], missing: tuple[str, ...]) -> dict[str, NodeLoss]:
        by_node = {each.state.node: each for each in reports}
        view = loss.view(reports[0].state.node, by_node, missing)
        self.assertEqual(view.missing, missing)
        return {each.node: each for each in view.losses}

    def test_sessions_are_kept_lost_or_taken_over(self) -> None:
        found = self.losses(
            [
                report(
                    "a", [member("b"), member("c", takeover=True)], Holdings(1, 2, 30, "sqlite")
                ),
                report("b", [member("a"), member("c")], Holdings(3, 1, 0, "memory")),
                report("c", [member("a"), member("b")], Holdings(0, 5, 0, "redis")),
            ],
            (),
        )
        fates = {name: each.fate for name, each in found.items()}
        self.assertEqual(fates, {"a": loss.KEPT, "b": loss.LOST, "c": loss.TAKEN_OVER})
        self.assertEqual((found["a"].connected, found["a"].sessions), (1, 2))
        self.assertEqual(found["a"].queued_bytes, 30)
        self.assertTrue(found["a"].text.startswith("1 client would have to connect"))
        self.assertIn("1 session would be lost", found["b"].text)

    def test_a_node_that_does_not_answer(self) -> None:
        away = member("b", state="dead", clients=7, queued_messages=4)
        found = self.losses([report("a", [away], Holdings(0, 0, 0, "sqlite"))], ("b",))
        self.assertEqual((found["b"].is_known, found["b"].sessions), (False, 7))
        self.assertIn("dead", found["b"].text)
        self.assertIn("4 messages wait for it", found["b"].text)
        away = member("b", state="dead", clients=1, queued_messages=1)
        found = self.losses([report("a", [away], Holdings(0, 0, 0, "sqlite"))], ("b",))
        text = "it is dead; 1 session was there; 1 message waits for it here"
        self.assertEqual(found["b"].text, text)

    def test_what_a_node_has(self) -> None:
        world = World()
        world.client("a")
        world.client("b", clean=False)
        world.client("c", clean=False).lose()
        slices = Slices(lambda: world.now, Pauses())
        found = self.successResultOf(
            Deferred.fromCoroutine(loss.holdings(world.hub, Around(world.hub), slices))
        )
        self.assertEqual((found.connected, found.lasting, found.store), (2, 2, "memory"))
