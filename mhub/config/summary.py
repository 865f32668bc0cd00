"""What a configuration comes to, in a few lines for `mhub check-config`."""

from mhub.config.limits import LIMIT_KEYS
from mhub.config.settings import ListenerSettings, Settings


def summary(settings: Settings) -> str:
    """The listeners, what is special about each, and how clients log in."""
    count = len(settings.listeners)
    lines = [f"{settings.file}: fine; {count} listener" + ("s" if count > 1 else "")]
    width = max(len(listener.name) for listener in settings.listeners)
    address = max(len(listener.address) for listener in settings.listeners)
    for listener in settings.listeners:
        text = ", ".join(_special(listener, settings))
        lines.append(f"  {listener.name:<{width}}  {listener.address:<{address}}  {text}".rstrip())
    if settings.auth.scram is not None:
        lines.append(f"  SCRAM-SHA-256 users from {settings.auth.scram.users_file}")
    return "\n".join(lines)


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
    if listener.limits.allow_anonymous:
        found.append("anonymous clients allowed")
    for name, key in LIMIT_KEYS.items():
        value = getattr(listener.limits, name)
        if value != getattr(settings.limits, name) and name != "allow_anonymous":
            found.append(f"{name} = {key.kind.show(value)}")
    return found
