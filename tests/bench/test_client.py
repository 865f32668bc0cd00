"""The scanner sees the same however the bytes are cut, and answers what MQTT asks for."""

from collections.abc import Callable, Iterator
from unittest import TestCase

from mhub.bench.load.client import Client, PeerFault
from mhub.bench.load.histogram import Histogram
from mhub.bench.load.packets import FIRST_ID, IDS, PublishFrames
from mhub.bench.load.track import Track

RUN = 0xCAFE0001
CONNACK = b"\x20\x02\x00\x00"
CONNACK_5 = b"\x20\x03\x00\x00\x00"


def cuts(data: bytes) -> Iterator[list[bytes]]:
    """`data` whole, byte by byte, and in two pieces at every place."""
    yield [data]
    yield [data[i : i + 1] for i in range(len(data))]
    for i in range(1, len(data)):
        yield [data[:i], data[i:]]


def subscriber(version: int = 4, publishers: int = 1) -> Client:
    client = Client(version, RUN, Histogram())
    client.expects(0, [Track(Client(version, RUN, Histogram()).source) for _ in range(publishers)])
    client.feed(CONNACK_5 if version == 5 else CONNACK, 0)
    return client


def publisher(qos: int, version: int = 4, size: int = 16) -> Client:
    client = Client(version, RUN, Histogram())
    client.publishes(PublishFrames("t", qos, size, version, RUN, 0))
    client.feed(CONNACK_5 if version == 5 else CONNACK, 0)
    return client


def messages(qos: int, version: int, count: int, size: int = 20, seq: int = 0) -> bytes:
    frames = PublishFrames("t/1", qos, size, version, RUN, 0)
    return b"".join(bytes(frames.cut(seq + i, 1000, 1)) for i in range(count))


class ReceivingTests(TestCase):
    def check_cuts(self, version: int, data: bytes, see: Callable[[Client], object]) -> None:
        """However `data` is cut, `see` sees the same."""
        whole = subscriber(version)
        whole.feed(data, 5000)
        expected = see(whole)
        for pieces in cuts(data):
            client = subscriber(version)
            for piece in pieces:
                client.feed(piece, 5000)
            self.assertEqual(see(client), expected, [len(piece) for piece in pieces][:3])

    def test_messages_in_any_pieces(self) -> None:
        for version in (4, 5):
            for qos in (0, 1, 2):
                data = messages(qos, version, 12)
                self.check_cuts(
                    version, data, lambda c: (c.received, c.latency.total, bytes(c.take()))
                )

    def test_a_batch_is_timed_from_its_stamp(self) -> None:
        client = subscriber()
        client.feed(messages(0, 4, 300), 1100)
        self.assertEqual(client.received, 300)
        self.assertEqual(list(client.latency.filled()), [(100.0, 300)])
        self.assertEqual(client.tracks[0].next, 300)

    def test_a_tail_waits_for_its_rest(self) -> None:
        data = messages(0, 4, 3)
        client = subscriber()
        client.feed(data[:-4], 0)
        self.assertEqual(client.received, 2)
        client.feed(data[-4:], 0)
        self.assertEqual(client.received, 3)

    def test_large_messages_in_pieces(self) -> None:
        size = 300_000
        data = messages(1, 4, 3, size)
        for step in (70_000, 90_000, 262_144, 500_000):
            client = subscriber()
            for at in range(0, len(data), step):
                client.feed(data[at : at + step], 0)
            self.assertEqual((client.received, client.latency.total), (3, 3), step)
            self.assertEqual(len(client.take()), 12)

    def test_bulk_comparison_sees_a_single_wrong_byte(self) -> None:
        """In a long batch any message that is not the next one still gets its own look."""
        frames = PublishFrames("t/1", 0, 40, 4, RUN, 0)
        good = bytes(frames.cut(0, 1000, 100))
        length = frames.length
        for spoiled, counts in (
            (good[: 50 * length] + good[51 * length :], (99, 1, 0)),
            (good[: 50 * length] + good[49 * length :], (100, 0, 1)),
        ):
            client = subscriber()
            client.feed(spoiled, 0)
            track = client.tracks[0]
            self.assertEqual((client.received, track.missing(), track.duplicated), counts)

    def test_batches_across_256_and_with_different_stamps(self) -> None:
        frames = PublishFrames("t/1", 0, 16, 5, RUN, 0)
        data = b"".join(
            bytes(frames.cut(seq, time, count))
            for seq, time, count in ((0, 10, 200), (200, 20, 56), (256, 20, 44), (300, 30, 1))
        )
        client = subscriber(5)
        client.feed(data, 100)
        self.assertEqual(client.received, 301)
        self.assertEqual(list(client.latency.filled()), [(70.0, 1), (80.0, 100), (90.0, 200)])

    def test_publishers_are_told_apart(self) -> None:
        client = subscriber(publishers=2)
        for seq in range(3):
            for number in (0, 1):
                frames = PublishFrames("t", 0, 16, 4, RUN, number)
                client.feed(bytes(frames.cut(seq, 0, 1)), 0)
        self.assertEqual([track.next for track in client.tracks], [3, 3])

    def test_strangers(self) -> None:
        """Messages of another run, of another subscriber, too short: counted, never timed."""
        client = subscriber()
        client.feed(bytes(PublishFrames("t", 0, 16, 4, RUN + 1, 0).cut(0, 0, 1)), 0)
        client.feed(bytes(PublishFrames("t", 0, 16, 4, RUN, 1).cut(0, 0, 1)), 0)
        client.feed(b"\x30\x05\x00\x01tab", 0)
        self.assertEqual((client.foreign, client.misrouted, client.received), (2, 1, 0))
        self.assertEqual(client.last_foreign, b"ab")
        self.assertEqual(client.latency.total, 0)

    def test_properties_are_passed_over(self) -> None:
        plain = bytes(PublishFrames("t", 0, 16, 5, RUN, 0).cut(0, 0, 1))
        body = plain[2:5] + b"\x05\x02\x00\x00\x00\x09" + plain[6:]
        client = subscriber(5)
        client.feed(bytes((0x30, len(body))) + body, 0)
        self.assertEqual(client.received, 1)

    def test_acknowledgements_in_order(self) -> None:
        client = subscriber()
        client.feed(messages(1, 4, 2), 0)
        client.feed(messages(2, 4, 1, seq=2), 0)
        client.feed(b"\x62\x02\x01\x09", 0)
        first, second, third = (FIRST_ID + n for n in range(3))
        expected = b"".join(
            head + number.to_bytes(2, "big")
            for head, number in (
                (b"\x40\x02", first), (b"\x40\x02", second), (b"\x50\x02", third),
                (b"\x70\x02", 0x0109),
            )
        )  # fmt: skip
        self.assertEqual(client.take(), expected)
        self.assertEqual(client.take(), b"")


class PublishingTests(TestCase):
    def test_the_window_is_what_is_undelivered(self) -> None:
        client = publisher(0)
        self.assertEqual(client.room(8, 1), 8)
        client.publish(8, 0)
        self.assertEqual(client.room(8, 1), 0)
        client.source.seen = 1
        self.assertEqual(client.room(8, 1), 0)  # not for a single one
        client.source.seen = 2
        self.assertEqual(client.room(8, 1), 2)

    def test_with_several_subscribers_all_of_them_count(self) -> None:
        client = publisher(0)
        client.publish(4, 0)
        client.source.seen = 11  # of 12: one of the four is still on its way to somebody
        self.assertEqual(client.room(4, 3), 3)
        client.source.seen = 12
        self.assertEqual(client.room(4, 3), 4)

    def test_the_brokers_receive_maximum_counts_too(self) -> None:
        client = Client(5, RUN, Histogram())
        client.publishes(PublishFrames("t", 1, 16, 5, RUN, 0))
        client.feed(b"\x20\x06\x00\x00\x03\x21\x00\x05", 0)
        self.assertEqual((client.receive_max, client.room(100, 1)), (5, 5))

    def test_a_window_of_one(self) -> None:
        client = publisher(1)
        self.assertEqual(client.room(1, 1), 1)
        client.publish(1, 0)
        client.source.seen = 1
        self.assertEqual(client.room(1, 1), 0)
        client.feed(b"\x40\x02" + FIRST_ID.to_bytes(2, "big"), 0)
        self.assertEqual(client.room(1, 1), 1)

    def test_qos_1(self) -> None:
        client = publisher(1)
        client.publish(2, 0)
        self.assertEqual(client.inflight(), 2)
        for number in (FIRST_ID, FIRST_ID + 1):
            client.feed(b"\x40\x02" + number.to_bytes(2, "big"), 0)
        self.assertEqual((client.inflight(), client.strange_acks), (0, 0))

    def test_qos_2_takes_four_packets(self) -> None:
        client = publisher(2)
        client.publish(1, 0)
        client.take()
        number = FIRST_ID.to_bytes(2, "big")
        client.feed(b"\x50\x02" + number, 0)
        self.assertEqual(client.take(), b"\x62\x02" + number)
        self.assertEqual(client.inflight(), 1)
        client.feed(b"\x70\x02" + number, 0)
        self.assertEqual(client.inflight(), 0)

    def test_acknowledgements_that_nobody_waits_for(self) -> None:
        client = publisher(2)
        client.publish(1, 0)
        number = FIRST_ID.to_bytes(2, "big")
        client.feed(b"\x40\x02\x00\x01" + b"\x70\x02" + number + b"\x70\x02\x00\x00", 0)
        self.assertEqual((client.strange_acks, client.acked), (3, 0))

    def test_rejections_of_5(self) -> None:
        client = publisher(1, 5)
        client.publish(2, 0)
        client.feed(b"\x40\x04\x01\x00\x87\x00" + b"\x40\x03\x01\x01\x10", 0)
        self.assertEqual((client.acked, client.rejected), (2, 1))
        self.assertEqual(client.reject_reason, "not authorized (0x87)")

    def test_an_identifier_in_flight_is_not_taken_again(self) -> None:
        client = publisher(1)
        client.publish(1, 0)
        client.source.sent = IDS - 1
        self.assertEqual(client.publish(10, 0), 1)
        self.assertEqual(client.publish(10, 0), 0)

    def test_acknowledgements_byte_by_byte(self) -> None:
        client = publisher(1)
        client.publish(3, 0)
        data = b"".join(b"\x40\x02" + (FIRST_ID + n).to_bytes(2, "big") for n in range(3))
        for i in range(len(data)):
            client.feed(data[i : i + 1], 0)
        self.assertEqual(client.acked, 3)


class ConversationTests(TestCase):
    def test_refusals_in_words(self) -> None:
        for version, connack, expected in (
            (4, b"\x20\x02\x00\x05", "not authorized (5)"),
            (4, b"\x20\x02\x00\x01", "unacceptable protocol version (1)"),
            (5, b"\x20\x03\x00\x86\x00", "bad user name or password (0x86)"),
            (5, b"\x20\x02\x00\x01", "unacceptable protocol version (1)"),
        ):
            client = Client(version, RUN, Histogram())
            client.feed(connack, 0)
            self.assertEqual((client.refused, client.up), (expected, False))

    def test_limits_of_connack_5(self) -> None:
        properties = (
            b"\x12\x00\x02id" b"\x26\x00\x01k\x00\x01v" b"\x21\x00\x0a"
            b"\x24\x01" b"\x27\x00\x00\x10\x00" b"\x13\x00\x1e" b"\x28\x01"
        )  # fmt: skip
        body = b"\x00\x00" + bytes((len(properties),)) + properties
        client = Client(5, RUN, Histogram())
        client.feed(b"\x20" + bytes((len(body),)) + body, 0)
        found = (client.receive_max, client.most_qos, client.most_packet, client.keepalive_s)
        self.assertEqual(found, (10, 1, 4096, 30))

    def test_what_the_broker_says_now_and_then(self) -> None:
        client = subscriber(5)
        client.feed(b"\xd0\x00" + b"\x90\x04\x00\x01\x00\x02" + b"\xe0\x02\x8b\x00", 0)
        self.assertEqual(client.subacks, [2])
        self.assertEqual(client.goodbye, "server shutting down (0x8b)")

    def test_what_is_not_mqtt(self) -> None:
        for up, data in (
            (False, b"HTTP/1.1 400 Bad Request\r\n" * 4),
            (False, b"SSH-2.0-OpenSSH\r\n" * 9),
            (False, b"\x30\x03\x00\x01t"),
            (True, b"\x30\xff\xff\xff\xff\x01"),
            (True, b"\x30\x01\x00"),
            (True, b"\x30\x03\x00\x09t"),
            (True, b"\x32\x03\x00\x01t"),
            (True, b"\x10\x00"),
            (True, b"\x42\x02\x00\x01"),
        ):
            client = subscriber() if up else Client(4, RUN, Histogram())
            with self.assertRaises(PeerFault, msg=str(data)):
                client.feed(data, 0)
