"""Lock-outs and bans at real processes: over restarts, and on all nodes of a cluster."""

import base64
import hashlib
import sys

from twisted.trial.unittest import SynchronousTestCase

from mhub.wire import reasons
from tests.helpers import packets as p
from tests.system.case import place
from tests.system.cluster_processes import PORT, PROXIED_PORT, ClusterProcesses
from tests.system.process import Broker, run, wait_until
from tests.system.raw import Address, Raw

GUARD = """
[guard]
login_failures = 5
lockout_s = 3600
flapping_connects = 6
flapping_ban_s = 3600
"""

AUTH = """
[[auth]]
type = "password-file"
file = "passwords"
listeners = ["proxied"]
"""

SINGLE = f"""
[[listeners]]
name = "plain"
port = 0

[[listeners]]
name = "proxied"
port = 0
proxy_protocol = true
{AUTH}{GUARD}
"""


def line(user: str, password: str) -> str:
    """As mosquitto_passwd writes it."""
    made = hashlib.pbkdf2_hmac("sha512", password.encode(), b"salt", 101)
    salt, made_text = base64.b64encode(b"salt").decode(), base64.b64encode(made).decode()
    return f"{user}:$7$101${salt}${made_text}\n"


PASSWORDS = line("alice", "right") + line("bob", "right")


class GuardCase(SynchronousTestCase):
    def log_in(
        self, address: Address, host: str, user: str, password: str, client_id: str = "c"
    ) -> int:
        """The reason of the CONNACK, for a client that comes from `host`."""
        version = 6 if ":" in host else 4
        prefix = f"PROXY TCP{version} {host} {host} 40000 1883\r\n".encode()
        raw = Raw(address, 5, prefix=prefix)
        self.addCleanup(raw.sock.close)
        raw.send(p.connect(client_id, 5, username=user, password=password))
        reason = raw.expect("CONNACK").reason
        assert reason is not None
        return reason

    def guess(self, address: Address, host: str, user: str) -> None:
        for number in range(5):
            reason = self.log_in(address, host, user, f"guess {number}")
            self.assertEqual(reason, reasons.BAD_USER_OR_PASSWORD)


class LockoutTests(GuardCase):
    def test_it_survives_a_restart(self) -> None:
        directory = place(self)
        (directory / "passwords").write_text(PASSWORDS)
        broker = Broker(directory, SINGLE)
        self.addCleanup(broker.kill)
        broker.start()
        proxied = ("127.0.0.1", broker.ports["proxied"])
        self.guess(proxied, "192.0.2.7", "alice")
        self.guess(proxied, "2001:db8::1", "bob")
        broker.wait_for_log("user 'alice' at 192.0.2.7 locked out for 3600 s after 5 failed logins")
        for _ in range(2):
            self.assertEqual(
                self.log_in(proxied, "192.0.2.7", "alice", "right"), reasons.NOT_AUTHORIZED
            )
            self.assertEqual(
                self.log_in(proxied, "2001:db8::ffff", "bob", "right"), reasons.NOT_AUTHORIZED
            )
            self.assertEqual(self.log_in(proxied, "192.0.2.8", "alice", "right"), 0)
            self.assertEqual(self.log_in(proxied, "192.0.2.7", "bob", "right"), 0)
            self.assertEqual(broker.stop(), 0)
            (directory / "broker.log").unlink()  # which has the ports of before
            broker.start()
            proxied = ("127.0.0.1", broker.ports["proxied"])


class ClusterTests(GuardCase):
    def setUp(self) -> None:
        self.nodes = ClusterProcesses(place(self))
        self.addCleanup(self.nodes.close)
        self.nodes.add("a", "b")
        for node in self.nodes.nodes.values():
            config = node.directory / "broker.toml"
            config.write_text(f"{config.read_text()}{AUTH}{GUARD}")
            (node.directory / "passwords").write_text(PASSWORDS)
        self.nodes.start()
        wait_until(self.nodes.whole, "a cluster of two")
        self.hosts = [node.host for node in self.nodes.nodes.values()]

    def test_a_lockout_holds_on_all_nodes(self) -> None:
        a, b = ((host, PROXIED_PORT) for host in self.hosts)
        self.guess(a, "192.0.2.7", "alice")

        def is_known() -> bool:
            return self.log_in(b, "192.0.2.7", "alice", "right") == reasons.NOT_AUTHORIZED

        wait_until(is_known, "node b knows of it")
        self.assertEqual(self.log_in(b, "192.0.2.8", "alice", "right"), 0)

    def test_a_flapping_client_is_banned_on_all_nodes(self) -> None:
        a, b = ((host, PORT) for host in self.hosts)
        for _ in range(6):
            client = Raw(a, 5)
            self.addCleanup(client.sock.close)
            client.connect("flapping")
        client.expect("DISCONNECT", reason=reasons.BANNED)

        def is_known() -> bool:
            other = Raw(b, 5)
            self.addCleanup(other.sock.close)
            other.send(p.connect("flapping", 5))
            return other.expect("CONNACK").reason == reasons.BANNED

        wait_until(is_known, "node b knows of it")

    def mhub(self, node: str, *argv: str) -> str:
        directory = self.nodes.nodes[node].directory
        done = run(
            [sys.executable, "-m", "mhub", "ctl", *argv, "--config", "broker.toml"], cwd=directory
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_an_operator_bans_at_one_node_who_is_connected_to_another(self) -> None:
        a, b = ((host, PORT) for host in self.hosts)
        clients = []
        for number, version in enumerate((5, 4, 5)):
            client = Raw(b, version)
            self.addCleanup(client.sock.close)
            client.connect(f"client {number}")
            clients.append(client)
        five, three, other = clients
        self.mhub("a", "ban", "add", "client", "client 0", "--reason", "noise", "--for", "1h")
        five.expect("DISCONNECT", reason=reasons.BANNED)
        self.mhub("a", "ban", "add", "client", "client 1")
        three.expect_closed()
        other.ping()
        self.nodes.nodes["b"].wait_for_log("client id 'client 0' is banned: noise")
        self.mhub("a", "ban", "add", "address", "127.0.0.0/8")
        other.expect("DISCONNECT", reason=reasons.BANNED)
        self.mhub("b", "ban", "remove", "address", "127.0.0.0/8")
        again = Raw(a, 5)
        self.addCleanup(again.sock.close)
        wait_until(lambda: "127.0.0.0" not in self.mhub("a", "ban", "list"), "a knows it")
        again.connect("client 2")

    def test_an_operator_ends_a_lockout(self) -> None:
        a, b = ((host, PROXIED_PORT) for host in self.hosts)
        self.guess(a, "192.0.2.7", "alice")
        self.assertIn("192.0.2.7 alice", self.mhub("a", "ban", "list", "--kind", "login"))
        self.mhub("a", "ban", "remove", "login", "192.0.2.7 alice")
        for address in (a, b):
            self.assertEqual(self.log_in(address, "192.0.2.7", "alice", "right"), 0)
