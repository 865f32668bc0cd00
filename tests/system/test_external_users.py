"""Users in Redis, PostgreSQL, MariaDB and a web service, in a real broker, over real sockets."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.auth.external import HASH, go_auth_hash
from tests.helpers import packets as p
from tests.helpers.databases import DatabaseServer, MariaServer, PostgresServer, shared_database
from tests.helpers.redis import RedisServer
from tests.system.case import place
from tests.system.process import Broker, wait_until
from tests.system.raw import Raw

BAD_USER_OR_PASSWORD, SERVER_UNAVAILABLE = 0x86, 0x88

CONFIG = """
[[listeners]]
name = "plain"
port = 0

[[listeners]]
name = "users"
port = 0

[[auth]]
type = "redis"
listeners = ["users"]
layout = "go-auth"
port = {redis}

[[auth]]
type = "postgresql"
listeners = ["users"]
port = {postgresql}
database = "postgres"
username = "postgres"
password = "test-database"
query = "select password_hash, tenant from mhub_users where name = :username"

[[auth]]
type = "mysql"
listeners = ["users"]
host = "{socket}"
database = "mhub_system"
username = "root"
query = "select password_hash from users where name = ?"

[[auth]]
type = "http"
listeners = ["users"]
url = "http://127.0.0.1:{http}/login"

[store]
kind = "memory"

[control]
path = ""
"""


class Login(BaseHTTPRequestHandler):
    """A web service of an operator."""

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        known = sent["username"] == "weber" and sent["password"] == "secret"
        answer = json.dumps({"result": "allow" if known else "ignore"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class ExternalUsersTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.redis = RedisServer()
        self.addCleanup(self.redis.remove)
        self.postgres = shared_database(PostgresServer)
        self.maria = shared_database(MariaServer)
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Login)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.addCleanup(self.http.server_close)
        self.addCleanup(self.http.shutdown)
        self._fill(self.postgres, self.maria)
        config = CONFIG.format(
            redis=self.redis.port,
            postgresql=self.postgres.port,
            socket=f"{self.maria.directory}/mysql.sock",
            http=self.http.server_port,
        )
        self.broker = Broker(place(self), config)
        self.addCleanup(self.broker.kill)
        self.broker.start()

    def _fill(self, postgres: DatabaseServer, maria: DatabaseServer) -> None:
        self.redis.ask("SET", "redmond", go_auth_hash("secret"))
        postgres.run(
            "drop table if exists mhub_users",
            "create table mhub_users (name text, password_hash text, tenant text)",
            f"insert into mhub_users values ('posy', '{HASH}', 'acme')",
        )
        maria.run(
            "drop database if exists mhub_system",
            "create database mhub_system",
            "create table mhub_system.users (name varchar(50), password_hash varchar(200))",
            f"insert into mhub_system.users values ('mary', '{HASH}')",
        )

    def log_in(self, username: str, password: str = "secret", version: int = 5) -> int:
        raw = Raw(("127.0.0.1", self.broker.ports["users"]), version)
        self.addCleanup(raw.sock.close)
        raw.send(p.connect(f"c-{username}", version, username=username, password=password))
        packet = raw.receive()
        assert packet is not None and packet.type == "CONNACK"
        return int(packet.reason)

    def test_each_user_logs_in(self) -> None:
        for name in ("redmond", "posy", "mary", "weber"):
            for version in (4, 5):
                self.assertEqual(self.log_in(name, version=version), 0, name)
        for name in ("redmond", "posy", "mary", "weber", "nobody", "posy' or '1'='1"):
            self.assertEqual(self.log_in(name, "wrong"), BAD_USER_OR_PASSWORD, name)
        self.assertEqual(self.broker.stop(), 0)
        self.assertNotIn("Traceback", self.broker.log())

    def test_a_server_that_hangs_delays_its_own_users_only(self) -> None:
        self.assertEqual(self.log_in("redmond"), 0)
        self.redis.pause()
        waiting = [Raw(("127.0.0.1", self.broker.ports["users"]), 5) for _ in range(20)]
        for number, raw in enumerate(waiting):
            self.addCleanup(raw.sock.close)
            raw.send(p.connect(f"w-{number}", 5, username="redmond", password="secret"))
        watcher = Raw(("127.0.0.1", self.broker.port))
        self.addCleanup(watcher.sock.close)
        watcher.connect("watcher")
        watcher.subscribe("#")
        for number in range(100):
            watcher.publish("t", b"%d" % number)
            watcher.expect("PUBLISH", payload=b"%d" % number)
        for raw in waiting:
            raw.expect("CONNACK", reason=SERVER_UNAVAILABLE)
        self.redis.go_on()
        wait_until(lambda: self.log_in("redmond") == 0, "the server is asked again")
        self.assertEqual(self.broker.stop(), 0)
        log = self.broker.log()
        self.assertNotIn("Traceback", log)
        self.assertEqual(log.count("redis does not answer: "), 1)
        self.assertEqual(log.count("redis answers again, after "), 1)

    def test_a_stop_does_not_wait_for_a_server_that_hangs(self) -> None:
        self.assertEqual(self.log_in("posy"), 0)
        self.postgres.pause()
        self.addCleanup(self.postgres.go_on)
        raw = Raw(("127.0.0.1", self.broker.ports["users"]), 5)
        self.addCleanup(raw.sock.close)
        raw.send(p.connect("w", 5, username="posy", password="secret"))
        self.assertEqual(self.broker.stop(), 0)
        self.assertNotIn("Traceback", self.broker.log())


RIGHTS = """
[[listeners]]
name = "plain"
port = 0

[[listeners]]
name = "users"
port = 0

[[auth]]
type = "redis"
listeners = ["users"]
layout = "go-auth"
port = {redis}

[access]
policy = "rules.csv"

[store]
kind = "memory"

[control]
path = ""
"""

RULES = """p, role:everyone, *, connect, #, any, allow
p, role:admin, *, *, #, any, allow
"""

DENIED = 0x87


class GoAuthRightsTests(SynchronousTestCase):
    """The lists of mosquitto-go-auth decide, as they do there."""

    def setUp(self) -> None:
        self.redis = RedisServer()
        self.addCleanup(self.redis.remove)
        for words in (
            ("SET", "alice", go_auth_hash("secret")),
            ("SET", "root", go_auth_hash("secret", "sha256")),
            ("SET", "root:su", "true"),
            ("SADD", "alice:sacls", "down/#"),
            ("SADD", "alice:racls", "down/open/+"),
            ("SADD", "alice:wacls", "up/alice", "50%, (x)"),
            ("SADD", "common:wacls", "who/%u/%c"),
        ):
            self.redis.ask(*words)
        folder = place(self)
        (folder / "rules.csv").write_text(RULES)
        self.broker = Broker(folder, RIGHTS.format(redis=self.redis.port))
        self.addCleanup(self.broker.kill)
        self.broker.start()

    def client(self, name: str, client_id: str = "") -> Raw:
        raw = Raw(("127.0.0.1", self.broker.ports["users"]), 5)
        self.addCleanup(raw.sock.close)
        raw.connect(client_id or f"c-{name}", username=name, password="secret")
        return raw

    def publish(self, raw: Raw, topic: str) -> int:
        raw.publish(topic, b"x", 1, 7)
        return int(raw.expect("PUBACK").reason)

    def subscribe(self, raw: Raw, topic_filter: str) -> int:
        raw.send(p.subscribe(9, (topic_filter, 1), version=5))
        return int(raw.expect("SUBACK").reasons[0])

    def test_publish(self) -> None:
        alice = self.client("alice")
        for topic, is_allowed in (
            ("up/alice", True),
            ("50%, (x)", True),
            ("who/alice/c-alice", True),
            ("up/bob", False),
            ("who/alice/other", False),
            ("down/open/a", False),
            ("who/%u/%c", False),
        ):
            allowed = self.publish(alice, topic) != DENIED
            self.assertEqual(allowed, is_allowed, topic)

    def test_a_client_id_with_a_wildcard_is_nobody(self) -> None:
        alice = self.client("alice", "#")
        self.assertEqual(self.publish(alice, "who/alice/x"), DENIED)
        self.assertNotEqual(self.publish(alice, "up/alice"), DENIED)

    def test_subscribe_and_receive(self) -> None:
        """To subscribe is one thing, to read another."""
        alice, root = self.client("alice"), self.client("root")
        self.assertEqual(self.subscribe(alice, "up/#"), DENIED)
        self.assertEqual(self.subscribe(alice, "#"), DENIED)
        self.assertEqual(self.subscribe(alice, "down/#"), 1)
        for topic in ("down/secret", "down/open/a"):
            root.publish(topic, topic.encode(), 1, 7)
            root.expect("PUBACK")
        self.assertEqual(alice.expect("PUBLISH").payload, b"down/open/a")

    def test_superuser(self) -> None:
        root = self.client("root")
        self.assertNotEqual(self.publish(root, "anything"), DENIED)
        self.assertEqual(self.subscribe(root, "#"), 1)
