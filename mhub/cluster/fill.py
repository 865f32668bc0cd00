"""Retained messages are on all nodes: two that meet compare digests, and take what is newer.

Anti-entropy:

    DIGESTS   256 buckets of topics, a digest over topics and timestamps for each
    HAVE      for a few buckets that differ: topics and timestamps
    RETAINED  the messages of these buckets that the asker does not have, or has an older one of
    FILLED    that was all; the next few

Both sides do so at the same time.  Stop and wait bounds what is under way.  What was erased is
remembered for a while as a message without payload, so that it does not come back from a node that
does not know of it.
"""

from typing import TYPE_CHECKING, Final

from mhub.cluster import frames
from mhub.cluster.frames import pack
from mhub.cluster.member import Member
from mhub.cluster.said import Said
from mhub.core.channel_records import read_record, record_of
from mhub.core.replicated import bucket_of
from mhub.wire.publish import Publish

if TYPE_CHECKING:
    from mhub.cluster.node import Node

AT_ONCE: Final = 4
"""Buckets that are asked for at a time."""

PART_BYTES: Final = 128 * 1024


class Fill:
    def __init__(self, node: "Node") -> None:
        self._node = node

    def begin(self, member: Member) -> None:
        member.asking = []
        member.index = None
        digests = self._node.hub.retained.digests
        self._node.send(member, frames.DIGESTS, pack(digests=digests))

    def digests(self, member: Member, body: bytes) -> None:
        ours = self._node.hub.retained.digests or []
        theirs = Said(body).numbers("digests")
        member.asking = [b for b, each in enumerate(theirs) if b < len(ours) and ours[b] != each]
        self._ask(member)

    def _ask(self, member: Member) -> None:
        """The next buckets, or none: then all is here."""
        buckets = member.asking[:AT_ONCE]
        del member.asking[:AT_ONCE]
        if not buckets:
            member.index = None
            if not member.filled:
                member.filled = True
                self._node.settled(member)
            return
        known = [[m.topic, m.hlc] for m in self._known(member, buckets)]
        left = len(member.asking)
        self._node.send(member, frames.HAVE, pack(buckets=buckets, known=known, left=left))

    def _known(self, member: Member, buckets: list[int]) -> list[Publish]:
        """What is here of some buckets: as it was when the first were asked for.

        What has changed since then, the peer was told when it did.
        """
        index = member.index
        if index is None:
            index = member.index = {}
            for message in self._node.hub.retained.known():
                index.setdefault(bucket_of(message.topic_data), []).append(message)
        return [message for bucket in buckets for message in index.get(bucket, ())]

    def have(self, member: Member, body: bytes) -> None:
        said = Said(body)
        theirs = dict(said.pairs("known"))
        buckets, left = said.numbers("buckets"), said.number("left")
        now = self._node.hub.now
        part: list[bytes] = []
        size = 0
        for message in self._known(member, buckets):
            if message.hlc > theirs.get(message.topic, 0):
                record = record_of(message, False, None, now)
                message.frame_v5 = None
                part.append(record)
                size += len(record)
                if size >= PART_BYTES:
                    self._node.send(member, frames.RETAINED, b"".join(part))
                    part, size = [], 0
        if part:
            self._node.send(member, frames.RETAINED, b"".join(part))
        self._node.send(member, frames.FILLED, b"{}")
        if not left and not member.asking:
            member.index = None

    def retained(self, member: Member, body: bytes) -> None:
        hub = self._node.hub
        pos = 0
        while pos < len(body):
            message, _, _, pos = read_record(body, pos, hub.now)
            message.retain = True
            hub.publish_from_peer(message, False, None)

    def filled(self, member: Member, body: bytes) -> None:
        self._ask(member)
