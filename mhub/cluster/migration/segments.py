"""Where messages of a node may be that are for a session which has gone from node to node.

While a node does not know yet that a session has migrated, its messages for the session are in its
channel to where the session was.  A `Segment` says which of them the session has not got: those
behind a position.  A `Gate` belongs to a session and a node, and has the segments that this node
has still to send again to where the session is now, in their order.
"""

import json
from typing import Any, Final, NamedTuple

from mhub.cluster.said import as_list, as_number, as_text, as_timestamp
from mhub.wire.primitives import malformed

NAME: Final = "segments"
"""Of the field that they are in, for who is told that it is nonsense."""


class Segment(NamedTuple):
    node: str  # that had the session
    channel_epoch: str  # of the publishing node's channel to it, as known there
    position: int  # the last number of that channel that the session has got
    early: list[int]  # later numbers that it has got, too, as copies
    since: int  # if the gate was closed there: what comes behind a mark of this epoch was for it
    was_open: bool  # whether the gate was open there


def place(node: str, channel_epoch: str, n: int) -> str:
    """Where a message was at first that is sent again: the `via` of an Entry."""
    return f"{node}\n{channel_epoch}\n{n}"


def publisher(via: str) -> str:
    return via.partition("\n")[0]


class Gate:
    """Closed: messages of a node are not for the session, but those that it sends again."""

    def __init__(self, epoch: int, segments: list[Segment]) -> None:
        self.epoch = epoch  # of the claim by which the session came here: the mark that opens it
        self.segments = segments

    def is_new(self, via: str, is_own: bool) -> bool:
        """Whether a message that is sent again has not come; from now on it has.

        The node that published it sends them in their order; others may have copies of some.
        """
        _, channel_epoch, text = via.split("\n")
        n = int(text)
        for index, segment in enumerate(self.segments):
            if segment.channel_epoch == channel_epoch:
                if n <= segment.position or n in segment.early:
                    return False
                if is_own:
                    early = [each for each in segment.early if each > n]
                    self.segments[index] = segment._replace(position=n, early=early)
                else:
                    segment.early.append(n)
                return True
        return is_own  # a channel that the session knew nothing of: from where it is itself

    def takes_copy(self, node: str, channel_epoch: str, n: int, mark: int, is_closed: bool) -> bool:
        """The same for a copy of what is in the channel to a node that the session has left.

        `mark` is the epoch of the last mark in front of it there, if it is not a CLOSE: whether the
        copy was for this session.
        """
        for index, segment in enumerate(self.segments):
            if segment.node == node:
                is_for_it = segment.was_open or (mark > 0 and mark == segment.since)
                if is_closed or not is_for_it:
                    return False
                if segment.channel_epoch != channel_epoch:
                    # The session has got nothing of this channel.
                    segment = segment._replace(channel_epoch=channel_epoch, position=0, early=[])
                    self.segments[index] = segment
                if n <= segment.position or n in segment.early:
                    return False
                segment.early.append(n)
                return True
        return False


Gates = dict[str, Gate]


def segments_of(said: list[Any]) -> list[Segment]:
    """What a frame or a note says; ProtocolFault if that is nonsense."""
    return [_segment(as_list(each, NAME)) for each in said]


def _segment(said: list[Any]) -> Segment:
    if len(said) != len(Segment._fields):
        raise malformed("an invalid segment")
    node, epoch, position, early, since, was_open = said
    return Segment(
        as_text(node, NAME),
        as_text(epoch, NAME),
        as_number(position, NAME),
        [as_number(n, NAME) for n in as_list(early, NAME)],
        as_timestamp(since, NAME),
        bool(was_open),
    )


def text_of(gates: Gates) -> str:
    """Gates as a note; "" if there are none."""
    if not gates:
        return ""
    return json.dumps({node: [gate.epoch, gate.segments] for node, gate in gates.items()})


def gates_of(text: str) -> Gates:
    return {
        node: Gate(int(epoch), segments_of(segments))
        for node, (epoch, segments) in json.loads(text).items()
    }
