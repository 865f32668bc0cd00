"""Compares what decides with what is plainly right, on many random cases: `make policy-proof`.

    python -m tests.access.proof [--cases 100000] [--filters 20000] [--flips 2000] [--seed N]

    cases     one question about one client under one policy, to the index, PyCasbin and the naive
              evaluator
    filters   whether all, or any, of the topics of a filter are allowed, against an enumeration
    flips     what differs between two policies for a client, against an enumeration

The seed is told at the start; what differs is shrunk, told, and belongs into tests/access/kept.py.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from mhub import build
from tests.access import test_containment, test_diff
from tests.access.strategies import policies, principals, questions
from tests.access.three import differences

BATCH = 500
"""Examples for each run of hypothesis, which remembers all that it has tried."""

THREE = (
    policies,
    st.lists(principals, min_size=3, max_size=4),
    st.lists(questions, min_size=6, max_size=10),
)


def compare_three(rows: Any, clients: Any, asked: Any) -> tuple[str, int]:
    return "\n".join(differences(rows, clients, asked)), len(clients) * len(asked)


def compare_filters(*case: Any) -> tuple[str, int]:
    return test_containment.wrong_containment(*case), 1


def compare_flips(*case: Any) -> tuple[str, int]:
    return test_diff.wrong_flips(*case), 1


class Proof:
    def __init__(
        self, strategies: Sequence[Any], compare: Callable[..., tuple[str, int]], number: int
    ) -> None:
        self.strategies = strategies
        self.compare = compare
        self.number = number
        self.cases = 0

    def run(self, what: str, wanted: int) -> None:
        began = time.monotonic()
        batch = 0
        while self.cases < wanted:
            self._run_batch(self.number + batch)
            batch += 1
        took_s = time.monotonic() - began
        print(f"{what}: no difference in {self.cases} cases, {took_s:.0f} s", flush=True)

    def _run_batch(self, number: int) -> None:
        @seed(number)
        @settings(
            max_examples=BATCH,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
        )
        @given(st.tuples(*self.strategies))
        def check(case: tuple[Any, ...]) -> None:
            difference, count = self.compare(*case)
            if difference:
                raise AssertionError(difference)
            self.cases += count

        check()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--filters", type=int, default=20_000)
    parser.add_argument("--flips", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    options = parser.parse_args()
    print(f"{build.describe()}; seed {options.seed}", flush=True)
    Proof(THREE, compare_three, options.seed).run("three evaluators", options.cases)
    Proof(test_containment.cases, compare_filters, options.seed).run("filters", options.filters)
    Proof(test_diff.cases, compare_flips, options.seed).run("flips", options.flips)
    return 0


if __name__ == "__main__":
    sys.exit(main())
