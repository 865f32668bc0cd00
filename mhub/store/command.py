"""`mhub store check|export|import`: look into a store, and move it to another one.

For an export the broker may run: a SQLite file is read in one transaction, anything else by the
broker itself, which is asked through its control socket.  The others need a store that is not used.

A file to import is checked as a whole before the reactor starts; what follows is a coroutine, which
a signal cancels, so that files and connections are closed in any case.
"""

import os
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from shutil import copyfileobj
from typing import Any, BinaryIO, Final, TextIO

from twisted.internet.defer import CancelledError, Deferred

from mhub.config import ConfigError, Settings, load
from mhub.config.settings import StoreSettings
from mhub.store.contract import Store, StoreError, StoreInUse
from mhub.store.jsonl import HEADER, BadLine, Survey, batches, records, to_line
from mhub.store.make import make_store

OK: Final = 0
FAILED: Final = 1

NAMES: Final = {
    "session": ("session", "sessions"),
    "subscription": ("subscription", "subscriptions"),
    "incoming": ("QoS 2 packet id", "QoS 2 packet ids"),
    "message": ("message", "messages"),
    "delivery": ("delivery", "deliveries"),
    "retained": ("retained message", "retained messages"),
    "registry": ("entry of the registry", "entries of the registry"),
    "note": ("note", "notes"),
}

Counts = Counter[str]


def main(argv: list[str]) -> int:
    """Run one of the commands; the result is the exit status."""
    args = _parser().parse_args(argv)
    try:
        settings = load(args.config)
        if args.what == "export" and _export_running(settings, args):
            return OK
        _refuse(settings.store, args.what)
        if args.what == "check":
            return drive(lambda reactor: check(make_store(settings, reactor), sys.stdout))
        if args.what == "export":
            return _export(settings, args)
        return _import(settings, args)
    except ConfigError as error:
        print(error, file=sys.stderr)
    except BrokenPipeError:  # the reader of our output has had enough: no mistake of ours
        raise
    except (StoreError, BadLine, OSError) as error:
        print(f"mhub store {args.what}: {error}", file=sys.stderr)
    return FAILED


def drive(work: Callable[[Any], Coroutine[Deferred[Any], Any, int]]) -> int:
    """Do `work`, which gets the reactor, to its end; a signal cancels it, and waits for that."""
    from twisted.internet.task import react

    results: list[int] = []
    failures: list[BaseException] = []

    async def run(reactor: Any) -> None:
        doing = Deferred.fromCoroutine(work(reactor))
        ended: Deferred[None] = Deferred()

        def stop() -> Deferred[None]:
            doing.cancel()
            return ended

        reactor.addSystemEventTrigger("before", "shutdown", stop)
        try:
            results.append(await doing)
        except BaseException as error:  # it is raised below, where there is no reactor around it
            failures.append(error)
        ended.callback(None)

    try:
        react(run)
    except SystemExit:  # react() ends in no other way
        pass
    for failure in failures:
        raise KeyboardInterrupt if isinstance(failure, CancelledError) else failure
    return results[0]


async def check(store: Store, out: TextIO) -> int:
    """Print what is wrong with a store, or how much there is in it."""
    counts: Counts = Counter()
    async with _opened(store):
        problems = await store.check()
        if not problems:  # else it may be that not all of it can be read
            async for batch in store.pages():
                counts.update(kind for kind, _ in records(batch))
    for problem in problems:
        print(problem, file=out)
    if problems:
        number = len(problems)
        print(f"{store.name}: {number} problem{'s' if number > 1 else ''}", file=out)
        return FAILED
    print(f"{store.name}: no problems found; {describe(counts)}", file=out)
    return OK


async def export_to(file: BinaryIO, store: Store, progress: "Progress") -> Counts:
    """Write all there is in a store."""
    counts: Counts = Counter()
    async with _opened(store):
        file.write(HEADER)
        async for batch in store.pages():
            for kind, values in records(batch):
                file.write(to_line(kind, values))
                counts[kind] += 1
            progress.show(counts.total())
    file.flush()
    return counts


async def import_from(
    file: BinaryIO, name: str, survey: Survey, store: Store, progress: "Progress"
) -> None:
    """Bring an empty store to what is in a file that has been surveyed."""
    async with _opened(store, time.time()):
        async for batch in store.pages():
            for _ in records(batch):
                raise StoreError(f"{store.name}: not empty; an import needs an empty store")
        stored = 0
        try:
            for batch in batches(file, name, survey.refs):
                await store.commit(batch)
                stored += sum(1 for _ in records(batch))
                progress.show(stored)
        except (StoreError, CancelledError) as error:
            if not stored:
                raise
            text = str(error) or "stopped"
            raise StoreError(
                f"{text}; {store.name} has a part of it: empty it before you try again"
            ) from error


def describe(counts: Counts) -> str:
    """How much there is of each kind, but for what there is nothing of."""
    parts = [f"{counts[kind]} {NAMES[kind][counts[kind] > 1]}" for kind in NAMES if counts[kind]]
    return ", ".join(parts) or "nothing in it"


def _export_running(settings: Settings, args: Namespace) -> bool:
    """Let a running broker export what it has, unless it is in a file; whether one did."""
    control = settings.control.path
    if settings.store.kind == "sqlite" or not control:
        return False
    from mhub.control.contract import ControlError
    from mhub.ctl.client import Api, NoBroker
    from mhub.ctl.place import Place

    counts: Counts = Counter()
    progress = Progress(sys.stderr)
    try:
        api = Api(Place(socket=control))
        api.get("status")  # whether there is one, before a file is made
        with _replaced(args.output) as file, progress:
            for line in api.lines("GET", "store/export"):
                file.write(line)
                counts[line[:24].split(b'"')[3].decode()] += 1
                if counts.total() % 1000 == 0:
                    progress.show(counts.total())
            file.flush()
    except NoBroker:
        return False
    except ControlError as error:
        raise StoreError(str(error)) from None
    _say_exported(f"the broker at {control}", args.output, counts)
    return True


def _say_exported(source: str, output: str, counts: Counts) -> None:
    target = f" to {output}" if output else ""
    # Not to stdout, which may be the export.
    print(f"exported from {source}{target}: {describe(counts)}", file=sys.stderr)


def _export(settings: Settings, args: Namespace) -> int:
    progress = Progress(sys.stderr)

    async def work(reactor: Any) -> int:
        store = make_store(settings, reactor)
        with _replaced(args.output) as file, progress:
            try:
                counts = await export_to(file, store, progress)
            except StoreInUse:  # nothing is written yet: the broker's file is read beside it
                from mhub.store.sqlite_snapshot import SqliteSnapshot

                store = SqliteSnapshot(reactor, settings.store.path)
                counts = await export_to(file, store, progress)
        _say_exported(store.name, args.output, counts)
        return OK

    return drive(work)


def _import(settings: Settings, args: Namespace) -> int:
    progress = Progress(sys.stderr)
    name = "stdin" if args.file == "-" else args.file
    from mhub.access.directory import check_entry

    with _seekable(args.file) as file:
        survey = Survey(file, name, check_entry)

        async def work(reactor: Any) -> int:
            store = make_store(settings, reactor)
            with progress:
                await import_from(file, name, survey, store, progress)
            print(f"imported into {store.name}: {describe(survey.counts)}")
            return OK

        return drive(work)


def _refuse(store: StoreSettings, what: str) -> None:
    """Raise StoreError where there cannot be anything to do."""
    if store.kind == "memory":
        raise StoreError(
            f'store.kind is "memory", which ends with the broker: there is nothing to {what}'
            + (", as no broker runs" if what == "export" else "")
            if what != "import"
            else 'store.kind is "memory": nothing that is imported would remain'
        )
    # To open it would make it.
    if what != "import" and store.kind == "sqlite" and not os.path.exists(store.path):
        raise StoreError(f"there is no {store.path}: nothing to {what}")


@asynccontextmanager
async def _opened(store: Store, now: float = 0.0) -> AsyncIterator[None]:
    # At the time 0 nothing has expired: who looks at a store shall not change it.
    try:
        await store.open(now)
        yield
    finally:
        await store.close()


@contextmanager
def _replaced(path: str) -> Iterator[BinaryIO]:
    """A file that gets its name once all of it is written, or stdout when there is no name."""
    if not path:
        yield sys.stdout.buffer
        return
    folder, name = os.path.split(os.path.abspath(path))
    handle, scratch = tempfile.mkstemp(prefix=f".{name}.", dir=folder)  # for its owner only
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise


@contextmanager
def _seekable(path: str) -> Iterator[BinaryIO]:
    """A file that can be read twice: what comes through a pipe is put aside first."""
    with sys.stdin.buffer if path == "-" else open(path, "rb") as given:
        if given.seekable():
            yield given
            return
        with tempfile.TemporaryFile() as spooled:
            copyfileobj(given, spooled)
            yield spooled


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="mhub store",
        description="Look into the store of a broker, or move it to another place or kind. An"
        " export can be made while the broker runs; check and import need it stopped.",
    )
    commands = parser.add_subparsers(dest="what", required=True, metavar="COMMAND")
    for what, text in (
        ("check", "say what is wrong with the store; the exit status is 1 if anything is"),
        ("export", "write all there is in the store as JSON Lines, while the broker runs or not"),
        ("import", "bring an empty store to what an export has"),
    ):
        command = commands.add_parser(what, help=text, description=f"{text[0].upper()}{text[1:]}.")
        command.add_argument(
            "--config", required=True, metavar="FILE", help="the configuration, a TOML file"
        )
        if what == "export":
            command.add_argument(
                "--output", default="", metavar="FILE", help="write to FILE instead of stdout"
            )
        elif what == "import":
            command.add_argument("file", metavar="FILE", help="the export; - is stdin")
    return parser


class Progress:
    """How many records there were so far, on a terminal only."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_seen = out.isatty()

    def show(self, count: int) -> None:
        if self._is_seen:
            self._out.write(f"\r{count} records")
            self._out.flush()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        if self._is_seen:
            self._out.write("\r\x1b[K")
            self._out.flush()
