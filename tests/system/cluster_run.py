"""A cluster in earnest: nodes that die, freeze, lose each other, come and go; clients that roam.

    python -m tests.system.cluster_run --scenario all --seconds 10
    python -m tests.system.cluster_run --scenario kill+split --brief --keep /tmp
    python -m tests.system.cluster_run --scenario roam --store sqlite --times 20 --jobs 6 --burn 2
    python -m tests.system.cluster_run --scenario roam --store all --mqtt all --runs 200

`make chaos` is the first, `make roam` about the last one.  Prints a table with a row for each run;
`--seconds` is how long each state of the cluster lasts in it, `--moves` how often each client that
roams goes to another node.  Where several stores, versions and temperaments are asked for, all
combinations have their turn.

The build is the installed one; `--pure` takes the tree.  The exit status is 1 if anything was
wrong, and 2 if there is nothing to run.
"""

import argparse
import random
import signal
import sys
import time
from collections.abc import Iterator
from itertools import islice, product
from typing import TYPE_CHECKING

from tests.system.crash_run import _choose_build

if TYPE_CHECKING:
    from tests.system.cluster_check import ClusterVerdict
    from tests.system.cluster_jobs import Plan, Result

SHOWN = 12
"""So many lines of what was wrong in a run are printed; all of them with `--keep`, in a file."""

LONGEST = 600
"""And so much of each line, unless it is the only run."""


def main() -> int:
    options = _parse()
    wrong = _choose_build(options.pure)
    if wrong:
        print(wrong, file=sys.stderr)
        return 2
    from tests.system.cluster_jobs import burning, redis_for

    if options.seed is None:
        options.seed = random.SystemRandom().randrange(10**6)
    # So that what was started is ended, whatever ends the run.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(1))
    try:
        with redis_for(_stores(options)) as port, burning(options.burn):
            plans = list(_plans(options, port))
            return _run(plans, options)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.system.cluster_run", description="Have a cluster fail under load."
    )
    parser.add_argument("--scenario", default="all", metavar="NAME", help="one, or a+b; all")
    parser.add_argument("--store", default="sqlite", help="sqlite, redis, memory, or all")
    parser.add_argument("--mqtt", default="4", help="4 (MQTT 3.1.1), 5, or all")
    parser.add_argument("--temper", default="all", help="patient, hasty, impatient, or all")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S", help="per state; 10")
    parser.add_argument("--moves", type=int, default=40, metavar="N", help="of who roams; 40")
    parser.add_argument("--times", type=int, default=1, metavar="N", help="each, so often; 1")
    parser.add_argument("--runs", type=int, metavar="N", help="so many in all, in turn")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="at the same time; 1")
    parser.add_argument("--burn", type=int, default=0, metavar="N", help="busy processes; 0")
    parser.add_argument("--brief", action="store_true", help="kill and restart one node, not each")
    parser.add_argument("--seed", type=int, metavar="N", help="that of an earlier run")
    parser.add_argument("--keep", default="", metavar="DIR", help="leave what failures made there")
    parser.add_argument("--pure", action="store_true", help="the tree, not what is installed")
    return parser.parse_args()


def _chosen(what: str, given: str, known: tuple[str, ...]) -> tuple[str, ...]:
    chosen = known if given == "all" else tuple(given.split(","))
    if not set(chosen) <= set(known):
        raise ValueError(f"{what}: there are all, {', '.join(known)}")
    return chosen


def _stores(options: argparse.Namespace) -> tuple[str, ...]:
    from tests.system.cluster_jobs import STORES

    return _chosen("--store", options.store, STORES)


def _plans(options: argparse.Namespace, redis_port: int) -> Iterator["Plan"]:
    """All combinations, again and again."""
    from tests.system.cluster_jobs import Plan
    from tests.system.cluster_roam import TEMPERS
    from tests.system.cluster_scenarios import FAILURES, SCENARIOS

    scenarios = FAILURES if options.scenario == "all" else tuple(options.scenario.split(","))
    for part in {part for name in scenarios for part in name.split("+")}:
        _chosen("--scenario", part, tuple(SCENARIOS))
    versions = _chosen("--mqtt", options.mqtt, ("4", "5"))
    tempers = _chosen("--temper", options.temper, TEMPERS)
    combinations = [
        (scenario, store, version, temper)
        for scenario, store, version in product(scenarios, _stores(options), versions)
        for temper in (tempers if "roam" in scenario else ("",))
    ]
    count = options.runs or len(combinations) * options.times
    turns = (each for _ in range(count) for each in combinations)
    for number, (scenario, store, version, temper) in enumerate(islice(turns, count), 1):
        yield Plan(
            number,
            scenario,
            store,
            int(version),
            temper,
            options.seed + number - 1,
            # Who roams needs no time besides that of the moves.
            0.2 if scenario == "roam" else options.seconds,
            options.moves,
            options.brief,
            redis_port,
            options.keep,
        )


def _run(plans: "list[Plan]", options: argparse.Namespace) -> int:
    from tests.system.cluster_check import HEADING, ClusterVerdict
    from tests.system.cluster_jobs import run_all

    width = max(len(plan.title) for plan in plans)
    print(
        f"seed {options.seed}, {len(plans)} runs, {options.jobs} at a time, {options.burn} burning"
    )
    print(f"\n{'run':>4}  {'':{width}}  {HEADING}  seconds", flush=True)
    began = time.monotonic()
    sums: dict[str, tuple[list[int], ClusterVerdict]] = {}
    for plan, result in run_all(plans, options.jobs):
        _tell(plan, result, width, is_alone=len(plans) == 1)
        counts, verdict = sums.setdefault(plan.title, ([0, 0], ClusterVerdict()))
        counts[0] += 1
        counts[1] += bool(result.verdict.wrong)
        verdict.add(result.verdict)
    return _conclude(sums, width, time.monotonic() - began, options.seed)


def _tell(plan: "Plan", result: "Result", width: int, is_alone: bool) -> None:
    verdict = result.verdict
    line = f"{plan.number:>4}  {plan.title:{width}}  {verdict.row()}  {result.seconds:7.1f}"
    print(f"{line}{'  WRONG' if verdict.wrong else ''}")
    for text in result.said:
        print(f"      {text}")
    for text in verdict.wrong if is_alone else verdict.wrong[:SHOWN]:
        print(f"      {text if is_alone else text[:LONGEST]}")
    if len(verdict.wrong) > SHOWN and not is_alone:
        print(f"      and {len(verdict.wrong) - SHOWN} more")
    if result.kept:
        print(f"      kept in {result.kept}")
    sys.stdout.flush()


def _conclude(
    sums: "dict[str, tuple[list[int], ClusterVerdict]]", width: int, seconds: float, seed: int
) -> int:
    """The sums of all runs; the exit status."""
    from tests.system.cluster_check import HEADING, ClusterVerdict

    runs = failed = 0
    total = ClusterVerdict()
    print(f"\n{'runs':>5} {'wrong':>5}  {'':{width}}  {HEADING}")
    for title, (counts, verdict) in sorted(sums.items()):
        print(f"{counts[0]:>5} {counts[1]:>5}  {title:{width}}  {verdict.row()}")
        runs += counts[0]
        failed += counts[1]
        total.add(verdict)
    print(f"{runs:>5} {failed:>5}  {'all':{width}}  {total.row()}")
    print(
        f"\n{runs} runs in {seconds:.0f} s: {failed} wrong; {total.lost} lost, {total.twice} twice,"
        f" {total.disordered} out of order, {total.no_dup} without DUP; seed {seed}"
    )
    return 1 if failed or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
