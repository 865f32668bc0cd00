"""`mhub ctl cluster leave`, on a cluster of two real processes."""

from twisted.trial.unittest import SynchronousTestCase

from tests.helpers import packets as p
from tests.helpers.packets import Prop
from tests.system.case import place
from tests.system.cluster_processes import PORT, ClusterProcesses
from tests.system.process import PATIENCE_S, wait_until
from tests.system.raw import Raw

KEPT = [(Prop.SESSION_EXPIRY, 1000)]


class LeaveTests(SynchronousTestCase):
    def house(self, reference: str) -> ClusterProcesses:
        house = ClusterProcesses(place(self))
        self.addCleanup(house.close)
        house.add("a", "b")
        config = house.nodes["a"].directory / "broker.toml"
        config.write_text(f'{config.read_text()}server_reference = "{reference}"\n')
        house.start()
        wait_until(house.whole, "a cluster of two")
        return house

    def check(self, reference: str, reason: int, said: str | None) -> None:
        house = self.house(reference)
        self.addCleanup(lambda: self.assertEqual(house.wrong, []))
        a, b = ((node.host, PORT) for node in house.nodes.values())
        five, three, late = Raw(a, 5), Raw(a, 4), Raw(a, 5)
        five.connect("five", clean=False, props=KEPT)
        five.subscribe("t", 1)
        three.connect("three", clean=False)
        command = house.leave("a")
        packet = five.expect("DISCONNECT", reason=reason)
        self.assertEqual(packet.prop(Prop.SERVER_REFERENCE), said)
        three.expect_closed()
        late.send(p.connect("late", 5))
        packet = late.expect("CONNACK", reason=reason)
        self.assertEqual(packet.prop(Prop.SERVER_REFERENCE), said)
        output = command.communicate(timeout=PATIENCE_S)[0]
        self.assertEqual(command.returncode, 0, output)
        self.assertRegex(output, "[0-9]+ sessions and messages to hand over")
        self.assertIn("2 sessions handed over, 2 clients disconnected", output)
        wait_until(lambda: house.ended("a"), "the end of node a")
        house.forget("a")
        five, three, publisher = Raw(b, 5), Raw(b, 4), Raw(b)
        publisher.connect("publisher")
        publisher.publish("t", b"after", 1, 1)
        publisher.expect("PUBACK", pid=1)
        self.assertTrue(five.connect("five", clean=False, props=KEPT).session_present)
        five.expect("PUBLISH", payload=b"after")
        self.assertTrue(three.connect("three", clean=False).session_present)
        wait_until(lambda: (house.nodes["b"].status() or {})["members"] == [], "b is alone")

    def test_to_a_server_that_is_known(self) -> None:
        self.check("b.example:1883", 0x9D, "b.example:1883")

    def test_to_any_other(self) -> None:
        self.check("", 0x9C, None)
