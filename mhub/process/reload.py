"""SIGHUP: which settings of the file have changed, which of them are in force now, and which not.

In force at once are the level of the log and, for connections to come, the files with certificates
of a listener.  Everything else needs a restart, and is named at each reload until there was one.  A
file with a mistake changes nothing; the certificates that the broker has are read again all the
same.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from mhub.config import ConfigError, ListenerSettings, Settings, load
from mhub.config.certificates import expiry
from mhub.config.changes import changes
from mhub.log import logger, set_level

CERTIFICATES: Final = ("certificate", "key", "sni", "ca", "crl")
"""The keys of a listener's `tls` that name files."""


def reread(settings: Settings, file: str) -> Settings:
    """What the settings in force become; says what that is, and what else is in the file.

    The caller has to read the certificates.  `file` is "" where there is none.
    """
    log = logger("broker")
    log.info("SIGHUP: reading {what} again", what=f"{file} and certificates" if file else "files")
    if not file:
        _warn(_expiries(settings))
        return settings
    try:
        new = load(file)
    except ConfigError as error:
        log.error("no setting is reloaded, because of mistakes:\n{error}", error=error)
        _warn(_expiries(settings))
        return settings
    _warn(new.warnings)
    in_force = merged(settings, new)
    taken, left = changes(settings, in_force), changes(in_force, new)
    if taken:
        log.info("reloaded: {keys}", keys=", ".join(taken))
    if left:
        log.warn("changed, but only a restart reloads it: {keys}", keys=", ".join(left))
    if not taken and not left:
        log.info("no setting has changed")
    set_level(in_force.log.level)
    return in_force


def merged(old: Settings, new: Settings) -> Settings:
    """The old settings, with what can be taken from the new ones without a restart."""
    others = {listener.name: listener for listener in new.listeners}
    return replace(
        old,
        log=replace(old.log, level=new.log.level),
        listeners=tuple(_with_files(each, others.get(each.name)) for each in old.listeners),
    )


def _with_files(listener: ListenerSettings, other: ListenerSettings | None) -> ListenerSettings:
    if listener.tls is None or other is None or other.tls is None:
        return listener
    files = {name: getattr(other.tls, name) for name in CERTIFICATES}
    return replace(listener, tls=replace(listener.tls, **files))


def _warn(texts: Iterable[str]) -> None:
    for text in texts:
        logger("broker").warn("{text}", text=text)


def _expiries(settings: Settings) -> Iterator[str]:
    """Of all certificates in force, where reading the configuration has not found them."""
    paths = []
    for listener in settings.listeners:
        if listener.tls is not None:
            tls = listener.tls
            paths += [tls.certificate, *(each.certificate for each in tls.sni), tls.ca]
    if settings.cluster is not None and settings.cluster.tls is not None:
        paths += [settings.cluster.tls.certificate, settings.cluster.tls.ca]
    for path in dict.fromkeys(paths):
        if path and (text := expiry(path, datetime.now(UTC))):
            yield text
