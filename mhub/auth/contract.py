"""What an authenticator is, for those that come with mhub and for those that others write.

An authenticator is a plugin (`twisted.plugin`, package `twisted.plugins`) that makes a Source from
what one `[[auth]]` table of the configuration says.  The sources of a listener are asked in the
order of the file:

    yes           it is who it says: the others are not asked
    no            it is not, and the others are not asked either
    not_mine      this source does not know the client, or cannot judge what it has sent
    cannot_tell   the back end does not answer: refused with 0x88, unless the table says
                  `on_error = "next"`

A client about which no source says yes or no is anonymous, unless it has sent a password: one that
nobody accepts is refused, as if it were wrong.

A source may be able to do more, and then has these as well:

    name_of(claim)  whom it takes the client for, if it goes by more than the user name: failed
                    logins are counted for that one
    decoy()         (PasswordSource) it checks passwords, and those of unknown names cost the same
    scram(name)     (ScramSource) it has what SCRAM-SHA-256 needs
    check_token     (TokenSource) it checks tokens, which can also come by AUTH, and be renewed
    forget()        users may be other ones: it forgets the answers that it remembers
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface  # type: ignore[import-untyped]

from mhub.core.authentication import Claim
from mhub.core.principal import Identity
from mhub.wire import reasons

if TYPE_CHECKING:
    from mhub.auth.users import Verifier

YES: Final = "yes"
NO: Final = "no"
NOT_MINE: Final = "not mine"
CANNOT_TELL: Final = "cannot tell"

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class Answer:
    """What a source says about a client."""

    def __init__(self, outcome: str, text: str = "") -> None:
        self.outcome = outcome
        self.identity: Identity | None = None  # of YES
        self.reason = reasons.NOT_AUTHORIZED  # of NO and CANNOT_TELL
        self.text = text  # why, for the log alone: the client gets a reason code
        self.remembered = False  # it says nothing about whether the back end answers now


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


def cannot_tell(text: str, reason: int = reasons.SERVER_UNAVAILABLE) -> Answer:
    answer = Answer(CANNOT_TELL, text)
    answer.reason = reason
    return answer


def is_plain(text: str) -> bool:
    """Whether a text can be a name: control characters could end a line of a log or a header."""
    return _CONTROL.search(text) is None


def text_of(password: bytes) -> str | None:
    """A password as text; None if it is none."""
    try:
        return password.decode()
    except UnicodeDecodeError:
        return None


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


class PasswordSource(Source, Protocol):
    """A source that compares passwords with hashes."""

    def decoy(self) -> str:
        """A hash like most that it has, or "".

        A login that fails is checked against the decoys of all sources of the listener that have
        not checked a password themselves, so that its time does not tell whether the name is known.
        So `check` answers not_mine for an unknown name at once.
        """


class ScramSource(Source, Protocol):
    """A source that has verifiers for SCRAM-SHA-256."""

    def scram(self, name: str) -> "tuple[Verifier, Identity | None] | None":
        """What is needed to check a proof, and who it is then.

        None: there is no such name.  No identity: a user who is not let in, which only a client
        that has proved itself finds out.
        """

    def scram_decoy(self) -> "tuple[int, int, bytes]":
        """Iterations and length of salt that most have, and a secret to make salts from, or b""."""


class TokenSource(Source, Protocol):
    """A source that checks tokens, sent as a password or by enhanced authentication."""

    method: str
    """The name of the authentication method."""

    def check_token(self, claim: Claim, token: bytes) -> "Answer | Deferred[Answer]":
        """As check()."""


class Context:
    """What a source may use of the broker."""

    def __init__(
        self, reactor: Any, clock: Callable[[], float], hub: Any, passwords: Any, changed: Any
    ) -> None:
        self.reactor = reactor
        self.clock = clock  # monotonic
        self.hub = hub  # `hub.registry`: users and all else that is the same on all nodes
        self.passwords = passwords  # mhub.auth.passwords.Passwords: off the reactor's thread
        self.changed = changed  # call it when users may be other ones: caches are cleared


class IAuthenticatorPlugin(Interface):  # type: ignore[misc]  # zope has no types
    """Found through twisted.plugin."""

    kind = Attribute("The `type` of its tables in the configuration.")
    settings = Attribute("A frozen dataclass whose fields are made with mhub.config.schema.setting")

    def check(settings: Any, place: Any) -> None:
        """Look at what needs several keys, or files: `place.at("key").wrong("what is")`.

        Called when the configuration is read, also by `mhub check-config`.
        """

    def make(name: str, settings: Any, context: Context) -> Source:  # type: ignore[empty-body]
        """A source; `name` is for logs and metrics.  Raises ConfigError."""
