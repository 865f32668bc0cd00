"""Sessions, their routes and messages, and retained ones, as an earlier hub had left them."""

from collections.abc import Callable

from mhub.core.hub import Hub
from mhub.core.journal import Contents, StoredSession, publish_of
from mhub.core.ledger import Ledger
from mhub.core.limits import NEVER, Limits
from mhub.core.session import Session, Subscription
from mhub.wire import properties
from mhub.wire.topics import split_share


def restore(hub: Hub, contents: Contents, limits_of: Callable[[str], Limits]) -> None:
    """Bring back what the store had; limits_of() knows a listener's limits by its name."""
    ledger = hub.book()
    ledger.last_sid = contents.last_sid
    ledger.last_mid = contents.last_mid
    for stored in contents.sessions:
        session = _session(hub, stored, limits_of(stored.record.listener))
        hub.sessions[session.client_id] = session
        _subscriptions(hub, session, stored)
        _messages(session, stored, ledger.epoch)
        _deadlines(hub, session, stored, ledger)
        if session.shares:
            session.refill()  # so that others of its groups can take over
    for body in contents.retained:
        try:
            hub.retained.store(publish_of(body, ledger.epoch))
        except ValueError as error:
            hub.events.crashed("a stored retained message", error)


def _session(hub: Hub, stored: StoredSession, limits: Limits) -> Session:
    record = stored.record
    session = Session(hub, record.client_id, limits)
    session.sid = record.sid
    session.username = record.username
    session.listener = record.listener
    session.mount = record.mount
    session.expiry_s = record.expiry_s
    session.last_seq = stored.last_seq
    return session


def _subscriptions(hub: Hub, session: Session, stored: StoredSession) -> None:
    for record in stored.subscriptions:
        share, topic_filter = split_share(record.name)
        subscription = Subscription(session, session.mount + topic_filter, share)
        subscription.qos = record.qos
        subscription.no_local = record.no_local
        subscription.retain_as_published = record.retain_as_published
        if record.identifier:
            subscription.ids = properties.number(properties.SUBSCRIPTION_ID, record.identifier)
        if share:
            session.shares = True
        session.subscriptions[record.name] = subscription
        hub.router.add(subscription)


def _messages(session: Session, stored: StoredSession, epoch: float) -> None:
    for pid in stored.incoming:
        session.incoming[pid] = False
    # PUBRELs come again in the order of their PUBRECs, which is not known: in that of the messages.
    for row in stored.inflight:
        delivery = session.revive(row, epoch)
        if delivery is not None:
            session.inflight[row.record.pid] = delivery
            session.last_pid = row.record.pid
    session.spilled = stored.queued
    session.queued_bytes = stored.queued_bytes
    session.hub.queued_bytes += stored.queued_bytes


def _deadlines(hub: Hub, session: Session, stored: StoredSession, ledger: Ledger) -> None:
    """Who was connected when the broker ended counts as gone from now on.

    What is past already happens with the first tick: a will is published, a session ends.
    """
    record = stored.record
    epoch = ledger.epoch
    if record.will:
        try:
            session.will = publish_of(record.will, epoch)
        except ValueError as error:
            hub.events.crashed(f"the stored will of {record.client_id!r}", error)
    if session.will is not None:
        session.will_delay_s = record.will_delay_s
        if record.will_at:
            session.will_at = record.will_at - epoch
        else:
            session.will_at = hub.now + min(record.will_delay_s, record.expiry_s)
    if record.ends_at:
        session.ends_at = record.ends_at - epoch
    elif record.expiry_s != NEVER:
        session.ends_at = hub.now + record.expiry_s
        ledger.session(session)
    deadline = session.will_at or session.ends_at
    if session.will_at and session.ends_at:
        deadline = min(session.will_at, session.ends_at)
    if deadline:
        hub.wheel.arm(session, deadline)
