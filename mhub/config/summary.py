"""What a configuration comes to, in a few lines for `mhub check-config`."""

from mhub.config.access import REGISTRY, AccessSettings
from mhub.config.auth import SourceSettings
from mhub.config.cluster import ClusterSettings
from mhub.config.limits import LIMIT_KEYS
from mhub.config.settings import ListenerSettings, Settings, StoreSettings


def summary(settings: Settings) -> str:
    """The listeners, what is special about each, the store, how clients log in, the cluster."""
    count = len(settings.listeners)
    lines = [f"{settings.file}: fine; {count} listener" + ("s" if count > 1 else "")]
    width = max(len(listener.name) for listener in settings.listeners)
    address = max(len(listener.address) for listener in settings.listeners)
    for listener in settings.listeners:
        text = ", ".join(_special(listener, settings))
        lines.append(f"  {listener.name:<{width}}  {listener.address:<{address}}  {text}".rstrip())
    lines.append(f"  {_store(settings.store)}")
    if settings.auth:
        lines.append(f"  clients are identified by {', then '.join(map(_source, settings.auth))}")
    if settings.access is not None and settings.access.enabled:
        lines.append(f"  {_access(settings.access)}")
    if settings.cluster is not None:
        lines.append(f"  {_cluster(settings.cluster)}")
    if settings.admin is not None and settings.admin.enabled:
        lines.append(f"  admin API and dashboard on {settings.admin.address}")
    if settings.control.required:
        lines.append(f"  control socket {settings.control.path}")
    return "\n".join(lines)


def _source(source: SourceSettings) -> str:
    name = source.name if source.name == source.type else f"{source.name} ({source.type})"
    return f"{name} at {' and '.join(source.listeners)}" if source.listeners else name


def _store(store: StoreSettings) -> str:
    if store.kind == "memory":
        return "sessions and messages in memory: they end with the process"
    if store.kind == "redis":
        secure = " over TLS" if store.redis.tls else ""
        return (
            f"sessions and messages in Redis at {store.redis.address}{secure},"
            f" database {store.redis.db}, keys {store.redis.prefix}*"
        )
    safety = "" if store.synchronous == "full" else f', synchronous = "{store.synchronous}"'
    return f"sessions and messages in {store.path}{safety}"


def _access(access: AccessSettings) -> str:
    place = "the registry" if access.policy == REGISTRY else access.policy
    refused = "" if access.subscribe == "strict" else f', subscribe = "{access.subscribe}"'
    return f"access control by rules in {place}{refused}"


def _cluster(cluster: ClusterSettings) -> str:
    proofs = [
        name
        for name, given in (
            ("certificates", cluster.tls is not None),
            ("a secret", cluster.secret or cluster.secret_file),
        )
        if given
    ]
    others = [*cluster.peers, *([f"SRV {cluster.srv}"] if cluster.srv else [])]
    return (
        f"node {cluster.node} of the cluster {cluster.name} on {cluster.address}, trust by"
        f" {' and '.join(proofs)}; joins {', '.join(others) or 'nobody: it waits for others'}"
    )


def _special(listener: ListenerSettings, settings: Settings) -> list[str]:
    found = []
    if listener.tls is not None:
        found.append(f"TLS {listener.tls.min_version}+")
        if listener.tls.client_certificate != "none":
            found.append(f"client certificate {listener.tls.client_certificate}")
    if listener.proxy_protocol:
        found.append("PROXY protocol")
    if listener.max_connections:
        found.append(f"at most {listener.max_connections} connections")
    if listener.max_sessions:
        found.append(f"at most {listener.max_sessions} sessions")
    if listener.limits.allow_anonymous:
        found.append("anonymous clients allowed")
    for name, key in LIMIT_KEYS.items():
        value = getattr(listener.limits, name)
        if value != getattr(settings.limits, name) and name != "allow_anonymous":
            found.append(f"{name} = {key.kind.show(value)}")
    return found
