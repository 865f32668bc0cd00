"""Bytes in, frames out: the same whole, byte by byte, or with more behind them."""

import tracemalloc
from time import process_time
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mhub.core.connection import CLOSED
from mhub.wire import reasons
from tests.core.world import Client, World
from tests.fuzz import bank
from tests.fuzz.bank import Vector
from tests.helpers import packets as p
from tests.helpers.packets import Prop
from tests.helpers.splits import cut, edges, one_by_one, steady

Story = tuple[bytes, bool, list[tuple[object, ...]]]


class Vectors(TestCase):
    """Every packet of the bank, in every way to be read."""

    def story(self, vector: Vector, pieces: list[bytes], first: bool) -> Story:
        """What a client gets, whether it is closed, and the hub's diary."""
        world = World()
        if first:
            client = world.open(vector.version)
        else:
            client = world.client("c", vector.version, keepalive=60)
        client.feed(*pieces)
        world.hub.flush()
        world.settle()
        return bytes(client.outlet.data), client.closed, world.diary.lines

    def ways(self, data: bytes) -> list[list[bytes]]:
        middle = len(data) // 2
        return [[data], one_by_one(data), [data[:1], data[1:]], [data[:middle], data[middle:]]]

    def check(self, vector: Vector, first: bool) -> Story:
        if len(vector.data) > 1000:
            ways = [[vector.data], [vector.data[:700], vector.data[700:]]]
        else:
            ways = self.ways(vector.data)
        stories = [self.story(vector, pieces, first) for pieces in ways]
        for other in stories[1:]:
            self.assertEqual(other, stories[0], (vector.name, vector.version))
        return stories[0]

    def test_right_ones_keep_the_connection(self) -> None:
        for vector in bank.PACKETS:
            if not vector.reason:
                _, closed, _ = self.check(vector, False)
                self.assertFalse(closed, (vector.name, vector.version))

    def test_right_ones_with_a_tail(self) -> None:
        """What follows in the same read is handled after it."""
        ping = p.pingreq()
        for vector in bank.PACKETS:
            if not vector.reason:
                alone = self.story(vector, [vector.data], False)
                tailed = self.story(vector, [vector.data + ping + ping[:1], ping[1:]], False)
                self.assertEqual(tailed[0], alone[0] + b"\xd0\0\xd0\0", vector.name)

    def test_wrong_ones_end_it_with_their_reason(self) -> None:
        """DISCONNECT with the reason in version 5, and silence before that."""
        for vector in bank.PACKETS:
            if vector.reason:
                data, closed, diary = self.check(vector, False)
                self.assertTrue(closed, (vector.name, vector.version))
                self.assertEqual(diary[-1][0], "disconnected")
                if vector.version < 5:
                    self.assertEqual(data, b"", vector.name)
                else:
                    packet = p.decode(*p.split(data), 5)
                    found = (vector.name, packet.type, packet.reason)
                    self.assertEqual(found, (vector.name, "DISCONNECT", vector.reason))
                    self.assertTrue(packet.prop(Prop.REASON_STRING))

    def test_nothing_behind_a_wrong_one_is_handled(self) -> None:
        for vector in bank.PACKETS:
            if vector.reason:
                alone = self.story(vector, [vector.data], False)
                tailed = self.story(vector, [vector.data + p.pingreq(), p.pingreq()], False)
                self.assertEqual(tailed, alone)

    def test_connects(self) -> None:
        """CONNACK with 0 or the reason in version 5; before that a code, or a close."""
        for vector in bank.CONNECTS:
            data, closed, _ = self.check(vector, True)
            self.assertEqual(closed, vector.reason != 0, (vector.name, vector.version))
            if data:
                packet = p.decode(*p.split(data), vector.version)
                self.assertEqual(packet.type, "CONNACK")
                self.assertEqual(packet.reason != 0, vector.reason != 0)
            if vector.version == 5:
                self.assertEqual(packet.reason, vector.reason, vector.name)

    def test_ends(self) -> None:
        for vector in bank.ENDS:
            data, closed, _ = self.check(vector, False)
            self.assertTrue(closed, vector.name)
            if vector.version == 5 and vector.reason:
                self.assertEqual(p.decode(*p.split(data), 5).reason, vector.reason)
            else:
                self.assertEqual(data, b"", vector.name)

    @given(st.lists(st.sampled_from(bank.by_version(5)), max_size=6), edges)
    @steady
    def test_conversations_cut_anywhere(self, vectors: list[Vector], at: list[int]) -> None:
        stream = p.connect("c", 5) + b"".join(vector.data for vector in vectors)
        vector = Vector("conversation", 5, stream)
        whole = self.story(vector, [stream], True)
        self.assertEqual(self.story(vector, cut(stream, at), True), whole)


class First(TestCase):
    def test_only_connect_may_come_first(self) -> None:
        """[MQTT-3.1.0-1]: closed without a word, as no version was agreed on."""
        for data in (p.pingreq(), p.publish("t", b"x" * 300), b"\0\0", b"\xf0\0", b"\x1f\x02??"):
            client = World().open()
            client.send(data)
            self.assertEqual((client.closed, client.take()), (True, []))

    def test_a_long_packet_that_is_no_connect_is_not_waited_for(self) -> None:
        client = World().open()
        client.send(b"\x30\xff\xff\x7f")
        self.assertTrue(client.closed)

    def test_a_connect_longer_than_it_may_be_is_not_waited_for(self) -> None:
        world = World(max_control_size=1000)
        client = world.open()
        client.send(p.frame(0x10, b"", 1001))
        self.assertTrue(client.closed)


class Sizes(TestCase):
    def test_a_packet_larger_than_allowed_is_refused_by_its_length(self) -> None:
        for extra, closed in ((0, False), (1, True)):
            world = World(max_packet_size=300)
            client = world.client("c", 5)
            client.send(p.frame(0x30, b"", 297 + extra)[:3])
            self.assertEqual(client.closed, closed)
            if closed:
                self.assertEqual(client.next("DISCONNECT").reason, reasons.PACKET_TOO_LARGE)

    def test_small_limits_hold_for_packets_that_come_whole(self) -> None:
        for pieces in (1, 2, 50):
            world = World(max_packet_size=64)
            client = world.client("c", 5)
            data = p.publish("t", b"x" * 70, version=5)
            step = -(-len(data) // pieces)
            client.feed(*(data[at : at + step] for at in range(0, len(data), step)))
            self.assertEqual(client.next("DISCONNECT").reason, reasons.PACKET_TOO_LARGE)

    def test_packets_without_a_message_have_a_bound_of_their_own(self) -> None:
        """Nobody needs a SUBSCRIBE of megabytes, which would take seconds to work off."""
        world = World(max_control_size=1000)
        client = world.client("c", 5)
        client.send(p.frame(0x82, b"", 1001))
        self.assertEqual(client.next("DISCONNECT").reason, reasons.PACKET_TOO_LARGE)
        client = world.client("c", 5)
        client.publish("t", b"x" * 2000)
        self.assertFalse(client.closed)

    def test_what_a_client_does_not_take_is_not_sent(self) -> None:
        """[MQTT-3.1.2-24]: a message as large as it may be is, one byte more is not."""
        for size in (100, 50_000):  # the payload of a large one is written behind its head
            for qos in (0, 1, 2):
                world = World()
                whole = len(p.publish("t", bytes(size), qos, 1 if qos else None, version=5))
                most = [(p.Prop.MAXIMUM_PACKET_SIZE, whole)]
                client = world.client("c", 5, props=most)
                client.subscribe("t", qos)
                publisher = world.client("publisher")
                for more in (0, 1):
                    publisher.publish("t", bytes(size + more), qos)
                self.assertEqual([len(each) for each in client.payloads()], [size])
                self.assertEqual(world.stats.dropped_too_large, 1)

    def test_the_shortest_form_of_the_length(self) -> None:
        """[MQTT-1.5.5-1] for version 5; version 3 does not ask for it."""
        for version, closed in ((4, False), (5, True)):
            client = World().client("c", version)
            client.send(b"\xc0\x80\0")
            self.assertEqual(client.closed, closed)


class Pieces(TestCase):
    """A large packet in many pieces costs what its bytes cost, in time and in memory."""

    def spend(self, size: int, piece: int) -> float:
        world = World()
        client = world.client("c")
        data = p.publish("t", bytes(size))
        pieces = [data[at : at + piece] for at in range(0, len(data), piece)]
        began = process_time()
        for each in pieces:
            client.connection.receive(each, world.now)
        spent = process_time() - began
        self.assertEqual(world.stats.publish_received, 1)
        return spent

    def test_time(self) -> None:
        """Four times the bytes cost four times as much, not sixteen times."""
        small = min(self.spend(250_000, 10) for _ in range(3))
        large = min(self.spend(1_000_000, 10) for _ in range(3))
        self.assertLess(large, 10 * small)

    def test_memory(self) -> None:
        """At most some copies of the packet, whatever the pieces."""
        size = 2_000_000
        data = p.publish("t", bytes(size))
        for piece in (1000, 65536, len(data)):
            world = World()
            client = world.client("c")
            tracemalloc.start()
            try:
                for at in range(0, len(data), piece):
                    client.connection.receive(data[at : at + piece], world.now)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            self.assertLess(peak, 4 * size)
            self.assertIsNone(client.connection.partial)

    def test_nothing_is_looked_at_twice(self) -> None:
        """Until a packet is whole its pieces are only gathered."""
        world = World()
        client = world.client("c")
        data = p.publish("t", bytes(1000))
        for byte in one_by_one(data)[:-1]:
            client.feed(byte)
        partial = client.connection.partial
        assert partial is not None
        self.assertEqual((len(partial.data), partial.needed), (len(data) - 1, len(data)))

    def test_the_buffer_is_let_go(self) -> None:
        world = World()
        client = world.client("c")
        client.feed(p.publish("t", bytes(100_000))[:-1])
        client.lose()
        self.assertIsNone(client.connection.partial)


class After(TestCase):
    """A closed connection is closed."""

    def ended(self) -> tuple[World, Client]:
        world = World()
        client = world.client("c", 5)
        client.subscribe("t")
        client.send(p.frame(0x30, b""))
        client.take()
        return world, client

    def test_what_still_comes_is_ignored(self) -> None:
        world, client = self.ended()
        client.connection.receive(p.connect("d", 5) + p.publish("t", b"x"), world.now)
        client.connection.receive(b"\xff" * 100, world.now)
        client.connection.proceed(world.now)
        world.hub.flush()
        self.assertEqual((client.take(), client.connection.state), ([], CLOSED))
        self.assertEqual(set(world.hub.sessions), set())

    def test_nothing_is_written(self) -> None:
        world, client = self.ended()
        client.connection.write(b"late")
        world.client("other").publish("t")
        world.hub.flush()
        self.assertEqual(client.take(), [])

    def test_it_ends_once(self) -> None:
        world, client = self.ended()
        client.connection.lost("again")
        client.connection.fail(0x80, "again")
        client.connection.close(0, "again")
        ends = [line for line in world.diary.lines if line[0] != "connected"]
        self.assertEqual([line[0] for line in ends], ["disconnected"])
        self.assertEqual(world.stats.connections_refused, 0)

    def test_last_words_linger(self) -> None:
        """With a DISCONNECT on its way the close has to wait until it is read; else it need not."""
        _, client = self.ended()
        self.assertEqual(client.outlet.linger, True)
        client = World().client("c")
        client.send(p.disconnect())
        self.assertEqual((client.closed, client.outlet.linger), (True, False))


class Alive(TestCase):
    """Keep-alive and the time-out of CONNECT."""

    def test_no_connect_in_time(self) -> None:
        world = World(connect_timeout_s=5)
        silent, slow = world.open(), world.open()
        for _ in range(4):
            world.wait(1)
            slow.feed(p.connect("c")[:1] if not slow.connection.partial else b"")
        self.assertFalse(silent.closed)
        world.wait(1.5)
        self.assertEqual((silent.closed, slow.closed), (True, True))
        self.assertEqual(world.diary.lines[0][:2], ("refused", reasons.KEEP_ALIVE_TIMEOUT))

    def test_one_and_a_half_times_the_keep_alive(self) -> None:
        world = World()
        client = world.client("c", 5, keepalive=10)
        world.wait(14.5, steps=10)
        self.assertFalse(client.closed)
        world.wait(1, steps=2)
        self.assertEqual(client.next("DISCONNECT").reason, reasons.KEEP_ALIVE_TIMEOUT)
        self.assertEqual(world.stats.keepalive_timeouts, 1)

    def test_also_if_that_is_shorter_than_the_time_for_a_connect(self) -> None:
        world = World(connect_timeout_s=60)
        client = world.client("c", 5, keepalive=2)
        world.wait(4, steps=8)
        self.assertTrue(client.closed)

    def test_any_packet_is_a_sign_of_life(self) -> None:
        world = World()
        client = world.client("c", 4, keepalive=10)
        for _ in range(10):
            world.wait(9)
            client.send(p.pingreq())
        self.assertFalse(client.closed)
        world.wait(16)
        self.assertTrue(client.closed)

    def test_part_of_a_packet_is_none_but_progress_is(self) -> None:
        world = World()
        trickle = world.client("trickle", keepalive=10)
        upload = world.client("upload", keepalive=10)
        packet = p.publish("t", bytes(100_000))
        for at in range(4):
            world.wait(5)
            trickle.feed(packet[at : at + 1])
            upload.feed(packet[at * 2000 : at * 2000 + 2000])
        self.assertEqual((trickle.closed, upload.closed), (True, False))

    def test_progress_of_one_packet_does_not_count_for_ever(self) -> None:
        """Whoever has sent a good part of a packet may not go on byte by byte."""
        world = World()
        client = world.client("c", keepalive=10)
        packet = p.publish("t", bytes(100_000))
        client.feed(packet[:1], packet[1:5000])
        for at in range(5000, 5008):
            world.wait(5)
            client.feed(packet[at : at + 1])
        self.assertTrue(client.closed)

    def test_each_packet_has_its_own_progress(self) -> None:
        world = World()
        client = world.client("c", keepalive=10)
        packet = p.publish("t", bytes(20_000))
        for _ in range(2):
            for at in range(0, len(packet), 2000):
                world.wait(5)
                client.feed(packet[at : at + 2000])
        self.assertFalse(client.closed)

    def test_off(self) -> None:
        world = World()
        client = world.client("c")
        world.wait(1e6)
        self.assertFalse(client.closed)
