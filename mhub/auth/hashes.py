"""Hashes of passwords: which are read, whether one is that of a password, how new ones are made.

    $argon2id$v=19$m=KIB,t=ROUNDS,p=LANES$SALT$HASH    new ones; $argon2i$ and $argon2d$ are read
    $2a$ $2b$ $2y$ COST$SALTHASH                       bcrypt
    $pbkdf2-sha256$ROUNDS$SALT$HASH                    as passlib writes it; also sha512 and (sha1)
                                                       $pbkdf2$
    PBKDF2$sha512$ROUNDS$SALT$HASH                     mosquitto-go-auth; also sha256 and sha1
    $7$ROUNDS$SALT$HASH                                Mosquitto: PBKDF2 with SHA-512
    $6$SALT$HASH                                       Mosquitto before 2.0: one round of SHA-512

Everything here computes for milliseconds or more, and belongs into the threads of `passwords`.
Passwords are bytes, as MQTT carries them.  All comparisons take the same time whatever differs.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Final

import bcrypt
from argon2 import low_level
from argon2.exceptions import Argon2Error, InvalidHashError

MAX_BCRYPT: Final = 72
"""What bcrypt looks at.  It would take any password with the same first 72 bytes for the same."""

MAX_MEMORY_KIB: Final = 1 << 20
MAX_ROUNDS: Final = 10_000_000
"""A hash that would cost more than this is a mistake, and must not take the broker's memory."""

_ARGON2: Final = re.compile(r"\$argon2(id|i|d)\$(?:v=\d+\$)?m=(\d+),t=(\d+),p=(\d+)\$[^$]+\$[^$]+")
_BCRYPT: Final = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}")
_PASSLIB: Final = re.compile(
    r"\$pbkdf2(?:-(sha256|sha512))?\$(\d{1,8})\$([./A-Za-z0-9]*)\$([./A-Za-z0-9]+)"
)
_B64: Final = r"[A-Za-z0-9+/]+={0,2}"
_GO_AUTH: Final = re.compile(rf"PBKDF2\$(sha1|sha256|sha512)\$(\d{{1,8}})\$({_B64})\$({_B64})")
_MOSQUITTO: Final = re.compile(rf"\$7\$(\d{{1,8}})\$({_B64})\$({_B64})")
# crypt(3) has a $6$ as well, of 86 characters without padding, which is another algorithm.
_MOSQUITTO_OLD: Final = re.compile(rf"\$6\$({_B64})\$([A-Za-z0-9+/]{{86}}==)")

_TYPES: Final = {"id": low_level.Type.ID, "i": low_level.Type.I, "d": low_level.Type.D}


class HashError(ValueError):
    """Not a hash that can be checked; the text does not quote it."""


@dataclass(frozen=True)
class Costs:
    """What a new argon2id hash costs: OWASP's recommendation, some 20 ms of one core."""

    memory_kib: int = 19 << 10
    rounds: int = 2
    lanes: int = 1


def make(password: bytes, costs: Costs) -> str:
    """A new hash, with a salt of its own."""
    made = low_level.hash_secret(
        password,
        secrets.token_bytes(16),
        time_cost=costs.rounds,
        memory_cost=costs.memory_kib,
        parallelism=costs.lanes,
        hash_len=32,
        type=low_level.Type.ID,
    )
    return made.decode("ascii")


def check_form(text: str) -> None:
    """Raises HashError for what `matches` cannot judge."""
    shape(text)


def is_current(text: str, costs: Costs) -> bool:
    """Whether it is as strong as a new one would be."""
    found = _ARGON2.fullmatch(text)
    return (
        found is not None
        and found[1] == "id"
        and int(found[2]) >= costs.memory_kib
        and int(found[3]) >= costs.rounds
    )


def shape(text: str) -> str:
    """What decides how long checking takes, so that all of one shape cost the same."""
    if found := _ARGON2.fullmatch(text):
        if int(found[2]) > MAX_MEMORY_KIB or int(found[3]) > 1000:
            raise HashError("an argon2 hash that takes too much memory or time")
        return text[: found.end(4)]
    if found := _BCRYPT.fullmatch(text):
        if not 4 <= int(found[1]) <= 16:
            raise HashError("a bcrypt hash with a cost that is not between 4 and 16")
        return f"bcrypt-{found[1]}"
    if found := _PASSLIB.fullmatch(text):
        return _rounds(found[2], f"pbkdf2-{found[1] or 'sha1'}")
    if found := _GO_AUTH.fullmatch(text):
        return _rounds(found[2], f"pbkdf2-{found[1]}")
    if found := _MOSQUITTO.fullmatch(text):
        return _rounds(found[1], "pbkdf2-sha512")
    if _MOSQUITTO_OLD.fullmatch(text):
        return "sha512"
    raise HashError(
        "not a hash that is known here: argon2, bcrypt, PBKDF2, or Mosquitto's $6$ and $7$ are"
    )


def matches(text: str, password: bytes) -> bool:
    """Whether the hash is that of the password.  Raises HashError."""
    check_form(text)
    if found := _ARGON2.fullmatch(text):
        return _argon2(text, password, _TYPES[found[1]])
    if _BCRYPT.fullmatch(text):
        return _bcrypt(text, password)
    if found := _PASSLIB.fullmatch(text):
        salt, expected = _passlib_decode(found[3]), _passlib_decode(found[4])
        return _pbkdf2(found[1] or "sha1", password, salt, int(found[2]), expected)
    if found := _GO_AUTH.fullmatch(text):
        salt, expected = _decode(found[3]), _decode(found[4])
        return _pbkdf2(found[1], password, salt, int(found[2]), expected)
    if found := _MOSQUITTO.fullmatch(text):
        return _pbkdf2("sha512", password, _decode(found[2]), int(found[1]), _decode(found[3]))
    found = _MOSQUITTO_OLD.fullmatch(text)
    assert found is not None
    made = hashlib.sha512(password + _decode(found[1])).digest()
    return hmac.compare_digest(made, _decode(found[2]))


def _argon2(text: str, password: bytes, kind: low_level.Type) -> bool:
    try:
        return low_level.verify_secret(text.encode("ascii"), password, kind)
    except InvalidHashError:
        raise HashError("a broken argon2 hash") from None
    except Argon2Error:  # it does not match, or it could not be computed
        return False


def _bcrypt(text: str, password: bytes) -> bool:
    # The same work, so that the time does not tell that there is such a user.
    fits = len(password) <= MAX_BCRYPT and b"\0" not in password
    try:
        same = bcrypt.checkpw(password if fits else b"-", text.encode("ascii"))
    except ValueError:
        raise HashError("a broken bcrypt hash") from None
    return same and fits


def _pbkdf2(digest: str, password: bytes, salt: bytes, rounds: int, expected: bytes) -> bool:
    made = hashlib.pbkdf2_hmac(digest, password, salt, rounds, len(expected))
    return hmac.compare_digest(made, expected)


def _rounds(text: str, name: str) -> str:
    if not 1 <= int(text) <= MAX_ROUNDS:
        raise HashError(f"a hash with {text} rounds; expected from 1 to {MAX_ROUNDS}")
    return f"{name}-{int(text)}"


def _passlib_decode(text: str) -> bytes:
    # passlib writes "." for "+", and no padding.
    return _decode(text.replace(".", "+") + "=" * (-len(text) % 4))


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise HashError("salt or hash are not base64") from None
