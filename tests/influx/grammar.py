"""A strict reader of line protocol: what InfluxDB takes, and not a character more.

Written from the grammar alone, so that it shares no mistake with what it checks:

    point        = measurement *("," tag-key "=" tag-value) " " field *("," field) " " integer LF
    measurement  = 1*( any but "," " " "\\" LF / "\\" any )
    tag, key     = 1*( any but "," " " "=" "\\" LF / "\\" any )
    field        = key "=" ( number / integer "i" / "true" / "false" / DQUOTE text DQUOTE )

A backslash in a name is only taken before what it escapes: a comma, a space, an equals sign.
"""

import re
from dataclasses import dataclass


class BadLine(Exception):
    """What is wrong, and where."""


@dataclass(frozen=True)
class Point:
    measurement: str
    tags: dict[str, str]
    fields: dict[str, object]
    time: int


NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")
INTEGER = re.compile(r"(-?(?:0|[1-9][0-9]*))i")
TIME = re.compile(r"-?[1-9][0-9]{0,18}")


def parse(data: bytes) -> list[Point]:
    text = data.decode("utf-8")
    if not text.endswith("\n"):
        raise BadLine("the last line has no end")
    return [_point(line) for line in text[:-1].split("\n")]


class _Reader:
    def __init__(self, line: str) -> None:
        self.line = line
        self.at = 0

    def fail(self, why: str) -> BadLine:
        return BadLine(f"{why} at {self.at} of {self.line!r}")

    def name(self, ends: str) -> str:
        """Up to one of `ends`, which is not read."""
        found = ""
        while self.at < len(self.line) and self.line[self.at] not in ends:
            character = self.line[self.at]
            if ord(character) < 32:
                raise self.fail("a control character")
            if character == "\\":
                following = self.line[self.at + 1 : self.at + 2]
                if following and following in ", =":
                    character = following
                    self.at += 1
            found += character
            self.at += 1
        if not found:
            raise self.fail("an empty name")
        return found

    def take(self, character: str) -> bool:
        if self.line.startswith(character, self.at):
            self.at += len(character)
            return True
        return False

    def expect(self, character: str) -> None:
        if not self.take(character):
            raise self.fail(f"expected {character!r}")

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.line, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def value(self) -> object:
        if self.take('"'):
            return self._quoted()
        for word, value in (("true", True), ("false", False)):
            if self.take(word):
                return value
        whole = self.match(INTEGER)
        if whole is not None:
            number = int(whole[1])
            if not -(2**63) <= number < 2**63:
                raise self.fail("not an integer of 64 bits")
            return number
        real = self.match(NUMBER)
        if real is None:
            raise self.fail("not a value")
        return float(real[0])

    def _quoted(self) -> str:
        found = ""
        while not self.take('"'):
            if self.at >= len(self.line):
                raise self.fail("a text without an end")
            if self.line[self.at] == "\\":
                self.at += 1
                if self.line[self.at : self.at + 1] not in ('"', "\\"):
                    raise self.fail("a backslash before nothing special")
            found += self.line[self.at]
            self.at += 1
        return found


def _point(line: str) -> Point:
    reader = _Reader(line)
    if line.startswith("#"):
        raise reader.fail("a comment")
    measurement = reader.name(", ")
    tags: dict[str, str] = {}
    while reader.take(","):
        key = reader.name(",= ")
        reader.expect("=")
        if key in tags:
            raise reader.fail(f"the tag {key} again")
        tags[key] = reader.name(",= ")
    if list(tags) != sorted(tags):
        raise reader.fail("tags that are not sorted")
    reader.expect(" ")
    fields: dict[str, object] = {}
    while True:
        key = reader.name(",= ")
        reader.expect("=")
        if key in fields:
            raise reader.fail(f"the field {key} again")
        fields[key] = reader.value()
        if not reader.take(","):
            break
    reader.expect(" ")
    time = reader.match(TIME)
    if time is None or reader.at != len(line):
        raise reader.fail("not a time")
    return Point(measurement, tags, fields, int(time[0]))
