"""The arguments of an operation as they come in JSON, checked against what it takes."""

from collections.abc import Mapping
from typing import Final

from mhub.config.problems import nearest
from mhub.operations.contract import BadArgument

KINDS: Final[dict[type, str]] = {
    str: "text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


def checked(given: Mapping[str, object], parameters: Mapping[str, object]) -> dict[str, object]:
    """What an operation is called with.

    A parameter is its default, or the type of what must be given.  Raises BadArgument.
    """
    for name in given:
        if name not in parameters:
            near = nearest(name, parameters)
            raise BadArgument(
                f"unknown argument {name!r}" + (f"; did you mean {near!r}?" if near else "")
            )
    found = {}
    for name, default in parameters.items():
        kind = default if isinstance(default, type) else type(default)
        value = given.get(name, default)
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise BadArgument(f"{name}: expected {KINDS[kind]}")
        found[name] = value
    return found
