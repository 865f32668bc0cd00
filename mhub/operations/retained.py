"""Retained messages as results, and their deletion.

What the registry keeps is not among them: it is not in the tree of retained messages.  Those of the
broker itself, under `$SYS`, are listed if they are asked for, and can be read, but not deleted.
"""

from base64 import b64encode
from codecs import getincrementaldecoder
from typing import Final

from mhub.core import hlc
from mhub.core.hub import Hub
from mhub.core.scan import Matcher, RetainedScan
from mhub.operations import cursors
from mhub.operations.clients import Moment
from mhub.operations.contract import (
    BadArgument,
    NotThere,
    RetainedMessage,
    RetainedPage,
    RetainedSummary,
)
from mhub.operations.cursors import MOST_TEXT
from mhub.operations.slices import Slices
from mhub.operations.walk import RESULTS, glob_of, walk
from mhub.wire import properties as ids
from mhub.wire.primitives import read_data, read_text, read_varint
from mhub.wire.publish import Publish
from mhub.wire.topics import filter_problem

SORTS: Final = ("topic",)
MOST_PREVIEW: Final = 1 << 20
"""Bytes of a payload in one answer: to make them base64 and JSON takes some milliseconds."""

PREVIEW: Final = 64 * 1024


async def page(
    hub: Hub,
    topic_filter: str,
    match: str,
    with_sys: bool,
    cursor: str,
    limit: int,
    sort: str,
    slices: Slices,
    moment: Moment,
) -> RetainedPage:
    cursors.check_limit(limit)
    _, descending = cursors.direction(sort, SORTS)
    scan = RetainedScan(hub, descending, limit)
    scan.with_reserved = with_sys
    scan.glob = glob_of(match)
    if topic_filter:
        if problem := filter_problem(topic_filter):
            raise BadArgument(f"filter: {problem}")
        scan.matcher = Matcher(topic_filter)
    if cursor:
        scan.selection.begin_after(*cursors.read(cursor, sort))
    await walk(scan, slices)
    found: list[RetainedSummary] = []
    topics = [topic for _, topic in scan.selection.first()]
    await slices.pause_if_due()
    last = ""
    room = MOST_TEXT
    for index, topic in enumerate(topics):
        room -= len(topic)
        if room < 0 and found:
            topics = topics[:index]
            break
        message = hub.retained.tree.get(topic)
        if message is not None:  # it may be gone meanwhile
            found.append(summary(hub, message, moment))
        last = topic
        if index % RESULTS == RESULTS - 1:
            await slices.pause_if_due()
    left = max(0, scan.selection.fit - len(topics))
    return RetainedPage(
        tuple(found),
        left,
        len(hub.retained) - hub.retained.own,
        cursors.write(sort, 0.0, last) if left and last else "",
    )


def find(hub: Hub, topic: str, now: float) -> Publish:
    """Raises NotThere."""
    message = hub.retained.tree.get(topic)
    if message is None or (message.expires_at and message.expires_at <= now):
        raise NotThere("there is no retained message with this topic")
    return message


def summary(hub: Hub, message: Publish, moment: Moment) -> RetainedSummary:
    left_s = message.expires_at - moment.now if message.expires_at else None
    return RetainedSummary(
        topic=message.topic,
        qos=message.qos,
        size_bytes=len(message.payload),
        retained_at=_retained_at(hub, message, moment),
        expires_in_s=None if left_s is None else round(max(0.0, left_s), 3),
    )


def _retained_at(hub: Hub, message: Publish, moment: Moment) -> float | None:
    if message.hlc:  # in a cluster it comes with the message
        return round((message.hlc >> hlc.MARK_BITS) / hlc.UNITS, 3)
    at = hub.retained.kept_at[message.slot]
    return moment.time_of(at) if at else None


def detail(hub: Hub, message: Publish, most_bytes: int, moment: Moment) -> RetainedMessage:
    if not 0 <= most_bytes <= MOST_PREVIEW:
        raise BadArgument(f"most_bytes: expected from 0 to {MOST_PREVIEW}")
    shown = message.payload[:most_bytes]
    found = MessageProperties(message.properties)
    return RetainedMessage(
        message=summary(hub, message, moment),
        payload=b64encode(shown).decode("ascii"),
        is_whole=len(shown) == len(message.payload),
        text=text_of(shown, len(shown) == len(message.payload)),
        payload_is_text=found.payload_is_text,
        content_type=found.content_type,
        response_topic=found.response_topic,
        correlation_data=found.correlation_data,
        user_properties=tuple(found.user_properties),
        publisher=message.sender,
    )


def text_of(data: bytes, is_whole: bool) -> str | None:
    """None: it is no UTF-8; what was cut off within a character is."""
    try:
        return getincrementaldecoder("utf-8")().decode(data, is_whole)
    except UnicodeDecodeError:
        return None


class MessageProperties:
    """Those of MQTT 5 that a message is forwarded with."""

    def __init__(self, data: bytes) -> None:
        self.payload_is_text: bool | None = None
        self.content_type: str | None = None
        self.response_topic: str | None = None
        self.correlation_data: str | None = None
        self.user_properties: list[tuple[str, str]] = []
        pos, end = 0, len(data)
        while pos < end:
            identifier, pos = read_varint(data, pos, end)
            pos = self._read(identifier, data, pos, end)

    def _read(self, identifier: int, data: bytes, pos: int, end: int) -> int:
        if identifier == ids.USER_PROPERTY:
            name, pos = read_text(data, pos, end)
            value, pos = read_text(data, pos, end)
            self.user_properties.append((name, value))
        elif identifier == ids.CONTENT_TYPE:
            self.content_type, pos = read_text(data, pos, end)
        elif identifier == ids.RESPONSE_TOPIC:
            self.response_topic, pos = read_text(data, pos, end)
        elif identifier == ids.CORRELATION_DATA:
            found, pos = read_data(data, pos, end)
            self.correlation_data = b64encode(found).decode("ascii")
        else:
            number, pos = ids.read_number(data, pos, end, ids.KINDS[identifier])
            if identifier == ids.PAYLOAD_FORMAT:
                self.payload_is_text = number == 1
        return pos
