"""The whole command against a real broker."""

import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from unittest import SkipTest, TestCase

from tests.bench.command import Said, bench

CONFIGURATION = """\
user {user}
allow_anonymous true
max_queued_messages 0
listener {port} 127.0.0.1
listener 0 {directory}/mqtt.sock
listener {websocket} 127.0.0.1
protocol websockets
"""

PLACES = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class MosquittoTests(TestCase):
    def setUp(self) -> None:
        program = shutil.which("mosquitto", path=PLACES)
        if program is None:
            raise SkipTest("mosquitto is not installed (Debian: apt install mosquitto)")
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)
        self.port, self.websocket = free_port(), free_port()
        configuration = Path(self.directory, "mosquitto.conf")
        configuration.write_text(
            CONFIGURATION.format(
                user=configuration.parent.owner(),
                port=self.port,
                websocket=self.websocket,
                directory=self.directory,
            )
        )
        self.process = subprocess.Popen(
            [program, "-c", str(configuration)], stderr=subprocess.DEVNULL
        )
        self.addCleanup(self.stop)
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", self.websocket), 1).close()  # the last
                return
            except OSError:
                time.sleep(0.02)
        self.fail("mosquitto does not listen")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def run_bench(self, *options: str, url: str = "") -> Said:
        url = url or f"mqtt://127.0.0.1:{self.port}"
        return bench(url, "--seconds", "0.2", "--window", "20", *options)

    def assertClean(self, said: Said) -> None:
        self.assertEqual(said.status, 0, said)
        for result in said.results:
            self.assertGreater(result["received"], 0)
            for fault in ("lost", "duplicated", "disordered", "misrouted", "unacknowledged"):
                self.assertEqual(result[fault], 0, result)

    def test_the_matrix(self) -> None:
        said = self.run_bench("--pubs", "2", "--rate", "200", "--pid", str(self.process.pid))
        self.assertEqual(said.status, 0, said)
        self.assertIn("mosquitto version", said.out)
        for row in ("QoS 0 throughput", "QoS 2 throughput", "QoS 1 at 200/s"):
            self.assertIn(row, said.out)
        self.assertLessEqual(max(map(len, said.out.split("\n"))), 80, said.out)
        self.assertEqual(said.err.count("\n"), 6)

    def test_every_version_and_qos(self) -> None:
        for version in ("3.1.1", "5"):
            for qos in ("0", "1", "2"):
                options = ("--scenario", "throughput", "--pubs", "2", "--json")
                self.assertClean(self.run_bench(*options, "--version", version, "--qos", qos))

    def test_fans(self) -> None:
        for scenario, clients in (("fan-in", ("--pubs", "5")), ("fan-out", ("--subs", "5"))):
            said = self.run_bench("--scenario", scenario, *clients, "--qos", "1", "--json")
            self.assertClean(said)

    def test_latency_keeps_its_rate(self) -> None:
        said = self.run_bench("--scenario", "latency", "--rate", "100", "--pubs", "3", "--json")
        self.assertClean(said)
        [result] = said.results
        self.assertEqual(result["sent"], 20)
        self.assertGreater(result["seconds"], 0.18)

    def test_connections(self) -> None:
        said = self.run_bench("--scenario", "connections", "--clients", "120", "--json")
        self.assertClean(said)
        [result] = said.results
        self.assertEqual((result["connections"], result["received"]), (120, 100))

    def test_a_unix_socket(self) -> None:
        url = f"unix://{self.directory}/mqtt.sock"
        self.assertClean(self.run_bench("--scenario", "throughput", "--json", url=url))

    def test_websocket(self) -> None:
        url = f"ws://127.0.0.1:{self.websocket}"
        options = ("--scenario", "throughput", "--pubs", "2", "--qos", "1", "--json")
        self.assertClean(self.run_bench(*options, url=url))

    def test_large_payloads(self) -> None:
        options = ("--scenario", "throughput", "--pubs", "1", "--size", "300000", "--json")
        self.assertClean(self.run_bench(*options, "--qos", "1"))
