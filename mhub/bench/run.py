"""A run: find the broker, then one scenario after the other, each with clients of its own."""

import os
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mhub.bench import poller
from mhub.bench.crowd import run_crowd
from mhub.bench.errors import BenchError
from mhub.bench.load.client import Client
from mhub.bench.load.histogram import Histogram
from mhub.bench.plan import CONNECTIONS, Plan
from mhub.bench.result import Result
from mhub.bench.swarm import Link, Swarm
from mhub.bench.target import Address, Target
from mhub.bench.traffic import Tick, run_traffic
from mhub.bench.usage import Meter
from mhub.bench.wires import raise_file_limit

_NAME_TOPIC: Final = "$SYS/broker/version"
_NAME_WAIT_S: Final = 0.3


class Run:
    def __init__(
        self,
        target: Target,
        addresses: list[Address],
        tls: ssl.SSLContext | None,
        version: int,
        timeout_s: float,
        meter: Meter,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._target = target
        self._addresses = addresses
        self._tls = tls
        self._version = version
        self._timeout_s = timeout_s
        self._meter = meter
        self._clock = clock

    def probe(self) -> str:
        """Connect, keep the first address that works; what the broker calls itself, or ""."""
        trouble: BenchError | None = None
        for address in self._addresses:
            swarm = self._swarm(address)
            try:
                link = Link("the first client", Client(self._version, swarm.run, Histogram()))
                swarm.open([link])
                self._addresses = [address]
                return _ask_name(swarm, link)
            except BenchError as error:
                trouble = trouble or error
            finally:
                swarm.close()
        raise trouble or BenchError(f"{self._target} has no address")

    def measure(self, plan: Plan, tick: Tick) -> Result:
        """Run one scenario.  Raises `BenchError` when it cannot begin."""
        raise_file_limit(max(plan.pubs + plan.subs, plan.clients))
        _sleep_precisely()
        address = self._addresses[0]
        swarm = self._swarm(address)
        try:
            if plan.scenario == CONNECTIONS:
                is_local = address.is_loopback and self._target.host.startswith("127.")
                return run_crowd(swarm, plan, self._meter, is_local, tick)
            return run_traffic(swarm, plan, self._meter, tick)
        finally:
            swarm.close()

    def _swarm(self, address: Address) -> Swarm:
        run = int.from_bytes(os.urandom(4), "big")
        return Swarm(
            self._target,
            address,
            self._tls,
            self._version,
            run,
            self._clock,
            poller.best(),
            self._timeout_s,
        )


def _ask_name(swarm: Swarm, link: Link) -> str:
    """Many brokers keep their name in a retained message.  One that does not loses nothing."""
    swarm.settle()
    try:
        swarm.subscribe([link], [_NAME_TOPIC], 0)
        end = swarm.now() + int(_NAME_WAIT_S * 1e9)
        while not link.client.last_foreign and not swarm.trouble and swarm.now() < end:
            swarm.read(0.05)
    except BenchError:
        return ""
    text = link.client.last_foreign.decode(errors="replace")
    return "".join(sign for sign in text if sign.isprintable())


def _sleep_precisely() -> None:
    """Linux lets a sleeper oversleep by 50 us, which would all count as the broker's latency."""
    try:
        Path("/proc/self/timerslack_ns").write_text("1")
    except OSError:
        pass
