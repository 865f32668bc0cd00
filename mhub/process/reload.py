"""A reload: the configuration is checked as a whole, and applied as a whole or refused as a whole.

    file -> load() -> merged() -> prepare() of each part -> apply() of each   -> Reloaded
              |                        | one has failed
              v                        v
         ReloadRefused            discard() of those before it -> ReloadRefused

Invariants
==========

R1  A reload that is refused has changed nothing: settings, sockets, certificates, authenticators,
    rules, links are what they were.  The error names what failed, with file, line and key where it
    is a mistake in the file.
R2  Everything that can fail is done by prepare(), and has no effect that a client, a peer or an
    operator could see: sockets are bound, certificates and rules are read, authenticators are made
    and started.  What it makes is let go by discard().
R3  apply() cannot fail.  All parts apply within one turn of the reactor: no client, no login and no
    message sees some of them with the new settings and others with the old ones.
R4  The settings in force are one object, replaced in that same turn: the old ones, with each key of
    the file that a reload can take (`mhub.config.reloadable`).  All other keys keep the value that
    the broker was started with, and are named until it is restarted.
R5  There is one reload at a time.  A second one waits for the first, and reads the file anew.
R6  Each key that is said to be reloadable belongs to a part.  A reload that has parts missing does
    not begin.

All parts are asked each time, whether their settings have changed or not: the files that settings
name (certificates, rules, secrets, password files) may have new contents under the same name.

A part with settings of its own adds itself by `Reload.add()`, and its keys to
`mhub.config.reloadable.RELOADABLE`.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from twisted.internet.defer import DeferredLock

from mhub.config import ConfigError, Settings
from mhub.config.changes import changes
from mhub.config.reloadable import RELOADABLE, merged
from mhub.log import logger
from mhub.operations.contract import OperationError
from mhub.operations.steering import Reloaded


class ReloadRefused(OperationError):
    """Nothing has changed; the text says why."""


class Prepared(Protocol):
    """What a part has made of new settings."""

    def apply(self) -> None:
        """Put it in force.  Cannot fail."""

    def discard(self) -> None:
        """Another part has failed: let go of it.  Cannot fail."""


class Part(Protocol):
    """Something whose settings can be replaced while it runs."""

    name: str
    """As in RELOADABLE."""

    async def prepare(self, old: Settings, new: Settings) -> Prepared:
        """Do all that can fail.  An exception of `Reload.refusals` is a refusal, with its text."""


class Change:
    """A Prepared that is made of functions."""

    def __init__(
        self, apply: Callable[[], None], discard: Callable[[], None] = lambda: None
    ) -> None:
        self.apply = apply
        self.discard = discard


class PlainPart:
    """One whose settings cannot be wrong: they are only set."""

    def __init__(self, name: str, take: Callable[[Settings, Settings], None]) -> None:
        self.name = name
        self._take = take

    async def prepare(self, old: Settings, new: Settings) -> Prepared:
        return Change(lambda: self._take(old, new))


class Reload:
    """The settings in force, and how they become others."""

    def __init__(
        self,
        settings: Settings,
        read: Callable[[], Awaitable[Settings]] | None,
        refusals: tuple[type[Exception], ...],
    ) -> None:
        """`read` reads the file, and raises ConfigError; None: there is no file."""
        self.settings = settings
        self.read_last = settings  # what the file said at the last reload
        self._read = read
        self._refusals = refusals
        self._parts: list[Part] = []
        self._lock = DeferredLock()
        self._log = logger("broker")

    def add(self, part: Part) -> None:
        """Parts are prepared and applied in this order."""
        self._parts.append(part)

    def missing_parts(self) -> set[str]:
        return {name for name, _ in RELOADABLE.values()} - {part.name for part in self._parts}

    def needs_restart(self) -> tuple[str, ...]:
        return tuple(changes(self.settings, self.read_last))

    async def run(self) -> Reloaded:
        """Raises ReloadRefused."""
        await self._lock.acquire()
        try:
            return await self._run()
        finally:
            self._lock.release()

    async def _run(self) -> Reloaded:
        missing = self.missing_parts()
        if missing:
            raise ReloadRefused(f"the broker cannot reload {', '.join(sorted(missing))} yet")
        new = await self._load()
        before, after = self.settings, merged(self.settings, new)
        prepared = await self._prepare(before, after)
        for each in prepared:
            try:
                each.apply()
            except Exception:
                # R3 is broken: a defect.  The parts that are left still have to follow, as half of
                # the settings would be worse.
                self._log.failure("a defect in mhub, please report it; it hit a reload")
        self.settings = after
        self.read_last = new
        return Reloaded(
            file=new.file if self._read is not None else "",
            in_force=tuple(changes(before, after)),
            needs_restart=tuple(changes(after, new)),
            warnings=new.warnings,
        )

    async def _load(self) -> Settings:
        if self._read is None:
            return self.settings
        try:
            return await self._read()
        except ConfigError as error:
            raise ReloadRefused(str(error)) from error

    async def _prepare(self, before: Settings, after: Settings) -> list[Prepared]:
        prepared: list[Prepared] = []
        try:
            for part in self._parts:
                prepared.append(await part.prepare(before, after))
        except Exception as error:
            for each in prepared:
                each.discard()
            if isinstance(error, (*self._refusals, OperationError)):
                raise ReloadRefused(str(error)) from error
            self._log.failure("a defect in mhub, please report it; it hit a reload")
            raise ReloadRefused(f"a defect: {type(error).__name__}; the log has more") from error
        return prepared
