"""What is sent when, and what becomes of what the server did not take.

    tick()   each interval: the numbers become lines, behind those that wait; then they are sent

What waits is bounded (`influx.max_buffer`): when it is too much, the oldest goes, and is counted.
A request carries what waits, oldest first, up to MOST_REQUEST; one is under way at a time.

    2xx              taken
    400, 413, 422    this data is not wanted, and would not be the next time: dropped, and counted
    anything else    the server is gone, busy, or does not let us in: it is tried again with the
                     next interval, for as long as that takes

The first failure is an event, and the next success is another.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from mhub.config.influx import InfluxSettings
from mhub.core.events import Events
from mhub.influx.lines import line
from mhub.influx.points import points
from mhub.operations.contract import PushStatus
from mhub.operations.numbers import Numbers

T = TypeVar("T")

NAME: Final = "influx"
"""What events and metrics call the server."""

MOST_REQUEST: Final = 64 * 1024
"""Bytes of lines in one request, before compression: to compress them takes a millisecond."""

NOT_WANTED: Final = (400, 413, 422)


class Post(Protocol):
    """One request with these lines; gives the status and the beginning of the answer."""

    def __call__(self, lines: bytes) -> "Deferred[tuple[int, str]]": ...

    def stop(self) -> "Deferred[None]": ...


class Push:
    def __init__(
        self,
        settings: InfluxSettings,
        read: Callable[[], Numbers],
        events: Events,
        post: Post,
        slices: Callable[[], Callable[[], Awaitable[None]]],
    ) -> None:
        """`slices()` gives what long work calls between two pieces."""
        self._prefix = settings.prefix
        self._tags = dict(settings.tags)
        self._most_bytes = settings.max_buffer
        self._read = read
        self._events = events
        self._post = post
        self._slices = slices
        self._waiting: deque[tuple[bytes, int]] = deque()  # lines, and how many
        self._waiting_bytes = 0
        self._rounds: set[Deferred[None]] = set()
        self._is_sending = False
        self.failure = ""  # why the last request failed; "": it did not
        self.sent = 0
        self.failures = 0
        self.dropped = 0

    def tick(self) -> None:
        work = Deferred.fromCoroutine(self._round())
        if not work.called:
            self._rounds.add(work)
            work.addBoth(self._ended, work)
        work.addErrback(self._defect)

    def stop(self) -> "Deferred[None]":
        for work in list(self._rounds):
            work.cancel()
        return self._post.stop()

    def status(self) -> PushStatus:
        return PushStatus(
            name=NAME,
            state=f"failing: {self.failure}" if self.failure else "ok",
            sent=self.sent,
            failures=self.failures,
            dropped=self.dropped,
            waiting=sum(count for _, count in self._waiting),
        )

    async def _round(self) -> None:
        await self._gather()
        if self._is_sending:
            return  # a request of an earlier round is under way, and these wait behind it
        self._is_sending = True
        try:
            while self._waiting and await self._send():
                pass
        finally:
            self._is_sending = False

    async def _gather(self) -> None:
        """The numbers of now, behind those that wait, in pieces of at most MOST_REQUEST."""
        numbers = self._read()
        time_ms = round(numbers.time * 1000)
        pause = self._slices()
        piece: list[str] = []
        size = 0
        for measurement, tags, fields in points(numbers, self._prefix, self._tags):
            text = line(measurement, tags, fields, time_ms)
            if piece and size + len(text) > MOST_REQUEST // 4:
                self._append(piece)
                piece, size = [], 0
            piece.append(text)
            size += len(text)
            await pause()
        self._append(piece)

    def _append(self, lines: list[str]) -> None:
        data = "".join(lines).encode("utf-8")
        self._waiting.append((data, len(lines)))
        self._waiting_bytes += len(data)
        while self._waiting_bytes > self._most_bytes and len(self._waiting) > 1:
            self.dropped += self._take()[1]

    def _take(self) -> tuple[bytes, int]:
        data, count = self._waiting.popleft()
        self._waiting_bytes -= len(data)
        return data, count

    async def _send(self) -> bool:
        """One request with the oldest; whether the server can have the next one."""
        taken = [self._take()]
        while self._waiting and sum(len(data) for data, _ in taken) < MOST_REQUEST:
            taken.append(self._take())
        count = sum(count for _, count in taken)
        try:
            status, text = await self._post(b"".join(data for data, _ in taken))
        except CancelledError:
            raise
        except Exception as error:
            status, text = 0, str(error) or type(error).__name__
        if 200 <= status < 300:
            self.sent += count
            self._worked()
            return True
        self._failed(f"{status} {text}".strip() if status else text)
        if status in NOT_WANTED:
            self.dropped += count
            return True
        for data, number in reversed(taken):
            self._waiting.appendleft((data, number))
            self._waiting_bytes += len(data)
        return False

    def _failed(self, text: str) -> None:
        self.failures += 1
        if not self.failure:
            self._events.push_failed(NAME, text)
        self.failure = text

    def _worked(self) -> None:
        if self.failure:
            self.failure = ""
            self._events.push_recovered(NAME)

    def _ended(self, result: T, work: Deferred[None]) -> T:
        self._rounds.discard(work)
        return result

    def _defect(self, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, Exception) and not isinstance(error, CancelledError):
            self._events.crashed("the push to InfluxDB", error)
