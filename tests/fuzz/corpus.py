"""The corpus: a folder for each target, a file for each finding and each hand-made seed."""

from collections.abc import Iterator
from pathlib import Path

from tests.fuzz import bank, script
from tests.helpers import packets as p

HERE = Path(__file__).parent / "corpus"


def files(target: str) -> list[Path]:
    return sorted(path for path in (HERE / target).glob("*") if path.is_file())


def seeds(target: str) -> Iterator[tuple[str, bytes]]:
    """All inputs to begin with: the folder, and what the bank of packets has for the target."""
    for path in files(target):
        yield path.name, path.read_bytes()
    if target == "decoder":
        for vector in bank.ALL:
            yield vector.name, bytes([vector.version % 3]) + vector.data
    elif target == "connection":
        for vector in bank.ALL:
            if vector in bank.CONNECTS:
                steps = [(script.READ, vector.data)]
            else:
                steps = [(script.READ, p.connect("c", vector.version)), (script.READ, vector.data)]
            steps += [(script.TURN, b""), (script.READ, p.pingreq())]
            yield vector.name, script.encode(0, steps)
