"""Many histories of a simulated cluster, one a seed.

python -m tests.cluster.sim_run --seeds 1000    each seed that shows a violation, with what it was
... --show SEED         the history of one seed
... --save SEED FILE    its decisions as a file (tests.cluster.sim_plan)
... --play FILE         the history of such a file
... --shrink FILE       drop decisions that a violation does not need
"""

import argparse
import sys
import time
from multiprocessing import Pool
from pathlib import Path

from tests.cluster.sim_history import play
from tests.cluster.sim_plan import FAULTS, Plan, make, parse
from tests.cluster.sim_shrink import Shrinker, kinds


def _one(job: tuple[int, tuple[str, ...]]) -> tuple[int, list[str]]:
    seed, faults = job
    return seed, play(make(seed, faults))[0]


def _show(plan: Plan) -> int:
    wrong, history = play(plan)
    print("\n".join([*history, *wrong]))
    return 1 if wrong else 0


def _shrink(path: Path, seconds: float) -> int:
    plan = parse(path.read_text())
    asked = kinds(play(plan)[0])
    if not asked:
        print(f"{path}: nothing is wrong")
        return 0
    until = time.monotonic() + seconds
    shrinker = Shrinker(
        plan,
        lambda other: bool(kinds(play(other)[0]) & asked),
        lambda: time.monotonic() < until,
    )
    small = shrinker.run()
    path.write_text(small.text())
    print(
        f"{path}: {len(small.decisions)} of {len(plan.decisions)} decisions are left "
        f"after {shrinker.tried} histories"
    )
    return 1


def _run(seeds: range, faults: tuple[str, ...], processes: int) -> int:
    began = time.monotonic()
    bad = 0
    jobs = [(seed, faults) for seed in seeds]
    with Pool(processes) as pool:
        for count, (seed, wrong) in enumerate(pool.imap_unordered(_one, jobs), 1):
            if wrong:
                bad += 1
                print(f"seed {seed}: {'; '.join(wrong)}", flush=True)
            if count % 100 == 0:
                print(f"{count} of {len(jobs)} histories, {bad} with a violation", flush=True)
    print(f"{len(jobs)} histories in {time.monotonic() - began:.0f} s, {bad} with a violation")
    return 1 if bad else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="sim_run", description="Histories of a cluster.")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--faults", default=",".join(FAULTS), help="which may happen")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--show", type=int, metavar="SEED", help="print the history of one seed")
    parser.add_argument("--save", nargs=2, metavar=("SEED", "FILE"), help="write its decisions")
    parser.add_argument("--play", type=Path, metavar="FILE", help="print the history of a file")
    parser.add_argument("--shrink", type=Path, metavar="FILE", help="drop what is not needed")
    parser.add_argument("--seconds", type=float, default=300.0, help="the most that may take")
    args = parser.parse_args()
    faults = tuple(args.faults.split(","))
    if args.show is not None:
        return _show(make(args.show, faults))
    if args.save is not None:
        plan = make(int(args.save[0]), faults)
        plan.comments = [f"seed {args.save[0]}, faults {args.faults}"]
        Path(args.save[1]).write_text(plan.text())
        return 0
    if args.play is not None:
        return _show(parse(args.play.read_text()))
    if args.shrink is not None:
        return _shrink(args.shrink, args.seconds)
    return _run(range(args.first, args.first + args.seeds), faults, args.jobs)


if __name__ == "__main__":
    sys.exit(main())
