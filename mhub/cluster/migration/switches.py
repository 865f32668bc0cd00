"""This node as one that publishes: it switches from where a session was to where it is, at once.

    CUT       to a publishing node: the session is elsewhere, and has got your channel up to here
    SWITCHED  from it: what is behind that is on its way to the new place, with a mark behind it

It needs to know nothing of the session, and nothing of what happened to it before: the segments of
the CUT say all, and its own marks that are not confirmed say whether it has switched already.
"""

from typing import TYPE_CHECKING, Any, Final

from mhub.cluster import frames
from mhub.cluster.frames import pack
from mhub.cluster.member import Member
from mhub.cluster.migration import controls
from mhub.cluster.migration.segments import segments_of
from mhub.cluster.said import MOST, Said
from mhub.core.table import CLIENT, FILTER, LASTING, WANTED
from mhub.wire.topics import check_filter

if TYPE_CHECKING:
    from mhub.cluster.migration.migration import Migration

REMEMBERED: Final = 10_000
"""So many sessions are remembered for which this node has switched: asked again, it says so."""


class Cut:
    """What a CUT says.  ProtocolFault if that is nonsense."""

    def __init__(self, body: bytes) -> None:
        said = Said(body)
        self.client_id = said.text("client")
        self.epoch = said.timestamp("epoch")  # of the claim to switch for
        self.began = said.timestamp("began")  # the epoch with which the session began
        self.to = said.text("to")  # where it is
        self.held = said.timestamp("held") if said.has("held") else 0  # and under which epoch
        self.instance, self.number = said.pair("table")  # of that node, when it had it
        self.filters = said.texts("filters")
        for topic_filter in self.filters:
            check_filter(topic_filter, MOST)
        self.segments = segments_of(said.items("segments"))
        self.old = said.texts("old")  # nodes that may have an older session


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
        cut = Cut(body)
        client_id, epoch = cut.client_id, cut.epoch
        self._node.peers.clock.saw(epoch)
        if cut.to != self._node.name and self._has_to_switch(member, cut):
            self._switch(cut)
        if cut.to == self._node.name or self.has_switched(client_id, epoch):
            names = {member.name, *(each.node for each in cut.segments)}
            self.say_switched(client_id, epoch, names)

    def _has_to_switch(self, member: Member, cut: Cut) -> bool:
        client_id, epoch = cut.client_id, cut.epoch
        switched, began = self._switched.get(client_id, (0, 0))
        if member.name != cut.to:
            # A node that had it: whether ours is that session only the channels to there tell.
            is_attached = self._migration.resend.is_attached
            return switched < epoch and is_attached(client_id, cut.segments)
        if switched > epoch and began != cut.began:
            # For another session, whose claim came to nothing, by a clock that is ahead; or this.
            return self._migration.holders.newest_but(member, client_id) < cut.held
        return switched < epoch

    def _switch(self, cut: Cut) -> None:
        node = self._node
        client_id, epoch, began, filters = cut.client_id, cut.epoch, cut.began, cut.filters
        self.remember(client_id, epoch, began)
        member = node.meet(cut.to)
        peer = member.peer
        self._expect(member, client_id, epoch, cut.instance, cut.number, filters)
        segments = self._migration.resend.not_sent(client_id, cut.segments)
        gap = any(self._migration.resend.has_gap(client_id, began, segment) for segment in segments)
        source = self._migration.source_of(client_id)
        if source is not None and source.epoch == epoch:
            gap = gap or source.has_gap()
        for entry in self._migration.resend.collect(client_id, filters, segments):
            is_safe = entry.record is not None or entry.tracker is None
            peer.outgoing.put_direct(client_id, epoch, entry.message, is_safe, entry.via)
        peer.outgoing.put_control(client_id, controls.mark(epoch, gap))
        holders = [m.name for m in node.members.values() if client_id in m.peer.clients]
        self.close(client_id, began, {*cut.old, *holders} - {cut.to})
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
