"""Sessions, their routes and messages, and retained ones, as an earlier hub had left them."""

from collections.abc import Callable
from typing import Final

from mhub.core.delivery import Subscription
from mhub.core.hub import Hub
from mhub.core.journal import PEER, Journal, tracker_of
from mhub.core.limits import NEVER, Limits
from mhub.core.peer import Entry, Origin
from mhub.core.peers import CLOCK, ENDED, FILTER, SHARE, Peers
from mhub.core.records import Contents, StoredSession, publish_of
from mhub.core.session import STATE_LOST, Session
from mhub.wire import properties
from mhub.wire.topics import split_share

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
        hub.peers.clock.saw(int(contents.notes.get(CLOCK, 0)))
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
                _line(hub, hub.peers, stored, contents.notes, journal.epoch)
            continue
        session = revive(hub, stored, limits_of(stored.record.listener))
        session.sid = sid
        session.last_seq = stored.last_seq
        session.state_lost = STATE_LOST + session.client_id in contents.notes
        _put(hub, session)
        if hub.peers is not None and hub.peers.sessions:
            session.epoch = max(session.epoch, FIRST)
            hub.peers.clock.saw(session.epoch)
            session.last_pid = hub.peers.first_pid(session.client_id)
            newest = hub.sessions[session.client_id]
            hub.peers.own(session.client_id, newest.epoch, False)
        for subscription in session.subscriptions.values():
            hub.router.add(subscription)
        _messages(session, stored, journal.epoch)
        _deadlines(hub, session, stored, journal)
        if session.shares:
            session.refill()  # so that others of its groups can take over
    for body in contents.retained:
        try:
            message = publish_of(body, journal.epoch)
        except ValueError as error:
            hub.events.crashed("a stored retained message", error)
            continue
        if message.payload:
            hub.retained.store(message)
        elif hub.peers is not None:
            hub.retained.recall_tombstone(message)
    if hub.peers is not None:
        hub.peers.notes = contents.notes
        hub.peers.clock.saw(hub.retained.last_stamp())


def _put(hub: Hub, session: Session) -> None:
    """Of two sessions of a client, the newer one is the client's."""
    other = hub.sessions.get(session.client_id)
    if other is not None and hub.peers is not None:
        if other.epoch > session.epoch:
            other, session = session, other
        hub.peers.older.append(other)
    hub.sessions[session.client_id] = session


def _line(
    hub: Hub, peers: Peers, stored: StoredSession, notes: dict[str, str], epoch: float
) -> None:
    """A peer, with the messages that were kept for it and what its lasting sessions want."""
    name = stored.record.client_id[len(PEER) :]
    life, _, reserved = notes.get("line/" + name, "").partition(" ")
    heard = notes.get("heard/" + name, "")
    peer = peers.recall(name, stored.record.sid, life or hub.token(), int(reserved or 0), heard)
    peer.reserve()
    for item in notes.get("early/" + name, "").split():
        early_n, _, early_life = item.partition("/")
        peer.early[int(early_n)] = early_life
    for record in stored.subscriptions:
        kind = SHARE if record.name.startswith("$share/") else FILTER
        peers.learn_again(peer, kind + record.name)
    for row in stored.inflight:
        try:
            message = publish_of(row.body, epoch)
        except ValueError as error:
            hub.events.crashed(f"a stored message for node {name}", error)
            hub.require_journal().forget(row.record)
            continue
        tracker = tracker_of(message)
        tracker.unsettled = 1
        kind, sender, node, life, n, controls, *names = row.record.share.split("\n")
        entry = Entry(row.record.seq, message, kind == "+", names or None)
        entry.record = row.record
        entry.is_control = kind == "!"
        if kind == "=":
            entry.direct, entry.epoch, entry.via = names[0], int(names[1]), "\n".join(names[2:])
            entry.shares = None
        message.sender = sender
        if node:
            entry.origin = Origin(node, life, int(n), controls)
        peers.revive(peer, entry)


def revive(hub: Hub, stored: StoredSession, limits: Limits) -> Session:
    """A session as it was kept or transferred: its state and subscriptions, which are not routed
    yet, but no messages and no deadlines."""
    record = stored.record
    session = Session(hub, record.client_id, limits)
    session.username = record.username
    session.listener = record.listener
    session.mount = record.mount
    session.expiry_s = record.expiry_s
    session.epoch = record.epoch
    session.began = record.began
    for subscribed in stored.subscriptions:
        share, topic_filter = split_share(subscribed.name)
        subscription = Subscription(session, session.mount + topic_filter, share)
        subscription.qos = subscribed.qos
        subscription.no_local = subscribed.no_local
        subscription.retain_as_published = subscribed.retain_as_published
        subscription.lasting = subscribed.qos > 0 and session.expiry_s > 0
        if subscribed.identifier:
            number = subscribed.identifier
            subscription.ids = properties.number(properties.SUBSCRIPTION_ID, number)
        if share:
            session.shares = True
        session.subscriptions[subscribed.name] = subscription
    for pid in stored.incoming:
        session.incoming[pid] = False
    return session


def _messages(session: Session, stored: StoredSession, epoch: float) -> None:
    # PUBRELs come again in the order of their PUBRECs, which is not known: in that of the messages.
    for row in stored.inflight:
        delivery = session.revive(row, epoch)
        if delivery is not None:
            session.inflight[row.record.pid] = delivery
            if session.hub.peers is None:
                session.last_pid = row.record.pid
    session.spilled = stored.queued
    session.queued_bytes = stored.queued_bytes
    session.hub.queued_bytes += stored.queued_bytes


def _deadlines(hub: Hub, session: Session, stored: StoredSession, journal: Journal) -> None:
    """Who was connected when the broker ended counts as gone from now on.

    What is past already happens with the first tick: a will is published, a session ends.
    """
    record = stored.record
    epoch = journal.epoch
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
            journal.session(session)  # from now on, however often the broker ends meanwhile
    if record.ends_at:
        session.ends_at = record.ends_at - epoch
    elif record.expiry_s != NEVER:
        session.ends_at = hub.now + record.expiry_s
        journal.session(session)
    deadline = session.will_at or session.ends_at
    if session.will_at and session.ends_at:
        deadline = min(session.will_at, session.ends_at)
    if deadline:
        hub.wheel.arm(session, deadline)
