"""The pure build, also where the compiled one is installed: mhub from its sources alone.

A library beside a source wins when Python imports; `only_sources` makes it look for sources.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType


class _Sources:
    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] != "mhub":
            return None
        for place in sys.path if path is None else path:
            spec = FileFinder(place or ".", (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name)
            if spec is not None and spec.loader is not None:
                return spec
        return None


def only_sources() -> None:
    """To be called before anything of mhub is imported."""
    assert not any(name.partition(".")[0] == "mhub" for name in sys.modules), (
        "mhub is there already"
    )
    sys.meta_path.insert(0, _Sources)
