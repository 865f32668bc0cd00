"""Users in a file: mhub's own and Mosquitto's, read again when it changes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import TestCase

from mhub.auth import hashes
from mhub.core.authentication import FAILURE, SUCCESS
from mhub.wire import reasons
from tests.auth.test_hashes import ALL, PASSWORD
from tests.auth.world import CHEAP, World

HASH = hashes.make(b"secret", CHEAP)


@contextmanager
def captured() -> Iterator[list[str]]:
    """What is logged."""
    lines: list[str] = []

    def observe(event: dict[str, Any]) -> None:
        lines.append(formatEvent(event))

    globalLogPublisher.addObserver(observe)
    try:
        yield lines
    finally:
        globalLogPublisher.removeObserver(observe)


class PasswordFileTests(TestCase):
    def setUp(self) -> None:
        self.path = Path(self.mktemp()).absolute()
        self.world = World()

    def write(self, *lines: str) -> None:
        """As an editor does: another file in the place of the old one."""
        other = self.path.with_suffix(".new")
        other.write_text("".join(f"{line}\n" for line in lines))
        os.replace(other, self.path)

    def begin(self, *lines: str, **options: str) -> None:
        self.write(*lines)
        self.source = self.world.add("password-file", file=str(self.path), **options)
        self.world.start()

    def assertUser(self, user: str, password: bytes) -> None:
        step = self.world.ask(user, password)
        self.assertEqual(step.outcome, SUCCESS, step.text)
        assert step.identity is not None
        self.assertEqual((step.identity.user, step.identity.method), (user, "password"))

    def assertNobody(self, user: str, password: bytes) -> None:
        step = self.world.ask(user, password)
        self.assertEqual((step.outcome, step.reason), (FAILURE, reasons.BAD_USER_OR_PASSWORD))

    def test_every_hash(self) -> None:
        lines = [f"user{number}:{text}" for number, text in enumerate(ALL.values())]
        self.begin(*lines)
        for number in range(len(ALL)):
            self.assertUser(f"user{number}", PASSWORD)
            self.assertNobody(f"user{number}", b"wrong")
        self.assertNobody("nobody", PASSWORD)
        before = self.path.read_text()
        self.assertEqual(before.splitlines(), lines)  # it is not ours to change

    def test_read_again(self) -> None:
        self.begin(f"alice:{HASH}")
        self.assertNobody("bob", b"secret")
        self.write(f"bob:{HASH}")
        self.assertUser("bob", b"secret")
        self.assertNobody("alice", b"secret")
        self.assertEqual(self.world.forgotten, 2)

    def test_a_mistake_keeps_the_users(self) -> None:
        """And the log names the line, once."""
        self.begin(f"alice:{HASH}")
        with captured() as lines:
            self.write(f"bob:{HASH}", "carol:a password")
            for _ in range(3):
                self.assertUser("alice", b"secret")
            self.assertNobody("bob", b"secret")
        said = [line for line in lines if "not reloaded" in line]
        self.assertEqual(len(said), 1)
        self.assertIn(f"{self.path}:2: not a hash", said[0])
        self.assertNotIn("a password", said[0])
        self.write(f"bob:{HASH}")
        self.assertUser("bob", b"secret")

    def test_gone(self) -> None:
        self.begin(f"alice:{HASH}")
        with captured() as lines:
            self.path.unlink()
            self.assertUser("alice", b"secret")
        self.assertIn("No such file", "".join(lines))

    def test_by_the_client_id(self) -> None:
        self.begin(f"pump-7:{HASH}", identify_by="client_id")
        self.assertEqual(self.world.ask("x", b"wrong", client_id="pump-7").user, "pump-7")
        step = self.world.ask("whoever", b"secret", client_id="pump-7")
        assert step.identity is not None
        self.assertEqual(step.identity.user, "pump-7")

    def test_sentinels(self) -> None:
        self.begin(*(f"{name}:{HASH}" for name in ("none", "null", "anonymous")))
        for name in ("none", "null", "anonymous"):
            self.assertUser(name, b"secret")
