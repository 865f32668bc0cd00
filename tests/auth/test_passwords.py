"""The threads that check passwords: few at a time, few that wait, and each address in its turn."""

from threading import get_ident

from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred, gatherResults
from twisted.trial.unittest import TestCase

from mhub.auth import hashes
from mhub.auth.hashes import Costs, HashError
from mhub.auth.passwords import Busy, Passwords, Threads, queue_of
from mhub.auth.users import parse_verifier
from tests.auth.world import CHEAP, ByHand


class Counts:
    passwords_checked = 0
    passwords_refused = 0


class PoolTests(TestCase):
    def setUp(self) -> None:
        self.workers = ByHand(at_once=False)
        self.counts = Counts()
        self.passwords = Passwords(self.workers, 1, 4, self.counts, CHEAP, 4096)
        self.order: list[str] = []

    def put(self, name: str, address: str) -> Deferred[object]:
        """A job that says that it runs."""
        deferred = self.passwords._put(lambda: self.order.append(name), address)
        deferred.addErrback(lambda failure: failure.trap(Busy, CancelledError))
        return deferred

    def finish(self) -> None:
        while self.workers.jobs:
            self.workers.turn()

    def test_so_many_at_a_time(self) -> None:
        passwords = Passwords(self.workers, 2, 100, self.counts, CHEAP)
        for _ in range(5):
            passwords._put(lambda: None, "")
        self.assertEqual((len(self.workers.jobs), passwords.waiting), (2, 3))
        self.workers.turn()
        self.assertEqual((len(self.workers.jobs), passwords.waiting), (2, 2))

    def test_in_turn(self) -> None:
        """Somebody who asks for many waits behind himself, not before others."""
        for name, address in (
            ("a1", "192.0.2.1:1"),
            ("a2", "192.0.2.1:2"),
            ("a3", "192.0.2.1:3"),
            ("a4", "192.0.2.1:4"),
            ("b1", "192.0.2.2:1"),
        ):
            self.put(name, address)
        self.finish()
        self.assertEqual(self.order, ["a1", "a2", "b1", "a3", "a4"])

    def test_full(self) -> None:
        """What is beyond is refused, and counted: of the address that has the most."""
        results: list[object] = []
        for number in range(6):
            deferred = self.passwords._put(lambda: None, "192.0.2.1:1")
            deferred.addErrback(lambda failure, n=number: results.append((n, failure.type)))
        self.assertEqual(results, [(5, Busy)])
        self.assertEqual(self.counts.passwords_refused, 1)
        self.put("b", "192.0.2.2:1")
        self.assertEqual(results, [(5, Busy), (4, Busy)])
        self.finish()
        self.assertEqual(self.order, ["b"])
        self.assertEqual(self.passwords.waiting, 0)

    def test_full_of_many_addresses(self) -> None:
        """Then nobody has more than his share, and the newcomer is refused."""
        for number in range(5):
            self.put(f"{number}", f"192.0.2.{number}:1")
        refused: list[object] = []
        self.passwords._put(lambda: None, "192.0.2.99:1").addErrback(refused.append)
        self.assertEqual(len(refused), 1)

    def test_cancelled(self) -> None:
        """A client that has gone leaves its place."""
        self.put("a", "x")
        waiting = self.put("b", "x")
        waiting.cancel()
        self.assertEqual(self.passwords.waiting, 0)
        self.finish()
        self.assertEqual(self.order, ["a"])

    def test_cancelled_while_it_is_computed(self) -> None:
        running = self.put("a", "x")
        running.cancel()
        self.put("b", "x")
        self.finish()
        self.assertEqual(self.order, ["a", "b"])

    def test_stopped(self) -> None:
        self.put("a", "x")
        waiting = self.passwords._put(lambda: None, "x")
        self.passwords.stop()
        self.failureResultOf(waiting, CancelledError)
        self.failureResultOf(self.passwords.make(b"x"), Busy)

    def test_a_job_that_fails(self) -> None:
        """The next one has its turn all the same."""
        broken = self.passwords.verify("no hash", b"x")
        self.put("b", "x")
        self.finish()
        self.failureResultOf(broken, HashError)
        self.assertEqual(self.order, ["b"])

    def test_queues(self) -> None:
        """Of one host, whatever its port; of IPv6 a network, as one host may have a whole one."""
        self.assertEqual(queue_of("192.0.2.1:4711"), queue_of("192.0.2.1:1"))
        self.assertNotEqual(queue_of("192.0.2.1:1"), queue_of("192.0.2.2:1"))
        self.assertEqual(queue_of("[2001:db8::1]:1"), queue_of("[2001:db8::ffff:2]:2"))
        self.assertNotEqual(queue_of("[2001:db8::1]:1"), queue_of("[2001:db8:0:1::1]:1"))
        self.assertEqual(queue_of("[fe80::1%eth0]:1"), queue_of("[fe80::2%eth0]:1"))
        # IPv4, at a listener for both: not all of it is one network.
        self.assertEqual(queue_of("[::ffff:192.0.2.1]:1"), queue_of("192.0.2.1:1"))
        self.assertNotEqual(queue_of("[::ffff:192.0.2.1]:1"), queue_of("[::ffff:192.0.2.2]:1"))
        self.assertEqual(queue_of("local"), "local")
        self.assertEqual(queue_of("local"), "local")
        self.assertEqual(queue_of("[nonsense]:1"), "nonsense")


class ThreadTests(TestCase):
    """With threads as they are."""

    def test_off_the_reactors_thread(self) -> Deferred[None]:
        passwords = Passwords(Threads(2, reactor), 2, 10, Counts(), CHEAP, 4096)
        self.addCleanup(passwords.stop)
        here = get_ident()

        async def use() -> None:
            there = await passwords._put(get_ident, "")
            self.assertNotEqual(there, here)
            text = await passwords.make(b"secret")
            self.assertTrue(hashes.is_current(text, CHEAP))
            self.assertFalse(hashes.is_current(text, Costs()))
            right = passwords.verify(text, b"secret", "192.0.2.1:1")
            wrong = passwords.verify(text, b"Secret", "192.0.2.1:2")
            self.assertEqual(await gatherResults([right, wrong]), [True, False])
            self.assertEqual(parse_verifier(await passwords.verifier("secret")).iterations, 4096)
            self.assertEqual(get_ident(), here)

        return Deferred.fromCoroutine(use())
