"""What tests of sources that ask servers have in common."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred, succeed

from mhub.auth.contract import Answer, Context
from mhub.config.kinds import Place
from mhub.config.problems import Report
from mhub.core.authentication import Claim
from mhub.core.principal import Certificate, Principal
from mhub.core.stats import Stats


class PlainPasswords:
    """Passwords whose "hash" is `plain:` and the password: real ones are tested elsewhere."""

    def __init__(self) -> None:
        self.checked = 0

    def verify(self, text: str, password: bytes, address: str = "") -> "Deferred[bool]":
        self.checked += 1
        if not text.startswith("plain:"):
            raise ValueError("not a hash")
        return succeed(text == f"plain:{password.decode()}")


def make_context(reactor: Any, clock: Any = None) -> Context:
    hub = SimpleNamespace(stats=Stats())
    return Context(reactor, clock or reactor.seconds, hub, PlainPasswords(), lambda: None)


def make_claim(
    username: str | None = "alice",
    password: str | bytes | None = "secret",
    client_id: str = "c1",
    cn: str = "",
) -> Claim:
    principal = Principal("192.0.2.1:5000", "tcp-1883")
    principal.client_id = client_id
    if cn:
        principal.certificate = Certificate(cn, f"CN={cn}", "00ff")
    claim = Claim(principal, None)
    claim.username = username
    claim.password = password.encode() if isinstance(password, str) else password
    return claim


def ask(source: Any, claim: Claim) -> "Deferred[Answer]":
    answer: Deferred[Answer] = maybeDeferred(source.check, claim)
    return answer


def problems(module: Any, **settings: Any) -> list[str]:
    """What check() of a source finds."""
    report = Report({})
    module.check(module.Settings(**settings), Place(report, Path()))
    return [f"{each.key}: {each.text}" for each in report.problems]
