"""How `mhub ctl top` looks: the lines of a screen, for any size of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mhub.ctl.figures import (
    Facts,
    clock,
    number_of,
    short_count,
    short_rate,
    short_size,
    short_time,
)
from mhub.ctl.table import safe, shortened, table

BOTH: Final = "both"
CLIENTS: Final = "clients"
TOPICS: Final = "topics"
VIEWS: Final = (BOTH, CLIENTS, TOPICS)

CLIENT_SORTS: Final = {
    "messages_in_per_s": "messages in",
    "messages_out_per_s": "messages out",
    "bytes_in_per_s": "bytes in",
    "bytes_out_per_s": "bytes out",
    "queued": "queued",
}
TOPIC_SORTS: Final = {"messages_per_s": "messages", "bytes_per_s": "bytes"}

CLIENT_COLUMNS: Final = ("in/s", "out/s", "B in/s", "B out/s", "queued", "flight")
TOPIC_COLUMNS: Final = ("msg/s", "B/s", "messages", "bytes")
RIGHT: Final = frozenset((*CLIENT_COLUMNS, *TOPIC_COLUMNS))
FEWEST_LINES: Final = 2
"""Lines of a table that is shown at all, besides its two of titles."""


@dataclass
class Shown:
    """What is shown, as the keys have it."""

    sort: str = "messages_in_per_s"
    topic_sort: str = "messages_per_s"
    view: str = BOTH
    is_paused: bool = False
    interval_s: float = 2.0


@dataclass(frozen=True)
class Numbers:
    """What was asked for at one time."""

    time: float
    status: Facts = field(default_factory=dict)
    rates: Facts = field(default_factory=dict)  # messages a second: received, sent, dropped
    clients: Sequence[Facts] = ()
    topics: Sequence[Facts] = ()
    missing: Sequence[str] = ()  # nodes that have not answered


def screen(numbers: Numbers, shown: Shown, problem: str, width: int, height: int) -> list[str]:
    """As many lines as there are, none wider than the terminal."""
    head = [*header(numbers), problem and f"! {safe(problem)}"]
    lines = [shortened(line, width) for line in head[: max(height - 1, 1)]]
    room = height - len(lines) - 1  # the last one has the keys
    for title, body in _tables(numbers, shown, width, room):
        lines += [shortened(title, width), *body]
    lines = lines[: height - 1]
    lines += [""] * (height - 1 - len(lines))
    return [*lines, shortened(keys(shown), width)]


def once(numbers: Numbers, shown: Shown, width: int) -> list[str]:
    """All of it, where there is no screen."""
    lines = [shortened(line, width) for line in header(numbers)]
    for title, body in _tables(numbers, shown, width, 1 << 20):
        lines += ["", shortened(title, width), *body]
    return lines


def header(numbers: Numbers) -> list[str]:
    status = numbers.status
    rates, sessions = numbers.rates, _part(status, "sessions")
    queues, cluster = _part(status, "queues"), _part(status, "cluster")
    node = f", node {safe(str(cluster.get('node', '-')))}" if cluster else ""
    missing = f"; not answered: {safe(', '.join(numbers.missing))}" if numbers.missing else ""
    return [
        f"mhub {safe(str(status.get('version', '-')))}{node}: {safe(str(status.get('state', '-')))}"
        f" for {short_time(number_of(status, 'uptime_s'))}, at {clock(numbers.time)[11:]}{missing}",
        f"{short_count(number_of(sessions, 'connected'))} connected of"
        f" {short_count(number_of(sessions, 'total'))};"
        f" {_rate(rates, 'received')}/s in, {_rate(rates, 'sent')}/s out,"
        f" {_rate(rates, 'dropped')}/s dropped; {_size(queues, 'queued_bytes')}B queued",
    ]


def rates_of(status: Facts, before: Facts) -> Facts:
    """Messages a second between two answers; of the first one, the averages of a minute."""
    messages, earlier = _part(status, "messages"), _part(before, "messages")
    passed_s = (number_of(status, "uptime_s") or 0.0) - (number_of(before, "uptime_s") or 0.0)
    if not earlier or passed_s <= 0:  # the broker may be another one by now
        return {
            "received": messages.get("received_per_s"),
            "sent": messages.get("sent_per_s"),
        }
    return {
        name: max((number_of(messages, name) or 0) - (number_of(earlier, name) or 0), 0) / passed_s
        for name in ("received", "sent", "dropped")
    }


def keys(shown: Shown) -> str:
    state = "PAUSED  " if shown.is_paused else ""
    return f"{state}q quit  i o messages in/out  I O bytes  w queued  b topics  v view  space pause"


def _tables(numbers: Numbers, shown: Shown, width: int, room: int) -> list[tuple[str, list[str]]]:
    """Each with as many rows as there is room for; what one does not need, the other has."""
    both = shown.view == BOTH and room >= 2 * (FEWEST_LINES + 2)
    wanted = []
    if shown.view != TOPICS:
        wanted.append((f"CLIENTS by {CLIENT_SORTS[shown.sort]}", client_rows(numbers.clients)))
    if shown.view == TOPICS or both:
        wanted.append((f"TOPICS by {TOPIC_SORTS[shown.topic_sort]}", topic_rows(numbers.topics)))
    shares = _shares([len(rows) or 1 for _, rows in wanted], room - 2 * len(wanted))
    found = []
    for (title, rows), share in zip(wanted, shares, strict=True):
        first = "client" if title.startswith("CLIENTS") else "topic"
        optional = ("flight", "B out/s", "B in/s", "queued", "messages", "bytes", "node")
        flexible = (first, "user", "node")
        body = (
            table(rows[:share], RIGHT, flexible, width, ("user", *optional))
            if rows[:share]
            else ["none"]
        )
        found.append((title, [shortened(line, width) for line in body]))
    return found


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    shares = [min(each, max(room // len(wanted), 0)) for each in wanted]
    for n, each in enumerate(wanted):
        shares[n] += max(min(each - shares[n], room - sum(shares)), 0)
    return shares


def client_rows(clients: Sequence[Facts]) -> list[dict[str, str]]:
    return [
        {
            "client": safe(str(each.get("client_id", "-"))),
            "user": safe(str(each.get("user") or "")),
            "in/s": _rate(each, "messages_in_per_s"),
            "out/s": _rate(each, "messages_out_per_s"),
            "B in/s": _size(each, "bytes_in_per_s"),
            "B out/s": _size(each, "bytes_out_per_s"),
            "queued": short_count(number_of(each, "queued")),
            "flight": short_count(number_of(each, "inflight")),
            "node": safe(str(each.get("node") or "")),
        }
        for each in clients
    ]


def topic_rows(topics: Sequence[Facts]) -> list[dict[str, str]]:
    return [
        {
            "topic": safe(str(each.get("topic", "-"))),
            "msg/s": _rate(each, "messages_per_s"),
            "B/s": _size(each, "bytes_per_s"),
            "messages": short_count(number_of(each, "messages")),
            "bytes": _size(each, "bytes"),
            "node": safe(str(each.get("node") or "")),
        }
        for each in topics
    ]


def _part(facts: Facts, name: str) -> Facts:
    found: Any = facts.get(name)
    return found if isinstance(found, Mapping) else {}


def _rate(facts: Facts, name: str) -> str:
    return short_rate(number_of(facts, name))


def _size(facts: Facts, name: str) -> str:
    return short_size(number_of(facts, name))
