"""`mhub ctl` from elsewhere: by URL and token, over TLS, and what it says when that fails."""

import json
import socket
import sys

from tests.helpers.certificates import Authority
from tests.system.case import BrokerCase, place
from tests.system.process import run


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as made:
        return int(made.getsockname()[1])


class RemoteTests(BrokerCase):
    def setUp(self) -> None:
        self.directory = place(self)
        authority = Authority("ca")
        files = (self.directory / "server.crt", self.directory / "server.key")
        authority.issue("localhost", *files)
        authority.write(self.directory / "ca.crt")
        self.port = free_port()
        config = (
            f"[admin]\nport = {self.port}\n"
            '[admin.tls]\ncertificate = "server.crt"\nkey = "server.key"\n'
        )
        self.broker = self.start(config, self.directory)

    def ctl(self, *argv: str, status: int = 0) -> str:
        done = run([sys.executable, "-m", "mhub", "ctl", *argv], cwd=self.directory)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def remote(self, *argv: str, status: int = 0, token: str = "token") -> str:
        url = f"https://localhost:{self.port}"
        more = ("--url", url, "--token-file", token, "--ca", "ca.crt")
        return self.ctl(*argv, *more, status=status)

    def test_all(self) -> None:
        local = ("--config", "broker.toml")
        scopes = ("--scope", "read", "--scope", "write", "--role", "admin")
        self.ctl("token", "add", "ops", *scopes, "--output", "token", *local)
        self.assertEqual((self.directory / "token").stat().st_mode & 0o777, 0o600)
        self.assertIn(": running for ", self.remote("status"))
        self.assertEqual(json.loads(self.remote("clients", "--json"))["clients"], [])
        self.assertIn("CLIENTS by messages in", self.remote("top", "--once"))
        text = self.remote("user", "add", "eve", "--no-password", status=1)
        self.assertIn("mhub ctl user add: ", text)
        (self.directory / "wrong").write_text("mhub_wrong\n")
        text = self.remote("status", status=1, token="wrong")
        self.assertIn("does not accept the token: ", text)
        url = ("--url", f"https://localhost:{self.port}")
        text = self.ctl("status", *url, "--ca", "ca.crt", status=1)
        self.assertIn("wants a token", text)
        text = self.ctl("status", *url, "--token-file", "token", status=1)
        self.assertIn("is not trusted", text)
        found = json.loads(self.ctl("token", "list", "--json", *local))["tokens"]
        self.ctl("token", "revoke", found[0]["id"], *local)
        self.assertIn("does not accept the token", self.remote("status", status=1))
        self.broker.stop()
        self.assertIn("nobody answers at https://localhost:", self.remote("status", status=1))
        self.assertIn("no broker answers at", self.ctl("status", *local, status=1))
