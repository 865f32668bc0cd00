"""Keys for signed notes, and their signatures (C2SP signed-note, tlog-cosignature).

    key id        SHA-256(name || LF || type || public key)[:4]
    verifier key  name "+" hex(key id) "+" base64(type || public key)
    signer key    "PRIVATE+KEY+" name "+" hex(key id) "+" base64(type || seed)
    signature     "— " name " " base64(key id || signature) LF

The two types of keys, both Ed25519, sign different messages:

    ED25519       the text
    COSIGNATURE   "cosignature/v1" LF "time " seconds LF text; the signature begins with the time

No checkpoint begins like the second one, as a number is in its second line: so neither signature
of a checkpoint can be shown as the other, even if somebody has one key for both.

The key id is short and no protection by itself: whoever verifies has the whole key from elsewhere.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

MAX_TIME_S: Final = 2**63 - 1
SEED_BYTES: Final = 32

_KEY_BYTES: Final = 32
_ID_BYTES: Final = 4
_SIGNATURE_BYTES: Final = 64
_TIME_BYTES: Final = 8
_DASH: Final = "\u2014 "
_PRIVATE: Final = "PRIVATE+KEY+"
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f]")


class NoteError(ValueError):
    """Not a note, a key or a signature, or not one that can be believed."""


class KeyTextError(NoteError):
    """Not a key; what is said does not quote it, as it may be a private one."""


class SignatureError(NoteError):
    """A signature that should be there is missing or wrong."""


class KeyType(IntEnum):
    ED25519 = 0x01
    COSIGNATURE = 0x04


@dataclass(frozen=True)
class Signature:
    """One line of a note."""

    name: str
    key_id: bytes
    data: bytes

    def __post_init__(self) -> None:
        check_name(self.name)
        if len(self.key_id) != _ID_BYTES or not self.data:
            raise NoteError("a signature is a key id of 4 bytes and more")

    @classmethod
    def parse(cls, line: str) -> "Signature":
        """A line of a note, without the newline."""
        name, separator, encoded = line.removeprefix(_DASH).partition(" ")
        data = decode_base64(encoded)
        if not line.startswith(_DASH) or not separator or data is None or len(data) <= _ID_BYTES:
            raise NoteError("a line after the text is not a signature")
        return cls(name, data[:_ID_BYTES], data[_ID_BYTES:])

    def line(self) -> str:
        return f"{_DASH}{self.name} {encode_base64(self.key_id + self.data)}\n"

    @property
    def time_s(self) -> int:
        """When a cosignature was made, in seconds since 1970.  Verify it before."""
        return int.from_bytes(self.data[:_TIME_BYTES], "big")


@dataclass(frozen=True)
class Verifier:
    """A public key, under the name of who has the private one."""

    name: str
    type: KeyType
    key: bytes

    def __post_init__(self) -> None:
        check_name(self.name)
        if len(self.key) != _KEY_BYTES:
            raise KeyTextError(f"a key of {len(self.key)} bytes; Ed25519 has {_KEY_BYTES}")

    @property
    def id(self) -> bytes:
        return sha256(self.name.encode() + b"\n" + bytes([self.type]) + self.key).digest()[:4]

    @classmethod
    def parse(cls, text: str) -> "Verifier":
        name, key_id, key_type, key = _parse_key(text)
        found = cls(name, key_type, key)
        _check_id(key_id, found.id)
        return found

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{encode_base64(bytes([self.type]) + self.key)}"

    def verify(self, text: str, signature: Signature) -> None:
        """Raises SignatureError."""
        data, time_s = signature.data, 0
        if self.type == KeyType.COSIGNATURE:
            data, time_s = data[_TIME_BYTES:], signature.time_s
        wrong = SignatureError(f"the signature by {self.name}+{self.id.hex()} is wrong")
        if len(data) != _SIGNATURE_BYTES or time_s > MAX_TIME_S:
            raise wrong
        try:
            Ed25519PublicKey.from_public_bytes(self.key).verify(
                data, _message(self.type, text, time_s)
            )
        except InvalidSignature:
            raise wrong from None


class Signer:
    """A private key.  `seed` is 32 random bytes; it is in no `repr`."""

    def __init__(self, name: str, type: KeyType, seed: bytes) -> None:
        if len(seed) != SEED_BYTES:
            raise KeyTextError(f"a seed of {len(seed)} bytes; Ed25519 has {SEED_BYTES}")
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.verifier = Verifier(name, type, self._key.public_key().public_bytes_raw())

    @classmethod
    def parse(cls, text: str) -> "Signer":
        if not text.startswith(_PRIVATE):
            raise KeyTextError(f"not a private key: it does not begin with {_PRIVATE}")
        name, key_id, key_type, seed = _parse_key(text.removeprefix(_PRIVATE))
        found = cls(name, key_type, seed)
        _check_id(key_id, found.verifier.id)
        return found

    def private_text(self) -> str:
        verifier = self.verifier
        seed = bytes([verifier.type]) + self._key.private_bytes_raw()
        return f"{_PRIVATE}{verifier.name}+{verifier.id.hex()}+{encode_base64(seed)}"

    def sign(self, text: str) -> Signature:
        self._check_type(KeyType.ED25519)
        return self._signature(b"", _message(KeyType.ED25519, text))

    def cosign(self, text: str, time_s: int) -> Signature:
        self._check_type(KeyType.COSIGNATURE)
        if not 0 <= time_s <= MAX_TIME_S:
            raise ValueError(f"a cosignature cannot have the time {time_s}")
        time = time_s.to_bytes(_TIME_BYTES, "big")
        return self._signature(time, _message(KeyType.COSIGNATURE, text, time_s))

    def _check_type(self, wanted: KeyType) -> None:
        if self.verifier.type != wanted:
            raise ValueError(f"the key {self.verifier.name} is not of the type {wanted.name}")

    def _signature(self, prefix: bytes, message: bytes) -> Signature:
        return Signature(self.verifier.name, self.verifier.id, prefix + self._key.sign(message))


def check_name(name: str) -> None:
    """Raises NoteError for what cannot be the name of a key."""
    check_characters(name)
    if not name or "+" in name or any(map(str.isspace, name)):
        raise NoteError("the name of a key is not empty and has neither spaces nor plus signs")


def check_characters(text: str) -> None:
    """Raises NoteError for what cannot be in a note."""
    if _CONTROL.search(text):
        raise NoteError("a note has no control characters but newlines")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NoteError("a note has no half surrogate pairs: they are no UTF-8") from None


def _message(key_type: KeyType, text: str, time_s: int = 0) -> bytes:
    if key_type == KeyType.ED25519:
        return text.encode()
    return f"cosignature/v1\ntime {time_s}\n{text}".encode()


def _parse_key(text: str) -> tuple[str, bytes, KeyType, bytes]:
    """Name, key id, type and the bytes of a key; the id is not checked."""
    parts = text.split("+", 2)  # base64 has plus signs too
    data = decode_base64(parts[2]) if len(parts) == 3 else None
    if not data:
        raise KeyTextError("not a key: expected name+hash+base64")
    name, key_id, _ = parts
    if len(key_id) != 2 * _ID_BYTES or not set(key_id) <= set("0123456789abcdef"):
        raise KeyTextError("the hash of a key has 8 lower case hexadecimal digits")
    try:
        key_type = KeyType(data[0])
    except ValueError:
        known = "1 (Ed25519) and 4 (cosignatures)"
        raise KeyTextError(f"a key of type {data[0]}; known are {known}") from None
    return name, bytes.fromhex(key_id), key_type, data[1:]


def _check_id(said: bytes, real: bytes) -> None:
    if said != real:
        raise KeyTextError("the hash of a key is not that of its name and key: it was changed")


def encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def decode_base64(text: str) -> bytes | None:
    """Only what `encode_base64` makes: one text for the same bytes."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if encode_base64(data) == text else None
