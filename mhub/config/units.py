"""Sizes and durations as people write them: "64 KiB", "10 MB", "1h", "1h 30m"."""

import re
from typing import Final

SIZES: Final = {
    "": 1,
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
DURATIONS: Final = {
    "ms": 0.001,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
}

_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)", re.ASCII)
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*", re.ASCII)


def parse_size(text: str) -> int | None:
    """The number of bytes, or None when `text` is not a size or not a whole number of bytes."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or match[2].lower() not in SIZES:
        return None
    size = float(match[1]) * SIZES[match[2].lower()]
    return int(size) if size == int(size) else None


def parse_duration(text: str) -> float | None:
    """The number of seconds, or None when `text` is not a duration."""
    text = text.strip()
    total, at = 0.0, 0
    while at < len(text):
        match = _DURATION.match(text, at)
        if match is None or match[2] not in DURATIONS:
            return None
        total += float(match[1]) * DURATIONS[match[2]]
        at = match.end()
    return total if text else None


def show_size(size: int) -> str:
    """The shortest exact way to write a size."""
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % SIZES[unit.lower()] == 0:
            return f"{size // SIZES[unit.lower()]} {unit}"
    return f"{size} B"


def show_duration(seconds: float) -> str:
    """The shortest exact way to write a duration."""
    for unit in ("d", "h", "m"):
        if seconds and seconds % DURATIONS[unit] == 0:
            return f"{int(seconds / DURATIONS[unit])}{unit}"
    return f"{int(seconds) if seconds == int(seconds) else seconds}s"
