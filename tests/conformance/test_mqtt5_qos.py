"""MQTT 5, chapters 4.2 to 4.6: the three qualities of service, redelivery and order."""

from tests.conformance import mqtt5 as p5
from tests.conformance.mqtt5 import Mqtt5Case, Reason
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.client import RawClient
from tests.helpers.packets import Packet, Prop


def pid_of(packet: Packet) -> int:
    assert packet.pid is not None
    return packet.pid


class QosCase(Mqtt5Case):
    def subscriber(self, qos: int) -> RawClient:
        """A client with a session to keep, subscribed to "t"."""
        client = self.resume("subscriber")
        client.subscribe("t", qos)
        return client

    def publish(self, qos: int, payload: str = "x", **args: object) -> None:
        self.connect("publisher").publish("t", payload, qos, **args)  # type: ignore[arg-type]


class Transport(Mqtt5Case):
    @statement("5", "MQTT-4.2-1")
    def test_tcp_carries_everything_in_order(self) -> None:
        """A message of a megabyte and a thousand small ones, byte for byte."""
        watcher = self.watcher(qos=0)
        client = self.connect()
        large = bytes(range(256)) * 4096
        client.publish("t", large)
        watcher.expect("PUBLISH", payload=large)
        client.send(b"".join(p5.publish("t", str(number)) for number in range(1000)))
        for number in range(1000):
            watcher.expect("PUBLISH", payload=str(number).encode())

    @statement("5", "MQTT-4.2-1")
    def test_packets_in_pieces(self) -> None:
        """How the stream is cut does not matter."""
        client = self.open()
        client.send_slowly(
            p5.connect()
            + p5.subscribe(1, ("t", 1))
            + p5.publish("t", b"x", 1, 2, props=[(Prop.CONTENT_TYPE, "c")])
            + p.pingreq()
        )
        types = [packet.type for packet in client.drain()]
        self.assertCountEqual(["CONNACK", "SUBACK", "PUBLISH", "PUBACK", "PINGRESP"], types)


class AtMostOnce(QosCase):
    @statement("5", "MQTT-4.3.1-1", "MQTT-2.2.1-2")
    def test_qos_0_is_sent_once_and_forgotten(self) -> None:
        """QoS 0, DUP 0, no packet id, no second time."""
        client = self.subscriber(0)
        self.publish(0)
        client.expect("PUBLISH", qos=0, dup=False, pid=None)
        client.abort()
        self.resume("subscriber").expect_nothing()


class AtLeastOnce(QosCase):
    @statement("5", "MQTT-4.3.2-1", "MQTT-4.3.2-2")
    def test_sender_takes_a_free_id_with_dup_0(self) -> None:
        """For each message its own."""
        client = self.subscriber(1)
        for _ in range(3):
            self.publish(1)
        ids = [pid_of(client.expect("PUBLISH", qos=1, dup=False)) for _ in range(3)]
        self.assertEqual(3, len(set(ids)))

    @statement("5", "MQTT-4.3.2-3", "MQTT-4.4.0-1", "MQTT-2.2.1-4")
    def test_sender_keeps_the_message_until_puback(self) -> None:
        """Unacknowledged: sent again with its id on the next connection, each time."""
        client = self.subscriber(1)
        self.publish(1, "one")
        self.publish(1, "two")
        one, two = client.expect("PUBLISH"), client.expect("PUBLISH")
        client.send(p.puback(pid_of(one)))
        for _ in range(2):
            client.abort()
            client = self.resume("subscriber")
            client.expect("PUBLISH", pid=two.pid, payload=b"two", qos=1, dup=True)
            client.expect_nothing()
        client.send(p.puback(pid_of(two)))
        client.abort()
        self.resume("subscriber").expect_nothing()

    @statement("5", "MQTT-4.3.2-4", "MQTT-2.2.1-5")
    def test_receiver_answers_with_puback(self) -> None:
        """Once per PUBLISH, with its id."""
        client = self.connect()
        client.send(p5.publish("t", b"x", 1, 7))
        client.expect("PUBACK", pid=7)
        client.expect_nothing()

    @statement("5", "MQTT-4.3.2-5")
    def test_receiver_takes_the_same_id_for_a_new_message(self) -> None:
        """After PUBACK, even with DUP."""
        watcher = self.watcher()
        client = self.connect()
        for dup in (False, True, True):
            client.send(p5.publish("t", b"x", 1, 7, dup=dup))
            client.expect("PUBACK", pid=7)
            watcher.expect("PUBLISH", payload=b"x")

    @statement("5", "MQTT-4.4.0-2")
    def test_a_refusing_puback_settles_the_message(self) -> None:
        """It is not sent again."""
        client = self.subscriber(1)
        self.publish(1)
        client.send(p.puback(pid_of(client.expect("PUBLISH")), Reason.UNSPECIFIED))
        client.abort()
        self.resume("subscriber").expect_nothing()


class ExactlyOnceOut(QosCase):
    @statement("5", "MQTT-4.3.3-1", "MQTT-4.3.3-2")
    def test_sender_takes_a_free_id_with_dup_0(self) -> None:
        """For each message its own."""
        client = self.subscriber(2)
        for _ in range(3):
            self.publish(2)
        ids = [pid_of(client.expect("PUBLISH", qos=2, dup=False)) for _ in range(3)]
        self.assertEqual(3, len(set(ids)))

    @statement("5", "MQTT-4.3.3-3", "MQTT-4.4.0-1")
    def test_sender_keeps_the_message_until_pubrec(self) -> None:
        """Unacknowledged: the PUBLISH again, with its id and DUP."""
        client = self.subscriber(2)
        self.publish(2)
        pid = client.expect("PUBLISH").pid
        for _ in range(2):
            client.abort()
            client = self.resume("subscriber")
            client.expect("PUBLISH", pid=pid, dup=True, qos=2, payload=b"x")
            client.expect_nothing()

    @statement("5", "MQTT-4.3.3-4", "MQTT-4.3.3-5", "MQTT-4.3.3-6", "MQTT-4.4.0-1")
    def test_sender_keeps_pubrel_until_pubcomp(self) -> None:
        """After PUBREC it is PUBREL that is sent again, never the PUBLISH."""
        client = self.subscriber(2)
        self.publish(2)
        pid = pid_of(client.expect("PUBLISH"))
        client.send(p.pubrec(pid))
        client.expect("PUBREL", pid=pid, reason=0)
        for _ in range(2):
            client.abort()
            client = self.resume("subscriber")
            client.expect("PUBREL", pid=pid, reason=0)
            client.expect_nothing()
        client.send(p.pubcomp(pid))
        client.abort()
        self.resume("subscriber").expect_nothing()

    @statement("5", "MQTT-4.3.3-6")
    def test_a_second_pubrec_gets_a_second_pubrel(self) -> None:
        """On the same connection, and no PUBLISH."""
        client = self.subscriber(2)
        self.publish(2)
        pid = pid_of(client.expect("PUBLISH"))
        for _ in range(2):
            client.send(p.pubrec(pid))
            client.expect("PUBREL", pid=pid, reason=0)
        client.expect_nothing()

    @statement("5", "MQTT-4.4.0-2")
    def test_a_refusing_pubrec_settles_the_message(self) -> None:
        """No PUBREL, nothing again, and the id is free."""
        client = self.subscriber(2)
        self.publish(2)
        client.send(p.pubrec(pid_of(client.expect("PUBLISH")), Reason.QUOTA_EXCEEDED))
        client.expect_nothing()
        client.abort()
        self.resume("subscriber").expect_nothing()


class ExactlyOnceIn(QosCase):
    @statement("5", "MQTT-4.3.3-8", "MQTT-4.3.3-11", "MQTT-2.2.1-5")
    def test_receiver_answers_pubrec_and_pubcomp(self) -> None:
        """The handshake, and the message once."""
        watcher = self.watcher()
        client = self.connect()
        client.send(p5.publish("t", b"x", 2, 7))
        client.expect("PUBREC", pid=7, reason=0)
        client.send(p.pubrel(7))
        client.expect("PUBCOMP", pid=7, reason=0)
        watcher.expect("PUBLISH", payload=b"x")
        watcher.expect_nothing()

    @statement("5", "MQTT-4.3.3-10")
    def test_a_repeat_before_pubrel_is_not_passed_on(self) -> None:
        """PUBREC again, on this connection and on the next one of the session."""
        watcher = self.watcher()
        client = self.resume()
        for dup in (False, True, True):
            client.send(p5.publish("t", b"x", 2, 7, dup=dup))
            client.expect("PUBREC", pid=7)
        client.abort()
        client = self.resume()
        client.send(p5.publish("t", b"x", 2, 7, dup=True))
        client.expect("PUBREC", pid=7)
        client.send(p.pubrel(7))
        client.expect("PUBCOMP", pid=7)
        watcher.expect("PUBLISH", payload=b"x")
        watcher.expect_nothing()

    @statement("5", "MQTT-4.3.3-12")
    def test_after_pubcomp_the_id_stands_for_a_new_message(self) -> None:
        """Even with DUP."""
        watcher = self.watcher()
        client = self.connect()
        for dup in (False, True):
            client.publish("t", "x", 2, dup=dup, pid=7)
            watcher.expect("PUBLISH", payload=b"x")

    @statement("5", "MQTT-4.3.3-9")
    def test_after_a_refusal_the_id_stands_for_a_new_message(self) -> None:
        """PUBREC 0x87, then the same id for something that is allowed."""
        watcher = self.watcher()
        client = self.connect()
        client.send(p5.publish("$SYS/x", b"x", 2, 7))
        client.expect("PUBREC", pid=7, reason=Reason.NOT_AUTHORIZED)
        client.send(p5.publish("t", b"x", 2, 7))
        client.expect("PUBREC", pid=7, reason=0)
        watcher.expect("PUBLISH", topic="t")

    @statement("5", "MQTT-4.3.3-13")
    def test_the_handshake_is_completed_for_an_expired_message(self) -> None:
        """Message expiry does not touch the acknowledgements."""
        self.watcher()
        client = self.connect()
        client.send(p5.publish("t", b"x", 2, 7, props=[(Prop.MESSAGE_EXPIRY, 1)]))
        client.expect("PUBREC", pid=7)
        self.advance(10)
        client.send(p.pubrel(7))
        client.expect("PUBCOMP", pid=7, reason=0)

    def test_pubrel_after_a_reconnect_is_answered(self) -> None:
        """The packet id belongs to the session."""
        client = self.resume()
        client.send(p5.publish("t", b"x", 2, 7))
        client.expect("PUBREC", pid=7)
        client.abort()
        client = self.resume()
        client.send(p.pubrel(7))
        client.expect("PUBCOMP", pid=7, reason=0)


class Redelivery(QosCase):
    @statement("5", "MQTT-4.4.0-1")
    def test_nothing_is_sent_again_on_the_same_connection(self) -> None:
        """However long the client takes."""
        client = self.subscriber(2)
        for qos in (1, 2, 2):
            self.publish(qos)
        _, _, third = (client.expect("PUBLISH") for _ in range(3))
        client.send(p.pubrec(pid_of(third)))
        client.expect("PUBREL")
        self.advance(100_000)
        client.expect_nothing()

    @statement("5", "MQTT-4.4.0-1")
    def test_everything_pending_is_sent_again_in_order(self) -> None:
        """PUBREL, and PUBLISH in the order in which they first went out; then what waited."""
        client = self.subscriber(2)
        for number in range(6):
            self.publish(1 + number % 2, str(number))
        first = [client.expect("PUBLISH") for _ in range(6)]
        client.send(p.puback(pid_of(first[0])), p.pubrec(pid_of(first[3])))
        client.expect("PUBREL")
        client.abort()
        self.publish(1, "6")
        client = self.resume("subscriber")
        client.take("PUBREL", pid=first[3].pid, reason=0)
        for index in (1, 2, 4, 5):
            client.expect("PUBLISH", pid=first[index].pid, payload=str(index).encode(), dup=True)
        client.expect("PUBLISH", payload=b"6", dup=False)
        client.expect_nothing()

    @statement("5", "MQTT-4.4.0-1", "MQTT-3.3.4-9", "MQTT-3.3.4-10", "MQTT-4.9.0-1")
    def test_a_smaller_receive_maximum_than_before(self) -> None:
        """The new connection has its own quota: it holds back PUBLISH, but not PUBREL."""
        client = self.subscriber(2)
        for number in range(3):
            self.publish(2, str(number))
        first = [client.expect("PUBLISH") for _ in range(3)]
        client.send(p.pubrec(pid_of(first[1])))
        client.expect("PUBREL")
        client.abort()
        client = self.resume("subscriber", props=[(Prop.RECEIVE_MAXIMUM, 1)])
        client.take("PUBLISH", pid=first[0].pid)
        client.take("PUBREL", pid=first[1].pid)
        client.expect_nothing()
        client.send(p.pubrec(pid_of(first[0]), Reason.UNSPECIFIED))
        client.expect("PUBLISH", pid=first[2].pid)

    @statement("5", "MQTT-4.5.0-1")
    def test_a_message_reaches_the_session_of_each_matching_client(self) -> None:
        """Those who are there and those who are away."""
        away = self.resume("away")
        away.subscribe("a/+", 1)
        away.close()
        here = [self.connect(f"here/{number}") for number in range(3)]
        for client in here:
            client.subscribe("a/#", 1)
        other = self.connect("other")
        other.subscribe("b/#", 1)
        self.connect("sender").publish("a/b", "x", 1)
        for client in (*here, self.resume("away")):
            client.expect("PUBLISH", topic="a/b", payload=b"x")
        other.expect_nothing()


class Order(QosCase):
    @statement("5", "MQTT-4.6.0-5", "MQTT-4.6.0-6")
    def test_messages_arrive_in_the_order_in_which_they_were_published(self) -> None:
        """Per topic and QoS, from a publisher that does not wait and through a small window."""
        client = self.connect(props=[(Prop.RECEIVE_MAXIMUM, 3)])
        client.subscribe("t/#", 2)
        sender = self.connect("sender")
        for qos in (0, 1, 2):
            with self.case(qos):
                sender.send(
                    b"".join(
                        p5.publish(f"t/{qos}", str(number), qos, number + 1 if qos else None)
                        for number in range(50)
                    )
                )
                for number in range(50):
                    client.acknowledge(client.expect("PUBLISH", payload=str(number).encode()))

    @statement("5", "MQTT-4.6.0-5", "MQTT-4.6.0-6")
    def test_queued_messages_keep_their_order(self) -> None:
        """Across a client's absence, with what comes while the queue is being emptied."""
        client = self.subscriber(1)
        client.close()
        for number in range(20):
            self.publish(1, str(number))
        client = self.resume("subscriber", props=[(Prop.RECEIVE_MAXIMUM, 2)])
        for number in range(20, 30):
            self.publish(1, str(number))
        for number in range(30):
            client.acknowledge(client.expect("PUBLISH", payload=str(number).encode()))

    @statement("5", "MQTT-4.6.0-5")
    def test_acknowledgements_come_in_the_order_of_the_messages(self) -> None:
        """PUBACK and PUBREC in arrival order, PUBCOMP in that of the PUBRELs."""
        client = self.connect()
        client.send(b"".join(p5.publish("t", b"x", 1 + pid % 2, pid) for pid in range(1, 21)))
        self.assertEqual([*range(1, 21)], [client.receive().pid for _ in range(20)])
        client.send(b"".join(p.pubrel(pid) for pid in range(19, 0, -2)))
        self.assertEqual([*range(19, 0, -2)], [client.receive().pid for _ in range(10)])
