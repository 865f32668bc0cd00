"""Operations at other nodes: one of them, all of them, or the one that has a client."""

import inspect
from collections.abc import Awaitable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from mhub.core.hub import Hub
from mhub.operations.contract import NotThere, OperationError, Reply, Surroundings, Unavailable
from mhub.operations.places import place_of

if TYPE_CHECKING:
    from mhub.operations.operations import Operations

WITHIN_S: Final = 2.0
"""How long other nodes may take to answer."""

COMMAND_S: Final = 10.0
"""The same for what has to be durable before it is answered."""

MOVES: Final = 3
"""How often a client is followed that goes from node to node while it is asked for."""


class Nodes:
    def __init__(self, operations: "Operations", hub: Hub, surroundings: Surroundings) -> None:
        self._operations = operations
        self._hub = hub
        self._around = surroundings

    @property
    def here(self) -> str:
        """This one; "": there is no cluster."""
        return self._hub.peers.node if self._hub.peers is not None else ""

    # Asking

    def ask(
        self, node: str, name: str, arguments: dict[str, Any], within_s: float = WITHIN_S
    ) -> Coroutine[Any, Any, Any]:
        """The result of an operation at a node, which is asked at once.

        Raises what it has raised, and TimedOut or Unavailable for one that does not answer; when
        it is awaited.
        """
        cluster = self._around.cluster
        if node == self.here:
            return self._here(name, arguments)
        assert cluster is not None
        return self._read(name, cluster.ask(node, name, arguments, within_s))

    async def _here(self, name: str, arguments: dict[str, Any]) -> Any:
        found = getattr(self._operations, name)(**arguments)
        return await found if inspect.isawaitable(found) else found

    async def _read(self, name: str, asked: Awaitable[Reply]) -> Any:
        from mhub.operations.questions import result_of  # which knows all operations

        return result_of(name, await asked)

    async def ask_all(
        self, name: str, arguments: dict[str, Any], within_s: float = WITHIN_S
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The results by node, this one first, and the nodes that are missing.

        Raises what the operation raises here.
        """
        asked = {node: self.ask(node, name, arguments, within_s) for node in self.names()}
        found: dict[str, Any] = {}
        missing = []
        try:
            for node, waiting in asked.items():
                try:
                    found[node] = await waiting
                except OperationError:
                    if node == self.here:
                        raise
                    missing.append(node)
        finally:
            for waiting in asked.values():
                waiting.close()
        return found, tuple(missing)

    def names(self) -> list[str]:
        """All that are known, this one first."""
        cluster = self._around.cluster
        others = sorted(cluster.nodes()) if cluster is not None else []
        return [self.here, *others]

    async def at_its_node(
        self, name: str, client_id: str, arguments: dict[str, Any], within_s: float
    ) -> Any:
        """Have an operation done where the session of a client is."""
        node = await self._node_of(client_id)
        for _ in range(MOVES):
            try:
                found = await self.ask(node, name, {"client_id": client_id, **arguments}, within_s)
            except NotThere:
                asked, node = node, await self._node_of(client_id)
                if node == asked:
                    raise
            else:
                return replace(found, node=node) if hasattr(found, "node") else found
        raise Unavailable("the client goes from node to node; try again")

    async def _node_of(self, client_id: str) -> str:
        """The node that has the session of a client.  Raises NotThere and Unavailable."""
        hub = self._hub
        peers = hub.peers
        if peers is None or (client_id in hub.sessions and not peers.table.sessions):
            return self.here
        if not peers.table.sessions:
            return await self._look_for(client_id)
        place = place_of(hub, client_id)
        if place is None:
            raise NotThere("there is no such client")
        if place.peer is None:
            return self.here
        if not place.peer.up:
            raise Unavailable(
                f"its session is at node {place.peer.name}, which cannot be reached; the client"
                " gets a new one when it connects elsewhere"
            )
        return place.peer.name

    async def _look_for(self, client_id: str) -> str:
        """Where nodes do not tell each other of their sessions, each may have one."""
        found, missing = await self.ask_all("held", {"client_ids": [client_id]})
        holders = [(each.presence.state, node) for node, held in found.items() for each in held]
        if holders:
            return min(holders)[1]  # "connected" is before "offline"
        if missing:
            raise Unavailable(
                f"no node that has answered has such a client; {', '.join(missing)} did not answer"
            )
        raise NotThere("there is no such client")
