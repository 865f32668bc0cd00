"""A cluster as bytes.

Pickle does almost all of it in C.  Some classes are helped: what only counts or never changes is
not copied, tables of bound methods are made again, and so is a function that was made at run
time: from its code, and what it has closed over.
"""

import copyreg
import io
import pickle
from collections.abc import Callable
from random import Random
from types import CellType, FunctionType
from typing import Any

from mhub.cluster.migration.gates import RelayGate
from mhub.cluster.migration.source import Source
from mhub.cluster.migration.target import Target
from mhub.cluster.node import Node
from mhub.core.limits import Limits
from mhub.core.stats import Stats
from tests.core.world import Diary, Outlet

LIMITS = Limits()
RANDOM = Random(1)
_functions: dict[str, FunctionType] = {}
_handlers: dict[int, tuple[str, str]] = {}


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
    if not _handlers:
        owners = {id(each): name for name, each in state.items()}
        for kind, method in handlers.items():
            _handlers[kind] = owners.get(id(method.__self__), ""), method.__name__
    return copyreg.__newobj__, (Node,), state, None, None, _set_node  # type: ignore[attr-defined]


def _set_node(node: Node, state: dict[str, Any]) -> None:
    node.__dict__.update(state)
    node._handlers = {
        kind: getattr(state[owner] if owner else node, name)
        for kind, (owner, name) in _handlers.items()
    }


def _reduce_relay_gate(gate: RelayGate) -> Any:
    state = dict(gate.__dict__)
    relay: Any = gate._relay
    name = f"{relay.__module__}.{relay.__qualname__}"
    _functions.setdefault(name, relay)
    state["_relay"] = name, [cell.cell_contents for cell in relay.__closure__]
    return copyreg.__newobj__, (RelayGate,), state, None, None, _set_relay_gate  # type: ignore[attr-defined]


def _set_relay_gate(gate: RelayGate, state: dict[str, Any]) -> None:
    gate.__dict__.update(state)
    name, contents = state["_relay"]
    model = _functions[name]
    cells = tuple(CellType(content) for content in contents)
    gate._relay = FunctionType(
        model.__code__, model.__globals__, model.__name__, model.__defaults__, cells
    )


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
        RelayGate: _reduce_relay_gate,
    }


def save(thing: Any) -> bytes:
    out = io.BytesIO()
    Saver(out, pickle.HIGHEST_PROTOCOL).dump(thing)
    return out.getvalue()


def load(data: bytes) -> Any:
    return pickle.loads(data)
