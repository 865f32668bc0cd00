"""From the settings to the chain: the plugins make the sources."""

import os
from collections.abc import Callable
from typing import Any

from mhub.auth.chain import Chain, Member
from mhub.auth.contract import Context
from mhub.auth.hashes import Costs
from mhub.auth.passwords import Passwords, Threads
from mhub.auth.plugins import find
from mhub.auth.registry_source import RegistrySource
from mhub.auth.registry_source import Settings as RegistrySettings
from mhub.config import Settings
from mhub.config.admin import LISTENER as ADMIN
from mhub.config.auth import PasswordSettings


def make_chain(
    settings: Settings,
    hub: Any,
    passwords: Passwords,
    reactor: Any,
    clock: Callable[[], float],
) -> Chain | None:
    """The chain, or None where nobody is asked.  Raises ConfigError."""
    if not settings.auth:
        return None
    members: list[Member] = []
    context = Context(reactor, clock, hub, passwords, lambda: _clear(members))
    for each in settings.auth:
        source = find(each.type).make(each.name, each.options, context)
        members.append(Member(each.name, source, each.listeners, each.on_error))
    return Chain(members, hub, passwords)


def make_admin_chain(
    chain: Chain | None,
    hub: Any,
    passwords: Passwords,
    reactor: Any,
    clock: Callable[[], float],
) -> Chain:
    """For logins at the admin listener: the authenticators that are for it, and in any case the
    registry, so that whoever runs the broker can always log in."""
    members = list(chain.members_of(ADMIN)) if chain is not None else []
    if not any(isinstance(member.source, RegistrySource) for member in members):
        own: list[Member] = []
        context = Context(reactor, clock, hub, passwords, lambda: _clear(own))
        source = RegistrySource("registry", RegistrySettings(), context)
        own.append(Member("registry", source))
        members = [*own, *members]
        source.start()
    return Chain(members, hub, passwords)


def make_passwords(settings: PasswordSettings, hub: Any, reactor: Any) -> Passwords:
    """For logins, and for those who set passwords."""
    threads = settings.threads or max(1, (os.cpu_count() or 2) - 1)
    return Passwords(
        Threads(threads, reactor),
        threads,
        settings.max_queued,
        hub.stats,
        costs_of(settings),
        settings.scram_iterations,
    )


def costs_of(settings: PasswordSettings) -> Costs:
    """What a new hash costs."""
    return Costs(settings.memory >> 10, settings.iterations)


def _clear(members: list[Member]) -> None:
    """Users may be other ones: those that remember answers forget them."""
    for member in members:
        forget = getattr(member.source, "forget", None)
        if forget is not None:
            forget()
