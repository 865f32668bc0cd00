"""Families as text: Prometheus' own format, or OpenMetrics where the scraper asks for that.

Rendered on the reactor, in slices: prometheus-client's resource for Twisted renders in a thread,
which would read numbers while they change.  They are read at once, before the first slice.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from prometheus_client import exposition
from prometheus_client.core import Metric as Family
from prometheus_client.openmetrics import exposition as open_exposition

from mhub.admin.metrics.families import families
from mhub.operations.numbers import Numbers

TEXT: Final = "text/plain; version=0.0.4"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
END: Final = b"# EOF\n"

PORTION: Final = 10
"""Samples that are written between two looks at the clock: some 0.1 ms."""


class _Part:
    """Some families, as the client library takes them."""

    def __init__(self, parts: Iterable[Family]) -> None:
        self._parts = parts

    def collect(self) -> Iterable[Family]:
        return self._parts


def media_type(accept: str) -> str:
    """What a scraper gets that sends this as Accept."""
    for each in accept.split(","):
        name, _, rest = each.strip().partition(";")
        if name.strip().lower() == "application/openmetrics-text" and not _is_refused(rest):
            return OPEN_METRICS
    return TEXT


async def expose(
    numbers: Numbers,
    kind: str,
    with_version: bool,
    pause: Callable[[], Awaitable[object]],
) -> bytes:
    """The text in the format `kind`; pause() is as Slices.pause_if_due()."""
    found = []
    waiting: list[Family] = []
    size = 0
    for family in families(numbers, with_version):
        if len(family.samples) > PORTION:
            for piece in _pieces(family):
                found.append(_without_head(_render([piece], kind), piece is not family))
                await pause()
            continue
        waiting.append(family)
        size += len(family.samples)
        if size >= PORTION:
            found.append(_render(waiting, kind))
            waiting, size = [], 0
            await pause()
    found.append(_render(waiting, kind))
    if kind == OPEN_METRICS:
        found.append(END)
    return b"".join(found)


def _render(parts: list[Family], kind: str) -> bytes:
    if kind != OPEN_METRICS:
        return exposition.generate_latest(_Part(parts))
    text: bytes = open_exposition.generate_latest(_Part(parts))  # type: ignore[no-untyped-call]
    return text.removesuffix(END)


def _pieces(family: Family) -> Iterable[Family]:
    """A family of many samples; the first piece is the family itself."""
    samples = family.samples
    family.samples = samples[:PORTION]
    yield family
    for begin in range(PORTION, len(samples), PORTION):
        piece = Family(family.name, family.documentation, family.type, family.unit)
        piece.samples = samples[begin : begin + PORTION]
        yield piece


def _without_head(text: bytes, is_further: bool) -> bytes:
    """The lines that say what a family is stand once, in front of its samples."""
    if not is_further:
        return text
    return b"".join(line for line in text.splitlines(True) if not line.startswith(b"#"))


def _is_refused(parameters: str) -> bool:
    return any(
        each.partition("=")[0].strip() == "q" and each.partition("=")[2].strip() in ("0", "0.0")
        for each in parameters.split(";")
    )
