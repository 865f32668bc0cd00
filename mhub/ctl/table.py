"""Text of clients on a terminal: nothing in it acts on the terminal, and columns fit its width."""

from collections.abc import Mapping, Sequence
from typing import Final
from unicodedata import combining, east_asian_width

CUT: Final = "…"
GAP: Final = "  "
LEAST: Final = 8
"""So many cells of a text stay in a column, however narrow the terminal is."""

READABLE: Final = 14
"""Before texts are shorter than this, columns that are optional are left out."""


def safe(text: str) -> str:
    r"""Each character that is not printed as itself in the form that $'...' of a shell reads.

    A backslash is doubled, so that a\nb and a line feed between a and b do not look the same.
    """
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(
        letter if letter.isprintable() and letter != "\\" else _escaped(letter) for letter in text
    )


def _escaped(letter: str) -> str:
    code = ord(letter)
    if letter == "\\":
        return "\\\\"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def cells(text: str) -> int:
    """How many places a safe() text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text
    )


def shortened(text: str, most: int) -> str:
    """The beginning of a text that takes more than `most` places."""
    if cells(text) <= most:
        return text
    room = most - 1
    kept = ""
    for letter in text:
        room -= cells(letter)
        if room < 0:
            break
        kept += letter
    return kept + CUT


def table(
    rows: Sequence[Mapping[str, str]],
    right: frozenset[str],
    flexible: Sequence[str],
    width: int,
    optional: Sequence[str] = (),
) -> list[str]:
    """A line with the titles, and one for each row; texts of `flexible` columns may be cut.

    The widest of these is cut first.  Columns in which nothing stands are left out, and those of
    `optional`, in this order, where there is no room for them.
    """
    columns = [name for name in rows[0] if any(row[name] for row in rows)]
    widths = {name: max(len(name), *(cells(row[name]) for row in rows)) for name in columns}
    for name in optional:
        if _least(widths, flexible) <= width:
            break
        widths.pop(name, None)
    columns = list(widths)
    spare = width - sum(widths.values()) - len(GAP) * (len(columns) - 1)
    while spare < 0:
        widest = max(
            (name for name in flexible if name in widths), key=widths.__getitem__, default=""
        )
        if not widest or widths[widest] <= LEAST:
            break
        widths[widest] -= 1
        spare += 1
    lines = []
    for row in ({name: name for name in columns}, *rows):
        parts = []
        for name in columns:
            text = shortened(row[name], widths[name])
            fill = " " * (widths[name] - cells(text))
            parts.append(fill + text if name in right else text + fill)
        lines.append(GAP.join(parts).rstrip())
    return lines


def _least(widths: Mapping[str, int], flexible: Sequence[str]) -> int:
    """How wide a table is whose texts are cut as far as columns are rather left out."""
    return sum(
        min(size, max(READABLE, len(name))) if name in flexible else size
        for name, size in widths.items()
    ) + len(GAP) * (len(widths) - 1)
