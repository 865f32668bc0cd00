"""How users, roles, rules and bans look on a terminal."""

from collections.abc import Sequence
from datetime import datetime
from textwrap import wrap
from typing import Any, Final

from mhub.ctl.command import width
from mhub.ctl.table import safe

INDENT: Final = 13
NARROWEST: Final = 40
"""So many places a text has, however narrow the terminal is."""


def titled(*parts: tuple[str, Sequence[str]]) -> list[str]:
    """Lines, the first one of each part behind its title; a part that is empty is left out."""
    lines = []
    room = max(width() - INDENT - 1, NARROWEST)
    for title, texts in parts:
        shown = [line for text in texts if text for line in folded(text, room)]
        for n, line in enumerate(shown):
            lines.append(f"{'' if n else title:<{INDENT}} {line}")
    return lines


def folded(text: str, room: int) -> list[str]:
    """A text on as many lines as it needs; those that follow begin further inside."""
    inner = " " * (len(text) - len(text.lstrip()) + 4)
    return wrap(
        text,
        room,
        subsequent_indent=inner,
        drop_whitespace=True,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [text]


def joined(names: Sequence[str]) -> str:
    return ", ".join(map(safe, names))


def row_text(row: Sequence[str]) -> str:
    return safe(", ".join(row))


def rule_line(rule: dict[str, Any]) -> str:
    return f"{rule['id']}  {row_text(rule['row'])}"


def until_text(until: float) -> str:
    return datetime.fromtimestamp(until).isoformat(" ", "seconds") if until else "for ever"


def ban_line(ban: dict[str, Any]) -> str:
    name = "banned" if ban["what"] == "ban" else "locked out"
    if ban["kind"] == "login":
        name += f" at {ban['value'].partition(' ')[0]}"
    until = f"until {until_text(ban['until'])}" if ban["until"] else "for ever"
    reason = f": {safe(ban['reason'])}" if ban["reason"] else ""
    return f"{name} {until}{reason}"
