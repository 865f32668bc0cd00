"""Histograms drawn in text, on a logarithmic axis."""

from collections.abc import Sequence
from math import floor, log10
from typing import Final

from mhub.bench.load.histogram import Histogram
from mhub.bench.units import span

_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_PLAIN: Final = " .:-=+*#@"
_WIDTH: Final = 79
_BAR: Final = 44


def strips(rows: Sequence[tuple[str, Histogram]], title: int, plain: bool = False) -> str:
    """One line for each histogram, all above the same axis; the highest column is the fullest."""
    values = [value for _, histogram in rows for value, _ in histogram.filled()]
    low = floor(log10(max(1.0, min(values))))
    high = floor(log10(max(1.0, max(values)))) + 1
    columns = max(3, (_WIDTH - title - 1) // (high - low))  # to a decade
    lines = ["latency, each row by itself; the axis is logarithmic"]
    for name, histogram in rows:
        cells = [0] * (columns * (high - low))
        for value, times in histogram.filled():
            at = int((log10(max(1.0, value)) - low) * columns)
            cells[min(at, len(cells) - 1)] += times
        lines.append(f"{name:{title}}{_shades(cells, plain)}".rstrip())
    ruler = "".join(f"|{_edge(10.0**decade):{columns - 1}}" for decade in range(low, high))
    return "\n".join([*lines, f"{'':{title}}{ruler}".rstrip()])


def _shades(cells: Sequence[int], plain: bool) -> str:
    signs = _PLAIN if plain else _BLOCKS
    most = max(cells) or 1
    # Whatever is there at all is seen: the lowest sign but one is for everything down to one.
    return "".join(signs[0 if not n else max(1, round(n * 8 / most))] for n in cells)


def bars(title: str, histogram: Histogram, plain: bool = False) -> str:
    """One line for each step of 1, 2, 5, 10, … from the fastest to the slowest."""
    edges = [m * 10.0**d for d in range(13) for m in (1, 2, 5)]
    counts = [0] * (len(edges) + 1)
    for value, times in histogram.filled():
        counts[sum(value >= edge for edge in edges)] += times
    used = [i for i, n in enumerate(counts) if n]
    most = max(counts) or 1
    lines = [title]
    for i in range(used[0], used[-1] + 1):
        name = f"under {_edge(edges[min(i, len(edges) - 1)])}"
        length = counts[i] * _BAR / most
        bar = "#" * max(round(length), 1 if counts[i] else 0) if plain else _bar(length, counts[i])
        lines.append(f"{name:>14} {bar:{_BAR}} {counts[i] / histogram.total:>7.2%}")
    return "\n".join(lines)


def _edge(nanoseconds: float) -> str:
    return span(nanoseconds).replace(".00", "").replace(".0", "")


def _bar(length: float, number: int) -> str:
    whole, eighths = divmod(round(length * 8), 8)
    if number and not whole and not eighths:
        eighths = 1
    return "█" * whole + " ▏▎▍▌▋▊▉"[eighths].strip()
