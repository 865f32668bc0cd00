"""The access interface over a hub of its own, without a broker around it."""

from collections.abc import Awaitable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mhub.access.access import Access
from mhub.access.directory import Delta, Directory
from mhub.access.index import Index
from mhub.core.events import ADMIN, Event, Events
from mhub.core.hub import Hub, HubSettings
from mhub.core.principal import Principal
from mhub.core.session import Session
from mhub.operations.contract import NotThere


class QuickSecrets:
    """Says what was hashed, and takes no time; `held` is one that waits."""

    def __init__(self) -> None:
        self.held: Deferred[None] | None = None

    async def make(self, password: bytes) -> str:
        if self.held is not None:
            await self.held
        return f"$argon2id${password.decode()}"

    async def verifier(self, password: str, address: str = "", iterations: int = 0) -> str:
        if "\x07" in password:
            raise ValueError("U+0007 is not allowed in names and passwords")
        return f"SCRAM-SHA-256${iterations}:{password}"


class PlainRights:
    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.index: Index | None = None
        self.rules = Index()
        self.plugins: tuple[str, ...] = ()
        self.policy = "registry"
        self.problem = ""
        self.clients: dict[str, Principal] = {}
        self.open: dict[str, Session] = {}

    def principal(self, client_id: str) -> Principal:
        if client_id not in self.clients:
            raise NotThere("there is no such client")
        return self.clients[client_id]

    def sessions(self) -> dict[str, Session]:
        return self.open


async def no_pause() -> None:
    pass


class Told:
    """A sink: what was changed, by whom."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        if event.kind == ADMIN:
            self.events.append(event)

    def last(self) -> tuple[str, str, str, str, str]:
        event = self.events[-1]
        return event.by, event.cause, event.text, event.why, event.outcome


class AccessCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.told = Told()
        self.hub = Hub(HubSettings(), Events([self.told], 10.0), lambda: "token", 100.0)
        self.registry = self.hub.registry
        self.reports: list[str] = []
        self.deltas: list[Delta] = []
        self.directory = Directory(self.registry, self.reports.append)
        self.directory.followers.append(self.deltas.append)
        self.secrets = QuickSecrets()
        self.rights = PlainRights(self.directory)
        self.now = 1_800_000_000.0
        self.access = Access(
            self.registry,
            self.rights,
            self.secrets,
            lambda: 100.0,
            lambda: self.now,
            self.hub.flush,
            self.hub.events,
            no_pause,
        )

    def do(self, call: Awaitable[Any]) -> Any:
        """What a call gives that is over at once."""
        return self.successResultOf(Deferred.fromCoroutine(call))  # type: ignore[arg-type]

    def refused(self, call: Awaitable[Any], kind: type[Exception]) -> str:
        """Why a call is refused; nothing was changed then."""
        before = self.registry.revision
        failure = self.failureResultOf(Deferred.fromCoroutine(call), kind)  # type: ignore[arg-type]
        self.assertEqual(self.registry.revision, before)
        return str(failure.value)
