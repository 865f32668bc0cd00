"""Sessions, their routes and messages, and retained ones, as an earlier hub had left them."""

from collections.abc import Callable
from typing import Final

from mhub.core import hlc
from mhub.core.channel_records import read_addressed
from mhub.core.hub import Hub
from mhub.core.journal import PEER, Journal, tracker_of
from mhub.core.limits import NEVER, Limits
from mhub.core.namespace import namespace_of
from mhub.core.outgoing import OutgoingQueue
from mhub.core.peers import ENDED, Peers
from mhub.core.principal import principal_of
from mhub.core.records import Contents, StoredSession, publish_of
from mhub.core.registry import NOTE as REGISTRY
from mhub.core.registry import PREFIX
from mhub.core.session import STATE_LOST, Session, Will
from mhub.core.table import FILTER, SHARE

FIRST: Final = 1
"""The epoch of a session that was stored by a hub without a cluster."""

ARRIVING: Final = "arriving/"
"""Notes with the number of a session that is not here as a whole yet: another node has all of it,
and gives it again."""


def restore(hub: Hub, contents: Contents, limits_of: Callable[[str], Limits]) -> None:
    """Bring back what the store had; limits_of() knows a listener's limits by its name."""
    journal = hub.require_journal()
    journal.last_sid = contents.last_sid
    journal.last_mid = contents.last_mid
    if hub.peers is not None:
        hub.peers.clock.saw(int(contents.notes.get(hlc.NOTE, 0)))
        hub.peers.recall_channels(contents.notes.get(ENDED, ""))
    arriving = {
        int(text): name for name, text in contents.notes.items() if name.startswith(ARRIVING)
    }
    for stored in contents.sessions:
        sid = stored.record.sid
        if sid in arriving:
            journal.batch.ended.append(sid)
            journal.note(arriving[sid], "")
            continue
        if stored.record.client_id.startswith(PEER):
            if hub.peers is not None:
                _channel(hub, hub.peers, stored, contents.notes, journal.clock_offset_s)
            continue
        session = revive(hub, stored, limits_of(stored.record.listener))
        session.sid = sid
        session.last_seq = stored.last_seq
        session.state_lost = STATE_LOST + session.client_id in contents.notes
        _put(hub, session)
        hub.count_at(session, session.principal.listener)
        hub.count(session)
        if hub.peers is not None and hub.peers.table.sessions:
            session.epoch = max(session.epoch, FIRST)
            hub.peers.clock.saw(session.epoch)
            session.inflight.last_pid = hub.peers.first_pid(session.client_id)
            newest = hub.sessions[session.client_id]
            hub.peers.table.own(session.client_id, newest.epoch, False)
        for subscription in session.subscriptions.values():
            hub.router.add(subscription)
        _messages(session, stored, journal.clock_offset_s)
        _deadlines(hub, session, stored, journal)
        hub.review_if_stale(session)
        if session.shares:
            hub.storage.refill(session)  # so that others of its groups can take over
    # Also without a cluster: what is changed now has to be later than what a node of one has said.
    hub.registry.clock.saw(int(contents.notes.get(hlc.NOTE, 0)))
    _recall_registry_note(hub, contents.notes.get(REGISTRY, ""))
    for body in contents.retained:
        try:
            message = publish_of(body, journal.clock_offset_s)
        except ValueError as error:
            hub.events.crashed("a stored retained message", error)
            continue
        if message.topic.startswith(PREFIX):
            hub.registry.recall(message)
        elif message.payload:
            hub.retained.store(message)
        elif hub.peers is not None:
            hub.retained.recall_tombstone(message)
    if hub.peers is not None:
        hub.peers.notes = contents.notes
        hub.peers.clock.saw(hub.retained.last_hlc())
    hub.registry.restored()


def _recall_registry_note(hub: Hub, text: str) -> None:
    if text:
        try:
            hub.registry.recall_note(text)
        except ValueError as error:
            hub.events.crashed("what the store notes of the registry", error)


def _put(hub: Hub, session: Session) -> None:
    """Of two sessions of a client, the newer one is the client's."""
    other = hub.sessions.get(session.client_id)
    if other is not None and hub.peers is not None:
        if other.epoch > session.epoch:
            other, session = session, other
        hub.peers.older.append(other)
    hub.put_session(session)


def _channel(
    hub: Hub, peers: Peers, stored: StoredSession, notes: dict[str, str], clock_offset_s: float
) -> None:
    """A peer, with the messages that were kept for it and what its lasting sessions want."""
    name = stored.record.client_id[len(PEER) :]
    peer = peers.recall(name, stored.record.sid, notes)
    for record in stored.subscriptions:
        kind = SHARE if record.name.startswith("$share/") else FILTER
        peers.learn_again(peer, kind + record.name)
    for row in stored.inflight:
        try:
            message = publish_of(row.body, clock_offset_s)
            entry = read_addressed(row.record.seq, message, row.record.share)
        except ValueError as error:
            hub.events.crashed(f"a stored message for node {name}", error)
            hub.require_journal().forget(row.record)
            continue
        entry.record = row.record
        tracker_of(message).unsettled = 1
        peer.outgoing.revive(entry)


def revive(hub: Hub, stored: StoredSession, limits: Limits) -> Session:
    """A session as it was kept or transferred: its state and subscriptions, which are not routed
    yet, but no messages and no deadlines."""
    record = stored.record
    session = Session(hub, record.client_id, limits)
    session.principal = principal_of(record.principal, record.client_id, record.listener)
    session.namespace = namespace_of(record.mount)
    session.expiry_s = record.expiry_s
    session.epoch = record.epoch
    session.began = record.began
    for subscribed in stored.subscriptions:
        session.put_subscription(subscribed)
    for pid in stored.incoming:
        session.incoming[pid] = False
    return session


def _messages(session: Session, stored: StoredSession, clock_offset_s: float) -> None:
    # PUBRELs come again in the order of their PUBRECs, which is not known: in that of the messages.
    for row in stored.inflight:
        delivery = session.hub.storage.revive(session, row, clock_offset_s)
        if delivery is not None:
            session.inflight.deliveries[row.record.pid] = delivery
            if session.hub.peers is None:
                session.inflight.last_pid = row.record.pid
    if stored.queued:
        session.queue = OutgoingQueue(session.hub.queues)
        session.queue.page_out(stored.queued, stored.queued_bytes)


def _deadlines(hub: Hub, session: Session, stored: StoredSession, journal: Journal) -> None:
    """Who was connected when the broker ended counts as gone from now on.

    What is past already happens before anybody is let in: a will is published; or with the first
    tick: a session ends.
    """
    record = stored.record
    clock_offset_s = journal.clock_offset_s
    if record.will:
        try:
            session.will = Will(publish_of(record.will, clock_offset_s), record.will_delay_s)
        except ValueError as error:
            hub.events.crashed(f"the stored will of {record.client_id!r}", error)
    if session.will is not None:
        if record.will_at:
            session.will.due_at = record.will_at - clock_offset_s
        else:
            session.will.due_at = hub.now + min(record.will_delay_s, record.expiry_s)
            journal.session(session)  # from now on, however often the broker ends meanwhile
    if record.ends_at:
        session.ends_at = record.ends_at - clock_offset_s
    elif record.expiry_s != NEVER:
        session.ends_at = hub.now + record.expiry_s
        journal.session(session)
    hub.wheel.arm(session, session.deadline())
