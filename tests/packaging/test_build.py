"""`mhub.build` names the build that runs."""

import importlib
import platform
from importlib.machinery import EXTENSION_SUFFIXES

from twisted.trial.unittest import SynchronousTestCase

from mhub import __version__, build
from tests.packaging.tree import ROOT, load_setup, module_name


class KindTests(SynchronousTestCase):
    def test_all_modules_compiled(self) -> None:
        self.assertEqual(build.kind({"a": True, "b": True}), build.COMPILED)

    def test_no_module_compiled(self) -> None:
        self.assertEqual(build.kind({"a": False, "b": False}), build.PURE)

    def test_some_modules_compiled(self) -> None:
        self.assertEqual(build.kind({"a": True, "b": False}), build.MIXED)


class DescribeTests(SynchronousTestCase):
    def test_names_version_build_and_python(self) -> None:
        text = f"mhub {__version__}, compiled build, Python {platform.python_version()}"
        self.assertEqual(build.describe({"a": True}), text)

    def test_a_mixture_names_the_odd_modules_and_the_remedy(self) -> None:
        text = build.describe({"a": True, "b": False, "c": False})
        self.assertIn("mixed build", text)
        self.assertIn("not compiled: b, c;", text)
        self.assertIn("make clean-ext", text)

    def test_a_build_of_one_kind_lists_no_modules(self) -> None:
        self.assertNotIn("not compiled", build.describe({"a": False, "b": False}))


class ModulesTests(SynchronousTestCase):
    """What is said of the installed modules is true."""

    def test_every_module_that_setup_compiles_is_looked_at(self) -> None:
        paths = {path for pattern in load_setup().COMPILED for path in ROOT.glob(pattern)}
        names = {module_name(path) for path in paths if path.name != "__init__.py"}
        self.assertEqual(set(build.modules()), names)

    def test_compiled_means_loaded_from_a_library(self) -> None:
        for name, compiled in build.modules().items():
            file = importlib.import_module(name).__file__ or ""
            self.assertEqual(file.endswith(tuple(EXTENSION_SUFFIXES)), compiled, name)

    def test_the_build_is_of_one_kind(self) -> None:
        self.assertIn(build.kind(), (build.COMPILED, build.PURE), build.describe())
