"""What `make run` and `make cluster` start."""

import socket
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mhub.config import load
from tests.packaging.tree import ROOT
from tests.system.process import environment

STARTED = ("quickstart", "cluster-a", "cluster-b", "cluster-c")


class PortsTests(SynchronousTestCase):
    """`.ci/ports`: said before anything starts."""

    def check(self, config: str) -> tuple[int, str]:
        file = Path(self.mktemp()).absolute()
        file.write_text(config)
        done = subprocess.run(
            [sys.executable, str(ROOT / ".ci" / "ports"), str(file)],
            capture_output=True,
            env=environment(),
            text=True,
            timeout=60,
        )
        return done.returncode, done.stderr.replace(f"{file}", "FILE")

    def test_free(self) -> None:
        config = '[[listeners]]\nport = 0\n[[listeners]]\ntransport = "unix"\npath = "s"\n'
        self.assertEqual(self.check(config), (0, ""))

    def test_taken(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            status, text = self.check(f"[[listeners]]\nport = 0\n[[listeners]]\nport = {port}\n")
            self.assertEqual(status, 1)
            start = f"FILE: cannot listen on 127.0.0.1:{port}: Address already in use."
            self.assertTrue(text.startswith(start), text)
            cluster = f'[cluster]\nname = "c"\nnode = "a"\nsecret = "{"s" * 32}"\nport = {port}\n'
            status, text = self.check(f"[[listeners]]\nport = 0\n{cluster}")
            self.assertTrue(text.startswith(start), text)

    def test_a_mistake(self) -> None:
        self.assertEqual(self.check("x = 1")[0], 1)


class DataTests(SynchronousTestCase):
    def test_all_of_it_is_in_one_place_beside_the_documentation(self) -> None:
        for name in STARTED:
            settings = load(ROOT / "docs" / "examples" / f"{name}.toml")
            for path in (settings.store.path, settings.control.path):
                place = Path(path).resolve().relative_to(ROOT.resolve())
                self.assertEqual(place.parts[0], "mhub-data", name)
