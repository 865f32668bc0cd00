"""hypothesis: records with any values that their fields may have.

They come from the table of fields, so a field that is new is tried without being named here.
"""

from typing import Any, TypeVar

from hypothesis import strategies as st

from mhub.core.fields import Kind, Shape
from mhub.core.records import DELIVERY, MESSAGE, SESSION, SUBSCRIPTION

T = TypeVar("T")

text = st.text(max_size=8)
data = st.binary(max_size=8)
u53 = st.integers(0, (1 << 53) - 1)
u16 = st.integers(0, 0xFFFF)


def values_of(kind: Kind) -> st.SearchStrategy[Any]:
    match kind.name:
        case "integer" | "clock":
            return st.integers(kind.low, kind.high) | st.sampled_from([kind.low, kind.high])
        case "flag":
            return st.booleans()
        case "time":
            return st.floats(allow_nan=False, allow_infinity=False)
        case "text":
            return text
    return data


def records(shape: Shape[T]) -> st.SearchStrategy[T]:
    return st.tuples(*(values_of(field.kind) for field in shape.fields)).map(shape.record)


sessions = records(SESSION)
subscriptions = records(SUBSCRIPTION)
messages = records(MESSAGE)
deliveries = records(DELIVERY)


def blank(shape: Shape[T]) -> T:
    return shape.record([field.kind.empty for field in shape.fields])
