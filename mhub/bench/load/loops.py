"""What the publishers do on each turn: fill their windows, send what is due, look away a while."""

from typing import Final

from mhub.bench.load.client import Client
from mhub.bench.load.pace import SECOND, Pace
from mhub.bench.load.packets import IDS

_LEAST_WINDOW: Final = 16
_LEAST_REST: Final = SECOND // 20_000  # 50 us: below that sleeping costs more than it saves
_MOST_REST: Final = SECOND // 500
_SPELL: Final = SECOND // 100


def fill(clients: list[Client], window: int, fan: int, now: int) -> list[int]:
    """Closed loop: let each client publish what its window allows; the indices of who did."""
    filled = []
    for i, client in enumerate(clients):
        if not client.blocked:
            count = client.room(window, fan)
            if count and client.publish(count, now):
                filled.append(i)
    return filled


def send_due(clients: list[Client], pace: Pace, called: int) -> list[int]:
    """Open loop: publish the first `called` messages of the run as far as they have not left yet.

    What the broker does not take now keeps its due time and leaves later."""
    marked = []
    for i, client in enumerate(clients):
        source = client.source
        more = pace.owed(i, called) - source.sent
        frames = client.frames
        if more <= 0 or client.blocked or frames is None:
            continue
        more = min(more, frames.at_once())
        more = min(more, min(client.receive_max, IDS // 2) - client.inflight())
        while more > 0 and client.publish(1, pace.due_of(i, source.sent)):
            more -= 1
        marked.append(i)
    return marked


class Rest:
    """How long the closed loop may look away, so that deliveries gather and one read gets many.

    A broker that writes every message by itself would have this side wake up for every message, and
    the load would cost as much as the broker.  A rest is never longer than the broker needs for an
    eighth of what is on its way, so it always has work, even one that lets only 20 messages be
    unacknowledged; and there is none while reads are large anyway, or for windows so small that
    the answer is all that is waited for."""

    def __init__(self, window: int, clients: int, fan: int, now: int) -> None:
        self._eighth = window * clients * fan // 8 if window >= _LEAST_WINDOW else 0
        self._delivered = 0
        self._since = now
        self._spell_delivered = 0
        self._each = 0.0  # nanoseconds that the broker took for a delivery

    def span(self, delivered: int, now: int) -> int:
        """Nanoseconds to rest now, with `delivered` messages since the beginning."""
        got = delivered - self._delivered
        self._delivered = delivered
        if now - self._since >= _SPELL:
            if delivered > self._spell_delivered:
                self._each = (now - self._since) / (delivered - self._spell_delivered)
            self._since = now
            self._spell_delivered = delivered
        if got >= self._eighth:
            return 0
        rest = min(int(self._each * self._eighth), _MOST_REST)
        return rest if rest >= _LEAST_REST else 0
