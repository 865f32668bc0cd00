"""What is known of a client that logs in, by names, for queries, keys and requests.

    %u  %{username}     the name that the client gives itself
    %c  %{client_id}    its client id; empty if it wants one to be made
    %{password}         its password
    %{address}          where it comes from, and %{listener} through which listener
    %{cn}               of its certificate, which TLS has verified: the common name
    %{subject}          ... the whole subject
    %{fingerprint}      ... SHA-256 of it, in hex
    %%                  a percent sign

The same names are the parameters of SQL queries (`:username`).  A fact that is not there is "".
Where a template goes, its user says how a fact is written there: what a client sends is never more
than a value, whatever signs are in it.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mhub.core.authentication import Claim

NAMES: Final = (
    *("username", "client_id", "password", "address", "listener"),
    *("cn", "subject", "fingerprint"),
)
SHORT: Final = {"u": "username", "c": "client_id"}

_PLACEHOLDER: Final = re.compile(r"%(?:\{([^{}]*)\}|(.?))", re.DOTALL)


class UnusableClaim(Exception):
    """What a client sent cannot be put to a server: it is nobody's password or name."""


def facts_of(claim: Claim, names: Iterable[str]) -> dict[str, str]:
    """Raises UnusableClaim for a password that is asked for and is not text."""
    return {name: _fact(claim, name) for name in names}


def _fact(claim: Claim, name: str) -> str:
    principal = claim.principal
    certificate = principal.certificate
    if name == "username":
        return claim.username or ""
    if name == "client_id":
        return principal.client_id
    if name == "address":
        return principal.address
    if name == "listener":
        return principal.listener
    if name == "password":
        try:
            password = (claim.password or b"").decode()
        except UnicodeDecodeError:
            raise UnusableClaim("the password is not UTF-8") from None
        if "\0" in password:
            raise UnusableClaim("the password has a NUL")
        return password
    if certificate is None:
        return ""
    if name == "cn":
        return certificate.common_name
    return certificate.subject if name == "subject" else certificate.fingerprint


class Template:
    """Text with placeholders.  Raises ValueError for one that is not known."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts: list[tuple[str, str]] = []  # text, and the name of the fact behind it
        end = 0
        literal = ""
        for found in _PLACEHOLDER.finditer(text):
            literal += text[end : found.start()]
            end = found.end()
            if found[0] == "%%":
                literal += "%"
                continue
            name = found[1] if found[2] is None else SHORT.get(found[2], "")
            if name not in NAMES:
                raise ValueError(
                    f"{found[0]} is no placeholder; there are %u, %c, %%, and of longer names "
                    + ", ".join(f"%{{{each}}}" for each in NAMES)
                )
            self._parts.append((literal, name))
            literal = ""
        self._end = literal + text[end:]

    @property
    def names(self) -> list[str]:
        return [name for _, name in self._parts]

    def fill(self, facts: Mapping[str, str], write: Callable[[str], str] = str) -> str:
        """`write` makes of a fact what may stand where the text goes."""
        filled = "".join(text + write(facts[name]) for text, name in self._parts)
        return filled + self._end
