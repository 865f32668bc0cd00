"""An open loop keeps its pace by the clock it is given, whatever happens in between."""

from unittest import TestCase

from mhub.bench.load.client import Client
from mhub.bench.load.histogram import Histogram
from mhub.bench.load.loops import Rest, fill, send_due
from mhub.bench.load.pace import SECOND, Pace
from mhub.bench.load.packets import HEAD_SIZE, PublishFrames

MS = SECOND // 1000
RUN = 1


def clients(count: int, qos: int = 0) -> list[Client]:
    found = []
    for number in range(count):
        client = Client(4, RUN, Histogram())
        client.publishes(PublishFrames("t", qos, HEAD_SIZE, 4, RUN, number))
        found.append(client)
    return found


def stamps(client: Client) -> list[int]:
    """The times in the messages that `client` has queued."""
    return [int.from_bytes(frame[-6:], "big") for frame in client.out]


class PaceTests(TestCase):
    def test_messages_are_due_at_even_distances(self) -> None:
        pace = Pace(1000, 1, 5 * MS, 10)
        self.assertEqual([pace.due(i) for i in range(3)], [5 * MS, 6 * MS, 7 * MS])

    def test_called_agrees_with_due_at_every_moment(self) -> None:
        for rate in (1, 3, 7, 999, 1000, 1001, 123_457, 1_000_000):
            pace = Pace(rate, 1, 17, 50)
            for i in range(50):
                due = pace.due(i)
                self.assertEqual(pace.called(due), i + 1, (rate, i))
                self.assertLessEqual(pace.called(due - 1), i, (rate, i))

    def test_called_ends_with_the_run(self) -> None:
        self.assertEqual(Pace(1000, 1, 0, 10).called(5 * SECOND), 10)

    def test_messages_are_dealt_to_the_publishers_in_turn(self) -> None:
        pace = Pace(1000, 3, 0, 100)
        self.assertEqual([pace.owed(p, 7) for p in range(3)], [3, 2, 2])
        self.assertEqual([pace.owed(p, 0) for p in range(3)], [0, 0, 0])
        self.assertEqual(pace.due_of(2, 1), pace.due(5))

    def test_rest_until_the_next_one(self) -> None:
        pace = Pace(1000, 1, 10 * MS, 2)
        self.assertEqual(pace.rest(4 * MS), 6 * MS)
        self.assertEqual(pace.rest(10 * MS), 1 * MS)
        self.assertEqual(pace.rest(20 * MS), 0)

    def test_late_tells_by_how_much_a_turn_came_late(self) -> None:
        pace = Pace(1000, 1, 0, 10)
        self.assertEqual(pace.late(100), 100)
        self.assertEqual(pace.late(200), -1)
        self.assertEqual(pace.late(3 * MS + 7), 2 * MS + 7)

    def test_a_message_carries_the_moment_at_which_it_was_due(self) -> None:
        """After a standstill of 4 ms all that was due leaves, stamped as if it had left in time."""
        pace = Pace(1000, 2, 0, 100)
        both = clients(2)
        send_due(both, pace, pace.called(0))
        send_due(both, pace, pace.called(4 * MS))
        self.assertEqual(stamps(both[0]), [0, 2 * MS, 4 * MS])
        self.assertEqual(stamps(both[1]), [1 * MS, 3 * MS])

    def test_what_a_blocked_socket_delays_keeps_its_moment(self) -> None:
        pace = Pace(1000, 1, 0, 100)
        [client] = clients(1)
        client.blocked = True
        self.assertEqual(send_due([client], pace, pace.called(2 * MS)), [])
        client.blocked = False
        self.assertEqual(send_due([client], pace, pace.called(9 * MS)), [0])
        self.assertEqual(stamps(client)[:3], [0, 1 * MS, 2 * MS])

    def test_unacknowledged_messages_hold_the_next_ones_back(self) -> None:
        pace = Pace(1000, 1, 0, 100)
        [client] = clients(1, qos=1)
        client.receive_max = 3
        send_due([client], pace, 10)
        self.assertEqual(client.source.sent, 3)
        client.acked = 2
        send_due([client], pace, 10)
        self.assertEqual(stamps(client)[-1], 4 * MS)


class FillTests(TestCase):
    def test_only_those_with_room_publish(self) -> None:
        three = clients(3)
        three[1].blocked = True
        self.assertEqual(fill(three, 10, 1, 0), [0, 2])
        self.assertEqual([client.source.sent for client in three], [10, 0, 10])
        self.assertEqual(fill(three, 10, 1, 0), [])


class RestTests(TestCase):
    def test_never_longer_than_the_broker_has_work(self) -> None:
        """1,000 messages on their way at 100,000/s: an eighth of them is 1.25 ms of work."""
        rest = Rest(100, 10, 1, 0)
        self.assertEqual(rest.span(0, 0), 0)
        self.assertEqual(rest.span(1000, 10 * MS), 0)  # this read was large
        self.assertEqual(rest.span(1010, 10 * MS + 1), 1_250_000)

    def test_a_slow_broker_is_asked_every_two_milliseconds(self) -> None:
        rest = Rest(100, 10, 1, 0)
        rest.span(100, 10 * MS)
        self.assertEqual(rest.span(110, 11 * MS), 2 * MS)

    def test_none_for_small_windows(self) -> None:
        rest = Rest(1, 10, 1, 0)
        rest.span(100, 10 * MS)
        self.assertEqual(rest.span(101, 11 * MS), 0)
