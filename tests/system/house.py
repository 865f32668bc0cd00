"""The broker that most tests share: one listener of each kind, started by the first test.

Tests keep apart by their client ids and topics, as the clients of any broker do.
"""

import atexit
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.helpers.certificates import Authority
from tests.system.process import PATIENCE_S, Broker, environment

USER, PASSWORD = "alice", "correct horse"

_CONFIG = """
[log]
level = "debug"
rate = 0

[[auth]]
type = "certificate"
listeners = ["devices", "proxied", "proxied-secure"]

[[auth]]
type = "password-file"
file = "scram-users"
listeners = ["users"]

[[listeners]]
name = "plain"
port = 0

[[listeners]]
name = "local"
transport = "unix"
path = "mqtt.sock"

[[listeners]]
name = "secure"
transport = "tls"
port = 0
[listeners.tls]
certificate = "server.crt"
key = "server.key"
[[listeners.tls.sni]]
hosts = ["other.test", "*.wild.test"]
certificate = "other.crt"
key = "other.key"

[[listeners]]
name = "web"
transport = "ws"
port = 0

[[listeners]]
name = "secure-web"
transport = "wss"
port = 0
tls.certificate = "server.crt"
tls.key = "server.key"

[[listeners]]
name = "devices"
transport = "tls"
port = 0
allow_anonymous = false
username_as_client_id = true
[listeners.tls]
certificate = "server.crt"
key = "server.key"
client_certificate = "required"
ca = "devices-ca.crt"

[[listeners]]
name = "proxied"
port = 0
proxy_protocol = true
allow_anonymous = true

[[listeners]]
name = "proxied-secure"
transport = "tls"
port = 0
proxy_protocol = true
allow_anonymous = true
tls.certificate = "server.crt"
tls.key = "server.key"

[[listeners]]
name = "users"
port = 0
allow_anonymous = false

[[listeners]]
name = "small"
port = 0
versions = ["5.0"]
max_packet_size = 1000
max_connections = 2
"""

_SIX = """
[[listeners]]
name = "six"
host = "::1"
port = 0
"""


def has_ipv6() -> bool:
    """Whether this machine can listen on ::1; containers often cannot."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


class House:
    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="mhub-system-"))
        atexit.register(shutil.rmtree, self.directory, ignore_errors=True)
        self.unix = str(self.directory / "mqtt.sock")
        self.authority = Authority("Test Authority")
        self.device_authority = Authority("Device Authority")
        self._issue()
        self._add_user()
        self.ipv6 = has_ipv6()
        self.broker = Broker(self.directory, _CONFIG + _SIX * self.ipv6)
        atexit.register(self.broker.kill)
        self.broker.start()
        ports = self.broker.ports
        self.tcp, self.tcp6 = ports["plain"], ports.get("six", 0)
        self.tls, self.devices = ports["secure"], ports["devices"]
        self.ws, self.wss = ports["web"], ports["secure-web"]
        self.proxied, self.proxied_tls = ports["proxied"], ports["proxied-secure"]
        self.users, self.small = ports["users"], ports["small"]

    def _issue(self) -> None:
        place = self.directory
        self.authority.write(place / "ca.crt")
        self.device_authority.write(place / "devices-ca.crt")
        self.authority.issue("localhost", place / "server.crt", place / "server.key")
        self.authority.issue("other.test", place / "other.crt", place / "other.key")

    def _add_user(self) -> None:
        """As an administrator does it; few rounds of hashing, since tests log in often."""
        mhub = [sys.executable, "-m", "mhub"]
        command = [*mhub, "ctl", "user", "add", USER, "--file", "scram-users"]
        subprocess.run(
            [*command, "--password-file", "-", "--iterations", "4096"],
            input=PASSWORD + "\n",
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            cwd=self.directory,
            env=environment(),
            timeout=PATIENCE_S,
        )

    def trust(self, client: str = "", authority: Authority | None = None) -> ssl.SSLContext:
        """TLS for a client that trusts the broker's authority; with a certificate if named."""
        context = ssl.create_default_context(cafile=str(self.directory / "ca.crt"))
        if client:
            certificate = self.directory / f"{client}.crt"
            key = self.directory / f"{client}.key"
            (authority or self.device_authority).issue(client, certificate, key)
            context.load_cert_chain(certificate, key)
        return context


_house: House | None = None


def house() -> House:
    global _house
    if _house is None:
        _house = House()
    return _house
