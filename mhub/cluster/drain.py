"""Drain a node that failed, in the process of another one: how far it is.

    step()   offer what nobody has claimed; GOING, LEFT (all is elsewhere, and goodbye was said), or
             STUCK (nothing has moved for a while, as somebody cannot be reached)

Sans-I/O: the caller steps every moment, ends the turn, and lets a goodbye reach the others.
"""

from typing import Final

from mhub.cluster.member import UP
from mhub.cluster.node import Node

GOING: Final = "going"
LEFT: Final = "left"
STUCK: Final = "stuck"

STUCK_S: Final = 15.0
"""It does not go on for ever without success: the node itself may want to start."""


class Drain:
    def __init__(self, node: Node, host: Node) -> None:
        """`host` is the node in whose process this one is."""
        self._node = node
        self._host = host
        self._progress: tuple[int, ...] = ()
        self._fewest = len(node.hub.sessions)
        self._moved_at = node.clock()

    def step(self) -> str:
        node = self._node
        if self._is_linked():
            node.offer()
            if node.empty() and self._is_stored():
                node.leave()
                return LEFT
        now = node.clock()
        progress = self._measure()
        if progress != self._progress:
            self._progress = progress
            self._moved_at = now
        elif now - self._moved_at >= STUCK_S and not self._forget():
            return STUCK
        return GOING

    def _is_linked(self) -> bool:
        """Whether it knows of all that the others have, who can be reached."""
        host = self._node.members.get(self._host.name)
        if host is None or host.state != UP or not self._node.ready():
            return False
        return self._node.rounds.is_safe()

    def _is_stored(self) -> bool:
        """Whether nobody would find anything again in the store that others have."""
        journal = self._node.hub.require_journal()
        if journal.under_way is None and not journal.batch.touched():
            return True
        journal.hurry()
        return False

    def _measure(self) -> tuple[int, ...]:
        """What is different as long as it gets on.

        Messages that come for a session which is given already do not count: they are passed on,
        for as long as a node is missing, and that may be long.
        """
        node = self._node
        self._fewest = min(self._fewest, len(node.hub.sessions), node.migration.left())
        return (
            self._fewest,
            len(node.links),
            node.migration.progress,
            sum(member.peer.outgoing.queued for member in node.members.values()),
        )

    def _forget(self) -> bool:
        """Nodes that are not of the cluster any more, as the host knows; whether there were any."""
        node, host = self._node, self._host
        gone = [name for name in node.members if name != host.name and not host.knows(name)]
        for name in gone:
            node.forget(name)
        return bool(gone)

    def left(self) -> str:
        """What could not be handed over, for the log."""
        members = self._node.members.values()
        queued = {each.name: each.peer.outgoing.queued for each in members}
        parts = [f"{len(self._node.hub.sessions)} sessions"]
        parts += [f"{count} messages for node {name}" for name, count in queued.items() if count]
        away = sorted(member.name for member in members if not member.peer.up)
        if away:
            parts.append(f"not linked: {', '.join(away)}")
        return "; ".join(parts)
