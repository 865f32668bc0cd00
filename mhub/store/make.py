"""From the settings to the store that they describe, not yet open.

Each store is imported only when it is wanted: what Redis needs is not installed everywhere.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mhub.config.settings import LEASE_S, RedisSettings, Settings
from mhub.store.contract import SharedStore, Store, StoreBroken, StoreTaken

if TYPE_CHECKING:
    from mhub.store.redis_link import RedisOptions


def make_store(settings: Settings, reactor: Any) -> Store:
    """The store of this node; StoreBroken if something is missing that only the owner can bring."""
    store = settings.store
    if store.kind == "memory":
        from mhub.store.memory import MemoryStore

        return MemoryStore()
    if store.kind == "sqlite":
        from mhub.store.sqlite import SqliteStore

        return SqliteStore(reactor, store.path, store.synchronous)
    return make_shared(settings, reactor)


def fault_of(settings: Settings) -> str:
    """What keeps the store from ever being opened here, behind its key; "" if nothing is known.

    Nothing is opened: a Redis server is not asked.
    """
    store = settings.store
    if store.kind == "sqlite":
        from mhub.store.sqlite_access import fault_at

        fault = fault_at(store.path)
        return f"store.path: {fault}" if fault else ""
    if store.kind == "redis":
        try:
            _redis_options(store.redis, "")
        except StoreBroken as error:
            return str(error)
    return ""


def make_shared(
    settings: Settings,
    reactor: Any,
    taken: Callable[[StoreTaken], None] | None = None,
) -> SharedStore:
    """As make_store(), where `store.is_shared`; taken() hears that another one has the lease."""
    node = settings.cluster.node if settings.cluster is not None else ""
    options = _redis_options(settings.store.redis, node)
    from mhub.store.redis import RedisStore

    return RedisStore(reactor, options, taken=taken)


def _redis_options(redis: RedisSettings, node: str) -> "RedisOptions":
    try:
        from mhub.store.redis_link import RedisOptions
    except ModuleNotFoundError as error:
        if error.name != "txredisapi":
            raise
        raise StoreBroken(
            'store.kind = "redis" needs the package txredisapi: pip install txredisapi'
        ) from error

    return RedisOptions(
        host=redis.host,
        port=redis.port,
        username=redis.username,
        password=_password(redis),
        db=redis.db,
        prefix=redis.prefix,
        node=node,
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
