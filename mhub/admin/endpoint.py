"""Endpoints: functions whose signatures are their declarations.

    @endpoint("GET", "/clients", resource="clients")
    async def clients(
        call: Call,
        match: Annotated[str, Query("A pattern with * and ? for the client id.", longest=256)] = "",
        limit: Annotated[int, Query("How many at most.", low=1, high=1000)] = 100,
    ) -> ClientPage:
        \"\"\"Search clients.\"\"\"

From the signature come the check of what a request brings, the OpenAPI document and the reference
in docs/admin-api.md.  The first line of the docstring is the summary, what follows it the
description.  A parameter without a default is required.  What the function gives back is a frozen
dataclass, or None for an answer without content; a stream is an async generator of bytes.

Whoever asks needs `admin:read` on the resource for a GET and `admin:write` for all else, unless
`writes` says otherwise; an endpoint without a resource is for all who are logged in.  API tokens
are refused where `tokens` is False, whatever their scopes are.

An endpoint refuses by raising an OperationError (`mhub.operations.contract`), whose text says what
to do about it.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType, NoneType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from mhub.config.problems import nearest
from mhub.operations.contract import BadArgument, OperationError

if TYPE_CHECKING:
    from mhub.admin.caller import Caller
    from mhub.admin.gate import Gate
    from mhub.admin.mqtt.gateway import Gateway
    from mhub.operations.operations import Operations

BASE: Final = "/admin/v1"
"""What the paths of most endpoints begin with."""

LONGEST_TEXT: Final = 65_535
"""Characters of a text for which nothing else is said: what MQTT can carry, at most."""

MOST_BODY: Final = 256 * 1024
"""Bytes of a JSON body: to read that many takes a millisecond."""

LONGEST_REASON: Final = 1000

LINE: Final = r"^[^\x00-\x1f\x7f-\x9f]*$"
"""Text on one line; the broker refuses some rarer characters as well."""

REASON_DOC: Final = (
    "Why the change is made, for the log and the audit trail. `admin.require_reason` makes it"
    " mandatory."
)

EVENTS: Final = "text/event-stream"
LINES: Final = "application/x-ndjson"
CSV: Final = "text/csv"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Query:
    """A parameter behind the question mark."""

    doc: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()  # of a text, or of each text of a list
    longest: int = LONGEST_TEXT
    shortest: int = 0  # characters of a text, or items of a list
    # What follows is in the OpenAPI document alone.  The operation checks it, and can say better
    # than a regular expression what is wrong.
    pattern: str = ""  # of a text, or of each text of a list
    keys: tuple[str, ...] = ()  # of an object


@dataclass(frozen=True)
class Body(Query):
    """A field of the JSON object that is the body."""


@dataclass(frozen=True)
class Raw:
    """The body as it is: bytes of one media type."""

    media_type: str  # "*/*": any
    doc: str
    most: int = 4 << 20


class Call:
    """One request, as the function of its endpoint sees it."""

    def __init__(
        self, operations: "Operations", caller: "Caller", gate: "Gate", request: Any
    ) -> None:
        self.operations = operations
        self.caller = caller
        self.request = request  # of twisted.web, for the few that need more than what is here
        self.gate: Gate = gate
        self.reason = ""  # why it is asked for, of a change
        self.if_match = ""  # the version that the caller has seen; "": any
        self.etag = ""  # set by the function: the version of what it gives
        self.status = 0  # set by the function, where it is not 200
        self.media_type = ""  # of a raw body
        self.accept = ""  # what the caller takes
        self.answer_type = ""  # set by the function: the media type of bytes, where there are more
        self.last_event_id = ""  # of a stream that goes on
        self.headers: dict[str, str] = {}  # of the answer, besides those that all have
        self.mqtt: Gateway | None = None  # MQTT over HTTP
        self.checks_itself = False  # set by a stream that asks is_still_known() from time to time

    async def is_still_known(self) -> bool:
        """Whether the caller of a stream would still be let in as the same one.

        To ask does not make a session last any longer.
        """
        caller = self.caller
        is_local = caller.kind == "local"
        try:
            now = await self.gate.caller_of(self.request, caller.address, is_local, renews=False)
        except OperationError:
            return False
        return now.kind == caller.kind and now.principal.user == caller.principal.user


@dataclass(frozen=True)
class Endpoint:
    name: str  # the operationId
    method: str
    path: str
    function: Callable[..., Any]
    resource: str
    writes: bool
    tokens: bool
    scope: str  # a scope of tokens that is enough for this; "": only those of the resource are
    public: str  # "open": no login needed; else the key of `[admin]` that may say "open"; "": never
    stream: str  # the media type of a stream; "": the answer is JSON
    codes: tuple[int, ...]  # of errors, besides those that every endpoint can have
    summary: str
    description: str
    query: "type[msgspec.Struct]"
    body: "type[msgspec.Struct] | None"
    raw: tuple[str, Raw] | None
    result: Any

    @property
    def most_body(self) -> int:
        return self.raw[1].most if self.raw is not None else MOST_BODY

    @property
    def verb(self) -> str:
        return "write" if self.writes else "read"

    @property
    def changes(self) -> bool:
        """Whether it asks for a reason."""
        return self.writes and bool(self.resource)

    def arguments(self, query: Mapping[str, list[str]], body: bytes) -> dict[str, Any]:
        """What the function is called with.  Raises BadArgument."""
        found = _read(self.query, _joined(self.query, query), "query parameter")
        if self.raw is not None:
            found[self.raw[0]] = body
        elif self.body is not None:
            found.update(_read(self.body, _object(body), "field"))
        elif body.strip() not in (b"", b"{}"):
            raise BadArgument("this request has no body")
        return found


def endpoint(
    method: str,
    path: str,
    *,
    resource: str = "",
    writes: bool | None = None,
    tokens: bool = True,
    scope: str = "",
    public: str = "",
    stream: str = "",
    codes: tuple[int, ...] = (),
    base: str = BASE,
) -> Callable[[F], F]:
    """Makes a function an endpoint; `mhub.admin.resources` finds it in its module."""

    def declare(function: F) -> F:
        made = Endpoint(
            name=function.__name__.replace("_", "-"),
            method=method,
            path=base + path,
            function=function,
            resource=resource,
            writes=method != "GET" if writes is None else writes,
            tokens=tokens,
            scope=scope,
            public=public,
            stream=stream,
            codes=codes,
            **_declaration(function),
        )
        function.endpoint = made  # type: ignore[attr-defined]
        return function

    return declare


def endpoints_of(module: ModuleType) -> list[Endpoint]:
    """Those of a module, in the order in which they stand there."""
    return [
        each.endpoint
        for each in vars(module).values()
        if callable(each)
        and isinstance(getattr(each, "endpoint", None), Endpoint)
        and each.__module__ == module.__name__
    ]


def _declaration(function: Callable[..., Any]) -> dict[str, Any]:
    hints = get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())[1:]  # without `call`
    query: list[Any] = []
    body: list[Any] = []
    raw = None
    for each in parameters:
        kind, *notes = get_args(hints[each.name]) or (hints[each.name],)
        note = notes[0] if notes else None
        if isinstance(note, Raw):
            raw = (each.name, note)
        elif isinstance(note, Query):
            field: tuple[Any, ...] = (each.name, _constrained(kind, note, each.default))
            if each.default is not each.empty:
                field = (*field, each.default)
            (body if isinstance(note, Body) else query).append(field)
        else:
            raise TypeError(f"{function.__name__}: {each.name} is neither Query, Body nor Raw")
    text = inspect.getdoc(function) or ""
    summary, _, description = text.partition("\n")
    name = "".join(part.title() for part in function.__name__.split("_"))
    result = hints.get("return", NoneType)
    return {
        "summary": summary.rstrip("."),
        "description": description.strip(),
        "query": msgspec.defstruct(name + "Query", query, kw_only=True),
        "body": (
            msgspec.defstruct(name + "Body", body, kw_only=True, forbid_unknown_fields=True)
            if body
            else None
        ),
        "raw": raw,
        "result": NoneType if inspect.isasyncgenfunction(function) else result,
    }


def _constrained(kind: Any, note: Query, default: object) -> Any:
    """The type of a parameter, as msgspec checks and shows it."""
    present = [each for each in get_args(kind) if each is not NoneType]
    if NoneType in get_args(kind) and len(present) == 1:
        one: Any = _limited(present[0], note, default)
        kind = one | None
    else:
        kind = _limited(kind, note, default)
    return Annotated[kind, msgspec.Meta(description=note.doc)]


def _limited(kind: Any, note: Query, default: object) -> Any:
    if get_origin(kind) is list and (note.choices or note.pattern or note.shortest):
        items = [_limited(each, replace(note, shortest=0), default) for each in get_args(kind)]
        return Annotated[list[items[0]], msgspec.Meta(min_length=note.shortest)]  # type: ignore[valid-type]
    if note.choices:
        choices = note.choices
        if isinstance(default, str) and default not in choices:
            choices = (default, *choices)
        return Literal[choices]
    meta: dict[str, Any] = {}
    if kind is str:
        meta["max_length"] = note.longest
        if note.shortest:
            meta["min_length"] = note.shortest
        if note.pattern:
            meta["extra_json_schema"] = {"pattern": note.pattern}
    elif kind in (int, float):
        if note.low is not None:
            meta["ge"] = note.low
        if note.high is not None:
            meta["le"] = note.high
    elif note.keys:
        meta["extra_json_schema"] = {"propertyNames": {"enum": list(note.keys)}}
    return Annotated[kind, msgspec.Meta(**meta)] if meta else kind


# What a request brings


def _object(body: bytes) -> dict[str, msgspec.Raw]:
    """The fields as they are written: what is not asked for is never made into objects, of which
    anybody could send many."""
    try:
        found: dict[str, msgspec.Raw] = _FIELDS.decode(body or b"{}")
    except msgspec.ValidationError:
        raise BadArgument("the body has to be a JSON object") from None
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise BadArgument(f"the body is not JSON: {error}") from None
    return found


_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _joined(struct: "type[msgspec.Struct]", given: Mapping[str, list[str]]) -> dict[str, Any]:
    """Each parameter once, but for those that are lists."""
    lists = _lists(struct)
    found: dict[str, Any] = {}
    for name, values in given.items():
        if name in lists:
            found[name] = values
        elif len(values) > 1:
            raise BadArgument(f"the query parameter {name!r} is given {len(values)} times")
        else:
            found[name] = values[0]
    return found


@cache
def _fields(struct: "type[msgspec.Struct]") -> dict[str, msgspec.structs.FieldInfo]:
    """Those of an endpoint: to find them takes longer than most answers."""
    return {field.name: field for field in msgspec.structs.fields(struct)}


@cache
def _lists(struct: "type[msgspec.Struct]") -> frozenset[str]:
    return frozenset(
        name
        for name, field in _fields(struct).items()
        if isinstance(_plain(field.type), msgspec.inspect.ListType)
    )


def _plain(kind: Any) -> Any:
    found = msgspec.inspect.type_info(kind)
    while isinstance(found, msgspec.inspect.Metadata):
        found = found.type
    return found


def _read(struct: "type[msgspec.Struct]", given: Mapping[str, Any], what: str) -> dict[str, Any]:
    """A field of a body is JSON, a parameter of a query text."""
    fields = _fields(struct)
    for name in given:
        if name not in fields:
            near = nearest(name[:100], fields)
            known = ", ".join(fields) or "none"
            hint = f"did you mean {near!r}?" if near else f"there are: {known}"
            raise BadArgument(f"unknown {what} {name[:40]!r}; {hint}")
    found = {}
    for name, field in fields.items():
        if name not in given:
            if field.required:
                raise BadArgument(f"the {what} {name!r} is missing")
            found[name] = (
                field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
            )
            continue
        value = given[name]
        try:
            if isinstance(value, msgspec.Raw):
                found[name] = msgspec.json.decode(value, type=field.type)
            else:
                found[name] = msgspec.convert(value, field.type, strict=False)
        except msgspec.ValidationError as error:
            raise BadArgument(_text(name, field.type, error, what)) from None
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            raise BadArgument(f"the body is not JSON: {error}") from None
    return found


_MISTAKE: Final = re.compile(
    r"Expected `(?P<kind>[^`]+)`(?: of length (?P<length>[<>]=) (?P<size>\d+))?"
    r"(?: (?P<bound>[<>]=) (?P<limit>\S+))?(?:, got `(?P<given>[^`]+)`)?(?: - at `\$(?P<at>.*)`)?"
)
"""What msgspec says, in the words of Python and of JSONPath."""

_KINDS: Final = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_BOUNDS: Final = {"<=": "at most", ">=": "at least"}


def _text(name: str, kind: Any, error: msgspec.ValidationError, what: str) -> str:
    found = _plain(kind)
    if isinstance(found, msgspec.inspect.ListType):
        found = found.item_type
    if isinstance(found, msgspec.inspect.LiteralType):
        words = [str(value) for value in sorted(found.values, key=str) if value != ""]
        return f"{name}: expected one of " + ", ".join(words)
    mistake = _MISTAKE.fullmatch(str(error))
    if mistake is None:
        text = str(error)
        return f"{name}: {text[:1].lower()}{text[1:]}".replace("`", "")
    text = " or ".join(_KINDS.get(each, each) for each in mistake["kind"].split(" | "))
    if mistake["length"]:
        unit = "character" if mistake["kind"] == "str" else "item"
        plural = "" if mistake["size"] == "1" else "s"
        text += f" of {_BOUNDS[mistake['length']]} {mistake['size']} {unit}{plural}"
    if mistake["bound"]:
        text += f", {_BOUNDS[mistake['bound']]} {mistake['limit']}"
    if mistake["given"] and what == "field":  # a parameter of a query is always text
        text += f", not {_KINDS.get(mistake['given'], mistake['given'])}"
    return f"{name}{mistake['at'] or ''}: expected {text}"
