"""From the settings to the store that they describe, not yet open.

Each store is imported only when it is wanted: what Redis needs is not installed everywhere.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mhub.config.settings import LEASE_S, RedisSettings, Settings, StoreSettings
from mhub.store.contract import Store, StoreBroken, StoreTaken

if TYPE_CHECKING:
    from mhub.store.redis import RedisStore
    from mhub.store.redis_link import RedisOptions


def own_store(settings: Settings) -> StoreSettings:
    """The store of this node: in a cluster, all can have the same Redis in their configuration."""
    store = settings.store
    if settings.cluster is None or store.kind != "redis":
        return store
    prefix = node_prefix(store, settings.cluster.node)
    return replace(store, redis=replace(store.redis, prefix=prefix))


def node_prefix(store: StoreSettings, node: str) -> str:
    """What the keys of a node begin with."""
    return f"{store.redis.prefix}{node}:"


def make_store(settings: StoreSettings, reactor: Any) -> Store:
    """The store; StoreBroken when something is missing that only the owner can bring."""
    if settings.kind == "memory":
        from mhub.store.memory import MemoryStore

        return MemoryStore()
    if settings.kind == "sqlite":
        from mhub.store.sqlite import SqliteStore

        return SqliteStore(reactor, settings.path, settings.synchronous)
    return make_redis(settings, reactor)


def make_redis(
    settings: StoreSettings,
    reactor: Any,
    taken: Callable[[StoreTaken], None] | None = None,
) -> "RedisStore":
    """As make_store() for Redis; taken() hears that another broker has taken its place."""
    options = _redis_options(settings.redis)
    from mhub.store.redis import RedisStore

    return RedisStore(reactor, options, taken=taken)


def _redis_options(redis: RedisSettings) -> "RedisOptions":
    try:
        from mhub.store.redis_link import RedisOptions
    except ModuleNotFoundError as error:
        if error.name != "txredisapi":
            raise
        raise StoreBroken(
            "store.kind = \"redis\" needs txredisapi: pip install 'mhub[redis]'"
        ) from error

    return RedisOptions(
        host=redis.host,
        port=redis.port,
        username=redis.username,
        password=_password(redis),
        db=redis.db,
        prefix=redis.prefix,
        tls=redis.tls,
        ca=redis.ca,
        certificate=redis.certificate,
        key=redis.key,
        sentinels=redis.sentinels,
        sentinel_name=redis.sentinel_name,
        timeout_s=redis.timeout_s,
        lease_s=LEASE_S,
    )


def _password(redis: RedisSettings) -> str:
    if not redis.password_file:
        return redis.password
    try:
        with open(redis.password_file, encoding="utf-8") as file:
            return file.read().strip("\r\n")  # which an editor leaves at the end
    except (OSError, UnicodeDecodeError) as error:
        raise StoreBroken(f"store.redis.password_file {redis.password_file}: {error}") from error
