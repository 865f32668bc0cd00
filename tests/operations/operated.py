"""A simulated cluster whose nodes have operations, and ask each other by frames."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred, succeed

from mhub.cluster.queries import NOT_ASKED, Outcome, Replying
from mhub.operations.contract import OperationError, Reply, Respond
from mhub.operations.operations import Operations
from mhub.operations.questions import respond
from tests.cluster.simulation import SimNode, Simulation
from tests.operations.around import Around, Pauses


class SimCluster:
    """What a node can do about its cluster, on the simulation's links."""

    def __init__(self, side: "OperatedNode") -> None:
        self._side = side
        self.asked: list[tuple[str, str, Mapping[str, object]]] = []

    def nodes(self) -> dict[str, str]:
        assert self._side.node is not None
        return {member.name: member.state for member in self._side.node.members.values()}

    def ask(
        self, node: str, name: str, arguments: Mapping[str, object], within_s: float
    ) -> Awaitable[Reply]:
        assert self._side.node is not None
        self.asked.append((node, name, arguments))
        member = self._side.node.members.get(node)
        if member is None:
            return succeed(Reply(b"", NOT_ASKED, "no such node"))
        found: Deferred[Reply] = Deferred()

        def done(outcome: Outcome) -> None:
            found.callback(Reply(outcome.data, outcome.error, outcome.text))

        self._side.node.queries.ask(member, name, dict(arguments), within_s, done)
        return found

    def serve(self, respond: Respond) -> None:
        raise NotImplementedError

    def watch_clients(self, changed: Callable[[str], None]) -> None:
        raise NotImplementedError

    def status(self) -> dict[str, object]:
        return {"cluster": "sim", "ready": True}

    def forget(self, name: str) -> dict[str, object] | None:
        assert self._side.node is not None
        dropped = self._side.node.forget(name)
        return None if dropped is None else {"messages": dropped}


class OperatedNode(SimNode):
    operations: Operations
    cluster: SimCluster
    answers = True

    def start(self, host: SimNode | None = None) -> None:
        super().start(host)
        assert self.node is not None
        around = Around(self.world.hub)
        around.cluster = self.cluster = SimCluster(self)
        self.operations = Operations(self.world.hub, around, self.clock, Pauses())
        self.node.queries.respondent = self._respond

    def _respond(self, name: str, arguments: dict[str, Any], replying: Replying) -> None:
        if not self.answers:
            return

        def failed(failure: Any) -> None:
            assert isinstance(failure.value, OperationError), failure
            replying.fail(type(failure.value).__name__, str(failure.value))

        answering = Deferred.fromCoroutine(respond(self.operations, name, arguments))
        answering.addCallbacks(replying.reply, failed)


class OperatedSimulation(Simulation):
    def __init__(self, seed: int, names: str = "abc", **options: Any) -> None:
        super().__init__(seed, names, **options)
        durable = options.get("durable", True)
        self.nodes = {name: OperatedNode(self, name, durable, 0.0) for name in names}

    def side(self, name: str) -> OperatedNode:
        node = self.nodes[name]
        assert isinstance(node, OperatedNode)
        return node
