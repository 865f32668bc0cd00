"""Checks of `[[auth]]` that need the listeners; who may come in without proving who they are.

That is nobody from elsewhere, unless the file says so.  A listener on this machine alone, without
an authenticator, lets everybody in.  One with an authenticator lets in whom that knows.  One that
others can reach, without an authenticator, has to say `allow_anonymous = true`: a broker that is
open to all must not come about by leaving out a line.
"""

from dataclasses import replace
from ipaddress import ip_address
from typing import Any, Final

from mhub.config.admin import LISTENER as ADMIN
from mhub.config.auth import SourceSettings
from mhub.config.kinds import Place
from mhub.config.settings import ListenerSettings

ANONYMOUS: Final = "anonymous"
"""The type of `[[auth]]` that lets in who brings no password."""


def check_sources(
    sources: list[tuple[Place, SourceSettings]], listeners: tuple[ListenerSettings, ...]
) -> None:
    """Whether there are the listeners that they are for."""
    names = [*(listener.name for listener in listeners), ADMIN]
    for place, source in sources:
        for index, name in enumerate(source.listeners):
            if name not in names:
                place.at("listeners").item(index).wrong(
                    f'there is no listener "{name}"; there are: {", ".join(names)}'
                )
        if source.type == "certificate" and not any(
            _has_certificates(each) for each in listeners if source.applies_to(each.name)
        ):
            place.wrong(
                "its listeners ask nobody for a certificate: one of them needs"
                ' tls.client_certificate = "optional" or "required", or proxy_protocol'
            )


def _has_certificates(listener: ListenerSettings) -> bool:
    tls = listener.tls
    return listener.proxy_protocol or (tls is not None and tls.client_certificate != "none")


def settle_anonymous(
    listeners: tuple[ListenerSettings, ...],
    tables: list[tuple[Place, dict[str, Any]]],
    sources: list[tuple[Place, SourceSettings]],
    is_general: bool,
) -> tuple[ListenerSettings, ...]:
    """The listeners with `allow_anonymous` as it follows from all that the file says.

    `tables` are those of the listeners, in the same order; `is_general`: [limits] has the key.
    """
    return tuple(
        _settle(listener, place, "allow_anonymous" in table or is_general, sources)
        for listener, (place, table) in zip(listeners, tables, strict=True)
    )


def _settle(
    listener: ListenerSettings,
    place: Place,
    is_given: bool,
    sources: list[tuple[Place, SourceSettings]],
) -> ListenerSettings:
    asked = [source.type for _, source in sources if source.applies_to(listener.name)]
    allowed = listener.limits.allow_anonymous
    if ANONYMOUS in asked:
        if is_given and not allowed:
            place.at("allow_anonymous").wrong(
                f'not together with [[auth]] of type "{ANONYMOUS}" for {listener.name}'
            )
        allowed = True
    elif not is_given:
        allowed = not asked
        if allowed and not is_local(listener) and not _is_unclear(place):
            place.wrong(
                f"others can reach {listener.name} ({listener.address}), and there is no"
                ' authentication. Add [[auth]] with type = "registry", and users by `mhub ctl user'
                " add` (see authentication.md); or set allow_anonymous = true to let everybody in"
            )
    limits = listener.limits
    if limits.allow_anonymous == allowed:
        return listener
    return replace(listener, limits=replace(limits, allow_anonymous=allowed))


def is_local(listener: ListenerSettings) -> bool:
    """Whether only this machine can reach it.  A proxy on this machine brings others along."""
    if listener.proxy_protocol:
        return False
    return listener.transport == "unix" or ip_address(listener.host).is_loopback


def _is_unclear(place: Place) -> bool:
    """What is wrong with the address, or with [[auth]], has been said."""
    report = place.report
    keys = [place.at(name).path for name in ("host", "transport", "allow_anonymous")]
    return any(report.covers(key) for key in keys) or any(
        problem.key == "auth" or problem.key.startswith("auth[") for problem in report.problems
    )
