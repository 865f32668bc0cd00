"""Long results as JSON: the same text as at once, with pauses in between."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from mhub.admin.json_text import PORTION, json_of


@dataclass(frozen=True)
class Item:
    name: str
    rate: float | None


@dataclass(frozen=True)
class Page:
    items: tuple[Item, ...]
    left: int
    series: Mapping[str, tuple[float | None, ...]]
    next: str = ""


class JsonText(SynchronousTestCase):
    def setUp(self) -> None:
        self.pauses = 0

    def pause(self) -> Deferred[None]:
        self.pauses += 1
        return succeed(None)

    def text_of(self, result: object) -> bytes:
        return self.successResultOf(Deferred.fromCoroutine(json_of(result, self.pause)))

    def check(self, result: object) -> None:
        self.assertEqual(self.text_of(result), msgspec.json.encode(result))

    def test_short(self) -> None:
        self.check(Page((Item('"\u00e9', None),), 3, {"a": (1.5, None)}))
        self.assertEqual(self.pauses, 0)

    def test_long_list_of_a_page(self) -> None:
        for count in (PORTION, PORTION + 1, 2 * PORTION, 5 * PORTION - 1):
            items = tuple(Item(f"client {n}", n / 3) for n in range(count))
            self.check(Page(items, 0, {}, "further"))
        self.assertGreater(self.pauses, 8)

    def test_long_list_alone(self) -> None:
        self.check(list(range(1000)))
        self.check([])

    def test_long_series_of_a_mapping(self) -> None:
        long = tuple(None if n % 7 == 0 else n / 7 for n in range(720))
        self.check(Page((), 1, {"in": long, 'o"ut': long, "short": (1.0,)}))
        self.assertGreater(self.pauses, 14)
