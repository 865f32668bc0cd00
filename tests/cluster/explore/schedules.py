"""For each defect a schedule in which it hurts, kept in schedules.txt.

A schedule is a configuration and decisions.  Followed with the defect it leads to a violation, and
without it to none, in a moment and always the same way.  When the code has changed so much that one
leads nowhere any more, `python -m tests.cluster.explore --search` looks for others.
"""

import json
import os
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.cluster.explore.cluster import Cluster
from tests.cluster.explore.configs import CONFIGS
from tests.cluster.explore.faults import FAULTS, WHERE
from tests.cluster.explore.search import CRASHED, Violation, follow, shrink, walk

FILE = Path(__file__).with_name("schedules.txt")

WALK_S = 12.0
SEEDS = 3


class Schedule(NamedTuple):
    config: str
    decisions: list[str]


def read() -> dict[str, Schedule]:
    """By defect."""
    found = {}
    for part in FILE.read_text().split("\n\n"):
        head, *rest = part.strip().split("\n")
        fault, config = head.split(" in ")
        found[fault] = Schedule(config, " ".join(rest).split())
    return found


def write(schedules: dict[str, Schedule]) -> None:
    parts = []
    for fault in sorted(schedules):
        config, decisions = schedules[fault]
        lines = textwrap.wrap(
            " ".join(decisions), 96, break_on_hyphens=False, break_long_words=False
        )
        parts.append("\n".join([f"{fault} in {config}", *[f"    {line}" for line in lines]]))
    FILE.write_text("\n\n".join(parts) + "\n")


def _apart(work: Callable[[], list[str]]) -> list[str]:
    """In a process of its own: a defect stays in."""
    end, begin = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            found = work()
        except BaseException as error:
            found = [f"{CRASHED}{error!r}"]
        with os.fdopen(begin, "w") as out:
            json.dump(found, out)
        os._exit(0)
    os.close(begin)
    with os.fdopen(end) as data:
        found = json.load(data)
    os.waitpid(child, 0)
    return [str(each) for each in found]


def outcome(schedule: Schedule, fault: str = "") -> list[str]:
    """What goes wrong when a schedule is followed; "" is no defect."""

    def work() -> list[str]:
        if fault:
            FAULTS[fault]()
        found = follow(Cluster(CONFIGS[schedule.config]), schedule.decisions)
        return found.wrong if found is not None else []

    return _apart(work)


def flaw(fault: str, schedule: Schedule) -> str:
    """Why a schedule does not show a defect; "": it does."""
    wrong = outcome(schedule)
    if wrong:
        return f"without {fault}: {'; '.join(wrong)}"
    wrong = outcome(schedule, fault)
    if not wrong:
        return f"{fault} does not hurt"
    if wrong[0].startswith(CRASHED):
        return f"{fault}: {wrong[0]}"  # a defect that cannot be put in any more
    return ""


def search(fault: str) -> Schedule | None:
    """By walks at random."""
    for seed in range(1, SEEDS + 1):
        for config in WHERE[fault]:

            def work(config: str = config, seed: int = seed) -> list[str]:
                FAULTS[fault]()
                for found in walk(CONFIGS[config], WALK_S, seed).violations:
                    short = shrink(CONFIGS[config], found)
                    return [" ".join(_words(short)), " ".join(_words(found))]
                return []

            for decisions in _apart(work):
                schedule = Schedule(config, decisions.split())
                if not flaw(fault, schedule):
                    return schedule
    return None


def _words(violation: Violation) -> list[str]:
    return [decision.partition(":")[0] for decision in violation.decisions]
