"""What was wrong with a configuration file, gathered so that one run reports all of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True)
class Problem:
    """One thing to mend: its key (empty: the whole file), its line (0: unknown), what it is."""

    key: str
    line: int
    text: str

    def render(self, file: str) -> str:
        where = f"{file}:{self.line}" if self.line else file
        return f"{where}: {self.key}: {self.text}" if self.key else f"{where}: {self.text}"


class ConfigError(Exception):
    """The file cannot be used.  `str()` is the whole report, one line for each problem."""

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        super().__init__("\n".join(problem.render(file) for problem in self.problems))


class Wrong(Exception):
    """A value is not what its key takes; the caller knows the key and the value."""

    def __init__(self, expected: str, hint: str = "") -> None:
        super().__init__(expected)
        self.expected = expected
        self.hint = hint


class Report:
    """Collects problems by key, and knows the line of each key."""

    def __init__(self, lines: Mapping[str, int]) -> None:
        self.lines = lines
        # False: only the text is looked at.  Who may have a text checked need not be somebody who
        # may read the files of this machine, and what is wrong with one tells what is in it.
        self.reads_files = True
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def add(self, key: str, text: str) -> None:
        self.problems.append(Problem(key, self._line(key), text))

    def warn(self, key: str, text: str) -> None:
        self.warnings.append(Problem(key, self._line(key), text))

    def covers(self, key: str) -> bool:
        """Whether this key has a problem already, so that a later check need not add another."""
        return any(problem.key == key for problem in self.problems)

    def _line(self, key: str) -> int:
        # The inside of an inline table or list has no line of its own: take that of what holds it.
        while key and key not in self.lines:
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        return self.lines.get(key, 0)


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that `word` was probably meant to be, or nothing."""
    found = get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return found[0] if found else ""


def describe(value: object) -> str:
    """A value from a TOML file as the person who wrote it would recognise it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        short = value if len(value) <= 60 else value[:57] + "..."
        return '"' + short.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, dict):
        return "a table"
    return f"the date or time {value}"
