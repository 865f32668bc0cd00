"""MQTT over HTTP, as the endpoints see it: all of it together, for one node."""

import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final

from mhub.admin.mqtt.client import Place
from mhub.admin.mqtt.events import Rings
from mhub.admin.mqtt.message import Message, MessageView
from mhub.admin.mqtt.outcome import Published
from mhub.admin.mqtt.pool import Pool, check_caller, client_id_of
from mhub.admin.mqtt.publishing import MOST_BATCH, Batch, Publishing
from mhub.admin.mqtt.retained import read_retained
from mhub.admin.mqtt.stream import Stream
from mhub.config.admin import LISTENER
from mhub.core.hub import Hub
from mhub.core.limits import NEVER, Limits
from mhub.core.principal import Principal
from mhub.operations.contract import BadArgument, LimitReached, OperationError, Unavailable
from mhub.wire.errors import ProtocolFault
from mhub.wire.topics import check_filter_form

MOST_STREAMS: Final = 1_000
MOST_FILTERS: Final = 100
LONGEST_NAME: Final = 64
NAME: Final = re.compile(r"[A-Za-z0-9_]{1,64}")


async def always() -> bool:
    return True


class Gateway:
    def __init__(
        self,
        hub: Hub,
        limits: Callable[[], Limits],
        reactor: Any,
        clock: Callable[[], float],
        wall: Callable[[], float],
        settle: Callable[[], None],
        pause: Callable[[], Awaitable[object]],
    ) -> None:
        """`clock` is the hub's, `wall` the time of day; pause() is as for Slices."""
        self.place = Place(hub, limits, LISTENER, reactor, clock, settle)
        self.pool = Pool(self.place)
        self.streams = 0
        self.streams_refused = 0
        self._publishing = Publishing(self.pool, pause)
        self._rings = Rings()
        self._wall = wall
        self._pause = pause

    async def publish(self, caller: Principal, message: Message, timeout_s: float) -> Published:
        return await self._publishing.publish(caller, message, timeout_s)

    async def publish_all(
        self, caller: Principal, messages: list[Message | OperationError], timeout_s: float
    ) -> Batch:
        if len(messages) > MOST_BATCH:
            raise BadArgument(f"{len(messages)} messages, at most {MOST_BATCH} are allowed")
        return await self._publishing.publish_all(caller, messages, timeout_s)

    async def request(self, caller: Principal, message: Message, timeout_s: float) -> MessageView:
        return await self._publishing.request(caller, message, timeout_s)

    def retained(self, caller: Principal, topic: str) -> Message:
        return read_retained(self.place, caller, topic)

    async def open_stream(
        self,
        caller: Principal,
        filters: list[str],
        qos: int = 1,
        name: str = "",
        expiry_s: int = 0,
        last_event_id: str = "",
        is_allowed: Callable[[], Awaitable[bool]] = always,
    ) -> Stream:
        """Events, to be read until they are over and closed in any case.

        With `name` and `expiry_s` the session is kept; is_allowed() is as for Stream.  Raises an
        OperationError.
        """
        check_caller(self.place, caller)
        _check_filters(filters)
        if name and NAME.fullmatch(name) is None:
            raise BadArgument(
                f"client_id: up to {LONGEST_NAME} letters of a to z, digits and _ are allowed"
            )
        if expiry_s and not name:
            raise BadArgument("expiry_s: a session is kept only for a stream with a client_id")
        if not 0 <= expiry_s <= NEVER:
            raise BadArgument(f"expiry_s: it is from 0 to {NEVER}")
        if self.streams >= MOST_STREAMS:
            self.streams_refused += 1
            raise Unavailable(f"there are {MOST_STREAMS} streams, as many as may be")
        stream = Stream(
            self.place,
            caller,
            self._client_id(caller, name),
            self._rings if name and expiry_s else None,
            self._wall,
            is_allowed,
            self._pause,
        )
        self.streams += 1
        stream.on_close = self._closed
        try:
            await stream.open(filters, qos, expiry_s, last_event_id)
        except BaseException:
            stream.close("the stream did not begin")
            raise
        return stream

    def _closed(self) -> None:
        self.streams -= 1

    def _client_id(self, caller: Principal, name: str) -> str:
        if not name:
            return client_id_of(caller.user, f"s.{secrets.token_hex(8)}")
        client_id = client_id_of(caller.user, name)
        # Of a session on another node that one sees to it: it gives it to nobody but its user.
        session = self.place.hub.sessions.get(client_id)
        if session is not None and session.principal.user != caller.user:
            raise OperationError(f"the client id {client_id!r} is somebody else's")
        return client_id


def _check_filters(filters: list[str]) -> None:
    if not filters:
        raise BadArgument("filter: there has to be at least one")
    if len(filters) > MOST_FILTERS:
        raise LimitReached(f"filter: at most {MOST_FILTERS} are allowed")
    if len(set(filters)) < len(filters):
        raise BadArgument("filter: one of them is given twice")
    for name in filters:
        try:
            if "\0" in name or len(name.encode("utf-8")) > 65_535:
                raise BadArgument("filter: it has U+0000, or more than 65535 bytes")
            check_filter_form(name)
        except UnicodeEncodeError:
            raise BadArgument("filter: it is not Unicode text") from None
        except ProtocolFault as fault:
            raise BadArgument(f"filter: {name[:100]!r}: {fault.text}") from None
