"""What the entries of the registry say: users, roles, rules, bans, lock-outs and tokens.

    user/NAME         {"password": "$argon2id$…", "scram": "SCRAM-SHA-256$…", "roles": ["device"],
                       "tenant": "", "attributes": {"site": "hall-1"}, "locked": false,
                       "limits": {}, "note": "", "created_at": 0.0, "password_at": 0.0}
    role/NAME         {"parents": ["reader"], "limits": {}, "note": ""}
    rule/ID           {"row": ["p", "role:device", "*", "publish", "devices/%u/#", "any", "allow"],
                       "note": ""}
    ban/KIND/VALUE    {"reason": "", "until": 0.0, "by": "", "created_at": 0.0}
    lockout/KIND/VALUE  {"until": 0.0, "failures": 0, "times": 0}   `mhub.auth.guard` makes them
    token/ID          {"name": "ci", "hash": SHA-256 of the secret, "scopes": ["read:stats"],
                       "roles": [], "tenant": "", "created_at": 0.0, "created_by": "",
                       "expires_at": 0.0, "note": ""}

Each is a JSON object.  Names and values are free text and may contain "/".  Every field is checked
by the same reader, whether it comes from the registry or from somebody who changes it; text that is
wrong raises EntryError, which names the entry and the field.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, TypeVar

from mhub.access.quota import LimitsError, Value, check_limits
from mhub.access.scopes import TOKEN_USER, check_scope
from mhub.auth.addresses import parse_network, show_network
from mhub.auth.saslprep import saslprep
from mhub.config.problems import nearest

USER: Final = "user/"
ROLE: Final = "role/"
RULE: Final = "rule/"
BAN: Final = "ban/"
LOCKOUT: Final = "lockout/"
TOKEN: Final = "token/"

EVERYBODY: Final = ("everyone", "authenticated", "anonymous")
"""Roles that clients have by what they are: they can be given to nobody."""

MAX_NAME: Final = 256
MAX_NOTE: Final = 1024

BAN_KINDS: Final = ("user", "client", "address")
LOGIN: Final = "login"
"""The kind of a lock-out of a user at one address; its value is `ADDRESS NAME`."""

_ATTRIBUTE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_TOKEN_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ROLE: Final = re.compile(r"""[^\s,:'"()\[\]|&%*#+/]{1,128}""")

T = TypeVar("T")


class EntryError(Exception):
    """An entry is not what it has to be; the text names it."""


def _field(read: Callable[[object], Any], default: Any) -> Any:
    """A field of an entry, and what checks its value."""
    if callable(default):
        return field(default_factory=default, metadata={"read": read})
    return field(default=default, metadata={"read": read})


def _line(value: object) -> str:
    """Text that is one line."""
    if not isinstance(value, str) or len(value) > MAX_NOTE or not value.isprintable():
        raise ValueError(f"expected one line of text, of at most {MAX_NOTE} characters")
    return value


def note_of(value: object) -> str:
    """What people write about an entry.  Raises ValueError."""
    try:
        return _line(value)
    except ValueError as error:
        raise ValueError(f"note: {error}") from None


def _secret(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("expected text")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("expected true or false")
    return value


def _time(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("expected seconds since 1970")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("expected seconds since 1970")
    return number


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("expected an integer, 0 or more")
    return value


def _tenant(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("expected text")
    if value and not _ROLE.fullmatch(value):
        raise ValueError(f"a tenant's name cannot have white space or any of {_REFUSED}")
    return value


_REFUSED: Final = ", : ' \" ( ) [ ] | & % * # + /"


def role_name(value: object) -> str:
    """The name of a role, as users and other roles have it.  Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError("expected the name of a role")
    name = value.removeprefix("role:")
    if not name:
        raise ValueError("the name of the role is empty")
    if not _ROLE.fullmatch(name):
        raise ValueError(
            f'"{name[:40]}": the name of a role cannot have white space or any of {_REFUSED}, nor'
            " more than 128 characters"
        )
    return name


def _roles(value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise ValueError("expected a list of roles")
    names = [role_name(each) for each in value]
    for name in names:
        if name in EVERYBODY:
            raise ValueError(f'"{name}" is what a client is, and is given to nobody')
    return tuple(dict.fromkeys(names))


def _attributes(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError("expected an object of names and texts")
    for name, text in value.items():
        if not isinstance(name, str) or not _ATTRIBUTE.fullmatch(name):
            raise ValueError(f'"{name}": expected a name of letters, digits and . _ -')
        if name == "cn":
            raise ValueError('"cn" is the common name of a certificate, and nobody\'s attribute')
        if not isinstance(text, str) or not text.isprintable() or len(text) > MAX_NAME:
            raise ValueError(f'"{name}": expected text of at most {MAX_NAME} characters')
    return dict(sorted(value.items()))


def _limits(value: object) -> dict[str, Value]:
    return dict(sorted(check_limits(value).items()))


def _row(value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
        raise ValueError("expected a list of texts")
    return tuple(value)


def token_name(value: object) -> str:
    """Raises ValueError."""
    if not isinstance(value, str) or not _TOKEN_NAME.fullmatch(value):
        raise ValueError("the name of a token has up to 64 letters, digits and . _ -")
    return value


def _scopes(value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
        raise ValueError("expected a list of scopes")
    for scope in value:
        check_scope(scope)
    return tuple(dict.fromkeys(value))


def user_name(value: str) -> str:
    """The form in which a user's name is kept and compared: SASLprep.  Raises ValueError."""
    name = saslprep(value)
    if not name:
        raise ValueError("the name is empty")
    if name != name.strip():
        raise ValueError("a name cannot begin or end with a space")
    if name.startswith(TOKEN_USER):
        raise ValueError(f"names that begin with {TOKEN_USER} are those of API tokens")
    if len(name) > MAX_NAME:
        raise ValueError(f"the name is longer than {MAX_NAME} characters")
    return name


@dataclass(frozen=True, repr=False)  # no repr: it would show the hashes
class User:
    password: str = _field(_secret, "")  # a hash; "": no password is right
    scram: str = _field(_secret, "")  # a verifier, in the notation of PostgreSQL
    roles: tuple[str, ...] = _field(_roles, ())
    tenant: str = _field(_tenant, "")
    attributes: Mapping[str, str] = _field(_attributes, dict)
    locked: bool = _field(_flag, False)
    limits: Mapping[str, Value] = _field(_limits, dict)
    note: str = _field(_line, "")
    created_at: float = _field(_time, 0.0)
    password_at: float = _field(_time, 0.0)  # when somebody set it; 0: with created_at


@dataclass(frozen=True)
class Role:
    parents: tuple[str, ...] = _field(_roles, ())
    limits: Mapping[str, Value] = _field(_limits, dict)
    note: str = _field(_line, "")


@dataclass(frozen=True)
class Rule:
    row: tuple[str, ...] = _field(_row, ())
    note: str = _field(_line, "")


@dataclass(frozen=True)
class Ban:
    reason: str = _field(_line, "")
    until: float = _field(_time, 0.0)  # seconds since 1970; 0: for ever
    by: str = _field(_line, "")
    created_at: float = _field(_time, 0.0)


@dataclass(frozen=True)
class Lockout:
    until: float = _field(_time, 0.0)
    failures: int = _field(_count, 0)
    times: int = _field(_count, 0)


@dataclass(frozen=True, repr=False)
class Token:
    name: str = _field(token_name, "")
    hash: str = _field(_secret, "")  # SHA-256 of the secret, in hex
    scopes: tuple[str, ...] = _field(_scopes, ())
    roles: tuple[str, ...] = _field(_roles, ())
    tenant: str = _field(_tenant, "")
    created_at: float = _field(_time, 0.0)
    created_by: str = _field(_line, "")
    expires_at: float = _field(_time, 0.0)  # seconds since 1970; 0: never
    note: str = _field(_line, "")


Record = TypeVar("Record", User, Role, Rule, Ban, Lockout, Token)

_READERS: Final[dict[Any, dict[str, Callable[[object], Any]]]] = {
    cls: {each.name: each.metadata["read"] for each in fields(cls)}
    for cls in (User, Role, Rule, Ban, Lockout, Token)
}


def read(cls: type[Record], key: str, text: str) -> Record:
    """The entry of a key.  Raises EntryError."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise EntryError(f"{key}: expected a JSON object")
    # What is empty is the default; there may be 100,000 users, and most have little.
    given = {name: values[name] for name in _READERS[cls] if values.get(name)}
    return cls(**_checked(key, _READERS[cls], given))


def changed(record: Record, key: str, values: Mapping[str, object]) -> Record:
    """The same entry with other values.  Raises EntryError for a field that is wrong or unknown."""
    readers = _READERS[type(record)]
    for name in values:
        if name not in readers:
            near = nearest(name, readers)
            hint = f'did you mean "{near}"?' if near else "expected one of " + ", ".join(readers)
            raise EntryError(f'{key}: there is no "{name}"; {hint}')
    return replace(record, **_checked(key, readers, values))


def _checked(
    key: str, readers: Mapping[str, Callable[[object], Any]], values: Mapping[str, object]
) -> dict[str, Any]:
    checked = {}
    for name, value in values.items():
        try:
            checked[name] = readers[name](value)
        except LimitsError as error:  # which names the field
            raise EntryError(f"{key}: {error}") from None
        except ValueError as error:
            raise EntryError(f"{key}: {name}: {error}") from None
    return checked


def write(record: User | Role | Rule | Ban | Lockout | Token) -> str:
    """An entry as the registry keeps it."""
    return json.dumps(vars(record), ensure_ascii=False, separators=(",", ":"))


def ban_key(kind: str, value: str) -> str:
    """Where the ban of a user, a client id or an address is.  Raises ValueError."""
    if kind not in BAN_KINDS:
        near = nearest(kind, BAN_KINDS)
        hint = f'did you mean "{near}"?' if near else f"expected one of {', '.join(BAN_KINDS)}"
        raise ValueError(f'"{kind}" cannot be banned; {hint}')
    if not value:
        raise ValueError(f"the {'client id' if kind == 'client' else kind} is empty")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"the {kind} is no text") from None
    if kind == "address":
        value = address(value)
    # Users and client ids as they are shown: they are compared letter by letter, and those that
    # another source knows need not be in the form that the registry has.
    return f"{BAN}{kind}/{value}"


def address(text: str) -> str:
    """An address or a network in the one form in which it is kept.  Raises ValueError."""
    return show_network(parse_network(text[:60].strip("[]"), strict=False))


def lockout_key(kind: str, value: str) -> str:
    """Where the lock-out of a user, an address, or a user at an address is.  Raises ValueError."""
    if kind == LOGIN:
        host, _, name = value.partition(" ")
        if not name:
            raise ValueError(
                f'expected "ADDRESS NAME", as `mhub ctl ban list` shows it, found "{value}"'
            )
        return f"{LOCKOUT}{kind}/{address(host)} {name}"
    return LOCKOUT + ban_key(kind, value)[len(BAN) :]


def split_key(key: str) -> tuple[str, str]:
    """KIND and VALUE of a ban's or a lock-out's key."""
    _, kind, value = key.split("/", 2)
    return kind, value
