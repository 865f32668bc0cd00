"""Redis servers for tests: one that all tests of a run share, others made to measure, and a proxy.

The proxy stands between a store and a server, and cuts the connection at the moment of choice.
"""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import SkipTest

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint
from twisted.internet.protocol import Factory, Protocol

START_S = 20


class RedisServer:
    """A server on 127.0.0.1, in a directory of its own; `settings` as in redis.conf."""

    def __init__(self, *settings: str, tls: bool = False, sentinel: bool = False) -> None:
        binary = shutil.which("redis-server")
        if binary is None:
            raise SkipTest("there is no redis-server here: apt-get install redis-server")
        self.port = free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="mhub-redis-"))
        self._tls = tls
        self._binary = binary
        self._process: subprocess.Popen[bytes] | None = None
        ports = f"port 0\ntls-port {self.port}" if tls else f"port {self.port}"
        basics = ("bind 127.0.0.1", ports, f"dir {self.directory}", "logfile redis.log")
        persistence = () if sentinel else ('save ""', "appendonly no")
        self._mode = ["--sentinel"] if sentinel else []
        self.config = self.directory / "redis.conf"
        self.config.write_text("\n".join((*basics, *persistence, *settings, "")))
        atexit.register(self.remove)
        self.start()

    def start(self) -> None:
        command = [self._binary, str(self.config), *self._mode]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + START_S
        while not self._answers():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise AssertionError(f"redis-server: {self.log()}")
            time.sleep(0.01)

    def stop(self) -> None:
        """End it as an operator would; what it has on disk stays."""
        self._end(self._process.terminate if self._process else None)

    def kill(self) -> None:
        self._end(self._process.kill if self._process else None)

    def remove(self) -> None:
        self.kill()
        atexit.unregister(self.remove)
        shutil.rmtree(self.directory, ignore_errors=True)

    def ask(self, *words: Any, db: int = 0) -> Any:
        """What it answers to a command: bytes, a number, or a list of such."""
        with socket.create_connection(("127.0.0.1", self.port), 10) as connection:
            stream = connection.makefile("rwb")
            if db:
                stream.write(_command("SELECT", db))
            stream.write(_command(*words))
            stream.flush()
            if db:
                _answer(stream)
            return _answer(stream)

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def all_keys(self, db: int = 0) -> list[str]:
        return sorted(key.decode() for key in self.ask("KEYS", "*", db=db))

    def log(self) -> str:
        return (self.directory / "redis.log").read_text()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def _answers(self) -> bool:
        try:
            if self._tls:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return True
            self.ask("PING")
        except RuntimeError as error:
            return "LOADING" not in str(error)  # it may want a password
        except OSError:
            return False
        return True

    def _end(self, end: Any) -> None:
        process, self._process = self._process, None
        if process is not None:
            end()
            process.wait(START_S)


_shared: RedisServer | None = None


def shared_server() -> RedisServer:
    """The one for whoever needs nothing special; empty."""
    global _shared
    if _shared is None:
        _shared = RedisServer()
    _shared.ask("FLUSHALL")
    return _shared


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _command(*words: Any) -> bytes:
    encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    parts = b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded)
    return b"*%d\r\n%b" % (len(encoded), parts)


def _answer(stream: Any) -> Any:
    line = stream.readline()
    kind, rest = line[:1], line[1:-2]
    match kind:
        case b"+":
            return rest
        case b":":
            return int(rest)
        case b"$":
            return None if rest == b"-1" else stream.read(int(rest) + 2)[:-2]
        case b"*":
            return [_answer(stream) for _ in range(int(rest))]
    raise RuntimeError(rest.decode() or "the connection is closed")


class Proxy:
    """Passes on what comes, until `cut` says where to cut: in a "request", or before a "reply"."""

    def __init__(self, reactor: Any, server_port: int) -> None:
        self.cut = ""
        self.cuts = 0
        self._reactor = reactor
        self._server_port = server_port
        self._ends: set[_End] = set()
        self._listener = reactor.listenTCP(0, _Entrance(self), interface="127.0.0.1")
        self.port = self._listener.getHost().port

    async def stop(self) -> None:
        await self._listener.stopListening()
        while self._ends:
            end = next(iter(self._ends))
            end.transport.abortConnection()
            await end.gone

    def joined(self, end: "_End") -> None:
        self._ends.add(end)
        if end.role == "request":
            endpoint = HostnameEndpoint(self._reactor, "127.0.0.1", self._server_port)
            endpoint.connect(_Exit(self, end)).addErrback(lambda _: end.leave())

    def left(self, end: "_End") -> None:
        self._ends.discard(end)
        if end.other is not None:
            end.other.leave()

    def came(self, end: "_End", data: bytes) -> None:
        if self.cut == end.role:
            self.cut = ""
            self.cuts += 1
            # Half of a request arrives; a server waits for the rest of it and then forgets it.
            if end.other is not None and end.role == "request":
                end.other.transport.write(data[: len(data) // 2])
            end.leave()
        elif end.other is None:
            end.early += data
        else:
            end.other.transport.write(data)


class _End(Protocol):
    def __init__(self, proxy: Proxy, role: str, other: "_End | None") -> None:
        self.role = role
        self.other = other
        self.early = b""
        self.gone: Deferred[None] = Deferred()
        self._proxy = proxy

    def connectionMade(self) -> None:
        self._proxy.joined(self)
        if self.other is not None:
            self.other.other = self
            self.transport.write(self.other.early)

    def dataReceived(self, data: bytes) -> None:
        self._proxy.came(self, data)

    def connectionLost(self, reason: Any = None) -> None:
        self._proxy.left(self)
        self.gone.callback(None)

    def leave(self) -> None:
        self.transport.loseConnection()


class _Entrance(Factory):
    noisy = False

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    def buildProtocol(self, addr: Any) -> Protocol:
        return _End(self._proxy, "request", None)


class _Exit(Factory):
    noisy = False

    def __init__(self, proxy: Proxy, entered: _End) -> None:
        self._proxy = proxy
        self._entered = entered

    def buildProtocol(self, addr: Any) -> Protocol:
        return _End(self._proxy, "reply", self._entered)
