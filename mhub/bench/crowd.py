"""The scenario that opens connections, holds them, and asks some of them whether they live."""

from typing import Final

from mhub.bench.load.client import Client
from mhub.bench.load.histogram import Histogram
from mhub.bench.load.pace import SECOND
from mhub.bench.load.packets import PublishFrames
from mhub.bench.load.track import Source, Track
from mhub.bench.plan import Plan
from mhub.bench.result import Result
from mhub.bench.swarm import Link, Swarm
from mhub.bench.traffic import Tick
from mhub.bench.usage import Meter

_PER_SOURCE: Final = 4000
"""Connections from one loopback address: each has its own ports, and finding a free one among many
taken ones is slow."""

_SAMPLE: Final = 100
_HOLD_S: Final = 1.0


def run_crowd(swarm: Swarm, plan: Plan, meter: Meter, loopback: bool, tick: Tick) -> Result:
    """Open `plan.clients` connections.  Raises `BenchError`."""
    connect = Histogram()
    result = Result(plan, connect=connect)
    crowd = [
        Link(f"client {i}", Client(plan.version, swarm.run, result.latency))
        for i in range(plan.clients)
    ]
    before = meter.rss()
    meter.start()
    start = swarm.now()

    def on_turn(up: int) -> bool:
        result.interrupted = not tick(up / plan.clients, up)
        return not result.interrupted

    up = swarm.open(crowd, lambda i: _source(i, plan.clients, loopback), on_turn)
    crowd = [link for link in crowd if link.client.up]
    root = f"{plan.topic_prefix}/{swarm.run:08x}"
    if crowd:
        swarm.subscribe(crowd, [f"{root}/{i}" for i in range(len(crowd))], plan.qos)
    result.usage = meter.stop()
    result.seconds = (swarm.now() - start) / SECOND
    result.connections = up
    for link in crowd:
        connect.add(link.up_after)
    swarm.settle()
    _wait(swarm, _HOLD_S)
    after = meter.rss()
    if before is not None and after is not None and up:
        result.rss_per_connection = (after - before) / up
    if crowd and not result.interrupted:
        _sample(swarm, crowd, plan, result, root)
    result.trouble = swarm.trouble
    return result


def _sample(swarm: Swarm, crowd: list[Link], plan: Plan, result: Result, root: str) -> None:
    """One message each to a hundred of them, spread over all, one after the other."""
    count = min(_SAMPLE, len(crowd))
    end = swarm.now() + int(plan.quiet_s * SECOND)
    for i in range(count):
        index = i * len(crowd) // count
        link = crowd[index]
        source = Source()
        link.client.expects(i, [Track(source)])
        frames = PublishFrames(f"{root}/{index}", plan.qos, plan.size, plan.version, swarm.run, i)
        link.client.publishes(frames)
        link.client.publish(1, swarm.now())
        swarm.mark(link)
        swarm.flush()
        while result.latency.total <= i and swarm.now() < end and not swarm.trouble:
            swarm.read(0.1)
            swarm.flush()
    result.sent = result.expected = count
    result.received = sum(link.client.received for link in crowd)
    result.misrouted = sum(link.client.misrouted for link in crowd)


def _wait(swarm: Swarm, seconds: float) -> None:
    end = swarm.now() + int(seconds * SECOND)
    while swarm.now() < end:
        swarm.read(0.1)
        swarm.flush()


def _source(index: int, clients: int, loopback: bool) -> str | None:
    if not loopback or clients <= _PER_SOURCE:
        return None
    return f"127.0.0.{2 + index // _PER_SOURCE % 250}"
