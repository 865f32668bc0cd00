"""The node that claims a session: it gets all of it before the client is let in, or nothing."""

from mhub.cluster import parcels
from mhub.cluster.migration import records
from mhub.cluster.migration.target import ARRIVING, CLAIMING, OPENING, OPENING_S, TABLE, Target
from tests.cluster.migration.played import Case, Mark, entry
from tests.cluster.migration.rows import RowCase, Table
from tests.core.world import Client
from tests.helpers import packets as p

HELD = 1000
"""The epoch under which node b holds the session of client s."""


class TargetCase(Case):
    client: Client

    def claiming(self, durable: bool = False) -> None:
        self.begin("bc", durable)
        self.b.claims("s", HELD, False)
        self.client = self.connect()
        self.assertTrue(self.is_waiting(self.client))

    def arriving(self, durable: bool = False, **options: object) -> None:
        self.claiming(durable)
        self.b.session("s", self.epoch(), HELD, **options)  # type: ignore[arg-type]

    def opening(self, durable: bool = False) -> None:
        """Node b is gone; node c has not marked its channel yet."""
        self.claiming(durable)
        self.here.lose(self.b)
        self.here.wait(3.0)  # suspect_s: it may be back in a moment
        self.assertEqual(self.step(), OPENING)

    def end(self, missing: str = "") -> None:
        self.b.end("s", self.epoch(), missing)
        self.here.settle()

    def step(self) -> str:
        target = self.target()
        return target.state if target is not None else ""

    def present(self) -> bool:
        """What the CONNACK says."""
        return bool(self.client.next("CONNACK").session_present)


class RowTests(TargetCase, RowCase):
    table = TABLE

    def machine(self) -> Target | None:
        return self.target()

    def table_of_machine(self) -> Table:
        return TABLE

    def test_every_row_has_a_scenario_that_needs_it(self) -> None:
        self.check_rows(set())

    def test_row_claiming_accept(self) -> None:
        """The session is offered: its subscriptions are routed, and all nodes asked to mark."""
        self.claiming()
        self.b.forget()
        with self.row(CLAIMING, "accept"):
            self.b.session("s", self.epoch(), HELD)
        (said,) = self.c.told(parcels.CUT)
        expected = {"client": "s", "epoch": self.epoch(), "sources": ["b"], "accepted": "b"}
        self.assertEqual({**said, **expected}, said)
        self.assertEqual(sorted(said["asked"]), ["b", "c"])
        self.assertEqual(self.b.records(), [Mark("s", self.epoch())])
        # They know of the subscriptions before they are asked to mark.
        kinds = [kind for kind, _ in self.b._sent if kind in (parcels.TABLE, parcels.CUT)]
        self.assertEqual(kinds, [parcels.TABLE, parcels.CUT])

    def test_row_claiming_nobody(self) -> None:
        """Who had the session has it no more: the client gets a new one."""
        self.claiming()
        with self.row(CLAIMING, "nobody"):
            self.b.table(("cs", 0))
        self.assertFalse(self.present())

    def test_row_claiming_unreachable(self) -> None:
        """Who has it cannot be reached: the nodes that can be are asked to mark."""
        self.claiming()
        self.here.lose(self.b)
        self.here.wait(2.5)
        with self.row(CLAIMING, "unreachable"):
            self.here.wait(0.5)
        self.assertEqual(len(self.c.told(parcels.CUT)), 1)

    def test_row_claiming_late(self) -> None:
        """Who has it can be reached, but does not give it."""
        self.claiming()
        self.here.wait(9.0)
        with self.row(CLAIMING, "late"):
            self.here.wait(1.0)
        self.assertEqual(len(self.c.told(parcels.CUT)), 1)

    def test_row_claiming_superseded(self) -> None:
        """The client has connected to another node since."""
        self.claiming()
        with self.row(CLAIMING, "superseded"):
            self.c.claims("s", self.epoch() + 1000)
        self.assertTrue(self.client.closed)
        self.assertNotIn("cs", self.here.peers.table)

    def test_row_arriving_entries(self) -> None:
        """Each portion is answered, when it is taken."""
        self.arriving()
        with self.row(ARRIVING, "entries"):
            self.b.entries("s", self.epoch(), entry(b"1"), entry(b"2"))
        self.assertEqual(self.b.told(parcels.MORE), [{"client": "s", "epoch": self.epoch()}])

    def test_row_arriving_pending(self) -> None:
        self.arriving()
        body = parcels.pack(client="s", epoch=self.epoch(), node="c", origins=[]) + b"\n"
        with self.row(ARRIVING, "pending"):
            self.b.give(parcels.PENDING, body)
        self.assertEqual(self.b.told(parcels.MORE), [{"client": "s", "epoch": self.epoch()}])

    def test_row_arriving_end(self) -> None:
        self.arriving()
        with self.row(ARRIVING, "end"):
            self.b.end("s", self.epoch())
        self.assertTrue(self.present())

    def test_row_arriving_lost(self) -> None:
        """The source is gone: nothing of what came is left, and the claim is a newer one."""
        self.arriving()
        self.b.entries("s", self.epoch(), entry(b"1"))
        before = self.epoch()
        with self.row(ARRIVING, "lost"):
            self.here.lose(self.b)
        self.assertGreater(self.epoch(), before)
        self.assertNotIn("ft", self.here.peers.table)
        self.assertEqual(self.hub.queued_bytes, 0)

    def test_row_arriving_late(self) -> None:
        """The source can be reached, but does not go on."""
        self.arriving()
        before = self.epoch()
        self.here.wait(9.5)
        with self.row(ARRIVING, "late"):
            self.here.wait(0.5)
        self.assertGreater(self.epoch(), before)

    def test_row_arriving_superseded(self) -> None:
        """The client has connected elsewhere: the session arrives here first, and then goes on."""
        self.arriving()
        with self.row(ARRIVING, "superseded"):
            self.c.claims("s", self.epoch() + 1000)
        self.assertTrue(self.client.closed)
        self.b.entries("s", self.epoch(), entry(b"1"))
        self.end()
        said, _ = self.c.offered()
        self.assertEqual(said["client"], "s")

    def test_row_opening_marked(self) -> None:
        self.opening()
        self.assertTrue(self.is_waiting(self.client))
        with self.row(OPENING, "marked"):
            self.c.mark("s", self.epoch())
        self.assertFalse(self.present())

    def test_row_opening_late(self) -> None:
        """Nobody waits for long for a mark."""
        self.opening()
        self.here.wait(OPENING_S - 0.25)
        self.assertTrue(self.is_waiting(self.client))
        with self.row(OPENING, "late"):
            self.here.wait(0.25)
        self.assertFalse(self.present())

    def test_row_opening_superseded(self) -> None:
        self.opening()
        with self.row(OPENING, "superseded"):
            self.c.claims("s", self.epoch() + 1000)
        self.assertTrue(self.client.closed)


class WholeTests(TargetCase):
    def test_the_client_gets_all_in_its_order(self) -> None:
        """In flight with its packet id and DUP, then the queue, then what came meanwhile."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.arriving(durable)
                epoch = self.epoch()
                self.c.mark("s", epoch)
                self.c.publish(b"4")
                self.b.entries("s", epoch, entry(b"1", 500), entry(b"2"))
                self.b.entries("s", epoch, entry(b"3"))
                self.publish(b"5")
                self.assertTrue(self.is_waiting(self.client))
                self.end()
                self.assertTrue(self.present())
                found = self.client.take()
                self.assertEqual([f.payload for f in found], [b"1", b"2", b"3", b"4", b"5"])
                self.assertEqual((found[0].pid, found[0].dup), (500, True))
                self.assertEqual([f.dup for f in found[1:]], [False] * 4)

    def test_what_was_open_is_open(self) -> None:
        """QoS 2 both ways: PUBREL is sent again, and a packet id that came is not taken twice."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.arriving(durable, incoming=(9,))
                self.b.entries("s", self.epoch(), entry(b"1", 500, 2, released=True))
                self.end()
                self.assertTrue(self.present())
                self.assertEqual(self.client.next("PUBREL").pid, 500)
                self.b.confirm_all()
                self.client.send(p.publish("t", b"again", 2, 9, dup=True))
                self.here.settle()
                self.assertEqual([packet.type for packet in self.client.take()], ["PUBREC"])

    def test_nothing_is_left_of_half_a_session(self) -> None:
        """Also not in the store, nor after a crash."""
        for is_crash in (False, True):
            with self.subTest(is_crash=is_crash):
                self.arriving(durable=True)
                self.b.entries("s", self.epoch(), entry(b"1", 500, 2), entry(b"2"))
                self.here.settle()
                store = self.here.store
                assert store is not None
                self.assertEqual(len(store.deliveries), 3)  # and a mark for node b
                if is_crash:
                    self.restart()
                else:
                    self.here.lose(self.b)
                self.here.settle()
                own = [sid for sid, each in store.sessions.items() if each.client_id == "s"]
                self.assertEqual(own, [])
                self.assertNotIn("s", self.hub.sessions)
                self.assertNotIn("ft", self.here.peers.table)

    def test_it_begins_again_under_a_newer_epoch(self) -> None:
        self.arriving()
        self.b.entries("s", self.epoch(), entry(b"1"))
        self.here.lose(self.b)
        self.b = self.here.meet("b", ("cs", HELD << 1))
        self.assertTrue(self.is_waiting(self.client))
        self.b.session("s", self.epoch(), HELD)
        self.b.entries("s", self.epoch(), entry(b"1"), entry(b"2"))
        self.end()
        self.assertTrue(self.present())
        self.assertEqual(self.client.payloads(), [b"1", b"2"])

    def test_a_connect_that_is_given_up_changes_nothing(self) -> None:
        """The session arrives all the same, rests here, and waits for its client."""
        self.arriving()
        self.client.lose()
        self.b.entries("s", self.epoch(), entry(b"1"))
        self.end()
        self.assertEqual(len(self.b.told(parcels.DONE)), 1)
        self.client = self.connect()
        self.assertTrue(self.present())
        self.assertEqual(self.client.payloads(), [b"1"])

    def test_and_it_expires_here_as_it_would_have_there(self) -> None:
        self.arriving(expiry_s=5)
        self.client.lose()
        self.end()
        self.here.wait(4.0)
        self.assertIn("s", self.hub.sessions)
        self.here.wait(2.0)
        self.assertNotIn("s", self.hub.sessions)

    def test_a_session_whose_state_was_lost_is_not_present(self) -> None:
        self.claiming()
        self.b.session("s", self.epoch(), HELD, lost=True)
        self.here.wait(0.5)
        self.c.mark("s", self.epoch())
        self.b.mark("s", self.epoch())
        self.here.settle()
        self.assertFalse(self.present())


class SafeTests(TargetCase):
    def test_done_is_said_when_all_is_stored(self) -> None:
        """And the client knows no sooner than that."""
        self.arriving(durable=True)
        self.b.entries("s", self.epoch(), entry(b"1"))
        self.here.settle()
        self.b.end("s", self.epoch())
        self.assertEqual((self.b.told(parcels.DONE), self.client.take()), ([], []))
        self.here.settle()
        self.assertEqual(len(self.b.told(parcels.DONE)), 1)
        self.assertTrue(self.present())

    def test_it_is_whole_after_a_crash(self) -> None:
        self.arriving(durable=True)
        self.b.entries("s", self.epoch(), entry(b"1", 500, 2), entry(b"2"))
        self.c.mark("s", self.epoch())
        self.c.publish(b"3")
        self.end()
        self.restart()
        self.meet("bc")
        self.client = self.connect()
        self.assertTrue(self.present())
        found = self.client.take()
        self.assertEqual([f.payload for f in found], [b"1", b"2", b"3"])
        self.assertEqual((found[0].pid, found[0].dup), (500, True))


class NewSessionTests(TargetCase):
    """Who has the session cannot be reached."""

    def test_what_is_published_before_a_mark_belongs_to_the_older_one(self) -> None:
        """What a node sends behind its mark is for the new one alone."""
        self.opening()
        self.c.mark("s", self.epoch())
        self.assertFalse(self.present())
        self.client.send(p.subscribe(1, ("t", 1)))
        self.here.settle()
        self.client.next("SUBACK")
        self.c.publish(b"1")
        self.assertEqual(self.client.payloads(), [b"1"])

    def without_mark(self, durable: bool) -> None:
        """Node c has not marked in time, and sends something before it does."""
        self.opening(durable)
        self.here.wait(OPENING_S)
        self.assertFalse(self.present())
        self.client.send(p.subscribe(1, ("t", 1)))
        self.here.settle()
        self.client.next("SUBACK")
        self.c.publish(b"before")
        self.c.mark("s", self.epoch())
        self.c.publish(b"behind")
        self.here.settle()
        self.assertEqual(self.client.payloads(), [])

    def test_what_the_older_one_relays_is_not_taken_twice(self) -> None:
        """It was for both, and comes in front of what is for the new one alone."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.without_mark(durable)
                self.b = self.here.meet("b")
                source = f"b:{self.epoch()}"
                self.b.control("s", records.relay(source, [entry(b"before")]))
                self.b.control("s", records.closed("c", source))
                self.here.settle()
                self.assertEqual(self.client.payloads(), [b"before", b"behind"])

    def test_what_it_does_not_relay_in_time_is_not_lost(self) -> None:
        """It may come again, later: so the client is told of a new session next time."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.without_mark(durable)
                self.here.wait(25.0)
                self.assertEqual(self.client.payloads(), [b"before", b"behind"])
                self.client.lose()
                self.client = self.connect()
                self.assertFalse(self.present())

    def test_entries_of_the_older_one_come_late(self) -> None:
        """It is back, offers what it has, is told since when there is another, and relays."""
        self.opening()
        self.c.mark("s", self.epoch())
        self.assertFalse(self.present())
        began = self.epoch()
        self.b = self.here.meet("b", ("cs", HELD << 1))
        self.b.session("s", began, HELD)
        (said,) = self.b.told(parcels.REFUSED)
        self.assertEqual((said["epoch"], said["began"]), (began, began))

    def test_a_clean_start_wants_nothing_of_it(self) -> None:
        self.begin()
        self.b.claims("s", HELD, False)
        self.client = self.connect(clean=True)
        self.assertTrue(self.is_waiting(self.client))
        self.b.session("s", self.epoch(), HELD)
        (said,) = self.b.told(parcels.REFUSED)
        self.assertEqual(said["began"], 0)
        self.b.table(("cs", 0))
        self.assertFalse(self.present())
