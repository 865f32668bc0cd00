"""mosquitto_pub, mosquitto_sub and mosquitto_rr over TCP, TLS, a Unix socket and IPv6."""

import signal
import subprocess
from typing import ClassVar

from tests.system import mosquitto
from tests.system.case import HouseCase
from tests.system.mosquitto import Subscriber
from tests.system.paho import V5, Paho

VERSIONS = ("mqttv31", "mqttv311", "mqttv5")


class MosquittoCase(HouseCase):
    way: ClassVar[str] = "tcp"

    def setUp(self) -> None:
        mosquitto.need()
        super().setUp()

    def to(self, way: str = "") -> list[str]:
        """The arguments that say where the broker is."""
        house = self.house
        authority = str(house.directory / "ca.crt")
        return {
            "tcp": ["-h", "127.0.0.1", "-p", str(house.tcp)],
            "six": ["-h", "::1", "-p", str(house.tcp6)],
            "unix": ["--unix", house.unix],
            "tls": ["-h", "localhost", "-p", str(house.tls), "--cafile", authority],
        }[way or self.way]

    def publish(self, *arguments: str) -> None:
        mosquitto.call(self, "pub", *self.to(), *arguments)


class Transports:
    """The same on each transport."""

    def test_each_version_and_qos(self) -> None:
        for version in VERSIONS:
            topic = f"{self.topic}/{version}"
            subscriber = Subscriber(self, 3, *self.to(), "-V", version, "-t", topic, "-q", "2")
            for qos in ("0", "1", "2"):
                self.publish("-V", version, "-t", topic, "-q", qos, "-m", f"with {qos}")
            self.assertEqual(["with 0", "with 1", "with 2"], subscriber.lines())


class TcpTests(Transports, MosquittoCase):
    way = "tcp"


class Ipv6Tests(Transports, MosquittoCase):
    way = "six"

    def setUp(self) -> None:
        super().setUp()
        self.need_ipv6()


class UnixTests(Transports, MosquittoCase):
    way = "unix"


class TlsTests(Transports, MosquittoCase):
    way = "tls"

    def test_a_client_certificate_is_the_identity(self) -> None:
        self.house.trust("mosquitto-device")
        place = self.house.directory
        mosquitto.call(
            self,
            *("pub", "-h", "localhost", "-p", str(self.house.devices), "-t", self.topic),
            *("-q", "1", "-m", "hello", "--cafile", str(place / "ca.crt")),
            *("--cert", str(place / "mosquitto-device.crt")),
            *("--key", str(place / "mosquitto-device.key")),
        )
        self.logged("'mosquitto-device' connected from")


class UseTests(MosquittoCase):
    def test_a_persistent_session_keeps_messages(self) -> None:
        session = [*self.to(), "-i", self.name(), "-c", "-t", self.topic, "-q", "2"]
        mosquitto.call(self, "sub", *session, "-E")  # subscribes and leaves
        for number in range(5):
            self.publish("-t", self.topic, "-q", "2", "-m", str(number))
        kept = mosquitto.call(self, "sub", *session, "-C", "5", "-W", "30")
        self.assertEqual(list("01234"), kept.split())

    def test_a_retained_message_waits_for_subscribers(self) -> None:
        self.publish("-t", self.topic, "-r", "-q", "1", "-m", "kept")
        found = mosquitto.call(
            self, "sub", *self.to(), "-t", self.topic, "--retained-only", "-C", "1", "-W", "30"
        )
        self.assertEqual("kept\n", found)
        self.publish("-t", self.topic, "-r", "-n")

    def test_a_will_is_published_when_a_client_dies(self) -> None:
        heir = Subscriber(self, 1, *self.to(), "-t", self.topic + "/will", "-q", "1")
        will = ["--will-topic", self.topic + "/will", "--will-payload", "gone", "--will-qos", "1"]
        mortal = subprocess.Popen(
            ["mosquitto_sub", *self.to(), "-i", self.name(), "-t", self.topic, *will]
        )
        self.addCleanup(mortal.wait)
        self.addCleanup(mortal.kill)
        self.logged(f"'{self.topic}-1' connected")
        mortal.send_signal(signal.SIGKILL)
        self.assertEqual(["gone"], heir.lines())

    def test_messages_cross_transports_and_versions(self) -> None:
        self.need_ipv6()
        ways = ("tcp", "six", "unix", "tls")
        subscribers = [
            Subscriber(self, 4, *self.to(way), "-V", version, "-t", self.topic, "-q", "1")
            for way, version in zip(ways, (*VERSIONS, "mqttv311"), strict=True)
        ]
        for way in ways:
            version = "mqttv5" if way == "tls" else "mqttv311"
            mosquitto.call(
                self, "pub", *self.to(way), "-V", version, "-t", self.topic, "-q", "1", "-m", way
            )
        for subscriber in subscribers:
            self.assertEqual(list(ways), subscriber.lines())

    def test_mosquitto_rr_gets_its_answer(self) -> None:
        answerer = Paho(self, ("127.0.0.1", self.house.tcp), self.name(), V5)
        answerer.subscribe(self.topic + "/ask", 1)
        topics = ["-t", self.topic + "/ask", "-e", self.topic + "/answer"]
        asker = subprocess.Popen(
            ["mosquitto_rr", *self.to(), "-V", "mqttv5", *topics, "-m", "what?", "-W", "30"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        question = answerer.receive()
        self.assertEqual(b"what?", question.payload)
        answerer.publish(
            question.properties.ResponseTopic,
            b"that",
            1,
            CorrelationData=getattr(question.properties, "CorrelationData", b""),
        )
        output, _ = asker.communicate(timeout=mosquitto.PATIENCE_S)
        self.assertEqual(("that\n", 0), (output, asker.returncode))

    def test_the_broker_tells_about_itself(self) -> None:
        version = mosquitto.call(
            self, "sub", *self.to(), "-t", "$SYS/broker/version", "-C", "1", "-W", "30"
        )
        self.assertIn("mhub", version)
