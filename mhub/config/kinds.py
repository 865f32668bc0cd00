"""What a value may be: how each kind is checked, converted, and named in the reference.

A kind turns what `tomllib` gives into what the broker uses.  When it cannot, it raises `Wrong` with
what it expected.  The kinds that hold others (lists, tables) are in `schema`.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from mhub.auth.addresses import parse_network, show_network
from mhub.config.lines import join
from mhub.config.problems import Report, Wrong, describe, nearest
from mhub.config.units import parse_duration, parse_size, show_duration, show_size

T = TypeVar("T")

REDACTED: Final = "***"
"""What stands in the place of a secret."""

_USER_INFO: Final = re.compile(r"//[^/?#]*@")
_PLACEHOLDER: Final = re.compile(r"%[uc]|%\{[^}]*\}")
_HOST_PORT: Final = re.compile(
    r"(?:(?P<host>[^\s:\[\]]+)|\[(?P<v6>[^\s\[\]]+)\]):(?P<port>[0-9]{1,5})", re.ASCII
)


@dataclass(frozen=True)
class Place:
    """Where in the file a value stands, and who is told about it."""

    report: Report
    folder: Path  # of the configuration file: relative paths start here
    path: str = ""

    def at(self, name: str) -> "Place":
        return Place(self.report, self.folder, join(self.path, name))

    def item(self, index: int) -> "Place":
        return Place(self.report, self.folder, f"{self.path}[{index}]")

    def wrong(self, text: str) -> None:
        self.report.add(self.path, text)


class Kind(Generic[T]):
    """`name` is for the reference; `expected` continues the sentence "expected …"."""

    name = ""
    expected = ""
    keys: Mapping[str, Any] = MappingProxyType({})  # of the table, where it is one

    def read(self, value: object, place: Place) -> T:
        raise NotImplementedError

    def show(self, value: T) -> str:
        """The value as it would stand in the file."""
        return describe(value)

    def found(self, value: object) -> str:
        """What stands in the file, in a message about a mistake there."""
        return describe(value)

    def redacted(self, value: T) -> object:
        """The value for people and programs that ask for the configuration."""
        return value


class Boolean(Kind[bool]):
    name = "boolean"
    expected = "true or false"

    def read(self, value: object, place: Place) -> bool:
        if not isinstance(value, bool):
            raise Wrong(self.expected)
        return value


class Integer(Kind[int]):
    def __init__(self, low: int, high: int | None = None) -> None:
        self.low, self.high = low, high
        span = f"{low} or more" if high is None else f"from {low} to {high}"
        self.name = f"integer {span}"
        self.expected = f"an integer {span}" if high is not None else f"an integer, {span}"

    def read(self, value: object, place: Place) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise Wrong(self.expected)
        if value < self.low or (self.high is not None and value > self.high):
            raise Wrong(self.expected)
        return value


class Number(Kind[float]):
    """Any number, whole or not."""

    def __init__(self, low: int, high: int) -> None:
        self._low, self._high = low, high
        self.name = f"number from {low} to {high}"
        self.expected = f"a {self.name}"

    def read(self, value: object, place: Place) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise Wrong(self.expected)
        if not self._low <= value <= self._high:  # NaN fails it too
            raise Wrong(self.expected)
        return float(value)

    def show(self, value: float) -> str:
        return f"{value:g}"


class Text(Kind[str]):
    def __init__(
        self, *, empty: bool = True, check: Callable[[str], bool] | None = None, what: str = ""
    ) -> None:
        self._empty, self._check = empty, check
        self.name = what or "string"
        self.expected = (
            f"a string: {what}" if what else "a string" if empty else "a string that is not empty"
        )

    def read(self, value: object, place: Place) -> str:
        if not isinstance(value, str) or (not value and not self._empty):
            raise Wrong(self.expected)
        if value and self._check is not None and not self._check(value):
            raise Wrong(self.expected)
        return value


class Secret(Text):
    """A text that nobody may read who can read the configuration: password, token, shared secret.

    Whoever shows settings asks redacted(), and gets a mark; so does whoever reports a mistake.
    """

    def found(self, value: object) -> str:
        return "something that is not shown here, as it may be a secret"

    def redacted(self, value: str) -> object:
        return REDACTED if value else ""

    def show(self, value: str) -> str:
        return describe(REDACTED if value else "")


class Url(Text):
    """A URL, of which is shown what it asks, and not with which key: what stands in its query, but
    for placeholders, and what somebody has put in front of its host."""

    def found(self, value: object) -> str:
        return describe(_without_secrets(value) if isinstance(value, str) else value)

    def redacted(self, value: str) -> object:
        return _without_secrets(value)

    def show(self, value: str) -> str:
        return describe(_without_secrets(value))


def _without_secrets(url: str) -> str:
    head, mark, query = _USER_INFO.sub(f"//{REDACTED}@", url).partition("?")
    return head + mark + "&".join(map(_without_value, query.split("&")))


def _without_value(part: str) -> str:
    name, equals, value = part.partition("=")
    if not equals:
        name, value = "", part
    if value and not _PLACEHOLDER.fullmatch(value):
        value = REDACTED
    return f"{name}{equals}{value}"


class Texts(Kind[tuple[tuple[str, str], ...]]):
    """A table of strings, whose keys are free: gives them as pairs, in their order.

    With `secret`, the strings are as in Secret, and the keys are not.
    """

    name = "table of strings"
    expected = "a table of strings"

    def __init__(self, *, secret: bool = False) -> None:
        self.is_secret = secret

    def read(self, value: object, place: Place) -> tuple[tuple[str, str], ...]:
        if not isinstance(value, dict):
            raise Wrong(self.expected)
        for name, item in value.items():
            if not isinstance(item, str):
                found = Secret().found(item) if self.is_secret else describe(item)
                place.at(name).wrong(f"expected a string, found {found}")
        return tuple((name, item) for name, item in value.items() if isinstance(item, str))

    def redacted(self, value: tuple[tuple[str, str], ...]) -> object:
        return {name: REDACTED if self.is_secret and item else item for name, item in value}

    def show(self, value: tuple[tuple[str, str], ...]) -> str:
        pairs = ", ".join(f"{name} = {describe(item)}" for name, item in value)
        return f"{{ {pairs} }}" if pairs else "{}"


class Choice(Kind[str]):
    def __init__(self, *options: str) -> None:
        self.options = options
        self.name = " or ".join(f'`"{option}"`' for option in options)
        self.expected = "one of " + ", ".join(f'"{option}"' for option in options)

    def read(self, value: object, place: Place) -> str:
        if isinstance(value, str) and value in self.options:
            return value
        near = nearest(value, self.options) if isinstance(value, str) else ""
        raise Wrong(self.expected, f'did you mean "{near}"?' if near else "")


class Size(Kind[int]):
    name = "size"

    def __init__(self, low: int, high: int | None = None) -> None:
        self._low, self._high = low, high
        span = (
            f"from {show_size(low)} to {show_size(high)}"
            if high
            else "of 0 or more"
            if not low
            else (f"of {show_size(low)} or more")
        )
        self.expected = f'a size {span}, as bytes or as text such as "64 KiB" or "10 MB"'

    def read(self, value: object, place: Place) -> int:
        size = parse_size(value) if isinstance(value, str) else value
        if not isinstance(size, int) or isinstance(size, bool):
            raise Wrong(self.expected)
        if size < self._low or (self._high is not None and size > self._high):
            raise Wrong(self.expected)
        return size

    def show(self, value: int) -> str:
        return describe(show_size(value)) if value else "0"


class Seconds(Kind[float]):
    """A duration; `forever` is the number that "never" stands for, where that makes sense."""

    name = "duration"

    def __init__(self, low: float, high: float, *, forever: int | None = None) -> None:
        self._low, self._high, self._forever = low, high, forever
        top = '"never"' if forever is not None else show_duration(high)
        self.expected = (
            f"a duration from {show_duration(low)} to {top},"
            ' in seconds or as text such as "30s" or "1h"'
        )

    def read(self, value: object, place: Place) -> float:
        if self._forever is not None and value == "never":
            return self._forever
        seconds = parse_duration(value) if isinstance(value, str) else value
        if not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
            raise Wrong(self.expected)
        # Written so that NaN, which TOML can spell, fails it too.
        if not self._low <= seconds <= self._high:
            raise Wrong(self.expected)
        return float(seconds)

    def show(self, value: float) -> str:
        if value == self._forever:
            return '"never"'
        return describe(show_duration(value)) if value else "0"


class WholeSeconds(Kind[int]):
    """A duration that MQTT carries as an integer."""

    name = "duration, whole seconds"

    def __init__(self, low: int, high: int, *, forever: int | None = None) -> None:
        self._inner = Seconds(low, high, forever=forever)
        self.expected = self._inner.expected.replace("a duration", "a duration of whole seconds", 1)

    def read(self, value: object, place: Place) -> int:
        try:
            seconds = self._inner.read(value, place)
        except Wrong:
            raise Wrong(self.expected) from None
        if seconds != int(seconds):
            raise Wrong(self.expected)
        return int(seconds)

    def show(self, value: int) -> str:
        return self._inner.show(value)


class Host(Kind[str]):
    """An address to listen on.  Names are not looked up: which address a name gives can change."""

    name = "IP address"
    expected = 'an IPv4 or IPv6 address, or "localhost"'

    def read(self, value: object, place: Place) -> str:
        if not isinstance(value, str):
            raise Wrong(self.expected)
        if value == "localhost":
            return "127.0.0.1"
        bare = value[1:-1] if value.startswith("[") and value.endswith("]") else value
        try:
            return str(ip_address(bare))
        except ValueError:
            pass
        hint = ""
        if value in ("", "*"):
            hint = '"0.0.0.0" is every IPv4 address, "::" every address of both kinds'
        elif re.fullmatch(r"\[.+\]:\d+|[^:]+:\d+", value):
            hint = "the port has its own key, `port`"
        raise Wrong(self.expected, hint)


class Network(Kind[str]):
    """An address, or a network of them."""

    name = 'address or network, `"192.0.2.0/24"`'
    expected = 'an IP address, or a network such as "192.0.2.0/24" or "2001:db8::/32"'

    def read(self, value: object, place: Place) -> str:
        if not isinstance(value, str):
            raise Wrong(self.expected)
        try:
            return show_network(parse_network(value))
        except ValueError as error:
            raise Wrong(self.expected, str(error)) from None


class HostPort(Kind[str]):
    """Where to find a server; `numeric`: by its address only, where there is nobody to ask."""

    def __init__(self, *, numeric: bool = False) -> None:
        self._numeric = numeric
        self.name = '"address:port"' if numeric else '"host:port"'
        self.expected = f"a string: {self.name}" + (" with an IP address" if numeric else "")

    def read(self, value: object, place: Place) -> str:
        match = _HOST_PORT.fullmatch(value) if isinstance(value, str) else None
        if match is None or not 1 <= int(match["port"]) <= 65535:
            raise Wrong(self.expected)
        if self._numeric or match["v6"]:
            try:
                ip_address(match["v6"] or match["host"])
            except ValueError:
                raise Wrong(self.expected) from None
        return match[0]


class SyslogAddress(Kind[str]):
    """A socket of this machine, or an address: a name would have to be looked up for each line."""

    name = 'path or "address:port"'
    expected = 'a string: the path of a socket, or "address:port" with an IP address'

    def read(self, value: object, place: Place) -> str:
        if isinstance(value, str) and value.startswith("/"):
            return FilePath().read(value, place)
        try:
            return HostPort(numeric=True).read(value, place)
        except Wrong:
            raise Wrong(self.expected) from None


def join_address(host: str, port: int) -> str:
    """ "host:port", with the brackets that IPv6 needs."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class FileMode(Kind[int]):
    name = "octal digits in a string"
    expected = 'permissions as octal digits in a string, such as "0660"'

    def read(self, value: object, place: Place) -> int:
        if not isinstance(value, str) or not re.fullmatch(r"0?[0-7]{3}", value):
            raise Wrong(self.expected)
        return int(value, 8)

    def show(self, value: int) -> str:
        return f'"{value:04o}"'


class FilePath(Kind[str]):
    """A path; with `off`, "" is one as well and says that there shall be none."""

    name = "path"
    expected = "a path"

    def __init__(self, *, off: bool = False) -> None:
        self._off = off

    def read(self, value: object, place: Place) -> str:
        if self._off and value == "":
            return ""
        if not isinstance(value, str) or not value or "\0" in value:
            raise Wrong(self.expected)
        try:
            path = Path(value).expanduser()
        except RuntimeError:
            raise Wrong(self.expected, "there is no such home directory") from None
        return os.path.normpath(place.folder / path)
