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
import os
import re
import secrets
from collections.abc import Callable
from typing import Final

from mhub.auth.saslprep import saslprep
from mhub.auth.users import KEY_SIZE, Users, UsersFileError, Verifier, read_users
from mhub.core.authentication import Claim, Step, failure, proceed, success
from mhub.core.principal import Identity
from mhub.log import logger

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


class ScramExchange:
    """One login.  `step` takes what the client sent; any bytes give a Step, never an exception."""

    def __init__(self, users: Users, secret: bytes, nonce: str) -> None:
        self._users = users
        self._secret = secret
        self._nonce = nonce
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
        known = self._users.verifiers.get(self._username)
        self._known = known is not None
        self._verifier = known if known is not None else self._decoy()
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
        if not proven or not self._known:
            raise _Refused(f'wrong name or password: "{self._username[:100]}"')
        self._next = self._over
        answer = base64.b64encode(hmac.digest(self._verifier.server_key, said, "sha256"))
        return success(Identity(self._username, METHOD), b"v=" + answer)

    def _over(self, text: str) -> Step:
        raise _Refused("a message after the last one")

    def _decoy(self) -> Verifier:
        iterations, salt_size = self._users.usual
        name = self._username.encode()
        salt = hmac.digest(self._secret, b"salt:" + name, "sha512")[:salt_size]
        key = hmac.digest(self._secret, b"key:" + name, "sha256")
        return Verifier(iterations, salt, key, key)


class ScramMethod:
    """Makes an exchange for each login, over the users that the file has at that time."""

    name = METHOD
    log = logger("auth")

    def __init__(
        self, users_file: str, make_nonce: Callable[[], str] = lambda: secrets.token_urlsafe(24)
    ) -> None:
        self._file = users_file
        self._make_nonce = make_nonce
        self._own_secret = secrets.token_bytes(KEY_SIZE)  # for a file that has none
        self._mark = self._stat()
        self._users = read_users(users_file)

    def __call__(self, claim: Claim) -> ScramExchange:
        if self._stat() != self._mark:
            self.reload()
        return ScramExchange(
            self._users, self._users.secret or self._own_secret, self._make_nonce()
        )

    def reload(self) -> None:
        """Read the file again.  When that fails the users stay, and the log says so."""
        # Taken first: a change while reading is then seen at the next login.
        self._mark = self._stat()
        try:
            self._users = read_users(self._file)
        except UsersFileError as error:
            self.log.error("SCRAM users not reloaded: {error}", error=error)
        else:
            self.log.info("{count} SCRAM users read", count=len(self._users.verifiers))

    def _stat(self) -> tuple[int, int, int]:
        try:
            found = os.stat(self._file)
        except OSError:
            return (0, 0, 0)
        return (found.st_mtime_ns, found.st_ino, found.st_size)


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
