"""Rights that are taken away from clients of a running broker, and from their stored sessions."""

from tests.helpers import packets
from tests.helpers.packets import Prop
from tests.system.process import Broker
from tests.system.raw import Raw
from tests.system.test_access import CONFIG, QUICK, AccessCase

KEPT = [(Prop.SESSION_EXPIRY, 3600)]


class RevocationTests(AccessCase):
    def begin(self) -> Broker:
        broker = self.run_broker()
        self.add("bob")
        self.add("alice", "--role", "admin")
        self.rules = {
            topic: self.grant("subscribe|receive", topic) for topic in ("plant/#", "yard/#")
        }
        return broker

    def grant(self, actions: str, topic: str) -> str:
        self.mhub("policy", "add", "user:bob", actions, topic)
        found: str = self.json("policy", "list", "--topic", topic)["rules"][0]["id"]
        return found

    def reader(self, broker: Broker, present: bool) -> Raw:
        raw = Raw(("127.0.0.1", broker.port), 5)
        self.addCleanup(raw.sock.close)
        raw.send(packets.connect("r", 5, False, username="bob", password="pw-bob", props=KEPT))
        raw.expect("CONNACK", reason=0, session_present=present)
        return raw

    def publish(self, broker: Broker, *topics: str) -> None:
        writer = self.client(broker, "alice", "w")
        for topic in topics:
            writer.publish(topic, topic.encode(), 1, 1)
            self.assertIn(writer.expect("PUBACK").reason, (0, 0x10))
        writer.close()

    def test_a_connected_client(self) -> None:
        broker = self.begin()
        reader = self.reader(broker, False)
        for topic in self.rules:
            reader.subscribe(topic, 1)
        self.mhub("policy", "remove", self.rules["plant/#"])
        last = reader.expect("DISCONNECT", reason=0x87)
        self.assertIn("'plant/#'", last.prop(Prop.REASON_STRING))
        reader.expect_closed()
        self.publish(broker, "plant/1", "yard/1")
        again = self.reader(broker, True)
        packet = again.expect("PUBLISH", topic="yard/1")
        again.send(packets.puback(packet.pid or 0))
        again.send(packets.subscribe(1, ("plant/#", 1), version=5))
        again.expect("SUBACK", reasons=[0x87])
        broker.wait_for_log("'r' may not subscribe 'plant/#': not authorized")

    def test_what_waits_in_the_store_and_in_flight(self) -> None:
        """The rule goes while the client is away; with the broker running, and while it is down."""
        for is_down in (False, True):
            with self.subTest(is_down=is_down):
                self.setUp()
                broker = self.begin()
                reader = self.reader(broker, False)
                for topic in self.rules:
                    reader.subscribe(topic, 1)
                self.publish(broker, "plant/1", "yard/1")
                for topic in ("plant/1", "yard/1"):  # in flight from now on
                    reader.expect("PUBLISH", topic=topic)
                reader.close()
                self.publish(broker, "plant/2", "yard/2")
                if is_down:
                    broker.stop()
                self.mhub("policy", "remove", self.rules["plant/#"])
                if is_down:
                    broker = self.again()
                again = self.reader(broker, True)
                for topic in ("yard/1", "yard/2"):
                    packet = again.expect("PUBLISH", topic=topic)
                    again.send(packets.puback(packet.pid or 0))
                self.publish(broker, "plant/3", "yard/3")
                # Who came back before the review was through it is told then.
                packet = again.receive()
                assert packet is not None
                if packet.type == "DISCONNECT":
                    self.assertIn("'plant/#'", packet.prop(Prop.REASON_STRING))
                    again = self.reader(broker, True)
                    packet = again.expect("PUBLISH")
                self.assertEqual(packet.topic, "yard/3")

    def test_a_deleted_user_has_no_session_any_more(self) -> None:
        broker = self.begin()
        reader = self.reader(broker, False)
        reader.subscribe("yard/#", 1)
        reader.close()
        self.publish(broker, "yard/1")
        broker.stop()
        self.mhub("user", "delete", "bob")
        broker = self.again()
        self.add("bob")
        self.grant("subscribe|receive", "yard/#")
        self.reader(broker, False)

    def test_mqtt_3_is_disconnected_for_a_denied_publish(self) -> None:
        self.configure(CONFIG + 'denied_publish = "disconnect"\n' + QUICK)
        broker = self.begin()
        raw = self.client(broker, "bob", "b", 4)
        raw.publish("plant/1", b"x", 1, 1)
        raw.expect_closed()
        broker.wait_for_log("not authorized to publish to 'plant/1'")
