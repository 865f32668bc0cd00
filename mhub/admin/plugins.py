"""Admin plugins: routes under `/admin/x/NAME` and pages of the dashboard, from other packages.

A plugin is an object in a module of the package `twisted.plugins` that provides IAdminPlugin, for
which `AdminPlugin` is enough:

    from mhub.admin.endpoint import Call, endpoint
    from mhub.admin.plugins import AdminPlugin

    @endpoint("GET", "/summary")
    async def summary(call: Call) -> Summary:
        \"\"\"Sum up what the plugin knows.\"\"\"
        return Summary(...)

    plugin = AdminPlugin("energy", "Energy", [summary], script=Path(__file__).with_name("page.js"))

Its endpoints are at `/admin/x/energy/…`, checked and documented like all others.  Whoever uses them
needs `admin:read` or `admin:write` on `x/energy`, whatever the plugin says.  `script` is an ES
module with a function `mount(element, api)` that fills a page of the dashboard; the page is offered
to those who may read `x/energy`.  `start(operations)` is called when the broker runs, `stop()` when
it ends.

A plugin runs in the broker's process and reactor.  One that fails while it is loaded is left out,
and the log says so; the broker starts all the same.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

from twisted.plugin import IPlugin, getPlugins
from zope.interface import Attribute, Interface, implementer  # type: ignore[import-untyped]

from mhub.admin.endpoint import BASE, Call, Endpoint, endpoint
from mhub.log import logger
from mhub.operations.operations import Operations

PREFIX: Final = "/admin/x/"
SCRIPT: Final = "/page.js"
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")


class IAdminPlugin(Interface):  # type: ignore[misc]  # zope has no types
    """Found through twisted.plugin."""

    name = Attribute("Of its routes and its permission: lower-case letters, digits, _ and -")
    title = Attribute("What the dashboard calls its page; '': it has none")
    endpoints = Attribute("Functions that mhub.admin.endpoint.endpoint has declared")
    script = Attribute("A file with the ES module of its page; None: it has none")

    def start(operations: Operations) -> None:
        """The broker runs."""

    def stop() -> None:  # type: ignore[misc]
        """The broker ends."""


@implementer(IPlugin, IAdminPlugin)
class AdminPlugin:
    """A plugin that needs no class of its own."""

    def __init__(
        self,
        name: str,
        title: str = "",
        endpoints: Sequence[Callable[..., Any]] = (),
        script: Path | Traversable | None = None,
    ) -> None:
        self.name = name
        self.title = title
        self.endpoints = endpoints
        self.script = script

    def start(self, operations: Operations) -> None:
        pass

    def stop(self) -> None:
        pass


@dataclass(frozen=True)
class Plugin:
    """One that was found good."""

    name: str
    title: str
    endpoints: tuple[Endpoint, ...]
    script: bytes  # "": it has no page
    made: Any

    @property
    def resource(self) -> str:
        return f"x/{self.name}"

    @property
    def script_path(self) -> str:
        return f"{PREFIX}{self.name}{SCRIPT}" if self.script else ""


class Plugins:
    """Those that were found, and what of them runs."""

    def __init__(self, found: Iterable[Any] | None = None) -> None:
        """`found`: as getPlugins() gives them."""
        self._log = logger("admin")
        self._started: list[Plugin] = []
        self.all: tuple[Plugin, ...] = tuple(
            self._check(getPlugins(IAdminPlugin) if found is None else found)
        )

    def _check(self, found: Iterable[Any]) -> Iterator[Plugin]:
        names: set[str] = set()
        for made in found:
            try:
                plugin = read(made)
                if plugin.name in names:
                    raise ValueError("there is another one of this name")
            except Exception as error:
                self._log.error(
                    "the admin plugin {name} is left out: {error}",
                    name=repr(getattr(made, "name", made)),
                    error=error,
                )
                continue
            names.add(plugin.name)
            yield plugin

    def endpoints(self) -> list[Endpoint]:
        return [each for plugin in self.all for each in plugin.endpoints]

    def start(self, operations: Operations) -> None:
        for plugin in self.all:
            try:
                plugin.made.start(operations)
                self._started.append(plugin)
            except Exception:
                self._log.failure("the admin plugin {name} does not start", name=plugin.name)

    def stop(self) -> None:
        for plugin in self._started:
            try:
                plugin.made.stop()
            except Exception:
                self._log.failure("the admin plugin {name} does not stop", name=plugin.name)
        self._started = []


def read(made: Any) -> Plugin:
    """Raises ValueError, and whatever the plugin itself does."""
    if not isinstance(made.name, str) or not _NAME.fullmatch(made.name):
        raise ValueError("its name has to be lower-case letters, digits, _ and -")
    script = made.script.read_bytes() if made.script is not None else b""
    functions = [*made.endpoints, *([_page(script)] if script else [])]
    endpoints = tuple(_rebased(made.name, function.endpoint) for function in functions)
    keys = [(each.method, each.path) for each in endpoints]
    if len(set(keys)) < len(keys):
        raise ValueError("two of its endpoints have the same method and path")
    return Plugin(made.name, str(made.title), endpoints, script, made)


def _page(script: bytes) -> Any:
    """Not one of the dashboard's files, which need no login."""

    @endpoint("GET", SCRIPT, stream="text/javascript")
    async def page(call: Call) -> bytes:
        """Show the script of the plugin's page."""
        return script

    return page


def _rebased(name: str, declared: Endpoint) -> Endpoint:
    """The same, below the plugin's own path and permission."""
    path = PREFIX + name + declared.path.removeprefix(BASE)
    if "<" in path:
        raise ValueError(f"{declared.path}: this path cannot be used")
    return replace(
        declared,
        name=f"x-{name}-{declared.name}",
        path=path,
        resource=f"x/{name}",
        scope="",
        public="",
    )
