"""How two nodes prove to each other that they belong to one cluster, by twisted.cred.

Both sides put what the other one shows before the same portal: the checker asks whether it knows
the secret, the realm whether it is welcome, and the avatar is the link itself.  The secret never
crosses the wire.  It vouches for who began the conversation, not for each byte after that: where
others can reach into the network, TLS has to.
"""

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Protocol

from twisted.cred.checkers import ICredentialsChecker
from twisted.cred.credentials import ICredentials
from twisted.cred.error import LoginDenied, UnauthorizedLogin
from twisted.cred.portal import IRealm, Portal
from twisted.internet.defer import Deferred
from twisted.spread import pb
from zope.interface import Interface, implementer  # type: ignore[import-untyped]

from mhub.log import logger

LABEL: Final = b"mhub cluster link"
DIALLER: Final = b"dialler"
LISTENER: Final = b"listener"
_NONCE_BYTES: Final = 32


class Party(Protocol):
    """A link whose other end has not proven itself yet."""

    def hello(self) -> bytes:
        """Our own."""

    def met(self, hello: bytes) -> None:
        """This is what the other side says it is."""

    def refusal(self) -> str:
        """Why whoever said that hello, and now has proven it, is not welcome; "" if it is."""

    def trust(self) -> None:
        """It has proven itself, and it is welcome."""

    def begin(self) -> None:
        """Both sides are content."""

    def fail(self, text: str) -> None:
        """There will be no link; the other side is told the text."""

    def speaks(self) -> None:
        """The other side has begun to log in."""

    def fail_slowly(self, text: str) -> None:
        """The same, but the other side has to wait for it: it may be guessing."""


@dataclass(frozen=True)
class Transcript:
    """All that was said before a proof, which the proof is about."""

    dialler_nonce: bytes
    listener_nonce: bytes
    dialler_hello: bytes
    listener_hello: bytes = b""  # not said before the dialler's proof

    def proof(self, role: bytes, secret: bytes) -> bytes:
        fields = (
            LABEL,
            role,
            self.dialler_nonce,
            self.listener_nonce,
            self.dialler_hello,
            self.listener_hello,
        )
        said = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
        return hmac.digest(secret, said, "sha256")


class IProof(ICredentials):
    """What a node shows to be let in."""

    def proves(secret: bytes) -> bool:  # type: ignore[empty-body]
        """Whether only someone who knows the secret could show this."""


@implementer(IProof)
@dataclass(frozen=True)
class Proof:
    transcript: Transcript
    role: bytes
    """Of the one who shows it: so nobody can show us our own."""
    shown: bytes

    def proves(self, secret: bytes) -> bool:
        return hmac.compare_digest(self.transcript.proof(self.role, secret), self.shown)


@implementer(ICredentialsChecker)
class SecretChecker:
    credentialInterfaces = (IProof,)

    def __init__(self, secrets: "Secrets") -> None:
        self._secrets = secrets

    def requestAvatarId(self, credentials: Proof) -> bytes:
        if self._secrets.used_in(credentials) is None:
            raise UnauthorizedLogin("the shared secrets differ")
        return credentials.role


class Secrets:
    """The secret of the cluster, and for a while after a change the one before it.

    So the nodes can be given a new one after the other: one that still has the previous secret is
    let in, and answered with that.
    """

    def __init__(self, secret: bytes, clock: Callable[[], float]) -> None:
        self.current = secret
        self._previous: bytes | None = None
        self._until = 0.0
        self._clock = clock

    def change(self, secret: bytes, grace_s: float) -> None:
        if secret != self.current:
            self._previous, self.current = self.current, secret
            self._until = self._clock() + grace_s

    def used_in(self, proof: Proof) -> bytes | None:
        """The secret that whoever showed this knows; None if it is none of ours."""
        if proof.proves(self.current):
            return self.current
        previous = self._previous
        if previous is not None and self._clock() < self._until and proof.proves(previous):
            return previous
        return None


class ILink(Interface):  # type: ignore[misc]
    """What a node that is let in can call: the methods of mhub.cluster.link.Link."""


@implementer(IRealm)
class Realm:
    def requestAvatar(
        self, avatarId: bytes, mind: Party, *interfaces: object
    ) -> tuple[object, Party, Callable[[], None]]:
        if text := mind.refusal():
            raise LoginDenied(text)
        return ILink, mind, lambda: None


class Login:
    """Both sides of the exchange.  It stays as it is from version to version, so that nodes that
    do not understand each other can say so: what may change is within the hellos and after `begin`.

        dialler  -> root.challenge(nonce)           32 fresh bytes
        listener -> (nonce)                     the same of the other side
        dialler  -> root.prove(proof, hello)        Ends.hello(), at most 30 KiB
        listener -> (proof, hello)              if that of the dialler is right and it is welcome
        dialler  -> link.begin()                if that of the listener is right and it is welcome

        either   -> link.close(text)            at any time, instead of the next step

        proof = HMAC-SHA256(secret, fields), the fields each with their length before them in four
                bytes, high byte first: LABEL, the role of the one who proves ("dialler" or
                "listener"), nonce of the dialler, nonce of the listener, hello of the dialler,
                hello of the listener (empty in the dialler's proof)

    The dialler proves itself first: anyone can call a listener, and would get from it something
    to try secrets against.  So a stranger is not told which cluster and node it has reached.  And
    it waits for the answer to a wrong proof (`mhub.cluster.strangers`).
    """

    def __init__(self, secrets: Secrets) -> None:
        self.secrets = secrets
        # `Any`: mypy does not see which interfaces these provide.
        realm: Any = Realm()
        checker: Any = SecretChecker(secrets)
        self._portal: Any = Portal(realm, [checker])

    async def dial(self, root: Any, party: Party) -> None:
        """The dialler's side; `root` is the listener's Entrance."""
        try:
            nonce, hello = secrets.token_bytes(_NONCE_BYTES), party.hello()
            match await root.callRemote("challenge", nonce):
                case (bytes(theirs),) if len(theirs) == _NONCE_BYTES:
                    transcript = Transcript(nonce, theirs, hello)
                case _:
                    return party.fail("an invalid answer to challenge()")
            proof = transcript.proof(DIALLER, self.secrets.current)
            match await root.callRemote("prove", proof, hello):
                case (bytes(shown), bytes(their_hello)):
                    party.met(their_hello)
                    transcript = replace(transcript, listener_hello=their_hello)
                    if await self.admit(Proof(transcript, LISTENER, shown), party):
                        party.begin()
                case _:
                    party.fail("an invalid answer to prove()")
        except (pb.PBConnectionLost, pb.DeadReferenceError):
            pass  # the party has heard of it
        except Exception:
            fail_by_defect(party)

    async def admit(self, proof: Proof, party: Party) -> bool:
        """Whether the party may come in; if not, it was told why."""
        try:
            await self._portal.login(proof, party, ILink)
        except UnauthorizedLogin as error:
            if proof.role == DIALLER:
                party.fail_slowly(str(error))
            else:
                party.fail(str(error))
            return False
        except LoginDenied as error:
            party.fail(str(error))
            return False
        party.trust()
        return True

    def answer(self, proof: Proof, hello: bytes) -> tuple[bytes, bytes]:
        """Ours, to a dialler whose proof was right: by the secret that it knows."""
        secret = self.secrets.used_in(proof) or self.secrets.current
        said = replace(proof.transcript, listener_hello=hello)
        return said.proof(LISTENER, secret), hello


def fail_by_defect(party: Party) -> None:
    """An error within this node, which is no business of the other one."""
    logger("cluster").failure("internal error in a login")
    party.fail("an internal error")


class Entrance:
    """The listener's side: all that a stranger can call."""

    calls: ClassVar[dict[bytes, tuple[type, ...]]] = {
        b"challenge": (bytes,),
        b"prove": (bytes, bytes),
    }

    def __init__(self, login: Login, party: Party) -> None:
        self._login = login
        self._party = party
        self._nonces: tuple[bytes, bytes] | None = None
        self._used = False

    def remote_challenge(self, nonce: bytes) -> tuple[bytes]:
        if self._used or self._nonces is not None or len(nonce) != _NONCE_BYTES:
            raise pb.ProtocolError("an invalid challenge")
        self._party.speaks()
        ours = secrets.token_bytes(_NONCE_BYTES)
        self._nonces = nonce, ours
        return (ours,)

    def remote_prove(self, shown: bytes, hello: bytes) -> Deferred[tuple[bytes, ...]]:
        nonces, self._nonces = self._nonces, None
        if nonces is None:
            raise pb.ProtocolError("a proof without a challenge")
        self._used = True
        self._party.met(hello)
        return Deferred.fromCoroutine(self._prove(Transcript(*nonces, hello), shown))

    async def _prove(self, transcript: Transcript, shown: bytes) -> tuple[bytes, ...]:
        try:
            proof = Proof(transcript, DIALLER, shown)
            if await self._login.admit(proof, self._party):
                return self._login.answer(proof, self._party.hello())
        except Exception:
            fail_by_defect(self._party)
        return ()
