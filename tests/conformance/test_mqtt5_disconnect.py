"""MQTT 5, chapters 3.14 and 4.13: DISCONNECT both ways, and how errors end a connection."""

from tests.conformance import mqtt5 as p5
from tests.conformance.mqtt5 import Mqtt5Case, Reason
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.packets import Prop

CLIENT_REASONS = {
    *(0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99),
}
SERVER_REASONS = {
    *(0x00, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90, 0x93, 0x94, 0x95),
    *(0x96, 0x97, 0x98, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2),
}


class FromTheClient(Mqtt5Case):
    @statement("5", "MQTT-3.14.1-1", "MQTT-2.1.3-1")
    def test_reserved_flags_are_answered_with_0x81(self) -> None:
        """The broker notices before it lets the client go."""
        for flags in range(1, 16):
            with self.case(flags):
                self.cut_off(self.connect(), p.frame(0xE0 | flags), Reason.MALFORMED)

    @statement("5", "MQTT-3.14.2-1")
    def test_reasons_of_the_list_end_the_connection_quietly(self) -> None:
        """The broker closes and does not answer, with properties and without."""
        for reason in sorted(CLIENT_REASONS):
            with self.case(hex(reason)):
                client = self.connect()
                client.send(p.disconnect(reason, [(Prop.REASON_STRING, "enough")]))
                client.expect_closed()

    @statement("5", "MQTT-3.14.2-1", "MQTT-4.13.1-1")
    def test_other_reasons_are_a_protocol_error(self) -> None:
        """Those that only a server uses, and those that nobody does."""
        for reason in sorted(set(range(256)) - CLIENT_REASONS):
            with self.case(hex(reason)):
                self.cut_off(self.connect(), p.disconnect(reason), Reason.PROTOCOL_ERROR)

    @statement("5", "MQTT-3.14.4-1")
    def test_what_stands_behind_a_disconnect_is_ignored(self) -> None:
        """The client may send nothing more; if it does, nothing happens."""
        watcher = self.watcher()
        client = self.connect()
        client.send(p.disconnect(), p5.publish("t", b"x", 1, 1), p.pingreq())
        client.expect_closed()
        watcher.expect_nothing()

    @statement("5", "MQTT-3.14.4-1")
    def test_what_stands_before_a_disconnect_is_handled(self) -> None:
        """A client may publish and leave in one breath."""
        watcher = self.watcher()
        client = self.connect()
        client.send(p5.publish("t", b"x", 0), p.disconnect())
        client.expect_closed()
        watcher.expect("PUBLISH", payload=b"x")

    @statement("5", "MQTT-3.14.4-3")
    def test_will_is_forgotten_at_0x00(self) -> None:
        """It is neither published nor kept for later."""
        watcher = self.watcher()
        client = self.resume(will=("will", b"gone"))
        client.send(p.disconnect(0))
        client.expect_closed()
        self.resume().abort()
        watcher.expect_nothing()

    @statement("5", "MQTT-3.14.4-2")
    def test_the_broker_closes_after_the_disconnect_of_a_client(self) -> None:
        """It need not wait for the client to do it."""
        client = self.connect()
        client.send(p.disconnect())
        client.expect_closed()

    def test_truncated_or_overlong_disconnect_is_malformed(self) -> None:
        """Every byte has its place."""
        for body in (b"\0\1", b"\0\0x", b"\0\5\x11\0\0\0", b"\0\3\x1f\0\1"):
            with self.case(body):
                self.cut_off(self.connect(), p.frame(0xE0, body), Reason.MALFORMED)


class FromTheBroker(Mqtt5Case):
    @statement("5", "MQTT-3.14.0-1", "MQTT-4.13.2-1")
    def test_no_disconnect_before_connack(self) -> None:
        """A CONNECT that is refused gets CONNACK or nothing."""
        for packet in (
            p5.connect(flags=0x01),
            p5.connect(b"\xff"),
            p5.connect(name="XXXX"),
            p.frame(0x10, b""),
            p.frame(0x10, b"", b"\xff\xff\xff\xff"),
            p.pingreq(),
            b"GET / HTTP/1.1\r\n\r\n",
            bytes(100),
        ):
            with self.case(packet):
                self.closed_at_connect(packet, Reason.MALFORMED, Reason.VERSION)

    @statement("5", "MQTT-3.14.2-1", "MQTT-3.14.2-2", "MQTT-4.13.1-1", "MQTT-4.13.2-1")
    def test_errors_end_with_a_reason_of_the_list_and_a_close(self) -> None:
        """Whatever the mistake was; there is never a Session Expiry Interval in it."""
        alias = [(Prop.TOPIC_ALIAS, 65535)]
        for packet, reason in (
            (p.frame(0x36, b"\0\1t\0\1\0"), Reason.MALFORMED),
            (p5.connect(), Reason.PROTOCOL_ERROR),
            (p5.publish("a/+", b"x"), Reason.MALFORMED),
            (p5.publish("t", b"x", props=alias), Reason.ALIAS_INVALID),
            (p5.subscribe(1), Reason.PROTOCOL_ERROR),
        ):
            with self.case(packet):
                disconnect = self.cut_off(self.connect(), packet, reason)
                self.assertIn(disconnect.reason, SERVER_REASONS)
                self.assertIsNone(disconnect.prop(Prop.SESSION_EXPIRY))

    @statement("5", "MQTT-3.14.4-1", "MQTT-3.14.4-2")
    def test_nothing_follows_the_disconnect(self) -> None:
        """Packets behind the mistake are neither handled nor answered."""
        watcher = self.watcher()
        client = self.connect()
        client.send(
            p5.publish("t", b"before"),
            p.frame(0x36, b"\0\1t\0\1\0"),
            p5.publish("t", b"after"),
            p.pingreq(),
            p5.subscribe(1, ("t", 0)),
        )
        client.closed_after("DISCONNECT", reason=Reason.MALFORMED)
        watcher.expect("PUBLISH", payload=b"before")
        watcher.expect_nothing()

    def test_a_client_that_lets_its_queue_run_over(self) -> None:
        """Where the listener says so it is disconnected, with 0x97."""
        self.start(max_queued_messages=2, queue_full="disconnect")
        client = self.connect(props=[(Prop.RECEIVE_MAXIMUM, 1)])
        client.subscribe("t", 1)
        sender = self.connect("sender")
        for number in range(4):
            sender.publish("t", str(number), 1)
        client.closed_after("PUBLISH", "DISCONNECT", reason=Reason.QUOTA_EXCEEDED)

    def test_a_broker_that_stops_says_so(self) -> None:
        """DISCONNECT 0x8B to every client."""
        clients = [self.connect(f"c{number}") for number in range(3)]
        self.hub.shut_down(self.clock.now)
        for client in clients:
            client.closed_after("DISCONNECT", reason=Reason.SHUTTING_DOWN)

    @statement("5", "MQTT-3.14.4-1")
    def test_a_client_taken_over_gets_nothing_more(self) -> None:
        """DISCONNECT is the last it hears, even if messages were coming its way."""
        old = self.resume("same")
        old.subscribe("t", 1)
        new = self.resume("same")
        self.connect("sender").publish("t", "x", 1)
        old.closed_after("DISCONNECT", reason=Reason.TAKEN_OVER)
        new.expect("PUBLISH", payload=b"x")

    @statement("5", "MQTT-4.13.1-1")
    def test_an_error_of_one_client_leaves_the_others_alone(self) -> None:
        """Its own session, if it has one, goes on too."""
        other = self.connect("other")
        other.subscribe("t")
        client = self.resume()
        client.subscribe("t", 1)
        self.cut_off(client, p.frame(0x00), Reason.MALFORMED)
        other.publish("t", "x", 1)
        other.expect("PUBLISH")
        client = self.resume()
        assert client.connack is not None
        self.assertTrue(client.connack.session_present)
        client.expect("PUBLISH", payload=b"x")
