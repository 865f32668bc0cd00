"""Which messages are for a session that has migrated, by the node that has published them."""

import json

from mhub.cluster import frames
from mhub.cluster.migration.pending import CLOSED
from mhub.cluster.migration.segments import place
from mhub.cluster.migration.source import _delivery
from mhub.core.channel_records import record_of
from tests.cluster.migration.played import TOPIC, Case, PlayedNode, message_of
from tests.cluster.migration.test_target import TargetCase
from tests.helpers import packets as p


class GateCase(TargetCase):
    """The session came from node b; nodes b and c have not switched yet."""

    def arrived(self, durable: bool = False, closed: str = "bc") -> None:
        self.arriving(durable)
        self.end(closed)
        self.assertTrue(self.present())
        self.served = self.epoch()

    def came(self) -> list[bytes]:
        self.here.settle()
        return self.client.payloads()


class GateTests(GateCase):
    def test_not_what_comes_in_front_of_the_mark(self) -> None:
        """That was for the node where the session was: it is sent again, or has been given."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.arrived(durable)
                self.c.publish(b"before")
                self.c.marks("s", self.served)
                self.c.publish(b"behind")
                self.assertEqual(self.came(), [b"behind"])

    def test_what_is_direct_in_its_order(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.arrived(durable)
                self.c.publish(b"1")
                self.c.direct("s", self.served, b"1", b"2")
                self.c.marks("s", self.served)
                self.c.publish(b"3")
                self.assertEqual(self.came(), [b"1", b"2", b"3"])

    def test_each_node_has_a_gate_of_its_own(self) -> None:
        self.arrived()
        self.b.marks("s", self.served)
        self.c.publish(b"c")
        self.b.publish(b"b")
        self.assertEqual(self.came(), [b"b"])

    def test_what_is_published_here_is_for_it(self) -> None:
        self.arrived()
        self.publish(b"a")
        self.assertEqual(self.came(), [b"a"])

    def test_no_qos_0_either(self) -> None:
        """A client must not get it before what was published earlier."""
        self.arrived()
        self.c.publish(b"before", qos=0)
        self.c.marks("s", self.served)
        self.c.publish(b"behind", qos=0)
        self.assertEqual(self.came(), [b"behind"])

    def test_shared_subscriptions_are_open(self) -> None:
        """What comes by them was never for the source."""
        self.arriving(topics=("$share/g/t",))
        self.end("bc")
        self.assertTrue(self.present())
        self.c._channel([record_of(message_of(b"1"), False, ["$share/g/t"], self.here.world.now)])
        self.assertEqual(self.came(), [b"1"])

    def test_other_sessions_are_not_concerned(self) -> None:
        """They get what is for all, and nothing that is direct."""
        self.begin("bc")
        other = self.connect("other")
        other.next("CONNACK")
        other.send(p.subscribe(1, ("t", 1)))
        self.here.settle()
        other.next("SUBACK")
        self.b.claims("s", 1000, False)
        self.client = self.connect()
        self.b.session("s", self.epoch(), 1000)
        self.end("bc")
        self.c.publish(b"1")
        self.c.direct("s", self.epoch(), b"2")
        self.here.settle()
        self.assertEqual(other.payloads(), [b"1"])
        self.assertTrue(self.present())
        self.assertEqual(self.came(), [b"2"])

    def test_a_mark_of_another_claim_opens_nothing(self) -> None:
        self.arrived()
        for epoch in (self.served - 1, self.served + 1):
            self.c.marks("s", epoch)
        self.c.publish(b"1")
        self.assertEqual(self.came(), [])

    def test_direct_messages_for_another_claim_or_client_are_not_for_it(self) -> None:
        self.arrived()
        self.c.direct("s", self.served - 1, b"1")
        self.c.direct("s", self.served + 1, b"2")
        self.c.direct("x", self.served, b"3")
        self.assertEqual(self.came(), [])

    def test_behind_the_mark_nothing_is_direct(self) -> None:
        """It would come twice: a node that switches again does so under another epoch."""
        self.arrived()
        self.c.marks("s", self.served)
        self.c.direct("s", self.served, b"1")
        self.assertEqual(self.came(), [])

    def test_direct_messages_come_with_the_qos_of_the_subscription(self) -> None:
        self.claiming()
        self.b.session("s", self.epoch(), 1000)
        self.end("c")
        self.assertTrue(self.present())
        self.client.send(p.subscribe(1, ("t", 1)))
        self.client.next("SUBACK")
        self.c.direct("s", self.epoch(), b"1", qos=2)
        (packet,) = self.client.take()
        self.assertEqual((packet.payload, packet.qos), (b"1", 1))

    def test_not_if_the_client_has_unsubscribed_meanwhile(self) -> None:
        self.arrived()
        self.client.send(p.unsubscribe(2, "t"))
        self.here.settle()
        self.client.take()
        self.c.direct("s", self.served, b"1")
        self.assertEqual(self.came(), [])

    def test_gates_outlive_a_restart(self) -> None:
        self.arrived(durable=True)
        self.b.marks("s", self.served)
        self.here.settle()
        self.restart()
        self.meet("bc")
        self.client = self.connect()
        self.assertTrue(self.present())
        self.c.publish(b"before")
        self.b.publish(b"b")
        self.c.direct("s", self.served, b"1")
        self.c.marks("s", self.served)
        self.c.publish(b"2")
        self.assertEqual(self.came(), [b"b", b"1", b"2"])

    def test_they_keep_their_epoch_though_the_client_connects_again(self) -> None:
        """The session has a newer epoch then; the mark is of the claim by which it came."""
        self.arrived()
        self.client.lose()
        self.client = self.connect()
        self.assertTrue(self.present())
        self.assertGreater(self.epoch(), self.served)
        self.c.direct("s", self.served, b"1")
        self.c.marks("s", self.served)
        self.c.publish(b"2")
        self.assertEqual(self.came(), [b"1", b"2"])

    def test_when_all_are_open_nothing_is_left(self) -> None:
        self.arrived(durable=True)
        self.here.settle()
        store = self.here.store
        assert store is not None
        self.assertTrue([name for name in store.notes if name.startswith("gates/")])
        for far in (self.b, self.c):
            far.marks("s", self.served)
        self.here.settle()
        self.assertIsNone(self.hub.sessions["s"].intake)
        self.assertEqual(self.migration.intakes.gated, {})
        self.assertFalse([name for name in store.notes if name.startswith("gates/")])

    def test_also_when_the_session_ends_before(self) -> None:
        self.arrived(durable=True)
        self.hub.end_session(self.hub.sessions["s"])
        self.here.settle()
        store = self.here.store
        assert store is not None
        self.assertEqual(self.migration.intakes.gated, {})
        self.assertFalse([name for name in store.notes if name.startswith("gates/")])

    def test_a_node_that_is_forgotten_has_no_gate(self) -> None:
        self.arrived(closed="c")
        self.here.lose(self.c)
        self.here.node.forget("c")
        self.assertIsNone(self.hub.sessions["s"].intake)


class GapTests(GateCase):
    """Messages of a node are missing in their place: the client has to know."""

    def test_its_client_is_disconnected_and_told_when_it_is_back(self) -> None:
        self.arrived()
        self.c.marks("s", self.served, gap=True)
        self.here.settle()
        self.assertTrue(self.client.closed)
        self.client = self.connect()
        self.assertFalse(self.present())

    def test_also_one_that_is_away(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.arrived(durable)
                self.client.lose()
                self.c.marks("s", self.served, gap=True)
                self.here.settle()
                if durable:
                    self.restart()
                    self.meet("bc")
                self.client = self.connect()
                self.assertFalse(self.present())

    def test_the_gate_is_open_then(self) -> None:
        self.arrived()
        self.c.marks("s", self.served, gap=True)
        self.client = self.connect()
        self.present()
        self.c.publish(b"1")
        self.assertEqual(self.came(), [b"1"])

    def test_a_close_on_the_way_of_the_session_is_none(self) -> None:
        """It was for this node when the session was elsewhere: it has come since."""
        self.arriving(began=500)
        self.end("c")
        self.assertTrue(self.present())
        self.c.closes("s", 500)
        self.assertFalse(self.client.closed)

    def test_a_close_of_another_session_is_one(self) -> None:
        """The node has switched to a session that this one knows nothing of, a newer one."""
        self.arrived()
        self.c.closes("s", self.served + 10)
        self.assertTrue(self.client.closed)
        self.c.publish(b"not for it")
        self.client = self.connect()
        for far in (self.b, self.c):
            far.marks("s", self.epoch())
        self.here.settle()
        self.assertFalse(self.present())
        self.assertEqual(self.came(), [])


class CopyTests(GateCase):
    """A copy counts where it stood in the channel that it was taken from."""

    def test_in_front_of_the_mark_or_behind_it(self) -> None:
        for is_behind in (False, True):
            with self.subTest(is_behind=is_behind):
                self.arrived()
                controls = json.dumps({"s": self.served} if is_behind else {"x": self.served})
                self.b.copy("c", "c1", 1, b"x", controls)
                self.assertEqual(self.came(), [b"x"] if is_behind else [])

    def test_behind_the_mark_of_an_earlier_claim(self) -> None:
        self.arrived()
        self.b.copy("c", "c1", 1, b"x", json.dumps({"s": self.served - 1}))
        self.assertEqual(self.came(), [])

    def test_behind_a_close(self) -> None:
        self.arrived()
        self.b.copy("c", "c1", 1, b"x", json.dumps({"s": CLOSED}))
        self.assertEqual(self.came(), [])

    def test_the_gate_of_the_node_that_has_the_copy_does_not_matter(self) -> None:
        self.arrived(closed="b")
        self.b.copy("c", "c1", 1, b"x")
        self.assertEqual(self.came(), [b"x"])

    def test_a_copy_may_be_direct(self) -> None:
        """The publisher has moved when its message had been sent again."""
        for epoch, expected in ((0, [b"x"]), (1, [])):
            with self.subTest(epoch=epoch):
                self.arrived()
                self.b.copy("c", "c1", 1, b"x", direct=f"s {self.served + epoch}")
                self.assertEqual(self.came(), expected)
                self.c.direct("s", self.served, b"x", b"y")
                self.assertEqual(self.came(), [b"y"])


class ClosedTests(Case):
    """An older session: nodes that know of a newer one send nothing more to it."""

    def closed(self, durable: bool = False) -> None:
        self.begin("bc", durable)
        self.session = self.sleeper()
        self.c.closes("s", self.session.epoch + 1000)
        self.here.settle()

    def test_what_they_send_is_not_for_it(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.closed(durable)
                self.c.publish(b"c")
                self.assertEqual(self.session.queued(), 0)
                self.b.publish(b"b")
                self.publish(b"a")
                self.assertEqual(self.session.queued(), 2)

    def test_also_after_a_restart(self) -> None:
        self.closed(durable=True)
        self.restart()
        self.meet("bc")
        self.c.publish(b"c")
        self.b.publish(b"b")
        self.here.settle()
        self.assertEqual(self.hub.sessions["s"].queued(), 1)

    def test_it_waits_for_the_newer_one_to_be_heard_of(self) -> None:
        """Then it is offered to it."""
        self.closed()
        epoch = self.session.epoch + 1000
        self.assertEqual(self.b.kinds(), [])
        self.b.claims("s", epoch)
        self.assertEqual(self.b.offered()[0]["epoch"], epoch)

    def test_its_client_gets_a_new_session(self) -> None:
        """With what the older one had, late."""
        self.closed()
        self.b.publish(b"b")
        client = self.connect()
        self.assertTrue(self.is_waiting(client))
        for far in (self.b, self.c):
            self.assertEqual(len(far.told(frames.CUT)), 1)
            far.marks("s", self.epoch())
        self.here.settle()
        self.assertFalse(client.next("CONNACK").session_present)
        self.assertEqual(client.payloads(), [b"b"])
        self.assertIsNot(self.hub.sessions["s"], self.session)

    def test_entries_do_not_come_to_it_by_a_copy(self) -> None:
        """The copy stood behind the CLOSE, whichever comes first."""
        self.closed()
        self.b.copy("c", "c1", 9, b"x", json.dumps({"s": CLOSED}))
        self.assertEqual(self.session.queued(), 0)


class AgainTests(GateCase):
    """A message that is sent again may come by two ways: from its node, and as another's copy.

    The gate of node c has a segment of its channel to node b, behind the position 5.
    """

    def direct(self, far: PlayedNode, n: int, epoch: str = "c1") -> None:
        far.direct("s", self.served, b"%d" % n, via=place("c", epoch, n))

    def test_in_their_order_from_the_node_that_has_published_them(self) -> None:
        self.arrived()
        for n in (6, 7, 8):
            self.direct(self.c, n)
        self.assertEqual(self.came(), [b"6", b"7", b"8"])

    def test_not_what_the_session_has_got(self) -> None:
        self.arrived()
        for n in (4, 5, 6):
            self.direct(self.c, n)
        self.assertEqual(self.came(), [b"6"])

    def test_each_once_whichever_way_is_faster(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.arrived(durable)
                self.direct(self.b, 7)
                self.direct(self.c, 6)
                self.direct(self.c, 7)
                self.direct(self.b, 6)
                self.direct(self.c, 8)
                self.direct(self.b, 8)
                self.assertEqual(self.came(), [b"7", b"6", b"8"])

    def test_also_after_a_restart(self) -> None:
        """With the message it is stored that it came."""
        self.arrived(durable=True)
        self.direct(self.c, 6)
        self.direct(self.b, 9)
        self.here.settle()
        self.restart()
        self.meet("bc")
        for n in (6, 9):
            self.direct(self.b, n)
        self.direct(self.c, 7)
        self.client = self.connect()
        self.assertTrue(self.present())
        self.assertEqual(self.came(), [b"6", b"9", b"7"])

    def test_another_node_may_send_it_after_its_own_has_switched(self) -> None:
        """It has come by then."""
        self.arrived()
        self.direct(self.c, 6)
        self.c.marks("s", self.served)
        self.direct(self.b, 6)
        self.assertEqual(self.came(), [b"6"])

    def test_what_was_published_here_comes_from_nobody_else(self) -> None:
        """This node has no gate for itself."""
        self.arrived()
        self.b.direct("s", self.served, b"x", via=place("a", "a1", 1))
        self.assertEqual(self.came(), [])


class DirectTests(GateCase):
    def test_before_the_session_is_known_to_be_here_nothing_is(self) -> None:
        """A node that switches does so when it was asked, and that is after END."""
        self.begin("bc")
        self.c.direct("s", 1000, b"1")
        self.assertNotIn("s", self.hub.sessions)

    def test_with_nothing_to_decide_they_are_not_for_it(self) -> None:
        self.begin("bc")
        session = self.sleeper()
        self.c.direct("s", session.epoch, b"1")
        self.assertEqual(session.queued(), 0)

    def test_while_the_session_goes_on_they_are_kept_here_and_are_not_confirmed(self) -> None:
        """A third node claims it before node c has switched to this one."""
        self.arrived(closed="c")
        self.client.lose()
        self.b.table(("cs", 0))
        self.b.claims("s", self.epoch() + 1000)
        epoch = self.epoch() + 1000
        self.b.confirm_all()
        self.b.accept("s", epoch)
        self.c.confirmed()
        self.c.direct("s", self.served, b"1")
        self.assertEqual(self.c.confirmed(), 0)
        self.b.table(("cs", 0))
        self.b.unknown("s", epoch)
        self.here.settle()
        self.client = self.connect()
        self.assertTrue(self.present())
        self.assertEqual(self.came(), [b"1"])


class OptionTests(Case):
    """What a subscription asks for holds as well for what is sent again or comes late."""

    def test_not_its_own_messages_if_it_does_not_want_them(self) -> None:
        self.begin("b")
        session = self.sleeper()
        session.subscriptions[TOPIC].no_local = True
        for sender, queued in (("s", 0), ("another", 1)):
            message = message_of(b"1")
            message.sender = sender
            self.migration.intakes.of(session).deliver(message)
            self.assertEqual(session.queued(), queued, sender)

    def test_retain_as_published(self) -> None:
        self.begin("b")
        session = self.sleeper()
        subscription = session.subscriptions[TOPIC]
        message = message_of(b"1")
        message.retain = True
        for wanted in (False, True):
            subscription.retain_as_published = wanted
            self.assertEqual(_delivery(message, 1, subscription).retain, wanted)
