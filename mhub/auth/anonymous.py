"""`type = "anonymous"`: clients that bring no password are let in, as nobody in particular."""

from dataclasses import dataclass

from mhub.auth.contract import Answer, Context, not_mine, yes
from mhub.config.kinds import Text
from mhub.config.schema import ListOf, setting
from mhub.core.authentication import Claim
from mhub.core.principal import Identity


@dataclass(frozen=True)
class Settings:
    roles: tuple[str, ...] = setting(
        ListOf(Text(empty=False)), (), "Roles that they have besides `anonymous`."
    )
    tenant: str = setting(Text(), "", "The tenant that they belong to.", shown="none")


def make(name: str, settings: Settings, context: Context) -> "Anonymous":
    return Anonymous(settings)


class Anonymous:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def check(self, claim: Claim) -> Answer:
        if claim.password is not None:
            return not_mine()  # it wants to be somebody
        identity = Identity("", "")
        identity.roles = self._settings.roles
        identity.tenant = self._settings.tenant
        return yes(identity)

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def reload(self) -> None:
        pass
