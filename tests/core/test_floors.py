"""How far tables were taken, and what follows: the rules of mhub.core.floors, one by one."""

from twisted.trial.unittest import SynchronousTestCase

from mhub.core.floors import ONCE, Floors


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.floors = self.make("x", "b", "c")

    def make(self, lineage: str, *names: str) -> Floors:
        floors = Floors()
        floors.begin(lineage)
        for name in names:
            floors.meet(name, 5)
        return floors

    def take_all(self, own: int) -> None:
        for name in self.floors.nodes:
            self.floors.took(name, own)

    def give_all(self, stable: int) -> None:
        for name in self.floors.nodes:
            self.floors.gave(name, stable)


class RoundTests(Case):
    def test_a_node_that_did_not_take_all_tables_cannot_say_how_far_it_is(
        self,
    ) -> None:
        """What it changed before it lost its memory is in the table of another one."""
        self.assertEqual(self.floors.own(100), ONCE)
        self.floors.took("b", 50)
        self.assertEqual(self.floors.own(100), ONCE)
        self.floors.took("c", ONCE)
        self.assertEqual(self.floors.own(100), 100)

    def test_stable_is_what_was_taken_of_all(self) -> None:
        self.assertEqual(self.floors.stable(100), 0)
        self.floors.took("b", 50)
        self.floors.took("c", 70)
        self.assertEqual(self.floors.stable(100), 50)
        self.assertEqual(self.floors.stable(40), 40)

    def test_the_floor_is_what_all_have_taken(self) -> None:
        self.floors.gave("b", 50)
        self.assertFalse(self.floors.rise())
        self.floors.gave("c", 70)
        self.assertTrue(self.floors.rise())
        self.assertEqual(self.floors.floor, 50)
        self.assertFalse(self.floors.rise())

    def test_nothing_goes_back(self) -> None:
        self.take_all(50)
        self.give_all(50)
        self.floors.rise()
        self.take_all(40)
        self.give_all(40)
        self.assertFalse(self.floors.rise())
        self.assertEqual((self.floors.floor, self.floors.stable(90)), (50, 50))
        self.floors.meet("d", 60)
        self.assertFalse(self.floors.rise())
        self.assertEqual(self.floors.floor, 50)

    def test_without_others_there_is_no_floor(self) -> None:
        floors = self.make("x")
        self.assertFalse(floors.rise())

    def test_who_is_not_known_does_not_count(self) -> None:
        self.floors.took("d", 50)
        self.floors.gave("d", 50)
        self.assertEqual(sorted(self.floors.nodes), ["b", "c"])


class KnownTests(Case):
    def test_a_forgotten_node_holds_nothing_up(self) -> None:
        self.floors.gave("b", 50)
        self.floors.forget("c", 60)
        self.assertTrue(self.floors.rise())
        self.assertEqual(self.floors.gone, {"c": 60})

    def test_the_later_word_about_a_node_counts(self) -> None:
        self.floors.forget("c", 60)
        self.assertFalse(self.floors.hear([("c", 59)], [], (), 99))
        self.assertNotIn("c", self.floors.nodes)
        self.assertTrue(self.floors.hear([("c", 61)], [], (), 99))
        self.assertIn("c", self.floors.nodes)
        self.assertFalse(self.floors.hear([], [("c", 61)], (), 99))
        self.assertTrue(self.floors.hear([], [("c", 62)], (), 99))
        self.assertNotIn("c", self.floors.nodes)

    def test_who_is_linked_is_not_forgotten(self) -> None:
        self.assertTrue(self.floors.hear([], [("c", 60)], {"c"}, 70))
        self.assertEqual(self.floors.nodes["c"].met, 70)
        self.assertFalse(self.floors.hear([], [("c", 60)], {"c"}, 80))

    def test_who_comes_back_is_known_again_from_the_start(self) -> None:
        self.take_all(50)
        self.floors.forget("c", 60)
        self.assertTrue(self.floors.meet("c", 70))
        self.assertEqual((self.floors.stable(90), self.floors.gone), (0, {}))


class LineageTests(Case):
    def with_floor(self, lineage: str, floor: int) -> Floors:
        self.floors = self.make(lineage, "b")
        self.take_all(floor)
        self.give_all(floor)
        self.floors.rise()
        return self.floors

    def test_two_become_one_without_floors(self) -> None:
        """What the one deleted the other never had."""
        floors = self.with_floor("y", 50)
        self.assertTrue(floors.merge("x"))
        self.assertEqual((floors.lineage, floors.floor, floors.stable(90)), ("x+y", 0, 0))

    def test_both_sides_come_to_the_same(self) -> None:
        for ours, theirs in (("x", "y"), ("y", "x"), ("x+y", "y+z"), ("y+z", "x+y")):
            floors = self.make(ours)
            floors.merge(theirs)
            expected = "+".join(sorted({*ours.split("+"), *theirs.split("+")}))
            self.assertEqual(floors.lineage, expected)

    def test_fewer_join_more(self) -> None:
        floors = self.with_floor("x", 50)
        for theirs in ("x", ""):
            self.assertFalse(floors.merge(theirs))
            self.assertEqual(floors.floor, 50)
        floors = self.with_floor("x+y", 50)
        self.assertFalse(floors.merge("y"))
        self.assertEqual(floors.floor, 50)
        floors = self.with_floor("y", 50)
        self.assertTrue(floors.merge("x+y"))
        self.assertEqual((floors.lineage, floors.floor), ("x+y", 0))

    def test_of_two_that_forgot_each_other_the_one_forgotten_later_was_away(self) -> None:
        for ours, theirs, yields in ((60, 70, True), (70, 60, False), (60, 0, False)):
            floors = self.with_floor("x", 50)
            floors.gone["z"] = ours
            self.assertEqual(floors.yields("z", theirs, 40), yields)
            self.assertEqual(floors.floor, 0 if yields else 50)
        self.assertFalse(self.with_floor("x", 50).yields("b", 70, 60))  # which it knows

    def test_never_both_give_up_and_never_none(self) -> None:
        for ours, theirs, floor, their_floor in ((0, 0, 50, 51), (9, 9, 51, 50), (1, 2, 60, 50)):
            here, there = self.with_floor("x", floor), self.with_floor("x", their_floor)
            here.gone["there"], there.gone["here"] = ours, theirs
            yielded = [
                here.yields("there", theirs, their_floor),
                there.yields("here", ours, floor),
            ]
            self.assertEqual(sorted(yielded), [False, True])


class NoteTests(Case):
    def test_a_restart_goes_on_where_it_was(self) -> None:
        self.floors.took("b", 50)
        self.give_all(40)
        self.floors.rise()
        self.floors.forget("c", 60)
        again = Floors()
        self.assertEqual(again.recall(self.floors.to_text(1 << 61)), 1 << 61)
        self.assertEqual(again.to_text(7), self.floors.to_text(7))
        self.assertEqual((again.floor, again.nodes["b"].taken), (40, 50))

    def test_what_cannot_be_read(self) -> None:
        for text in ("", "{", "[]", "{}", '{"lineage":"x","floor":"y"}', '{"lineage":1,"nodes":5}'):
            self.assertRaises(ValueError, Floors().recall, text)
