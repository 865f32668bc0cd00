"""The source tree as data, for the tests about it: modules, their imports, setup.py."""

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def module_name(path: Path) -> str:
    """`mhub/wire/topics.py` is `mhub.wire.topics`; a package's `__init__` is the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules() -> dict[str, Path]:
    return {module_name(path): path for path in sorted(ROOT.glob("mhub/**/*.py"))}


def imports(name: str, source: str, is_package: bool = False) -> Iterator[str]:
    """All that the module `name` imports, wherever it does so.

    `from a import b` counts as `a.b`, since b may be a module; one that is not does no harm, as the
    rules are about whole packages.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = name.split(".")
                up = up[: len(up) - node.level + is_package]
                base = ".".join([*up, base] if base else up)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def imports_of(name: str) -> set[str]:
    path = modules()[name]
    return set(imports(name, path.read_text(), path.name == "__init__.py"))


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def load_setup() -> ModuleType:
    """setup.py as a module: it does nothing until its main() is called."""
    spec = importlib.util.spec_from_file_location("mhub_setup", ROOT / "setup.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
