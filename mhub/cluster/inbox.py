"""Frames that have come from other nodes, and wait until the store of this node has caught up.

A node that was away gets all at once what others kept for it, faster than its store takes it.  Only
one batch is under way to the store, and the next gathers meanwhile: without a bound each would be
larger than the one before, and clients would get nothing while a large one is stored, as their next
messages are in it, or in the store behind it.  So when a batch is under way and the next is full
(`Journal.is_full`), messages of other nodes wait here.  They are not counted as received either,
so the other side does not send more than its window.

The order of a link is kept: what comes behind a frame that waits does so, too, but for what shows
that a node is alive, for confirmations, which are about the other direction, and for questions of
operators, who want to know why something waits.  While the store
fails nothing waits: QoS 0 goes on then, and what has to be kept is bounded by who sends it.
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from mhub.cluster import frames
from mhub.cluster.member import Member

if TYPE_CHECKING:
    from mhub.cluster.node import Node

AT_ONCE: Final = frozenset(
    (
        *(frames.PING, frames.PONG, frames.CONFIRM),
        *(frames.QUERY, frames.ANSWER, frames.ANSWER_MORE),
    )
)

UNNUMBERED: Final = bytes(8)
"""How a frame with messages of QoS 0 alone begins."""


class Inbox:
    def __init__(self, node: "Node") -> None:
        self._node = node
        self._waiting: dict[Member, deque[tuple[int, bytes]]] = {}
        self._goes_on = False

    def takes(self, member: Member, kind: int, body: bytes) -> bool:
        """Whether a frame has to wait; then it is here."""
        waiting = self._waiting.get(member)
        if waiting is None:
            is_stored = kind == frames.PUBLISHES and body[:8] != UNNUMBERED
            if not is_stored or not self._has_to_wait():
                return False
            waiting = self._waiting[member] = deque()
            self._node.peers.deferred = True
        elif kind in AT_ONCE:
            return False
        waiting.append((kind, body))
        return True

    def _has_to_wait(self) -> bool:
        hub = self._node.hub
        journal = hub.journal
        is_full = journal is not None and journal.is_full()
        return is_full and not hub.storage.state.startswith("failing")

    def go_on(self) -> None:
        """As far as the store lets it: a frame of each node in turn."""
        if self._goes_on:
            return  # the turn has ended amid a frame
        self._goes_on = True
        while self._waiting and not self._has_to_wait():
            member, waiting = next(iter(self._waiting.items()))
            del self._waiting[member]
            kind, body = waiting.popleft()
            if waiting:
                self._waiting[member] = waiting
            self._node.handle(member, kind, body)
        self._goes_on = False
        self._node.peers.deferred = bool(self._waiting)

    def empty(self, member: Member) -> None:
        """Its link is gone: what came before that is taken, whatever the store does."""
        waiting = self._waiting.pop(member, deque())
        while waiting and member.link is not None:
            self._node.handle(member, *waiting.popleft())

    def drop(self, member: Member) -> None:
        """What is not confirmed comes again by the next link."""
        self._waiting.pop(member, None)
