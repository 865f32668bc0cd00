"""MQTT 3.1, where it differs from 3.1.1: MQIsdp, level 3, flags that are not used.

The older specification numbers no statements; section names are given instead.
"""

from tests.conformance.cases import ProtocolCase
from tests.helpers import packets as p


class Case31(ProtocolCase):
    version = 3


class Connect(Case31):
    def test_mqisdp_level_3_is_accepted(self) -> None:
        """3.1 CONNECT: the protocol name is MQIsdp, the version 3."""
        client = self.open(3)
        client.send(p.connect("c", version=3))
        connack = client.expect("CONNACK", reason=0)
        self.assertEqual(b"\0\0", connack.body)
        self.assert_works(client)

    def test_connack_has_no_session_present(self) -> None:
        """3.2 CONNACK: the first byte is reserved, also for a resumed session."""
        client = self.connect("c", 3, clean=False)
        client.subscribe("t", 1)
        client.close()
        client = self.connect("c", 3, clean=False)
        self.assertEqual(b"\0\0", client.connack.body)
        client.publish("t", b"x", qos=1)
        client.expect("PUBLISH", payload=b"x")

    def test_name_of_3_1_1_with_level_3_is_refused(self) -> None:
        """3.1: the pair has to fit."""
        self.assert_refused(p.connect("c", version=3, name="MQTT"), 1)

    def test_level_that_the_listener_does_not_allow_is_refused(self) -> None:
        """3.2 CONNACK: code 1, unacceptable protocol version."""
        self.start(versions=(4, 5))
        self.assert_refused(p.connect("c", version=3), 1)

    def test_client_ids_are_accepted_however_long(self) -> None:
        """3.1 CONNECT allows 1 to 23 characters; many of its clients never kept to that."""
        for client_id in ("c", "x" * 23, "ü" * 23, "🛰" * 24, "a/b c", "x" * 1000):
            self.assert_works(self.connect(client_id, 3))

    def test_longer_client_id_is_refused_with_code_2_where_the_listener_wants_it(self) -> None:
        """3.1 CONNECT: the server answers more than 23 characters with "identifier rejected"."""
        self.start(max_client_id_length_v31=23)
        for client_id in ("x" * 23, "ü" * 23):
            self.assert_works(self.connect(client_id, 3))
        for client_id in ("x" * 24, "ü" * 24, "x" * 1000):
            self.assert_refused(p.connect(client_id, version=3), 2)

    def test_flags_in_the_first_byte_are_not_used(self) -> None:
        """3.1 CONNECT, fixed header; 0x16 is how TLS begins."""
        _, body = p.split(p.connect("c", version=3))
        for flags in {*range(16)} - {6}:
            with self.about(flags):
                client = self.open(3)
                client.send_slowly(p.frame(0x10 | flags, body))
                client.expect("CONNACK", reason=0)
                self.assert_works(client)

    def test_reserved_connect_flag_is_not_used(self) -> None:
        """3.1 CONNECT flags: "bit 0 is not used"."""
        self.assert_works(self.connect("c", 3, flags=0x03))

    def test_will_qos_and_retain_are_disregarded_without_a_will(self) -> None:
        """3.1 CONNECT flags; they have a meaning only if the will flag is set."""
        for flags in (0x0A, 0x1A, 0x22, 0x3A):
            with self.about(flags):
                self.assert_works(self.connect("c", 3, flags=flags))

    def test_empty_client_id_is_refused_with_code_2(self) -> None:
        """3.1 has no anonymous ids, with or without clean session."""
        for clean in (True, False):
            self.assert_refused(p.connect("", version=3, clean=clean), 2)

    def test_user_name_flag_without_user_name_is_accepted(self) -> None:
        """3.1 CONNECT, user name: the remaining length takes precedence over the flag."""
        for flags in (0x82, 0xC2):
            client = self.connect("c", 3, flags=flags)
            self.assert_works(client)

    def test_password_flag_without_password_is_accepted(self) -> None:
        """3.1 CONNECT, password: the same."""
        self.assert_works(self.connect("c", 3, username="u", flags=0xC2))

    def test_half_a_user_name_closes(self) -> None:
        """The field may be missing, not broken."""
        first, body = p.split(p.connect("c", version=3, username="user"))
        for cut in (1, 3, 5):
            self.assert_connect_closes(p.frame(first, body[:-cut]))

    def test_user_name_and_password(self) -> None:
        """3.1 CONNECT: both flags, both fields."""
        self.assert_works(self.connect("c", 3, username="u", password=b"p"))

    def test_password_without_user_name_closes(self) -> None:
        """3.1: "It is not valid to supply a password without supplying a user name"."""
        self.assert_connect_closes(p.connect("c", version=3, password="p"))

    def test_malformed_connect_closes(self) -> None:
        """Cut short, too long, will QoS 3, ill-formed strings."""
        first, body = p.split(p.connect("id", version=3, will=("t", b"m")))
        for end in range(len(body)):
            client = self.open(3)
            client.send(p.frame(first, body[:end]))
            with self.about(f"cut after {end} bytes"):
                client.expect_closed()
        self.assert_connect_closes(p.frame(first, body + b"\0"))
        self.assert_connect_closes(p.connect("c", version=3, will=("t", b"m", 3)))
        self.assert_connect_closes(p.connect(b"\xff", version=3))


class Conversation(Case31):
    def test_every_qos_both_ways(self) -> None:
        """The flows are those of 3.1.1."""
        client = self.subscriber("t/+", qos=2)
        for qos in (0, 1, 2):
            client.publish("t/x", b"x", qos=qos)
            client.acknowledge(client.expect("PUBLISH", topic="t/x", qos=qos))
        client.unsubscribe("t/+")
        client.publish("t/x", b"x", qos=1)
        client.expect_nothing()

    def test_dup_on_resent_requests_is_accepted(self) -> None:
        """2.1 fixed header: DUP may be set on SUBSCRIBE, UNSUBSCRIBE and PUBREL, too."""
        client = self.connect("c", 3)
        body = p.split(p.subscribe(1, ("t", 2)))[1]
        client.send(p.frame(0x8A, body))
        client.expect("SUBACK", pid=1, reasons=[2])
        client.send(p.publish("t", b"x", qos=2, pid=5))
        client.take("PUBREC", pid=5)
        client.send(p.frame(0x6A, p.u16(5)))
        client.take("PUBCOMP", pid=5)
        client.acknowledge(client.take("PUBLISH", payload=b"x"))
        client.send(p.frame(0xAA, p.split(p.unsubscribe(2, "t"))[1]))
        client.expect("UNSUBACK", pid=2)
        self.assert_works(client)

    def test_flags_that_are_not_used_are_ignored(self) -> None:
        """2.1 fixed header: QoS, DUP and RETAIN mean something in PUBLISH, DUP on what repeats."""
        client = self.connect("c", 3)
        for flags in range(16):
            with self.about(flags):
                client.send(p.frame(0x80 | flags, p.split(p.subscribe(1, ("t", 2)))[1]))
                client.expect("SUBACK", pid=1, reasons=[2])
                client.publish("t", b"x", qos=1)
                pid = client.expect("PUBLISH").pid or 0
                client.send(p.frame(0x40 | flags, p.u16(pid)))
                client.send(p.publish("t", b"x", qos=2, pid=5))
                client.take("PUBREC", pid=5)
                pid = client.take("PUBLISH", qos=2).pid or 0
                client.send(p.frame(0x60 | flags, p.u16(5)))
                client.expect("PUBCOMP", pid=5)
                client.send(p.frame(0x50 | flags, p.u16(pid)))
                client.expect("PUBREL", pid=pid)
                client.send(p.frame(0x70 | flags, p.u16(pid)))
                client.send(p.frame(0xA0 | flags, p.split(p.unsubscribe(2, "t"))[1]))
                client.expect("UNSUBACK", pid=2)
                client.send(p.frame(0xC0 | flags))
                client.expect("PINGRESP")
        client = self.connect("c", 3, will=("w", b"x"))
        watcher = self.subscriber("w", client_id="watcher")
        client.expect_closed_after_sending(p.frame(0xEF))
        watcher.expect_nothing()

    def test_dup_on_qos_0_is_ignored(self) -> None:
        """2.1 fixed header: DUP applies where QoS is greater than 0."""
        client = self.subscriber("t")
        client.send(p.frame(0x38, p.split(p.publish("t", b"x"))[1]))
        client.expect("PUBLISH", payload=b"x", dup=False)

    def test_upper_bits_of_a_requested_qos_are_ignored(self) -> None:
        """3.8 SUBSCRIBE: "the upper 6 bits of this byte are not used"."""
        client = self.connect("c", 3)
        client.send(p.subscribe(1, ("t", 0xFD)))
        client.expect("SUBACK", pid=1, reasons=[1])
        client.publish("t", b"mine")
        client.expect("PUBLISH", payload=b"mine")

    def test_will(self) -> None:
        """3.1 CONNECT, will: QoS and retain as in 3.1.1."""
        watcher = self.subscriber("w", qos=2)
        self.connect("c", 3, will=("w", b"gone", 2, True)).abort()
        watcher.acknowledge(watcher.expect("PUBLISH", payload=b"gone", qos=2, retain=False))
        watcher.subscribe("w", 1)
        watcher.expect("PUBLISH", payload=b"gone", qos=1, retain=True)
        client = self.connect("c", 3, will=("w", b"again"))
        client.close()
        watcher.expect_nothing()

    def test_keep_alive(self) -> None:
        """3.1 keep alive timer: one and a half times, as if the client had disconnected."""
        client = self.connect("c", 3, keepalive=10)
        self.advance(14)
        client.expect_nothing()
        self.advance(2)
        client.expect_closed()

    def test_clean_session_and_resumption(self) -> None:
        """3.1 clean session flag."""
        client = self.connect("c", 3, clean=False)
        client.subscribe("t", 1)
        client.close()
        publisher = self.connect("pub", 3)
        publisher.publish("t", b"queued", qos=1)
        client = self.connect("c", 3, clean=False)
        pid = client.expect("PUBLISH", payload=b"queued", dup=False).pid
        client.abort()
        client = self.connect("c", 3, clean=False)
        client.expect("PUBLISH", payload=b"queued", dup=True, pid=pid)
        client.abort()
        self.connect("c", 3, clean=True).close()
        self.connect("c", 3, clean=False).expect_nothing()

    def test_violations_close(self) -> None:
        """QoS 3, wildcards in a topic, packet id 0, reserved types, a second CONNECT."""
        for packet in (
            p.publish("t", b"", qos=3, pid=1),
            p.publish("a/+", b""),
            p.publish("a/#", b""),
            p.publish("t", b"", qos=1, pid=0),
            p.subscribe(0, ("t", 0)),
            p.subscribe(1),
            p.subscribe(1, ("t", 3)),
            p.frame(0x00),
            p.frame(0xF0),
            p.frame(0x20, b"\0\0"),
            p.connect("c", version=3),
        ):
            self.assert_closes(packet)

    def test_all_versions_share_the_topics(self) -> None:
        """A message passes from each version to each."""
        clients = [self.connect(f"v{version}", version) for version in (3, 4, 5)]
        for client in clients:
            client.subscribe("t", 2, granted=2)
        for sender in clients:
            sender.publish("t", b"x", qos=2)
            for client in clients:
                client.acknowledge(client.take("PUBLISH", payload=b"x", qos=2))

    def test_takeover_between_versions(self) -> None:
        """A client id is one client, whatever it speaks, and the session stays."""
        old = self.connect("same", 3, clean=False)
        old.subscribe("t", 1)
        new = self.connect("same", 4, clean=False)
        old.expect_closed()
        self.assertTrue(new.connack.session_present)
        new.publish("t", b"x", qos=1)
        new.expect("PUBLISH", payload=b"x")
