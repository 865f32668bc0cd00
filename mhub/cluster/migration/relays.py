"""Where messages go that come for a session after it was given away.

    Remainder   nodes were missing when the session was given: its subscriptions stay here, and what
                these nodes had sent before their marks is relayed to the target; a mark ends it
    Route       other sources relay what they get to this node, as the session was here: pass it on

Both go the way that the session went, from node to node, in channels, which keep their order: so
CLOSED comes behind all that was relayed before it, wherever the session is by then.
"""

import json
from typing import TYPE_CHECKING, Final

from mhub.cluster.migration import records
from mhub.cluster.migration.gates import RelayGate
from mhub.cluster.migration.queues import row_of, stored_of
from mhub.core.codec import decode_session, encode_session
from mhub.core.delivery import Delivery
from mhub.core.journal import Row
from mhub.core.peers import REMAINDER
from mhub.core.restore import revive
from mhub.core.session import Session

if TYPE_CHECKING:
    from mhub.cluster.migration.epochs import Epochs

NOTE: Final = "relay/"
"""Notes of remainders begin so; those of routes with the other one."""

ROUTE: Final = "route/"


def source_id(node: str, epoch: int) -> str:
    """What CLOSED says of a remainder: a node may have several of one client."""
    return f"{node}:{epoch}"


class Remainder:
    def __init__(self, session: Session, epoch: int, to: str, missing: dict[str, bool]) -> None:
        self.session = session  # nothing but its subscriptions
        self.client_id = session.client_id
        self.since = session.epoch  # of the claim under which it was here, and
        self.epoch = epoch  # of the one that it was given to
        self.to = to
        self.missing = missing  # nodes, and whether they have marked since it was here
        self.sent = 0  # records that were relayed


class Route:
    def __init__(self, to: str, waits: dict[str, set[str]]) -> None:
        self.to = to
        self.waits = waits  # as the session's gate has them: when all are closed, this is over


class Relays:
    def __init__(self, epochs: "Epochs") -> None:
        self._epochs = epochs
        self._node = epochs.node
        self.remainders: list[Remainder] = []
        self._routes: dict[str, Route] = {}

    # Remainders

    def remain(self, session: Session, epoch: int, to: str, missing: dict[str, bool]) -> None:
        """A session that was given away; its messages are gone already."""
        hub = self._node.hub
        for name in [n for n, each in session.subscriptions.items() if each.share]:
            hub.router.remove(session.subscriptions.pop(name))
        remainder = Remainder(session, epoch, to, missing)
        self._watch(remainder)
        self._note(remainder)

    def _watch(self, remainder: Remainder) -> None:
        session = remainder.session
        session.intake = RelayGate(
            self._node.hub,
            self._node.name,
            remainder.epoch,
            remainder.missing,
            lambda delivery: self._relay(remainder, delivery),
        )
        self.remainders.append(remainder)
        self._announce(remainder.client_id)

    def mark(self, node: str, client_id: str, epoch: int) -> None:
        for remainder in [each for each in self.remainders if each.client_id == client_id]:
            if node not in remainder.missing:
                continue
            if epoch >= remainder.epoch:
                self.close(remainder, node)
            elif epoch >= remainder.since and not remainder.missing[node]:
                remainder.missing[node] = True
                self._note(remainder)

    def close(self, remainder: Remainder, node: str) -> None:
        """All that a node had sent here before has been relayed."""
        del remainder.missing[node]
        body = records.closed(node, source_id(self._node.name, remainder.epoch))
        self.put(remainder.client_id, remainder.to, body)
        self._note(remainder)
        if not remainder.missing:
            self._end(remainder)

    def _end(self, remainder: Remainder) -> None:
        self.remainders.remove(remainder)
        for subscription in remainder.session.subscriptions.values():
            self._node.hub.router.remove(subscription)
        self._announce(remainder.client_id)

    def _announce(self, client_id: str) -> None:
        epochs = [each.epoch for each in self.remainders if each.client_id == client_id]
        self._node.peers.announce(REMAINDER + client_id, max(epochs, default=0))

    # What is relayed

    def _relay(self, remainder: Remainder, delivery: Delivery) -> None:
        remainder.sent += 1
        row = row_of(delivery, 1, 0, self._epochs.time_of_day())
        source = source_id(self._node.name, remainder.epoch)
        self.put(remainder.client_id, remainder.to, records.relay(source, [row]))

    def relay(self, client_id: str, to: str, rows: list[Row]) -> None:
        """Entries that nobody waits for."""
        if rows:
            self.put(client_id, to, records.relay("", rows))

    def dissolve(self, session: Session, counts: dict[str, int]) -> list[Remainder]:
        """A session is here again: what its remainders here would relay comes to it straight.

        Unless something that they have relayed is still on its way, or what they relay has not
        begun; then they go on.
        """
        found = []
        for remainder in [each for each in self.remainders if each.client_id == session.client_id]:
            source = source_id(self._node.name, remainder.epoch)
            if remainder.sent == counts.get(source, 0) and all(remainder.missing.values()):
                found.append(remainder)
                self._note(remainder, over=True)
                self._end(remainder)
        return found

    def put(self, client_id: str, to: str, body: bytes) -> None:
        if to == self._node.name:
            self._epochs.came(to, client_id, body)
            return
        member = self._node.members.get(to)
        if member is not None:
            member.peer.put_control(client_id, body)

    # Routes

    def went(self, client_id: str, to: str, waits: dict[str, set[str]]) -> None:
        """A session was given away for which sources relay, or which it was about to be."""
        if waits:
            self._routes[client_id] = Route(to, waits)
            self._note_route(client_id)

    def came_back(self, client_id: str) -> None:
        if self._routes.pop(client_id, None) is not None:
            self._note_route(client_id)

    def pass_on(self, client_id: str, body: bytes) -> bool:
        """Whether a record is for a session that has gone from here, and goes after it."""
        route = self._routes.get(client_id)
        if route is None:
            return False
        self.put(client_id, route.to, body)
        if body[:1] == records.CLOSED:
            node, source = records.names_of(body)
            sources = route.waits.get(node, set())
            sources.discard(source)
            if not sources:
                route.waits.pop(node, None)
            if not route.waits:
                del self._routes[client_id]
            self._note_route(client_id)
        return True

    # Nodes that go, and the store

    def forgotten(self, name: str) -> None:
        for remainder in list(self.remainders):
            if remainder.to == name:
                self._note(remainder, over=True)
                self._end(remainder)
            elif name in remainder.missing:
                self.close(remainder, name)
        for client_id, route in list(self._routes.items()):
            if route.to == name:
                self.came_back(client_id)

    def _note(self, remainder: Remainder, over: bool = False) -> None:
        ledger = self._node.hub.ledger
        if ledger is None:
            return
        text = ""
        if remainder.missing and not over:
            stored = encode_session(stored_of(remainder.session, 0.0)).hex()
            text = json.dumps([remainder.to, remainder.missing, stored])
        ledger.note(f"{NOTE}{remainder.epoch}/{remainder.client_id}", text)

    def _note_route(self, client_id: str) -> None:
        ledger = self._node.hub.ledger
        if ledger is not None:
            route = self._routes.get(client_id)
            text = ""
            if route is not None:
                waits = {node: sorted(sources) for node, sources in route.waits.items()}
                text = json.dumps([route.to, waits])
            ledger.note(ROUTE + client_id, text)

    def recall(self, notes: dict[str, str]) -> None:
        for name, text in notes.items():
            if name.startswith(ROUTE):
                to, waits = json.loads(text)
                client_id = name[len(ROUTE) :]
                self._routes[client_id] = Route(to, {n: set(s) for n, s in waits.items()})
            elif name.startswith(NOTE):
                epoch, _, client_id = name[len(NOTE) :].partition("/")
                to, missing, data = json.loads(text)
                stored = decode_session(bytes.fromhex(data))
                hub = self._node.hub
                session = revive(hub, stored, self._node.limits(stored.record.listener))
                for subscription in session.subscriptions.values():
                    hub.router.add(subscription)
                self._watch(Remainder(session, int(epoch), to, missing))
