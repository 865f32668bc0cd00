"""An authenticator that answers later, in a real broker."""

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.helpers import packets as p
from tests.system.case import PLAIN, place
from tests.system.process import Broker
from tests.system.raw import Raw

APPLICATION = Path(__file__).absolute().with_name("slow_authenticator.tac")
CONFIG = PLAIN + 'authentication_timeout_s = 0.5\n[store]\nkind = "memory"\n[control]\npath = ""\n'


class AuthenticatorTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = Broker(place(self), CONFIG, APPLICATION)
        self.addCleanup(self.broker.kill)
        self.broker.start()

    def raw(self, version: int = 4) -> Raw:
        raw = Raw(("127.0.0.1", self.broker.port), version)
        self.addCleanup(raw.sock.close)
        return raw

    def test_clients_wait_and_nobody_else_does(self) -> None:
        watcher = self.raw()
        watcher.connect("watcher", username="w")
        watcher.subscribe("#")
        never = self.raw(5)
        never.send(p.connect("never", 5, username="never"))
        # All of it in one write: what follows the CONNECT waits with it.
        eager = [self.raw() for _ in range(20)]
        for number, raw in enumerate(eager):
            connect = p.connect(f"eager-{number}", username="u")
            raw.send(connect + p.publish("t", b"%d" % number) + p.pingreq())
        watcher.ping()
        for raw in eager:
            raw.expect("CONNACK", reason=0)
            raw.expect("PINGRESP")
        found = {watcher.expect("PUBLISH").payload for _ in eager}
        self.assertEqual(found, {b"%d" % number for number in range(20)})
        never.expect("CONNACK", reason=0x88)
        never.expect_closed()

    def test_refused_and_gone(self) -> None:
        refused = self.raw(5)
        refused.send(p.connect("c", 5, username="no"))
        gone = self.raw()
        gone.send(p.connect("gone", username="u"))
        gone.sock.close()
        refused.expect("CONNACK", reason=0x87)
        refused.expect_closed()
        last = self.raw()
        last.connect("last", username="u")
        last.ping()
        self.assertEqual(self.broker.stop(), 0)
        self.assertNotIn("Traceback", self.broker.log())
