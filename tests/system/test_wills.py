"""Wills when a broker ends: killed or stopped, on its own and as a node of a cluster."""

import signal

from twisted.trial.unittest import SynchronousTestCase

from tests.helpers import packets as p
from tests.helpers.packets import Prop
from tests.system.case import BrokerCase, place
from tests.system.cluster_processes import MEMORY, PORT, SQLITE, ClusterProcesses
from tests.system.process import Broker, wait_until
from tests.system.raw import Raw

KEPT = [(Prop.SESSION_EXPIRY, 1000)]
DELAYED = [(Prop.WILL_DELAY, 600)]


class RestartTests(BrokerCase):
    def client(self, broker: Broker) -> Raw:
        raw = Raw(("127.0.0.1", broker.port), 5)
        self.addCleanup(raw.sock.close)
        return raw

    def end(self, broker: Broker, number: signal.Signals) -> None:
        broker.signal(number)
        broker.wait()

    def check(self, number: signal.Signals, clean: bool, expected: list[bytes]) -> None:
        """The client is back before anybody else, with a will of its own for the next time."""
        broker = self.start('[store]\npath = "mhub.sqlite"\n')
        heir = self.client(broker)
        heir.connect("heir", clean=False, props=KEPT)
        heir.subscribe("w/#", 1)
        heir.close()
        for turn in (b"first", b"second"):
            mortal = self.client(broker)
            props = [] if clean else KEPT
            mortal.connect("mortal", clean=clean, props=props, will=("w/m", turn, 1, True))
            if turn == b"first":
                later = self.client(broker)
                later.connect("later", props=KEPT, will=("w/l", b"late", 1, True, DELAYED))
                self.end(broker, number)
                (broker.directory / "broker.log").unlink()  # the next has another port
                broker.start()
                again = self.client(broker)
                again.connect("later", clean=False, props=KEPT)
        watcher = self.client(broker)
        watcher.connect("watcher")
        watcher.subscribe("w/#")
        if expected:
            watcher.expect("PUBLISH", payload=expected[-1], retain=True)
        heir = self.client(broker)
        heir.connect("heir", clean=False, props=KEPT)
        for payload in expected:
            heir.expect("PUBLISH", payload=payload)
        heir.ping()  # and nothing else
        watcher.ping()

    def test_killed(self) -> None:
        self.check(signal.SIGKILL, False, [b"first"])

    def test_killed_with_a_clean_session(self) -> None:
        """Nothing of it is stored."""
        self.check(signal.SIGKILL, True, [])

    def test_stopped(self) -> None:
        self.check(signal.SIGTERM, False, [b"first"])

    def test_stopped_with_a_clean_session(self) -> None:
        self.check(signal.SIGTERM, True, [b"first"])

    def test_those_who_are_connected_hear_of_it(self) -> None:
        broker = self.start('[store]\nkind = "memory"\n')
        heir, mortal, late = (self.client(broker) for _ in range(3))
        heir.connect("heir")
        mortal.connect("mortal", will=("w", b"gone", 1))
        late.connect("late")
        heir.subscribe("w", 1)
        late.subscribe("w")
        broker.signal(signal.SIGTERM)
        for each in (heir, late):
            each.expect("PUBLISH", payload=b"gone")
            each.expect("DISCONNECT")
            each.close()
        mortal.expect("DISCONNECT")
        mortal.close()
        self.assertEqual(broker.wait(), 0)


class ClusterTests(SynchronousTestCase):
    def check(self, store: str) -> None:
        house = ClusterProcesses(place(self), store=store)
        self.addCleanup(house.close)
        house.add("a", "b")
        house.start()
        wait_until(house.whole, "a cluster of two")
        a, b = ((node.host, PORT) for node in house.nodes.values())
        heir, clean, lasting = Raw(b, 5), Raw(a, 5), Raw(a, 5)
        heir.connect("heir")
        heir.subscribe("w/#", 1)
        clean.connect("clean", will=("w/clean", b"gone", 1, True))
        lasting.connect("lasting", clean=False, props=KEPT, will=("w/lasting", b"gone", 1))
        house.terminate("a")
        got = {heir.expect("PUBLISH", payload=b"gone").topic for _ in range(2)}
        self.assertEqual(got, {"w/clean", "w/lasting"})
        wait_until(lambda: house.ended("a"), "the end of node a")
        house.start("a")
        wait_until(house.whole, "a is back")
        again = Raw(b, 5)
        present = again.connect("lasting", clean=False, props=KEPT).session_present
        self.assertEqual(present, store == SQLITE)
        heir.ping()  # nothing came twice
        late = Raw(a, 5)
        late.connect("late")
        late.send(p.subscribe(1, ("w/clean", 0), version=5))
        came = [late.receive(), late.receive()]  # a SUBACK waits for the other node
        self.assertEqual({each and each.type for each in came}, {"PUBLISH", "SUBACK"})

    def test_sqlite(self) -> None:
        self.check(SQLITE)

    def test_memory(self) -> None:
        self.check(MEMORY)
