"""API tokens: secrets by which programs use the HTTP side, without a login.

    mhub_ID_SECRET     what the program has, shown once, by the call that makes the token
    token/ID           what the registry has: the SHA-256 of SECRET, and what the token may

A SECRET is 256 random bits, so nobody finds it by trying, and a plain hash is as good as a slow
one.  A token is a user called `token:NAME` with the roles that it was given; what it may is what
its scopes (`mhub.access.scopes`) and the rules for its roles allow both.

Whoever makes a token gives away what they have: roles that they have themselves, and their own
tenant.  Who may change users could give them to themselves as well, and so may give all.

When a token was used last is known to each node for itself, since it has started.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from mhub.access.announce import announced
from mhub.access.entries import (
    RULE,
    TOKEN,
    EntryError,
    Token,
    changed,
    read,
    token_name,
    write,
)
from mhub.access.results import Deleted, TokenMade, TokenPage, TokenSummary
from mhub.access.rows import role_subject, user_subject
from mhub.access.scopes import TOKEN as METHOD
from mhub.access.scopes import TOKEN_USER
from mhub.access.table import MOST, Table, checked, page_limit, version_of
from mhub.core.principal import Principal
from mhub.core.registry import Entry
from mhub.operations.contract import BadArgument, Forbidden, LimitReached, NotThere, OperationError

SECRET_BYTES: Final = 32
MOST_TOKENS: Final = 500
"""So many there can be: each request that makes or lists tokens looks at all of them."""

_TEXT: Final = re.compile(r"mhub_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NO_HASH: Final = "0" * 64


@dataclass(frozen=True)
class ApiToken:
    """A token that is in force."""

    id: str
    name: str
    user: str  # as rules call it
    scopes: tuple[str, ...]
    roles: tuple[str, ...]
    tenant: str
    expires_at: float  # seconds since 1970; 0: never

    def principal(self, address: str = "", listener: str = "") -> Principal:
        found = Principal(address, listener)
        found.user = self.user
        found.method = METHOD
        found.roles = self.roles
        found.tenant = self.tenant
        found.expires_at = self.expires_at
        return found


class Creator:
    """Who makes a token, as far as it matters: which roles and tenants they can give away."""

    def __init__(self, principal: Principal, may_write_users: bool, subjects: Sequence[str]):
        self.principal = principal
        self.may_write_users = may_write_users
        self.subjects = subjects  # all roles that it has, as rules call them


class Tokens:
    def __init__(self, table: Table, creator_of: Callable[[Principal], Creator]) -> None:
        self._table = table
        self._creator_of = creator_of
        self._used_at: dict[str, float] = {}  # by id

    def find(self, text: str) -> ApiToken | None:
        """The token of a secret; None if there is none, or it has expired."""
        match = _TEXT.fullmatch(text)
        token_id, secret = match.groups() if match is not None else ("", "")
        entry = self._table.registry.get(TOKEN + token_id)
        token = self._table.readable(Token, entry) if entry is not None else Token()
        digest = hashlib.sha256(secret.encode("ascii")).hexdigest()
        if not hmac.compare_digest(digest, token.hash or _NO_HASH) or not token.name:
            return None
        now = self._table.time_of_day()
        if _is_expired(token, now):
            return None
        self._used_at[token_id] = now
        return _in_force(token_id, token)

    def of_user(self, user: str) -> ApiToken | None:
        """The token that rules call so, in force or not."""
        if not user.startswith(TOKEN_USER):
            return None
        for entry in self._table.registry.items(TOKEN):
            token = self._table.readable(Token, entry)
            if TOKEN_USER + token.name == user and token.name:
                return _in_force(entry.key[len(TOKEN) :], token)
        return None

    def page(self, match: str = "", after: str = "", limit: int = MOST) -> TokenPage:
        """Those whose name fits a pattern with * and ?, by their ids."""
        found = [
            summary
            for entry in self._table.registry.items(TOKEN)
            if entry.key > TOKEN + after
            and (summary := self._summary(entry))
            and (not match or fnmatchcase(summary.name, match))
        ]
        page = found[: page_limit(limit)]
        left = len(found) - len(page)
        following = page[-1].id if left else ""
        return TokenPage(tuple(page), left, self._table.registry.revision, following)

    def show(self, token_id: str) -> TokenSummary:
        return self._summary(self._entry(token_id))

    @announced("tokens.add", "name", "scopes", "roles", "tenant")
    async def add(
        self,
        name: str,
        scopes: Sequence[str],
        roles: Sequence[str] = (),
        tenant: str = "",
        expires_at: float = 0.0,
        note: str = "",
        creator: Principal | None = None,
        by: str = "",
        reason: str = "",
    ) -> TokenMade:
        """A new token.  `creator`: who may give no more than they have; None: everything."""
        name = checked(token_name, name)
        tokens = self._table.registry.items(TOKEN)
        if any(self._table.readable(Token, each).name == name for each in tokens):
            raise OperationError(f'there is a token "{name}" already: revoke it first')
        if len(tokens) >= MOST_TOKENS:
            raise LimitReached(f"there are {MOST_TOKENS} tokens already: revoke some first")
        now = self._table.time_of_day()
        if expires_at and expires_at <= now:
            raise BadArgument("expires_at: the token would have expired already")
        if not scopes:
            raise BadArgument("scopes: a token without scopes can do nothing")
        token_id = secrets.token_hex(6)
        secret = secrets.token_urlsafe(SECRET_BYTES)
        key = TOKEN + token_id
        try:
            token = changed(
                Token(),
                key,
                {
                    "name": name,
                    "hash": hashlib.sha256(secret.encode("ascii")).hexdigest(),
                    "scopes": list(scopes),
                    "roles": list(roles),
                    "tenant": tenant,
                    "created_at": round(now, 3),
                    "created_by": by,
                    "expires_at": expires_at,
                    "note": note,
                },
            )
        except EntryError as error:
            raise BadArgument(str(error).removeprefix(f"{key}: ")) from None
        self._table.check_roles(f"the token {name}", token.roles)
        if creator is not None:
            self._check_creator(token, self._creator_of(creator))
        done = await self._table.change({key: write(token)}, {key: 0}, key)
        return TokenMade(token_id, name, f"mhub_{token_id}_{secret}", done.version, done.revision)

    def _check_creator(self, token: Token, creator: Creator) -> None:
        """Raises Forbidden."""
        if creator.principal.method == METHOD:
            raise Forbidden("a token makes no tokens: log in as a user")
        if creator.may_write_users:
            return
        for role in token.roles:
            if role_subject(role) not in creator.subjects:
                raise Forbidden(
                    f'you do not have the role "{role}", and so cannot give it to a token; who has'
                    " admin:write on users can"
                )
        if token.tenant != creator.principal.tenant:
            raise Forbidden(
                "a token has the tenant of who makes it; who has admin:write on users can give it"
                " another one"
            )
        subject = user_subject(TOKEN_USER + token.name)
        rows = [*self._table.directory.about(subject), *self._table.directory.extra]
        if any(row.subject == subject for row in rows):
            raise Forbidden(
                f"there are rules about {subject}: who has admin:write on users can make this token"
            )

    @announced("tokens.delete", "token_id")
    async def delete(
        self, token_id: str, expected: str = "", by: str = "", reason: str = ""
    ) -> Deleted:
        """Revoke a token, at once, with the rules about it."""
        entry = self._entry(token_id)
        self._table.check_version(entry, expected)
        token = self._table.readable(Token, entry)
        values: dict[str, str | None] = {entry.key: None}
        for rule in self._table.rules_about(user_subject(TOKEN_USER + token.name)):
            if rule.place.startswith(RULE):
                values[rule.place] = None
        done = await self._table.change(values, {entry.key: entry.hlc})
        self._used_at.pop(token_id, None)
        return Deleted(done.revision, len(values) - 1)

    def _entry(self, token_id: str) -> Entry:
        entry = self._table.registry.get(TOKEN + token_id)
        if entry is None:
            raise NotThere(f'there is no token with the id "{token_id[:40]}"')
        return entry

    def _summary(self, entry: Entry) -> TokenSummary:
        token_id = entry.key[len(TOKEN) :]
        try:
            token = read(Token, entry.key, entry.value)
        except EntryError:
            token = Token(name="?")  # it can be revoked
        return TokenSummary(
            id=token_id,
            name=token.name,
            user=TOKEN_USER + token.name,
            scopes=token.scopes,
            roles=token.roles,
            tenant=token.tenant,
            created_at=token.created_at,
            created_by=token.created_by,
            expires_at=token.expires_at,
            is_expired=_is_expired(token, self._table.time_of_day()),
            last_used_at=self._used_at.get(token_id, 0.0),
            note=token.note,
            version=version_of(entry),
        )


def _is_expired(token: Token, now: float) -> bool:
    return token.expires_at != 0.0 and token.expires_at <= now


def _in_force(token_id: str, token: Token) -> ApiToken:
    return ApiToken(
        token_id,
        token.name,
        TOKEN_USER + token.name,
        token.scopes,
        token.roles,
        token.tenant,
        token.expires_at,
    )
