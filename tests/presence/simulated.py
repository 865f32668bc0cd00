"""A simulated cluster whose nodes publish presence, and what each of them has published."""

from typing import Any

import msgspec

from mhub.cluster.queries import NO_ANSWER, NOT_ASKED, Outcome, Replying
from mhub.operations import places
from mhub.operations.cluster_results import Held
from mhub.presence.publisher import Fetched, Publisher
from tests.cluster.simulation import SimNode, Simulation
from tests.core.disk import EPOCH

PREFIX = "$SYS/presence"
STEP_S = 0.25
PATIENCE_S = 3.0

Shown = dict[str, tuple[str, str]]
"""Client id -> state and node."""


class PresenceNode(SimNode):
    publisher: Publisher

    def start(self, host: SimNode | None = None) -> None:
        super().start(host)
        assert self.node is not None
        hub = self.world.hub
        self.publisher = Publisher(
            hub, PREFIX, lambda: EPOCH + self.world.now, PATIENCE_S, self._fetch
        )
        hub.events.sinks.append(self.publisher)
        self.node.client_changed = self.publisher.touch
        self.node.queries.respondent = self._respond
        self._publish(self.boot)

    def _publish(self, boot: int) -> None:
        if boot != self.boot or self.node is None:
            return
        self.enter()
        is_more = self.publisher.step(self.world.now)
        self.leave()
        self.sim.later(0.01 if is_more else STEP_S, lambda: self._publish(boot))

    def _fetch(self, node: str, client_ids: list[str], fetched: Fetched) -> None:
        assert self.node is not None
        member = self.node.members[node]
        queries = self.node.queries

        def done(outcome: Outcome) -> None:
            if outcome.error:
                fetched(None, outcome.error in (NO_ANSWER, NOT_ASKED))
            else:
                fetched(msgspec.json.decode(outcome.data, type=list[Held]), False)

        queries.ask(member, "held", {"client_ids": client_ids}, 2.0, done)

    def _respond(self, name: str, arguments: dict[str, Any], replying: Replying) -> None:
        found = [places.held(self.world.hub, each, EPOCH) for each in arguments["client_ids"]]
        replying.reply(msgspec.json.encode([each for each in found if each is not None]))

    def presence(self) -> dict[str, dict[str, Any]]:
        """By client id, what is retained."""
        found = self.world.hub.retained.match(f"{PREFIX}/#", self.world.now)
        items = [msgspec.json.decode(message.payload) for message in found]
        return {item["client_id"]: item for item in items}

    def shown(self) -> Shown:
        return {name: (each["state"], each["node"]) for name, each in self.presence().items()}


class PresenceSimulation(Simulation):
    def __init__(self, seed: int, names: str = "abc", **options: Any) -> None:
        super().__init__(seed, names, **options)
        durable = options.get("durable", True)
        self.nodes = {name: PresenceNode(self, name, durable, 0.0) for name in names}

    def present(self, name: str) -> PresenceNode:
        node = self.nodes[name]
        assert isinstance(node, PresenceNode)
        return node

    def truth(self) -> Shown:
        """What the hubs have, when all nodes are up and nothing is on its way."""
        found: Shown = {}
        for node in self.nodes.values():
            for client_id, session in node.world.hub.sessions.items():
                assert client_id not in found, f"{client_id} has two sessions"
                state = "connected" if session.is_connected() else "offline"
                found[client_id] = state, node.name
        return found
