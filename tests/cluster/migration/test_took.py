"""Who has a session when DONE is lost: the source asks, and the target remembers."""

from mhub.cluster import frames
from mhub.cluster.migration.source import DOUBT, OFFERED
from tests.cluster.migration.played import Direct, Mark, entry
from tests.cluster.migration.test_source import SourceCase
from tests.cluster.migration.test_target import HELD, SUSPECT_S, TargetCase


class TookTests(TargetCase):
    """Node a has taken the session of client s from node b."""

    def taken(self, durable: bool = False) -> None:
        self.arriving(durable)
        self.b.entries("s", self.epoch(), entry(b"1"))
        self.served = self.epoch()
        self.end("c")
        self.assertTrue(self.present())
        self.b.forget()

    def ask(self, session_id: str = "b/1", instance: str = "a1") -> list[tuple[int, bool]]:
        """The kinds of the answers, and whether UNKNOWN is sure."""
        self.b.say(
            frames.ASK, client="s", epoch=self.served, session_id=session_id, instance=instance
        )
        self.here.settle()
        done = [(frames.DONE, True) for said in self.b.told(frames.DONE)]
        return done + [(frames.UNKNOWN, said["sure"]) for said in self.b.told(frames.UNKNOWN)]

    def test_it_says_done_again_when_it_is_asked(self) -> None:
        self.taken()
        self.b.say(frames.ASK, client="s", epoch=self.served, session_id="b/1", instance="a1")
        (said,) = self.b.told(frames.DONE)
        self.assertEqual((said["client"], said["epoch"]), ("s", self.served))

    def test_also_when_it_is_offered_the_same_again(self) -> None:
        """The source has crashed, and knows nothing of its END."""
        self.taken()
        self.b.session("s", self.epoch(), HELD)
        self.assertEqual(len(self.b.told(frames.DONE)), 1)
        self.assertEqual(self.b.told(frames.REFUSED), [])
        self.assertEqual(self.client.payloads(), [b"1"])

    def test_what_has_the_same_name_but_another_life_is_another_session(self) -> None:
        self.taken()
        self.assertEqual(self.ask("b/2"), [(frames.UNKNOWN, True)])
        self.b.session("s", self.epoch(), HELD, session_id="b/2")
        self.assertEqual(self.b.told(frames.DONE), [])
        self.assertEqual(len(self.b.told(frames.REFUSED)), 1)

    def test_it_remembers_after_a_restart(self) -> None:
        self.taken(durable=True)
        self.restart()
        self.b = self.here.meet("b", ("cs", HELD << 1))
        self.b.forget()
        self.assertEqual(self.ask(), [(frames.DONE, True)])

    def test_it_remembers_though_the_session_has_gone_on(self) -> None:
        self.taken()
        epoch = self.epoch() + 1000
        for far in (self.b, self.c):
            far.confirm_all()
        self.c.claims("s", epoch)
        self.c.accept("s", epoch)
        self.c.say(frames.MORE, client="s", epoch=epoch)
        self.c.done("s", epoch)
        self.assertNotIn("s", self.hub.sessions)
        self.assertEqual(self.ask(), [(frames.DONE, True)])

    def test_until_the_source_has_forgotten_the_session(self) -> None:
        """Its table says so."""
        self.taken(durable=True)
        store = self.here.store
        assert store is not None
        self.assertIn("took/b/s", store.notes)
        self.b.table(("cs", 0))
        self.here.settle()
        self.assertEqual(self.ask(), [(frames.UNKNOWN, True)])
        self.assertNotIn("took/b/s", store.notes)

    def test_also_if_that_was_while_this_node_was_down(self) -> None:
        """Then its table does not name the session at all."""
        self.taken(durable=True)
        store = self.here.store
        assert store is not None
        self.restart()
        self.assertIn("took/b/s", store.notes)
        self.b = self.here.meet("b")
        self.here.settle()
        self.assertNotIn("took/b/s", store.notes)
        self.assertEqual(self.ask(), [(frames.UNKNOWN, True)])

    def test_or_is_forgotten_itself(self) -> None:
        self.taken(durable=True)
        store = self.here.store
        assert store is not None
        self.here.lose(self.b)
        self.here.node.forget("b")
        self.here.settle()
        self.assertNotIn("took/b/s", store.notes)

    def test_what_did_not_arrive_it_does_not_have(self) -> None:
        self.arriving()
        self.served = self.epoch()
        self.b.entries("s", self.served, entry(b"1"))
        self.here.lose(self.b)
        self.b = self.here.meet("b", ("cs", HELD << 1))
        self.b.forget()
        self.assertEqual(self.ask(), [(frames.UNKNOWN, True)])

    def test_without_a_store_another_process_cannot_know(self) -> None:
        self.taken()
        self.b.table(("cs", 0))
        self.assertEqual(self.ask(instance="a0"), [(frames.UNKNOWN, False)])

    def test_with_a_store_it_can(self) -> None:
        self.taken(durable=True)
        self.b.table(("cs", 0))
        self.assertEqual(self.ask(instance="a0"), [(frames.UNKNOWN, True)])

    def test_done_says_nothing_that_a_crash_could_take_back(self) -> None:
        """Asked before all of it is stored, the answer waits as well."""
        self.arriving(durable=True)
        self.b.entries("s", self.epoch(), entry(b"1"))
        self.served = self.epoch()
        self.here.settle()
        self.b.end("s", self.served)
        self.b.say(frames.ASK, client="s", epoch=self.served, session_id="b/1", instance="a1")
        self.assertEqual(self.b.told(frames.DONE), [])
        self.here.settle()
        self.assertEqual(len(self.b.told(frames.DONE)), 2)


class DoubtTests(SourceCase):
    """Node a has said END to node b, and heard nothing."""

    def asked(self) -> list[dict[str, object]]:
        return self.b.told(frames.ASK)

    def doubts(self) -> bool:
        """Whether the store knows that a session may have been given away."""
        store = self.here.store
        assert store is not None
        return any(name.startswith("ended/") for name in store.notes)

    def test_it_asks_with_what_the_target_knows_the_session_by(self) -> None:
        self.offered()
        session_id = self.b.offered()[0]["session_id"]
        self.accept()
        self.more()
        self.here.lose(self.b)
        self.back()
        (said,) = self.asked()
        expected = {
            "client": "s",
            "epoch": self.claimed,
            "session_id": session_id,
            "instance": "b1",
        }
        self.assertEqual(said, expected)

    def test_nobody_else_gets_it_before_the_answer(self) -> None:
        """Another node may claim it meanwhile; it is offered to that one when it is sure."""
        self.doubtful()
        self.c.claims("s", self.claimed + 1000)
        self.here.wait(5.0)
        self.assertEqual((self.state(), self.c.kinds()), (DOUBT, []))
        self.back()
        self.b.unknown("s", self.claimed)
        self.here.settle()
        self.assertEqual(self.state(), OFFERED)
        self.assertEqual(self.c.offered()[0]["epoch"], self.claimed + 1000)

    def test_after_a_restart_neither(self) -> None:
        """END is remembered by the store."""
        self.ended(durable=True)
        self.here.settle()
        self.restart()
        client = self.connect()
        self.assertTrue(self.is_waiting(client))
        self.assertEqual(self.state(), DOUBT)
        self.back()
        (said,) = self.asked()
        self.assertEqual((said["client"], said["epoch"]), ("s", self.claimed))
        self.b.done("s", self.claimed)
        self.here.settle()
        self.assertEqual((self.state(), "s" in self.hub.sessions), ("", False))

    def test_with_the_answer_the_store_forgets_the_doubt(self) -> None:
        """Whatever it was; else the session would be asked for after each restart."""
        for is_taken in (False, True):
            with self.subTest(is_taken=is_taken):
                self.ended(durable=True)
                self.assertTrue(self.doubts())
                self.b.table(("cs", 0))
                if is_taken:
                    self.b.done("s", self.claimed)
                else:
                    self.b.unknown("s", self.claimed)
                self.here.settle()
                self.assertFalse(self.doubts())

    def test_also_if_it_restarts_in_between(self) -> None:
        for is_taken in (False, True):
            with self.subTest(is_taken=is_taken):
                self.ended(durable=True)
                self.restart()
                self.assertTrue(self.doubts())
                self.back()
                if is_taken:
                    self.b.done("s", self.claimed)
                else:
                    self.b.unknown("s", self.claimed)
                self.here.settle()
                self.assertFalse(self.doubts())

    def test_without_an_answer_that_is_sure_the_client_is_told(self) -> None:
        """What was in flight is sent as new: nobody knows whether it was acknowledged."""
        self.doubtful()
        self.back()
        self.b.table(("cs", 0))
        self.b.unknown("s", self.claimed, sure=False)
        client = self.connect()
        self.assertFalse(client.next("CONNACK").session_present)
        self.assertEqual(client.payloads(), [b"1", b"2"])

    def test_a_target_that_is_forgotten_has_nothing(self) -> None:
        """Nobody can be asked any more: the session stays, and its client is told."""
        self.doubtful()
        self.here.node.forget("b")
        self.here.settle()
        client = self.connect()
        self.assertFalse(client.next("CONNACK").session_present)
        self.assertEqual(client.payloads(), [b"1", b"2"])

    def test_what_came_since_the_end_is_not_lost_by_the_doubt(self) -> None:
        """If the target has the session, node c sends it there; if not, it is here."""
        for is_taken in (False, True):
            with self.subTest(is_taken=is_taken):
                self.doubtful()
                self.c.publish(b"behind")
                self.back()
                if is_taken:
                    self.b.done("s", self.claimed)
                    (said,) = self.c.told(frames.CUT)
                    self.assertEqual(said["segments"], [["a", "c1", 0, [], 0, True]])
                    self.assertEqual(self.c.confirmed(), 0)
                else:
                    self.b.table(("cs", 0))
                    self.b.unknown("s", self.claimed)
                    self.assertEqual(self.kept(), [b"1", b"2", b"behind"])

    def marks(self) -> list[Mark]:
        self.here.settle()
        return [each for each in self.b.records() if isinstance(each, Mark)]

    def test_what_was_confirmed_in_the_end_is_a_gap(self) -> None:
        """Node c may have been restarted since: it would not know, and sends nothing again."""
        for is_asked_first in (False, True):
            for restarts in (False, True):
                with self.subTest(restarts=restarts, is_asked_first=is_asked_first):
                    self.doubtful(durable=True)
                    self.c.publish(b"behind")
                    self.here.wait(SUSPECT_S)
                    self.here.settle()
                    self.assertEqual(self.c.confirmed(), 1)
                    if restarts:
                        self.restart()
                    self.back()
                    self.b.forget()
                    if is_asked_first:
                        self.b.cut("s", self.claimed, "b", [], held=self.claimed)
                    self.b.done("s", self.claimed)
                    self.assertEqual(self.marks(), [Mark("s", self.claimed, True)])

    def test_also_if_that_node_has_switched(self) -> None:
        self.doubtful(durable=True)
        self.c.publish(b"behind")
        self.here.wait(SUSPECT_S)
        self.c.switched("s", self.claimed)
        self.back()
        self.b.forget()
        self.b.done("s", self.claimed)
        self.assertEqual(self.marks(), [Mark("s", self.claimed, True)])

    def test_nothing_is_confirmed_before_the_store_knows(self) -> None:
        """After a crash it would not be known that there is a gap."""
        self.doubtful(durable=True)
        self.c.publish(b"behind")
        self.here.settle()
        self.here.wait(SUSPECT_S - 0.25)
        self.here.world.now += 0.25
        self.here.node.tick(self.here.world.now)
        self.hub.flush()
        self.assertEqual(self.c.confirmed(), 0)
        self.here.settle()
        self.assertEqual(self.c.confirmed(), 1)

    def test_without_messages_there_is_no_gap(self) -> None:
        for restarts in (False, True):
            with self.subTest(restarts=restarts):
                self.doubtful(durable=True)
                self.here.wait(SUSPECT_S)
                self.here.settle()
                if restarts:
                    self.restart()
                self.back()
                self.b.forget()
                self.b.done("s", self.claimed)
                self.assertEqual(self.marks(), [Mark("s", self.claimed, False)])

    def test_after_a_restart_what_comes_is_not_confirmed_either(self) -> None:
        """The store knows the positions of the cut."""
        self.ended(durable=True)
        self.here.settle()
        self.restart()
        self.c = self.here.meet("c")
        self.c.publish(b"behind")
        self.here.settle()
        self.assertEqual(self.c.confirmed(), 0)
        self.back()
        self.b.table(("cs", 0))
        self.b.unknown("s", self.claimed)
        self.here.settle()
        self.assertEqual(self.c.confirmed(), 1)
        self.assertEqual(self.kept(), [b"1", b"2", b"behind"])

    def test_what_is_published_here_after_a_restart_is_direct_as_before(self) -> None:
        self.ended(durable=True)
        self.here.settle()
        self.restart()
        self.publish(b"x")
        self.back()
        self.assertIn(Direct("s", self.claimed, b"x"), self.b.records())

    def test_a_crash_between_the_note_and_end_is_a_doubt_as_well(self) -> None:
        """The target says that it has nothing: the session is whole."""
        self.sending(durable=True)
        self.here.settle()
        self.more()
        disk = self.here.disk
        assert disk is not None
        while not self.doubts():
            disk.step()
        self.restart()
        self.assertEqual(self.state(), DOUBT)
        self.back(("cs", 0))
        self.b.unknown("s", self.claimed)
        self.here.settle()
        self.assertEqual(self.kept(), [b"1", b"2"])
