"""The node that has a session: it gives all of it away, or keeps all of it."""

from mhub.cluster import parcels
from mhub.cluster.migration import queues
from mhub.cluster.migration.source import (
    DOUBT,
    ENDED,
    GONE,
    IDLE,
    LEAVING,
    OFFERED,
    SENDING,
    TABLE,
    Source,
)
from mhub.cluster.migration.target import ARRIVING
from mhub.core.session import Session
from tests.cluster.migration.played import Case, Relay, entry
from tests.cluster.migration.rows import RowCase, Table
from tests.cluster.simulation import node_of
from tests.cluster.test_node import Case as ClusterCase
from tests.helpers import packets as p


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
        self.here.settle()

    def sending(self, *payloads: bytes, durable: bool = False) -> None:
        self.offered(*payloads, durable=durable)
        self.cut()

    def cut(self, asked: str = "ac") -> None:
        self.b.cut("s", self.claimed, "a", asked, "a")

    def more(self) -> None:
        self.b.say(parcels.MORE, client="s", epoch=self.claimed)

    def ended(self, durable: bool = False) -> None:
        self.sending(durable=durable)
        self.here.settle()
        self.mark()
        self.more()
        self.here.settle()
        self.assertEqual(self.state(), ENDED)

    def mark(self) -> None:
        for far in (self.b, self.c):
            far.confirm_all()
            far.mark("s", self.claimed)

    def doubtful(self) -> None:
        self.ended()
        self.here.lose(self.b)
        self.assertEqual(self.state(), DOUBT)

    def leaving(self) -> None:
        """What the store has of it is not read yet."""
        self.offered(durable=True)
        self.refuse(self.claimed)
        self.assertEqual(self.state(), LEAVING)

    def refuse(self, began: int = 0) -> None:
        self.b.say(parcels.REFUSED, client="s", epoch=self.claimed, began=began)

    def back(self, *table: tuple[str, int]) -> None:
        """Node b is linked again, and has what it had."""
        self.b = self.here.meet("b", *(table or (("cs", self.claimed << 1 | 1),)))

    def kept(self) -> list[bytes]:
        """What a client gets that finds its session here."""
        if "cs" in self.here.peers.table:
            self.b.table(("cs", 0))
        client = self.connect()
        self.assertTrue(client.next("CONNACK").session_present)
        return client.payloads()


class RowTests(SourceCase, RowCase):
    table = TABLE

    def machine(self) -> Source | None:
        return self.source()

    def table_of_machine(self) -> Table:
        return TABLE

    def test_every_row_has_a_scenario_that_needs_it(self) -> None:
        """DOUBT without a link is what it was: that row says so, and does nothing."""
        self.check_rows({(DOUBT, "lost")})

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

    def test_row_idle_late(self) -> None:
        """A newer session comes to the node that has the older one: its messages join that."""
        self.idle()
        held = self.claimed
        self.b.claims("s", held, False)
        self.here.lose(self.b)
        self.connect()
        self.back(("cs", held << 1))
        epoch = self.epoch()
        self.b.session("s", epoch, held, began=held)
        self.b.entries("s", epoch, entry(b"3"))
        with self.row(IDLE, "late", GONE):
            self.b.end("s", epoch)
        self.assertEqual(self.hub.sessions["s"].began, held)
        self.assertEqual(self.state(), "")

    def test_row_offered_cut(self) -> None:
        """The target has routed the subscriptions: the first entries go out."""
        self.offered()
        with self.row(OFFERED, "cut"):
            self.cut()
        self.assertEqual(self.b.payloads(), [b"1", b"2"])

    def test_row_offered_late(self) -> None:
        """The target has a newer session: entries go into the channel, and nobody answers."""
        self.offered()
        with self.row(OFFERED, "late", GONE):
            self.refuse(self.claimed)
        self.assertIn(Relay("s", "", [b"1", b"2"]), self.b.records())
        self.assertNotIn("s", self.hub.sessions)

    def test_row_offered_done(self) -> None:
        """The target had all of it already, when a DONE was lost."""
        self.offered()
        with self.row(OFFERED, "done"):
            self.b.done("s", self.claimed)
        self.assertNotIn("s", self.hub.sessions)
        self.assertEqual(self.b.records(), [])

    def test_row_offered_refused(self) -> None:
        """The client has begun with a clean start: nothing of it is wanted."""
        self.offered()
        with self.row(OFFERED, "refused"):
            self.refuse()
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

    def test_row_sending_all(self) -> None:
        """END comes behind all entries and all marks."""
        self.sending()
        self.more()
        self.b.confirm_all()
        self.b.mark("s", self.claimed)
        self.here.wait(1.0)
        self.assertEqual(self.b.told(parcels.END), [])
        with self.row(SENDING, "all"):
            self.c.mark("s", self.claimed)
        (said,) = self.b.told(parcels.END)
        self.assertEqual(said["missing"], [])

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

    def test_row_ended_done(self) -> None:
        self.ended(durable=True)
        with self.row(ENDED, "done"):
            self.b.done("s", self.claimed)
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
        (said,) = self.b.told(parcels.ASK)
        self.assertEqual((said["client"], said["epoch"]), ("s", self.claimed))

    def test_row_doubt_linked(self) -> None:
        self.doubtful()
        with self.row(DOUBT, "linked"):
            self.back()
        (said,) = self.b.told(parcels.ASK)
        self.assertEqual((said["client"], said["epoch"]), ("s", self.claimed))

    def test_row_doubt_lost(self) -> None:
        """The link breaks again before the answer: it is asked again with the next one."""
        self.doubtful()
        self.back()
        with self.row(DOUBT, "lost"):
            self.here.lose(self.b)
        self.back()
        self.assertEqual(len(self.b.told(parcels.ASK)), 1)

    def test_row_doubt_done(self) -> None:
        self.doubtful()
        self.back()
        with self.row(DOUBT, "done"):
            self.b.done("s", self.claimed)
        self.assertNotIn("s", self.hub.sessions)

    def test_row_doubt_unknown(self) -> None:
        """The target is sure that it has nothing: it is offered again, all of it."""
        self.doubtful()
        self.back()
        with self.row(DOUBT, "unknown", OFFERED):
            self.b.say(parcels.UNKNOWN, client="s", epoch=self.claimed, sure=True)
        self.assertFalse(self.b.offered()[0]["lost"])
        self.cut()
        self.assertEqual(self.b.payloads(), [b"1", b"2"])

    def test_row_doubt_unsure(self) -> None:
        """The target cannot know, without a store: then the client is told that state is lost."""
        self.doubtful()
        self.back()
        with self.row(DOUBT, "unsure", OFFERED):
            self.b.say(parcels.UNKNOWN, client="s", epoch=self.claimed, sure=False)
        self.assertTrue(self.b.offered()[0]["lost"])

    def test_row_leaving_loaded(self) -> None:
        """What the store had goes into the channel to the newer session."""
        self.leaving()
        with self.row(LEAVING, "loaded", GONE):
            self.here.settle()
        self.assertIn(Relay("s", "", [b"1", b"2"]), self.b.records())

    def test_row_leaving_all(self) -> None:
        self.leaving()
        with self.row(LEAVING, "all"):
            self.here.settle()
        self.assertNotIn("s", self.hub.sessions)


class FrozenTests(SourceCase):
    """From SESSION on nothing of a session changes, and all that comes is kept."""

    def test_it_is_whole_when_the_link_breaks(self) -> None:
        """Whatever was given before END, and whatever came meanwhile."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.sending(durable=durable)
                self.publish(b"3")
                self.here.lose(self.b)
                self.back(("cs", 0))
                self.publish(b"4")
                self.assertEqual(self.kept(), [b"1", b"2", b"3", b"4"])

    def test_what_comes_behind_a_mark_is_kept_as_well(self) -> None:
        """It is not for that claim; but for the client that finds its session here again."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.sending(durable=durable)
                self.c.mark("s", self.claimed)
                self.c.publish(b"3")
                self.here.settle()
                self.more()
                self.here.settle()
                self.assertEqual(self.b.payloads(), [b"1", b"2"])
                self.b.table(("cs", 0))
                self.here.settle()
                self.assertEqual(self.kept(), [b"1", b"2", b"3"])

    def test_to_a_later_claim_all_of_it_is_given(self) -> None:
        """What was beyond the cut of an earlier one is not beyond that of the next."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.sending(durable=durable)
                self.c.mark("s", self.claimed)
                self.c.publish(b"3")
                self.here.settle()
                self.b.forget()
                self.claimed += 1000
                self.b.claims("s", self.claimed)
                self.here.settle()
                self.cut()
                self.here.settle()
                self.assertEqual(self.b.payloads(), [b"1", b"2", b"3"])

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
        self.b.say(parcels.UNKNOWN, client="s", epoch=self.claimed, sure=True)
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


class SafeTests(SourceCase):
    """What is given is safe at the source: its store may be asked for it again."""

    def test_it_is_offered_when_all_that_it_has_is_stored(self) -> None:
        self.idle(durable=True)
        client = self.here.world.open()
        client.send(p.connect("p"), p.publish("t", b"3", 1, 1))
        self.b.claims("s", self.claimed)
        self.assertEqual((self.state(), self.b.kinds()), (IDLE, []))
        self.assertTrue(self.session.frozen)
        self.here.settle()
        self.assertEqual((self.state(), self.b.kinds()), (OFFERED, [parcels.SESSION]))

    def test_what_comes_later_is_given_when_it_is_stored(self) -> None:
        self.sending(durable=True)
        self.here.settle()
        self.assertEqual(self.b.payloads(), [b"1", b"2"])
        self.c.publish(b"3")
        self.more()
        self.assertEqual(self.b.payloads(), [])
        self.here.settle()
        self.assertEqual(self.b.payloads(), [b"3"])


class EndTests(SourceCase):
    """When END may be said, and of what it speaks."""

    def prepared(self) -> None:
        """Nothing is left to give."""
        self.sending()
        self.more()
        self.assertEqual(self.b.payloads(), [b"1", b"2"])

    def test_not_before_all_nodes_that_were_asked_have_marked(self) -> None:
        self.prepared()
        self.b.confirm_all()
        self.b.mark("s", self.claimed)
        self.c.publish(b"3")
        self.here.wait(1.0)
        self.assertEqual(self.b.told(parcels.END), [])
        self.assertEqual(self.b.payloads(), [b"3"])
        self.more()
        self.c.mark("s", self.claimed)
        self.assertEqual(self.b.told(parcels.END)[0]["missing"], [])

    def test_not_before_others_have_what_the_client_has_published_here(self) -> None:
        """Else what it publishes next, at the target, could overtake it."""
        self.begin()
        self.c.table(("ft", 1))
        client = self.connect()
        client.next("CONNACK")
        client.send(p.publish("t", b"x", 1, 1))
        self.claimed = self.epoch() + 1000
        self.b.claims("s", self.claimed)
        self.cut("c")
        self.b.confirm_all()
        self.b.mark("s", self.claimed)
        self.c.mark("s", self.claimed)
        self.here.settle()
        self.assertEqual(self.state(), SENDING)
        self.c.confirm_all()
        self.assertEqual(self.state(), ENDED)

    def test_a_node_that_is_lost_is_not_waited_for(self) -> None:
        """It is missing: what it has sent before may come later."""
        self.prepared()
        self.b.confirm_all()
        self.b.mark("s", self.claimed)
        self.here.lose(self.c)
        self.assertEqual(self.b.told(parcels.END)[0]["missing"], ["c"])

    def test_nor_one_of_which_nothing_is_heard(self) -> None:
        self.prepared()
        self.b.confirm_all()
        self.b.mark("s", self.claimed)
        self.here.wait(2.5, silent="c")
        self.assertEqual(self.b.told(parcels.END), [])
        self.here.wait(1.0, silent="c")
        self.assertEqual(self.b.told(parcels.END)[0]["missing"], ["c"])

    def test_not_before_the_target_itself_has_marked(self) -> None:
        """What was published there before may wait in its channel, as the link is busy."""
        self.prepared()
        self.b.confirm_all()
        self.c.mark("s", self.claimed)
        self.here.wait(1.0)
        self.assertEqual(self.b.told(parcels.END), [])
        self.b.publish(b"3")
        self.assertEqual(self.b.payloads(), [b"3"])


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
                while node_of(b).epochs.targets["s"].state != ARRIVING:
                    sim.run(0.0005)
                b.send(publisher, p.publish("t", b"2", 1, 32))
                sim.run(5.0)
                self.assertTrue(again.next("CONNACK").session_present)
                self.assertEqual(again.payloads(), [b"1", b"2"])
