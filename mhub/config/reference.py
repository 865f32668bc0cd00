"""The reference of all keys, in Markdown, made from the schema.

`docs/configuration.md` holds it between two marks; a test compares the two.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mhub.config.auth import COMMON, Sources
from mhub.config.limits import LIMIT_KEYS
from mhub.config.listeners import LISTENER_KEYS
from mhub.config.load import BROKER_KEYS, TOP
from mhub.config.mosquitto import BRIDGES, OPTIONS
from mhub.config.reloadable import table
from mhub.config.schema import Key

BEGIN: Final = "<!-- reference: made by `python -m mhub.config --write docs/configuration.md` -->\n"
END: Final = "<!-- end of the reference -->\n"


def reference() -> str:
    """Every table with its keys, what a reload takes, and the options of mosquitto.conf."""
    return "\n".join(_lines()) + "\n"


def update(text: str) -> str:
    """`text` with what is between the marks made anew."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{reference()}\n{END}{rest.split(END)[1]}"


def all_keys(keys: Mapping[str, Key[Any]] = TOP, path: str = "") -> Iterator[str]:
    """Every key by its path; a list of tables is named like one table."""
    for name, entry in keys.items():
        yield path + name
        yield from all_keys(entry.kind.keys, f"{path}{name}.")


def _lines() -> Iterator[str]:
    yield "## Keys"
    for name, entry in TOP.items():
        yield ""
        yield f"### `[[{name}]]`" if name in ("listeners", "auth") else f"### `[{name}]`"
        yield ""
        yield entry.doc
        if name == "limits":
            yield from _table("For the broker as a whole:", BROKER_KEYS)
            yield from _table("For each client, and also as keys of a listener:", LIMIT_KEYS)
        elif name == "listeners":
            yield from _table(
                "Besides these, each listener may have the keys that `[limits]` has for a client.",
                LISTENER_KEYS,
            )
            yield from _inner("listeners", LISTENER_KEYS)
        elif isinstance(entry.kind, Sources):
            yield from _table("", COMMON)
            for kind, keys in entry.kind.types().items():
                yield from ["", f'#### `[[auth]]` with `type = "{kind}"`']
                yield from _table("" if keys else "It has no keys of its own.", keys)
        else:
            plain = {key: of for key, of in entry.kind.keys.items() if not of.kind.keys}
            if plain:
                yield from _table("", plain)
            yield from _inner(name, entry.kind.keys)
    yield from _reload()
    yield from _mosquitto()


def _reload() -> Iterator[str]:
    yield from ["", "## What a reload takes", ""]
    yield "A reload ([running](running.md#reload)) takes these tables and keys; all others need a"
    yield from ["restart.", ""]
    yield from table()


def _inner(path: str, keys: Mapping[str, Key[Any]]) -> Iterator[str]:
    """The tables inside a table."""
    for name, entry in keys.items():
        if entry.kind.keys:
            inner = f"{path}.{name}"
            yield from [
                "",
                f"#### `[[{inner}]]`" if entry.default == () else f"#### `[{inner}]`",
                "",
                entry.doc,
            ]
            yield from _table("", entry.kind.keys)
            yield from _inner(inner, entry.kind.keys)


def _table(head: str, keys: Mapping[str, Key[Any]]) -> Iterator[str]:
    if head:
        yield from ["", head]
    if not keys:
        return
    yield from ["", "| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, entry in keys.items():
        doc = f"{entry.doc} ({' and '.join(entry.only)} only)" if _is_narrow(entry) else entry.doc
        yield f"| `{name}` | {entry.kind.name} | {_default(entry)} | {doc} |"


def _is_narrow(entry: Key[Any]) -> bool:
    return 0 < len(entry.only) < 3


def _default(entry: Key[Any]) -> str:
    if entry.required:
        return "required"
    if entry.default is None:
        return "none"
    return entry.shown or f"`{entry.kind.show(entry.default)}`"


def _mosquitto() -> Iterator[str]:
    yield from ["", "## Coming from mosquitto.conf", ""]
    yield "`mhub import mosquitto.conf` makes a configuration from such a file; see"
    yield "[from Mosquitto](mosquitto.md). A dash says that mhub does not offer it."
    yield from ["", "| mosquitto.conf | mhub | |", "| --- | --- | --- |"]
    for option, (ours, note) in OPTIONS.items():
        yield f"| `{option}` | {', '.join(f'`{key}`' for key in ours) or '-'} | {note} |"
    yield f"| `connection` and all options of bridges | - | {BRIDGES} |"
