"""Publish, one message or several, and requests that wait for a response.

The answer of a QoS 1 or 2 message is what its PUBACK or PUBCOMP says: the core sends these when the
message is safe in the store, and on the nodes that it is for.  For QoS 0 MQTT has no answer, so a
caller who may not publish is told by asking the authorizer what it would have said to QoS 1; the
message has gone the way of all others by then, and was counted as denied.

A message is published once: nothing is ever sent again from here.  Where a client's connection
ends, or time is up, before the answer is there, the error says whether the message may have been
published.
"""

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from twisted.internet.defer import Deferred

from mhub.admin.mqtt.client import Ended
from mhub.admin.mqtt.message import Message, MessageView, check_topic, to_view
from mhub.admin.mqtt.outcome import Published, ended_error, error_of, published
from mhub.admin.mqtt.packets import NO_RETAINED, Received, Reply
from mhub.admin.mqtt.pool import Pool, Shared
from mhub.core.namespace import mounted
from mhub.core.principal import Principal
from mhub.operations.contract import BadArgument, LimitReached, OperationError, TimedOut
from mhub.operations.slices import Slices
from mhub.wire import reasons
from mhub.wire.topics import has_wildcard, reserved

MOST_BATCH: Final = 1_000
"""Messages of one batch."""

MOST_REQUESTS: Final = 100
"""Requests of one caller that wait for their responses at the same time."""

CLEAN_UP_S: Final = 10.0


@dataclass(frozen=True)
class BatchItem:
    """What became of one message of a batch."""

    index: int
    topic: str
    qos: int
    ok: bool
    reason_code: int | None = None  # None: the broker was not asked, or has not answered
    reason: str = ""
    error: str = ""  # what kind of error it is: that of the answer to the same message alone
    detail: str = ""


@dataclass(frozen=True)
class Batch:
    published: int
    failed: int
    results: tuple[BatchItem, ...]  # in the order of the messages


class Publishing:
    def __init__(
        self,
        pool: Pool,
        pause: Callable[[], Awaitable[object]],
    ) -> None:
        """pause() is as for Slices."""
        self._pool = pool
        self._place = pool.place
        self._pause = pause

    async def publish(self, principal: Principal, message: Message, timeout_s: float) -> Published:
        async with self._pool.client(principal) as shared:
            return await self._finish(
                shared, message, shared.client.begin_publish(message, timeout_s)
            )

    async def _finish(self, shared: Shared, message: Message, done: "Deferred[Reply]") -> Published:
        try:
            reply = await done
        except Ended as ended:
            raise ended_error(ended) from None
        if not message.qos:
            reply = Reply(0, self._denied(shared, message))
        return published(message.topic, message.qos, reply)

    def _denied(self, shared: Shared, message: Message) -> int:
        """What a PUBACK would have said to a message of QoS 0."""
        connection = shared.client.connection
        topic = mounted(connection.namespace, message.topic)
        if reserved(topic):
            return reasons.NOT_AUTHORIZED
        authorizer = self._place.hub.authorizer
        if authorizer is None:
            return 0
        return authorizer.publish(connection.principal, topic, 0, message.retain)

    async def publish_all(
        self, principal: Principal, messages: list[Message | OperationError], timeout_s: float
    ) -> Batch:
        """In their order; an OperationError stands for a message that could not be read.

        They are all on their way before the first answer is waited for.
        """
        slices = Slices(self._place.clock, self._pause)
        results: list[BatchItem] = []
        async with self._pool.client(principal) as shared:
            begun: list[tuple[Message, Deferred[Reply]] | OperationError] = []
            for message in messages:
                if isinstance(message, OperationError):
                    begun.append(message)
                    continue
                try:
                    done = shared.client.begin_publish(message, timeout_s)
                    begun.append((message, done))
                except OperationError as error:
                    begun.append(error)
                except Ended as ended:
                    begun.append(ended_error(ended))
                await slices.pause_if_due()
            for index, each in enumerate(begun):
                given = messages[index]
                results.append(await self._item(shared, index, given, each))
        good = sum(1 for each in results if each.ok)
        return Batch(good, len(results) - good, tuple(results))

    async def _item(
        self,
        shared: Shared,
        index: int,
        given: Message | OperationError,
        begun: "tuple[Message, Deferred[Reply]] | OperationError",
    ) -> BatchItem:
        topic = given.topic if isinstance(given, Message) else ""
        qos = given.qos if isinstance(given, Message) else 0
        error = begun
        if isinstance(begun, tuple):
            try:
                done = await self._finish(shared, *begun)
                return BatchItem(index, topic, qos, True, done.reason_code, done.reason)
            except OperationError as refused:
                error = refused
        return BatchItem(index, topic, qos, False, error=type(error).__name__, detail=str(error))

    # Request and response

    async def request(
        self, principal: Principal, message: Message, timeout_s: float
    ) -> MessageView:
        """The first message at the response topic that has the correlation data of the request."""
        if message.response_topic is None:
            message = replace(message, response_topic=_response_topic(principal))
        if message.correlation_data is None:
            message = replace(message, correlation_data=secrets.token_bytes(16))
        async with self._pool.client(principal) as shared:
            return await self._ask(shared, message, timeout_s)

    async def _ask(self, shared: Shared, message: Message, timeout_s: float) -> MessageView:
        topic = message.response_topic
        assert topic is not None
        check_topic(topic, "response_topic")
        clock = self._place.clock
        until = clock() + timeout_s
        answer: Deferred[Received] = Deferred()

        def listen(received: Received) -> None:
            if received.message.correlation_data == message.correlation_data and not answer.called:
                answer.callback(received)

        if len(shared.listeners) >= MOST_REQUESTS:
            raise LimitReached(
                f"{MOST_REQUESTS} requests of this caller wait for their responses already"
            )
        key = secrets.token_hex(8)
        shared.listeners[key] = (topic, listen)
        timer = self._place.reactor.callLater(timeout_s, _time_out, answer, timeout_s)
        try:
            await self._subscribe(shared, topic, timeout_s)
            left_s = max(0.001, until - clock())
            await self._finish(shared, message, shared.client.begin_publish(message, left_s))
            return to_view((await answer).message)
        except Ended as ended:
            raise ended_error(ended) from None
        finally:
            if timer.active():
                timer.cancel()
            answer.addErrback(lambda failure: None)
            del shared.listeners[key]
            if shared.client.ended is None and not shared.listens_at(topic):
                done = Deferred.fromCoroutine(shared.client.unsubscribe([topic], CLEAN_UP_S))
                done.addErrback(lambda failure: None)

    async def _subscribe(self, shared: Shared, topic: str, timeout_s: float) -> None:
        reply = await shared.client.subscribe([topic], 1 | NO_RETAINED, timeout_s)
        code = reply.codes[0]
        if code >= reasons.UNSPECIFIED:
            raise error_of(code, f"the response topic {topic!r} cannot be subscribed to")


def _time_out(answer: "Deferred[Received]", timeout_s: float) -> None:
    if not answer.called:
        answer.errback(TimedOut(f"no response came within {timeout_s:g} s; the request was sent"))


def _response_topic(principal: Principal) -> str:
    user = principal.user
    if "/" in user or has_wildcard(user) or "\0" in user:
        raise BadArgument(
            "response_topic: it has to be given, as the user's name cannot stand in a topic"
        )
    return f"users/{user}/http/{secrets.token_hex(8)}"
