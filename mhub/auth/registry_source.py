"""`type = "registry"`: the users that `mhub ctl user` makes, the same on all nodes of a cluster.

    user/NAME              {"password": HASH, "scram": VERIFIER, "tenant": "", "attributes": {}, …}
    setting/decoy-secret   {"value": BASE64}, for the salts of names that SCRAM does not know

A hash of another kind, or a weaker one than new ones are, is replaced at the first login: then the
password is known.  A user who had no verifier for SCRAM gets one as well.  Roles are not looked at
here: they are part of the policy.
"""

import base64
import json
import secrets
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred

from mhub.auth import hashes
from mhub.auth.contract import Answer, Context, no, not_mine, text_of, yes
from mhub.auth.hashes import HashError
from mhub.auth.lookup import BY, entry_name, parse_entry
from mhub.auth.passwords import Busy
from mhub.auth.scram import METHOD
from mhub.auth.users import ITERATIONS, KEY_SIZE, SALT_SIZE, Verifier, parse_verifier
from mhub.config.kinds import Choice
from mhub.config.schema import setting
from mhub.core.authentication import Claim
from mhub.core.principal import Identity
from mhub.core.registry import StaleVersion
from mhub.log import logger

USERS: Final = "user/"
SECRET: Final = "setting/decoy-secret"

TRIES: Final = 3
"""How often a password is checked at a login, if the hash is another one each time."""


@dataclass(frozen=True)
class Settings:
    identify_by: str = setting(
        Choice(*BY),
        "username",
        "What a client's user is found by: its user name, its client id, or both, as"
        " `USER@CLIENTID`. SCRAM always goes by the user name.",
    )


def make(name: str, settings: Settings, context: Context) -> "RegistrySource":
    return RegistrySource(name, settings, context)


class RegistrySource:
    def __init__(self, name: str, settings: Settings, context: Context) -> None:
        self._log = logger("auth")
        self._name = name
        self._by = settings.identify_by
        self._hub = context.hub
        self._passwords = context.passwords
        self._changed = context.changed
        self._shapes = _Shapes()
        self._upgrading: set[str] = set()

    def start(self) -> None:
        registry = self._hub.registry
        for entry in registry.items(USERS):
            self._shapes.put(entry.key, parse_entry(entry.value))
        registry.watchers.append(self._on_change)
        if registry.get(SECRET) is None:
            made = base64.b64encode(secrets.token_bytes(KEY_SIZE)).decode("ascii")
            registry.change({SECRET: json.dumps({"value": made})}, self._hub.now, {SECRET: 0})
            self._hub.flush()

    def stop(self) -> None:
        if self._on_change in self._hub.registry.watchers:
            self._hub.registry.watchers.remove(self._on_change)

    def reload(self) -> None:
        pass

    def _on_change(self, keys: list[str]) -> None:
        users = [key for key in keys if key.startswith(USERS)]
        for key in users:
            entry = self._hub.registry.get(key)
            self._shapes.put(key, parse_entry(entry.value) if entry is not None else None)
        if users:
            self._changed()

    def name_of(self, claim: Claim) -> str:
        return entry_name(claim, self._by)

    def check(self, claim: Claim) -> Answer | Deferred[Answer]:
        name = self.name_of(claim)
        password = claim.password
        if not name or password is None:
            return not_mine()
        found = self._hub.registry.get(USERS + name)
        entry = parse_entry(found.value) if found is not None else {}
        text = entry.get("password")
        if not isinstance(text, str) or not text:
            return not_mine()  # there is no such user, or others have the password
        return Deferred.fromCoroutine(self._verify(name, text, password, claim))

    async def _verify(self, name: str, text: str, password: bytes, claim: Claim) -> Answer:
        for _ in range(TRIES):
            try:
                right = await self._passwords.verify(text, password, claim.principal.address)
            except HashError as error:
                return no(f"the user {name!r} has {error}")
            if not right:
                return no(f"wrong password of {name!r}")
            found = self._hub.registry.get(USERS + name)
            entry = parse_entry(found.value) if found is not None else {}
            current = entry.get("password")
            if current == text:
                break
            if not isinstance(current, str) or not current:
                return no(f"the user {name!r} was changed meanwhile")
            # Another login may have upgraded the hash, which is no reason to refuse this one.
            text = current
        else:
            return no(f"the user {name!r} was changed meanwhile, again and again")
        if not hashes.is_current(text, self._passwords.costs):
            self._upgrade(name, password)
        return yes(Identity(name, "password"))  # tenant and attributes: the chain has them

    def decoy(self) -> str:
        return self._shapes.usual_hash()

    # SCRAM

    def scram(self, name: str) -> tuple[Verifier, Identity | None] | None:
        found = self._hub.registry.get(USERS + name)
        entry = parse_entry(found.value) if found is not None else {}
        verifier = _verifier(entry)
        return None if verifier is None else (verifier, Identity(name, METHOD))

    def scram_decoy(self) -> tuple[int, int, bytes]:
        found = self._hub.registry.get(SECRET)
        value = parse_entry(found.value).get("value") if found is not None else None
        secret = b""
        if isinstance(value, str):
            try:
                secret = base64.b64decode(value, validate=True)
            except ValueError:
                pass
        return (*self._shapes.usual_verifier(), secret)

    # Old hashes

    def _upgrade(self, name: str, password: bytes) -> None:
        if name in self._upgrading:
            return
        self._upgrading.add(name)
        Deferred.fromCoroutine(self._make_anew(name, password)).addErrback(
            lambda failure: self._log.failure("{name}: not upgraded", failure, name=name)
        )

    async def _make_anew(self, name: str, password: bytes) -> None:
        key = USERS + name
        try:
            before = self._hub.registry.get(key)
            if before is None:
                return
            entry = parse_entry(before.value)
            entry["password"] = await self._passwords.make(password)
            text = text_of(password)
            if not entry.get("scram") and text is not None:
                try:
                    entry["scram"] = await self._passwords.verifier(text)
                except ValueError:
                    pass  # SASLprep refuses it; for CONNECT it is good enough
            value = json.dumps(entry, ensure_ascii=False)
            self._hub.registry.change({key: value}, self._hub.now, {key: before.hlc})
            self._hub.flush()
            self._log.info("{name}: the hash of the password was upgraded", name=repr(name))
        except (Busy, CancelledError):
            pass  # at the next login
        except StaleVersion:
            pass  # somebody has changed the user meanwhile
        finally:
            self._upgrading.discard(name)


class _Shapes:
    """What hashes and verifiers are like, so that made-up ones can be like most."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[str, tuple[int, int] | None]] = {}
        self._hashes: Counter[str] = Counter()
        self._verifiers: Counter[tuple[int, int]] = Counter()
        self._examples: dict[str, str] = {}

    def put(self, key: str, entry: dict[str, Any] | None) -> None:
        """None: it was deleted."""
        shape, verifier_shape = self._of.pop(key, ("", None))
        if shape:
            self._hashes[shape] -= 1
        if verifier_shape is not None:
            self._verifiers[verifier_shape] -= 1
        if entry is None:
            return
        text = entry.get("password")
        shape, verifier_shape = "", None
        if isinstance(text, str) and text:
            try:
                shape = hashes.shape(text)
                self._hashes[shape] += 1
                self._examples[shape] = text
            except HashError:
                shape = ""
        verifier = _verifier(entry)
        if verifier is not None:
            verifier_shape = (verifier.iterations, len(verifier.salt))
            self._verifiers[verifier_shape] += 1
        if shape or verifier_shape is not None:
            self._of[key] = (shape, verifier_shape)

    def usual_hash(self) -> str:
        most = self._hashes.most_common(1)
        return self._examples[most[0][0]] if most and most[0][1] > 0 else ""

    def usual_verifier(self) -> tuple[int, int]:
        most = self._verifiers.most_common(1)
        return most[0][0] if most and most[0][1] > 0 else (ITERATIONS, SALT_SIZE)


def _verifier(entry: dict[str, Any]) -> Verifier | None:
    text = entry.get("scram")
    if not isinstance(text, str) or not text:
        return None
    try:
        return parse_verifier(text)
    except ValueError:
        return None
