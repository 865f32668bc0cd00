"""What people read: tables of at most 80 columns, and remarks on what they should not overlook."""

from collections.abc import Sequence
from textwrap import fill
from typing import Final

from mhub.bench.load.histogram import Histogram
from mhub.bench.picture import bars, strips
from mhub.bench.plan import CONNECTIONS, LATENCY
from mhub.bench.result import Result
from mhub.bench.units import count, short, span

_TITLE: Final = 18
_WIDTH: Final = 79
_BUSY: Final = 0.85
"""From this part of a core on, the load side may be what limits the figures."""


def report(results: Sequence[Result], plain: bool = False) -> str:
    """The whole report.  `plain`: ASCII only."""
    traffic = [r for r in results if r.plan.scenario != CONNECTIONS]
    crowds = [r for r in results if r.plan.scenario == CONNECTIONS]
    parts = []
    if traffic:
        parts += [_speed(traffic), _checks(traffic)]
    parts += [_crowd(r) for r in crowds]
    parts.append(picture([r for r in results if r.latency.total], plain))
    parts.append("\n".join(remarks(results)))
    return "\n\n".join(part for part in parts if part)


def _speed(results: Sequence[Result]) -> str:
    lines = [
        f"{'':{_TITLE}}{'sent':>11}{'received':>11}{'payload':>8}{'latency':>8}",
        f"{'':{_TITLE}}{'msg/s':>11}{'msg/s':>11}{'MB/s':>8}{'p50':>8}{'p95':>7}{'p99':>7}{'max':>7}",
    ]
    for r in results:
        quantiles = [span(r.latency.quantile(q)) for q in (0.5, 0.95, 0.99)]
        times = [*quantiles, span(r.latency.max)] if r.latency.total else ["-"] * 4
        lines.append(
            f"{r.plan.title:{_TITLE}}{count(r.sent_per_s):>11}{count(r.received_per_s):>11}"
            f"{r.megabytes_per_s:>8.2f} " + "".join(f"{t:>7}" for t in times)
        )
    return "\n".join(lines)


def _checks(results: Sequence[Result]) -> str:
    has_broker = any(r.usage.broker_cpu_s is not None for r in results)
    lines = [
        f"{'':{_TITLE}}{'':>9}{'':>9}{'out of':>9}{'other':>8}{'load side':>12}{'load':>7}"
        + (f"{'broker':>8}" if has_broker else ""),
        f"{'':{_TITLE}}{'lost':>9}{'twice':>9}{'order':>9}{'faults':>8}{'us/msg':>12}{'busy':>7}"
        + (f"{'us/msg':>8}" if has_broker else ""),
    ]
    for r in results:
        others = r.misrouted + r.rejected + r.unacknowledged + r.strange_acks
        each = r.usage.load_cpu_s * 1e6 / r.received if r.received else 0.0
        line = (
            f"{r.plan.title:{_TITLE}}{short(r.lost):>9}{short(r.duplicated):>9}"
            f"{short(r.disordered):>9}{short(others):>8}"
            f"{each:>12.2f}{r.usage.load_busy:>7.0%}"
        )
        if r.usage.broker_cpu_s is not None:
            broker = r.usage.broker_cpu_s * 1e6 / r.received if r.received else 0.0
            line += f"{broker:>8.2f}"
        lines.append(line)
    return "\n".join(lines)


def _crowd(r: Result) -> str:
    assert r.connect is not None
    rate = r.connections / r.seconds if r.seconds else 0.0
    rows = [
        ("open", f"{r.connections:,} connections in {r.seconds:.2f} s: {count(rate)} a second"),
        ("from connect to CONNACK", _quantiles(r)),
        ("still alive", f"{r.received} of {r.sent} that were sent a message got it"),
    ]
    if r.usage.broker_cpu_s is not None and r.connections:
        each = r.usage.broker_cpu_s * 1e6 / r.connections
        rows.append(("broker's processor", f"{each:.1f} us for each connection and subscription"))
    if r.rss_per_connection is not None:
        rows.append(("broker's memory", f"{r.rss_per_connection / 1024:.1f} KiB for each"))
    rows.append(("load side", f"{r.usage.load_busy:.0%} of a core"))
    return "\n".join(f"{name:>24}  {text}" for name, text in rows)


def _quantiles(r: Result) -> str:
    h = r.connect
    assert h is not None
    found = (("p50", h.quantile(0.5)), ("p95", h.quantile(0.95)), ("p99", h.quantile(0.99)))
    return ", ".join(f"{name} {span(value)}" for name, value in (*found, ("max", float(h.max))))


def picture(results: Sequence[Result], plain: bool) -> str:
    """How the latencies are spread: bars for one result, a strip for each of several."""
    if not results:
        return ""
    if len(results) == 1:
        return bars(f"latency, {results[0].plan.title}", results[0].latency, plain)
    return strips([(r.plan.title, r.latency) for r in results], _TITLE, plain)


def remarks(results: Sequence[Result]) -> list[str]:
    """Sentences about what is wrong (with a !), or about what the figures do not mean."""
    found = []
    for r in results:
        found += [_wrap(f"! {r.plan.title}: {text}") for text in _faults(r)]
        if r.plan.scenario != LATENCY and r.usage.load_busy > _BUSY:
            busy = f"the load side was {r.usage.load_busy:.0%} busy, so the broker may be faster"
            found.append(_wrap(f"  {r.plan.title}: {busy}"))
        if r.interrupted:
            found.append(_wrap(f"  {r.plan.title}: interrupted; this was measured until then"))
    late = [r.late for r in results if r.late is not None and _is_late(r.late, r.latency)]
    if late:
        mean, most = max(h.mean() for h in late), max(h.max for h in late)
        found.append(
            _wrap(
                f"  At a fixed rate the load side itself was late, by {span(mean)} in the mean and "
                f"{span(most)} at most, which is part of the latency: this machine is busy."
            )
        )
    return found


def _faults(r: Result) -> list[str]:
    found = [r.trouble] if r.trouble else []
    if r.lost and not r.trouble:
        allowed = ", as QoS 0 allows" if not r.plan.qos else ""
        found.append(f"{r.lost:,} of {r.expected:,} messages never came{allowed}")
    for number, what in (
        (r.misrouted, "messages came to the wrong subscriber"),
        (r.unacknowledged, "messages were never acknowledged"),
        (r.strange_acks, "acknowledgements came for nothing in flight"),
        (r.foreign, "messages of others came on these topics"),
    ):
        if number:
            found.append(f"{number:,} {what}")
    return found


def _is_late(late: Histogram, latency: Histogram) -> bool:
    return latency.total > 0 and late.mean() > 0.2 * latency.mean()


def _wrap(text: str) -> str:
    return fill(text, _WIDTH, subsequent_indent="  ")
