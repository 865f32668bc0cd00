"""The server's side of SCRAM-SHA-256 (RFC 5802, RFC 7677), without I/O.

    client                                        server
    n,,n=user,r=CNONCE                      ->
                                            <-    r=CNONCE+SNONCE,s=SALT,i=ITERATIONS
    c=biws,r=CNONCE+SNONCE,p=PROOF          ->
                                            <-    v=SIGNATURE

In MQTT 5.0 the first message comes in CONNECT, the last leaves in CONNACK, and AUTH carries what is
between.  Neither side learns the password.  Channel binding is not offered.  A name without a user
gets a salt that looks like any other and does not change, so that names cannot be probed.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final, Protocol

from mhub.auth.saslprep import saslprep
from mhub.auth.users import KEY_SIZE, Verifier
from mhub.core.authentication import Step, failure, proceed, success
from mhub.core.principal import Identity

METHOD: Final = "SCRAM-SHA-256"
MAX_MESSAGE: Final = 4096

_NONCE: Final = r"[\x21-\x2B\x2D-\x7E]+"  # printable ASCII but the comma
_EXTENSIONS: Final = r"(?:,[A-Za-z]=[^,\0]+)*"
_FIRST: Final = re.compile(
    rf"(?P<header>(?P<binding>[ny]|p=[A-Za-z0-9.-]+),(?:a=(?P<as>[^,\0]+))?,)"
    rf"(?P<bare>n=(?P<name>[^,\0]+),r=(?P<nonce>{_NONCE}){_EXTENSIONS})"
)
_FINAL: Final = re.compile(
    rf"(?P<unproven>c=(?P<header>[A-Za-z0-9+/=]+),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_ESCAPE: Final = re.compile(r"=(2C|3D|.{0,2})", re.DOTALL)


class _Refused(Exception):
    """Why an exchange failed.  Says no more than the client knows already, wherever it is shown."""


class Verifiers(Protocol):
    """Who can log in."""

    def find(self, name: str) -> tuple[Verifier, Identity | None] | None:
        """What proves a user, and who that is; no identity: one that is not let in."""

    def decoy(self) -> tuple[int, int, bytes]:
        """What a verifier looks like: iterations, length of the salt; and a secret to make some."""


class ScramExchange:
    """One login.  `step` takes what the client sent; any bytes give a Step, never an exception."""

    def __init__(self, verifiers: Verifiers, nonce: str) -> None:
        self._verifiers = verifiers
        self._nonce = nonce
        self._identity: Identity | None = None
        self._next: Callable[[str], Step] = self._first
        self._username = ""

    def step(self, data: bytes) -> Step:
        try:
            if len(data) > MAX_MESSAGE:
                raise _Refused(f"a message of {len(data)} bytes")
            return self._next(data.decode())
        except UnicodeDecodeError:
            text = "a message that is not UTF-8"
        except _Refused as refused:
            text = str(refused)
        self._next = self._over
        answer = failure(text)
        answer.user = self._username
        return answer

    def _first(self, text: str) -> Step:
        message = _FIRST.fullmatch(text)
        if message is None:
            raise _Refused("not a first message of SCRAM")
        if message["binding"].startswith("p"):
            raise _Refused("the client wants channel binding, which is not offered")
        self._username = _name(message["name"])
        if message["as"] is not None and _name(message["as"]) != self._username:
            raise _Refused("the client wants to act as another user")
        known = self._verifiers.find(self._username)
        self._verifier, self._identity = known if known is not None else (self._decoy(), None)
        self._header = message["header"].encode()
        self._nonce = message["nonce"] + self._nonce
        salt = base64.b64encode(self._verifier.salt).decode("ascii")
        answer = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        self._so_far = f"{message['bare']},{answer},"
        self._next = self._final
        return proceed(answer.encode())

    def _final(self, text: str) -> Step:
        message = _FINAL.fullmatch(text)
        if message is None:
            raise _Refused("not a final message of SCRAM")
        if not hmac.compare_digest(_decode(message["header"]), self._header):
            raise _Refused("the header of the first message came back changed")
        if not hmac.compare_digest(message["nonce"], self._nonce):
            raise _Refused("the nonce came back changed")
        proof = _decode(message["proof"])
        if len(proof) != KEY_SIZE:
            raise _Refused("a proof of the wrong length")
        said = (self._so_far + message["unproven"]).encode()
        signature = hmac.digest(self._verifier.stored_key, said, "sha256")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        proven = hmac.compare_digest(hashlib.sha256(client_key).digest(), self._verifier.stored_key)
        # Only now, after the same work: the time of the answer must not tell who is a user.
        identity = self._identity
        known = self._verifiers.find(self._username)
        if known is None or known[0] != self._verifier:
            identity = None  # the user was deleted, or has another password by now
        if not proven or identity is None:
            raise _Refused(f'wrong name or password: "{self._username[:100]}"')
        self._next = self._over
        answer = base64.b64encode(hmac.digest(self._verifier.server_key, said, "sha256"))
        return success(identity, b"v=" + answer)

    def _over(self, text: str) -> Step:
        raise _Refused("a message after the last one")

    def _decoy(self) -> Verifier:
        iterations, salt_size, secret = self._verifiers.decoy()
        name = self._username.encode()
        salt = hmac.digest(secret, b"salt:" + name, "sha512")[:salt_size]
        key = hmac.digest(secret, b"key:" + name, "sha256")
        return Verifier(iterations, salt, key, key)


def _name(escaped: str) -> str:
    """A name from a message: `=2C` is a comma and `=3D` an equals sign there."""
    if any(found not in ("2C", "3D") for found in _ESCAPE.findall(escaped)):
        raise _Refused("a name with a stray equals sign")
    try:
        name = saslprep(escaped.replace("=2C", ",").replace("=3D", "="))
    except ValueError as error:
        raise _Refused(f"a name that SASLprep refuses: {error}") from None
    if not name:
        raise _Refused("an empty name")
    return name


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise _Refused("bad base64") from None
