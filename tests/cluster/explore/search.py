"""Depth first over all decisions, each state once.

A state is kept as bytes only while decisions at it are left to try.  With `delays` the search is
bounded: links and disks have an order, in which the first that can go on does so.  To pass over one
costs a delay, and puts it behind all others from then on.  What clients do and what fails is free.
The space is exhausted if no bound was met; with delays, as far as these reach.

Where a space is far too large for that, `walk` goes through it at random, and
`shrink` makes what it has found short.
"""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.cluster.explore.cluster import Cluster
from tests.cluster.explore.configs import Config
from tests.cluster.explore.fingerprints import fingerprint
from tests.cluster.explore.snapshots import load, save

ENDLESS = 400
"""Decisions, of which no configuration needs so many."""

CRASHED = "an exception: "
"""What is wrong begins so, if nothing was found out but that."""


@dataclass
class Violation:
    wrong: list[str]
    decisions: list[str]


@dataclass
class Result:
    states: int = 0
    transitions: int = 0
    ends: set[bytes] = field(default_factory=set)
    deepest: int = 0
    seconds: float = 0.0
    exhausted: bool = True
    violations: list[Violation] = field(default_factory=list)


class Schedule:
    """Which links and disks were passed over, the last one last, and the delays that are left."""

    def __init__(self, delays: int, behind: tuple[str, ...] = ()) -> None:
        self.delays = delays  # -1: any number
        self.behind = behind

    def choices(self, events: list[str]) -> list[tuple[str, "Schedule"]]:
        if self.delays < 0:
            return [(event, self) for event in events]
        free = [event for event in events if event[1] not in ">*|^="]
        found = [(event, self) for event in free]
        behind = self.behind
        ordered = [each for each in events if each not in behind and each not in free]
        ordered += [each for each in behind if each in events]
        for passed in range(min(self.delays + 1, len(ordered))):
            over = ordered[:passed]
            order = (*[each for each in behind if each not in over], *over)
            found.append((ordered[passed], Schedule(self.delays - passed, order)))
        return found


@dataclass
class Place:
    """A state with decisions left."""

    data: bytes
    left: list[tuple[str, "Schedule"]]
    taken: str = ""


class Search:
    def __init__(
        self,
        config: Config,
        max_states: int = 0,
        max_seconds: float = 0.0,
        delays: int = -1,
        most_violations: int = 1,
        progress: Callable[[Result], None] | None = None,
        reduce: bool = True,
    ) -> None:
        self._config = config
        self._max_states = max_states
        self._max_seconds = max_seconds
        self._delays = delays
        self._most_violations = most_violations
        self._progress = progress
        self._reduce = reduce
        self._visited: dict[
            tuple[bytes, tuple[str, ...]], int
        ] = {}  # with the most delays that were left there
        self._path: list[Place] = []
        self.result = Result()

    def run(self) -> Result:
        began = time.monotonic()
        result = self.result
        gc.set_threshold(100_000, 10, 50)  # what is loaded is garbage in a moment, all at once
        here: Cluster | None = Cluster(self._config)
        schedule = Schedule(self._delays)
        while True:
            # The first decision at a state needs no copy of it, and the only one none to be kept.
            if here is not None and not self._come_to(here, schedule):
                here = None
            while self._path and not self._path[-1].left:
                self._path.pop()
            if not self._path or len(result.violations) >= self._most_violations:
                break
            result.seconds = time.monotonic() - began
            if self._max_states and result.states >= self._max_states:
                break
            if self._max_seconds and result.seconds >= self._max_seconds:
                break
            place = self._path[-1]
            event, schedule = place.left.pop()
            if here is None:
                here = load(place.data)
            place.taken = here.label(event)
            if self._decide(here, event):
                here = None
            if self._progress is not None and result.transitions % 5000 == 0:
                self._progress(result)
        result.exhausted = not any(place.left for place in self._path)
        result.seconds = time.monotonic() - began
        return result

    def _decide(self, cluster: Cluster, event: str) -> bool:
        """Whether it came to a violation."""
        self.result.transitions += 1
        try:
            cluster.do(event)
            wrong = cluster.check()
        except Exception as error:
            wrong = [_crash(error)]
        if not wrong and len(self._path) > ENDLESS:
            wrong = ["it does not end"]
        if wrong:
            self._violated(wrong)
        return bool(wrong)

    def _come_to(self, cluster: Cluster, schedule: Schedule) -> bool:
        """Whether there is something to decide."""
        result = self.result
        key = fingerprint(cluster)
        before = self._visited.get((key, schedule.behind))
        if before is not None and before >= schedule.delays:
            return False
        self._visited[key, schedule.behind] = schedule.delays
        result.states += before is None
        result.deepest = max(result.deepest, len(self._path))
        events = cluster.enabled()
        if not events:
            self._end(cluster, key)
            return False
        if self._reduce:
            events = cluster.persistent(events)
        left = schedule.choices(events)
        left.reverse()
        self._path.append(Place(save(cluster) if len(left) > 1 else b"", left))
        return True

    def _end(self, cluster: Cluster, key: bytes) -> None:
        self.result.ends.add(key)
        try:
            wrong = cluster.end()
        except Exception as error:
            wrong = [_crash(error)]
        if wrong:
            self._violated(wrong)

    def _violated(self, wrong: list[str]) -> None:
        decisions = [place.taken for place in self._path]
        self.result.violations.append(Violation(wrong, decisions))


def _crash(error: Exception) -> str:
    cause = f" from {error.__cause__!r}" if error.__cause__ is not None else ""
    return f"{CRASHED}{type(error).__name__}: {error}{cause}"


def replay(config: Config, decisions: list[str]) -> tuple[list[str], list[str], Cluster]:
    """What is wrong after some decisions, and what could be decided then."""
    cluster = Cluster(config)
    wrong: list[str] = []
    for decision in decisions:
        event = decision.partition(":")[0]
        if event not in cluster.enabled():
            raise ValueError(f"{decision} cannot happen here, but {' '.join(cluster.enabled())}")
        try:
            cluster.do(event)
            wrong = cluster.check()
        except Exception as error:
            return [_crash(error)], [], cluster
        if wrong:
            break
    left = cluster.enabled()
    if not wrong and not left:
        wrong = cluster.end()
    return wrong, left, cluster


def walk(
    config: Config, seconds: float, seed: int, progress: Callable[[Result], None] | None = None
) -> Result:
    """Decisions at random until something is wrong.

    In each walk links, disks and clients have a speed of their own, by factors of up to a thousand:
    else what happens behind a long delay would hardly ever be seen.
    """
    began = time.monotonic()
    random = Random(seed)
    result = Result(exhausted=False)
    gc.set_threshold(100_000, 10, 50)
    first = save(Cluster(config))
    while not result.violations and result.seconds < seconds:
        cluster: Cluster = load(first)
        speeds: dict[str, float] = {}
        taken: list[str] = []
        wrong: list[str] = []
        while not wrong and (events := cluster.enabled()):
            weights = [speeds.setdefault(each, 10 ** random.uniform(0, 3)) for each in events]
            event = random.choices(events, weights)[0]
            taken.append(event)
            wrong = _step(cluster, event)
            result.transitions += 1
        if not wrong:
            wrong = _last(cluster)
        result.states += 1
        result.deepest = max(result.deepest, len(taken))
        if wrong:
            result.violations.append(Violation(wrong, taken))
        result.seconds = time.monotonic() - began
        if progress is not None and result.states % 100 == 0:
            progress(result)
    return result


def _step(cluster: Cluster, event: str) -> list[str]:
    try:
        cluster.do(event)
        return cluster.check()
    except Exception as error:
        return [_crash(error)]


def _last(cluster: Cluster) -> list[str]:
    try:
        return cluster.end()
    except Exception as error:
        return [_crash(error)]


def shrink(config: Config, violation: Violation) -> Violation:
    """The same with fewer decisions: without some of them, then links and disks in their order."""
    first = save(Cluster(config))
    size = len(violation.decisions)
    while size:
        at = 0
        while at < len(violation.decisions):
            kept = violation.decisions[:at] + violation.decisions[at + size :]
            found = follow(load(first), kept)
            if found is not None and _sort(found) == _sort(violation):
                if len(found.decisions) < len(violation.decisions):
                    violation = found
                    continue
            at += size
        size //= 2
    return violation


def _sort(violation: Violation) -> str:
    return "".join(each for each in violation.wrong[0] if not each.isdigit())[:12]


def follow(cluster: Cluster, decisions: list[str]) -> Violation | None:
    """As far as decisions can be followed, and on from there without any client or fault."""
    taken: list[str] = []
    left = [each.partition(":")[0] for each in decisions]
    wrong: list[str] = []
    while not wrong:
        events = cluster.enabled()
        if not events:
            wrong = _last(cluster)
            return Violation(wrong, taken) if wrong else None
        while left and left[0] not in events:
            left.pop(0)
        event = left.pop(0) if left else _next(events)
        if not event or len(taken) > ENDLESS:
            return None
        taken.append(cluster.label(event))
        wrong = _step(cluster, event)
    return Violation(wrong, taken)


def _next(events: list[str]) -> str:
    """What happens by itself, or has to happen at some time."""
    for kinds in (">*|", "^=", ".-+"):
        for event in events:
            if event[1] in kinds:
                return event
    return ""
