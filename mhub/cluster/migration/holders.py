"""Which nodes have a session of a client, or claim it, as their tables say."""

from typing import TYPE_CHECKING

from mhub.cluster.member import DOWN, SYNCING, Member

if TYPE_CHECKING:
    from mhub.cluster.node import Node


class Holders:
    def __init__(self, node: "Node") -> None:
        self._node = node

    def held(self, member: Member, client_id: str) -> int:
        """The epoch under which a node has a session, or claims it; 0: it does not."""
        return member.peer.clients.get(client_id, 0) >> 1

    def highest(self, client_id: str) -> Member | None:
        """The other node with the highest epoch."""
        found = None
        best = (0, "")
        for member in self._node.members.values():
            epoch = self.held(member, client_id)
            if epoch and (epoch, member.name) > best:
                best = (epoch, member.name)
                found = member
        return found

    def newest_but(self, member: Member, client_id: str) -> int:
        """The highest epoch of a client's sessions and claims, but for those of one node."""
        others = [each for each in self._node.members.values() if each is not member]
        epochs = [self.held(each, client_id) for each in others]
        return max([self._node.peers.table.own_epoch(client_id), *epochs])

    def is_worth_waiting(self, member: Member) -> bool:
        """It is linked, or was a moment ago: then it may be back in another.

        Where failover is possible, that takes longer: see `mhub.cluster.failover`.
        """
        if member.peer.up or member.state == SYNCING:
            return True
        node = self._node
        gone_s = node.hub.now - member.gone_at
        if node.can_be_replaced(member) and gone_s < node.settings.takeover_timeout_s:
            return True
        return member.state == DOWN and node.hub.now - member.since < node.settings.suspect_s
