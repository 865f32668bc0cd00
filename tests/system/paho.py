"""paho-mqtt with its callbacks turned into waiting: what a call asked for has come when it returns.

Version 2 of the library knows no AUTH packet: enhanced authentication is tested with `raw`.
"""

import queue
import ssl
import threading
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from twisted.trial.unittest import SynchronousTestCase

PATIENCE_S = 30.0

V31 = mqtt.MQTTv31
V311 = mqtt.MQTTv311
V5 = mqtt.MQTTv5


def properties(packet: int, **values: Any) -> Properties:
    made = Properties(packet)
    for name, value in values.items():
        setattr(made, name, value)
    return made


class Paho:
    """A connected client; the test's cleanup disconnects it."""

    def __init__(
        self,
        case: SynchronousTestCase,
        address: tuple[str, int] | str,
        client_id: str,
        version: int = V311,
        transport: str = "tcp",
        tls: ssl.SSLContext | None = None,
        clean: bool = True,
        expiry_s: int = 0,
        keepalive_s: int = 60,
        username: str | None = None,
        password: str = "secret",
    ) -> None:
        self._case = case
        self._version = version
        self._acks: dict[int, queue.Queue[list[ReasonCode]]] = {}
        self._lock = threading.Lock()
        self.messages: queue.Queue[mqtt.MQTTMessage] = queue.Queue()
        self._connected: queue.Queue[tuple[ReasonCode, bool]] = queue.Queue()
        self._gone: queue.Queue[ReasonCode] = queue.Queue()
        self._client = client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2,
            client_id,
            clean_session=None if version == V5 else clean,
            protocol=version,
            transport=transport,
            reconnect_on_failure=False,
        )
        if transport == "websockets":
            client.ws_set_options(path="/mqtt")
        if tls is not None:
            client.tls_set_context(tls)
        if username is not None:
            client.username_pw_set(username, password)
        client.on_connect = lambda c, u, flags, reason, p: self._connected.put(
            (reason, flags.session_present)
        )
        client.on_disconnect = lambda c, u, flags, reason, p: self._gone.put(reason)
        client.on_message = lambda c, u, message: self.messages.put(message)
        client.on_subscribe = lambda c, u, mid, reasons, p: self._ack(mid).put(reasons)
        client.on_unsubscribe = lambda c, u, mid, reasons, p: self._ack(mid).put(reasons)
        host, port = (address, 0) if isinstance(address, str) else address
        options: dict[str, Any] = {}
        if version == V5:
            options["clean_start"] = clean
            if expiry_s:
                options["properties"] = properties(
                    PacketTypes.CONNECT, SessionExpiryInterval=expiry_s
                )
        client.connect(host, port or 1, keepalive_s, **options)
        client.loop_start()
        case.addCleanup(self.stop)
        reason, self.session_present = self._connected.get(timeout=PATIENCE_S)
        case.assertEqual("Success", str(reason))

    def _ack(self, mid: int) -> "queue.Queue[list[ReasonCode]]":
        """It may come before the call that asked for it has returned."""
        with self._lock:
            return self._acks.setdefault(mid, queue.Queue())

    def subscribe(self, topic_filter: str, qos: int = 0) -> None:
        result, mid = self._client.subscribe(topic_filter, qos)
        self._case.assertEqual(mqtt.MQTT_ERR_SUCCESS, result)
        assert mid is not None
        granted = self._ack(mid).get(timeout=PATIENCE_S)
        self._case.assertEqual([qos], [reason.value for reason in granted])

    def unsubscribe(self, topic_filter: str) -> None:
        result, mid = self._client.unsubscribe(topic_filter)
        self._case.assertEqual(mqtt.MQTT_ERR_SUCCESS, result)
        assert mid is not None
        self._ack(mid).get(timeout=PATIENCE_S)

    def publish(
        self, topic: str, payload: bytes, qos: int = 0, retain: bool = False, **values: Any
    ) -> None:
        """Publish, and wait until the broker has the message; `values` are properties."""
        made = properties(PacketTypes.PUBLISH, **values) if values else None
        sent = self._client.publish(topic, payload, qos, retain, made)
        sent.wait_for_publish(PATIENCE_S)
        self._case.assertTrue(sent.is_published(), f"{topic} was not acknowledged")

    def receive(self) -> mqtt.MQTTMessage:
        return self.messages.get(timeout=PATIENCE_S)

    def payloads(self, count: int) -> list[bytes]:
        """The payloads of so many messages, and then no more for now."""
        found = [self.receive().payload for _ in range(count)]
        self._case.assertTrue(self.messages.empty())
        return found

    def wait_gone(self) -> str:
        """Wait for the end of the connection; why, in the words of the library."""
        return str(self._gone.get(timeout=PATIENCE_S))

    def stop(self) -> None:
        """Disconnect, if still connected."""
        self._client.disconnect()
        self._client.loop_stop()

    def vanish(self) -> None:
        """Lose the connection without a DISCONNECT."""
        sock = self._client.socket()
        assert sock is not None
        self._client.loop_stop()
        sock.close()
