"""MQTT 3.1.1, sections 3.1 and 3.2: CONNECT, what is wrong with it, and CONNACK."""

from tests.conformance.cases import ProtocolCase
from tests.conformance.statements import statement
from tests.helpers import packets as p


class FirstPacket(ProtocolCase):
    @statement("3.1.1", "MQTT-3.1.0-1", "MQTT-4.8.0-1")
    def test_anything_but_connect_first_closes(self) -> None:
        """The first packet is CONNECT, or there is no conversation."""
        for packet in (
            p.publish("a", b"x"),
            p.publish("a", b"x", qos=1, pid=1),
            p.puback(1),
            p.pubrec(1),
            p.pubrel(1),
            p.pubcomp(1),
            p.subscribe(1, ("a", 0)),
            p.unsubscribe(1, "a"),
            p.pingreq(),
            p.disconnect(),
            p.frame(0x20, b"\0\0"),
        ):
            self.assert_connect_closes(packet)

    def test_publish_before_connect_reaches_nobody(self) -> None:
        """A CONNECT that comes later does not redeem it."""
        subscriber = self.subscriber("#")
        client = self.open()
        client.send(p.publish("a", b"early"), p.connect("late"))
        client.expect_closed()
        subscriber.expect_nothing()

    @statement("3.1.1", "MQTT-3.1.0-2", "MQTT-4.8.0-1")
    def test_second_connect_closes(self) -> None:
        """CONNECT comes once."""
        self.assert_closes(p.connect("violator"))
        self.assert_closes(p.connect("other"))

    @statement("3.1.1", "MQTT-3.1.0-2")
    def test_second_connect_in_the_same_read_closes(self) -> None:
        """Also when both arrive together: one CONNACK, then the end."""
        client = self.open()
        client.send(p.connect("c"), p.connect("c"))
        client.closed_after("CONNACK", reason=0)

    def test_silence_ends_after_the_connect_timeout(self) -> None:
        """A connection that never says CONNECT does not stay."""
        self.start(connect_timeout_s=10)
        silent = self.open()
        slow = self.open()
        slow.send(p.connect("slow")[:-1])
        self.advance(8)
        silent.expect_nothing()
        slow.expect_nothing()
        self.advance(4)
        silent.expect_closed()
        slow.expect_closed()

    def test_connected_client_is_past_the_connect_timeout(self) -> None:
        """The time-out is for CONNECT only."""
        self.start(connect_timeout_s=10)
        client = self.connect()
        self.advance(60)
        self.assert_works(client)

    @statement("3.1.1", "MQTT-7.1.1-1")
    def test_tcp_carries_a_conversation_both_ways(self) -> None:
        """TCP is the ordered, lossless, two-way byte stream that a server has to offer."""
        client = self.subscriber("t", qos=1)
        data = bytes(range(256)) * 4000
        client.publish("t", data, qos=1)
        client.expect("PUBLISH", payload=data)


class ProtocolNameAndLevel(ProtocolCase):
    @statement("3.1.1", "MQTT-3.1.2-1")
    def test_unknown_protocol_name_is_not_served(self) -> None:
        """A name that is none of MQTT's ends without a CONNACK."""
        for name in ("", "M", "mqtt", "MQTT ", "MQTTX", "MQIsdP", "HTTP", b"\xff\xff\xff\xff"):
            self.assert_connect_closes(p.connect(name=name), f"name {name!r}")

    @statement("3.1.1", "MQTT-3.1.2-2", "MQTT-3.2.2-4", "MQTT-3.2.2-5")
    def test_unknown_level_up_to_5_is_refused_with_code_1(self) -> None:
        """CONNACK 0x01, then the end; also to bridges of Mosquitto, which set the highest bit."""
        for level in (0, 1, 2, 3, 0x83, 0x84):
            first, body = p.split(p.connect())
            wrong = body[:6] + bytes([level]) + body[7:]
            self.assert_refused(p.frame(first, wrong), 1, f"level {level}")

    @statement("3.1.1", "MQTT-3.1.2-2")
    def test_unknown_level_above_5_is_refused_with_0x84_of_version_5(self) -> None:
        """Whoever comes with a newer one knows version 5 rather than 3.1.1."""
        for level in (6, 7, 127, 128, 255):
            first, body = p.split(p.connect())
            client = self.open(5)
            client.send(p.frame(first, body[:6] + bytes([level]) + body[7:]))
            client.closed_after("CONNACK", reason=0x84, session_present=False)

    @statement("3.1.1", "MQTT-3.1.2-2")
    def test_name_of_3_1_with_another_level_is_refused_with_code_1(self) -> None:
        """MQIsdp goes with level 3 only."""
        for level in (0, 2, 4, 5, 6, 255):
            self.assert_refused(p.connect(name="MQIsdp", version=level), 1, f"level {level}")

    @statement("3.1.1", "MQTT-3.1.2-2")
    def test_version_that_the_listener_does_not_allow_is_refused_with_code_1(self) -> None:
        """A listener for version 5 only tells a 3.1.1 client what is wrong."""
        self.start(versions=(3, 5))
        self.assert_refused(p.connect(), 1)


class ConnectFlags(ProtocolCase):
    @statement("3.1.1", "MQTT-3.1.2-3", "MQTT-3.1.4-1")
    def test_reserved_flag_closes(self) -> None:
        """Bit 0 of the connect flags is 0."""
        for flags in (0x03, 0x01):
            self.assert_connect_closes(p.connect(flags=flags))

    @statement("3.1.1", "MQTT-3.1.2-9", "MQTT-3.1.4-1")
    def test_will_flag_without_will_fields_closes(self) -> None:
        """Will Flag 1 promises a topic and a message in the payload."""
        self.assert_connect_closes(p.connect(flags=0x06))
        first, body = p.split(p.connect(flags=0x06))
        self.assert_connect_closes(p.frame(first, body + p.utf8("topic")), "no will message")

    @statement("3.1.1", "MQTT-3.1.2-11", "MQTT-3.1.4-1")
    def test_will_fields_without_will_flag_close(self) -> None:
        """Will Flag 0 means that there are no will fields."""
        self.assert_connect_closes(p.connect(will=("t", b"m"), flags=0x02))

    @statement("3.1.1", "MQTT-3.1.2-11", "MQTT-3.1.2-13")
    def test_will_qos_without_will_flag_closes(self) -> None:
        """Without a will its QoS is 0."""
        for qos in (1, 2, 3):
            self.assert_connect_closes(p.connect(flags=0x02 | qos << 3), f"QoS {qos}")

    @statement("3.1.1", "MQTT-3.1.2-11", "MQTT-3.1.2-15")
    def test_will_retain_without_will_flag_closes(self) -> None:
        """Without a will nothing of it is retained."""
        self.assert_connect_closes(p.connect(flags=0x22))

    @statement("3.1.1", "MQTT-3.1.2-14", "MQTT-3.1.4-1")
    def test_will_qos_3_closes(self) -> None:
        """A will has QoS 0, 1 or 2."""
        self.assert_connect_closes(p.connect(will=("t", b"m", 3)))

    @statement("3.1.1", "MQTT-3.1.2-18")
    def test_user_name_without_its_flag_closes(self) -> None:
        """User Name Flag 0 means that there is no user name."""
        self.assert_connect_closes(p.connect(username="u", flags=0x02))

    @statement("3.1.1", "MQTT-3.1.2-19")
    def test_user_name_flag_without_user_name_closes(self) -> None:
        """User Name Flag 1 promises a user name."""
        self.assert_connect_closes(p.connect(flags=0x82))

    @statement("3.1.1", "MQTT-3.1.2-20")
    def test_password_without_its_flag_closes(self) -> None:
        """Password Flag 0 means that there is no password."""
        self.assert_connect_closes(p.connect(username="u", password="p", flags=0x82))

    @statement("3.1.1", "MQTT-3.1.2-21")
    def test_password_flag_without_password_closes(self) -> None:
        """Password Flag 1 promises a password."""
        self.assert_connect_closes(p.connect(username="u", flags=0xC2))

    @statement("3.1.1", "MQTT-3.1.2-22")
    def test_password_without_user_name_closes(self) -> None:
        """3.1.1 has no password without a user name."""
        self.assert_connect_closes(p.connect(password="p"))

    @statement("3.1.1", "MQTT-3.1.2-19", "MQTT-3.1.2-21")
    def test_user_name_and_password_are_read(self) -> None:
        """User name alone, both, empty ones, and a password of any bytes."""
        for username, password in (("u", None), ("u", b"p"), ("", b""), ("ü", b"\0\xff" * 100)):
            client = self.connect("c", username=username, password=password)
            self.assert_works(client)


class PayloadFields(ProtocolCase):
    @statement("3.1.1", "MQTT-3.1.3-1", "MQTT-3.1.2-9")
    def test_fields_come_in_their_order(self) -> None:
        """Client id, will topic, will message, user name, password: the will shows the order."""
        subscriber = self.subscriber("id", "will-topic", "will-message", "user")
        client = self.connect(
            "id", will=("will-topic", b"will-message"), username="user", password="secret"
        )
        client.abort()
        subscriber.expect("PUBLISH", topic="will-topic", payload=b"will-message")
        subscriber.expect_nothing()

    @statement("3.1.1", "MQTT-3.1.3-3", "MQTT-3.1.4-1")
    def test_connect_without_client_id_field_closes(self) -> None:
        """The client id has to be there, even if it is empty."""
        first, body = p.split(p.connect(""))
        self.assert_connect_closes(p.frame(first, body[:-2]))
        self.assert_connect_closes(p.frame(first, body[:-1]))

    @statement("3.1.1", "MQTT-3.1.4-1")
    def test_connect_that_ends_early_closes(self) -> None:
        """Wherever a CONNECT is cut short of its fields, the answer is the same."""
        first, body = p.split(p.connect("id", will=("t", b"m"), username="u", password="p"))
        for end in range(len(body)):
            client = self.open()
            client.send(p.frame(first, body[:end]))
            with self.about(f"cut after {end} bytes"):
                client.expect_closed()

    @statement("3.1.1", "MQTT-3.1.4-1")
    def test_connect_with_bytes_behind_its_fields_closes(self) -> None:
        """What no flag announces does not belong there."""
        for packet in (p.connect("id"), p.connect("id", username="u", password="p")):
            first, body = p.split(packet)
            self.assert_connect_closes(p.frame(first, body + p.utf8("more")))


class Connack(ProtocolCase):
    @statement("3.1.1", "MQTT-3.1.4-4", "MQTT-3.2.0-1")
    def test_accepted_connect_is_answered_by_code_0(self) -> None:
        """CONNACK with code 0, first of all and alone."""
        client = self.open()
        client.send(p.connect("c"))
        connack = client.expect("CONNACK", reason=0, session_present=False)
        self.assertEqual(b"\0\0", connack.body)
        client.expect_nothing()

    @statement("3.1.1", "MQTT-3.2.0-1")
    def test_connack_precedes_what_the_session_has_waiting(self) -> None:
        """Queued messages follow the CONNACK."""
        client = self.connect("c", clean=False)
        client.subscribe("t", 1)
        client.close()
        publisher = self.connect("pub")
        publisher.publish("t", b"1", qos=1)
        publisher.publish("t", b"2", qos=1)
        again = self.open()
        again.send(p.connect("c", clean=False))
        again.expect("CONNACK", reason=0, session_present=True)
        again.expect("PUBLISH", payload=b"1")
        again.expect("PUBLISH", payload=b"2")

    @statement("3.1.1", "MQTT-3.2.0-1")
    def test_client_need_not_wait_for_connack(self) -> None:
        """Packets sent right behind CONNECT are answered after the CONNACK, in order."""
        client = self.open()
        client.send(
            p.connect("c"), p.pingreq(), p.subscribe(1, ("t", 0)), p.publish("t", b"x", 1, 2)
        )
        client.expect("CONNACK", reason=0)
        client.expect("PINGRESP")
        client.expect("SUBACK", pid=1)
        client.take("PUBLISH", payload=b"x")
        client.take("PUBACK", pid=2)

    @statement("3.1.1", "MQTT-3.1.4-5")
    def test_nothing_behind_a_refused_connect_is_handled(self) -> None:
        """After a refusal the broker ignores the rest, even what came in the same read."""
        self.start(max_client_id_length=23)
        subscriber = self.subscriber("#")
        client = self.open()
        client.send(
            p.connect("x" * 24), p.publish("t", b"x", retain=True), p.subscribe(1, ("t", 0))
        )
        client.closed_after("CONNACK", reason=2)
        subscriber.expect_nothing()
        subscriber.subscribe("t")
        subscriber.expect_nothing()

    @statement("3.1.1", "MQTT-3.1.4-5")
    def test_will_of_a_refused_connect_is_never_published(self) -> None:
        """Whom the broker refuses has no will."""
        self.start(max_client_id_length=23)
        subscriber = self.subscriber("#")
        self.assert_refused(p.connect("x" * 24, will=("w", b"gone")), 2)
        subscriber.expect_nothing()

    @statement("3.1.1", "MQTT-3.2.2-4", "MQTT-3.2.2-5")
    def test_refusal_says_no_session_even_if_there_is_one(self) -> None:
        """A CONNACK with an error has Session Present 0 and is followed by the end."""
        self.start(versions=(4,))
        self.connect("c", clean=False).close()
        first, body = p.split(p.connect("c", clean=False))
        self.assert_refused(p.frame(first, body[:6] + b"\2" + body[7:]), 1)
        self.assertTrue(self.connect("c", clean=False).connack.session_present)

    @statement("3.1.1", "MQTT-3.2.2-5")
    def test_anonymous_client_is_refused_with_code_5_where_names_are_needed(self) -> None:
        """A listener without anonymous access answers "not authorised" and closes."""
        self.start(allow_anonymous=False)
        self.assert_refused(p.connect("c"), 5)

    def test_keep_alive_that_the_listener_does_not_allow_is_refused(self) -> None:
        """A 3.1.1 client cannot be given another keep alive, so it is refused with code 2."""
        self.start(max_keepalive_s=60, allow_keepalive_off=False)
        self.assert_works(self.connect("c", keepalive=60))
        self.assert_refused(p.connect("c", keepalive=61), 2)
        self.assert_refused(p.connect("c", keepalive=0), 2)
