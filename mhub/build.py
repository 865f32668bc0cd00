"""Which build runs: the compiled one, the pure one, or a mixture that nobody wants.

The hot path is compiled to C when mhub is installed where a C compiler is, and runs as plain Python
when not.  The import system decides module by module, and a compiled file left beside an edited
source wins silently.  So this asks the import system itself, without importing the modules, and
names the odd ones out.
"""

import platform
from collections.abc import Iterator, Mapping
from importlib.machinery import ExtensionFileLoader
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Final

from mhub import __version__

COMPILED: Final = "compiled"
PURE: Final = "pure"
MIXED: Final = "mixed"

PACKAGES: Final = ("mhub.wire", "mhub.core", "mhub.bench.load")
"""The packages that are compiled whole, but for their `__init__`, which only holds their map."""

SINGLES: Final = (
    "mhub.net.loop",
    "mhub.access.rows",
    "mhub.access.trie",
    "mhub.access.containment",
    "mhub.access.index",
)
"""The modules that are compiled while the rest of their package is not."""


def modules() -> dict[str, bool]:
    """Each module of the hot path, and whether Python loads it as compiled code."""
    names = [name for package in PACKAGES for name in _names(package)]
    return {name: _is_compiled(name) for name in (*names, *SINGLES)}


def kind(found: Mapping[str, bool] | None = None) -> str:
    """`COMPILED`, `PURE` or `MIXED`: how `found`, by default what is installed here, is loaded."""
    found = modules() if found is None else found
    if not any(found.values()):
        return PURE
    return COMPILED if all(found.values()) else MIXED


def describe(found: Mapping[str, bool] | None = None) -> str:
    """One line for `--version` and the start-up log."""
    found = modules() if found is None else found
    text = f"mhub {__version__}, {kind(found)} build, Python {platform.python_version()}"
    if kind(found) == MIXED:
        odd = ", ".join(name for name, compiled in found.items() if not compiled)
        text += f" (not compiled: {odd}; install mhub again, or `make clean-ext` in a source tree)"
    return text


def _names(package: str) -> Iterator[str]:
    spec = find_spec(package)
    if spec is None:
        return
    for module in iter_modules(spec.submodule_search_locations):
        yield f"{package}.{module.name}"


def _is_compiled(name: str) -> bool:
    spec = find_spec(name)
    return spec is not None and isinstance(spec.loader, ExtensionFileLoader)
