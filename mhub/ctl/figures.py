"""Numbers in an answer of the broker, and as a column of a terminal has room for them."""

from collections.abc import Mapping, Sequence
from typing import Any

Facts = Mapping[str, Any]
"""An object of JSON, of which nothing is known for sure: the broker may be another version."""


def number_of(facts: Facts, name: str) -> float | None:
    """The number of that name; None if there is none, which is shown as "-"."""
    found = facts.get(name)
    return found if isinstance(found, (int, float)) else None


def count(number: float | None, what: str) -> str:
    """ "1 route", "2 routes"."""
    shown = "-" if number is None else f"{number:.0f}"
    return f"{shown} {what}" + ("" if number == 1 else "s")


def short_count(number: float | None) -> str:
    """At most 5 characters: "999", "1.2k", "120k", "3.4M"."""
    return "-" if number is None else _short(number, 1000, ("", "k", "M", "G", "T"))


def short_rate(per_s: float | None) -> str:
    """The same, with a decimal of what is less than 10: "0", "0.2", "12", "3.4k"."""
    if per_s is None or per_s >= 9.95 or per_s <= 0:
        return short_count(per_s)
    return f"{max(per_s, 0.1):.1f}"


def short_size(size: float | None) -> str:
    """At most 5 characters: "999", "1.2K", "64M"."""
    return "-" if size is None else _short(size, 1024, ("", "K", "M", "G", "T"))


def _short(number: float, step: int, units: Sequence[str]) -> str:
    for unit in units:
        # 999.6 would be shown as 1000.
        if number < step - 0.5 or unit == units[-1]:
            break
        number /= step
    exact = unit and number < 9.95
    return f"{number:.1f}{unit}" if exact else f"{number:.0f}{unit}"


def clock(seconds: float | None) -> str:
    """A time of day, as this machine has it; with the date."""
    if seconds is None:
        return "-"
    from datetime import datetime

    return datetime.fromtimestamp(seconds).isoformat(" ", "seconds")


def short_time(seconds: float | None) -> str:
    """At most 6 characters: "4s", "12m", "12h05m", "3d04h", "120d"."""
    if seconds is None:
        return "-"
    total = int(seconds)
    minutes, hours, days = total // 60, total // 3600, total // 86400
    if total < 60:
        return f"{total}s"
    if hours == 0:
        return f"{minutes}m"
    if days == 0:
        return f"{hours}h{minutes % 60:02}m"
    return f"{days}d{hours % 24:02}h" if days < 10 else f"{days}d"
