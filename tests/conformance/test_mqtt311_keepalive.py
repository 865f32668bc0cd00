"""MQTT 3.1.1, sections 3.1.2.10, 3.12 and 3.14: keep alive, PINGREQ and DISCONNECT."""

from tests.conformance.cases import ProtocolCase
from tests.conformance.statements import statement
from tests.helpers import packets as p


class KeepAlive(ProtocolCase):
    @statement("3.1.1", "MQTT-3.1.2-24")
    def test_silence_for_one_and_a_half_intervals_closes(self) -> None:
        """Nothing within 1.5 times the keep alive: the client is cut off, not before."""
        client = self.connect(keepalive=10)
        self.advance(14)
        client.expect_nothing()
        self.advance(2)
        client.expect_closed()

    @statement("3.1.1", "MQTT-3.1.2-24")
    def test_every_packet_counts_as_a_sign_of_life(self) -> None:
        """Not only PINGREQ keeps a connection."""
        client = self.connect(keepalive=10)
        for packet in (
            p.pingreq(),
            p.publish("t", b""),
            p.publish("t", b"", qos=1, pid=1),
            p.publish("t", b"", qos=2, pid=2),
            p.pubrel(2),
            p.subscribe(1, ("a", 0)),
            p.unsubscribe(1, "a"),
        ):
            self.advance(12)
            client.send(packet)
        self.advance(12)
        client.drain()
        self.assert_works(client)

    @statement("3.1.1", "MQTT-3.1.2-24")
    def test_what_the_broker_sends_does_not_count(self) -> None:
        """Deliveries to a silent client do not keep it alive."""
        publisher = self.connect("pub")
        client = self.connect("c", keepalive=10)
        client.subscribe("t")
        for _ in range(4):
            publisher.publish("t", b"x")
            client.expect("PUBLISH")
            self.advance(3.5)
        client.expect_nothing()
        self.advance(2)
        client.expect_closed()

    @statement("3.1.1", "MQTT-3.1.2-24")
    def test_part_of_a_packet_does_not_keep_alive_for_ever(self) -> None:
        """A packet counts, a byte of it now and then is not one."""
        client = self.connect(keepalive=10)
        for byte in p.publish("t", b"x" * 10)[:5]:
            client.send(bytes([byte]))
            self.advance(4)
        client.expect_closed()

    def test_keep_alive_zero_is_off(self) -> None:
        """Keep alive 0: no silence is too long."""
        client = self.connect(keepalive=0)
        self.advance(30 * 86400)
        self.assert_works(client)

    def test_longest_keep_alive(self) -> None:
        """65535 seconds are honoured, too."""
        client = self.connect(keepalive=65535)
        self.advance(98_000)
        client.expect_nothing()
        self.advance(400)
        client.expect_closed()

    def test_each_client_has_its_own(self) -> None:
        """The one that is late goes, the others stay."""
        short, long = self.connect("short", keepalive=2), self.connect("long", keepalive=100)
        self.advance(4)
        short.expect_closed()
        self.assert_works(long)

    def test_session_survives_the_keep_alive(self) -> None:
        """It is like a network failure: the session stays and resends."""
        client = self.connect("c", clean=False, keepalive=10)
        client.subscribe("t", 1)
        client.publish("t", b"x", qos=1)
        client.expect("PUBLISH", dup=False)
        self.advance(16)
        client.expect_closed()
        again = self.connect("c", clean=False)
        self.assertTrue(again.connack.session_present)
        again.expect("PUBLISH", payload=b"x", dup=True)


class Ping(ProtocolCase):
    @statement("3.1.1", "MQTT-3.12.4-1")
    def test_pingreq_is_answered(self) -> None:
        """One PINGRESP for each PINGREQ."""
        client = self.connect()
        client.send(p.pingreq())
        self.assertEqual(b"", client.expect("PINGRESP").body)
        client.send(p.pingreq() * 3)
        self.assertEqual(["PINGRESP"] * 3, [packet.type for packet in client.drain()])


class Disconnect(ProtocolCase):
    @statement("3.1.1", "MQTT-3.14.1-1", "MQTT-4.8.0-1")
    def test_reserved_bits_close(self) -> None:
        """DISCONNECT has no flags."""
        for flags in range(1, 16):
            self.assert_closes(p.frame(0xE0 | flags))

    def test_broker_closes_after_disconnect(self) -> None:
        """The broker closes if the client did not, and sends nothing more."""
        client = self.connect()
        client.subscribe("t")
        client.send(p.disconnect())
        client.expect_closed()

    def test_answers_before_disconnect_arrive(self) -> None:
        """What was asked in the same breath as DISCONNECT is still answered."""
        client = self.connect()
        client.send(p.publish("t", b"x", qos=1, pid=1), p.pingreq(), p.disconnect())
        client.closed_after("PUBACK", "PINGRESP")
