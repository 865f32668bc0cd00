"""From `[[listeners]]` tables to `ListenerSettings`, with the checks that need several keys."""

import os
import stat
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final

from mhub.config.certificates import check_tls
from mhub.config.kinds import Kind, Place
from mhub.config.limits import LIMIT_KEYS
from mhub.config.problems import Wrong
from mhub.config.schema import Table, keys_of, read_one
from mhub.config.settings import PORTS, SECURE, ListenerSettings
from mhub.core.limits import Limits

LISTENER_KEYS: Final = keys_of(ListenerSettings)
MAX_UNIX_PATH: Final = 107  # what the kernel's address structure holds, in bytes


class Listeners(Kind[list[tuple[Place, dict[str, Any]]]]):
    """The tables, each with its place: what follows reports about them by their number."""

    name = "list of tables"
    expected = "a list of tables, each headed [[listeners]]"
    keys = LISTENER_KEYS | LIMIT_KEYS

    def read(self, value: object, place: Place) -> list[tuple[Place, dict[str, Any]]]:
        if not isinstance(value, list):
            raise Wrong(self.expected)
        found = []
        listener = Table(self.keys)
        for index, item in enumerate(value):
            table = read_one(listener, item, place.item(index))
            if table is not None:
                found.append((place.item(index), table))
        return found


def build_listeners(
    tables: list[tuple[Place, dict[str, Any]]], limits: Limits
) -> tuple[ListenerSettings, ...]:
    """Settings for each table, checked one by one and against each other."""
    built = [(place, _build(place, table, limits)) for place, table in tables]
    names: dict[str, Place] = {}
    for index, (place, listener) in enumerate(built):
        other = names.setdefault(listener.name, place)
        if other is not place:
            place.at("name").wrong(f'"{listener.name}" is the name of {other.path} too')
        for before, earlier in built[:index]:
            if collide(listener, earlier):
                key = "path" if listener.transport == "unix" else "port"
                place.at(key).wrong(f"{before.path} listens on {earlier.address} already")
                break
    return tuple(listener for _, listener in built)


def _build(place: Place, table: dict[str, Any], limits: Limits) -> ListenerSettings:
    own = {name: value for name, value in table.items() if name in LISTENER_KEYS}
    overrides = {name: value for name, value in table.items() if name in LIMIT_KEYS}
    limits = replace(limits, **overrides, max_listener_sessions=own.get("max_sessions", 0))
    listener = ListenerSettings(**own, limits=limits)
    if place.report.covers(place.at("transport").path):
        return listener  # which keys it needs is anyone's guess
    for name in own:
        only = LISTENER_KEYS[name].only
        if only and listener.transport not in only:
            place.at(name).wrong(
                f"only for transport {' or '.join(only)}; this listener's is {listener.transport}"
            )
    if listener.transport == "unix":
        _check_unix(listener, place)
    elif listener.port < 0:
        listener = replace(listener, port=_default_port(listener.transport, place))
    if listener.transport in SECURE:
        if listener.tls is not None:
            check_tls(listener.tls, place.at("tls"))
        elif not place.report.covers(place.at("tls").path):
            place.at("tls").wrong(
                f"missing; transport {listener.transport} needs tls.certificate and tls.key"
            )
    if not listener.name:
        listener = replace(listener, name=_name(listener))
    return listener


def _default_port(transport: str, place: Place) -> int:
    if transport not in PORTS and not place.report.covers(place.at("port").path):
        place.at("port").wrong(f"missing; transport {transport} has no usual port")
    return PORTS.get(transport, 0)


def _check_unix(listener: ListenerSettings, place: Place) -> None:
    at = place.at("path")
    if not listener.path:
        if not place.report.covers(at.path):
            at.wrong("missing; transport unix needs it")
    elif (length := len(os.fsencode(listener.path))) > MAX_UNIX_PATH:
        at.wrong(f"expected at most {MAX_UNIX_PATH} bytes, found {length}: {listener.path}")
    else:
        check_socket_file(listener.path, at)


def check_socket_file(path: str, place: Place) -> None:
    """Report a file that is in the place where a Unix socket should be."""
    if not place.report.reads_files:
        return
    if os.path.exists(path) and not stat.S_ISSOCK(os.stat(path).st_mode):
        place.wrong(f"{path} exists and is not a socket")


def _name(listener: ListenerSettings) -> str:
    if listener.transport == "unix":
        return f"unix-{os.path.basename(listener.path)}"
    return f"{listener.transport}-{listener.port}"


def collide(one: ListenerSettings, other: ListenerSettings) -> bool:
    """Whether the two would listen on the same address."""
    if "unix" in (one.transport, other.transport):
        return one.transport == other.transport and bool(one.path) and one.path == other.path
    if one.port != other.port or one.port == 0 or one.bind_interface != other.bind_interface:
        return False
    a, b = ip_address(one.host), ip_address(other.host)
    return a == b or _takes_in(a, b) or _takes_in(b, a)


def _takes_in(wide: IPv4Address | IPv6Address, address: IPv4Address | IPv6Address) -> bool:
    # "::" is bound for IPv4 too.
    return wide.is_unspecified and (wide.version == 6 or address.version == 4)
