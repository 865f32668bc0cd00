"""Bodies of packets from a client, PUBLISH aside, into what they say.

Every function takes the buffer and the bounds of the body, and either returns a packet or raises
ProtocolFault: no byte string leads to anything else.
"""

from mhub.wire import properties, reasons
from mhub.wire.errors import ProtocolFault
from mhub.wire.packets import (
    CONNECT,
    V5,
    V31,
    V311,
    Auth,
    Connect,
    Disconnect,
    Request,
    Subscribe,
    Unsubscribe,
)
from mhub.wire.primitives import malformed, read_data, read_text, read_u8, read_u16
from mhub.wire.publish import IN_WILL, PublishProperties, read_properties, will
from mhub.wire.topics import check_filter_form


def frame(data: bytes, pos: int, size: int) -> tuple[int, int]:
    """The packet at pos of a buffer with `size` bytes: (where its body begins, where it ends).

    (0, 0) while its length is still on the way.  The end may lie behind the buffer.
    """
    length = 0
    shift = 0
    at = pos + 1
    while at < size:
        byte = data[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return at, at + length
        shift += 7
        if shift > 21:
            raise malformed("the remaining length has more than four bytes")
    return 0, 0


def may_be_connect(first: int) -> bool:
    """Whether a connection may begin with this byte.

    MQTT 3.1 has no use for the flags of a CONNECT, and does not ask for zeros.  Only 0x16 is taken:
    a TLS handshake begins so.
    """
    return first >> 4 == CONNECT and first != 0x16


def _done(pos: int, end: int) -> None:
    if pos != end:
        raise malformed("the packet has bytes behind its last field")


def _protocol_error(text: str) -> ProtocolFault:
    return ProtocolFault(reasons.PROTOCOL_ERROR, text)


def connect_version(data: bytes, pos: int, end: int) -> tuple[int, bool, int]:
    """The version of a CONNECT, whether it is spoken here, and the position behind it.

    One that is not is answered in the form of V5, if it is above that, and else of V311.
    """
    name, pos = read_data(data, pos, end)
    level, pos = read_u8(data, pos, end)
    if name == b"MQTT":
        if level == V311 or level == V5:
            return level, True, pos
        # Bridges of Mosquitto set the highest bit, and try without it after a 0x01 of 3.1.1.
        if level > V5 and level != 0x80 | V31 and level != 0x80 | V311:
            return V5, False, pos
        return V311, False, pos
    if name == b"MQIsdp":
        return (V31, True, pos) if level == V31 else (V311, False, pos)
    raise ProtocolFault(  # [MQTT-3.1.2-1]
        reasons.UNSUPPORTED_VERSION, f"protocol name {name[:12]!r} is not MQTT"
    )


def connect(data: bytes, pos: int, end: int, version: int) -> Connect:
    """A CONNECT from behind its protocol level."""
    flags, pos = read_u8(data, pos, end)
    lenient = version == V31
    if flags & 1 and not lenient:
        raise malformed("the reserved CONNECT flag is set")  # [MQTT-3.1.2-3]
    packet = Connect(version)
    packet.clean = flags & 0x02 != 0
    packet.keepalive_s, pos = read_u16(data, pos, end)
    if version == V5:
        packet.properties, pos = properties.read(data, pos, end, properties.IN_CONNECT)
        if packet.properties.binary and properties.AUTH_METHOD not in packet.properties.texts:
            raise _protocol_error("authentication data without a method")
    packet.client_id, pos = read_text(data, pos, end)
    pos = _connect_will(packet, flags, data, pos, end)
    # In MQTT 3.1 the packet's length overrules the flags: the strings may be missing.
    if flags & 0x80 and not (lenient and pos == end):
        packet.username, pos = read_text(data, pos, end)
    if flags & 0x40:
        if version < V5 and not flags & 0x80:
            raise malformed("a password without a user name")  # [MQTT-3.1.2-22]
        if not (lenient and pos == end):
            packet.password, pos = read_data(data, pos, end)
    _done(pos, end)
    return packet


def _connect_will(packet: Connect, flags: int, data: bytes, pos: int, end: int) -> int:
    if not flags & 0x04:
        # [MQTT-3.1.2-11, MQTT-3.1.2-13]; MQTT 3.1 disregards them.
        if flags & 0x38 and packet.version != V31:
            raise malformed("will QoS or will retain without a will")
        return pos
    qos = flags >> 3 & 3
    if qos == 3:
        raise malformed("will QoS 3 does not exist")  # [MQTT-3.1.2-12]
    found = PublishProperties()
    if packet.version == V5:
        found, pos = read_properties(data, pos, end, IN_WILL)
    topic, pos = read_text(data, pos, end)
    payload, pos = read_data(data, pos, end)
    packet.will = will(topic.encode("utf-8"), payload, qos, flags & 0x20 != 0, found)
    packet.will.topic = topic
    packet.will_delay_s = found.will_delay_s
    return pos


def _pid(data: bytes, pos: int, end: int) -> tuple[int, int]:
    pid, pos = read_u16(data, pos, end)
    if pid == 0:
        raise _protocol_error("packet id 0")  # [MQTT-2.3.1-1, MQTT-2.2.1-3]
    return pid, pos


def ack(data: bytes, pos: int, end: int, version: int, allowed: frozenset[int]) -> tuple[int, int]:
    """PUBACK, PUBREC, PUBREL or PUBCOMP: (packet id, reason)."""
    pid, pos = _pid(data, pos, end)
    reason = 0
    if version == V5 and pos < end:
        reason, pos = read_u8(data, pos, end)
        if reason not in allowed:
            raise _protocol_error(f"reason 0x{reason:02x} is not allowed in this packet")
        if pos < end:
            _, pos = properties.read(data, pos, end, properties.IN_ACK)
    _done(pos, end)
    return pid, reason


def subscribe(data: bytes, pos: int, end: int, version: int) -> Subscribe:
    pid, pos = _pid(data, pos, end)
    packet = Subscribe(pid)
    if version == V5:
        found, pos = properties.read(data, pos, end, properties.IN_SUBSCRIBE)
        packet.subscription_id = found.number(properties.SUBSCRIPTION_ID, 0)
    while pos < end:
        topic_filter, pos = read_text(data, pos, end)
        options, pos = read_u8(data, pos, end)
        if version == V31:
            options &= 3  # "the upper 6 bits of this byte are not used"
        if options & 3 == 3:
            raise _protocol_error("a subscription asks for QoS 3")
        if options & (0xC0 if version == V5 else 0xFC):  # [MQTT-3.8.3-5]
            raise malformed("reserved bits of the subscription options are set")
        if options & 0x30 == 0x30:
            raise _protocol_error("retain handling 3 does not exist")
        packet.requests.append(Request(topic_filter, options))
    if not packet.requests:
        raise _protocol_error("SUBSCRIBE without a topic filter")  # [MQTT-3.8.3-2]
    return packet


def unsubscribe(data: bytes, pos: int, end: int, version: int) -> Unsubscribe:
    pid, pos = _pid(data, pos, end)
    packet = Unsubscribe(pid)
    if version == V5:
        _, pos = properties.read(data, pos, end, properties.IN_UNSUBSCRIBE)
    while pos < end:
        topic_filter, pos = read_text(data, pos, end)
        check_filter_form(topic_filter)
        packet.filters.append(topic_filter)
    if not packet.filters:
        raise _protocol_error("UNSUBSCRIBE without a topic filter")  # [MQTT-3.10.3-2]
    return packet


def empty(pos: int, end: int) -> None:
    """PINGREQ, and DISCONNECT before MQTT 5: nothing may follow the fixed header."""
    _done(pos, end)


def disconnect(data: bytes, pos: int, end: int, version: int) -> Disconnect:
    packet = Disconnect()
    if version == V5 and pos < end:
        packet.reason, pos = read_u8(data, pos, end)
        if packet.reason not in reasons.CLIENT_DISCONNECTS:
            raise _protocol_error(f"a client may not disconnect with 0x{packet.reason:02x}")
        if pos < end:
            found, pos = properties.read(data, pos, end, properties.IN_DISCONNECT)
            packet.session_expiry_s = found.number(properties.SESSION_EXPIRY, -1)
            if properties.SERVER_REFERENCE in found.texts:
                raise _protocol_error("a server reference comes from servers only")
    _done(pos, end)
    return packet


def auth(data: bytes, pos: int, end: int) -> Auth:
    packet = Auth()
    if pos < end:
        packet.reason, pos = read_u8(data, pos, end)
        if pos < end:
            found, pos = properties.read(data, pos, end, properties.IN_AUTH)
            packet.method = found.texts.get(properties.AUTH_METHOD, "")
            packet.data = found.binary.get(properties.AUTH_DATA, b"")
    _done(pos, end)
    if packet.reason not in reasons.CLIENT_AUTHS:
        raise _protocol_error(f"a client may not send AUTH with 0x{packet.reason:02x}")
    return packet
