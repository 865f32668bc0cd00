"""The fence between the packages of mhub: who may import whom."""

import sys

from twisted.trial.unittest import SynchronousTestCase

from tests.packaging.tree import ROOT, imports, imports_of, load_setup, module_name, modules, within

STDLIB = sys.stdlib_module_names

# The core is told the time and hands its output over: it asks nobody, and waits for nobody.
WORLD = ("asyncio", "datetime", "logging", "os", "select", "selectors", "socket", "ssl", "time")

# Who checks a proof elsewhere, offline, needs these and nothing else.
PROOFS = ("mhub.audit.merkle", "mhub.audit.keys", "mhub.audit.note", "mhub.audit.checkpoint")

# Rooms that only the wiring knows.
BEHIND_TAP = ("mhub.net", "mhub.admin", "mhub.cluster")


def trespasses(package: str, *allowed: str) -> list[str]:
    """What modules of `package` import beyond the standard library and the packages `allowed`."""
    return [
        f"{name} imports {imported}"
        for name in modules()
        if within(name, package)
        for imported in sorted(imports_of(name))
        if imported.split(".")[0] not in STDLIB and not within(imported, *allowed)
    ]


class FenceTests(SynchronousTestCase):
    def test_wire_imports_the_standard_library_only(self) -> None:
        self.assertEqual(trespasses("mhub.wire", "mhub.wire"), [])

    def test_core_imports_wire_and_the_standard_library_only(self) -> None:
        self.assertEqual(trespasses("mhub.core", "mhub.core", "mhub.wire"), [])

    def test_wire_and_core_touch_neither_clock_nor_sockets_nor_logs(self) -> None:
        found = [
            f"{name} imports {imported}"
            for name in modules()
            if within(name, "mhub.wire", "mhub.core")
            for imported in sorted(imports_of(name))
            if within(imported, *WORLD)
        ]
        self.assertEqual(found, [])

    def test_proofs_import_each_other_and_cryptography_only(self) -> None:
        found = [line for name in PROOFS for line in trespasses(name, *PROOFS, "cryptography")]
        self.assertEqual(found, [])

    def test_proofs_touch_neither_clock_nor_randomness_nor_files(self) -> None:
        found = [
            f"{name} imports {imported}"
            for name in PROOFS
            for imported in sorted(imports_of(name))
            if within(imported, *WORLD, "io", "pathlib", "random", "secrets")
        ]
        self.assertEqual(found, [])

    def test_only_tap_imports_what_is_behind_it(self) -> None:
        found = [
            f"{name} imports {imported}"
            for name in modules()
            if name != "mhub.tap"
            for room in BEHIND_TAP
            if not within(name, room)
            for imported in sorted(imports_of(name))
            if within(imported, room)
        ]
        self.assertEqual(found, [])

    def test_compiled_modules_import_the_standard_library_and_compiled_packages_only(self) -> None:
        """A compiled module that imports zope.interface, as Twisted does, does not compile."""
        paths = [path for pattern in load_setup().COMPILED for path in ROOT.glob(pattern)]
        names = [module_name(path) for path in paths]
        found = [
            f"{name} imports {imported}"
            for name in names
            for imported in sorted(imports_of(name))
            if imported.split(".")[0] not in STDLIB
            and not within(imported, "mhub.wire", "mhub.core", *names)
        ]
        self.assertEqual(found, [])


class ImportsTests(SynchronousTestCase):
    """The fence sees each way to import."""

    def assertImports(self, source: str, *expected: str, is_package: bool = False) -> None:
        self.assertEqual(tuple(imports("mhub.core.hub", source, is_package)), expected)

    def test_plain(self) -> None:
        self.assertImports("import socket, os.path as p", "socket", "os.path")

    def test_from(self) -> None:
        self.assertImports("from mhub import net, wire", "mhub.net", "mhub.wire")

    def test_inside_a_function(self) -> None:
        self.assertImports("def f():\n    from time import time", "time.time")

    def test_for_type_checking_only(self) -> None:
        self.assertImports("if TYPE_CHECKING:\n    import twisted.web", "twisted.web")

    def test_relative(self) -> None:
        self.assertImports("from . import trie", "mhub.core.trie")
        self.assertImports("from ..net.tcp import x", "mhub.net.tcp.x")
        self.assertImports("from .a import b", "mhub.core.hub.a.b", is_package=True)
