"""A broker pushes its numbers to a real InfluxDB, which comes and goes."""

from tests.influx.test_http import InfluxServer
from tests.system.case import BrokerCase
from tests.system.process import wait_until
from tests.system.raw import Raw

CONFIG = """
[influx]
url = "{url}"
db = "mhub"
interval_s = 1
timeout_s = 2
tags = {{ site = "berlin, mitte" }}
"""


class InfluxTests(BrokerCase):
    def test_pushed(self) -> None:
        server = InfluxServer()
        self.addCleanup(server.end)
        broker = self.start(CONFIG.format(url=server.url))
        line = broker.wait_for_log("the numbers cannot be sent to influx")
        self.assertIn("404", line)
        self.assertIn("database not found", line)
        client = Raw(("127.0.0.1", broker.port))
        self.addCleanup(client.close)
        client.connect("c")
        client.publish("t", b"x")
        server.query("CREATE DATABASE mhub")
        broker.wait_for_log("the numbers are sent to influx again")

        def received() -> int:
            found = server.query("SELECT last(publish_messages_received) FROM mhub")
            return int(found[0]["values"][0][1]) if found else 0

        wait_until(lambda: received() == 1, "the message in InfluxDB")
        for series in server.query("SHOW TAG VALUES WITH KEY = site"):
            self.assertEqual(series["values"], [["site", "berlin, mitte"]])
        # What was measured while the server did not take it is there as well.
        (series,) = server.query("SELECT count(uptime) FROM mhub")
        self.assertGreaterEqual(series["values"][0][1], 2)
        (series,) = server.query("SELECT connections, listener FROM mhub_listener")
        self.assertEqual({row[2] for row in series["values"]}, {"plain"})
