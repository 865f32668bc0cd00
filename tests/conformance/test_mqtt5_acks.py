"""MQTT 5, chapters 3.4 to 3.7: PUBACK, PUBREC, PUBREL and PUBCOMP."""

from collections.abc import Callable

from tests.conformance import mqtt5 as p5
from tests.conformance.mqtt5 import Mqtt5Case, Reason
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.client import RawClient
from tests.helpers.packets import Prop

PUBLISH_REASONS = {0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}
RELEASE_REASONS = {0x00, 0x92}
PROPERTIES = [(Prop.REASON_STRING, "because"), (Prop.USER_PROPERTY, ("a", "b"))]


class AckCase(Mqtt5Case):
    def receiver(self, qos: int) -> tuple[RawClient, int]:
        """A client to which a message of that QoS is on its way, and its packet id."""
        client = self.connect()
        client.subscribe("t", qos)
        self.connect("sender").publish("t", "x", qos)
        pid = client.expect("PUBLISH", qos=qos).pid
        assert pid is not None
        return client, pid

    def other_reasons(self, build: Callable[[int, int], bytes], allowed: set[int]) -> None:
        """Reason codes that are not in the list are a Protocol Error."""
        for reason in sorted(set(range(256)) - allowed):
            with self.case(hex(reason)):
                client = self.connect()
                self.cut_off(client, build(1, reason), Reason.PROTOCOL_ERROR)


class Puback(AckCase):
    @statement("5", "MQTT-3.4.2-1")
    def test_reasons_of_the_broker(self) -> None:
        """One of the list: nobody there, delivered, refused."""
        client = self.connect()
        reply = client.publish("t", "x", 1)
        assert reply is not None
        self.assertEqual(Reason.NO_MATCHING_SUBSCRIBERS, reply.reason)
        client.subscribe("t")
        reply = client.publish("t", "x", 1)
        assert reply is not None
        self.assertEqual(Reason.SUCCESS, reply.reason)
        reply = client.publish("$SYS/x", "x", 1)
        assert reply is not None
        self.assertEqual(Reason.NOT_AUTHORIZED, reply.reason)

    @statement("5", "MQTT-3.4.2-1")
    def test_reasons_of_the_client(self) -> None:
        """All of the list are taken, with and without properties, and settle the message."""
        for reason in sorted(PUBLISH_REASONS):
            with self.case(hex(reason)):
                client, pid = self.receiver(1)
                client.send(p.puback(pid, reason, PROPERTIES if reason else None))
                client.ping()

    @statement("5", "MQTT-3.4.2-1", "MQTT-4.13.1-1")
    def test_reasons_that_are_not_in_the_list(self) -> None:
        """They end the connection."""
        self.other_reasons(p.puback, PUBLISH_REASONS)

    def test_puback_for_an_unknown_packet_id_changes_nothing(self) -> None:
        """A client may acknowledge twice by mistake; version 5 has no answer to that."""
        client, pid = self.receiver(1)
        client.send(p.puback(pid), p.puback(pid), p.puback(9999))
        client.ping()

    def test_short_forms(self) -> None:
        """Without reason, with reason alone, with an empty property list."""
        for build in (
            lambda pid: p.puback(pid),
            lambda pid: p.puback(pid, 0),
            lambda pid: p.puback(pid, 0, []),
        ):
            client, pid = self.receiver(1)
            client.send(build(pid))
            client.ping()

    @statement("5", "MQTT-4.13.1-1")
    def test_wrong_kind_of_acknowledgement_is_a_protocol_error(self) -> None:
        """PUBACK for QoS 2, PUBREC or PUBCOMP for QoS 1, PUBCOMP before PUBREC."""
        for qos, wrong in ((2, p.puback), (2, p.pubcomp), (1, p.pubrec), (1, p.pubcomp)):
            with self.case(wrong.__name__, qos):
                client, pid = self.receiver(qos)
                self.cut_off(client, wrong(pid), Reason.PROTOCOL_ERROR)

    def test_truncated_or_overlong_acknowledgements_are_malformed(self) -> None:
        """Every byte has its place."""
        for first in (0x40, 0x50, 0x62, 0x70):
            for body in (b"", b"\0", b"\0\1\0\1", b"\0\1\0\0x", b"\0\1\0\3\x1f\0"):
                with self.case(first, body):
                    self.cut_off(self.connect(), p.frame(first, body), Reason.MALFORMED)


class Pubrec(AckCase):
    @statement("5", "MQTT-3.5.2-1")
    def test_reasons_of_the_broker(self) -> None:
        """One of the list: nobody there, delivered, refused."""
        client = self.connect()
        for topic, reason in (
            ("t", Reason.NO_MATCHING_SUBSCRIBERS),
            ("$SYS/x", Reason.NOT_AUTHORIZED),
        ):
            pid = client.next_pid()
            client.send(p5.publish(topic, b"x", 2, pid))
            client.expect("PUBREC", pid=pid, reason=reason)
        client.subscribe("t")
        pid = client.next_pid()
        client.send(p5.publish("t", b"x", 2, pid))
        client.take("PUBREC", pid=pid, reason=Reason.SUCCESS)

    @statement("5", "MQTT-3.5.2-1", "MQTT-4.3.3-4", "MQTT-4.4.0-2")
    def test_reasons_of_the_client(self) -> None:
        """Below 0x80 PUBREL follows; from 0x80 on the message is settled."""
        for reason in sorted(PUBLISH_REASONS):
            with self.case(hex(reason)):
                client, pid = self.receiver(2)
                client.send(p.pubrec(pid, reason, PROPERTIES))
                if reason < 0x80:
                    client.expect("PUBREL", pid=pid, reason=0)
                client.expect_nothing()

    @statement("5", "MQTT-3.5.2-1", "MQTT-4.13.1-1")
    def test_reasons_that_are_not_in_the_list(self) -> None:
        """They end the connection."""
        self.other_reasons(p.pubrec, PUBLISH_REASONS)

    def test_refusal_of_an_unknown_packet_id_gets_no_answer(self) -> None:
        """After a PUBREC of 0x80 or above there is no PUBREL."""
        client = self.connect()
        client.send(p.pubrec(4711, 0x80))
        client.expect_nothing()
        client.ping()


class Pubrel(AckCase):
    @statement("5", "MQTT-3.6.1-1", "MQTT-2.1.3-1")
    def test_flags_are_0010(self) -> None:
        """Any other value closes."""
        for flags in {*range(16)} - {2}:
            with self.case(flags):
                client = self.connect()
                client.send(p5.publish("t", b"x", 2, 1))
                client.expect("PUBREC")
                self.cut_off(client, p.frame(0x60 | flags, b"\0\1"), Reason.MALFORMED)

    @statement("5", "MQTT-3.6.2-1")
    def test_reasons_of_the_broker(self) -> None:
        """0x00 for a message of its own, 0x92 for a PUBREC that it did not expect."""
        client, pid = self.receiver(2)
        client.send(p.pubrec(pid))
        client.expect("PUBREL", pid=pid, reason=Reason.SUCCESS)
        client.send(p.pubrec(4711))
        client.expect("PUBREL", pid=4711, reason=Reason.PACKET_ID_NOT_FOUND)

    @statement("5", "MQTT-3.6.2-1", "MQTT-4.13.1-1")
    def test_reasons_of_the_client(self) -> None:
        """0x00 and 0x92, nothing else."""
        for reason in sorted(RELEASE_REASONS):
            client = self.connect()
            client.send(p5.publish("t", b"x", 2, 1))
            client.expect("PUBREC")
            client.send(p.pubrel(1, reason, PROPERTIES))
            client.expect("PUBCOMP", pid=1, reason=0)
        self.other_reasons(p.pubrel, RELEASE_REASONS)


class Pubcomp(AckCase):
    @statement("5", "MQTT-3.7.2-1")
    def test_reasons_of_the_broker(self) -> None:
        """0x00 where the message is known, 0x92 where it is not."""
        client = self.connect()
        client.send(p5.publish("t", b"x", 2, 5))
        client.expect("PUBREC")
        client.send(p.pubrel(5))
        client.expect("PUBCOMP", pid=5, reason=Reason.SUCCESS)
        client.send(p.pubrel(5))
        client.expect("PUBCOMP", pid=5, reason=Reason.PACKET_ID_NOT_FOUND)
        client.send(p.pubrel(4711))
        client.expect("PUBCOMP", pid=4711, reason=Reason.PACKET_ID_NOT_FOUND)

    @statement("5", "MQTT-3.7.2-1", "MQTT-4.13.1-1")
    def test_reasons_of_the_client(self) -> None:
        """0x00 and 0x92, nothing else."""
        for reason in sorted(RELEASE_REASONS):
            client, pid = self.receiver(2)
            client.send(p.pubrec(pid))
            client.expect("PUBREL", pid=pid)
            client.send(p.pubcomp(pid, reason, PROPERTIES))
            client.ping()
        self.other_reasons(p.pubcomp, RELEASE_REASONS)

    def test_pubcomp_for_an_unknown_packet_id_changes_nothing(self) -> None:
        """There is nothing to complete and nothing to say."""
        client = self.connect()
        client.send(p.pubcomp(4711))
        client.ping()
