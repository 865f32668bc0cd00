"""The connection to a Redis server: made when needed, bounded in time, with errors to act on.

txredisapi speaks the protocol; its pools and handlers, which reconnect for ever and let calls wait
meanwhile, are not used.  A call connects if there is no connection, and fails if that fails.  A
connection on which anything took too long is cut, since its next answer would be to that call.
"""

import re
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from OpenSSL import SSL
from service_identity import VerificationError
from twisted.internet.defer import CancelledError, Deferred, DeferredLock, TimeoutError
from twisted.internet.endpoints import HostnameEndpoint, UNIXClientEndpoint, wrapClientTLS
from twisted.internet.error import ConnectError, ConnectingCancelledError
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure
from txredisapi import RedisError, RedisProtocol, ResponseError  # type: ignore[import-untyped]

from mhub.store.client_tls import client_tls
from mhub.store.contract import StoreBroken, StoreError

_REMEDIES: Final = {
    "OOM": "is out of memory: raise its maxmemory, or free some",
    "READONLY": "is a read-only replica: name the master, or its Sentinels",
    "MISCONF": "cannot save to its disk and takes no changes: is the disk full? Its log says more",
    "NOREPLICAS": "has fewer replicas than its min-replicas-to-write",
    "LOADING": "is still loading its data",
    "BUSY": "is busy with a script",
    "MASTERDOWN": "is a replica that has lost its master",
}
"""What passes by, or can be mended while the broker runs."""

_BROKEN: Final = {
    "NOAUTH": "wants a password",
    "WRONGPASS": "refuses the username or the password",
    "NOPERM": "does not let this user do it: allow the commands and keys that mhub needs",
    "WRONGTYPE": "has a key with this prefix that is not from mhub: choose another prefix",
    "DENIED": "takes connections from its own host only, as it has no password",
}

_CODE: Final = re.compile(rf"\b({'|'.join((*_REMEDIES, *_BROKEN))})\b")


@dataclass(frozen=True)
class RedisOptions:
    host: str = "127.0.0.1"  # or the path of a Unix socket
    port: int = 6379
    username: str = ""  # of an ACL; "" with a password: the default user
    password: str = field(default="", repr=False)
    db: int = 0
    prefix: str = "mhub:"
    node: str = ""  # of a cluster, whose nodes can all have the same prefix
    tls: bool = False
    ca: str = ""  # a file; "": whom this machine trusts
    certificate: str = ""
    key: str = ""
    sentinels: tuple[str, ...] = ()  # "host:port"; then `host` and `port` do not count
    sentinel_name: str = "mymaster"
    timeout_s: float = 5.0
    lease_s: float = 3.0  # how long a broker that was killed keeps another one out

    @property
    def keys(self) -> str:
        """What the keys of this broker begin with."""
        return f"{self.prefix}{self.node}:" if self.node else self.prefix


class WrongType(StoreBroken):
    """A key is there, and is not of the type that the command is for."""


class _Connection(RedisProtocol):  # type: ignore[misc]
    """One connection; answers are bytes as they came."""

    def __init__(self) -> None:
        super().__init__(charset=None, convertNumbers=False)
        self.why_lost: Failure | None = None
        self.gone: Deferred[None] = Deferred()

    def connectionLost(self, why: Failure) -> None:
        self.why_lost = why
        super().connectionLost(why)
        self.gone.callback(None)

    def abort(self) -> None:
        if self.why_lost is None:
            self.transport.abortConnection()


class RedisLink:
    def __init__(self, reactor: Any, options: RedisOptions) -> None:
        self._reactor = reactor
        self._options = options
        self._factory = Factory.forProtocol(_Connection)
        self._factory.noisy = False
        self._connecting = DeferredLock()
        self._connection: _Connection | None = None
        self._connections: set[_Connection] = set()  # those that have not quite gone as well
        self._calls: set[Deferred[Any]] = set()
        self.prefix = options.keys.encode()
        self._meta = self.prefix + b"meta"
        host = f"[{options.host}]" if ":" in options.host else options.host
        where = host if host.startswith("/") else f"{host}:{options.port}"
        if options.sentinels:
            where = f"{options.sentinel_name}, by {' '.join(options.sentinels)}"
        keys = f", keys {options.keys}*" if options.keys else ""
        self.name = f"Redis at {where}, database {options.db}{keys}"

    async def run(self, script: str, *arguments: bytes) -> Any:
        """What the script answers: bytes, or a number.  Its first argument is the prefix."""
        return await self._bounded(self._run(script, arguments))

    async def command(self, *words: str | bytes) -> Any:
        """What the command answers: bytes, None, a number, or a list of such."""
        return await self._bounded(self._command(words))

    async def _bounded(self, call: Coroutine[Any, Any, Any]) -> Any:
        timeout_s = self._options.timeout_s
        bounded = Deferred.fromCoroutine(call)
        bounded.addTimeout(timeout_s, self._reactor)
        self._calls.add(bounded)
        try:
            return await bounded
        except TimeoutError:
            self._cut()
            raise StoreError(f"{self.name}: no answer within {timeout_s:g} s") from None
        except CancelledError:
            self._cut()
            raise
        finally:
            self._calls.discard(bounded)

    async def close(self) -> None:
        for call in list(self._calls):
            call.cancel()
        self._cut()
        for connection in list(self._connections):
            connection.abort()
            await connection.gone

    def _cut(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    async def _run(self, script: str, arguments: tuple[bytes, ...]) -> Any:
        connection = await self._connected()
        try:
            # By its hash, but for the first time on a connection.
            return await connection.eval(script, [self._meta], (self.prefix, *arguments))
        except RedisError as error:
            raise self._explained(error, connection) from None

    async def _command(self, words: tuple[str | bytes, ...]) -> Any:
        connection = await self._connected()
        try:
            return await connection.execute_command(*words)
        except RedisError as error:
            raise self._explained(error, connection) from None

    async def _connected(self) -> _Connection:
        await self._connecting.acquire()
        try:
            if self._connection is None or not self._connection.connected:
                self._connection = await self._connect()
            return self._connection
        finally:
            self._connecting.release()

    async def _connect(self) -> _Connection:
        options = self._options
        host, port = options.host, options.port
        if options.sentinels:
            host, port = await self._master()
        connection = await self._reach(host, port)
        try:
            if options.password:
                user = [options.username] if options.username else []
                await connection.execute_command("AUTH", *user, options.password)
            if options.db:
                await connection.execute_command("SELECT", options.db)
        except RedisError as error:
            connection.abort()
            problem = self._explained(error, connection)
            # Whatever else a server says about a name, a password or a database stays so.
            if isinstance(error, ResponseError) and not _CODE.search(str(error)):
                if "max number of clients" not in str(error):
                    problem = StoreBroken(str(problem))
            raise problem from None
        except BaseException:
            connection.abort()
            raise
        return connection

    async def _reach(self, host: str, port: int) -> _Connection:
        try:
            endpoint = self._endpoint(host, port)
        except (OSError, ValueError, SSL.Error) as error:
            raise StoreBroken(f"{self.name}: TLS: {error}") from None
        try:
            connection: _Connection = await endpoint.connect(self._factory)
        except ConnectingCancelledError:
            raise CancelledError from None  # by which callers, and addTimeout(), know it
        except (ConnectError, OSError) as error:
            raise StoreError(f"{self.name}: cannot connect to {host}: {error}") from None
        self._connections.add(connection)
        connection.gone.addCallback(lambda _: self._connections.discard(connection))
        return connection

    def _endpoint(self, host: str, port: int) -> Any:
        options = self._options
        if host.startswith("/"):
            return UNIXClientEndpoint(self._reactor, host, options.timeout_s)
        endpoint: Any = HostnameEndpoint(self._reactor, host, port, options.timeout_s)
        if not options.tls:
            return endpoint
        creator = client_tls(host, options.ca, options.certificate, options.key)
        return wrapClientTLS(creator, endpoint)

    async def _master(self) -> tuple[str, int]:
        """Where the Sentinels say that the master is; the first one that knows is believed."""
        options = self._options
        problem = ""
        for sentinel in options.sentinels:
            host, _, port = sentinel.rpartition(":")
            try:
                connection = await self._reach(host.strip("[]"), int(port))
                try:
                    found = await connection.sentinel_get_master_addr_by_name(options.sentinel_name)
                finally:
                    connection.abort()
            except StoreBroken:
                raise
            except (StoreError, RedisError) as error:
                problem = str(error)
                continue
            if found:
                return found[0].decode(), int(found[1])
            problem = f"{sentinel} knows no master {options.sentinel_name}"
        raise StoreError(f"{self.name}: no Sentinel names a master: {problem}")

    def _explained(self, error: RedisError, connection: _Connection) -> StoreError:
        text = str(error)
        if not isinstance(error, ResponseError):
            return self._lost(connection, text)
        found = _CODE.search(text)
        if found is None:
            return StoreError(f"{self.name} answers: {text}")
        code = found.group(1)
        if code == "WRONGTYPE":
            return WrongType(f"{self.name} {_BROKEN[code]} ({text})")
        if code in _BROKEN:
            return StoreBroken(f"{self.name} {_BROKEN[code]} ({text})")
        if code in ("READONLY", "MASTERDOWN"):
            # It may have been the master a moment ago: the next call looks for it again.
            self._cut()
        return StoreError(f"{self.name} {_REMEDIES[code]} ({code})")

    def _lost(self, connection: _Connection, text: str) -> StoreError:
        why = connection.why_lost
        if why is not None and why.check(SSL.Error, VerificationError):
            return StoreBroken(f"{self.name}: TLS: {why.value!r}")
        if why is not None:
            text = why.getErrorMessage()
        return StoreError(f"{self.name}: the connection is lost: {text}")
