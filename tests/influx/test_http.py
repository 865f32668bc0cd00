"""Requests to a server of ours that checks the grammar, and to a real InfluxDB."""

import base64
import gzip
import json
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode
from urllib.request import Request as Ask
from urllib.request import urlopen

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SkipTest, TestCase
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

from mhub.config.influx import InfluxSettings
from mhub.influx.http import InfluxHttp, write_url
from mhub.influx.lines import line
from mhub.influx.points import points
from tests.admin.metrics.moment import everything
from tests.influx.grammar import BadLine, Point, parse

START_S = 30


def lines() -> bytes:
    made = [line(*point, 1_800_000_000_000) for point in points(everything(), "mhub", {})]
    return "".join(made).encode("utf-8")


class StrictServer(Resource):
    """Takes what the grammar allows, from whom it knows."""

    isLeaf = True

    def __init__(self, authorization: str = "") -> None:
        super().__init__()
        self.authorization = authorization
        self.requests: list[tuple[str, dict[str, list[str]]]] = []
        self.points: list[Point] = []
        self.silent = False
        self.status = 0

    def render_POST(self, request: Any) -> Any:
        path, _, query = request.uri.decode().partition("?")
        self.requests.append((path, parse_qs(query)))
        if self.silent:
            return NOT_DONE_YET
        if (request.getHeader("authorization") or "") != self.authorization:
            request.setResponseCode(401)
            return b'{"code":"unauthorized","message":"unauthorized access"}'
        body = request.content.read()
        if request.getHeader("content-encoding") == "gzip":
            body = gzip.decompress(body)
        try:
            self.points += parse(body)
        except BadLine as error:
            request.setResponseCode(400)
            return json.dumps({"error": str(error)}).encode()
        request.setResponseCode(self.status or 204)
        return b""


class HttpTests(TestCase):
    def listen(self, authorization: str = "") -> tuple[StrictServer, str]:
        server = StrictServer(authorization)
        port: Any = reactor.listenTCP(0, Site(server), interface="127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(port.stopListening)
        return server, f"http://127.0.0.1:{port.getHost().port}"

    def post(self, data: bytes, **settings: Any) -> Deferred[tuple[int, str]]:
        http = InfluxHttp(InfluxSettings(**settings), reactor)
        self.addCleanup(http.stop)
        return http(data)

    async def test_version_2(self) -> None:
        server, url = self.listen("Token secret")
        found = await self.post(lines(), url=url, org="o rg", bucket="b&c", token="secret")
        self.assertEqual(found, (204, ""))
        query = {"org": ["o rg"], "bucket": ["b&c"], "precision": ["ms"]}
        self.assertEqual(server.requests, [("/api/v2/write", query)])
        self.assertGreater(len(server.points), 5)

    async def test_version_1(self) -> None:
        server, url = self.listen("Basic " + base64.b64encode("me:pässword".encode()).decode())
        settings = {"db": "d", "retention_policy": "r", "username": "me", "password": "pässword"}
        found = await self.post(lines(), url=url + "/influx/", gzip=False, **settings)
        self.assertEqual(found, (204, ""))
        query = {"db": ["d"], "rp": ["r"], "precision": ["ms"]}
        self.assertEqual(server.requests, [("/influx/write", query)])

    async def test_secrets_from_files(self) -> None:
        file = Path(self.mktemp())
        file.write_text("secret\n")
        _, url = self.listen("Token secret")
        found = await self.post(lines(), url=url, db="d", token_file=str(file))
        self.assertEqual(found[0], 204)

    async def test_a_wrong_token(self) -> None:
        _, url = self.listen("Token secret")
        status, text = await self.post(lines(), url=url, db="d", token="sesame")
        self.assertEqual(status, 401)
        self.assertIn("unauthorized", text)
        self.assertNotIn("sesame", text)

    async def test_what_is_no_line_protocol(self) -> None:
        _, url = self.listen()
        status, text = await self.post(b"nonsense\n", url=url, db="d")
        self.assertEqual(status, 400)
        self.assertIn("nonsense", text)

    async def test_a_server_that_does_not_answer(self) -> None:
        server, url = self.listen()
        server.silent = True
        found = self.post(lines(), url=url, db="d", timeout_s=0.1)
        error = await self.assertFailure(found, Exception)
        self.assertIn("no answer within 0.1 s", str(error))

    async def test_a_server_that_is_not_there(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        found = self.post(lines(), url=f"http://127.0.0.1:{port}", db="d")
        error = await self.assertFailure(found, Exception)
        self.assertIn("refused", str(error))

    def test_urls(self) -> None:
        url = write_url(InfluxSettings(url="https://h:1/a", db="d"))
        self.assertEqual(url, "https://h:1/a/write?db=d&precision=ms")


class InfluxServer:
    """A real one on loopback; Debian's package `influxdb` has version 1."""

    def __init__(self) -> None:
        binary = shutil.which("influxd") or shutil.which("influxd", path="/usr/sbin")
        if binary is None:
            raise SkipTest("influxd is not there: install influxdb")
        self.directory = Path(tempfile.mkdtemp(prefix="mhub-influx-"))
        self.port, rpc = _free_ports(2)
        config = self.directory / "influxdb.conf"
        config.write_text(
            f'reporting-disabled = true\nbind-address = "127.0.0.1:{rpc}"\n'
            f'[meta]\ndir = "{self.directory}/meta"\n'
            f'[data]\ndir = "{self.directory}/data"\nwal-dir = "{self.directory}/wal"\n'
            f'[http]\nbind-address = "127.0.0.1:{self.port}"\nlog-enabled = false\n'
            "[monitor]\nstore-enabled = false\n"
        )
        self.process = subprocess.Popen(
            [binary, "-config", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.url = f"http://127.0.0.1:{self.port}"
        deadline = time.monotonic() + START_S
        while not self._answers():
            if time.monotonic() > deadline or self.process.poll() is not None:
                self.end()
                raise AssertionError("influxd does not answer")
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/ping", timeout=1) as answer:
                return answer.status == 204
        except OSError:
            return False

    def query(self, text: str) -> Any:
        data = urlencode({"q": text, "db": "mhub"}).encode()
        with urlopen(Ask(f"{self.url}/query", data), timeout=10) as answer:
            return json.load(answer)["results"][0].get("series", [])

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


class InfluxdbTests(TestCase):
    async def test_it_takes_all_of_it(self) -> None:
        server = InfluxServer()
        self.addCleanup(server.end)
        server.query("CREATE DATABASE mhub")
        http = InfluxHttp(InfluxSettings(url=server.url, db="mhub"), reactor)
        self.addCleanup(http.stop)
        self.assertEqual(await http(lines()), (204, ""))
        (series,) = server.query("SELECT publish_messages_received, ready, state FROM mhub")
        self.assertEqual(series["values"][0][1:], [1, True, "ready"])
        (fields,) = server.query("SHOW FIELD KEYS FROM mhub")
        kinds = dict(fields["values"])
        self.assertEqual(kinds["store_commit_seconds_sum"], "float")
        self.assertEqual(kinds["bytes_received"], "integer")
        found = server.query("SELECT accepted, authenticator FROM mhub_authenticator")
        names = {row[2] for row in found[0]["values"]}
        self.assertEqual(names, {"registry", 'we"ird\\name'})
        weird = line("m", {"a b": 'c=d,"e\\f'}, {"f g": 'h"i\\j'}, 1_800_000_000_000)
        self.assertEqual((await http(weird.encode()))[0], 204)
        (series,) = server.query('SELECT "f g", "a b" FROM m')
        self.assertEqual(series["values"][0][1:], ['h"i\\j', 'c=d,"e\\f'])

    async def test_a_database_that_is_not_there(self) -> None:
        server = InfluxServer()
        self.addCleanup(server.end)
        http = InfluxHttp(InfluxSettings(url=server.url, db="other"), reactor)
        self.addCleanup(http.stop)
        status, text = await http(lines())
        self.assertEqual(status, 404)
        self.assertIn("database not found", text)
