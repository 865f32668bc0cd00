"""A cluster as bytes.

Pickle does almost all of it in C.  Some classes are helped: what only counts or never changes is
not copied, and tables of bound methods are made again.  A single bound method, such as that of an
`Intake`, is known by its object and its name.
"""

import copyreg
import io
import pickle
from collections.abc import Callable
from random import Random
from typing import Any

from mhub.cluster.migration.source import Source
from mhub.cluster.migration.target import Target
from mhub.cluster.node import Node
from mhub.core.limits import Limits
from mhub.core.stats import Stats
from tests.core.world import Diary, Outlet

LIMITS = Limits()
RANDOM = Random(1)
_handlers: list[tuple[int, int, str]] = []


def _limits() -> Limits:
    return LIMITS


def _random() -> Random:
    return RANDOM


def _without(kind: type, **reset: Any) -> Callable[[Any], Any]:
    """Some attributes begin anew."""

    def reduce(thing: Any) -> Any:
        return copyreg.__newobj__, (kind,), {**thing.__dict__, **reset}  # type: ignore[attr-defined]

    return reduce


def _reduce_actor(thing: Any) -> Any:
    state = dict(thing.__dict__)
    state["_actions"] = list(thing._actions)
    return copyreg.__newobj__, (type(thing),), state, None, None, _set_actor  # type: ignore[attr-defined]


def _set_actor(thing: Any, state: dict[str, Any]) -> None:
    thing.__dict__.update(state)
    thing._actions = {action: getattr(thing, f"_{action}") for action in state["_actions"]}


def _reduce_node(node: Node) -> Any:
    state = dict(node.__dict__)
    handlers = state.pop("_handlers")
    owners: list[Any] = []
    places = []
    for kind, method in handlers.items():
        if not any(method.__self__ is each for each in owners):
            owners.append(method.__self__)
        index = next(i for i, each in enumerate(owners) if each is method.__self__)
        places.append((kind, index, method.__name__))
    if not _handlers:
        _handlers.extend(places)  # the same for all of them
    # They may be there as empty objects only when a node is loaded: their methods are.
    return copyreg.__newobj__, (Node,), (state, owners), None, None, _set_node  # type: ignore[attr-defined]


def _set_node(node: Node, state: tuple[dict[str, Any], list[Any]]) -> None:
    node.__dict__.update(state[0])
    owners = state[1]
    node._handlers = {kind: getattr(owners[index], name) for kind, index, name in _handlers}


class Saver(pickle.Pickler):
    dispatch_table = {
        **copyreg.dispatch_table,
        Limits: lambda thing: (_limits, ()),
        Random: lambda thing: (_random, ()),
        Stats: lambda thing: (Stats, ()),
        Diary: lambda thing: (Diary, ()),
        Outlet: _without(Outlet, writes=[]),
        Source: _reduce_actor,
        Target: _reduce_actor,
        Node: _reduce_node,
    }


def save(thing: Any) -> bytes:
    out = io.BytesIO()
    Saver(out, pickle.HIGHEST_PROTOCOL).dump(thing)
    return out.getvalue()


def load(data: bytes) -> Any:
    return pickle.loads(data)
