"""Queries that an operator has written, and the parameters in them.

    select password_hash from users where name = :username and device = :client_id
    select topic from acl where username = $1 and rw = $2      as mosquitto-go-auth has them, for
    select topic from acl where username = ? and rw = ?        PostgreSQL and MySQL: name, access

A parameter is a value for the driver to bind, wherever it stands; one inside quotes or a comment is
text.  What is a quote differs between the two, so each has its own grammar here.
"""

import re
from collections.abc import Sequence
from typing import Final

_COMMON: Final = r"""
    (?P<name> (?<![:\w]) :(?P<word>[A-Za-z_]\w*) )
  | (?P<number> \$(?P<digits>\d+) )
  | (?P<mark> \? )
  | (?P<percent> % )
"""
_POSTGRESQL: Final = re.compile(
    r"""
    (?P<text>
        \b[Ee]'(?:[^'\\]|\\.|'')*'          # with escapes
      | '(?:[^']|'')*'
      | "(?:[^"]|"")*"
      | \$(?P<tag>(?:[A-Za-z_]\w*)?)\$.*?\$(?P=tag)\$
      | --[^\n]*
      | /\*.*?\*/
      | ::                                  # a cast
    )
  | """
    + _COMMON,
    re.VERBOSE | re.DOTALL,
)
_MYSQL: Final = re.compile(
    r"""
    (?P<text>
        '(?:[^'\\]|\\.|'')*'
      | "(?:[^"\\]|\\.|"")*"
      | `(?:[^`]|``)*`
      | --\s[^\n]*
      | \#[^\n]*
      | /\*.*?\*/
    )
  | """
    + _COMMON,
    re.VERBOSE | re.DOTALL,
)
GRAMMARS: Final = {"postgresql": _POSTGRESQL, "mysql": _MYSQL}


class Query:
    """`text` is for the driver, with %(name)s for each of `names`.  Raises ValueError.

    `numbered` are the parameters that $1, $2 or the first and second `?` stand for.
    """

    def __init__(
        self, sql: str, dialect: str, known: Sequence[str], numbered: Sequence[str]
    ) -> None:
        self.names: list[str] = []
        self._known = known
        self._numbered = numbered
        self._dialect = dialect
        self._marks = 0
        self.text = GRAMMARS[dialect].sub(self._replace, sql)

    def _replace(self, found: re.Match[str]) -> str:
        if found["percent"]:
            return "%%"
        if found["text"]:
            return found["text"].replace("%", "%%")
        name = found["word"]
        if name is None:
            index = self._index(found)
            if index < 0:
                return found[0]
            if index >= len(self._numbered):
                raise ValueError(f"{found[0]}: there are {len(self._numbered)} such parameters")
            name = self._numbered[index]
        elif name not in self._known:
            known = ", ".join(f":{each}" for each in self._known)
            raise ValueError(f":{name} is no parameter; there are {known}")
        if name not in self.names:
            self.names.append(name)
        return f"%({name})s"

    def _index(self, found: re.Match[str]) -> int:
        """Which of the numbered parameters; -1: it means something else in this dialect."""
        if found["digits"] is not None:
            return int(found["digits"]) - 1 if self._dialect == "postgresql" else -1
        if self._dialect == "postgresql":
            return -1  # an operator of jsonb
        self._marks += 1
        return self._marks - 1
