"""Requests and answers: arguments, errors, headers, streams, bounds."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from mhub.admin.endpoint import EVENTS, LINES, MOST_BODY, Body, Call, Query, Raw, endpoint
from mhub.admin.openapi import document
from mhub.admin.progress import progress_lines
from mhub.admin.resources import ENDPOINTS, session
from mhub.config.admin import AdminSettings
from mhub.operations.contract import (
    LimitReached,
    NotThere,
    OperationError,
    Say,
    Stale,
    TimedOut,
    Unavailable,
)
from mhub.web import site
from tests.admin.world import AdminCase, Reply

ERRORS = {
    "none": NotThere("there is none"),
    "state": OperationError("not now"),
    "stale": Stale("look again"),
    "many": LimitReached("slower"),
    "away": Unavailable("later"),
    "late": TimedOut("it may have been done"),
    "defect": ZeroDivisionError("password=hunter2"),
}

waiting: list[Deferred[None]] = []
ended: list[str] = []


@dataclass(frozen=True)
class Thing:
    name: str
    count: int
    tags: tuple[str, ...]


@endpoint("GET", "/thing", public="open")
async def thing(
    call: Call,
    name: Annotated[str, Query("Its name.", longest=10)],
    count: Annotated[int, Query("How many.", low=1, high=9)] = 3,
    kind: Annotated[str, Query("Which.", choices=("big", "small"))] = "",
    tag: Annotated[list[str], Query("Tags.")] = [],  # noqa: B006 (never changed)
    flag: Annotated[bool, Query("Whether.")] = False,
) -> Thing:
    """Show a thing.

    With more to say.
    """
    call.etag = "v1"
    return Thing(name, count, (*tag, kind, str(flag)))


@endpoint("PUT", "/thing", public="open", writes=False)
async def put_thing(
    call: Call,
    name: Annotated[str, Query("Its name.")],
    values: Annotated[dict[str, int], Body("Numbers.")],
    note: Annotated[str, Body("A note.")] = "",
) -> Thing:
    """Change a thing."""
    return Thing(name, sum(values.values()), (note, call.if_match))


@endpoint("POST", "/fail", public="open", writes=False)
async def fail(call: Call, how: Annotated[str, Query("How.")]) -> None:
    """Fail."""
    raise ERRORS[how]


@endpoint("POST", "/text", public="open", writes=False)
async def text(call: Call, data: Annotated[bytes, Raw("text/csv", "Rows.", most=1000)]) -> Thing:
    """Take text."""
    return Thing(call.media_type, len(data), ())


@endpoint("POST", "/wait", public="open", writes=False)
async def wait(call: Call) -> None:
    """Take a while."""
    waiting.append(Deferred())
    await waiting[-1]
    ended.append("operation")


@endpoint("GET", "/events", public="open", stream=EVENTS)
async def events(
    call: Call, refuse: Annotated[bool, Query("Whether to refuse.")] = False
) -> AsyncGenerator[bytes, None]:
    """Show what happens."""
    if refuse:
        raise NotThere("there are none")
    try:
        yield b": hello\n\n"
        while True:
            waiting.append(Deferred())
            await waiting[-1]
            yield b"data: 1\n\n"
    finally:
        ended.append("stream")


@endpoint("GET", "/watched", resource="stats", stream=EVENTS)
async def watched(call: Call) -> AsyncGenerator[bytes, None]:
    """Show what happens to those who may see it."""
    yield b": hello\n\n"
    while True:
        waiting.append(Deferred())
        await waiting[-1]
        yield b"data: 1\n\n"


@endpoint("POST", "/progress", public="open", stream=LINES)
async def progress(call: Call) -> AsyncGenerator[bytes, None]:
    """Take a while, and tell how far it is."""

    async def work(say: Say) -> dict[str, int]:
        for text in ("one", "two"):
            waiting.append(Deferred())
            await waiting[-1]
            say(text)
        ended.append("progress")
        return {"done": 2}

    async with aclosing(progress_lines(work)) as lines:
        async for line in lines:
            yield line


OWN = [
    each.endpoint  # type: ignore[attr-defined]
    for each in (thing, put_thing, fail, text, wait, events, watched, progress)
]


class AppCase(AdminCase):
    endpoints = OWN

    def setUp(self) -> None:
        super().setUp()
        waiting.clear()
        ended.clear()

    def thing(self, query: str) -> Reply:
        return self.ask("GET", f"/admin/v1/thing?{query}")


class ArgumentTests(AppCase):
    def test_all_kinds(self) -> None:
        reply = self.thing("name=%C3%A4+b&count=9&kind=big&tag=x&tag=y&flag=true")
        self.assertEqual(reply.json, {"name": "ä b", "count": 9, "tags": ["x", "y", "big", "True"]})
        self.assertEqual(reply.headers["ETag"], '"v1"')

    def test_mistakes(self) -> None:
        for query, text in (
            ("", "the query parameter 'name' is missing"),
            ("name=a&cont=1", "unknown query parameter 'cont'; did you mean 'count'?"),
            ("name=a&count=ten", "count: expected a whole number"),
            ("name=a&count=10", "count: expected a whole number, at most 9"),
            ("name=a&count=0", "count: expected a whole number, at least 1"),
            ("name=a&kind=huge", "kind: expected one of big, small"),
            ("name=aaaaaaaaaaa", "name: expected text of at most 10 characters"),
            ("name=a&name=b", "the query parameter 'name' is given 2 times"),
            ("name=%ff", "the query is not percent-encoded UTF-8"),
            ("&".join(["name=a"] * 101), "the query has more than 100 parameters"),
        ):
            reply = self.thing(query)
            self.assertEqual((reply.status, reply.detail), (400, text))

    def test_body(self) -> None:
        reply = self.ask(
            "PUT",
            "/admin/v1/thing?name=a",
            {"values": {"x": 1, "y": 2}, "note": "n"},
            {"If-Match": '"v7"'},
        )
        self.assertEqual(reply.json, {"name": "a", "count": 3, "tags": ["n", "v7"]})

    def test_wrong_bodies(self) -> None:
        for body, text in (
            (b"{", "the body is not JSON"),
            (b"[]", "the body has to be a JSON object"),
            (b'{"values": {"x": "1"}}', "values[...]: expected a whole number, not text"),
            (b'{"values": 5}', "values: expected an object, not a whole number"),
            (b'{"values": {}, "nope": 1}', "unknown field 'nope'; did you mean 'note'?"),
            (b"{}", "the field 'values' is missing"),
            (b'{"values": {"x": ' + b"1" * 5000 + b"}}", "values: integer value out of range"),
            (b"[" * 100_000, "the body has to be a JSON object"),
            (b'{"a":' * 30_000, "the body is not JSON"),
        ):
            reply = self.ask(
                "PUT", "/admin/v1/thing?name=a", body, {"Content-Type": "application/json"}
            )
            self.assertEqual(reply.status, 400, body[:40])
            self.assertIn(text, reply.detail)

    def test_a_body_where_there_is_none(self) -> None:
        reply = self.ask("POST", "/admin/v1/wait", {"x": 1})
        self.assertEqual((reply.status, reply.detail), (400, "this request has no body"))

    def test_raw(self) -> None:
        reply = self.ask(
            "POST", "/admin/v1/text", b"a,b", {"Content-Type": "text/csv; charset=utf-8"}
        )
        self.assertEqual(reply.json["name"], "text/csv")
        reply = self.ask("POST", "/admin/v1/text", b"a,b", {"Content-Type": "text/html"})
        self.assertEqual(reply.status, 415)


class ErrorTests(AppCase):
    def test_statuses(self) -> None:
        for how, status in (
            ("none", 404),
            ("state", 409),
            ("stale", 412),
            ("many", 429),
            ("away", 503),
            ("late", 504),
        ):
            reply = self.ask("POST", f"/admin/v1/fail?how={how}")
            self.assertEqual((reply.status, reply.detail), (status, str(ERRORS[how])))
            self.assertEqual(reply.json["status"], status)

    def test_defect(self) -> None:
        """It is logged, and its caller is told nothing of what it was about."""
        reply = self.ask("POST", "/admin/v1/fail?how=defect")
        self.assertEqual(reply.status, 500)
        self.assertNotIn(b"hunter2", reply.body)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_unknown_paths(self) -> None:
        for path in (
            "/nope",
            "/admin",
            "/admin/v1",
            "/admin/v1/thing/",
            "/admin/v1/../thing",
            "/admin/v1/%74hing%2f",
            "/%00",
            "/admin\\v1\\thing",
        ):
            reply = self.ask("GET", path)
            self.assertEqual(reply.status, 404, path)
            self.assertEqual(reply.headers["Content-Type"], "application/problem+json")

    def test_other_methods(self) -> None:
        reply = self.ask("DELETE", "/admin/v1/thing?name=a")
        self.assertEqual(reply.status, 405)
        self.assertEqual(reply.headers["Allow"], "GET, HEAD, OPTIONS, PUT")
        self.assertEqual(self.ask("BREW", "/admin/v1/thing").status, 405)

    def test_head(self) -> None:
        reply = self.ask("HEAD", "/admin/v1/thing?name=a")
        self.assertEqual((reply.status, reply.body), (200, b""))

    def test_answers_are_counted(self) -> None:
        self.thing("name=a")
        self.thing("")
        self.assertEqual(self.app.requests, {200: 1, 400: 1})


class HeaderTests(AppCase):
    def test_on_every_answer(self) -> None:
        for reply in (
            self.thing("name=a"),
            self.thing(""),
            self.ask("GET", "/nope"),
            self.ask("GET", "/admin/v1/events?refuse=true"),
        ):
            headers = reply.headers
            self.assertIn("default-src 'self'", headers["Content-Security-Policy"])
            self.assertIn("frame-ancestors 'none'", headers["Content-Security-Policy"])
            self.assertEqual(headers["X-Frame-Options"], "DENY")
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(headers["Cache-Control"], "no-store")
            self.assertEqual(headers["Server"], "mhub")

    def test_lines_in_headers(self) -> None:
        """What comes in cannot put a header into the answer."""
        reply = self.thing("name=a%0d%0aX-Evil:+1")
        self.assertIsNone(reply.headers["X-Evil"])


class OriginTests(AppCase):
    settings = AdminSettings(origins=("https://ops.example.org",))

    def test_preflight(self) -> None:
        origin = {"Origin": "https://ops.example.org"}
        reply = self.ask("OPTIONS", "/admin/v1/thing", headers=origin)
        self.assertEqual(reply.status, 204)
        self.assertEqual(reply.headers["Access-Control-Allow-Origin"], origin["Origin"])
        self.assertIn("Authorization", reply.headers["Access-Control-Allow-Headers"])
        self.assertIn("ETag", reply.headers["Access-Control-Expose-Headers"])
        self.assertIsNone(reply.headers["Access-Control-Allow-Credentials"])

    def test_others(self) -> None:
        reply = self.ask("OPTIONS", "/admin/v1/thing", headers={"Origin": "https://evil.example"})
        self.assertIsNone(reply.headers["Access-Control-Allow-Origin"])


class BodyTests(AppCase):
    def test_too_long(self) -> None:
        """Refused by what the head says, before any of it came."""
        for path, most in (("/admin/v1/thing", MOST_BODY), ("/admin/v1/text", 1000)):
            method = "PUT" if path.endswith("thing") else "POST"
            channel, transport = self.connect()
            channel.dataReceived(
                f"{method} {path}?name=a HTTP/1.1\r\nContent-Length: {most + 1}\r\n\r\n".encode()
            )
            self.assertEqual(Reply(transport.value()).status, 413)
            self.assertTrue(transport.disconnecting)

    def test_without_a_length(self) -> None:
        channel, transport = self.connect()
        channel.dataReceived(
            b"PUT /admin/v1/thing HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n"
        )
        self.assertEqual(Reply(transport.value()).status, 411)

    def test_forms_are_not_read(self) -> None:
        """To take one of some megabytes apart takes seconds, and nobody has logged in before."""
        for kind in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            body = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n--x--\r\n'
            channel, transport = self.connect()
            channel.dataReceived(
                f"POST /admin/v1/wait?b=1 HTTP/1.1\r\nContent-Type: {kind}\r\n"
                f"Content-Length: {len(body)}\r\n\r\n".encode()
            )
            request = channel.requests[0]
            channel.dataReceived(body)
            self.assertEqual(request.args, {})
            self.assertEqual(Reply(transport.value()).status, 415)

    def test_long_paths(self) -> None:
        """None is as long, and each part of one costs something."""
        reply = self.ask("GET", "/" * 2000)
        self.assertEqual(reply.status, 414)
        self.assertEqual(self.ask("GET", "/" * 100).status, 404)

    def test_bodies_of_all(self) -> None:
        """All of them are in memory until they are whole."""
        self.patch(site, "MOST_BODIES", 2500)
        head = b"POST /admin/v1/text HTTP/1.1\r\nContent-Length: 1000\r\n\r\n"
        channels = []
        for _ in range(2):
            channel, transport = self.connect()
            channel.dataReceived(head)
            self.assertEqual(transport.value(), b"")
            channels.append(channel)
        channel, transport = self.connect()
        channel.dataReceived(head)
        self.assertEqual(Reply(transport.value()).status, 503)
        channels[0].connectionLost(Failure(ConnectionDone()))
        channels[1].dataReceived(b"a" * 1000)
        for _ in range(2):
            channel, transport = self.connect()
            channel.dataReceived(head)
            self.assertEqual(transport.value(), b"")

    def test_slow(self) -> None:
        channel, transport = self.connect()
        channel.dataReceived(b"PUT /admin/v1/thing HTTP/1.1\r\nContent-Length: 100\r\n\r\n")
        for _ in range(29):
            self.clock.advance(1)
            channel.dataReceived(b" ")
        self.assertFalse(transport.disconnected)
        self.clock.advance(1)
        self.assertTrue(transport.disconnected)

    def test_slow_head(self) -> None:
        channel, transport = self.connect()
        for _ in range(29):
            channel.dataReceived(b"X")
            self.clock.advance(1)
        self.assertFalse(transport.disconnected)
        self.clock.advance(1)
        self.assertTrue(transport.disconnected)


class EndTests(AppCase):
    def begin(self, method: str, path: str) -> tuple[object, object]:
        channel, transport = self.connect()
        channel.dataReceived(f"{method} {path} HTTP/1.0\r\n\r\n".encode())
        return channel, transport

    def test_a_client_that_goes_at_once(self) -> None:
        """What it has asked for is done, and its connection is looked at no more."""
        channel, _ = self.connect()

        def go() -> None:
            self.pauses.meanwhile = lambda: None
            channel.connectionLost(Failure(ConnectionDone()))

        self.pauses.meanwhile = go
        channel.dataReceived(b"POST /admin/v1/wait HTTP/1.0\r\nContent-Length: 0\r\n\r\n")
        waiting[0].callback(None)
        self.assertEqual(ended, ["operation"])

    def test_an_operation_goes_on_when_its_caller_goes(self) -> None:
        channel, _ = self.begin("POST", "/admin/v1/wait")
        channel.connectionLost(Failure(ConnectionDone()))  # type: ignore[attr-defined]
        waiting[0].callback(None)
        self.assertEqual(ended, ["operation"])

    def test_a_stream_ends_when_its_reader_goes(self) -> None:
        channel, transport = self.begin("GET", "/admin/v1/events")
        self.assertIn(b": hello", transport.value())  # type: ignore[attr-defined]
        self.assertEqual(self.app.streams, 1)
        channel.connectionLost(Failure(ConnectionDone()))  # type: ignore[attr-defined]
        self.assertEqual(ended, ["stream"])
        self.assertEqual(self.app.streams, 0)

    def test_progress_is_told_as_it_is_made(self) -> None:
        _, transport = self.begin("POST", "/admin/v1/progress")
        waiting[0].callback(None)
        self.assertTrue(
            transport.value().endswith(b'{"progress":"one"}\n')  # type: ignore[attr-defined]
        )
        waiting[1].callback(None)
        self.assertTrue(
            transport.value().endswith(  # type: ignore[attr-defined]
                b'{"progress":"two"}\n{"result":{"done":2}}\n'
            )
        )

    def test_a_change_goes_on_when_the_reader_of_its_progress_goes(self) -> None:
        for before in (0, 1):  # whether there was a line already
            waiting.clear()
            ended.clear()
            channel, _ = self.begin("POST", "/admin/v1/progress")
            for each in waiting[:before]:
                each.callback(None)
            channel.connectionLost(Failure(ConnectionDone()))  # type: ignore[attr-defined]
            for each in waiting:  # the second one is made by the first
                if not each.called:
                    each.callback(None)
            self.assertEqual(ended, ["progress"])
            self.assertEqual(self.app.streams, 0)

    def test_progress_ends_with_the_broker(self) -> None:
        self.begin("POST", "/admin/v1/progress")
        self.app.stop()
        self.assertEqual((ended, self.app.streams), ([], 0))
        self.assertTrue(waiting[0].called)

    def test_a_stream_waits_for_its_reader(self) -> None:
        _, transport = self.begin("GET", "/admin/v1/events")
        transport.producer.pauseProducing()  # type: ignore[attr-defined]
        waiting[0].callback(None)
        self.assertEqual(len(waiting), 1)
        transport.producer.resumeProducing()  # type: ignore[attr-defined]
        self.assertEqual(len(waiting), 2)

    def test_a_reader_that_takes_nothing(self) -> None:
        _, transport = self.begin("GET", "/admin/v1/events")
        transport.producer.pauseProducing()  # type: ignore[attr-defined]
        self.clock.advance(61)
        self.assertTrue(transport.disconnected)  # type: ignore[attr-defined]

    def test_a_stream_ends_with_the_session(self) -> None:
        """Also with the right to read it; while there is one, it does not prolong the session."""
        self.user("root", "admin")
        self.user("seer")
        row = "p, user:seer, *, admin:read, stats, any, allow"
        names: list[str] = []
        for name, end in (
            ("root", lambda: self.logins.logout(names[-1])),
            ("seer", lambda: self.clock.advance(self.settings.session_idle_s)),
            ("seer", lambda: self.do(self.access.rules.change(replace_all=True))),
            ("root", lambda: self.do(self.access.users.lock("root", True))),
        ):
            self.allow(row, "p, user:root, *, admin:read, stats, any, allow")
            session, _ = self.do(self.logins.login(name, "right password", "192.0.2.7:1"))
            names.append(session)
            channel, transport = self.connect()
            head = f"GET /admin/v1/watched HTTP/1.0\r\nCookie: {self.gate.cookie}={session}\r\n\r\n"
            channel.dataReceived(head.encode())
            self.clock.advance(3)
            waiting[-1].callback(None)
            self.assertEqual(transport.value().count(b"data: 1"), 1)
            end()
            self.clock.advance(3)
            waiting[-1].callback(None)
            self.assertEqual(transport.value().count(b"data: 1"), 1)
            self.assertTrue(transport.disconnected)

    def test_a_stream_that_is_refused(self) -> None:
        reply = self.ask("GET", "/admin/v1/events?refuse=true")
        self.assertEqual((reply.status, reply.detail), (404, "there are none"))

    def test_the_broker_stops(self) -> None:
        _, transport = self.begin("POST", "/admin/v1/wait")
        self.app.stop()
        self.assertEqual(Reply(transport.value()).status, 503)  # type: ignore[attr-defined]


class FewConnectionsTests(AppCase):
    settings = AdminSettings(max_connections=2)

    def test_who_does_not_send_makes_room(self) -> None:
        """Else a few that begin a request and say no more would keep all others out."""
        slow = [self.connect() for _ in range(2)]
        for channel, _ in slow:
            channel.dataReceived(b"GET /admin/v1/thing?name=a HTTP/1.1\r\n")
        self.assertEqual(self.thing("name=a").status, 200)
        self.assertEqual([each.disconnected for _, each in slow], [True, False])

    def test_who_waits_for_an_answer_stays(self) -> None:
        for _ in range(2):
            channel, _ = self.connect()
            channel.dataReceived(b"POST /admin/v1/wait HTTP/1.1\r\n\r\n")
        self.assertEqual(self.thing("name=a").status, 503)


class FewStreamsTests(AppCase):
    settings = AdminSettings(max_streams=2)

    def test_so_many(self) -> None:
        for _ in range(2):
            channel, _ = self.connect()
            channel.dataReceived(b"GET /admin/v1/events HTTP/1.0\r\n\r\n")
        self.assertEqual(self.ask("GET", "/admin/v1/events").status, 429)


class DocumentTests(AppCase):
    def test_own(self) -> None:
        made = document(OWN)
        operation = made["paths"]["/admin/v1/thing"]["get"]
        self.assertEqual(operation["summary"], "Show a thing")
        self.assertEqual(operation["description"], "With more to say.")
        count = next(each for each in operation["parameters"] if each["name"] == "count")
        self.assertEqual(
            count["schema"], {"type": "integer", "minimum": 1, "maximum": 9, "default": 3}
        )
        self.assertEqual(
            operation["responses"]["200"]["content"]["application/json"]["schema"],
            {"$ref": "#/components/schemas/Thing"},
        )

    def test_all_references_are_there(self) -> None:
        made = document(ENDPOINTS)
        text = json.dumps(made)
        for name in set(_references(made)):
            self.assertIn(name, made["components"]["schemas"])
        self.assertNotIn("Query", "".join(made["components"]["schemas"]))
        self.assertIn("problem+json", text)

    def test_names_are_unique(self) -> None:
        names = [each.name for each in ENDPOINTS]
        self.assertEqual(sorted(set(names)), sorted(names))

    def test_every_parameter_is_documented(self) -> None:
        for path, methods in document(ENDPOINTS)["paths"].items():
            for method, operation in methods.items():
                self.assertTrue(operation["summary"], f"{method} {path}")
                for each in operation["parameters"]:
                    self.assertTrue(each["description"], f"{method} {path} {each['name']}")

    def test_login_is_the_only_open_one_that_takes_a_password(self) -> None:
        self.assertEqual(session.login.endpoint.public, "open")  # type: ignore[attr-defined]
        for each in ENDPOINTS:
            if each.public:
                self.assertFalse(each.resource and each.writes, each.name)


def _references(value: object) -> list[str]:
    if isinstance(value, dict):
        found = [each for item in value.values() for each in _references(item)]
        if isinstance(value.get("$ref"), str):
            found.append(value["$ref"].rpartition("/")[2])
        return found
    if isinstance(value, list):
        return [each for item in value for each in _references(item)]
    return []
