"""What came to a plain MQTT port, when it is not an MQTT CONNECT.

The first byte of a connection decides: a client has to begin with CONNECT [MQTT-3.1.0-1], and that
is 0x10, with any flags in MQTT 3.1.  Everything else is put into words here for the line in the
log, and into a kind, so that the line can name the listener to use instead.  More bytes make the
words better, never the verdict.
"""

from typing import Final

from mhub.wire.decode import may_be_connect

TLS: Final = "tls"
HTTP: Final = "http"
PROXY: Final = "proxy"
OTHER: Final = "other"

_SHOWN: Final = 16

_HTTP_METHODS: Final = (
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "OPTIONS",
    "PATCH",
    "TRACE",
    "CONNECT",
)

_PACKETS: Final = {
    2: "CONNACK",
    3: "PUBLISH",
    4: "PUBACK",
    5: "PUBREC",
    6: "PUBREL",
    7: "PUBCOMP",
    8: "SUBSCRIBE",
    9: "SUBACK",
    10: "UNSUBSCRIBE",
    11: "UNSUBACK",
    12: "PINGREQ",
    13: "PINGRESP",
    14: "DISCONNECT",
    15: "AUTH",
}

# Who begins with what.  The first that fits is named, so the longer beginning stands first.
_BEGINNINGS: Final = (
    (b"PROXY ", PROXY, "a PROXY protocol header (proxy_protocol is off on this listener)"),
    (
        b"\r\n\r\n\x00\r\nQUIT\n",
        PROXY,
        "a PROXY protocol header (proxy_protocol is off on this listener)",
    ),
    (b"PRI * HTTP/2", HTTP, "an HTTP/2 connection"),
    (b"CONNECT {", OTHER, "a NATS client"),
    (b"CONNECT\n", OTHER, "a STOMP client"),
    (b"CONNECT\r\n", OTHER, "a STOMP client"),
    (b"STOMP\n", OTHER, "a STOMP client"),
    (b"STOMP\r\n", OTHER, "a STOMP client"),
    (b"AMQP", OTHER, "an AMQP client"),
    (b"SSH-", OTHER, "an SSH client"),
    (b"EHLO ", OTHER, "an SMTP client"),
    (b"HELO ", OTHER, "an SMTP client"),
    (b"\x00\x00\x00\x08\x04\xd2\x16\x2f", OTHER, "a PostgreSQL client"),
    (b"\x03\x00\x00", OTHER, "a Remote Desktop client"),
    (b"\x05\x01\x00", OTHER, "a SOCKS client"),
    (b"\x04\x01", OTHER, "a SOCKS client"),
    (b"\xff\xfb", OTHER, "a Telnet client"),
    (b"\xff\xfd", OTHER, "a Telnet client"),
)


def describe(data: bytes) -> str | None:
    """What `data`, the first bytes of a connection, is; None if it is, or may become, a CONNECT."""
    found = _look(data)
    return None if found is None else found[1]


def kind(data: bytes) -> str:
    """TLS, HTTP, PROXY or OTHER, for what `describe` has words; "" where it has none."""
    found = _look(data)
    return "" if found is None else found[0]


def _look(data: bytes) -> tuple[str, str] | None:
    if not data or may_be_connect(data[0]):
        return None
    return _tls(data) or _known(data) or _http(data) or _redis(data) or _mqtt(data) or _bytes(data)


def _tls(data: bytes) -> tuple[str, str] | None:
    # A handshake record of any version up to TLS 1.3 has 3 for its major version.
    if data[0] == 0x16 and data[1:2] in (b"", b"\x03"):
        return TLS, "a TLS ClientHello"
    if data[0] & 0x80 and data[2:4] == b"\x01\x03":
        return TLS, "a TLS ClientHello in the form of SSL 2.0"
    return None


def _known(data: bytes) -> tuple[str, str] | None:
    for beginning, what, words in _BEGINNINGS:
        if data.startswith(beginning):
            return what, words
    if data[4:8] in (b"\xffSMB", b"\xfeSMB"):
        return OTHER, "an SMB client"
    return None


def _http(data: bytes) -> tuple[str, str] | None:
    for method in _HTTP_METHODS:
        if data.startswith(method.encode() + b" "):
            if b"upgrade: websocket" in data[:4096].lower():
                return HTTP, "a WebSocket handshake"
            return HTTP, f"an HTTP {method} request"
    return None


def _redis(data: bytes) -> tuple[str, str] | None:
    # RESP: an array of strings, "*1\r\n$4\r\nPING\r\n".
    if data[0] == 0x2A and data[1:2].isdigit():
        return OTHER, "a Redis command"
    return None


def _mqtt(data: bytes) -> tuple[str, str] | None:
    """Another packet first, or a CONNECT with wrong flags; only if it is one to its very end."""
    size = shift = 0
    for at, byte in enumerate(data[1:5], 2):
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            if at + size != len(data):
                return None
            packet = data[0] >> 4
            if packet == 1:
                return OTHER, "an MQTT CONNECT with reserved bits set in its first byte"
            if packet in _PACKETS:
                return OTHER, f"an MQTT {_PACKETS[packet]} where CONNECT has to come first"
            return None
    return None


def _bytes(data: bytes) -> tuple[str, str]:
    shown = data[:_SHOWN]
    more = " …" if len(data) > _SHOWN else ""
    text = f"bytes that are no MQTT CONNECT: {shown.hex(' ')}{more}"
    # Many a client speaks plain text: then it is the text that tells which one.
    line = shown.rstrip(b"\r\n")
    if len(line) > 2 and line.isascii() and line.decode("ascii").isprintable():
        text += f" ({line.decode('ascii')!r})"
    return OTHER, text
