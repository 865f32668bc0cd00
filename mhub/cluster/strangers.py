"""Connections to the peer port that have not logged in: how many there may be, and of whom.

Whoever can reach the port can hold connections open without a word.  That must not keep nodes out:

    known addresses    of nodes that have logged in, or that are listed by their IP address, have
                       places of their own
    other addresses    share `most` places; who comes when all are taken gets that of the connection
                       that has said nothing for the longest time
    each address       has `most_per_address` places; beyond these the same happens among its own

Whoever shows a wrong proof has to wait for the answer, longer each time, and its address has a
place less until then, also if it does not wait.  Right proofs are never slowed down: a node may
share its address with others.

Sans-I/O: `Links` says who comes and goes and what time it is, and closes what is named to it.
"""

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from typing import Final, Protocol, TypeVar

T = TypeVar("T")

REMEMBERED: Final = 1000
"""So many known addresses, and so many that have shown wrong proofs, are remembered."""

FIRST_DELAY_S: Final = 1.0
FORGIVEN_S: Final = 300.0
"""After so long without another wrong proof an address begins anew."""


class Stranger(Protocol):
    """A connection that has not logged in."""

    has_spoken: bool
    """Whether it has begun to log in."""

    is_held: bool
    """Whether it waits for the answer to a wrong proof."""


class Strangers:
    def __init__(self, most: int, most_per_address: int, longest_delay_s: float) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self._longest_delay_s = longest_delay_s
        self._here: dict[Stranger, str] = {}  # the oldest first; where each is from
        self._known: dict[str, None] = {}  # the one that was seen last is the last
        self._failures: dict[str, tuple[int, float]] = {}  # how many, when the last one was
        self._penalties: dict[str, list[float]] = {}  # until when each takes a place
        self.listed: frozenset[str] = frozenset()  # addresses of the configuration
        self.evicted = 0
        self.rejected = 0
        self.wrong_proofs = 0

    def __len__(self) -> int:
        return len(self._here)

    def numbers(self) -> dict[str, int]:
        """As `mhub ctl cluster status` and `$SYS` show them."""
        return {
            "now": len(self._here),
            "evicted": self.evicted,
            "rejected": self.rejected,
            "wrong_secrets": self.wrong_proofs,
        }

    def comes(self, stranger: Stranger, address: str, now: float) -> list[Stranger] | None:
        """Who has to go for it; None: it has to go itself."""
        place = _network(address)
        # Those that are held are among the penalties.
        same = [e for e, other in self._here.items() if other == place and not e.is_held]
        crowd = [] if self._is_known(place) else self._unknown()
        victims: list[Stranger] = []
        if len(same) + self._penalties_of(place, now) >= self._most_per_address:
            victims = _idlest(same)
        elif len(crowd) >= self._most:
            victims = _idlest(crowd)
        else:
            self._here[stranger] = place
            return []
        if not victims:
            self.rejected += 1
            return None
        self.evicted += 1
        del self._here[victims[0]]
        self._here[stranger] = place
        return victims

    def leaves(self, stranger: Stranger) -> None:
        """It has logged in, or is gone."""
        self._here.pop(stranger, None)

    def met(self, address: str) -> None:
        """A node has logged in from there, or has answered there."""
        _remember(self._known, _network(address), None)
        self._failures.pop(_network(address), None)

    def fails(self, address: str, now: float) -> tuple[float, int]:
        """A wrong proof: how long it waits for the answer, and how many there were in a row."""
        place = _network(address)
        count, last = self._failures.get(place, (0, now))
        count = 1 if now - last > FORGIVEN_S else count + 1
        _remember(self._failures, place, (count, now))
        self.wrong_proofs += 1
        delay_s = min(FIRST_DELAY_S * 2.0 ** min(count - 1, 16), self._longest_delay_s)
        self._penalties_of(place, now)
        _remember(self._penalties, place, [*self._penalties.get(place, ()), now + delay_s])
        return delay_s, count

    def _penalties_of(self, place: str, now: float) -> int:
        left = [until for until in self._penalties.get(place, ()) if until > now]
        if left:
            self._penalties[place] = left
        else:
            self._penalties.pop(place, None)
        return len(left)

    def _is_known(self, place: str) -> bool:
        return place in self._known or place in self.listed

    def _unknown(self) -> list[Stranger]:
        return [each for each, place in self._here.items() if not self._is_known(place)]


def networks(hosts: Iterable[str]) -> frozenset[str]:
    """Of those that are addresses; of host names nobody knows where they are."""
    return frozenset(_network(host) for host in hosts if _is_address(host))


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _network(address: str) -> str:
    """What counts as one address: an IPv4 address, or the 2**64 of an IPv6 network."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return f"{IPv6Address(int(found) >> 64 << 64)}/64"
    return str(found)


def _idlest(strangers: list[Stranger]) -> list[Stranger]:
    """The oldest that has said nothing, else of those that wait for an answer to a wrong proof,
    else of all; a list of one, or none if there is nobody."""
    silent = [each for each in strangers if not each.has_spoken]
    return (silent or [each for each in strangers if each.is_held] or strangers)[:1]


def _remember(table: dict[str, T], name: str, value: T) -> None:
    table.pop(name, None)
    table[name] = value
    if len(table) > REMEMBERED:
        del table[next(iter(table))]
