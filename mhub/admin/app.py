"""From a request to its endpoint and back, by Klein.

    request -> Gate (rate, who, origin, permission) -> Endpoint.arguments -> its function -> JSON

The same endpoints are offered twice: at the admin listener, and at the control socket, where
whoever can connect may do everything.  An operation goes on when its caller goes; only a stream
ends then.  It ends as well when its reader would not be let in any more: the Gate is asked again
every CHECK_S seconds.
"""

import inspect
import re
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from klein import Klein
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import LoopingCall
from twisted.python.failure import Failure
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from mhub.admin.audit import told
from mhub.admin.endpoint import CSV, EVENTS, LONGEST_REASON, MOST_BODY, Call, Endpoint
from mhub.admin.gate import Gate
from mhub.admin.json_text import Pause, json_of
from mhub.admin.mqtt.gateway import Gateway
from mhub.admin.openapi import document
from mhub.admin.problem import CONTENT_TYPE as PROBLEM
from mhub.admin.problem import UnsupportedType, encoded, status_of
from mhub.log import logger
from mhub.operations.contract import BadArgument, LimitReached, OperationError
from mhub.operations.operations import Operations
from mhub.web.stream import Stream

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
JSON: Final = "application/json"

POLICY: Final = (
    "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self';"
    " object-src 'none'"
)
"""Content-Security-Policy of all answers."""

HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "mhub",
}

MOST_PARAMETERS: Final = 100

CHECK_S: Final = 2.0
"""How often it is asked whether the reader of a stream may still have it."""

SHARE: Final = 4
"""One user has at most the fourth part of `admin.max_streams`."""


class AdminApp:
    def __init__(
        self,
        operations: Operations,
        gate: Gate,
        reactor: Any,
        endpoints: Iterable[Endpoint],
    ) -> None:
        self.gate = gate
        self.operations = operations
        self.mqtt: Gateway | None = None  # MQTT over HTTP
        self.streams = 0
        self._streams_of: dict[str, int] = {}  # by user
        self.requests: dict[int, int] = {}  # answers by status
        self._reactor = reactor
        self._log = logger("admin")
        self._running: set[Deferred[None]] = set()
        self._paths: dict[str, dict[str, Endpoint]] = {}
        self.endpoints = tuple(endpoints)
        for each in self.endpoints:
            self._paths.setdefault(each.path, {})[each.method] = each
        self._document: dict[str, Any] = {}
        gate.document = self.document

    def document(self) -> dict[str, Any]:
        """The OpenAPI document, made when it is first asked for."""
        if not self._document:
            self._document = document(self.endpoints)
        return self._document

    def klein(self, is_local: bool = False) -> Klein:
        """The routes; `is_local`: for the control socket."""
        app = Klein()
        for path in self._paths:
            app.route(path, methods=METHODS, endpoint=path, strict_slashes=True)(
                self._handler(path, is_local)
            )
        app.handle_errors(HTTPException)(self._unknown)
        return app

    def stop(self) -> None:
        """The broker stops: what runs is cancelled, and its callers are told."""
        for work in list(self._running):
            work.cancel()

    def most_body(self, method: bytes, path: bytes) -> int:
        """How long the body of a request may be."""
        known = self._paths.get(path.partition(b"?")[0].decode("ascii", "replace"), {})
        found = known.get(method.decode("ascii", "replace"))
        return found.most_body if found is not None else MOST_BODY

    # Requests

    def _handler(self, path: str, is_local: bool) -> Callable[[Any], Deferred[None]]:
        def handle(request: Any) -> Deferred[None]:
            answer = Answer(request, self._reactor, self._note)
            running = Deferred.fromCoroutine(self._serve(path, answer, is_local))
            if not running.called:
                self._running.add(running)
                running.addBoth(lambda _: self._running.discard(running))
                answer.cancel = running.cancel
            # Klein cancels this if the client goes, and not the operation.
            return answer.ended

        return handle

    async def _serve(self, path: str, answer: "Answer", is_local: bool) -> None:
        try:
            await self._call(path, answer, is_local)
        except OperationError as error:
            answer.fail(status_of(error), str(error))
        except CancelledError:
            answer.fail(503, "the broker is stopping")
        except Exception as error:
            self._log.failure("a defect in mhub, please report it: {path}", path=path)
            answer.fail(500, f"{type(error).__name__}; the log of the broker says more")

    async def _call(self, path: str, answer: "Answer", is_local: bool) -> None:
        request = answer.request
        address = address_of(request)
        if not is_local:
            self.gate.pass_rate(address)
        body = request.content.read()  # it is closed if the client goes
        # To read a request and to find its endpoint has taken a while already.
        await self.operations.pause()
        pause = self.operations.slices()
        method = request.method.decode("ascii", "replace")
        methods = self._paths[path]
        origin = request.getHeader("origin")
        if origin is not None and origin in self.gate.settings.origins:
            answer.headers["Access-Control-Allow-Origin"] = origin
            answer.headers["Access-Control-Expose-Headers"] = "ETag, Retry-After"
            answer.headers["Vary"] = "Origin"
            answer.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
        endpoint = methods.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            self._other_method(answer, method, methods)
            return
        caller = await self.gate.caller_of(request, address, is_local)
        query = _query(request)
        reason = _reason(query.pop("reason", [])) if endpoint.changes else ""
        await pause()
        if not is_local:
            self.gate.check_origin(request, method, caller)
        self.gate.check(caller, endpoint, reason)
        call = Call(self.operations, caller, self.gate, request)
        call.mqtt = self.mqtt
        call.reason = reason
        call.if_match = (request.getHeader("if-match") or "").strip().strip('"').replace("*", "")
        call.accept = request.getHeader("accept") or ""
        call.last_event_id = request.getHeader("last-event-id") or ""
        call.media_type = _check_type(endpoint, request, body)
        arguments = endpoint.arguments(query, body)
        with told(self.operations.hub_events, endpoint, call, arguments):
            await self._do(endpoint, call, arguments, answer, pause)

    async def _do(
        self,
        endpoint: Endpoint,
        call: Call,
        arguments: dict[str, Any],
        answer: "Answer",
        pause: Pause,
    ) -> None:
        result = endpoint.function(call, **arguments)
        if isinstance(result, AsyncGenerator) and call.request.method == b"HEAD":
            await result.aclose()
            head = answer.begin(endpoint.stream)
            if head is not None:
                head.finish()
            return
        if isinstance(result, AsyncGenerator):
            await self._stream(endpoint, call, result, answer)
            return
        if inspect.isawaitable(result):
            result = await result
        answer.headers.update(call.headers)
        if call.etag:
            answer.headers["ETag"] = f'"{call.etag}"'
        if isinstance(result, bytes):
            media_type = call.answer_type or endpoint.stream or "application/octet-stream"
            answer.send(call.status or 200, media_type, result)
        elif result is None:
            answer.send(call.status or 204, "", b"")
        else:
            await pause()
            text = await json_of(result, pause)
            await pause()
            answer.send(call.status or 200, JSON, text)

    async def _stream(
        self, endpoint: Endpoint, call: Call, pieces: AsyncGenerator[bytes, None], answer: "Answer"
    ) -> None:
        user = call.caller.principal.user
        if endpoint.stream == EVENTS:
            self._check_streams(user)
        self.streams += 1
        self._streams_of[user] = self._streams_of.get(user, 0) + 1
        # A change goes on without its caller, and what it has to say is little.
        answer.ends_with_client = not endpoint.writes
        checks = LoopingCall(self._check_again, endpoint, call, answer)
        checks.clock = self._reactor
        try:
            async with aclosing(pieces):
                # What is refused is refused before the first piece, and so has a status.
                first = await anext(pieces, None)
                answer.headers.update(call.headers)
                stream = answer.begin(endpoint.stream)
                if not call.checks_itself and not endpoint.writes:
                    checks.start(CHECK_S, now=False)
                if first:
                    await _write(stream, first, endpoint)
                async for piece in pieces:
                    await _write(stream, piece, endpoint)
                if stream is not None:
                    stream.finish()
        finally:
            if checks.running:
                checks.stop()
            self.streams -= 1
            self._streams_of[user] -= 1
            if not self._streams_of[user]:
                del self._streams_of[user]

    def _check_streams(self, user: str) -> None:
        """Raises LimitReached."""
        most = self.gate.settings.max_streams
        if self.streams >= most:
            raise LimitReached("there are too many streams already (admin.max_streams)")
        if user and self._streams_of.get(user, 0) >= max(1, most // SHARE):
            raise LimitReached("this user has too many streams already (admin.max_streams)")

    def _check_again(self, endpoint: Endpoint, call: Call, answer: "Answer") -> Deferred[None]:
        async def check() -> None:
            try:
                if await call.is_still_known():
                    self.gate.check(call.caller, endpoint, call.reason)
                    return
            except OperationError:
                pass
            answer.cut()

        return Deferred.fromCoroutine(check())

    def _other_method(self, answer: "Answer", method: str, methods: dict[str, Endpoint]) -> None:
        known = _allowed(methods)
        answer.headers["Allow"] = known
        if method != "OPTIONS":
            answer.fail(405, f"this path knows {known}")
            return
        if "Access-Control-Allow-Origin" in answer.headers:
            answer.headers["Access-Control-Allow-Methods"] = known
            answer.headers["Access-Control-Allow-Headers"] = (
                "Authorization, Content-Type, If-Match, Last-Event-ID"
            )
            answer.headers["Access-Control-Max-Age"] = "600"
        answer.send(204, "", b"")

    def _unknown(self, request: Any, failure: Failure) -> bytes:
        """A path that is nobody's; Klein's own answer would be HTML."""
        error = failure.value
        code = error.code if isinstance(error, HTTPException) and error.code else 500
        if code < 400:  # a redirect to another spelling of the path
            code = 404
        text = "there is nothing at this path; /admin/v1/openapi.json lists all"
        more = {}
        if code == 405:
            methods = self._paths.get(request.path.decode("ascii", "replace"))
            # A file of the dashboard is not among the endpoints.
            known = _allowed(methods) if methods else ", ".join(sorted(_methods_of(error)))
            more["Allow"] = known
            text = f"this path knows {known}"
        set_headers(request, more)
        request.setResponseCode(code)
        request.setHeader("Content-Type", PROBLEM)
        self._note(code)
        return encoded(code, text)

    def _note(self, status: int) -> None:
        self.requests[status] = self.requests.get(status, 0) + 1


class Answer:
    """The answer to one request; nothing is written to a client that is gone."""

    def __init__(self, request: Any, reactor: Any, note: Callable[[int], None]) -> None:
        self.request = request
        self.ended: Deferred[None] = Deferred()
        self.headers: dict[str, str] = {}
        self.cancel: Callable[[], None] | None = None  # ends what is being done for it
        self.ends_with_client = False
        self._reactor = reactor
        self._note = note
        self._is_gone = False
        self._stream: Stream | None = None
        request.notifyFinish().addBoth(self._on_end)

    def send(self, status: int, media_type: str, data: bytes) -> None:
        if self._is_gone:
            return
        self._head(status, media_type)
        if status != 204:
            self.request.setHeader("Content-Length", str(len(data)))
            self.request.write(data)
        self.request.finish()

    def begin(self, media_type: str) -> Stream | None:
        """None: the client is gone."""
        if self._is_gone:
            return None
        self._head(200, media_type)
        self._stream = Stream(self.request, self._reactor)
        return self._stream

    def fail(self, status: int, text: str) -> None:
        if self._stream is not None:
            self.cut()
            return
        if status == 401:
            # Not "Basic": a browser would ask for a password in a window of its own.
            self.headers["WWW-Authenticate"] = 'Bearer realm="mhub"'
        if status in (429, 503):
            self.headers.setdefault("Retry-After", "1")
        self.send(status, PROBLEM, encoded(status, text))

    def cut(self) -> None:
        """End a stream; whoever reads it must not take it for the whole."""
        if self._stream is not None:
            self._stream.cut()

    def _head(self, status: int, media_type: str) -> None:
        self._note(status)
        set_headers(self.request, self.headers)
        self.request.setResponseCode(status)
        if media_type:
            text = media_type in (EVENTS, CSV) or media_type.startswith("text/")
            self.request.setHeader("Content-Type", media_type + ("; charset=utf-8" if text else ""))

    def _on_end(self, reason: object) -> None:
        """All of it is written, or the client is gone."""
        self._is_gone = True
        if self.ends_with_client and self.cancel is not None and isinstance(reason, Failure):
            self.cancel()
        if not self.ended.called:
            self.ended.callback(None)


async def _write(stream: Stream | None, piece: bytes, endpoint: Endpoint) -> None:
    """Raises CancelledError if the client of a stream of data has gone."""
    if stream is None:
        return
    if endpoint.writes:
        stream.write(piece)
    else:
        await stream.send(piece)


def _methods_of(error: object) -> Iterable[str]:
    """Those that a path knows."""
    return (isinstance(error, MethodNotAllowed) and error.valid_methods) or ()


def _allowed(methods: Iterable[str]) -> str:
    return ", ".join(sorted({*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])}))


def set_headers(request: Any, more: dict[str, str]) -> None:
    for name, value in {**HEADERS, **more}.items():
        request.setHeader(name, value)
    if request.isSecure():
        request.setHeader("Strict-Transport-Security", "max-age=31536000")
    request.responseHeaders.removeHeader("Content-Type")


def address_of(request: Any) -> str:
    """As listeners write it: host and port."""
    peer = request.getClientAddress()
    host = getattr(peer, "host", None)
    if host is None:
        return "control socket"
    return f"[{host}]:{peer.port}" if ":" in host else f"{host}:{peer.port}"


def _query(request: Any) -> dict[str, list[str]]:
    """Not `request.args`, which may come from the body as well."""
    try:
        text = urlsplit(request.uri.decode("ascii")).query
        return parse_qs(
            text,
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_PARAMETERS,
        )
    except UnicodeDecodeError:
        raise BadArgument("the query is not percent-encoded UTF-8") from None
    except ValueError:
        raise BadArgument(f"the query has more than {MOST_PARAMETERS} parameters") from None


def _reason(given: list[str]) -> str:
    if len(given) > 1:
        raise BadArgument(f"the query parameter 'reason' is given {len(given)} times")
    reason = "".join(given)
    if len(reason) > LONGEST_REASON or not reason.isprintable():
        raise BadArgument(f"reason: expected one line, of at most {LONGEST_REASON} characters")
    return reason


_MEDIA_TYPE: Final = re.compile(r"[\w.+*-]+/[\w.+*-]+")


def _check_type(endpoint: Endpoint, request: Any, body: bytes) -> str:
    """The media type of the body, which must be the one that is expected: a page of another origin
    can send forms and plain text without being asked whether it may."""
    given = (request.getHeader("content-type") or "").partition(";")[0].strip().lower()
    if endpoint.raw is not None:
        wanted = endpoint.raw[1].media_type
        if wanted != "*/*" and given != wanted:
            raise UnsupportedType(f"Content-Type: expected {wanted}")
        return given if _MEDIA_TYPE.fullmatch(given) else ""
    if body and given != JSON:
        raise UnsupportedType(f"Content-Type: expected {JSON}")
    return given
