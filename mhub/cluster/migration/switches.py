"""This node as one that publishes: it switches from where a session was to where it is, at once.

    CUT       to a publishing node: the session is elsewhere, and has got your channel up to here
    SWITCHED  from it: what is behind that is on its way to the new place, with a mark behind it

It needs to know nothing of the session, and nothing of what happened to it before: the segments of
the CUT say all, and its own marks that are not confirmed say whether it has switched already.
"""

from typing import TYPE_CHECKING, Any, Final

from mhub.cluster import frames
from mhub.cluster.frames import pack, unpack
from mhub.cluster.member import Member
from mhub.cluster.migration import controls
from mhub.cluster.migration.segments import Segment, segments_of
from mhub.core.table import CLIENT, FILTER, LASTING, WANTED

if TYPE_CHECKING:
    from mhub.cluster.migration.migration import Migration

REMEMBERED: Final = 10_000
"""So many sessions are remembered for which this node has switched: asked again, it says so."""


class Switches:
    def __init__(self, migration: "Migration") -> None:
        self._migration = migration
        self._node = migration.node
        # By client id: the epoch for which this node has switched, and with which its session began
        self._switched: dict[str, tuple[int, int]] = {}

    def ask(self, member: Member, *, client: str, **fields: Any) -> None:
        """Ask another node to switch to where a session is."""
        old = self._migration.claims.older(client)
        self._node.send(member, frames.CUT, pack(client=client, **fields, old=old))

    # For a node that publishes

    def on_cut(self, member: Member, body: bytes) -> None:
        said = unpack(body)
        client_id, epoch, to = str(said["client"]), int(said["epoch"]), str(said["to"])
        segments = segments_of(said["segments"])
        self._node.peers.clock.saw(epoch)
        if to != self._node.name and self._has_to_switch(member, said, segments):
            self._switch(client_id, epoch, to, said, segments)
        if to == self._node.name or self.has_switched(client_id, epoch):
            self.say_switched(client_id, epoch, {member.name, *(each.node for each in segments)})

    def _has_to_switch(self, member: Member, said: dict[str, Any], segments: list[Segment]) -> bool:
        client_id, epoch = str(said["client"]), int(said["epoch"])
        switched, began = self._switched.get(client_id, (0, 0))
        if member.name != said["to"]:
            # A node that had it: whether ours is that session only the channels to there tell.
            return switched < epoch and self._migration.resend.is_attached(client_id, segments)
        if switched > epoch and began != said["began"]:
            # For another session, whose claim came to nothing, by a clock that is ahead; or this.
            return self._migration.holders.newest_but(member, client_id) < int(said["held"])
        return switched < epoch

    def _switch(
        self, client_id: str, epoch: int, to: str, said: dict[str, Any], segments: list[Segment]
    ) -> None:
        node = self._node
        self.remember(client_id, epoch, int(said["began"]))
        filters = [str(each) for each in said["filters"]]
        peer = node.meet(to).peer
        instance, number = said["table"]
        self._expect(node.members[to], client_id, epoch, str(instance), int(number), filters)
        segments = self._migration.resend.not_sent(client_id, segments)
        began = int(said["began"])
        gap = any(self._migration.resend.has_gap(client_id, began, segment) for segment in segments)
        source = self._migration.source_of(client_id)
        if source is not None and source.epoch == epoch:
            gap = gap or source.has_gap()
        for entry in self._migration.resend.collect(client_id, filters, segments):
            is_safe = entry.record is not None or entry.tracker is None
            peer.outgoing.put_direct(client_id, epoch, entry.message, is_safe, entry.via)
        peer.outgoing.put_control(client_id, controls.mark(epoch, gap))
        holders = [m.name for m in node.members.values() if client_id in m.peer.clients]
        self.close(client_id, began, {*said["old"], *holders} - {to})
        self._migration.intakes.closed(node.name, client_id, began)

    def _expect(
        self,
        member: Member,
        client_id: str,
        epoch: int,
        instance: str,
        number: int,
        filters: list[str],
    ) -> None:
        """What the table of the node with the session says, or will say when it comes."""
        peer = member.peer
        if member.is_current() and (member.instance != instance or peer.table_received >= number):
            return
        tables = self._node.tables
        held = max(peer.clients.get(client_id, 0), epoch << 1)
        tables.expect(member, CLIENT + client_id, held, instance, number)
        for topic_filter in filters:
            tables.expect(member, FILTER + topic_filter, WANTED | LASTING, instance, number)

    def close(self, client_id: str, began: int, names: set[str]) -> None:
        """Older sessions get nothing more from this node."""
        for name in sorted(names):
            if name in self._node.members:
                channel = self._node.members[name].peer.outgoing
                channel.put_control(client_id, controls.close(began))

    def has_switched(self, client_id: str, epoch: int) -> bool:
        """Whether this node has switched for a claim, or for a newer one."""
        return self._switched.get(client_id, (0, 0))[0] >= epoch

    def remember(self, client_id: str, epoch: int, began: int) -> None:
        """This node has switched."""
        self._switched.pop(client_id, None)
        self._switched[client_id] = epoch, began
        if len(self._switched) > REMEMBERED:
            del self._switched[next(iter(self._switched))]

    def say_switched(self, client_id: str, epoch: int, names: set[str]) -> None:
        for name in sorted(names):
            member = self._node.members.get(name)
            if member is not None:
                body = pack(client=client_id, epoch=epoch)
                self._node.send(member, frames.SWITCHED, body)
