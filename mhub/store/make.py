"""From the settings to the store that they describe, not yet open.

Each store is imported only when it is wanted: what Redis needs is not installed everywhere.
"""

from typing import Any

from mhub.config.settings import RedisSettings, StoreSettings
from mhub.store.contract import Store, StoreBroken


def make_store(settings: StoreSettings, reactor: Any) -> Store:
    """The store; StoreBroken when something is missing that only the owner can bring."""
    if settings.kind == "memory":
        from mhub.store.memory import MemoryStore

        return MemoryStore()
    if settings.kind == "sqlite":
        from mhub.store.sqlite import SqliteStore

        return SqliteStore(reactor, settings.path, settings.synchronous)
    return _make_redis(settings.redis, reactor)


def _make_redis(redis: RedisSettings, reactor: Any) -> Store:
    try:
        from mhub.store.redis import RedisOptions, RedisStore
    except ModuleNotFoundError as error:
        if error.name != "txredisapi":
            raise
        raise StoreBroken(
            "store.kind = \"redis\" needs txredisapi: pip install 'mhub[redis]'"
        ) from error

    options = RedisOptions(
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
    )
    return RedisStore(reactor, options)


def _password(redis: RedisSettings) -> str:
    if not redis.password_file:
        return redis.password
    try:
        with open(redis.password_file, encoding="utf-8") as file:
            return file.read().strip("\r\n")  # which an editor leaves at the end
    except (OSError, UnicodeDecodeError) as error:
        raise StoreBroken(f"store.redis.password_file {redis.password_file}: {error}") from error
