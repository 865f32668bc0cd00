"""Other authenticators for a running broker: a part of a reload.

The new chain is made and started before it takes the place of the old one.  Logins that are under
way have the old one, which is stopped when they must have come to an end: an answer that is waited
for, by `authentication_timeout_s`, and an exchange of several steps, by `connect_timeout_s` on top.

Clients that are connected stay.  One that authenticates again does so by the new chain.
"""

from collections.abc import Callable
from typing import Any, Final

from twisted.internet.defer import Deferred

from mhub.auth.chain import Chain
from mhub.auth.guard import LoginGuard
from mhub.auth.passwords import Passwords
from mhub.auth.wiring import costs_of, make_chain
from mhub.config import ConfigError, Problem, Settings
from mhub.config.reloadable import LOGINS
from mhub.core.hub import Hub

LONGEST_S: Final = 120.0
"""How long an old chain is kept at most, whatever the limits are."""


class Authenticators:
    """The chain in force, and those before it that still have logins to finish."""

    name = LOGINS

    def __init__(
        self,
        hub: Hub,
        passwords: Passwords,
        guard: LoginGuard,
        reactor: Any,
        clock: Callable[[], float],
        chain: Chain | None,
    ) -> None:
        """`on_change` is called with the chain that was, when there is another one."""
        self.chain = chain
        self.on_change: Callable[[Chain | None], None] = lambda before: None
        self._hub = hub
        self._passwords = passwords
        self._guard = guard
        self._reactor = reactor
        self._clock = clock
        self._retired: dict[Chain, Any] = {}  # with the timed call that stops it
        self._install(chain)

    def _install(self, chain: Chain | None) -> None:
        self.chain = chain
        admission = self._hub.admission
        admission.authenticator = chain
        admission.methods = {} if chain is None else dict(chain.methods)

    async def prepare(self, old: Settings, new: Settings) -> "NewAuthenticators":
        """Raises ConfigError."""
        if new.auth == old.auth:
            return NewAuthenticators(self, old, new, None)
        chain = make_chain(new, self._hub, self._passwords, self._reactor, self._clock)
        if chain is not None:
            try:
                chain.start()
            except Exception as error:
                self._stop_now(chain)
                text = f"an authenticator cannot be started: {error}"
                raise ConfigError(new.file, [Problem("auth", 0, text)]) from error
        return NewAuthenticators(self, old, new, chain)

    def take(self, old: Settings, new: Settings, chain: Chain | None) -> None:
        own = new.passwords
        self._passwords.take(own.max_queued, costs_of(own), own.scram_iterations)
        if new.guard != old.guard:
            self._guard.take(new.guard)
        if new.auth == old.auth:
            if self.chain is not None:
                self.chain.reload()
            return
        before = self.chain
        self._install(chain)
        self.on_change(before)
        if before is not None:
            limits = [old.limits, *(listener.limits for listener in old.listeners)]
            longest_s = max(
                each.authentication_timeout_s + each.connect_timeout_s for each in limits
            )
            wait_s = min(longest_s, LONGEST_S)
            self._retired[before] = self._reactor.callLater(wait_s, self._stop_now, before)

    def _stop_now(self, chain: Chain) -> None:
        self._retired.pop(chain, None)
        Deferred.fromCoroutine(chain.stop(self._reactor, LONGEST_S))

    def drop(self, chain: Chain | None) -> None:
        if chain is not None:
            self._stop_now(chain)

    async def stop(self, timeout_s: float) -> None:
        chains = [*self._retired, *([self.chain] if self.chain is not None else [])]
        for call in self._retired.values():
            call.cancel()
        self._retired = {}
        for chain in chains:
            await chain.stop(self._reactor, timeout_s)


class NewAuthenticators:
    """Prepared ones."""

    def __init__(
        self, owner: Authenticators, old: Settings, new: Settings, chain: Chain | None
    ) -> None:
        self._owner = owner
        self._old = old
        self._new = new
        self._chain = chain

    def apply(self) -> None:
        self._owner.take(self._old, self._new, self._chain)

    def discard(self) -> None:
        self._owner.drop(self._chain)
