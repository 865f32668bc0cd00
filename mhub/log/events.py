"""Events as lines of the log.

Connects, disconnects, takeovers, refusals and the first of a burst of drops are `info`; what needs
somebody's attention is `warn` or above, at once.  Every field of an event goes along with its line,
for a log that is read by programs.
"""

from collections.abc import Callable
from typing import Any, Final

from twisted.logger import LogLevel
from twisted.python.failure import Failure

from mhub.core import events
from mhub.core.events import Event
from mhub.core.principal import NOBODY
from mhub.log import is_wanted, logger
from mhub.log.clients import CLIENTS
from mhub.log.lines import EVENT_FIELDS
from mhub.wire import reasons
from mhub.wire.packets import VERSION_NAMES

DROPS: Final = {
    "queue_full": "the queue is full",
    "offline": "QoS 0 for a client that is not connected",
    "expired": "the message expired while it was waiting",
    "too_large": "larger than the client's Maximum Packet Size",
    "unmounted": "outside of the mount point that the client has now",
    "other_user": "they had waited for another user with the same client id",
    "retained_full": "the limit of retained messages is reached",
    "peer_queue_full": "the queue for that node is full",
}

ENDS: Final = {
    events.CLIENT: "by the client",
    events.BROKER: "by the broker",
    events.OPERATOR: "by an operator",
    events.NETWORK: "connection lost",
}

LONGEST: Final = 256
"""Characters of what a client calls itself or a topic, each of which may have 65,535: a few
connections would fill all files of the log with those."""

ALARMING: Final = ("suspect", "down", "dead")
"""States of another node that somebody should look at."""


class EventLog:
    """A sink; `node` is whose events they are, if that is a node that was taken over here."""

    def __init__(self, node: str = "") -> None:
        self._log = logger("events", node)
        self._lines: dict[str, tuple[Any, Callable[[Event], str]]] = {
            events.CONNECTED: (LogLevel.info, _connected),
            events.REFUSED: (LogLevel.info, _refused),
            events.REJECTED: (LogLevel.info, _rejected),
            events.STRANGER: (LogLevel.info, _stranger),
            events.ACCEPT_FAILED: (LogLevel.error, _accept_failed),
            events.DISCONNECTED: (LogLevel.info, _disconnected),
            events.TAKEN_OVER: (LogLevel.info, _taken_over),
            events.KICKED: (LogLevel.info, _kicked),
            events.SESSION_EXPIRED: (LogLevel.debug, _session_expired),
            events.DENIED: (LogLevel.info, _denied),
            events.DROPPED: (LogLevel.info, _dropped),
            events.LIMITED: (LogLevel.warn, _limited),
            events.LOCKED_OUT: (LogLevel.warn, _locked_out),
            events.FLAPPING: (LogLevel.warn, _flapping),
            events.OVERLOAD: (LogLevel.warn, _overload),
            events.NODE: (LogLevel.info, _node),
            events.STORE_FAILED: (LogLevel.error, _store_failed),
            events.STORE_RECOVERED: (LogLevel.info, _store_recovered),
            events.SOURCE_FAILED: (LogLevel.error, _source_failed),
            events.SOURCE_RECOVERED: (LogLevel.info, _source_recovered),
            events.PUSH_FAILED: (LogLevel.error, _push_failed),
            events.PUSH_RECOVERED: (LogLevel.info, _push_recovered),
            events.ADMIN: (LogLevel.info, _admin),
        }

    def emit(self, event: Event) -> None:
        if event.kind == events.CRASHED:
            self._crashed(event)
            return
        level, write = self._lines[event.kind]
        if event.kind == events.LIMITED and event.principal is not NOBODY:
            level = LogLevel.info  # that of one client, which it may reach every day
        if event.kind == events.NODE and event.cause in ALARMING:
            level = LogLevel.warn
        forced = bool(CLIENTS.levels) and CLIENTS.wants(event.client_id, level)
        if forced or is_wanted(event.kind, level):
            self._log.emit(
                level,
                "{line}",
                line=write(event),
                event=event.kind,
                forced=forced,
                **_fields(event),
            )

    def _crashed(self, event: Event) -> None:
        if not is_wanted(event.kind, LogLevel.critical):
            return
        self._log.failure(
            "a defect in mhub, please report it; it hit {text}, everything else goes on",
            Failure(event.error),  # type: ignore[no-untyped-call]
            event=event.kind,
            text=_brief(event.text),
        )


def _brief(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _quoted(text: str) -> str:
    """What somebody else wrote: it cannot look like more than one line."""
    return repr(_brief(text))


def _fields(event: Event) -> dict[str, object]:
    found = {name: getattr(event, name) for name in EVENT_FIELDS}
    found |= {name: _brief(text) for name, text in found.items() if isinstance(text, str)}
    found["version"] = VERSION_NAMES[event.version] if event.version else ""
    found["count"] = event.count if event.count > 1 else 0
    return {name: value for name, value in found.items() if value}


def _why(event: Event) -> str:
    """The reason code in words, and what is known besides."""
    if not event.reason or (event.reason == reasons.UNSPECIFIED and event.text):
        return _brief(event.text)
    name = reasons.name(event.reason)
    return f"{name} ({_brief(event.text)})" if event.text else name


def _connected(event: Event) -> str:
    user = ""
    if event.user:
        user = f", user {_quoted(event.user)}"
    elif event.claimed_user:
        user = f", user {_quoted(event.claimed_user)} (not authenticated)"
    resumed = ", session resumed" if event.session_present else ""
    return (
        f"{_quoted(event.client_id)} connected from {event.address} on {event.listener},"
        f" MQTT {VERSION_NAMES[event.version]}{user}{resumed}"
    )


def _disconnected(event: Event) -> str:
    why = "" if event.by == events.OPERATOR else _why(event)  # which a line before this one says
    return (
        f"{_quoted(event.client_id)} from {event.address} disconnected, {ENDS[event.by]}"
        f"{': ' if why else ''}{why}"
    )


def _refused(event: Event) -> str:
    client = f"; client id {_quoted(event.client_id)}" if event.client_id else ""
    return f"{event.address} on {event.listener} was refused: {_why(event)}{client}"


def _rejected(event: Event) -> str:
    limit = f" ({event.cause})" if event.cause else ""
    return f"{event.address} on {event.listener} was rejected: {event.text}{limit}"


def _stranger(event: Event) -> str:
    return f"{event.address} on {event.listener} was rejected, it does not speak MQTT: {event.text}"


def _accept_failed(event: Event) -> str:
    return f"{event.listener} cannot accept connections for now: {event.text}"


def _taken_over(event: Event) -> str:
    client = f"{_quoted(event.client_id)} from {event.address}"
    return f"the session of {client} was taken over: {event.text}"


def _kicked(event: Event) -> str:
    where = f" from {event.address}" if event.address else ""  # it may not be connected
    return f"{_quoted(event.client_id)}{where}: {event.text}"


def _session_expired(event: Event) -> str:
    return f"the session of {_quoted(event.client_id)} has expired"


def _denied(event: Event) -> str:
    who = _quoted(event.client_id) if event.client_id else "other clients"
    what = f"{event.cause} {_quoted(event.topic)}" if event.topic else event.cause
    rule = f" ({event.rule})" if event.rule else ""
    if event.is_first:
        text = f"; {event.text}" if event.text else ""
        return f"{who} may not {what}: {reasons.name(event.reason)}{rule}{text}"
    if event.cause == "receive":
        return f"{who}: {event.count} more topics or messages denied{rule}"
    return f"{who}: {event.count} more requests to {event.cause} denied{rule}"


def _dropped(event: Event) -> str:
    if event.node:
        who = f"node {event.node}"
    elif event.client_id:
        who = _quoted(event.client_id)
    else:
        who = "the broker" if event.cause == "retained_full" else "other clients"
    more = "" if event.is_first else "more "
    number = f"{event.count} {more}message{'' if event.count == 1 else 's'}"
    return f"{who}: {number} dropped, {DROPS[event.cause]}"


def _limited(event: Event) -> str:
    node = f" of node {event.node}" if event.node else ""
    if event.cause == "store.max_pending_bytes":
        return (
            "the store does not keep up: publishers of QoS 1 and 2 had to wait for it"
            f" ({event.cause}, {event.count} times)"
        )
    if event.cause.startswith("limits."):
        return _client_limited(event)
    if event.cause == "passwords.max_queued":
        return (
            "more passwords were sent than can be checked: clients were refused"
            f" ({event.cause}, {event.count} times)"
        )
    return f"publishers were refused because of the limit {event.cause}{node}, {event.count} times"


def _locked_out(event: Event) -> str:
    return (
        f"{_brief(event.text)} locked out for {event.duration_s:.0f} s after {event.count} failed"
        f" logins, the last one from {event.address} on {event.listener}"
    )


def _flapping(event: Event) -> str:
    return (
        f"{_quoted(event.client_id)} from {event.address} connects again and again: {event.count}"
        f" times, banned for {event.duration_s:.0f} s"
    )


def _client_limited(event: Event) -> str:
    if event.cause == "limits.max_connects_per_s":
        return f"connections had to wait because of the limit {event.cause}, {event.count} times"
    who = _quoted(event.client_id) if event.client_id else "other clients"
    where = f" from {event.address}" if event.address else ""
    if event.is_first:
        return f"{who}{where} has reached the limit {event.cause}"
    return f"{who}: {event.count} times more at the limit {event.cause}"


def _overload(event: Event) -> str:
    if event.cause == "begin":
        return f"the broker has too much to do, {event.text}: new clients are refused"
    return (
        f"the broker has caught up after {event.duration_s:.0f} s, {event.count} clients were"
        " refused meanwhile"
    )


def _node(event: Event) -> str:
    state = "has left" if event.cause == "left" else f"is {event.cause}"
    return f"node {event.node} {state}" + (f": {event.text}" if event.text else "")


def _store_failed(event: Event) -> str:
    if not event.is_first:
        return f"the store has been failing for {event.duration_s:.0f} s: {event.text}"
    if event.cause == "open":
        return f"waiting for the store: {event.text}"
    return (
        "the store failed; messages that must be stored are not acknowledged until it recovers:"
        f" {event.text}"
    )


def _store_recovered(event: Event) -> str:
    return f"the store recovered after {event.duration_s:.0f} s"


def _source_failed(event: Event) -> str:
    return f"the authenticator {event.cause} cannot tell who clients are: {_brief(event.text)}"


def _source_recovered(event: Event) -> str:
    return f"the authenticator {event.cause} works again"


def _push_failed(event: Event) -> str:
    return f"the numbers cannot be sent to {event.cause}: {_brief(event.text)}"


def _push_recovered(event: Event) -> str:
    return f"the numbers are sent to {event.cause} again"


def _admin(event: Event) -> str:
    text = f" {_printable(event.text)}" if event.text else ""
    why = f"; reason given: {_quoted(event.why)}" if event.why else ""
    return f"{_quoted(event.by)}: {event.cause}{text}: {event.outcome}{why}"


def _printable(text: str) -> str:
    """On one line, whatever names are in it."""
    return "".join(char if char.isprintable() else "?" for char in _brief(text))
