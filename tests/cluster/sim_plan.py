"""What happens in a history of a simulated cluster: a list of decisions, each at its time.

    noise 17                      which noise there is, see Simulation.noise()
    shared                        all nodes share a store, so they fail over; may be missing
    6.120 publish p0 2            the client publishes as many messages
    7.001 move s1 b 0.250         its connection is lost; so many seconds later it comes to node b
    8.500 cut a b                 the link breaks
    9.000 slow 0.300              from now on frames take up to so many seconds
    9.100 split a                 nothing passes between these nodes and the others, until
    12.300 heal
    13.000 crash c 1.00           with so much of what its disk had not synced; `zeros`: filled up
    14.000 start c
    60.000 end                    nothing more goes wrong: splits end, nodes start

Times are seconds since the beginning; # begins a comment.  All of it is made from a seed before
anything happens, so a plan means the same whatever the code does.  A decision that is impossible
when its time has come, as to start a node that runs, is skipped.
"""

import random
from dataclasses import dataclass, field, replace
from typing import NamedTuple

NODES = ("a", "b", "c")
PUBLISHERS = ("p0", "p1", "p2", "p3")
SUBSCRIBERS = ("s0", "s1", "s2")
HEIR = "heir"
MORTAL = "m"

FAULTS = ("move", "hop", "cut", "slow", "split", "crash", "power")
"""Those that are tried if nothing else is asked for; there is "adopt" as well: nodes fail over."""

BEGIN_S = 6.0
"""Until then the nodes find each other, and clients connect."""

TAIL_S = 16.0
"""All splits and crashes are over so long after the last fault; clients publish until then."""


class Decision(NamedTuple):
    at: float
    kind: str
    args: tuple[str, ...] = ()

    def text(self) -> str:
        return " ".join([f"{self.at:.3f}", self.kind, *self.args])


@dataclass
class Plan:
    noise: int
    shared: bool
    decisions: list[Decision]
    comments: list[str] = field(default_factory=list)

    def text(self) -> str:
        lines = [f"# {comment}".rstrip() for comment in self.comments]
        lines.append(f"noise {self.noise}")
        lines += ["shared"] if self.shared else []
        return "\n".join([*lines, *[each.text() for each in self.decisions], ""])

    def having(self, decisions: list[Decision]) -> "Plan":
        return replace(self, decisions=decisions)


def parse(text: str) -> Plan:
    plan = Plan(0, False, [])
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if line.startswith("#"):
            plan.comments.append(line[1:].strip())
        elif words[:1] == ["noise"] and len(words) == 2:
            plan.noise = int(words[1])
        elif words == ["shared"]:
            plan.shared = True
        elif len(words) > 1:
            plan.decisions.append(Decision(float(words[0]), words[1], tuple(words[2:])))
        elif words:
            raise ValueError(f"line {number} says nothing: {line}")
    plan.decisions.sort(key=_at)
    return plan


def _at(decision: Decision) -> float:
    return decision.at


def make(seed: int, faults: tuple[str, ...]) -> Plan:
    return _Maker(seed, faults).make()


class _Maker:
    def __init__(self, seed: int, faults: tuple[str, ...]) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.faults = faults
        self.decisions: list[Decision] = []

    def make(self) -> Plan:
        at = BEGIN_S
        for _ in range(self.random.randrange(10, 30)):
            at += self.random.uniform(0.1, 3.0)
            self._fault(at, self.random.choice(self.faults))
        end = at + TAIL_S
        for name in PUBLISHERS:
            at = BEGIN_S
            while at < end:
                count = self.random.randrange(3)
                if count:
                    self._add(at, "publish", name, str(count))
                at += self.random.uniform(0.02, 0.2)
        self._add(end, "end")
        self.decisions.sort(key=_at)
        return Plan(self.seed, "adopt" in self.faults, self.decisions)

    def _add(self, at: float, kind: str, *args: str) -> None:
        # Rounded as it would be in a file.
        self.decisions.append(Decision(float(f"{at:.3f}"), kind, args))

    def _fault(self, at: float, kind: str) -> None:
        chance = self.random
        if kind == "move":
            client = chance.choice((*PUBLISHERS, *SUBSCRIBERS, HEIR, MORTAL))
            # Some stay away, so that messages queue up.
            self._move(at, client, chance.uniform(0.0, chance.choice((1.0, 1.0, 1.0, 8.0))))
        elif kind == "hop":
            client = chance.choice((*PUBLISHERS, *SUBSCRIBERS))
            for _ in range(chance.randrange(2, 11)):
                self._move(at, client, 0.0)
                at += chance.uniform(0.0, 0.3)
        elif kind == "cut":
            self._add(at, "cut", *chance.sample(NODES, 2))
        elif kind == "slow":
            self._add(at, "slow", chance.choice(("0.005", "0.050", "0.300")))
        elif kind == "split":
            self._add(at, "split", chance.choice(NODES))
            self._add(at + chance.uniform(0.5, 15.0), "heal")
        elif kind == "power":
            # Often that of a single machine, sometimes of all.
            for node in chance.sample(NODES, chance.choice((1, 1, 1, 2, 3))):
                zeros = ("zeros",) if chance.random() < 0.3 else ()
                keep = chance.choice((0.0, chance.random(), 1.0))
                # Back at once, clients find the session that the disk has; later they do not ask.
                self._crash(at, chance.choice((0.5, 15.0)), node, f"{keep:.2f}", *zeros)
        elif kind == "crash":
            self._crash(at, 15.0, chance.choice(NODES), chance.choice(("0.00", "1.00")))
        elif kind == "adopt":
            self._crash(at, 40.0, chance.choice(NODES), chance.choice(("0.00", "1.00")))
        else:
            raise ValueError(f"there is no fault {kind}")

    def _move(self, at: float, client: str, wait_s: float) -> None:
        self._add(at, "move", client, self.random.choice(NODES), f"{wait_s:.3f}")

    def _crash(self, at: float, longest_s: float, *args: str) -> None:
        self._add(at, "crash", *args)
        self._add(at + self.random.uniform(0.1, longest_s), "start", args[0])
