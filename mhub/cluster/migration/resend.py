"""What is in the channels of this node that a session has not got, to be sent again.

A node that publishes keeps each message until it is confirmed, and the node that had the session
does not confirm what is behind its position before SWITCHED.  So all of it is still here.
"""

from typing import TYPE_CHECKING

from mhub.cluster.migration import controls
from mhub.cluster.migration.pending import CLOSED, marks_in
from mhub.cluster.migration.segments import Segment, place
from mhub.core.channel_out import OutgoingChannel
from mhub.core.channel_records import Entry
from mhub.core.peer import Peer
from mhub.wire.topics import matches

if TYPE_CHECKING:
    from mhub.cluster.node import Node


class Resend:
    def __init__(self, node: "Node") -> None:
        self._node = node

    def collect(self, client_id: str, filters: list[str], segments: list[Segment]) -> list[Entry]:
        """What is for a session in our channels to where it was, and did not get there in time."""
        found: list[Entry] = []
        for segment in self.not_sent(client_id, segments):
            found += self._scan(client_id, filters, segment)[0]
        return found

    def is_attached(self, client_id: str, segments: list[Segment]) -> bool:
        """Whether what this node publishes now is for the session that has gone this way."""
        left = self.not_sent(client_id, segments)
        return bool(left) and self._scan(client_id, [], left[0])[1]

    def _scan(
        self, client_id: str, filters: list[str], segment: Segment
    ) -> tuple[list[Entry], bool]:
        """What is behind the position of a segment, and whether what comes next is for it, too."""
        found: list[Entry] = []
        peer = self._node.peers.peers.get(segment.node)
        if peer is None:
            return found, False
        is_open = segment.was_open
        is_known = peer.outgoing.epoch == segment.channel_epoch
        early = set(segment.early) if is_known else set()
        for entry in peer.outgoing.behind(segment.position if is_known else 0):
            if entry.n in early:
                continue
            if entry.is_control:
                if _is_switch(entry, client_id):
                    is_close = entry.message.payload[:1] == controls.CLOSE
                    is_open = not is_close and (is_open or _opens(entry, segment))
            elif entry.origin is not None and not entry.direct:
                # A copy: for which session it is was decided where it was copied, and whether that
                # has got it where the session is now.
                is_for_it = marks_in(entry.origin.controls).get(client_id, 0) != CLOSED
                if entry.plain and is_for_it and _matches(filters, entry):
                    found.append(_again(entry, self._place(peer, entry)))
            elif entry.direct:
                is_for_it = entry.direct == client_id and entry.session_epoch == segment.since
                if is_for_it and not is_open:
                    found.append(_again(entry, entry.via or self._place(peer, entry)))
            elif entry.plain and is_open and _matches(filters, entry):
                found.append(_again(entry, self._place(peer, entry)))
        return found, is_open

    def _place(self, peer: Peer, entry: Entry) -> str:
        """Where a message was at first that is in our channel to a peer."""
        origin = entry.origin
        if origin is not None:
            return place(origin.node, origin.channel_epoch, origin.n)
        return place(self._node.name, peer.outgoing.epoch, entry.n)

    def has_gap(self, client_id: str, began: int, segment: Segment) -> bool:
        """Whether something is missing: it was confirmed, there was a gap already, or what came
        next was for another session."""
        peer = self._node.peers.peers.get(segment.node)
        if peer is None or peer.outgoing.epoch != segment.channel_epoch:
            return False
        if peer.outgoing.confirmed_n > segment.position:
            return True
        for entry in _switches(peer.outgoing, client_id):
            if entry.n <= segment.position:
                continue
            body = entry.message.payload
            if body[:1] == controls.CLOSE:
                if controls.read_close(body) != began:
                    return True
            elif _opens(entry, segment) and controls.read_mark(body)[1]:
                return True
        return False

    def not_sent(self, client_id: str, segments: list[Segment]) -> list[Segment]:
        """But for those of which this node has sent all to the next: there is a mark behind it."""
        first = 0
        for index, segment in enumerate(segments):
            peer = self._node.peers.peers.get(segment.node)
            if peer is None or segment.was_open:
                continue
            if any(_opens(each, segment) for each in _switches(peer.outgoing, client_id)):
                first = index
        return segments[first:]


def _is_switch(entry: Entry, client_id: str) -> bool:
    """Whether a control record says for which session of a client the messages behind it are."""
    message = entry.message
    is_one = entry.is_control and message.payload[:1] in (controls.MARK, controls.CLOSE)
    return is_one and message.topic_data.decode("utf-8") == client_id


def _switches(channel: OutgoingChannel, client_id: str) -> list[Entry]:
    return [each for each in channel.controls_of(client_id) if _is_switch(each, client_id)]


def _opens(entry: Entry, segment: Segment) -> bool:
    body = entry.message.payload
    return body[:1] == controls.MARK and controls.read_mark(body)[0] == segment.since


def _matches(filters: list[str], entry: Entry) -> bool:
    return any(matches(each, entry.message.topic) for each in filters)


def _again(entry: Entry, via: str) -> Entry:
    """An entry that is sent once more, as safe as it is here."""
    again = Entry(entry.n, entry.message, False, None)
    again.record = entry.record
    again.tracker = entry.tracker
    again.via = via
    return again
