"""What all commands have in common: subcommands, options, results, and how mistakes are told.

The exit status is 0; 1 if it could not be done, with one line on stderr; 2 for a command line that
is wrong.
"""

import json
import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter, _SubParsersAction
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from difflib import get_close_matches
from typing import Any, Final, Generic, TypeVar

from mhub.control.contract import ControlError
from mhub.ctl.client import Api, Refused
from mhub.ctl.place import add_place, place_of
from mhub.ctl.table import safe, table

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2

UNBOUND: Final = 1 << 30
PAGE: Final = 1000
"""Items that are asked for at a time: the most that the API gives."""

C = TypeVar("C")
Do = Callable[[C, Namespace], int | None]


class BadConfiguration(ControlError):
    """It was said what is wrong."""


@contextmanager
def api_of(args: Namespace) -> Iterator[Api]:
    """Raises ControlError, and OSError of a file that is named."""
    place = place_of(args)
    if place is None:
        raise BadConfiguration
    api = Api(place)
    api.reason = getattr(args, "reason", None) or ""
    yield api


class Commands(Generic[C]):
    """`mhub ctl NAME COMMAND ...`: subcommands, each with the options that say where it works."""

    def __init__(
        self,
        name: str,
        description: str,
        opened: Callable[[Namespace], AbstractContextManager[C]],
    ) -> None:
        self.parser = ArgumentParser(prog=f"mhub ctl {name}", description=description)
        self._commands: _SubParsersAction[ArgumentParser] = self.parser.add_subparsers(
            dest="what", required=True, metavar="COMMAND"
        )
        self._opened = opened
        self._do: dict[str, Do[C]] = {}

    def add(
        self, name: str, text: str, do: Do[C], more: str = "", changes: bool = False
    ) -> ArgumentParser:
        """`changes`: a reason can be given, as `admin.require_reason` may want it."""
        command = self._commands.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}.{more and ' '}{more}"
        )
        if changes:
            add_reason(command)
        add_common(command)
        self._do[name] = do
        return command

    def run(self, argv: list[str]) -> int:
        if argv and not argv[0].startswith("-") and argv[0] not in self._do:
            return unknown(self.parser.prog, argv[0], self._do)
        args = self.parser.parse_args(argv)
        return run(f"{self.parser.prog} {args.what}", self._opened, self._do[args.what], args)


class Single:
    """`mhub ctl NAME ...`: a command of its own, over the API."""

    def __init__(self, name: str, description: str, do: Do[Api], epilog: str = "") -> None:
        self.parser = ArgumentParser(
            prog=f"mhub ctl {name}", description=description, epilog=epilog or None
        )
        self._do = do

    def run(self, argv: list[str]) -> int:
        add_common(self.parser)
        return run(self.parser.prog, api_of, self._do, self.parser.parse_args(argv))


def unknown(prog: str, name: str, known: Mapping[str, object]) -> int:
    near = get_close_matches(name, known, n=1)
    hint = f'did you mean "{near[0]}"?' if near else "expected one of " + ", ".join(known)
    print(f'{prog}: no command "{safe(name)}"; {hint}', file=sys.stderr)
    return USAGE


def add_common(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print all there is, as JSON")
    add_place(parser)


def add_reason(parser: ArgumentParser) -> None:
    parser.add_argument("--reason", default="", metavar="TEXT", help="why it is done, for the log")


def run(
    prog: str, opened: Callable[[Namespace], AbstractContextManager[C]], do: Do[C], args: Namespace
) -> int:
    """Do it; what goes wrong is one line."""
    try:
        with opened(args) as calls:
            return do(calls, args) or OK
    except BadConfiguration:
        pass
    except BrokenPipeError:  # the reader of our output has had enough: no mistake of ours
        raise
    except OSError as error:
        # Without the number, which says nothing to most people.
        at = f"{error.filename}: " if error.filename else ""
        print(f"{prog}: {at}{error.strerror or error}", file=sys.stderr)
    except Refused as error:
        about = getattr(args, "about", "")
        who = f"{safe(str(getattr(args, about)))}: " if about and error.status == 404 else ""
        print(f"{prog}: {who}{safe_text(str(error))}", file=sys.stderr)
    except (ControlError, ValueError) as error:
        print(f"{prog}: {safe_text(str(error))}", file=sys.stderr)
    return FAILED


def safe_text(text: str) -> str:
    """A text of ours or of the broker's: what it quotes may act on a terminal."""
    # A reload that is refused has a line for each mistake.
    return "".join(each if each.isprintable() or each == "\n" else safe(each) for each in text)


def show(args: Namespace, found: object, text: Callable[[], Sequence[str]]) -> None:
    """As JSON, or as the lines of text()."""
    if args.json:
        print(as_json(found))
        return
    for line in text():
        print(line)


def as_json(found: object) -> str:
    # Escaped: a name may hold what acts on a terminal.
    return json.dumps(found, indent=2)


def rows(
    found: Sequence[Mapping[str, str]],
    flexible: Sequence[str],
    empty: str,
    right: frozenset[str] = frozenset(),
    optional: Sequence[str] = (),
) -> list[str]:
    """A table, or on stderr that there is nothing."""
    if not found:
        print(empty, file=sys.stderr)
        return []
    return table(found, right, flexible, width(), optional)


def width() -> int:
    """What lines are cut to: nothing is, in a file or a pipe."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        import shutil  # which imports all that reads archives

        return shutil.get_terminal_size().columns
    return 1 << 20


# Lists


def add_paging(parser: ArgumentParser, limit: int = 100) -> None:
    parser.add_argument(
        "--limit",
        type=whole,
        default=limit,
        metavar="N",
        help="show at most N (%(default)s); 0 shows all",
    )
    parser.add_argument(
        "--cursor", default="", metavar="TEXT", help="go on where an earlier list has ended"
    )


def add_scope(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--this-node", action="store_true", help="in a cluster, ask only the node that answers"
    )


def scope_of(args: Namespace) -> dict[str, str]:
    """The query of a command with add_scope()."""
    return {"scope": "node"} if args.this_node else {}


def pages(
    api: Api, path: str, items: str, args: Namespace, **query: object
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Page after page, until there are enough: the items, and the last page."""
    wanted = args.limit or UNBOUND
    found: list[dict[str, Any]] = []
    query = {name: value for name, value in query.items() if value not in ("", None)}
    if args.cursor:
        query["cursor"] = args.cursor
    missing: dict[str, Any] = {}
    while True:
        query["limit"] = min(wanted - len(found), PAGE)
        page = api.get(path, **query)
        these = page.get(items)
        if not isinstance(these, list):
            raise ControlError("the broker gives an answer that this mhub does not understand")
        found += these
        missing.update(missing_of(page))
        if not page.get("next") or len(found) >= wanted:
            if missing:
                page["missing"] = page.get("missing") or list(missing)
            return found, page
        query["cursor"] = page["next"]


def missing_of(page: Mapping[str, Any]) -> dict[str, Any]:
    """Nodes that did not answer, and why if that is known."""
    missing = page.get("missing") or ()
    if isinstance(missing, Mapping):
        return dict(missing)
    return {
        str(each.get("node", "?") if isinstance(each, Mapping) else each): "" for each in missing
    }


def tell_rest(shown: int, page: Mapping[str, Any], what: str) -> None:
    """On stderr: that there are more, and who did not answer."""
    if page.get("next"):
        left = page.get("left")
        of = f" of {shown + int(left)}" if isinstance(left, int) else ""
        print(
            f"\n{shown}{of} {what}: --limit 0 shows all, and the next come with\n"
            f"--cursor {page['next']}",
            file=sys.stderr,
        )
    tell_missing(page)


def tell_missing(page: Mapping[str, Any]) -> None:
    missing = missing_of(page)
    if missing:
        names = ", ".join(
            safe(name) + (f" ({safe(str(why))})" if why else "") for name, why in missing.items()
        )
        print(f"not answered in time: {names}", file=sys.stderr)


def whole(text: str) -> int:
    """Of argparse, which makes a message of the name and ValueError."""
    number = int(text)
    if number < 0:
        raise ValueError
    return number


whole.__name__ = "number"


def raw_help(parser: ArgumentParser) -> None:
    """Keep the lines of its texts as they are."""
    parser.formatter_class = RawDescriptionHelpFormatter
