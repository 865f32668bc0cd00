"""Whom to call, and when: addresses of members and of those who may be some.

An address is tried again and again, with a wait that doubles from try to try and is a little
different each time, so that nodes that lost each other do not all call at the same moment.  Of two
nodes the one with the lower name calls; the other one only when that takes too long.
"""

from random import Random
from typing import Final

PATIENCE: Final = 3.0
"""The node with the higher name waits so many times longer before it calls."""


class Dial:
    def __init__(self, address: str, now: float) -> None:
        self.address = address
        self.member = ""  # who answered there last
        self.due_at = now
        self.wait_s = 0.0
        self.failures = 0  # since it answered last
        self.failing_since = 0.0  # the first of them, and
        self.reason = ""  # why the last one failed
        self.pending = False
        self.ours = False  # it is this node itself

    def wait_left_s(self, now: float) -> float:
        """In how long it is called again."""
        return 0.0 if self.pending else max(self.due_at - now, 0.0)


class Dials:
    def __init__(self, node: str, retry_s: float, retry_max_s: float, random: Random) -> None:
        self._node = node
        self._retry_s = retry_s
        self._retry_max_s = retry_max_s
        self._random = random
        self._dials: dict[str, Dial] = {}

    def due(self, addresses: dict[str, str], linked: set[str], now: float) -> list[str]:
        """Those to call now, of address -> name of its node ("": not known yet)."""
        for address in [a for a in self._dials if a not in addresses]:
            if not self._dials[address].pending:
                del self._dials[address]
        found = []
        for address, name in addresses.items():
            dial = self._dials.get(address)
            if dial is None:
                dial = self._dials[address] = Dial(address, now)
                if name and name < self._node:
                    dial.due_at += self._retry_s * PATIENCE
            if name and dial.member not in linked:  # else hearsay, of a node that was there before
                dial.member = name
            if dial.ours or dial.pending or dial.member in linked or dial.due_at > now:
                continue
            dial.pending = True
            found.append(address)
        return found

    def failed(self, address: str, now: float, reason: str) -> Dial | None:
        """A call has failed; None: nobody is to be called there any more."""
        dial = self._dials.get(address)
        if dial is not None:
            dial.pending = False
            dial.failures += 1
            dial.reason = reason
            if dial.failures == 1:
                dial.failing_since = now
            dial.wait_s = min(max(dial.wait_s * 2, self._retry_s), self._retry_max_s)
            wait_s = dial.wait_s * self._random.uniform(0.75, 1.25)
            if dial.member and dial.member < self._node:
                wait_s *= PATIENCE
            dial.due_at = now + wait_s
        return dial

    def answered(self, address: str, member: str) -> None:
        dial = self._dials.get(address)
        if dial is not None:
            dial.pending = False
            dial.member = member
            dial.wait_s = 0.0
            dial.failures = 0
            dial.reason = ""

    def is_ours(self, address: str) -> None:
        """Somebody named this node's own address."""
        dial = self._dials.get(address)
        if dial is not None:
            dial.ours = True

    def lost(self, member: str, now: float) -> None:
        """A link is gone: the first new try is soon, and not at the same moment for all."""
        for dial in self._dials.values():
            if dial.member == member and not dial.pending:
                wait_s = self._retry_s * self._random.uniform(0.1, 1.0)
                dial.due_at = now + wait_s * (PATIENCE if member < self._node else 1.0)

    def left(self, member: str, now: float) -> None:
        """It has said goodbye: where it was nobody is for a while, though a list may name it."""
        for dial in self._dials.values():
            if dial.member == member:
                dial.wait_s = self._retry_max_s
                dial.due_at = now + self._retry_max_s

    def at(self, address: str) -> Dial | None:
        return self._dials.get(address)

    def failing(self, linked: set[str]) -> list[Dial]:
        """Those that have not answered when they were called last, and are not linked otherwise."""
        return [
            dial
            for dial in self._dials.values()
            if dial.failures and not dial.ours and dial.member not in linked
        ]

    def settled(self, address: str, linked: set[str]) -> bool:
        """Whether the node there is linked, or was called and did not answer, or said goodbye.

        Not so if only its name is known: another node may have told that during our first call.
        """
        dial = self._dials.get(address)
        return dial is not None and (dial.ours or dial.member in linked or dial.wait_s > 0)
