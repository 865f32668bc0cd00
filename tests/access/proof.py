"""Compares the three evaluators on many random cases: `make policy-proof`.

    python -m tests.access.proof [--cases 100000] [--seed N]

A case is one question about one client under one policy.  The seed is told at the start; what
differs is shrunk, told, and belongs into tests/access/kept.py.
"""

import argparse
import random
import sys
import time

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from mhub import build
from mhub.core.principal import Principal
from tests.access.strategies import policies, principals, questions
from tests.access.three import Fields, Question, differences

BATCH = 500
"""Policies for each run of hypothesis, which remembers all that it has tried."""


class Proof:
    def __init__(self, cases: int) -> None:
        self.wanted = cases
        self.cases = 0
        self.policies = 0

    def run(self, number: int) -> None:
        @seed(number)
        @settings(
            max_examples=BATCH,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
        )
        @given(
            policies,
            st.lists(principals, min_size=3, max_size=4),
            st.lists(questions, min_size=6, max_size=10),
        )
        def compare(rows: list[Fields], clients: list[Principal], asked: list[Question]) -> None:
            found = differences(rows, clients, asked)
            if found:
                raise AssertionError("\n".join(found))
            self.policies += 1
            self.cases += len(clients) * len(asked)

        compare()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    options = parser.parse_args()
    print(f"{build.describe()}; seed {options.seed}", flush=True)
    proof = Proof(options.cases)
    began = time.monotonic()
    batch = 0
    while proof.cases < proof.wanted:
        proof.run(options.seed + batch)
        batch += 1
        print(f"\r{proof.cases} cases, {proof.policies} policies", end="", flush=True)
    took_s = time.monotonic() - began
    print(f"\rno difference in {proof.cases} cases of {proof.policies} policies, {took_s:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
