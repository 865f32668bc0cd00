"""An older session, when its client has a newer one: what it has comes late, and once.

Its entries go into the channel to the node with the newer one (RELAY), and so does what comes from
nodes that do not know of that yet, until all have sent CLOSE.
"""

from mhub.cluster import frames
from mhub.cluster.migration import controls
from mhub.cluster.migration.source import DOUBT, ENDED, IDLE, MERGING
from mhub.core.channel_records import record_of
from mhub.core.principal import Identity
from mhub.core.session import Session
from tests.cluster.migration.played import Case, Relay, entry, message_of
from tests.cluster.migration.test_source import SourceCase
from tests.cluster.migration.test_target import HELD, TargetCase
from tests.core.rules import Rules
from tests.helpers import packets as p


class MergingCase(SourceCase):
    def relayed(self) -> list[bytes]:
        """What came to node b by RELAY since the last call."""
        self.here.settle()
        found = [record for record in self.b.records() if isinstance(record, Relay)]
        return [payload for record in found for payload in record.payloads]

    def switch(self) -> None:
        """Node a hears of the newer session, too."""
        self.b.cut("s", self.claimed, "b", [], held=self.claimed)


class RelayTests(MergingCase):
    def test_all_that_it_has_in_its_order(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.offered(*(b"%d" % n for n in range(10)), durable=durable)
                self.b.forget()
                self.refuse(merge=True)
                self.assertEqual(self.relayed(), [b"%d" % n for n in range(10)])

    def test_what_comes_at_the_last_moment_goes_along(self) -> None:
        """Also if it is on its way to the store."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.offered(durable=durable)
                self.b.forget()
                self.c.publish(b"3")
                self.refuse(merge=True)
                self.c.publish(b"4")
                self.assertEqual(self.relayed(), [b"1", b"2", b"3", b"4"])

    def test_what_was_in_flight_is_sent_as_new(self) -> None:
        """The client has forgotten its packet ids; what it has acknowledged by PUBREC it has."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.begin("bc", durable)
                self.session = self.sleeper()
                client = self.connect()
                client.next("CONNACK")
                self.publish(b"1", b"2", qos=2)
                pids = [packet.pid for packet in client.take()]
                client.send(p.pubrec(pids[0] or 0))
                client.lose()
                self.publish(b"3")
                self.claimed = self.epoch() + 1000
                self.b.claims("s", self.claimed)
                self.b.forget()
                self.refuse(merge=True)
                self.assertEqual(self.relayed(), [b"2", b"3"])

    def test_what_nodes_send_that_do_not_know_of_the_newer_one_follows(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.leaving(durable)
                self.assertEqual(self.relayed(), [b"1", b"2"])
                self.c.publish(b"3")
                self.publish(b"4")
                self.c.publish(b"5")
                self.assertEqual(self.relayed(), [b"3", b"4", b"5"])

    def test_not_what_those_send_that_do(self) -> None:
        """The newer session gets it from them."""
        self.leaving()
        self.relayed()
        self.c.publish(b"3")
        self.c.closes("s", self.claimed)
        self.c.publish(b"4")
        self.b.publish(b"5")
        self.assertEqual(self.relayed(), [b"3", b"5"])

    def test_this_node_itself_is_one_of_them(self) -> None:
        """With CUT: what is published here is for the newer one from then on."""
        self.leaving()
        self.relayed()
        self.publish(b"3")
        self.switch()
        self.publish(b"4")
        self.assertEqual(self.relayed(), [b"3"])

    def test_a_mark_for_a_session_here_closes_it_as_well(self) -> None:
        """The client is back on this node, with the newer session."""
        self.leaving()
        self.relayed()
        self.c.marks("s", self.claimed + 1000)
        self.c.publish(b"3")
        self.assertEqual(self.relayed(), [])

    def test_no_qos_0(self) -> None:
        self.leaving()
        self.relayed()
        self.c.publish(b"0", qos=0)
        self.assertEqual(self.relayed(), [])

    def test_what_came_by_a_shared_subscription_goes_along(self) -> None:
        """It came to nobody else."""
        self.begin("bc")
        self.session = self.sleeper("s", "$share/g/t")
        self.publish(b"1")
        self.claimed = self.session.epoch + 1000
        self.b.claims("s", self.claimed)
        self.b.forget()
        self.refuse(merge=True)
        self.c._channel([record_of(message_of(b"2"), False, ["$share/g/t"], self.here.world.now)])
        self.assertEqual(self.relayed(), [b"1", b"2"])

    def test_it_is_in_the_channel_from_the_moment_that_it_is_not_here(self) -> None:
        """A crash at any time neither loses nor doubles it."""
        self.leaving(durable=True)
        self.here.settle()
        self.restart()
        self.back()
        found = self.relayed()
        self.assertEqual(self.state(), "offered")
        self.refuse(merge=True)
        found += self.relayed()
        self.assertEqual(found, [b"1", b"2"])

    def test_if_the_crash_comes_before_the_store_has_it_the_session_has_all(self) -> None:
        self.leaving(durable=True)
        self.restart()
        self.back()
        self.refuse(merge=True)
        self.assertEqual(self.relayed(), [b"1", b"2"])

    def test_the_owner_may_be_another_node_by_then(self) -> None:
        """What follows goes to where the session is."""
        self.leaving()
        self.relayed()
        self.b.table(("cs", 0))
        self.c.forget()
        self.c.claims("s", self.claimed + 1000)
        self.publish(b"3")
        self.assertEqual(self.c.records(), [Relay("s", [b"3"])])


class OverTests(MergingCase):
    """An older session is over when nobody sends anything to it."""

    def close(self, *names: str) -> None:
        for name in names:
            if name == "a":
                self.switch()
            else:
                self.here.played[name].closes("s", self.claimed)
        self.here.settle()

    def test_when_all_nodes_have_sent_close(self) -> None:
        for durable in (False, True):
            for names in ("abc", "cba", "bca"):
                with self.subTest(durable=durable, names=names):
                    self.leaving(durable)
                    self.here.settle()
                    self.close(*names[:2])
                    self.assertEqual(self.state_of_merging(), MERGING)
                    self.close(names[2])
                    self.assertEqual(self.state_of_merging(), "")
                    self.assertEqual(self.here.peers.table.names, {})

    def test_then_the_store_has_nothing_of_it(self) -> None:
        self.leaving(durable=True)
        self.here.settle()
        self.close("a", "b", "c")
        for far in (self.b, self.c):
            far.confirm_all()
        self.here.settle()
        store = self.here.store
        assert store is not None
        own = [each for each in store.sessions.values() if each.client_id == "s"]
        self.assertEqual((own, store.deliveries), ([], {}))
        self.assertFalse([name for name in store.notes if name.startswith(("closed/", "gates/"))])

    def test_a_close_that_came_before_counts(self) -> None:
        """From the moment that it knew of a newer one."""
        self.idle()
        self.b.claims("s", self.claimed)
        self.here.lose(self.b)
        self.c.closes("s", self.claimed)
        self.c.publish(b"3")
        self.back()
        self.b.closes("s", self.claimed)
        self.switch()
        self.b.forget()
        self.refuse(merge=True)
        self.assertEqual(self.relayed(), [b"1", b"2"])
        self.assertEqual(self.state_of_merging(), "")

    def test_a_node_that_has_never_switched_to_it_need_not_close(self) -> None:
        """Its gate is closed: it sends nothing that would be for it."""
        self.begin("bcd")
        d = self.here.played["d"]
        self.c.claims("s", 1000, False)
        client = self.connect()
        first = self.epoch()
        self.c.session("s", first, 1000)
        self.c.end("s", first, {"d": []})
        self.c.table(("cs", 0))
        client.next("CONNACK")
        client.lose()
        self.session = self.hub.sessions["s"]
        self.claimed = first + 1000
        self.b.claims("s", self.claimed)
        self.refuse(merge=True)
        self.assertEqual(self.state_of_merging(), MERGING)
        self.close("a", "b", "c")
        self.assertEqual(self.state_of_merging(), "")
        self.assertEqual(d.closed, "")

    def test_a_node_that_is_forgotten_sends_nothing_more(self) -> None:
        self.leaving()
        self.close("a", "b")
        self.here.lose(self.c)
        self.assertEqual(self.state_of_merging(), MERGING)
        self.here.node.forget("c")
        self.here.settle()
        self.assertEqual(self.state_of_merging(), "")

    def test_until_then_the_table_says_that_it_is_here(self) -> None:
        """So that a node which switches closes it."""
        self.leaving()
        self.assertEqual(self.here.peers.table.names["cs"], self.session.epoch << 1)
        self.assertIn("ft", self.here.peers.table.names)

    def test_its_client_may_connect_here(self) -> None:
        """It has a newer session elsewhere, which comes; what is still relayed joins that."""
        self.leaving()
        self.relayed()
        client = self.connect()
        epoch = self.epoch()
        self.b.session("s", epoch, self.claimed)
        self.b.relays("s", b"1", b"2")
        self.b.end("s", epoch, {"b": [], "c": []})
        self.here.settle()
        self.assertTrue(client.next("CONNACK").session_present)
        self.assertEqual(client.payloads(), [b"1", b"2"])
        self.c.publish(b"3")
        self.here.settle()
        self.assertEqual(client.payloads(), [b"3"])

    def test_a_node_that_leaves_is_not_empty_before(self) -> None:
        self.leaving()
        for far in (self.b, self.c):
            far.confirm_all()
        self.assertFalse(self.here.node.empty())
        self.close("a", "b", "c")
        for far in (self.b, self.c):
            far.confirm_all()
        self.assertTrue(self.here.node.empty())


class ArrivalTests(TargetCase):
    """Late entries come to where the session is, or is thought to be."""

    def test_they_join_the_end_of_the_queue(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.begin("bc", durable)
                self.sleeper()
                self.publish(b"1")
                self.b.relays("s", b"2", b"3")
                self.here.settle()
                if durable:
                    self.restart()
                    self.meet("bc")
                self.client = self.connect()
                self.assertTrue(self.present())
                self.assertEqual(self.client.payloads(), [b"1", b"2", b"3"])

    def test_a_client_that_is_connected_gets_them_at_once(self) -> None:
        self.begin("bc")
        self.client = self.connect()
        self.present()
        self.b.relays("s", b"1")
        self.assertEqual(self.client.payloads(), [b"1"])

    def test_whatever_it_has_subscribed_to_by_now(self) -> None:
        """They were for it when they were published."""
        self.begin("bc")
        self.client = self.connect()
        self.present()
        self.assertEqual(self.hub.sessions["s"].subscriptions, {})
        self.b.relays("s", b"1")
        self.assertEqual(self.client.payloads(), [b"1"])

    def test_of_a_session_that_is_elsewhere_they_go_to_its_owner(self) -> None:
        """Whoever sent them had heard of an earlier one."""
        self.begin("bc")
        self.c.claims("s", 5000, False)
        self.b.relays("s", b"1")
        self.assertEqual(self.c.records(), [Relay("s", [b"1"])])

    def test_also_if_that_cannot_be_reached(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.begin("bc", durable)
                self.c.claims("s", 5000, False)
                self.here.lose(self.c)
                self.b.relays("s", b"1")
                self.here.settle()
                if durable:
                    self.restart()
                self.c = self.here.meet("c")
                self.assertEqual(self.c.records(), [Relay("s", [b"1"])])

    def test_of_one_that_nobody_has_they_are_for_nobody(self) -> None:
        self.begin("bc")
        self.b.relays("s", b"1")
        self.assertEqual((self.b.records(), self.c.records()), ([], []))

    def test_those_that_come_while_it_arrives_are_behind_what_it_has(self) -> None:
        self.arriving()
        self.c.relays("s", b"2")
        self.b.entries("s", self.epoch(), entry(b"1"))
        self.end()
        self.assertTrue(self.present())
        self.assertEqual(self.client.payloads(), [b"1", b"2"])

    def test_they_are_not_lost_if_it_does_not_arrive(self) -> None:
        """They wait for the session as the client does."""
        self.arriving()
        self.c.relays("s", b"2")
        self.here.lose(self.b)
        self.b = self.here.meet("b", ("cs", HELD << 1))
        self.b.session("s", self.epoch(), HELD)
        self.b.entries("s", self.epoch(), entry(b"1"))
        self.end()
        self.assertTrue(self.present())
        self.assertEqual(self.client.payloads(), [b"1", b"2"])

    def test_nor_if_another_node_gets_it(self) -> None:
        self.claiming()
        self.b.relays("s", b"1")
        self.c.claims("s", self.epoch() + 1000)
        self.assertEqual(self.c.records(), [Relay("s", [b"1"])])


class LeavingSessionTests(MergingCase):
    """Late entries come to a session that is on its way to another node."""

    def test_before_the_cut_they_are_entries_of_it(self) -> None:
        self.sending()
        self.c.relays("s", b"3")
        self.b.payloads()
        self.more()
        self.assertEqual(self.b.payloads(), [b"3"])

    def test_after_the_end_they_go_to_the_target_and_are_kept(self) -> None:
        for reach, state in ((self.ended, ENDED), (self.doubtful, DOUBT)):
            with self.subTest(state=state):
                reach()
                self.b.forget()
                self.c.relays("s", b"3")
                if state == DOUBT:
                    self.back()
                self.assertEqual(self.relayed(), [b"3"])
                self.b.table(("cs", 0))
                self.b.unknown("s", self.claimed)
                self.assertEqual(self.kept(), [b"1", b"2", b"3"])


class FoldTests(TargetCase):
    """The newer session comes to the node that has the older one."""

    def folded(self, durable: bool = False) -> None:
        self.begin("bc", durable)
        self.old = self.sleeper()
        self.publish(b"1", b"2")
        held = self.old.epoch + 1000
        self.b.claims("s", held, False)
        self.here.lose(self.b)
        self.client = self.connect()
        self.b = self.here.meet("b", ("cs", held << 1))
        self.b.session("s", self.epoch(), held)
        self.b.entries("s", self.epoch(), entry(b"3"))
        self.b.end("s", self.epoch(), {"b": [], "c": []})
        self.here.settle()
        self.assertTrue(self.present())

    def test_what_the_older_one_had_joins_it_late(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.folded(durable)
                self.assertEqual(self.client.payloads(), [b"3", b"1", b"2"])

    def test_until_a_node_has_switched_its_messages_come_by_the_older_one(self) -> None:
        """They are for that: the newer one was never known to it.  Behind the mark they are not."""
        self.folded()
        self.client.payloads()
        self.c.publish(b"4")
        self.c.marks("s", self.epoch())
        self.c.publish(b"5")
        self.here.settle()
        self.assertEqual(self.client.payloads(), [b"4", b"5"])

    def test_what_is_published_here_comes_once(self) -> None:
        self.folded()
        self.client.payloads()
        self.publish(b"4")
        self.assertEqual(self.client.payloads(), [b"4"])

    def test_with_the_last_mark_the_older_one_is_over(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.folded(durable)
                self.assertIn(self.old, self.migration.sources)
                for far in (self.b, self.c):
                    far.marks("s", self.epoch())
                self.here.settle()
                self.assertNotIn(self.old, self.migration.sources)
                self.assertIn("s", self.hub.sessions)
                self.assertNotEqual(self.here.peers.table.names.get("cs", 0), 0)

    def test_a_crash_in_between_leaves_both(self) -> None:
        """The newer one is the client's; the older one is emptied into it again."""
        self.folded(durable=True)
        for packet in self.client.take():
            self.client.send(p.puback(packet.pid or 0))
        self.here.settle()
        epoch = self.epoch()
        self.restart()
        self.here.settle()
        self.assertEqual(self.hub.sessions["s"].epoch, epoch)
        self.meet("bc")
        self.c.publish(b"4")
        self.here.settle()
        self.client = self.connect()
        self.assertTrue(self.present())
        self.assertEqual(self.client.payloads(), [b"4"])
        for far in (self.b, self.c):
            far.marks("s", epoch)
        self.here.settle()
        self.assertEqual([each.state for each in self.migration.sources.values()], [])

    def test_into_a_clean_one_nothing_is_folded(self) -> None:
        """A clean start wants nothing of what was."""
        self.begin("bc")
        old = self.sleeper()
        self.publish(b"1")
        newer = self.hub.new_session("s", old.limits)
        newer.clean = True
        newer.expiry_s = 1000
        self.migration.merging.fold(old, newer)
        self.here.settle()
        self.assertEqual((newer.queued(), self.migration.sources), (0, {}))
        self.assertIs(self.hub.sessions["s"], newer)


class StatesTests(Case):
    def test_a_session_that_was_closed_does_not_relay_by_itself(self) -> None:
        """It keeps what it has until there is somebody to give it to."""
        self.begin("bc")
        session = self.sleeper()
        self.publish(b"1")
        self.c.closes("s", session.epoch + 1000)
        self.here.wait(1.0)
        self.assertEqual((self.state(), session.queued()), (IDLE, 1))
        self.assertEqual((self.b.kinds(), self.c.kinds()), ([], []))
        self.assertEqual(self.b.sent(frames.PUBLISHES), [])


class UserTests(TargetCase):
    """During a split anybody may connect with a client id: late entries are for their user."""

    def owner(self, user: str) -> Session:
        self.client = self.connect()
        self.present()
        session = self.hub.sessions["s"]
        session.principal = session.principal.identified(Identity(user, "test"))
        return session

    def test_those_of_another_user_are_dropped(self) -> None:
        for durable in (False, True):
            for user in ("mallory", ""):
                with self.subTest(durable=durable, user=user):
                    self.begin("bc", durable)
                    self.owner(user)
                    self.b.relays("s", b"1", b"2", user="alice")
                    self.here.settle()
                    self.assertEqual(self.client.payloads(), [])
                    self.assertEqual(self.hub.stats.dropped_other_user, 2)
                    self.assertEqual(self.hub.sessions["s"].queued(), 0)

    def test_those_of_the_same_user_or_of_none_are_not(self) -> None:
        self.begin("bc")
        self.owner("alice")
        self.b.relays("s", b"1", user="alice")
        self.b.relays("s", b"2")
        self.assertEqual(self.client.payloads(), [b"1", b"2"])

    def test_whoever_passes_them_on_tells_whose_they_were(self) -> None:
        self.begin("bc")
        self.c.claims("s", 5000, False)
        self.b.relays("s", b"1", user="alice")
        self.assertEqual(self.c.records(), [Relay("s", [b"1"], "alice")])

    def test_those_that_come_while_the_session_arrives(self) -> None:
        self.arriving()
        self.c.relays("s", b"2", user="alice")
        self.b.entries("s", self.epoch(), entry(b"1"))
        self.end()
        self.assertTrue(self.present())
        self.assertEqual(self.client.payloads(), [b"1"])

    def test_an_older_session_at_this_node(self) -> None:
        """Restored beside a newer one, or left by a client that has come back by another way."""
        self.begin("bc")
        old = self.sleeper()
        old.principal = old.principal.identified(Identity("alice", "test"))
        self.publish(b"1")
        new = self.hub.new_session("s", old.limits)
        new.principal = new.principal.identified(Identity("mallory", "test"))
        new.expiry_s = 3600
        self.here.node.migration.merging.fold(old, new)
        self.here.settle()
        self.assertEqual((new.queued(), self.hub.stats.dropped_other_user), (0, 1))

    def test_what_came_by_a_shared_subscription_goes_to_others_of_the_group(self) -> None:
        self.begin("bc")
        self.owner("mallory")
        member = self.connect("member")
        member.next("CONNACK")
        member.send(p.subscribe(1, ("$share/g/t", 1)))
        self.here.settle()
        member.take()
        row = entry(b"1")
        row.record.share = "$share/g/t"
        self.b.control("s", controls.relay("alice", [row]))
        self.here.settle()
        self.assertEqual(member.payloads(), [b"1"])
        self.assertEqual(self.client.payloads(), [])

    def test_what_the_user_may_not_receive_any_more(self) -> None:
        self.begin("bc")
        self.owner("alice")
        rules = Rules()
        rules.denied = {("receive", "alice", "t")}
        self.hub.authorize_with(rules)
        self.b.relays("s", b"1", user="alice")
        self.here.settle()
        self.assertEqual(self.client.payloads(), [])
        self.assertEqual(self.hub.stats.receive_denied, 1)
