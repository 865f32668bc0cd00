"""A cluster in earnest, as `make chaos` runs it: nodes that die, freeze, lose each other, come, go.

    python -m tests.system.cluster_run --scenario all --seconds 10
    python -m tests.system.cluster_run --scenario kill+split --brief --keep /tmp

Prints a table with a row for each scenario; `--seconds` is how long each state of the cluster lasts
in it.  The build is the installed one; `--pure` takes the tree.  The exit status is 1 if anything
was wrong, and 2 if there is nothing to run.
"""

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.system.crash_run import _choose_build


def main() -> int:
    options = _parse()
    wrong = _choose_build(options.pure)
    if wrong:
        print(wrong, file=sys.stderr)
        return 2
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    from tests.system.cluster_check import HEADING
    from tests.system.cluster_scenarios import SCENARIOS

    names = list(SCENARIOS) if options.scenario == "all" else [options.scenario]
    if not {part for name in names for part in name.split("+")} <= SCENARIOS.keys():
        print(f"there are: all, {', '.join(SCENARIOS)}", file=sys.stderr)
        return 2
    print(f"seed {seed}, {options.seconds:g} s for each state\n\n{HEADING}", flush=True)
    failed = [name for name in names for _ in range(options.times) if not _run(name, seed, options)]
    print(f"\n{'FAILED: ' + ', '.join(failed) if failed else 'nothing lost'}; seed {seed}")
    return 1 if failed else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.system.cluster_run", description="Have a cluster fail under load."
    )
    parser.add_argument("--scenario", default="all", metavar="NAME", help="one, or a+b; all")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S", help="per state; 10")
    parser.add_argument("--times", type=int, default=1, metavar="N", help="each, so often; 1")
    parser.add_argument("--brief", action="store_true", help="kill and restart one node, not each")
    parser.add_argument("--seed", type=int, metavar="N", help="that of an earlier run")
    parser.add_argument("--keep", metavar="DIR", help="leave what failures made there")
    parser.add_argument("--pure", action="store_true", help="the tree, not what is installed")
    return parser.parse_args()


def _run(name: str, seed: int, options: argparse.Namespace) -> bool:
    from unittest import SkipTest

    from tests.system.cluster_scenarios import play
    from tests.system.cluster_stage import Stage
    from tests.system.cluster_trace import Trace
    from tests.system.durability import Stuck

    with tempfile.TemporaryDirectory(prefix="mhub-") as directory:
        trace = Trace(Path(directory, "trace.log") if options.keep else None)
        chance = random.Random(seed)
        stage = Stage(Path(directory), chance, options.seconds, trace, options.brief)
        try:
            verdict = play(stage, *name.split("+"))
        except SkipTest as missing:
            print(missing, file=sys.stderr)
            return False
        except Stuck as stuck:
            verdict = stage.judge()
            verdict.wrong += [str(stuck), stage.house.describe()]
        finally:
            stage.close()
        print(verdict.row(name), flush=True)
        for line in stage.said:
            print(f"    {line}", flush=True)
        for line in verdict.wrong:
            print(f"WRONG: {line}", flush=True)
        if verdict.wrong and options.keep:
            kept = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=options.keep))
            shutil.move(directory, kept / "house")
            Path(directory).mkdir()
            print(f"kept in {kept}", flush=True)
        return not verdict.wrong


if __name__ == "__main__":
    sys.exit(main())
