"""What a store holds, in plain values that compare."""

from typing import Any

from mhub.core.records import (
    DELIVERY,
    SESSION,
    SUBSCRIPTION,
    Contents,
    DeliveryRecord,
    Row,
    SessionRecord,
    StoredSession,
    SubscriptionRecord,
)
from mhub.store.contract import Store


def plain(record: Any, *names: str) -> tuple[Any, ...]:
    return tuple(getattr(record, name) for name in names)


def plain_session(record: SessionRecord) -> tuple[Any, ...]:
    return SESSION.values(record)


def plain_subscription(record: SubscriptionRecord) -> tuple[Any, ...]:
    return SUBSCRIPTION.values(record)


def plain_delivery(record: DeliveryRecord) -> tuple[Any, ...]:
    return plain(record, *(name for name in DELIVERY.names if name != "body"))


def plain_row(row: Row) -> tuple[Any, ...]:
    return (*plain_delivery(row.record), row.body)


def plain_stored(stored: StoredSession) -> tuple[Any, ...]:
    return (
        plain_session(stored.record),
        sorted(plain_subscription(each) for each in stored.subscriptions),
        sorted(stored.incoming),
        [plain_row(row) for row in stored.inflight],
        stored.queued,
        stored.queued_bytes,
        stored.last_seq,
    )


def plain_contents(contents: Contents) -> dict[str, Any]:
    return {
        "sessions": sorted(plain_stored(each) for each in contents.sessions),
        "retained": sorted(contents.retained),
        "notes": contents.notes,
        "last_sid": contents.last_sid,
        "last_mid": contents.last_mid,
    }


async def portrait(store: Store) -> dict[str, Any]:
    """All that pages() says, in plain values that compare."""
    whole: dict[str, Any] = {"last_sid": 0, "last_mid": 0}
    kinds = ("messages", "deliveries", "incoming", "sessions", "subscriptions", "retained", "notes")
    found: dict[str, list[Any]] = {kind: [] for kind in kinds}
    async for page in store.pages():
        assert not (page.changes or page.removals or page.refs)
        mids = [each.mid for each in page.messages]
        whole["last_mid"] = max(whole["last_mid"], *mids, 0)
        whole["last_sid"] = max(whole["last_sid"], *page.sessions, *page.ended, 0)
        found["messages"] += [plain(each, "mid", "refs", "body") for each in page.messages]
        found["deliveries"] += [(*plain_delivery(each), each.body) for each in page.deliveries]
        found["incoming"] += page.incoming.items()
        found["sessions"] += [plain_session(each) for each in page.sessions.values()]
        found["subscriptions"] += [plain_subscription(e) for e in page.subscriptions.values() if e]
        found["retained"] += page.retained.items()
        found["notes"] += page.notes.items()
    # One with refs 0 is not stored: it is there for the sake of its number.
    found["messages"] = [each for each in found["messages"] if each[1]]
    return {**whole, **{kind: sorted(each) for kind, each in found.items()}}


async def copy(source: Store, target: Store) -> None:
    async for page in source.pages():
        await target.commit(page)
