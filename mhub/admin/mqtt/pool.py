"""One in-process client for each caller, kept while it is used.

Client ids.  They are `http-USER-NAME`, where NAME has no `-`: so what is before the last `-` says
whose it is, and no two users ever have the same.  Names that are made here have a `.`, and names
that callers give to their streams have none, so neither can be taken for the other.  An id that
somebody else has, on any node, is not used: nobody's session is taken over from here.

A caller is a user with what its login, or token, gives it (roles, tenant, attributes, rules of its
own) at one address: a token with fewer roles than its user never shares a client with that one.
"""

import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mhub.admin.mqtt.client import Ended, InProcessClient, Place
from mhub.admin.mqtt.outcome import ended_error
from mhub.admin.mqtt.packets import Received
from mhub.auth.addresses import host_of
from mhub.auth.lookup import user_entry
from mhub.core.connection import CLOSED
from mhub.core.principal import Principal
from mhub.operations.contract import Forbidden, Unavailable

PREFIX: Final = "http-"

IDLE_S: Final = 60.0
"""How long a client is kept that nobody uses."""

MOST_CLIENTS: Final = 1_000

ATTEMPTS: Final = 4

Key = tuple[Any, ...]

Listener = tuple[str, Callable[[Received], None]]
"""A response topic, and who waits for a message there."""


def client_id_of(user: str, name: str) -> str:
    assert "-" not in name
    return f"{PREFIX}{user}-{name}"


def check_caller(place: Place, principal: Principal) -> None:
    """What an authenticator would ask of a user that it knows.  Raises Forbidden."""
    if not principal.is_verified():
        raise Forbidden("MQTT over HTTP is for users: log in as one, or use a token of one")
    entry = user_entry(place.hub, principal.user)
    if entry is not None and entry.get("locked"):
        raise Forbidden(f"the user {principal.user!r} is locked")


def is_taken(place: Place, client_id: str) -> bool:
    hub = place.hub
    return client_id in hub.sessions or (hub.peers is not None and hub.peers.has_session(client_id))


class Shared:
    """A client, and the requests that use it."""

    def __init__(self, pool: "Pool", key: Key, principal: Principal) -> None:
        self.key = key
        self.uses = 0
        self.idle: Any = None  # the timer that ends it
        self.is_open = False
        self.opening: list[Deferred[None]] = []
        self.listeners: dict[str, Listener] = {}  # requests that wait, by names of their own
        self.client = InProcessClient(pool.place, principal, self._received, self._ended)
        self._pool = pool

    def _received(self, received: Received) -> None:
        self.client.take(received)
        for topic, listener in list(self.listeners.values()):
            if topic == received.message.topic:
                listener(received)

    def listens_at(self, topic: str) -> bool:
        return any(each == topic for each, _ in self.listeners.values())

    def _ended(self, ended: Ended) -> None:
        self._pool.forget(self)


class Pool:
    """The clients that publish for callers, by caller; the one used last is the last."""

    def __init__(self, place: Place, most: int = MOST_CLIENTS) -> None:
        self.place = place
        self.most = most
        self.opened = 0
        self.evicted = 0  # unused ones that made room
        self.refused = 0  # callers for whom there was no room
        self._all: OrderedDict[Key, Shared] = OrderedDict()

    def __len__(self) -> int:
        return len(self._all)

    @asynccontextmanager
    async def client(self, principal: Principal) -> AsyncIterator[Shared]:
        """The caller's client, connected.  Raises an OperationError."""
        check_caller(self.place, principal)
        shared = await self._open(principal)
        try:
            yield shared
        finally:
            self._release(shared)

    async def _open(self, principal: Principal) -> Shared:
        key = _key_of(principal)
        shared = self._all.get(key)
        if shared is not None and shared.client.connection.state == CLOSED:
            self.forget(shared)  # it is about to notice that
            shared = None
        if shared is None:
            self._make_room()
            shared = Shared(self, key, principal)
            self._all[key] = shared
            self.opened += 1
            shared.uses += 1
            Deferred.fromCoroutine(self._connect(shared, principal)).addErrback(
                self._not_connected, shared
            )
        else:
            shared.uses += 1
            self._all.move_to_end(key)
            if shared.idle is not None:
                shared.idle.cancel()
                shared.idle = None
        if not shared.is_open:
            opened: Deferred[None] = Deferred()
            shared.opening.append(opened)
            try:
                await opened
            except Ended as ended:
                self._release(shared)
                raise ended_error(ended) from None
            except BaseException:
                self._release(shared)
                raise
        return shared

    async def _connect(self, shared: Shared, principal: Principal) -> None:
        client_id = ""
        for _ in range(ATTEMPTS):
            client_id = client_id_of(principal.user, f"p.{secrets.token_hex(8)}")
            if not is_taken(self.place, client_id):
                break
        else:
            raise Unavailable("no client id is free; try again")
        await shared.client.connect(client_id)
        shared.is_open = True
        opening, shared.opening = shared.opening, []
        for each in opening:
            if not each.called:
                each.callback(None)

    def _not_connected(self, failure: Failure, shared: Shared) -> None:
        self.forget(shared)
        opening, shared.opening = shared.opening, []
        for each in opening:
            if not each.called:
                each.errback(failure)

    def _make_room(self) -> None:
        if len(self._all) < self.most:
            return
        for shared in self._all.values():
            if not shared.uses:
                self.evicted += 1
                self._close(shared)
                return
        self.refused += 1
        raise Unavailable(
            f"{self.most} callers publish over HTTP at this moment, as many as may; try again later"
        )

    def _release(self, shared: Shared) -> None:
        shared.uses -= 1
        if not shared.uses and self._all.get(shared.key) is shared:
            shared.idle = self.place.reactor.callLater(IDLE_S, self._close, shared)

    def _close(self, shared: Shared) -> None:
        self.forget(shared)
        shared.client.close_politely()

    def forget(self, shared: Shared) -> None:
        """It has ended, or is about to: the next request gets another one."""
        if self._all.get(shared.key) is shared:
            del self._all[shared.key]
        if shared.idle is not None and shared.idle.active():
            shared.idle.cancel()
        shared.idle = None


def _key_of(principal: Principal) -> Key:
    return (
        principal.user,
        principal.roles,
        principal.tenant,
        tuple(sorted(principal.attributes.items())),
        principal.grants,
        principal.expires_at,
        host_of(principal.address),
    )
