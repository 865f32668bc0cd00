"""An authenticator that somebody else has written: users whose password is their name backwards.

To install one, put such a file into a package's `twisted/plugins/` (without an `__init__.py`).
"""

from dataclasses import dataclass

from twisted.plugin import IPlugin
from zope.interface import implementer

from mhub.auth.contract import Answer, Context, IAuthenticatorPlugin, Source, no, not_mine, yes
from mhub.config.kinds import Place, Text
from mhub.config.schema import setting
from mhub.core.authentication import Claim
from mhub.core.principal import Identity


@dataclass(frozen=True)
class Settings:
    prefix: str = setting(Text(), "", "What the names of its users begin with.")


class Backwards:
    def __init__(self, name: str, settings: Settings, context: Context) -> None:
        self._prefix = settings.prefix
        self._context = context

    def check(self, claim: Claim) -> Answer:
        name = claim.username or ""
        if claim.password is None or not name.startswith(self._prefix):
            return not_mine()
        if claim.password != name[::-1].encode():
            return no(f"wrong password of {name!r}")
        identity = Identity(name, "backwards")
        identity.roles = ("backward",)
        identity.grants = (f"publish, backwards/{self._prefix}/#, any, allow",)
        identity.expires_at = self._context.reactor.seconds() + 3600
        return yes(identity)

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def reload(self) -> None:
        pass


@implementer(IPlugin, IAuthenticatorPlugin)
class BackwardsPlugin:
    kind = "backwards"
    settings = Settings

    def check(self, settings: Settings, place: Place) -> None:
        if settings.prefix != settings.prefix.lower():
            place.at("prefix").wrong("small letters only")

    def make(self, name: str, settings: Settings, context: Context) -> Source:
        return Backwards(name, settings, context)


backwards = BackwardsPlugin()
