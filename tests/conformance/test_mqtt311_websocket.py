"""MQTT 3.1.1, chapter 6: MQTT over WebSocket."""

from tests.conformance.cases import ProtocolCase
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers import websocket as ws
from tests.helpers.client import RawClient


class WebSocketCase(ProtocolCase):
    def connect_ws(self, client_id: str = "ws", **connect: object) -> RawClient:
        client = self.open_ws()
        client.send(p.connect(client_id, **connect))
        client.connack = client.expect("CONNACK", reason=0)
        return client

    def send_raw(self, client: RawClient, *frames: bytes) -> None:
        """Frames built by hand, all in one write."""
        assert isinstance(client.sock, ws.WebSocket)
        client.sock.send_raw(b"".join(frames))

    def close_code(self, client: RawClient) -> int | None:
        assert isinstance(client.sock, ws.WebSocket)
        return client.sock.close_code


class Handshake(WebSocketCase):
    @statement("3.1.1", "MQTT-6.0.0-4")
    def test_subprotocol_mqtt_is_selected(self) -> None:
        """The broker answers with "mqtt", wherever it stands in the offer."""
        for offer in (("mqtt",), ("chat", "mqtt"), ("mqtt", "mqttv3.1")):
            status, fields, _ = self.upgrade(subprotocols=offer)
            self.assertEqual(101, status)
            self.assertEqual("mqtt", fields["sec-websocket-protocol"])
            self.assertEqual(ws.accept_key(), fields["sec-websocket-accept"])

    def test_subprotocol_of_mqtt_3_1_is_selected_where_it_is_the_only_one(self) -> None:
        """Old clients offer "mqttv3.1"."""
        status, fields, _ = self.upgrade(subprotocols=("mqttv3.1",))
        self.assertEqual((101, "mqttv3.1"), (status, fields["sec-websocket-protocol"]))

    @statement("3.1.1", "MQTT-6.0.0-4")
    def test_client_without_the_subprotocol_is_refused(self) -> None:
        """No MQTT on offer, no WebSocket."""
        for offer in ((), ("chat",), ("MQTT5",)):
            status, _, client = self.upgrade(subprotocols=offer)
            self.assertGreaterEqual(status, 400)
            client.expect_closed()


class Frames(WebSocketCase):
    @statement("3.1.1", "MQTT-6.0.0-1")
    def test_text_frame_closes(self) -> None:
        """MQTT comes in binary frames; a text frame ends the connection, even with good bytes."""
        client = self.connect_ws()
        self.send_raw(client, ws.frame(ws.TEXT, p.pingreq()))
        client.expect_closed()
        self.assertEqual(1003, self.close_code(client))

    @statement("3.1.1", "MQTT-6.0.0-1")
    def test_text_frame_first_closes(self) -> None:
        """Also instead of CONNECT."""
        client = self.open_ws()
        self.send_raw(client, ws.frame(ws.TEXT, p.connect()))
        client.expect_closed()

    @statement("3.1.1", "MQTT-6.0.0-1")
    def test_broker_sends_binary_frames(self) -> None:
        """Every answer comes in them; the test's WebSocket takes no other data frame."""
        client = self.connect_ws()
        client.subscribe("t", 2, granted=2)
        for qos in (0, 1, 2):
            client.publish("t", b"x" * 70_000, qos=qos)
            client.acknowledge(client.expect("PUBLISH", qos=qos, payload=b"x" * 70_000))

    @statement("3.1.1", "MQTT-6.0.0-2")
    def test_several_packets_in_one_frame(self) -> None:
        """A frame is no packet."""
        client = self.open_ws()
        client.send(p.connect(), p.subscribe(1, ("t", 0)), p.publish("t", b"x"), p.pingreq())
        client.expect("CONNACK", reason=0)
        client.expect("SUBACK", pid=1)
        client.expect("PUBLISH", payload=b"x")
        client.expect("PINGRESP")

    @statement("3.1.1", "MQTT-6.0.0-2")
    def test_packet_over_several_frames(self) -> None:
        """A packet may begin and end anywhere: here each byte has a frame of its own."""
        client = self.open_ws()
        client.send_slowly(p.connect() + p.subscribe(1, ("t", 0)) + p.publish("t", b"slow"))
        client.expect("CONNACK", reason=0)
        client.expect("SUBACK", pid=1)
        client.expect("PUBLISH", payload=b"slow")

    @statement("3.1.1", "MQTT-6.0.0-2")
    def test_frames_cut_across_packets(self) -> None:
        """The end of one packet and the start of the next share a frame."""
        client = self.connect_ws()
        client.subscribe("t")
        stream = b"".join(p.publish("t", str(number)) for number in range(10))
        frames = [stream[at : at + 4] for at in range(0, len(stream), 4)]
        self.send_raw(client, *(ws.frame(ws.BINARY, piece) for piece in frames))
        for number in range(10):
            client.expect("PUBLISH", payload=str(number).encode())

    @statement("3.1.1", "MQTT-6.0.0-2")
    def test_fragmented_message(self) -> None:
        """Continuation frames carry on, an empty one and a ping in between do not disturb."""
        client = self.connect_ws()
        client.subscribe("t")
        packet = p.publish("t", b"fragments")
        self.send_raw(
            client,
            ws.frame(ws.BINARY, packet[:3], fin=False),
            ws.frame(ws.CONTINUATION, b"", fin=False),
            ws.frame(ws.PING, b"hello"),
            ws.frame(ws.CONTINUATION, packet[3:7], fin=False),
            ws.frame(ws.CONTINUATION, packet[7:]),
        )
        client.expect("PUBLISH", payload=b"fragments")
        assert isinstance(client.sock, ws.WebSocket)
        self.assertEqual([b"hello"], client.sock.pongs)

    def test_unmasked_frame_closes(self) -> None:
        """RFC 6455, 5.1: a client masks."""
        client = self.connect_ws()
        self.send_raw(client, ws.frame(ws.BINARY, p.pingreq(), mask=False))
        client.expect_closed()
        self.assertEqual(1002, self.close_code(client))

    def test_wrong_frames_close(self) -> None:
        """Reserved bits, reserved opcodes, a stray continuation, a control frame too long."""
        for wrong in (
            ws.frame(ws.BINARY, b"", rsv=4),
            ws.frame(3, b""),
            ws.frame(11, b""),
            ws.frame(ws.CONTINUATION, b""),
            ws.frame(ws.PING, b"x" * 126),
            ws.frame(ws.PING, b"x", fin=False),
        ):
            client = self.connect_ws()
            self.send_raw(client, wrong)
            client.expect_closed()
            self.assertEqual(1002, self.close_code(client))


class Conversations(WebSocketCase):
    def test_message_between_websocket_and_tcp(self) -> None:
        """One hub, two ways to it."""
        client, other = self.connect_ws(), self.subscriber("to/tcp", qos=2)
        client.subscribe("to/ws", 2, granted=2)
        client.publish("to/tcp", b"hello", qos=2)
        other.acknowledge(other.expect("PUBLISH", payload=b"hello", qos=2))
        other.publish("to/ws", b"hello", qos=2)
        client.acknowledge(client.expect("PUBLISH", payload=b"hello", qos=2))

    def test_close_frame_is_answered(self) -> None:
        """The closing handshake of WebSocket, after DISCONNECT."""
        client = self.connect_ws(will=("w", b"gone"))
        watcher = self.subscriber("w")
        self.send_raw(
            client,
            ws.frame(ws.BINARY, p.disconnect()),
            ws.frame(ws.CLOSE, (1000).to_bytes(2, "big")),
        )
        client.expect_closed()
        self.assertEqual(1000, self.close_code(client))
        watcher.expect_nothing()

    @statement("3.1.1", "MQTT-3.1.2-8")
    def test_close_without_disconnect_publishes_the_will(self) -> None:
        """A close frame is no DISCONNECT, and neither is the end of the socket."""
        watcher = self.subscriber("w")
        client = self.connect_ws(will=("w", b"frame"))
        self.send_raw(client, ws.frame(ws.CLOSE, b""))
        client.expect_closed()
        watcher.expect("PUBLISH", payload=b"frame")
        self.connect_ws(will=("w", b"socket")).abort()
        watcher.expect("PUBLISH", payload=b"socket")

    def test_packets_before_a_close_frame_count(self) -> None:
        """A PUBLISH and the close frame in one read: it is handled, then the connection ends."""
        watcher = self.subscriber("t", "w")
        client = self.connect_ws(will=("w", b"gone"))
        self.send_raw(
            client,
            ws.frame(ws.BINARY, p.publish("t", b"last")),
            ws.frame(ws.CLOSE, (1001).to_bytes(2, "big")),
        )
        client.expect_closed()
        watcher.expect("PUBLISH", topic="t", payload=b"last")
        watcher.expect("PUBLISH", topic="w", payload=b"gone")

    def test_packets_before_a_wrong_frame_count(self) -> None:
        """What a client said in sound frames does not depend on how TCP cut the stream."""
        watcher = self.subscriber("t", "w")
        client = self.connect_ws(will=("w", b"gone"))
        self.send_raw(
            client,
            ws.frame(ws.BINARY, p.publish("t", b"last")),
            ws.frame(ws.BINARY, p.disconnect()),
            ws.frame(ws.TEXT, b"hello"),
        )
        client.expect_closed()
        watcher.expect("PUBLISH", topic="t", payload=b"last")
        watcher.expect_nothing()

    @statement("3.1.1", "MQTT-4.8.0-1")
    def test_protocol_violation_closes(self) -> None:
        """Over WebSocket as well."""
        client = self.connect_ws()
        client.send(p.frame(0xF0))
        client.expect_closed()

    def test_takeover_between_tcp_and_websocket(self) -> None:
        """A client id is one client, whatever it comes by."""
        old = self.connect("same")
        new = self.connect_ws("same")
        old.expect_closed()
        self.connect("same")
        new.expect_closed()
