"""One call to a control socket: its result, and what a user is told when there is none."""

from pathlib import Path
from unittest import mock

from twisted.trial.unittest import TestCase

from mhub.control.contract import ControlError
from mhub.ctl.client import call
from tests.ctl.canned import CannedSocket


class ClientCase(TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp()).absolute()
        self.folder.mkdir()
        self.path = self.folder / "control.sock"

    def error(self, **more: float) -> str:
        return str(self.assertRaises(ControlError, call, str(self.path), "x", **more))


class AnswerTests(ClientCase):
    def test_result(self) -> None:
        with CannedSocket(self.path, {"result": [1, None]}) as canned:
            self.assertEqual(call(str(self.path), "do-it", {"node": "b"}), [1, None])
        self.assertEqual(canned.requests, [("/do-it", {"node": "b"})])

    def test_bytes_of_a_command_line_that_are_not_utf8(self) -> None:
        with CannedSocket(self.path, {"error": "no such client"}) as canned:
            self.assertRaises(ControlError, call, str(self.path), "kick", {"client_id": "\udcff"})
        self.assertEqual(canned.requests, [("/kick", {"client_id": "\udcff"})])

    def test_progress(self) -> None:
        told: list[str] = []
        lines = ({"progress": "one"}, {"progress": "two"}, {"result": 3})
        with CannedSocket(self.path, *lines):
            self.assertEqual(call(str(self.path), "x", progress=told.append), 3)
        self.assertEqual(told, ["one", "two"])

    def test_progress_that_nobody_wants(self) -> None:
        with CannedSocket(self.path, {"progress": "one"}, {"result": 3}):
            self.assertEqual(call(str(self.path), "x"), 3)

    def test_long_answer(self) -> None:
        with CannedSocket(self.path, {"result": "x" * 1_000_000}):
            self.assertEqual(call(str(self.path), "x"), "x" * 1_000_000)

    def test_refused(self) -> None:
        with CannedSocket(self.path, {"error": "not today"}):
            self.assertEqual(self.error(), "not today")

    def test_data(self) -> None:
        """What is no answer goes to whoever wants it, as it came."""
        got: list[bytes] = []
        lines = (b'{"kind": 1}\n', b'{"kind": 2}\n', {"result": None})
        with CannedSocket(self.path, *lines):
            self.assertIsNone(call(str(self.path), "x", data=got.append))
        self.assertEqual(got, [b'{"kind": 1}\n', b'{"kind": 2}\n'])

    def test_error_behind_data(self) -> None:
        with CannedSocket(self.path, b'{"kind": 1}\n', {"error": "not today"}):
            self.assertRaises(ControlError, call, str(self.path), "x", data=lambda line: None)


class NobodyTests(ClientCase):
    def test_nobody_there(self) -> None:
        """Neither a file, nor a socket that was left behind, nor a wrong path is a broker."""
        text = f"no broker answers at {self.path}: is it running, and is that its control socket?"
        self.assertEqual(self.error(), text)
        with CannedSocket(self.path, {"result": None}):
            call(str(self.path), "x")
        self.assertEqual(self.error(), text)
        self.path.unlink()
        self.path.write_text("a file")
        self.assertEqual(self.error(), text)
        self.path = self.path / "below"
        self.assertIn("no broker answers at", self.error())

    def test_not_allowed(self) -> None:
        # Not by the file's mode, which does not keep out root.
        with mock.patch("mhub.ctl.client.short_name", side_effect=PermissionError()):
            self.assertIn(f"not allowed to use {self.path}: run this as the user", self.error())

    def test_busy(self) -> None:
        with mock.patch("mhub.ctl.client.short_name", side_effect=BlockingIOError()):
            self.assertIn("does not take the connection", self.error())

    def test_other_errors(self) -> None:
        self.path = self.folder / ("x" * 200)
        self.assertIn(f"cannot connect to {self.path}: ", self.error())

    def test_silence(self) -> None:
        with CannedSocket(self.path, {"progress": "one"}, silent=True):
            self.assertEqual(
                self.error(silence_s=0.01),
                f"nothing was received from the broker at {self.path} for 0.01 s; its log may tell"
                " why",
            )

    def test_no_answer(self) -> None:
        for lines in ((), ({"progress": "one"},), (b'{"result": tr',)):
            with CannedSocket(self.path, *lines):
                self.assertEqual(
                    self.error(),
                    f"the broker at {self.path} went away without an answer: has it ended?",
                )
            self.path.unlink()

    def test_strangers(self) -> None:
        for line in (b"hello\n", b"[]\n", b'{"result":]\n', b'{"result":' + b"[" * 100_000 + b"\n"):
            with CannedSocket(self.path, line):
                self.assertEqual(
                    self.error(), f"what answers at {self.path} is not a broker's control socket"
                )
            self.path.unlink()
        with CannedSocket(self.path, head=b"220 mail.example.org ESMTP\n"):
            self.assertIn("is not a broker's control socket", self.error())
        self.path.unlink()
        with (
            mock.patch("mhub.ctl.client.MAX_LINE", 1000),
            CannedSocket(self.path, b"x" * 2000, silent=True),
        ):
            self.assertIn("is not a broker's control socket", self.error())
