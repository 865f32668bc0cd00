"""Frames that are right but for one place: what a peer with a defect, or another release, sends.

    bend(random, body)     another body: bytes or fields of it are not what they were
    BentSimulation         a cluster in which some frames are bent on their way

Plain bytes hardly ever get past the first check; what is right but for one place gets everywhere.
"""

import json
from random import Random
from typing import Any

from tests.cluster.simulation import SimNode, Simulation

VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    -3,
    0.5,
    float("nan"),
    float("inf"),
    1 << 62,
    1 << 63,
    10**400,
    "",
    "x",
    "\0",
    "\ud800",
    "#/#",
    "$share/",
    [],
    [[]],
    ["x"],
    [None, None],
    {},
    {"x": None},
)
"""What hardly any field may be."""


def bend(random: Random, body: bytes) -> bytes:
    head, newline, data = body.partition(b"\n")
    try:
        fields = json.loads(head)
    except ValueError:
        return bend_bytes(random, body)
    if newline and random.random() < 0.5:
        return head + newline + bend_bytes(random, data)
    if random.random() < 0.1:
        return bend_bytes(random, body)
    return json.dumps(_bend_value(random, fields)).encode() + newline + data


def bend_bytes(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    choice = random.randrange(5)
    if choice == 0:
        return data[:at]
    if choice == 1:
        return data[:at] + random.randbytes(random.randrange(1, 9)) + data[at:]
    if choice == 2:
        return data[:at] + data[at + random.randrange(1, 9) :]
    if choice == 3:
        return data[:at] + random.randbytes(random.randrange(1, 9)) + data[at + 4 :]
    return data[:at] + random.choice((b"\0", b"\xff", b"\x7f", b"\x80")) + data[at + 1 :]


def _bend_value(random: Random, value: Any) -> Any:
    """Another value in one place of it."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        name = random.choice([*value])
        if random.random() < 0.2:
            return {key: each for key, each in value.items() if key != name}
        return {**value, name: _bend_value(random, value[name])}
    if isinstance(value, list) and value and random.random() < 0.7:
        at = random.randrange(len(value))
        if random.random() < 0.2:
            return value[:at] + value[at + 1 :]
        return [*value[:at], _bend_value(random, value[at]), *value[at + 1 :]]
    return random.choice(VALUES)


class BentSimulation(Simulation):
    rate = 0.03

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._random = Random(f"bent {self.seed}")
        self.bent = 0

    def as_sent(self, sender: SimNode, kind: int, body: bytes) -> list[tuple[int, bytes]]:
        if self.now > 3.0 and self._random.random() < self.rate:
            self.bent += 1
            body = bend(self._random, body)
        return [(kind, body)]
