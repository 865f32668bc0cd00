"""A line of the log, as text for people or as JSON for programs."""

import json
import time
from datetime import UTC, datetime
from typing import Any, Final

from twisted.logger import eventAsText, formatEvent

EVENT_FIELDS: Final = (
    *("client_id", "user", "claimed_user", "address", "listener", "version", "reason"),
    *("text", "cause", "by", "topic", "rule", "node", "count", "why", "outcome"),
)
"""What the line of an event of the hub brings along, for JSON, where it is not empty."""


def part_of(event: dict[str, Any]) -> str:
    """The part of mhub that says it, or the library."""
    name: str = event.get("log_namespace") or "-"
    return name.removeprefix("mhub.")


def text_of(event: dict[str, Any]) -> str:
    """The message, with the traceback if there is one."""
    return eventAsText(event, includeTimestamp=False, includeSystem=False)


def text_line(event: dict[str, Any]) -> str:
    """`2026-11-18 09:44:03 info net: listening on …`; further lines of the text are indented."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event["log_time"]))
    return f"{when} {short_line(event)}"


def short_line(event: dict[str, Any]) -> str:
    """Without the time, for those who add their own."""
    text = text_of(event).replace("\n", "\n    ")
    return f"{event['log_level'].name} {part_of(event)}: {text}"


def json_line(event: dict[str, Any]) -> str:
    when = datetime.fromtimestamp(event["log_time"], UTC)
    found: dict[str, object] = {
        "time": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": event["log_level"].name,
        "part": part_of(event),
        "message": formatEvent(event),
    }
    if "event" in event:
        for name in ("event", *EVENT_FIELDS):
            if name in event:
                found[name] = event[name]
    if "log_failure" in event:
        found["traceback"] = event["log_failure"].getTraceback()
    # ASCII only: what a client calls itself cannot look like something else in a terminal.
    return json.dumps(found, default=str)
