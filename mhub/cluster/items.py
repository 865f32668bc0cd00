"""How a session crosses a link: what it is as JSON, its messages as records behind a line of JSON.

docs/peer-protocol.md has the grammar of both, as MOVE and ITEMS.
"""

import struct
from typing import Any, Final

from mhub.cluster.parcels import pack
from mhub.core import journal
from mhub.core.delivery import Delivery, Subscription
from mhub.core.divided import Taken
from mhub.core.limits import NEVER
from mhub.core.session import Session
from mhub.wire.primitives import malformed, read_varint
from mhub.wire.topics import split_share

ITEM: Final = struct.Struct("<QBBHHHI")
"""Place in the giver's store, QoS, flags, packet id, sizes of identifiers, group and message."""

RETAIN: Final = 1
RELEASED: Final = 2
FED: Final = 4


def head_of(session: Session, life: str, certain: bool) -> bytes:
    """A session without its messages."""
    now = session.hub.now
    subscriptions = []
    for name, subscription in session.subscriptions.items():
        fields: list[str | int] = [
            name,
            subscription.qos,
            int(subscription.no_local),
            int(subscription.retain_as_published),
            subscription.ids.hex(),
        ]
        subscriptions.append(fields)
    will: list[str | int | float] = []
    if session.will is not None and session.will_at:
        body = journal.message(session.will, -now)  # what expires does so after so many seconds
        will = [body.hex(), session.will_delay_s, max(session.will_at - now, 0.0)]
    return pack(
        client=session.client_id,
        life=life,
        username=session.username,
        listener=session.listener,
        mount=session.mount,
        expiry=session.expiry_s,
        left=max(session.ends_at - now, 0.0) if session.ends_at else -1.0,
        incoming=list(session.incoming),
        subscriptions=subscriptions,
        seen=names_of(session),
        will=will,
        certain=certain,
        stamp=session.stamp,
        known=session.known,
    )


def names_of(session: Session) -> list[int]:
    """Of messages that its client has, and that may come to it again."""
    return session.divided.names() if session.divided is not None else []


def fill_in(session: Session, said: dict[str, Any]) -> None:
    """What is known of a session that was not here."""
    now = session.hub.now
    session.username = str(said["username"])
    session.listener = str(said["listener"])
    session.mount = str(said["mount"])
    session.expiry_s = int(said["expiry"])
    left = float(said["left"])
    if left >= 0:
        session.ends_at = now + left
    elif session.expiry_s != NEVER:
        session.ends_at = now + session.expiry_s
    will = said.get("will")
    if will:
        session.will = journal.publish_of(bytes.fromhex(will[0]), -now)
        session.will_delay_s = int(will[1])
        session.will_at = now + float(will[2])
    hub = session.hub
    if hub.ledger is not None and session.expiry_s:
        hub.ledger.session(session)


def fill_incoming(session: Session, said: dict[str, Any]) -> None:
    """The client's QoS 2 packet ids that are not free, in the place of those that are here."""
    session.forget_incoming()
    for pid in said["incoming"]:
        session.incoming[int(pid)] = False
        if session.sid:
            session.hub.book().incoming(session, int(pid), True)


def subscribe(session: Session, fields: list[Any]) -> None:
    """One subscription, unless the client has made the same one here."""
    name, qos, no_local, retain_as_published, ids = fields
    if name in session.subscriptions:
        return  # what the client said here counts
    share, topic_filter = split_share(str(name))
    subscription = Subscription(session, session.mount + topic_filter, share)
    subscription.qos = int(qos)
    subscription.no_local = bool(no_local)
    subscription.retain_as_published = bool(retain_as_published)
    subscription.ids = bytes.fromhex(ids)
    subscription.lasting = subscription.qos > 0 and session.expiry_s > 0
    if share:
        session.shares = True
    session.subscriptions[name] = subscription
    session.hub.router.add(subscription)
    if session.sid:
        identifier = read_varint(subscription.ids, 1, len(subscription.ids))[0] if ids else 0
        session.hub.book().subscribed(name, subscription, identifier)


def item_of(delivery: Delivery, pid: int, epoch: float) -> bytes:
    """One message of a session; pid: 0 if it is not in flight."""
    place = delivery.record.seq if delivery.record is not None else 0
    flags = (RETAIN if delivery.retain else 0) | (RELEASED if delivery.released else 0)
    flags |= FED if delivery.fed else 0
    group = delivery.group.full_name.encode("utf-8") if delivery.group is not None else b""
    body = journal.message(delivery.message, epoch)
    head = ITEM.pack(place, delivery.qos, flags, pid, len(delivery.ids), len(group), len(body))
    return b"%b%b%b%b" % (head, delivery.ids, group, body)


def take_item(
    session: Session, taken: Taken, data: bytes, pos: int, epoch: float, newest: bool
) -> int:
    """What item_of() wrote at pos; the place behind it."""
    if pos + ITEM.size > len(data):
        raise malformed("a message of a session is cut off")
    place, qos, flags, pid, ids_size, group_size, size = ITEM.unpack_from(data, pos)
    size = int(size)
    ids_from = pos + ITEM.size
    group_from = ids_from + ids_size
    body_from = group_from + group_size
    end: int = body_from + size
    if end > len(data):
        raise malformed("a message of a session is cut off")
    if place:
        # What came as a message of the queue, from a node that was not sure whether it has the
        # client's state, comes again with its packet id when it is.
        if taken.has(place, pid != 0) and not (pid and newest):
            return end
        taken.add(place, pid != 0)
    message = journal.publish_of(data[body_from:end], epoch)
    delivery = Delivery(message, qos, flags & RETAIN != 0, data[ids_from:group_from])
    delivery.fed = flags & FED != 0
    group = data[group_from:body_from].decode("utf-8")
    if group:
        for subscription in session.subscriptions.values():
            if subscription.group is not None and subscription.group.full_name == group:
                delivery.group = subscription.group
    session.receive(delivery, pid if newest else 0, flags & RELEASED != 0)
    return end
