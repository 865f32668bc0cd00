"""The bases of the system tests."""

import shutil
import tempfile
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.system.house import House, house
from tests.system.process import Broker

PLAIN = '[[listeners]]\nname = "plain"\nport = 0\n'

# Their certificate has to be in the broker's directory.
SECURE_AND_WEB = """
[[listeners]]
name = "secure"
transport = "tls"
port = 0
tls.certificate = "server.crt"
tls.key = "server.key"

[[listeners]]
name = "web"
transport = "ws"
port = 0

"""


def place(case: SynchronousTestCase) -> Path:
    """A new directory whose path is short enough for a Unix socket, unlike that of mktemp()."""
    made = tempfile.mkdtemp(prefix="mhub-")
    case.addCleanup(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


class HouseCase(SynchronousTestCase):
    """A test on the shared broker, with a topic and client ids of its own."""

    house: House

    def setUp(self) -> None:
        self.house = house()
        self.assertTrue(self.house.broker.running, "the shared broker has ended")
        self.mark = len(self.house.broker.log())
        self.topic = self.id().rpartition("tests.system.")[2].replace(".", "/")
        self._clients = 0
        self.addCleanup(self._check_log)

    def name(self) -> str:
        """A new client id."""
        self._clients += 1
        return f"{self.topic}-{self._clients}"

    def need_ipv6(self) -> None:
        if not self.house.ipv6:
            raise SkipTest("this machine has no IPv6")

    def logged(self, text: str) -> str:
        """Wait for the line with this text, written since the test began."""
        return self.house.broker.wait_for_log(text, self.mark)

    def _check_log(self) -> None:
        self.assertNotIn("Traceback", self.house.broker.log(self.mark))


class BrokerCase(SynchronousTestCase):
    """A test that has brokers of its own."""

    def start(
        self,
        config: str = "",
        directory: Path | None = None,
        application: Path | None = None,
    ) -> Broker:
        """A broker with a plain listener; `config` stands behind it."""
        if directory is None:
            directory = place(self)
        broker = Broker(directory, PLAIN + config, application)
        self.addCleanup(self._check_log, broker)
        self.addCleanup(broker.kill)
        broker.start()
        return broker

    def _check_log(self, broker: Broker) -> None:
        self.assertNotIn("Traceback", broker.log())
