"""The whole command against a real broker."""

from pathlib import Path

from tests.bench.mosquitto import MosquittoCase
from tests.helpers.certificates import Authority


class MosquittoTests(MosquittoCase):
    configuration = """\
max_queued_messages 0
listener {port} 127.0.0.1
listener 0 {directory}/mqtt.sock
listener {websocket} 127.0.0.1
protocol websockets
"""

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


class TlsTests(MosquittoCase):
    configuration = """\
listener {port} 127.0.0.1
certfile {directory}/cert.pem
keyfile {directory}/key.pem
listener {websocket} 127.0.0.1
protocol websockets
certfile {directory}/cert.pem
keyfile {directory}/key.pem
"""

    def prepare(self) -> None:
        authority = Authority("an authority")
        self.cafile = self.directory / "ca.pem"
        authority.write(self.cafile)
        authority.issue("localhost", self.directory / "cert.pem", self.directory / "key.pem")
        self.url = f"mqtts://localhost:{self.port}"

    def test_a_certificate_of_an_authority_that_is_named(self) -> None:
        for qos in ("0", "1"):
            options = ("--scenario", "throughput", "--qos", qos, "--json")
            self.assertClean(self.run_bench(*options, "--cafile", str(self.cafile), url=self.url))

    def test_payloads_of_many_records(self) -> None:
        options = ("--scenario", "throughput", "--pubs", "2", "--size", "50000", "--json")
        self.assertClean(self.run_bench(*options, "--cafile", str(self.cafile), url=self.url))

    def test_secure_websocket(self) -> None:
        url = f"wss://localhost:{self.websocket}"
        options = ("--scenario", "throughput", "--pubs", "2", "--json", "--insecure")
        self.assertClean(self.run_bench(*options, url=url))

    def test_connections(self) -> None:
        options = ("--scenario", "connections", "--clients", "60", "--json", "--insecure")
        self.assertClean(self.run_bench(*options, url=self.url))

    def test_an_unknown_authority(self) -> None:
        said = self.run_bench(url=self.url)
        self.assertEqual(said.status, 1)
        self.assertIn("is not trusted", said.err)
        self.assertIn("--cafile", said.err)

    def test_another_name_than_the_certificates(self) -> None:
        said = self.run_bench("--cafile", str(self.cafile), url=f"mqtts://127.0.0.1:{self.port}")
        self.assertEqual(said.status, 1)
        self.assertIn("is not trusted", said.err)

    def test_files_that_are_no_certificates(self) -> None:
        broken = Path(self.directory, "broken.pem")
        broken.write_text("nothing")
        said = self.run_bench("--cafile", str(broken), url=self.url)
        self.assertEqual(said.status, 1)
        self.assertIn("broken.pem", said.err)
