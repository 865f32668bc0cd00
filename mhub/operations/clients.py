"""Sessions as results, and the search for those that somebody wants to see.

A client that stays is on exactly one page, whatever the others do, if the list is by client id or
by the time of the connection.  By a value that changes meanwhile, as a queue does, it may be on two
pages or on none.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from mhub.core import connection as reasons
from mhub.core import events
from mhub.core.connection import Connection
from mhub.core.delivery import Subscription
from mhub.core.hub import Hub
from mhub.core.limits import NEVER
from mhub.core.principal import Principal
from mhub.core.scan import ANY, CLIENT_SORTS, ClientScan, since
from mhub.core.session import Session
from mhub.operations import cursors
from mhub.operations.contract import (
    BadArgument,
    ClientDetail,
    ClientPage,
    ClientSummary,
    DenialSummary,
    NotThere,
    SubscriptionSummary,
    WillSummary,
)
from mhub.operations.cursors import MOST, MOST_TEXT
from mhub.operations.slices import Slices
from mhub.operations.walk import RESULTS, glob_of, walk
from mhub.wire.packets import VERSION_NAMES

WAITS: Final = {
    reasons.UNREAD: "unread",
    reasons.DEFERRED: "deferred",
    reasons.TURN: "turn",
    reasons.STORE: "store",
    reasons.IDENTITY: "identity",
    reasons.SESSION: "session",
    reasons.RATE: "rate",
}
"""Why nothing is read from a client; `connection.paused` is a set of these."""

STATES: Final = {"connected": 1, "offline": 0}


@dataclass(frozen=True)
class Wanted:
    """Which clients; all of what is given has to fit."""

    match: str = ""  # a pattern with * and ? for the client id
    listener: str = ""
    user: str = ""  # proved or claimed
    state: str = ""  # "connected" or "offline"

    def apply(self, scan: ClientScan) -> None:
        if self.state not in ("", *STATES):
            raise BadArgument(f"state: expected one of {', '.join(STATES)}")
        scan.glob = glob_of(self.match)
        scan.connected = STATES.get(self.state, ANY)
        scan.listener = self.listener
        scan.user = self.user


def users_of(principal: Principal) -> tuple[str, str]:
    """The one that it has proved to be, and the one that it says."""
    return principal.user, principal.claimed_user


def session_of(hub: Hub, client_id: str) -> Session:
    """The session of a client.  Raises NotThere, which names the node that has it."""
    session = hub.sessions.get(client_id)
    if session is not None:
        return session
    peers = hub.peers.all if hub.peers is not None else ()
    for peer in sorted(peers, key=lambda peer: -peer.clients.get(client_id, 0)):
        if client_id in peer.clients:
            raise NotThere(f"its session is at node {peer.name}: ask there")
    raise NotThere("there is no such client")


async def page(
    hub: Hub,
    wanted: Wanted,
    place: cursors.Place | None,
    limit: int,
    sort: str,
    slices: Slices,
    moment: "Moment",
) -> ClientPage:
    cursors.check_limit(limit)
    field, descending = cursors.direction(sort, CLIENT_SORTS)
    scan = ClientScan(hub, field, descending, limit)
    scan.offset_s = moment.offset_s
    wanted.apply(scan)
    if place is not None:
        scan.selection.begin_after(*place)
    await walk(scan, slices)
    found: dict[str, ClientSummary] = {}
    first = scan.selection.first()
    await slices.pause_if_due()
    last: cursors.Place | None = None
    room = MOST_TEXT
    for index, (value, client_id) in enumerate(first):
        session = hub.sessions.get(client_id)
        if session is not None:  # it may have ended meanwhile
            room -= len(client_id) + sum(map(len, users_of(session.principal)))
            if room < 0 and found:
                first = first[:index]
                break
            found[client_id] = summary(session, moment)
        last = value, client_id
        if index % RESULTS == RESULTS - 1:
            await slices.pause_if_due()
    left = max(0, scan.selection.fit - len(first))
    return ClientPage(
        tuple(found.values()),
        left,
        len(hub.sessions),
        cursors.write(sort, *last) if left and last is not None else "",
    )


@dataclass(frozen=True)
class Moment:
    """One moment on both clocks: the hub's, and the time of day."""

    now: float
    time: float
    node: str = ""

    @property
    def offset_s(self) -> float:
        return self.time - self.now

    def time_of(self, at: float) -> float:
        return since(at, self.offset_s)


def summary(session: Session, moment: Moment) -> ClientSummary:
    connection = session.connection
    principal = session.principal
    queue = session.queue
    state = "migrating" if session.frozen else "offline" if connection is None else "connected"
    rates = None if connection is None else connection.rates
    return ClientSummary(
        client_id=session.client_id,
        user=principal.user,
        claimed_user=principal.claimed_user,
        state=state,
        listener=principal.listener,
        address=principal.address,
        version=None if connection is None else VERSION_NAMES[connection.version],
        connected_at=None if connection is None else moment.time_of(connection.connected_at),
        connected_s=None if connection is None else round(moment.now - connection.connected_at, 3),
        subscriptions=len(session.subscriptions),
        queued=session.queued(),
        queued_bytes=0 if queue is None else queue.size_bytes,
        inflight=len(session.inflight.deliveries),
        messages_in=0 if connection is None else connection.messages_in,
        bytes_in=0 if connection is None else connection.bytes_in,
        messages_out=0 if connection is None else connection.messages_out,
        bytes_out=0 if connection is None else connection.bytes_out,
        messages_in_per_s=0.0 if rates is None else rates.messages_in,
        bytes_in_per_s=0.0 if rates is None else rates.bytes_in,
        messages_out_per_s=0.0 if rates is None else rates.messages_out,
        bytes_out_per_s=0.0 if rates is None else rates.bytes_out,
        node=moment.node,
    )


def detail(session: Session, moment: Moment) -> ClientDetail:
    connection = session.connection
    will = session.will
    ends_at = session.ends_at
    return ClientDetail(
        client=summary(session, moment),
        keepalive_s=None if connection is None else connection.keepalive_s,
        expiry_s=None if session.expiry_s == NEVER else session.expiry_s,
        expires_in_s=round(max(0.0, ends_at - moment.now), 3) if ends_at else None,
        inflight_most=session.inflight.window,
        incoming=len(session.incoming),
        is_reading=None if connection is None else not connection.blocked,
        waits_for=() if connection is None else waits_for(connection),
        limited={} if connection is None else limited(connection),
        rates={} if connection is None else rates(connection),
        will=None
        if will is None
        else WillSummary(
            will.message.topic_data.decode("utf-8"),
            will.message.qos,
            will.message.retain,
            len(will.message.payload),
            will.delay_s,
        ),
        subscriptions=tuple(
            SubscriptionSummary(name, each.qos, each.no_local, each.retain_as_published)
            for name, each in _first_subscriptions(session)
        ),
        denials=tuple(denials(session, moment)),
    )


def denials(session: Session, moment: Moment) -> Iterator[DenialSummary]:
    """The rule of one that no event told of is looked for now: the rules may be others by now."""
    known = list((session.denials or {}).values())
    for each in sorted(known, key=lambda each: -each.at):
        rule = each.rule or session.hub.events.rule_of(
            session.principal, each.cause, each.topic, each.qos, each.retain
        )
        yield DenialSummary(
            events.CAUSES[each.cause],
            each.topic,
            each.qos,
            each.retain,
            rule,
            moment.time_of(each.at),
            each.count,
        )


def waits_for(connection: Connection) -> tuple[str, ...]:
    found = [name for reason, name in WAITS.items() if connection.paused & reason]
    if connection.output_limited:
        found.append("max_messages_out_per_s")
    return tuple(found)


def limited(connection: Connection) -> dict[str, int]:
    return {events.LIMITS[limit]: count for limit, count in (connection.limited or {}).items()}


def rates(connection: Connection) -> dict[str, float]:
    meter = connection.meter
    if meter is None:
        return {}
    return {events.LIMITS[gate.cause]: round(1.0 / gate.token_s, 3) for gate in meter.gates()}


def _first_subscriptions(session: Session) -> Iterator[tuple[str, Subscription]]:
    room = MOST_TEXT
    for name, subscription in islice(session.subscriptions.items(), MOST):
        room -= len(name)
        if room < 0:
            return
        yield name, subscription
