"""`type = "jwt"`: clients that bring a JSON Web Token, as their password or by AUTH.

    CONNECT with a password that is a token          -> check
    CONNECT with Authentication Method "JWT",        -> check_token; a client of this kind sends the
    AUTH later, with the next token                     next one before the first has expired

The signature is PyJWT's; which algorithms a key is for is in `jwt_keys`.  Claims are judged here,
by the time of day of the broker.  The connection ends when the token does (`expires_at`).

What is no token, or one of another issuer, or signed with a key that is not known here, is left to
the next authenticator.
"""

import base64
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import Deferred

from mhub.auth.contract import Answer, Context, Source, cannot_tell, is_plain, no, not_mine, yes
from mhub.auth.external import Malformed, grants_of
from mhub.config.certificates import read_file
from mhub.config.kinds import Boolean, Choice, FilePath, Place, Seconds, Secret, Text
from mhub.config.problems import ConfigError, Problem
from mhub.config.schema import ListOf, setting
from mhub.core.authentication import Claim
from mhub.core.principal import Identity
from mhub.wire import reasons

if TYPE_CHECKING:
    from mhub.auth.jwks import KeySet

METHOD: Final = "JWT"
MAX_TOKEN: Final = 16 << 10
MAX_TRIES: Final = 8
"""Keys that a signature is tried with, where a token names none."""

ALGORITHMS: Final = (
    *("HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)

_TOKEN: Final = re.compile(rb"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_FILES: Final = ("secret_file", "key_file", "jwks_file")


@dataclass(frozen=True, repr=False)  # no repr: it would show the secret
class Settings:
    secret: str = setting(
        Secret(),
        "",
        "The secret that tokens are signed with: 32 bytes or more for HS256, 48 for HS384, 64 for"
        " HS512.",
        shown="none",
    )
    secret_file: str = setting(
        FilePath(), "", "A file with it, in the place of `secret`.", shown="none"
    )
    key_file: str = setting(
        FilePath(),
        "",
        "The public key that signatures are checked with, or a certificate that has it, as a PEM"
        " file: RSA, EC (P-256, P-384, P-521), Ed25519 or Ed448.",
        shown="none",
    )
    jwks_file: str = setting(
        FilePath(),
        "",
        "A JSON Web Key Set with such keys. Files are read again when they change.",
        shown="none",
    )
    jwks_url: str = setting(
        Text(check=lambda url: url.startswith(("https://", "http://")), what="a URL"),
        "",
        "Where the issuer publishes its keys. `https`, but on this machine.",
        shown="none",
    )
    jwks_refresh_s: float = setting(
        Seconds(10, 86400 * 7),
        600.0,
        "How often the keys are fetched from there; also when a token names another key, but not"
        " more than once in 10 seconds.",
    )
    jwks_timeout_s: float = setting(Seconds(0.1, 600), 5.0, "How long that may take.")
    ca: str = setting(
        FilePath(),
        "",
        "The authorities that the certificate of `jwks_url` must come from, in one PEM file.",
        shown="the system's",
    )
    algorithms: tuple[str, ...] = setting(
        ListOf(Choice(*ALGORITHMS)),
        (),
        "Which algorithms are accepted, of those that the keys are for.",
        shown="all that the keys are for",
    )
    issuer: str = setting(
        Text(),
        "",
        "What the claim `iss` has to be; tokens of others are left to the next table.",
        shown="anything",
    )
    audience: tuple[str, ...] = setting(
        ListOf(Text(empty=False)),
        (),
        "One of these has to be in the claim `aud`. Without them, tokens with that claim are"
        " refused: they are for somebody else.",
    )
    leeway_s: float = setting(
        Seconds(0, 600), 10.0, "How far the clocks of issuer and broker may be apart."
    )
    require_expiry: bool = setting(
        Boolean(), True, "Refuse tokens without an end (`exp`), which nobody can take back."
    )
    user_claim: str = setting(
        Text(empty=False),
        "sub",
        "The claim that is the user. Here and below a name with dots goes into objects, as"
        " `realm_access.roles`.",
    )
    match_username: bool = setting(
        Boolean(), False, "Refuse clients whose user name is not the user of the token."
    )
    client_id_claim: str = setting(
        Text(), "", "A claim that has to be the client id, so that a token is for one client only."
    )
    roles_claim: str = setting(
        Text(), "roles", "The claim with the roles: a list, or text with spaces between them."
    )
    tenant_claim: str = setting(Text(), "tenant", "The claim with the tenant.")
    grants_claim: str = setting(
        Text(),
        "grants",
        "The claim with rules for this client alone, a list of lines `ACTION, TOPIC, CONDITION,"
        " EFFECT`; see `policy.md`.",
    )
    attributes: tuple[str, ...] = setting(
        ListOf(Text(empty=False)),
        (),
        "Claims that become attributes of the user, under the last part of their names.",
    )


def check(settings: Settings, place: Place) -> None:
    given = [
        name
        for name in ("secret", "secret_file", "key_file", "jwks_file", "jwks_url")
        if getattr(settings, name)
    ]
    if not given:
        place.wrong("needs secret, secret_file, key_file, jwks_file or jwks_url")
    if "secret" in given and "secret_file" in given:
        place.at("secret_file").wrong("not together with secret")
    if settings.ca and not settings.jwks_url.startswith("https://"):
        place.at("ca").wrong("needs a jwks_url with https")
    try:
        from mhub.auth import jwks, jwt_keys
    except ModuleNotFoundError as error:
        place.at("type").wrong(f"{_needs(error)}[jwt]'")
        return
    if settings.jwks_url:
        try:
            import mhub.auth.http_client  # noqa: F401
        except ModuleNotFoundError as error:
            place.at("jwks_url").wrong(f"{_needs(error)}[jwt,http]'")
    problem = jwks.url_problem(settings.jwks_url) if settings.jwks_url else ""
    if problem:
        place.at("jwks_url").wrong(problem)
    for name in _FILES:
        path = getattr(settings, name)
        data = read_file(path, place.at(name)) if path else None
        if data is not None:
            try:
                jwks.keys_in(name, data)
            except jwt_keys.BadKey as error:
                place.at(name).wrong(f"{path}: {error}")
    if settings.secret:
        try:
            jwt_keys.secret_key(settings.secret.encode())
        except jwt_keys.BadKey as error:
            place.at("secret").wrong(str(error))


def make(name: str, settings: Settings, context: Context) -> Source:
    try:
        from mhub.auth.jwks import KeySet
    except ModuleNotFoundError as error:
        raise ConfigError(f"auth {name}", [Problem("", 0, f"{_needs(error)}[jwt]'")]) from error
    return JwtSource(settings, KeySet(name, settings, context))


def _needs(error: ModuleNotFoundError) -> str:
    return f"needs the package {error.name}: pip install 'mhub-broker"


class _Refused(Exception):
    """Why a token is not accepted."""


class JwtSource:
    method = METHOD

    def __init__(
        self, settings: Settings, keys: "KeySet", wall: Callable[[], float] = time.time
    ) -> None:
        self._settings = settings
        self._keys = keys
        self._wall = wall

    def start(self) -> None:
        self._keys.start()

    def stop(self) -> "Deferred[None] | None":
        return self._keys.stop()

    def reload(self) -> None:
        self._keys.reload()

    def check(self, claim: Claim) -> "Answer | Deferred[Answer]":
        return self.check_token(claim, claim.password) if claim.password else not_mine()

    def check_token(self, claim: Claim, token: bytes) -> "Answer | Deferred[Answer]":
        if len(token) > MAX_TOKEN or _TOKEN.fullmatch(token) is None:
            return not_mine()
        parts = token.split(b".")
        header, payload = _decode(parts[0]), _decode(parts[1])
        if header is None or payload is None:
            return not_mine()
        if self._settings.issuer and payload.get("iss") != self._settings.issuer:
            return not_mine()
        kid, algorithm = header.get("kid", ""), header.get("alg")
        if not isinstance(kid, str) or not isinstance(algorithm, str):
            return not_mine()
        if "crit" in header or header.get("b64", True) is not True:
            return no("a token with extensions that are not known here")
        allowed = self._settings.algorithms or ALGORITHMS
        if algorithm not in allowed:
            return no(f"a token signed by {algorithm[:20]!r}, which is not accepted")
        if self._keys.choose(kid, algorithm) or not self._keys.may_find(kid):
            return self._judge(claim, token, kid, algorithm)
        return Deferred.fromCoroutine(self._find(claim, token, kid, algorithm))

    async def _find(self, claim: Claim, token: bytes, kid: str, algorithm: str) -> Answer:
        """The key may be there by now."""
        await self._keys.fetch()
        return self._judge(claim, token, kid, algorithm)

    def _judge(self, claim: Claim, token: bytes, kid: str, algorithm: str) -> Answer:
        keys = self._keys.choose(kid, algorithm)
        if not keys:
            if self._keys.problem:
                return cannot_tell(self._keys.problem)
            return no("a token signed by a key or an algorithm that is not known here")
        payload = _verified(token, [key.key for key in keys[:MAX_TRIES]], algorithm)
        if payload is None:
            return no("a token with a wrong signature")
        try:
            self._check_times(payload)
            self._check_audience(payload)
            return yes(self._identity(claim, payload))
        except (_Refused, Malformed) as problem:
            return no(f"a token {problem}", reasons.NOT_AUTHORIZED)

    def _check_times(self, payload: dict[str, Any]) -> None:
        now, leeway_s = self._wall(), self._settings.leeway_s
        expires_at = _time(payload, "exp")
        if expires_at is None:
            if self._settings.require_expiry:
                raise _Refused("without exp")
        elif now >= expires_at + leeway_s:
            raise _Refused("that has expired")
        not_before = _time(payload, "nbf")
        if not_before is not None and now < not_before - leeway_s:
            raise _Refused("that is not valid yet (nbf)")
        issued_at = _time(payload, "iat")
        if issued_at is not None and now < issued_at - leeway_s:
            raise _Refused("from the future (iat)")

    def _check_audience(self, payload: dict[str, Any]) -> None:
        if "aud" not in payload and not self._settings.audience:
            return
        given = payload.get("aud")
        found = given if isinstance(given, list) else [given]
        if not any(each in self._settings.audience for each in found if isinstance(each, str)):
            raise _Refused("for somebody else (aud)")

    def _identity(self, claim: Claim, payload: dict[str, Any]) -> Identity:
        settings = self._settings
        user = _look_up(payload, settings.user_claim)
        if not isinstance(user, str) or not user or not is_plain(user):
            raise _Refused(f"without a user ({settings.user_claim})")
        if settings.match_username and claim.username is not None and claim.username != user:
            raise _Refused("of another user than the client's user name")
        if settings.client_id_claim:
            if _look_up(payload, settings.client_id_claim) != claim.principal.client_id:
                raise _Refused(f"for another client ({settings.client_id_claim})")
        identity = Identity(user, METHOD)
        identity.roles = _texts(payload, settings.roles_claim)
        tenant = _look_up(payload, settings.tenant_claim) if settings.tenant_claim else None
        if not isinstance(tenant, (str, type(None))):
            raise _Refused(f"whose {settings.tenant_claim} is not text")
        identity.tenant = tenant or ""
        if settings.grants_claim:
            identity.grants = grants_of(_look_up(payload, settings.grants_claim))
        attributes = {}
        for path in settings.attributes:
            value = _look_up(payload, path)
            if isinstance(value, (str, int, float)):
                text = value if isinstance(value, str) else json.dumps(value)
                attributes[path.rpartition(".")[2]] = text
        if attributes:
            identity.attributes = attributes
        expires_at = _time(payload, "exp")
        if expires_at is not None:
            identity.expires_at = expires_at + settings.leeway_s
        return identity


def _verified(token: bytes, keys: list[Any], algorithm: str) -> dict[str, Any] | None:
    """The payload, if one of the keys has signed it."""
    from jwt import PyJWS
    from jwt.exceptions import PyJWTError

    for key in keys:
        try:
            found = PyJWS().decode_complete(token, key, algorithms=[algorithm])
        except (PyJWTError, ValueError, TypeError):
            continue
        try:
            payload = json.loads(found["payload"])
        except (ValueError, RecursionError):
            return None
        return payload if isinstance(payload, dict) else None
    return None


def _decode(part: bytes) -> dict[str, Any] | None:
    """Header or payload, of which nothing is verified."""
    try:
        found = json.loads(base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _time(payload: dict[str, Any], name: str) -> float | None:
    if name not in payload:
        return None
    value = payload[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e12:
        raise _Refused(f"whose {name} is not a time")
    return float(value)


def _texts(payload: dict[str, Any], path: str) -> tuple[str, ...]:
    value = _look_up(payload, path) if path else None
    if value is None:
        return ()
    if isinstance(value, str):
        return tuple(value.split())
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _Refused(f"whose {path} is not a list of texts")
    return tuple(dict.fromkeys(value))


def _look_up(payload: dict[str, Any], path: str) -> Any:
    """A claim; its whole name first, as some have URLs for names."""
    if path in payload:
        return payload[path]
    found: Any = payload
    for name in path.split("."):
        if not isinstance(found, dict) or name not in found:
            return None
        found = found[name]
    return found
