"""paho-mqtt in MQTT 3.1, 3.1.1 and 5 over every transport it has."""

from collections.abc import Iterable
from typing import Any
from zlib import crc32

from paho.mqtt.packettypes import PacketTypes

from tests.system.case import HouseCase
from tests.system.paho import V5, V31, V311, Paho


class Flows:
    """What every version does over every transport."""

    version: int

    def client(self, **options: Any) -> Paho:
        raise NotImplementedError

    def test_each_qos(self: Any) -> None:
        """Messages of each QoS reach a subscriber in the order in which they were sent."""
        receiver, sender = self.client(), self.client()
        receiver.subscribe(self.topic + "/#", 2)
        for qos in (0, 1, 2):
            sender.publish(f"{self.topic}/{qos}", b"%d" % qos, qos)
        for qos in (0, 1, 2):
            message = receiver.receive()
            found = (message.topic, message.payload, message.qos, message.retain)
            self.assertEqual((f"{self.topic}/{qos}", b"%d" % qos, qos, False), found)

    def test_a_large_message(self: Any) -> None:
        """Many reads and writes on both sides, and many frames and records on the way."""
        payload = bytes(range(256)) * 4096 * 3
        receiver, sender = self.client(), self.client()
        receiver.subscribe(self.topic, 1)
        sender.publish(self.topic, payload, 1)
        self.assertEqual(payload, receiver.receive().payload)

    def test_many_messages(self: Any) -> None:
        receiver, sender = self.client(), self.client()
        receiver.subscribe(self.topic, 2)
        payloads = [b"%d" % number for number in range(200)]
        for payload in payloads:
            sender.publish(self.topic, payload, 2)
        self.assertEqual(payloads, receiver.payloads(200))


def matrix() -> Iterable[tuple[str, dict[str, Any]]]:
    """A name and the options of a client for each version on each transport."""
    for version, name in ((V31, "V31"), (V311, "V311"), (V5, "V5")):
        for transport in ("Tcp", "Tcp6", "Unix", "Tls", "WebSocket", "SecureWebSocket"):
            if version != V31 or transport == "Tcp":
                yield name + transport, {"version": version, "way": transport}


class _Case(Flows, HouseCase):
    way: str
    version: int

    def name(self) -> str:
        # MQTT 3.1 allows 23 characters.
        self._clients += 1
        return f"{crc32(self.topic.encode()):x}-{self._clients}"

    def client(self, **options: Any) -> Paho:
        house = self.house
        ways: dict[str, tuple[Any, str, bool]] = {
            "Tcp": (("127.0.0.1", house.tcp), "tcp", False),
            "Tcp6": (("::1", house.tcp6), "tcp", False),
            "Unix": (house.unix, "unix", False),
            "Tls": (("localhost", house.tls), "tcp", True),
            "WebSocket": (("127.0.0.1", house.ws), "websockets", False),
            "SecureWebSocket": (("localhost", house.wss), "websockets", True),
        }
        if self.way == "Tcp6":
            self.need_ipv6()
        address, transport, secure = ways[self.way]
        tls = house.trust() if secure else None
        return Paho(self, address, self.name(), self.version, transport, tls, **options)


for _name, _options in matrix():
    globals()[f"{_name}Tests"] = type(
        f"{_name}Tests", (_Case,), {**_options, "__module__": __name__}
    )
del _Case


class V5PropertiesTests(HouseCase):
    """What MQTT 5 adds reaches a client library as it was sent."""

    def client(self) -> Paho:
        return Paho(self, ("127.0.0.1", self.house.tcp), self.name(), V5)

    def test_request_and_response(self) -> None:
        asker, answerer = self.client(), self.client()
        answerer.subscribe(self.topic + "/ask", 1)
        asker.subscribe(self.topic + "/answer", 1)
        asker.publish(
            self.topic + "/ask",
            b"what?",
            1,
            ResponseTopic=self.topic + "/answer",
            CorrelationData=b"17",
            UserProperty=[("a", "1"), ("a", "2")],
            ContentType="text/plain",
            PayloadFormatIndicator=1,
        )
        asked: Any = answerer.receive().properties
        self.assertEqual([("a", "1"), ("a", "2")], asked.UserProperty)
        self.assertEqual(("text/plain", 1), (asked.ContentType, asked.PayloadFormatIndicator))
        answerer.publish(asked.ResponseTopic, b"that", 1, CorrelationData=asked.CorrelationData)
        answer: Any = asker.receive()
        self.assertEqual((b"that", b"17"), (answer.payload, answer.properties.CorrelationData))

    def test_a_topic_alias_of_the_client(self) -> None:
        receiver, sender = self.client(), self.client()
        receiver.subscribe(self.topic, 0)
        sender.publish(self.topic, b"1", TopicAlias=1)
        sender.publish("", b"2", TopicAlias=1)
        topics = [(m.topic, m.payload) for m in (receiver.receive(), receiver.receive())]
        self.assertEqual([(self.topic, b"1"), (self.topic, b"2")], topics)

    def test_a_retained_message(self) -> None:
        sender = self.client()
        sender.publish(self.topic, b"kept", 1, retain=True, MessageExpiryInterval=1000)
        receiver = self.client()
        receiver.subscribe(self.topic, 1)
        message: Any = receiver.receive()
        self.assertEqual((b"kept", True), (message.payload, message.retain))
        self.assertLessEqual(message.properties.MessageExpiryInterval, 1000)
        self.assertEqual(PacketTypes.PUBLISH, message.properties.packetType)
        sender.publish(self.topic, b"", 1, retain=True)

    def test_a_shared_subscription_divides_messages(self) -> None:
        members = [self.client() for _ in range(3)]
        for member in members:
            member.subscribe(f"$share/group/{self.topic}", 1)
        sender = self.client()
        payloads = {b"%d" % number for number in range(30)}
        for payload in sorted(payloads):
            sender.publish(self.topic, payload, 1)
        shares = [member.payloads(10) for member in members]
        self.assertEqual(payloads, set().union(*shares))
