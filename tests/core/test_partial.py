"""What all clients together may have begun and not ended."""

from twisted.trial.unittest import SynchronousTestCase

from mhub.core.partial import COUNTED_BYTES
from tests.core.world import Client, World
from tests.helpers import packets as p

SIZE = 3 * COUNTED_BYTES


class Case(SynchronousTestCase):
    def build(self, most: int = 100_000) -> None:
        self.world = World(max_partial_bytes=most)

    def setUp(self) -> None:
        self.build()

    def held(self) -> int:
        return self.world.hub.partials.size_bytes

    def begin(self, name: str, size: int = 40_000, version: int = 5) -> Client:
        """A client that has sent so much of a larger packet."""
        client = self.world.client(name, version)
        self.packet = p.publish("t", bytes(SIZE), version=version)
        client.send(self.packet[:size])
        return client

    def tearDown(self) -> None:
        """However it ended: what is gone is not counted any more."""
        for session in list(self.world.hub.sessions.values()):
            if session.connection is not None:
                session.connection.close(0, "")
        self.assertEqual((self.held(), self.world.hub.partials.senders), (0, {}))


class Counting(Case):
    def test_what_has_come_of_a_large_packet(self) -> None:
        client = self.begin("a", 20_000)
        self.assertEqual(self.held(), 20_000)
        client.send(self.packet[20_000:30_000])
        self.assertEqual(self.held(), 30_000)
        client.send(self.packet[30_000:])
        self.assertEqual((self.held(), self.world.stats.publish_received), (0, 1))

    def test_not_of_a_small_one(self) -> None:
        client = self.world.client("a")
        client.send(p.publish("t", bytes(COUNTED_BYTES - 100))[:-1])
        self.assertEqual(self.held(), 0)

    def test_not_what_is_whole_and_only_put_off(self) -> None:
        """Such a client is not read from: it cannot make progress."""
        self.world = World(work_per_turn=1)
        self.world.client("s").subscribe("t")
        client = self.world.client("a")
        client.send(p.publish("t", bytes(SIZE)), p.publish("t", bytes(SIZE)))
        self.assertEqual(self.held(), 0)
        self.assertIsNotNone(client.connection.partial)
        self.world.settle()

    def test_one_that_leaves_takes_it_along(self) -> None:
        self.begin("a").lose()
        self.assertEqual(self.held(), 0)

    def test_a_connect_counts_as_well(self) -> None:
        client = self.world.open(5)
        client.send(p.connect("c", 5, will=("t", "x" * 60_000, 0))[:50_000])
        self.assertEqual(self.held(), 50_000)
        client.lose()


class Bound(Case):
    def test_beyond_it_the_one_without_progress_for_longest_goes(self) -> None:
        first, second, third = self.begin("1"), self.begin("2"), self.begin("3")
        self.assertEqual([first.closed, second.closed, third.closed], [True, False, False])
        disconnect = first.next("DISCONNECT")
        self.assertEqual(disconnect.reason, 0x97)
        self.assertEqual(self.held(), 80_000)
        self.assertEqual(self.world.stats.disconnected_partial, 1)

    def test_progress_counts_and_a_drip_does_not(self) -> None:
        first, second = self.begin("1"), self.begin("2")
        first.send(self.packet[40_000:42_000])
        second.send(self.packet[40_000:40_010])
        third = self.begin("3")
        self.assertEqual([first.closed, second.closed, third.closed], [False, True, False])

    def test_one_that_grows_beyond_it(self) -> None:
        first, second = self.begin("1"), self.begin("2", 45_000)
        second.send(self.packet[45_000:49_000])
        self.assertFalse(first.closed)
        first.send(self.packet[40_000:41_000])  # less than progress
        third = self.begin("3", 10_000)
        self.assertEqual([first.closed, second.closed, third.closed], [False] * 3)
        third.send(self.packet[10_000:12_000])
        self.assertEqual([first.closed, second.closed, third.closed], [True, False, False])

    def test_one_alone_is_within_it_whatever_its_size(self) -> None:
        self.build(1000)
        client = self.begin("a")
        self.assertFalse(client.closed)
        client.send(self.packet[40_000:])
        self.assertEqual(self.world.stats.publish_received, 1)

    def test_several_go_if_one_is_not_enough(self) -> None:
        small = [self.begin(str(number), 17_000) for number in range(5)]
        last = self.begin("last", 49_000)
        self.assertEqual([client.closed for client in small], [True, True, False, False, False])
        self.assertFalse(last.closed)

    def test_an_old_client_is_closed_without_a_word(self) -> None:
        first = self.begin("1", version=4)
        self.begin("2")
        self.begin("3")
        self.assertEqual((first.closed, first.take()), (True, []))

    def test_none(self) -> None:
        self.build(0)
        clients = [self.begin(str(number)) for number in range(10)]
        self.assertFalse(any(client.closed for client in clients))
