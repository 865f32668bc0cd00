"""From the settings to the store that they describe, not yet open.

Each store is imported only when it is wanted: what Redis needs is not installed everywhere.
"""

from typing import TYPE_CHECKING, Any

from mhub.config.settings import RedisSettings, StoreSettings
from mhub.store.contract import Store, StoreBroken

if TYPE_CHECKING:
    from mhub.store.redis_link import RedisOptions


def make_store(settings: StoreSettings, reactor: Any) -> Store:
    """The store; StoreBroken when something is missing that only the owner can bring."""
    if settings.kind == "memory":
        from mhub.store.memory import MemoryStore

        return MemoryStore()
    if settings.kind == "sqlite":
        from mhub.store.sqlite import SqliteStore

        return SqliteStore(reactor, settings.path, settings.synchronous)
    options = redis_options(settings.redis, settings.redis.prefix)
    from mhub.store.redis import RedisStore

    return RedisStore(reactor, options)


def redis_options(redis: RedisSettings, prefix: str) -> "RedisOptions":
    """How to reach the keys with this prefix on the server of the settings."""
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
        prefix=prefix,
        tls=redis.tls,
        ca=redis.ca,
        certificate=redis.certificate,
        key=redis.key,
        sentinels=redis.sentinels,
        sentinel_name=redis.sentinel_name,
        timeout_s=redis.timeout_s,
    )


def _password(redis: RedisSettings) -> str:
    if not redis.password_file:
        return redis.password
    try:
        with open(redis.password_file, encoding="utf-8") as file:
            return file.read().strip("\r\n")  # which an editor leaves at the end
    except (OSError, UnicodeDecodeError) as error:
        raise StoreBroken(f"store.redis.password_file {redis.password_file}: {error}") from error
