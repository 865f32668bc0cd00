"""Logins: passwords that are checked, and the sessions of those who were right.

A password is checked by the same authenticators as that of an MQTT client, with the same decoys, so
that a login that fails takes as long for an unknown name; bans and lock-outs are the same too, as
if `admin` were one of the listeners.  Users of the registry can always log in, also where no
`[[auth]]` names it.

A session is a random id that only its owner knows: what is kept is a digest of it.  It ends by
logout, when nothing was asked for `idle_s`, after `max_s` in any case, when its user is deleted,
locked or banned, and when the password is another one than that of the login.  It lives in the
memory of one node.  Each has a second secret that a page has to send with every change, as a page
of somebody else cannot (CSRF).

HTTP basic would cost a password hash with each request.  So what was right is remembered for a
minute, as a digest under a key of this process, for as long as its user is the same.
"""

import hmac
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from mhub.auth.addresses import host_of
from mhub.auth.chain import Chain
from mhub.auth.lookup import parse_entry
from mhub.config.admin import LISTENER, AdminSettings
from mhub.core.admission import CREDENTIALS
from mhub.core.authentication import SUCCESS, Claim
from mhub.core.guard import Refusal
from mhub.core.hub import Hub
from mhub.core.principal import Principal
from mhub.log import logger
from mhub.operations.contract import OperationError, Unavailable

USER: Final = "user/"

BASIC_S: Final = 60.0
"""How long a password that was right is not checked again."""

MOST_BASIC: Final = 1000

WRONG: Final = "the user name or the password is wrong"


class NotLoggedIn(OperationError):
    """Whoever asks has not proved who it is."""


@dataclass
class Session:
    principal: Principal
    csrf: str
    began_at: float
    used_at: float
    mark: str  # of the user's entry at the login; "": the registry does not have it


class Logins:
    def __init__(
        self,
        hub: Hub,
        settings: AdminSettings,
        clock: Callable[[], float],
        time_of_day: Callable[[], float],
    ) -> None:
        """`chain` has to be set before the first login."""
        self.chain: Chain | None = None
        self.settings = settings
        self.failed = 0
        self.succeeded = 0
        self._hub = hub
        self._clock = clock
        self._time_of_day = time_of_day
        self._sessions: dict[bytes, Session] = {}  # by digest; the one that was used last is last
        self._basic: dict[bytes, tuple[float, Principal, str]] = {}
        self._key = secrets.token_bytes(32)
        self._log = logger("admin")

    # Passwords

    async def check(self, user: str, password: str, address: str) -> Principal:
        """Who it is.  Raises NotLoggedIn, or Unavailable if nobody can tell."""
        principal = Principal(address, LISTENER)
        principal.claimed_user = user
        guard = self._hub.admission.guard
        if guard is not None:
            self._refuse(guard.arriving(principal), user, address)
        claim = Claim(principal, None)
        claim.username = user
        claim.password = password.encode("utf-8", "surrogatepass")
        assert self.chain is not None
        members = self.chain.members_of(LISTENER)
        step = await self.chain.decide(
            claim, [(member, member.source.check) for member in members], True
        )
        identity = step.identity
        if step.outcome != SUCCESS or identity is None or not identity.user:
            self.failed += 1
            self._log.info(
                "login of {user} from {address} refused: {text}",
                user=repr(user),
                address=address,
                text=step.text or "it proves no user",
            )
            if step.reason not in CREDENTIALS and step.outcome != SUCCESS:
                raise Unavailable("the login cannot be checked at the moment; try again later")
            if guard is not None:
                self._refuse(guard.failed(principal, step.user or user), user, address)
            raise NotLoggedIn(WRONG)
        principal = principal.identified(identity)
        if guard is not None:
            self._refuse(guard.admitted(principal), user, address)
        self.succeeded += 1
        return principal

    def _refuse(self, refusal: Refusal | None, user: str, address: str) -> None:
        if refusal is not None:
            self._log.info(
                "login of {user} from {address} refused: {text}",
                user=repr(user),
                address=address,
                text=refusal.text,
            )
            raise NotLoggedIn(f"{WRONG}, or there were too many attempts: try again later")

    async def basic(self, user: str, password: str, address: str) -> Principal:
        """As check(), for one who sends it with each request."""
        now = self._clock()
        key = hmac.digest(self._key, f"{user}\0{password}\0{host_of(address)}".encode(), "sha256")
        known = self._basic.pop(key, None)
        if known is not None and now < known[0] and self._is_valid(known[1], known[2]):
            self._basic[key] = known
            return known[1]
        principal = await self.check(user, password, address)
        self._basic[key] = (now + BASIC_S, principal, self._mark(principal.user))
        while len(self._basic) > MOST_BASIC:
            del self._basic[next(iter(self._basic))]
        return principal

    # Sessions

    async def login(self, user: str, password: str, address: str) -> tuple[str, Session]:
        """The id of a new session, and the session."""
        principal = await self.check(user, password, address)
        now = self._clock()
        self._make_room(principal.user, now)
        name = secrets.token_urlsafe(32)
        session = Session(
            principal, secrets.token_urlsafe(32), now, now, self._mark(principal.user)
        )
        self._sessions[_digest(name)] = session
        self._log.info("{user} has logged in from {address}", user=repr(user), address=address)
        return name, session

    def find(self, name: str, renews: bool = True) -> Session | None:
        """The session of an id, if it is one that goes on; `renews`: something is asked for."""
        key = _digest(name)
        session = self._sessions.get(key)
        if session is None:
            return None
        now = self._clock()
        is_over = self._is_over(session, now)
        if is_over or not self._is_valid(session.principal, session.mark):
            del self._sessions[key]
            return None
        if renews:
            session.used_at = now
            del self._sessions[key]
            self._sessions[key] = session
        return session

    def logout(self, name: str) -> None:
        self._sessions.pop(_digest(name), None)

    def end_others(self, user: str, name: str) -> int:
        """All sessions of a user but one: its password is another one."""
        keep = _digest(name)
        gone = [
            key
            for key, session in self._sessions.items()
            if session.principal.user == user and key != keep
        ]
        for key in gone:
            del self._sessions[key]
        kept = self._sessions.get(keep)
        if kept is not None and kept.principal.user == user:
            kept.mark = self._mark(user)
        return len(gone)

    def count(self) -> int:
        self._sweep(self._clock())
        return len(self._sessions)

    def ends_at(self, session: Session) -> float:
        """When it is over if nothing more is asked, as a time of day."""
        settings = self.settings
        end = min(
            session.began_at + settings.session_max_s, session.used_at + settings.session_idle_s
        )
        return self._time_of_day() + end - self._clock()

    def _make_room(self, user: str, now: float) -> None:
        self._sweep(now)
        most = self.settings.max_sessions
        own = [key for key, each in self._sessions.items() if each.principal.user == user]
        for key in own[: max(0, len(own) + 1 - max(1, most // 10))]:
            del self._sessions[key]
        while len(self._sessions) >= most:
            del self._sessions[next(iter(self._sessions))]

    def _sweep(self, now: float) -> None:
        for key, session in list(self._sessions.items()):
            if self._is_over(session, now):
                del self._sessions[key]

    def _is_over(self, session: Session, now: float) -> bool:
        settings = self.settings
        return (
            now >= session.began_at + settings.session_max_s
            or now >= session.used_at + settings.session_idle_s
        )

    # Users that change meanwhile

    def is_banned(self, principal: Principal) -> bool:
        guard = self._hub.admission.guard
        return guard is not None and guard.banned(principal)

    def _is_valid(self, principal: Principal, mark: str) -> bool:
        if principal.expires_at and principal.expires_at <= self._time_of_day():
            return False
        if self.is_banned(principal):
            return False
        return self._mark(principal.user) == mark

    def _mark(self, user: str) -> str:
        """What a session depends on, of the entry of its user; roles may change meanwhile, and so
        may the hash, which a login can replace by a better one of the same password."""
        entry = self._hub.registry.get(USER + user)
        if entry is None:
            return ""
        known = parse_entry(entry.value)
        return json.dumps([known.get(name) for name in ("created_at", "password_at", "locked")])


def _digest(name: str) -> bytes:
    return sha256(name.encode("utf-8", "replace")).digest()
