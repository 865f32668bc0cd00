"""Numbers of one moment with something of everything in them."""

from typing import Any

from mhub.operations.contract import AuthenticatorStatus, ListenerStatus, PushStatus
from mhub.operations.numbers import Numbers, read_numbers
from tests.core.test_sys import Cluster
from tests.core.world import World
from tests.operations.around import Around


class Everything(Around):
    """A node with two listeners, an authenticator that fails, and a server to push to."""

    def __init__(self, hub: Any, listeners: int = 2, nodes: int = 2) -> None:
        super().__init__(hub)
        self._listeners = listeners
        self._nodes = nodes
        self.cluster = self
        self.is_ready = True

    def listeners(self) -> list[ListenerStatus]:
        return [
            ListenerStatus(f"tcp-{1883 + n}", f"mqtt://127.0.0.1:{1883 + n}", n, 10 * n, 7)
            for n in range(self._listeners)
        ]

    def authenticators(self) -> list[AuthenticatorStatus]:
        return [
            AuthenticatorStatus("registry", "ok", 3, 2, 1, 0),
            AuthenticatorStatus('we"ird\\name', "failing: no answer", 0, 0, 0, 5),
        ]

    def pushes(self) -> list[PushStatus]:
        return [PushStatus("influx", "failing: refused", 10, 3, 2, 1)]

    def status(self) -> dict[str, Any]:
        return {
            "members": [
                {
                    "node": f"n{n}",
                    "state": "up" if n else "down",
                    "latency_ms": 1.5 if n else None,
                    "queued_messages": 2,
                    "queued_bytes": 16,
                    "sent": 3,
                    "received": 5,
                    "dropped": 0,
                }
                for n in range(self._nodes)
            ]
        }


def everything(listeners: int = 2, nodes: int = 2) -> Numbers:
    world = World()

    class Case:
        def __init__(self) -> None:
            self.world = world

    Cluster.join(Case())  # type: ignore[arg-type]
    world.client("a").publish("t", b"12345")
    hub = world.hub
    hub.storage.commits.observe(0.0007)
    hub.storage.commits.observe(20.0)
    hub.measure_drift(0.02, world.now)
    return read_numbers(hub, Everything(hub, listeners, nodes), world.now + 60, 1.8e9)


def alone() -> Numbers:
    """A broker without cluster and authenticators that has just started."""
    world = World()
    around = Around(world.hub)
    around.authenticators = list  # type: ignore[method-assign]
    return read_numbers(world.hub, around, world.now, 1.8e9)
