"""epoll and what replaces it where it is missing see the same."""

import select
import socket
import time
from unittest import SkipTest, TestCase

from mhub.bench.poller import READ, WRITE, EpollPoller, Poller, SelectorPoller


class _PollerSuite:
    def make(self) -> Poller:
        raise NotImplementedError

    def setUp(self) -> None:
        self.poller = self.make()
        self.left, self.right = socket.socketpair()
        for one in (self.left, self.right, self.poller):
            self.addCleanup(one.close)  # type: ignore[attr-defined]
        self.fd = self.left.fileno()

    def assertSees(self, *expected: tuple[int, int]) -> None:
        self.assertEqual(self.poller.wait(0), list(expected))  # type: ignore[attr-defined]

    def test_readable_only_when_there_is_something(self) -> None:
        self.poller.watch(self.fd, False)
        self.assertSees()
        self.right.send(b"x")
        self.assertSees((self.fd, READ))

    def test_writable_only_when_asked_for(self) -> None:
        self.poller.watch(self.fd, True)
        self.assertSees((self.fd, WRITE))
        self.right.send(b"x")
        self.assertSees((self.fd, READ | WRITE))
        self.poller.watch(self.fd, False)
        self.assertSees((self.fd, READ))

    def test_the_end_of_a_connection_is_something_to_read(self) -> None:
        self.poller.watch(self.fd, False)
        self.right.close()
        self.assertSees((self.fd, READ))

    def test_forgotten(self) -> None:
        self.poller.watch(self.fd, True)
        self.poller.forget(self.fd)
        self.assertSees()

    def test_waiting_ends(self) -> None:
        began = time.monotonic()
        self.poller.wait(0.002)
        self.assertGreaterEqual(time.monotonic() - began, 0.002)  # type: ignore[attr-defined]


class EpollTests(_PollerSuite, TestCase):
    def make(self) -> Poller:
        if not hasattr(select, "epoll"):
            raise SkipTest("this system has no epoll")
        return EpollPoller()


class SelectorTests(_PollerSuite, TestCase):
    def make(self) -> Poller:
        return SelectorPoller()
