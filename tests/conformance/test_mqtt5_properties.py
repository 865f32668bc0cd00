"""MQTT 5, chapter 2.2.2: every property in every packet, where it belongs and where it does not.

These rules carry no ids.  The text says of a property in a packet that may not have it, and of a
value that is not of its type, that the packet is malformed; of a property that appears twice,
and of a value out of range, that it is a Protocol Error.
"""

from collections.abc import Callable
from typing import Any

from tests.conformance import mqtt5 as p5
from tests.conformance.mqtt5 import Mqtt5Case, Reason
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.properties import KINDS, Prop

Build = Callable[[Any], bytes]

ACK = {Prop.REASON_STRING, Prop.USER_PROPERTY}
MESSAGE = {
    Prop.PAYLOAD_FORMAT,
    Prop.MESSAGE_EXPIRY,
    Prop.CONTENT_TYPE,
    Prop.RESPONSE_TOPIC,
    Prop.CORRELATION_DATA,
    Prop.USER_PROPERTY,
}
CONNECT = {
    Prop.SESSION_EXPIRY,
    Prop.AUTH_METHOD,
    Prop.AUTH_DATA,
    Prop.REQUEST_PROBLEM_INFO,
    Prop.REQUEST_RESPONSE_INFO,
    Prop.RECEIVE_MAXIMUM,
    Prop.TOPIC_ALIAS_MAXIMUM,
    Prop.USER_PROPERTY,
    Prop.MAXIMUM_PACKET_SIZE,
}
AUTH = {Prop.AUTH_METHOD, Prop.AUTH_DATA, Prop.REASON_STRING, Prop.USER_PROPERTY}

# A packet with these properties, and the properties that a client may put there.
CONNECTED: dict[str, tuple[Build, set[Prop]]] = {
    "PUBLISH": (lambda props: p5.publish("t", b"x", props=props), MESSAGE | {Prop.TOPIC_ALIAS}),
    "PUBACK": (lambda props: p.puback(1, 0, props), ACK),
    "PUBREC": (lambda props: p.pubrec(1, 0, props), ACK),
    "PUBREL": (lambda props: p.pubrel(1, 0, props), ACK),
    "PUBCOMP": (lambda props: p.pubcomp(1, 0, props), ACK),
    "SUBSCRIBE": (
        lambda props: p5.subscribe(1, ("t", 0), props=props),
        {Prop.SUBSCRIPTION_ID, Prop.USER_PROPERTY},
    ),
    "UNSUBSCRIBE": (lambda props: p5.unsubscribe(1, "t", props=props), {Prop.USER_PROPERTY}),
    "DISCONNECT": (lambda props: p.disconnect(0, props), ACK | {Prop.SESSION_EXPIRY}),
}
CONNECTING: dict[str, tuple[Build, set[Prop]]] = {
    "CONNECT": (lambda props: p5.connect(props=props), CONNECT),
    "will": (
        lambda props: p5.connect(will=("t", b"x", 0, False, props)),
        MESSAGE | {Prop.WILL_DELAY},
    ),
}
# Known to the packet type, but only a server may send them there.
SERVER_ONLY = {("PUBLISH", Prop.SUBSCRIPTION_ID), ("DISCONNECT", Prop.SERVER_REFERENCE)}

BOOLEANS = {Prop.PAYLOAD_FORMAT, Prop.REQUEST_PROBLEM_INFO, Prop.REQUEST_RESPONSE_INFO}


def value(key: Prop) -> Any:
    """Some valid value of a property."""
    kind = KINDS[key]
    if kind == "text":
        return "text"
    if kind == "binary":
        return b"data"
    if kind == "pair":
        return ("name", "value")
    return 1000 if key == Prop.MAXIMUM_PACKET_SIZE else 1


class Places(Mqtt5Case):
    def test_properties_that_do_not_belong_into_a_packet(self) -> None:
        """All of them, in all packets that a client sends: the packet is malformed."""
        for name, (build, allowed) in CONNECTED.items():
            for key in sorted(set(Prop) - allowed):
                with self.case(name, key.name):
                    fits = (name, key) in SERVER_ONLY
                    reason = Reason.PROTOCOL_ERROR if fits else Reason.MALFORMED
                    self.cut_off(self.connect(), build([(key, value(key))]), reason)
        for name, (build, allowed) in CONNECTING.items():
            for key in sorted(set(Prop) - allowed):
                with self.case(name, key.name):
                    self.refused(build([(key, value(key))]), Reason.MALFORMED)

    def test_properties_that_belong_into_a_packet(self) -> None:
        """None of them does any harm."""
        for name, (build, allowed) in CONNECTED.items():
            for key in sorted(allowed):
                with self.case(name, key.name):
                    client = self.connect(props=[(Prop.SESSION_EXPIRY, 10)])
                    client.send(build([(key, value(key))]))
                    if name == "DISCONNECT":
                        client.expect_closed()
                    else:
                        client.drain()
                        client.ping()
        for name, (build, allowed) in CONNECTING.items():
            for key in sorted(allowed - {Prop.AUTH_METHOD, Prop.AUTH_DATA}):
                with self.case(name, key.name):
                    client = self.open()
                    client.send(build([(key, value(key))]))
                    client.expect("CONNACK", reason=0)

    def test_unknown_properties(self) -> None:
        """Numbers that stand for nothing: the packet is malformed."""
        for name, (build, _) in CONNECTED.items():
            for key in (0x00, 0x04, 0x1B, 0x2B, 0x7F, 0x80, 0x4000):
                with self.case(name, key):
                    self.cut_off(self.connect(), build([(key, b"\0\0\0\0")]), Reason.MALFORMED)
        for name, (build, _) in CONNECTING.items():
            for key in (0x00, 0x04, 0x2B, 0x80):
                with self.case(name, key):
                    self.refused(build([(key, b"\0\0\0\0")]), Reason.MALFORMED)

    def test_property_identifiers_with_the_number_of_a_known_one_in_their_low_bits(self) -> None:
        """An identifier is a whole Variable Byte Integer, not its first byte."""
        for key in (0x80 | Prop.CONTENT_TYPE, 0x100 | Prop.CONTENT_TYPE):
            with self.case(key):
                packet = p5.publish("t", props=[(key, p.utf8("text"))])
                self.cut_off(self.connect(), packet, Reason.MALFORMED)


class Repetition(Mqtt5Case):
    def test_properties_that_stand_there_twice(self) -> None:
        """A Protocol Error for each but the User Property, with equal or other values."""
        for name, (build, allowed) in CONNECTED.items():
            for key in sorted(allowed - {Prop.USER_PROPERTY}):
                with self.case(name, key.name):
                    client = self.connect(props=[(Prop.SESSION_EXPIRY, 10)])
                    twice = build([(key, value(key))] * 2)
                    self.cut_off(client, twice, Reason.PROTOCOL_ERROR)
        for name, (build, allowed) in CONNECTING.items():
            for key in sorted(allowed - {Prop.USER_PROPERTY}):
                with self.case(name, key.name):
                    self.refused(build([(key, value(key))] * 2), Reason.PROTOCOL_ERROR)

    def test_a_property_between_the_two_does_not_hide_them(self) -> None:
        """They need not be neighbours."""
        props = [
            (Prop.CONTENT_TYPE, "a"),
            (Prop.USER_PROPERTY, ("a", "b")),
            (Prop.CONTENT_TYPE, "b"),
        ]
        self.cut_off(self.connect(), p5.publish("t", props=props), Reason.PROTOCOL_ERROR)

    def test_user_properties_may_be_repeated(self) -> None:
        """In every packet."""
        twice = [(Prop.USER_PROPERTY, ("a", "b"))] * 2
        for name, (build, _) in CONNECTED.items():
            with self.case(name):
                client = self.connect()
                client.send(build(twice))
                if name == "DISCONNECT":
                    client.expect_closed()
                else:
                    client.drain()
                    client.ping()
        for name, (build, _) in CONNECTING.items():
            with self.case(name):
                client = self.open()
                client.send(build(twice))
                client.expect("CONNACK", reason=0)


class Values(Mqtt5Case):
    def test_booleans_are_0_or_1(self) -> None:
        """Any other value is a Protocol Error."""
        for number in (2, 3, 128, 255):
            with self.case(number):
                packet = p5.publish("t", props=[(Prop.PAYLOAD_FORMAT, number)])
                self.cut_off(self.connect(), packet, Reason.PROTOCOL_ERROR)
            for name, (build, allowed) in CONNECTING.items():
                for key in sorted(allowed & BOOLEANS):
                    with self.case(name, key.name, number):
                        self.refused(build([(key, number)]), Reason.PROTOCOL_ERROR)

    @statement("5", "MQTT-4.9.0-1")
    def test_numbers_that_are_never_0(self) -> None:
        """Receive Maximum and Maximum Packet Size in CONNECT."""
        for key in (Prop.RECEIVE_MAXIMUM, Prop.MAXIMUM_PACKET_SIZE):
            with self.case(key.name):
                self.refused(p5.connect(props=[(key, 0)]), Reason.PROTOCOL_ERROR)

    def test_largest_numbers(self) -> None:
        """Every value of the type is taken."""
        self.connect(
            props=[
                (Prop.RECEIVE_MAXIMUM, 65535),
                (Prop.MAXIMUM_PACKET_SIZE, 0xFFFFFFFF),
                (Prop.TOPIC_ALIAS_MAXIMUM, 65535),
                (Prop.SESSION_EXPIRY, 0xFFFFFFFF),
            ],
            will=("t", b"x", 0, False, [(Prop.WILL_DELAY, 0xFFFFFFFF)]),
        ).ping()

    def test_values_that_are_cut_off(self) -> None:
        """A property that the end of the block cuts is malformed."""
        for name, (build, allowed) in CONNECTED.items():
            for key in sorted(allowed):
                with self.case(name, key.name):
                    block = p.properties([(key, value(key))])[1:-1]
                    packet = build(p.varint(len(block)) + block)
                    self.cut_off(self.connect(), packet, Reason.MALFORMED)
        for name, (build, allowed) in CONNECTING.items():
            for key in sorted(allowed):
                with self.case(name, key.name):
                    block = p.properties([(key, value(key))])[1:-1]
                    self.refused(build(p.varint(len(block)) + block), Reason.MALFORMED)

    def test_authentication_data_needs_a_method(self) -> None:
        """Data alone is a Protocol Error."""
        packet = p5.connect(props=[(Prop.AUTH_DATA, b"data")])
        self.refused(packet, Reason.PROTOCOL_ERROR)
