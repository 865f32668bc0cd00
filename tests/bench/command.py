"""Runs the command in this process, and keeps what it says."""

import contextlib
import io
import json
from typing import Any, NamedTuple

from mhub.bench.cli import main


class Said(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def results(self) -> list[dict[str, Any]]:
        """Of a run with --json."""
        return list(json.loads(self.out)["results"])


def bench(*argv: str) -> Said:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(argv)
        except SystemExit as stop:  # argparse
            status = int(stop.code or 0)
    return Said(status, out.getvalue(), err.getvalue())
