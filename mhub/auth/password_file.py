"""`type = "password-file"`: users in a file, mhub's own or one of Mosquitto's (`users`).

The file is read again when it has changed, at the next login.  One with a mistake changes nothing:
the users stay as they were, and the log names the line.
"""

import os
from dataclasses import dataclass

from twisted.internet.defer import Deferred

from mhub.auth.contract import Answer, Context, no, not_mine, yes
from mhub.auth.hashes import HashError
from mhub.auth.lookup import BY, entry_name
from mhub.auth.scram import METHOD
from mhub.auth.users import Users, UsersFileError, Verifier, parse_users, read_users
from mhub.config.certificates import read_file
from mhub.config.kinds import Choice, FilePath, Place
from mhub.config.schema import setting
from mhub.core.authentication import Claim
from mhub.core.principal import Identity
from mhub.log import logger


@dataclass(frozen=True)
class Settings:
    file: str = setting(
        FilePath(),
        "",
        "The file, mhub's own or one of Mosquitto's. Read again when it changes.",
        required=True,
    )
    identify_by: str = setting(
        Choice(*BY),
        "username",
        "What a client's line is found by: its user name, its client id, or both, as"
        " `USER@CLIENTID`. SCRAM always goes by the user name.",
    )


def check(settings: Settings, place: Place) -> None:
    at = place.at("file")
    data = read_file(settings.file, at)
    if data is not None:
        try:
            parse_users(data, settings.file)
        except UsersFileError as error:
            at.wrong(str(error))


def make(name: str, settings: Settings, context: Context) -> "PasswordFile":
    return PasswordFile(name, settings, context)


class PasswordFile:
    def __init__(self, name: str, settings: Settings, context: Context) -> None:
        self._log = logger("auth")
        self._name = name
        self._settings = settings
        self._passwords = context.passwords
        self._changed = context.changed
        self._mark = (0, 0, 0)
        self._users = Users({})

    def start(self) -> None:
        self.reload()

    def stop(self) -> None:
        pass

    def reload(self) -> None:
        """Read the file again.  When that fails the users stay, and the log says so."""
        # Taken first: a change while reading is then seen at the next login.
        self._mark = self._stat()
        try:
            self._users = read_users(self._settings.file)
        except UsersFileError as error:
            self._log.error(
                "{name}: not reloaded, the users stay as they were: {error}",
                name=self._name,
                error=error,
            )
            return
        count = len(self._users.hashes.keys() | self._users.verifiers.keys())
        self._log.info("{name}: {count} users read", name=self._name, count=count)
        self._changed()

    def name_of(self, claim: Claim) -> str:
        return entry_name(claim, self._settings.identify_by)

    def check(self, claim: Claim) -> Answer | Deferred[Answer]:
        name = self.name_of(claim)
        password = claim.password
        if not name or password is None:
            return not_mine()
        text = self._current().hashes.get(name)
        if text is None:
            return not_mine()
        return Deferred.fromCoroutine(self._verify(name, text, password, claim))

    async def _verify(self, name: str, text: str, password: bytes, claim: Claim) -> Answer:
        try:
            right = await self._passwords.verify(text, password, claim.principal.address)
        except HashError as error:
            return no(f"the user {name!r} has {error}")
        if right and self._current().hashes.get(name) == text:
            return yes(Identity(name, "password"))
        return no(f"wrong password of {name!r}")

    def decoy(self) -> str:
        return self._users.usual_hash

    def scram(self, name: str) -> tuple[Verifier, Identity | None] | None:
        verifier = self._current().verifiers.get(name)
        return None if verifier is None else (verifier, Identity(name, METHOD))

    def scram_decoy(self) -> tuple[int, int, bytes]:
        users = self._users
        return (*users.usual, users.secret or b"")

    def _current(self) -> Users:
        if self._stat() != self._mark:
            self.reload()
        return self._users

    def _stat(self) -> tuple[int, int, int]:
        try:
            found = os.stat(self._settings.file)
        except OSError:
            return (0, 0, 0)
        return (found.st_mtime_ns, found.st_ino, found.st_size)
