"""MQTT over HTTP, to a broker in a process of its own, with clients of others at the far end."""

import json
import re
import signal
import threading
from typing import Any

from tests.helpers import packets
from tests.system import mosquitto
from tests.system.http_client import EventStream, ask
from tests.system.paho import V5, Paho
from tests.system.process import PATIENCE_S, Broker, wait_until
from tests.system.raw import Raw
from tests.system.test_access import CONFIG, QUICK, AccessCase

ADMIN = """
[admin]
port = 0
basic = true
max_requests_per_s = 0
"""
RULES = (
    "p, role:sensor, *, publish|subscribe|receive, plant/#, any, allow",
    "p, role:sensor, *, publish, vault/#, any, allow",
)


class HttpCase(AccessCase):
    def setUp(self) -> None:
        super().setUp()
        self.configure(CONFIG + QUICK + ADMIN)

    def begin(self) -> Broker:
        """A broker with ann, who may do much below plant/, and bob, who may not."""
        for rule in RULES:
            self.mhub("policy", "add", rule)
        self.add("ann", "--role", "sensor")
        self.add("bob")
        self.broker = self.run_broker()
        self.find_port()
        return self.broker

    def find_port(self) -> None:
        line = self.broker.wait_for_log("admin API and dashboard on")
        found = re.search(r":(\d+)\D*$", line)
        assert found is not None, line
        self.admin = int(found[1])

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        user: str = "ann",
        **headers: str,
    ) -> tuple[int, dict[str, str], bytes]:
        return ask(("127.0.0.1", self.admin), method, path, body, user, headers)

    def publish(self, topic: str, payload: str, user: str = "ann", **fields: Any) -> Any:
        status, _, data = self.call(
            "POST", "/mqtt/publish", {"topic": topic, "payload": payload, **fields}, user
        )
        return status, json.loads(data)

    def listen(self, query: str, user: str = "ann", last: str = "") -> EventStream:
        return EventStream(self, query, user, last)


class PublishTests(HttpCase):
    def test_messages_reach_other_clients_and_come_from_them(self) -> None:
        mosquitto.need()
        broker = self.begin()
        who = ("-p", str(broker.port), "-u", "ann", "-P", "pw-ann", "-V", "5")
        there = mosquitto.Subscriber(self, 4, *who, "-t", "plant/#", "-q", "2", "-F", "%t %q %C %p")
        status, done = self.publish("plant/1", "text", qos=1, content_type="text/plain")
        self.assertEqual((200, 0, "success"), (status, done["reason_code"], done["reason"]))
        self.call("POST", "/mqtt/publish", {"topic": "plant/2", "payload_base64": "AQI=", "qos": 2})
        status, _, data = self.call(
            "POST",
            "/mqtt/publish/raw?topic=plant%2F3&qos=1&retain=true",
            b"<b>raw</b>",
            Content_Type="text/html",
        )
        self.assertEqual(200, status, data)
        status, _, data = self.call(
            "POST",
            "/mqtt/publish/batch",
            {"messages": [{"topic": "plant/4", "payload": "b", "qos": 1}, {"topic": "+"}]},
        )
        results = json.loads(data)["results"]
        self.assertEqual(
            [(True, ""), (False, "BadArgument")], [(r["ok"], r["error"]) for r in results]
        )
        lines = [line for line in there.lines() if line.startswith("plant/")]
        self.assertEqual("plant/1 1 text/plain text", lines[0])
        self.assertEqual(["plant/3 1 text/html <b>raw</b>", "plant/4 1  b"], lines[2:])

    def test_answers_to_what_is_not_allowed(self) -> None:
        self.begin()
        status, problem = self.publish("plant/1", "x", "bob", qos=1)
        self.assertEqual(403, status, problem)
        self.assertIn("not authorized to publish to 'plant/1'", problem["detail"])
        self.assertEqual(403, self.publish("plant/1", "x", "bob")[0])
        self.assertEqual(200, self.publish("users/bob/x", "x", "bob", qos=1)[0])
        self.assertEqual(401, self.publish("plant/1", "x", "")[0])
        self.assertEqual(401, self.publish("plant/1", "x", "carl")[0])
        for wrong, text in (
            ({"topic": "plant/#"}, "no + and no #"),
            ({"qos": 3}, "qos"),
            ({"palyload": "x"}, "did you mean 'payload'"),
            ({"payload_base64": "x"}, "only one of the two"),
        ):
            status, problem = self.publish(**{"topic": "plant/1", "payload": "x", **wrong})
            self.assertEqual(400, status)
            self.assertIn(text, problem["detail"])
        status, _, data = self.call("POST", "/mqtt/publish/batch", {"messages": [{"topik": "x"}]})
        self.assertEqual(400, status, data)

    def test_what_was_acknowledged_survives_a_kill(self) -> None:
        """The answer of QoS 1 means what a PUBACK means."""
        broker = self.begin()
        keeper = Keeper(self)
        keeper.subscribe("plant/#", 1)
        keeper.close()
        for number in range(20):
            self.assertEqual(200, self.publish("plant/n", str(number), qos=1)[0])
        self.assertEqual(200, self.publish("plant/kept", "retained", qos=1, retain=True)[0])
        broker.signal(signal.SIGKILL)
        broker.wait()
        self.broker = self.again()
        self.find_port()
        status, _, data = self.call("GET", "/mqtt/retained?topic=plant/kept")
        self.assertEqual((200, "retained"), (status, json.loads(data)["payload"]))
        keeper = Keeper(self)
        got = [keeper.message().payload.decode() for _ in range(21)]
        self.assertEqual([*map(str, range(20)), "retained"], got)

    def test_users_who_are_locked_are_out_at_once(self) -> None:
        self.begin()
        self.assertEqual(200, self.publish("plant/1", "x", qos=1)[0])
        self.mhub("user", "lock", "ann")
        self.assertIn(self.publish("plant/1", "x", qos=1)[0], (401, 403))

    def test_rates_of_a_caller_hold_up_nobody_else(self) -> None:
        self.configure(self.config + "\n[limits]\nmax_user_messages_per_s = 1.0\n")
        self.begin()
        messages = [{"topic": "plant/1", "payload": str(n), "qos": 1} for n in range(50)]
        status, _, data = self.call(
            "POST", "/mqtt/publish/batch", {"messages": messages, "timeout_s": 2.0}
        )
        done = json.loads(data)
        self.assertEqual(200, status)
        self.assertLess(done["published"], 20)
        self.assertEqual({"", "TimedOut", "LimitReached"}, {r["error"] for r in done["results"]})
        self.assertEqual(200, self.publish("users/bob/1", "x", "bob", qos=1)[0])


class Keeper:
    """A client of ann's whose session is kept."""

    def __init__(self, case: HttpCase) -> None:
        self.raw = Raw(("127.0.0.1", case.broker.port), 5)
        case.addCleanup(self.raw.sock.close)
        self.raw.connect(
            "kept",
            clean=False,
            username="ann",
            password="pw-ann",
            props=[(packets.Prop.SESSION_EXPIRY, 1000)],
        )

    def subscribe(self, topic_filter: str, qos: int) -> None:
        self.raw.subscribe(topic_filter, qos)

    def message(self) -> Any:
        return self.raw.expect("PUBLISH")

    def close(self) -> None:
        self.raw.close()


class RetainedTests(HttpCase):
    def test_json_and_raw(self) -> None:
        self.begin()
        self.publish(
            "plant/page", "<script>alert(1)</script>", retain=True, qos=1, content_type="text/html"
        )
        status, headers, data = self.call("GET", "/mqtt/retained?topic=plant/page")
        self.assertEqual((200, "text/html"), (status, json.loads(data)["content_type"]))
        status, headers, data = self.call(
            "GET", "/mqtt/retained?topic=plant/page", Accept="application/octet-stream"
        )
        self.assertEqual((200, b"<script>alert(1)</script>"), (status, data))
        self.assertEqual("application/octet-stream", headers["content-type"])
        self.assertEqual("text/html", headers["mqtt-content-type"])
        self.assertEqual("nosniff", headers["x-content-type-options"])
        self.assertEqual("attachment", headers["content-disposition"])
        self.assertEqual("default-src 'none'; sandbox", headers["content-security-policy"])

    def test_content_types_that_are_no_headers(self) -> None:
        self.begin()
        for evil in ("a\r\nSet-Cookie: x=1", "ä", " a", ""):
            self.publish("plant/page", "x", retain=True, qos=1, content_type=evil)
            status, headers, _ = self.call(
                "GET", "/mqtt/retained?topic=plant/page", Accept="application/octet-stream"
            )
            self.assertEqual(200, status)
            self.assertNotIn("mqtt-content-type", headers)
            self.assertNotIn("set-cookie", headers)

    def test_who_may_not_receive_is_told_that_there_is_none(self) -> None:
        self.begin()
        self.publish("vault/1", "x", retain=True, qos=1)
        self.publish("plant/1", "x", retain=True, qos=1)
        for topic, user in (("vault/1", "ann"), ("plant/1", "bob"), ("plant/2", "ann")):
            status, _, data = self.call("GET", f"/mqtt/retained?topic={topic}", user=user)
            self.assertEqual(404, status, data)


class RequestTests(HttpCase):
    def test_response_of_a_device(self) -> None:
        broker = self.begin()
        device = Paho(
            self,
            ("127.0.0.1", broker.port),
            "device",
            V5,
            username="ann",
            password="pw-ann",
        )
        device.subscribe("plant/ask", 1)
        answers: list[Any] = []
        question = {
            "topic": "plant/ask",
            "payload": "21",
            "response_topic": "plant/answers",
            "timeout_s": 20,
        }
        asking = threading.Thread(
            target=lambda: answers.append(self.call("POST", "/mqtt/request", question)), daemon=True
        )
        asking.start()
        asked = device.receive()
        device.publish(
            asked.properties.ResponseTopic,
            b"got " + asked.payload,
            1,
            CorrelationData=asked.properties.CorrelationData,
        )
        asking.join(PATIENCE_S)
        ((status, _, data),) = answers
        self.assertEqual((200, "got 21"), (status, json.loads(data).get("payload")), data)
        status, _, data = self.call(
            "POST", "/mqtt/request", {"topic": "plant/nobody", "timeout_s": 0.5}
        )
        self.assertEqual(504, status, data)


class StreamTests(HttpCase):
    def test_messages_of_other_clients(self) -> None:
        mosquitto.need()
        broker = self.begin()
        stream = self.listen("filter=plant/%2B&filter=users/ann/%23")
        self.assertEqual(200, stream.answer.status)
        self.assertEqual(
            "text/event-stream; charset=utf-8", stream.answer.getheader("Content-Type")
        )
        self.assertEqual("subscribed", stream.event()["event"])
        who = ("-p", str(broker.port), "-u", "ann", "-P", "pw-ann")
        mosquitto.call(self, "pub", *who, "-t", "plant/1", "-m", "from afar", "-q", "1")
        self.assertEqual(("plant/1", "from afar"), stream.message())

    def test_filters_that_are_not_allowed(self) -> None:
        self.begin()
        for query, user, status in (
            ("filter=plant/%23", "bob", 403),
            ("filter=plant/%23&filter=vault/%23", "ann", 403),
            ("filter=plant/a%23", "ann", 400),
            ("", "ann", 400),
            ("filter=plant/1&expiry_s=10", "ann", 400),
            ("filter=plant/1&client_id=a-b", "ann", 400),
            ("filter=plant/1", "", 401),
        ):
            answer = self.listen(query, user).answer
            self.assertEqual(status, answer.status, (query, answer.read()))

    def test_resume_behind_what_was_seen(self) -> None:
        self.begin()
        query = "filter=plant/n&client_id=feed&expiry_s=600"
        stream = self.listen(query)
        stream.event()
        for number in range(10):
            self.publish("plant/n", str(number), qos=1)
        events = [stream.event() for _ in range(5)]
        stream.close()
        for number in range(10, 15):
            self.publish("plant/n", str(number), qos=1)
        again = self.listen(query, last=events[-1]["id"])
        self.assertEqual(True, again.event()["data"]["session_present"])
        got = [again.message()[1] for _ in range(10)]
        self.assertEqual([str(number) for number in range(5, 15)], got)

    def test_resume_after_a_restart(self) -> None:
        broker = self.begin()
        query = "filter=plant/n&client_id=feed&expiry_s=600"
        stream = self.listen(query)
        stream.event()
        self.publish("plant/n", "1", qos=1)
        first = stream.event()
        stream.close()
        wait_until(lambda: "the HTTP connection has ended" in broker.log(), "it has gone")
        self.publish("plant/n", "2", qos=1)
        broker.signal(signal.SIGKILL)
        broker.wait()
        self.broker = self.again()
        self.find_port()
        stream = self.listen(query, last=first["id"])
        self.assertEqual(True, stream.event()["data"]["session_present"])
        self.assertEqual("reset", stream.event()["event"])
        self.assertEqual(("plant/n", "2"), stream.message())

    def test_slow_readers_lose_nothing_and_hold_up_nobody(self) -> None:
        broker = self.begin()
        slow = self.listen("filter=plant/n")
        quick = self.listen("filter=plant/n")
        slow.event()
        quick.event()
        count, got = 3000, []
        reading = threading.Thread(
            target=lambda: got.extend(quick.message()[1] for _ in range(count)), daemon=True
        )
        reading.start()
        before = broker.resident_bytes()
        payload = "x" * 2000
        for start in range(0, count, 100):
            messages = [
                {"topic": "plant/n", "payload": f"{n} {payload}", "qos": 1}
                for n in range(start, start + 100)
            ]
            status, _, data = self.call("POST", "/mqtt/publish/batch", {"messages": messages})
            self.assertEqual((200, 100), (status, json.loads(data)["published"]))
        reading.join(PATIENCE_S)
        self.assertEqual(count, len(got))
        # 6 MB wait in the session's queue, or in the store; the stream has a small part of it.
        self.assertLess(broker.resident_bytes() - before, 60 << 20)
        seen = [slow.message()[1].partition(" ")[0] for _ in range(count)]
        self.assertEqual([str(number) for number in range(count)], seen)

    def test_rights_that_are_withdrawn_end_it(self) -> None:
        self.begin()
        stream = self.listen("filter=plant/n")
        stream.event()
        self.mhub("policy", "remove", self.rule_id("plant/#"))
        end = stream.event()
        self.assertEqual(("end", 0x87), (end["event"], end["data"]["reason_code"]))
        self.assertRaises(EOFError, stream.event)

    def rule_id(self, topic: str) -> str:
        lines = [line for line in self.mhub("policy", "list").splitlines() if topic in line]
        return lines[0].split()[0]

    def test_a_locked_user(self) -> None:
        self.begin()
        stream = self.listen("filter=plant/n")
        stream.event()
        self.mhub("user", "lock", "ann")
        self.assertEqual("end", stream.event()["event"])

    def test_a_broker_that_stops_says_so(self) -> None:
        broker = self.begin()
        stream = self.listen("filter=plant/n")
        stream.event()
        broker.signal(signal.SIGTERM)
        end = stream.event()
        self.assertEqual(("end", 0x8B), (end["event"], end["data"]["reason_code"]))
        self.assertEqual(0, broker.wait())

    def test_readers_that_go_leave_nothing_behind(self) -> None:
        self.begin()
        for _ in range(5):
            stream = self.listen("filter=plant/n")
            stream.event()
            stream.close()

        def none_left() -> bool:
            found = self.json("clients", "--match", "http-*")
            return not found["clients"]

        wait_until(none_left, "their sessions have ended")
