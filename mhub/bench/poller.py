"""Which sockets are ready: epoll where it is, else what the standard library chooses.

`wait` takes seconds.  epoll itself counts in whole milliseconds, too coarse to pace messages, but
an epoll is itself a file that `select` can wait for, and that counts in microseconds.
"""

import select
import selectors
from typing import Final, Protocol

READ: Final = 1
WRITE: Final = 4
_FINE_S: Final = 0.05
_MOST_FD: Final = 1024


class Poller(Protocol):
    def watch(self, fd: int, writing: bool) -> None:
        """Watch `fd` for reading, and for writing if asked to; again to change that."""

    def forget(self, fd: int) -> None: ...

    def wait(self, timeout_s: float) -> list[tuple[int, int]]:
        """The files that are ready, each with READ, WRITE or both."""

    def close(self) -> None: ...


class EpollPoller:
    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: set[int] = set()
        self._is_selectable = self._epoll.fileno() < _MOST_FD

    def watch(self, fd: int, writing: bool) -> None:
        events = select.EPOLLIN | (select.EPOLLOUT if writing else 0)
        if fd in self._watched:
            self._epoll.modify(fd, events)
        else:
            self._epoll.register(fd, events)
            self._watched.add(fd)

    def forget(self, fd: int) -> None:
        self._watched.discard(fd)
        self._epoll.unregister(fd)

    def wait(self, timeout_s: float) -> list[tuple[int, int]]:
        if 0 < timeout_s < _FINE_S and self._is_selectable:
            if not select.select([self._epoll], [], [], timeout_s)[0]:
                return []
            timeout_s = 0
        # Errors and hang-ups come as other bits: reading tells what happened.
        return [
            (fd, (events & WRITE) | (READ if events & ~WRITE else 0))
            for fd, events in self._epoll.poll(timeout_s)
        ]

    def close(self) -> None:
        self._epoll.close()


class SelectorPoller:
    """kqueue, poll or select."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def watch(self, fd: int, writing: bool) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writing else 0)
        if fd in self._selector.get_map():
            self._selector.modify(fd, events)
        else:
            self._selector.register(fd, events)

    def forget(self, fd: int) -> None:
        self._selector.unregister(fd)

    def wait(self, timeout_s: float) -> list[tuple[int, int]]:
        return [
            (
                key.fd,
                (READ if events & selectors.EVENT_READ else 0)
                | (WRITE if events & selectors.EVENT_WRITE else 0),
            )
            for key, events in self._selector.select(timeout_s)
        ]

    def close(self) -> None:
        self._selector.close()


def best() -> Poller:
    return EpollPoller() if hasattr(select, "epoll") else SelectorPoller()
