"""What is seen while a run goes on: a bar on a terminal, a line for each scenario elsewhere."""

import time
from collections.abc import Callable
from typing import Final, TextIO

from mhub.bench.plan import CONNECTIONS, Plan
from mhub.bench.result import Result
from mhub.bench.units import count, span

_EVERY_S: Final = 0.1
_BAR: Final = 24


class Progress:
    """Writes to `out`; `bar` is for terminals, `lines` for logs, neither is silence."""

    def __init__(
        self,
        out: TextIO,
        bar: bool,
        lines: bool,
        plain: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._out = out
        self._has_bar = bar
        self._has_lines = lines
        self._signs = "#-" if plain else "█░"
        self._clock = clock
        self._plan: Plan | None = None
        self._place = ""
        self._began = 0.0
        self._shown = 0.0

    def begin(self, plan: Plan, number: int, total: int) -> None:
        self._plan = plan
        self._place = f"{number}/{total}"
        self._began = self._shown = self._clock()

    def tick(self, part: float, done: int) -> None:
        """Called on every turn of the loop: has to be cheap."""
        if not self._has_bar or self._plan is None:
            return
        now = self._clock()
        if now - self._shown < _EVERY_S:
            return
        self._shown = now
        full = min(_BAR, round(part * _BAR))
        bar = self._signs[0] * full + self._signs[1] * (_BAR - full)
        each = "conn/s" if self._plan.scenario == CONNECTIONS else "msg/s"
        rate = done / max(now - self._began, 1e-9)
        text = f"{self._place} {self._plan.title:18} {bar} {part:>4.0%}  {count(rate)} {each}"
        self._out.write(f"\r{text:79}")
        self._out.flush()

    def end(self, result: Result) -> None:
        self.clear()
        if self._has_lines:
            rate, each = result.received_per_s, "msg/s"
            if result.plan.scenario == CONNECTIONS:
                rate, each = result.connections / (result.seconds or 1.0), "conn/s"
            p99 = span(result.latency.quantile(0.99)) if result.latency.total else "-"
            text = f"{self._place} {result.plan.title}: {count(rate)} {each}, p99 {p99}"
            self._out.write(f"{text}\n")
            self._out.flush()

    def clear(self) -> None:
        if self._has_bar:
            self._out.write(f"\r{'':79}\r")
            self._out.flush()
