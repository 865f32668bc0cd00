"""Where a command about users, roles, rules and bans works: a running broker, or its store.

A broker is asked over its admin API.  If none runs, the same calls are made in this process, on the
store that the configuration names (`mhub.access.direct`).
"""

import sys
from argparse import Namespace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mhub.access.calls import CALLS, request_of
from mhub.control.contract import ControlError
from mhub.ctl.client import NOT_UNDERSTOOD, Api, NoBroker, facts
from mhub.ctl.command import PAGE, BadConfiguration
from mhub.ctl.place import Place, place_of

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
        self._is_found = False
        self._api: Api | None = None  # None: there is no socket
        self._settings: Settings | None = None  # None: only the place is known
        self._direct: DirectAccess | None = None

    def _find(self) -> None:
        """Raises ControlError."""
        args = self._args
        self._is_found = True
        place: Place | None
        if args.config:
            from mhub.config import ConfigError, load

            try:
                self._settings = load(args.config)
            except ConfigError as error:
                print(error, file=sys.stderr)
                raise BadConfiguration from None
            path = self._settings.control.path
            place = Place(socket=path) if path else None
        else:
            place = place_of(args)
        if place is not None:
            self._api = Api(place)

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
        """One call.  Raises ControlError."""
        if not self._is_found:
            self._find()
        reason = getattr(self._args, "reason", "")
        if reason and CALLS[name].changes:
            arguments["reason"] = reason
        if self._direct is None and self._api is not None:
            try:
                return self._ask(self._api, name, arguments)
            except NoBroker:
                if self._settings is None:
                    raise
        return facts(self._in_store(name, arguments))

    def all(self, name: str, what: str, key: str, /, **arguments: object) -> dict[str, Any]:
        """Page after page: the last one, with the `what` of all.

        `key` names what of an item the next page comes behind.
        """
        found: list[dict[str, Any]] = []
        arguments["limit"] = PAGE
        while True:
            page = self(name, **arguments)
            items = page.get(what)
            if not isinstance(items, list):
                raise ControlError(NOT_UNDERSTOOD)
            found += items
            if not items or not page.get("left"):
                return {**page, what: found, "left": 0}
            arguments["after"] = page.get("next") or items[-1][key]

    def _ask(self, api: Api, name: str, arguments: dict[str, object]) -> dict[str, Any]:
        request = request_of(CALLS[name], arguments)
        path = request.path.removeprefix("/")
        return facts(
            api.call(request.method, path, request.query, request.body, request.version) or {}
        )

    def _in_store(self, name: str, arguments: dict[str, object]) -> object:
        from mhub.access.direct import DirectAccess, InUse

        assert self._settings is not None
        if self._direct is None:
            try:
                self._direct = DirectAccess(self._settings, makes=CALLS[name].changes)
            except InUse as error:
                # One that has just been started, or whose socket is off.
                if self._api is None:
                    raise
                try:
                    return self._ask(self._api, name, arguments)
                except NoBroker:
                    raise error from None
            print(f"no broker runs: using {self._direct.name}", file=sys.stderr)
        return self._direct.call(name, arguments)
