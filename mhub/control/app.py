"""The operations over HTTP, by Klein: which request is which operation, and what its answer says.

Whoever can write to the socket may ask for all of this.
"""

import inspect
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, Final

from klein import Klein
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure
from twisted.web.iweb import IRequest
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from mhub.access.calls import CALLS, perform
from mhub.control.answer import CONTENT_TYPE, Answer
from mhub.control.contract import from_line, to_line
from mhub.log import logger
from mhub.operations.arguments import checked
from mhub.operations.contract import BadArgument, NotThere, OperationError
from mhub.operations.cursors import MOST
from mhub.operations.operations import Operations

METHODS: Final = ("GET", "POST")


def arguments(body: bytes, parameters: Mapping[str, object]) -> dict[str, object]:
    """What a request asks with; `parameters` as for checked().  Raises BadArgument."""
    try:
        given = from_line(body) if body.strip() else {}
    except ValueError:
        raise BadArgument("expected the arguments as a JSON object") from None
    return checked(given, parameters)


class ControlApp:
    """The requests of all connections, and what of them is still being done."""

    app = Klein()

    def __init__(self, operations: Operations, reactor: Any) -> None:
        self._operations = operations
        self._reactor = reactor
        self._log = logger("control")
        self._running: set[Deferred[None]] = set()

    def stop(self) -> None:
        """The broker stops: what runs is cancelled, and its callers are told."""
        for work in list(self._running):
            work.cancel()

    @app.route("/status", methods=METHODS)
    def status(self, request: IRequest) -> Deferred[None]:
        return self._serve(self._answer(request), self._operations.status)

    @app.route("/clients", methods=METHODS)
    def clients(self, request: IRequest) -> Deferred[None]:
        return self._serve(
            self._answer(request),
            self._operations.clients,
            match="",
            listener="",
            user="",
            state="",
            after="",
            limit=MOST,
        )

    @app.route("/client", methods=METHODS)
    def client(self, request: IRequest) -> Deferred[None]:
        return self._serve(self._answer(request), self._operations.client, client_id=str)

    @app.route("/kick", methods=("POST",))
    def kick(self, request: IRequest) -> Deferred[None]:
        return self._serve(
            self._answer(request), self._operations.kick, client_id=str, delete_session=False
        )

    @app.route("/store-export", methods=METHODS)
    def store_export(self, request: IRequest) -> Deferred[None]:
        return self._serve(self._answer(request), self._operations.store_export)

    @app.route("/cluster-status", methods=METHODS)
    def cluster_status(self, request: IRequest) -> Deferred[None]:
        return self._serve(self._answer(request), self._operations.cluster_status)

    @app.route("/cluster-leave", methods=("POST",))
    def cluster_leave(self, request: IRequest) -> Deferred[None]:
        answer = self._answer(request)
        return self._serve(answer, partial(self._operations.cluster_leave, answer.say))

    @app.route("/cluster-forget", methods=("POST",))
    def cluster_forget(self, request: IRequest) -> Deferred[None]:
        return self._serve(self._answer(request), self._operations.cluster_forget, node=str)

    @app.route("/access/<name>", methods=METHODS)
    def access(self, request: IRequest, name: str) -> Deferred[None]:
        """Users, roles, rules and bans: the calls of `mhub.access.calls`."""
        call, interface = CALLS.get(name), self._operations.access
        if call is None or interface is None:
            raise NotFound
        if call.changes and request.method != b"POST":
            raise MethodNotAllowed
        return self._serve(
            self._answer(request),
            partial(perform, interface, call),
            **call.parameters,
        )

    @app.handle_errors(HTTPException)
    def unknown(self, request: Any, failure: Failure) -> bytes:
        """Klein's own answers would be HTML."""
        error = failure.value
        code = error.code if isinstance(error, HTTPException) and error.code else 500
        names = [rule.rule[1:] for rule in self.app.url_map.iter_rules() if not rule.arguments]
        if request.path.startswith(b"/access/"):
            names = [f"access/{name}" for name in CALLS]
        known = ", ".join(sorted(names))
        text = "this operation needs POST" if code == 405 else f"this broker knows {known}"
        request.setResponseCode(code)
        request.setHeader(b"Content-Type", CONTENT_TYPE)
        return to_line({"error": text})

    def _answer(self, request: IRequest) -> Answer:
        return Answer(request, self._reactor)

    def _serve(
        self, answer: Answer, operation: Callable[..., object], **parameters: object
    ) -> Deferred[None]:
        """Do it, also if the client does not wait for it: a node that leaves goes on leaving."""
        running = Deferred.fromCoroutine(self._do(answer, operation, parameters))
        if not running.called:
            self._running.add(running)
            running.addBoth(lambda _: self._running.discard(running))
        # Klein cancels this if the client goes, and not the operation.
        return answer.ended

    async def _do(
        self, answer: Answer, operation: Callable[..., object], parameters: Mapping[str, object]
    ) -> None:
        try:
            result = operation(**arguments(answer.asked, parameters))
            if isinstance(result, AsyncGenerator):
                async with aclosing(result):
                    async for data in result:
                        await answer.send(data)
                result = None
            elif inspect.isawaitable(result):
                result = await result
            answer.end({"result": result})
        except OperationError as error:
            code = {NotThere: 404, BadArgument: 400}.get(type(error), 409)
            answer.fail(code, str(error))
        except CancelledError:
            answer.fail(503, "the broker is stopping")
        except Exception as error:
            self._log.failure("an operation failed, asked for at the control socket")
            answer.fail(500, f"the broker failed: {type(error).__name__}: {error}; see its log")
