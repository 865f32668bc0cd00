"""How `mhub ctl cluster status` shows what a node says about its cluster.

A table where it fits the terminal, else some lines for each member.  A key that a node does not
give, as one of another version may, is shown as "-".
"""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Final

from mhub.ctl.figures import Facts, count, number_of, short_count, short_size, short_time

RIGHT: Final = frozenset({"ms", "queue", "routes", "clients", "since"})
"""The columns of numbers."""

THIS_NODE: Final = (
    ("migrating", "{} migrating"),
    ("waiting", "{} waiting for messages of other nodes"),
    ("merging", "older copies of {} merging"),
    ("held", "confirmations held for {}"),
)
A_MEMBER: Final = (
    ("waiting", "{} here waiting for its messages"),
    ("merging", "older copies of {} here waiting for it to merge"),
    ("held", "confirmations to it held for {}"),
)
"""What is said of sessions between nodes; nothing of what there is none of."""

NOTE_INDENT: Final = "    "


def render(status: Facts, width: int) -> str:
    """The whole of it, in lines that are no longer than `width` if that can be."""
    members = [member for member in _list(status, "members") if isinstance(member, Mapping)]
    lines = _head(status, bool(members) or bool(_list(status, "unreachable")), width)
    if members:
        ours = _revision(status)
        rows = [_row(member) for member in members]
        same = {_text(status, "version")} == {row["version"] for row in rows}
        lines += ["", *_body(rows, [_notes(member, ours) for member in members], same, width)]
    names = {_text(member, "node") for member in members}
    lines += _unreachable(status, names, width)
    return "\n".join(lines)


def _unreachable(status: Facts, members: set[str], width: int) -> list[str]:
    """Where no node has answered; of members, their own lines say so."""
    lines: list[str] = []
    for each in _list(status, "unreachable"):
        if isinstance(each, Mapping) and _text(each, "node") not in members:
            failed = (
                f"{_text(each, 'reason')} ({count(number_of(each, 'attempts'), 'attempt')} in"
                f" {short_time(number_of(each, 'since_s'))}, the next in"
                f" {short_time(number_of(each, 'next_call_s'))})"
            )
            lines += [_text(each, "address"), *_wrapped(failed, width, NOTE_INDENT)]
    return ["", "not reached:", *lines] if lines else []


def _head(status: Facts, others: bool, width: int) -> list[str]:
    state = "ready" if status.get("ready") is True else "not ready"
    if status.get("leaving") is True:
        state = "leaving"
    who = (
        f"cluster {_text(status, 'cluster')}, node {_text(status, 'node')}"
        f" at {_text(status, 'address')}: {state}"
    )
    what = (
        f"{count(number_of(status, 'clients'), 'client')},"
        f" {count(number_of(status, 'routes'), 'route')};"
        f" mhub {_text(status, 'version')}, protocol {_text(status, 'protocol')}"
    )
    lines = [*_wrapped(who, width, ""), *_wrapped(what, width, "")]
    sessions = status.get("sessions")
    if isinstance(sessions, Mapping) and (between := _between(sessions, THIS_NODE)):
        lines += _wrapped("; ".join(between), width, "")
    lines += _wrapped(_registry(status), width, "")
    if not others:
        alone = "No other node is known; see peers and srv in the [cluster] table."
        lines += _wrapped(alone, width, "")
    return lines


def _revision(status: Facts) -> str:
    """Of the registry here; "": it was never used."""
    registry = status.get("registry")
    if not isinstance(registry, Mapping):
        return ""
    revision = _text(registry, "revision")
    return revision if revision.strip("0-") else ""


def _registry(status: Facts) -> str:
    """Which revision is here, and whether the others have the same."""
    registry, ours = status.get("registry"), _revision(status)
    if not ours or not isinstance(registry, Mapping):
        return ""
    members = [member for member in _list(status, "members") if isinstance(member, Mapping)]
    told = [_text(member, "revision") for member in members if member.get("revision")]
    where = ", on all nodes" if len(told) == len(members) > 0 and {*told} == {ours} else ""
    entries = number_of(registry, "entries")
    noun = "entry" if entries == 1 else "entries"
    text = f"registry: revision {ours}{where}; {short_count(entries)} {noun}"
    kept = number_of(registry, "tombstones")
    if not kept:
        return text
    text += f", {count(kept, 'deletion')} remembered"
    behind = [str(name) for name in _list(registry, "behind")]
    return f"{text} until these nodes have them: {', '.join(behind)}" if behind else text


def _row(member: Facts) -> dict[str, str]:
    queued = short_count(number_of(member, "queued_messages"))
    size = short_size(number_of(member, "queued_bytes"))
    latency = member.get("latency_ms")
    return {
        "node": _text(member, "node"),
        "state": _text(member, "state"),
        "address": _text(member, "address"),
        "ms": f"{latency:.1f}" if isinstance(latency, (int, float)) else "-",
        "queue": "0" if (queued, size) == ("0", "0") else f"{queued}/{size}",
        "routes": short_count(number_of(member, "routes")),
        "clients": short_count(number_of(member, "clients")),
        "version": _text(member, "version"),
        "since": short_time(number_of(member, "since_s")),
    }


def _notes(member: Facts, revision: str) -> str:
    parts = [
        f"{count(number, 'message')} {what}"
        for what in ("dropped", "refused")
        if (number := number_of(member, what))
    ]
    sessions = member.get("sessions")
    if isinstance(sessions, Mapping):
        parts += _between(sessions, A_MEMBER)
        held_s = number_of(member, "held_s")
        if held_s is not None:
            parts[-1] += f" since {short_time(held_s)}"
    failed, wait_s = number_of(member, "calls_failed"), number_of(member, "next_call_s")
    if failed and wait_s is not None:
        why = _text(member, "call_error")
        why = f": {why}" if why not in ("", "-") else ""
        calls = count(failed, "call")
        parts.append(f"{calls} failed, the next in {short_time(wait_s)}{why}")
    theirs = _text(member, "revision")
    if theirs.strip("0-") and theirs != revision:
        parts.append(f"registry: revision {theirs}")
    note = _text(member, "note")
    return "; ".join([*parts, note] if note not in ("", "-") else parts)


def _between(sessions: Facts, texts: Sequence[tuple[str, str]]) -> list[str]:
    found = [(number_of(sessions, name), text) for name, text in texts]
    return [text.format(count(number, "session")) for number, text in found if number]


def _body(
    rows: Sequence[Mapping[str, str]], notes: Sequence[str], same: bool, width: int
) -> list[str]:
    for columns in ([*rows[0]], [name for name in rows[0] if name != "version" or not same]):
        table = _table(rows, columns)
        if max(map(len, table)) <= width:
            lines = [table[0]]
            for line, note in zip(table[1:], notes, strict=True):
                lines += [line, *_wrapped(note, width, NOTE_INDENT)]
            return lines
    lines = []
    for row, note in zip(rows, notes, strict=True):
        lines += [*_card(row, width), *_wrapped(note, width, NOTE_INDENT)]
    return lines


def _table(rows: Sequence[Mapping[str, str]], columns: Sequence[str]) -> list[str]:
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in columns}
    titles = {name: name for name in columns}
    return [
        "  ".join(
            f"{row[name]:>{widths[name]}}" if name in RIGHT else f"{row[name]:<{widths[name]}}"
            for name in columns
        ).rstrip()
        for row in [titles, *rows]
    ]


def _card(row: Mapping[str, str], width: int) -> list[str]:
    lines = (
        f"{row['state']} for {row['since']}; {row['address']}, mhub {row['version']}",
        f"latency {row['ms']} ms; queue {row['queue']}; routes {row['routes']};"
        f" clients {row['clients']}",
    )
    return [row["node"], *(part for line in lines for part in _wrapped(line, width, NOTE_INDENT))]


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    # A name or an address that is longer than the line stays whole, to be copied.
    return wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _list(facts: Facts, name: str) -> list[object]:
    found = facts.get(name)
    return found if isinstance(found, list) else []


def _text(facts: Facts, name: str) -> str:
    """What a peer says about itself goes to a terminal: nothing that would move its cursor."""
    text = str(facts.get(name, "-"))
    return "".join(letter if letter.isprintable() else "?" for letter in text)
