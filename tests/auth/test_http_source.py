"""A web service that is asked about clients: a Klein application, and one that speaks raw bytes."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from klein import Klein
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.ssl import (
    Certificate,
    CertificateOptions,
    PrivateCertificate,
    trustRootFromCertificates,
)
from twisted.trial.unittest import SynchronousTestCase, TestCase
from twisted.web.server import Site

from mhub.auth import http
from mhub.auth.contract import CANNOT_TELL, NO, NOT_MINE, YES, Answer
from tests.auth.external import ask, make_claim, make_context, problems
from tests.helpers.certificates import Authority

REACTOR: Any = reactor


class Service:
    """What a web service of an operator may be: users with passwords, and what they may do."""

    app = Klein()

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.status = 200
        self.answer: Any = {"result": "allow"}
        self.users = {"alice": "secret"}
        self.acls = {("alice", "up/c1", 2), ("alice", "down/c1/#", 1), ("alice", "down/c1/#", 4)}

    def _sent(self, request: Any) -> dict[str, Any]:
        data = request.content.read()
        kind = request.getHeader("content-type")
        if kind == "application/x-www-form-urlencoded":
            sent = {name: values[0] for name, values in parse_qs(data.decode()).items()}
        else:
            sent = json.loads(data) if data else {}
        headers = dict(request.requestHeaders.getAllRawHeaders())
        self.requests.append(
            {"method": request.method, "uri": request.uri, "headers": headers, "sent": sent}
        )
        return sent

    @app.route("/ask", methods=["GET", "POST", "PUT"], branch=True)
    def ask(self, request: Any) -> bytes:
        self._sent(request)
        request.setResponseCode(self.status)
        if self.status == 302:
            request.setHeader("Location", "/elsewhere")
        request.setHeader("Set-Cookie", "session=alice")
        if isinstance(self.answer, bytes):
            return self.answer
        return json.dumps(self.answer).encode()

    @app.route("/elsewhere", methods=["GET", "POST"])
    def elsewhere(self, request: Any) -> bytes:
        self._sent(request)
        return b'{"result": "allow"}'

    # As mosquitto-go-auth asks, and its users have answered.

    def _status(self, request: Any, good: bool) -> bytes:
        request.setResponseCode(200 if good else 401)
        return b""

    @app.route("/user", methods=["POST"])
    def user(self, request: Any) -> bytes:
        sent = self._sent(request)
        return self._status(request, self.users.get(sent["username"]) == sent["password"])

    @app.route("/superuser", methods=["POST"])
    def superuser(self, request: Any) -> bytes:
        return self._status(request, self._sent(request) == {"username": "root"})

    @app.route("/acl", methods=["POST"])
    def acl(self, request: Any) -> bytes:
        sent = self._sent(request)
        return self._status(
            request, (sent["username"], sent["topic"], int(sent["acc"])) in self.acls
        )


class HttpCase(TestCase):
    def setUp(self) -> None:
        self.service = Service()
        self.port = REACTOR.listenTCP(0, self.site(), interface="127.0.0.1")
        self.addCleanup(self.port.stopListening)
        self.base = f"http://127.0.0.1:{self.port.getHost().port}"
        self.context = make_context(reactor)

    def site(self) -> Any:
        site = Site(self.service.app.resource())
        site.noisy = False
        return site

    def make(self, **settings: Any) -> Any:
        given = {"url": f"{self.base}/ask", "negative_cache_s": 0.0} | settings
        source = http.make("service", http.Settings(**given), self.context)
        self.addCleanup(source.stop)
        return source

    def ask(self, source: Any = None, **claim: Any) -> "Deferred[Answer]":
        return ask(source or self.make(), make_claim(**claim))


class AnswerTests(HttpCase):
    async def test_what_is_asked(self) -> None:
        await self.ask()
        [request] = self.service.requests
        self.assertEqual((request["method"], request["uri"]), (b"POST", b"/ask"))
        self.assertEqual(
            request["sent"], {"username": "alice", "password": "secret", "clientid": "c1"}
        )
        self.assertEqual(request["headers"][b"Content-Type"], [b"application/json"])

    async def test_what_may_be_asked(self) -> None:
        source = self.make(
            url=f"{self.base}/ask/%{{listener}}?id=%c&from=%{{address}}",
            method="PUT",
            body="form",
            headers=(("X-User", "user %u"), ("Authorization", "Bearer x%%y")),
            fields=(("u", "%u@%{cn}"), ("p", "%{password}")),
        )
        await self.ask(source, client_id="a b&c=d/é", cn="box-1")
        [request] = self.service.requests
        self.assertEqual(request["method"], b"PUT")
        self.assertEqual(
            request["uri"],
            b"/ask/tcp-1883?id=a%20b%26c%3Dd%2F%C3%A9&from=192.0.2.1%3A5000",
        )
        self.assertEqual(request["sent"], {"u": "alice@box-1", "p": "secret"})
        self.assertEqual(request["headers"][b"X-User"], [b"user alice"])
        self.assertEqual(request["headers"][b"Authorization"], [b"Bearer x%y"])

    async def test_attributes(self) -> None:
        self.service.answer = {
            "result": "allow",
            "user": "alice@acme",
            "roles": ["device"],
            "superuser": True,
            "tenant": "acme",
            "attributes": {"site": "hall-1", "line": 3},
            "grants": ["publish, a/%c/#, any, allow", "publish, a/b, qos<=1, deny"],
            "expires_at": 1999999999,
            "other": "no attribute",
        }
        answer = await self.ask(self.make(roles=("all",)))
        self.assertEqual(answer.outcome, YES, answer.text)
        identity = answer.identity
        assert identity is not None
        self.assertEqual((identity.user, identity.method), ("alice@acme", "http"))
        self.assertEqual(identity.roles, ("all", "device", "admin"))
        self.assertEqual(identity.tenant, "acme")
        self.assertEqual(identity.attributes, {"site": "hall-1", "line": "3"})
        self.assertEqual(len(identity.grants), 2)
        self.assertEqual(identity.expires_at, 1999999999.0)

    async def test_answers(self) -> None:
        for status, answer, outcome in (
            (200, {"result": "allow"}, YES),
            (200, {"result": "deny"}, NO),
            (200, {"result": "ignore"}, NOT_MINE),
            (200, {"ok": True, "error": ""}, YES),
            (200, {"ok": False, "error": "no such user"}, NO),
            (200, {"Ok": True}, YES),
            (200, b"", YES),
            (204, b"", YES),
            (400, {"result": "allow"}, NO),
            (401, b"", NO),
            (403, b"", NO),
            (404, b"", NOT_MINE),
        ):
            self.service.status, self.service.answer = status, answer
            found = await self.ask()
            self.assertEqual(found.outcome, outcome, (status, answer, found.text))
        self.assertEqual(self.context.hub.stats.auth_backend_failures, 0)

    async def test_what_is_no_answer(self) -> None:
        for status, answer in (
            (200, b"<html>please log in</html>"),
            (200, {"result": "yes"}),
            (200, {"allow": True}),
            (200, {"ok": "true"}),
            (200, [True]),
            (200, b"\xff"),
            (200, b"[" * 50_000),
            (200, {"result": "allow", "grants": ["publish, a/#/b, any, deny"]}),
            (200, {"result": "allow", "roles": {"a": 1}}),
            (200, {"result": "allow", "user": "a\r\nb"}),
            (200, {"result": "allow", "expires_at": "soon"}),
            (200, {"result": "allow", "attributes": {"a": ["b"]}}),
            (408, b""),
            (429, b""),
            (500, {"result": "allow"}),
            (503, b""),
        ):
            self.service.status, self.service.answer = status, answer
            found = await self.ask()
            self.assertEqual(found.outcome, CANNOT_TELL, (status, answer, found.text))

    async def test_by_status(self) -> None:
        source = self.make(response="status", ignore_status=(401,))
        self.service.answer = b"whatever"
        self.assertEqual((await self.ask(source)).outcome, YES)
        self.service.status = 401
        self.assertEqual((await self.ask(source)).outcome, NOT_MINE)
        self.service.status = 404
        self.assertEqual((await self.ask(source)).outcome, NO)

    async def test_by_text(self) -> None:
        source = self.make(response="text")
        for text, outcome in ((b"ok", YES), (b"ok\n", YES), (b"not ok", NO), (b"", NO)):
            self.service.answer = text
            self.assertEqual((await self.ask(source)).outcome, outcome, text)

    async def test_no_redirect(self) -> None:
        """It would take the password to whomever the answer names."""
        self.service.status = 302
        for method in ("POST", "GET"):
            found = await self.ask(self.make(method=method))
            self.assertEqual(found.outcome, CANNOT_TELL)
            self.assertIn("status 302, which is not followed", found.text)
        self.assertEqual({each["uri"] for each in self.service.requests}, {b"/ask"})

    async def test_no_cookies(self) -> None:
        source = self.make()
        for _ in range(2):
            await self.ask(source)
        self.assertEqual(len(self.service.requests), 2)
        for request in self.service.requests:
            self.assertNotIn(b"Cookie", request["headers"])

    async def test_length_of_an_answer(self) -> None:
        source = self.make(max_body=1000)
        self.service.answer = {"result": "allow", "x": "x" * 900}
        self.assertEqual((await self.ask(source)).outcome, YES)
        self.service.answer = {"result": "allow", "x": "x" * 1_000_000}
        found = await self.ask(source)
        self.assertEqual(found.outcome, CANNOT_TELL)
        self.assertIn("more than 1000 bytes", found.text)

    async def test_without_a_password(self) -> None:
        self.assertEqual((await self.ask(password=None)).outcome, NOT_MINE)
        self.assertEqual(self.service.requests, [])
        source = self.make(ask_without_password=True)
        self.assertEqual((await self.ask(source, password=None)).outcome, YES)
        self.assertEqual(self.service.requests[0]["sent"]["password"], "")

    async def test_a_password_that_is_no_text(self) -> None:
        self.assertEqual((await self.ask(password=b"\xff")).outcome, NO)
        self.assertEqual(self.service.requests, [])

    async def test_a_refusal_is_remembered(self) -> None:
        self.service.answer = {"result": "deny"}
        source = self.make(negative_cache_s=60.0)
        for _ in range(5):
            self.assertEqual((await self.ask(source)).outcome, NO)
        self.assertEqual(len(self.service.requests), 1)
        await self.ask(source, password="another")
        await self.ask(source, client_id="c2")
        self.assertEqual(len(self.service.requests), 3)
        source.reload()
        await self.ask(source)
        self.assertEqual(len(self.service.requests), 4)

    async def test_an_acceptance_is_not_remembered_unless_wanted(self) -> None:
        source = self.make()
        for _ in range(2):
            await self.ask(source)
        self.assertEqual(len(self.service.requests), 2)
        source = self.make(cache_s=60.0)
        for _ in range(5):
            self.assertEqual((await self.ask(source)).outcome, YES)
        self.assertEqual(len(self.service.requests), 3)

    async def test_a_service_that_fails_is_left_alone(self) -> None:
        self.service.status = 500
        source = self.make(breaker_failures=3)
        for _ in range(10):
            self.assertEqual((await self.ask(source)).outcome, CANNOT_TELL)
        self.assertEqual(len(self.service.requests), 3)


class GoAuthTests(HttpCase):
    """A service made for mosquitto-go-auth, as it is."""

    def source(self, body: str = "json") -> Any:
        return self.make(
            url=f"{self.base}/user",
            superuser_url=f"{self.base}/superuser",
            acl_url=f"{self.base}/acl",
            acl_topics=("up/%c", "down/%c/#", "100%/x"),
            response="status",
            body=body,
        )

    async def test_all_requests(self) -> None:
        for body in ("json", "form"):
            answer = await self.ask(self.source(body))
            self.assertEqual(answer.outcome, YES, answer.text)
            assert answer.identity is not None
            self.assertEqual(answer.identity.roles, ())
            self.assertEqual(
                set(answer.identity.grants),
                {
                    "publish, up/%c, any, allow",
                    "receive, down/%c/#, any, allow",
                    "subscribe, down/%c/#, any, allow",
                },
            )
        asked = [each["sent"] for each in self.service.requests if each["uri"] == b"/acl"]
        self.assertEqual(len(asked), 18)
        self.assertEqual(
            asked[0], {"username": "alice", "clientid": "c1", "topic": "up/c1", "acc": 1}
        )
        self.assertEqual({each["topic"] for each in asked}, {"up/c1", "down/c1/#", "100%/x"})

    async def test_superuser(self) -> None:
        self.service.users["root"] = "secret"
        answer = await self.ask(self.source(), username="root")
        assert answer.identity is not None
        self.assertEqual(answer.identity.roles, ("admin",))

    async def test_wrong_password(self) -> None:
        answer = await self.ask(self.source(), password="wrong")
        self.assertEqual(answer.outcome, NO)
        self.assertEqual(len(self.service.requests), 1)

    async def test_a_client_id_is_a_value(self) -> None:
        """Whatever the service says to it, the grant has the placeholder."""
        self.service.acls = {("alice", "down/#/#", 4), ("alice", "up/#", 4)}
        answer = await self.ask(self.source(), client_id="#")
        assert answer.identity is not None
        self.assertEqual(
            answer.identity.grants,
            ("subscribe, up/%c, any, allow", "subscribe, down/%c/#, any, allow"),
        )


class Raw(Protocol):
    """Keeps what comes, and answers with what the test wants."""

    def connectionMade(self) -> None:
        self.factory.connections.append(self)  # type: ignore[union-attr]
        self.received = b""

    def dataReceived(self, data: bytes) -> None:
        self.received += data
        if b"\r\n\r\n" in self.received and self.factory.answer:  # type: ignore[union-attr]
            self.transport.write(self.factory.answer)  # type: ignore[union-attr]

    def connectionLost(self, reason: Any = None) -> None:
        self.factory.lost += 1  # type: ignore[union-attr]


class RawTests(TestCase):
    """On the wire: what a client sends is never more than a value."""

    def setUp(self) -> None:
        self.factory: Any = Factory.forProtocol(Raw)
        self.factory.noisy = False
        self.factory.connections = []
        self.factory.lost = 0
        self.factory.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        self.port = REACTOR.listenTCP(0, self.factory, interface="127.0.0.1")
        self.addCleanup(self._stop)
        self.base = f"http://127.0.0.1:{self.port.getHost().port}"
        self.context = make_context(reactor)

    async def _stop(self) -> None:
        if self.port.connected:
            await self.port.stopListening()
        for each in self.factory.connections:
            each.transport.abortConnection()
        while self.factory.lost < len(self.factory.connections):
            await self.pause()

    def pause(self) -> "Deferred[None]":
        done: Deferred[None] = Deferred()
        REACTOR.callLater(0.01, done.callback, None)
        return done

    def make(self, **settings: Any) -> Any:
        source = http.make(
            "service", http.Settings(**({"url": f"{self.base}/ask"} | settings)), self.context
        )
        self.addCleanup(source.stop)
        return source

    async def test_no_sign_ends_a_header(self) -> None:
        source = self.make(
            url=f"{self.base}/ask?c=%c",
            body="form",
            fields=(("u", "%u"), ("c", "%c"), ("cn", "%{cn}"), ("p", "%{password}")),
            headers=(("X-User", "%u"), ("X-CN", "%{cn}"), ("X-Client", "%c")),
        )
        evil = "a\r\nX-Admin: yes\r\n\r\nGET /x\x00\x0b\x85\u2028 HTTP/1.1\n"
        self.assertEqual((await ask(source, make_claim(username=evil))).outcome, NO)
        self.assertEqual(self.factory.connections, [], "nobody has such a name")
        claim = make_claim("O'Neil, 5%", evil.replace("\0", ""), evil, evil)
        self.assertEqual((await ask(source, claim)).outcome, YES)
        [connection] = self.factory.connections
        head, _, body = connection.received.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        names = [line.partition(b":")[0].lower() for line in lines[1:]]
        self.assertEqual(sorted(set(names)), sorted(names), "each header once")
        self.assertNotIn(b"x-admin", names)
        self.assertIn(b"X-User: O'Neil, 5%25", lines)
        self.assertTrue(lines[0].endswith(b" HTTP/1.1"))
        for line in lines:
            self.assertTrue(all(32 <= byte < 127 for byte in line), line)
        self.assertNotIn(b"\r", body)
        self.assertNotIn(b"\n", body)

    async def test_no_sign_ends_a_line_of_the_log(self) -> None:
        self.factory.answer = (
            b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\nConnection: close\r\n\r\n"
            b'{"ok":false,"error":"x\\r\\n\\u001b[31mok"}'
        ).ljust(108)
        answer = await ask(self.make(), make_claim())
        self.assertEqual(answer.outcome, NO, answer.text)
        self.assertIn("denies", answer.text)
        self.assertTrue(answer.text.isprintable(), answer.text)

    async def test_hangs(self) -> None:
        """Before the answer, and in the middle of it."""
        for answer in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"):
            self.factory.answer = answer
            source = self.make(timeout_s=0.2)
            found = await ask(source, make_claim())
            self.assertEqual(found.outcome, CANNOT_TELL)
            self.assertIn("no answer within 0.2 s", found.text)
            self.assertEqual(source.backend.running, 0)
        for _ in range(500):
            if self.factory.lost == 2:
                break
            await self.pause()
        self.assertEqual(self.factory.lost, 2, "the connections were cut")

    async def test_breaks_off(self) -> None:
        self.factory.answer = b"nonsense\r\n\r\n"
        found = await ask(self.make(), make_claim())
        self.assertEqual(found.outcome, CANNOT_TELL)

    async def test_nobody_listens(self) -> None:
        source = self.make()
        await self.port.stopListening()
        found = await ask(source, make_claim())
        self.assertEqual(found.outcome, CANNOT_TELL)
        self.assertIn("refused", found.text)


class TlsTests(HttpCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp())
        self.folder.mkdir()
        self.authority = Authority("Service CA")
        self.authority.write(self.folder / "ca.pem")
        Authority("Another CA").write(self.folder / "other.pem")
        self.authority.issue("localhost", self.folder / "s.pem", self.folder / "s.key")
        self.authority.issue("mhub", self.folder / "c.pem", self.folder / "c.key")
        super().setUp()
        pem = (self.folder / "s.pem").read_bytes() + (self.folder / "s.key").read_bytes()
        own = PrivateCertificate.loadPEM(pem)
        trusted = trustRootFromCertificates(
            [Certificate.loadPEM((self.folder / "ca.pem").read_bytes())]
        )
        options = CertificateOptions(own.privateKey.original, own.original, trustRoot=trusted)
        port = REACTOR.listenSSL(0, self.site(), options, interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        self.number = port.getHost().port

    async def test_tls(self) -> None:
        both = {"certificate": "c.pem", "key": "c.key"}
        for host, files, outcome in (
            ("localhost", {"ca": "ca.pem"} | both, YES),
            ("localhost", {"ca": "ca.pem"}, CANNOT_TELL),
            ("localhost", {"ca": "other.pem"} | both, CANNOT_TELL),
            ("localhost", both, CANNOT_TELL),
            ("127.0.0.1", {"ca": "ca.pem"} | both, CANNOT_TELL),
        ):
            paths = {name: str(self.folder / file) for name, file in files.items()}
            source = self.make(url=f"https://{host}:{self.number}/ask", **paths)
            answer = await self.ask(source)
            self.assertEqual(answer.outcome, outcome, (host, files, answer.text))


class SettingsTests(SynchronousTestCase):
    def test_mistakes(self) -> None:
        for settings, problem in (
            ({"url": "ftp://127.0.0.1/x"}, "url: expected a URL that begins with http"),
            ({"url": "http://%u.example/x"}, "url: neither placeholders nor a password"),
            ({"url": "https://a:b@example/x"}, "url: neither placeholders nor a password"),
            ({"url": "https://example:x/"}, "url: not a URL"),
            ({"url": "https://example/a b"}, "url: expected a URL, in ASCII"),
            ({"url": "https://example/%{password}"}, "url: must not have the password"),
            ({"url": "https://example/%x"}, "url: %x is no placeholder"),
            ({"fields": (("x", "%{nothing}"),) * 2 + (("u", "%u"),)}, "fields.x: %{nothing} is no"),
            ({"fields": (("client", "%c"),)}, "fields: needs %{username}, which says who"),
            ({"headers": (("a b", "c"),)}, 'headers."a b": is not a header of HTTP'),
            ({"headers": (("a", "b\r\nc: d"),)}, "headers.a: is not a header of HTTP"),
            ({"headers": (("a", "…"),)}, "headers.a: is not a header of HTTP"),
            ({"acl_url": "https://example/acl"}, "acl_topics: missing; acl_url needs it"),
            ({"acl_topics": ("a",)}, "acl_topics: needs acl_url"),
            (
                {"acl_url": "https://example/acl", "acl_topics": ("a#",)},
                "acl_topics[0]: '#' must stand alone",
            ),
            ({"url": "http://127.0.0.1/", "ca": "x"}, "ca: needs https"),
        ):
            given = {"url": "https://example/ask"} | settings
            found = problems(http, **given)
            self.assertTrue(found and problem in found[0], (settings, found))

    def test_right(self) -> None:
        self.assertEqual(problems(http, url="http://127.0.0.1:8080/ask?x=%c"), [])

    def test_no_secret_is_shown(self) -> None:
        shown = repr(http.Settings(url="https://x/", headers=(("Authorization", "hidden"),)))
        self.assertNotIn("hidden", shown)
