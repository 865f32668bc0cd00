"""A chain of authenticators around a real hub, with a clock and workers that tests turn by hand."""

import json
from collections.abc import Callable
from typing import Any

from twisted.internet.task import Clock

from mhub.auth.chain import Chain, Member
from mhub.auth.contract import Context, Source
from mhub.auth.hashes import Costs
from mhub.auth.passwords import Passwords
from mhub.auth.plugins import find
from mhub.core.authentication import Claim, Later, Step
from mhub.core.events import Event, Events
from mhub.core.hub import Hub, HubSettings
from mhub.core.principal import Certificate, Principal
from mhub.wire.packets import Connect

CHEAP = Costs(8, 1)
"""The least that argon2 takes: tests do not wait for passwords."""


class Entry:
    def __init__(self, key: str, value: str, hlc: int) -> None:
        self.key, self.value, self.hlc = key, value, hlc


class FakeRegistry:
    """The part of the registry that authenticators use."""

    def __init__(self) -> None:
        self.table: dict[str, Entry] = {}
        self.watchers: list[Callable[[list[str]], None]] = []
        self.clock = 0

    def put(self, key: str, value: dict[str, Any]) -> None:
        self.change({key: json.dumps(value)}, 0.0)

    def delete(self, key: str) -> None:
        self.change({key: None}, 0.0)

    def get(self, key: str) -> Entry | None:
        return self.table.get(key)

    def items(self, prefix: str) -> list[Entry]:
        return [self.table[key] for key in sorted(self.table) if key.startswith(prefix)]

    def change(
        self, values: dict[str, str | None], now: float, expected: dict[str, int] | None = None
    ) -> None:
        for key, hlc in (expected or {}).items():
            entry = self.table.get(key)
            if (entry.hlc if entry is not None else 0) != hlc:
                raise ValueError(f"stale: {key}")
        for key, value in values.items():
            self.clock += 1
            if value is None:
                self.table.pop(key, None)
            else:
                self.table[key] = Entry(key, value, self.clock)
        for watcher in self.watchers:
            watcher(list(values))


class ByHand:
    """Workers that compute when they are told to; `at_once`: as soon as they are asked."""

    def __init__(self, at_once: bool) -> None:
        self.at_once = at_once
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def run(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.jobs.append((job, done))
        while self.at_once and self.jobs:
            self.turn()

    def turn(self) -> None:
        from twisted.python.failure import Failure

        job, done = self.jobs.pop(0)
        try:
            result = job()
        except Exception:
            result = Failure()
        done(result)

    def stop(self) -> None:
        pass


class World:
    def __init__(self, at_once: bool = True, threads: int = 1, max_queued: int = 10) -> None:
        self.events: list[Event] = []
        self.hub = Hub(HubSettings(), Events([self]), lambda: "token", 0.0)
        self.registry = FakeRegistry()
        self.hub.registry = self.registry  # type: ignore
        self.clock = Clock()
        self.workers = ByHand(at_once)
        self.passwords = Passwords(
            self.workers, threads, max_queued, self.hub.stats, CHEAP, scram_iterations=4096
        )
        self.forgotten = 0
        self.context = Context(
            self.clock, self.clock.seconds, self.hub, self.passwords, self._changed
        )
        self.members: list[Member] = []
        self._chain: Chain | None = None

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def _changed(self) -> None:
        self.forgotten += 1

    def add(
        self,
        kind: str,
        name: str = "",
        listeners: tuple[str, ...] = (),
        on_error: str = "refuse",
        **options: Any,
    ) -> Any:
        """A source of a type, with settings as the file would give them."""
        plugin = find(kind)
        source = plugin.make(name or kind, plugin.settings(**options), self.context)
        return self.put(source, name or kind, listeners, on_error)

    def put(
        self,
        source: Source,
        name: str = "other",
        listeners: tuple[str, ...] = (),
        on_error: str = "refuse",
    ) -> Any:
        self.members.append(Member(name, source, listeners, on_error))
        return source

    @property
    def chain(self) -> Chain:
        if self._chain is None:
            self._chain = Chain(self.members, self.hub, self.passwords)
        return self._chain

    def start(self) -> None:
        self.chain.start()

    def claim(
        self,
        user: str | None = None,
        password: bytes | None = None,
        client_id: str = "client",
        listener: str = "tcp-1883",
        certificate: Certificate | None = None,
        address: str = "192.0.2.1:4711",
    ) -> Claim:
        principal = Principal(address, listener)
        principal.client_id = client_id
        principal.certificate = certificate
        packet = Connect(5)
        packet.username, packet.password = user, password
        return Claim(principal, packet)

    def connect(self, *args: Any, **more: Any) -> Step | Later:
        return self.chain.authenticate(self.claim(*args, **more))

    def ask(self, *args: Any, **more: Any) -> Step:
        """A login that is answered at once."""
        step = self.connect(*args, **more)
        assert isinstance(step, Step), "it is waiting"
        return step
