"""What an authenticator is, for those that come with mhub and for those that others write.

An authenticator is a plugin (`twisted.plugin`, package `twisted.plugins`) that makes a Source from
what one `[[auth]]` table of the configuration says.  The sources of a listener are asked in the
order of the file:

    yes           it is who it says: the others are not asked
    no            it is not, and the others are not asked either
    not_mine      this source does not know the client, or cannot judge what it has sent
    cannot_tell   the back end does not answer: refused with 0x88, unless the table says
                  `on_error = "next"`

A client about which no source says yes or no is anonymous.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface  # type: ignore[import-untyped]

from mhub.core.authentication import Claim
from mhub.core.principal import Identity
from mhub.wire import reasons

YES: Final = "yes"
NO: Final = "no"
NOT_MINE: Final = "not mine"
CANNOT_TELL: Final = "cannot tell"


class Answer:
    """What a source says about a client."""

    def __init__(self, outcome: str, text: str = "") -> None:
        self.outcome = outcome
        self.identity: Identity | None = None  # of YES
        self.reason = reasons.NOT_AUTHORIZED  # of NO
        self.text = text  # why, for the log alone: the client gets a reason code


def yes(identity: Identity) -> Answer:
    answer = Answer(YES)
    answer.identity = identity
    return answer


def no(text: str, reason: int = reasons.BAD_USER_OR_PASSWORD) -> Answer:
    answer = Answer(NO, text)
    answer.reason = reason
    return answer


def not_mine() -> Answer:
    return Answer(NOT_MINE)


def cannot_tell(text: str) -> Answer:
    return Answer(CANNOT_TELL, text)


class Source(Protocol):
    """One authenticator of the configuration."""

    def check(self, claim: Claim) -> "Answer | Deferred[Answer]":
        """Never raises for what a client sends; a Deferred that fails is cannot_tell."""

    def start(self) -> None:
        """The reactor runs."""

    def stop(self) -> "Deferred[None] | None":
        """The broker stops."""

    def reload(self) -> None:
        """SIGHUP, or a change of what it rests on."""


class Context:
    """What a source may use of the broker."""

    def __init__(
        self, reactor: Any, clock: Callable[[], float], hub: Any, passwords: Any, changed: Any
    ) -> None:
        self.reactor = reactor
        self.clock = clock  # monotonic
        self.hub = hub  # `hub.registry`: users and all else that is the same on all nodes
        self.passwords = passwords  # `verify(hash, password) -> Deferred`, off the reactor's thread
        self.changed = changed  # call it when users may be other ones: caches are cleared


class IAuthenticatorPlugin(Interface):  # type: ignore[misc]  # zope has no types
    """Found through twisted.plugin."""

    kind = Attribute("The `type` of its tables in the configuration.")
    settings = Attribute("A frozen dataclass whose fields are made with mhub.config.schema.setting")

    def make(name: str, settings: Any, context: Context) -> Source:  # type: ignore[empty-body]
        """A source; `name` is for logs and metrics.  Raises ConfigError."""
