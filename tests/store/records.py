"""Records and batches for tests of stores, each in one line."""

from typing import Any, TypeVar

from mhub.core import records
from mhub.core.fields import Shape
from mhub.core.records import (
    Batch,
    DeliveryRecord,
    MessageRecord,
    SessionRecord,
    SubscriptionRecord,
)
from mhub.wire.publish import Publish

T = TypeVar("T")

NOW = 1_000_000.0
LOTS = 1 << 40


def body(text: str = "x", topic: str = "t", expires_at: float = 0.0) -> bytes:
    publish = Publish(topic.encode(), text.encode(), 1, False)
    publish.expires_at = expires_at
    return records.message(publish, 0.0)


def session(sid: int, expiry_s: int = 60, **fields: Any) -> SessionRecord:
    return filled(SessionRecord(sid, f"client {sid}"), expiry_s=expiry_s, **fields)


def subscription(sid: int, name: str, **fields: Any) -> SubscriptionRecord:
    return filled(SubscriptionRecord(sid, name), **fields)


def message(mid: int, refs: int, text: str = "shared") -> MessageRecord:
    return filled(MessageRecord(mid, body(text)), refs=refs)


def delivery(sid: int, seq: int, mid: int = 0, **fields: Any) -> DeliveryRecord:
    fields.setdefault("body", b"" if mid else body(f"{sid}/{seq}"))
    return filled(DeliveryRecord(sid, seq), **{"mid": mid, "size_bytes": 10, "qos": 1, **fields})


def extreme(shape: Shape[T], **fields: Any) -> T:
    """A record with the highest value, or a strange one, in each field that is not given."""
    strange = {"flag": True, "time": NOW + 0.1, "text": "é \0\n", "data": bytes(range(256))}
    values = [
        fields.get(field.name, field.kind.high or strange.get(field.kind.name, body("extreme")))
        for field in shape.fields
    ]
    return shape.record(values)


def filled(record: Any, **fields: Any) -> Any:
    for name, value in fields.items():
        setattr(record, name, value)
    return record


def batch(*records: Any, **kinds: Any) -> Batch:
    """A batch with these records, and `changes`, `removals`, `refs` … as they are given."""
    made = Batch(1)
    for record in records:
        match record:
            case SessionRecord():
                made.sessions[record.sid] = record
            case SubscriptionRecord():
                made.subscriptions[record.sid, record.name] = record
            case MessageRecord():
                made.messages.append(record)
            case DeliveryRecord():
                made.deliveries.append(record)
                made.dead += record.dead
    return filled(made, **kinds)
