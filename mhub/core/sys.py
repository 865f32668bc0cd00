"""The $SYS topics: what the broker says about itself, as retained messages.

Published every `interval_s`, and only those that have changed.  Which there are and what they mean
is in `mhub.core.metrics`; this file knows how they are written.  Loads are moving averages over 1,
5 and 15 minutes, as Mosquitto's users know them.
"""

from collections.abc import Callable
from typing import Final

PREFIX: Final = "$SYS/broker/"


class SysTopics:
    def __init__(
        self,
        interval_s: float,
        now: float,
        snapshot: Callable[[float], dict[str, int | float | str]],
        publish: Callable[[str, bytes, bool], None],
    ) -> None:
        self.interval_s = interval_s  # 0: never
        self.due_at = now  # the first ones come with the first tick
        self.snapshot = snapshot
        self.publish = publish
        self.said: dict[str, str] = {}

    def tick(self, now: float) -> None:
        if not self.interval_s or now < self.due_at:
            return
        self.due_at = now + self.interval_s
        for name, value in self.snapshot(now).items():
            text = write(name, value)
            if self.said.get(name) != text:
                self.said[name] = text
                self.publish(PREFIX + name, text.encode("utf-8"), True)


def write(name: str, value: int | float | str) -> str:
    """A value as its topic has it."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value} seconds" if name == "uptime" else str(value)
