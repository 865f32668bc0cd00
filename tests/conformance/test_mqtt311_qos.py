"""MQTT 3.1.1, sections 4.3 and 4.4: the QoS flows, both ways, step by step, and resumed."""

from tests.conformance.cases import ProtocolCase
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.client import RawClient


class BrokerReceives(ProtocolCase):
    @statement("3.1.1", "MQTT-4.3.2-2")
    def test_qos_1_id_stands_for_a_new_message_after_its_puback(self) -> None:
        """After PUBACK the same id is a new message, even with DUP 1."""
        subscriber = self.subscriber("t", qos=1)
        client = self.connect("pub")
        for payload, dup in ((b"1", False), (b"2", False), (b"3", True)):
            client.send(p.publish("t", payload, qos=1, pid=4, dup=dup))
            client.expect("PUBACK", pid=4)
            subscriber.acknowledge(subscriber.expect("PUBLISH", payload=payload))

    @statement("3.1.1", "MQTT-4.3.3-2")
    def test_qos_2_copies_are_acknowledged_and_passed_on_once(self) -> None:
        """PUBREC for each copy before PUBREL, one delivery."""
        subscriber = self.subscriber("t", qos=2)
        client = self.connect("pub")
        client.send(p.publish("t", b"x", qos=2, pid=4))
        client.expect("PUBREC", pid=4)
        for _ in range(3):
            client.send(p.publish("t", b"x", qos=2, pid=4, dup=True))
            client.expect("PUBREC", pid=4)
        client.send(p.pubrel(4))
        client.expect("PUBCOMP", pid=4)
        client.expect_nothing()
        subscriber.acknowledge(subscriber.expect("PUBLISH", payload=b"x"))
        subscriber.expect_nothing()

    @statement("3.1.1", "MQTT-4.3.3-2")
    def test_qos_2_id_stands_for_a_new_message_after_pubcomp(self) -> None:
        """The id is free again, even if the new message has DUP 1."""
        subscriber = self.subscriber("t", qos=2)
        client = self.connect("pub")
        for payload, dup in ((b"1", False), (b"2", False), (b"3", True)):
            client.publish("t", payload, qos=2, pid=4, dup=dup)
            subscriber.acknowledge(subscriber.expect("PUBLISH", payload=payload))
        subscriber.expect_nothing()

    @statement("3.1.1", "MQTT-4.3.3-2")
    def test_every_pubrel_is_answered_by_pubcomp(self) -> None:
        """A repeated PUBREL, and one for an id that is not known (any more)."""
        client = self.connect("pub")
        client.publish("t", b"x", qos=2, pid=4)
        for pid in (4, 4, 9):
            client.send(p.pubrel(pid))
            client.expect("PUBCOMP", pid=pid)
        self.assert_works(client)

    @statement("3.1.1", "MQTT-3.6.1-1", "MQTT-4.8.0-1")
    def test_pubrel_with_wrong_flags_closes(self) -> None:
        """PUBREL has the flags 0010."""
        for flags in set(range(16)) - {2}:
            client = self.connect("pub")
            client.send(p.publish("t", b"x", qos=2, pid=4))
            client.expect("PUBREC", pid=4)
            client.send(p.frame(0x60 | flags, p.u16(4)))
            client.expect_closed()

    @statement("3.1.1", "MQTT-4.3.3-2")
    def test_many_qos_2_publishes_interleaved(self) -> None:
        """Handshakes of different ids do not disturb each other."""
        subscriber = self.subscriber("t", qos=0)
        client = self.connect("pub")
        for pid in range(1, 51):
            client.send(p.publish("t", str(pid), qos=2, pid=pid))
        self.assertEqual(list(range(1, 51)), [packet.pid for packet in client.drain()])
        for pid in range(50, 0, -1):
            client.send(p.pubrel(pid))
            client.expect("PUBCOMP", pid=pid)
        got = {packet.payload for packet in subscriber.drain()}
        self.assertEqual({str(pid).encode() for pid in range(1, 51)}, got)

    @statement("3.1.1", "MQTT-4.4.0-1", "MQTT-4.3.3-2", "MQTT-3.1.2-4")
    def test_qos_2_publish_resent_after_reconnect_is_passed_on_once(self) -> None:
        """The broker remembers the id in the session until PUBREL."""
        subscriber = self.subscriber("t", qos=2)
        client = self.connect("pub", clean=False)
        client.send(p.publish("t", b"x", qos=2, pid=4))
        client.expect("PUBREC", pid=4)
        client.abort()
        client = self.connect("pub", clean=False)
        client.send(p.publish("t", b"x", qos=2, pid=4, dup=True))
        client.expect("PUBREC", pid=4)
        client.abort()
        client = self.connect("pub", clean=False)
        client.send(p.pubrel(4))
        client.expect("PUBCOMP", pid=4)
        subscriber.acknowledge(subscriber.expect("PUBLISH", payload=b"x"))
        subscriber.expect_nothing()

    def test_unexpected_acknowledgements_do_no_harm(self) -> None:
        """PUBACK, PUBREC and PUBCOMP for ids that the broker has not sent leave it unmoved."""
        client = self.subscriber("t", qos=2)
        client.send(p.puback(99), p.pubcomp(99))
        self.assert_works(client)
        client.send(p.pubrec(99))
        self.assertLessEqual({packet.type for packet in client.drain()}, {"PUBREL"})
        client.publish("t", b"x", qos=2)
        client.acknowledge(client.expect("PUBLISH", payload=b"x"))
        self.assert_works(client)


class BrokerSends(ProtocolCase):
    @statement("3.1.1", "MQTT-4.3.1-1")
    def test_qos_0_is_sent_once(self) -> None:
        """No handshake, no memory: a reconnect does not bring it again."""
        client = self.connect("c", clean=False)
        client.subscribe("t", 2)
        client.publish("t", b"x", qos=0)
        client.expect("PUBLISH", flags=0, payload=b"x")
        client.abort()
        self.connect("c", clean=False).expect_nothing()

    @statement("3.1.1", "MQTT-4.3.2-1", "MQTT-4.4.0-1")
    def test_qos_1_is_pending_until_its_puback(self) -> None:
        """DUP 0 at first; resent with the same id after each reconnect; gone after PUBACK."""
        client = self.connect("c", clean=False)
        client.subscribe("t", 1)
        client.publish("t", b"x", qos=1)
        pid = client.expect("PUBLISH", qos=1, dup=False).pid
        for _ in range(3):
            client.abort()
            client = self.connect("c", clean=False)
            client.expect("PUBLISH", qos=1, dup=True, pid=pid, payload=b"x")
            client.expect_nothing()
        client.send(p.puback(pid or 0))
        client.abort()
        self.connect("c", clean=False).expect_nothing()

    @statement("3.1.1", "MQTT-4.3.3-1", "MQTT-4.4.0-1")
    def test_qos_2_publish_is_pending_until_pubrec(self) -> None:
        """Before PUBREC a reconnect brings the PUBLISH again."""
        client = self.connect("c", clean=False)
        client.subscribe("t", 2)
        client.publish("t", b"x", qos=2)
        pid = client.expect("PUBLISH", qos=2, dup=False).pid
        client.abort()
        client = self.connect("c", clean=False)
        client.expect("PUBLISH", qos=2, dup=True, pid=pid, payload=b"x")
        client.send(p.pubrec(pid or 0))
        client.expect("PUBREL", pid=pid)

    @statement("3.1.1", "MQTT-4.3.3-1", "MQTT-4.4.0-1")
    def test_qos_2_pubrel_is_pending_until_pubcomp(self) -> None:
        """After PUBREC a reconnect brings PUBREL, never the PUBLISH again."""
        client = self.connect("c", clean=False)
        client.subscribe("t", 2)
        client.publish("t", b"x", qos=2)
        pid = client.expect("PUBLISH").pid or 0
        client.send(p.pubrec(pid))
        client.expect("PUBREL", pid=pid)
        for _ in range(3):
            client.abort()
            client = self.connect("c", clean=False)
            client.expect("PUBREL", pid=pid)
            client.expect_nothing()
        client.send(p.pubcomp(pid))
        client.abort()
        self.connect("c", clean=False).expect_nothing()

    @statement("3.1.1", "MQTT-4.3.3-1")
    def test_repeated_pubrec_is_answered_by_pubrel(self) -> None:
        """PUBREL each time, the PUBLISH never again."""
        client = self.subscriber("t", qos=2)
        client.publish("t", b"x", qos=2)
        pid = client.expect("PUBLISH").pid or 0
        for _ in range(3):
            client.send(p.pubrec(pid))
            client.expect("PUBREL", pid=pid)
            client.expect_nothing()
        client.send(p.pubcomp(pid))
        self.assert_works(client)

    @statement("3.1.1", "MQTT-4.3.2-1", "MQTT-4.3.3-1")
    def test_nothing_is_resent_on_a_live_connection(self) -> None:
        """3.1.1 resends after a reconnect only, however long the client takes."""
        client = self.subscriber("t", qos=2)
        client.publish("t", b"1", qos=1)
        client.publish("t", b"2", qos=2)
        client.expect("PUBLISH")
        client.expect("PUBLISH")
        self.advance(86400)
        client.expect_nothing()

    @statement("3.1.1", "MQTT-4.3.2-1", "MQTT-4.3.3-1", "MQTT-4.8.0-1")
    def test_wrong_acknowledgement_closes_and_does_not_end_a_delivery(self) -> None:
        """PUBACK for QoS 2, PUBREC or PUBCOMP for QoS 1, PUBCOMP before PUBREC."""
        for qos, wrong in ((2, p.puback), (2, p.pubcomp), (1, p.pubrec), (1, p.pubcomp)):
            with self.about(f"{wrong.__name__} for QoS {qos}"):
                client = self.connect("c", clean=False)
                client.subscribe("t", 2)
                client.publish("t", b"x", qos=qos)
                pid = client.expect("PUBLISH", qos=qos).pid or 0
                client.expect_closed_after_sending(wrong(pid))
                client = self.connect("c", clean=False)
                client.expect("PUBLISH", pid=pid, dup=True, qos=qos)
                self.connect("c", clean=True).close()

    @statement("3.1.1", "MQTT-4.4.0-1", "MQTT-2.3.1-4")
    def test_reconnect_resends_everything_pending(self) -> None:
        """PUBLISH and PUBREL, each with its old id; a new message gets a free one."""
        client = self.connect("c", clean=False)
        client.subscribe("t", 2)
        pids = self.four_pending(client)
        client.abort()
        client = self.connect("c", clean=False)
        got = [(packet.type, packet.pid, packet.dup) for packet in client.drain()]
        expected = [
            ("PUBLISH", pids[0], True),
            ("PUBREL", pids[1], False),
            ("PUBLISH", pids[2], True),
            ("PUBLISH", pids[3], True),
        ]
        self.assertEqual(sorted(expected), sorted(got))
        client.publish("t", b"new", qos=1)
        self.assertNotIn(client.expect("PUBLISH", dup=False).pid, pids)

    def four_pending(self, client: RawClient) -> list[int]:
        """QoS 1, QoS 2 past PUBREC, QoS 2, QoS 1: all unfinished."""
        pids = []
        for number, qos in enumerate((1, 2, 2, 1)):
            client.publish("t", str(number), qos=qos)
            pids.append(client.expect("PUBLISH", qos=qos).pid or 0)
        client.send(p.pubrec(pids[1]))
        client.expect("PUBREL", pid=pids[1])
        return pids
