"""The bounds around a server that is asked about clients: whatever it does, they are answered."""

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from mhub.auth.answer_cache import AnswerCache, CacheBounds
from mhub.auth.backend import CLOSED, HALF_OPEN, OPEN, Backend, Bounds, Unavailable, plain
from mhub.auth.contract import cannot_tell, no, not_mine, yes
from mhub.core.principal import Identity
from mhub.core.stats import Stats


class Server:
    """Questions that are answered when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Deferred[str]] = []
        self.cut = 0

    def ask(self) -> "Deferred[str]":
        question: Deferred[str] = Deferred(self._cancel)
        self.asked.append(question)
        return question

    def _cancel(self, question: "Deferred[str]") -> None:
        self.cut += 1


class BackendCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.stats = Stats()
        self.server = Server()
        self.answers: list[Deferred[str]] = []
        self.addCleanup(lambda: [each.addErrback(lambda _: None) for each in self.answers])
        self.bounds = Bounds()
        self.bounds.max_concurrent = 2
        self.bounds.max_waiting = 3
        self.bounds.breaker_failures = 3
        self.backend = Backend("db", self.bounds, self.clock, self.clock.seconds, self.stats)

    def ask(self, count: int = 1) -> "list[Deferred[str]]":
        answers = [self.backend.ask(self.server.ask) for _ in range(count)]
        self.answers += answers
        return answers

    def refused(self, answer: "Deferred[str]") -> str:
        return str(self.failureResultOf(answer, Unavailable).value)

    def lines(self, act: Callable[[], object]) -> list[str]:
        with capturedLogs() as captured:
            act()
        return [
            each["log_format"].format(**each)
            for each in captured
            if each["log_namespace"] == "mhub.auth"
        ]

    def open_circuit(self) -> None:
        for _ in range(3):
            [answer] = self.ask()
            self.server.asked[-1].errback(OSError("no route"))
            self.refused(answer)
        self.assertEqual(self.backend.state, OPEN)


class QueueTests(BackendCase):
    def test_answers_come_back(self) -> None:
        [answer] = self.ask()
        self.assertNoResult(answer)
        self.server.asked[0].callback("alice")
        self.assertEqual(self.successResultOf(answer), "alice")
        self.assertEqual(self.stats.auth_backend_answers, 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_not_more_than_so_many_at_a_time(self) -> None:
        self.ask(5)
        self.assertEqual(len(self.server.asked), 2)
        self.server.asked[0].callback("a")
        self.assertEqual(len(self.server.asked), 3)
        self.assertEqual((self.backend.running, self.backend.waiting), (2, 2))

    def test_first_come_first_served(self) -> None:
        answers = self.ask(4)
        for number in range(4):
            self.server.asked[number].callback(str(number))
        self.assertEqual([self.successResultOf(each) for each in answers], ["0", "1", "2", "3"])

    def test_who_finds_the_queue_full_is_refused_at_once(self) -> None:
        waiting = self.ask(5)
        logged = self.lines(lambda: self.refused(self.ask()[0]))
        self.assertEqual(len(logged), 1)
        self.assertIn("max_waiting", logged[0])
        self.assertEqual(self.lines(lambda: self.refused(self.ask()[0])), [])
        self.assertEqual(self.stats.auth_backend_rejected, 2)
        for each in waiting:
            self.assertNoResult(each)

    def test_the_log_tells_when_the_queue_is_empty(self) -> None:
        self.ask(5)
        self.refused(self.ask()[0])
        logged = []
        for number in range(5):
            logged += self.lines(lambda n=number: self.server.asked[n].callback(""))
        self.assertEqual(logged, ["db: no client waits any more; 1 were refused"])

    def test_addresses_have_their_turn_one_after_the_other(self) -> None:
        """Who sends much waits behind itself, and not before others."""
        self.bounds.max_waiting = 100
        self.ask(2)
        order: list[str] = []

        def asked(name: str) -> "Deferred[str]":
            order.append(name)
            return self.server.ask()

        for number in range(5):
            self.backend.ask(lambda n=number: asked(f"a{n}"), "192.0.2.1:5")
        for number in range(2):
            self.backend.ask(lambda n=number: asked(f"b{n}"), "192.0.2.2:6")
        for question in self.server.asked:  # which grows meanwhile
            question.callback("")
        self.assertEqual(order, ["a0", "b0", "a1", "b1", "a2", "a3", "a4"])

    def test_who_has_most_waiting_gives_way(self) -> None:
        self.ask(2)
        many = [self.backend.ask(self.server.ask, "192.0.2.1:5") for _ in range(3)]
        [other] = [self.backend.ask(self.server.ask, "192.0.2.2:6")]
        self.assertIn("too many clients wait", self.refused(many[2]))
        self.assertNoResult(many[1])
        self.assertNoResult(other)
        self.assertEqual(self.backend.waiting, 3)
        self.assertEqual(len(self.clock.getDelayedCalls()), 5)
        again: Deferred[str] = self.backend.ask(self.server.ask, "192.0.2.2:7")
        self.assertIn("too many", self.refused(again), "two and one: it would be no fairer")

    def test_many_that_are_answered_at_once(self) -> None:
        """A long queue is no deep recursion."""
        self.bounds.max_waiting = 5000
        self.ask(2)
        answers = [self.backend.ask(lambda: succeed("x")) for _ in range(5000)]
        self.server.asked[0].callback("")
        self.assertEqual({self.successResultOf(each) for each in answers}, {"x"})

    def test_a_client_that_goes_leaves_the_queue(self) -> None:
        answers = self.ask(4)
        answers[3].cancel()
        self.failureResultOf(answers[3], CancelledError)
        self.assertEqual(self.backend.waiting, 1)
        self.assertEqual(len(self.clock.getDelayedCalls()), 3)

    def test_a_client_that_goes_does_not_cut_its_question(self) -> None:
        """Else anybody could cost us a connection to the server for each CONNECT."""
        [answer] = self.ask()
        answer.cancel()
        self.failureResultOf(answer, CancelledError)
        self.assertEqual((self.backend.running, self.server.cut), (1, 0))
        self.server.asked[0].callback("late")
        self.assertEqual(self.backend.running, 0)

    def test_a_question_that_raises_is_a_failure(self) -> None:
        def defect() -> Any:
            raise ValueError("a defect")

        self.assertEqual(self.refused(self.backend.ask(defect)), "db: a defect")
        self.assertEqual(self.stats.auth_backend_failures, 1)

    def test_stop(self) -> None:
        answers = self.ask(3)
        self.backend.stop()
        for each in answers:
            self.refused(each)
        self.assertEqual(self.server.cut, 2)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.refused(self.ask()[0])
        self.assertEqual(self.stats.auth_backend_failures, 0)


class TimeoutTests(BackendCase):
    def test_who_waits_for_an_answer_is_told_in_time(self) -> None:
        [answer] = self.ask()
        self.clock.advance(4.9)
        self.assertNoResult(answer)
        self.clock.advance(0.2)
        self.assertEqual(self.refused(answer), "db: no answer within 5 s")
        self.assertEqual(self.server.cut, 1)
        self.assertEqual(self.backend.running, 0)
        self.assertEqual(self.stats.auth_backend_timeouts, 1)
        self.assertEqual(self.stats.auth_backend_failures, 1)

    def test_a_question_is_cut_before_its_client_hears_of_it(self) -> None:
        """Whoever asks again at once must not be asked where the first question hangs."""
        cut: list[int] = []
        [answer] = self.ask()
        answer.addErrback(lambda _: cut.append(self.server.cut))
        self.clock.advance(5.1)
        self.assertEqual(cut, [1])

    def test_who_waits_for_a_turn_is_told_in_time(self) -> None:
        """That nobody was asked is no failure of the server."""
        self.bounds.timeout_s = 10.0
        running = self.ask(2)
        self.bounds.timeout_s = 5.0
        [waiting] = self.ask()
        self.clock.advance(5.1)
        self.assertEqual(self.refused(waiting), "db: no turn within 5 s")
        self.assertEqual(self.stats.auth_backend_failures, 0)
        self.assertNoResult(running[0])

    def test_a_server_that_was_asked_late_has_not_failed(self) -> None:
        self.ask(2)
        [waiting] = self.ask()
        self.clock.advance(4)
        self.server.asked[0].callback("")  # now `waiting` is asked
        self.clock.advance(1.1)
        self.assertEqual(self.refused(waiting), "db: no answer within 5 s")
        self.assertEqual(self.stats.auth_backend_timeouts, 2)
        self.assertEqual(self.stats.auth_backend_failures, 1)

    def test_a_question_that_cannot_be_cut_keeps_its_place(self) -> None:
        stuck = self.stick(2)
        self.assertEqual(self.backend.running, 2)
        [waiting] = self.ask()
        self.assertNoResult(waiting)
        self.assertEqual(self.server.asked, [])
        stuck[0].callback("at last")
        self.assertEqual(len(self.server.asked), 1)

    def test_an_answer_that_comes_too_late_is_none(self) -> None:
        stuck = self.stick(2)
        stuck[0].callback("at last")
        self.assertEqual(self.stats.auth_backend_answers, 0)
        self.ask()
        self.server.asked[0].errback(OSError("x"))
        self.assertEqual(self.backend.state, OPEN, "the third failure in a row")

    def test_no_probe_without_room(self) -> None:
        """One that had to wait would keep the circuit half-open, and might never be asked."""
        self.bounds.breaker_failures = 2
        stuck = self.stick(2)
        self.clock.advance(10)
        self.refused(self.ask()[0])
        self.assertEqual(self.backend.state, OPEN)
        stuck[0].callback("at last")
        self.assertNoResult(self.ask()[0])
        self.assertEqual(self.backend.state, HALF_OPEN)

    def stick(self, count: int) -> "list[Deferred[str]]":
        """Questions that are not answered in time, and cannot be cut."""
        stuck: list[Deferred[str]] = []

        class Uncut(Deferred[str]):
            def cancel(self) -> None:
                pass

        def ask() -> "Deferred[str]":
            stuck.append(Uncut())
            return stuck[-1]

        answers = [self.backend.ask(ask) for _ in range(count)]
        self.clock.advance(5.1)
        for each in answers:
            self.refused(each)
        return stuck

    def test_an_abandoned_question_is_bounded_as_well(self) -> None:
        [answer] = self.ask()
        answer.cancel()
        self.failureResultOf(answer, CancelledError)
        self.clock.advance(5.1)
        self.assertEqual((self.backend.running, self.server.cut), (0, 1))


class BreakerTests(BackendCase):
    def test_opens_after_failures_in_a_row(self) -> None:
        logged = self.lines(self.open_circuit)
        self.assertEqual(len(logged), 1)
        self.assertIn("db does not answer: no route", logged[0])

    def test_an_answer_in_between_keeps_it_closed(self) -> None:
        for _ in range(4):
            for failing in (True, True, False):
                self.ask()[0].addErrback(lambda _: None)
                asked = self.server.asked[-1]
                asked.errback(OSError("x")) if failing else asked.callback("")
        self.assertEqual(self.backend.state, CLOSED)

    def test_open_nobody_is_asked(self) -> None:
        self.open_circuit()
        self.clock.advance(4.9)
        self.assertEqual(self.lines(lambda: self.refused(self.ask()[0])), [])
        self.assertEqual(len(self.server.asked), 3)
        self.assertEqual(self.stats.auth_backend_rejected, 1)

    def test_who_waits_when_it_opens_is_refused(self) -> None:
        answers = self.ask(5)
        self.clock.advance(5.1)  # two time out, and two of those that wait
        self.assertEqual(self.backend.state, CLOSED)
        for each in answers:
            self.refused(each)
        self.ask(2)
        waiting = self.ask(3)
        self.clock.advance(1)
        self.server.asked[-1].errback(OSError("x"))
        self.assertEqual(self.backend.state, OPEN)
        for each in waiting:
            self.assertEqual(self.refused(each), "db does not answer")
        self.assertEqual(self.backend.waiting, 0)
        self.assertEqual(len(self.clock.getDelayedCalls()), 1, "of the one that is under way")

    def test_one_probe(self) -> None:
        self.open_circuit()
        self.clock.advance(5)
        [probe] = self.ask()
        self.assertEqual(self.backend.state, HALF_OPEN)
        self.refused(self.ask()[0])
        self.assertEqual(len(self.server.asked), 4)
        logged = self.lines(lambda: self.server.asked[-1].callback("alice"))
        self.assertEqual(self.successResultOf(probe), "alice")
        self.assertEqual(self.backend.state, CLOSED)
        self.assertEqual(logged, ["db answers again, after 5 s; 1 clients were refused meanwhile"])

    def test_a_probe_that_fails_opens_it_again(self) -> None:
        """Quietly: nothing has changed."""
        self.open_circuit()
        self.clock.advance(5)
        [probe] = self.ask()
        self.assertEqual(self.lines(lambda: self.clock.advance(5.1)), [])
        self.refused(probe)
        self.assertEqual(self.backend.state, OPEN)
        self.clock.advance(4.9)
        self.refused(self.ask()[0])
        self.clock.advance(0.2)
        self.assertNoResult(self.ask()[0])

    def test_a_probe_whose_client_goes_still_decides(self) -> None:
        self.open_circuit()
        self.clock.advance(5)
        [probe] = self.ask()
        probe.cancel()
        self.failureResultOf(probe, CancelledError)
        self.assertEqual(self.backend.state, HALF_OPEN)
        self.server.asked[-1].callback("")
        self.assertEqual(self.backend.state, CLOSED)

    def test_after_the_probe_it_takes_as_many_failures_again(self) -> None:
        self.open_circuit()
        self.clock.advance(5)
        self.ask()
        self.server.asked[-1].callback("")
        for _ in range(2):
            self.ask()[0].addErrback(lambda _: None)
            self.server.asked[-1].errback(OSError("x"))
        self.assertEqual(self.backend.state, CLOSED)

    def test_failures_of_before_it_opened_do_not_end_the_pause(self) -> None:
        self.bounds.max_concurrent = 5
        self.ask(5)
        for each in self.server.asked[:3]:
            each.errback(OSError("x"))
        self.clock.advance(4)
        self.server.asked[3].errback(OSError("x"))
        self.server.asked[4].callback("")
        self.assertEqual(self.backend.state, OPEN)
        self.clock.advance(1)
        self.assertNoResult(self.ask()[0])
        self.assertEqual(self.backend.state, HALF_OPEN)


class LogTextTests(SynchronousTestCase):
    """CR, LF and what terminals obey do not get from a server, or a client, into the log."""

    def test_plain(self) -> None:
        self.assertEqual(
            plain('user "a\r\nb" \x1b[2J \x00 \u202e é'), 'user "a\\r\\nb" \\x1b[2J \\x00 \\u202e é'
        )
        self.assertEqual(len(plain("x" * 10_000)), 200)

    def test_what_a_failure_says(self) -> None:
        clock = Clock()
        backend = Backend("db", Bounds(), clock, clock.seconds, Stats())

        def ask() -> Any:
            raise OSError('no column "x\r\n2026-01-01 info auth: all is well"')

        answer: Deferred[str] = backend.ask(ask)
        self.assertNotIn("\n", str(self.failureResultOf(answer).value))


class CacheTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.stats = Stats()
        self.bounds = CacheBounds()
        self.jitter = 1.0
        self.cache = AnswerCache(
            self.bounds, self.clock.seconds, self.stats, lambda low, high: (low + high) / 2
        )

    def put(self, key: bytes, answer: Any) -> None:
        self.cache.put(key, answer, self.cache.generation)

    def test_a_no_is_remembered_for_seconds(self) -> None:
        for answer in (no("wrong"), not_mine()):
            self.put(b"k", answer)
            found = self.cache.get(b"k")
            assert found is not None
            self.assertEqual((found.outcome, found.remembered), (answer.outcome, True))
            self.clock.advance(3.1)
            self.assertIsNone(self.cache.get(b"k"))
        self.assertEqual(self.stats.auth_backend_cached, 2)

    def test_the_seconds_vary(self) -> None:
        """Devices that are refused together do not come back together."""
        asked = []
        cache = AnswerCache(
            self.bounds,
            self.clock.seconds,
            self.stats,
            lambda low, high: asked.append((low, high)) or high,
        )
        cache.put(b"k", no("wrong"), cache.generation)
        self.assertEqual(asked, [(1.5, 4.5)])
        self.clock.advance(4.4)
        self.assertIsNotNone(cache.get(b"k"))

    def test_a_yes_is_not_remembered_unless_wanted(self) -> None:
        answer = yes(Identity("alice", "db"))
        self.put(b"k", answer)
        self.assertIsNone(self.cache.get(b"k"))
        self.bounds.cache_s = 60.0
        self.put(b"k", answer)
        self.clock.advance(59)
        found = self.cache.get(b"k")
        assert found is not None
        self.assertIs(found.identity, answer.identity)
        self.clock.advance(2)
        self.assertIsNone(self.cache.get(b"k"))

    def test_what_expires_by_itself_is_not_remembered(self) -> None:
        self.bounds.cache_s = 60.0
        answer = yes(Identity("alice", "db"))
        assert answer.identity is not None
        answer.identity.expires_at = 1.0
        self.put(b"k", answer)
        self.assertIsNone(self.cache.get(b"k"))

    def test_cannot_tell_is_never_remembered(self) -> None:
        self.put(b"k", cannot_tell("gone"))
        self.assertEqual(len(self.cache), 0)

    def test_is_cleared_on_change(self) -> None:
        self.bounds.cache_s = 60.0
        self.put(b"y", yes(Identity("alice", "db")))
        self.put(b"n", no("wrong"))
        before = self.cache.generation
        self.cache.clear()
        self.assertEqual(len(self.cache), 0)
        self.cache.put(b"y", yes(Identity("alice", "db")), before)
        self.assertIsNone(self.cache.get(b"y"), "an answer from before the change")

    def test_is_bounded(self) -> None:
        """And what anybody can fill does not push out what was proved."""
        self.bounds.cache_s = 60.0
        self.bounds.cache_size = 10
        self.put(b"y", yes(Identity("alice", "db")))
        for number in range(100):
            self.put(b"%d" % number, no("wrong"))
        self.assertEqual(len(self.cache), 11)
        self.assertIsNotNone(self.cache.get(b"y"))
        self.assertIsNotNone(self.cache.get(b"99"))
        self.assertIsNone(self.cache.get(b"89"))

    def test_the_oldest_goes_first(self) -> None:
        self.bounds.cache_size = 2
        for key in (b"a", b"b", b"b"):
            self.put(key, no("wrong"))
        self.assertEqual(len(self.cache), 2)
        self.put(b"c", no("wrong"))
        self.assertIsNone(self.cache.get(b"a"))
        self.assertIsNotNone(self.cache.get(b"b"))

    def test_keys(self) -> None:
        """Do not hold the password, and do not mix up where a part ends."""
        key = self.cache.key([b"alice", b"secret"])
        self.assertNotIn(b"secret", key)
        self.assertEqual(key, self.cache.key([b"alice", b"secret"]))
        self.assertNotEqual(key, self.cache.key([b"alices", b"ecret"]))
        other = AnswerCache(self.bounds, self.clock.seconds, self.stats)
        self.assertNotEqual(key, other.key([b"alice", b"secret"]))
