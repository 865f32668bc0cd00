"""Processor time and memory: of this process, and of the broker when its process is known.

Linux only for the broker's part: its clock is read with the clock id that Linux gives to each
process, to the nanosecond where /proc counts in hundredths of a second.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from mhub.bench.errors import BenchError


@dataclass
class Usage:
    """What was used between two moments; None where it is not known."""

    seconds: float = 0.0
    load_cpu_s: float = 0.0
    broker_cpu_s: float | None = None
    broker_rss_bytes: int | None = None

    @property
    def load_busy(self) -> float:
        """The part of one core that the load side used."""
        return self.load_cpu_s / self.seconds if self.seconds else 0.0

    def to_json(self, count: int) -> dict[str, object]:
        found: dict[str, object] = {
            "load_cpu_s": round(self.load_cpu_s, 6),
            "load_cores": round(self.load_busy, 3),
        }
        if count:
            found["load_cpu_us_each"] = round(self.load_cpu_s * 1e6 / count, 3)
        if self.broker_cpu_s is not None:
            found["broker_cpu_s"] = round(self.broker_cpu_s, 6)
            if count:
                found["broker_cpu_us_each"] = round(self.broker_cpu_s * 1e6 / count, 3)
        if self.broker_rss_bytes is not None:
            found["broker_rss_bytes"] = self.broker_rss_bytes
        return found


class Meter:
    """Reads the clocks of this process and of the process trees of `pids`."""

    def __init__(self, pids: list[int]) -> None:
        self.pids = pids
        for pid in pids:
            if _stat(pid) is None:
                raise BenchError(f"--pid {pid}: there is no such process to be seen here")
        self._started = (0.0, 0.0, 0.0)
        self.start()

    def start(self) -> None:
        self._started = (time.monotonic(), time.process_time(), self._broker()[0])

    def stop(self) -> Usage:
        """What was used since `start`."""
        began, load_cpu_s, broker_cpu_s = self._started
        usage = Usage(time.monotonic() - began, time.process_time() - load_cpu_s)
        if self.pids:
            cpu_s, rss = self._broker()
            usage.broker_cpu_s = cpu_s - broker_cpu_s
            usage.broker_rss_bytes = rss
        return usage

    def rss(self) -> int | None:
        return self._broker()[1] if self.pids else None

    def _broker(self) -> tuple[float, int]:
        cpu_s, rss = 0.0, 0
        for pid in _with_children(self.pids):
            found = _stat(pid)
            if found is not None:
                rss += found[1]
                try:
                    cpu_s += time.clock_gettime((~pid << 3) | 2)
                except OSError:
                    pass
        return cpu_s, rss


def _stat(pid: int) -> tuple[int, int] | None:
    """Parent and resident bytes of a process, or None."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    return int(fields[1]), int(fields[21]) * os.sysconf("SC_PAGESIZE")


def _with_children(pids: list[int]) -> set[int]:
    if not pids:
        return set()
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            found = _stat(int(name))
            if found is not None:
                parents[int(name)] = found[0]
    chosen = set(pids)
    while True:
        more = {pid for pid, parent in parents.items() if parent in chosen} - chosen
        if not more:
            return chosen
        chosen |= more
