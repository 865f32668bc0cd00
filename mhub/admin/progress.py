"""An operation that takes a while, as lines of JSON that tell how far it has got.

    {"progress": "a text for people"}      any number of them
    {"result": {...}}                      the last one

A stream without its last line did not come to its end.  The operation goes on when its caller goes,
as all changes do, and is cancelled when the broker stops.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable

import msgspec
from twisted.internet.defer import Deferred

from mhub.operations.contract import Say


async def progress_lines(
    operation: Callable[[Say], Awaitable[object]],
) -> AsyncGenerator[bytes, None]:
    """`operation` is given what it tells of its progress by."""
    texts: list[str] = []
    news: Deferred[None] = Deferred()

    def say(text: str) -> None:
        texts.append(text)
        _fire(news)

    async def whole() -> object:
        return await operation(say)

    work: Deferred[object] = Deferred.fromCoroutine(whole())
    ended: list[bool] = []

    def on_end(result: object) -> object:
        ended.append(True)
        _fire(news)
        return result

    work.addBoth(on_end)
    try:
        while not ended or texts:
            told, texts[:] = list(texts), []
            for text in told:
                yield _line({"progress": text})
            if not ended and not texts:
                news = Deferred()
                await news
        yield _line({"result": await work})
    finally:
        work.addErrback(lambda failure: None)  # whoever has asked was told, or is gone
        work.cancel()


def _fire(news: "Deferred[None]") -> None:
    if not news.called:
        news.callback(None)


def _line(fact: dict[str, object]) -> bytes:
    return msgspec.json.encode(fact, enc_hook=vars) + b"\n"
