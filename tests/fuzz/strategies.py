"""hypothesis: packets, conversations and what is around them, right ones and bent ones.

Plain bytes hardly ever get past the first check; what is right but for one place gets everywhere.
"""

import base64
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.fuzz import bank, script
from tests.helpers import packets as p
from tests.helpers.packets import Prop

Bytes = SearchStrategy[bytes]
Change = tuple[str, int, bytes]

any_bytes = st.binary(max_size=200)

# Bending

changes: SearchStrategy[list[Change]] = st.lists(
    st.tuples(
        st.sampled_from(["set", "insert", "delete", "double", "cut"]),
        st.integers(0, 0xFFFF),
        st.one_of(
            st.sampled_from([b"\0", b"\xff", b"\x7f", b"\x80", b"\0\0", b"\xff\xff", b"\xff\x7f"]),
            st.binary(min_size=1, max_size=4),
        ),
    ),
    max_size=3,
)


def bend(data: bytes, how: list[Change]) -> bytes:
    for what, place, piece in how:
        at = place % (len(data) + 1)
        if what == "set":
            data = data[:at] + piece + data[at + len(piece) :]
        elif what == "insert":
            data = data[:at] + piece + data[at:]
        elif what == "delete":
            data = data[:at] + data[at + len(piece) :]
        elif what == "double":
            data = data[:at] + data[max(0, at - 20) : at] + data[at:]
        else:
            data = data[:at]
    return data


def bent(right: Bytes) -> Bytes:
    return st.builds(bend, right, changes)


# MQTT

TOPICS = ("a", "a/b", "t/1", "", "$SYS/x", "é/b", "x" * 70, "a/b/c/d/e/f", "$x", "w")
FILTERS = (*TOPICS, "#", "a/+", "+/b", "$share/g/a", "$share/g/#", "a/#", "$SYS/#", "a#", "+")
NAMES = ("a", "b", "", "a witness?")

topics = st.sampled_from(TOPICS)
payloads = st.one_of(st.just(b""), st.binary(max_size=10), st.integers(0, 350).map(bytes))
pids = st.integers(0, 6)
qoses = st.sampled_from([0, 1, 2, 1, 2, 3])
property_values: SearchStrategy[tuple[int, Any]] = st.one_of(
    st.tuples(st.just(Prop.USER_PROPERTY), st.tuples(st.just("k"), st.text("ab", max_size=3))),
    st.tuples(st.sampled_from([Prop.MESSAGE_EXPIRY, Prop.SESSION_EXPIRY]), st.integers(0, 90)),
    st.tuples(st.just(Prop.MAXIMUM_PACKET_SIZE), st.integers(0, 100)),
    st.tuples(st.just(Prop.RECEIVE_MAXIMUM), st.integers(0, 3)),
    st.tuples(st.just(Prop.TOPIC_ALIAS_MAXIMUM), st.integers(0, 3)),
    st.tuples(st.just(Prop.TOPIC_ALIAS), st.integers(0, 3)),
    st.tuples(st.just(Prop.SUBSCRIPTION_ID), st.sampled_from([0, 1, 300])),
    st.tuples(st.just(Prop.REQUEST_PROBLEM_INFO), st.integers(0, 1)),
    st.tuples(st.just(Prop.AUTH_METHOD), st.sampled_from(["any", "no"])),
    st.tuples(st.just(Prop.AUTH_DATA), st.binary(max_size=60)),
    st.tuples(st.just(Prop.RESPONSE_TOPIC), topics),
    st.tuples(st.just(Prop.PAYLOAD_FORMAT), st.integers(0, 1)),
    st.tuples(st.just(Prop.WILL_DELAY), st.integers(0, 90)),
)
properties = st.lists(property_values, max_size=3)
wills = st.one_of(
    st.none(), st.tuples(topics, payloads, st.integers(0, 2), st.booleans(), properties)
)


def connects(version: int) -> Bytes:
    return st.builds(
        lambda name, clean, alive, will, props: p.connect(
            name, version, clean, alive, will=will, props=props
        ),
        st.sampled_from(NAMES),
        st.booleans(),
        st.sampled_from([0, 1, 60]),
        wills,
        st.one_of(st.just([]), properties),
    )


def _publish(version: int) -> Callable[..., bytes]:
    def build(topic: str, payload: bytes, qos: int, pid: int, retain: bool, props: Any) -> bytes:
        return p.publish(topic, payload, qos, pid if qos else None, retain, False, props, version)

    return build


def packets(version: int) -> Bytes:
    """What a connected client may send, more or less."""
    known = [vector.data for vector in bank.by_version(version) if len(vector.data) < 1000]
    return st.one_of(
        st.builds(_publish(version), topics, payloads, qoses, pids, st.booleans(), properties),
        st.builds(_publish(version), topics, payloads, qoses, pids, st.booleans(), st.just([])),
        st.builds(
            lambda pid, filters, props: p.subscribe(pid, *filters, props=props, version=version),
            pids,
            st.lists(st.tuples(st.sampled_from(FILTERS), st.integers(0, 47)), max_size=3),
            st.one_of(st.just([]), properties),
        ),
        st.builds(
            lambda pid, filters: p.unsubscribe(pid, *filters, version=version),
            pids,
            st.lists(st.sampled_from(FILTERS), max_size=2),
        ),
        st.builds(lambda ack, pid: ack(pid), st.sampled_from([p.puback, p.pubrec]), pids),
        st.builds(lambda ack, pid: ack(pid), st.sampled_from([p.pubrel, p.pubcomp]), pids),
        st.sampled_from(known),
    )


def _stream(version: int) -> Bytes:
    return st.builds(
        lambda connect, rest: connect + b"".join(rest),
        connects(version),
        st.lists(packets(version), max_size=6),
    )


streams = st.one_of(_stream(3), _stream(4), _stream(5), _stream(5))
decoder = st.one_of(
    *(
        bent(packets(version)).map(lambda data, v=version: bytes([v % 3]) + data)
        for version in (3, 4, 5)
    )
)

steps: SearchStrategy[script.Step] = st.one_of(
    st.tuples(st.sampled_from([script.READ, script.READ, script.DRIP]), bent(streams)),
    st.tuples(st.just(script.READ), st.one_of(packets(5), packets(4))),
    st.tuples(
        st.sampled_from([script.TURN, script.FULL, script.ROOM, script.LOST, script.OPEN]),
        st.just(b""),
    ),
    st.tuples(st.just(script.WAIT), st.integers(0, 900).map(lambda n: n.to_bytes(2, "big"))),
    st.tuples(st.just(script.SWITCH), st.integers(0, 5).map(lambda n: bytes([n]))),
)
connection = st.builds(script.encode, st.integers(0, 255), st.lists(steps, max_size=10))

# WebSocket, PROXY, SCRAM

MASK = b"\x01\x02\x03\x04"


def _frame(opcode: int, fin: bool, payload: bytes) -> bytes:
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    masked = bytes(byte ^ MASK[at % 4] for at, byte in enumerate(payload))
    return bytes([opcode | (0x80 if fin else 0)]) + length + MASK + masked


frames = st.lists(
    st.builds(
        _frame,
        st.sampled_from([2, 2, 2, 0, 8, 9, 10, 1, 3]),
        st.sampled_from([True, True, True, False]),
        st.one_of(st.binary(max_size=6), st.sampled_from([b"\x03\xe8bye", bytes(130)])),
    ),
    max_size=4,
).map(b"".join)
framer = st.builds(lambda first, data: bytes([first]) + data, st.integers(0, 2), bent(frames))

HEADERS = (
    b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 1883\r\n",
    b"PROXY TCP6 2001:db8::7 ::1 56324 1883\r\n",
    b"PROXY UNKNOWN\r\n",
    b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(range(12)),
    b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24" + bytes(36),
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x1d" + bytes(12) + b"\x20\0\x0e\x07\0\0\0\0\x22\0\6client",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x31\0\xd8/run/x" + bytes(210),
)
headers = st.sampled_from(HEADERS)
proxy_header = st.builds(lambda head, rest: head + rest, bent(headers), st.binary(max_size=5))

KEY = base64.b64encode(bytes(16)).decode()
REQUEST = (
    "GET /mqtt HTTP/1.1\r\nHost: b.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    f"Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n"
)
requests = st.builds(
    lambda lines: (REQUEST + "".join(lines) + "\r\n").encode(),
    st.lists(
        st.sampled_from(
            [
                "Sec-WebSocket-Protocol: mqtt\r\n",
                "Sec-WebSocket-Protocol: mqtt, mqttv3.1\r\n",
                "Sec-WebSocket-Protocol: chat\r\n",
                "Origin: https://a.example\r\n",
                "Origin: https://evil.example\r\n",
                "Content-Length: 5\r\n",
                "Transfer-Encoding: chunked\r\n",
                "Accept: text/html\r\n",
                "X: " + "y" * 200 + "\r\n",
            ]
        ),
        max_size=3,
    ),
)
handshake = st.builds(
    lambda head, rest: bend(head, rest[1]) + rest[0], requests, st.tuples(frames, changes)
)
layers = st.builds(
    lambda head, request, rest, how: bend(head + request + rest, how),
    headers,
    requests,
    frames,
    changes,
)

MESSAGES = (
    b"n,,n=user,r=client-nonce",
    b"y,a=user,n=user,r=abc,x=1",
    b"n,,n=us=2Cer=3D,r=abc",
    b"p=tls-unique,,n=user,r=abc",
    b"c=biws,r=client-nonceserver-nonce,p=" + base64.b64encode(bytes(32)),
    b"c=biws,r=abcserver-nonce,p=AAAA",
    "n,,n=\u2168\u00ad\u0627,r=abc".encode(),
)
scram = st.lists(bent(st.sampled_from(MESSAGES)), max_size=3).map(
    lambda messages: script.encode(0, [(0, message) for message in messages])[1:]
)

HELLOS = (
    b"GET / HTTP/1.1\r\n",
    b"\x16\x03\x01\x02\0\x01",
    b"SSH-2.0-x\r\n",
    b"\x10\x0c\0\4MQTT",
)
stranger = bent(st.sampled_from((*HELLOS, *HEADERS)))
