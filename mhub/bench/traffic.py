"""The scenarios that send messages: throughput, fan-in, fan-out (closed loop), latency (open loop).

Closed: each publisher keeps up to `window` messages undelivered or unacknowledged and sends the
next when there is room, so the broker sets the speed and nothing is dropped for overload.  Open:
messages leave when they are due, whatever the broker does.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mhub.bench.errors import BenchError
from mhub.bench.load.client import Client
from mhub.bench.load.histogram import Histogram
from mhub.bench.load.loops import Rest, fill, send_due
from mhub.bench.load.pace import SECOND, Pace
from mhub.bench.load.packets import PublishFrames
from mhub.bench.load.track import Track
from mhub.bench.plan import LATENCY, Plan
from mhub.bench.result import Result
from mhub.bench.swarm import Link, Swarm
from mhub.bench.usage import Meter

_WAIT_S: Final = 0.1
_DRAIN_S: Final = 10.0
_STRAGGLER_S: Final = 0.5

Tick = Callable[[float, int], bool]
"""Called every turn with the part done (0 to 1) and the deliveries so far; False ends the run."""


@dataclass
class Cast:
    """Who takes part."""

    pubs: list[Link]
    subs: list[Link]


def run_traffic(swarm: Swarm, plan: Plan, meter: Meter, tick: Tick) -> Result:
    """Set up, run for `plan.seconds`, wait for what is under way.  Raises `BenchError`."""
    result = Result(plan)
    cast = _set_up(swarm, plan, result.latency)
    swarm.settle()
    meter.start()
    start = swarm.now()
    if plan.scenario == LATENCY:
        result.late = Histogram()
        ended = _paced(swarm, cast, plan, result, tick)
    else:
        ended = _closed(swarm, cast, plan, result, tick)
    result.usage = meter.stop()
    result.seconds = (ended - start) / SECOND
    result.trouble = swarm.trouble
    _count(cast, plan, result)
    return result


def _set_up(swarm: Swarm, plan: Plan, latency: Histogram) -> Cast:
    pubs = [
        Link(f"publisher {i}", Client(plan.version, swarm.run, latency)) for i in range(plan.pubs)
    ]
    subs = [
        Link(f"subscriber {i}", Client(plan.version, swarm.run, latency)) for i in range(plan.subs)
    ]
    swarm.open([*subs, *pubs])
    root = f"{plan.topic_prefix}/{swarm.run:08x}"
    for i, link in enumerate(subs):
        if plan.is_paired:
            link.client.expects(i, [Track(pubs[i].client.source)])
        else:
            link.client.expects(0, [Track(pub.client.source) for pub in pubs])
    topics = [f"{root}/{i}" if plan.is_paired else f"{root}/all" for i in range(plan.pubs)]
    wanted = topics if plan.is_paired else [f"{root}/all"] * plan.subs
    swarm.subscribe(subs, wanted, plan.qos)
    for i, link in enumerate(pubs):
        frames = PublishFrames(topics[i], plan.qos, plan.size, plan.version, swarm.run, i)
        _check_limits(link.client, frames)
        link.client.publishes(frames)
    return Cast(pubs, subs)


def _check_limits(client: Client, frames: PublishFrames) -> None:
    if frames.qos > client.most_qos:
        raise BenchError(
            f"the broker takes QoS {client.most_qos} at most", f"Use --qos {client.most_qos}."
        )
    if frames.length > client.most_packet:
        raise BenchError(
            f"the broker takes packets of {client.most_packet:,} bytes at most",
            f"Each of these has {frames.length:,}: use a smaller --size.",
        )


class _Progress:
    """When the last delivery or acknowledgement came."""

    def __init__(self, swarm: Swarm, cast: Cast, latency: Histogram) -> None:
        self._swarm = swarm
        self._pubs = [link.client for link in cast.pubs]
        self._latency = latency
        self._seen = (0, 0)
        self.at = swarm.now()
        self.delivered_at = self.at

    def look(self) -> None:
        seen = (self._latency.total, sum([client.acked for client in self._pubs]))
        if seen != self._seen:
            self.at = self._swarm.now()
            if seen[0] != self._seen[0]:
                self.delivered_at = self.at
            self._seen = seen

    def is_stalled(self, quiet_s: float) -> bool:
        return self._swarm.now() - self.at > quiet_s * SECOND


def _closed(swarm: Swarm, cast: Cast, plan: Plan, result: Result, tick: Tick) -> int:
    """Run the closed loop; when the last delivery came."""
    clients = [link.client for link in cast.pubs]
    progress = _Progress(swarm, cast, result.latency)
    start = swarm.now()
    rest = Rest(plan.window, plan.pubs, plan.fan, start)
    length = int(plan.seconds * SECOND)
    while not swarm.trouble:
        now = swarm.now()
        if now - start >= length:
            break
        if not tick((now - start) / length, result.latency.total):
            result.interrupted = True
            break
        for i in fill(clients, plan.window, plan.fan, now):
            swarm.mark(cast.pubs[i])
        swarm.flush()
        pause = rest.span(result.latency.total, now)
        if pause:
            time.sleep(pause / SECOND)
        swarm.read(_WAIT_S)
        progress.look()
        if progress.is_stalled(plan.quiet_s):
            break
    return _drain(swarm, cast, plan, result, progress)


def _paced(swarm: Swarm, cast: Cast, plan: Plan, result: Result, tick: Tick) -> int:
    """Run the open loop; when the last delivery came."""
    progress = _Progress(swarm, cast, result.latency)
    total = max(1, int(plan.rate * plan.seconds))
    pace = Pace(plan.rate, plan.pubs, swarm.now() + SECOND // 100, total)
    clients = [link.client for link in cast.pubs]
    sent = 0
    while sent < total and not swarm.trouble:
        now = swarm.now()
        if not tick(sent / total, result.latency.total):
            result.interrupted = True
            break
        late = pace.late(now)
        if late >= 0 and result.late is not None:
            result.late.add(late)
        called = pace.called(now)
        if called > sent:
            for i in send_due(clients, pace, called):
                swarm.mark(cast.pubs[i])
            sent = sum([client.source.sent for client in clients])
        swarm.flush()
        swarm.read(pace.rest(swarm.now()) / SECOND if sent >= called else _WAIT_S)
        progress.look()
        if progress.is_stalled(plan.quiet_s + plan.pubs / plan.rate):
            break
    return _drain(swarm, cast, plan, result, progress)


def _drain(swarm: Swarm, cast: Cast, plan: Plan, result: Result, progress: _Progress) -> int:
    """Wait for what is under way, as long as something comes."""
    swarm.flush()
    progress.look()
    clients = [link.client for link in cast.pubs]
    expected = sum(client.source.sent for client in clients) * plan.fan
    end = swarm.now() + int((plan.seconds + _DRAIN_S) * SECOND)
    patience_s = plan.quiet_s
    while not swarm.trouble and not progress.is_stalled(patience_s) and swarm.now() < end:
        if not any(client.inflight() for client in clients):
            if result.latency.total >= expected:
                break
            if sum(client.source.seen for client in clients) >= expected:
                # The last ones are here, so the missing ones were overtaken: most likely lost.
                patience_s = min(patience_s, _STRAGGLER_S)
        swarm.read(_WAIT_S)
        swarm.flush()
        progress.look()
    swarm.flush()
    return progress.delivered_at


def _count(cast: Cast, plan: Plan, result: Result) -> None:
    for link in cast.pubs:
        client = link.client
        result.sent += client.source.sent
        result.rejected += client.rejected
        result.unacknowledged += client.inflight()
        result.strange_acks += client.strange_acks
        if client.rejected and not result.trouble:
            result.trouble = f"the broker rejected messages: {client.reject_reason}"
    result.expected = result.sent * plan.fan
    for link in cast.subs:
        client = link.client
        result.received += client.received
        result.misrouted += client.misrouted
        result.foreign += client.foreign
        result.duplicated += sum(track.duplicated for track in client.tracks)
        result.disordered += sum(track.disordered for track in client.tracks)
