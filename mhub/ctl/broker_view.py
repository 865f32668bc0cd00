"""How `mhub ctl status`, `mhub ctl clients` and `mhub ctl kick` show what a broker says.

A key that a broker does not give, as one of another version may, is shown as "-".
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from mhub.ctl.figures import (
    Facts,
    count,
    number_of,
    short_count,
    short_rate,
    short_size,
    short_time,
)
from mhub.ctl.table import safe, table

RIGHT: Final = frozenset({"since", "subs", "in/s", "out/s", "queued", "flight"})
FLEXIBLE: Final = ("client", "user", "address", "listener", "node")
OPTIONAL: Final = ("listener", "mqtt", "flight", "subs", "node")
"""Columns that a narrow terminal has no room for; these first."""

INDENT: Final = 14


def status_text(status: Facts) -> str:
    connections, sessions = _part(status, "connections"), _part(status, "sessions")
    messages, queues = _part(status, "messages"), _part(status, "queues")
    lines = [
        f"mhub {_text(status, 'version')} ({_text(status, 'build')} build),"
        f" process {_text(status, 'pid')}: {_text(status, 'state')} for"
        f" {short_time(number_of(status, 'uptime_s'))}",
        "",
    ]
    for n, listener in enumerate(status.get("listeners") or ({},)):
        most = number_of(listener, "max_connections")
        _line(
            lines,
            "" if n else "listeners",
            f"{_text(listener, 'name')}, {_text(listener, 'address')}:"
            f" {_count(listener, 'connections')}{f' of {most:.0f}' if most else ''} connected",
        )
    for n, source in enumerate(status.get("authenticators") or ()):
        _line(
            lines,
            "" if n else "authenticators",
            f"{_text(source, 'name')}: {_text(source, 'state')}; {_count(source, 'accepted')}"
            f" accepted, {_count(source, 'refused')} refused, {_count(source, 'passed_on')} passed"
            f" on, {_count(source, 'errors')} errors",
        )
    _line(
        lines,
        "connections",
        f"{_count(connections, 'open')} open; {_count(connections, 'accepted')} accepted,"
        f" {_count(connections, 'refused')} refused, {_count(connections, 'rejected')} rejected,"
        f" {_count(connections, 'kicked')} kicked",
    )
    _line(
        lines,
        "sessions",
        f"{_count(sessions, 'total')}; {_count(sessions, 'connected')} connected,"
        f" {_count(sessions, 'connected_most')} at most; {_count(sessions, 'expired')} expired,"
        f" {_count(sessions, 'taken_over')} taken over",
    )
    _line(
        lines,
        "subscriptions",
        f"{_count(sessions, 'subscriptions')},"
        f" {_count(sessions, 'shared_subscriptions')} of them shared",
    )
    _line(
        lines,
        "messages",
        f"{_count(messages, 'received_per_s')}/s in, {_count(messages, 'sent_per_s')}/s out"
        f" ({_size(messages, 'bytes_received_per_s')}B/s in,"
        f" {_size(messages, 'bytes_sent_per_s')}B/s out)",
    )
    _line(
        lines,
        "",
        f"{_count(messages, 'received')} received, {_count(messages, 'sent')} sent,"
        f" {_count(messages, 'dropped')} dropped since the start",
    )
    most = number_of(queues, "max_queued_bytes")
    _line(
        lines,
        "queues",
        f"{_size(queues, 'queued_bytes')}B{f' of {short_size(most)}B' if most else ''} wait for"
        " clients",
    )
    _line(lines, "retained", f"{_count(queues, 'retained')}, {_size(queues, 'retained_bytes')}B")
    _store(lines, _part(status, "store"))
    _cluster(lines, status.get("cluster"))
    _access(lines, status.get("access"))
    return "\n".join(lines)


def _store(lines: list[str], store: Facts) -> None:
    _line(lines, "store", f"{_text(store, 'name')}: {_text(store, 'state')}")
    if store.get("state") != "none":
        _line(
            lines,
            "",
            f"{_count(store, 'commits')} commits, {_count(store, 'failures')} failed;"
            f" {_size(store, 'pending_bytes')}B on their way to it",
        )


def _cluster(lines: list[str], cluster: object) -> None:
    if not isinstance(cluster, Mapping):
        return
    ready = "ready" if cluster.get("ready") is True else "not ready"
    _line(
        lines,
        "cluster",
        f"{_text(cluster, 'cluster')}, node {_text(cluster, 'node')}: {ready},"
        f" {_text(cluster, 'members_up')} of {_text(cluster, 'members')} other nodes up",
    )
    _line(
        lines,
        "",
        f"{_count(cluster, 'queued_messages')} messages, {_size(cluster, 'queued_bytes')}B wait for"
        " other nodes",
    )


def _access(lines: list[str], access: object) -> None:
    if not isinstance(access, Mapping):
        return
    _line(
        lines,
        "access",
        f"{_count(access, 'rows')} rows from {_text(access, 'policy')},"
        f" revision {_text(access, 'revision')}",
    )
    if access.get("problem"):
        _line(lines, "", f"not as it is now: {_text(access, 'problem')}")


def is_connected(client: Facts) -> bool:
    return client.get("state") == "connected"


def _user(client: Facts) -> str:
    """One that was not proved has a question mark."""
    user = _text(client, "user", "")
    claimed = _text(client, "claimed_user", "")
    return user or (f"{claimed}?" if claimed else "")


def clients_text(clients: Sequence[Facts], width: int) -> list[str]:
    rows = [
        {
            "client": _text(client, "client_id"),
            "user": _user(client),
            "address": _text(client, "address" if is_connected(client) else "state"),
            "listener": _text(client, "listener"),
            "mqtt": _text(client, "version"),
            "since": short_time(number_of(client, "connected_s")),
            "subs": _count(client, "subscriptions"),
            "in/s": _rate(client, "messages_in_per_s"),
            "out/s": _rate(client, "messages_out_per_s"),
            "queued": _count(client, "queued"),
            "flight": _count(client, "inflight"),
            "node": _text(client, "node", ""),
        }
        for client in clients
    ]
    return table(rows, RIGHT, FLEXIBLE, width, OPTIONAL) if rows else []


def _rate(client: Facts, name: str) -> str:
    """Of one that is not connected, nothing."""
    return short_rate(number_of(client, name)) if is_connected(client) else ""


def client_text(detail: Facts) -> str:
    client = _part(detail, "client")
    lines: list[str] = []
    _line(lines, "client", _text(client, "client_id"))
    if user := _user(client):
        _line(lines, "user", user)
    _connection(lines, client, detail)
    _line(lines, "listener", _text(client, "listener"))
    expiry_s = number_of(detail, "expiry_s")
    left_s = number_of(detail, "expires_in_s")
    lasts = "for ever" if expiry_s is None else short_time(expiry_s)
    ends = f", ends in {short_time(left_s)}" if left_s is not None else ""
    text = (
        f"lasts {lasts} without a connection{ends}" if expiry_s != 0 else "ends with its connection"
    )
    _line(lines, "session", text)
    _line(
        lines,
        "messages",
        f"{_count(client, 'queued')} queued ({_size(client, 'queued_bytes')}B),"
        f" {_count(client, 'inflight')} of {_count(detail, 'inflight_most')} in flight,"
        f" {_count(detail, 'incoming')} incoming of QoS 2",
    )
    will = detail.get("will")
    if isinstance(will, Mapping):
        _line(
            lines,
            "will",
            f"{_text(will, 'topic')}, QoS {_text(will, 'qos')}"
            f"{', retained' if will.get('retain') is True else ''},"
            f" {_size(will, 'size_bytes')}B, after {short_time(number_of(will, 'delay_s'))}",
        )
    shown = detail.get("subscriptions") or ()
    for n, subscription in enumerate(shown):
        more = "".join(
            f", {text}"
            for name, text in (
                ("no_local", "no local"),
                ("retain_as_published", "retain as published"),
            )
            if subscription.get(name) is True
        )
        what = f"{_text(subscription, 'name')}, QoS {_text(subscription, 'qos')}{more}"
        _line(lines, "" if n else "subscriptions", what)
    left = (number_of(client, "subscriptions") or 0) - len(shown)
    if left > 0:
        _line(lines, "", f"and {left:.0f} more")
    return "\n".join(lines)


def _connection(lines: list[str], client: Facts, detail: Facts) -> None:
    connected_at = number_of(client, "connected_at")
    if connected_at is None:
        state = client.get("state")
        _line(lines, "connected", "no" if state == "offline" else _text(client, "state"))
        return
    since = datetime.fromtimestamp(connected_at).isoformat(" ", "seconds")
    keepalive_s = number_of(detail, "keepalive_s")
    _line(
        lines,
        "connected",
        f"{_text(client, 'address')}, MQTT {_text(client, 'version')}, keep-alive"
        f" {short_time(keepalive_s) if keepalive_s else 'off'}",
    )
    _line(lines, "", f"since {since}, {short_time(number_of(client, 'connected_s'))}")
    if detail.get("is_reading") is False:
        _line(lines, "", "it does not read what it is sent")
    _limits(lines, detail)


WAITS: Final = {
    "rate": "it is not read from until it may send again",
    "max_messages_out_per_s": "messages wait until it may have more",
}


def _limits(lines: list[str], detail: Facts) -> None:
    """Its rates, and how often it has reached which limit."""
    rates, limited = _part(detail, "rates"), _part(detail, "limited")
    shown = [f"{name} {short_count(number_of(rates, name))}" for name in rates]
    shown += [
        f"{name} reached {count(int(number_of(limited, name) or 0), 'time')}" for name in limited
    ]
    for n, text in enumerate(shown):
        _line(lines, "" if n else "limits", text)
    for name in detail.get("waits_for") or ():
        if name in WAITS:
            _line(lines, "", WAITS[name])


def kicked_text(kicked: Facts) -> str:
    done = "disconnected" if kicked.get("was_connected") is True else "was not connected"
    gone = ", its session is deleted" if kicked.get("session_deleted") is True else ""
    return f"{_text(kicked, 'client_id')}: {done}{gone}"


def _line(lines: list[str], name: str, text: str) -> None:
    lines.append(f"{name:<{INDENT}} {text}" if name else f"{'':{INDENT}} {text}")


def _part(facts: Facts, name: str) -> Facts:
    found = facts.get(name)
    return found if isinstance(found, Mapping) else {}


def _text(facts: Facts, name: str, missing: str = "-") -> str:
    found = facts.get(name)
    return missing if found is None else safe(str(found))


def _count(facts: Facts, name: str) -> str:
    return short_count(number_of(facts, name))


def _size(facts: Facts, name: str) -> str:
    return short_size(number_of(facts, name))
