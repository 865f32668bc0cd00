"""MQTT 5, chapter 3.1: what a CONNECT looks like, and which ones are turned away for it."""

from typing import Any

from tests.conformance import mqtt5 as p5
from tests.conformance.mqtt5 import NOT_UTF8, Mqtt5Case, Reason
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.packets import Prop

CLEAN, WILL, WILL_RETAIN, PASSWORD, USER = 0x02, 0x04, 0x20, 0x40, 0x80


class FirstPacket(Mqtt5Case):
    @statement("5", "MQTT-3.1.0-1", "MQTT-3.14.0-1")
    def test_anything_but_connect_first_closes_without_a_word(self) -> None:
        """Before CONNACK there is no DISCONNECT: the broker just closes."""
        for packet in (
            p5.publish("t", b"x"),
            p5.publish("t", b"x", qos=1, pid=1),
            p.puback(1),
            p.pubrec(1),
            p.pubrel(1),
            p.pubcomp(1),
            p5.subscribe(1, ("t", 0)),
            p5.unsubscribe(1, "t"),
            p.pingreq(),
            p.disconnect(),
            p.auth(0x18, [(Prop.AUTH_METHOD, "m")]),
            p.frame(0x20, b"\0\0\0"),
            p.frame(0x00),
        ):
            with self.case(packet):
                client = self.open()
                client.send(packet)
                client.expect_closed()

    @statement("5", "MQTT-3.1.0-1")
    def test_a_publish_before_connect_goes_nowhere(self) -> None:
        """What stands before the CONNECT is not handled, nor is the CONNECT behind it."""
        watcher = self.watcher()
        client = self.open()
        client.send(p5.publish("t", b"x"), p5.connect())
        client.expect_closed()
        watcher.expect_nothing()

    @statement("5", "MQTT-3.1.0-2", "MQTT-4.13.1-1")
    def test_a_second_connect_is_a_protocol_error(self) -> None:
        """Whether the second one differs or not, right behind the first or later."""
        for second in (p5.connect(), p5.connect("other"), p.connect("old", version=4)):
            with self.case(second):
                self.cut_off(self.connect(), second, Reason.PROTOCOL_ERROR)
        client = self.open()
        client.send(p5.connect(), p5.connect())
        client.closed_after("CONNACK", "DISCONNECT", reason=Reason.PROTOCOL_ERROR)


class ProtocolName(Mqtt5Case):
    @statement("5", "MQTT-3.1.2-1")
    def test_another_protocol_name_closes(self) -> None:
        """Only MQTT is MQTT; CONNACK 0x84 may say so."""
        for name in ("mqtt", "MQTTX", "MQT", "", "HTTP", b"\xff\xff\xff\xff", "MQIsdp"):
            with self.case(name):
                self.closed_at_connect(p5.connect(name=name), Reason.VERSION, 1)

    @statement("5", "MQTT-3.1.2-2")
    def test_unknown_protocol_version_above_5_is_refused_with_0x84(self) -> None:
        """A version from the future, in the form of version 5, and as short as that can be."""
        _, body = p.split(p5.connect())
        for version in (6, 7, 127, 128, 255):
            with self.case(version):
                packet = p.frame(0x10, body[:6] + bytes([version]) + body[7:])
                self.assertEqual([], self.refused(packet, Reason.VERSION).props)

    @statement("5", "MQTT-3.1.2-2")
    def test_unknown_protocol_version_below_5_is_refused_with_code_1_of_3_1_1(self) -> None:
        """A version from the past, in the form that it may understand."""
        _, body = p.split(p5.connect())
        for version in (0, 1, 2, 3):
            with self.case(version):
                client = self.open(4)
                client.send(p.frame(0x10, body[:6] + bytes([version]) + body[7:]))
                client.closed_after("CONNACK", reason=1, session_present=False)

    @statement("5", "MQTT-3.1.2-2", "MQTT-3.2.2-7")
    def test_version_that_the_listener_does_not_want_is_refused_with_0x84(self) -> None:
        """A broker limited to 3.1.1 tells a client of version 5 in its own language."""
        self.start(versions=(3, 4))
        self.refused(p5.connect(), Reason.VERSION)


class Flags(Mqtt5Case):
    @statement("5", "MQTT-3.1.2-3", "MQTT-3.1.4-1")
    def test_reserved_flag_is_malformed(self) -> None:
        """Bit 0 of the CONNECT flags is 0."""
        self.refused(p5.connect(flags=CLEAN | 1), Reason.MALFORMED)

    @statement("5", "MQTT-3.1.2-9", "MQTT-3.1.4-1")
    def test_will_flag_without_the_will_is_malformed(self) -> None:
        """Will Flag promises Will Properties, Will Topic and Will Payload."""
        head, fields = p.split(p5.connect(flags=CLEAN | WILL))
        for will in (b"", b"\0", b"\0" + p.utf8("topic"), p.utf8("topic") + p.utf8("payload")):
            with self.case(will):
                self.refused(p.frame(head, fields + will), Reason.MALFORMED)
        self.assertEqual(0, self.send_connect(p.frame(head, fields + b"\0\0\1t\0\0")))

    def send_connect(self, data: bytes) -> int | None:
        """The reason with which the broker answers this CONNECT."""
        client = self.open()
        client.send(data)
        return client.expect("CONNACK").reason

    @statement("5", "MQTT-3.1.2-9")
    def test_will_without_its_flag_is_malformed(self) -> None:
        """Fields that no flag announces are too much."""
        packet = p5.connect(will=("t", b"x"), flags=CLEAN)
        self.refused(packet, Reason.MALFORMED)

    @statement("5", "MQTT-3.1.2-11")
    def test_will_qos_without_will_flag_is_malformed(self) -> None:
        """Will Flag 0 asks for Will QoS 0."""
        for qos in (1, 2, 3):
            with self.case(qos):
                self.refused(p5.connect(flags=CLEAN | qos << 3), Reason.MALFORMED)

    @statement("5", "MQTT-3.1.2-12")
    def test_will_qos_3_is_malformed(self) -> None:
        """Will QoS is 0, 1 or 2."""
        self.refused(p5.connect(will=("t", b"x", 3)), Reason.MALFORMED)
        for qos in (0, 1, 2):
            self.connect(will=("t", b"x", qos))

    @statement("5", "MQTT-3.1.2-13")
    def test_will_retain_without_will_flag_is_malformed(self) -> None:
        """Will Flag 0 asks for Will Retain 0."""
        self.refused(p5.connect(flags=CLEAN | WILL_RETAIN), Reason.MALFORMED)

    @statement("5", "MQTT-3.1.2-16", "MQTT-3.1.2-18")
    def test_user_name_or_password_without_its_flag_is_malformed(self) -> None:
        """A field that no flag announces makes the packet longer than its content."""
        wrong: tuple[tuple[int, dict[str, Any]], ...] = (
            (CLEAN, {"username": "u"}),
            (CLEAN, {"password": "p"}),
            (CLEAN | USER, {"username": "u", "password": "p"}),
            (CLEAN | PASSWORD, {"username": "u", "password": "p"}),
        )
        for flags, fields in wrong:
            with self.case(flags, fields):
                self.refused(p5.connect(flags=flags, **fields), Reason.MALFORMED)

    @statement("5", "MQTT-3.1.2-17", "MQTT-3.1.2-19")
    def test_flag_without_user_name_or_password_is_malformed(self) -> None:
        """A flag whose field is missing leaves the packet short."""
        wrong: tuple[tuple[int, dict[str, Any]], ...] = (
            (CLEAN | USER, {}),
            (CLEAN | PASSWORD, {}),
            (CLEAN | USER | PASSWORD, {"username": "u"}),
        )
        for flags, fields in wrong:
            with self.case(flags, fields):
                self.refused(p5.connect(flags=flags, **fields), Reason.MALFORMED)

    @statement("5", "MQTT-3.1.2-17", "MQTT-3.1.2-19")
    def test_user_name_and_password_come_alone_or_together(self) -> None:
        """Version 5 allows a password without a user name; the password is any bytes."""
        self.connect("both", username="u", password=b"\xff\0")
        self.connect("user", username="u")
        self.connect("password", password="p")
        self.connect("empty", username="", password="")


class Payload(Mqtt5Case):
    @statement("5", "MQTT-3.1.3-1")
    def test_all_fields_in_their_order(self) -> None:
        """Client id, Will Properties, Will Topic, Will Payload, user name, password."""
        watcher = self.watcher()
        client = self.connect(
            "full",
            username="user",
            password="password",
            will=("will/topic", b"will payload", 1, False, [(Prop.CONTENT_TYPE, "text")]),
        )
        client.abort()
        will = watcher.expect("PUBLISH", topic="will/topic", payload=b"will payload", qos=1)
        self.assertEqual([(Prop.CONTENT_TYPE, "text")], will.props)

    @statement("5", "MQTT-3.1.3-1")
    def test_fields_out_of_order_are_malformed(self) -> None:
        """A user name where the will belongs is read as a will, and found wanting."""
        head, body = p.split(p5.connect(flags=CLEAN | WILL | USER))
        wrong = p.utf8("user") + p.properties([(Prop.WILL_DELAY, 1)]) + p.utf8("t") + p.utf8("x")
        self.refused(p.frame(head, body + wrong), Reason.MALFORMED)

    @statement("5", "MQTT-3.1.3-3")
    def test_the_client_id_field_is_mandatory(self) -> None:
        """A CONNECT that ends before its client id is malformed."""
        _, body = p.split(p5.connect("id"))
        for cut in (len(p.utf8("id")), 3, 1):
            with self.case(cut):
                self.refused(p.frame(0x10, body[:-cut]), Reason.MALFORMED)

    @statement("5", "MQTT-3.1.3-4", "MQTT-3.1.3-11", "MQTT-3.1.3-12")
    def test_client_id_will_topic_and_user_name_are_utf8(self) -> None:
        """None of them may be anything else."""
        for text in (*NOT_UTF8, b"\0"):
            for packet in (
                p5.connect(text),
                p5.connect(will=(text, b"")),
                p5.connect(username=text),
            ):
                with self.case(packet):
                    self.refused(packet, Reason.MALFORMED)

    @statement("5", "MQTT-3.1.3-5")
    def test_plain_client_ids_of_1_to_23_bytes_are_taken(self) -> None:
        """Digits and letters, as the broker's narrowest setting has to allow."""
        self.start(max_client_id_length=23)
        for client_id in (
            "0",
            "Z",
            "0123456789abcdefghijklm",
            "nopqrstuvwxyzABCDEFGHIJ",
            "KLMNOPQRSTUVWXYZ",
            "a" * 23,
        ):
            with self.case(client_id):
                connack = self.connect(client_id).connack
                assert connack is not None
                self.assertIsNone(connack.prop(Prop.ASSIGNED_CLIENT_ID))

    @statement("5", "MQTT-3.1.3-8", "MQTT-3.1.4-2")
    def test_refused_client_id_gets_0x85(self) -> None:
        """Too long an id, or none where none are given out."""
        self.start(max_client_id_length=23, allow_empty_client_id=False)
        self.refused(p5.connect("a" * 24), Reason.CLIENT_ID)
        self.refused(p5.connect(""), Reason.CLIENT_ID)

    @statement("5", "MQTT-3.1.4-1")
    def test_truncated_connects_are_malformed(self) -> None:
        """Wherever the packet ends too early, the broker closes."""
        _, body = p.split(
            p5.connect(
                "id",
                username="user",
                password="password",
                will=("t", b"payload", 0, False, [(Prop.WILL_DELAY, 1)]),
                props=[(Prop.SESSION_EXPIRY, 1), (Prop.USER_PROPERTY, ("a", "b"))],
            )
        )
        for end in range(len(body)):
            with self.case(end):
                self.closed_at_connect(p.frame(0x10, body[:end]), Reason.MALFORMED, Reason.VERSION)

    @statement("5", "MQTT-3.1.4-1")
    def test_bytes_behind_the_last_field_are_malformed(self) -> None:
        """A CONNECT ends where its content ends."""
        _, body = p.split(p5.connect())
        self.refused(p.frame(0x10, body + b"x"), Reason.MALFORMED)

    def test_will_topic_is_a_topic_name(self) -> None:
        """A will to a wildcard or to nothing could never be published."""
        for topic in ("a/#", "+", "#", ""):
            with self.case(topic):
                self.refused(p5.connect(will=(topic, b"")), Reason.MALFORMED)

    def test_byte_by_byte(self) -> None:
        """A CONNECT in single bytes is a CONNECT."""
        client = self.open()
        client.send_slowly(p5.connect("slow", username="u", will=("t", b"x")))
        client.expect("CONNACK", reason=0)
