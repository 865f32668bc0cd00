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


class Users:
    """The registry, with short words for tests."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def put(self, key: str, value: dict[str, Any]) -> None:
        self.change({key: json.dumps(value)})

    def delete(self, key: str) -> None:
        self.change({key: None})

    def get(self, key: str) -> dict[str, Any]:
        entry = self.hub.registry.get(key)
        assert entry is not None, key
        found: dict[str, Any] = json.loads(entry.value)
        return found

    def change(self, values: dict[str, str | None]) -> None:
        self.hub.registry.change(values, self.hub.now)
        self.hub.flush()


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
        self.registry = Users(self.hub)
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
