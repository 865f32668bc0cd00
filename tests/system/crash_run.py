"""Crashes in earnest, as `make crash` runs them.

    python -m tests.system.crash_run --store sqlite --kills 50

A broker is killed under load again and again, and nothing that it acknowledged may be lost.  With
`--victim redis` it is the store that dies, and the broker has to go on.  With `--soak` nobody
dies: queues are filled and emptied, and the store must not grow.

The build is the installed one; `--pure` takes the tree.  The exit status is 1 if anything was
wrong, and 2 if there is nothing to run.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.system.durability import Load
    from tests.system.durability_check import Verdict
    from tests.system.durability_store import Lives, Place

TREE = Path(__file__).resolve().parent.parent.parent
GROWTH = 1.5
"""The store may end so many times larger than it was after the first rounds, not more."""

WARM_UP = 5
ROUNDS = 20
ROUND_ACKNOWLEDGED = 3000


def main() -> int:
    options = _parse()
    wrong = _choose_build(options.pure)
    if wrong:
        print(wrong, file=sys.stderr)
        return 2
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    print(f"{options.store}, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="mhub-crash-") as directory:
        return _run(options, seed, Path(directory))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.system.crash_run", description="Kill a broker under load."
    )
    parser.add_argument("--store", choices=("sqlite", "redis"), default="sqlite")
    parser.add_argument("--kills", type=int, default=50, metavar="N", help="how often; 50")
    parser.add_argument("--victim", choices=("mhub", "redis"), default="mhub", help="who dies")
    parser.add_argument("--soak", action="store_true", help="fill and drain, and kill nobody")
    parser.add_argument("--seed", type=int, metavar="N", help="that of an earlier run")
    parser.add_argument("--pure", action="store_true", help="the tree, not what is installed")
    options = parser.parse_args()
    if options.victim == "redis" and options.store != "redis":
        parser.error("--victim redis needs --store redis")
    return options


def _choose_build(is_pure: bool) -> str:
    """Have mhub imported from the right place; what is wrong with it, if anything is."""
    # `-m` puts the tree first.  The tests are only there, so it stays, but behind the others.
    sys.path[:] = [each for each in sys.path if Path(each).resolve() != TREE]
    sys.path.insert(0 if is_pure else len(sys.path), str(TREE))
    from mhub.build import describe, kind

    wanted = "pure" if is_pure else "compiled"
    print(describe())
    if kind() == wanted:
        return ""
    return f"That is not the {wanted} build; what helps: make {'clean-ext' if is_pure else 'crash'}"


def _run(options: argparse.Namespace, seed: int, directory: Path) -> int:
    from unittest import SkipTest

    from tests.system.durability_store import RedisPlace, SqlitePlace

    place: Place
    try:
        if options.store == "redis":
            place = RedisPlace(is_mortal=options.victim == "redis")
        else:
            place = SqlitePlace(directory)
    except SkipTest as missing:
        print(missing, file=sys.stderr)
        return 2
    try:
        verdict = _judged(options, random.Random(seed), directory, place)
    finally:
        place.close()
    for line in verdict.wrong:
        print(f"WRONG: {line}")
    print(f"{verdict.summary()}; seed {seed}")
    return 1 if verdict.wrong else 0


def _judged(
    options: argparse.Namespace, rng: random.Random, directory: Path, place: "Place"
) -> "Verdict":
    from tests.system.durability import Load, Stuck, crashes, store_crashes
    from tests.system.durability_store import Lives, RedisPlace

    lives = Lives(directory, place, rng)
    load = Load(rng)
    tell = _Telling(options.kills)
    try:
        if options.soak:
            return _soak(lives, load)
        if options.victim == "redis":
            assert isinstance(place, RedisPlace)
            return store_crashes(lives, load, place.server, options.kills, rng, tell)
        return crashes(lives, load, options.kills, rng, tell)
    except Stuck as stuck:
        verdict = load.judge(is_killed=options.victim == "mhub")
        verdict.wrong += [str(stuck), f"the log ends with: {lives.broker.log()[-3000:]}"]
        return verdict
    finally:
        lives.end()
        load.close()


class _Telling:
    """A line for each kill on a terminal, and otherwise for every tenth."""

    def __init__(self, kills: int) -> None:
        self._kills = kills
        self._every = 1 if sys.stdout.isatty() else 10
        self._began = time.monotonic()

    def __call__(self, number: int, acknowledged: int) -> None:
        if number % self._every == 0:
            seconds = time.monotonic() - self._began
            print(
                f"kill {number} of {self._kills}, {seconds:.0f} s, {acknowledged} acknowledged",
                flush=True,
            )


def _soak(lives: "Lives", load: "Load") -> "Verdict":
    """Rounds of fill and drain: the store ends as large as the first rounds left it."""
    from tests.system.durability import finish

    sizes: list[int] = []
    lives.start()
    load.begin(lives.port)
    for number in range(1, ROUNDS + 1):
        for subscriber in load.subscribers[1:]:
            load.absent(subscriber)
        load.run(0.0, ROUND_ACKNOWLEDGED)
        full = lives.place.size_bytes()
        load.drain()
        sizes.append(lives.place.size_bytes())
        if number % 5 == 0:
            print(f"round {number}: {_kib(full)} full, {_kib(sizes[-1])} drained", flush=True)
    verdict = finish(lives, load, [], is_killed=False)
    first, last = max(sizes[:WARM_UP]), max(sizes[-WARM_UP:])
    print(f"drained: {_kib(first)} in the first rounds, {_kib(last)} in the last ones")
    if last > first * GROWTH:
        verdict.wrong.append(f"the store has grown from {_kib(first)} to {_kib(last)}")
    return verdict


def _kib(size_bytes: int) -> str:
    return f"{size_bytes / 1024:.0f} KiB"


if __name__ == "__main__":
    sys.exit(main())
