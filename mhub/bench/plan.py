"""What to run: a scenario with its settings, and the matrix of a run without options."""

from dataclasses import dataclass, replace
from typing import Final

from mhub.bench.errors import BenchError
from mhub.bench.load.packets import HEAD_SIZE, IDS, MOST_PACKET, MOST_PUBLISHERS

THROUGHPUT: Final = "throughput"
FAN_IN: Final = "fan-in"
FAN_OUT: Final = "fan-out"
LATENCY: Final = "latency"
CONNECTIONS: Final = "connections"

SCENARIOS: Final = {
    THROUGHPUT: "pairs of a publisher and a subscriber, as fast as the window allows",
    FAN_IN: "many publishers, one topic, few subscribers, as fast as the window allows",
    FAN_OUT: "few publishers, one topic, many subscribers, as fast as the window allows",
    LATENCY: "pairs at a fixed rate, each message timed from the moment it was due",
    CONNECTIONS: "open connections that each subscribe to a topic of their own, and hold them",
}

_PUBS_AND_SUBS: Final = {
    THROUGHPUT: (10, 10),
    FAN_IN: (100, 1),
    FAN_OUT: (1, 100),
    LATENCY: (10, 10),
    CONNECTIONS: (1, 0),
}


@dataclass(frozen=True)
class Plan:
    scenario: str
    qos: int = 0
    size: int = 64
    pubs: int = 10
    subs: int = 10
    window: int = 100
    rate: int = 1000
    seconds: float = 3.0
    clients: int = 1000
    version: int = 4
    topic_prefix: str = "mhub-bench"
    quiet_s: float = 3.0  # this long without any delivery ends a scenario

    @property
    def is_paired(self) -> bool:
        return self.scenario in (THROUGHPUT, LATENCY)

    @property
    def fan(self) -> int:
        """Subscribers that get each message."""
        return 1 if self.is_paired else self.subs

    @property
    def title(self) -> str:
        if self.scenario == CONNECTIONS:
            return f"{self.clients:,} connections"
        if self.scenario == LATENCY:
            return f"QoS {self.qos} at {self.rate:,}/s"
        return f"QoS {self.qos} {self.scenario}"


def plan(base: Plan, scenario: str, pubs: int | None, subs: int | None) -> Plan:
    """`base` for `scenario`, with that scenario's numbers of clients where none are given."""
    paired = scenario in (THROUGHPUT, LATENCY)
    if paired and pubs is not None and subs is not None and pubs != subs:
        raise BenchError(
            f"{scenario} runs pairs, which {pubs} publishers and {subs} subscribers are not",
            f"Give one of --pubs and --subs, or use --scenario {FAN_IN} or {FAN_OUT}.",
        )
    usual_pubs, usual_subs = _PUBS_AND_SUBS[scenario]
    if paired:
        usual_pubs = usual_subs = pubs or subs or usual_pubs
    return replace(base, scenario=scenario, pubs=pubs or usual_pubs, subs=subs or usual_subs)


def matrix(base: Plan, qos: int | None, pubs: int | None, subs: int | None) -> list[Plan]:
    """What a run without `--scenario` does: throughput, then latency, at each QoS."""
    levels = (0, 1, 2) if qos is None else (qos,)
    return [
        plan(replace(base, qos=level), scenario, pubs, subs)
        for scenario in (THROUGHPUT, LATENCY)
        for level in levels
    ]


def check(plan: Plan) -> None:
    """Refuse settings that cannot be run.  Raises `BenchError`."""
    topic_room = len(plan.topic_prefix) + 40
    limits = (
        ("--size", plan.size, HEAD_SIZE, MOST_PACKET - topic_room),
        ("--pubs", plan.pubs, 1, MOST_PUBLISHERS),
        ("--subs", plan.subs, 0 if plan.scenario == CONNECTIONS else 1, MOST_PUBLISHERS),
        # Half of the packet identifiers: those out of order must not meet themselves.
        ("--window", plan.window, 1, IDS // 2),
        ("--rate", plan.rate, 1, 10_000_000),
        ("--clients", plan.clients, 1, 1_000_000),
    )
    for option, value, least, most in limits:
        if not least <= value <= most:
            raise BenchError(f"{option} {value} is not from {least:,} to {most:,}")
    if not 0 < plan.seconds <= 86400:
        raise BenchError(f"--seconds {plan.seconds:g} is not from 0 to 86400")
    # Sequence numbers have 32 bits: a day at 40,000 a second and publisher.
    if any(sign in plan.topic_prefix for sign in "+#\0") or not plan.topic_prefix:
        raise BenchError(f"--topic-prefix {plan.topic_prefix!r} is not a topic to publish to")
