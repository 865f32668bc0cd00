"""Where authenticators come from: `twisted.plugin`, package `twisted.plugins`.

mhub's own are in OWN, each as a name and the module that is imported when a configuration has its
type; `twisted/plugins/mhub_authenticators.py` shows them to Twisted.  A type is looked for here
first: a search through all plugins costs 10 ms, and 100 where Twisted cannot write its
`dropin.cache`, and is only needed for types that others have written.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from twisted.plugin import IPlugin, getPlugins
from zope.interface import implementer  # type: ignore[import-untyped]

from mhub.auth.contract import Context, IAuthenticatorPlugin, Source


@implementer(IPlugin, IAuthenticatorPlugin)
class LazyPlugin:
    """An authenticator by the name of its module.

    The module has the class `Settings`, `make(name, settings, context)`, and, if there is anything
    to check, `check(settings, place)`.
    """

    def __init__(self, kind: str, module: str) -> None:
        self.kind = kind
        self._module = module

    @property
    def settings(self) -> Any:
        return import_module(self._module).Settings

    def check(self, settings: Any, place: Any) -> None:
        check = getattr(import_module(self._module), "check", None)
        if check is not None:
            check(settings, place)

    def make(self, name: str, settings: Any, context: Context) -> Source:
        source: Source = import_module(self._module).make(name, settings, context)
        return source


OWN: Final = {
    kind: LazyPlugin(kind, module)
    for kind, module in {
        "registry": "mhub.auth.registry_source",
        "password-file": "mhub.auth.password_file",
        "certificate": "mhub.auth.certificate",
        "jwt": "mhub.auth.jwt",
        "redis": "mhub.auth.redis",
        "postgresql": "mhub.auth.postgresql",
        "mysql": "mhub.auth.mysql",
        "http": "mhub.auth.http",
        "anonymous": "mhub.auth.anonymous",
    }.items()
}


def find(kind: str) -> Any:
    """The plugin for a type, or None."""
    plugin = OWN.get(kind)
    if plugin is not None:
        return plugin
    return next((each for each in others() if each.kind == kind), None)


def others() -> Iterator[Any]:
    """All that are installed."""
    yield from getPlugins(IAuthenticatorPlugin)
