"""MQTT over HTTP through the whole admin app: logins, tokens, arguments, headers, streams."""

from typing import Any

from twisted.internet.error import ConnectionLost
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from mhub.admin.mqtt.gateway import Gateway
from mhub.core.limits import Limits
from tests.admin.mqtt.world import parse
from tests.admin.world import AdminCase, Reply

RULE = "p, role:line, *, publish|subscribe|receive, line/#, any, allow"


class MqttCase(AdminCase):
    def setUp(self) -> None:
        super().setUp()
        self.app.mqtt = Gateway(
            self.hub,
            lambda: Limits(),
            self.clock,
            self.clock.seconds,
            self.wall,
            self.hub.flush,
            lambda: deferLater(self.clock, 0),
        )
        self.allow(RULE)
        self.user("ann", "line")
        self.user("bob")
        self.hub.authorize_with(self.service.rules)

    def settle(self) -> None:
        for _ in range(20):
            self.clock.advance(0)
            self.hub.proceed(self.hub.now)
            self.hub.flush()

    def call(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> Reply:
        """A request that is answered a few turns later."""
        return Reply(self.begin(method, path, body, headers).value())

    def begin(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> Any:
        found: list[Any] = []
        connect = self.connect

        def remember() -> Any:
            channel, transport = connect()
            self.channel = channel
            found.append(transport)
            return channel, transport

        self.connect = remember  # type: ignore[method-assign]
        try:
            self.ask(method, path, body, headers)
        except (ValueError, IndexError):
            pass  # there is no answer yet
        finally:
            self.connect = connect  # type: ignore[method-assign]
        self.settle()
        return found[0]

    def token(self, *scopes: str) -> dict[str, str]:
        made = self.do(self.access.tokens.add("robot", list(scopes), roles=["line"]))
        return {"Authorization": f"Bearer {made.token}"}


class CallerTests(MqttCase):
    def publish(self, topic: str, headers: dict[str, str] | None = None) -> Reply:
        return self.call("POST", "/mqtt/publish", {"topic": topic, "qos": 1}, headers)

    def test_nobody(self) -> None:
        self.assertEqual(401, self.publish("line/1").status)

    def test_users_need_no_permission_but_that_of_topics(self) -> None:
        for name, topic, status in (
            ("ann", "line/1", 200),
            ("ann", "office", 403),
            ("bob", "line/1", 403),
        ):
            self.log_in(name)
            reply = self.publish(topic)
            self.assertEqual(status, reply.status, (name, topic, reply))

    def test_sessions_need_their_second_secret(self) -> None:
        self.log_in("ann")
        self.csrf = ""
        self.assertEqual(403, self.publish("line/1").status)

    def test_tokens_need_the_scope(self) -> None:
        reply = self.publish("line/1", self.token("read", "write"))
        self.assertEqual(403, reply.status)
        self.assertIn('"mqtt"', reply.detail)

    def test_tokens_with_the_scope(self) -> None:
        headers = self.token("mqtt")
        self.assertEqual(200, self.publish("line/1", headers).status)
        self.assertEqual(403, self.publish("office", headers).status)
        (name,) = [each for each in self.hub.sessions if each.startswith("http-")]
        self.assertRegex(name, r"^http-token:robot-p\.")


class ArgumentTests(MqttCase):
    def setUp(self) -> None:
        super().setUp()
        self.log_in("ann")

    def test_wrong_ones(self) -> None:
        good = {"topic": "line/1"}
        for path, body, words in (
            ("publish", {}, "'topic' is missing"),
            ("publish", {**good, "qos": 3}, "qos"),
            ("publish", {**good, "qos": "1"}, "qos"),
            ("publish", {**good, "timeout_s": 61}, "timeout_s"),
            ("publish", {**good, "payload": 1}, "payload"),
            ("publish", {**good, "user_properties": [["a"]]}, "user_properties"),
            ("publish", {**good, "payload_format": "html"}, "payload_format"),
            ("publish/batch", {"messages": [{**good, "topik": 1}]}, "topik"),
            ("publish/batch", {"messages": [good] * 1_001}, "at most 1000"),
            ("publish/raw?qos=1", b"x", "'topic' is missing"),
            ("publish/raw?topic=a&topic=b", b"x", "2 times"),
            ("request", {**good, "response_topic": "#"}, "response_topic"),
        ):
            reply = self.call("POST", f"/mqtt/{path}", body)
            self.assertEqual(400, reply.status, (path, body, reply))
            self.assertIn(words, reply.detail)

    def test_a_batch_without_messages(self) -> None:
        reply = self.call("POST", "/mqtt/publish/batch", {"messages": []})
        self.assertEqual({"published": 0, "failed": 0, "results": []}, reply.json)

    def test_content_type_of_a_raw_message(self) -> None:
        for given, kept in (
            ("text/csv; charset=utf-8", "text/csv"),
            ("application/x-www-form-urlencoded", None),
            ("nonsense", None),
        ):
            path = "/mqtt/publish/raw?topic=line/1&retain=true&qos=1"
            reply = self.call("POST", path, b"\xff", {"Content-Type": given})
            self.assertEqual(200, reply.status, reply)
            found = self.call("GET", "/mqtt/retained?topic=line/1").json
            self.assertEqual((kept, "/w=="), (found["content_type"], found["payload_base64"]))


class StreamTests(MqttCase):
    def setUp(self) -> None:
        super().setUp()
        self.log_in("ann")

    def events(self, transport: Any) -> list[dict[str, Any]]:
        head, _, body = transport.value().partition(b"\r\n\r\n")
        self.assertIn(b" 200 ", head.partition(b"\r\n")[0])
        return parse(body)

    def publish(self, payload: str) -> None:
        self.call("POST", "/mqtt/publish", {"topic": "line/1", "payload": payload, "qos": 1})

    def test_a_reader_without_room_is_waited_for(self) -> None:
        transport = self.begin("GET", "/mqtt/subscribe?filter=line/%23&client_id=a&expiry_s=60")
        producer = transport.producer
        self.publish("1")
        producer.pauseProducing()
        for number in range(2, 100):
            self.publish(str(number))
        got = [e["data"]["payload"] for e in self.events(transport) if e["event"] == "message"]
        self.assertLessEqual(len(got), 2)
        session = self.hub.sessions["http-ann-a"]
        self.assertEqual(64, len(session.inflight))
        producer.resumeProducing()
        self.settle()
        got = [e["data"]["payload"] for e in self.events(transport) if e["event"] == "message"]
        self.assertEqual([str(number) for number in range(1, 100)], got)

    def test_logout_ends_it(self) -> None:
        transport = self.begin("GET", "/mqtt/subscribe?filter=line/%23")
        self.call("POST", "/admin/v1/logout")
        self.clock.advance(16.0)
        self.settle()
        last = self.events(transport)[-1]
        self.assertEqual(("end", 0x87), (last["event"], last["data"]["reason_code"]))

    def test_stop_of_the_broker(self) -> None:
        transport = self.begin("GET", "/mqtt/subscribe?filter=line/%23")
        self.app.stop()
        self.settle()
        last = self.events(transport)[-1]
        self.assertEqual(("end", 0x8B), (last["event"], last["data"]["reason_code"]))

    def test_the_reader_goes(self) -> None:
        self.begin("GET", "/mqtt/subscribe?filter=line/%23")
        assert self.app.mqtt is not None
        self.assertEqual(1, self.app.mqtt.streams)
        self.channel.connectionLost(Failure(ConnectionLost()))
        self.settle()
        self.assertEqual((0, 0), (self.app.mqtt.streams, self.hub.connected))
        self.assertEqual([], self.flushLoggedErrors())
