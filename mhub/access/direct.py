"""The access interface on a store, for commands that are used while no broker runs.

The hub that is made here has nothing but the registry: sessions and messages stay in the store as
they are, and nothing of them expires.  The reactor runs in a thread of its own, so that the command
can call and wait as it does with a broker.  A commit that fails is not tried again: the command
fails, and says why.
"""

import json
import os
import secrets
import threading
import time
from typing import Any, Final

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import blockingCallFromThread
from twisted.python.failure import Failure

from mhub.access.access import Access
from mhub.access.calls import CALLS, perform
from mhub.access.directory import Directory
from mhub.access.index import Index
from mhub.access.policy import PolicyError
from mhub.access.seeding import seed
from mhub.access.service import PolicyFile, revision_of
from mhub.auth import hashes
from mhub.auth.users import make_verifier
from mhub.auth.wiring import costs_of
from mhub.config import Settings
from mhub.config.access import REGISTRY
from mhub.config.auth import PasswordSettings
from mhub.control.contract import ControlError
from mhub.core.events import Events
from mhub.core.hub import Hub, HubSettings
from mhub.core.journal import Journal
from mhub.core.principal import Principal
from mhub.core.records import HEAD_SIZE, MARKS_SIZE, Batch, Contents
from mhub.core.registry import PREFIX, Registry
from mhub.core.restore import restore
from mhub.core.session import Session
from mhub.operations.arguments import checked
from mhub.operations.contract import NotThere, OperationError
from mhub.store.contract import Store, StoreError, StoreInUse
from mhub.store.make import make_store

MOST_HEAD: Final = HEAD_SIZE + MARKS_SIZE + len(PREFIX)
"""Bytes of a stored message in which its topic has begun."""


class InUse(ControlError):
    """A broker has the store."""


class DirectAccess:
    """Open from when it is made until close()."""

    def __init__(self, settings: Settings, makes: bool) -> None:
        """`makes`: a store that is not there yet is made.  Raises ControlError."""
        store = settings.store
        if store.kind == "memory":
            raise ControlError(
                'no broker runs, and store.kind is "memory": there is nothing that outlives it'
            )
        if not makes and store.kind == "sqlite" and not os.path.exists(store.path):
            raise ControlError(f"no broker runs, and there is no {store.path}: nothing to show")
        self._reactor: Any = reactor
        self._thread = threading.Thread(
            target=lambda: self._reactor.run(installSignalHandlers=False), daemon=True
        )
        self._thread.start()
        try:
            self._offline = OfflineHub(settings, self._reactor)
            self.name = self._offline.store.name
            self._wait(self._offline.open())
        except StoreInUse as error:
            self.close()
            raise InUse(str(error)) from None
        except (StoreError, PolicyError) as error:
            self.close()
            raise ControlError(str(error)) from None

    def call(self, name: str, arguments: dict[str, object]) -> object:
        """As a broker answers it.  Raises ControlError."""
        try:
            result = self._wait(self._offline.perform(name, arguments))
        except (OperationError, StoreError) as error:
            raise ControlError(str(error)) from None
        return json.loads(json.dumps(result, default=vars))

    def close(self) -> None:
        self._wait(self._offline.store.close())
        self._reactor.callFromThread(self._reactor.stop)
        self._thread.join()

    def _wait(self, work: Any) -> Any:
        return blockingCallFromThread(self._reactor, lambda: Deferred.fromCoroutine(work))


class OfflineHub:
    """A registry over a store, and the journal writer of its hub."""

    def __init__(self, settings: Settings, reactor: Any) -> None:
        self.store: Store = make_store(settings, reactor)
        self.hub = Hub(
            HubSettings(), Events([], 10.0), lambda: secrets.token_hex(10), time.monotonic()
        )
        self._settings = settings
        self._failed: Deferred[None] | None = None
        self.access: Access | None = None

    async def open(self) -> None:
        # At the time 0 nothing has expired: who looks at users shall not end sessions.
        contents = await self.store.open(0.0)
        store = self._settings.store
        offset_s = time.time() - time.monotonic()
        self.hub.keep_in(self, Journal(offset_s, store.queue_window, store.max_pending_bytes))
        restore(self.hub, registry_of(contents), lambda _: self._settings.limits)
        wanted = self._settings.access
        if wanted is None or wanted.policy == REGISTRY:
            seed(self.hub.registry, time.monotonic())
        self.access = Access(
            self.hub.registry,
            OfflineRights(self._settings, self.hub.registry),
            InlineSecrets(self._settings.passwords),
            time.monotonic,
            time.time,
            self.hub.flush,
            self.hub.events,
            no_pause,
        )

    async def perform(self, name: str, arguments: dict[str, object]) -> object:
        call = CALLS[name]
        assert self.access is not None
        result = perform(self.access, call, **checked(arguments, call.parameters))
        if not hasattr(result, "__await__"):
            return result
        self._failed = Deferred()
        done: Deferred[object] = Deferred.fromCoroutine(result)  # type: ignore[arg-type]
        first: Deferred[object] = Deferred()
        for each in (done, self._failed):
            each.addBoth(lambda outcome: None if first.called else first.callback(outcome))
        return await first

    # The hub's journal writer

    def commit(self, batch: Batch) -> None:
        Deferred.fromCoroutine(self._commit(batch)).addErrback(self._not_stored)

    async def _commit(self, batch: Batch) -> None:
        await self.store.commit(batch)
        self.hub.storage.committed()
        self.hub.flush()

    def _not_stored(self, failure: Failure) -> None:
        if self._failed is not None and not self._failed.called:
            self._failed.errback(failure)

    def load(self, session: Session, after: int, most: int, most_bytes: int) -> None:
        """There are no sessions here."""


class OfflineRights:
    """What would be in force, if a broker ran."""

    def __init__(self, settings: Settings, registry: Registry) -> None:
        wanted = settings.access
        self.directory = Directory(registry, lambda text: None)
        self.index: Index | None = None
        self.policy = wanted.policy if wanted is not None else ""
        self.problem = ""
        file = PolicyFile(wanted.policy if wanted is not None else REGISTRY)
        file.load()
        rows = self.directory
        if file.path:
            rows = Directory(registry, lambda text: None, with_rules=False)
            self.directory.extra = list(file.rows.values())
        self.rules = Index()
        self.rules.apply([*rows.rows(), *file.rows.values()], [])
        self.rules.revision = revision_of(registry, file)
        self.plugins: tuple[str, ...] = ()
        if wanted is not None and wanted.enabled:
            self.rules.strict = wanted.subscribe == "strict"
            self.index = self.rules

    def principal(self, client_id: str) -> Principal:
        raise NotThere("no broker runs, so no client is known: name the user as well")

    def sessions(self) -> dict[str, Session]:
        return {}


async def no_pause() -> None:
    """Nobody else waits for this process."""


class InlineSecrets:
    """Nobody else waits for this process: passwords are hashed where they come."""

    def __init__(self, settings: PasswordSettings) -> None:
        self._costs = costs_of(settings)
        self._iterations = settings.scram_iterations

    async def make(self, password: bytes) -> str:
        return hashes.make(password, self._costs)

    async def verifier(self, password: str, address: str = "", iterations: int = 0) -> str:
        return make_verifier(password, iterations or self._iterations).render()


def registry_of(contents: Contents) -> Contents:
    """Of what a store has, the registry, and what the numbers of new records depend on."""
    found = Contents()
    found.notes = contents.notes
    found.last_sid = contents.last_sid
    found.last_mid = contents.last_mid
    mark = PREFIX.encode("utf-8")
    found.retained = [body for body in contents.retained if mark in body[:MOST_HEAD]]
    return found
