"""Sessions that were given away from here, and the nodes that have not switched yet.

What these nodes have published since is not confirmed to them, and each of them is sent a CUT when
it is linked, before anything else.
"""

import json
from typing import TYPE_CHECKING, Final

from mhub.cluster.member import UP, Member
from mhub.cluster.migration.segments import Segment, segments_of
from mhub.cluster.said import Said

if TYPE_CHECKING:
    from mhub.cluster.migration.migration import Migration

NOTE: Final = "cut/"
"""Notes of sessions that were given away, while a node has not switched, begin so."""

PATIENCE_S: Final = 5.0
"""For so long a node must have been up before it is not waited for any more."""


class Given:
    """A session that was given away from here, and the nodes that have not switched yet."""

    def __init__(self, client_id: str, epoch: int, to: str, filters: list[str]) -> None:
        self.client_id = client_id
        self.began = 0
        self.epoch = epoch  # of the claim that it was given to
        self.to = to
        self.filters = filters
        self.instance = ""  # of the target, and
        self.number = 0  # how far its table must be known to have the session's filters
        self.waits: dict[str, list[Segment]] = {}
        self.since = 0.0

    @property
    def why(self) -> str:
        """What confirmations are held back for."""
        return f"{self.epoch}/{self.client_id}"


class GivenSessions:
    def __init__(self, migration: "Migration") -> None:
        self._migration = migration
        self._node = migration.node
        self.all: dict[str, Given] = {}  # by `why`
        self._of: dict[str, list[Given]] = {}  # by client id

    def gave(self, given: Given) -> None:
        """Nodes that are linked are told before our table says that the session is gone."""
        for earlier in list(self._of.get(given.client_id, ())):
            # It was here before: what was to be said then is a part of what is to be said now.
            for name in earlier.waits.keys() & given.waits.keys():
                del earlier.waits[name]
                self._node.peers.peers[name].incoming.release_confirm(earlier.why)
            self._note(earlier)
        self._add(given)
        for name in given.waits:
            member = self._node.members.get(name)
            if member is not None:
                self._tell_given(member, given)
        self._note(given)

    def _add(self, given: Given) -> None:
        given.since = self._node.hub.now
        self.all[given.why] = given
        self._of.setdefault(given.client_id, []).append(given)

    def _tell_given(self, member: Member, given: Given) -> None:
        self._migration.switches.ask(
            member,
            client=given.client_id,
            epoch=given.epoch,
            began=given.began,
            to=given.to,
            table=[given.instance, given.number],
            filters=given.filters,
            segments=given.waits[member.name],
        )

    def on_switched(self, member: Member, body: bytes) -> None:
        said = Said(body)
        client_id, epoch = said.text("client"), said.timestamp("epoch")
        self._migration.has_switched(member.name, client_id, epoch)
        for given in list(self._of.get(client_id, ())):
            if given.epoch <= epoch and given.waits.pop(member.name, None) is not None:
                member.peer.incoming.release_confirm(given.why)
                self._note(given)

    def _note(self, given: Given) -> None:
        if not given.waits:
            del self.all[given.why]
            self._of[given.client_id].remove(given)
            if not self._of[given.client_id]:
                del self._of[given.client_id]
        journal = self._node.hub.journal
        if journal is not None:
            text = ""
            if given.waits:
                table = [given.instance, given.number]
                text = json.dumps([given.to, given.filters, *table, given.began, given.waits])
            journal.note(NOTE + given.why, text)

    def linked(self, member: Member) -> None:
        """The first that a link has: before the table, and before what it confirms."""
        for given in list(self.all.values()):
            if member.name in given.waits:
                self._tell_given(member, given)

    def look(self) -> None:
        """A node that is linked for long, and has not switched, has nothing for the session."""
        now = self._node.hub.now
        for given in list(self.all.values()):
            if now - given.since < self._node.settings.takeover_timeout_s:
                continue
            for name in list(given.waits):
                member = self._node.members.get(name)
                if member is not None and member.state == UP and now - member.since >= PATIENCE_S:
                    del given.waits[name]
                    member.peer.incoming.release_confirm(given.why)
            if given.why in self.all:
                self._note(given)

    def forgotten(self, name: str) -> None:
        for given in list(self.all.values()):
            if given.waits.pop(name, None) is not None:
                self._note(given)

    def pending(self) -> int:
        """Sessions that were given away, of which nodes that can be reached do not know yet."""
        linked = {member.name for member in self._node.links.values()}
        return sum(1 for given in self.all.values() if linked & given.waits.keys())

    def recall(self, notes: dict[str, str]) -> None:
        for name, text in notes.items():
            if name.startswith(NOTE):
                epoch, _, client_id = name[len(NOTE) :].partition("/")
                to, filters, instance, number, began, waits = json.loads(text)
                given = Given(client_id, int(epoch), to, filters)
                given.instance, given.number, given.began = instance, number, began
                given.waits = {node: segments_of(said) for node, said in waits.items()}
                self._add(given)
                self.hold(given.why, given.waits)

    def hold(self, why: str, waits: dict[str, list[Segment]]) -> None:
        """Confirm nothing to nodes that they may have to send elsewhere."""
        for name, segments in waits.items():
            peer = self._node.peers.peers.get(name)
            here = [each for each in segments if each.node == self._node.name]
            if peer is not None and here:
                is_known = all(each.channel_epoch == peer.incoming.epoch for each in here)
                peer.incoming.hold_confirm(
                    why, min(each.position for each in here) if is_known else 0
                )
