"""`mhub ctl store status|export`: the store of a running broker."""

import os
import sys
from argparse import Namespace
from pathlib import Path

from mhub.ctl.access_view import titled
from mhub.ctl.client import Api
from mhub.ctl.command import Commands, api_of, show
from mhub.ctl.figures import number_of, short_count, short_size
from mhub.ctl.table import safe


def main(argv: list[str]) -> int:
    """Run one of the commands; the result is the exit status."""
    commands = Commands(
        "store",
        "The store of a running broker. `mhub store` works on that of one that does not run.",
        api_of,
    )
    commands.add("status", "show the store", _status)
    export = commands.add(
        "export",
        "write sessions and messages as JSON Lines, as `mhub store export` does",
        _export,
        "It has secrets in it: payloads, and the hashes of passwords.",
    )
    export.add_argument("--output", default="", metavar="FILE", help="write there, not to stdout")
    return commands.run(argv)


def _status(api: Api, args: Namespace) -> None:
    found = api.get("store")
    text = titled(
        ("store", [safe(str(found.get("name", "-")))]),
        ("state", [safe(str(found.get("state", "-")))]),
        (
            "commits",
            [
                f"{short_count(number_of(found, 'commits'))},"
                f" {short_count(number_of(found, 'failures'))} failed"
            ],
        ),
        ("on their way", [f"{short_size(number_of(found, 'pending_bytes'))}B"]),
        ("behind", [f"{short_count(number_of(found, 'behind'))} times"]),
    )
    show(args, found, lambda: text)


def _export(api: Api, args: Namespace) -> None:
    lines = api.lines("GET", "store/export")
    written = 0
    if not args.output:
        sys.stdout.flush()
        for line in lines:
            sys.stdout.buffer.write(line)
            written += 1
        sys.stdout.buffer.flush()
    else:
        # What is there stays until all of it has come.
        part = Path(f"{args.output}.part")
        try:
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                for line in lines:
                    file.write(line)
                    written += 1
            part.replace(args.output)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    target = f" to {args.output}" if args.output else ""
    # Not to stdout, which may be the export.
    print(f"exported {max(written - 1, 0)} records{target}", file=sys.stderr)
