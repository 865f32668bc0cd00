"""Many histories of a simulated cluster, one a seed.

`python -m tests.cluster.sim_run --seeds 1000` prints each seed that shows a violation, with what it
was; `--show SEED` prints its history.
"""

import argparse
import sys
import time
from multiprocessing import Pool

from tests.cluster.sim_history import FAULTS, play


def _one(job: tuple[int, tuple[str, ...]]) -> tuple[int, list[str]]:
    seed, faults = job
    return seed, play(seed, faults)[0]


def main() -> int:
    parser = argparse.ArgumentParser(prog="sim_run", description="Histories of a cluster.")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--faults", default=",".join(FAULTS), help="which may happen")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--show", type=int, help="print the history of one seed")
    args = parser.parse_args()
    faults = tuple(args.faults.split(","))
    if args.show is not None:
        wrong, history = play(args.show, faults)
        print("\n".join([*history, *wrong]))
        return 1 if wrong else 0
    began = time.monotonic()
    bad = 0
    jobs = [(seed, faults) for seed in range(args.first, args.first + args.seeds)]
    with Pool(args.jobs) as pool:
        for count, (seed, wrong) in enumerate(pool.imap_unordered(_one, jobs), 1):
            if wrong:
                bad += 1
                print(f"seed {seed}: {'; '.join(wrong)}", flush=True)
            if count % 100 == 0:
                print(f"{count} of {len(jobs)} histories, {bad} with a violation", flush=True)
    print(f"{len(jobs)} histories in {time.monotonic() - began:.0f} s, {bad} with a violation")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
