"""MQTT 3.1.1, sections 3.1.2.5 to 3.1.2.7 and 3.14.4: the will, when it goes out and how."""

from tests.conformance.cases import ProtocolCase
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.client import RawClient


class WhenTheWillIsPublished(ProtocolCase):
    def mortal(self, **connect: object) -> RawClient:
        return self.connect("mortal", will=("w", b"gone"), **connect)

    @statement("3.1.1", "MQTT-3.1.2-8")
    def test_end_of_the_connection(self) -> None:
        """A connection that ends without DISCONNECT has its will published."""
        for reset in (False, True):
            watcher = self.subscriber("w", client_id=f"watcher {reset}")
            self.mortal().abort(reset=reset)
            watcher.expect("PUBLISH", topic="w", payload=b"gone", qos=0, retain=False)
            watcher.expect_nothing()

    @statement("3.1.1", "MQTT-3.1.2-8")
    def test_not_before_the_connection_ends(self) -> None:
        """The will waits as long as the client lives."""
        watcher = self.subscriber("w")
        client = self.mortal()
        client.publish("w", b"alive", qos=1)
        watcher.expect("PUBLISH", payload=b"alive")
        self.advance(3600)
        watcher.expect_nothing()

    @statement("3.1.1", "MQTT-3.1.2-8", "MQTT-4.8.0-1")
    def test_protocol_violation(self) -> None:
        """A client that is cut off for a violation has not said DISCONNECT."""
        watcher = self.subscriber("w")
        for packet in (p.frame(0xF0), p.publish("", b""), p.connect("mortal"), p.frame(0x36)):
            client = self.mortal()
            client.send(packet)
            client.expect_closed()
            watcher.expect("PUBLISH", payload=b"gone")
        watcher.expect_nothing()

    @statement("3.1.1", "MQTT-3.1.2-8", "MQTT-3.1.2-24")
    def test_keep_alive_runs_out(self) -> None:
        """Silence is treated as a network failure, with the will."""
        watcher = self.subscriber("w")
        client = self.mortal(keepalive=10)
        self.advance(16)
        client.expect_closed()
        watcher.expect("PUBLISH", payload=b"gone")
        watcher.expect_nothing()

    @statement("3.1.1", "MQTT-3.1.2-8", "MQTT-3.1.4-2")
    def test_takeover(self) -> None:
        """The loser of a takeover did not say DISCONNECT: its will goes out, not the winner's."""
        watcher = self.subscriber("w", "w2")
        self.mortal()
        client = self.connect("mortal", will=("w2", b"second"))
        watcher.expect("PUBLISH", topic="w", payload=b"gone")
        watcher.expect_nothing()
        client.abort()
        watcher.expect("PUBLISH", topic="w2", payload=b"second")

    @statement("3.1.1", "MQTT-3.1.2-8", "MQTT-3.14.1-1")
    def test_disconnect_with_wrong_flags_is_no_disconnect(self) -> None:
        """A malformed DISCONNECT is a violation: the connection ends and the will goes out."""
        watcher = self.subscriber("w")
        for flags in range(1, 16):
            client = self.mortal()
            client.send(p.frame(0xE0 | flags))
            client.expect_closed()
            watcher.expect("PUBLISH", payload=b"gone")

    def test_disconnect_behind_a_violation_comes_too_late(self) -> None:
        """What stands behind a malformed packet is not read."""
        watcher = self.subscriber("w")
        client = self.mortal()
        client.send(p.frame(0xF0), p.disconnect())
        client.expect_closed()
        watcher.expect("PUBLISH", payload=b"gone")


class WhenItIsNot(ProtocolCase):
    @statement("3.1.1", "MQTT-3.14.4-3", "MQTT-3.1.2-8", "MQTT-3.1.2-10")
    def test_disconnect_removes_the_will(self) -> None:
        """A client that leaves in order has no will published, and the broker closes."""
        watcher = self.subscriber("w")
        client = self.connect("c", will=("w", b"gone"))
        client.send(p.disconnect())
        client.expect_closed()
        self.advance(3600)
        watcher.expect_nothing()

    @statement("3.1.1", "MQTT-3.14.4-3")
    def test_packets_behind_disconnect_are_not_handled(self) -> None:
        """DISCONNECT is the last word."""
        watcher = self.subscriber("#")
        client = self.connect("c", will=("w", b"gone"))
        client.send(p.disconnect(), p.publish("t", b"late"), p.pingreq())
        client.expect_closed()
        watcher.expect_nothing()

    def test_garbage_behind_disconnect_does_not_bring_the_will_back(self) -> None:
        """What follows DISCONNECT is not read, so it cannot be a violation."""
        watcher = self.subscriber("#")
        client = self.connect("c", will=("w", b"gone"))
        client.send(p.disconnect(), p.frame(0xF0))
        client.expect_closed()
        watcher.expect_nothing()

    @statement("3.1.1", "MQTT-3.1.2-12")
    def test_without_will_flag_there_is_none(self) -> None:
        """Will Flag 0: the connection ends silently, also in a session that had a will before."""
        watcher = self.subscriber("#")
        self.connect("c", clean=False, will=("w", b"gone")).close()
        self.connect("c", clean=False).abort()
        watcher.expect_nothing()

    @statement("3.1.1", "MQTT-3.1.2-10")
    def test_will_is_published_once(self) -> None:
        """A published will is used up: the next connection of the session does not repeat it."""
        watcher = self.subscriber("w")
        self.connect("c", clean=False, will=("w", b"gone")).abort()
        watcher.expect("PUBLISH", payload=b"gone")
        self.connect("c", clean=False).abort()
        self.connect("c", clean=True).abort()
        self.advance(3600)
        watcher.expect_nothing()

    @statement("3.1.1", "MQTT-3.1.2-8")
    def test_each_connect_brings_its_own_will(self) -> None:
        """The will of the latest CONNECT counts."""
        watcher = self.subscriber("#")
        self.connect("c", clean=False, will=("a", b"first")).close()
        self.connect("c", clean=False, will=("b", b"second")).abort()
        watcher.expect("PUBLISH", topic="b", payload=b"second")
        watcher.expect_nothing()


class HowItIsPublished(ProtocolCase):
    @statement("3.1.1", "MQTT-3.1.2-9", "MQTT-3.8.4-6")
    def test_with_its_qos(self) -> None:
        """The will has the QoS of CONNECT, up to what the subscriber was granted."""
        watchers = [self.subscriber("w", qos=qos, client_id=f"w{qos}") for qos in (0, 1, 2)]
        for will_qos in (0, 1, 2):
            self.connect("c", will=("w", b"gone", will_qos)).abort()
            for granted, watcher in enumerate(watchers):
                packet = watcher.expect("PUBLISH", payload=b"gone", qos=min(will_qos, granted))
                watcher.acknowledge(packet)

    @statement("3.1.1", "MQTT-3.1.2-16")
    def test_without_retain(self) -> None:
        """Will Retain 0: an ordinary message, nothing is kept, nothing kept is touched."""
        publisher = self.connect("pub")
        self.connect("c", will=("w", b"gone", 1, False)).abort()
        late = self.connect("late")
        late.subscribe("w")
        late.expect_nothing()
        publisher.publish("w", b"older", retain=True)
        self.connect("c", will=("w", b"gone", 1, False)).abort()
        late.drain()
        late.subscribe("w")
        late.expect("PUBLISH", payload=b"older", retain=True)

    @statement("3.1.1", "MQTT-3.1.2-17")
    def test_with_retain(self) -> None:
        """Will Retain 1: live to who is there, retained for who comes later."""
        watcher = self.subscriber("w", qos=2)
        self.connect("c", will=("w", b"gone", 2, True)).abort()
        watcher.expect("PUBLISH", payload=b"gone", qos=2, retain=False)
        late = self.connect("late")
        late.subscribe("w", 2)
        late.expect("PUBLISH", payload=b"gone", qos=2, retain=True)

    @statement("3.1.1", "MQTT-3.3.1-10")
    def test_empty_with_retain_erases(self) -> None:
        """An empty retained will removes the retained message of its topic."""
        self.connect("pub").publish("w", b"older", retain=True)
        watcher = self.connect("watcher")
        watcher.subscribe("w")
        watcher.expect("PUBLISH", payload=b"older")
        self.connect("c", will=("w", b"", 0, True)).abort()
        watcher.expect("PUBLISH", payload=b"")
        watcher.subscribe("w")
        watcher.expect_nothing()

    def test_any_bytes(self) -> None:
        """The will message is binary, up to 65535 bytes."""
        watcher = self.subscriber("w")
        for message in (b"", b"\0\xff\xfe", b"x" * 65535):
            self.connect("c", will=("w", message)).abort()
            watcher.expect("PUBLISH", payload=message)

    def test_to_the_session_of_its_own_client(self) -> None:
        """A kept session that subscribes to its own will finds it on return."""
        client = self.connect("c", clean=False, will=("w", b"gone", 1))
        client.subscribe("w", 1)
        client.abort()
        again = self.connect("c", clean=False)
        again.expect("PUBLISH", payload=b"gone")

    @statement("3.1.1", "MQTT-4.7.1-1", "MQTT-4.7.3-1")
    def test_will_topic_is_a_topic_name(self) -> None:
        """A will topic with a wildcard, or none at all, is no CONNECT of 3.1.1."""
        for topic in ("w/+", "#", "w/#", "+", ""):
            self.assert_connect_closes(p.connect(will=(topic, b"")), f"will topic {topic!r}")
