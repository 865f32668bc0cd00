"""setup.py ships every module, and compiles or not as MHUB_PURE and the machine say."""

import re
import sys
import tomllib
from typing import Any

from setuptools import find_packages
from setuptools.errors import CompileError
from twisted.trial.unittest import SynchronousTestCase

from tests.packaging.tree import ROOT, imports_of, load_setup, modules

WHEEL = ["setup.py", "bdist_wheel"]
EDITABLE = ["setup.py", "editable_wheel"]
METADATA = ["setup.py", "egg_info"]
EXTENSION = object()


class SwitchTests(SynchronousTestCase):
    """What main() hands to setuptools.setup: extensions, or none."""

    def setUp(self) -> None:
        self.setup = load_setup()
        self.said: list[str] = []
        self.packaged: list[list[object]] = []
        self.patch(self.setup, "say", self.said.append)
        self.patch(self.setup, "package", self.packaged.append)
        self.patch(self.setup, "check_compiler", lambda: None)
        self.patch(self.setup, "extensions", lambda: [EXTENSION])

    def run_main(self, argv: list[str], switch: str = "") -> None:
        self.patch(sys, "argv", argv)
        self.patch(self.setup.os, "environ", {"MHUB_PURE": switch} if switch else {})
        self.setup.main()

    def without_compiler(self) -> None:
        def fail() -> None:
            raise CompileError("no cc here")

        self.patch(self.setup, "check_compiler", fail)

    def test_an_install_compiles(self) -> None:
        self.run_main(WHEEL)
        self.assertEqual((self.packaged, self.said), ([[EXTENSION]], []))

    def test_mhub_pure_1_does_not_compile(self) -> None:
        self.run_main(WHEEL, switch="1")
        self.assertEqual((self.packaged, self.said), ([[]], []))

    def test_without_a_compiler_it_installs_pure_and_says_why(self) -> None:
        self.without_compiler()
        self.run_main(WHEEL)
        self.assertEqual(self.packaged, [[]])
        self.assertIn("NOT compiled", self.said[0])
        self.assertIn("no cc here", self.said[0])

    def test_a_compile_that_fails_is_packaged_again_without_it(self) -> None:
        def package(extensions: list[object]) -> None:
            self.packaged.append(extensions)
            if extensions:
                raise SystemExit("error: command 'gcc' failed")

        self.patch(self.setup, "package", package)
        self.run_main(WHEEL)
        self.assertEqual(self.packaged, [[EXTENSION], []])
        self.assertEqual(len(self.said), 1)

    def test_mhub_pure_0_fails_rather_than_not_compile(self) -> None:
        self.without_compiler()
        self.assertRaises(CompileError, self.run_main, WHEEL, switch="0")
        self.assertEqual(self.packaged, [])

    def test_an_editable_install_compiles_only_when_told_to(self) -> None:
        self.run_main(EDITABLE)
        self.run_main(EDITABLE, switch="0")
        self.assertEqual(self.packaged, [[], [EXTENSION]])

    def test_asking_for_metadata_does_not_compile(self) -> None:
        self.run_main(METADATA)
        self.assertEqual((self.packaged, self.said), ([[]], []))

    def test_an_unknown_value_of_the_switch_is_an_error(self) -> None:
        error = self.assertRaises(SystemExit, self.run_main, WHEEL, switch="yes")
        self.assertIn("MHUB_PURE=yes", str(error))


class ContentsTests(SynchronousTestCase):
    def test_every_module_is_in_a_package(self) -> None:
        """setuptools leaves out, without a word, a directory that has no `__init__`."""
        packages = set(find_packages(str(ROOT), include=["mhub", "mhub.*"]))
        homes = {
            name if path.name == "__init__.py" else name.rpartition(".")[0]
            for name, path in modules().items()
        }
        self.assertEqual(homes - packages, set())

    def test_every_other_file_is_shipped_too(self) -> None:
        """setuptools leaves out, without a word, files that are not Python."""
        told: dict[str, Any] = {}
        setup = load_setup()
        self.patch(setup, "setup", told.update)
        setup.package([])
        home = ROOT / "mhub"
        shipped = {path for glob in told["package_data"]["mhub"] for path in home.glob(glob)}
        others = {
            path
            for path in home.rglob("*")
            if path.is_file() and path.suffix not in (".py", ".pyc", ".so")
        }
        self.assertEqual(others - shipped, set())

    def test_twisted_stays_twisteds(self) -> None:
        """An `__init__` in these directories would hide Twisted itself, or its plugins."""
        self.assertEqual(list(ROOT.glob("twisted/**/__init__.py")), [])


class NameTests(SynchronousTestCase):
    """What package indexes have as `mhub` is another project."""

    def test_the_distribution(self) -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        self.assertEqual(project["name"], "mhub-broker")
        self.assertEqual(project["scripts"], {"mhub": "mhub.cli:main"})

    def test_nobody_is_told_to_install_the_other_one(self) -> None:
        told = re.compile(r"\bpip[^\n]* install\b[^\n]*?[\"' ]mhub(?![\w./-])")
        files = [
            *ROOT.glob("*.md"),
            *ROOT.glob("docs/**/*.md"),
            *ROOT.glob("docs/**/*.toml"),
            *ROOT.glob(".ci/*"),
            ROOT / "Makefile",
            *(path for _, path in modules().items()),
        ]
        commands = [
            f"{path.name}: {found[0]}"
            for path in files
            for found in told.finditer(path.read_text())
        ]
        self.assertEqual(commands, [])


class DependencyTests(SynchronousTestCase):
    # What others' names are imported under, and who brings them.
    BROUGHT_BY = {
        "argon2": "argon2-cffi",
        "zope": "twisted",
        "OpenSSL": "twisted",
        "service_identity": "twisted",
        "casbin": "pycasbin",
        "jwt": "pyjwt",
        "prometheus_client": "prometheus-client",
        "werkzeug": "klein",
    }

    def test_what_is_imported_is_declared_and_what_is_declared_is_imported(self) -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        extras = project["optional-dependencies"]
        needs = list(project["dependencies"])
        for extra in extras.keys() - {"dev", "spark"}:
            needs += extras[extra]
        declared = {re.split(r"[^\w-]", need)[0] for need in needs}
        roots = {imported.split(".")[0] for name in modules() for imported in imports_of(name)}
        foreign = roots - sys.stdlib_module_names - {"mhub"}
        self.assertEqual({self.BROUGHT_BY.get(name, name) for name in foreign}, declared)
