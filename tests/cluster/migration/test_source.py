"""The node that has a session: it gives all of it away, or keeps all of it."""

from typing import Any

from mhub.cluster import frames
from mhub.cluster.migration import queues
from mhub.cluster.migration.source import (
    CUTTING,
    DOUBT,
    ENDED,
    IDLE,
    MERGING,
    OFFERED,
    SENDING,
    TABLE,
    Source,
)
from mhub.cluster.migration.target import ARRIVING
from mhub.core.session import Session, Will
from tests.cluster.migration.played import Case, Close, Direct, Mark, Relay, entry, message_of
from tests.cluster.migration.rows import RowCase, Table
from tests.cluster.simulation import node_of
from tests.cluster.test_node import Case as ClusterCase
from tests.core.world import Client
from tests.helpers import packets as p

SUSPECT_S = 3.0


class SourceCase(Case):
    """Node a has the session of client s, with two messages; node b claims it."""

    session: Session
    claimed: int

    def idle(self, *payloads: bytes, durable: bool = False) -> None:
        self.begin("bc", durable)
        self.session = self.sleeper()
        self.publish(*(payloads or (b"1", b"2")))
        self.claimed = self.session.epoch + 1000

    def offered(self, *payloads: bytes, durable: bool = False) -> None:
        self.idle(*payloads, durable=durable)
        self.b.claims("s", self.claimed)
        self.assertEqual(self.state(), OFFERED)

    def sending(self, *payloads: bytes, durable: bool = False) -> None:
        self.offered(*payloads, durable=durable)
        self.accept()
        self.assertEqual(self.state(), SENDING)

    def cutting(self, durable: bool = False) -> None:
        """A message has come since SESSION: it goes out behind the cut."""
        self.sending(durable=durable)
        self.here.settle()
        self.c.publish(b"3")
        self.here.settle()
        self.assertEqual(self.b.payloads(), [b"1", b"2"])
        self.more()
        self.assertEqual(self.state(), CUTTING)

    def ended(self, durable: bool = False) -> None:
        self.sending(durable=durable)
        self.here.settle()
        self.more()
        self.here.settle()
        self.assertEqual(self.state(), ENDED)

    def doubtful(self, durable: bool = False) -> None:
        self.ended(durable)
        self.here.lose(self.b)
        self.assertEqual(self.state(), DOUBT)

    def leaving(self, durable: bool = False) -> None:
        """Node b has a newer session, which node c does not know of."""
        self.offered(durable=durable)
        self.b.forget()
        self.refuse(merge=True)
        self.assertEqual(self.state_of_merging(), MERGING)

    def state_of_merging(self) -> str:
        """That of the older session, which is not the client's any more."""
        found = self.migration.sources.get(self.session)
        return found.state if found is not None else ""

    def accept(self) -> None:
        self.b.accept("s", self.claimed)

    def more(self) -> None:
        self.b.say(frames.MORE, client="s", epoch=self.claimed)

    def done(self) -> None:
        self.b.done("s", self.claimed)
        self.here.settle()

    def refuse(self, merge: bool) -> None:
        self.b.refuses("s", self.claimed, merge)

    def back(self, *table: tuple[str, int]) -> None:
        """Node b is linked again, and has what it had."""
        self.b = self.here.meet("b", *(table or (("cs", self.claimed << 1 | 1),)))

    def kept(self) -> list[bytes]:
        """What a client gets that finds its session here."""
        self.b.table(("cs", 0))
        client = self.connect()
        self.assertTrue(client.next("CONNACK").session_present)
        return client.payloads()


class RowTests(SourceCase, RowCase):
    table = TABLE

    def machine(self) -> Source | None:
        found = self.migration.sources.get(self.session)
        assert found is None or isinstance(found, Source)
        return found

    def table_of_machine(self) -> Table:
        return TABLE

    def test_every_row_has_a_scenario_that_needs_it(self) -> None:
        self.check_rows(set())

    def test_row_idle_ready(self) -> None:
        """The owner cannot be reached; as soon as it can, the session is offered to it."""
        self.idle()
        self.b.claims("s", self.claimed)
        self.here.lose(self.b)
        with self.row(IDLE, "ready"):
            self.back()
        said, stored = self.b.offered()
        self.assertEqual((said["client"], said["epoch"]), ("s", self.claimed))
        self.assertEqual([each.name for each in stored.subscriptions], ["t"])

    def test_row_idle_merge(self) -> None:
        """A newer session comes to the node that has the older one: its messages join that."""
        self.idle()
        held = self.claimed
        self.b.claims("s", held, False)
        self.here.lose(self.b)
        client = self.connect()
        self.back(("cs", held << 1))
        epoch = self.epoch()
        self.b.session("s", epoch, held)
        self.b.entries("s", epoch, entry(b"3"))
        with self.row(IDLE, "merge"):
            self.b.end("s", epoch)
        self.assertTrue(client.next("CONNACK").session_present)
        self.assertEqual(client.payloads(), [b"3", b"1", b"2"])

    def test_row_offered_accepted(self) -> None:
        """The first entries go out."""
        self.offered()
        with self.row(OFFERED, "accepted"):
            self.accept()
        self.assertEqual(self.b.payloads(), [b"1", b"2"])

    def test_row_offered_merge(self) -> None:
        """The target has a newer session: entries go into the channel, and nobody answers."""
        self.offered()
        self.b.forget()
        with self.row(OFFERED, "merge"):
            self.refuse(merge=True)
        self.assertEqual(self.b.records(), [Relay("s", [b"1", b"2"])])
        self.assertNotIn("s", self.hub.sessions)

    def test_row_offered_done(self) -> None:
        """The target had all of it already, when a DONE was lost."""
        self.offered()
        self.b.forget()
        with self.row(OFFERED, "done"):
            self.done()
        self.assertNotIn("s", self.hub.sessions)
        self.assertEqual(self.b.records(), [Mark("s", self.claimed)])

    def test_row_offered_refused(self) -> None:
        """The client has begun with a clean start: nothing of it is wanted."""
        self.offered()
        self.b.forget()
        with self.row(OFFERED, "refused"):
            self.refuse(merge=False)
        self.assertNotIn("s", self.hub.sessions)
        self.assertEqual(self.b.records(), [])

    def test_row_offered_lost(self) -> None:
        self.offered()
        with self.row(OFFERED, "lost"):
            self.here.lose(self.b)
        self.assertFalse(self.session.frozen)

    def test_row_offered_superseded(self) -> None:
        """The target withdraws its claim: the session stays, and is whole."""
        self.offered()
        with self.row(OFFERED, "superseded"):
            self.b.table(("cs", 0))
        self.assertEqual(self.kept(), [b"1", b"2"])

    def test_row_sending_more(self) -> None:
        """The next entries go out when the target wants them, and not before."""
        self.patch(queues, "MOST", 1)
        self.sending()
        self.assertEqual(self.b.payloads(), [b"1"])
        self.here.wait(1.0)
        self.assertEqual(self.b.payloads(), [])
        with self.row(SENDING, "more"):
            self.more()
        self.assertEqual(self.b.payloads(), [b"2"])

    def test_row_sending_loaded(self) -> None:
        """Entries that the store has are asked of it, and given when it answers."""
        self.sending(durable=True)
        self.assertEqual(self.b.payloads(), [])
        with self.row(SENDING, "loaded"):
            self.here.settle()
        self.assertEqual(self.b.payloads(), [b"1", b"2"])

    def test_row_sending_caught_up(self) -> None:
        """All that was there at ACCEPT is given; what has come since is the rest."""
        self.sending()
        self.c.publish(b"3")
        self.b.payloads()
        with self.row(SENDING, "caught_up"):
            self.more()
        self.assertEqual(self.b.payloads(), [b"3"])

    def test_row_sending_lost(self) -> None:
        self.sending()
        with self.row(SENDING, "lost"):
            self.here.lose(self.b)
        self.assertFalse(self.session.frozen)

    def test_row_sending_superseded(self) -> None:
        """The target has no claim any more: it all stays."""
        self.sending()
        with self.row(SENDING, "superseded"):
            self.b.table(("cs", 0))
        self.assertEqual(self.kept(), [b"1", b"2"])

    def test_row_cutting_more(self) -> None:
        """The rest goes out in portions, too."""
        self.patch(queues, "MOST", 2)
        self.sending()
        self.c.publish(b"3", b"4", b"5")
        self.b.payloads()
        self.more()
        self.assertEqual(self.b.payloads(), [b"3", b"4"])
        with self.row(CUTTING, "more"):
            self.more()
        self.assertEqual(self.b.payloads(), [b"5"])

    def test_row_cutting_loaded(self) -> None:
        self.cutting(durable=True)
        self.assertEqual(self.b.payloads(), [])
        with self.row(CUTTING, "loaded"):
            self.here.settle()
        self.assertEqual(self.b.payloads(), [b"3"])

    def test_row_cutting_all(self) -> None:
        """END comes behind all entries."""
        self.cutting()
        self.assertEqual(self.b.payloads(), [b"3"])
        self.assertEqual(self.b.told(frames.END), [])
        with self.row(CUTTING, "all"):
            self.more()
        self.assertEqual(len(self.b.told(frames.END)), 1)

    def test_row_cutting_lost(self) -> None:
        self.cutting()
        with self.row(CUTTING, "lost"):
            self.here.lose(self.b)
        self.assertFalse(self.session.frozen)

    def test_row_cutting_superseded(self) -> None:
        self.cutting()
        with self.row(CUTTING, "superseded"):
            self.b.table(("cs", 0))
        self.assertEqual(self.kept(), [b"1", b"2", b"3"])

    def test_row_ended_done(self) -> None:
        """The session is forgotten, in the store as well."""
        self.ended(durable=True)
        with self.row(ENDED, "done"):
            self.done()
        for far in (self.b, self.c):
            far.confirm_all()
        self.here.settle()
        self.assertNotIn("s", self.hub.sessions)
        self.assertEqual(self.here.store.deliveries if self.here.store else None, {})

    def test_row_ended_lost(self) -> None:
        """Nobody else gets it now, and nobody is let in here."""
        self.ended()
        with self.row(ENDED, "lost"):
            self.here.lose(self.b)
        self.assertTrue(self.session.frozen)

    def test_row_ended_superseded(self) -> None:
        """The target has no claim any more, so it may have had the session: it is asked."""
        self.ended()
        with self.row(ENDED, "superseded"):
            self.b.table(("cs", 0))
        (said,) = self.b.told(frames.ASK)
        self.assertEqual((said["client"], said["epoch"]), ("s", self.claimed))

    def test_row_doubt_linked(self) -> None:
        self.doubtful()
        with self.row(DOUBT, "linked"):
            self.back()
        (said,) = self.b.told(frames.ASK)
        self.assertEqual((said["client"], said["epoch"]), ("s", self.claimed))

    def test_row_doubt_lost(self) -> None:
        """The link breaks again before the answer: other nodes wait as long as the first time."""
        self.doubtful()
        self.c.publish(b"3")
        self.here.wait(SUSPECT_S - 1.0)
        self.back()
        self.here.wait(SUSPECT_S - 1.0)
        with self.row(DOUBT, "lost"):
            self.here.lose(self.b)
        self.here.wait(SUSPECT_S - 1.0)
        self.assertEqual(self.c.confirmed(), 0)

    def test_row_doubt_overdue(self) -> None:
        """Other nodes wait no longer; the session is in doubt as before."""
        self.doubtful()
        self.c.publish(b"3")
        self.here.wait(SUSPECT_S - 0.25)
        self.assertEqual(self.c.confirmed(), 0)
        with self.row(DOUBT, "overdue"):
            self.here.wait(0.25)
        self.assertEqual(self.c.confirmed(), 1)
        self.assertTrue(self.session.frozen)

    def test_row_doubt_done(self) -> None:
        self.doubtful()
        self.back()
        with self.row(DOUBT, "done"):
            self.done()
        self.assertNotIn("s", self.hub.sessions)

    def test_row_doubt_unknown(self) -> None:
        """The target is sure that it has nothing: it is offered again, all of it."""
        self.doubtful()
        self.back()
        with self.row(DOUBT, "unknown", OFFERED):
            self.b.unknown("s", self.claimed)
        self.b.forget()
        self.accept()
        self.assertEqual(self.b.payloads(), [b"1", b"2"])
        self.more()
        self.assertFalse(self.b.told(frames.END)[0]["lost"])

    def test_row_doubt_unsure(self) -> None:
        """The target cannot know, without a store: then the client is told that state is lost."""
        self.doubtful()
        self.back()
        with self.row(DOUBT, "unsure", OFFERED):
            self.b.unknown("s", self.claimed, sure=False)
        self.accept()
        self.more()
        self.assertTrue(self.b.told(frames.END)[0]["lost"])

    def test_row_merging_loaded(self) -> None:
        """What the store had goes into the channel to the newer session."""
        self.leaving(durable=True)
        self.assertEqual(self.b.records(), [])
        with self.row(MERGING, "loaded"):
            self.here.settle()
        self.assertEqual(self.b.records(), [Relay("s", [b"1", b"2"])])

    def test_row_merging_all(self) -> None:
        """Nobody sends anything more to it: it is over."""
        self.leaving()
        self.migration.intakes.closed("a", "s", self.claimed)
        self.b.closes("s", self.claimed)
        with self.row(MERGING, "all"):
            self.c.closes("s", self.claimed)
        self.assertEqual(self.state_of_merging(), "")
        self.assertNotIn("ft", self.here.peers.table.names)


class FrozenTests(SourceCase):
    """From SESSION on nothing of a session changes, and all that comes is kept."""

    def test_it_is_whole_when_the_link_breaks(self) -> None:
        """Whatever was given before END, and whatever came meanwhile."""
        for durable in (False, True):
            for reach in (self.offered, self.sending, self.cutting):
                with self.subTest(durable=durable, reach=reach.__name__):
                    reach(durable=durable)
                    self.publish(b"x")
                    self.here.lose(self.b)
                    self.back(("cs", 0))
                    self.publish(b"y")
                    between = [b"3"] if reach == self.cutting else []
                    self.assertEqual(self.kept(), [b"1", b"2", *between, b"x", b"y"])

    def test_to_a_later_claim_all_of_it_is_given(self) -> None:
        """What was behind the cut of an earlier one is not behind that of the next."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.cutting(durable)
                self.c.publish(b"4")
                self.here.settle()
                self.b.forget()
                self.claimed += 1000
                self.b.claims("s", self.claimed)
                self.here.settle()
                self.accept()
                self.here.settle()
                self.assertEqual(self.b.payloads(), [b"1", b"2", b"3", b"4"])

    def test_it_does_not_expire(self) -> None:
        self.offered()
        self.session.expiry_s = 5
        self.session.ends_at = self.hub.now + 5.0
        self.here.wait(20.0)
        self.assertIn("s", self.hub.sessions)

    def test_it_does_when_it_stays(self) -> None:
        self.offered()
        self.session.expiry_s = 5
        self.here.lose(self.b)
        self.here.meet("b")
        self.here.wait(6.0)
        self.assertNotIn("s", self.hub.sessions)

    def test_nobody_is_let_in_while_it_may_be_elsewhere(self) -> None:
        """After END without an answer the client waits here, too, until the target was asked."""
        self.doubtful()
        client = self.connect()
        self.here.wait(5.0)
        self.assertTrue(self.is_waiting(client))
        self.back()
        self.b.unknown("s", self.claimed)
        self.b.table(("cs", 0))
        self.here.settle()
        self.assertTrue(client.next("CONNACK").session_present)
        self.assertEqual(client.payloads(), [b"1", b"2"])

    def test_a_client_that_is_connected_is_told_why_it_goes(self) -> None:
        self.begin()
        client = self.connect(version=5)
        client.next("CONNACK")
        self.b.claims("s", self.epoch() + 1000)
        packet = client.next("DISCONNECT")
        self.assertEqual(packet.reason, 0x8E)  # Session taken over


class OfferTests(SourceCase):
    def test_it_says_what_the_target_needs(self) -> None:
        """Whose session it is, under which epoch it was held, and with which one it began."""
        self.offered()
        said, stored = self.b.offered()
        self.assertEqual((said["client"], said["epoch"]), ("s", self.claimed))
        self.assertEqual(stored.record.epoch, self.session.epoch)
        self.assertEqual(stored.record.began, self.session.began)
        self.assertGreater(self.session.began, 0)

    def test_a_session_that_goes_on_began_when_it_began(self) -> None:
        """Each connection is a newer claim, but the session is the same."""
        self.idle()
        began = self.session.began
        client = self.connect()
        self.assertTrue(client.next("CONNACK").session_present)
        client.lose()
        self.assertGreater(self.session.epoch, began)
        self.assertEqual(self.session.began, began)

    def test_another_session_of_the_same_client_has_another_life(self) -> None:
        self.offered()
        first = self.b.offered()[0]["session_id"]
        self.refuse(merge=False)
        self.b.table(("cs", 0))
        self.session = self.sleeper()
        self.b.claims("s", self.session.epoch + 1000)
        self.assertNotEqual(self.b.offered()[0]["session_id"], first)

    def test_the_same_session_has_the_same_one_after_a_restart(self) -> None:
        self.offered(durable=True)
        first = self.b.offered()[0]["session_id"]
        self.here.settle()
        self.restart()
        self.back()
        self.assertEqual(self.b.offered()[0]["session_id"], first)

    def test_a_node_whose_table_is_not_here_is_offered_nothing(self) -> None:
        """What it says of the session may be old."""
        self.idle()
        self.b.claims("s", self.claimed)
        self.here.lose(self.b)
        self.b = self.here.join("b")
        self.assertEqual((self.state(), self.b.kinds()), (IDLE, []))

    def test_what_comes_later_is_given_when_it_is_stored(self) -> None:
        self.sending(durable=True)
        self.here.settle()
        self.assertEqual(self.b.payloads(), [b"1", b"2"])
        self.c.publish(b"3")
        self.more()
        self.assertEqual(self.b.payloads(), [])
        self.here.settle()
        self.assertEqual(self.b.payloads(), [b"3"])


class CutTests(SourceCase):
    """Up to which position of each channel the session has got everything."""

    def gates(self) -> dict[str, list[list[Any]]]:
        """What END says."""
        (said,) = self.b.told(frames.END)
        gates = said["gates"]
        assert isinstance(gates, dict)
        return gates

    def test_the_positions_are_those_at_the_moment_of_the_cut(self) -> None:
        """Not those of SESSION, nor those of END."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.idle(durable=durable)
                self.c.publish(b"before")
                self.b.claims("s", self.claimed)
                self.accept()
                self.c.publish(b"meanwhile")
                self.here.settle()
                self.b.publish(b"b")
                self.more()
                self.assertEqual(self.state(), CUTTING)
                self.c.publish(b"behind")
                self.here.settle()
                self.assertEqual(self.b.payloads()[-2:], [b"meanwhile", b"b"])
                self.more()
                self.here.settle()
                expected = {
                    "a": [],
                    "b": [["a", "b1", 1, [], 0, True]],
                    "c": [["a", "c1", 2, [], 0, True]],
                }
                self.assertEqual(self.gates(), expected)

    def test_numbers_that_came_as_copies_are_named(self) -> None:
        """They are behind the position, but the session has got them."""
        self.sending()
        self.b.copy("c", "c1", 3, b"x")
        self.b.copy("c", "c1", 2, b"y")
        self.b.copy("c", "c0", 9, b"of an earlier channel")
        self.more()
        self.more()
        self.assertEqual(self.gates()["c"], [["a", "c1", 0, [2, 3], 0, True]])

    def test_a_node_that_was_never_linked_since_the_start_has_a_position_too(self) -> None:
        self.idle(durable=True)
        self.c.publish(b"3")
        self.here.settle()
        self.restart()
        self.back()
        self.accept()
        for _ in range(3):
            self.here.settle()
            self.more()
        self.here.settle()
        self.assertEqual(self.gates()["c"], [["a", "c1", 1, [], 0, True]])

    def test_a_closed_gate_goes_along_with_its_segments(self) -> None:
        """The node has not switched to this one: it shall work off both, in their order."""
        self.begin("bc")
        self.c.claims("s", 1000, False)
        client = self.connect()
        first = self.epoch()
        self.c.session("s", first, 1000)
        before = self.segment("c", 7)._replace(channel_epoch="b1")
        self.c.end("s", first, {"b": [before], "c": []})
        self.c.table(("cs", 0))
        self.assertTrue(client.next("CONNACK").session_present)
        client.lose()
        self.claimed = first + 1000
        self.b.claims("s", self.claimed)
        for far in (self.b, self.c):
            far.confirm_all()
        self.accept()
        gates = self.gates()
        here = ["a", "b1", 0, [], first, False]
        self.assertEqual(gates["b"], [[*before], here])
        self.assertEqual(gates["c"], [["a", "c1", 0, [], first, False]])

    def test_a_node_that_knows_of_another_session_has_nothing_for_this_one(self) -> None:
        """Its CLOSE is in front of the position: what it sends behind that is not for it."""
        self.idle()
        self.c.closes("s", self.claimed - 1)
        self.b.claims("s", self.claimed)
        self.accept()
        self.more()
        self.assertEqual(self.gates()["c"], [["a", "c1", 1, [], 0, False]])

    def test_what_is_behind_the_cut_is_not_given(self) -> None:
        """Those who have published it send it to the target."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.cutting(durable)
                self.c.publish(b"4")
                self.publish(b"5")
                self.here.settle()
                self.assertEqual(self.b.payloads(), [b"3"])
                self.more()
                self.here.settle()
                self.assertEqual((self.b.payloads(), self.state()), ([], ENDED))


class ConfirmTests(SourceCase):
    """From the cut on nothing is confirmed that a node may have to send to the target."""

    def held(self) -> bool:
        """Whether a message of node c that comes now is confirmed to it."""
        self.c.confirmed()
        self.c.publish(b"x")
        self.here.settle()
        return self.c.confirmed() != self.c.n

    def test_until_the_cut_all_is_confirmed(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.sending(durable=durable)
                self.here.settle()
                self.assertFalse(self.held())

    def test_from_the_cut_on_only_what_is_in_front_of_it(self) -> None:
        for durable in (False, True):
            for reach in (self.cutting, self.ended):
                with self.subTest(durable=durable, reach=reach.__name__):
                    reach(durable)
                    position = self.c.n
                    self.assertTrue(self.held())
                    self.assertEqual(self.peer("c").incoming.cap, position)

    def test_a_new_link_is_not_resumed_with_more_either(self) -> None:
        """RESUME says up to where all is here, which is a confirmation."""
        self.ended()
        self.c.publish(b"3")
        self.here.lose(self.c)
        self.c = self.here.join("c")
        (said,) = self.c.told(frames.RESUME)
        self.assertEqual(said["received"], ["c1", 0])

    def test_switched_lets_them_go(self) -> None:
        """Before DONE as well as after: what is behind the position is on its way."""
        for is_done in (False, True):
            with self.subTest(is_done=is_done):
                self.ended()
                if is_done:
                    self.done()
                self.assertTrue(self.held())
                self.c.switched("s", self.claimed)
                self.assertEqual(self.c.confirmed(), self.c.n)
                self.assertFalse(self.held())

    def test_that_of_an_earlier_claim_does_not(self) -> None:
        for is_done in (False, True):
            with self.subTest(is_done=is_done):
                self.ended()
                if is_done:
                    self.done()
                self.c.switched("s", self.claimed - 1)
                self.assertTrue(self.held())

    def test_that_of_a_later_one_does(self) -> None:
        """The session has gone on, and the node has worked off all of its segments."""
        self.ended()
        self.done()
        self.c.switched("s", self.claimed + 1000)
        self.assertFalse(self.held())

    def test_that_of_one_node_is_not_that_of_another(self) -> None:
        self.ended()
        self.b.switched("s", self.claimed)
        self.assertTrue(self.held())

    def test_before_end_switched_is_nothing(self) -> None:
        """Nobody can have switched to a session that nobody has."""
        self.cutting()
        self.c.switched("s", self.claimed)
        self.assertTrue(self.held())

    def test_the_target_is_confirmed_with_its_done(self) -> None:
        """It has taken what is behind the position from its own channel."""
        self.ended()
        self.b.publish(b"x")
        self.assertEqual(self.b.confirmed(), 0)
        self.done()
        self.assertEqual(self.b.confirmed(), 1)

    def test_if_the_session_stays_all_is_confirmed(self) -> None:
        """It is kept here: the nodes need not have it any more."""
        for what in ("lost", "superseded", "unknown"):
            with self.subTest(what=what):
                if what == "unknown":
                    self.doubtful()
                    self.back(("cs", 0))
                else:
                    self.cutting()
                self.assertTrue(self.held())
                if what == "lost":
                    self.here.lose(self.b)
                elif what == "superseded":
                    self.b.table(("cs", 0))
                else:
                    self.b.unknown("s", self.claimed)
                self.here.settle()
                self.assertEqual(self.c.confirmed(), self.c.n)
                self.assertFalse(self.held())

    def test_in_doubt_they_wait_for_a_while(self) -> None:
        """Also if the target can be asked, but does not answer."""
        for is_linked in (False, True):
            with self.subTest(is_linked=is_linked):
                self.doubtful()
                if is_linked:
                    self.back()
                self.here.wait(SUSPECT_S - 0.5)
                self.assertTrue(self.held())
                self.here.wait(1.0)
                self.assertFalse(self.held())
                self.assertEqual(self.state(), DOUBT)


class OwnTests(SourceCase):
    """What is published on the source itself while its session goes."""

    def direct(self) -> list[object]:
        return [each for each in self.b.records() if isinstance(each, Direct)]

    def test_before_the_cut_it_is_an_entry(self) -> None:
        self.sending()
        self.publish(b"x")
        self.assertEqual(self.direct(), [])
        self.b.payloads()
        self.more()
        self.assertEqual(self.b.payloads(), [b"x"])

    def test_behind_it_it_goes_to_the_target_directly(self) -> None:
        for durable in (False, True):
            for reach in (self.cutting, self.ended):
                with self.subTest(durable=durable, reach=reach.__name__):
                    reach(durable)
                    self.publish(b"x", b"y")
                    expected = [Direct("s", self.claimed, each) for each in (b"x", b"y")]
                    self.assertEqual(self.direct(), expected)

    def test_and_is_kept_in_case_that_the_session_stays(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.ended(durable)
                self.publish(b"x")
                self.b.table(("cs", 0))
                self.b.unknown("s", self.claimed)
                self.here.settle()
                self.assertEqual(self.kept(), [b"1", b"2", b"x"])

    def test_its_publisher_waits_for_the_target(self) -> None:
        """Without a store it is safe when both have it."""
        self.ended()
        publisher = self.connect("p")
        publisher.next("CONNACK")
        publisher.send(p.publish("t", b"x", 1, 1))
        self.assertEqual(publisher.take(), [])
        self.b.confirm_all()
        self.here.settle()
        self.assertEqual(publisher.next("PUBACK").pid, 1)

    def test_not_what_others_publish(self) -> None:
        """That is in their channels, and not confirmed."""
        self.ended()
        self.c.publish(b"x")
        self.assertEqual(self.direct(), [])

    def test_no_qos_0(self) -> None:
        """Nobody keeps it for a client that is away."""
        self.ended()
        self.publish(b"x", qos=0)
        self.assertEqual(self.direct(), [])

    def test_nothing_of_other_topics(self) -> None:
        self.ended()
        self.publish(b"x", topic="other")
        self.assertEqual(self.direct(), [])

    def test_in_doubt_it_goes_there_when_it_can(self) -> None:
        self.doubtful()
        self.publish(b"x")
        self.back()
        self.assertEqual(self.direct(), [Direct("s", self.claimed, b"x")])


class EndTests(SourceCase):
    """When END may be said, and of what it speaks."""

    def test_whether_the_session_is_what_its_client_knows(self) -> None:
        """At the end: something may have been missed while it was given."""
        for lost in (False, True):
            with self.subTest(lost=lost):
                self.sending()
                self.session.lose_state(lost)
                self.more()
                self.assertEqual(self.b.told(frames.END)[0]["lost"], lost)

    def publisher(self) -> Client:
        """Client s, which publishes for somebody on node c, and moves."""
        self.begin()
        self.c.table(("ft", 1))
        client = self.connect()
        client.next("CONNACK")
        client.send(p.publish("t", b"x", 1, 1))
        self.claimed = self.epoch() + 1000
        self.b.claims("s", self.claimed)
        self.accept()
        return client

    def test_not_before_others_have_what_the_client_has_published_here(self) -> None:
        """Else what it publishes next, at the target, could overtake it."""
        self.publisher()
        self.here.wait(1.0)
        self.assertEqual(self.state(), SENDING)
        self.c.confirm_all()
        self.assertEqual(self.state(), ENDED)

    def test_what_others_publish_is_not_waited_for(self) -> None:
        """A node that publishes without a pause does not hold it up."""
        self.publisher()
        self.publish(b"y")
        self.c.confirm_to(self.peer("c").outgoing.last_n - 1)
        self.assertEqual(self.state(), ENDED)

    def test_a_node_that_is_lost_is_not_waited_for(self) -> None:
        """The target gets copies of what it may not have."""
        self.publisher()
        self.here.lose(self.c)
        self.assertEqual(len(self.b.took(frames.PENDING)), 1)
        self.more()
        self.assertEqual(self.state(), ENDED)

    def test_nor_one_from_which_nothing_is_received(self) -> None:
        self.publisher()
        self.here.wait(SUSPECT_S - 0.5, silent="c")
        self.assertEqual(self.state(), SENDING)
        self.here.wait(1.0, silent="c")
        self.assertEqual(len(self.b.took(frames.PENDING)), 1)
        self.more()
        self.assertEqual(self.state(), ENDED)

    def test_not_before_the_store_knows_that_the_target_may_have_it(self) -> None:
        """A crash in between would let the client in at both nodes."""
        self.sending(durable=True)
        self.here.settle()
        self.more()
        store = self.here.store
        assert store is not None
        note = f"ended/{self.session.sid}"
        self.assertEqual((self.state(), self.b.told(frames.END)), (CUTTING, []))
        self.assertNotIn(note, store.notes)
        self.here.settle()
        self.assertEqual(len(self.b.told(frames.END)), 1)
        self.assertIn(note, store.notes)

    def test_with_nothing_to_give_it_waits_for_one_batch(self) -> None:
        """What changed before, and that the target may have it, is stored at once."""
        self.begin("bc", durable=True)
        self.session = self.sleeper()
        self.here.settle()
        self.claimed = self.session.epoch + 1000
        self.b.claims("s", self.claimed)
        self.here.settle()
        self.session.lose_state(True)  # something that the store does not have
        self.accept()
        self.assertEqual((self.state(), self.b.told(frames.END)), (CUTTING, []))
        assert self.here.disk is not None
        self.here.disk.step()
        self.assertEqual((self.state(), len(self.b.told(frames.END))), (ENDED, 1))


class GivenTests(SourceCase):
    """With DONE the session is the target's: this node switches first, then all others."""

    def test_its_own_channel_has_a_mark_behind_what_was_direct(self) -> None:
        self.ended()
        self.publish(b"x")
        self.b.table(("ft", 3))
        self.done()
        self.publish(b"y")
        found = self.b.records()
        expected = [Direct("s", self.claimed, b"x"), Mark("s", self.claimed), b"y"]
        self.assertEqual(found, expected)

    def test_others_are_told_where_to_send_what_is_behind_the_position(self) -> None:
        self.idle()
        self.c.publish(b"3")
        self.b.claims("s", self.claimed)
        self.accept()
        self.more()
        self.assertEqual(self.state(), ENDED)
        self.c.forget()
        self.done()
        (said,) = self.c.told(frames.CUT)
        expected = {
            "client": "s",
            "epoch": self.claimed,
            "began": self.session.began,
            "to": "b",
            "table": ["b1", self.b.table_n],
            "filters": ["t"],
            "segments": [["a", "c1", 1, [], 0, True]],
        }
        self.assertEqual({**said, **expected}, said)

    def test_before_they_hear_that_the_subscriptions_are_gone(self) -> None:
        """Else what they publish in between would be for nobody."""
        self.ended()
        self.c.forget()
        self.done()
        self.assertEqual(self.c.sent(frames.CUT, frames.TABLE), [frames.CUT, frames.TABLE])
        self.assertNotIn("ft", self.here.peers.table.names)

    def test_a_cut_of_the_target_may_be_faster_than_its_done(self) -> None:
        """This node has switched then: its channel has one mark."""
        self.ended()
        self.b.forget()
        self.b.cut("s", self.claimed, "b", [], held=self.claimed, began=self.session.began)
        self.done()
        marks = [each for each in self.b.records() if isinstance(each, Mark)]
        self.assertEqual(marks, [Mark("s", self.claimed)])

    def test_the_target_is_not_told(self) -> None:
        """It has asked for what is its own by itself."""
        self.ended()
        self.done()
        self.assertEqual(self.b.told(frames.CUT), [])

    def test_older_sessions_elsewhere_get_nothing_more_from_here(self) -> None:
        self.ended()
        self.c.claims("s", 500, False)
        self.c.forget()
        self.done()
        self.assertEqual(self.c.records(), [Close("s", self.session.began)])

    def test_what_was_kept_since_the_cut_is_dropped(self) -> None:
        """The target has it, or gets it from those who have published it."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.ended(durable)
                self.publish(b"x")
                self.c.publish(b"y")
                self.here.settle()
                self.b.forget()
                self.done()
                self.assertEqual(self.b.records(), [Mark("s", self.claimed)])
                self.assertEqual(self.hub.queues.size_bytes, 0)

    def test_the_table_says_so_when_the_store_knows(self) -> None:
        """The target remembers what it took for as long as this node may offer it again."""
        self.ended(durable=True)
        self.b.done("s", self.claimed)
        self.assertIn("cs", self.here.peers.table.names)
        self.here.settle()
        self.assertNotIn("cs", self.here.peers.table.names)

    def test_a_will_is_not_published(self) -> None:
        """It is the target's."""
        self.ended()
        self.session.will = Will(message_of(b"gone"), 0)
        self.done()
        self.assertNotIn("s", self.hub.sessions)
        self.assertEqual(self.hub.stats.wills_published, 0)


class SharedTests(SourceCase):
    """A message that came by a shared subscription came to nobody else: it is never left out."""

    def shared(self, end: bool) -> None:
        self.begin("bc")
        self.session = self.sleeper("s", "$share/g/t")
        self.publish(b"0")
        self.claimed = self.session.epoch + 1000
        self.b.claims("s", self.claimed)
        self.accept()
        self.b.payloads()
        if end:
            self.more()
            self.assertEqual(self.state(), ENDED)

    def member(self) -> Client:
        """Another one of the group, on this node."""
        client = self.connect("m")
        client.next("CONNACK")
        client.send(p.subscribe(1, ("$share/g/t", 1)))
        client.next("SUBACK")
        return client

    def test_in_front_of_the_cut_it_is_given(self) -> None:
        self.shared(end=False)
        self.publish(b"x")
        self.more()
        self.assertEqual(self.b.payloads(), [b"x"])

    def test_behind_it_it_goes_to_another_member(self) -> None:
        self.shared(end=True)
        self.publish(b"x")
        member = self.member()
        self.done()
        self.assertEqual(member.payloads(), [b"x"])

    def test_also_to_one_on_the_target(self) -> None:
        """Which may be the same session, by then."""
        self.shared(end=True)
        self.publish(b"x")
        self.b.table(("s$share/g/t", 3))
        self.b.forget()
        self.done()
        self.assertIn(b"x", self.b.records())

    def test_it_is_kept_if_the_session_stays(self) -> None:
        self.shared(end=True)
        self.publish(b"x")
        self.b.table(("cs", 0))
        self.b.unknown("s", self.claimed)
        self.here.settle()
        self.assertEqual(self.kept(), [b"0", b"x"])


class BusyLinkTests(ClusterCase):
    def test_order_is_kept_though_a_link_is_busy(self) -> None:
        """The client comes to a node whose channel to the source is full of other messages."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                sim = self.cluster("ab", durable=durable)
                a, b = sim.nodes["a"], sim.nodes["b"]
                client = self.connect(a, "s", clean=False)
                self.subscribe(a, client, "t", 2)
                a.lose(client)
                self.subscribe(a, self.connect(a, "other"), "other", 1)
                publisher = self.connect(b, "p", clean=False)
                node_of(b).peers.limits.window_bytes = 1  # one frame at a time
                for n in range(1, 31):
                    b.send(publisher, p.publish("other", b"x", 1, n))
                b.send(publisher, p.publish("t", b"1", 1, 31))
                again = b.open()
                b.send(again, p.connect("s", clean=False))
                while node_of(b).migration.targets["s"].state != ARRIVING:
                    sim.run(0.0005)
                b.send(publisher, p.publish("t", b"2", 1, 32))
                sim.run(5.0)
                self.assertTrue(again.next("CONNACK").session_present)
                self.assertEqual(again.payloads(), [b"1", b"2"])
