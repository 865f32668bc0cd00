"""The listeners of new settings in the place of those that are there: a part of a reload.

prepare()  binds the sockets that are new, and reads all certificates, also where nothing else has
           changed: they may have been renewed in the same files
apply()    gives each listener its socket, closes those that nobody has any more, and lets clients
           in; nothing of it can fail

A socket belongs to an address, not to a listener: where an old and a new listener have the same
address, the new one takes it over, with all who wait to be accepted, whatever the names are.  So
two listeners can change places within one reload.

Clients stay connected if there is still a listener of the same name, transport and PROXY protocol,
at whatever address.  All others are told 0x98 (Administrative action).  A listener that an operator
has closed stays closed, unless a key of its own has another value now.

A new socket listens from prepare() on, as that can fail as well.  Whoever connects to it before
apply() waits to be accepted, and is turned away if the reload is refused.
"""

import errno
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mhub.config import ListenerSettings, Settings
from mhub.config.listeners import collide
from mhub.config.reloadable import LISTENERS
from mhub.core.hub import Hub
from mhub.core.limits import Limits
from mhub.log import logger
from mhub.net.entries import Dismissals, Entry
from mhub.net.listen import ListenError, adjust, bind, configure
from mhub.net.loop import Acceptor, Loop
from mhub.net.tls import TlsContexts, TlsError

Place = tuple[object, ...]


@dataclass
class Plan:
    """One listener to be."""

    settings: ListenerSettings
    sock: socket.socket | None  # None: it stays closed
    tls: TlsContexts | None
    is_new: bool  # the socket is


class ListenersPart:
    """`entries` gives the listeners that there are, by name; `replaced` gets those that follow."""

    name = LISTENERS

    def __init__(
        self,
        loop: Loop,
        hub: Hub,
        entries: Callable[[], dict[str, Entry]],
        replaced: Callable[[dict[str, Entry]], None],
        dismissals: Dismissals,
    ) -> None:
        self._loop = loop
        self._hub = hub
        self._entries = entries
        self._replaced = replaced
        self._dismissals = dismissals

    async def prepare(self, old: Settings, new: Settings) -> "NewListeners":
        """Raises ListenError and TlsError."""
        entries = self._entries()
        bound = {
            place_of(settings): each
            for each in entries.values()
            if each.is_bound
            for settings in (each.settings, each.shown)  # with a port that the system chose
        }
        plans: list[Plan] = []
        try:
            for settings in new.listeners:
                plan = Plan(settings, None, _contexts(settings), False)
                plans.append(plan)
                before = entries.get(settings.name)
                if before is not None and before.was_closed and _is_same(before.settings, settings):
                    continue
                owner = bound.get(place_of(settings))
                if owner is not None:
                    plan.sock = owner.acceptor.listener
                else:
                    plan.sock = _listen(settings, entries)
                    plan.is_new = True
        except (ListenError, TlsError):
            _close(plans)
            raise
        return NewListeners(self, plans)

    def apply(self, plans: list[Plan]) -> None:
        loop, before = self._loop, self._entries()
        kept_sockets = {plan.sock for plan in plans}
        for entry in before.values():
            loop.withdraw(entry.acceptor)
            if entry.acceptor.listener not in kept_sockets:
                entry.close_socket()
        after = {plan.settings.name: self._take(plan, before) for plan in plans}
        for name, entry in before.items():
            other = after.get(name)
            if other is None or other.acceptor is not entry.acceptor:
                text = "its listener was removed" if other is None else "its listener has changed"
                self._dismissals.add(loop.links_of(entry.acceptor), text)
        self._replaced(after)

    def _take(self, plan: Plan, before: Mapping[str, Entry]) -> Entry:
        settings = plan.settings
        entry = before.get(settings.name)
        was = entry.shown.address if entry is not None and entry.is_open else ""
        if entry is None or not _keeps_clients(entry.settings, settings):
            sock = plan.sock if plan.sock is not None else _no_socket()
            entry = Entry(settings, Acceptor(settings.name, sock, settings.limits), plan.tls)
        elif plan.sock is not None:
            entry.acceptor.listener = plan.sock
        if entry.acceptor.limits == settings.limits:
            # The same object for connections that have it already.
            settings = replace(settings, limits=entry.acceptor.limits)
        else:
            self._hub.listener_limits.put(settings.name, settings.limits)
            self._hub.quotas_changed(None)
        entry.settings = settings
        if entry.tls is not None and plan.tls is not None:
            entry.tls.take_from(plan.tls)
        else:
            entry.tls = plan.tls
        configure(entry.acceptor, settings, entry.tls)
        entry.is_open = plan.sock is not None
        if plan.sock is not None:
            entry.was_closed = False
            self._open(entry, was)
        if plan.tls is not None:
            logger("net").info("{name}: certificates reloaded", name=settings.name)
        return entry

    def _open(self, entry: Entry, was: str) -> None:
        try:
            adjust(entry.acceptor.listener, entry.settings)
        except OSError as error:
            logger("net").error(
                "listener {name}: options of its socket stay as they were: {error}",
                name=entry.settings.name,
                error=error.strerror,
            )
        self._loop.listen(entry.acceptor)
        if entry.shown.address != was:
            logger("net").info(
                "listening on {address} ({name})",
                address=entry.shown.address,
                name=entry.settings.name,
            )


class NewListeners:
    """Prepared ones."""

    def __init__(self, part: ListenersPart, plans: list[Plan]) -> None:
        self._part = part
        self._plans = plans

    def apply(self) -> None:
        self._part.apply(self._plans)

    def discard(self) -> None:
        _close(self._plans)


def place_of(settings: ListenerSettings) -> Place:
    """What a socket is bound to; where the system chooses the port, the name stands for it."""
    if settings.transport == "unix":
        return ("unix", settings.path)
    name = "" if settings.port else settings.name
    return (settings.host, settings.port, settings.bind_interface, name)


def _contexts(settings: ListenerSettings) -> TlsContexts | None:
    try:
        return TlsContexts(settings.tls) if settings.tls is not None else None
    except TlsError as error:
        raise TlsError(f"listener {settings.name}: {error}") from error


def _listen(settings: ListenerSettings, entries: Mapping[str, Entry]) -> socket.socket:
    made: socket.socket | None = None
    try:
        made = bind(settings)
        made.listen(settings.backlog)
        return made
    except (ListenError, OSError) as error:
        if made is not None:
            made.close()
        why: Any = error.__cause__ if isinstance(error, ListenError) else error
        text = str(error)
        if not isinstance(error, ListenError):
            text = f"listener {settings.name}: cannot listen on {settings.address}: {error}"
        for each in entries.values():
            in_use = why is not None and why.errno == errno.EADDRINUSE
            if in_use and each.is_bound and collide(each.shown, settings):
                text += (
                    f". The listener {each.settings.name} has {each.shown.address} until the"
                    " reload is done: remove it with one reload and add this one with the next, or"
                    " restart the broker"
                )
        raise ListenError(text) from error


def _is_same(one: ListenerSettings, other: ListenerSettings) -> bool:
    """Whether all keys of their own are the same: what [limits] says is not theirs."""
    return one == replace(other, limits=one.limits)


def _keeps_clients(one: ListenerSettings, other: ListenerSettings) -> bool:
    return (one.transport, one.proxy_protocol) == (other.transport, other.proxy_protocol)


def _no_socket() -> socket.socket:
    made = socket.socket()
    made.close()
    return made


def _close(plans: list[Plan]) -> None:
    for plan in plans:
        if plan.is_new and plan.sock is not None:
            Entry(plan.settings, Acceptor("", plan.sock, Limits()), None).close_socket()
