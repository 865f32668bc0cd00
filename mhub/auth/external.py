"""Sources that ask a server: what their settings and their way of answering have in common.

    check(claim) -> AnswerCache -> Backend -> server      what does it know of this client?
                                           -> judge       password, then an Identity of the rest

A server describes a user with fields: columns of a row, fields of a Redis hash, members of a JSON
object.  These have a meaning, all others are attributes:

    password_hash   in one of the forms that mhub.auth.hashes knows
    user            who it is, if not whom the client says
    roles           a list; as text with commas between, or JSON
    tenant          a name
    superuser       yes: gives the role `superuser_role`; also `is_superuser`
    grants          a list of lines `ACTION, TOPIC, CONDITION, EFFECT`; as text a line each
    attributes      an object; as text JSON
    expires_at      seconds since 1970: when the connection ends

What cannot be understood is refused (`cannot_tell`), not left out: it could be a deny.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred

from mhub.access.rows import RowError, parse_grant
from mhub.auth.answer_cache import AnswerCache
from mhub.auth.backend import Backend, Unavailable, plain
from mhub.auth.contract import NO, Answer, Context, cannot_tell, is_plain, no, not_mine, yes
from mhub.auth.facts import UnusableClaim, facts_of
from mhub.auth.grants import MAX_GRANTS
from mhub.auth.lookup import BY, entry_name
from mhub.config.kinds import Choice, Integer, Seconds, Text
from mhub.config.schema import ListOf, setting
from mhub.core.authentication import Claim
from mhub.core.principal import Identity

T = TypeVar("T")

KNOWN: Final = (
    *("password_hash", "user", "roles", "tenant", "superuser", "is_superuser"),
    *("grants", "attributes", "expires_at"),
)


@dataclass(frozen=True)
class ExternalSettings:
    identify_by: str = setting(
        Choice(*BY),
        "username",
        "What says who the client is: its user name, its client id, or both, as `USER@CLIENTID`.",
    )
    roles: tuple[str, ...] = setting(
        ListOf(Text(empty=False)), (), "Roles of all whom this source accepts, besides their own."
    )
    tenant: str = setting(
        Text(), "", "The tenant of those for whom the server names none.", shown="none"
    )
    superuser_role: str = setting(
        Text(), "admin", "The role of those whom the server calls superusers; empty: none."
    )
    timeout_s: float = setting(
        Seconds(0.1, 600), 5.0, "How long a client waits for the server, the queue included."
    )
    max_concurrent: int = setting(
        Integer(1, 1000), 8, "How many clients the server is asked about at a time."
    )
    max_waiting: int = setting(
        Integer(0, 1_000_000), 1000, "How many wait for that; more are refused at once."
    )
    breaker_failures: int = setting(
        Integer(1, 1000),
        5,
        "After how many failures in a row the server is left alone, and clients refused at once.",
    )
    breaker_pause_s: float = setting(
        Seconds(0.1, 3600), 5.0, "How long, until it is asked about one client, to see."
    )
    cache_s: float = setting(
        Seconds(0, 86400),
        0.0,
        "How long it is remembered that a client was accepted; 0 turns it off. A user that is"
        " deleted or changed at the server is still let in for so long.",
    )
    negative_cache_s: float = setting(
        Seconds(0, 3600),
        3.0,
        "How long it is remembered that a client was refused, give or take a half; 0 turns it off.",
    )
    cache_size: int = setting(
        Integer(1, 10_000_000), 10_000, "How many answers of either kind are remembered."
    )


def missing_facts(identify_by: str, names: Iterable[str]) -> list[str]:
    """Those without which a client could have one user's password and another one's name."""
    needed = ("username", "client_id") if identify_by == "both" else (identify_by,)
    return [name for name in needed if name not in names]


class Malformed(Exception):
    """The server said something that is not understood."""


class ExternalSource:
    """One server.  A kind of server says what it knows of a client, in `look_up`."""

    kind = ""
    takes_passwords = True
    """Whether a client without a password is left to the next source."""

    def __init__(self, name: str, settings: ExternalSettings, context: Context) -> None:
        self.name = name
        self.settings = settings
        self.context = context
        stats = context.hub.stats
        self.backend = Backend(
            f"{self.kind} ({name})" if name != self.kind else name,
            settings,
            context.reactor,
            context.clock,
            stats,
        )
        self.cache = AnswerCache(settings, context.clock, stats)
        self.facts: tuple[str, ...] = ()  # what the answer depends on besides name and password
        self._decoy = ""

    async def judge(self, claim: Claim) -> Answer:
        """Raises Unavailable, Malformed, UnusableClaim."""
        raise NotImplementedError

    def check(self, claim: Claim) -> "Answer | Deferred[Answer]":
        name = self.name_of(claim)
        if not name or (self.takes_passwords and claim.password is None):
            return not_mine()
        if not is_plain(name):
            return no("there are control characters in the name")
        try:
            key = self._key(claim)
        except UnusableClaim as problem:
            return no(str(problem))
        known = self.cache.get(key)
        if known is not None:
            if known.outcome == NO and self._decoy:
                return Deferred.fromCoroutine(self._pay(claim, known))
            return known
        return Deferred.fromCoroutine(self._check(claim, key))

    def start(self) -> None:
        pass

    def stop(self) -> "Deferred[None] | None":
        self.backend.stop()
        return None

    def reload(self) -> None:
        self.cache.clear()

    def forget(self) -> None:
        """Users may be other ones."""
        self.cache.clear()

    def decoy(self) -> str:
        """A hash like those that it has seen."""
        return self._decoy

    def name_of(self, claim: Claim) -> str:
        """Who the client says that it is, for this source."""
        return entry_name(claim, self.settings.identify_by)

    def ask(self, claim: Claim, ask: Callable[[], "Deferred[T]"]) -> "Deferred[T]":
        """Put a question to the server, within the bounds."""
        return self.backend.ask(ask, claim.principal.address)

    async def verify(self, claim: Claim, found: Mapping[str, Any]) -> Answer:
        """Whether the password is the one whose hash was found."""
        text = found.get("password_hash")
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        if not isinstance(text, str) or not text:
            return not_mine()
        self._decoy = text
        verify = self.context.passwords.verify
        try:
            right = await verify(text, claim.password or b"", claim.principal.address)
        except ValueError as problem:
            # Not a hash: a key of Redis that is something else, perhaps, which anybody can name.
            return no(f"what {self.backend.name} has as the hash of a password is none: {problem}")
        return self.accept(claim, found) if right else no(f"wrong password ({self.name})")

    def accept(self, claim: Claim, found: Mapping[str, Any], *, others: bool = True) -> Answer:
        """Yes, with all that the server says; `others`: unknown fields are attributes."""
        settings = self.settings
        user = found.get("user") or self.name_of(claim)
        if isinstance(user, bytes):
            user = _text(user, "user")
        if not isinstance(user, str) or not is_plain(user):
            raise Malformed("the user's name is not text, or has control characters in it")
        identity = Identity(user, self.kind)
        roles = [*settings.roles, *_list(found.get("roles"), "roles")]
        if settings.superuser_role and any(
            _truth(found.get(name)) for name in ("superuser", "is_superuser")
        ):
            roles.append(settings.superuser_role)
        identity.roles = tuple(dict.fromkeys(roles))
        identity.tenant = _text(found.get("tenant") or settings.tenant, "tenant")
        identity.grants = grants_of(found.get("grants"))
        identity.expires_at = _number(found.get("expires_at"), "expires_at")
        attributes = _object(found.get("attributes"), "attributes")
        if others:
            attributes |= {name: found[name] for name in found if name not in KNOWN}
        identity.attributes = {
            name: _text(value, name) for name, value in attributes.items() if value is not None
        }
        return yes(identity)

    def _key(self, claim: Claim) -> bytes:
        facts = facts_of(claim, self.facts)
        parts = [self.name_of(claim), *facts.values()]
        return self.cache.key([claim.password or b"", *(part.encode() for part in parts)])

    async def _pay(self, claim: Claim, known: Answer) -> Answer:
        """A refusal that is remembered takes as long as one for a name that nobody knows.

        For that the chain checks the decoy.  Else a second try would tell which names there are.
        """
        verify = self.context.passwords.verify
        try:
            await verify(self._decoy, claim.password or b"", claim.principal.address)
        except ValueError:
            pass  # not a hash
        return known

    async def _check(self, claim: Claim, key: bytes) -> Answer:
        generation = self.cache.generation
        try:
            answer = await self.judge(claim)
        except Unavailable as problem:
            return cannot_tell(str(problem))
        except Malformed as problem:
            return cannot_tell(f"{self.backend.name} says what is not understood: {problem}")
        except UnusableClaim as problem:
            answer = no(str(problem))
        self.cache.put(key, answer, generation)
        return answer


def grants_of(value: object) -> tuple[str, ...]:
    if isinstance(value, (str, bytes)):
        value = [line for line in _text(value, "grants").splitlines() if line.strip()]
    lines = _list(value, "grants")
    if len(lines) > MAX_GRANTS:
        raise Malformed(f"{len(lines)} grants; {MAX_GRANTS} are as many as may be")
    for line in lines:
        try:
            parse_grant(line)
        except RowError as problem:
            raise Malformed(f"the grant {plain(line)!r}: {plain(problem.text)}") from None
    return tuple(lines)


def _list(value: object, name: str) -> list[str]:
    if value is None:
        return []
    if isinstance(value, (str, bytes)):
        text = _text(value, name).strip()
        if text.startswith("["):
            value = _json(text, name)
        else:
            return [part.strip() for part in text.split(",") if part.strip()]
    if not isinstance(value, (list, tuple)):
        raise Malformed(f"{name} is not a list")
    return [_text(item, name) for item in value]


def _object(value: object, name: str) -> dict[str, Any]:
    if value is None or value == "" or value == b"":
        return {}
    if isinstance(value, (str, bytes)):
        value = _json(_text(value, name), name)
    if not isinstance(value, dict):
        raise Malformed(f"{name} is not an object")
    return dict(value)


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Malformed(f"{name} is not JSON") from None


def _text(value: object, name: str) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise Malformed(f"{name} is not UTF-8") from None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list, tuple)):
        raise Malformed(f"{name} is not text")
    return str(value)


def _number(value: object, name: str) -> float:
    if value is None or value == "" or value == b"":
        return 0.0
    try:
        number = float(_text(value, name))
    except ValueError:
        raise Malformed(f"{name} is not a number") from None
    if not 0.0 <= number < 1e12:  # NaN fails it too
        raise Malformed(f"{name} is not a time")
    return number


def _truth(value: object) -> bool:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value.strip().lower() in ("1", "t", "true", "y", "yes", "on")
    return bool(value)
