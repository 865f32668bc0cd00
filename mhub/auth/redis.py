"""Users in Redis.

Two layouts:

    hash       HGETALL of `user_key`: the fields that mhub.auth.external names
    go-auth    as mosquitto-go-auth has it: strings and sets by the name of the user
                   NAME          the hash of the password
                   NAME:su       "true": a superuser
                   NAME:sacls    filters to which it may subscribe       common:sacls ... of all,
                   NAME:racls    topics that it may read                 with %u and %c in them
                   NAME:wacls    topics that it may write
                   NAME:rwacls   topics that it may read and write

A key that a client can name, and that holds something else, is no user: WRONGTYPE is an answer.
"""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import Deferred

from mhub.auth.contract import Answer, Context, Source, not_mine
from mhub.auth.external import ExternalSettings, ExternalSource, missing_facts
from mhub.auth.facts import Template, facts_of
from mhub.auth.grants import grant
from mhub.config.kinds import Choice, Place, Text
from mhub.config.problems import ConfigError, Problem
from mhub.config.schema import METADATA, setting
from mhub.config.servers import check_redis, password_of
from mhub.config.settings import RedisSettings
from mhub.core.authentication import Claim

if TYPE_CHECKING:
    from mhub.store.redis_link import RedisLink

ACL_SETS: Final = (
    ("sacls", ("subscribe",)),
    ("racls", ("receive",)),
    ("wacls", ("publish",)),
    ("rwacls", ("receive", "publish")),
)


def _same(name: str) -> Any:
    """The key of `[store.redis]`, here as well."""
    key = next(item.metadata[METADATA] for item in fields(RedisSettings) if item.name == name)
    return setting(key.kind, key.default, key.doc, shown=key.shown)


@dataclass(frozen=True, repr=False)  # no repr: it would show the password
class Settings(ExternalSettings):
    layout: str = setting(
        Choice("hash", "go-auth"),
        "hash",
        "How users are kept: a hash for each, or as mosquitto-go-auth has it.",
    )
    user_key: str = setting(
        Text(empty=False),
        "mhub:user:%u",
        "The key of a user's hash, with placeholders (layout `hash` only).",
    )
    host: str = _same("host")
    port: int = _same("port")
    username: str = _same("username")
    password: str = _same("password")
    password_file: str = _same("password_file")
    db: int = _same("db")
    tls: bool = _same("tls")
    ca: str = _same("ca")
    certificate: str = _same("certificate")
    key: str = _same("key")
    sentinels: tuple[str, ...] = _same("sentinels")
    sentinel_name: str = _same("sentinel_name")


def check(settings: Settings, place: Place) -> None:
    check_redis(settings, place)
    try:
        names = Template(settings.user_key).names
    except ValueError as problem:
        place.at("user_key").wrong(str(problem))
    else:
        for name in missing_facts(settings.identify_by, names):
            place.at("user_key").wrong(
                f"needs %{{{name}}}, which says who the client is (identify_by)"
            )
        if "password" in names:
            place.at("user_key").wrong("must not have the password in it")
    if settings.layout == "go-auth" and settings.identify_by != "username":
        place.at("identify_by").wrong('layout = "go-auth" knows user names only')


def make(name: str, settings: Settings, context: Context) -> Source:
    try:
        from mhub.store.redis_link import RedisLink, RedisOptions
    except ModuleNotFoundError as error:
        if error.name != "txredisapi":
            raise
        text = 'type = "redis" needs the package txredisapi: pip install txredisapi'
        raise ConfigError(f"auth {name}", [Problem("", 0, text)]) from error
    options = RedisOptions(
        host=settings.host,
        port=settings.port,
        username=settings.username,
        password=password_of(settings, f"auth {name}"),
        db=settings.db,
        prefix="",
        tls=settings.tls,
        ca=settings.ca,
        certificate=settings.certificate,
        key=settings.key,
        sentinels=settings.sentinels,
        sentinel_name=settings.sentinel_name,
        timeout_s=settings.timeout_s,
    )
    return RedisSource(name, settings, context, RedisLink(context.reactor, options))


class RedisSource(ExternalSource):
    kind = "redis"

    def __init__(self, name: str, settings: Settings, context: Context, link: "RedisLink") -> None:
        super().__init__(name, settings, context)
        self._link = link
        self._layout = settings.layout
        self._superusers = bool(settings.superuser_role)
        self._user_key = Template(settings.user_key)
        self.facts = tuple(self._user_key.names) if settings.layout == "hash" else ()

    def stop(self) -> "Deferred[None] | None":
        super().stop()
        return Deferred.fromCoroutine(self._link.close())

    async def judge(self, claim: Claim) -> Answer:
        if self._layout == "hash":
            found = await self._ask(claim, self._hash, claim)
            return await self.verify(claim, found) if found else not_mine()
        name = self.name_of(claim)
        password = await self._ask(claim, self._get, name)
        answer = await self.verify(claim, {"password_hash": password})
        if answer.identity is None:
            return answer
        return self.accept(claim, await self._ask(claim, self._rights, name), others=False)

    async def _ask(self, claim: Claim, look_up: Any, *arguments: Any) -> Any:
        return await self.ask(claim, lambda: Deferred.fromCoroutine(look_up(*arguments)))

    async def _hash(self, claim: Claim) -> dict[str, Any]:
        key = self._user_key.fill(facts_of(claim, self._user_key.names))
        parts = await self._command("HGETALL", key) or []
        names = [name.decode("utf-8", "replace") for name in parts[::2]]
        return dict(zip(names, parts[1::2], strict=True))

    async def _get(self, key: str) -> bytes | None:
        found: bytes | None = await self._command("GET", key)
        return found

    async def _rights(self, name: str) -> dict[str, Any]:
        grants: list[str] = []
        for owner, placeholders in ((name, False), ("common", True)):
            for suffix, actions in ACL_SETS:
                topics = await self._command("SMEMBERS", f"{owner}:{suffix}") or []
                for topic in sorted(topics):
                    for action in actions:
                        text = topic.decode("utf-8", "replace")
                        grants.append(grant(action, text, placeholders))
        return {
            "grants": [line for line in grants if line],
            "superuser": self._superusers and await self._get(f"{name}:su") == b"true",
        }

    async def _command(self, *words: str) -> Any:
        from mhub.store.redis_link import WrongType

        try:
            return await self._link.command(*words)
        except WrongType:
            return None
