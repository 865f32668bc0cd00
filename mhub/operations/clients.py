"""Sessions as results, and the search for those that somebody wants to see.

The sessions are in no order, and come and go while they are listed.  So a page is "the first ones
by client id that come behind this one": a client that stays is on exactly one page, whatever the
others do, and the last page costs no more than the first.  Each page goes through all client ids,
in slices: 200,000 of them take some 40 ms.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import translate
from itertools import islice
from typing import Final

from mhub.core import connection as reasons
from mhub.core import events
from mhub.core.connection import Connection
from mhub.core.delivery import Subscription
from mhub.core.hub import Hub
from mhub.core.limits import NEVER
from mhub.core.principal import Principal
from mhub.core.session import Session
from mhub.operations.contract import (
    BadArgument,
    ClientDetail,
    ClientPage,
    ClientSummary,
    NotThere,
    SubscriptionSummary,
    WillSummary,
)
from mhub.operations.slices import Slices
from mhub.wire.packets import VERSION_NAMES

MOST: Final = 1000
"""Clients on one page, and subscriptions of one client: what makes an answer of a few 100 KiB."""

MOST_TEXT: Final = 1 << 18
"""Characters of names in one answer, which ends there: a client id, a user name and a filter may
have 65,535 each, and 1,000 of them take seconds to be made JSON."""

PORTION: Final = 250
"""Client ids that are looked at between two looks at the clock: some 0.2 ms."""

LONGEST_MATCH: Final = 256
"""Characters of a pattern: to compile one takes 10 ms then, seconds if it is ten times as long."""

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

STATES: Final = {"connected": True, "offline": False}


@dataclass(frozen=True)
class Wanted:
    """Which clients; all of what is given has to fit."""

    match: str = ""  # a pattern with * and ? for the client id
    listener: str = ""
    user: str = ""  # proved or claimed
    state: str = ""  # "connected" or "offline"

    def test(self) -> Callable[[Session], bool] | None:
        """What decides about a session; None: all are wanted."""
        if self.state not in ("", *STATES):
            raise BadArgument(f"state: expected one of {', '.join(STATES)}")
        if len(self.match) > LONGEST_MATCH:
            raise BadArgument(f"match: expected at most {LONGEST_MATCH} characters")
        if self == ALL:
            return None
        is_connected = STATES.get(self.state)
        pattern = re.compile(translate(self.match)).match if self.match else None

        def fits(session: Session) -> bool:
            return (
                (is_connected is None or session.is_connected() == is_connected)
                and (not self.listener or session.principal.listener == self.listener)
                and (not self.user or self.user in users_of(session.principal))
                and (pattern is None or pattern(session.client_id) is not None)
            )

        return fits


ALL: Final = Wanted()


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


class Search:
    """Takes portions of client ids, and keeps the first `limit` of those that are wanted."""

    def __init__(
        self, sessions: dict[str, Session], wanted: Wanted, after: str, limit: int
    ) -> None:
        self._sessions = sessions
        self._fits = wanted.test()
        self._after = after
        self._limit = limit
        self._found: list[str] = []
        self._last = ""  # the last of the first ones so far: none behind it is kept; "": any is
        self._seen = 0

    def look_at(self, client_ids: Iterable[str]) -> None:
        after = self._after
        found = [client_id for client_id in client_ids if client_id > after]
        if self._fits is not None:
            fits, get = self._fits, self._sessions.get
            found = [name for name in found if (one := get(name)) is not None and fits(one)]
        self._seen += len(found)
        if self._last:
            last = self._last
            found = [client_id for client_id in found if client_id < last]
        self._found += found
        if len(self._found) >= 2 * self._limit:
            self._last = self.first()[-1]

    def first(self) -> list[str]:
        self._found.sort()
        del self._found[self._limit :]
        return self._found

    def left(self) -> int:
        return self._seen - len(self.first())


async def page(
    hub: Hub, wanted: Wanted, after: str, limit: int, slices: Slices, moment: "Moment"
) -> ClientPage:
    if not 1 <= limit <= MOST:
        raise BadArgument(f"limit: expected from 1 to {MOST}")
    search = Search(hub.sessions, wanted, after, limit)
    # At once, 2 to 5 ms for 200,000: the dictionary may change before the next slice.
    client_ids = iter(list(hub.sessions))
    while portion := list(islice(client_ids, PORTION)):
        search.look_at(portion)
        await slices.pause_if_due()
    found: list[ClientSummary] = []
    left = search.left()
    room = MOST_TEXT
    for index, client_id in enumerate(search.first()):
        session = hub.sessions.get(client_id)
        if session is not None:  # it may have ended meanwhile
            room -= len(client_id) + sum(map(len, users_of(session.principal)))
            if room < 0 and found:
                left += len(search.first()) - index
                break
            found.append(summary(session, moment))
        if index % PORTION == PORTION - 1:
            await slices.pause_if_due()
    return ClientPage(tuple(found), left, len(hub.sessions))


@dataclass(frozen=True)
class Moment:
    """One moment on both clocks: the hub's, and the time of day."""

    now: float
    time: float

    def time_of(self, at: float) -> float:
        return round(self.time - self.now + at, 3)


def summary(session: Session, moment: Moment) -> ClientSummary:
    connection = session.connection
    principal = session.principal
    queue = session.queue
    state = "migrating" if session.frozen else "offline" if connection is None else "connected"
    since = None if connection is None else connection.connected_at
    return ClientSummary(
        client_id=session.client_id,
        user=principal.user,
        claimed_user=principal.claimed_user,
        state=state,
        listener=principal.listener,
        address=principal.address,
        version=None if connection is None else VERSION_NAMES[connection.version],
        connected_at=None if since is None else moment.time_of(since),
        connected_s=None if since is None else round(moment.now - since, 3),
        subscriptions=len(session.subscriptions),
        queued=session.queued(),
        queued_bytes=0 if queue is None else queue.size_bytes,
        inflight=len(session.inflight.deliveries),
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
