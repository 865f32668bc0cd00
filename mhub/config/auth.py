"""The keys of `[[auth]]` and `[passwords]`.

What a table of `[[auth]]` may have depends on its type: a plugin (`mhub.auth.plugins`) brings the
keys, as a dataclass.  Plugins are only looked at if there is such a table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from mhub.config.kinds import Choice, Integer, Kind, Place, Size, Text
from mhub.config.problems import Wrong, nearest
from mhub.config.schema import Key, ListOf, Table, keys_of, read_one, setting


@dataclass(frozen=True)
class SourceSettings:
    """One table of `[[auth]]`."""

    type: str = setting(
        Text(empty=False), "", "What it is; further keys depend on it.", required=True
    )
    name: str = setting(
        Text(empty=False), "", "What logs and statistics call it.", shown="its type"
    )
    listeners: tuple[str, ...] = setting(
        ListOf(Text(empty=False), low=1),
        (),
        "The names of the listeners whose clients it is asked about.",
        shown="all",
    )
    on_error: str = setting(
        Choice("refuse", "next"),
        "refuse",
        "What becomes of a client about which it cannot tell, as the server that it asks does not"
        " answer: refused, by the reason 0x88 in MQTT 5.0, or left to the next table.",
    )

    options: Any = None  # the keys of its type

    def applies_to(self, listener: str) -> bool:
        return not self.listeners or listener in self.listeners


COMMON: Final = keys_of(SourceSettings)


class Sources(Kind[list[tuple[Place, SourceSettings]]]):
    """The tables, each with its place."""

    name = "list of tables"
    expected = "a list of tables, each headed [[auth]]"

    @property
    def keys(self) -> Mapping[str, Key[Any]]:  # type: ignore[override]
        """Of all of mhub's own types."""
        found = dict(COMMON)
        for keys in self.types().values():
            found |= keys
        return found

    def types(self) -> dict[str, dict[str, Key[Any]]]:
        """What each of mhub's own types has besides."""
        from mhub.auth.plugins import OWN

        return {kind: keys_of(plugin.settings) for kind, plugin in OWN.items()}

    def read(self, value: object, place: Place) -> list[tuple[Place, SourceSettings]]:
        if not isinstance(value, list):
            raise Wrong(self.expected)
        found: list[tuple[Place, SourceSettings]] = []
        names: set[str] = set()
        for index, item in enumerate(value):
            source = read_one(_Source(), item, place.item(index))
            if source is None or not source.type:
                continue
            if source.name in names:
                text = f'"{source.name}" is the name of another one; give it a name of its own'
                place.item(index).at("name").wrong(text)
            names.add(source.name)
            found.append((place.item(index), source))
        return found


class _Source(Kind[SourceSettings]):
    expected = "a table"

    def read(self, value: object, place: Place) -> SourceSettings:
        if not isinstance(value, dict):
            raise Wrong(self.expected)
        plugin = _plugin(value.get("type"), place.at("type"))
        if plugin is None:
            return SourceSettings()  # which keys it may have is anyone's guess
        known = keys_of(plugin.settings)
        given = Table(COMMON | known).read(value, place)
        own = {name: given[name] for name in given if name in COMMON}
        options = plugin.settings(**{name: given[name] for name in given if name in known})
        if not any(place.report.covers(place.at(name).path) for name in known):
            check = getattr(plugin, "check", None)
            if check is not None:
                check(options, place)
        source = SourceSettings(**own, options=options)
        return source if source.name else replace(source, name=source.type)


def _plugin(kind: object, place: Place) -> Any:
    from mhub.auth.plugins import OWN, find, others

    if kind is None:
        place.wrong("missing; expected one of " + _listed(OWN))
        return None
    plugin = find(kind) if isinstance(kind, str) else None
    if plugin is None:
        known = {*OWN, *(each.kind for each in others())}
        near = nearest(kind, known) if isinstance(kind, str) else ""
        hint = f'; did you mean "{near}"?' if near else ""
        place.wrong(f"expected one of {_listed(known)}, found {kind!r}{hint}")
    return plugin


def _listed(kinds: Any) -> str:
    return ", ".join(f'"{kind}"' for kind in sorted(kinds))


@dataclass(frozen=True)
class PasswordSettings:
    """How passwords are checked and hashed."""

    threads: int = setting(
        Integer(0, 64),
        0,
        "How many passwords are checked at a time; each takes a core for as long. 0 is one less"
        " than the machine has cores, at least 1.",
    )
    max_queued: int = setting(
        Integer(1, 100_000),
        100,
        "How many wait for that. Beyond, clients are refused, by the reason 0x89 in MQTT 5.0; those"
        " of the address with the most waiting ones first.",
    )
    memory: int = setting(
        Size(8 << 10, 1 << 30), 19 << 20, "How much memory the hash (argon2id) of a password takes."
    )
    iterations: int = setting(
        Integer(1, 100),
        2,
        "How many times it goes over that. Hashes in the registry that are weaker are made anew at"
        " the next login.",
    )
    scram_iterations: int = setting(
        Integer(4096, 10_000_000),
        600_000,
        "The rounds of SCRAM-SHA-256, which the client has to compute at each login. 4096 is enough"
        " for long random passwords, and what small devices can do.",
    )
