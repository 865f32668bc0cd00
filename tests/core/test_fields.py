"""The tables of fields say what their classes say."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mhub.core.fields import Shape
from mhub.core.records import DELIVERY, MESSAGE, SESSION, SUBSCRIPTION, ChangeRecord
from tests.core.shapes import blank

NOT_STORED = {"born", "batch", "change", "dead"}  # the journal's own


def attributes(record: Any) -> set[str]:
    compiled = getattr(type(record), "__mypyc_attrs__", None)
    return set(vars(record) if compiled is None else compiled)


class ShapeTests(SynchronousTestCase):
    shapes: tuple[Shape[Any], ...] = (SESSION, SUBSCRIPTION, MESSAGE, DELIVERY)

    def test_no_field_is_forgotten(self) -> None:
        """Whatever a class has is in its table, or known to end with the process."""
        for shape in self.shapes:
            found = attributes(blank(shape)) - set(shape.names)
            self.assertLessEqual(found, NOT_STORED, shape.make)

    def test_defaults_are_those_of_the_class(self) -> None:
        for shape in self.shapes:
            record = shape.make(*(field.kind.empty for field in shape.fields[:2]))
            self.assertEqual(shape.values(record), tuple(field.default for field in shape.fields))

    def test_a_value_has_the_type_of_its_kind(self) -> None:
        for shape in self.shapes:
            for field in shape.fields:
                self.assertIs(type(field.default), type(field.kind.empty), field.name)

    def test_flags_may_come_as_integers(self) -> None:
        """As SQLite and Redis have them."""
        values = [1, "a", 2, 1, 0, 7]
        record = SUBSCRIPTION.record(values)
        self.assertIs(record.no_local, True)
        self.assertIs(record.retain_as_published, False)

    def test_a_copy(self) -> None:
        record = DELIVERY.make(1, 2)
        record.share = "g"
        record.change = ChangeRecord(1, 2, 3, False)
        copied = DELIVERY.copy(record)
        record.share = ""
        self.assertEqual((copied.sid, copied.seq, copied.share), (1, 2, "g"))
        self.assertIsNone(copied.change)
