"""WebSocket frames: what comes out of them, what is answered, what is refused, at any split."""

import random
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mhub.wire.websocket import (
    GOING_AWAY,
    INVALID_TEXT,
    LARGEST_FRAME,
    NORMAL,
    PROTOCOL_ERROR,
    TOO_BIG,
    UNSUPPORTED_DATA,
    Framer,
    WebSocketFault,
)
from tests.helpers import packets as p
from tests.helpers.splits import cut, edges, one_by_one, steady

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
MASK = b"\x11\x22\x33\x44"


def unmask(data: bytes, mask: bytes) -> bytes:
    return bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))


def client_frame(
    payload: bytes, opcode: int = BINARY, fin: bool = True, mask: bytes = MASK
) -> bytes:
    """A frame as a client sends it, written from the RFC's picture."""
    size = len(payload)
    head = bytes([opcode | (0x80 if fin else 0)])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 65536:
        head += bytes([0x80 | 126]) + size.to_bytes(2, "big")
    else:
        head += bytes([0x80 | 127]) + size.to_bytes(8, "big")
    return head + mask + unmask(payload, mask)


def close(code: int, reason: bytes = b"") -> bytes:
    return client_frame(code.to_bytes(2, "big") + reason, CLOSE)


def outcome(pieces: list[bytes], max_frame: int = LARGEST_FRAME) -> tuple[object, ...]:
    """Everything a caller can see of a conversation: bytes, replies, and how it ended."""
    framer = Framer(max_frame)
    carried = b""
    for piece in pieces:
        try:
            carried += framer.receive(piece)
        except WebSocketFault as fault:
            carried += fault.carried
            return carried, framer.replies, framer.closed, fault.code, fault.text
    return carried, framer.replies, framer.closed, framer.close_code, framer.close_text


class Data(TestCase):
    def check(self, stream: bytes, expected: bytes) -> None:
        """Whole, byte by byte, and with the beginning of another frame behind it."""
        self.assertEqual(Framer().receive(stream), expected)
        framer = Framer()
        pieces = [framer.receive(piece) for piece in one_by_one(stream)]
        self.assertEqual(b"".join(pieces), expected)
        framer = Framer()
        tail = client_frame(b"tail")
        self.assertEqual(framer.receive(stream + tail[:3]), expected)
        self.assertEqual(framer.receive(tail[3:]), b"tail")

    def test_a_frame_gives_its_payload(self) -> None:
        self.check(client_frame(b"hello"), b"hello")

    def test_the_example_of_the_rfc(self) -> None:
        """RFC 6455, 5.7 has a masked "Hello"; here as binary."""
        self.check(bytes.fromhex("82 85 37 fa 21 3d 7f 9f 4d 51 58"), b"Hello")

    def test_an_empty_frame_gives_nothing(self) -> None:
        self.check(client_frame(b""), b"")
        self.check(client_frame(b"") + client_frame(b"x") + client_frame(b""), b"x")

    def test_lengths_around_every_limit(self) -> None:
        for size in (1, 2, 3, 4, 5, 125, 126, 127, 4095, 4096, 4097, 8195, 65535, 65536, 70001):
            payload = random.Random(size).randbytes(size)
            stream = client_frame(payload)
            self.assertEqual(Framer().receive(stream), payload)
            framer = Framer()
            pieces = [framer.receive(stream[at : at + 4999]) for at in range(0, len(stream), 4999)]
            self.assertEqual(b"".join(pieces), payload)

    def test_many_frames_in_one_read(self) -> None:
        rng = random.Random(1)
        payloads = [rng.randbytes(rng.randrange(200)) for _ in range(500)]
        stream = b"".join(client_frame(p, mask=rng.randbytes(4)) for p in payloads)
        self.assertEqual(Framer().receive(stream), b"".join(payloads))

    def test_fragments_give_one_stream(self) -> None:
        stream = (
            client_frame(b"one ", fin=False)
            + client_frame(b"two ", CONTINUATION, fin=False)
            + client_frame(b"three", CONTINUATION)
        )
        self.check(stream, b"one two three")

    def test_control_frames_may_stand_between_fragments(self) -> None:
        stream = (
            client_frame(b"one ", fin=False)
            + client_frame(b"now?", PING)
            + client_frame(b"two", CONTINUATION)
        )
        self.check(stream, b"one two")

    def test_a_payload_is_handed_on_before_its_frame_is_complete(self) -> None:
        stream = client_frame(bytes(1000))
        self.assertEqual(Framer().receive(stream[:508]), bytes(500))

    def test_what_is_held_back_stays_small(self) -> None:
        """A frame of the largest length costs no memory: its bytes pass through."""
        framer = Framer()
        framer.receive(b"\x82\xff" + LARGEST_FRAME.to_bytes(8, "big") + MASK)
        for _ in range(50):
            self.assertEqual(len(framer.receive(bytes(65536))), 65536)


class Control(TestCase):
    def test_a_ping_is_answered_with_its_payload(self) -> None:
        framer = Framer()
        self.assertEqual(framer.receive(client_frame(b"are you there", PING)), b"")
        self.assertEqual(framer.replies, [b"\x8a\x0dare you there"])

    def test_a_ping_of_125_bytes_split_anywhere(self) -> None:
        stream = client_frame(bytes(range(125)), PING)
        for at in range(len(stream)):
            framer = Framer()
            framer.receive(stream[:at])
            framer.receive(stream[at:])
            self.assertEqual(framer.replies, [b"\x8a\x7d" + bytes(range(125))])

    def test_a_pong_is_ignored(self) -> None:
        framer = Framer()
        self.assertEqual(framer.receive(client_frame(b"x", PONG) + client_frame(b"data")), b"data")
        self.assertEqual(framer.replies, [])

    def test_a_close_is_echoed_and_ends_the_input(self) -> None:
        framer = Framer()
        stream = client_frame(b"last") + close(GOING_AWAY, b"page left") + client_frame(b"never")
        self.assertEqual(framer.receive(stream), b"last")
        self.assertTrue(framer.closed)
        self.assertEqual(framer.replies, [b"\x88\x02\x03\xe9"])
        self.assertEqual((framer.close_code, framer.close_text), (GOING_AWAY, "page left"))
        self.assertEqual(framer.receive(client_frame(b"never")), b"")
        self.assertEqual(framer.receive(b"\xff\xff"), b"")

    def test_a_close_without_a_code_is_echoed_without_one(self) -> None:
        framer = Framer()
        framer.receive(client_frame(b"", CLOSE))
        self.assertEqual((framer.closed, framer.replies), (True, [b"\x88\x00"]))
        self.assertEqual(framer.close_code, 0)

    def test_close_codes_that_may_travel(self) -> None:
        for code in (1000, 1001, 1002, 1003, 1007, 1011, 1014, 3000, 4999):
            framer = Framer()
            framer.receive(close(code))
            self.assertTrue(framer.closed, code)


class Faults(TestCase):
    def check(self, stream: bytes, code: int, words: str, max_frame: int = LARGEST_FRAME) -> None:
        """Refused whole and byte by byte; what stood before it is not lost; then silence."""
        before = client_frame(b"before")
        for pieces in (
            [before + stream],
            [before, stream],
            one_by_one(before + stream),
        ):
            carried, _, closed, got, text = outcome(pieces, max_frame)
            self.assertEqual((carried, closed, got), (b"before", True, code))
            self.assertIn(words, str(text))

    def test_text_is_refused_by_its_first_byte(self) -> None:
        """[MQTT-6.0.0-1]"""
        self.check(client_frame(b"text", TEXT), UNSUPPORTED_DATA, "binary")
        self.check(b"\x81", UNSUPPORTED_DATA, "binary")
        self.check(b"\x01", UNSUPPORTED_DATA, "binary")

    def test_no_mask(self) -> None:
        self.check(b"\x82\x01x", PROTOCOL_ERROR, "mask")

    def test_reserved_bits(self) -> None:
        for bit in (0x40, 0x20, 0x10):
            self.check(bytes([0x82 | bit]), PROTOCOL_ERROR, "reserved")

    def test_unknown_opcodes(self) -> None:
        for opcode in (3, 4, 5, 6, 7, 0xB, 0xC, 0xD, 0xE, 0xF):
            self.check(bytes([0x80 | opcode]), PROTOCOL_ERROR, f"opcode {opcode:#x}")

    def test_fragmented_control(self) -> None:
        self.check(client_frame(b"", PING, fin=False), PROTOCOL_ERROR, "fragmented control")

    def test_long_control(self) -> None:
        self.check(client_frame(bytes(126), PING), PROTOCOL_ERROR, "125")
        self.check(client_frame(bytes(65536), CLOSE)[:2], PROTOCOL_ERROR, "125")

    def test_continuation_of_nothing(self) -> None:
        self.check(client_frame(b"x", CONTINUATION), PROTOCOL_ERROR, "continuation")

    def test_a_new_message_inside_a_fragmented_one(self) -> None:
        stream = client_frame(b"", fin=False) + client_frame(b"x")
        self.check(stream, PROTOCOL_ERROR, "new message")

    def test_lengths_that_are_not_the_shortest(self) -> None:
        self.check(b"\x82\xfe\x00\x7d" + MASK, PROTOCOL_ERROR, "shortest")
        self.check(b"\x82\xff" + (65535).to_bytes(8, "big") + MASK, PROTOCOL_ERROR, "shortest")

    def test_a_length_of_64_bits(self) -> None:
        self.check(b"\x82\xff" + b"\x80" + bytes(7), PROTOCOL_ERROR, "highest bit")

    def test_a_frame_over_the_limit_is_refused_by_its_header(self) -> None:
        self.check(client_frame(bytes(101))[:2], TOO_BIG, "101 bytes, at most 100", 100)
        self.check(client_frame(bytes(300))[:4], TOO_BIG, "300 bytes, at most 100", 100)
        self.assertEqual(Framer(100).receive(client_frame(bytes(100))), bytes(100))

    def test_closes_that_are_no_closes(self) -> None:
        self.check(client_frame(b"\x03", CLOSE), PROTOCOL_ERROR, "half a code")
        self.check(close(NORMAL, b"\xff\xfe"), INVALID_TEXT, "UTF-8")
        for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535):
            self.check(close(code), PROTOCOL_ERROR, f"{code}")


def packet(size: int) -> bytes:
    """A PUBLISH of so many bytes, all told."""
    for head in (2, 3, 4):
        data = p.frame(0x30, bytes(size - head))
        if len(data) == size:
            return data
    raise ValueError(size)


class Sending(TestCase):
    def test_frames_are_unmasked_and_of_the_shortest_length(self) -> None:
        heads = {
            2: b"\x82\x02",
            125: b"\x82\x7d",
            126: b"\x82\x7e\x00\x7e",
            65535: b"\x82\x7e\xff\xff",
            65536: b"\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00",
        }
        for size, head in heads.items():
            self.assertEqual(Framer().frame(packet(size)), head + packet(size), size)

    def test_each_packet_has_a_frame_of_its_own(self) -> None:
        """There are clients that stall when two packets share one."""
        framer = Framer()
        self.assertEqual(
            framer.frame(packet(10) + packet(200) + packet(2)),
            b"".join(Framer().frame(packet(size)) for size in (10, 200, 2)),
        )
        self.assertEqual(framer.unfinished, 0)

    def test_a_packet_in_pieces_has_one_frame(self) -> None:
        """A large payload is written behind its head, without being copied."""
        framer = Framer()
        stream = packet(5) + packet(40_000) + packet(7)
        whole = Framer().frame(stream)
        pieces = [stream[:20], stream[20:30_000], stream[30_000:]]
        self.assertEqual(b"".join([framer.frame(piece) for piece in pieces]), whole)
        framer.frame(packet(100)[:60])
        self.assertEqual(framer.unfinished, 40)

    def test_a_close_frame_holds_code_and_reason(self) -> None:
        self.assertEqual(Framer().close_frame(1001, "bye"), b"\x88\x05\x03\xe9bye")
        self.assertEqual(Framer().close_frame(1000), b"\x88\x02\x03\xe8")

    def test_a_long_reason_is_cut_between_characters(self) -> None:
        frame = Framer().close_frame(1002, "x" + "é" * 100)
        self.assertEqual(frame[1], len(frame) - 2)
        self.assertEqual(frame[4:].decode(), "x" + "é" * 61)


class Properties(TestCase):
    @steady
    @given(
        st.lists(st.tuples(st.binary(max_size=300), st.binary(min_size=4, max_size=4))),
        edges,
    )
    def test_splits_do_not_matter_to_data(
        self, frames: list[tuple[bytes, bytes]], marks: list[int]
    ) -> None:
        """Any frames, cut anywhere, give their payloads in order."""
        stream = b"".join(client_frame(payload, mask=mask) for payload, mask in frames)
        carried = outcome(cut(stream, marks))[0]
        self.assertEqual(carried, b"".join(payload for payload, _ in frames))

    @steady
    @given(st.binary(max_size=200), edges)
    def test_any_bytes_give_data_or_one_fault(self, data: bytes, marks: list[int]) -> None:
        """Any bytes give data or one clean fault, the same one however they are cut."""
        self.assertEqual(outcome([data]), outcome(cut(data, marks)))

    @steady
    @given(
        st.lists(
            st.tuples(
                st.sampled_from([0, 1, 2, 3, 8, 9, 10]),
                st.booleans(),
                st.sampled_from([b"", b"\x03\xe8", b"\x03\xe8ok", b"\x00\x01", bytes(130)]),
            ),
            max_size=8,
        ),
        edges,
    )
    def test_any_frames_end_the_same_at_any_split(
        self, frames: list[tuple[int, bool, bytes]], marks: list[int]
    ) -> None:
        """Any sequence of frames, sound or not, is judged the same however it is cut."""
        stream = b"".join(client_frame(payload, opcode, fin) for opcode, fin, payload in frames)
        self.assertEqual(outcome([stream]), outcome(cut(stream, marks)))

    @steady
    @given(st.integers(1000, 4999), st.text())
    def test_a_close_frame_is_always_sound(self, code: int, text: str) -> None:
        frame = Framer().close_frame(code, text)
        self.assertLessEqual(len(frame), 127)
        self.assertEqual(frame[2:4], code.to_bytes(2, "big"))
        frame[4:].decode()
