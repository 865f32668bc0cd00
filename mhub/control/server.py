"""The control socket of a broker, as a Twisted service.

The socket is bound early, with its permissions, and served from the start of the service; what is
said there is the admin API.
"""

import errno
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from klein import Klein
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReadDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer  # type: ignore[import-untyped]

from mhub.control.contract import ControlError, short_name
from mhub.control.site import BOUNDS, control_site
from mhub.log import logger
from mhub.web.site import BoundedSite

ACCEPT_PAUSE_S: Final = 1.0
"""How long to accept nobody when there are no file descriptors left."""


class ControlService(Service):
    """Listens on `path`.  Without `required`, a broker whose socket cannot be goes on without."""

    name = "control"

    def __init__(
        self,
        path: str,
        mode: int,
        app: Klein,
        stop: Callable[[], None],
        reactor: Any,
        *,
        required: bool = True,
    ) -> None:
        """`app` has the routes; stop() cancels what of them is running."""
        self._path = path
        self._mode = mode
        self._reactor = reactor
        self._required = required
        self._log = logger("control")
        self._socket: socket.socket | None = None
        self._made: tuple[int, int] | None = None  # which file of that name is ours
        self._stop = stop
        self._site = control_site(app.resource(), reactor)
        self._accepting: Accepting | None = None

    def privilegedStartService(self) -> None:
        """Make the socket.  Raises ControlError."""
        try:
            self._socket, self._made = _bind(self._path, self._mode)
        except ControlError as error:
            if self._required:
                raise
            self._log.warn(
                "no control socket, so `mhub ctl` cannot reach this broker: {error}",
                error=error,
            )

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        if self._socket is not None:
            self._accepting = Accepting(self._socket, self._site, self._reactor)
            self._accepting.open()
            self._log.info("control socket {path}", path=self._path)

    def stopService(self) -> Deferred[None]:
        super().stopService()  # type: ignore[no-untyped-call]
        if self._accepting is not None:
            self._accepting.close()
        if self._socket is not None:
            self._socket.close()
            _remove(self._path, self._made)
        self._stop()
        return self._site.close()


def _bind(path: str, mode: int) -> tuple[socket.socket, tuple[int, int]]:
    """A socket that listens, and which file it is."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _make_folder(Path(path).parent)
        with short_name(path) as name:
            _clear_stale(path, name)
            listener.bind(name)
        # Nobody can connect before it listens.
        os.chmod(path, mode)
        made = os.stat(path)
        listener.setblocking(False)
        listener.listen(BOUNDS.max_connections)
    except OSError as error:
        listener.close()
        raise ControlError(f"control socket {path}: {error.strerror or error}") from error
    except ControlError:
        listener.close()
        raise
    return listener, (made.st_dev, made.st_ino)


def _make_folder(folder: Path) -> None:
    """As the store makes it: for its owner only."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(0o700, exist_ok=True)
    if os.geteuid() == 0:
        # twistd may go on as another user, who has to write here as well.
        owner = folder.parent.stat()
        os.chown(folder, owner.st_uid, owner.st_gid)


def _clear_stale(path: str, name: str) -> None:
    """Remove the socket that a broker left which ended without a chance to; never a live one."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise ControlError(f"control socket {path}: exists and is not a socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(name)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except BlockingIOError:
            pass  # it has a queue of others who want to connect
    raise ControlError(
        f"control socket {path}: another process answers there already; is this broker running?"
        " Each broker needs a [control] path of its own"
    )


def _remove(path: str, made: tuple[int, int] | None) -> None:
    try:
        found = os.stat(path)
        if (found.st_dev, found.st_ino) == made:
            os.unlink(path)
    except OSError:
        pass  # the next broker finds out that nobody answers there


@implementer(IReadDescriptor)
class Accepting:
    """Accepts clients.  Twisted's own Unix port would set the permissions to what it likes."""

    def __init__(self, listener: socket.socket, site: BoundedSite, reactor: Any) -> None:
        self._listener = listener
        self._site = site
        self._reactor = reactor
        self._paused: Any = None

    def open(self) -> None:
        self._paused = None
        self._reactor.addReader(self)

    def close(self) -> None:
        self._reactor.removeReader(self)
        if self._paused is not None:
            self._paused.cancel()
            self._paused = None

    def fileno(self) -> int:
        return self._listener.fileno()

    def doRead(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._reactor.removeReader(self)
                self._paused = self._reactor.callLater(ACCEPT_PAUSE_S, self.open)
            return
        with connection:  # the reactor works on a copy
            connection.setblocking(False)
            try:
                self._reactor.adoptStreamConnection(connection.fileno(), socket.AF_UNIX, self._site)
            except OSError:
                pass  # no descriptor for the copy, or the client is gone already

    def logPrefix(self) -> str:
        return "mhub control"

    def connectionLost(self, reason: Failure) -> None:
        """The reactor is being stopped."""
