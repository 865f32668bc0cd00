"""Frames are what MQTT says, and a batch is the same as its messages one by one."""

from unittest import TestCase

from mhub.bench.load.packets import (
    FIRST_ID,
    IDS,
    PublishFrames,
    connect,
    subscribe,
)


class PacketTests(TestCase):
    def test_connect(self) -> None:
        expected = b"\x10\x0e\x00\x04MQTT\x04\x02\x00\x3c\x00\x02id"
        self.assertEqual(connect("id", 4, 60, None, None), expected)

    def test_connect_5_with_user_name_and_password(self) -> None:
        expected = b"\x10\x15\x00\x04MQTT\x05\xc2\x00\x3c\x00\x00\x02id\x00\x01u\x00\x01p"
        self.assertEqual(connect("id", 5, 60, "u", "p"), expected)

    def test_subscribe(self) -> None:
        self.assertEqual(subscribe(1, "a/b", 2, 4), b"\x82\x08\x00\x01\x00\x03a/b\x02")
        self.assertEqual(subscribe(1, "a/b", 2, 5), b"\x82\x09\x00\x01\x00\x00\x03a/b\x02")


class PublishFramesTests(TestCase):
    def test_qos_0(self) -> None:
        frames = PublishFrames("t", 0, 18, 4, 0x01020304, 7)
        expected = (
            b"\x30\x15\x00\x01t\x01\x02\x03\x04\x00\x07\x00\x00\x01\x02\x00\x00\x00\x00\x00\x09xx"
        )
        self.assertEqual(frames.cut(258, 9, 1), expected)
        self.assertEqual(frames.length, len(expected))

    def test_qos_1_and_5(self) -> None:
        frames = PublishFrames("t", 1, 16, 5, 0x01020304, 7)
        packet_id = (FIRST_ID + 2).to_bytes(2, "big")
        expected = (
            b"\x32\x16\x00\x01t" + packet_id + b"\x00"
            b"\x01\x02\x03\x04\x00\x07\x00\x00\x00\x02\x00\x00\x00\x00\x01\x00"
        )
        self.assertEqual(frames.cut(2, 256, 1), expected)

    def test_a_batch_is_its_messages_one_by_one(self) -> None:
        for version in (4, 5):
            for qos in (0, 1, 2):
                for size in (16, 17, 150, 20000):
                    frames = PublishFrames("some/topic", qos, size, version, 1 << 31, 65535)
                    for seq in (0, 250, IDS - 6, (1 << 32) - 6):
                        single = b"".join(bytes(frames.cut(seq + i, 77, 1)) for i in range(6))
                        self.assertEqual(frames.cut(seq, 77, 6), single, (version, qos, size, seq))

    def test_packet_identifiers_are_never_0_and_keep_in_step(self) -> None:
        for seq in (0, 1, IDS - 1, IDS, 3 * IDS + 5, (1 << 32) - 1):
            number = FIRST_ID + seq % IDS
            self.assertTrue(0 < number < 65536)
            self.assertEqual(number & 255, seq & 255)

    def test_large_messages_go_one_at_a_time(self) -> None:
        frames = PublishFrames("t", 0, 1_000_000, 4, 1, 1)
        self.assertEqual(frames.at_once(), 1)
        self.assertIs(frames.cut(0, 0, 1), frames.cut(1, 0, 1))
