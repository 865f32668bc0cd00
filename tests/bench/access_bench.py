"""What decisions about clients cost: 10,000 rules and 1,000 roles, against the bars for them.

    python tests/bench/access_bench.py [--rules 10000] [--roles 1000]

    compile   from the fields of all rows to an index that decides
    change    a rule that comes or goes in the live index, checked with all others
    cold      a publish to a topic that was not asked about before, by a client that was not either
    warm      the same question again, of the index itself.  A connection keeps the answers for its
              topics, and asks only once: that cache is `mhub bench`'s to measure

It is a script and not a module of the tests, so that the source tree does not hide the compiled
build that is installed beside this Python.
"""

import argparse
import gc
import random
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Final

from mhub import build
from mhub.access.index import Index
from mhub.access.policy import Policy
from mhub.access.rows import Row, parse_row
from mhub.core.principal import Principal

TIMES: Final = 2_000


def fields_of(rules: int, roles: int) -> list[list[str]]:
    """A plant: sites, lines, kinds of devices; roles that inherit; users; some denies."""
    draw = random.Random(7)
    found: list[list[str]] = []
    for number in range(1, roles):
        found.append(["g", f"role:r{number}", f"role:r{number // 4}", "*"])
    for number in range(rules - len(found)):
        role = f"role:r{draw.randrange(roles)}"
        if number % 10 == 0:
            role = f"user:u{draw.randrange(rules)}"
        site, line = draw.randrange(50), draw.randrange(40)
        topic = draw.choice(
            (
                f"site{site}/line{line}/%c/#",
                f"site{site}/+/state/{number}",
                f"site{site}/line{line}/+/alarm/#",
                f"users/%u/{number}/#",
                f"+/line{line}/{number}",
            )
        )
        action = draw.choice(("publish", "subscribe|receive", "publish|subscribe|receive"))
        effect = "deny" if number % 20 == 19 else "allow"
        found.append(["p", role, "*", action, topic, "any", effect])
    found.append(["p", "role:everyone", "*", "connect", "#", "any", "allow"])
    return found


def client(number: int, roles: tuple[str, ...]) -> Principal:
    principal = Principal("192.0.2.1", "tcp")
    principal.user = f"u{number}"
    principal.client_id = f"c{number}"
    principal.roles = roles
    return principal


def topic(draw: random.Random) -> str:
    return f"site{draw.randrange(50)}/line{draw.randrange(40)}/c{draw.randrange(900)}/alarm/x"


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


class Bench:
    def __init__(self, rules: int, roles: int) -> None:
        self.roles = roles
        self.over = 0
        fields = fields_of(rules, roles)
        rows: list[Row] = []
        self.took(
            "read the rows", timed(lambda: rows.extend(parse_row(f) for f in fields)), 1e3, "ms"
        )
        self.policy = Policy(())
        self.index = Index()
        whole = timed(lambda: self.compile(fields))
        self.took(f"compile {len(fields)} rows, {roles} roles", whole, 1.0, "s", 2.0)

    def took(self, what: str, seconds: float, unit: float, name: str, bar: float = 0.0) -> None:
        value = seconds * unit
        judged = ""
        if bar:
            judged = f"   bar {bar:g} {name}: {'ok' if value <= bar else 'OVER'}"
            self.over += value > bar
        print(f"{what:48s}{value:10.2f} {name}{judged}", flush=True)

    def compile(self, fields: list[list[str]]) -> None:
        self.policy = Policy(parse_row(row, f"row {n}") for n, row in enumerate(fields))
        self.index = self.policy.index()

    def changes(self) -> None:
        for kind in ("p", "g"):
            added, removed = [], []
            for number in range(20):
                fields = ["g", f"user:new{number}", "role:r1", "*"]
                if kind == "p":
                    fields = ["p", "role:r1", "*", "publish", f"new/{number}/%c/#", "any", "deny"]
                row = parse_row(fields, "new")
                added.append(timed(lambda row=row: self.change([row], [])))  # type: ignore[misc]
                removed.append(timed(lambda row=row: self.change([], [row.id])))  # type: ignore[misc]
            for what, took in (("added", added), ("removed", removed)):
                self.took(
                    f"change: a row {kind} {what}, median of 20", median(took), 1e3, "ms", 20.0
                )
                self.took(f"change: a row {kind} {what}, worst", max(took), 1e3, "ms")

    def change(self, added: list[Row], removed: list[str]) -> None:
        self.policy = self.policy.changed(added, removed)
        self.index.apply(added, removed)

    def decisions(self) -> None:
        draw = random.Random(11)
        index = self.index
        clients = [client(n, (f"r{draw.randrange(self.roles)}",)) for n in range(TIMES)]
        asked = [(who, topic(draw)) for who in clients]
        every = client(1, tuple(f"r{n}" for n in range(self.roles)))
        gc.collect()
        gc.disable()
        first = [timed(lambda q=q: index.publish(q[0], q[1], 1, False)) for q in asked]  # type: ignore[misc]
        again = [(who, topic(draw)) for who in clients]
        cold = [timed(lambda q=q: index.publish(q[0], q[1], 1, False)) for q in again]  # type: ignore[misc]
        self.took("cold: a new client and topic, median", median(first), 1e6, "µs", 20.0)
        self.took("cold: a new topic, median", median(cold), 1e6, "µs", 20.0)
        self.took("cold: a new topic, 99 %", sorted(cold)[-TIMES // 100], 1e6, "µs")
        index.publish(every, "a", 1, False)
        many = [timed(lambda t=t: index.publish(every, t, 1, False)) for _, t in asked]  # type: ignore[misc]
        self.took("cold: a client with all the roles, median", median(many), 1e6, "µs", 20.0)
        who, name = asked[0]
        count = 20_000
        began = time.perf_counter()
        for _ in range(count):
            index.publish(who, name, 1, False)
        self.took("warm: the index itself", (time.perf_counter() - began) / count, 1e6, "µs")
        for text in ("site1/line2/c7/#", "site1/+/+/alarm/#", "#"):
            tries = [timed(lambda w=w, t=text: index.subscribe(w, t, 1, "")) for w in clients[:200]]  # type: ignore[misc]
            self.took(f"subscribe {text}, median", median(tries), 1e6, "µs")
        tries = [timed(lambda t=t: index.subscribe(every, t, 1, "")) for t in ["#"] * 20]  # type: ignore[misc]
        self.took("subscribe # with all the roles, median", median(tries), 1e6, "µs")
        gc.enable()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rules", type=int, default=10_000)
    parser.add_argument("--roles", type=int, default=1_000)
    options = parser.parse_args()
    print(build.describe())
    bench = Bench(options.rules, options.roles)
    bench.changes()
    bench.decisions()
    return 1 if bench.over else 0


if __name__ == "__main__":
    sys.exit(main())
