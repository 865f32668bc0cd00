"""Topics by what is published to them, and their levels, as results.

Numbers are of what clients of this node have published: those of all nodes can be added up.  Which
topics are counted is in `mhub.core.traffic`.
"""

from mhub.core.hub import Hub
from mhub.core.scan import TOPIC_SORTS, TopicScan
from mhub.core.tally import LevelScan, Tally
from mhub.operations import cursors
from mhub.operations.clients import Moment
from mhub.operations.contract import (
    BadArgument,
    RetainedLevel,
    RetainedLevels,
    TopicLevel,
    TopicLevels,
    TopicSummary,
    TopicTop,
)
from mhub.operations.cursors import MOST_TEXT
from mhub.operations.slices import Slices
from mhub.operations.walk import RESULTS, walk

TOP_SORTS = TOPIC_SORTS[1:]


async def top(
    hub: Hub, by: str, limit: int, with_sys: bool, slices: Slices, moment: Moment
) -> TopicTop:
    cursors.check_limit(limit)
    if by not in TOP_SORTS:
        raise BadArgument(f"by: expected one of {', '.join(TOP_SORTS)}")
    scan = TopicScan(hub, TOPIC_SORTS.index(by), True, limit)
    scan.with_reserved = with_sys
    await walk(scan, slices)
    topics = hub.router.topics
    found: list[TopicSummary] = []
    first = scan.selection.first()
    await slices.pause_if_due()
    for index, (_, topic) in enumerate(first):
        each = topics.known.get(topic.encode("utf-8"))
        if each is not None:
            found.append(
                TopicSummary(
                    topic=topic,
                    messages=each.messages,
                    bytes=each.bytes,
                    since=moment.time_of(each.since),
                    messages_per_s=each.messages_per_s,
                    bytes_per_s=each.bytes_per_s,
                    retained=hub.retained.tree.get(topic) is not None,
                    node=moment.node,
                )
            )
        if index % RESULTS == RESULTS - 1:
            await slices.pause_if_due()
    return TopicTop(tuple(found), len(topics.known), topics.most)


# Levels


def level_prefix(prefix: str) -> str:
    """What the topics below a level begin with; "" is above all of them."""
    return prefix if not prefix or prefix.endswith("/") else prefix + "/"


async def tree(
    hub: Hub, prefix: str, cursor: str, limit: int, with_sys: bool, slices: Slices
) -> TopicLevels:
    prefix = level_prefix(prefix)
    scan = _scan(hub, prefix, cursor, limit, with_sys, True)
    await walk(scan, slices)
    first, following = _first(scan)
    return TopicLevels(
        prefix,
        tuple(
            TopicLevel(
                name=name,
                prefix=f"{prefix}{name}/",
                topics=tally.count,
                messages_per_s=round(tally.messages_per_s, 3),
                bytes_per_s=round(tally.bytes_per_s, 3),
                is_topic=tally.is_topic,
                retained=tally.is_retained,
                retained_messages=tally.retained,
            )
            for name, tally in first
        ),
        following,
    )


async def retained_tree(
    hub: Hub, prefix: str, cursor: str, limit: int, with_sys: bool, slices: Slices
) -> RetainedLevels:
    prefix = level_prefix(prefix)
    scan = _scan(hub, prefix, cursor, limit, with_sys, False)
    await walk(scan, slices)
    first, following = _first(scan)
    return RetainedLevels(
        prefix,
        tuple(
            RetainedLevel(name, f"{prefix}{name}/", tally.retained, tally.is_retained)
            for name, tally in first
        ),
        following,
    )


def _scan(
    hub: Hub, prefix: str, cursor: str, limit: int, with_sys: bool, with_topics: bool
) -> LevelScan:
    cursors.check_limit(limit)
    scan = LevelScan(hub, prefix, limit, with_topics)
    scan.with_reserved = scan.with_reserved or with_sys
    if cursor:
        scan.tallies.begin_after(cursors.read(cursor, "level")[1])
    return scan


def _first(scan: LevelScan) -> tuple[list[tuple[str, Tally]], str]:
    """The levels of a page, and the cursor of the next one."""
    first = scan.tallies.first()
    more = scan.tallies.has_more
    room = MOST_TEXT
    for index, (name, _) in enumerate(first):
        room -= len(name)
        if room < 0 and index:
            first = first[:index]
            more = True
            break
    return first, cursors.write("level", 0.0, first[-1][0]) if more and first else ""
