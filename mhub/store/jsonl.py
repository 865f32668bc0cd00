"""The contents of a store as lines of JSON, both ways.

    {"mhub": "store", "schema": 4}
    {"kind": "session", "sid": 1, "client_id": "pump-7", "expiry_s": 3600}
    {"kind": "message", "mid": 9, "body": {"topic": "a/b", "qos": 1, "payload": "on"}}
    {"kind": "delivery", "sid": 1, "seq": 4, "mid": 9, "size_bytes": 5, "qos": 1}
    {"kind": "registry", "key": "user/alice", "hlc": "7312904321", "value": "{\\"roles\\":[]}"}

A field that has its default is left out.  What holds a message is written as the message where
that loses nothing, and otherwise, like all bytes, as base64.  An entry of the registry that has no
value was deleted.  The order of the lines is free.

Reading goes over the file twice.  A `Survey` checks each line, and the lines against each other,
before anything is stored; it also counts the deliveries of each message, which `batches` needs.
"""

import json
import re
import struct
from array import array
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any, BinaryIO, Final

from mhub.core.fields import BODY, CLOCK, DATA, FLAG, NUMBER, QOS, TEXT, TIME, U16, U32, Kind, Shape
from mhub.core.records import (
    DELIVERY,
    MESSAGE,
    SCHEMA,
    SESSION,
    SUBSCRIPTION,
    Batch,
    message,
    publish_of,
)
from mhub.core.registry import MAX_KEY_BYTES, PREFIX, entry_message, entry_of
from mhub.wire.publish import Publish

PORTION: Final = 1000
"""Lines in one batch, ..."""

PORTION_BYTES: Final = 4 << 20
"""... unless they are long."""

REGISTRY: Final = "registry"
"""The kind of the lines with entries of the registry."""

HEADER: Final = json.dumps({"mhub": "store", "schema": SCHEMA}).encode() + b"\n"

# JSON can spell half a character, which no store could write.
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class BadLine(Exception):
    """A line cannot be used; the text says where it stands and why."""

    def __init__(self, name: str, line: int, text: str) -> None:
        super().__init__(f"{name}:{line}: {text}")


def _whole(low: int, high: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError(f"expected an integer from {low} to {high}")
        return value

    return read


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("expected true or false")
    return value


def _time(value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not isfinite(value):
        raise ValueError("expected a number of seconds")
    return float(value)


def _text(value: object) -> str:
    if not isinstance(value, str) or _SURROGATE.search(value):
        raise ValueError("expected text")
    return value


def _some_text(value: object) -> str:
    if not (text := _text(value)):
        raise ValueError("expected text, found none")
    return text


def _key(value: object) -> str:
    key = _some_text(value)
    if "\0" in key or len(key.encode("utf-8")) > MAX_KEY_BYTES:
        raise ValueError("expected a key of the registry")
    return key


def _clock(value: object) -> int:
    # As text, since many tools that read JSON round such a number.
    if not isinstance(value, str) or not re.fullmatch("[0-9]{1,19}", value, re.ASCII):
        raise ValueError("expected an integer as text")
    return _whole(CLOCK.low, CLOCK.high)(int(value))


def _version(value: object) -> int:
    if not (version := _clock(value)):
        raise ValueError("expected a version that is not 0")
    return version


def _data(value: object) -> bytes:
    try:
        return b64decode(value, validate=True)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError("expected base64") from None


def _show_data(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _show_message(body: bytes) -> object:
    try:
        publish = publish_of(body, 0.0)
        shown = _with_fields(PUBLISH, lambda name: getattr(publish, name))
        try:
            shown["payload"] = publish.payload.decode("utf-8")
        except UnicodeDecodeError:
            shown["payload_base64"] = _show_data(publish.payload)
        if _message(shown) == body:
            return shown
    except ValueError:
        pass
    return _show_data(body)


def _message(value: object) -> bytes:
    if not isinstance(value, dict):
        return _checked(_data(value))
    rest = dict(value)
    if "payload_base64" in rest:  # "payload" is then an unknown field
        payload = _data(rest.pop("payload_base64"))
    else:
        payload = _text(rest.pop("payload", "")).encode("utf-8")
    found = _read_fields(PUBLISH, rest)
    publish = Publish(found["topic"].encode("utf-8"), payload, found["qos"], found["retain"])
    publish.properties = found["properties"]
    publish.expiry_s = found["expiry_s"]
    publish.expiry_at = found["expiry_at"]
    publish.expires_at = found["expires_at"]
    publish.owner = found["owner"]
    try:
        return message(publish, 0.0)
    except (struct.error, OverflowError):
        raise ValueError("expected a message, found a field beyond its bounds") from None


def _checked(body: bytes) -> bytes:
    try:
        publish = publish_of(body, 0.0)
    except ValueError:
        raise ValueError("expected a message, found something else in base64") from None
    _QOS.read(publish.qos)
    _time(publish.expires_at)
    return body


def _plain(value: Any) -> object:
    return value


REQUIRED: Final = object()


@dataclass(frozen=True)
class Field:
    read: Callable[[object], Any]
    default: object = REQUIRED
    show: Callable[[Any], object] = _plain


_READ: Final[dict[str, Callable[[object], Any]]] = {
    "clock": _clock,
    "flag": _flag,
    "time": _time,
    "text": _text,
    "data": _data,
    "body": _message,
}
_SHOW: Final[dict[str, Callable[[Any], object]]] = {
    "clock": str,
    "data": _show_data,
    "body": _show_message,
}


def _field(kind: Kind, default: object = REQUIRED) -> Field:
    read = _whole(kind.low, kind.high) if kind.name == "integer" else _READ[kind.name]
    return Field(read, default, _SHOW.get(kind.name, _plain))


def _fields(shape: Shape[Any], *left_out: str) -> dict[str, Field]:
    """All fields of a record; those that it is made with are required."""
    return {
        field.name: _field(field.kind, field.default if n > 1 else REQUIRED)
        for n, field in enumerate(shape.fields)
        if field.name not in left_out
    }


_QOS: Final = _field(QOS, 0)
_EXPIRY: Final = Field(_whole(-1, U32.high), -1)

PUBLISH: Final = {
    "topic": _field(TEXT),
    "qos": _QOS,
    "retain": _field(FLAG, False),
    "expiry_s": _EXPIRY,
    "expiry_at": _EXPIRY,
    "expires_at": _field(TIME, 0.0),
    "properties": _field(DATA, b""),
    "owner": _field(TEXT, ""),
}
"""The inside of a message but for its payload: the names are those of `Publish`."""

KINDS: Final = {
    "session": _fields(SESSION),
    "subscription": _fields(SUBSCRIPTION),
    "incoming": {"sid": _field(NUMBER), "pid": Field(_whole(1, U16.high))},
    "message": _fields(MESSAGE, "refs"),  # which are counted
    "delivery": _fields(DELIVERY),
    "retained": {"topic": _field(TEXT), "body": _field(BODY)},
    REGISTRY: {
        "key": Field(_key),
        "hlc": Field(_version, show=str),
        "value": _field(TEXT, ""),
    },
    "note": {"name": _field(TEXT), "text": Field(_some_text)},
}
"""What a line may be, and its fields."""


def records(batch: Batch) -> Iterator[tuple[str, dict[str, Any]]]:
    """All that a batch adds to a store, each with its kind and its fields."""
    for sid in batch.sessions:
        yield _taken("session", batch.sessions[sid])
    for subscription in batch.subscriptions.values():
        if subscription is not None:
            yield _taken("subscription", subscription)
    for (sid, pid), waits in batch.incoming.items():
        if waits:
            yield "incoming", {"sid": sid, "pid": pid}
    for each in batch.messages:
        if each.refs:
            yield _taken("message", each)
    for delivery in batch.deliveries:
        if not delivery.dead:
            yield _taken("delivery", delivery)
    for topic, body in batch.retained.items():
        if body:
            yield _entry(topic, body) or ("retained", {"topic": topic, "body": body})
    for name, text in batch.notes.items():
        if text:
            yield "note", {"name": name, "text": text}


def _entry(topic: str, body: bytes) -> tuple[str, dict[str, Any]] | None:
    """An entry of the registry, which stores keep like a retained message, if it is one."""
    if not topic.startswith(PREFIX):
        return None
    try:
        key, hlc, value = entry_of(publish_of(body, 0.0))
        if topic == PREFIX + key and message(entry_message(key, value, hlc), 0.0) == body:
            return REGISTRY, {"key": key, "hlc": hlc, "value": value}
    except ValueError:
        pass  # as it is, for mhub store check to find
    return None


def to_line(kind: str, values: Mapping[str, Any]) -> bytes:
    shown = {"kind": kind, **_with_fields(KINDS[kind], values.__getitem__)}
    return json.dumps(shown, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n"


def from_line(line: bytes) -> tuple[str, dict[str, Any]]:
    """The kind and all fields of a line; ValueError says what is wrong with it."""
    value = _json(line)
    kind = value.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"kind: expected one of {', '.join(KINDS)}")
    found = _read_fields(KINDS[kind], value)
    if kind == "delivery" and bool(found["mid"]) == bool(found["body"]):
        raise ValueError("expected one of mid and body")
    return kind, found


class Survey:
    """The first reading of a file: whether all of it can be stored, and how much there is."""

    def __init__(
        self, file: BinaryIO, name: str, check_entry: Callable[[str, str], None] | None = None
    ) -> None:
        """`check_entry` raises ValueError for an entry of the registry that must not be stored."""
        self._check_entry = check_entry
        self.counts: Counter[str] = Counter()
        self.refs: Counter[int] = Counter()  # deliveries of each message
        self._name = name
        self._once: set[tuple[object, ...]] = set()  # what must not come twice
        self._mids: set[int] = set()
        self._sids: set[int] = set()
        self._needs_mid: dict[int, int] = {}  # -> the first line with it
        self._needs_sid: dict[int, int] = {}
        self._lines: dict[int, _Line] = {}  # of each sid
        self._lent: set[tuple[int, int]] = set()  # (sid, packet id) of what is in flight
        self._lent_twice: dict[int, tuple[int, int]] = {}  # sid -> the first line, packet id
        self._internal: set[int] = set()  # sids that are not of a client
        for line, kind, values, _ in _parsed(file, name):
            self._add(line, kind, values)
        self._check_order()
        self._check_packet_ids()
        self._check_there(self._needs_sid, self._sids, "session")
        self._check_there(self._needs_mid, self._mids, "message")
        self.counts["message"] = len(self._mids & self.refs.keys())

    def _add(self, line: int, kind: str, values: dict[str, Any]) -> None:
        self.counts[kind] += 1
        if kind == "message":
            if values["mid"] in self._mids:
                raise BadLine(self._name, line, f"message {values['mid']} comes twice")
            self._mids.add(values["mid"])
        elif kind == "retained":
            self._only_once(line, kind, values["topic"])
        elif kind == REGISTRY:
            self._only_once(line, "retained", PREFIX + values["key"])
            if self._check_entry is not None:
                try:
                    self._check_entry(values["key"], values["value"])
                except ValueError as error:
                    raise BadLine(self._name, line, str(error)) from None
        elif kind == "note":
            self._only_once(line, kind, values["name"])
        elif kind == "session":
            self._only_once(line, "sid", values["sid"])
            self._only_once(line, "client id", values["client_id"])
            self._sids.add(values["sid"])
            if values["client_id"].startswith("\0"):  # which no client may use [MQTT-1.5.4-2]
                self._internal.add(values["sid"])
        else:
            sid = values["sid"]
            self._needs_sid.setdefault(sid, line)
            if kind == "subscription":
                self._only_once(line, kind, sid, values["name"])
            elif kind == "incoming":
                self._only_once(line, kind, sid, values["pid"])
            else:
                self._add_delivery(line, sid, values)

    def _add_delivery(self, line: int, sid: int, values: dict[str, Any]) -> None:
        if values["mid"]:
            self.refs[values["mid"]] += 1
            self._needs_mid.setdefault(values["mid"], line)
        if values["pid"]:
            lent = (sid, values["pid"])
            if lent in self._lent:
                self._lent_twice.setdefault(sid, (line, values["pid"]))
            self._lent.add(lent)
        if sid not in self._lines:
            self._lines[sid] = _Line()
        self._lines[sid].add(values["seq"], line)

    def _only_once(self, line: int, *what: object) -> None:
        if what in self._once:
            raise BadLine(self._name, line, f"{what[0]} {'/'.join(map(str, what[1:]))} comes twice")
        self._once.add(what)

    def _check_order(self) -> None:
        for sid, deliveries in self._lines.items():
            for seq, line in deliveries.doubles():
                raise BadLine(self._name, line, f"delivery {sid}/{seq} comes twice")

    def _check_packet_ids(self) -> None:
        # The hub's own sessions have all they keep in flight, with one packet id.
        for sid, (line, pid) in self._lent_twice.items():
            if sid not in self._internal:
                raise BadLine(self._name, line, f"in flight {sid}/{pid} comes twice")

    def _check_there(self, needed: dict[int, int], there: set[int], what: str) -> None:
        for number, line in needed.items():  # in the order of the lines
            if number not in there:
                raise BadLine(self._name, line, f"there is no {what} {number} in this file")


class _Line:
    """The places of one session's deliveries: sixteen bytes each, as there may be millions."""

    def __init__(self) -> None:
        self._seqs = array("q")
        self._lines = array("q")
        self._ascends = True  # as a store writes them, so that there is nothing to sort

    def add(self, seq: int, line: int) -> None:
        if self._seqs and seq <= self._seqs[-1]:
            self._ascends = False
        self._seqs.append(seq)
        self._lines.append(line)

    def doubles(self) -> Iterator[tuple[int, int]]:
        """Places that were there before, each with its line."""
        if not self._ascends:
            for (seq, _), (other, line) in pairwise(
                sorted(zip(self._seqs, self._lines, strict=True))
            ):
                if seq == other:
                    yield seq, line


def batches(file: BinaryIO, name: str, refs: Mapping[int, int]) -> Iterator[Batch]:
    """The second reading: what is in the file, in portions, for an empty store."""
    batch, count, size_bytes = Batch(1), 0, 0
    for _, kind, values, length in _parsed(file, name):
        _put(batch, kind, values, refs)
        count += 1
        size_bytes += length
        if count == PORTION or size_bytes >= PORTION_BYTES:
            yield batch
            batch, count, size_bytes = Batch(batch.number + 1), 0, 0
    if count:
        yield batch


def _put(batch: Batch, kind: str, values: dict[str, Any], refs: Mapping[int, int]) -> None:
    given = list(values.values())  # in the order of the fields
    if kind == "session":
        batch.sessions[values["sid"]] = SESSION.record(given)
    elif kind == "subscription":
        batch.subscriptions[values["sid"], values["name"]] = SUBSCRIPTION.record(given)
    elif kind == "incoming":
        batch.incoming[values["sid"], values["pid"]] = True
    elif kind == "message":
        batch.messages.append(MESSAGE.record([*given, refs.get(values["mid"], 0)]))
    elif kind == "delivery":
        batch.deliveries.append(DELIVERY.record(given))
    elif kind == REGISTRY:
        entry = entry_message(values["key"], values["value"], values["hlc"])
        batch.retained[entry.topic] = message(entry, 0.0)
    elif kind == "note":
        batch.notes[values["name"]] = values["text"]
    else:
        batch.retained[values["topic"]] = values["body"]


def _parsed(file: BinaryIO, name: str) -> Iterator[tuple[int, str, dict[str, Any], int]]:
    """Each line's number, kind, fields and length; the first one is checked and left out."""
    file.seek(0)
    number = 0
    for number, line in enumerate(file, 1):
        try:
            if number == 1:
                _check_header(line)
            elif line.strip():
                yield number, *from_line(line), len(line)
        except ValueError as error:
            raise BadLine(name, number, str(error)) from None
    if number == 0:
        raise BadLine(name, 1, "the file is empty")


def _check_header(line: bytes) -> None:
    try:
        header = _json(line)
    except ValueError:
        header = {}
    schema = header.get("schema")
    if header.get("mhub") != "store" or not isinstance(schema, int) or schema < 1:
        raise ValueError(f"expected {HEADER.decode().strip()}, as `mhub store export` writes it")
    if schema > SCHEMA:
        raise ValueError(f"schema {schema} is newer than this mhub, which knows {SCHEMA}")


def _json(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(value, dict):
        raise ValueError("expected a JSON object")
    return value


def _taken(kind: str, record: object) -> tuple[str, dict[str, Any]]:
    return kind, {name: getattr(record, name) for name in KINDS[kind]}


def _with_fields(fields: Mapping[str, Field], value_of: Callable[[str], Any]) -> dict[str, Any]:
    values = {name: value_of(name) for name in fields}
    return {
        name: field.show(values[name])
        for name, field in fields.items()
        if values[name] != field.default
    }


def _read_fields(fields: Mapping[str, Field], given: dict[str, Any]) -> dict[str, Any]:
    for name in given:
        if name not in fields:
            raise ValueError(f"unknown field {name!r}; expected {', '.join(fields)}")
    found = {}
    for name, field in fields.items():
        if name in given:
            try:
                found[name] = field.read(given[name])
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        elif field.default is REQUIRED:
            raise ValueError(f"{name}: missing")
        else:
            found[name] = field.default
    return found
