"""Who owns a session: the node whose claim has the highest epoch, and whose client is connected."""

from mhub.cluster import frames
from tests.cluster.migration.played import Case, Close, entry
from tests.helpers import packets as p

SUSPECT_S = 3.0
TAKEOVER_S = 10.0


class ClaimCase(Case):
    def value(self, client_id: str = "s") -> int:
        """What the table of node a says of a client."""
        return int(self.here.peers.table.names.get("c" + client_id, 0))


class ClaimTests(ClaimCase):
    def test_where_nobody_has_a_session_nobody_waits(self) -> None:
        self.begin()
        client = self.connect()
        self.assertFalse(client.next("CONNACK").session_present)
        self.assertEqual((self.b.kinds(), self.c.kinds()), ([], []))

    def test_all_nodes_hear_of_it(self) -> None:
        """With whether the client is connected, which tells two claims from each other."""
        self.begin()
        client = self.connect()
        (said,) = self.b.told(frames.TABLE)[-1:]
        self.assertEqual(said["set"], [["cs", self.value()]])
        self.assertEqual(self.value() & 1, 1)
        client.lose()
        self.here.settle()
        self.assertEqual(self.value() & 1, 0)
        self.assertEqual(self.value() >> 1, self.hub.sessions["s"].epoch)

    def test_each_connection_is_a_newer_claim(self) -> None:
        """So whatever is said of an earlier one is known to be old."""
        self.begin()
        before = 0
        for _ in range(3):
            client = self.connect()
            self.assertGreater(self.epoch(), before)
            before = self.epoch()
            client.lose()

    def test_it_is_higher_than_all_that_were_heard_of(self) -> None:
        """However far the clock of another node is ahead."""
        self.begin()
        ahead = self.here.peers.clock.timestamp(self.here.world.now) + (1 << 40)
        self.b.claims("x", ahead)
        self.connect()
        self.assertGreater(self.epoch(), ahead)

    def test_also_those_of_a_node_that_is_away(self) -> None:
        """A third one has told of its session: by a CLOSE in the channel, or by a CUT."""
        self.begin()
        ahead = self.here.peers.clock.timestamp(self.here.world.now) + (1 << 40)
        self.b.closes("s", ahead)
        self.connect(clean=True)
        self.assertGreater(self.epoch(), ahead)
        ahead += 1 << 40
        self.b.cut("x", ahead, "c", [])
        self.connect(clean=True)
        self.assertGreater(self.epoch(), ahead)

    def test_also_after_a_restart(self) -> None:
        """The store knows an epoch that none before the crash has reached."""
        self.begin(durable=True)
        ahead = self.here.peers.clock.timestamp(self.here.world.now) + (1 << 40)
        self.b.claims("x", ahead)
        self.connect(clean=True)
        self.here.settle()
        before = self.epoch()
        self.restart()
        self.meet("bc")
        self.connect(clean=True)
        self.assertGreater(self.epoch(), before)

    def test_a_session_that_is_here_is_waited_for_by_nobody(self) -> None:
        """Also if another node has an older one."""
        self.begin()
        self.sleeper()
        self.b.claims("s", 1, False)
        client = self.connect()
        self.assertTrue(client.next("CONNACK").session_present)

    def test_the_second_connect_takes_the_place_of_the_first(self) -> None:
        """At the same node, while both would wait."""
        self.begin()
        self.b.claims("s", 1000, False)
        first, second = self.connect(version=5), self.connect()
        self.assertTrue(first.closed)
        self.assertEqual(first.next("CONNACK").reason, 0x89)
        self.b.session("s", self.epoch(), 1000)
        self.b.end("s", self.epoch())
        self.assertTrue(second.next("CONNACK").session_present)

    def test_a_connect_that_loses_against_another_node_is_told_that_the_server_is_busy(
        self,
    ) -> None:
        """It broke no rule; in MQTT 3.1.1 that is the return code 3."""
        for version, arrives, reason in ((5, False, 0x89), (5, True, 0x89), (4, False, 3)):
            with self.subTest(version=version, arrives=arrives):
                self.begin()
                self.b.claims("s", 1000, False)
                client = self.connect(version=version)
                if arrives:
                    self.b.session("s", self.epoch(), 1000)
                self.b.claims("s", self.epoch() + 1000)
                self.assertEqual(client.next("CONNACK").reason, reason)
                self.assertTrue(client.closed)

    def test_while_it_arrives_the_epoch_stays(self) -> None:
        """The source serves that claim: what it gives is for the second connection."""
        self.begin()
        self.b.claims("s", 1000, False)
        first = self.connect()
        epoch = self.epoch()
        self.b.session("s", epoch, 1000)
        second = self.connect()
        self.assertEqual((first.closed, self.epoch()), (True, epoch))
        self.b.end("s", epoch)
        self.assertTrue(second.next("CONNACK").session_present)

    def test_of_two_claims_the_higher_one_wins(self) -> None:
        for more, wins in ((-1000, True), (1000, False)):
            with self.subTest(wins=wins):
                self.begin()
                self.b.claims("s", 1000, False)
                client = self.connect()
                self.c.claims("s", self.epoch() + more)
                self.assertEqual(self.is_waiting(client), wins)
                self.assertEqual(self.value() != 0, wins)

    def test_names_decide_between_equal_ones(self) -> None:
        """No two nodes give the same epoch, but a hostile clock may."""
        self.begin()
        self.b.claims("s", 1000, False)
        client = self.connect()
        self.c.claims("s", self.epoch())
        self.assertFalse(self.is_waiting(client))

    def test_a_client_that_waits_insists(self) -> None:
        """It is nowhere else, whatever the clock of a node says that has a session at rest."""
        self.begin()
        self.b.claims("s", 1000, False)
        client = self.connect()
        ahead = self.epoch() + (1 << 40)
        self.c.claims("s", ahead, False)
        self.assertTrue(self.is_waiting(client))
        self.assertGreater(self.epoch(), ahead)

    def test_against_one_that_is_connected_it_loses(self) -> None:
        self.begin()
        client = self.connect()
        client.next("CONNACK")
        self.b.claims("s", self.epoch() + 1000)
        self.assertTrue(client.closed)

    def test_a_session_without_a_client_goes_to_the_higher_epoch(self) -> None:
        """A client is not needed for it: the other node may have taken it from a node that left."""
        for more, goes in ((-1000, False), (1000, True)):
            with self.subTest(goes=goes):
                self.begin()
                epoch = self.sleeper().epoch
                self.b.claims("s", epoch + more, False)
                self.assertEqual(self.source() is not None, goes)

    def test_the_highest_of_several_is_waited_for(self) -> None:
        """An older one is offered first: it is not taken before the newer one is here."""
        self.begin()
        self.b.claims("s", 1000, False)
        self.c.claims("s", 2000, False)
        self.connect()
        self.b.session("s", self.epoch(), 1000)
        self.assertEqual((self.b.told(frames.ACCEPT), self.b.told(frames.REFUSED)), ([], []))
        self.c.session("s", self.epoch(), 2000)
        self.assertEqual(len(self.c.told(frames.ACCEPT)), 1)
        self.assertEqual(self.b.told(frames.ACCEPT), [])

    def test_the_older_one_is_refused_when_the_newer_one_is_here(self) -> None:
        """Its messages shall come late."""
        self.begin()
        self.b.claims("s", 1000, False)
        self.c.claims("s", 2000, False)
        self.connect()
        self.b.session("s", self.epoch(), 1000)
        self.c.session("s", self.epoch(), 2000)
        self.c.end("s", self.epoch())
        (said,) = self.b.told(frames.REFUSED)
        self.assertEqual((said["epoch"], said["merge"]), (self.epoch(), True))

    def test_a_client_comes_back_before_its_session_is_gone(self) -> None:
        """The other node gives its claim up, and all is here as it was."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.begin(durable=durable)
                held = self.sleeper().epoch
                self.publish(b"1", b"2")
                self.b.claims("s", held + 1000)
                self.b.accept("s", held + 1000)
                self.here.settle()
                client = self.connect()
                self.assertTrue(self.is_waiting(client))
                self.b.table(("cs", 0))
                self.here.settle()
                self.assertTrue(client.next("CONNACK").session_present)
                self.assertEqual(client.payloads(), [b"1", b"2"])

    def test_a_client_that_comes_back_while_it_arrives_has_the_last_word(self) -> None:
        """Another node was claimed in between: its claim is older than this connection."""
        self.begin()
        self.b.claims("s", 1000, False)
        self.connect()
        self.b.session("s", self.epoch(), 1000)
        served = self.epoch()
        self.c.claims("s", served + 1000)
        client = self.connect()
        self.b.end("s", served)
        self.here.settle()
        self.assertTrue(client.next("CONNACK").session_present)
        self.assertGreater(self.epoch(), served + 1000)
        self.assertEqual(self.c.told(frames.SESSION), [])

    def test_packet_ids_are_not_trusted_if_a_node_cannot_be_asked(self) -> None:
        """The client may have used them there for other messages, which must not be lost."""
        for is_away in (False, True):
            with self.subTest(is_away=is_away):
                self.begin()
                client = self.connect()
                client.next("CONNACK")
                client.send(p.publish("t", b"1", 2, 7))
                client.lose()
                if is_away:
                    self.here.lose(self.c)
                client = self.connect()
                self.assertEqual(client.next("CONNACK").session_present, not is_away)
                self.assertEqual(self.hub.sessions["s"].incoming, {} if is_away else {7: False})

    def test_nor_if_another_session_is_merged_while_the_client_is_elsewhere(self) -> None:
        """It may have been there since, and have found that one."""
        for is_connected in (False, True):
            with self.subTest(is_connected=is_connected):
                self.begin()
                client = self.connect()
                client.next("CONNACK")
                client.send(p.publish("t", b"1", 2, 7))
                if not is_connected:
                    client.lose()
                self.b.claims("s", 1000, False)
                self.b.session("s", self.epoch(), 1000)
                self.here.settle()
                self.assertEqual(len(self.b.told(frames.REFUSED)), 1)
                self.b.table(("cs", 0))
                if is_connected:
                    client.lose()
                client = self.connect()
                self.assertEqual(client.next("CONNACK").session_present, is_connected)
                expected = {7: False} if is_connected else {}
                self.assertEqual(self.hub.sessions["s"].incoming, expected)

    def test_a_session_that_ends_is_nobody_s(self) -> None:
        self.begin()
        client = self.connect(clean=True)
        client.next("CONNACK")
        client.send(p.disconnect())
        self.here.settle()
        self.assertEqual(self.value(), 0)

    def test_one_that_is_claimed_may_end_with_its_connection(self) -> None:
        """A clean session is not given away: the target hears that there is none."""
        self.begin()
        self.connect(clean=True)
        self.b.claims("s", self.epoch() + 1000)
        self.here.settle()
        self.assertNotIn("s", self.hub.sessions)
        self.assertEqual((self.value(), self.b.kinds()), (0, []))

    def test_a_node_that_forgets_a_session_is_heard_when_its_store_has(self) -> None:
        """Others remember what they took from it until then."""
        self.begin(durable=True)
        self.sleeper()
        self.hub.end_session(self.hub.sessions["s"])
        self.hub.flush()
        self.assertNotEqual(self.value(), 0)
        self.here.settle()
        self.assertEqual(self.value(), 0)


class GivenUpTests(ClaimCase):
    """A CONNECT that is given up changes nothing."""

    def test_while_it_waits_for_an_offer(self) -> None:
        """The session comes all the same, and rests here."""
        self.begin()
        self.b.claims("s", 1000, False)
        self.connect().lose()
        epoch = self.epoch()
        self.b.session("s", epoch, 1000)
        self.b.entries("s", epoch, entry(b"1"))
        self.b.end("s", epoch)
        self.here.settle()
        self.assertEqual(self.value(), epoch << 1)
        client = self.connect()
        self.assertTrue(client.next("CONNACK").session_present)
        self.assertEqual(client.payloads(), [b"1"])

    def test_nobody_offers_it(self) -> None:
        """Then the claim is withdrawn, and the holder keeps its session."""
        self.begin()
        self.b.claims("s", 1000, False)
        self.connect().lose()
        self.here.wait(TAKEOVER_S + 1.0)
        self.assertEqual(self.value(), 0)
        self.assertNotIn("s", self.hub.sessions)

    def test_the_holder_has_it_no_more(self) -> None:
        """Nobody needs a new session."""
        self.begin()
        self.b.claims("s", 1000, False)
        self.connect().lose()
        self.b.table(("cs", 0))
        self.here.settle()
        self.assertEqual(self.value(), 0)
        self.assertNotIn("s", self.hub.sessions)

    def test_another_one_insists_with_a_newer_epoch(self) -> None:
        self.begin()
        self.b.claims("s", 1000, False)
        self.connect().lose()
        before = self.epoch()
        client = self.connect()
        self.assertTrue(self.is_waiting(client))
        self.assertGreater(self.epoch(), before)

    def test_a_node_that_leaves_sends_those_who_wait_elsewhere(self) -> None:
        self.begin()
        self.b.claims("s", 1000, False)
        client = self.connect(version=5)
        self.here.node.evacuate("")
        self.assertEqual(client.next("CONNACK").reason, 0x9C)  # Use another server


class CleanTests(ClaimCase):
    """A clean start wants nothing of what others have, but waits until they have forgotten it."""

    def start(self) -> None:
        self.begin()
        self.b.claims("s", 1000, False)
        self.client = self.connect(clean=True)
        self.assertTrue(self.is_waiting(self.client))

    def test_what_is_offered_is_refused(self) -> None:
        self.start()
        self.b.session("s", self.epoch(), 1000)
        (said,) = self.b.told(frames.REFUSED)
        self.assertEqual((said["epoch"], said["merge"]), (self.epoch(), False))
        self.assertTrue(self.is_waiting(self.client))
        self.b.table(("cs", 0))
        self.assertFalse(self.client.next("CONNACK").session_present)

    def test_a_holder_that_cannot_be_reached_is_not_waited_for(self) -> None:
        self.start()
        self.here.lose(self.b)
        self.here.wait(SUSPECT_S)
        self.assertFalse(self.client.next("CONNACK").session_present)

    def test_it_is_refused_what_it_has_when_it_is_back(self) -> None:
        self.start()
        self.here.lose(self.b)
        self.here.wait(SUSPECT_S)
        self.b = self.here.meet("b", ("cs", 1000 << 1))
        self.b.session("s", self.epoch(), 1000)
        (said,) = self.b.told(frames.REFUSED)
        self.assertFalse(said["merge"])

    def test_a_session_that_is_here_ends(self) -> None:
        """Also if the other one is the newer one."""
        self.begin()
        old = self.sleeper()
        self.publish(b"1")
        self.b.claims("s", old.epoch + 1000, False)
        client = self.connect(clean=True)
        self.b.refuses("s", old.epoch + 1000, merge=False)
        self.b.table(("cs", 0))
        self.here.settle()
        self.assertFalse(client.next("CONNACK").session_present)
        self.assertEqual(client.payloads(), [])
        self.assertIsNot(self.hub.sessions["s"], old)


class UnreachableTests(ClaimCase):
    """Who has the session cannot be reached."""

    def test_it_is_waited_for_a_moment(self) -> None:
        """And not for ever: then the client gets a new one."""
        self.begin()
        self.b.claims("s", 1000, False)
        self.here.lose(self.b)
        client = self.connect()
        self.here.wait(SUSPECT_S - 0.5)
        self.assertTrue(self.is_waiting(client))
        self.here.wait(0.5)
        self.c.marks("s", self.epoch())
        self.assertFalse(client.next("CONNACK").session_present)

    def test_it_may_be_back_in_time(self) -> None:
        self.begin()
        self.b.claims("s", 1000, False)
        self.here.lose(self.b)
        client = self.connect()
        self.here.wait(SUSPECT_S - 0.5)
        self.b = self.here.meet("b", ("cs", 1000 << 1))
        self.b.session("s", self.epoch(), 1000)
        self.b.end("s", self.epoch())
        self.assertTrue(client.next("CONNACK").session_present)

    def test_where_failover_is_possible_it_is_waited_for_longer(self) -> None:
        """Another node may bring its sessions back."""
        self.begin()
        self.here.node.settings.shared_store = "word"
        self.here.node.members["b"].shared_store = "word"
        self.b.claims("s", 1000, False)
        self.here.lose(self.b)
        client = self.connect()
        self.here.wait(TAKEOVER_S - 0.5)
        self.assertTrue(self.is_waiting(client))
        self.assertEqual(self.c.kinds(), [])
        self.here.wait(0.5)
        self.assertEqual(self.c.kinds(), [frames.CUT])

    def test_a_newer_one_that_cannot_be_reached_is_not_passed_over(self) -> None:
        """An older one is here or offered; what the client knows is the newer one."""
        for is_here in (False, True):
            with self.subTest(is_here=is_here):
                self.begin()
                held = self.sleeper().epoch if is_here else 1000
                if not is_here:
                    self.c.claims("s", held, False)
                self.b.claims("s", held + 1000, False)
                self.here.lose(self.b)
                client = self.connect()
                if not is_here:
                    self.c.session("s", self.epoch(), held)
                self.assertTrue(self.is_waiting(client))
                self.here.wait(SUSPECT_S)
                self.c.marks("s", self.epoch())
                self.here.settle()
                self.assertFalse(client.next("CONNACK").session_present)

    def test_what_an_older_one_here_had_joins_the_new_one(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.begin(durable=durable)
                held = self.sleeper().epoch + 1000
                self.publish(b"1", b"2")
                self.b.claims("s", held, False)
                self.here.lose(self.b)
                client = self.connect()
                self.here.wait(SUSPECT_S)
                self.c.marks("s", self.epoch())
                self.here.settle()
                self.assertFalse(client.next("CONNACK").session_present)
                self.assertEqual(client.payloads(), [b"1", b"2"])

    def test_or_the_one_that_comes_in_time(self) -> None:
        """Behind what that had: it is late."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.begin(durable=durable)
                held = self.sleeper().epoch + 1000
                self.publish(b"1", b"2")
                self.b.claims("s", held, False)
                self.here.lose(self.b)
                client = self.connect()
                self.b = self.here.meet("b", ("cs", held << 1))
                self.b.session("s", self.epoch(), held)
                self.b.entries("s", self.epoch(), entry(b"3"))
                self.b.end("s", self.epoch())
                self.here.settle()
                self.assertTrue(client.next("CONNACK").session_present)
                self.assertEqual(client.payloads(), [b"3", b"1", b"2"])

    def test_a_session_that_has_missed_something_is_not_continued(self) -> None:
        """A node knows of a newer one, which this node has not heard of."""
        self.begin()
        epoch = self.sleeper().epoch
        self.c.closes("s", epoch + 1000)
        client = self.connect()
        self.here.settle()
        for far in (self.b, self.c):
            far.marks("s", self.epoch())
        self.here.settle()
        self.assertFalse(client.next("CONNACK").session_present)

    def test_its_client_is_disconnected_at_once(self) -> None:
        """It has missed messages from there on."""
        self.begin()
        client = self.connect(version=5)
        client.next("CONNACK")
        self.hub.sessions["s"].expiry_s = 1000
        self.c.closes("s", self.epoch() + 1000)
        self.assertEqual(client.next("DISCONNECT").reason, 0x8E)
        self.assertTrue(self.hub.sessions["s"].state_lost)


class UnknownTests(ClaimCase):
    """After a restart a node does not know what the others have, before they have said so."""

    def restarted(self) -> None:
        self.begin("bc", durable=True)
        self.sleeper("here")
        self.here.settle()
        self.restart()
        self.here.settle()

    def test_nodes_that_cannot_be_reached_may_have_a_session(self) -> None:
        """Their messages are for that one, until they have switched to the new one."""
        self.restarted()
        client = self.connect()
        self.assertFalse(client.next("CONNACK").session_present)
        client.send(p.subscribe(1, ("t", 1)))
        self.b = self.here.meet("b")
        client.next("SUBACK")
        (said,) = self.b.told(frames.CUT)
        self.assertEqual((said["epoch"], said["segments"]), (self.epoch(), []))
        self.b.publish(b"before")
        self.assertEqual(client.payloads(), [])
        self.b.marks("s", self.epoch())
        self.b.publish(b"behind")
        self.here.settle()
        self.assertEqual(client.payloads(), [b"behind"])

    def test_older_sessions_there_get_nothing_from_here(self) -> None:
        self.restarted()
        client = self.connect()
        client.next("CONNACK")
        self.b = self.here.meet("b")
        self.assertEqual(self.b.records(), [Close("s", self.epoch())])

    def test_one_whose_table_is_on_its_way_is_waited_for(self) -> None:
        """It says in a moment whether it has one."""
        self.restarted()
        self.here.meet("c")
        self.b = self.here.join("b")
        client = self.connect()
        self.here.settle()
        self.assertTrue(self.is_waiting(client))
        self.b.say(frames.TABLE, at=-2, to=1, number=1, set=[["cs", 1000 << 1]])
        self.assertTrue(self.is_waiting(client))
        self.b.session("s", self.epoch(), 1000)
        self.b.end("s", self.epoch())
        self.here.settle()
        self.assertTrue(client.next("CONNACK").session_present)

    def test_it_may_have_none(self) -> None:
        self.restarted()
        self.here.meet("c")
        self.b = self.here.join("b")
        client = self.connect()
        self.b.say(frames.TABLE, at=-2, to=1, number=1, set=[])
        self.here.settle()
        self.assertFalse(client.next("CONNACK").session_present)

    def test_if_all_others_have_said_that_they_have_none_there_is_none(self) -> None:
        self.restarted()
        self.meet("bc")
        client = self.connect()
        self.assertFalse(client.next("CONNACK").session_present)
        client.send(p.subscribe(1, ("t", 1)))
        self.here.settle()
        client.next("SUBACK")
        self.b.publish(b"1")
        self.assertEqual(client.payloads(), [b"1"])

    def test_a_session_that_is_here_goes_on(self) -> None:
        self.restarted()
        self.assertTrue(self.connect("here").next("CONNACK").session_present)
        self.assertIsNone(self.hub.sessions["here"].intake)

    def test_a_clean_start_waits_for_nobody(self) -> None:
        self.restarted()
        self.assertFalse(self.connect(clean=True).next("CONNACK").session_present)
        self.assertIsNone(self.hub.sessions["s"].intake)


class LookAroundTests(ClaimCase):
    """Now and then a node looks for what was in the way."""

    def test_a_session_that_belongs_elsewhere_is_offered(self) -> None:
        self.begin()
        session = self.sleeper()
        self.b.claims("s", session.epoch + 1000, False)
        del self.migration.sources[session]
        session.frozen = False
        self.b.forget()
        self.here.wait(11.0)
        self.assertEqual(self.b.offered()[0]["epoch"], session.epoch + 1000)

    def test_a_claim_of_nothing_is_withdrawn(self) -> None:
        self.begin()
        self.here.peers.table.own("x", 1000, True)
        self.here.wait(11.0)
        self.assertEqual(self.value("x"), 0)
