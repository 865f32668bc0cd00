"""The broker around a hub, as far as operations need it."""

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred

from mhub.core.hub import Hub
from mhub.core.limits import Limits
from mhub.operations.contract import AuthenticatorStatus, ListenerStatus, PushStatus, Say


class Around:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.cluster: Any = None
        self.store_name = "memory"

    def state(self) -> str:
        return "running"

    def listeners(self) -> list[ListenerStatus]:
        return [ListenerStatus("mqtt", "mqtt://127.0.0.1:1883", self._hub.connected, 0)]

    def authenticators(self) -> list[AuthenticatorStatus]:
        return [AuthenticatorStatus("registry", "ok", 3, 2, 1, 0)]

    def pushes(self) -> list[PushStatus]:
        return []

    def limits(self) -> tuple[Limits, Mapping[str, Limits]]:
        return Limits(), {"mqtt": Limits(max_subscriptions=7)}

    def snapshot(self) -> Any:
        return None

    def settle(self) -> None:
        self._hub.flush()

    async def leave(self, say: Say) -> Mapping[str, object]:
        say("one")
        return {"sessions": 1}


class Pauses:
    """Counts how often work let others have their turn; `meanwhile` is what they do then."""

    def __init__(self) -> None:
        self.count = 0
        self.meanwhile: Any = lambda: None

    def __call__(self) -> Deferred[None]:
        self.count += 1
        self.meanwhile()
        done: Deferred[None] = Deferred()
        done.callback(None)
        return done
