"""A publisher that moves: what it has published for a node that cannot be reached goes along.

The target has copies of it in its own channel, in front of what the client publishes next.  The
receiver takes each message once, whichever way is faster.
"""

from mhub.cluster import frames
from mhub.cluster.frames import with_data
from mhub.cluster.migration import controls
from mhub.cluster.migration.pending import CLOSED, marks_in, read_pending
from mhub.cluster.migration.segments import Segment, place
from mhub.cluster.said import split
from mhub.core.channel_records import Entry, Origin, record_of, special_of
from tests.cluster.migration.played import TOPIC, Case, Close, Copy, message_of
from tests.cluster.migration.test_source import SourceCase
from tests.cluster.migration.test_target import TargetCase
from tests.core.world import Client
from tests.helpers import packets as p

LASTING = 3


def copy_of(n: int, payload: bytes, plain: bool = True) -> Entry:
    """Of what node b has in its channel to node c, with that number."""
    copy = Entry(0, message_of(payload), plain, None)
    copy.origin = Origin("b", "b1", n, "")
    return copy


class GivenTests(SourceCase):
    """Client s has published on node a; node c, where somebody has subscribed, is away."""

    def published(self, *payloads: bytes, durable: bool = False) -> None:
        self.begin("bc", durable)
        self.c.table(("f" + TOPIC, LASTING))
        client = self.connect()
        client.next("CONNACK")
        self.here.lose(self.c)
        for n, payload in enumerate(payloads, 1):
            client.send(p.publish(TOPIC, payload, 1, n))
        self.here.settle()
        self.assertEqual(len(client.take()), len(payloads))

    def give(self) -> list[tuple[str, int, bytes]]:
        """What is pending, as node b hears of it: node and number of its origin, payload."""
        self.claimed = self.epoch() + 1000
        self.b.claims("s", self.claimed)
        self.here.settle()
        self.accept()
        self.here.settle()
        bodies = self.b.took(frames.PENDING)
        if not bodies:
            return []
        (body,) = bodies
        said, data = split(body)
        self.assertEqual((said.text("node"), said.number("epoch")), ("c", self.claimed))
        found = read_pending("s", data, 0.0)
        return [(each.origin.node, each.origin.n, each.message.payload) for each in found]

    def test_all_that_it_has_published_in_its_order(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.published(b"1", b"2", durable=durable)
                first = self.here.peers.peers["c"].outgoing.last_n - 1
                self.assertEqual(self.give(), [("a", first, b"1"), ("a", first + 1, b"2")])
                self.assertEqual(self.b.told(frames.END), [])
                self.more()
                self.here.settle()
                self.assertEqual(len(self.b.told(frames.END)), 1)

    def test_with_the_marks_that_stand_in_front_of_it(self) -> None:
        """Whether a copy is for a session that migrates depends on them."""
        self.begin("bc")
        self.c.table(("f" + TOPIC, LASTING))
        client = self.connect()
        client.next("CONNACK")
        self.here.lose(self.c)
        client.send(p.publish(TOPIC, b"1", 1, 1))
        self.peer("c").outgoing.put_control("x", controls.mark(77, False))
        client.send(p.publish(TOPIC, b"2", 1, 2))
        self.peer("c").outgoing.put_control("x", controls.close(78))
        self.peer("c").outgoing.put_control("y", controls.mark(79, False))
        client.send(p.publish(TOPIC, b"3", 1, 3))
        self.claimed = self.epoch() + 1000
        self.b.claims("s", self.claimed)
        self.accept()
        (body,) = self.b.took(frames.PENDING)
        copies = read_pending("s", split(body)[1], 0.0)
        found = [marks_in(each.origin.controls) for each in copies if each.origin is not None]
        self.assertEqual(found, [{}, {"x": 77}, {"x": CLOSED, "y": 79}])

    def test_with_whose_session_alone_it_is_for(self) -> None:
        """It was sent again for a session that has migrated, and is on its way."""
        self.published(b"1")
        (entry,) = self.peer("c").outgoing.unconfirmed()
        self.peer("c").outgoing.put_direct("x", 77, entry.message, True, "a\nlife\n5")
        self.claimed = self.epoch() + 1000
        self.b.claims("s", self.claimed)
        self.accept()
        (body,) = self.b.took(frames.PENDING)
        found = read_pending("s", split(body)[1], 0.0)
        self.assertEqual(
            [(each.direct, each.session_epoch, each.via) for each in found],
            [("", 0, ""), ("x", 77, "a\nlife\n5")],
        )

    def test_not_what_others_have_published(self) -> None:
        self.published()
        self.publish(b"x")
        self.assertEqual(self.give(), [])

    def test_nothing_for_a_node_that_can_be_reached(self) -> None:
        """That has it before END."""
        self.begin("bc")
        self.c.table(("f" + TOPIC, LASTING))
        client = self.connect()
        client.next("CONNACK")
        client.send(p.publish(TOPIC, b"1", 1, 1))
        self.assertEqual(self.c.records(), [b"1"])
        self.assertEqual(self.give(), [])
        self.assertEqual(self.b.told(frames.END), [])
        self.c.confirm_all()
        self.assertEqual(len(self.b.told(frames.END)), 1)

    def test_nor_for_one_to_which_it_had_to_be_sent_again(self) -> None:
        """The subscriber's session has left the node that it was sent to."""
        self.begin("bcd")
        self.c.table(("f" + TOPIC, LASTING), ("cx", 1000 << 1))
        client = self.connect()
        client.next("CONNACK")
        first = self.peer("c").outgoing.last_n
        client.send(p.publish(TOPIC, b"1", 1, 1))
        self.assertEqual(self.give(), [])
        self.c.cut("x", 5000, "d", [self.segment("c", first)])
        self.c.confirm_all()
        self.here.settle()
        self.assertEqual(self.b.told(frames.END), [])
        self.d.confirm_all()
        self.here.settle()
        self.assertEqual(len(self.b.told(frames.END)), 1)

    def test_what_is_sent_again_to_a_node_that_is_away_goes_along(self) -> None:
        """Also at the last moment."""
        self.begin("bcd", durable=True)
        self.c.table(("f" + TOPIC, LASTING), ("cx", 1000 << 1))
        client = self.connect()
        client.next("CONNACK")
        first = self.peer("c").outgoing.last_n
        self.here.lose(self.c)
        self.here.lose(self.d)
        client.send(p.publish(TOPIC, b"1", 1, 1))
        self.assertEqual(len(self.give()), 1)
        self.b.say(frames.MORE, client="s", epoch=self.claimed)
        self.b.cut("x", 5000, "d", [self.segment("c", first)])
        self.here.settle()
        (body,) = self.b.took(frames.PENDING)
        said, data = split(body)
        (copy,) = read_pending("s", data, 0.0)
        self.assertEqual((said.text("node"), copy.direct, copy.session_epoch), ("d", "x", 5000))
        self.assertEqual(self.b.told(frames.END), [])
        self.more()
        self.here.settle()
        self.assertEqual(len(self.b.told(frames.END)), 1)

    def test_after_a_restart_it_is_known_who_has_published_it(self) -> None:
        self.published(b"1", durable=True)
        self.here.settle()
        self.restart()
        self.meet("b")
        last_n = next(entry.n for entry in self.here.peers.peers["c"].outgoing.unconfirmed())
        self.assertEqual(self.give(), [("a", last_n, b"1")])


class PutTests(TargetCase):
    """Node b gives the session of client s, and what that has published for node c."""

    def arrived(self, *payloads: bytes, durable: bool = False) -> None:
        self.claiming(durable)
        self.c.table(("f" + TOPIC, LASTING))
        self.here.lose(self.c)
        self.b.session("s", self.epoch(), 1000)
        self.pending("c", *[copy_of(7 + n, payload) for n, payload in enumerate(payloads)])

    def pending(self, name: str, *copies: Entry) -> None:
        """What node b says that the client has published for another one."""
        data = [special_of(e, e.origin) + record_of(e.message, e.plain, None, 0.0) for e in copies]
        body = {"client": "s", "epoch": self.epoch(), "node": name}
        self.b.give(frames.PENDING, with_data(b"".join(data), **body))

    def copies(self) -> list[object]:
        """What node c gets when it is back."""
        self.here.settle()
        self.c = self.here.meet("c")
        self.here.settle()
        return [record for record in self.c.records() if not isinstance(record, Close)]

    def test_in_front_of_what_the_client_publishes_next(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.arrived(b"1", b"2", durable=durable)
                self.end("c")
                self.client.send(p.publish(TOPIC, b"3", 1, 1))
                expected = [Copy("b", 7, b"1"), Copy("b", 8, b"2"), b"3"]
                self.assertEqual(self.copies(), expected)

    def test_after_a_restart_too(self) -> None:
        self.arrived(b"1", durable=True)
        self.end("c")
        self.restart()
        self.meet("b")
        self.assertEqual(self.copies(), [Copy("b", 7, b"1")])

    def test_nothing_of_a_session_that_did_not_arrive(self) -> None:
        """Its source has all, and gives it again."""
        self.arrived(b"1")
        self.here.lose(self.b)
        self.assertEqual(self.copies(), [])

    def test_a_copy_is_given_on_with_its_first_origin(self) -> None:
        """The client moves on before node c is back."""
        self.arrived(b"1")
        self.end("c")
        self.b.table(("cs", 0))
        epoch = self.epoch() + 1000
        self.b.claims("s", epoch)
        self.b.confirm_all()
        self.b.accept("s", epoch)
        self.here.settle()
        (body,) = self.b.took(frames.PENDING)
        (found,) = read_pending("s", split(body)[1], 0.0)
        copy = copy_of(7, b"1")
        self.assertEqual(special_of(found, found.origin), special_of(copy, copy.origin))

    def test_one_that_is_for_one_session_stays_so(self) -> None:
        self.claiming()
        self.here.lose(self.c)
        self.b.session("s", self.epoch(), 1000)
        copy = copy_of(7, b"1", plain=False)
        copy.direct, copy.session_epoch, copy.via = "x", 77, "b\nb1\n5"
        self.pending("c", copy)
        self.end("c")
        self.assertEqual(self.copies(), [Copy("b", 7, b"1", "x")])

    def test_what_is_for_this_node_comes_by_the_channel_of_the_source(self) -> None:
        """It is linked with it."""
        self.claiming()
        self.b.session("s", self.epoch(), 1000)
        self.pending("a", copy_of(7, b"1"))
        self.end()
        self.assertTrue(self.present())
        self.assertEqual(self.client.payloads(), [])


class PassedTests(TargetCase):
    """Session s has come from node b, which node c cannot reach: messages of client p for it are in
    the channel from c to b.  Now that client comes from node c, with copies of them."""

    def comes(self, segment: Segment, *numbers: int, controls: str = "", node: str = "b") -> None:
        self.arriving()
        self.b.end("s", self.epoch(), {"c": [segment]})
        self.here.settle()
        self.assertTrue(self.present())
        self.c.forget()
        self.c.claims("p", 1000, False)
        publisher = self.connect("p")
        self.c.session("p", self.epoch("p"), 1000, topics=())
        data = b""
        for n in numbers:
            copy = Entry(0, message_of(b"%d" % n), True, None)
            copy.origin = Origin("c", "c1-b", n, controls)
            data += special_of(copy, copy.origin) + record_of(copy.message, True, None, 0.0)
        body = {"client": "p", "epoch": self.epoch("p"), "node": node}
        self.c.give(frames.PENDING, with_data(data, **body))
        self.c.end("p", self.epoch("p"), {})
        self.here.settle()
        publisher.next("CONNACK")
        publisher.send(p.publish(TOPIC, b"next", 1, 1))
        self.here.settle()

    def came(self) -> list[bytes]:
        self.here.settle()
        return self.client.payloads()

    def segment(  # type: ignore[override]
        self, epoch: str = "c1-b", position: int = 5, since: int = 0, was_open: bool = True
    ) -> Segment:
        return Segment("b", epoch, position, [], since, was_open)

    def test_in_front_of_what_it_publishes_next(self) -> None:
        self.comes(self.segment(), 6, 7)
        self.assertEqual(self.came(), [b"6", b"7", b"next"])

    def test_only_what_the_session_has_not_got(self) -> None:
        self.comes(self.segment(), 4, 5, 6)
        self.assertEqual(self.came(), [b"6", b"next"])

    def test_the_session_knows_nothing_of_that_channel(self) -> None:
        """Nothing had come from node c, or that has lost its store since."""
        for epoch in ("", "c0-b"):
            with self.subTest(epoch=epoch):
                self.comes(self.segment(epoch), 1, 2)
                self.assertEqual(self.came(), [b"1", b"2", b"next"])

    def test_node_c_sends_them_again(self) -> None:
        """It did so before it heard that the session has them."""
        for epoch in ("", "c1-b"):
            with self.subTest(epoch=epoch):
                self.comes(self.segment(epoch), 6, 7)
                for n in (6, 7, 8):
                    self.c.direct("s", self.epoch(), b"%d" % n, via=place("c", "c1-b", n))
                self.assertEqual(self.came(), [b"6", b"7", b"next", b"8"])

    def test_it_need_not(self) -> None:
        """Node c is asked for the rest alone."""
        self.comes(self.segment(""), 6, 7)
        self.here.lose(self.c)
        self.c = self.here.meet("c")
        cut = next(each for each in self.c.told(frames.CUT) if each["client"] == "s")
        self.assertEqual(cut["segments"], [["b", "c1-b", 0, [6, 7], 0, True]])

    def test_what_was_for_another_session_of_the_client(self) -> None:
        """Marks in front of them say so."""
        self.comes(self.segment(), 6, controls='{"s": -1}')
        self.assertEqual(self.came(), [b"next"])
        self.comes(self.segment(since=77, was_open=False), 6, controls='{"s": 76}')
        self.assertEqual(self.came(), [b"next"])
        self.comes(self.segment(since=77, was_open=False), 6, controls='{"s": 77}')
        self.assertEqual(self.came(), [b"6", b"next"])

    def test_what_was_for_a_node_where_the_session_was_not(self) -> None:
        self.comes(self.segment(), 6, node="d")
        self.assertEqual(self.came(), [b"next"])


class TakenTests(Case):
    """Node a gets messages of node c by itself, and as copies that node b has in its channel."""

    client: Client

    def start(self, durable: bool = False) -> None:
        self.begin("bc", durable)
        self.client = self.connect()
        self.subscribe()

    def subscribe(self) -> None:
        self.client.next("CONNACK")
        self.client.send(p.subscribe(1, (TOPIC, 1)))
        self.here.settle()
        self.client.next("SUBACK")

    def came(self) -> list[bytes]:
        self.here.settle()
        return self.client.payloads()

    def test_the_copy_is_faster(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.start(durable)
                self.b.copy("c", "c1", 1, b"1")
                self.b.copy("c", "c1", 2, b"2")
                self.assertEqual(self.came(), [b"1", b"2"])
                self.c.publish(b"1", b"2", b"3")
                self.assertEqual(self.came(), [b"3"])

    def test_the_message_itself_is_faster(self) -> None:
        self.start()
        self.c.publish(b"1", b"2")
        self.b.copy("c", "c1", 1, b"1")
        self.b.copy("c", "c1", 2, b"2")
        self.assertEqual(self.came(), [b"1", b"2"])

    def test_one_is_and_the_other_is_not(self) -> None:
        """What comes next at the other node is behind both."""
        self.start()
        self.c.publish(b"1")
        self.b.copy("c", "c1", 1, b"1")
        self.b.copy("c", "c1", 2, b"2")
        self.b.publish(b"3")
        self.c.publish(b"2")
        self.assertEqual(self.came(), [b"1", b"2", b"3"])

    def test_only_messages_of_the_client_that_moved_are_copied(self) -> None:
        """Others, between them, come by the channel itself."""
        self.start()
        self.b.copy("c", "c1", 1, b"1")
        self.b.copy("c", "c1", 3, b"3")
        self.c.publish(b"1", b"2", b"3", b"4")
        self.assertEqual(self.came(), [b"1", b"3", b"2", b"4"])

    def test_two_nodes_may_have_a_copy(self) -> None:
        """The client has moved twice."""
        self.start()
        self.b.copy("c", "c1", 1, b"1")
        self.b.copy("c", "c1", 1, b"1")
        self.assertEqual(self.came(), [b"1"])

    def test_a_copy_comes_once_over_a_broken_link(self) -> None:
        self.start()
        self.b.copy("c", "c1", 1, b"1")
        self.here.lose(self.b)
        self.b = self.here.meet("b")
        self.b.n = 0
        self.b.copy("c", "c1", 1, b"1")
        self.assertEqual(self.came(), [b"1"])

    def test_numbers_of_another_life_are_others(self) -> None:
        """Node c has lost its store, and counts from the beginning."""
        self.start()
        self.b.copy("c", "c1", 1, b"old")
        self.here.lose(self.c)
        self.c = self.here.meet("c", instance="c2")
        self.c.publish(b"new")
        self.assertEqual(self.came(), [b"old", b"new"])

    def test_what_came_as_a_copy_is_known_after_a_restart(self) -> None:
        """With the copy it is stored that it came, or neither is."""
        self.begin("bc", durable=True)
        self.sleeper()
        self.b.copy("c", "c1", 1, b"1")
        self.here.settle()
        self.restart()
        self.meet("bc")
        self.c.publish(b"1", b"2")
        self.here.settle()
        self.client = self.connect()
        self.assertTrue(self.client.next("CONNACK").session_present)
        self.assertEqual(self.came(), [b"1", b"2"])

    def test_a_copy_that_was_not_stored_before_a_crash_comes_again(self) -> None:
        self.begin("bc", durable=True)
        self.sleeper()
        self.b.copy("c", "c1", 1, b"1")
        self.restart()  # at once
        self.meet("bc")
        self.c.n = 0
        self.c.publish(b"1")
        self.here.settle()
        self.client = self.connect()
        self.assertTrue(self.client.next("CONNACK").session_present)
        self.assertEqual(self.came(), [b"1"])

    def test_what_a_node_has_sent_itself_it_does_not_take(self) -> None:
        self.start()
        self.b.copy("a", "a1", 1, b"1")
        self.assertEqual(self.came(), [])

    def test_a_copy_that_has_come_is_forgotten_with_its_message(self) -> None:
        """Else the store would remember it for ever."""
        self.start(durable=True)
        self.b.copy("c", "c1", 1, b"1")
        self.here.settle()
        store = self.here.store
        assert store is not None
        self.assertIn("early/c", store.notes)
        self.c.publish(b"1")
        self.here.settle()
        self.assertNotIn("early/c", store.notes)

    def test_a_copy_of_what_a_node_has_sent_before_it_left(self) -> None:
        self.start()
        self.c.publish(b"1", b"2")
        self.c.say(frames.LEAVE)
        self.b.copy("c", "c1", 2, b"2")
        self.b.copy("c", "c1", 3, b"3")
        self.assertEqual(self.came(), [b"1", b"2", b"3"])

    def test_two_copies_of_what_a_node_has_not_sent_before_it_left(self) -> None:
        self.start()
        self.c.publish(b"1")
        self.b.copy("c", "c1", 3, b"3")
        self.c.say(frames.LEAVE)
        self.b.copy("c", "c1", 3, b"3")
        self.assertEqual(self.came(), [b"1", b"3"])

    def test_two_copies_of_what_a_node_has_that_never_sent_any(self) -> None:
        self.start()
        self.b.copy("c", "c1", 3, b"3")
        self.c.say(frames.LEAVE)
        self.b.copy("c", "c1", 3, b"3")
        self.assertEqual(self.came(), [b"3"])

    def test_a_copy_of_what_came_before_a_node_has_lost_its_store(self) -> None:
        self.start()
        self.c.publish(b"1")
        self.here.lose(self.c)
        self.c = self.here.meet("c", instance="c2")
        self.b.copy("c", "c1", 1, b"1")
        self.assertEqual(self.came(), [b"1"])

    def test_after_a_restart_it_is_known_what_a_node_has_sent_before_it_left(self) -> None:
        self.begin("bc", durable=True)
        self.sleeper()
        self.c.publish(b"1", b"2")
        self.b.copy("c", "c1", 4, b"4")
        self.c.say(frames.LEAVE)
        self.here.settle()
        self.restart()
        self.meet("b")
        for n in (1, 2, 3, 4):
            self.b.copy("c", "c1", n, b"%d" % n)
        self.here.settle()
        self.client = self.connect()
        self.assertTrue(self.client.next("CONNACK").session_present)
        self.assertEqual(self.came(), [b"1", b"2", b"4", b"3"])
