"""Any bytes, cut anywhere: what the property tests of the sans-I/O parts share."""

from itertools import pairwise

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

steady = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=200,
    suppress_health_check=[HealthCheck.too_slow],  # a machine may be busy with other tests
)
"""The same examples on every run, and no verdict on how fast the machine is."""

edges = st.lists(st.integers(0, 10_000), max_size=12)
"""Where to cut; `cut` brings the numbers into range."""


def cut(data: bytes, at: list[int]) -> list[bytes]:
    """`data` in pieces, some of them empty."""
    marks = [0, *sorted(mark % (len(data) + 1) for mark in at), len(data)]
    return [data[start:stop] for start, stop in pairwise(marks)]


def one_by_one(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]
