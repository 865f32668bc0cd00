"""The keys of `[guard]`."""

from dataclasses import dataclass
from typing import Final

from mhub.config.kinds import Integer, Network, Seconds
from mhub.config.schema import ListOf, setting

DAY_S: Final = 86400.0


@dataclass(frozen=True)
class GuardSettings:
    login_failures: int = setting(
        Integer(0, 10_000),
        5,
        "How many failed logins under one user name from one address lock that user out there; 0"
        " turns it off.",
    )
    address_failures: int = setting(
        Integer(0, 10_000),
        50,
        "How many failed logins from one address, whatever the user names, lock the address out; 0"
        " turns it off.",
    )
    user_failures: int = setting(
        Integer(0, 10_000),
        100,
        "How many failed logins under one user name, from wherever, lock the user out of all"
        " addresses from which it has not logged in before; 0 turns it off.",
    )
    window_s: float = setting(
        Seconds(1, DAY_S), 600.0, "How long after the last failed login its count is forgotten."
    )
    lockout_s: float = setting(
        Seconds(1, DAY_S), 30.0, "How long the first lock-out takes; each one after it, twice that."
    )
    max_lockout_s: float = setting(
        Seconds(1, 30 * DAY_S), 3600.0, "The longest lock-out of an address, or a user there."
    )
    max_user_lockout_s: float = setting(
        Seconds(1, 30 * DAY_S),
        300.0,
        "The longest lock-out of a user by failures from other addresses. Anybody who knows the"
        " name can bring it about, so it is short.",
    )
    forget_s: float = setting(
        Seconds(1, 30 * DAY_S),
        3600.0,
        "How long after a lock-out the next one is still longer than it was.",
    )
    shared_addresses: tuple[str, ...] = setting(
        ListOf(Network()),
        ("127.0.0.0/8", "::1"),
        "Addresses and networks that many clients come from, such as a proxy that does not speak"
        " the PROXY protocol: they are not locked out, only users are.",
    )
    ipv6_prefix: int = setting(
        Integer(16, 128),
        64,
        "How long the prefix of the IPv6 network is that counts as one address, as whoever has one"
        " address of it has all.",
    )
    flapping_connects: int = setting(
        Integer(0, 100_000),
        0,
        "How many connects of one client id within `flapping_window_s` ban it; 0 turns it off.",
    )
    flapping_window_s: float = setting(
        Seconds(1, DAY_S), 60.0, "The time within which connects of a client id are counted."
    )
    flapping_ban_s: float = setting(
        Seconds(1, 30 * DAY_S), 300.0, "How long a flapping client is banned."
    )
    max_counters: int = setting(
        Integer(100, 10_000_000),
        50_000,
        "How many counters of each kind there may be at a time. Beyond, a new one takes the place"
        " and the count of the lowest.",
    )
    max_entries: int = setting(
        Integer(0, 1_000_000),
        10_000,
        "How many lock-outs and bans of flapping clients are kept in the registry; beyond, further"
        " ones hold at this node only.",
    )
