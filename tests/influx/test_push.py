"""The push: what waits while the server does not answer, what is dropped, and what is told."""

from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionRefusedError
from twisted.trial.unittest import SynchronousTestCase

from mhub.config.influx import InfluxSettings
from mhub.core.events import PUSH_FAILED, PUSH_RECOVERED, Event, Events
from mhub.influx.push import MOST_REQUEST, Push
from mhub.operations.numbers import Numbers
from tests.admin.metrics.moment import everything
from tests.influx.grammar import parse


class Server:
    """Answers as the test says; `None` keeps the request waiting."""

    def __init__(self) -> None:
        self.answer: tuple[int, str] | Exception | None = (204, "")
        self.bodies: list[bytes] = []
        self.waiting: list[Deferred[tuple[int, str]]] = []
        self.stopped = False

    def __call__(self, lines: bytes) -> Deferred[tuple[int, str]]:
        self.bodies.append(lines)
        if self.answer is None:
            self.waiting.append(Deferred())
            return self.waiting[-1]
        done: Deferred[tuple[int, str]] = Deferred()
        if isinstance(self.answer, Exception):
            done.errback(self.answer)
        else:
            done.callback(self.answer)
        return done

    def stop(self) -> Deferred[None]:
        self.stopped = True
        return succeed(None)


class Told:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


class PushTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.server = Server()
        self.told = Told()
        self.numbers: Numbers = everything()
        self.push = self.make()

    def make(self, **settings: Any) -> Push:
        async def pause() -> None:
            pass

        return Push(
            InfluxSettings(url="http://x", db="d", tags=(("site", "berlin"),), **settings),
            lambda: self.numbers,
            Events([self.told]),
            self.server,
            lambda: pause,
        )

    def points(self) -> int:
        return sum(len(parse(body)) for body in self.server.bodies)

    def test_sent(self) -> None:
        self.push.tick()
        (body,) = self.server.bodies
        found = parse(body)
        self.assertEqual(found[0].measurement, "mhub")
        self.assertEqual(found[0].tags, {"site": "berlin", "node": "a"})
        self.assertEqual({each.time for each in found}, {1_800_000_000_000})
        status = self.push.status()
        self.assertEqual((status.name, status.state, status.sent), ("influx", "ok", len(found)))
        self.assertEqual((status.waiting, status.failures, status.dropped), (0, 0, 0))
        self.assertEqual(self.told.events, [])

    def test_another_prefix(self) -> None:
        self.push = self.make(prefix="broker")
        self.push.tick()
        names = {each.measurement for each in parse(self.server.bodies[0])}
        self.assertTrue(all(name.startswith("broker") for name in names), names)

    def test_a_server_that_is_gone_gets_all_of_it_later(self) -> None:
        self.server.answer = ConnectionRefusedError()
        for _ in range(3):
            self.push.tick()
        status = self.push.status()
        count = len(parse(self.server.bodies[0]))
        self.assertEqual((status.sent, status.failures, status.waiting), (0, 3, 3 * count))
        self.assertIn("refused", status.state)
        self.server.answer = (204, "")
        self.server.bodies.clear()
        self.push.tick()
        self.assertEqual(self.points(), 4 * count)
        self.assertEqual(self.push.status().sent, 4 * count)
        self.assertEqual(self.push.status().dropped, 0)

    def test_a_failure_is_told_once(self) -> None:
        self.server.answer = (503, "busy")
        self.push.tick()
        self.server.answer = (500, "broken")
        self.push.tick()
        self.assertEqual(self.told.kinds(), [PUSH_FAILED])
        first = self.told.events[0]
        self.assertEqual((first.cause, first.text), ("influx", "503 busy"))
        self.assertEqual(self.push.status().state, "failing: 500 broken")
        self.server.answer = (204, "")
        self.push.tick()
        self.push.tick()
        self.assertEqual(self.told.kinds(), [PUSH_FAILED, PUSH_RECOVERED])

    def test_what_is_not_wanted_is_not_sent_again(self) -> None:
        self.server.answer = (400, '{"error":"partial write: field type conflict"}')
        self.push.tick()
        status = self.push.status()
        self.assertEqual((status.waiting, status.sent, status.failures), (0, 0, 1))
        self.assertEqual(status.dropped, self.points())
        self.assertIn("field type conflict", status.state)

    def test_who_is_not_let_in_tries_again(self) -> None:
        """Somebody may be about to make the bucket, or the token."""
        for code in (401, 403, 404, 429):
            self.server.answer = (code, "")
            self.push.tick()
        self.assertEqual(self.push.status().dropped, 0)

    def test_the_oldest_is_dropped_where_there_is_no_room(self) -> None:
        self.push = self.make(max_buffer=64 << 10)
        self.server.answer = (503, "")
        for _ in range(100):
            self.push.tick()
        status = self.push.status()
        made = 100 * len(parse(self.server.bodies[0]))
        self.assertEqual(status.dropped + status.waiting, made)
        self.assertGreater(status.dropped, 0)
        self.assertLessEqual(self.push._waiting_bytes, 64 << 10)
        self.server.answer = (204, "")
        self.push.tick()
        self.assertEqual(self.push.status().waiting, 0)

    def test_requests_of_bounded_size(self) -> None:
        self.server.answer = (503, "")
        for _ in range(100):
            self.push.tick()
        self.server.bodies.clear()
        self.server.answer = (204, "")
        self.push.tick()
        self.assertGreater(len(self.server.bodies), 2)
        for body in self.server.bodies:
            self.assertLessEqual(len(body), 2 * MOST_REQUEST)
            parse(body)

    def test_many_listeners(self) -> None:
        self.numbers = everything(2000, 3)
        self.push.tick()
        self.assertGreater(self.points(), 2000)
        self.assertEqual(self.push.status().sent, self.points())

    def test_one_request_at_a_time(self) -> None:
        self.server.answer = None
        self.push.tick()
        self.push.tick()
        self.push.tick()
        self.assertEqual(len(self.server.bodies), 1)
        self.server.answer = (204, "")
        self.server.waiting[0].callback((204, ""))
        self.assertEqual(self.push.status().waiting, 0)
        self.assertEqual(self.push.status().sent, self.points())

    def test_stop(self) -> None:
        self.server.answer = None
        self.push.tick()
        self.successResultOf(self.push.stop())
        self.assertTrue(self.server.stopped)
        self.assertEqual(self.told.events, [])

    def test_a_defect_is_told(self) -> None:
        self.numbers = None  # type: ignore[assignment]
        self.push.tick()
        self.assertEqual(self.told.kinds(), ["crashed"])
