"""A node that publishes switches at one moment: from where a session was to where it is.

Node a is such a node.  The session of client s was on node b, with the filter t, and is on node c.
"""

import json

from mhub.cluster import frames
from mhub.cluster.member import UP
from mhub.cluster.migration import controls, given, switches
from mhub.cluster.migration.pending import CLOSED
from mhub.cluster.migration.segments import Segment, place
from mhub.core.channel_records import Entry, Origin
from tests.cluster.migration.played import TOPIC, Case, Close, Direct, Mark, message_of
from tests.cluster.migration.test_source import ENDED, SourceCase
from tests.core.world import Client
from tests.helpers import packets as p

LASTING = 3
EPOCH = 5000
"""Of the claim of node c."""


class CutsCase(Case):
    def start(self, *payloads: bytes, durable: bool = False, names: str = "bc") -> None:
        """Messages are in the channel to node b, and not confirmed."""
        self.begin(names, durable)
        self.b.table(("f" + TOPIC, LASTING), ("cs", 1000 << 1))
        self.here.settle()
        self.first = self.peer("b").outgoing.last_n
        self.publish(*payloads)

    def cut(self, *segments: Segment, epoch: int = EPOCH) -> None:
        """Node b says that the session is on node c."""
        self.b.cut("s", epoch, "c", list(segments))
        self.here.settle()


class CollectTests(CutsCase):
    """What a session has not got, of what is in the channel to where it was."""

    def collect(self, *segments: Segment, filters: tuple[str, ...] = (TOPIC,)) -> list[bytes]:
        found = self.migration.resend.collect("s", list(filters), list(segments))
        return [entry.message.payload for entry in found]

    def mark(self, node: str, epoch: int) -> None:
        self.peer(node).outgoing.put_control("s", controls.mark(epoch, False))

    def test_what_is_behind_the_position(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.start(b"1", b"2", b"3", durable=durable)
                self.assertEqual(self.collect(self.segment("b", self.first)), [b"1", b"2", b"3"])
                self.assertEqual(self.collect(self.segment("b", self.first + 2)), [b"3"])
                self.assertEqual(self.collect(self.segment("b", self.first + 3)), [])

    def test_not_the_numbers_that_came_as_copies(self) -> None:
        self.start(b"1", b"2", b"3")
        early = (self.first + 2,)
        self.assertEqual(self.collect(self.segment("b", self.first, early)), [b"1", b"3"])

    def test_not_what_is_confirmed(self) -> None:
        self.start(b"1", b"2", b"3")
        self.b.confirm_to(self.first + 1)
        self.assertEqual(self.collect(self.segment("b", self.first)), [b"2", b"3"])

    def test_only_what_the_filters_match(self) -> None:
        self.start()
        self.b.table(("f#", LASTING))
        self.publish(b"1", topic="t")
        self.publish(b"2", topic="t/u")
        self.publish(b"3", topic="v/u")
        segment = self.segment("b", self.first)
        self.assertEqual(self.collect(segment, filters=("t", "+/u")), [b"1", b"2", b"3"])
        self.assertEqual(self.collect(segment, filters=("t/#",)), [b"1", b"2"])
        self.assertEqual(self.collect(segment, filters=()), [])

    def test_no_qos_0(self) -> None:
        self.start()
        self.publish(b"0", qos=0)
        self.assertEqual(self.collect(self.segment("b", self.first)), [])

    def test_not_what_was_for_members_of_a_group(self) -> None:
        """It went to one of them, and to nobody else."""
        self.start()
        self.b.table(("f" + TOPIC, 0), ("s$share/g/t", LASTING))
        self.publish(b"1")
        self.assertEqual(self.peer("b").outgoing.last_n, self.first + 1)
        self.assertEqual(self.collect(self.segment("b", self.first)), [])

    def copies(self, direct: bool = False) -> None:
        """Copies of what node d has for node b, behind different control records."""
        for n, epoch in enumerate((0, 2000, CLOSED)):
            copy = Entry(0, message_of(b"copy %d" % n), not direct, None)
            copy.origin = Origin("d", "d1", 7 + n, json.dumps({"s": epoch} if epoch else {}))
            if direct:
                copy.direct, copy.session_epoch = "s", 2000
            self.peer("b").outgoing.put_copy(copy)

    def test_copies_but_for_those_behind_a_close(self) -> None:
        """For which session a copy is was decided where it was copied."""
        for since in (0, 2000):
            with self.subTest(since=since):
                self.start()
                self.copies()
                segment = self.segment("b", self.first, since=since)
                found = self.migration.resend.collect("s", [TOPIC], [segment])
                self.assertEqual(
                    [(each.message.payload, each.via) for each in found],
                    [(b"copy 0", place("d", "d1", 7)), (b"copy 1", place("d", "d1", 8))],
                )

    def test_copies_only_if_the_filters_match(self) -> None:
        self.start()
        self.copies()
        self.assertEqual(self.collect(self.segment("b", self.first), filters=("u",)), [])

    def test_copies_of_what_was_direct(self) -> None:
        """Else what its publisher sent next, which may be a copy as well, would be in front of it.

        The node that they were taken from sends them again, too: the places tell which are which.
        """
        self.start()
        self.copies(direct=True)
        segment = self.segment("b", self.first, since=2000)
        found = self.migration.resend.collect("s", [TOPIC], [segment])
        places = [place("d", "d1", 7 + n) for n in range(3)]
        self.assertEqual([each.via for each in found], places)
        self.assertEqual(self.collect(self.segment("b", self.first, since=1999)), [])

    def test_it_is_known_where_each_was_at_first(self) -> None:
        """However often it is sent again."""
        self.start(b"1")
        (found,) = self.migration.resend.collect("s", [TOPIC], [self.segment("b", self.first)])
        first = place("a", self.peer("b").outgoing.epoch, self.first + 1)
        self.assertEqual(found.via, first)
        self.peer("c").outgoing.put_direct("s", 2000, found.message, True, found.via)
        segment = self.segment("c", 0, since=2000)
        (again,) = self.migration.resend.collect("s", [TOPIC], [segment])
        self.assertEqual(again.via, first)

    def test_nothing_of_a_node_without_a_channel(self) -> None:
        self.start(b"1")
        self.assertEqual(self.collect(Segment("x", "x1", 0, [], 0, True)), [])

    def test_of_another_life_all_of_it(self) -> None:
        """The node had heard of an earlier channel: none of these has come to it before the cut."""
        self.start(b"1", b"2")
        segment = self.segment("b", 1 << 40, (self.first + 1,))
        self.assertEqual(self.collect(segment._replace(channel_epoch="before")), [b"1", b"2"])
        self.assertEqual(self.collect(segment), [])

    def test_where_the_gate_was_open_until_the_close(self) -> None:
        """What is published behind CLOSE was for another session."""
        self.start(b"1")
        self.peer("b").outgoing.put_control("s", controls.close(2000))
        self.publish(b"2")
        self.assertEqual(self.collect(self.segment("b", self.first)), [b"1"])

    def test_control_records_of_other_clients_do_not_matter(self) -> None:
        self.start(b"1")
        self.peer("b").outgoing.put_control("x", controls.close(2000))
        self.peer("b").outgoing.put_control("x", controls.mark(2000, False))
        self.publish(b"2")
        self.assertEqual(self.collect(self.segment("b", self.first)), [b"1", b"2"])
        closed = self.segment("b", self.first, since=2000)
        self.assertEqual(self.collect(closed), [])

    def test_where_the_gate_was_closed_what_is_direct_or_behind_the_mark(self) -> None:
        """What is in front of the mark was for the node where the session was before."""
        self.start(b"before")
        self.peer("b").outgoing.put_direct("s", 2000, message_of(b"1"), True, "")
        self.mark("b", 2000)
        self.publish(b"2")
        segment = self.segment("b", self.first, since=2000)
        self.assertEqual(self.collect(segment), [b"1", b"2"])

    def test_direct_messages_for_another_claim_or_client_are_not_for_it(self) -> None:
        self.start()
        for client_id, epoch in (("s", 1999), ("s", 2001), ("x", 2000)):
            self.peer("b").outgoing.put_direct(client_id, epoch, message_of(b"x"), True, "")
        self.mark("b", 1999)
        self.publish(b"y")
        self.assertEqual(self.collect(self.segment("b", self.first, since=2000)), [])

    def test_no_direct_ones_where_the_gate_was_open(self) -> None:
        """They were sent for an earlier stay of the session, in front of its mark."""
        self.start()
        self.peer("b").outgoing.put_direct("s", 2000, message_of(b"x"), True, "")
        self.assertEqual(self.collect(self.segment("b", self.first)), [])

    def test_behind_a_mark_until_the_close(self) -> None:
        """Another mark changes nothing: it is of a claim that came to nothing."""
        self.start()
        self.mark("b", 2000)
        self.publish(b"1")
        self.mark("b", 3000)
        self.publish(b"2")
        self.peer("b").outgoing.put_control("s", controls.close(4000))
        self.publish(b"3")
        segment = self.segment("b", self.first, since=2000)
        self.assertEqual(self.collect(segment), [b"1", b"2"])

    def test_relayed_entries_in_between_do_not_matter(self) -> None:
        self.start(b"1")
        self.peer("b").outgoing.put_control("s", controls.relay("", []))
        self.publish(b"2")
        self.assertEqual(self.collect(self.segment("b", self.first)), [b"1", b"2"])

    def test_several_segments_in_their_order(self) -> None:
        """The session went from d to b and on, before this node knew of either."""
        self.begin("bcd")
        d = self.here.played["d"]
        d.table(("f" + TOPIC, LASTING))
        self.publish(b"1", b"2")
        self.b.table(("f" + TOPIC, LASTING))
        self.publish(b"3")
        self.first = self.peer("b").outgoing.last_n - 1
        segments = (self.segment("d", 1), self.segment("b", self.first, since=2000))
        # What is in both channels is in front of the mark in that to b: it is taken once.
        self.assertEqual(self.collect(*segments), [b"2", b"3"])

    def test_those_of_which_all_was_sent_on_are_left_out(self) -> None:
        """The mark behind it tells so: this node has switched to the next place before."""
        self.start(b"1", b"2")
        self.peer("c").outgoing.put_direct("s", 2000, message_of(b"2"), True, "")
        self.mark("c", 2000)
        first = self.segment("b", self.first)
        second = self.segment("c", 0, since=2000)
        self.assertEqual(self.collect(first), [b"1", b"2"])
        self.assertEqual(self.collect(first, second), [b"2"])


class SwitchTests(CutsCase):
    def test_what_is_missing_comes_directly_then_the_mark_then_what_is_new(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.start(b"1", b"2", b"3", durable=durable)
                self.c.table(("f" + TOPIC, LASTING))
                self.b.forget()
                self.cut(self.segment("b", self.first + 1))
                self.publish(b"4")
                found = self.c.records()
                expected = [Direct("s", EPOCH, b"2"), Direct("s", EPOCH, b"3"), Mark("s", EPOCH)]
                self.assertEqual(found, [*expected, b"4"])

    def test_all_others_that_may_have_a_session_are_closed(self) -> None:
        """The one where it was, those who have an older one, and those that CUT knows of."""
        self.start(names="bcdef")
        self.here.played["d"].claims("s", 500, False)
        for far in self.here.played.values():
            far.forget()
        self.c.cut("s", EPOCH, "c", [], old="ec", held=EPOCH)
        for name, far in self.here.played.items():
            with self.subTest(name=name):
                expected = [Close("s", EPOCH)] if name in "bde" else []
                found = [each for each in far.records() if isinstance(each, Close)]
                self.assertEqual(found, expected)

    def test_it_is_said_to_the_asker_and_to_all_where_the_session_was(self) -> None:
        """They may confirm again what is behind the position."""
        self.start(names="bcd")
        segments = (self.segment("d", 0), self.segment("b", 0))
        self.cut(*segments)
        for name, count in (("b", 1), ("d", 1), ("c", 0)):
            said = self.here.played[name].told(frames.SWITCHED)
            self.assertEqual(said, [{"client": "s", "epoch": EPOCH}] * count)

    def test_a_repeated_cut_is_answered_and_nothing_else(self) -> None:
        """Source and owner ask both, and each of them after every broken link."""
        self.start(b"1")
        self.cut(self.segment("b", self.first))
        self.c.forget()
        self.b.forget()
        self.cut(self.segment("b", self.first))
        self.c.cut("s", EPOCH, "c", [self.segment("b", self.first)], held=EPOCH)
        self.assertEqual((self.c.records(), self.b.records()), ([], []))
        self.assertEqual(len(self.b.told(frames.SWITCHED)), 2)

    def test_one_with_a_lower_epoch_as_well(self) -> None:
        """The session has gone on: what was asked for earlier is a part of what was sent."""
        self.start(b"1")
        self.cut(self.segment("b", self.first))
        self.c.forget()
        self.cut(self.segment("b", self.first), epoch=EPOCH - 1)
        self.assertEqual(self.c.records(), [])
        (_, said) = self.b.told(frames.SWITCHED)
        self.assertEqual(said["epoch"], EPOCH - 1)

    def test_unless_the_owner_itself_asks(self) -> None:
        """The higher epoch was of a claim that came to nothing, by a clock that is ahead; what was
        published for that in between is missing here."""
        self.start(b"1")
        self.cut(self.segment("b", self.first))
        self.c.forget()
        self.b.table(("cs", 0))
        self.c.cut("s", EPOCH - 1, "c", [self.segment("b", self.first)], held=EPOCH - 1)
        expected = [Direct("s", EPOCH - 1, b"1"), Mark("s", EPOCH - 1, True)]
        self.assertEqual(self.c.records(), expected)

    def test_but_not_if_another_node_has_a_newer_session(self) -> None:
        self.start(b"1", names="bcd")
        self.cut(self.segment("b", self.first))
        self.c.forget()
        self.here.played["d"].claims("s", EPOCH)
        self.c.cut("s", EPOCH - 1, "c", [self.segment("b", self.first)], held=EPOCH - 1)
        self.assertEqual(self.c.records(), [])

    def test_a_later_one_is_a_switch_of_its_own(self) -> None:
        """From c, where this node had switched to, back to b."""
        self.start(b"1")
        self.cut(self.segment("b", self.first))
        self.b.table(("f" + TOPIC, 0))
        self.c.table(("f" + TOPIC, LASTING), ("cs", EPOCH << 1))
        self.publish(b"2")
        self.b.forget()
        n = self.peer("c").outgoing.last_n
        self.c.cut("s", EPOCH + 1, "b", [self.segment("c", n - 1)])
        expected = [Direct("s", EPOCH + 1, b"2"), Mark("s", EPOCH + 1)]
        self.assertEqual(self.b.records(), expected)
        self.assertIn(Close("s", EPOCH + 1), self.c.records())

    def test_a_node_that_had_it_is_believed_if_our_messages_were_for_it(self) -> None:
        """Its session may be an older one than that which this node has switched to."""
        for what in ("without segments", "closed", "not opened"):
            with self.subTest(what=what):
                self.start(b"1")
                segment = self.segment("b", self.first)
                if what == "closed":
                    self.peer("b").outgoing.put_control("s", controls.close(EPOCH + 1000))
                if what == "not opened":
                    segment = self.segment("b", self.first, since=2000)
                self.cut(*([] if what == "without segments" else [segment]))
                self.assertEqual(self.c.records(), [])
                self.assertEqual(self.b.told(frames.SWITCHED), [])

    def test_a_node_that_has_not_switched_for_long_has_nothing_for_it(self) -> None:
        """What it sends is confirmed again, though it was never asked by the owner."""
        self.start(b"1")
        gone = given.Given("s", EPOCH, "c", [TOPIC])
        epoch = self.peer("b").incoming.epoch
        gone.waits = {"b": [Segment("a", epoch, 0, [], 0, True)]}
        told = self.here.node.migration.given
        told.hold(gone.why, gone.waits)
        told.gave(gone)
        self.assertEqual(self.peer("b").incoming.cap, 0)
        self.here.wait(5.0)
        self.assertIn(gone.why, told.all)
        self.here.node.members["b"].state = UP
        self.here.wait(30.0)
        self.assertEqual((told.all, self.peer("b").incoming.cap), ({}, -1))

    def test_the_owner_is_believed_in_any_case(self) -> None:
        """It asks for a new session as well, which has no segments."""
        self.start(b"1")
        self.c.cut("s", EPOCH, "c", [], held=EPOCH)
        self.assertEqual(self.c.records(), [Mark("s", EPOCH)])

    def test_a_session_that_comes_here_is_not_switched_to(self) -> None:
        """This node has taken what is behind the position from its own channel."""
        self.start(b"1")
        self.b.forget()
        self.b.cut("s", EPOCH, "a", [self.segment("b", self.first)])
        self.assertEqual([e for e in self.b.records() if isinstance(e, Mark | Direct)], [])
        self.assertEqual(len(self.b.told(frames.SWITCHED)), 1)

    def test_to_a_node_that_is_away_all_of_it_waits_in_the_channel(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.start(b"1", durable=durable)
                self.here.lose(self.c)
                self.cut(self.segment("b", self.first))
                self.assertEqual(len(self.b.told(frames.SWITCHED)), 1)
                if durable:
                    self.restart()
                self.c = self.here.meet("c")
                expected = [Direct("s", EPOCH, b"1"), Mark("s", EPOCH)]
                self.assertEqual(self.c.records(), expected)

    def test_the_node_with_the_session_may_be_new_to_this_one(self) -> None:
        self.start(b"1")
        self.b.cut("s", EPOCH, "d", [self.segment("b", self.first)])
        d = self.here.meet("d")
        self.assertEqual(d.records(), [Direct("s", EPOCH, b"1"), Mark("s", EPOCH)])

    def test_a_session_that_is_here_is_closed_as_others_are(self) -> None:
        """An older one of the same client: its client is told when it is back."""
        self.begin("bc")
        session = self.sleeper()
        epoch = session.epoch + 1000
        self.c.cut("s", epoch, "c", [], held=epoch)
        self.publish(b"x")
        self.assertEqual(session.queued(), 0)
        self.assertTrue(session.state_lost)


class GapTests(CutsCase):
    """Something behind the position was confirmed: it is not here any more."""

    def gaps(self) -> list[bool]:
        return [each.gap for each in self.c.records() if isinstance(each, Mark)]

    def test_the_mark_says_so(self) -> None:
        self.start(b"1", b"2", b"3")
        self.b.confirm_to(self.first + 2)
        self.cut(self.segment("b", self.first + 1))
        found = self.c.records()
        self.assertEqual(found, [Direct("s", EPOCH, b"3"), Mark("s", EPOCH, True)])

    def test_there_is_none_if_no_more_was_confirmed_than_came(self) -> None:
        self.start(b"1", b"2", b"3")
        self.b.confirm_to(self.first + 2)
        self.cut(self.segment("b", self.first + 2))
        self.assertEqual(self.gaps(), [False])

    def test_in_any_of_the_segments(self) -> None:
        self.start(b"1", names="bcd")
        self.b.confirm_all()
        self.cut(self.segment("b", self.first), self.segment("d", 0))
        self.assertEqual(self.gaps(), [True])

    def test_not_in_one_of_which_all_was_sent_on(self) -> None:
        """It was confirmed when this node had switched to the next one."""
        self.start(b"1", names="bcd")
        self.peer("d").outgoing.put_control("s", controls.mark(2000, False))
        self.b.confirm_all()
        self.cut(self.segment("b", self.first), self.segment("d", 0, since=2000))
        self.assertEqual(self.gaps(), [False])


class SafeTests(CutsCase):
    """What is sent again is as safe as where it was taken from."""

    def publisher(self) -> Client:
        client = self.connect("q")
        client.next("CONNACK")
        client.send(p.publish(TOPIC, b"1", 1, 1))
        self.assertEqual(client.take(), [])
        return client

    def test_its_publisher_waits_for_both_nodes(self) -> None:
        self.start()
        client = self.publisher()
        self.cut(self.segment("b", self.first))
        self.b.confirm_all()
        self.assertEqual(client.take(), [])
        self.c.confirm_all()
        self.assertEqual(client.next("PUBACK").pid, 1)

    def test_a_publisher_that_was_told_waits_no_more(self) -> None:
        """The store has its message, and that which is sent again."""
        self.start(durable=True)
        self.here.lose(self.b)
        client = self.connect("q", clean=True)
        client.next("CONNACK")
        client.send(p.publish(TOPIC, b"1", 1, 1))
        self.here.settle()
        self.assertEqual(client.next("PUBACK").pid, 1)
        self.c.cut("s", EPOCH, "c", [self.segment("b", self.first)], held=EPOCH)
        self.here.settle()
        self.restart()
        self.c = self.here.meet("c")
        self.assertEqual(self.c.records(), [Direct("s", EPOCH, b"1"), Mark("s", EPOCH)])


class ExpectTests(CutsCase):
    """What is published behind the mark is for the session, though the table is on its way."""

    def start(self, *payloads: bytes, durable: bool = False, names: str = "bc") -> None:
        super().start(*payloads, durable=durable, names=names)
        self.was = [self.segment("b", self.first)]

    def test_filters_of_a_table_that_has_not_come(self) -> None:
        self.start()
        number = self.c.table_n + 1
        self.b.cut("s", EPOCH, "c", self.was, filters=("u",), table=("c1", number))
        self.publish(b"1", topic="u")
        self.assertEqual(self.c.records(), [Mark("s", EPOCH), b"1"])
        self.assertEqual(self.peer("c").clients["s"] >> 1, EPOCH)

    def test_a_table_that_has_come_is_right(self) -> None:
        """The client may have unsubscribed since."""
        for is_same in (True, False):
            with self.subTest(is_same=is_same):
                self.start()
                n = self.c.table_n
                table = ("c1", n) if is_same else ("c0", n + 1)
                self.b.cut("s", EPOCH, "c", self.was, filters=("u",), table=table)
                self.publish(b"1", topic="u")
                self.assertEqual(self.c.records(), [Mark("s", EPOCH)])

    def expected(self, after: int) -> None:
        """The table of node c has the filter u from some changes later on."""
        self.start()
        number = self.c.table_n + after
        self.b.cut("s", EPOCH, "c", self.was, filters=("u",), table=("c1", number))
        self.c.forget()

    def is_sent(self) -> bool:
        self.publish(b"1", topic="u")
        return b"1" in self.c.records()

    def test_what_the_table_said_before_does_not_count(self) -> None:
        """A session that was there earlier had the same filter."""
        self.expected(2)
        self.c.table(("fu", LASTING))
        self.c.table(("fu", 0))
        self.assertFalse(self.is_sent())
        self.expected(3)
        self.c.table(("fu", LASTING))
        self.c.table(("fu", 0))
        self.assertTrue(self.is_sent())

    def test_what_it_says_later_does(self) -> None:
        self.expected(1)
        self.c.table(("fu", LASTING))
        self.assertTrue(self.is_sent())
        self.c.table(("fu", 0))
        self.assertFalse(self.is_sent())

    def test_of_a_table_as_a_whole_as_well(self) -> None:
        for number, sent in ((1, True), (2, False)):
            with self.subTest(number=number):
                self.expected(1)
                self.c.say(frames.TABLE, at=-2, to=number, number=number, set=[])
                self.assertEqual(self.is_sent(), sent)

    def test_another_process_says_what_it_has(self) -> None:
        self.expected(1)
        self.here.lose(self.c)
        self.c = self.here.meet("c", instance="c2")
        self.assertFalse(self.is_sent())

    def test_of_a_node_that_is_away(self) -> None:
        """Its session lasts: what is published is kept for it."""
        self.start()
        self.here.lose(self.c)
        self.b.cut("s", EPOCH, "c", self.was, filters=("u",), table=("c1", self.c.table_n))
        self.publish(b"1", topic="u")
        self.c = self.here.meet("c")
        self.assertEqual(self.c.records(), [Mark("s", EPOCH), b"1"])


class GivenTests(SourceCase):
    """Node a has given a session to node b, and node c has not switched yet."""

    def given(self, durable: bool = False, away: bool = True) -> None:
        self.idle(durable=durable)
        self.c.publish(b"3")
        self.here.settle()
        self.b.claims("s", self.claimed)
        self.accept()
        for _ in range(3):
            self.here.settle()
            self.more()
        self.here.settle()
        if away:
            self.here.lose(self.c)
        self.done()

    def notes(self) -> list[str]:
        store = self.here.store
        assert store is not None
        return [name for name in store.notes if name.startswith(given.NOTE)]

    def check(self) -> None:
        """What node c is told when it is back."""
        self.c = self.here.meet("c")
        kinds = self.c.sent(frames.CUT, frames.TABLE, frames.CONFIRM)
        self.assertEqual(kinds[:2], [frames.CUT, frames.TABLE])
        (resumed,) = self.c.told(frames.RESUME)
        self.assertEqual(resumed["received"], ["c1", 1])
        (said,) = self.c.told(frames.CUT)
        expected = {
            "client": "s",
            "epoch": self.claimed,
            "began": self.session.began,
            "to": "b",
            "filters": ["t"],
            "segments": [["a", "c1", 1, [], 0, True]],
        }
        self.assertEqual({**said, **expected}, said)

    def test_it_is_told_when_it_is_back_before_it_hears_of_the_table(self) -> None:
        """Else it would send nothing here any more, and nothing to node b yet."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.given(durable)
                self.check()

    def test_also_after_a_restart(self) -> None:
        self.given(durable=True)
        self.assertEqual(len(self.notes()), 1)
        self.restart()
        self.here.settle()
        self.check()

    def test_nothing_behind_the_position_is_confirmed_to_it_until_it_has(self) -> None:
        for is_crash in (False, True):
            with self.subTest(is_crash=is_crash):
                self.given(durable=True)
                if is_crash:
                    self.restart()
                self.c = self.here.meet("c")
                self.c.publish(b"4")
                self.here.settle()
                self.assertEqual(self.c.confirmed(), 1)
                self.c.switched("s", self.claimed)
                self.here.settle()
                self.assertEqual(self.c.confirmed(), 2)
                self.assertEqual((self.notes(), self.migration.given.all), ([], {}))

    def test_it_is_told_again_with_each_link_until_it_has(self) -> None:
        self.given()
        for _ in range(2):
            self.c = self.here.meet("c")
            self.assertEqual(len(self.c.told(frames.CUT)), 1)
            self.here.lose(self.c)
        self.c = self.here.meet("c")
        self.c.switched("s", self.claimed)
        self.here.lose(self.c)
        self.c = self.here.meet("c")
        self.assertEqual(self.c.told(frames.CUT), [])

    def test_a_node_that_is_forgotten_has_nothing_to_send(self) -> None:
        self.given(durable=True)
        self.here.node.forget("c")
        self.here.settle()
        self.assertEqual((self.notes(), self.migration.given.all), ([], {}))

    def test_given_a_second_time_the_first_is_a_part_of_it(self) -> None:
        """The session was here again meanwhile: its segments for node c are in the next CUT."""
        self.given()
        first = self.claimed
        client = self.connect()
        epoch = self.epoch()
        self.b.session("s", epoch, first)
        segment = Segment("a", "c1", 1, [], 0, True)
        self.b.end("s", epoch, {"c": [segment], "b": []})
        self.b.table(("cs", 0))
        self.here.settle()
        self.assertTrue(client.next("CONNACK").session_present)
        client.lose()
        self.b.confirm_all()
        self.claimed = epoch + 1000
        self.b.claims("s", self.claimed)
        self.accept()
        self.more()
        self.done()
        self.c = self.here.meet("c")
        (said,) = self.c.told(frames.CUT)
        self.assertEqual(said["epoch"], self.claimed)
        self.assertEqual(said["segments"], [[*segment], ["a", "c1", 1, [], epoch, False]])
        self.c.switched("s", self.claimed)
        self.assertEqual((self.migration.given.all, self.peer("c").incoming.caps), ({}, {}))

    def test_those_that_can_be_reached_are_pending(self) -> None:
        """A node that leaves waits for them."""
        self.given(away=False)
        self.assertEqual(self.migration.given.pending(), 1)
        self.c.switched("s", self.claimed)
        self.assertEqual(self.migration.given.pending(), 0)

    def test_those_that_cannot_are_not(self) -> None:
        self.given()
        self.assertEqual(self.migration.given.pending(), 0)

    def test_the_positions_outlive_a_crash_in_doubt(self) -> None:
        """The store has them with the note that END was out."""
        self.idle(durable=True)
        self.c.publish(b"3")
        self.here.settle()
        self.b.claims("s", self.claimed)
        self.accept()
        for _ in range(3):
            self.here.settle()
            self.more()
        self.here.settle()
        self.c.publish(b"behind")
        self.here.settle()
        self.assertEqual(self.state(), ENDED)
        self.restart()
        self.back()
        self.done()
        self.check()


class RememberTests(CutsCase):
    def test_not_more_than_a_few_switches_are_remembered(self) -> None:
        """One that is forgotten is only made again."""
        self.patch(switches, "REMEMBERED", 2)
        self.start()
        for client_id in ("x", "y", "z"):
            self.c.cut(client_id, EPOCH, "c", [], held=EPOCH)
        self.c.forget()
        for client_id in ("y", "z"):
            self.c.cut(client_id, EPOCH, "c", [], held=EPOCH)
        self.assertEqual(self.c.records(), [])
        self.c.cut("x", EPOCH, "c", [], held=EPOCH)
        self.assertEqual(self.c.records(), [Mark("x", EPOCH)])
