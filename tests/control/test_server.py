"""The control socket of a broker: its file, and calls over it."""

import errno
import json
import os
import socket
import stat
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import parse_qsl, urlsplit

from klein import Klein
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from mhub.control.contract import ControlError, short_name
from mhub.control.server import ACCEPT_PAUSE_S, Accepting, ControlService
from mhub.ctl.client import Api
from mhub.ctl.place import Place

LONGEST_S = 20.0


class ServiceCase(TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp()).absolute()
        self.folder.mkdir()
        self.path = self.folder / "data" / "control.sock"
        self.app = Klein()
        self.waiting: list[Deferred[bytes]] = []
        self.app.route("/admin/v1/echo")(self.echo)
        self.app.route("/admin/v1/wait")(self.wait)

    def echo(self, request: Any) -> bytes:
        query = urlsplit(request.uri.decode()).query
        asked = dict(parse_qsl(query, keep_blank_values=True))
        return json.dumps(asked).encode()

    def wait(self, request: Any) -> Deferred[bytes]:
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def stop(self) -> None:
        while self.waiting:
            self.waiting.pop().callback(b'{"stopped": true}')

    def make(self, mode: int = 0o660, *, required: bool = True) -> ControlService:
        service = ControlService(
            str(self.path), mode, self.app, self.stop, reactor, required=required
        )
        service.privilegedStartService()
        self.addCleanup(service.stopService)
        return service

    def start(self) -> ControlService:
        service = self.make()
        service.startService()
        return service

    def refusal(self) -> str:
        return str(self.assertRaises(ControlError, self.make)).removeprefix(
            f"control socket {self.path}: "
        )


class FileTests(ServiceCase):
    def test_permissions(self) -> None:
        """The socket has its mode from the beginning, the folder is for its owner only."""
        before = os.umask(0o077)
        self.addCleanup(os.umask, before)
        self.make(0o666)
        self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), 0o666)
        self.assertEqual(stat.S_IMODE(self.path.parent.stat().st_mode), 0o700)

    def test_a_folder_that_is_there_stays_as_it_is(self) -> None:
        self.path.parent.mkdir(0o755)
        self.path.parent.chmod(0o755)
        self.make()
        self.assertEqual(stat.S_IMODE(self.path.parent.stat().st_mode), 0o755)

    def test_left_over(self) -> None:
        """The socket of a broker that was killed is in nobody's way."""
        self.path.parent.mkdir()
        with socket.socket(socket.AF_UNIX) as left, short_name(str(self.path)) as name:
            left.bind(name)
        self.start()
        self.assertEqual(len(list(self.path.parent.iterdir())), 1)

    def test_another_broker(self) -> None:
        """A live socket stays, even of a broker that is too busy to answer."""
        self.make()
        found = self.path.stat().st_ino
        text = "another process answers there already; is this broker running?"
        self.assertIn(text, self.refusal())
        with mock.patch("mhub.control.server.socket.socket.connect", side_effect=BlockingIOError):
            self.assertIn(text, self.refusal())
        self.assertEqual(self.path.stat().st_ino, found)

    def test_not_a_socket(self) -> None:
        self.path.parent.mkdir()
        self.path.write_text("precious")
        self.assertEqual(self.refusal(), "exists and is not a socket")
        self.assertEqual(self.path.read_text(), "precious")

    def test_cannot_be_made(self) -> None:
        (self.folder / "data").write_text("no folder")
        self.assertEqual(self.refusal(), "File exists")
        self.path = self.folder / ("x" * 200)
        self.assertIn("too long", self.refusal())

    async def test_not_required(self) -> None:
        """A broker that nobody asked for it goes on without."""
        (self.folder / "data").write_text("no folder")
        service = self.make(required=False)
        service.startService()
        await service.stopService()
        self.assertEqual((self.folder / "data").read_text(), "no folder")

    async def test_removed_at_the_end(self) -> None:
        await self.start().stopService()
        self.assertFalse(self.path.exists())

    async def test_the_socket_of_another_is_not_removed(self) -> None:
        service = self.start()
        self.path.rename(self.path.with_name("moved"))
        self.make()
        await service.stopService()
        self.assertTrue(self.path.exists())

    def test_folder_belongs_to_who_has_the_one_above(self) -> None:
        """As root, which twistd may start as before it changes to another user."""
        owners: list[tuple[str, int, int]] = []
        above = self.folder.stat()
        with (
            mock.patch("os.geteuid", return_value=0),
            mock.patch("os.chown", lambda path, uid, gid: owners.append((str(path), uid, gid))),
        ):
            self.make()
        self.assertEqual(owners, [(str(self.folder / "data"), above.st_uid, above.st_gid)])


class SocketTests(ServiceCase):
    """Over a real socket, with the real client."""

    timeout = 3 * LONGEST_S

    def setUp(self) -> None:
        super().setUp()
        self.service = self.start()

    def call(self, path: str, **query: object) -> Deferred[object]:
        api = Api(Place(socket=str(self.path)))
        return deferToThread(api.get, path, **query).addTimeout(LONGEST_S, reactor)

    async def test_call(self) -> None:
        self.assertEqual(await self.call("echo", match="b*"), {"match": "b*"})

    async def test_any_client_id(self) -> None:
        """Up to the longest that MQTT has."""
        for name in ("a\nb\x1b[2J", "\u202e\U0001f41d", '"\\' * 20_000, "ß" * 32_767):
            self.assertEqual(await self.call("echo", client_id=name), {"client_id": name})

    async def test_long_path(self) -> None:
        """A folder may be deeper than the kernel's name of a socket has room for."""
        self.path = self.folder / ("deep" * 30) / "control.sock"
        service = self.start()
        self.assertEqual(await self.call("echo"), {})
        self.assertIn("another process answers", self.refusal())
        await service.stopService()
        self.assertFalse(self.path.exists())

    async def test_stop_while_a_command_runs(self) -> None:
        calling = self.call("wait")
        while not self.waiting:
            await self.tick()
        await self.service.stopService()
        self.assertEqual(await calling, {"stopped": True})
        with self.assertRaisesRegex(ControlError, "^no broker answers at "):
            await self.call("echo")

    async def test_other_tools(self) -> None:
        """Anything that speaks HTTP can ask, such as curl."""

        def ask() -> tuple[int, bytes]:
            connection = HTTPConnection("mhub", timeout=LONGEST_S)
            connection.sock = socket.socket(socket.AF_UNIX)
            with short_name(str(self.path)) as name:
                connection.sock.connect(name)
            with connection.sock:
                connection.request("GET", "/admin/v1/echo?a=b")
                answer = connection.getresponse()
                return answer.status, answer.read()

        self.assertEqual(await deferToThread(ask), (200, b'{"a": "b"}'))

    def tick(self) -> Deferred[None]:
        ticked: Deferred[None] = Deferred()
        reactor.callLater(0.005, ticked.callback, None)
        return ticked


class AcceptingTests(TestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.clock.readers = set()
        self.clock.addReader = self.clock.readers.add
        self.clock.removeReader = self.clock.readers.discard
        self.listener = mock.Mock()
        self.accepting = Accepting(self.listener, mock.Mock(), self.clock)
        self.accepting.open()

    def test_no_descriptors_left(self) -> None:
        """It waits for a while, instead of being woken again and again."""
        self.listener.accept.side_effect = OSError(errno.EMFILE, "Too many open files")
        self.accepting.doRead()
        self.assertEqual(self.clock.readers, set())
        self.clock.advance(ACCEPT_PAUSE_S)
        self.assertEqual(self.clock.readers, {self.accepting})

    def test_closed_meanwhile(self) -> None:
        self.listener.accept.side_effect = OSError(errno.EMFILE, "Too many open files")
        self.accepting.doRead()
        self.accepting.close()
        self.assertEqual((self.clock.readers, self.clock.getDelayedCalls()), (set(), []))

    def test_who_goes_before_it_is_accepted(self) -> None:
        self.listener.accept.side_effect = BlockingIOError()
        self.accepting.doRead()
        self.assertEqual(self.clock.readers, {self.accepting})

    def test_no_descriptor_for_the_connection(self) -> None:
        connection = mock.MagicMock()
        self.listener.accept.return_value = connection, b""
        self.clock.adoptStreamConnection = mock.Mock(side_effect=OSError(errno.EMFILE, "x"))
        self.accepting.doRead()
        self.assertTrue(connection.__exit__.called)
