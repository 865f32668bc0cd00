"""Where a command about users, roles, rules and bans works: a running broker, or its store.

A broker is asked through its control socket.  If none runs, the same calls are made in this
process, on the store that the configuration names (`mhub.access.direct`).
"""

import sys
from argparse import ArgumentParser, Namespace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mhub.control.contract import ControlError
from mhub.ctl.client import NoBroker, call, facts
from mhub.ctl.place import socket_of

if TYPE_CHECKING:
    from mhub.access.direct import DirectAccess
    from mhub.config import Settings

PLACE_HELP = (
    "With --config and no broker that answers, the command works on the store of that"
    " configuration itself."
)


class RegistryCalls:
    """Used as a context: what was opened is closed at the end.

    Nothing is looked for before the first call: a command that works on files needs no broker.
    """

    def __init__(self, args: Namespace) -> None:
        self._args = args
        self._path: str | None = None  # "": there is no socket
        self._settings: Settings | None = None  # None: only the socket is known
        self._direct: DirectAccess | None = None

    def _find(self) -> None:
        """Raises ControlError, and ConfigError."""
        args = self._args
        if args.config and not args.socket:
            from mhub.config import load

            self._settings = load(args.config)
            self._path = self._settings.control.path
        else:
            self._path = socket_of(args, "broker")

    def __enter__(self) -> "RegistryCalls":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._direct is not None:
            self._direct.close()

    def __call__(self, name: str, /, **arguments: object) -> dict[str, Any]:
        """One call.  Raises ControlError, and ConfigError."""
        if self._path is None:
            self._find()
        if self._direct is None and self._path:
            try:
                return facts(call(self._path, f"access/{name}", arguments))
            except NoBroker:
                if self._settings is None:
                    raise
        return facts(self._in_store(name, arguments))

    def all(self, name: str, what: str, key: str, /, **arguments: object) -> dict[str, Any]:
        """Page after page: the last one, with the `what` of all.

        `key` names what of an item the next page comes behind.
        """
        found: list[dict[str, Any]] = []
        while True:
            page = self(name, **arguments)
            items = page.get(what)
            if not isinstance(items, list):
                raise ControlError("the broker gives an answer that this mhub does not understand")
            found += items
            if not items or not page.get("left"):
                return {**page, what: found, "left": 0}
            arguments["after"] = items[-1][key]

    def _in_store(self, name: str, arguments: dict[str, object]) -> object:
        from mhub.access.calls import CALLS
        from mhub.access.direct import DirectAccess, InUse

        assert self._settings is not None
        if self._direct is None:
            try:
                self._direct = DirectAccess(self._settings, makes=CALLS[name].changes)
            except InUse as error:
                # One that has just been started, or whose socket is off.
                if not self._path:
                    raise
                try:
                    return call(self._path, f"access/{name}", arguments)
                except NoBroker:
                    raise error from None
            print(f"no broker runs: using {self._direct.name}", file=sys.stderr)
        return self._direct.call(name, arguments)


def add_place(parser: ArgumentParser) -> None:
    from mhub.ctl.place import add_place as add

    add(parser, "broker")
