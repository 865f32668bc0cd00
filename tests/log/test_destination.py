"""Where the log goes, and what its lines look like there."""

import errno
import json
import os
import socket
import tempfile
from pathlib import Path
from typing import Any

from twisted.logger import Logger, LogLevel, globalLogPublisher
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase

from mhub.config import LogSettings
from mhub.log import logger, set_level
from mhub.log.destination import Destination, LogError
from mhub.log.outputs import FileOutput, SyslogOutput

TIME = 1_794_995_043.25  # 2026-11-18 09:44:03 UTC


def event(namespace: str = "mhub.net", level: str = "info", **rest: Any) -> dict[str, Any]:
    return {
        "log_namespace": namespace,
        "log_level": LogLevel.levelWithName(level),
        "log_time": TIME,
        "log_format": "listening on {address}",
        "address": "mqtt://127.0.0.1:1883",
        **rest,
    }


class Case(TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp()).absolute()
        self.folder.mkdir()
        self.file = self.folder / "mhub.log"
        self.addCleanup(set_level, "info")

    def destination(self, **settings: Any) -> Destination:
        return Destination(LogSettings(to="file", file=str(self.file), **settings))

    def lines(self) -> list[str]:
        return self.file.read_text("utf-8").splitlines()


class FormatTests(Case):
    def test_text(self) -> None:
        self.destination()(event())
        (line,) = self.lines()
        self.assertRegex(line, r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d info net: listening on mqtt://127")

    def test_text_of_several_lines_is_indented(self) -> None:
        self.destination()(event(address="a\nb"))
        self.assertEqual(self.lines()[1], "    b")

    def test_json(self) -> None:
        self.destination(format="json")(
            event(event="connected", client_id="a\n\u202eb", listener="tcp", secret="no")
        )
        text = self.file.read_text("utf-8")
        self.assertEqual((text.count("\n"), text.isascii()), (1, True))
        self.assertEqual(
            json.loads(text),
            {
                "time": "2026-11-18T09:44:03.250Z",
                "level": "info",
                "part": "net",
                "message": "listening on mqtt://127.0.0.1:1883",
                "event": "connected",
                "client_id": "a\n\u202eb",
                "address": "mqtt://127.0.0.1:1883",
                "listener": "tcp",
            },
        )

    def test_json_of_a_defect(self) -> None:
        failure = Failure(ValueError("a defect"))  # type: ignore[no-untyped-call]
        self.destination(format="json")(event(log_failure=failure))
        self.assertIn("ValueError: a defect", json.loads(self.lines()[0])["traceback"])


class OthersTests(Case):
    """What libraries log follows `log.level`, too."""

    def shown(self, at: str) -> list[str]:
        set_level(at)
        self.file.unlink(missing_ok=True)
        destination = self.destination()
        for level in ("debug", "info", "warn", "error"):
            destination(event("twisted.internet", level))
        return [line.split()[2] for line in self.lines()]

    def test_levels(self) -> None:
        self.assertEqual(self.shown("debug"), ["debug", "info", "warn", "error"])
        self.assertEqual(self.shown("info"), ["warn", "error"])
        self.assertEqual(self.shown("warn"), ["warn", "error"])
        self.assertEqual(self.shown("error"), ["error"])

    def test_mhub_was_chosen_before(self) -> None:
        set_level("error")
        self.destination()(event())
        self.assertEqual(len(self.lines()), 1)

    def test_a_logger_of_twisted(self) -> None:
        destination: Any = self.destination()
        log = Logger(namespace="twisted.web", observer=destination)
        log.info("Starting factory")
        log.warn("careful")
        self.assertEqual(len(self.lines()), 1)


class FileTests(Case):
    def write(self, output: FileOutput, *lines: str) -> None:
        for line in lines:
            output.write(line, event())

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def test_rotation(self) -> None:
        output = FileOutput(str(self.file), 10, 2)
        self.write(output, "1111", "2222", "3333", "4444", "5555", "6666", "7777")
        self.assertEqual(self.names(), ["mhub.log", "mhub.log.1", "mhub.log.2"])
        read = [(self.folder / name).read_text() for name in self.names()]
        self.assertEqual(read, ["7777\n", "5555\n6666\n", "3333\n4444\n"])

    def test_a_long_line_is_not_a_reason_for_an_empty_file(self) -> None:
        self.write(FileOutput(str(self.file), 10, 2), "x" * 100, "y")
        self.assertEqual(self.names(), ["mhub.log", "mhub.log.1"])

    def test_none_is_kept(self) -> None:
        self.write(FileOutput(str(self.file), 10, 0), "1111", "2222", "3333")
        self.assertEqual((self.names(), self.lines()), (["mhub.log"], ["3333"]))

    def test_without_a_size(self) -> None:
        self.write(FileOutput(str(self.file), 0, 2), *["1" * 100] * 100)
        self.assertEqual(self.names(), ["mhub.log"])

    def test_goes_on_where_it_ended(self) -> None:
        self.write(FileOutput(str(self.file), 10, 2), "1111")
        self.write(FileOutput(str(self.file), 10, 2), "2222", "3333")
        self.assertEqual(self.names(), ["mhub.log", "mhub.log.1"])

    def test_moved_and_reopened(self) -> None:
        """As logrotate does it, with SIGHUP."""
        output = FileOutput(str(self.file), 0, 0)
        self.write(output, "1")
        self.file.rename(self.folder / "moved")
        self.write(output, "2")
        output.reopen()
        self.write(output, "3")
        self.assertEqual((self.folder / "moved").read_text(), "1\n2\n")
        self.assertEqual(self.lines(), ["3"])

    def test_a_rotation_that_fails(self) -> None:
        """Nothing is lost, the file grows."""
        output = FileOutput(str(self.file), 10, 1)
        (self.folder / "mhub.log.1").mkdir()
        self.write(output, "1111", "2222", "3333", "4444")
        self.assertEqual((self.lines(), output.lost), (["1111", "2222", "3333", "4444"], 0))

    def test_a_write_that_fails_is_counted(self) -> None:
        output = FileOutput("/dev/full", 0, 0)
        self.write(output, "1")
        self.assertEqual(output.lost, 1)

    def test_a_full_disk_that_has_room_again(self) -> None:
        """What it has of a line stays a line of its own, and how many were lost is told."""
        destination = self.destination()
        globalLogPublisher.addObserver(destination)
        self.addCleanup(globalLogPublisher.removeObserver, destination)
        room = [1000]

        def write(fd: int, data: bytes) -> int:
            taken = min(len(data), room[0])
            if not taken:
                raise OSError(errno.ENOSPC, "No space left on device")
            room[0] -= taken
            return real(fd, data[:taken])

        real = os.write
        self.patch(os, "write", write)
        log = logger("net")
        log.info("one")
        room[0] = 15
        for text in ("two", "three", "four"):
            log.info(text)
        room[0] = 1000
        log.info("five")
        log.info("six")
        found = [line[20:] for line in self.lines()]
        told = "warn log: 3 lines of the log were lost"
        self.assertEqual(found, ["info net: one", "", "info net: five", told, "info net: six"])

    def test_not_readable_for_everybody(self) -> None:
        FileOutput(str(self.file), 0, 0)
        self.assertEqual(self.file.stat().st_mode & 0o007, 0)

    def test_cannot_be_opened(self) -> None:
        self.file.mkdir()
        with self.assertRaisesRegex(LogError, "mhub.log: Is a directory"):
            self.destination()


class SyslogTests(Case):
    def output(self, address: str, facility: str = "daemon") -> SyslogOutput:
        output = SyslogOutput(address, facility)
        self.addCleanup(output.reopen)
        return output

    def server(self) -> tuple[socket.socket, str]:
        """By UDP, with its address."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(sock.close)
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(5.0)
        return sock, f"127.0.0.1:{sock.getsockname()[1]}"

    def daemon(self, path: str) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(sock.close)
        sock.bind(path)
        sock.settimeout(5.0)
        return sock

    def test_udp(self) -> None:
        sock, address = self.server()
        output = self.output(address, "local3")
        output.write("with a time", event(level="warn"))
        data = sock.recv(10_000).decode()
        self.assertEqual(
            data,
            f"<156>1 2026-11-18T09:44:03Z {socket.gethostname()} mhub {os.getpid()} - - "
            "warn net: listening on mqtt://127.0.0.1:1883",
        )

    def test_json_and_a_line_that_is_too_long(self) -> None:
        sock, address = self.server()
        output = self.output(address)
        output.write('{"a": 1}', event())
        self.assertTrue(sock.recv(10_000).endswith(b' - - {"a": 1}'))
        output.write("", event(address="x" * 100_000 + "\n"))
        self.assertEqual(len(sock.recv(100_000)), 8192)

    def test_nobody_is_there(self) -> None:
        """Lines are lost; the broker goes on, and finds it when it comes."""
        with tempfile.TemporaryDirectory() as folder:  # a short path, as a socket needs it
            output = self.output(f"{folder}/log")
            output.write("", event())
            self.assertEqual(output.lost, 1)
            daemon = self.daemon(f"{folder}/log")
            output.write("", event(address="there"))
            self.assertTrue(daemon.recv(10_000).endswith(b"info net: listening on there"))
            self.assertEqual(output.lost, 1)

    def test_full(self) -> None:
        """A daemon that does not read holds nobody up."""
        with tempfile.TemporaryDirectory() as folder:
            daemon = self.daemon(f"{folder}/log")
            output = self.output(f"{folder}/log")
            output.write("", event())
            assert output._sock is not None
            self.assertFalse(output._sock.getblocking())
            for _ in range(10_000):
                output.write("", event())
                if output.lost:
                    break
            self.assertGreater(output.lost, 0)
            self.assertTrue(daemon.recv(10_000).startswith(b"<30>mhub["))
