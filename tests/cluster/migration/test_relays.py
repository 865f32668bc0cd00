"""Messages that come for a session after it was given away find it, wherever it has gone."""

from mhub.cluster import parcels
from mhub.cluster.migration import records
from mhub.cluster.migration.source import ENDED
from tests.cluster.migration.played import Closed, Mark, PlayedNode, Relay, entry
from tests.cluster.migration.test_source import SourceCase
from tests.cluster.migration.test_target import HELD, TargetCase
from tests.core.world import Client
from tests.helpers import packets as p


class RemainderCase(SourceCase):
    """Node c was missing when node a gave the session to node b."""

    def remain(self, durable: bool = False) -> None:
        self.sending(durable=durable)
        self.here.settle()
        self.here.lose(self.c)
        self.b.confirm_all()
        self.b.mark("s", self.claimed)
        self.more()
        self.here.settle()
        self.assertEqual(self.state(), ENDED)
        self.assertEqual(self.b.told(parcels.END)[0]["missing"], ["c"])
        self.b.done("s", self.claimed, "c")
        self.here.settle()
        self.b.table(("cs", self.claimed << 1))
        self.mine = f"a:{self.claimed}"

    def link(self) -> None:
        """Node c can be reached again."""
        self.c = self.here.meet("c")
        self.b.forget()

    def relayed(self) -> list[object]:
        """To node b, since the last call."""
        self.here.settle()
        return [record for record in self.b.records() if not isinstance(record, Mark)]


class RemainderTests(RemainderCase):
    def test_its_subscriptions_stay_and_all_know_why(self) -> None:
        """Else node c would send nothing for the session, or its owner not ask for marks."""
        self.remain()
        table = self.here.peers.table
        self.assertNotIn("s", self.hub.sessions)
        self.assertNotIn("cs", table)
        self.assertIn("ft", table)
        self.assertEqual(table["rs"], self.claimed)

    def test_nothing_remains_if_nobody_was_missing(self) -> None:
        self.ended()
        self.b.done("s", self.claimed)
        self.assertEqual(self.here.peers.table, {})

    def test_what_a_missing_node_had_sent_before_its_mark_is_relayed(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.remain(durable)
                self.link()
                self.c.publish(b"3", b"4")
                self.c.mark("s", self.claimed)
                self.c.publish(b"5")
                relayed = [Relay("s", self.mine, [each]) for each in (b"3", b"4")]
                self.assertEqual(self.relayed(), [*relayed, Closed("s", "c", self.mine)])

    def test_then_it_is_over(self) -> None:
        self.remain(durable=True)
        self.link()
        self.c.mark("s", self.claimed)
        self.assertNotIn("ft", self.here.peers.table)
        self.assertNotIn("rs", self.here.peers.table)
        self.here.settle()
        self.restart()
        self.assertEqual(self.epochs.relays.remainders, [])
        self.assertNotIn("ft", self.here.peers.table)

    def test_not_what_others_publish(self) -> None:
        """That is in their channels to node b."""
        self.remain()
        self.link()
        self.b.publish(b"b")
        self.publish(b"a")
        self.assertEqual([each for each in self.relayed() if isinstance(each, Relay)], [])

    def test_a_mark_for_an_earlier_claim_closes_nothing(self) -> None:
        self.remain()
        self.link()
        self.c.mark("s", self.claimed - 1)
        self.c.publish(b"3")
        self.assertEqual(self.relayed(), [Relay("s", self.mine, [b"3"])])

    def test_that_of_a_later_one_does(self) -> None:
        """The session has gone on, and its next owner has asked."""
        self.remain()
        self.link()
        self.c.mark("s", self.claimed + 1000)
        self.assertEqual(self.relayed(), [Closed("s", "c", self.mine)])

    def test_it_outlives_a_restart(self) -> None:
        self.remain(durable=True)
        self.restart()
        self.b = self.here.meet("b", ("cs", self.claimed << 1))
        self.assertEqual(self.here.peers.table["rs"], self.claimed)
        self.link()
        self.c.publish(b"3")
        self.c.mark("s", self.claimed)
        self.assertEqual(
            self.relayed(), [Relay("s", self.mine, [b"3"]), Closed("s", "c", self.mine)]
        )

    def test_a_node_that_is_forgotten_sends_nothing_more(self) -> None:
        self.remain()
        self.b.forget()
        self.here.node.forget("c")
        self.hub.flush()
        self.assertEqual(self.relayed(), [Closed("s", "c", self.mine)])
        self.assertNotIn("rs", self.here.peers.table)

    def test_where_the_owner_is_forgotten_there_is_nobody_to_relay_to(self) -> None:
        self.remain(durable=True)
        store = self.here.store
        assert store is not None
        self.assertTrue([name for name in store.notes if name.startswith("relay/")])
        self.here.lose(self.b)
        self.here.node.forget("b")
        self.here.settle()
        self.assertFalse([name for name in store.notes if name.startswith("relay/")])
        self.assertNotIn("rs", self.here.peers.table)
        self.assertNotIn("ft", self.here.peers.table)

    def test_what_came_between_end_and_done_is_relayed_too(self) -> None:
        """In front of CLOSED, which says that it was all."""
        self.sending()
        self.here.settle()
        self.here.lose(self.c)
        self.b.confirm_all()
        self.b.mark("s", self.claimed)
        self.more()
        self.assertEqual(self.state(), ENDED)
        self.link()
        self.c.publish(b"3")
        self.c.mark("s", self.claimed)
        self.b.done("s", self.claimed, "c")
        mine = f"a:{self.claimed}"
        self.assertEqual(self.relayed(), [Relay("s", "", [b"3"]), Closed("s", "c", mine)])

    def test_the_owner_asks_for_marks_of_a_node_that_is_back(self) -> None:
        """It is told of the remainder by the table, and marks its own channel to it as well."""
        self.begin("bc")
        session = self.sleeper()
        self.c.forget()
        self.b.table(("rs", session.epoch))
        (said,) = self.c.told(parcels.CUT)
        self.assertEqual((said["epoch"], said["sources"]), (session.epoch, ["b"]))
        self.assertEqual(self.b.records(), [Mark("s", session.epoch)])


class RouteTests(TargetCase):
    """The session went from b to a while c was missing, and then from a to d."""

    d: PlayedNode

    def passed(self, durable: bool = False) -> None:
        self.begin("bcd", durable)
        self.b.claims("s", HELD, False)
        self.client = self.connect()
        self.first = self.epoch()
        self.b.session("s", self.first, HELD)
        self.end("c")
        self.b.table(("cs", 0))
        self.client.lose()
        self.second = self.epoch() + 1000
        self.d.claims("s", self.second)
        self.here.settle()
        self.waits = self.d.offered()[0]["waits"]
        self.d.cut("s", self.second, "a", "b", "a")
        self.here.settle()
        for far in (self.b, self.c, self.d):
            far.confirm_all()
            far.mark("s", self.second)
        self.here.settle()
        self.d.say(parcels.MORE, client="s", epoch=self.second)
        self.here.settle()
        self.assertEqual(len(self.d.told(parcels.END)), 1)

    def give(self) -> None:
        self.d.done("s", self.second)
        self.here.settle()
        self.d.forget()

    def records(self) -> list[object]:
        self.here.settle()
        return [record for record in self.d.records() if not isinstance(record, Mark)]

    def test_the_next_owner_knows_for_whom_to_wait(self) -> None:
        self.passed()
        self.assertEqual(self.waits, {"c": [f"b:{self.first}"]})

    def test_what_is_relayed_to_an_earlier_owner_goes_on(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.passed(durable)
                self.give()
                source = f"b:{self.first}"
                self.b.control("s", records.relay(source, [entry(b"1")]))
                self.b.control("s", records.closed("c", source))
                expected = [Relay("s", source, [b"1"]), Closed("s", "c", source)]
                self.assertEqual(self.records(), expected)

    def test_after_a_restart_too(self) -> None:
        self.passed(durable=True)
        self.give()
        self.restart()
        self.meet("bcd")
        source = f"b:{self.first}"
        self.b.control("s", records.relay(source, [entry(b"1")]))
        self.assertEqual(self.records(), [Relay("s", source, [b"1"])])

    def test_with_the_last_closed_it_is_over(self) -> None:
        """The store remembers no way for a session that nobody relays to."""
        self.passed(durable=True)
        self.give()
        store = self.here.store
        assert store is not None
        self.assertIn("route/s", store.notes)
        self.b.control("s", records.closed("c", f"b:{self.first}"))
        self.here.settle()
        self.assertNotIn("route/s", store.notes)

    def test_closed_that_comes_before_done_goes_behind_what_was_given(self) -> None:
        """The session is frozen: neither is the record lost, nor does the target miss it."""
        self.passed()
        source = f"b:{self.first}"
        self.b.control("s", records.closed("c", source))
        self.assertEqual(self.records(), [])
        self.d.done("s", self.second)
        self.assertIn(Closed("s", "c", source), self.records())

    def test_and_is_not_lost_if_the_session_stays(self) -> None:
        self.passed()
        self.b.control("s", records.closed("c", f"b:{self.first}"))
        self.d.table(("cs", 0))
        self.d.say(parcels.UNKNOWN, client="s", epoch=self.second, sure=True)
        self.here.settle()
        self.client = self.connect()
        self.assertTrue(self.present())
        self.c.publish(b"1")
        self.assertEqual(self.client.payloads(), [b"1"])


class DissolveTests(RemainderCase):
    """The session comes back to a node that relays for it."""

    def back_again(self, counts: int = 0) -> Client:
        client = self.connect()
        epoch = self.epoch()
        waits = {"c": [self.mine]}
        self.b.session(
            "s", epoch, self.claimed, waits=waits, counts={self.mine: counts} if counts else {}
        )
        self.b.end("s", epoch, "c")
        self.here.settle()
        self.assertTrue(client.next("CONNACK").session_present)
        return client

    def test_what_it_would_relay_comes_straight(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.remain(durable)
                client = self.back_again()
                self.link()
                self.c.publish(b"3")
                self.here.settle()
                self.assertEqual(client.payloads(), [b"3"])
                self.assertEqual([e for e in self.relayed() if isinstance(e, Relay)], [])
                self.assertNotIn("rs", self.here.peers.table)

    def test_not_while_something_is_on_its_way(self) -> None:
        """It was relayed and has not come to the session: what follows must not overtake it."""
        self.remain()
        self.link()
        self.c.publish(b"3")
        self.assertEqual(self.relayed(), [Relay("s", self.mine, [b"3"])])
        client = self.back_again()
        self.c.publish(b"4")
        self.assertEqual(client.payloads(), [])
        self.assertEqual(self.relayed()[-1:], [Relay("s", self.mine, [b"4"])])
        # Node b sends both after the session.
        for payload in (b"3", b"4"):
            self.b.control("s", records.relay(self.mine, [entry(payload)]))
        self.here.settle()
        self.assertEqual(client.payloads(), [b"3", b"4"])

    def test_what_has_come_to_the_session_is_not_on_its_way(self) -> None:
        self.remain()
        self.link()
        self.c.publish(b"3")
        self.here.settle()
        client = self.back_again(counts=1)
        self.c.publish(b"4")
        self.here.settle()
        self.assertEqual(client.payloads(), [b"4"])


class LateTests(SourceCase):
    """Node b has a newer session of the client: what is here goes into the channel to it."""

    def refused(self, durable: bool = False) -> None:
        self.offered(durable=durable)
        self.began = self.claimed - 500
        self.here.settle()
        self.b.forget()

    def records(self) -> list[object]:
        self.here.settle()
        return [record for record in self.b.records() if not isinstance(record, Mark)]

    def payloads(self) -> list[bytes]:
        found = [record for record in self.records() if isinstance(record, Relay)]
        return [payload for record in found for payload in record.payloads]

    def test_what_came_at_the_last_moment_goes_along(self) -> None:
        """Also if it is on its way to the store."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.refused(durable)
                self.c.publish(b"3")
                self.refuse(self.began)
                self.c.publish(b"4")
                self.assertEqual(self.payloads(), [b"1", b"2", b"3", b"4"])
                self.assertNotIn("s", self.hub.sessions)

    def test_not_what_came_behind_the_mark_with_which_that_began(self) -> None:
        """The newer session has got it by itself."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.refused(durable)
                self.c.publish(b"3")
                self.c.mark("s", self.began)
                self.c.publish(b"4")
                self.refuse(self.began)
                self.assertEqual(self.payloads(), [b"1", b"2", b"3"])

    def test_what_was_in_flight_is_sent_as_new(self) -> None:
        """The client has forgotten its packet ids; what it has acknowledged by PUBREC it has."""
        self.begin("bc")
        self.session = self.sleeper()
        client = self.connect()
        client.next("CONNACK")
        self.publish(b"1", b"2", qos=2)
        pids = [packet.pid for packet in client.take()]
        client.send(p.pubrec(pids[0] or 0))
        client.lose()
        self.claimed = self.epoch() + 1000
        self.b.claims("s", self.claimed)
        self.b.forget()
        self.refuse(self.claimed)
        self.assertEqual(self.payloads(), [b"2"])

    def test_nodes_that_have_not_marked_are_relayed_on(self) -> None:
        """And of those that have, it is said that this was all."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.refused(durable)
                self.b.mark("s", self.began)
                self.refuse(self.began)
                mine = f"a:{self.began}"
                found = self.records()
                self.assertIn(Closed("s", "b", mine), found)
                self.assertNotIn(Closed("s", "c", mine), found)
                self.c.publish(b"3")
                self.c.mark("s", self.began)
                expected = [Relay("s", mine, [b"3"]), Closed("s", "c", mine)]
                self.assertEqual(self.records(), expected)


class PassedOnTests(TargetCase):
    def test_records_for_a_session_that_was_never_here_go_to_its_owner(self) -> None:
        """Whoever sent them had heard of an earlier one."""
        self.begin("bc")
        self.c.claims("s", 5000, False)
        self.b.control("s", records.relay("", [entry(b"1")]))
        self.assertEqual(self.c.records(), [Relay("s", "", [b"1"])])

    def test_those_that_come_while_it_arrives_are_behind_what_it_has(self) -> None:
        self.arriving()
        self.c.control("s", records.relay("c:5", [entry(b"2")]))
        self.b.entries("s", self.epoch(), entry(b"1"))
        self.end()
        self.assertTrue(self.present())
        self.assertEqual(self.client.payloads(), [b"1", b"2"])

    def test_they_are_not_lost_if_it_does_not_arrive(self) -> None:
        """They go to the node that has it."""
        self.arriving()
        self.c.control("s", records.relay("c:5", [entry(b"2")]))
        self.here.lose(self.b)
        self.b = self.here.meet("b", ("cs", HELD << 1))
        self.assertIn(Relay("s", "c:5", [b"2"]), self.b.records())

    def test_the_next_owner_knows_how_much_of_each_has_come(self) -> None:
        """So a remainder can tell whether something of it is on its way."""
        self.arriving(counts={"c:5": 2})
        self.end()
        for _ in range(3):
            self.c.control("s", records.relay("c:5", [entry(b"x")]))
        self.c.control("s", records.relay("", [entry(b"late")]))
        self.c.claims("s", self.epoch() + 1000)
        self.assertEqual(self.c.offered()[0]["counts"], {"c:5": 5})
