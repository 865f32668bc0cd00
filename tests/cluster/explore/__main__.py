"""`python -m tests.cluster.explore --config NAME`: see the package."""

import argparse
import sys

from tests.cluster.explore import schedules
from tests.cluster.explore.configs import CONFIGS
from tests.cluster.explore.faults import FAULTS, NOT_FOUND
from tests.cluster.explore.search import Result, Search, replay, shrink, walk


def _say(name: str, result: Result) -> None:
    exhausted = "exhausted" if result.exhausted else "NOT exhausted"
    print(
        f"{name}: {result.states} states, {result.transitions} transitions,"
        f" {len(result.ends)} end states, depth {result.deepest}, {result.seconds:.0f} s,"
        f" {exhausted}",
        flush=True,
    )
    for violation in result.violations:
        print(f"  VIOLATION: {'; '.join(violation.wrong)}")
        print(f'  --config {name} --replay "{" ".join(violation.decisions)}"', flush=True)


def _find_faults(may_search: bool) -> int:
    kept = schedules.read()
    flaws = 0
    for fault in FAULTS:
        if fault in NOT_FOUND:
            continue
        text = schedules.flaw(fault, kept[fault]) if fault in kept else f"{fault} has no schedule"
        if text and may_search:
            print(text, flush=True)
            found = schedules.search(fault)
            if found is not None:
                kept[fault] = found
                text = ""
        if text:
            flaws += 1
            print(text, flush=True)
    if may_search:
        schedules.write({fault: each for fault, each in kept.items() if fault in FAULTS})
    print(f"{len(FAULTS) - len(NOT_FOUND) - flaws} of {len(FAULTS)} defects are found")
    return 1 if flaws else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="explore", description="All that can happen.")
    parser.add_argument("--config", default="move", help="names, or all")
    parser.add_argument("--states", type=int, default=0, help="not more than so many")
    parser.add_argument("--seconds", type=float, default=0.0, help="not longer than that, each")
    parser.add_argument("--delays", type=int, default=-1, help="see search.py")
    parser.add_argument("--violations", type=int, default=1, help="stop after so many")
    parser.add_argument("--fault", default="", help="a defect to put in first")
    parser.add_argument("--replay", help="decisions, separated by spaces")
    parser.add_argument("--walk", type=int, default=-1, help="at random, with this seed")
    parser.add_argument("--shrink", action="store_true", help="make what is found short")
    parser.add_argument("--full", action="store_true", help="without partial order reduction")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--faults", action="store_true", help="whether all defects are found")
    parser.add_argument("--search", action="store_true", help="... and look for those that are not")
    args = parser.parse_args()
    if args.faults or args.search:
        return _find_faults(args.search)
    if args.fault:
        FAULTS[args.fault]()
    if args.replay is not None:
        wrong, left, _ = replay(CONFIGS[args.config], args.replay.split())
        print("; ".join(wrong) or f"nothing is wrong; next: {' '.join(left) or 'nothing'}")
        return 1 if wrong else 0
    names = args.config.split(",")
    if args.config == "all":
        names = [name for name, config in CONFIGS.items() if not config.scripted]
    bad = False
    for name in names:

        def progress(result: Result, name: str = name) -> None:
            if not args.quiet:
                print(
                    f"\r{name}: {result.states} states, {result.transitions} transitions,"
                    f" {result.seconds:.0f} s",
                    end="\r",
                    file=sys.stderr,
                )

        config = CONFIGS[name]
        if args.walk >= 0:
            result = walk(config, args.seconds or 60.0, args.walk, progress)
        else:
            result = Search(
                config,
                args.states,
                args.seconds,
                args.delays,
                args.violations,
                progress,
                not args.full,
            ).run()
        if args.shrink:
            result.violations = [shrink(config, each) for each in result.violations]
        _say(name, result)
        bad = bad or bool(result.violations)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
