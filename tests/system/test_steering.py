"""A running broker that is steered over HTTP: reload, listeners, log, traces; and who may not."""

import json
from typing import Any
from urllib.parse import urlencode

from tests.helpers import packets as p
from tests.system.process import Broker, wait_until
from tests.system.raw import Raw
from tests.system.test_access import CONFIG, QUICK
from tests.system.test_http import ADMIN, EventStream, HttpCase

MORE = '\n[[listeners]]\nname = "more"\nport = 0\nallow_anonymous = true\n'
BASE = "/admin/v1"

READS = ("/listeners", "/configuration", "/log/level", "/log/recent", "/trace?topic=t")
WRITES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("POST", "/listener/open", {"name": "more"}),
    ("POST", "/listener/close", {"name": "more"}),
    ("POST", "/configuration/reload", {}),
    ("PUT", "/log/level", {"level": "info"}),
)


class SteeringTests(HttpCase):
    def setUp(self) -> None:
        super().setUp()
        # Rules decide about admins also where they do not about clients.
        self.base = CONFIG + "enabled = false\n" + QUICK + ADMIN
        self.configure(self.base + MORE)

    def begin(self) -> Broker:
        self.add("root", "--role", "admin")
        self.add("eve", "--role", "viewer")
        return super().begin()

    def ask(self, method: str, path: str, body: Any = None, user: str = "root") -> Any:
        status, _, data = self.call(method, BASE + path, body, user)
        return status, json.loads(data)

    def anonymous(self, listener: str = "more", name: str = "c") -> Raw:
        raw = Raw(("127.0.0.1", self.broker.ports[listener]), 5)
        self.addCleanup(raw.sock.close)
        raw.connect(name)
        return raw

    def test_permissions_and_checks(self) -> None:
        self.begin()
        self.who_may_not()
        self.check()

    def test_log_and_traces(self) -> None:
        self.begin()
        self.log()
        self.traces()

    def test_listeners_and_reload(self) -> None:
        self.begin()
        self.listeners()
        self.reload()

    def who_may_not(self) -> None:
        for path in READS:
            for user, expected in (("", 401), ("ann", 403)):
                self.assertEqual(self.ask("GET", path, None, user)[0], expected, path)
        for method, path, body in WRITES:
            for user, expected in (("", 401), ("ann", 403), ("eve", 403)):
                status, _ = self.ask(method, path, body, user)
                self.assertEqual(status, expected, path)

    def reload(self) -> None:
        broker = self.broker
        client = self.anonymous()
        self.configure(self.base + "[limits]\nmax_qso = 1\n")
        status, answer = self.ask("POST", "/configuration/reload")
        self.assertEqual(status, 409)
        self.assertIn("limits.max_qso: unknown key", answer["detail"])
        client.ping()
        self.configure(self.base + "[limits]\nmax_qos = 1\n[store]\nretry_s = 3\n")
        status, answer = self.ask("POST", "/configuration/reload")
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["in_force"], ["limits.max_qos", "listeners"])
        self.assertEqual(answer["needs_restart"], ["store.retry_s"])
        client.expect("DISCONNECT", reason=0x98)
        status, answer = self.ask("GET", "/configuration")
        self.assertEqual(answer["settings"]["limits"]["max_qos"], 1)
        self.assertEqual(answer["needs_restart"], ["store.retry_s"])
        self.assertIn("limits.max_qos", answer["lines"])
        self.assertEqual(answer["file"], str(broker.directory / "broker.toml"))
        self.assertIn("reloaded: limits.max_qos", broker.log())

    def check(self) -> None:
        status, answer = self.ask(
            "POST", "/configuration/check", {"text": "[limits]\nmax_qso = 1\n"}
        )
        self.assertEqual(status, 200)
        (problem,) = answer["problems"]
        self.assertEqual((problem["key"], problem["line"]), ("limits.max_qso", 2))
        text = '[access]\npolicy = "/etc/passwd"\n[store]\nkind = "memory"\n'
        status, answer = self.ask("POST", "/configuration/check", {"text": text})
        self.assertEqual(answer["problems"], [])  # it does not tell what is in that file
        self.assertIn("store.kind", answer["needs_restart"])

    def listeners(self) -> None:
        client = self.anonymous()
        _, found = self.ask("GET", "/listeners")
        by_name = {each["name"]: each for each in found}
        self.assertEqual(by_name["more"]["connections"], 1)
        self.assertEqual(by_name["more"]["state"], "open")
        _, closed = self.ask("POST", "/listener/close", {"name": "more"})
        self.assertEqual(closed["state"], "closed")
        with self.assertRaises(ConnectionRefusedError):
            self.anonymous()
        client.ping()
        self.ask("POST", "/configuration/reload")
        with self.assertRaises(ConnectionRefusedError):
            self.anonymous()
        self.ask("POST", "/listener/close", {"name": "more", "disconnect": True})
        client.expect("DISCONNECT", reason=0x98)
        self.assertEqual(self.ask("POST", "/listener/open", {"name": "more"})[0], 200)
        self.broker._find_ports()
        self.anonymous().ping()
        self.assertEqual(self.ask("POST", "/listener/open", {"name": "x"})[0], 404)

    def log(self) -> None:
        body = {"level": "debug", "client_id": "c", "seconds": 60}
        _, levels = self.ask("PUT", "/log/level", body)
        self.assertEqual(levels["clients"][0]["client_id"], "c")
        client = self.anonymous()
        client.publish("some/topic", b"x", 1, 1)
        client.expect("PUBACK")
        _, page = self.ask("GET", "/log/recent")
        lines = [line["text"] for line in page["lines"]]
        self.assertTrue(any("'c' in PUBLISH topic='some/topic'" in line for line in lines), lines)
        self.assertFalse(any("pw-root" in line for line in lines))
        _, later = self.ask("GET", f"/log/recent?after={page['next']}")
        self.assertFalse({line["seq"] for line in later["lines"]} & set(range(page["next"] + 1)))
        self.assertEqual(self.ask("PUT", "/log/level", {"level": "loud"})[0], 400)

    def trace(self, **query: Any) -> EventStream:
        found = EventStream(self, "", "root", "", f"{BASE}/trace?{urlencode(query)}")
        self.assertEqual(found.answer.status, 200)
        self.assertEqual(found.event()["event"], "begin")
        return found

    def traces(self) -> None:
        client = self.anonymous(name="traced")
        stream = self.trace(client_id="traced", payload_bytes=3)
        wait_until(lambda: self.packets(client, stream), "a packet is seen")
        topics = self.trace(topic="a/#", most=1)
        client.publish("a/b", b"hello")
        event = topics.event()
        self.assertEqual((event["event"], event["data"]["topic"]), ("message", "a/b"))
        self.assertEqual(event["data"]["client_id"], "traced")
        self.assertEqual(topics.event()["event"], "end")
        self.assertEqual(self.ask("GET", "/trace")[0], 400)

    def packets(self, client: Raw, stream: EventStream) -> bool:
        client.send(p.pingreq())
        client.expect("PINGRESP")
        event = stream.event()
        return bool(event["data"]["packet"] == "PINGREQ")
