"""The pure build in a process of its own: what it makes of the same bytes.

`python -m tests.fuzz.peer` reads lines "TARGET HEX" and answers each with what the target returned,
as a line.  `Peer` is the other end, for a test that runs on the compiled build.
"""

import os
import subprocess
import sys


def outcome(target: str, data: bytes) -> str:
    """What a target makes of some bytes, in one line; an exception is an outcome, too."""
    from tests.fuzz.targets import TARGETS

    try:
        return repr(TARGETS[target](data))
    except Exception as error:
        return f"{type(error).__name__}: {error}".replace("\n", " ")


class Peer:
    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.peer"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.build = self._read()

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the peer has ended with {self._process.wait()}"
        return line.rstrip("\n")

    def outcome(self, target: str, data: bytes) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{target} {data.hex()}\n")
        self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait(10)


def main() -> None:
    from tests.fuzz.sources import only_sources

    only_sources()
    import mhub.core.connection

    print("pure" if mhub.core.connection.__file__.endswith(".py") else "compiled", flush=True)
    for line in sys.stdin:
        target, _, data = line.rstrip("\n").partition(" ")
        print(outcome(target, bytes.fromhex(data)), flush=True)


if __name__ == "__main__":
    main()
