"""WebSocket frames (RFC 6455, section 5), the server's side, once the handshake is over.

MQTT over WebSocket is a byte stream in binary frames, and a packet may begin and end anywhere in
them (MQTT-6.0.0-2).  So nothing is assembled here: bytes go in, the payload bytes they carried come
out at once, however the input was split.  What is held back between two calls is at most one
unfinished header or control frame, 131 bytes.

Unmasking is what costs.  A long integer does the XOR; the payloads of the frames in one read are
gathered into blocks of a few KiB first, so that its overhead is paid once a block and the block
stays in the cache.  `docs/performance.md` has the figures.
"""

import base64
import hashlib
from typing import Final

OP_CONTINUATION: Final = 0x0
OP_TEXT: Final = 0x1
OP_BINARY: Final = 0x2
OP_CLOSE: Final = 0x8
OP_PING: Final = 0x9
OP_PONG: Final = 0xA

NORMAL: Final = 1000
GOING_AWAY: Final = 1001
PROTOCOL_ERROR: Final = 1002
UNSUPPORTED_DATA: Final = 1003
INVALID_TEXT: Final = 1007
POLICY_VIOLATION: Final = 1008
TOO_BIG: Final = 1009
INTERNAL_ERROR: Final = 1011

LARGEST_FRAME: Final = 0x7FFFFFFFFFFFFFFF
"""RFC 6455, 5.2: the most significant bit of a 64-bit length must be 0."""

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_LARGEST_CONTROL: Final = 125
_BLOCK: Final = 4096


class WebSocketFault(Exception):
    """The peer broke the framing: `code` and `text` belong into the close frame it gets.

    `carried` holds the MQTT bytes of the sound frames that stood before the bad one in the same
    read, so that what a client is taken to have said does not depend on how TCP cut it up.
    """

    def __init__(self, code: int, text: str, carried: bytes = b"") -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.carried = carried


class Framer:
    """One connection's frames: `receive` takes what the socket gave, `frame` wraps what goes out.

    `replies` gathers the control frames owed to the peer; the caller sends and clears them.  After
    a close frame or a fault `closed` is true and further input is ignored (RFC 6455, 5.5.1, 7.1.7).
    To answer a fault the caller sends `close_frame(fault.code, fault.text)` and closes.
    """

    def __init__(self, max_frame: int = LARGEST_FRAME) -> None:
        self.replies: list[bytes] = []
        self.closed = False
        self.close_code = 0
        """The code of the peer's close frame; 0 when it gave none."""
        self.close_text = ""
        self.unfinished = 0
        """Bytes of the last packet that frame() has announced and not got yet."""
        self._max_frame = max_frame
        # An unfinished header or control frame, kept until the rest arrives.
        self._held = b""
        # Of the data frame under way: its bytes still to come, and its mask, turned so that the
        # next byte meets mask[0].
        self._left = 0
        self._mask = b""
        # Inside a fragmented message: the next data frame must be a continuation.
        self._fragmented = False

    def receive(self, data: bytes) -> bytes:
        """Take bytes from the socket, return the MQTT bytes they carried."""
        if self.closed:
            return b""
        if self._held:
            data = self._held + data
            self._held = b""
        gather = _Gather()
        try:
            self._take(data, gather)
        except WebSocketFault as fault:
            self.closed = True
            fault.carried = gather.finish()
            raise
        return gather.finish()

    def _take(self, data: bytes, gather: "_Gather") -> None:
        pos = 0
        end = len(data)
        while not self.closed:
            left = self._left
            if left:
                size = end - pos
                if size < left:
                    mask = self._mask
                    gather.add(data[pos:], mask)
                    self._left = left - size
                    turn = size & 3
                    self._mask = mask[turn:] + mask[:turn]
                    return
                gather.add(data[pos : pos + left], self._mask)
                self._left = 0
                pos += left
            used = self._header(data, pos, end)
            if used == 0:
                self._held = data[pos:]
                return
            pos += used

    def _header(self, data: bytes, pos: int, end: int) -> int:
        """Take the header at `pos`, and a control frame whole; return the bytes used, 0 if too few.

        Each byte is judged as soon as it is there: a text frame is refused by its first byte.
        """
        have = end - pos
        if have == 0:
            return 0
        first = data[pos]
        opcode = first & 0x0F
        self._check_first(first, opcode)
        if have == 1:
            return 0
        second = data[pos + 1]
        if second < 0x80:
            raise WebSocketFault(PROTOCOL_ERROR, "frame from a client without a mask")
        size = second & 0x7F
        if opcode >= OP_CLOSE:
            if size > _LARGEST_CONTROL:
                raise WebSocketFault(PROTOCOL_ERROR, "control frame longer than 125 bytes")
            used = 6 + size
            if have < used:
                return 0
            mask = data[pos + 2 : pos + 6]
            self._control(opcode, _unmask(data[pos + 6 : pos + used], mask))
            return used
        at = pos + 2
        if size == 126:
            at += 2
            if end < at:
                return 0
            size = int.from_bytes(data[pos + 2 : at], "big")
            if size < 126:
                raise WebSocketFault(PROTOCOL_ERROR, "frame length not in its shortest form")
        elif size == 127:
            at += 8
            if end < at:
                return 0
            size = int.from_bytes(data[pos + 2 : at], "big")
            if size < 0x10000:
                raise WebSocketFault(PROTOCOL_ERROR, "frame length not in its shortest form")
            if size > LARGEST_FRAME:
                raise WebSocketFault(PROTOCOL_ERROR, "frame length with its highest bit set")
        if size > self._max_frame:
            raise WebSocketFault(
                TOO_BIG, f"frame of {size} bytes, at most {self._max_frame} are allowed"
            )
        if end < at + 4:
            return 0
        self._mask = data[at : at + 4]
        self._left = size
        self._fragmented = first < 0x80
        return at + 4 - pos

    def _check_first(self, first: int, opcode: int) -> None:
        if first & 0x70:
            raise WebSocketFault(PROTOCOL_ERROR, "reserved bits set, and no extension agreed")
        if opcode == OP_BINARY:
            if self._fragmented:
                raise WebSocketFault(
                    PROTOCOL_ERROR, "new message before the fragmented one was finished"
                )
        elif opcode == OP_CONTINUATION:
            if not self._fragmented:
                raise WebSocketFault(PROTOCOL_ERROR, "continuation of no message")
        elif opcode == OP_TEXT:
            # [MQTT-6.0.0-1]
            raise WebSocketFault(UNSUPPORTED_DATA, "MQTT travels in binary frames, not in text")
        elif opcode < OP_CLOSE or opcode > OP_PONG:
            raise WebSocketFault(PROTOCOL_ERROR, f"unknown opcode {opcode:#x}")
        elif first < 0x80:
            raise WebSocketFault(PROTOCOL_ERROR, "fragmented control frame")

    def _control(self, opcode: int, payload: bytes) -> None:
        if opcode == OP_PING:
            self.replies.append(_frame(OP_PONG, payload))
        elif opcode == OP_CLOSE:
            self._close(payload)

    def _close(self, payload: bytes) -> None:
        if payload:
            if len(payload) == 1:
                raise WebSocketFault(PROTOCOL_ERROR, "close frame with half a code")
            code = int.from_bytes(payload[:2], "big")
            if not _may_travel(code):
                raise WebSocketFault(PROTOCOL_ERROR, f"close code {code} must not be sent")
            try:
                self.close_text = payload[2:].decode()
            except UnicodeDecodeError:
                raise WebSocketFault(INVALID_TEXT, "close reason that is not UTF-8") from None
            self.close_code = code
        self.closed = True
        self.replies.append(_frame(OP_CLOSE, payload[:2]))

    def frame(self, data: bytes) -> bytes:
        """Wrap MQTT packets in a binary frame each; a server does not mask.

        The specification lets packets and frames begin and end anywhere, but there are clients that
        stall when two packets share a frame.  Of a packet that comes in pieces each piece has to be
        sent in its turn: the frame was announced for the whole (`unfinished`).
        """
        parts: list[bytes] = []
        pos = self.unfinished
        size = len(data)
        if pos:
            if size <= pos:
                self.unfinished = pos - size
                return data
            parts.append(data[:pos])
        while pos < size:
            end = pos + _packet_size(data, pos)
            parts.append(_head(OP_BINARY, end - pos))
            parts.append(data[pos:end])
            pos = end
        self.unfinished = pos - size
        return b"".join(parts)

    def close_frame(self, code: int, text: str = "") -> bytes:
        """The close frame with a code and a reason, the reason cut to what a frame can hold."""
        reason = text.encode("utf-8", "replace")[: _LARGEST_CONTROL - 2]
        # A character cut in half would make the frame itself invalid.
        reason = reason.decode("utf-8", "ignore").encode()
        return _frame(OP_CLOSE, code.to_bytes(2, "big") + reason)


def accept_key(key: bytes) -> bytes:
    """What a server answers a client's Sec-WebSocket-Key with (RFC 6455, 4.2.2)."""
    # SHA-1 is what it prescribes; nothing secret depends on it.
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())


def _frame(opcode: int, payload: bytes) -> bytes:
    return _head(opcode, len(payload)) + payload


def _head(opcode: int, size: int) -> bytes:
    if size < 126:
        return bytes((0x80 | opcode, size))
    if size < 0x10000:
        return bytes((0x80 | opcode, 126, size >> 8, size & 0xFF))
    return bytes((0x80 | opcode, 127)) + size.to_bytes(8, "big")


def _packet_size(data: bytes, start: int) -> int:
    """Of a packet that we made ourselves, by its fixed header, which is there as a whole."""
    pos = start + 1
    byte = data[pos]
    rest = byte & 0x7F
    shift = 7
    while byte & 0x80:
        pos += 1
        byte = data[pos]
        rest |= (byte & 0x7F) << shift
        shift += 7
    return pos + 1 + rest - start


def _may_travel(code: int) -> bool:
    """RFC 6455, 7.4, and the codes IANA registered since: which ones may stand in a close frame."""
    if code < 1016:
        return 1000 <= code <= 1003 or 1007 <= code <= 1014
    return 3000 <= code <= 4999


def _xor(data: bytes, key: bytes) -> bytes:
    whole = int.from_bytes(data, "little") ^ int.from_bytes(key, "little")
    return whole.to_bytes(len(data), "little")


def _unmask(data: bytes, mask: bytes) -> bytes:
    size = len(data)
    return _xor(data, (mask * ((size + 3) >> 2))[:size])


class _Gather:
    """The payloads of one read on their way to being unmasked, block by block."""

    def __init__(self) -> None:
        self._out: list[bytes] = []
        # Pieces and their masks, stretched to the same length, to be XORed as one.
        self._parts: list[bytes] = []
        self._keys: list[bytes] = []
        self._size = 0

    def add(self, part: bytes, mask: bytes) -> None:
        size = len(part)
        if size >= _BLOCK:
            self._flush()
            self._add_long(part, mask)
            return
        key = mask * ((size + 3) >> 2)
        if size & 3:
            key = key[:size]
        self._parts.append(part)
        self._keys.append(key)
        self._size += size
        if self._size >= _BLOCK:
            self._flush()

    def _flush(self) -> None:
        if self._size:
            self._out.append(_xor(b"".join(self._parts), b"".join(self._keys)))
            self._parts = []
            self._keys = []
            self._size = 0

    def _add_long(self, part: bytes, mask: bytes) -> None:
        size = len(part)
        key = int.from_bytes(mask * (_BLOCK // 4), "little")
        pos = 0
        while pos + _BLOCK <= size:
            block = int.from_bytes(part[pos : pos + _BLOCK], "little") ^ key
            self._out.append(block.to_bytes(_BLOCK, "little"))
            pos += _BLOCK
        if pos < size:
            self.add(part[pos:], mask)

    def finish(self) -> bytes:
        self._flush()
        return self._out[0] if len(self._out) == 1 else b"".join(self._out)
