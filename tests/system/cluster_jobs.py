"""Runs of a scenario, several at a time, each with a cluster of its own in a process of its own.

A machine that is too busy shows other things than an idle one, so this also keeps it busy: with
more clusters than it has processors, and with processes that only compute (`burn`).
"""

import ctypes
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from unittest import SkipTest

from tests.helpers.redis import RedisServer
from tests.system.cluster_check import ClusterVerdict
from tests.system.cluster_processes import MEMORY, PATIENT, QUICK, SQLITE, redis_store
from tests.system.cluster_scenarios import run_scenarios
from tests.system.cluster_testbed import Testbed
from tests.system.cluster_trace import Trace
from tests.system.durability import Stuck

STORES = ("sqlite", "redis", "memory")
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Plan:
    """One run."""

    number: int
    scenario: str  # or several, as in "kill+split"
    store: str
    version: int
    temper: str  # of clients that roam; "" where nobody does
    seed: int
    seconds: float
    moves: int
    is_brief: bool = False
    redis_port: int = 0
    keep: str = ""  # where to leave what failures made

    @property
    def title(self) -> str:
        parts = (self.scenario, self.store, f"v{self.version}", self.temper)
        return " ".join(part for part in parts if part)


@dataclass
class Result:
    verdict: ClusterVerdict = field(default_factory=ClusterVerdict)
    said: list[str] = field(default_factory=list)  # what was measured
    seconds: float = 0.0
    kept: str = ""


def run(plan: Plan) -> Result:
    """One run, from the first node to the verdict."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mhub-") as directory:
        result = Result()
        trace = Trace(Path(directory, "trace.log") if plan.keep else None)
        testbed = Testbed(
            Path(directory),
            random.Random(plan.seed),
            plan.seconds,
            trace,
            plan.is_brief,
            _store(plan),
            PATIENT if plan.scenario == "roam" else QUICK,
            plan.version,
            plan.moves,
        )
        try:
            result.verdict = run_scenarios(testbed, *plan.scenario.split("+"), temper=plan.temper)
        except SkipTest as missing:
            result.verdict.wrong.append(str(missing))
        except Stuck as stuck:
            result.verdict = testbed.judge()
            result.verdict.wrong += [str(stuck), testbed.cluster.describe()]
        except Exception:
            result.verdict = testbed.judge()
            result.verdict.wrong += [traceback.format_exc(), testbed.cluster.describe()]
        finally:
            testbed.close()
        result.said = testbed.said
        if result.verdict.wrong and plan.keep:
            Path(plan.keep).mkdir(parents=True, exist_ok=True)
            kept = Path(tempfile.mkdtemp(prefix=f"{plan.title.replace(' ', '-')}-", dir=plan.keep))
            shutil.copytree(directory, kept / "run", ignore=shutil.ignore_patterns("*.sock"))
            (kept / "wrong.txt").write_text("\n".join(result.verdict.wrong) + "\n")
            result.kept = str(kept)
        result.seconds = time.monotonic() - began
        return result


def _store(plan: Plan) -> str:
    if plan.store == "redis":
        return redis_store(plan.redis_port, f"run{plan.number}:")
    return MEMORY if plan.store == "memory" else SQLITE


def run_all(plans: Iterable[Plan], jobs: int) -> Iterator[tuple[Plan, Result]]:
    """So many at a time, each as it ends."""
    context = multiprocessing.get_context("fork")
    waiting = iter(plans)
    under_way: dict[Connection, tuple[Plan, BaseProcess]] = {}
    try:
        while True:
            while len(under_way) < jobs and (plan := next(waiting, None)) is not None:
                here, there = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(plan, there))
                process.start()
                there.close()
                under_way[here] = plan, process
            if not under_way:
                return
            for ready in wait(list(under_way)):
                assert isinstance(ready, Connection)
                plan, process = under_way.pop(ready)
                yield plan, _result(ready)
                process.join()
    finally:
        for _, process in under_way.values():
            process.terminate()
        for _, process in under_way.values():
            process.join()


def _result(connection: Connection) -> Result:
    with connection:
        try:
            result = connection.recv()
            assert isinstance(result, Result)
            return result
        except EOFError:
            return Result(ClusterVerdict(wrong=["the process of this run has died"]))


def _work(plan: Plan, connection: Connection) -> None:
    _die_with_parent()
    # So that what a run has started is ended by it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent has it, too
    connection.send(run(plan))


def _die_with_parent() -> None:
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)


@contextmanager
def burning(count: int) -> Iterator[None]:
    """So many processes that only compute."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_burn, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def _burn() -> None:
    _die_with_parent()
    while True:
        pass


@contextmanager
def redis_for(stores: Iterable[str]) -> Iterator[int]:
    """One server for all runs; its port, and 0 if no run needs it."""
    if "redis" not in stores:
        yield 0
        return
    server = RedisServer()
    try:
        yield server.port
    finally:
        server.remove()
