"""When a deletion may be forgotten: how far each node of a cluster has taken the table of each.

A table is a `ReplicatedMap`: newest wins, so as long as tombstones are kept, nothing that was
deleted comes back, in whatever order nodes meet.  This is about the time after that.

Two nodes that are linked have rounds (`mhub.cluster.rounds`), one for each direction.  Node j says
what it has, by digests; node i takes all of it that is newer, then confirms, when its store has it.
With a round j says two timestamps of the cluster's clock:

    own      all that j itself has ever changed up to this is in its table.  Its clock does not go
             back, so this is the time at which the round began.
    stable   all that any known node has changed up to this is in its table: the lower of `own` and
             of what it has taken of each known node.

When i has taken all, and when that is confirmed:

    i: taken[j] = own       i has all changes of j up to `own`
    j: given[i] = stable    i has all changes of everybody up to `stable`
    j: floor = min(given)   every known node has all changes of everybody up to the floor

Invariants, for as long as nodes know each other:

 1. What was changed up to the floor of a node is in the table of every known node, or something
    newer of the same key is, or was: a tombstone that is collected.
 2. A node collects only tombstones at or below its floor.  So no known node has an older value of
    such a key, and (1) goes on to hold.
 3. A value at or below the floor of a node, of a key that this node does not have, was deleted.  By
    (1) its table had that value, or a newer one, and only collection takes a key away.

By (3) such a value is refused, whoever has it: a frame that was under way for long, a node that was
forgotten, or one whose disk was restored.  Whoever gave it is told, and makes a tombstone of it.
So (3) is what keeps deletions deleted, and (1) what keeps (3) from hitting the innocent: a value
that a known node has changed is never at or below a floor and missing.

A node without a table (new, or without a store) has `own` = 1 until it had a round with each node
that it knows: what it changed in an earlier life is in their tables, not in its own.

Which nodes are known is replicated as well: names with the time at which they were met, and those
that are gone with the time at which they were forgotten; the later one counts.  A node takes part
in a lineage when another one has said that it knows it, from its store: from then on its changes
are later than all that was said about tables without it.  And it knows all whom the others know
before it has a floor.

Forgotten is who left, whom an operator forgets, and who was away for too long; the last only where
those who are together are more than half of all, and none of them is linked with it.  So of a
cluster that is split for days one part at most goes on collecting: whoever comes back takes its
table.

Two nodes may have forgotten each other: of a, b and c first a and b go on without c, then b and c
without a.  Whoever was forgotten later is the one that was away, as two majorities have somebody in
common.  It begins without a floor again, and refuses nothing.

A node that knows no other one collects nothing: who is known is in its store a moment after it was
met, and a crash may come before that.

All this is about one lineage: a random word, made with the first change.  Tables of different
lineages have nothing in common.  When such nodes meet, the result has both words, floors begin at
nothing again, and the newest value wins.  Who has fewer words joins those who have more.
"""

import json
from collections.abc import Collection
from typing import Final

MOST_GONE: Final = 1000
"""So many forgotten nodes are remembered."""

ONCE: Final = 1
"""A round took place, though with a node that could not say how far its own changes go."""


class Known:
    """A known node: when it was met, and how far tables were taken."""

    def __init__(self, met: int) -> None:
        self.met = met
        self.forgot = 0  # when it had been forgotten before that, if it was
        self.batch = 0  # with which the store knows it
        self.given = 0  # all changes up to this are in its table
        self.taken = 0  # all changes of its own up to this are in our table


class Floors:
    def __init__(self) -> None:
        self.lineage = ""  # "": nothing was ever changed here
        self.floor = 0
        self.nodes: dict[str, Known] = {}
        self.gone: dict[str, int] = {}

    # Rounds

    def own(self, timestamp: int) -> int:
        """Up to where all changes of this node are in its table; `timestamp` is a new one."""
        if not self.lineage or 0 in [node.taken for node in self.nodes.values()]:
            return ONCE
        return timestamp

    def stable(self, own: int) -> int:
        """Up to where all changes of all known nodes are in the table of this one."""
        return min([own, *[node.taken for node in self.nodes.values()]])

    def took(self, name: str, own: int) -> None:
        """All that a node had when it said `own` is in our store."""
        node = self.nodes.get(name)
        if node is not None:
            node.taken = max(node.taken, own, ONCE)

    def gave(self, name: str, stable: int) -> None:
        """All that we had when we said `stable` is in the store of a node."""
        node = self.nodes.get(name)
        if node is not None:
            node.given = max(node.given, stable)

    def rise(self) -> bool:
        """Raise the floor as far as it goes; whether it did.  It never goes down."""
        floor = min([node.given for node in self.nodes.values()], default=0)
        if floor <= max(self.floor, ONCE):
            return False
        self.floor = floor
        return True

    # Who is known

    def meet(self, name: str, timestamp: int) -> bool:
        """A node is linked; whether it was not known."""
        if name in self.nodes:
            return False
        self._know(name, timestamp)
        return True

    def _know(self, name: str, timestamp: int) -> None:
        known = self.nodes[name] = Known(timestamp)
        known.forgot = self.gone.pop(name, 0)

    def forgot(self, name: str) -> int:
        """When a node was forgotten, though it may be known again; 0: never."""
        known = self.nodes.get(name)
        return known.forgot if known is not None else self.gone.get(name, 0)

    def forget(self, name: str, timestamp: int) -> None:
        """A node will not come back; if it does, it takes our table."""
        self.nodes.pop(name, None)
        if self.lineage:
            self._is_gone(name, timestamp)

    def _is_gone(self, name: str, timestamp: int) -> None:
        self.gone[name] = max(timestamp, self.gone.get(name, 0))
        while len(self.gone) > MOST_GONE:
            del self.gone[next(iter(self.gone))]

    def hear(
        self,
        nodes: list[tuple[str, int]],
        gone: list[tuple[str, int]],
        linked: Collection[str],
        now: int,
    ) -> bool:
        """Whom another node knows and has forgotten; `linked` are here.  Whether it was news."""
        news = False
        for name, timestamp in gone:
            known = self.nodes.get(name)
            if name in linked:
                if known is not None and known.met <= timestamp:
                    known.met = now  # the others can reach it by way of us
                    news = True
            elif timestamp > self.gone.get(name, 0) and (known is None or known.met < timestamp):
                self.nodes.pop(name, None)
                self._is_gone(name, timestamp)
                news = True
        for name, timestamp in nodes:
            if name not in self.nodes and timestamp > self.gone.get(name, 0):
                self._know(name, timestamp)
                news = True
        return news

    # Lineages

    def begin(self, lineage: str) -> None:
        """Another lineage: what is known of tables was said about the old one."""
        self.lineage = lineage
        self.floor = 0
        for node in self.nodes.values():
            node.given = node.taken = 0

    def merge(self, theirs: str) -> bool:
        """Join the lineage of another node, if it has more than ours; whether it has."""
        if not self.would_merge(theirs):
            return False
        both = {*self.lineage.split("+"), *theirs.split("+")} - {""}
        self.begin("+".join(sorted(both)))
        return True

    def would_merge(self, theirs: str) -> bool:
        return not {*theirs.split("+")} <= {*self.lineage.split("+"), ""}

    def yields(self, name: str, forgot_us: int, their_floor: int) -> bool:
        """Give up our floor, if we do not know a node, which has forgotten us later than we did it.

        `forgot_us`: when that was; 0: never.
        """
        if name in self.nodes or not self.floor:
            return False
        if (self.gone.get(name, 0), self.floor) >= (forgot_us, their_floor):
            return False
        self.begin(self.lineage)
        return True

    # In the store

    def to_text(self, top: int) -> str:
        nodes = {
            name: [each.met, each.forgot, each.given, each.taken]
            for name, each in self.nodes.items()
        }
        return json.dumps(
            {
                "lineage": self.lineage,
                "floor": self.floor,
                "top": top,
                "nodes": nodes,
                "gone": self.gone,
            },
            separators=(",", ":"),
        )

    def recall(self, text: str) -> int:
        """What to_text() wrote; `top`.  ValueError if it did not."""
        try:
            noted = json.loads(text)
            self.lineage = str(noted["lineage"])
            self.floor = int(noted["floor"])
            for name, (met, forgot, given, taken) in noted["nodes"].items():
                node = self.nodes[name] = Known(int(met))
                node.forgot = int(forgot)
                node.given, node.taken = int(given), int(taken)
            self.gone = {name: int(timestamp) for name, timestamp in noted["gone"].items()}
            return int(noted["top"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"a note about the registry that cannot be read: {error}") from error
