"""Who is kept out: banned ones, those who guess passwords, clients that connect all the time.

    ban/KIND/VALUE       an operator's, or a flapping client's; `mhub.auth.bans`
    lockout/KIND/VALUE   after failed logins: {"until", "failures", "times"}

Both are entries of the registry, so they survive a restart and hold on every node.  Failures are
only counted, in memory and at each node for itself: the registry is written to when a count has
reached its threshold, never for a failure.  An entry is deleted by one node, some at a time.

**What is counted.**  A user name is what anybody can send.  A lock-out by that alone would let
everybody lock out anybody, so there are three counts:

    login     user name and address    the guesser is locked out at its address, the user nowhere
                                       else
    address   whatever the user names  somebody who tries one password with many names
    user      from whatever addresses  a guess that comes from many: the user is locked out of
                                       addresses that it has not logged in from, for a short time

An address is one of IPv4 or a network of IPv6 (`ipv6_prefix`).  Shared ones, proxies for example,
are not counted: a failure there counts for the user, wherever that has logged in from.  A success
resets `login` and nothing else, so that who has a password cannot guess others in between.

While a lock-out lasts, a failed and a successful login have the same answer, and neither counts:
whoever is locked out learns nothing, and a device with an old password that goes on trying does
not lock out the address that it has in common with others.

Who was proved by a certificate has no password to guess, and is not locked out.

Times in the registry are seconds since 1970 (`wall`).
"""

import json
from collections.abc import Callable, Iterator
from itertools import islice
from math import isfinite
from typing import Final

from mhub.auth.addresses import (
    Networks,
    host_of,
    network_around,
    parse_address,
    parse_network,
    show_network,
)
from mhub.auth.bans import CLIENT, Ban, Bans, ban_value
from mhub.auth.bans import PREFIX as BAN
from mhub.auth.counters import Counters, digest
from mhub.config.guard import GuardSettings
from mhub.core import events
from mhub.core.events import Event
from mhub.core.guard import Refusal
from mhub.core.hub import Hub
from mhub.core.principal import CERTIFICATE, Principal
from mhub.core.session import Session
from mhub.log import logger
from mhub.wire import reasons

LOCKOUT: Final = "lockout/"
LOGIN: Final = "login"
ADDRESS: Final = "address"
USER: Final = "user"

MAX_NAME: Final = 1024
"""No user has a longer name: failures under one are counted for the address alone.  Client ids that
are longer are not banned for flapping: what strangers send must not fill the registry."""

FLAPPING: Final = "flapping"
"""What the ban of a flapping client has as `by`."""

SWEEP_S: Final = 10.0
"""How often entries that are over are looked for ..."""

SWEEP_MOST: Final = 100
"""... and how many of them are deleted at a time: all of an attack's end at about the same time."""

SLICE: Final = 500
"""Sessions that are looked at in a turn for whether a new ban hits them: about 1 ms."""


class Lockout:
    def __init__(self, text: str) -> None:
        """From JSON.  What cannot be read in it is a lock-out that is over."""
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            fields = {}
        if not isinstance(fields, dict):
            fields = {}
        self.until = _number(fields, "until")
        self.times = int(_number(fields, "times"))


class Origin:
    """Where a client comes from, as it is counted."""

    def __init__(self, text: str, is_shared: bool) -> None:
        self.text = text  # "": it has no address
        self.is_shared = is_shared


class LoginGuard:
    """A `mhub.core.guard.Guard`, and a sink of events, for the connects of flapping clients."""

    log = logger("guard")

    def __init__(
        self,
        settings: GuardSettings,
        hub: Hub,
        wall: Callable[[], float],
        later: Callable[[Callable[[], None]], object],
        settle: Callable[[], None],
    ) -> None:
        """`later` calls in another turn of the reactor; `settle` sends what a call has changed."""
        self._settings = settings
        self._hub = hub
        self._registry = hub.registry
        self._wall = wall
        self._later = later
        self._settle = settle
        self.bans = Bans()
        self.lockouts: dict[str, Lockout] = {}
        self._unstored: set[str] = set()  # keys of both that the registry does not have
        self._automatic = 0  # entries in the registry that no operator made
        self._counters: dict[str, Counters | None] = {}
        self._shared: Networks[bool] = Networks()
        self.take(settings)
        self._known: dict[bytes, None] = {}  # users at addresses they have logged in from
        self._fresh: Bans | None = None  # new bans, while those that they hit are looked for
        self._left: Iterator[Session] = iter(())
        self._registry.watchers.append(self._changed)
        known = (*self._registry.items(BAN), *self._registry.items(LOCKOUT))
        self._changed([entry.key for entry in known])

    def take(self, settings: GuardSettings) -> None:
        """Go by these settings from now on.

        A count goes on where its threshold and its window are what they were.  Lock-outs and bans
        that are there stay.
        """
        self._settings = settings
        for kind, threshold, window_s in (
            (LOGIN, settings.login_failures, settings.window_s),
            (ADDRESS, settings.address_failures, settings.window_s),
            (USER, settings.user_failures, settings.window_s),
            (FLAPPING, settings.flapping_connects, settings.flapping_window_s),
        ):
            self._counters[kind] = self._counters_for(kind, threshold, window_s)
        self._shared = Networks()
        for text in settings.shared_addresses:
            self._shared.put(parse_network(text), True)

    def _counters_for(self, kind: str, threshold: int, window_s: float) -> Counters | None:
        if threshold == 0:
            return None
        most = self._settings.max_counters
        known = self._counters.get(kind)
        if known is not None and (known.threshold, known.window_s) == (threshold, window_s):
            if known.most == most:
                return known
        return Counters(threshold, window_s, most)

    # The port

    def arriving(self, principal: Principal) -> Refusal | None:
        now = self._wall()
        ban = self.bans.find(principal, now)
        if ban is not None:
            return self._banned(ban)
        # A certificate may prove who it is, and cannot be guessed: admitted() looks again.
        if not self.lockouts or principal.certificate is not None:
            return None
        return self._locked_out(principal, self._origin(principal), principal.claimed_user, now)

    def failed(self, principal: Principal, user: str) -> Refusal | None:
        hub = self._hub
        now = self._wall()
        hub.stats.authentication_failures += 1
        origin = self._origin(principal)
        refusal = self._locked_out(principal, origin, user, now)
        if refusal is not None:
            return refusal
        named = bool(user) and len(user) <= MAX_NAME
        if origin.text and not origin.is_shared:
            self._count(ADDRESS, origin.text, principal)
            if named:
                self._count(LOGIN, f"{origin.text} {user}", principal)
        if named:
            self._count(USER, user, principal)
        return None

    def admitted(self, principal: Principal) -> Refusal | None:
        now = self._wall()
        ban = self.bans.find(principal, now)
        if ban is not None:
            return self._banned(ban)
        if not principal.is_verified() or principal.method == CERTIFICATE:
            return None
        origin = self._origin(principal)
        if self.lockouts:
            # It was not when it came: others that came with it have failed meanwhile.
            refusal = self._locked_out(principal, origin, principal.user, now)
            if refusal is not None:
                return refusal
        if origin.text and not origin.is_shared:
            self._succeeded(origin, principal.user)
        return None

    def banned(self, principal: Principal) -> bool:
        return self.bans.find(principal, self._wall()) is not None

    def _succeeded(self, origin: Origin, user: str) -> None:
        counters = self._counters[LOGIN]
        if counters is not None:
            counters.forget(digest(LOGIN, f"{origin.text} {user}"))
        key = digest(origin.text, user)
        self._known.pop(key, None)
        self._known[key] = None
        if len(self._known) > self._settings.max_counters:
            del self._known[next(iter(self._known))]

    def _banned(self, ban: Ban) -> Refusal:
        self._hub.stats.refused_banned += 1
        return Refusal(reasons.BANNED, ban.show(), "banned")

    # Lock-outs

    def _origin(self, principal: Principal) -> Origin:
        address = parse_address(host_of(principal.address))
        if address is None:
            return Origin("", True)
        network = network_around(address, self._settings.ipv6_prefix)
        return Origin(show_network(network), address in self._shared)

    def _locked_out(
        self, principal: Principal, origin: Origin, user: str, now: float
    ) -> Refusal | None:
        until = 0.0
        what = ""
        if origin.text and not origin.is_shared:
            for kind, value in ((ADDRESS, origin.text), (LOGIN, f"{origin.text} {user}")):
                lockout = self.lockouts.get(f"{LOCKOUT}{kind}/{value}")
                if lockout is not None and lockout.until > max(now, until):
                    until, what = lockout.until, _show(kind, value)
        lockout = self.lockouts.get(f"{LOCKOUT}{USER}/{user}") if user else None
        if lockout is not None and lockout.until > max(now, until):
            if not self._is_known(principal, origin, user):
                until, what = lockout.until, _show(USER, user)
        if not what:
            return None
        self._hub.stats.refused_locked_out += 1
        told = f"too many failed logins, try again in {max(1, round(until - now))} s"
        return Refusal(reasons.NOT_AUTHORIZED, f"{what} is locked out: {told}", told)

    def _is_known(self, principal: Principal, origin: Origin, user: str) -> bool:
        """Whether a user has logged in from there before."""
        if not origin.text or origin.is_shared:
            return False
        if digest(origin.text, user) in self._known:
            return True
        # This node may have been started since; the sessions are still there.
        session = self._hub.sessions.get(principal.client_id)
        if session is None or session.principal.user != user:
            return False
        return self._origin(session.principal).text == origin.text

    def _count(self, kind: str, value: str, principal: Principal) -> None:
        counters = self._counters[kind]
        if counters is None:
            return
        before = counters.evicted
        is_enough = counters.add(digest(kind, value), self._hub.now)
        self._hub.stats.guard_evicted += counters.evicted - before
        if is_enough:
            self._lock_out(kind, value, counters.threshold, principal)

    def _lock_out(self, kind: str, value: str, failures: int, principal: Principal) -> None:
        settings = self._settings
        key = f"{LOCKOUT}{kind}/{value}"
        now = self._wall()
        before = self.lockouts.get(key)
        times = (
            before.times + 1 if before is not None and not self._is_forgotten(before, now) else 1
        )
        most_s = settings.max_user_lockout_s if kind == USER else settings.max_lockout_s
        duration_s = min(settings.lockout_s * 2 ** min(times - 1, 40), most_s)
        fields = {"until": now + duration_s, "failures": failures, "times": times}
        self._keep(key, json.dumps(fields))
        self._hub.events.locked_out(principal, kind, _show(kind, value), failures, duration_s)

    def _is_forgotten(self, lockout: Lockout, now: float) -> bool:
        return lockout.until + self._settings.forget_s <= now

    # Flapping

    def emit(self, event: Event) -> None:
        """A client has connected."""
        counters = self._counters[FLAPPING]
        if counters is None or event.kind != events.CONNECTED or len(event.client_id) > MAX_NAME:
            return
        if not counters.add(digest(FLAPPING, event.client_id), self._hub.now):
            return
        now = self._wall()
        ban_s = self._settings.flapping_ban_s
        text = f"it has connected {counters.threshold} times in a short time"
        self._hub.events.flapping(event.principal, counters.threshold, ban_s)
        self._keep(f"{BAN}{CLIENT}/{event.client_id}", ban_value(text, now + ban_s, FLAPPING, now))

    # The registry

    def _keep(self, key: str, value: str) -> None:
        """An entry that no operator makes: in the registry, if there is room."""
        if self._automatic < self._settings.max_entries or self._is_stored(key):
            self._registry.change({key: value}, self._hub.now)
            return
        self._hub.stats.guard_unstored += 1
        if len(self._unstored) >= self._settings.max_counters:
            self._drop_unstored(next(iter(self._unstored)))
        self._unstored.add(key)
        self._take({key: value})

    def _is_stored(self, key: str) -> bool:
        return key not in self._unstored and (key in self.lockouts or key in self.bans.all)

    def _drop_unstored(self, key: str) -> None:
        self._unstored.discard(key)
        self._take({key: None})

    def _changed(self, keys: list[str]) -> None:
        """A watcher of the registry."""
        values: dict[str, str | None] = {}
        for key in keys:
            if key.startswith((BAN, LOCKOUT)):
                entry = self._registry.get(key)
                values[key] = None if entry is None else entry.value
                self._unstored.discard(key)
        if values:
            self._take(values)
            self._automatic = len(self.lockouts) + sum(
                1 for ban in self.bans.all.values() if ban.by == FLAPPING
            )
            self._automatic -= len(self._unstored)

    def _take(self, values: dict[str, str | None]) -> None:
        fresh: list[tuple[str, str]] = []
        now = self._wall()
        for key, value in values.items():
            if key.startswith(LOCKOUT):
                if value is None:
                    self.lockouts.pop(key, None)
                else:
                    self.lockouts[key] = Lockout(value)
                continue
            try:
                ban = self.bans.put(key, value)
            except ValueError as error:
                self.log.error("a ban is left out: {error}", error=error)
                continue
            if ban is not None and value is not None and not ban.is_over(now):
                fresh.append((key, value))
        if fresh:
            self._enforce(fresh)

    # Those who are connected

    def _enforce(self, fresh: list[tuple[str, str]]) -> None:
        """Disconnect those whom new bans hit: soon, and not all of the work in one turn."""
        is_under_way = self._fresh is not None
        bans = self._fresh if self._fresh is not None else Bans()
        for key, value in fresh:
            bans.put(key, value)
        self._fresh = bans
        sessions = self._hub.sessions
        if bans.are_of_clients():
            clients = [sessions.get(ban.value) for ban in bans.all.values()]
            self._left = iter([session for session in clients if session is not None])
        else:
            self._left = iter(list(sessions.values()))
        if not is_under_way:
            self._later(self._enforce_some)

    def _enforce_some(self) -> None:
        bans = self._fresh
        if bans is None:
            return
        now = self._wall()
        some = list(islice(self._left, SLICE))
        for session in some:
            connection = session.connection
            ban = None if connection is None else bans.find(connection.principal, now)
            if connection is not None and ban is not None:
                self._hub.stats.clients_banned += 1
                connection.fail(reasons.BANNED, ban.show(), "banned")
        if some:
            self._later(self._enforce_some)
        else:
            self._fresh = None
        self._settle()

    # Entries that are over

    def sweep(self) -> None:
        """Called every SWEEP_S: delete some, if that is this node's to do."""
        now = self._wall()
        over = self.bans.over(now)
        over += [key for key, found in self.lockouts.items() if self._is_forgotten(found, now)]
        for key in [key for key in over if key in self._unstored]:
            self._drop_unstored(key)
        stored = [key for key in over if self._is_stored(key)]
        if stored and self._is_chosen():
            gone: dict[str, str | None] = dict.fromkeys(stored[:SWEEP_MOST])
            self._registry.change(gone, self._hub.now)
            self._settle()

    def _is_chosen(self) -> bool:
        """Whether this node is the one of those linked that deletes: the first by its name.

        Where the cluster is split there is one in each part; both delete the same.
        """
        peers = self._hub.peers
        if peers is None:
            return True
        return all(peers.node < peer.name for peer in peers.all if peer.up)


def _number(fields: dict[str, object], name: str) -> float:
    value = fields.get(name)
    try:
        number = float(value) if isinstance(value, (int, float)) else 0.0
    except OverflowError:
        return 0.0
    return number if isfinite(number) else 0.0


def _show(kind: str, value: str) -> str:
    """For the log."""
    if kind == LOGIN:
        address, _, user = value.partition(" ")
        return f"user {user!r} at {address}"
    return f"address {value}" if kind == ADDRESS else f"user {value!r}"
