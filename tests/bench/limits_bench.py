"""What limits cost a message: the core alone, without sockets, in CPU µs.

    python tests/bench/limits_bench.py [--rounds N]

A publisher and a subscriber in one process; reads of 50 messages with 64 bytes of payload.  Rows:
without any limit; with one of the client that is never reached; with those of client, user, tenant
and listener for messages and bytes.  Rounds of all rows take turns, and the median counts.

It is a script and not a module of the tests, so that the source tree does not hide the compiled
build that is installed beside this Python.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

# Last, so that the installed mhub comes first; the tests themselves are never installed.
sys.path.append(str(Path(__file__).resolve().parent.parent.parent))

from mhub import build
from mhub.core.authentication import Claim, Later, Step, success
from mhub.core.connection import Connection
from mhub.core.events import Events
from mhub.core.hub import Hub, HubSettings
from mhub.core.limits import Limits
from mhub.core.principal import Identity
from tests.helpers import packets as p

MESSAGES = 100_000
READ = 50
SCOPES = ("", "user_", "tenant_", "listener_")

ROWS: dict[str, dict[str, Any]] = {
    "no limit": {},
    "messages of the client": {"max_messages_per_s": 1e7},
    "messages out": {"max_messages_out_per_s": 1e7},
    "all eight": {
        f"max_{scope}{what}_per_s": 10**7 if what == "messages" else 10**10
        for scope in SCOPES
        for what in ("messages", "bytes")
    },
}


class Sink:
    """Takes everything."""

    def write(self, data: bytes) -> bool:
        return True

    def close(self, linger: bool) -> None:
        pass

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass


class Known:
    def authenticate(self, claim: Claim) -> Step | Later:
        identity = Identity("alice", "known")
        identity.tenant = "acme"
        return success(identity)


def measure(qos: int, options: dict[str, Any]) -> float:
    """CPU µs for each message."""
    hub = Hub(HubSettings(), Events([]), str, 1000.0)
    hub.admission.authenticator = Known()
    limits = Limits(**options)
    subscriber, publisher = (Connection(hub, Sink(), limits, 1000.0) for _ in range(2))
    subscriber.receive(p.connect("s") + p.subscribe(1, ("t", 0)), 1000.0)
    publisher.receive(p.connect("p"), 1000.0)
    hub.flush()
    data = b"".join(p.publish("t", bytes(64), qos, n + 1 if qos else None) for n in range(READ))
    begin = time.process_time()
    for turn in range(MESSAGES // READ):
        publisher.receive(data, 1000.0 + turn / 100)
        hub.flush()
    used = time.process_time() - begin
    assert hub.stats.publish_sent == MESSAGES, hub.stats.publish_sent
    return used / MESSAGES * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=list(ROWS), help="one row")
    options = parser.parse_args()
    rows = {name: ROWS[name] for name in ([options.only] if options.only else ROWS)}
    found: dict[tuple[str, int], list[float]] = {}
    for _ in range(options.rounds):
        for name, limits in rows.items():
            for qos in (0, 1):
                found.setdefault((name, qos), []).append(measure(qos, limits))
    print(build.describe())
    for name in rows:
        shown = [statistics.median(found[name, qos]) for qos in (0, 1)]
        print(f"{name:24} QoS 0 {shown[0]:6.3f}   QoS 1 {shown[1]:6.3f}")


if __name__ == "__main__":
    main()
