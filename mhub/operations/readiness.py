"""Whether a load balancer should send clients here, in one word.

The first of these that is so:

    stopping     the broker ends, or has to
    leaving      the node leaves its cluster; its clients are sent away
    starting     the listeners are not open yet: the store is read, the cluster joined
    closed       no listener is open
    cluster      the node has not joined its cluster
    store        the store fails, so that nothing can be acknowledged
    overloaded   the broker is late and refuses new clients
    ready

A node that cannot reach the others is ready: it serves its clients, and they would find no better
one if all nodes were separated.
"""

from dataclasses import dataclass

from mhub.core.hub import Hub
from mhub.operations.contract import Surroundings


@dataclass(frozen=True)
class Readiness:
    ready: bool
    state: str


@dataclass(frozen=True)
class Health:
    status: str  # "up" or "down"


def readiness(hub: Hub, around: Surroundings) -> Readiness:
    state = _state(hub, around)
    return Readiness(state == "ready", state)


def health(around: Surroundings) -> Health:
    """Down is a broker that ends; one that hangs does not answer."""
    return Health("down" if around.state() == "stopping" else "up")


def _state(hub: Hub, around: Surroundings) -> str:
    state = around.state()
    if state != "running":
        return state
    if not around.listeners():
        return "closed"
    cluster = around.cluster
    if cluster is not None and not cluster.is_ready:
        return "cluster"
    if hub.storage.state.startswith("failing"):
        return "store"
    return "overloaded" if hub.overload.active else "ready"
