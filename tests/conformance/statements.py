"""Which test shows which statement of the specifications.

A test names the statements that it holds the broker to:

    @statement("3.1.1", "MQTT-3.1.0-1", "MQTT-4.8.0-1")
    def test_first_packet_other_than_connect_closes(self) -> None:

The two specifications use the same ids for different statements, so the version is part of the
key.  An id that its CSV does not have fails at import.
"""

import csv
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

HERE = Path(__file__).parent
FILES = {"3.1.1": HERE / "mqtt311.csv", "5": HERE / "mqtt5.csv"}

Test = TypeVar("Test", bound=Callable[..., Any])

shown_by: dict[tuple[str, str], list[str]] = {}
"""(version, statement id) -> the tests that name it, as module.Class.method."""


@dataclass(frozen=True)
class Statement:
    """A row of the CSV files."""

    spec: str
    id: str
    section: str
    side: str
    testable: str
    summary: str


@cache
def statements(spec: str) -> dict[str, Statement]:
    """The statements of one specification by id, in the order of the document."""
    with FILES[spec].open(newline="", encoding="utf-8") as file:
        return {row["id"]: Statement(spec=spec, **row) for row in csv.DictReader(file)}


def statement(spec: str, *ids: str) -> Callable[[Test], Test]:
    """Marks a test that shows these statements of one specification."""
    for id in ids:
        if id not in statements(spec):
            raise LookupError(f"MQTT {spec} has no statement {id}")

    def mark(test: Test) -> Test:
        name = f"{test.__module__}.{test.__qualname__}"
        for id in ids:
            tests = shown_by.setdefault((spec, id), [])
            if name not in tests:
                tests.append(name)
        return test

    return mark


def load_tests_of_all_chapters() -> None:
    """Import every test module here, so that `shown_by` is whole."""
    for module in pkgutil.iter_modules([str(HERE)]):
        if module.name.startswith("test_mqtt"):
            importlib.import_module(f"{__package__}.{module.name}")
