"""The registry on all nodes: rounds in which one node takes what another has, and says so.

    DIGESTS   who is known, which lineage, how far; the digests: a round begins
    HAVE      the asker's keys and versions of a few buckets that differ
    ENTRIES   those that it does not have, or has an older version of
    FILLED    that was all; the next few
    DROP      to whoever gave entries that were deleted: delete them as well
    TAKEN     all of it is here; and once more: it is in the store

`mhub.core.floors` says what follows from a round, and why.  A round begins

    with each link, in both directions; a node is not ready before both have ended
    when the revision of a node, which each PING tells, is another one than ours
    every minute while there are tombstones that are old enough to be collected, or while somebody
    is away who will be forgotten, unless another node still sees it; in both directions
    with all nodes when the lineage has become another one, or the floor was given up

A round that began is only over by a TAKEN with its number; what is under way when the next one
begins need not be asked for twice.  What this node changes itself goes to the others in its
channels, at once.
"""

import json
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from mhub.cluster import frames
from mhub.cluster.fill import Fill
from mhub.cluster.frames import pack
from mhub.cluster.member import Filling, Member
from mhub.cluster.said import Said, as_list, as_number, as_pair, as_text, as_timestamp
from mhub.core.floors import Floors
from mhub.core.registry import PREFIX, Registry, entry_of, read_entries
from mhub.core.replicated import ReplicatedMap
from mhub.wire.publish import Publish

if TYPE_CHECKING:
    from mhub.cluster.node import Node

DIFFERENT_S: Final = 5.0
"""How long after a round that did not make revisions equal the next one begins, at least."""


AFTER_S: Final = 1.0
"""How much later than by the rest of the node somebody is forgotten."""

UNDER_WAY: Final = 8
"""So many rounds with a node are remembered that were not confirmed."""


class Round:
    """A round that this node began: when it is confirmed, somebody has all up to `stable`."""

    def __init__(self, number: int, lineage: str, stable: int) -> None:
        self.number = number
        self.lineage = lineage
        self.stable = stable


class Exchange(Filling):
    """The registry between this node and another one, for as long as they are linked."""

    def __init__(self) -> None:
        super().__init__()
        self.ours: deque[Round] = deque(maxlen=UNDER_WAY)  # that we began, and that are not over
        self.began_at = 0.0
        self.given = False  # the other has taken what we had when the link began, or later
        self.is_safe = False  # and it is in its store
        # The round of the other's that we take: its number, and what it said
        self.theirs = 0
        self.lineage = ""
        self.own = 0
        self.top = 0
        self.untold = False  # our last round did not say that we know the other
        # Rounds whose entries wait for our store: the batch, number, lineage, own
        self.storing: deque[tuple[int, int, str, int]] = deque()

    def is_settled(self) -> bool:
        """Whether both have what the other had when the link began."""
        return self.complete and self.given


class Rounds(Fill):
    have_kind = frames.REGISTRY_HAVE
    entries_kind = frames.REGISTRY_ENTRIES
    filled_kind = frames.REGISTRY_FILLED

    def __init__(self, node: "Node") -> None:
        super().__init__(node)
        self._exchanges: dict[str, Exchange] = {}
        self._seen_at: dict[str, float] = {}  # known nodes: when they were linked last
        self._number = 0
        self._repeated_at = node.hub.now
        node.hub.registry.lineage_begun = self._lineage_begun

    @property
    def _registry(self) -> Registry:
        return self._node.hub.registry

    @property
    def _floors(self) -> Floors:
        return self._node.hub.registry.floors

    def handlers(self) -> dict[int, Callable[[Member, bytes], None]]:
        return {
            frames.REGISTRY_DIGESTS: self.digests,
            frames.REGISTRY_HAVE: self.have,
            frames.REGISTRY_ENTRIES: self.entries,
            frames.REGISTRY_FILLED: self.filled,
            frames.REGISTRY_TAKEN: self.taken,
            frames.REGISTRY_DROP: self.dropped,
        }

    def exchange(self, member: Member) -> Exchange:
        found = self._exchanges.get(member.name)
        if found is None:
            found = self._exchanges[member.name] = Exchange()
        return found

    def is_settled(self, member: Member) -> bool:
        return self.exchange(member).is_settled()

    def is_safe(self) -> bool:
        """Whether all linked nodes have what was here, in their stores."""
        return all(self.exchange(member).is_safe for member in self._node.links.values())

    def numbers(self) -> dict[str, object]:
        """For people: the table here, and who holds up the collection of tombstones."""
        registry, floors = self._registry, self._floors
        behind = [name for name, node in floors.nodes.items() if node.given <= floors.floor]
        return {
            "revision": registry.revision,
            "entries": len(registry),
            "tombstones": len(registry.tombstones),
            "collected": registry.collected,
            "refused": registry.refused,
            "known": sorted(floors.nodes),
            "behind": sorted(behind) if registry.tombstones else [],
        }

    # Beginning a round

    def linked(self, member: Member) -> None:
        self._exchanges[member.name] = Exchange()
        self.begin(member)

    def unlinked(self, member: Member) -> None:
        self._exchanges.pop(member.name, None)

    def begin_all(self) -> None:
        for member in list(self._node.links.values()):
            if member.resumed:
                self.begin(member)

    def begin(self, member: Member) -> None:
        registry, floors = self._registry, self._floors
        exchange = self.exchange(member)
        exchange.index = None  # what is asked for from now on is as it is from now on
        exchange.began_at = self._node.hub.now
        self._number += 1
        own = floors.own(registry.clock.timestamp(self._node.hub.now))
        stable = floors.stable(own)
        exchange.ours.append(Round(self._number, floors.lineage, stable))
        exchange.is_safe = False
        known = floors.nodes.get(member.name)
        exchange.untold = not self._is_noted(member)
        nodes = [[name, node.met] for name, node in floors.nodes.items() if name != member.name]
        if known is not None and not exchange.untold:
            nodes.append([member.name, known.met])
        self._node.send(
            member,
            frames.REGISTRY_DIGESTS,
            pack(
                round=self._number,
                lineage=floors.lineage,
                own=own,
                floor=floors.floor,
                top=registry.top,
                yours=known.taken if known is not None else 0,
                forgot=floors.forgot(member.name),
                linked=sorted(self._linked()),
                nodes=nodes,
                gone=[[name, timestamp] for name, timestamp in floors.gone.items()],
                digests=registry.digests if registry.known() else [],
            ),
        )

    def _is_noted(self, member: Member) -> bool:
        """Whether the store knows a node."""
        known = self._floors.nodes.get(member.name)
        return known is not None and known.batch <= self._node.hub.durable

    def _begin_again(self, member: Member) -> None:
        """Tell a node that we know it, as soon as that is so."""
        if self.exchange(member).untold and self._is_noted(member):
            self.begin(member)

    def _lineage_begun(self) -> None:
        """The first change: those who are linked are known from now on."""
        for member in list(self._node.links.values()):
            if member.resumed:
                self._know(member)
                self._begin_again(member)

    def _know(self, member: Member) -> bool:
        """A node is known from now on, and soon in the store; whether it was not known."""
        timestamp = self._registry.clock.timestamp(self._node.hub.now)
        if not self._floors.meet(member.name, timestamp):
            return False
        self._registry.note()
        journal = self._node.hub.journal
        if journal is not None:
            self._floors.nodes[member.name].batch = journal.mark()
        return True

    # Taking

    def digests(self, member: Member, body: bytes) -> None:
        said = Said(body)
        exchange = self.exchange(member)
        digests = said.numbers("digests")
        lineage = said.text("lineage")
        floor, yours = said.timestamp("floor"), said.timestamp("yours")
        forgot = said.timestamp("forgot")
        for name in said.texts("linked"):
            self._seen_at[name] = self._node.hub.now
        nodes = [_name(each) for each in said.items("nodes")]
        gone = [_name(each) for each in said.items("gone")]
        theirs, own, top = said.number("round"), said.timestamp("own"), said.timestamp("top")
        # From now on, changes of this node are later than all that the other one relies on.
        self._registry.clock.saw(max(own, floor, top, yours))
        if lineage or self._floors.lineage:
            knows_us = self._node.name in dict(nodes)
            if not self._meet(member, lineage, knows_us, nodes, gone, forgot, floor):
                return
        exchange.theirs, exchange.own, exchange.top = theirs, own, top
        exchange.lineage = self._floors.lineage
        if lineage and self._node.hub.now - exchange.began_at >= self._node.settings.round_s / 2:
            self.begin(member)  # it has something to collect, and needs our side for that
        self._compare(member, digests or [0] * len(self._registry.digests or []))

    def _meet(
        self,
        member: Member,
        lineage: str,
        knows_us: bool,
        nodes: list[tuple[str, int]],
        gone: list[tuple[str, int]],
        forgot: int,
        floor: int,
    ) -> bool:
        """Whoever it is, and whomever it knows, is known from now on; whether we can go on.

        We cannot, if it has another lineage and does not know us yet; then it begins again.
        """
        floors, us = self._floors, self._node.name
        is_new = knows_us and floors.merge(lineage)
        if lineage == floors.lineage:
            is_new = floors.yields(member.name, forgot, floor) or is_new
        if floors.lineage:
            self._know(member)
            now = self._registry.clock.timestamp(self._node.hub.now)
            others = [each for each in nodes if each[0] != us]
            lost = [each for each in gone if each[0] != us]
            if floors.hear(others, lost, self._linked(), now) or is_new:
                self._registry.note()
        if is_new:
            self.begin_all()
        self._begin_again(member)
        return knows_us or not floors.would_merge(lineage)

    def entries(self, member: Member, body: bytes) -> None:
        refused = self._registry.take(read_entries(Said(body).items("set")))
        if refused:
            self._node.send(
                member,
                frames.REGISTRY_DROP,
                pack(lineage=self._floors.lineage, keys=[list(each) for each in refused]),
            )

    def _complete(self, member: Member) -> None:
        exchange = self.exchange(member)
        exchange.complete = True
        if not exchange.theirs:
            return
        self._registry.reached(exchange.top)
        journal = self._node.hub.journal
        batch = journal.mark() if journal is not None else 0
        exchange.storing.append((batch, exchange.theirs, exchange.lineage, exchange.own))
        if batch > self._node.hub.durable:
            self._confirm(member, exchange.theirs, False)
        exchange.theirs = 0
        self._store(member, exchange)

    def _store(self, member: Member, exchange: Exchange) -> None:
        """Confirm what is in the store by now."""
        while exchange.storing and exchange.storing[0][0] <= self._node.hub.durable:
            _, number, lineage, own = exchange.storing.popleft()
            if lineage == self._floors.lineage:
                self._floors.took(member.name, own)
                if lineage:
                    self._registry.note()
            self._confirm(member, number, True)

    def _confirm(self, member: Member, number: int, is_safe: bool) -> None:
        self._node.send(member, frames.REGISTRY_TAKEN, pack(round=number, safe=is_safe))

    # Giving

    def taken(self, member: Member, body: bytes) -> None:
        """Another node has all that was here."""
        said = Said(body)
        number, is_safe = said.number("round"), said.flag("safe")
        exchange, floors = self.exchange(member), self._floors
        exchange.given = True
        if not is_safe:
            return
        while exchange.ours and exchange.ours[0].number <= number:
            ours = exchange.ours.popleft()
            if ours.number == number and ours.lineage and ours.lineage == floors.lineage:
                floors.gave(member.name, ours.stable)
                self._rise()
                self._registry.note()
        exchange.is_safe = not exchange.ours

    def _rise(self) -> None:
        now = self._node.hub.now
        if self._floors.rise():
            self._registry.collect(now)

    def dropped(self, member: Member, body: bytes) -> None:
        """What was given was deleted, and by now every node but this one had forgotten that."""
        said = Said(body)
        keys = [_name(each) for each in said.items("keys")]
        if said.text("lineage") == self._floors.lineage:
            self._registry.drop(keys)

    # Time

    def tick(self, now: float) -> None:
        for member in list(self._node.links.values()):
            if member.resumed:
                self._store(member, self.exchange(member))
                self._begin_again(member)
                self._repair(member, now)
        self._forget_absent(now)
        if now - self._repeated_at >= self._node.settings.round_s:
            self._repeated_at = now
            self._registry.ensure_lineage_of_contents()
            if self._registry.has_old_tombstones(now) or self._absent(now, 0.5):
                self.begin_all()
                self._rise()

    def _repair(self, member: Member, now: float) -> None:
        """Begin a round if the other node has another revision, and no round is under way."""
        exchange = self.exchange(member)
        if (
            member.revision
            and member.revision != self._registry.revision
            and exchange.is_settled()
            and now - exchange.began_at >= DIFFERENT_S
        ):
            self.begin(member)

    def _forget_absent(self, now: float) -> None:
        """Those who were away for too long: if they come back, they take our table."""
        floors, linked = self._floors, self._linked()
        for name in floors.nodes:
            if name in linked or name not in self._seen_at:
                self._seen_at[name] = now
        for name in self._absent(now, 1.0):
            # Of a cluster that is split one part at most has more than half of all.
            here = len(linked.intersection(floors.nodes)) + 1
            if 2 * here > len(floors.nodes) + 1:
                self.forget(name)

    def _absent(self, now: float, part: float) -> list[str]:
        """Known nodes that neither we nor those who are linked have seen for too long."""
        settings = self._node.settings
        if not settings.forget_s:
            return []
        # When the node has dropped what it kept for it in its channel: nothing old comes from here.
        away_s = settings.forget_s + settings.dead_s + AFTER_S
        names = self._floors.nodes
        return [name for name in names if now - self._seen_at.get(name, now) >= part * away_s]

    def _linked(self) -> set[str]:
        return {member.name for member in self._node.links.values()}

    def forget(self, name: str) -> bool:
        """A node will not come back; whether it was known."""
        if name not in self._floors.nodes:
            return False
        self._floors.forget(name, self._registry.clock.timestamp(self._node.hub.now))
        self._registry.note()
        self._seen_at.pop(name, None)
        self._rise()
        return True

    # Fill

    def _table(self) -> ReplicatedMap:
        return self._registry

    def _filling(self, member: Member) -> Filling:
        return self.exchange(member)

    def _name(self, message: Publish) -> list[Any]:
        return [message.topic[len(PREFIX) :], message.hlc, crc32(message.payload)]

    def _read_names(self, said: Said) -> dict[str, Any]:
        names: dict[str, Any] = {}
        for each in said.items("known"):
            key, hlc, check = [*as_list(each, "known"), None, None, None][:3]
            names[PREFIX + as_text(key, "known")] = (
                as_timestamp(hlc, "known"),
                as_number(check, "known"),
            )
        return names

    def _lacks(self, message: Publish, names: dict[str, Any]) -> bool:
        hlc, check = names.get(message.topic, (0, 0))
        return bool(message.hlc > hlc or (message.hlc == hlc and crc32(message.payload) != check))

    def _write(self, message: Publish) -> bytes:
        return json.dumps(entry_of(message), separators=(",", ":"), ensure_ascii=False).encode()

    def _join(self, part: list[bytes]) -> bytes:
        return b'{"set":[' + b",".join(part) + b"]}"


def _name(value: Any) -> tuple[str, int]:
    """A name or a key, with a timestamp."""
    name, timestamp = as_pair(value, "names")
    return name, as_timestamp(timestamp, "names")
