"""Who owns a session: the node whose claim has the highest epoch, and whose client is connected."""

from mhub.cluster import parcels
from tests.cluster.migration.played import Case, entry
from tests.helpers import packets as p


class ClaimTests(Case):
    def value(self, client_id: str = "s") -> int:
        """What the table of node a says of a client."""
        return int(self.here.peers.table.get("c" + client_id, 0))

    def test_where_nobody_has_a_session_nobody_waits(self) -> None:
        self.begin()
        client = self.connect()
        self.assertFalse(client.next("CONNACK").session_present)

    def test_all_nodes_hear_of_it(self) -> None:
        """With whether the client is connected, which tells two claims from each other."""
        self.begin()
        client = self.connect()
        (said,) = self.b.told(parcels.TABLE)[-1:]
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

    def test_a_session_that_is_here_is_waited_for_by_nobody(self) -> None:
        """Also if another node has an older part of it."""
        self.begin()
        self.sleeper()
        self.b.claims("s", 1, False)
        client = self.connect()
        self.assertTrue(client.next("CONNACK").session_present)

    def test_a_client_waits_for_the_node_that_has_a_newer_one(self) -> None:
        """And not for ever."""
        self.begin()
        held = self.sleeper().epoch + 1000
        self.b.claims("s", held, False)
        self.here.lose(self.b)
        client = self.connect()
        self.assertTrue(self.is_waiting(client))
        self.here.wait(2.5)
        self.assertTrue(self.is_waiting(client))
        self.here.wait(10.0)
        self.assertFalse(client.next("CONNACK").session_present)

    def test_what_an_older_session_here_had_joins_the_newer_one(self) -> None:
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
                self.b.session("s", self.epoch(), held, began=held)
                self.b.entries("s", self.epoch(), entry(b"3"))
                self.b.end("s", self.epoch())
                self.here.settle()
                self.assertTrue(client.next("CONNACK").session_present)
                self.assertEqual(client.payloads(), [b"3", b"1", b"2"])

    def test_of_two_parts_that_were_used_the_one_that_began_later_is_dropped(self) -> None:
        """What was for it has come to the other one as well."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.begin(durable=durable)
                session = self.sleeper()
                session.began = session.epoch
                held = session.epoch + 1000
                self.publish(b"1", b"2")
                self.b.claims("s", held, False)
                self.here.lose(self.b)
                client = self.connect()
                self.b = self.here.meet("b", ("cs", held << 1))
                self.b.session("s", self.epoch(), held, began=0)
                self.b.entries("s", self.epoch(), entry(b"2"))
                self.b.end("s", self.epoch())
                self.here.settle()
                self.assertTrue(client.next("CONNACK").session_present)
                self.assertEqual(client.payloads(), [b"2"])

    def test_the_second_connect_takes_the_place_of_the_first(self) -> None:
        """At the same node, while both would wait."""
        self.begin()
        self.b.claims("s", 1000, False)
        first, second = self.connect(version=5), self.connect()
        self.assertTrue(first.closed)
        self.assertNotEqual(first.next("CONNACK").reason, 0)
        self.b.session("s", self.epoch(), 1000)
        self.b.end("s", self.epoch())
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

    def test_a_client_that_is_connected_insists(self) -> None:
        """It is nowhere else, whatever the clock of a node says that has a session at rest."""
        self.begin()
        client = self.connect()
        client.next("CONNACK")
        ahead = self.epoch() + (1 << 40)
        self.b.claims("s", ahead, False)
        self.assertFalse(client.closed)
        self.assertGreater(self.epoch(), ahead)
        self.assertEqual(self.hub.sessions["s"].epoch, self.epoch())

    def test_also_while_it_waits(self) -> None:
        self.begin()
        self.b.claims("s", 1000, False)
        client = self.connect()
        ahead = self.epoch() + (1 << 40)
        self.c.claims("s", ahead, False)
        self.assertTrue(self.is_waiting(client))
        self.assertGreater(self.epoch(), ahead)

    def test_but_not_against_a_client_that_is_connected_elsewhere(self) -> None:
        self.begin()
        client = self.connect()
        client.next("CONNACK")
        self.b.claims("s", self.epoch() + 1000)
        self.assertTrue(client.closed)

    def test_the_highest_of_several_is_waited_for(self) -> None:
        """An older part is offered first: it is not taken before the newer one is here."""
        self.begin()
        self.b.claims("s", 1000, False)
        self.c.claims("s", 2000, False)
        self.connect()
        self.b.session("s", self.epoch(), 1000)
        self.assertEqual(self.c.told(parcels.CUT), [])
        self.c.session("s", self.epoch(), 2000)
        (said,) = self.c.told(parcels.CUT)
        self.assertEqual((said["accepted"], sorted(said["sources"])), ("c", ["b", "c"]))

    def test_the_older_part_is_refused_when_the_newer_one_is_here(self) -> None:
        self.begin()
        self.b.claims("s", 1000, False)
        self.c.claims("s", 2000, False)
        self.connect()
        self.b.session("s", self.epoch(), 1000)
        self.c.session("s", self.epoch(), 2000, began=2000)
        self.c.end("s", self.epoch())
        (said,) = self.b.told(parcels.REFUSED)
        self.assertEqual((said["epoch"], said["began"]), (self.epoch(), 2000))

    def test_a_client_comes_back_before_its_session_is_gone(self) -> None:
        """The other node gives its claim up, and all is here as it was."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.begin(durable=durable)
                held = self.sleeper().epoch
                self.publish(b"1", b"2")
                self.b.claims("s", held + 1000)
                self.here.settle()
                self.b.cut("s", held + 1000, "a", "c", "a")
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
        self.assertEqual(self.c.kinds(), [parcels.CUT])

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

    def test_a_session_that_ends_is_nobody_s(self) -> None:
        self.begin()
        client = self.connect(clean=True)
        client.next("CONNACK")
        client.send(p.disconnect())
        self.assertEqual(self.value(), 0)

    def test_one_that_is_claimed_may_end_with_its_connection(self) -> None:
        """A clean session is not given away: the target hears that there is none."""
        self.begin()
        self.connect(clean=True)
        self.b.claims("s", self.epoch() + 1000)
        self.assertNotIn("s", self.hub.sessions)
        self.assertEqual((self.value(), self.b.kinds()), (0, []))


class UnknownTests(Case):
    """After a restart a node does not know what the others have, before they have said so."""

    def restarted(self) -> None:
        self.begin("bc", durable=True)
        self.sleeper("here")
        self.here.settle()
        self.restart()
        self.here.settle()

    def test_what_they_send_to_a_new_session_waits_for_their_marks(self) -> None:
        """A node that cannot be asked may have an older one, which this would be for."""
        self.restarted()
        client = self.connect()
        self.assertFalse(client.next("CONNACK").session_present)
        client.send(p.subscribe(1, ("t", 1)))
        self.meet("b")
        client.next("SUBACK")
        self.b.publish(b"before")
        self.assertEqual(client.payloads(), [])
        self.b.mark("s", self.epoch())
        self.b.publish(b"behind")
        self.here.settle()
        self.assertEqual(client.payloads(), [b"before", b"behind"])

    def test_not_if_all_others_have_said_that_they_have_none(self) -> None:
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
