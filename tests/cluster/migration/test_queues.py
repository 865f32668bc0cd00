"""The queue of a session as entries, and entries as a queue: the same ones, in the same order."""

from mhub.cluster.migration import queues
from mhub.core.records import publish_of
from tests.cluster.migration.played import entry
from tests.cluster.migration.test_source import SourceCase
from tests.cluster.migration.test_target import TargetCase
from tests.helpers import packets as p


class GivenTests(SourceCase):
    def claim(self) -> None:
        self.claimed = self.hub.sessions["s"].epoch + 1000
        self.b.claims("s", self.claimed)
        self.here.settle()
        self.accept()
        self.here.settle()

    def portions(self) -> list[list[bytes]]:
        """All of it, as it is asked for."""
        found = []
        while payloads := self.b.payloads():
            found.append(payloads)
            self.more()
            self.here.settle()
        return found

    def test_first_what_is_in_flight_with_its_packet_ids(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.begin("bc", durable)
                self.sleeper()
                client = self.connect()
                client.next("CONNACK")
                self.publish(b"1", b"2", qos=2)
                pids = [packet.pid for packet in client.take()]
                client.send(p.pubrec(pids[0] or 0))
                client.lose()
                self.publish(b"3")
                self.claim()
                rows = self.b.rows()
                self.more()
                self.here.settle()
                rows += self.b.rows()
                found = [
                    (publish_of(row.body, 0.0).payload, row.record.pid, row.record.released)
                    for row in rows
                ]
                # PUBRELs are sent again in the order of PUBRECs, behind what waits for its PUBREC.
                expected = [(b"2", pids[1], False), (b"1", pids[0], True), (b"3", 0, False)]
                self.assertEqual(found, expected)

    def test_retained_messages_that_were_still_to_be_sent(self) -> None:
        """Those of a new subscription come before what was published since."""
        self.begin("bc")
        self.sleeper()
        publisher = self.connect("r")
        publisher.send(*(p.publish(f"r/{n}", b"r%d" % n, 1, n, True) for n in range(1, 4)))
        client = self.here.world.open()
        client.send(p.connect("s", clean=False))
        client.session.inflight.window = 1
        client.send(p.subscribe(1, ("r/#", 1)))
        client.lose()
        self.publish(b"1")
        self.claim()
        found = [row for portion in [self.b.rows()] for row in portion]
        self.more()
        found += self.b.rows()
        payloads = [publish_of(row.body, 0.0).payload for row in found]
        self.assertEqual(sorted(payloads[:3]), [b"r1", b"r2", b"r3"])
        self.assertEqual(payloads[3:], [b"1"])
        self.assertEqual([row.record.retain for row in found], [True, True, True, False])

    def test_in_portions_each_when_it_is_asked_for(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.patch(queues, "MOST", 4)
                self.idle(*(b"%d" % n for n in range(10)), durable=durable)
                self.claim()
                found = self.portions()
                self.assertEqual([len(portion) for portion in found], [4, 4, 2])
                self.assertEqual(b"".join(b"".join(each) for each in found), b"0123456789")

    def test_a_portion_has_not_too_many_bytes(self) -> None:
        self.patch(queues, "MOST_BYTES", 1000)
        payloads = [bytes([n]) * 400 for n in range(5)]
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.idle(*payloads, durable=durable)
                self.claim()
                found = self.portions()
                self.assertLessEqual(max(len(b"".join(each)) for each in found), 1200)
                self.assertEqual([each for portion in found for each in portion], payloads)

    def test_nothing_leaves_the_queue_by_being_read(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.sending(durable=durable)
                self.here.settle()
                self.portions()
                self.assertEqual(self.session.queued(), 2)
                self.b.table(("cs", 0))
                self.b.unknown("s", self.claimed)
                self.here.settle()
                self.assertEqual(self.kept(), [b"1", b"2"])

    def test_after_a_restart_it_is_read_from_the_store(self) -> None:
        self.idle(*(b"%d" % n for n in range(10)), durable=True)
        self.here.settle()
        self.restart()
        self.meet("bc")
        self.claim()
        found = self.portions()
        self.assertEqual(b"".join(b"".join(each) for each in found), b"0123456789")

    def test_what_the_store_was_asked_for_by_the_session_itself_is_not_mixed_in(self) -> None:
        """It had begun to load for a client that is gone by then."""
        self.idle(*(b"%d" % n for n in range(40)), durable=True)
        client = self.here.world.open()
        client.send(p.connect("s", clean=False))
        client.lose()
        self.claim()
        found = [each for portion in self.portions() for each in portion]
        self.assertEqual(found, [b"%d" % n for n in range(40)])

    def test_what_its_client_has_not_acknowledged_is_in_flight(self) -> None:
        self.begin("bc", durable=True)
        self.sleeper()
        client = self.connect()
        client.next("CONNACK")
        self.publish(b"1")
        pid = client.next("PUBLISH").pid
        self.b.claims("s", self.epoch() + 1000)
        self.claimed = self.epoch() + 1000
        self.here.settle()
        self.accept()
        self.here.settle()
        self.assertEqual([row.record.pid for row in self.b.rows()], [pid])


class TakenTests(TargetCase):
    def test_a_long_queue_comes_to_the_client_in_its_order(self) -> None:
        """Most of it was in the store alone."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.arriving(durable)
                numbers = range(100)
                for first in range(0, 100, 25):
                    rows = [entry(b"%d" % n) for n in numbers[first : first + 25]]
                    self.b.entries("s", self.epoch(), *rows)
                self.end()
                self.c.publish(b"100")
                self.here.settle()
                self.assertTrue(self.present())
                found: list[int] = []
                for _ in range(200):
                    for packet in self.client.take():
                        found.append(int(packet.payload))
                        self.client.send(p.puback(packet.pid or 0))
                    self.here.settle()
                self.assertEqual(found, [*numbers, 100])

    def test_bytes_are_counted(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.arriving(durable)
                self.b.entries("s", self.epoch(), entry(b"1234"), entry(b"56"))
                self.client.lose()
                self.end()
                session = self.hub.sessions["s"]
                self.assertEqual((session.queued(), session.queue.size_bytes), (2, 8))
                self.assertEqual(self.hub.queues.size_bytes, 8)
