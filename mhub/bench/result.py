"""What one scenario measured."""

from dataclasses import dataclass, field

from mhub.bench.load.histogram import Histogram
from mhub.bench.plan import LATENCY, Plan
from mhub.bench.usage import Usage


@dataclass
class Result:
    plan: Plan
    sent: int = 0
    expected: int = 0  # deliveries, had all gone well
    received: int = 0  # deliveries, duplicates not counted
    duplicated: int = 0
    disordered: int = 0
    misrouted: int = 0
    foreign: int = 0
    rejected: int = 0
    unacknowledged: int = 0
    strange_acks: int = 0
    seconds: float = 0.0  # from the first send to the last delivery
    latency: Histogram = field(default_factory=Histogram)
    late: Histogram | None = None  # by how much this side missed its own pace
    connect: Histogram | None = None
    connections: int = 0
    usage: Usage = field(default_factory=Usage)
    rss_per_connection: float | None = None
    trouble: str = ""  # what ended it early
    interrupted: bool = False

    @property
    def lost(self) -> int:
        return max(0, self.expected - self.received)

    @property
    def sent_per_s(self) -> float:
        return self.sent / self.seconds if self.seconds else 0.0

    @property
    def received_per_s(self) -> float:
        return self.received / self.seconds if self.seconds else 0.0

    @property
    def megabytes_per_s(self) -> float:
        """Payload delivered, in units of 1,000,000 bytes."""
        return self.received_per_s * self.plan.size / 1e6

    @property
    def is_faulty(self) -> bool:
        """Whether the broker did what its QoS forbids; QoS 0 may lose."""
        broken = self.duplicated if self.plan.qos != 1 else 0
        broken += self.disordered + self.misrouted + self.rejected + self.strange_acks
        if self.plan.qos:
            broken += self.lost + self.unacknowledged
        return bool(broken or self.trouble)

    def to_json(self) -> dict[str, object]:
        plan = self.plan
        found: dict[str, object] = {
            "scenario": plan.scenario,
            "qos": plan.qos,
            "size_bytes": plan.size,
            "publishers": plan.pubs,
            "subscribers": plan.subs,
        }
        if plan.scenario == LATENCY:
            found["rate"] = plan.rate
        elif self.connect is None:
            found["window"] = plan.window
        if self.connect is not None:
            found["connections"] = self.connections
            found["connections_per_s"] = round(self.connections / self.seconds, 1)
            found["connect_us"] = summary(self.connect)
            if self.rss_per_connection is not None:
                found["broker_rss_bytes_per_connection"] = round(self.rss_per_connection)
        else:
            found["sent_per_s"] = round(self.sent_per_s, 1)
            found["received_per_s"] = round(self.received_per_s, 1)
            found["megabytes_per_s"] = round(self.megabytes_per_s, 3)
        found |= {
            "seconds": round(self.seconds, 6),
            "sent": self.sent,
            "received": self.received,
            "lost": self.lost,
            "duplicated": self.duplicated,
            "disordered": self.disordered,
            "misrouted": self.misrouted,
            "foreign": self.foreign,
            "rejected": self.rejected,
            "unacknowledged": self.unacknowledged,
            "unexpected_acknowledgements": self.strange_acks,
            "latency_us": summary(self.latency),
        }
        if self.late is not None:
            found["load_late_us"] = summary(self.late)
        found |= self.usage.to_json(self.connections or self.received)
        if self.interrupted:
            found["interrupted"] = True
        if self.trouble:
            found["trouble"] = self.trouble
        return found


def summary(histogram: Histogram) -> dict[str, float]:
    """The figures of a distribution of nanoseconds, in microseconds."""
    if not histogram.total:
        return {}
    parts = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
    found = {name: round(histogram.quantile(part) / 1e3, 2) for name, part in parts.items()}
    return {"mean": round(histogram.mean() / 1e3, 2)} | found | {"max": histogram.max / 1e3}
