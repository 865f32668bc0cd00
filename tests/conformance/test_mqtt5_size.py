"""MQTT 5: what the broker leaves out when a packet would outgrow the client's Maximum Packet Size.

CONNACK needs 16 bytes here, so a limit of 20 lets a client in and leaves no room for words.  Each
test first shows, where there is something to see, that the words are there without the limit.
"""

from typing import Any

from tests.conformance import mqtt5 as p5
from tests.conformance.mqtt5 import Mqtt5Case, Reason
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.client import RawClient
from tests.helpers.packets import Packet, Prop

SMALL = 20
WORDS = {Prop.REASON_STRING, Prop.USER_PROPERTY}


class SizeCase(Mqtt5Case):
    def small(self, size: int = SMALL) -> RawClient:
        return self.connect("small", props=[(Prop.MAXIMUM_PACKET_SIZE, size)])

    def assert_bare(self, packet: Packet | None, size: int = SMALL) -> None:
        """Within the limit, and without words."""
        assert packet is not None
        self.assertLessEqual(packet.size, size)
        self.assertEqual([], [key for key, _ in packet.props if key in WORDS])

    def reply(self, client: RawClient, data: bytes, type: str, **fields: Any) -> Packet:
        client.send(data)
        return client.expect(type, **fields)


class LeftOut(SizeCase):
    @statement("5", "MQTT-3.2.2-19", "MQTT-3.2.2-20", "MQTT-3.1.2-24")
    def test_connack(self) -> None:
        """A refusal says why only if there is room for it."""
        will = ("a/+", b"x")
        connack = self.refused(p5.connect(will=will), Reason.MALFORMED)
        self.assertTrue(connack.prop(Prop.REASON_STRING))
        packet = p5.connect(will=will, props=[(Prop.MAXIMUM_PACKET_SIZE, SMALL)])
        self.assert_bare(self.refused(packet, Reason.MALFORMED))

    @statement("5", "MQTT-3.2.2-19", "MQTT-3.1.2-24")
    def test_connack_to_a_connect_that_is_wrong_further_on(self) -> None:
        """The limit has been read by the time the mistake is met, and counts."""
        size = (Prop.MAXIMUM_PACKET_SIZE, SMALL)
        for packet in (
            p5.connect(b"\xff", props=[size]),
            p5.connect(will=("t", b"", 0, False, b"\x01"), props=[size]),
        ):
            with self.case(packet):
                self.assert_bare(self.refused(packet, Reason.MALFORMED))

    @statement("5", "MQTT-3.2.2-19", "MQTT-3.2.2-20", "MQTT-3.1.2-24")
    def test_accepting_connack(self) -> None:
        """It fits, too."""
        self.assert_bare(self.small().connack)

    @statement("5", "MQTT-3.4.2-2", "MQTT-3.4.2-3")
    def test_puback(self) -> None:
        """0x87 alone has to do."""
        data = p5.publish("$SYS/x", b"x", 1, 1)
        reason = Reason.NOT_AUTHORIZED
        puback = self.reply(self.connect(), data, "PUBACK", pid=1, reason=reason)
        self.assertTrue(puback.prop(Prop.REASON_STRING))
        self.assert_bare(self.reply(self.small(), data, "PUBACK", pid=1, reason=reason))

    @statement("5", "MQTT-3.5.2-2", "MQTT-3.5.2-3")
    def test_pubrec(self) -> None:
        """0x87 alone has to do."""
        data = p5.publish("$SYS/x", b"x", 2, 1)
        reason = Reason.NOT_AUTHORIZED
        pubrec = self.reply(self.connect(), data, "PUBREC", pid=1, reason=reason)
        self.assertTrue(pubrec.prop(Prop.REASON_STRING))
        self.assert_bare(self.reply(self.small(), data, "PUBREC", pid=1, reason=reason))

    @statement("5", "MQTT-3.6.2-2", "MQTT-3.6.2-3")
    def test_pubrel(self) -> None:
        """0x92 alone has to do."""
        data = p.pubrec(9)
        reason = Reason.PACKET_ID_NOT_FOUND
        pubrel = self.reply(self.connect(), data, "PUBREL", pid=9, reason=reason)
        self.assertTrue(pubrel.prop(Prop.REASON_STRING))
        self.assert_bare(self.reply(self.small(), data, "PUBREL", pid=9, reason=reason))

    @statement("5", "MQTT-3.7.2-2", "MQTT-3.7.2-3")
    def test_pubcomp(self) -> None:
        """0x92 alone has to do."""
        data = p.pubrel(9)
        reason = Reason.PACKET_ID_NOT_FOUND
        pubcomp = self.reply(self.connect(), data, "PUBCOMP", pid=9, reason=reason)
        self.assertTrue(pubcomp.prop(Prop.REASON_STRING))
        self.assert_bare(self.reply(self.small(), data, "PUBCOMP", pid=9, reason=reason))

    @statement("5", "MQTT-3.9.2-1", "MQTT-3.9.2-2")
    def test_suback(self) -> None:
        """The codes alone have to do."""
        self.start(max_subscriptions=1)
        data = p5.subscribe(1, ("a", 0), ("b", 0))
        reasons = [0, Reason.QUOTA_EXCEEDED]
        suback = self.reply(self.connect(), data, "SUBACK", pid=1, reasons=reasons)
        self.assertTrue(suback.prop(Prop.REASON_STRING))
        self.assert_bare(self.reply(self.small(), data, "SUBACK", pid=1, reasons=reasons))

    @statement("5", "MQTT-3.11.2-1", "MQTT-3.11.2-2")
    def test_unsuback(self) -> None:
        """The codes alone have to do."""
        data = p5.unsubscribe(1, "a", "b")
        unsuback = self.reply(self.small(), data, "UNSUBACK", pid=1, reasons=[0x11, 0x11])
        self.assert_bare(unsuback)

    @statement("5", "MQTT-3.14.2-3", "MQTT-3.14.2-4")
    def test_disconnect(self) -> None:
        """The reason code alone has to do."""
        data = p.frame(0x36, b"\0\1t\0\1\0")
        disconnect = self.cut_off(self.connect(), data, Reason.MALFORMED)
        self.assertTrue(disconnect.prop(Prop.REASON_STRING))
        self.assert_bare(self.cut_off(self.small(), data, Reason.MALFORMED))

    def test_words_that_just_fit_are_said(self) -> None:
        """The limit is that of the whole packet, to the byte."""
        data = p5.publish("$SYS/x", b"x", 1, 1)
        size = self.reply(self.connect(), data, "PUBACK").size
        self.assertEqual(size, self.reply(self.small(size), data, "PUBACK").size)
        self.assert_bare(self.reply(self.small(size - 1), data, "PUBACK"), size - 1)


class TooLargeAllTheSame(SizeCase):
    """Answers that cannot be made smaller: the client does not get them."""

    @statement("5", "MQTT-3.1.2-24")
    def test_connack_that_does_not_fit(self) -> None:
        """A client with room for nothing is refused or just closed, by CONNACK or not at all."""
        for size in range(1, 16):
            with self.case(size):
                client = self.open()
                client.send(p5.connect(props=[(Prop.MAXIMUM_PACKET_SIZE, size)]))
                for packet in client.drain():
                    self.assertEqual("CONNACK", packet.type)
                    self.assertEqual(Reason.TOO_LARGE, packet.reason)
                    self.assertLessEqual(packet.size, size)
                client.expect_closed()

    @statement("5", "MQTT-3.1.2-24", "MQTT-3.14.0-1")
    def test_a_client_without_room_for_connack_leaves_nothing_behind(self) -> None:
        """It was never connected: no session, no will, and the one before it stays."""
        watcher = self.watcher()
        self.resume("same").close()
        client = self.open()
        props = [(Prop.MAXIMUM_PACKET_SIZE, 4)]
        client.send(p5.connect("same", clean=True, will=("will", b"x"), props=props))
        client.expect_closed()
        watcher.expect_nothing()
        connack = self.resume("same").connack
        assert connack is not None
        self.assertTrue(connack.session_present)

    @statement("5", "MQTT-3.1.2-24")
    def test_suback_and_unsuback_that_do_not_fit(self) -> None:
        """One code for each filter is needed: where there is no room the broker gives up."""
        filters = [f"filter/{number}" for number in range(50)]
        for data in (
            p5.subscribe(1, *((filter, 0) for filter in filters)),
            p5.unsubscribe(1, *filters),
        ):
            with self.case(data[0]):
                self.assert_bare(self.cut_off(self.small(), data, Reason.TOO_LARGE))
