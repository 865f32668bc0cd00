"""Rounds of the registry: two nodes by hand, and thousands of histories by chance."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mhub.cluster import frames
from mhub.core.replicated import BUCKETS
from tests.cluster.far import Far, Here
from tests.cluster.registry_walk import Walk

LATER = 1 << 61
"""A timestamp that is later than any of node a."""

WALKS: tuple[dict[str, Any], ...] = (
    {},
    {"joins": True},
    {"durable": False},
    {"forgets": "time"},
    {"forgets": "word"},
    {"forgets": "word", "durable": False},
    {"forgets": "word", "names": "ab"},
    {"forgets": "word", "names": "abcd"},
    {"forgets": "time", "joins": True, "tombstone_s": 100.0},
)


class WalkTests(SynchronousTestCase):
    def test_whatever_happens(self) -> None:
        totals = {"collected": 0, "refused": 0, "merged": 0}
        for options in WALKS:
            for seed in range(25):
                walk = Walk(seed, **options)
                walk.run(300)
                wrong = walk.settle()
                text = "\n".join([f"seed {seed}, {options}:", *walk.history])
                self.assertEqual(wrong, [], text)
                totals["merged"] += walk.merged
                for side in walk.sides.values():
                    totals["collected"] += side.registry.collected
                    totals["refused"] += side.registry.refused
        # It would prove little if nothing of it had happened.
        self.assertGreater(totals["collected"], 500, totals)
        self.assertGreater(totals["refused"], 20, totals)
        self.assertGreater(totals["merged"], 5, totals)


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.here = Here()
        self.registry = self.here.world.hub.registry

    def change(self, **values: str | None) -> int:
        """At node a; the version."""
        self.registry.change(dict(values), self.here.world.now)
        self.here.world.hub.flush()
        return self.registry.top

    def keys(self) -> list[str]:
        return [entry.key for entry in self.registry.items("")]

    def begin(self, far: Far, nodes: Any = (), **fields: Any) -> None:
        """Node b, which knows us and others, begins a round."""
        said: dict[str, Any] = {"round": 1, "lineage": "", "own": 1, "floor": 0, "top": 0}
        said |= {"yours": 0, "forgot": 0, "linked": [], "gone": [], "digests": []}
        far.say(frames.REGISTRY_DIGESTS, nodes=[["a", 5], *nodes], **(said | fields))

    def differ(self, *buckets: int) -> list[int]:
        ours = list(self.registry.digests or [])
        return [each ^ 1 if bucket in buckets else each for bucket, each in enumerate(ours)]


class BeginTests(Case):
    def test_a_link_begins_with_a_round(self) -> None:
        self.change(a="1")
        (said,) = self.here.link().told(frames.REGISTRY_DIGESTS)
        self.assertEqual(said["lineage"], self.registry.floors.lineage)
        self.assertEqual(said["top"], self.registry.top)
        self.assertEqual(len([each for each in said["digests"] if each]), 1)

    def test_an_empty_table_says_little(self) -> None:
        (said,) = self.here.link().told(frames.REGISTRY_DIGESTS)
        self.assertEqual((said["lineage"], said["digests"], said["own"]), ("", [], 1))

    def test_a_node_is_ready_when_both_have_taken_all(self) -> None:
        far = self.here.link()
        far.say(frames.TABLE, at=-2, to=0, number=0, set=[])
        far.say(frames.DIGESTS, digests=self.here.world.hub.retained.digests)
        self.here.node.tick(self.here.world.now)
        self.assertEqual((self.here.state(), self.here.node.ready()), ("up", False))
        self.begin(far)
        self.assertFalse(self.here.node.ready())
        far.say(frames.REGISTRY_TAKEN, round=1, safe=False)
        self.assertTrue(self.here.node.ready())

    def test_an_empty_table_takes_the_lineage_of_the_other(self) -> None:
        far = self.here.link()
        self.begin(far, lineage="x", digests=[1] + [0] * (BUCKETS - 1))
        self.assertEqual(self.registry.floors.lineage, "x")
        self.assertEqual(list(self.registry.floors.nodes), ["b"])

    def test_no_lineage_where_nothing_was_ever_changed(self) -> None:
        far = self.here.link()
        self.begin(far)
        self.assertEqual((self.registry.floors.lineage, self.registry.floors.nodes), ("", {}))

    def test_the_first_change_begins_a_round(self) -> None:
        far = self.here.link()
        far.took(frames.REGISTRY_DIGESTS)
        self.change(a="1")
        self.change(b="1")
        (said,) = far.told(frames.REGISTRY_DIGESTS)
        self.assertTrue(said["lineage"])
        self.assertEqual(len(far.took(frames.PUBLISHES)), 2)

    def test_another_revision_begins_a_round(self) -> None:
        far = self.here.link()
        self.begin(far)
        far.say(frames.REGISTRY_TAKEN, round=1, safe=True)
        far.took(frames.REGISTRY_DIGESTS)
        rounds, hub = self.here.node.rounds, self.here.world.hub
        far.say(frames.PING, at=0, registry=self.registry.revision)
        rounds.tick(hub.now + 100.0)
        self.assertEqual(far.took(frames.REGISTRY_DIGESTS), [])
        self.here.world.now += 101.0
        far.say(frames.PING, at=0, registry="7-7")
        rounds.tick(hub.now)
        rounds.tick(hub.now + 1.0)
        self.assertEqual(len(far.took(frames.REGISTRY_DIGESTS)), 1)


class TakingTests(Case):
    def test_what_is_newer_is_taken_then_confirmed(self) -> None:
        version = self.change(a="1", b="1")
        far = self.here.link()
        self.begin(far, lineage=self.registry.floors.lineage, own=LATER, digests=[7] * BUCKETS)
        while asked := far.told(frames.REGISTRY_HAVE):
            self.assertEqual((len(asked), far.took(frames.REGISTRY_TAKEN)), (1, []))
            entries = [["a", version + 1, "2"], ["b", version - 1, "2"], ["c", 5, "2"]]
            far.say(frames.REGISTRY_ENTRIES, set=entries)
            far.say(frames.REGISTRY_FILLED)
        found = {each.key: each.value for each in self.registry.items("")}
        self.assertEqual(found, {"a": "2", "b": "1", "c": "2"})
        self.assertEqual(far.told(frames.REGISTRY_TAKEN), [{"round": 1, "safe": True}])
        self.assertEqual(self.registry.floors.nodes["b"].taken, LATER)

    def test_a_round_that_begins_amid_another_is_confirmed_alone(self) -> None:
        self.change(a="1")
        far = self.here.link()
        lineage = self.registry.floors.lineage
        self.begin(far, lineage=lineage, own=LATER, digests=self.differ(1, 2, 3, 4, 5))
        self.begin(far, round=2, lineage=lineage, own=LATER + 7, digests=self.differ(9))
        self.assertEqual(len(far.told(frames.REGISTRY_HAVE)), 1)
        far.say(frames.REGISTRY_FILLED)
        self.assertEqual([each["buckets"] for each in far.told(frames.REGISTRY_HAVE)], [[9]])
        self.assertEqual(far.took(frames.REGISTRY_TAKEN), [])
        far.say(frames.REGISTRY_FILLED)
        self.assertEqual(far.told(frames.REGISTRY_TAKEN), [{"round": 2, "safe": True}])
        self.assertEqual(self.registry.floors.nodes["b"].taken, LATER + 7)

    def test_what_was_deleted_is_to_be_dropped(self) -> None:
        self.change(a="1")
        self.registry.floors.floor = LATER
        far = self.here.link()
        far.say(frames.REGISTRY_ENTRIES, set=[["b", LATER, "1"], ["c", LATER + 1, "1"]])
        self.assertEqual(self.keys(), ["a", "c"])
        (said,) = far.told(frames.REGISTRY_DROP)
        expected = {"lineage": self.registry.floors.lineage, "keys": [["b", LATER]]}
        self.assertEqual(said, expected)

    def test_what_others_have_forgotten_is_dropped(self) -> None:
        version = self.change(a="1", b="1")
        far = self.here.link()
        lineage = self.registry.floors.lineage
        far.say(frames.REGISTRY_DROP, lineage="another", keys=[["a", version]])
        self.assertEqual(self.keys(), ["a", "b"])
        far.say(frames.REGISTRY_DROP, lineage=lineage, keys=[["a", version], ["b", version - 1]])
        self.assertEqual(self.keys(), ["b"])

    def test_equal_versions_with_other_values_are_noticed(self) -> None:
        version = self.change(a="1")
        far = self.here.link()
        known = [["a", version, 5]]
        far.say(frames.REGISTRY_HAVE, buckets=list(range(BUCKETS)), known=known, left=0)
        (said,) = far.told(frames.REGISTRY_ENTRIES)
        self.assertEqual(said, {"set": [["a", version, "1"]]})


class FloorTests(Case):
    """A tombstone goes when every known node has it, and not before."""

    def round(self, far: Far) -> None:
        """Both have all of each other, twice: the first time they cannot say how far."""
        for _ in range(2):
            far.took(frames.REGISTRY_DIGESTS)
            self.here.node.rounds.begin_all()
            (said,) = far.told(frames.REGISTRY_DIGESTS)
            lineage = self.registry.floors.lineage
            digests = list(self.registry.digests or [])
            self.begin(far, round=9, lineage=lineage, own=said["own"] + 1, digests=digests)
            far.say(frames.REGISTRY_TAKEN, round=said["round"], safe=True)

    def test_it_goes(self) -> None:
        self.registry.tombstone_s = 0.0
        far = self.here.link()
        self.change(a="1")
        self.change(a=None)
        self.assertEqual(len(self.registry.tombstones), 1)
        before = self.registry.revision
        self.round(far)
        self.round(far)
        self.assertEqual((self.registry.tombstones, self.registry.revision), ({}, before))
        self.assertEqual(self.registry.collected, 1)

    def test_not_before_it_is_old_enough(self) -> None:
        far = self.here.link()
        self.change(a="1")
        self.change(a=None)
        self.round(far)
        self.round(far)
        self.assertEqual(len(self.registry.tombstones), 1)
        self.registry.collect(self.here.world.now + 90_000.0)
        self.assertEqual(len(self.registry.tombstones), 0)

    def test_not_while_another_known_node_does_not_have_it(self) -> None:
        self.registry.tombstone_s = 0.0
        far = self.here.link()
        self.change(a="1")
        self.change(a=None)
        digests = list(self.registry.digests or [])
        lineage = self.registry.floors.lineage
        self.begin(far, lineage=lineage, nodes=[["c", 5]], digests=digests)
        self.round(far)
        self.round(far)
        self.assertEqual(len(self.registry.tombstones), 1)
        self.here.node.forget("c")
        self.round(far)
        self.round(far)
        self.assertEqual(len(self.registry.tombstones), 0)

    def test_an_unsafe_confirmation_is_none(self) -> None:
        self.registry.tombstone_s = 0.0
        far = self.here.link()
        self.change(a="1")
        self.round(far)
        given = self.registry.floors.nodes["b"].given
        self.here.node.rounds.begin_all()
        (said,) = far.told(frames.REGISTRY_DIGESTS)
        far.say(frames.REGISTRY_TAKEN, round=said["round"], safe=False)
        self.assertEqual(self.registry.floors.nodes["b"].given, given)


class AbsenceTests(Case):
    """Who was away for long is forgotten where most of the nodes are, and nowhere else."""

    def pass_time(self) -> None:
        node = self.here.node
        node.settings.forget_s = 100.0
        for seconds in (0.0, 50.0, 99.0, 112.0):
            for far in list(node.links):
                node.members[far.name].received_at = self.here.world.now + seconds  # type: ignore[attr-defined]
            node.hub.now = self.here.world.now + seconds
            node.rounds.tick(node.hub.now)

    def know(self, *names: str) -> Far:
        far = self.here.link()
        self.change(a="1")
        nodes = [[name, 5] for name in names]
        self.begin(far, lineage=self.registry.floors.lineage, nodes=nodes)
        return far

    def test_two_of_three_forget_the_third(self) -> None:
        self.know("c")
        self.pass_time()
        self.assertEqual(list(self.registry.floors.nodes), ["b"])
        self.assertEqual(list(self.registry.floors.gone), ["c"])

    def test_two_of_four_forget_nobody(self) -> None:
        self.know("c", "d")
        self.pass_time()
        self.assertEqual(sorted(self.registry.floors.nodes), ["b", "c", "d"])

    def test_one_of_two_does_not_forget_the_other(self) -> None:
        far = self.know()
        self.here.node.lost(far, "gone")
        self.pass_time()
        self.assertEqual(sorted(self.registry.floors.nodes), ["b"])
        self.assertIsNotNone(self.here.node.forget("b"))
        self.assertIsNone(self.here.node.forget("b"))
        self.assertEqual(sorted(self.registry.floors.nodes), [])

    def test_who_was_forgotten_elsewhere_is_forgotten_here(self) -> None:
        far = self.know("c")
        self.begin(far, lineage=self.registry.floors.lineage, gone=[["c", 6], ["a", 7]])
        self.assertEqual(list(self.registry.floors.nodes), ["b"])
        self.begin(far, lineage=self.registry.floors.lineage, nodes=[["c", 5]])
        self.assertEqual(list(self.registry.floors.nodes), ["b"])
        self.begin(far, lineage=self.registry.floors.lineage, nodes=[["c", 8]])
        self.assertEqual(list(self.registry.floors.nodes), ["b", "c"])
