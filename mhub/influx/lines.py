r"""Points as InfluxDB's line protocol.

    measurement[,tag=value...] field=value[,field=value...] time

Special characters of names and tags (comma, equals sign, space) get a backslash.  A backslash there
is itself unless it stands before one of these, so none may be the last character: it would escape
what follows.  Line breaks have no place in them.  A tag without a value is left out.  Text fields
are in quotes, where quotes and backslashes get one.

An integer ends with `i`; a field that was an integer once cannot become a float, so each field has
one type for ever.
"""

import math
import re
from collections.abc import Mapping
from typing import Final

Field = int | float | bool | str

LARGEST: Final = 2**63 - 1

_BREAKS: Final = re.compile(r"[\x00-\x1f\x7f]")
_SPECIAL: Final = re.compile(r"([,= ])")
_QUOTED: Final = re.compile(r'(["\\])')


def line(
    measurement: str, tags: Mapping[str, str], fields: Mapping[str, Field], time_ms: int
) -> str:
    """One point, with its line break; "" if none of its fields has a value."""
    written = {
        _escaped(name): text
        for key, value in fields.items()
        if (name := _plain(key)) and (text := _value(value))
    }
    if not written:
        return ""
    # Sorted by key, as the server has to do it otherwise.
    plain = {_plain(key): _plain(value) for key, value in tags.items()}
    tagged = "".join(
        f",{_escaped(key)}={_escaped(value)}"
        for key, value in sorted(plain.items())
        if key and value
    )
    listed = ",".join(f"{key}={text}" for key, text in written.items())
    # In the name of a measurement an equals sign is only itself.
    name = _plain(measurement).replace(",", "\\,").replace(" ", "\\ ")
    return f"{name}{tagged} {listed} {time_ms}\n"


def _plain(text: str) -> str:
    """What of a name can be written."""
    return _BREAKS.sub(" ", text).rstrip("\\")


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def _value(value: Field) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{max(-LARGEST, min(value, LARGEST))}i"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else ""
    return '"' + _QUOTED.sub(r"\\\1", _BREAKS.sub(" ", value)) + '"'
