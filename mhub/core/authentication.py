"""Authentication: what an authenticator is told, what it may answer, and when.

    CONNECT -> Authenticator.authenticate(claim)      user name, password, certificate
    CONNECT -> Method(claim) -> Exchange.step(data)   enhanced (MQTT 5, section 4.12)
    AUTH    ->                  Exchange.step(data)

Each answers with a Step, or with a Later if it has to ask somebody, to which it gives the Step when
it knows.  Meanwhile nothing more is read from a client that is not connected yet; what had been
read waits, so that is bounded by one read.  A client that authenticates again goes on as before.
Three things can end the wait: the Step, the time-out (`limits.authentication_timeout_s`), and the
end of the connection.  After the latter two the Later is abandoned: its `on_abandon` is called
once, and a Step that comes all the same is ignored.

A Step that is given later takes effect in a turn of the hub (`Hub.wake`), so that an authenticator
may give it from anywhere in the reactor's thread.
"""

from collections.abc import Callable
from typing import Final, Protocol

from mhub.core.principal import Identity, Principal
from mhub.wire import reasons
from mhub.wire.packets import Connect

CONTINUE: Final = 0
SUCCESS: Final = 1
FAILURE: Final = 2


class Step:
    """What one step of an authentication came to."""

    def __init__(self, outcome: int, data: bytes) -> None:
        self.outcome = outcome
        self.data = data  # for the client
        self.identity: Identity | None = None  # who it is, once outcome is SUCCESS
        self.reason = 0  # the reason code of a FAILURE
        self.text = ""  # why it failed, for the log alone
        self.user = ""  # who it said it was, where that is not the User Name of the CONNECT
        # Of SUCCESS: what it is by now.  Between a Step that is given and the turn in which it
        # takes effect, the user may have been locked.
        self.again: Callable[[], Step] | None = None


def proceed(data: bytes) -> Step:
    """The client has to send more."""
    return Step(CONTINUE, data)


def success(identity: Identity, data: bytes = b"") -> Step:
    """An identity without a user is an anonymous client, which the listener may not allow."""
    step = Step(SUCCESS, data)
    step.identity = identity
    return step


def failure(text: str, reason: int = reasons.NOT_AUTHORIZED) -> Step:
    step = Step(FAILURE, b"")
    step.reason = reason
    step.text = text
    return step


class Later:
    """A Step that is not known yet: whoever returned it gives it, once."""

    def __init__(self) -> None:
        self.step: Step | None = None
        self.abandoned = False
        self.on_abandon: Callable[[], None] | None = None  # nobody waits for the Step any more
        self.on_step: Callable[[], None] | None = None  # of who waits

    def give(self, step: Step) -> None:
        if self.abandoned or self.step is not None:
            return
        self.step = step
        if self.on_step is not None:
            self.on_step()

    def abandon(self) -> None:
        self.on_step = None
        if self.step is None and not self.abandoned:
            self.abandoned = True
            if self.on_abandon is not None:
                self.on_abandon()


class Claim:
    """What a client says of itself; of the principal, only what the transport knows is proved."""

    def __init__(self, principal: Principal, packet: Connect | None) -> None:
        self.principal = principal
        # Of a CONNECT; there is none when a client authenticates again.
        self.username = packet.username if packet is not None else None
        self.password = packet.password if packet is not None else None


class Authenticator(Protocol):
    """For clients without an authentication method of MQTT 5."""

    def authenticate(self, claim: Claim) -> Step | Later:
        """SUCCESS or FAILURE, also for clients that bring no credentials."""


class Exchange(Protocol):
    """One client's enhanced authentication."""

    def step(self, data: bytes) -> Step | Later: ...


class Method(Protocol):
    """An authentication method: starts an exchange."""

    def __call__(self, claim: Claim) -> Exchange: ...


class Authentication:
    """That of a CONNECT, and whenever the client wishes to repeat it."""

    def __init__(self, method: str, packet: Connect) -> None:
        self.method = method  # "": not the enhanced one
        self.packet: Connect | None = packet  # the CONNECT, until that is accepted
        self.exchange: Exchange | None = None  # None: none is under way
        self.later: Later | None = None  # the Step that is waited for
        self.deadline = 0.0  # for that one
