"""What tests of sources that ask servers have in common."""

import base64
import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred

from mhub.auth import hashes
from mhub.auth.contract import Answer, Context
from mhub.auth.passwords import Passwords
from mhub.config.kinds import Place
from mhub.config.problems import Report
from mhub.core.authentication import Claim
from mhub.core.principal import Certificate, Principal
from mhub.core.stats import Stats
from tests.auth.world import CHEAP, ByHand

PASSWORDS = ("secret", "testpw", "x")
HASHES = {each: hashes.make(each.encode(), CHEAP) for each in PASSWORDS}
HASH = HASHES["secret"]


def go_auth_hash(password: str, algorithm: str = "sha512", rounds: int = 1000) -> str:
    """As the `pw` command of mosquitto-go-auth makes it."""
    salt = b"0123456789abcdef"
    key = hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, rounds, 64)
    parts = [base64.b64encode(each).decode() for each in (salt, key)]
    return "$".join(("PBKDF2", algorithm, str(rounds), *parts))


def make_context(reactor: Any, clock: Any = None) -> Context:
    hub = SimpleNamespace(stats=Stats())
    passwords = Passwords(ByHand(True), 1, 10, hub.stats, CHEAP)
    return Context(reactor, clock or reactor.seconds, hub, passwords, lambda: None)


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
