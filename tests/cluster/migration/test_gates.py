"""Which messages are for a session while it migrates: by the marks of those who publish them."""

import json

from mhub.cluster import parcels
from mhub.cluster.migration import records
from mhub.cluster.migration.frames import split
from mhub.core.codec import decode_rows
from mhub.core.journal import publish_of
from mhub.core.limits import Limits
from mhub.core.peer import record_of
from tests.cluster.migration.played import entry, message_of
from tests.cluster.migration.test_source import SourceCase
from tests.cluster.migration.test_target import HELD, TargetCase
from tests.core.world import Client
from tests.helpers import packets as p


class SourceGateTests(SourceCase):
    """What the source gives."""

    def given(self) -> list[bytes]:
        """Of what came since the first two."""
        found = self.b.payloads()
        for _ in range(5):
            self.more()
            self.here.settle()
            found += self.b.payloads()
        return found[2:]

    def test_what_a_node_sends_before_its_mark(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.sending(durable=durable)
                self.c.publish(b"before")
                self.c.mark("s", self.claimed)
                self.c.publish(b"behind")
                self.here.settle()
                self.assertEqual(self.given(), [b"before"])

    def test_each_node_has_a_mark_of_its_own(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.sending(durable=durable)
                self.b.mark("s", self.claimed)
                self.c.publish(b"c")
                self.b.publish(b"b")
                self.here.settle()
                self.assertEqual(self.given(), [b"c"])

    def test_what_is_published_here_before_the_cut(self) -> None:
        """CUT is the mark of this node itself."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.offered(durable=durable)
                self.publish(b"before")
                self.cut()
                self.publish(b"behind")
                self.assertEqual(self.given(), [b"before"])

    def test_a_mark_may_come_before_the_claim_is_heard_of(self) -> None:
        """Channel and table are two ways: the session goes nowhere yet, but its cut is there."""
        self.idle()
        self.c.mark("s", self.claimed)
        self.c.publish(b"behind")
        self.b.claims("s", self.claimed)
        self.cut()
        self.assertEqual(self.given(), [])

    def test_no_qos_0(self) -> None:
        """Nobody keeps it for a client that is away."""
        self.sending()
        self.c.publish(b"0", qos=0)
        self.assertEqual(self.given(), [])

    def test_what_was_in_flight_at_another_node_as_a_copy(self) -> None:
        """It counts where it stood in the channel that it was taken from, not where it comes."""
        for is_behind in (False, True):
            with self.subTest(is_behind=is_behind):
                self.sending()
                marks = json.dumps({"s": self.claimed} if is_behind else {})
                self.b.mark("s", self.claimed)
                self.b.copy("c", "c1", 1, b"x", marks)
                self.assertEqual(self.given(), [] if is_behind else [b"x"])


class SharedTests(SourceCase):
    """A message that came by a shared subscription came to nobody else: it is never left out."""

    def shared(self) -> None:
        self.begin("bc")
        self.session = self.sleeper("s", "$share/g/t")
        self.claimed = self.session.epoch + 1000
        self.b.claims("s", self.claimed)
        self.cut()

    def member(self) -> Client:
        """Another one of the group, on this node."""
        client = self.connect("m")
        client.next("CONNACK")
        client.send(p.subscribe(1, ("$share/g/t", 1)))
        client.next("SUBACK")
        return client

    def test_behind_a_mark_it_is_given_as_well(self) -> None:
        self.shared()
        self.publish(b"x")
        self.assertEqual(self.b.payloads(), [b"x"])

    def test_after_the_end_it_goes_to_another_member(self) -> None:
        self.shared()
        self.mark()
        self.here.settle()
        self.assertEqual(len(self.b.told(parcels.END)), 1)
        self.publish(b"x")
        member = self.member()
        self.b.done("s", self.claimed)
        self.assertEqual(member.payloads(), [b"x"])

    def test_the_target_joins_the_group_when_all_has_come(self) -> None:
        """Before, both would be members, and the source has the place."""
        self.begin("bc")
        self.b.claims("s", HELD, False)
        self.connect()
        self.b.session("s", self.epoch(), HELD, topics=("$share/g/t",))
        self.assertNotIn("s$share/g/t", self.here.peers.table)
        self.b.end("s", self.epoch())
        self.here.settle()
        self.assertIn("s$share/g/t", self.here.peers.table)


class ArrivalGateTests(TargetCase):
    """What the target takes while a session arrives."""

    def came(self) -> list[bytes]:
        self.end()
        self.assertTrue(self.present())
        return self.client.payloads()

    def test_what_a_node_sends_behind_its_mark(self) -> None:
        """What comes in front of it is for the source, which gives it."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.arriving(durable)
                self.c.publish(b"before")
                self.c.mark("s", self.epoch())
                self.c.publish(b"behind")
                self.b.entries("s", self.epoch(), entry(b"before"))
                self.assertEqual(self.came(), [b"before", b"behind"])

    def test_each_node_has_a_mark_of_its_own(self) -> None:
        self.arriving()
        self.b.mark("s", self.epoch())
        self.c.publish(b"c")
        self.b.publish(b"b")
        self.assertEqual(self.came(), [b"b"])

    def test_what_is_published_here_from_the_cut_on(self) -> None:
        """Nobody here had subscribed before: what was published went to the source."""
        self.claiming()
        self.publish(b"before")
        self.b.session("s", self.epoch(), HELD)
        self.publish(b"behind")
        self.assertEqual(self.came(), [b"behind"])

    def test_no_qos_0(self) -> None:
        self.arriving()
        self.publish(b"0", qos=0)
        self.assertEqual(self.came(), [])

    def test_not_more_than_a_queue_may_have(self) -> None:
        self.claiming()
        self.here.node.limits = lambda name: Limits(max_queued_messages=2)
        self.b.session("s", self.epoch(), HELD)
        self.publish(b"1", b"2", b"3")
        self.assertEqual(self.hub.stats.dropped_queue_full, 1)
        self.assertEqual(self.came(), [b"1", b"2"])

    def test_copies_count_where_they_stood(self) -> None:
        for is_behind in (False, True):
            with self.subTest(is_behind=is_behind):
                self.arriving()
                marks = json.dumps({"s": self.epoch()} if is_behind else {})
                self.b.copy("c", "c1", 1, b"x", marks)
                self.assertEqual(self.came(), [b"x"] if is_behind else [])


class MissingGateTests(TargetCase):
    """Node c was missing at END: what it sends waits for what the source relays."""

    def missing(self, durable: bool = False) -> None:
        self.arriving(durable)
        self.served = self.epoch()
        self.end("c")
        self.assertTrue(self.present())

    def relay(self, *payloads: bytes) -> None:
        rows = [entry(payload) for payload in payloads]
        self.b.control("s", records.relay(f"b:{self.served}", rows))
        self.here.settle()

    def close(self, source: str = "") -> None:
        self.b.control("s", records.closed("c", source or f"b:{self.served}"))
        self.here.settle()

    def test_what_is_relayed_comes_first(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.missing(durable)
                self.c.publish(b"1")
                self.c.mark("s", self.served)
                self.c.publish(b"3")
                self.here.settle()
                self.assertEqual(self.client.payloads(), [])
                self.relay(b"1", b"2")
                self.assertEqual(self.client.payloads(), [b"1", b"2"])
                self.close()
                self.assertEqual(self.client.payloads(), [b"3"])
                self.c.publish(b"4")
                self.here.settle()
                self.assertEqual(self.client.payloads(), [b"4"])

    def test_also_if_the_mark_came_while_it_arrived(self) -> None:
        """It was missing for the source, not for the target."""
        self.arriving()
        self.served = self.epoch()
        self.c.mark("s", self.served)
        self.c.publish(b"2")
        self.end("c")
        self.assertTrue(self.present())
        self.assertEqual(self.client.payloads(), [])
        self.relay(b"1")
        self.close()
        self.assertEqual(self.client.payloads(), [b"1", b"2"])

    def test_others_do_not_wait(self) -> None:
        self.missing()
        self.b.publish(b"b")
        self.publish(b"a")
        self.assertEqual(self.client.payloads(), [b"b", b"a"])

    def test_of_another_source_nothing_is_closed(self) -> None:
        self.missing()
        self.c.mark("s", self.served)
        self.c.publish(b"1")
        self.close("c:5")
        self.close(f"b:{self.served - 1}")
        self.assertEqual(self.client.payloads(), [])

    def test_a_source_that_is_forgotten_relays_no_more(self) -> None:
        self.missing()
        self.c.mark("s", self.served)
        self.c.publish(b"1")
        self.here.lose(self.b)
        self.here.node.forget("b")
        self.hub.flush()
        self.assertEqual(self.client.payloads(), [b"1"])

    def test_nobody_waits_for_ever(self) -> None:
        """The source does not come back: after the time for a takeover order is given up."""
        self.missing()
        self.c.mark("s", self.served)
        self.c.publish(b"1")
        self.here.lose(self.b)
        self.here.wait(8.0)
        self.assertEqual(self.client.payloads(), [])
        self.here.wait(14.0)
        self.assertEqual(self.client.payloads(), [b"1"])

    def test_after_a_restart_it_waits_as_before(self) -> None:
        self.missing(durable=True)
        self.restart()
        self.meet("bc")
        self.client = self.connect()
        self.assertTrue(self.present())
        self.c.mark("s", self.served)
        self.c.publish(b"2")
        self.here.settle()
        self.assertEqual(self.client.payloads(), [])
        self.relay(b"1")
        self.close()
        self.assertEqual(self.client.payloads(), [b"1", b"2"])

    def test_what_was_held_back_is_not_lost_by_a_restart(self) -> None:
        """Its order is: the client is told that this is not the session that it knew."""
        self.missing(durable=True)
        self.c.mark("s", self.served)
        self.c.publish(b"2")
        self.here.settle()
        self.restart()
        self.meet("bc")
        self.client = self.connect()
        self.assertFalse(self.present())
        self.assertEqual(self.client.payloads(), [b"2"])

    def test_shared_subscriptions_do_not_wait(self) -> None:
        """What comes by them was never for the source."""
        self.arriving(topics=("$share/g/t",))
        self.end("c")
        self.assertTrue(self.present())
        self.c._channel([record_of(message_of(b"1"), False, ["$share/g/t"], self.here.world.now)])
        self.assertEqual(self.client.payloads(), [b"1"])

    def test_copies_count_where_they_stood(self) -> None:
        for is_behind in (False, True):
            with self.subTest(is_behind=is_behind):
                self.missing()
                marks = json.dumps({"s": self.served} if is_behind else {})
                self.b.copy("c", "c1", 1, b"x", marks)
                self.close()
                self.assertEqual(self.client.payloads(), [b"x"] if is_behind else [])

    def test_what_is_held_back_goes_along_as_such(self) -> None:
        """To the next owner, which waits for the same source."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.missing(durable)
                self.c.mark("s", self.served)
                self.c.publish(b"2")
                self.client.lose()
                self.here.settle()
                epoch = self.epoch() + 1000
                self.b.table(("cs", 0))
                self.c.claims("s", epoch)
                self.here.settle()
                self.assertEqual(self.c.offered()[0]["waits"], {"c": [f"b:{self.served}"]})
                self.c.cut("s", epoch, "a", "b", "a")
                self.here.settle()
                for far in (self.b, self.c):
                    far.confirm_all()
                    far.mark("s", epoch)
                self.here.settle()
                (body,) = self.c.took(parcels.ENTRIES)
                said, data = split(body)
                (row,) = decode_rows(data)
                self.assertEqual(said["held"], "c")
                self.assertEqual(publish_of(row.body, 0.0).payload, b"2")
                self.assertEqual(self.c.told(parcels.END), [])
                self.c.say(parcels.MORE, client="s", epoch=epoch)
                self.here.settle()
                self.assertEqual(len(self.c.told(parcels.END)), 1)

    def test_what_came_as_held_back_waits_here(self) -> None:
        """It was held back at the source, for what an earlier one relays."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.arriving(durable, waits={"c": ["d:5"]})
                self.b.entries("s", self.epoch(), entry(b"1"))
                self.b.entries("s", self.epoch(), entry(b"3"), held="c")
                self.end()
                self.assertTrue(self.present())
                self.assertEqual(self.client.payloads(), [b"1"])
                self.b.control("s", records.relay("d:5", [entry(b"2")]))
                self.b.control("s", records.closed("c", "d:5"))
                self.here.settle()
                self.assertEqual(self.client.payloads(), [b"2", b"3"])


class LaterClaimTests(TargetCase):
    """Node c claims the session while it still arrives from node b."""

    def test_what_comes_behind_marks_for_it_is_not_given(self) -> None:
        """Node c has it; what came between both marks is this node's to give."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.arriving(durable)
                later = self.epoch() + 1000
                self.c.claims("s", later)
                self.b.mark("s", self.epoch())
                self.b.publish(b"2")
                self.b.mark("s", later)
                self.b.publish(b"3")
                self.b.entries("s", self.epoch(), entry(b"1"))
                self.end()
                self.c.cut("s", later, "ab", "b", "a")
                self.here.settle()
                self.assertEqual(self.c.payloads(), [b"1", b"2"])

    def test_it_is_kept_if_that_claim_is_given_up(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.arriving(durable)
                later = self.epoch() + 1000
                self.c.claims("s", later)
                self.b.mark("s", self.epoch())
                self.b.mark("s", later)
                self.b.publish(b"3")
                self.c.table(("cs", 0))
                self.end()
                self.client = self.connect()
                self.assertTrue(self.present())
                self.assertEqual(self.client.payloads(), [b"3"])

    def test_also_if_it_is_given_up_later(self) -> None:
        """The session was here, and on its way on."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.arriving(durable)
                later = self.epoch() + 1000
                self.c.claims("s", later)
                self.b.mark("s", self.epoch())
                self.b.mark("s", later)
                self.b.publish(b"3")
                self.end()
                self.assertIsNotNone(self.source())
                self.c.table(("cs", 0))
                self.here.settle()
                self.client = self.connect()
                self.assertTrue(self.present())
                self.assertEqual(self.client.payloads(), [b"3"])
