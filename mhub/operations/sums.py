"""Numbers of several nodes added up."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final, TypeVar

from mhub.operations.cluster_results import Totals
from mhub.operations.contract import Status, TopicLevel, TopicLevels, TopicSummary, TopicTop
from mhub.operations.slices import Slices

T = TypeVar("T")

SAME: Final = frozenset(("retained", "retained_bytes"))
"""What all nodes have: the most of them counts."""

LOOK: Final = 200
"""Items between two looks at the clock."""


def totals(statuses: list[Status]) -> Totals:
    return Totals(
        connections=_sum([each.connections for each in statuses]),
        sessions=_sum([each.sessions for each in statuses]),
        messages=_sum([each.messages for each in statuses]),
        queues=_sum([each.queues for each in statuses]),
    )


def _sum(parts: list[T]) -> T:
    """Dataclasses of numbers, field by field; what no node measures is None."""
    found: dict[str, Any] = {}
    for field in fields(parts[0]):  # type: ignore[arg-type]
        values = [getattr(part, field.name) for part in parts]
        known = [value for value in values if value is not None]
        if not known:
            found[field.name] = None
        elif field.name in SAME:
            found[field.name] = max(known)
        else:
            total = sum(known)
            found[field.name] = round(total, 3) if isinstance(total, float) else total
    return type(parts[0])(**found)


async def topics(
    pages: Mapping[str, TopicTop], by: str, limit: int, slices: Slices
) -> list[TopicSummary]:
    """The first topics by their sums over nodes; `node` names one, if it is at that alone."""
    found: dict[str, TopicSummary] = {}
    count = 0
    for page in pages.values():
        for each in page.topics:
            known = found.get(each.topic)
            found[each.topic] = each if known is None else _both(known, each)
            count += 1
            if count % LOOK == 0:
                await slices.pause_if_due()
    return sorted(found.values(), key=lambda each: (-getattr(each, by), each.topic))[:limit]


def _both(one: TopicSummary, other: TopicSummary) -> TopicSummary:
    return replace(
        one,
        messages=one.messages + other.messages,
        bytes=one.bytes + other.bytes,
        since=min(one.since, other.since),
        messages_per_s=round(one.messages_per_s + other.messages_per_s, 3),
        bytes_per_s=round(one.bytes_per_s + other.bytes_per_s, 3),
        retained=one.retained or other.retained,
        node="",
    )


async def levels(pages: Mapping[str, TopicLevels], slices: Slices) -> list[TopicLevel]:
    """Levels by name.  A topic that is published to at two nodes is one: so of counts, the most."""
    found: dict[str, TopicLevel] = {}
    count = 0
    for page in pages.values():
        for each in page.levels:
            known = found.get(each.name)
            if known is not None:
                each = replace(
                    each,
                    topics=max(known.topics, each.topics),
                    messages_per_s=round(known.messages_per_s + each.messages_per_s, 3),
                    bytes_per_s=round(known.bytes_per_s + each.bytes_per_s, 3),
                    is_topic=known.is_topic or each.is_topic,
                    retained=known.retained or each.retained,
                    retained_messages=max(known.retained_messages, each.retained_messages),
                )
            found[each.name] = each
            count += 1
            if count % LOOK == 0:
                await slices.pause_if_due()
    return [found[name] for name in sorted(found)]
