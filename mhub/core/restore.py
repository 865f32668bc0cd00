"""Sessions, their routes and messages, and retained ones, as an earlier hub had left them."""

from collections.abc import Callable
from typing import Final

from mhub.core.delivery import Subscription
from mhub.core.divided import NAMES, TOOK, Taken
from mhub.core.hub import Hub
from mhub.core.journal import Contents, StoredSession, publish_of
from mhub.core.ledger import PEER, Ledger, keeping_of
from mhub.core.limits import NEVER, Limits
from mhub.core.peer import Entry
from mhub.core.peers import FILTER, SHARE, Peers
from mhub.core.session import HOLLOW, STAMP, Session
from mhub.wire import properties
from mhub.wire.topics import split_share

BOOT: Final = "boot"
"""The note with the number of times that a node has begun with this store."""

BOOT_BITS: Final = 36
"""So many bits of the numbers of messages are free for one life of the node.  With those for its
lives they are 53 or less, as all have to fit into the numbers of Redis."""

RESTORED: Final = 1
"""The stamp of a session that was stored by a hub without a cluster."""


def restore(hub: Hub, contents: Contents, limits_of: Callable[[str], Limits]) -> None:
    """Bring back what the store had; limits_of() knows a listener's limits by its name."""
    ledger = hub.book()
    ledger.last_sid = contents.last_sid
    ledger.last_mid = contents.last_mid
    if hub.peers is not None:
        hub.peers.boot = int(contents.notes.get(BOOT, 0)) + 1
        hub.peers.boot_after = ledger.batch.number
        ledger.note(BOOT, str(hub.peers.boot))
    for stored in contents.sessions:
        if stored.record.client_id.startswith(PEER):
            if hub.peers is not None:
                _line(hub, hub.peers, stored, contents.notes, ledger.epoch)
            continue
        session = _session(hub, stored, limits_of(stored.record.listener))
        hub.sessions[session.client_id] = session
        if hub.peers is not None and hub.peers.sessions:
            stamp, _, known = contents.notes.get(STAMP + session.client_id, "").partition(" ")
            session.stamp = int(stamp or RESTORED)
            session.known = int(known or 0)
            hub.peers.clock.saw(session.stamp)
            session.last_pid = hub.peers.first_pid(session.client_id)
            # Another node may remember numbers of messages that are gone from the store.
            session.last_seq = max(session.last_seq, hub.peers.boot << BOOT_BITS)
            session.restored = True
            session.hollow = HOLLOW + session.client_id in contents.notes
            hub.peers.own(session.client_id, session.stamp, False)
        _subscriptions(hub, session, stored)
        _messages(session, stored, ledger.epoch)
        _deadlines(hub, session, stored, ledger)
        if session.shares:
            session.refill()  # so that others of its groups can take over
    for body in contents.retained:
        try:
            message = publish_of(body, ledger.epoch)
        except ValueError as error:
            hub.events.crashed("a stored retained message", error)
            continue
        if message.payload:
            hub.retained.store(message)
        elif hub.peers is not None:
            hub.retained.recall_tomb(message)
    if hub.peers is not None:
        _divided(hub, contents.notes)
        hub.peers.notes = contents.notes
        hub.peers.clock.saw(hub.retained.last_stamp())


def _divided(hub: Hub, notes: dict[str, str]) -> None:
    """What may come to clients again, and what was taken of sessions from other nodes."""
    for name, text in notes.items():
        if name.startswith(NAMES):
            client_id, _, uid = name[len(NAMES) :].rpartition("/")
            session = hub.sessions.get(client_id)
            if session is not None:
                divided = session.divided or session.divide()
                divided.recall_name(int(uid, 16))
                if session.spilled:
                    divided.twins.add(int(uid, 16))  # it may be in the queue
        elif name.startswith(TOOK):
            client_id, node, number = name[len(TOOK) :].rsplit("/", 2)
            session = hub.sessions.get(client_id)
            if session is not None:
                (session.divided or session.divide()).taken[f"{node}/{number}"] = Taken(text)


def _line(
    hub: Hub, peers: Peers, stored: StoredSession, notes: dict[str, str], epoch: float
) -> None:
    """A peer, with the messages that were kept for it and what its lasting sessions want."""
    name = stored.record.client_id[len(PEER) :]
    life, _, reserved = notes.get("line/" + name, "").partition(" ")
    heard = notes.get("heard/" + name, "")
    peer = peers.recall(name, stored.record.sid, life or hub.token(), int(reserved or 0), heard)
    peer.reserve()
    for record in stored.subscriptions:
        kind = SHARE if record.name.startswith("$share/") else FILTER
        peers.learn_again(peer, kind + record.name)
    for row in stored.inflight:
        try:
            message = publish_of(row.body, epoch)
        except ValueError as error:
            hub.events.crashed(f"a stored message for node {name}", error)
            hub.book().forget(row.record)
            continue
        keeping = keeping_of(message)
        keeping.unsettled = 1
        spoken = row.record.share.split("\n")
        entry = Entry(row.record.seq, message, spoken[0] == "+", spoken[1:] or None)
        entry.record = row.record
        peers.revive(peer, entry)


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
        subscription.lasting = record.qos > 0 and session.expiry_s > 0
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
            if session.hub.peers is None:
                session.last_pid = row.record.pid
    session.spilled = stored.queued
    if session.hub.peers is not None and session.inflight and session.spilled:
        divided = session.divide()  # a part of it may have been on its way from another node
        for delivery in session.inflight.values():
            if delivery.message.uid:
                divided.twins.add(delivery.message.uid)
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
            ledger.session(session)  # from now on, however often the broker ends meanwhile
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
