"""A frame or mark of another claim than the one that is served, or of another node, is nothing."""

from typing import Any

from mhub.cluster import frames
from mhub.cluster.frames import with_data
from mhub.cluster.migration.source import CUTTING, DOUBT, ENDED, OFFERED, SENDING
from mhub.cluster.migration.target import ARRIVING, CLAIMING
from tests.cluster.migration.played import PlayedNode, entry
from tests.cluster.migration.test_source import SourceCase
from tests.cluster.migration.test_target import HELD, TargetCase

ANSWERS: dict[int, dict[str, Any]] = {
    frames.ACCEPT: {},
    frames.MORE: {},
    frames.DONE: {"table": 0},
    frames.REFUSED: {"merge": False},
    frames.UNKNOWN: {"sure": True},
}
"""What a target says to its source."""


class SourceFence(SourceCase):
    def reach(self, state: str) -> None:
        getattr(self, {DOUBT: "doubtful"}.get(state, state))()
        if state == DOUBT:
            self.back()
        self.here.settle()
        self.b.forget()
        self.assertEqual(self.state(), state)

    def check(self, far: PlayedNode, epoch: int) -> None:
        state = self.state()
        before = (self.session.frozen, self.session.queued())
        for kind, fields in ANSWERS.items():
            far.say(kind, client="s", epoch=epoch, **fields)
            self.here.settle()
            self.assertEqual(self.state(), state, f"kind {kind}")
            self.assertEqual((self.session.frozen, self.session.queued()), before)
            self.assertEqual(self.b.kinds(), [])
        self.assertIn("s", self.hub.sessions)

    def test_what_is_said_of_an_earlier_claim(self) -> None:
        for state in (OFFERED, SENDING, CUTTING, ENDED, DOUBT):
            with self.subTest(state=state):
                self.reach(state)
                self.check(self.b, self.claimed - 1)

    def test_what_a_node_says_that_has_not_claimed(self) -> None:
        for state in (OFFERED, SENDING, CUTTING, ENDED, DOUBT):
            with self.subTest(state=state):
                self.reach(state)
                self.check(self.c, self.claimed)

    def test_what_is_said_when_all_is_over(self) -> None:
        """The session stays here; an answer that was under way does not end it."""
        self.offered()
        self.b.table(("cs", 0))
        self.b.forget()
        self.check(self.b, self.claimed)

    def test_a_refusal_of_an_earlier_claim_does_not_make_it_late(self) -> None:
        self.offered()
        self.b.refuses("s", self.claimed - 1, merge=True)
        self.c.refuses("s", self.claimed, merge=True)
        self.assertEqual(self.state(), OFFERED)

    def test_a_session_of_another_client_is_another_one(self) -> None:
        self.offered()
        for kind, fields in ANSWERS.items():
            self.b.say(kind, client="other", epoch=self.claimed, **fields)
        self.assertEqual(self.state(), OFFERED)


class TargetFence(TargetCase):
    def say(self, far: PlayedNode, epoch: int) -> None:
        """All that a source says to its target."""
        far.entries("s", epoch, entry(b"wrong"))
        pending = {"client": "s", "epoch": epoch, "node": "c"}
        far.give(frames.PENDING, with_data(b"", **pending))
        far.direct("s", epoch, b"wrong")
        far.end("s", epoch)
        self.here.settle()

    def check(self, far: PlayedNode, epoch: int) -> None:
        for each in (self.b, self.c):
            each.forget()
        self.say(far, epoch)
        self.assertEqual(self.step(), ARRIVING)
        self.assertEqual((self.b.kinds(), self.c.kinds()), ([], []))
        self.b.entries("s", self.epoch(), entry(b"1"))
        self.end()
        self.assertTrue(self.present())
        self.assertEqual(self.client.payloads(), [b"1"])

    def test_what_is_given_to_an_earlier_claim(self) -> None:
        self.arriving()
        self.check(self.b, self.epoch() - 1)

    def test_what_a_node_gives_that_was_not_accepted(self) -> None:
        self.arriving()
        self.check(self.c, self.epoch())

    def test_what_was_under_way_when_it_began_again(self) -> None:
        """The link broke, and the source offers the session again: the rest of before is old."""
        self.arriving()
        before = self.epoch()
        self.here.lose(self.b)
        self.b = self.here.meet("b", ("cs", HELD << 1))
        self.b.session("s", self.epoch(), HELD)
        self.check(self.b, before)

    def test_an_offer_to_an_earlier_claim(self) -> None:
        self.claiming()
        self.b.session("s", self.epoch() - 1, HELD)
        self.assertEqual((self.step(), self.b.kinds()), (CLAIMING, []))

    def test_a_mark_for_an_earlier_claim_opens_nothing(self) -> None:
        self.opening()
        self.c.marks("s", self.epoch() - 1)
        self.assertTrue(self.is_waiting(self.client))

    def test_nor_does_one_that_comes_while_it_arrives(self) -> None:
        """A node is asked for it when all is here."""
        self.arriving()
        self.c.marks("s", self.epoch() - 1)
        self.c.closes("s", self.epoch() - 1)
        self.end("c")
        self.assertTrue(self.present())
        self.c.publish(b"1")
        self.assertEqual(self.client.payloads(), [])
