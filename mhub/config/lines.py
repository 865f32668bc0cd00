"""Which line of a TOML file sets which key.

`tomllib` gives values without places.  This scanner reads a text that `tomllib` has accepted, so it
need not judge anything: it walks headers and keys, and steps over the values.  Keys inside inline
tables are not looked at; `problems.Report` takes the line of what holds them.
"""

import re
from typing import Final

_NAME: Final = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEY: Final = rf"{_NAME}(?:[ \t]*\.[ \t]*{_NAME})*"
_BLANK: Final = re.compile(r"(?:\s|#[^\n]*)+")
_HEADER: Final = re.compile(rf"(\[\[?)[ \t]*({_KEY})[ \t]*\]\]?")
_ASSIGN: Final = re.compile(rf"({_KEY})[ \t]*=")
_PART: Final = re.compile(_NAME)
_VALUE: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\]|\\.)*"|\'[^\']*\'|#[^\n]*|[\[\]{}\n]|[^"\'#\[\]{}\n]+',
    re.DOTALL,
)


def line_numbers(text: str) -> dict[str, int]:
    """Map paths such as `listeners[1].port` to line numbers, counted from 1."""
    found: dict[str, int] = {}
    counts: dict[str, int] = {}
    table = ""
    at = 0
    while at < len(text):
        if blank := _BLANK.match(text, at):
            at = blank.end()
            continue
        line = text.count("\n", 0, at) + 1
        if header := _HEADER.match(text, at):
            names = _parts(header[2])
            if header[1] == "[[":
                bare = join(_resolve("", names[:-1], counts), names[-1])
                counts[bare] = counts.get(bare, 0) + 1
                found.setdefault(bare, line)
            table = _resolve("", names, counts)
            found.setdefault(table, line)
            at = header.end()
        elif assign := _ASSIGN.match(text, at):
            path = table
            for name in _parts(assign[1]):
                path = join(path, name)
                found.setdefault(path, line)
            at = _after_value(text, assign.end())
        else:
            break  # not TOML as we know it: what was found so far still helps
    return found


def join(path: str, name: str) -> str:
    """The path of the key `name` in the table at `path`."""
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        name = f'"{name}"'
    return f"{path}.{name}" if path else name


def _parts(key: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(key)]


def _resolve(path: str, names: list[str], counts: dict[str, int]) -> str:
    """The path that a header means: a name that is a list of tables stands for its last table."""
    for name in names:
        path = join(path, name)
        if path in counts:
            path = f"{path}[{counts[path] - 1}]"
    return path


def _after_value(text: str, at: int) -> int:
    depth = 0
    while match := _VALUE.match(text, at):
        token = match[0]
        at = match.end()
        if token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
        elif token == "\n" and depth == 0:
            break
    return at
