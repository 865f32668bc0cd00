"""The tables of all nodes: each tells the others what it wants and has (`mhub.core.peers`).

A link begins with the number up to which the other side has our table.  If the changes since then
are still remembered they are sent, else the table as a whole, in parts; from then on each change,
in the order of their numbers.  A gap, which an ordered link cannot have, asks for all of it again.
"""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final

from mhub.cluster import frames
from mhub.cluster.frames import pack
from mhub.cluster.member import Member
from mhub.cluster.said import MOST, Said
from mhub.core.table import CLIENT, FILTER, SHARE
from mhub.wire.primitives import malformed
from mhub.wire.topics import check_filter, split_share

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
        if instance == self._node.settings.instance and peers.table.since(number) is not None:
            peer.told = number
            peer.knows = number
            # Also if there is no change: it says that this is all.
            self.tell(member)
        else:
            self._tell_all(member)

    def tell(self, member: Member) -> None:
        peers = self._node.peers
        peer = member.peer
        changes = peers.table.since(peer.told)
        if changes is None:
            self._tell_all(member)
            return
        at = peer.told
        for part in _parts([name, value] for name, value in changes):
            to = at + len(part)
            self._node.send(member, frames.TABLE, pack(at=at, to=to, set=part))
            at = to
        if not changes:
            self._node.send(member, frames.TABLE, pack(at=at, to=at, set=[]))
        peer.told = peers.table.number

    def _tell_all(self, member: Member) -> None:
        peers = self._node.peers
        parts = list(_parts([name, value] for name, value in peers.table.names.items())) or [[]]
        for index, part in enumerate(parts):
            to = peers.table.number if index == len(parts) - 1 else -1
            at = -1 if index else -2  # the first of them, and others
            body = pack(at=at, to=to, set=part, number=peers.table.number)
            self._node.send(member, frames.TABLE, body)
        member.peer.told = peers.table.number
        member.peer.knows = 0

    def again(self, member: Member, body: bytes) -> None:
        self._tell_all(member)

    # Theirs

    def restarted(self, member: Member) -> None:
        """It is another process than before: what was received of its table is of the old one."""
        member.peer.table_received = -1  # so it sends all of it
        if member.expected_of != member.instance:
            member.expected = {}

    def expect(self, member: Member, name: str, value: int, instance: str, number: int) -> None:
        """What the table of a process there says from a number on, though it has not come yet."""
        if member.expected_of != instance:
            member.expected = {}
            member.expected_of = instance
        member.expected[name] = number
        self._node.peers.learn(member.peer, name, value)

    def _learn(self, member: Member, name: str, value: int, number: int) -> None:
        """Unless it is less than what this table is known to say later."""
        peer = member.peer
        if member.expected.get(name, 0) > number:
            if name[:1] == CLIENT:
                # Of one epoch all is learned: whether the client is connected changes both ways.
                is_less = value >> 1 < peer.clients.get(name[1:], 0) >> 1
            else:
                is_less = value < peer.routes.get(name, 0)
            if is_less:
                return
        self._node.peers.learn(peer, name, value)

    def on_table(self, member: Member, body: bytes) -> None:
        said = Said(body)
        at, to = said.number("at", -2), said.number("to", -1)
        changes = said.pairs("set")
        for name, _ in changes:
            _check_name(name)
        is_whole = at == -2 or member.stale is not None
        number = said.number("number") if is_whole else at
        peer = member.peer
        if at == -2:
            member.stale = dict.fromkeys(peer.routes)
            member.stale.update({CLIENT + client_id: None for client_id in peer.clients})
        elif at >= 0 and at != peer.table_received:
            self._node.send(member, frames.AGAIN, b"{}")
            return
        stale = member.stale
        for name, value in changes:
            if stale is None:
                number += 1
            else:
                stale.pop(name, None)
            self._learn(member, name, value, number)
        if to < 0:
            return
        if stale is not None:
            for name in stale:
                self._learn(member, name, 0, to)
            member.stale = None
        peer.table_received = to
        peer.incoming.confirm_due = True
        member.expected = {name: n for name, n in member.expected.items() if n > to}
        if not member.has_table:
            member.has_table = True
            self._node.settled(member)
            self._node.migration.table(member)


def _check_name(name: str) -> None:
    """ProtocolFault if it is about a filter that is none.  How many levels one may have, each node
    decides for its own clients."""
    kind, rest = name[:1], name[1:]
    if kind == SHARE:
        share, rest = split_share(rest)
        if not share:
            raise malformed("an invalid shared subscription in its table")
    if kind in (FILTER, SHARE):
        check_filter(rest, MOST)


def _parts(changes: Iterable[list[str | int]]) -> Iterable[list[list[str | int]]]:
    rest = iter(changes)
    while part := list(islice(rest, PART)):
        yield part
