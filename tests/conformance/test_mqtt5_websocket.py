"""MQTT 5, chapter 6: MQTT over WebSocket."""

from tests.conformance import mqtt5 as p5
from tests.conformance.mqtt5 import Mqtt5Case, Reason
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers import websocket as ws
from tests.helpers.client import RawClient
from tests.helpers.packets import Prop


class WebSocket(Mqtt5Case):
    def connect_ws(self, client_id: str = "ws") -> RawClient:
        client = self.open_ws()
        client.send(p5.connect(client_id))
        client.connack = client.expect("CONNACK", reason=0)
        return client

    def send_frames(self, client: RawClient, *frames: bytes) -> None:
        assert isinstance(client.sock, ws.WebSocket)
        client.sock.send_raw(b"".join(frames))

    @statement("5", "MQTT-6.0.0-4")
    def test_the_subprotocol_is_mqtt(self) -> None:
        """Returned wherever it stands in the offer; without it there is no WebSocket."""
        for offer in (["mqtt"], ["chat", "mqtt"]):
            status, fields, _ = self.upgrade(subprotocols=offer)
            self.assertEqual((101, "mqtt"), (status, fields["sec-websocket-protocol"]))
        for offer in ([], ["chat"], ["mqtt5"]):
            status, _, client = self.upgrade(subprotocols=offer)
            self.assertGreaterEqual(status, 400)
            client.expect_closed()

    @statement("5", "MQTT-6.0.0-1")
    def test_text_frames_close(self) -> None:
        """Instead of CONNECT and later; what stands in them is not handled."""
        watcher = self.watcher()
        client = self.open_ws()
        self.send_frames(client, ws.frame(ws.TEXT, p5.connect()))
        client.expect_closed()
        client = self.connect_ws()
        self.send_frames(client, ws.frame(ws.TEXT, p5.publish("t", b"x")))
        client.drain()
        client.expect_closed()
        watcher.expect_nothing()

    @statement("5", "MQTT-6.0.0-1")
    def test_the_broker_sends_binary_frames(self) -> None:
        """Every packet of a conversation; the test's WebSocket takes no other data frame."""
        client = self.connect_ws()
        client.subscribe("t", 2, granted=2)
        for qos in (0, 1, 2):
            client.publish("t", b"x" * 70_000, qos, props=[(Prop.CONTENT_TYPE, "c")])
            client.acknowledge(client.expect("PUBLISH", qos=qos, payload=b"x" * 70_000))

    @statement("5", "MQTT-6.0.0-2")
    def test_several_packets_in_one_frame(self) -> None:
        """A frame is no packet."""
        client = self.open_ws()
        client.send(p5.connect(), p5.subscribe(1, ("t", 0)), p5.publish("t", b"x"), p.pingreq())
        for type in ("CONNACK", "SUBACK", "PUBLISH", "PINGRESP"):
            client.expect(type)

    @statement("5", "MQTT-6.0.0-2")
    def test_packets_over_several_frames(self) -> None:
        """Every byte in a frame of its own, and fragments of one message."""
        client = self.open_ws()
        client.send_slowly(p5.connect() + p5.subscribe(1, ("t", 0)) + p5.publish("t", b"slow"))
        for type in ("CONNACK", "SUBACK", "PUBLISH"):
            client.expect(type)
        packet = p5.publish("t", b"fragments")
        self.send_frames(
            client,
            ws.frame(ws.BINARY, packet[:3], fin=False),
            ws.frame(ws.CONTINUATION, packet[3:]),
        )
        client.expect("PUBLISH", payload=b"fragments")

    @statement("5", "MQTT-4.13.1-1", "MQTT-3.14.4-2")
    def test_errors_end_with_a_reason(self) -> None:
        """DISCONNECT goes out before the WebSocket closes."""
        client = self.connect_ws()
        self.cut_off(client, p.frame(0x36, b"\0\1t\0\1\0"), Reason.MALFORMED)

    @statement("5", "MQTT-3.1.4-3")
    def test_take_over_between_tcp_and_websocket(self) -> None:
        """A client id is one client, whatever it comes by."""
        old = self.connect("same")
        new = self.connect_ws("same")
        old.closed_after("DISCONNECT", reason=Reason.TAKEN_OVER)
        self.connect("same")
        new.closed_after("DISCONNECT", reason=Reason.TAKEN_OVER)
