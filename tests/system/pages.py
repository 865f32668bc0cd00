"""Pages of docs/ whose commands are run: each is typed into a shell, and prints what the page says.

A line that begins with `$ ` is typed, in a copy of a folder with the page's files.  What is below
it is what it prints; `…` stands for anything, also for several lines.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import copytree, rmtree, which
from typing import Any
from unittest import SkipTest

from twisted.trial.unittest import SynchronousTestCase

from tests.helpers.redis import free_port
from tests.system.process import PATIENCE_S, environment

DOCS = Path(__file__).parent.parent.parent / "docs"

WRAPPER = """#!/bin/sh
exec '{python}' -m mhub "$@"
"""
READY = """for _ in $(seq 200); do
    mhub ctl status 2>/dev/null | grep -q running && break
    sleep 0.1
done
"""


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.S | re.M)


def steps(block: str) -> list[tuple[str, str]]:
    """Commands, each with what it prints."""
    found: list[tuple[str, str]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        else:
            command, output = found.pop()
            found.append((command, f"{output}{line}\n"))
    return found


def fits(printed: str, expected: str) -> bool:
    pattern = "".join(
        ".*" if part == "…" else re.escape(part) for part in re.split("(…)", expected)
    )
    return re.fullmatch(pattern.rstrip("\\\n"), printed.rstrip("\n"), re.S) is not None


class PageCase(SynchronousTestCase):
    """`ports`: those of the page's configuration, which are others in a test."""

    def run_page(self, page: str, files: Path, *ports: str) -> None:
        if which("mosquitto_pub") is None:
            raise SkipTest("there is no mosquitto_pub here: apt-get install mosquitto-clients")
        folder = Path(tempfile.mkdtemp(prefix="mhub-docs-"))
        self.addCleanup(rmtree, folder)
        copytree(files, folder, dirs_exist_ok=True)
        self.ports = {port: str(free_port()) for port in ports}
        config = folder / "mhub.toml"
        quick = '\n[passwords]\nscram_iterations = 4096\n\n[log]\nto = "file"\nfile = "log"\n'
        config.write_text(self.with_ports(config.read_text("utf-8")) + quick)
        tools = folder / "bin"
        tools.mkdir()
        (tools / "mhub").write_text(WRAPPER.format(python=sys.executable))
        (tools / "mhub").chmod(0o755)
        self.environment = {
            **environment(),
            "PATH": f"{tools}:{os.environ['PATH']}",
            "COLUMNS": "100",
            "LC_ALL": "C.UTF-8",
        }
        shell = self._shell(folder)
        text = (DOCS / page).read_text("utf-8")
        for block in blocks(text, "console"):
            for command, expected in steps(block):
                printed = self._type(shell, command)
                if not fits(printed, expected):
                    file = folder / "log"
                    log = file.read_text("utf-8") if file.exists() else "none"
                    self.fail(f"$ {command}\n{printed}\nexpected:\n{expected}\nlog:\n{log}")

    def with_ports(self, text: str) -> str:
        for port, other in self.ports.items():
            text = text.replace(port, other)
        return text

    def prepared(self, command: str) -> str:
        """What is typed for a command."""
        return command

    def _shell(self, folder: Path) -> Any:
        shell = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # the broker in it is ended with it
        )

        def end() -> None:
            os.killpg(shell.pid, signal.SIGKILL)
            shell.wait(PATIENCE_S)
            for stream in (shell.stdin, shell.stdout):
                if stream is not None:
                    stream.close()

        self.addCleanup(end)
        return shell

    def _type(self, shell: Any, command: str) -> str:
        """What a command prints."""
        port = self.ports["1883"]
        typed = re.sub(r"\b(mosquitto_(?:pub|sub)) ", rf"\1 -p {port} ", self.prepared(command))
        typed = self.with_ports(typed)
        if typed.startswith("mhub run "):
            typed += f"\n{READY}"
        shell.stdin.write(f"{typed}\necho; echo 'the end of it'\n")
        shell.stdin.flush()
        printed: list[str] = []
        for line in shell.stdout:
            if line == "the end of it\n":
                break
            printed.append(line)
        return "".join(printed).rstrip("\n")
