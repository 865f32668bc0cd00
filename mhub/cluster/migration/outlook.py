"""What migration waits for, as an operator sees it: numbers, and a log line if it takes long.

    migrating   sessions on their way to this node or from it
    waiting     sessions here whose gate for a node is closed: that has not switched to them yet
    merging     older sessions here whose entries go to a newer one, until all nodes have switched
    held        sessions that left, and for which confirmations to a node are held: it has not
                switched, and keeps what it has published since

All of them end by themselves when the nodes that they wait for are linked.  What lasts for longer
than LONG_S is logged once for each of these nodes, until nothing waits for it any more.
"""

from typing import TYPE_CHECKING, Final

from mhub.cluster.migration.source import IDLE, MERGING

if TYPE_CHECKING:
    from mhub.cluster.migration.migration import Migration

LONG_S: Final = 60.0


Waits = dict[str, list[tuple[float, str]]]
"""By the node that is waited for: since when, and whose session it is about."""


class Outlook:
    def __init__(self, migration: "Migration") -> None:
        self._migration = migration
        self._node = migration.node
        # Nodes of which it was said already
        self._logged_held: set[str] = set()
        self._logged_merging: set[str] = set()

    def numbers(self) -> dict[str, int]:
        """All of this node."""
        migration = self._migration
        states = [source.state for source in migration.sources.values()]
        leaving = len([state for state in states if state not in (IDLE, MERGING)])
        return {
            "migrating": leaving + len(migration.targets),
            "waiting": len(migration.intakes.gated),
            "merging": states.count(MERGING),
            "held": len(migration.given.all),
        }

    def of(self, name: str) -> tuple[dict[str, int], float]:
        """What waits for one node, and since when confirmations to it are held; 0: they are not."""
        intakes = self._migration.intakes
        gated = [intakes.of(session).gates for session in intakes.gated.values()]
        held = self._held().get(name, [])
        numbers = {
            "waiting": len([gates for gates in gated if name in gates]),
            "merging": len(self._merging().get(name, [])),
            "held": len(held),
        }
        return numbers, min(held)[0] if held else 0.0

    def _held(self) -> Waits:
        found: Waits = {}
        for given in self._migration.given.all.values():
            for name in given.waits:
                found.setdefault(name, []).append((given.since, given.client_id))
        return found

    def _merging(self) -> Waits:
        found: Waits = {}
        for source in self._migration.sources.values():
            if source.state == MERGING:
                for name in self._migration.intakes.not_closed(source):
                    found.setdefault(name, []).append((source.merging_since, source.client_id))
        return found

    # The log

    def look(self) -> None:
        """From time to time."""
        for name, since_s, sessions in self._long(self._held(), self._logged_held):
            self._node.log(
                f"node {name} has not switched to the new place of {sessions} for {since_s:.0f} s:"
                " it keeps what it has published for this node since, unconfirmed."
                f" {self._advice(name)}"
            )
        for name, since_s, sessions in self._long(self._merging(), self._logged_merging):
            self._node.log(
                f"{sessions} is kept here for {since_s:.0f} s, beside a newer one: node {name} does"
                " not know of that, and may have messages for this one, which will be passed on."
                f" {self._advice(name)}"
            )

    def _long(self, waits: Waits, logged: set[str]) -> list[tuple[str, float, str]]:
        """Other nodes that something waits for too long, each once: node, since when, for whom."""
        logged.intersection_update(waits)
        found = []
        for name, sessions in waits.items():
            since, client_id = min(sessions)
            since_s = self._node.hub.now - since
            if since_s >= LONG_S and name not in logged and name in self._node.members:
                logged.add(name)
                more = f" and {len(sessions) - 1} more" if len(sessions) > 1 else ""
                found.append((name, since_s, f"the session of client {client_id!r}{more}"))
        return found

    def _advice(self, name: str) -> str:
        return (
            f"It is {self._node.members[name].state}: start it, or mend its network; if it is lost"
            f" for good, 'mhub ctl cluster forget {name}' on each node ends this"
        )
