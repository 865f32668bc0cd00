"""A file with users: lines with hashes of passwords, and no password in it.

    # comment
    decoy-secret = BASE64
    NAME:HASH
    NAME:SCRAM-SHA-256$ITERATIONS:SALT$STOREDKEY:SERVERKEY

A user may have one line of each kind.  HASH is one of `mhub.auth.hashes`, so that a password file
of Mosquitto is such a file.  The other kind is for SCRAM, in the notation that PostgreSQL uses in
`pg_authid`; salt and keys are base64.  The secret makes the salts that names without a user get:
being in the file, it gives the same ones after a restart, and on every node that has the file.
"""

import base64
import binascii
import fcntl
import hashlib
import hmac
import os
import re
import secrets
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from mhub.auth import hashes
from mhub.auth.saslprep import saslprep

T = TypeVar("T")

MIN_ITERATIONS: Final = 4096
"""RFC 7677's minimum."""

MAX_ITERATIONS: Final = 10_000_000
"""Each login costs the client this many rounds: more than this is a mistake."""

ITERATIONS: Final = 600_000
"""For passwords that people choose.  It is computed once, by `mhub ctl user`; at a login by SCRAM
the client does, in some 0.2 s on a PC.  What it buys is time when the file is stolen."""

SALT_SIZE: Final = 16
KEY_SIZE: Final = 32
MAX_NAME: Final = 1024

_B64: Final = r"[A-Za-z0-9+/]+={0,2}"
_VERIFIER: Final = re.compile(rf"SCRAM-SHA-256\$([0-9]{{1,8}}):({_B64})\$({_B64}):({_B64})")
_USER: Final = re.compile(r"(.+):(SCRAM-SHA-256\$.*)")
_SECRET: Final = re.compile(rf"decoy-secret\s*=\s*({_B64})")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class UsersFileError(ValueError):
    """The file cannot be read, or a line of it is wrong; the text says which."""


@dataclass(frozen=True)
class Verifier:
    """What proves that a client knows a password, without being the password."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def render(self) -> str:
        salt, stored, server = map(_encode, (self.salt, self.stored_key, self.server_key))
        return f"SCRAM-SHA-256${self.iterations}:{salt}${stored}:{server}"


@dataclass(frozen=True)
class Users:
    """The content of a users file.  `usual` is what a made-up verifier should look like."""

    verifiers: dict[str, Verifier]
    secret: bytes | None = None
    usual: tuple[int, int] = (ITERATIONS, SALT_SIZE)  # iterations, length of the salt
    hashes: dict[str, str] = field(default_factory=dict)
    usual_hash: str = ""  # one that takes as long to check as most


def make_verifier(
    password: str, iterations: int = ITERATIONS, salt: bytes | None = None
) -> Verifier:
    """RFC 5802, section 3.  Raises ValueError for a password that SASLprep refuses."""
    prepared = saslprep(password)
    if not prepared:
        raise ValueError("the password is empty")
    salt = secrets.token_bytes(SALT_SIZE) if salt is None else salt
    salted = hashlib.pbkdf2_hmac("sha256", prepared.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    stored_key = hashlib.sha256(client_key).digest()
    return Verifier(iterations, salt, stored_key, hmac.digest(salted, b"Server Key", "sha256"))


def prepare_name(name: str) -> str:
    """The form in which a user's name is kept and compared.  Raises ValueError."""
    prepared = saslprep(name)
    if not prepared:
        raise ValueError("the name is empty")
    if prepared.startswith("#") or prepared != prepared.strip():
        raise ValueError("a name cannot begin with # nor begin or end with a space")
    if len(prepared) > MAX_NAME:
        raise ValueError(f"the name is longer than {MAX_NAME} characters")
    return prepared


def read_users(path: str) -> Users:
    """The users in a file.  Raises UsersFileError."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise UsersFileError(f"cannot read {path}: {error.strerror}") from None
    return parse_users(data, path)


def parse_users(data: bytes, path: str) -> Users:
    """The users in the content of a file.  Raises UsersFileError with the line that is wrong."""
    verifiers: dict[str, Verifier] = {}
    hashed: dict[str, str] = {}
    shapes: dict[str, str] = {}
    secret = None
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise UsersFileError(f"{path} is not UTF-8: see byte {error.start}") from None
    for number, line in enumerate(lines, 1):
        line = line.strip()
        try:
            if not line or line.startswith("#"):
                continue
            if found := _SECRET.fullmatch(line):
                secret = _decode(found[1])
                continue
            if ":SCRAM-SHA-256$" in line:
                name, verifier = _parse_scram(line)
                is_new = name not in verifiers
                verifiers[name] = verifier
            else:
                name, text, shape = _parse_hash(line)
                is_new = name not in hashed
                hashed[name] = text
                shapes[name] = shape
        except ValueError as error:
            raise UsersFileError(f"{path}:{number}: {error}") from None
        if not is_new:
            raise UsersFileError(f'{path}:{number}: there is a user "{name}" already')
    usual = (ITERATIONS, SALT_SIZE)
    if verifiers:
        usual = _most_common((each.iterations, len(each.salt)) for each in verifiers.values())
    usual_hash = ""
    if shapes:
        most = _most_common(shapes.values())
        usual_hash = next(hashed[name] for name, shape in shapes.items() if shape == most)
    return Users(verifiers, secret, usual, hashed, usual_hash)


def _most_common(shapes: Iterable[T]) -> T:
    return Counter(shapes).most_common(1)[0][0]


def set_user(path: str, name: str, verifier: Verifier, text: str = "") -> bool:
    """Add a user or change its password; makes the file when there is none.  Whether it is new.

    `text` is a hash of the password, for CONNECT; without it the user can log in by SCRAM alone.
    """
    name = prepare_name(name)
    if text and ":" in name:
        raise ValueError("a name in a password file cannot have a colon")
    new = [f"{name}:{verifier.render()}", *([f"{name}:{text}"] if text else [])]

    def change(lines: list[str]) -> tuple[list[str], bool]:
        at = next((n for n, old in enumerate(lines) if _names(old, name)), len(lines))
        others = [old for old in lines if not _names(old, name)]
        return [*others[:at], *new, *others[at:]], at == len(lines)

    return _edit(path, change)


def delete_user(path: str, name: str) -> bool:
    """Take a user out of the file.  Whether it was there."""
    name = prepare_name(name)
    if not os.path.exists(path):
        return False

    def change(lines: list[str]) -> tuple[list[str], bool]:
        kept = [line for line in lines if not _names(line, name)]
        return kept, kept != lines

    return _edit(path, change)


def _edit(path: str, change: Callable[[list[str]], tuple[list[str], bool]]) -> bool:
    """Replace the file in one step: a reader has the old content or the new, never a part."""
    target = Path(path).resolve()
    try:
        with _locked(target.parent):
            data = (target.read_bytes() if target.exists() else b"") or _fresh()
            parse_users(data, path)  # an edit must not bury what was wrong before
            lines, answer = change(data.decode().rstrip("\n").split("\n"))
            _replace(target, ("\n".join(lines) + "\n").encode())
    except OSError as error:
        raise UsersFileError(f"cannot change {path}: {error.strerror}") from None
    return answer


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    # The folder is locked, not the file: the file is another one after each edit.
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _replace(target: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)  # is 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            if target.exists():
                # Root may edit what belongs to the broker's account, which must still read it.
                owner = target.stat()
                if (owner.st_uid, owner.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _fresh() -> bytes:
    secret = _encode(secrets.token_bytes(KEY_SIZE))
    return f"# users of mhub; edit with `mhub ctl user --file`\ndecoy-secret = {secret}\n".encode()


def _parse_hash(line: str) -> tuple[str, str, str]:
    """Name, hash, and what the latter costs."""
    name, colon, text = line.partition(":")
    if not colon or not name:
        raise ValueError("expected NAME:HASH")
    if _CONTROL.search(name):
        raise ValueError("a control character in the name")
    return name, text, hashes.shape(text)


def _parse_scram(line: str) -> tuple[str, Verifier]:
    found = _USER.fullmatch(line)
    if found is None:
        raise ValueError("expected NAME:HASH")
    name = found[1]
    if prepare_name(name) != name:
        raise ValueError(
            "the name is not in the form of SASLprep; add the user again with mhub ctl user add"
        )
    return name, parse_verifier(found[2])


def parse_verifier(text: str) -> Verifier:
    """From the form that `Verifier.render` gives.  Raises ValueError."""
    found = _VERIFIER.fullmatch(text)
    if found is None:
        raise ValueError("expected SCRAM-SHA-256$ITERATIONS:SALT$STOREDKEY:SERVERKEY")
    verifier = Verifier(int(found[1]), _decode(found[2]), _decode(found[3]), _decode(found[4]))
    if not MIN_ITERATIONS <= verifier.iterations <= MAX_ITERATIONS:
        raise ValueError(f"expected from {MIN_ITERATIONS} to {MAX_ITERATIONS} iterations")
    if len(verifier.stored_key) != KEY_SIZE or len(verifier.server_key) != KEY_SIZE:
        raise ValueError(f"expected keys of {KEY_SIZE} bytes")
    return verifier


def _names(line: str, name: str) -> bool:
    line = line.strip()
    if line.startswith("#"):
        return False
    found = _USER.fullmatch(line)
    return (found[1] if found is not None else line.partition(":")[0]) == name


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError(f"{text} is not base64") from None
