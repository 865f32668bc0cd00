"""What a hub without a store has for an export: lasting sessions, retained messages, the registry.

Each session is taken as a whole between two turns of the hub, so its state is of one moment; its
messages are made into records later, in slices.  Messages have no number there, so one that several
sessions wait for comes with each of them.
"""

from collections.abc import AsyncGenerator
from typing import Final

from mhub.core import records
from mhub.core.delivery import Delivery
from mhub.core.hub import Hub
from mhub.core.journal import subscription_record
from mhub.core.records import Batch, DeliveryRecord
from mhub.core.session import Session
from mhub.operations.slices import Slices
from mhub.wire.topics import reserved

PORTION: Final = 25
"""Records of a batch, and so between two looks at the clock."""

Taken = tuple[int, bool, Delivery]
"""A delivery as it was: its packet id, 0 if it waits; whether it was released; itself."""


async def hub_pages(hub: Hub, clock_offset_s: float, slices: Slices) -> AsyncGenerator[Batch, None]:
    """As Store.pages(); `clock_offset_s` is what turns the hub's clock into the time of day."""
    sid = 0
    for client_id in list(hub.sessions):
        session = hub.sessions.get(client_id)
        if session is not None and session.expiry_s:
            sid += 1
            batch, deliveries = _session(session, sid, clock_offset_s)
            yield batch
            for at in range(0, len(deliveries), PORTION):
                batch = Batch(1)
                for seq, (pid, released, delivery) in enumerate(deliveries[at : at + PORTION], at):
                    record = _delivery(delivery, sid, seq + 1, clock_offset_s)
                    record.pid = pid
                    record.released = released
                    batch.deliveries.append(record)
                yield batch
                await slices.pause_if_due()
            await slices.pause_if_due()
    batch = Batch(1)
    for message in hub.retained.tree.values():
        if not reserved(message.topic):
            batch.retained[message.topic] = records.message(message, clock_offset_s)
        if len(batch.retained) == PORTION:
            yield batch
            batch = Batch(1)
            await slices.pause_if_due()
    for entry in hub.registry.known():
        batch.retained[entry.topic] = records.message(entry, clock_offset_s)
        if len(batch.retained) == PORTION:
            yield batch
            batch = Batch(1)
            await slices.pause_if_due()
    yield batch


def _session(session: Session, sid: int, clock_offset_s: float) -> tuple[Batch, list[Taken]]:
    """A session as it is now, and its deliveries in their order, which are not records yet."""
    batch = Batch(1)
    record = session.record(clock_offset_s)
    record.sid = sid
    batch.sessions[sid] = record
    for name, subscription in session.subscriptions.items():
        batch.subscriptions[sid, name] = subscription_record(sid, name, subscription)
    for pid in session.incoming:
        batch.incoming[sid, pid] = True
    taken: list[Taken] = [
        (pid, delivery.released, delivery) for pid, delivery in session.inflight.deliveries.items()
    ]
    if session.queue is not None:
        # As with a store: QoS 0 waits for a client that is away, and not for one that is slow.
        all_kinds = not session.is_connected()
        waiting = session.queue.deliveries
        taken += [(0, False, delivery) for delivery in waiting if delivery.qos or all_kinds]
    return batch, taken


def _delivery(delivery: Delivery, sid: int, seq: int, clock_offset_s: float) -> DeliveryRecord:
    record = DeliveryRecord(sid, seq)
    record.body = records.message(delivery.message, clock_offset_s)
    record.size_bytes = delivery.size_bytes()
    record.qos = delivery.qos
    record.retain = delivery.retain
    record.ids = delivery.ids
    record.share = delivery.group.full_name if delivery.group is not None else ""
    return record
