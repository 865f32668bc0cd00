"""The log of a running broker: where `[log]` sends it, and what it says of a client."""

import json
import signal

from tests.system.case import BrokerCase
from tests.system.process import wait_until
from tests.system.raw import Raw

FILE = '[log]\nto = "file"\nfile = "broker.log"\n'
"""The file in which a test looks for the log in any case."""


class LogTests(BrokerCase):
    def test_a_file(self) -> None:
        """In the place of twistd's log, and without what Twisted says of itself."""
        broker = self.start(FILE)
        raw = Raw(("127.0.0.1", broker.port))
        raw.connect("sensor")
        line = broker.wait_for_log("'sensor' connected")
        self.assertRegex(line, r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d info events: 'sensor' connected")
        raw.close()
        broker.wait_for_log("'sensor' from")
        for text in ("twisted", "factory", "Logged from", "[mhub."):
            self.assertNotIn(text, broker.log())

    def test_a_file_that_was_moved(self) -> None:
        broker = self.start(FILE)
        moved = broker.directory / "moved"
        (broker.directory / "broker.log").rename(moved)
        broker.signal(signal.SIGHUP)
        wanted = "no setting has changed"
        wait_until((broker.directory / "broker.log").exists, "a new file")
        broker.wait_for_log(wanted)
        self.assertNotIn(wanted, moved.read_text())

    def test_json(self) -> None:
        broker = self.start(FILE + 'format = "json"\n')
        raw = Raw(("127.0.0.1", broker.port))
        raw.connect("sensor")
        raw.close()
        line = json.loads(broker.wait_for_log("disconnected", 0))
        self.assertEqual((line["event"], line["part"]), ("disconnected", "events"))
        for line in broker.log().splitlines():
            json.loads(line)

    def test_a_storm(self) -> None:
        """It is cut short, and its size is told; with next to no rate, however long it takes."""
        broker = self.start(FILE + 'rate = 0.001\nburst = 5\nsummary_s = "1s"\n')
        for number in range(50):
            raw = Raw(("127.0.0.1", broker.port))
            raw.connect(f"c{number}")
            raw.close()
        broker.wait_for_log("more lines left out (log.rate): connected")
        self.assertEqual(broker.log().count(" connected from "), 5)
