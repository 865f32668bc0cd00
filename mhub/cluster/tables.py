"""The tables of all nodes: each tells the others what it wants and has (`mhub.core.peers`).

A link begins with the number up to which the other side has our table.  If the changes since then
are still remembered they are sent, else the table as a whole, in parts; from then on each change,
in the order of their numbers.  A gap, which an ordered link cannot have, asks for all of it again.
"""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final

from mhub.cluster import frames
from mhub.cluster.frames import pack, unpack
from mhub.cluster.member import Member
from mhub.core.peers import CLIENT

if TYPE_CHECKING:
    from mhub.cluster.node import Node

PART: Final = 2000
"""Names in one frame."""


class Tables:
    def __init__(self, node: "Node") -> None:
        self._node = node

    # Ours

    def begin(self, member: Member, instance: str, number: int) -> None:
        """A link is up; the other side has the table of `instance` up to a number."""
        peers = self._node.peers
        peer = member.peer
        if instance == self._node.settings.instance and peers.since(number) is not None:
            peer.told = number
            peer.knows = number
            # Also if there is no change: it says that this is all.
            self.tell(member)
        else:
            self._tell_all(member)

    def tell(self, member: Member) -> None:
        peers = self._node.peers
        peer = member.peer
        changes = peers.since(peer.told)
        if changes is None:
            self._tell_all(member)
            return
        at = peer.told
        for part in _parts([change.name, change.value] for change in changes):
            to = at + len(part)
            self._node.send(member, frames.TABLE, pack(at=at, to=to, set=part))
            at = to
        if not changes:
            self._node.send(member, frames.TABLE, pack(at=at, to=at, set=[]))
        peer.told = peers.number

    def _tell_all(self, member: Member) -> None:
        peers = self._node.peers
        parts = list(_parts([name, value] for name, value in peers.table.items())) or [[]]
        for index, part in enumerate(parts):
            to = peers.number if index == len(parts) - 1 else -1
            at = -1 if index else -2  # the first of them, and others
            body = pack(at=at, to=to, set=part, number=peers.number)
            self._node.send(member, frames.TABLE, body)
        member.peer.told = peers.number
        member.peer.knows = 0

    def again(self, member: Member, body: bytes) -> None:
        self._tell_all(member)

    # Theirs

    def restarted(self, member: Member) -> None:
        """It is another process than before: what was heard of its table is of the old one."""
        member.peer.table_heard = -1  # so it sends all of it
        if member.peer.expected_of != member.instance:
            member.peer.expected = {}

    def heard(self, member: Member, body: bytes) -> None:
        said = unpack(body)
        at, to, changes = int(said["at"]), int(said["to"]), said["set"]
        peer = member.peer
        if at == -2:
            member.stale = dict.fromkeys(peer.routes)
            member.stale.update({CLIENT + client_id: None for client_id in peer.clients})
        elif at >= 0 and at != peer.table_heard:
            self._node.send(member, frames.AGAIN, b"{}")
            return
        peers = self._node.peers
        stale = member.stale
        number = at if stale is None else int(said["number"])
        for name, value in changes:
            if stale is None:
                number += 1
            else:
                stale.pop(name, None)
            if not peers.is_outdated(peer, str(name), int(value), number):
                peers.learn(peer, str(name), int(value))
        if to < 0:
            return
        if stale is not None:
            for name in stale:
                if not peers.is_outdated(peer, name, 0, to):
                    peers.learn(peer, name, 0)
            member.stale = None
        peers.came_to(peer, to)
        peer.table_heard = to
        peer.confirm_due = True
        if not member.has_table:
            member.has_table = True
            self._node.settled(member)
            self._node.migration.table(member)


def _parts(changes: Iterable[list[str | int]]) -> Iterable[list[list[str | int]]]:
    rest = iter(changes)
    while part := list(islice(rest, PART)):
        yield part
