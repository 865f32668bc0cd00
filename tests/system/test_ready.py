"""HAProxy asks /ready, as docs/cluster.md has it: a node whose store fails gets no clients."""

import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

from twisted.trial.unittest import SkipTest

from tests.helpers.redis import RedisServer
from tests.system.case import BrokerCase, place
from tests.system.numbers import admin_url, get
from tests.system.process import wait_until
from tests.system.raw import Raw

PAGE = Path(__file__).absolute().parents[2] / "docs" / "cluster.md"

CONFIG = """
[[listeners]]
name = "balanced"
port = 0
proxy_protocol = true
allow_anonymous = true

[admin]
port = 0

[store]
kind = "redis"
redis.port = {port}
retry_s = 0.1
"""


def documented() -> str:
    """The configuration of HAProxy in the docs."""
    found = re.search(r"```\n(defaults\n.*?)```", PAGE.read_text("utf-8"), re.S)
    assert found is not None
    return found[1]


class ReadyTests(BrokerCase):
    def setUp(self) -> None:
        program = shutil.which("haproxy", path=os.environ.get("PATH", "") + ":/usr/sbin")
        if program is None:
            raise SkipTest("haproxy is not there: install haproxy")
        self.redis = RedisServer("appendonly yes")  # it comes back with what it had
        self.addCleanup(self.redis.remove)
        self.broker = self.start(CONFIG.format(port=self.redis.port))
        self.url = admin_url(self.broker)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.listener.close)
        directory = place(self)
        self.control = directory / "control"
        text = documented()
        for old, new in (
            ("defaults\n", f"global\n    stats socket {self.control}\n\ndefaults\n"),
            ("bind :1883", f"bind fd@{self.listener.fileno()}"),
            ("inter 2s", "inter 100ms"),
            ("port 8088", f"port {self.url.rpartition(':')[2]}"),
            ("node-a.example.org:1883", f"127.0.0.1:{self.broker.ports['balanced']}"),
            ("    server b node-b.example.org:1883\n", ""),
            ("    server c node-c.example.org:1883\n", ""),
        ):
            self.assertEqual(text.count(old), 1, old)
            text = text.replace(old, new)
        config = directory / "haproxy.cfg"
        config.write_text(text)
        process = subprocess.Popen(
            [program, "-db", "-q", "-f", str(config)],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(self.listener.fileno(),),
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

    def status(self) -> str:
        """What HAProxy thinks of the node: UP or DOWN, or how far it is from the other."""
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(str(self.control))
                sock.sendall(b"show stat\n")
                data = b""
                while piece := sock.recv(65536):
                    data += piece
        except OSError:
            return ""
        lines = data.decode().splitlines()
        names = lines[0].lstrip("# ").split(",")
        for line in lines[1:]:
            row = dict(zip(names, line.split(","), strict=False))
            if row.get("svname") == "a":
                return row["status"]
        return ""

    def expect(self, status: str) -> None:
        wait_until(lambda: self.status() == status, f"HAProxy says {status}")

    def test_a_store_that_fails(self) -> None:
        self.expect("UP")
        client = Raw(self.listener.getsockname())
        self.addCleanup(client.close)
        client.connect("c", clean=False)
        self.broker.wait_for_log("'c' connected from")
        self.assertEqual(get(f"{self.url}/ready"), (200, {"ready": True, "state": "ready"}))
        self.redis.stop()
        client.publish("t", b"x", 1, 1)
        wait_until(lambda: get(f"{self.url}/ready")[0] == 503, "/ready says 503")
        self.assertEqual(get(f"{self.url}/ready")[1]["detail"], "store")
        self.assertEqual(get(f"{self.url}/health"), (200, {"status": "up"}))
        self.expect("DOWN")
        self.redis.start()
        self.expect("UP")
        self.assertEqual(get(f"{self.url}/ready")[0], 200)

    def test_a_node_that_hangs(self) -> None:
        self.expect("UP")
        self.broker.signal(signal.SIGSTOP)
        self.addCleanup(self.broker.signal, signal.SIGCONT)
        self.expect("DOWN")
        self.broker.signal(signal.SIGCONT)
        self.expect("UP")
