"""Sessions that outlive their connections, with paho-mqtt and with raw packets."""

from operator import itemgetter

from tests.helpers import packets
from tests.system.case import HouseCase
from tests.system.paho import V5, V311, Paho
from tests.system.raw import Raw

WEEK_S = 7 * 86400


class SessionCase(HouseCase):
    def client(self, client_id: str = "", version: int = V311, keep: bool = False) -> Paho:
        return Paho(
            self,
            ("127.0.0.1", self.house.tcp),
            client_id or self.name(),
            version,
            clean=not keep,
            expiry_s=WEEK_S if keep else 0,
        )

    def raw(self, version: int = 4) -> Raw:
        raw = Raw(("127.0.0.1", self.house.tcp), version)
        self.addCleanup(raw.sock.close)
        return raw


class ReconnectTests(SessionCase):
    def check_queue(self, version: int) -> None:
        name = self.name()
        receiver = self.client(name, version, keep=True)
        self.assertFalse(receiver.session_present)
        receiver.subscribe(self.topic + "/#", 2)
        receiver.vanish()
        self.logged(f"{name!r} from")
        sender = self.client(version=version)
        sent = [(1 + number % 2, b"%d" % number) for number in range(100)]
        for qos, payload in sent:
            sender.publish(f"{self.topic}/{qos}", payload, qos)
        again = self.client(name, version, keep=True)
        self.assertTrue(again.session_present)
        found = [(m.qos, m.payload) for m in (again.receive() for _ in sent)]
        # The library hands a QoS 2 message over at its PUBREL: the order is that within each QoS.
        self.assertEqual(sorted(sent, key=itemgetter(0)), sorted(found, key=itemgetter(0)))
        # All of it was acknowledged: a third connection finds nothing left.
        again.stop()
        third = self.client(name, version, keep=True)
        sender.publish(self.topic + "/end", b"end", 1)
        self.assertEqual([b"end"], third.payloads(1))

    def test_messages_wait_for_a_3_1_1_client(self) -> None:
        self.check_queue(V311)

    def test_messages_wait_for_a_5_client(self) -> None:
        self.check_queue(V5)

    def test_a_session_of_5_without_expiry_ends_with_its_connection(self) -> None:
        name = self.name()
        self.client(name, V5).stop()
        again = Paho(self, ("127.0.0.1", self.house.tcp), name, V5, clean=False)
        self.assertFalse(again.session_present)

    def test_the_same_client_id_again_takes_over(self) -> None:
        name = self.name()
        first = self.client(name, V5, keep=True)
        first.subscribe(self.topic, 1)
        second = self.client(name, V5, keep=True)
        self.assertTrue(second.session_present)
        self.assertEqual("Session taken over", first.wait_gone())
        self.client().publish(self.topic, b"for the second", 1)
        self.assertEqual([b"for the second"], second.payloads(1))


class ExactlyOnceTests(SessionCase):
    """QoS 1 and 2 when a connection ends between two packets of the exchange."""

    def receiver(self, name: str) -> Raw:
        raw = self.raw()
        raw.send(packets.connect(name, clean=False))
        raw.expect("CONNACK", reason=0)
        return raw

    def cut(self, raw: Raw, name: str) -> None:
        mark = len(self.house.broker.log())
        raw.sock.close()
        self.house.broker.wait_for_log(f"{name!r} from", mark)

    def test_to_the_client(self) -> None:
        """Each exchange goes on where it broke off, in the order in which it began."""
        name = self.name()
        receiver = self.receiver(name)
        receiver.subscribe(self.topic, 2)
        sender = self.client()
        sender.publish(self.topic, b"one", 1)
        sender.publish(self.topic, b"two", 2)
        sender.publish(self.topic, b"three", 2)
        one = receiver.expect("PUBLISH", payload=b"one", qos=1, dup=False)
        two = receiver.expect("PUBLISH", payload=b"two", qos=2, dup=False)
        three = receiver.expect("PUBLISH", payload=b"three", qos=2, dup=False)
        receiver.send(packets.pubrec(two.pid))
        receiver.expect("PUBREL", pid=two.pid)
        self.cut(receiver, name)

        receiver = self.receiver(name)
        again = [receiver.receive() for _ in range(3)]
        resent = [(p.payload, p.qos, p.dup, p.pid) for p in again if p.type == "PUBLISH"]
        self.assertEqual([(b"one", 1, True, one.pid), (b"three", 2, True, three.pid)], resent)
        self.assertEqual([two.pid], [p.pid for p in again if p.type == "PUBREL"])
        receiver.send(packets.puback(one.pid), packets.pubcomp(two.pid), packets.pubrec(three.pid))
        receiver.expect("PUBREL", pid=three.pid)
        receiver.send(packets.pubcomp(three.pid))
        receiver.ping()
        self.cut(receiver, name)

        receiver = self.receiver(name)
        receiver.ping()  # nothing was left to send

    def test_from_the_client(self) -> None:
        """A QoS 2 message that is sent again before its PUBREL arrives once."""
        listener = self.client()
        listener.subscribe(self.topic, 2)
        name = self.name()
        sender = self.receiver(name)
        sender.publish(self.topic, b"once", 2, 7)
        sender.expect("PUBREC", pid=7)
        self.cut(sender, name)
        sender = self.receiver(name)
        sender.send(packets.publish(self.topic, b"once", 2, 7, dup=True))
        sender.expect("PUBREC", pid=7)
        sender.send(packets.pubrel(7))
        sender.expect("PUBCOMP", pid=7)
        sender.publish(self.topic, b"again", 2, 7)  # a new message, since 7 is free again
        sender.expect("PUBREC", pid=7)
        sender.send(packets.pubrel(7))
        sender.expect("PUBCOMP", pid=7)
        self.assertEqual([b"once", b"again"], listener.payloads(2))
