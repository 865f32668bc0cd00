"""Attacks on the admin listener of a running broker, and secrets that must not come out of it."""

import json
import socket
import ssl
from pathlib import Path
from urllib.parse import quote

from mhub.admin.resources import ENDPOINTS
from tests.helpers import packets as p
from tests.helpers.certificates import Authority
from tests.system.case import BrokerCase
from tests.system.process import Broker
from tests.system.raw import Raw
from tests.system.test_admin_permissions import CONFIG, QUICK, SAMPLES
from tests.system.web import ADMIN, PASSWORD, Web

SECRETS = """allow_anonymous = true

[[auth]]
type = "http"
url = "http://127.0.0.1:9/"
headers = { Authorization = "Bearer upstream-secret" }

[cluster]
name = "c"
node = "a"
secret = "cluster-secret-0123456789"
port = 0
"""


class SecurityCase(BrokerCase):
    config = CONFIG

    def setUp(self) -> None:
        self.broker = self.start(self.config)
        self.web = Web(self.broker)
        self.web.add_user("root", "admin")
        self.root = self.web.as_user("root")
        self.addCleanup(self.still_well)

    def still_well(self) -> None:
        self.assertTrue(self.broker.running)
        self.assertNotIn("Traceback", self.broker.log())

    def raw(self, data: bytes) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.web.port), 30)
        self.addCleanup(made.close)
        made.sendall(data)
        return made

    def answer(self, data: bytes) -> bytes:
        """All that comes until the broker closes; it is told to."""
        made = self.raw(data)
        found = b""
        while more := made.recv(65536):
            found += more
        return found


def is_closed(sock: socket.socket) -> bool:
    """Whether the other side ends it, in whatever way."""
    try:
        return sock.recv(1000) == b""
    except ConnectionResetError:
        return True


class RequestTests(SecurityCase):
    config = CONFIG + "request_timeout_s = 1\n"

    def test_attacks(self) -> None:
        """One broker for all: none of them may hurt the next one."""
        self.smuggling()
        self.injection()
        self.paths()
        self.bombs()
        self.slow()
        self.crowd()
        self.assertEqual(self.root.get("/admin/v1/clients").status, 200)

    def smuggling(self) -> None:
        """What two servers could read differently is refused, and the connection is closed."""
        for head in (
            b"Content-Length: 5\r\nContent-Length: 6\r\n",
            b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"Content-Length: -5\r\n",
            b"Content-Length: 0x5\r\n",
        ):
            found = self.answer(b"POST /admin/v1/login HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n")
            self.assertRegex(found, rb"^HTTP/1.1 (400|411|413)", head)

    def injection(self) -> None:
        for path in (
            "/admin/v1/client?client_id=%0d%0aSet-Cookie:%20evil=1",
            "/admin/v1/session%0d%0aX-Evil:1",
            "/%0d%0aX-Evil:%201",
        ):
            reply = self.root.get(path)
            self.assertIsNone(reply.headers["X-Evil"])
            self.assertNotIn("evil", str(reply.headers["Set-Cookie"]))
        found = self.answer(
            b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
            b"Origin: https://x\x0bY: 1\r\n\r\n"
        )
        self.assertNotIn(b"\r\nY:", found)

    def paths(self) -> None:
        for path in (
            "/../../etc/passwd",
            "/..%2f..%2fetc%2fpasswd",
            "/static/..%5c..%5cetc",
            "/%2e%2e/%2e%2e/etc/passwd",
            "/admin/v1/users/../health",
            "/admin/v1/users%00",
            "/admin/v1/users;x=1",
            "/ADMIN/V1/USERS",
        ):
            reply = self.web.get(path)
            self.assertIn(reply.status, (401, 404), path)
            self.assertNotIn(b"root:", reply.body)
        # Another spelling of a path needs the same permission.
        for path in ("//admin/v1/users", "/admin//v1/users", "/admin/v1/%75sers"):
            self.assertIn(self.web.get(path).status, (401, 404), path)
        for method in ("TRACE", "PUT"):  # of a file of the dashboard, too
            reply = self.web.ask(method, "/")
            self.assertEqual((reply.status, reply.headers["Allow"]), (405, "GET, HEAD"))

    def bombs(self) -> None:
        nested = b'{"user":' + b"[" * 100_000 + b"]" * 100_000 + b',"password":""}'
        wide = json.dumps({f"k{n}": n for n in range(15_000)}).encode()
        number = b'{"user":1' + b"0" * 200_000 + b',"password":""}'
        surrogate = b'{"user":"\\ud800","password":"x"}'
        for body in (nested, wide, number, surrogate, b"\xff\xfe{}", b"null", b'"x"'):
            reply = self.web.ask(
                "POST", "/admin/v1/login", body, {"Content-Type": "application/json"}
            )
            self.assertIn(reply.status, (400, 401), body[:30])
        # Refused for its head, and closed: the rest might not be taken any more.
        found = self.answer(
            b"POST /admin/v1/login HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n{"
        )
        self.assertRegex(found, rb"^HTTP/1.1 413")
        reply = self.web.get("/admin/v1/users?match=" + "*a" * 5000)
        self.assertIn(reply.status, (400, 401))
        reply = self.root.get("/admin/v1/clients?match=" + quote("*a" * 120))
        self.assertEqual(reply.status, 200)

    def slow(self) -> None:
        """Whoever sends nothing, or too slowly, is closed; others are served meanwhile."""
        begun = [
            self.raw(b"POST /admin/v1/login HTTP/1.1\r\nContent-Length: 100\r\n\r\n{"),
            self.raw(b"GET /health HTTP/1.1\r\nX-Slow: "),
        ]
        self.assertEqual(self.web.get("/health").status, 200)
        for each in begun:
            self.assertTrue(is_closed(each))

    def crowd(self) -> None:
        """Idle connections make room for those who ask."""
        for _ in range(300):
            self.raw(b"")
        self.assertEqual(self.web.get("/health").status, 200)


class LockOutTests(SecurityCase):
    config = QUICK + ADMIN + "\n[guard]\nshared_addresses = []\nlogin_failures = 3\n"

    def test_guessing(self) -> None:
        """After some failures also the right password is refused, and MQTT is locked out, too."""
        self.web.add_user("ann")
        for _ in range(3):
            reply = self.web.ask("POST", "/admin/v1/login", {"user": "ann", "password": "wrong"})
            self.assertEqual(reply.status, 401)
        reply = self.web.ask("POST", "/admin/v1/login", {"user": "ann", "password": PASSWORD})
        self.assertEqual(reply.status, 401)
        found = self.root.get("/admin/v1/lockouts").json
        self.assertIn("ann", json.dumps(found))


class SecretTests(SecurityCase):
    config = SECRETS + CONFIG

    def test_secrets(self) -> None:
        """Passwords, their hashes, tokens and secrets of the configuration are nowhere to be seen:
        in no answer, no header, no line of the log, no metric."""
        password = "correct horse battery staple"
        self.root.ask("POST", "/admin/v1/users", {"name": "ann", "password": password})
        made = self.root.ask(
            "POST", "/admin/v1/tokens", {"name": "ci", "scopes": ["read"], "roles": ["admin"]}
        ).json
        secret = made["token"].rpartition("_")[2]
        self.web.ask("POST", "/admin/v1/login", {"user": "ann", "password": password})
        self.web.ask("POST", "/admin/v1/login", {"user": "ann", "password": "hunter2 wrong"})
        self.root.ask("PUT", "/admin/v1/user/password?name=ann", {"password": password + "!"})
        self.root.ask("PUT", "/admin/v1/log/level", {"level": "debug"})
        client = Raw(("127.0.0.1", self.broker.port), 5)
        self.addCleanup(client.sock.close)
        client.send(p.connect("c", username="ann", password=b"hunter2 wrong", version=5))
        client.receive()
        answers = [self.root.ask("POST", "/admin/v1/configuration/reload")]
        for each in ENDPOINTS:
            if each.method == "GET" and each.stream in ("", "application/x-ndjson", "text/csv"):
                query = SAMPLES[each.name].query or {}
                path = each.path + "?" + "&".join(f"{k}={quote(v)}" for k, v in query.items())
                answers.append(self.root.get(path))
        answers.append(self.root.get("/admin/v1/user?name=ann"))
        text = "".join(f"{each.headers} {each.body!r}" for each in answers) + self.broker.log()
        for word in (
            password,
            "hunter2",
            secret,
            "$argon2id",
            "SCRAM-SHA-256$",
            "upstream-secret",
            "cluster-secret",
            str(self.root.headers["Cookie"]).partition("=")[2],
        ):
            self.assertNotIn(word, text)

    def test_nothing_is_cached(self) -> None:
        for path in ("/admin/v1/session", "/admin/v1/users", "/admin/v1/configuration", "/metrics"):
            self.assertEqual(self.root.get(path).headers["Cache-Control"], "no-store")


class TlsTests(BrokerCase):
    def test_secure(self) -> None:
        """Cookies are for TLS alone, and browsers are told to stay with it."""
        folder = Path(self.mktemp()).absolute()
        folder.mkdir()
        Authority("authority").issue("localhost", folder / "server.crt", folder / "server.key")
        config = (
            f'{QUICK}[admin]\nport = 0\ntls.certificate = "{folder}/server.crt"\n'
            f'tls.key = "{folder}/server.key"\n'
        )
        broker = self.start(config)
        web = Web(broker)
        web.add_user("root", "admin")
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        body = json.dumps({"user": "root", "password": PASSWORD}).encode()
        head = (
            "POST /admin/v1/login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        plain = socket.create_connection(("127.0.0.1", web.port), 30)
        with context.wrap_socket(plain) as secure:
            secure.sendall(head.encode() + body)
            found = b""
            while more := secure.recv(65536):
                found += more
        self.assertIn(b"HTTP/1.1 200", found)
        self.assertRegex(
            found,
            rb"Set-Cookie: __Host-mhub_\d+=\S+; Path=/; HttpOnly; SameSite=Strict; Secure",
        )
        self.assertIn(b"Strict-Transport-Security", found)


class FirstUserTests(BrokerCase):
    def test_first_password(self) -> None:
        """It is shown once, is in no file, and never comes again."""
        broker = self.start(CONFIG)
        web = Web(broker)
        password = web.first_password()
        self.assertEqual(web.as_user("admin", password).get("/admin/v1/users").status, 200)
        self.assertEqual(broker.stop(), 0)
        for path in (broker.directory / "mhub-data").rglob("*"):
            if path.is_file():
                self.assertNotIn(password.encode(), path.read_bytes(), path.name)
        self.again(broker)
        self.assertNotIn("Password", broker.log())

    def again(self, broker: Broker) -> Web:
        """Started anew, with a new log."""
        (broker.directory / "broker.log").unlink()
        broker.start()
        return Web(broker)

    def test_deleted(self) -> None:
        """Whoever deletes it does not get it again."""
        broker = self.start(CONFIG)
        web = Web(broker)
        web.first_password()
        web.add_user("root", "admin")
        self.assertEqual(web.local("DELETE", "/admin/v1/user?name=admin").status, 200)
        self.assertEqual(web.local("DELETE", "/admin/v1/user?name=root").status, 200)
        broker.stop()
        web = self.again(broker)
        self.assertNotIn("Password", broker.log())
        self.assertEqual(web.local("GET", "/admin/v1/users").json["users"], [])
