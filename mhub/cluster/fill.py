"""Tables that are on all nodes: two that meet compare digests, and take what is newer.

Anti-entropy:

    DIGESTS   256 buckets of topics, a digest over topics and timestamps for each
    HAVE      for a few buckets that differ: topics and timestamps
    RETAINED  the messages of these buckets that the asker does not have, or has an older one of
    FILLED    that was all; the next few

Both sides do so at the same time.  Stop and wait bounds what is under way.  What was erased is
remembered for a while as a message without payload, so that it does not come back from a node that
does not know of it.

There are two such tables (`mhub.core.replicated`), each with its own kinds of frames: retained
messages, here, and the registry (`mhub.cluster.rounds`).
"""

from typing import TYPE_CHECKING, Any, Final

from mhub.cluster import frames
from mhub.cluster.frames import pack
from mhub.cluster.member import Filling, Member
from mhub.cluster.said import Said
from mhub.core.channel_records import read_record, record_of
from mhub.core.replicated import ReplicatedMap, bucket_of
from mhub.wire.publish import Publish

if TYPE_CHECKING:
    from mhub.cluster.node import Node

AT_ONCE: Final = 4
"""Buckets that are asked for at a time."""

PART_BYTES: Final = 128 * 1024


class Fill:
    """What is the same for all tables: which buckets, in which order, how many at a time."""

    have_kind = 0
    entries_kind = 0
    filled_kind = 0

    def __init__(self, node: "Node") -> None:
        self._node = node

    def _table(self) -> ReplicatedMap:
        raise NotImplementedError

    def _filling(self, member: Member) -> Filling:
        """How far it is with a node."""
        raise NotImplementedError

    def _name(self, message: Publish) -> list[Any]:
        """What HAVE says of a message."""
        raise NotImplementedError

    def _read_names(self, said: Said) -> dict[str, Any]:
        """What a node said that it has."""
        raise NotImplementedError

    def _lacks(self, message: Publish, names: dict[str, Any]) -> bool:
        """Whether a node that has these lacks a message."""
        raise NotImplementedError

    def _write(self, message: Publish) -> bytes:
        raise NotImplementedError

    def _join(self, part: list[bytes]) -> bytes:
        """The body of a frame with some of them."""
        raise NotImplementedError

    def _complete(self, member: Member) -> None:
        """All that a node had is here."""
        raise NotImplementedError

    def _compare(self, member: Member, theirs: list[int]) -> None:
        """Ask for the buckets in which a node has something else."""
        ours = self._table().digests or []
        filling = self._filling(member)
        filling.asking = [b for b, each in enumerate(theirs) if b < len(ours) and ours[b] != each]
        if not filling.awaited:
            self._ask(member)

    def _ask(self, member: Member) -> None:
        """The next buckets, or none: then all is here."""
        filling = self._filling(member)
        buckets = filling.asking[:AT_ONCE]
        del filling.asking[:AT_ONCE]
        if not buckets:
            filling.index = None
            self._complete(member)
            return
        filling.awaited += 1
        known = [self._name(m) for m in self._known(member, buckets)]
        left = len(filling.asking)
        self._node.send(member, self.have_kind, pack(buckets=buckets, known=known, left=left))

    def _known(self, member: Member, buckets: list[int]) -> list[Publish]:
        """What is here of some buckets: as it was when the first were asked for.

        What has changed since then, the peer was told when it did.
        """
        filling = self._filling(member)
        index = filling.index
        if index is None:
            index = filling.index = {}
            for message in self._table().known():
                index.setdefault(bucket_of(message.topic_data), []).append(message)
        return [message for bucket in buckets for message in index.get(bucket, ())]

    def have(self, member: Member, body: bytes) -> None:
        said = Said(body)
        theirs = self._read_names(said)
        buckets, left = said.numbers("buckets"), said.number("left")
        part: list[bytes] = []
        size = 0
        for message in self._known(member, buckets):
            if self._lacks(message, theirs):
                record = self._write(message)
                part.append(record)
                size += len(record)
                if size >= PART_BYTES:
                    self._node.send(member, self.entries_kind, self._join(part))
                    part, size = [], 0
        if part:
            self._node.send(member, self.entries_kind, self._join(part))
        self._node.send(member, self.filled_kind, b"{}")
        filling = self._filling(member)
        if not left and not filling.asking:
            filling.index = None

    def filled(self, member: Member, body: bytes) -> None:
        filling = self._filling(member)
        filling.awaited = max(filling.awaited - 1, 0)
        if not filling.awaited:
            self._ask(member)


class RetainedFill(Fill):
    have_kind = frames.HAVE
    entries_kind = frames.RETAINED
    filled_kind = frames.FILLED

    def _table(self) -> ReplicatedMap:
        return self._node.hub.retained

    def _filling(self, member: Member) -> Filling:
        return member.retained

    def begin(self, member: Member) -> None:
        """A link begins."""
        member.retained = Filling()
        digests = self._node.hub.retained.digests
        self._node.send(member, frames.DIGESTS, pack(digests=digests))

    def digests(self, member: Member, body: bytes) -> None:
        self._compare(member, Said(body).numbers("digests"))

    def _name(self, message: Publish) -> list[Any]:
        return [message.topic, message.hlc]

    def _read_names(self, said: Said) -> dict[str, Any]:
        return dict(said.pairs("known"))

    def _lacks(self, message: Publish, names: dict[str, Any]) -> bool:
        return message.hlc > int(names.get(message.topic, 0))

    def _write(self, message: Publish) -> bytes:
        record = record_of(message, False, None, self._node.hub.now)
        message.frame_v5 = None
        return record

    def _join(self, part: list[bytes]) -> bytes:
        return b"".join(part)

    def _complete(self, member: Member) -> None:
        if not member.retained.complete:
            member.retained.complete = True
            self._node.settled(member)

    def retained(self, member: Member, body: bytes) -> None:
        hub = self._node.hub
        pos = 0
        while pos < len(body):
            message, _, _, pos = read_record(body, pos, hub.now)
            message.retain = True
            hub.publish_from_peer(message, False, None)
