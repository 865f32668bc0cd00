"""Links: Perspective Broker connections between nodes, and what the node sees of them.

    dial or accept -> Login, both ways -> Ends.opened -> frames -> Ends.lost, or LinkEnd.close

A frame is one PB call without an answer, or several for a body that is larger than a part.  A
connection ends by `close`, which tells the other side why; whoever was told hangs up, so that the
text is not lost with the connection.  How a connection ended is logged here, by both sides; of a
dial that does not come to a link the node hears, and warns (`mhub.cluster.unreachable`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Final

from OpenSSL import SSL
from twisted.internet.defer import CancelledError, Deferred, TimeoutError, maybeDeferred
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.error import (
    ConnectError,
    ConnectingCancelledError,
    ConnectionDone,
    ConnectionLost,
    DNSLookupError,
)
from twisted.internet.error import TimeoutError as ConnectTimeout
from twisted.internet.task import deferLater
from twisted.logger import Logger, LogLevel
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from twisted.spread.pb import IPBRoot, ProtocolError
from zope.interface import implementer  # type: ignore[import-untyped]

from mhub.cluster.broker import PB, Broker, PlainData
from mhub.cluster.contract import Ends
from mhub.cluster.hostnames import Hostnames, NamingReactor
from mhub.cluster.login import Entrance, ILink, Login, Secrets
from mhub.cluster.strangers import Strangers, networks
from mhub.cluster.tls import LinkTls, TlsFiles, explain, misnamed
from mhub.config.kinds import join_address
from mhub.log import logger

PART: Final = 256 * 1024
"""How much of a body goes into one call."""

LINGER_S: Final = 2.0
"""How long the other side may take to hang up after it was told that it is over."""

_LINK: Final = b"link"
_SHOWN: Final = 300
_GIVEN_UP: Final = (CancelledError, ConnectingCancelledError, ConnectTimeout, TimeoutError)
_QUIET: Final = (ConnectionDone, ConnectionLost)
_WHOSE: Final = "an error within the node that ended the link; its log says more"


@dataclass(frozen=True)
class LinkSettings:
    listen_host: str
    listen_port: int
    secret: bytes = field(repr=False)
    tls: TlsFiles | None = None
    connect_timeout_s: float = 5.0
    login_timeout_s: float = 5.0
    max_frame_bytes: int = 320 * 1024 * 1024
    max_strangers: int = 64
    max_strangers_per_address: int = 32
    """How many connections there may be at a time that have not logged in: see `strangers`."""


class _State(Enum):
    LOGIN = "login"
    OPEN = "open"
    OVER = "over"


@implementer(ILink)
class Link:
    """One connection, from its first byte to its last: to the node a LinkEnd, to the other side an
    object.  The same object stands at both ends.

        begin()              the dialler is content: from here on both sides may send frames
        part(body)           the next piece of a large frame
        frame(kind, body)   a frame, or the last piece of one
        close(text)          it is over, for this reason; hang up
    """

    calls: ClassVar[dict[bytes, tuple[type, ...]]] = {
        b"begin": (),
        b"part": (bytes,),
        b"frame": (int, bytes),
        b"close": (bytes,),
    }

    def __init__(self, links: "Links", broker: Broker, dialled: bool, address: str = "") -> None:
        self.dialled = dialled
        self.address = address
        self.host = ""  # of who has called
        self.gone: Deferred[None] = Deferred()
        self._links = links
        self._ends = links.ends
        self._log = links.log
        self._broker = broker
        self._state = _State.LOGIN
        self._peer = address
        self._hello: bytes | None = None
        self._parts: list[bytes] = []
        self._joined_bytes = 0
        self._timer: Any = None
        self.has_spoken = False
        self.is_held = False
        broker.owner = self
        broker.setNameForLocal(_LINK, self)

    # To the node: LinkEnd.

    def send(self, kind: int, body: bytes) -> None:
        if self._state is not _State.OPEN:
            return
        if len(body) > PART:
            last = (len(body) - 1) // PART * PART
            for at in range(0, last, PART):
                self._broker.cast(_LINK, b"part", body[at : at + PART])
            body = body[last:]
        self._broker.cast(_LINK, b"frame", kind, body)

    def close(self, text: str) -> None:
        before, self._state = self._state, _State.OVER
        if before is not _State.OVER:
            self._log.info("link with {peer} closed: {text}", peer=self._peer, text=text)
            self._leave(text)

    # To the login: Party.

    def hello(self) -> bytes:
        return self._ends.hello()

    def met(self, hello: bytes) -> None:
        self._hello = hello
        name = self._ends.name_of(hello)
        self._peer = f"{self.address} ({_clean(name)})"

    def refusal(self) -> str:
        hello = self._hello or b""
        text = ""
        if self._links.tls is not None:
            text = misnamed(self._broker.transport.getHandle(), self._ends.name_of(hello))
        return text or self._ends.refusal(hello)

    def trust(self) -> None:
        self._broker.trusted = True

    def begin(self) -> None:
        if self._state is _State.LOGIN:
            self._broker.cast(_LINK, b"begin")
            self._open()

    def fail(self, text: str) -> None:
        """The end, for a reason of which the node has yet to hear."""
        self._end(text, LogLevel.warn)

    def speaks(self) -> None:
        self.has_spoken = True

    def fail_slowly(self, text: str) -> None:
        if self._state is not _State.LOGIN:
            return
        delay_s, count = self._links.wrong_proof(self)
        self._stop_timer()
        self.is_held = True
        self._broker.stop_listening()  # whatever it would be told for that, it would be told sooner
        # An address that keeps guessing is logged ever more rarely.
        level = LogLevel.warn if count & (count - 1) == 0 else LogLevel.debug
        if count > 1:
            text = f"{text} ({count} times from this address)"
        self._timer = self._links.reactor.callLater(delay_s, self._end, text, level)

    def evict(self) -> None:
        """At once: what lingers would be one more for each that comes."""
        if self._state is _State.LOGIN:
            self._state = _State.OVER
            self._log.debug("no link with {peer}: its place was needed", peer=self._peer)
            self._stop_timer()
            self._broker.transport.abortConnection()

    # To the other side, through the Broker.

    def remote_begin(self) -> None:
        if self._state is _State.LOGIN:
            if self.dialled or not self._broker.trusted:
                raise ProtocolError("begin() out of turn")
            self._open()

    def remote_part(self, body: bytes) -> None:
        if not self._listening():
            return
        self._parts.append(body)
        self._joined_bytes += len(body)
        if self._joined_bytes > self._links.settings.max_frame_bytes:
            self._parts.clear()
            self.fail(f"a frame of more than {self._links.settings.max_frame_bytes} bytes")

    def remote_frame(self, kind: int, body: bytes) -> None:
        if not self._listening():
            return
        if self._parts:
            self.remote_part(body)
            body = b"".join(self._parts)
            self._parts.clear()
            self._joined_bytes = 0
            if not self._listening():
                return
        self._tell(self._ends.received, self, kind, body)

    def remote_close(self, text: bytes) -> None:
        said = _clean(text.decode("utf-8", "replace"))
        self._end(f"the other side says: {said}", LogLevel.warn, told=True)
        self._broker.transport.loseConnection()

    # To the Broker: Owner.

    def connected(self) -> None:
        """Somebody has called; of those whom we call, `Links` hears first."""
        where = self._broker.transport.getPeer()
        self.host = where.host
        self.address = self._peer = join_address(where.host, where.port)
        if self._links.make_room(self):
            self.start()
        else:
            self._state = _State.OVER
            self._broker.transport.abortConnection()

    def broken(self, text: str) -> None:
        if self._state is _State.OVER:
            self._broker.transport.abortConnection()
        self.fail(text)

    def disconnected(self, why: Failure) -> None:
        self._stop_timer()
        self._links.forget(self)
        level = LogLevel.warn
        if not self.dialled and self._hello is None and isinstance(why.value, _QUIET):
            level = LogLevel.debug  # whoever only looks whether somebody is there
        self._end(self._explain(why), level)
        self.gone.callback(None)

    def start(self) -> None:
        self._timer = self._links.reactor.callLater(
            self._links.settings.login_timeout_s, self._late
        )

    def _late(self) -> None:
        text = f"no login within {self._links.settings.login_timeout_s:g} s"
        if not self._broker.currentDialect:
            # A TLS listener waits for the dialler to begin, Perspective Broker for the listener.
            text += ", not even a beginning: is TLS set at one side only?"
        self.fail(text)

    def _listening(self) -> bool:
        if self._state is _State.LOGIN:
            raise ProtocolError("a frame before the login")
        return self._state is _State.OPEN

    def _open(self) -> None:
        self._state = _State.OPEN
        self._stop_timer()
        self._links.welcome(self, self._broker.transport.getPeer().host)
        self._log.info("link with {peer}", peer=self._peer)
        self._tell(self._ends.opened, self, self._hello)

    def _tell(self, call: Callable[..., None], *what: object) -> None:
        """Call the node, whose errors are nobody else's."""
        try:
            call(*what)
        except Exception:
            self._log.failure("link with {peer}: an error within this node", peer=self._peer)
            self.fail(_WHOSE)

    def _end(self, text: str, level: Any, told: bool = False) -> None:
        before, self._state = self._state, _State.OVER
        if before is _State.OVER:
            return
        what = "link with {peer} lost" if before is _State.OPEN else "no link with {peer}"
        if before is _State.LOGIN and self.dialled:
            level = LogLevel.debug  # the node warns of it, but not each time
        self._log.emit(level, what + ": {text}", peer=self._peer, text=text)
        self._leave("" if told else text)
        if before is _State.OPEN:
            self._tell(self._ends.lost, self, text)
        elif self.dialled:
            self._tell(self._ends.dial_failed, self.address, text)

    def _leave(self, text: str) -> None:
        """Tell the other side why, if there is something to tell, and let it hang up."""
        self._stop_timer()
        broker = self._broker
        if broker.disconnected:
            return
        if not broker.currentDialect:
            broker.transport.abortConnection()
            return
        if text:
            broker.cast(_LINK, b"close", text.encode())
        self._timer = self._links.reactor.callLater(LINGER_S, broker.transport.abortConnection)

    def _stop_timer(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def _explain(self, why: Failure) -> str:
        if isinstance(why.value, SSL.Error):
            return explain(why.value, self._broker.transport.getHandle())
        return why.getErrorMessage()


@implementer(IPBRoot)
class Links:
    """All links of a node: those that came in, and those that it dialled."""

    def __init__(
        self,
        ends: Ends,
        settings: LinkSettings,
        reactor: Any,
        log: Logger | None = None,
        tls: Any = None,
        names: Hostnames | None = None,
        secrets: Secrets | None = None,
    ) -> None:
        """`tls` and `secrets` have been made of the settings already, by another node in this
        process; `names` knows the addresses of host names, else the system does."""
        self.ends = ends
        self.settings = settings
        self.reactor = reactor
        self.log = log or logger("cluster")
        # `Any`: mypy does not see that it provides what Twisted's TLS asks for.
        self.tls: Any = tls
        if tls is None and settings.tls is not None:
            self.tls = LinkTls(settings.tls)
        self.names = names
        self._login = Login(secrets or Secrets(settings.secret, reactor.seconds))
        self._port: Any = None
        self._links: set[Link] = set()
        # The answer to a wrong proof must not come later than the other side would wait for it.
        longest_s = 0.8 * settings.login_timeout_s
        self.strangers = Strangers(
            settings.max_strangers, settings.max_strangers_per_address, longest_s
        )
        self.listed: Callable[[], Iterable[str]] = lambda: ()  # addresses where nodes may be
        self._dials: set[Deferred[None]] = set()
        self._crowded = False
        self._stopped = False

    @property
    def secrets(self) -> Secrets:
        return self._login.secrets

    def listen(self) -> int:
        """Bind; the port that it is.  Raises twisted.internet.error.CannotListenError."""
        factory: Any = PB.PBServerFactory(self, security=PlainData())
        factory.protocol = Broker
        factory.noisy = False
        if self.tls is not None:
            factory = TLSMemoryBIOFactory(self.tls, False, factory, self.reactor)
        settings = self.settings
        self._port = self.reactor.listenTCP(
            settings.listen_port, factory, interface=settings.listen_host
        )
        return int(self._port.getHost().port)

    def dial(self, address: str) -> None:
        """As in Dialer: never calls back before it has returned."""
        if not self._stopped:
            dial = Deferred.fromCoroutine(self._dial(address))
            self._dials.add(dial)
            dial.addErrback(self._failed).addBoth(lambda _: self._dials.discard(dial))

    def stop(self) -> Deferred[None]:
        """Close everything; the node hears nothing more."""
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        self._stopped = True
        for dial in list(self._dials):
            dial.cancel()
        leaving = list(self._links)
        for link in leaving:
            link.close("the node is shutting down")
        if self._port is not None:
            await maybeDeferred(self._port.stopListening)
        for link in leaving:
            await link.gone

    async def _dial(self, address: str) -> None:
        factory: Any = PB.PBClientFactory(security=PlainData())
        factory.protocol = Broker
        factory.noisy = False
        try:
            await deferLater(self.reactor, 0)
            broker = await self._reach(address, factory)
        except _GIVEN_UP:
            if not self._stopped:
                text = f"no connection within {self.settings.connect_timeout_s:g} s"
                self.ends.dial_failed(address, text)
            return
        except (ConnectError, DNSLookupError, OSError, ValueError) as error:
            self.ends.dial_failed(address, str(error))
            return
        link = Link(self, broker, True, address)
        self._links.add(link)
        link.start()
        broker.notifyOnConnect(lambda: self._log_in(broker, link))

    def _log_in(self, broker: Broker, link: Link) -> None:
        # It does not end if the connection does so first: nobody waits for it.
        Deferred.fromCoroutine(self._login.dial(broker.remoteForName("root"), link))

    async def _reach(self, address: str, factory: Any) -> Broker:
        host, port = split_address(address)
        seconds = self.settings.connect_timeout_s
        naming: Any = self.reactor
        if self.names is not None:
            naming = NamingReactor(self.reactor, self.names)
        endpoint: Any = HostnameEndpoint(naming, host, port, seconds)
        if self.tls is not None:
            endpoint = wrapClientTLS(self.tls, endpoint)
        connecting: Deferred[Broker] = endpoint.connect(factory)
        connecting.addTimeout(seconds, self.reactor)
        return await connecting

    def _failed(self, why: Failure) -> None:
        self.log.failure("internal error while connecting to a peer", why)

    # To the connections.

    def rootObject(self, broker: Broker) -> Entrance:
        """What a new connection can call: PB asks for it."""
        return Entrance(self._login, Link(self, broker, False))

    def make_room(self, link: Link) -> bool:
        """Whether one more stranger may come, if need be in the place of another one."""
        if self._stopped:
            return False
        self.strangers.listed = networks(_host(each) for each in self.listed())
        victims = self.strangers.comes(link, link.host, self.reactor.seconds())
        if victims != [] and not self._crowded:
            self._crowded = True
            self.log.warn(
                "{count} connections to the peer port have not logged in: the oldest are closed for"
                " new ones, as that of {address}; is that port open to others than nodes?",
                count=len(self.strangers),
                address=link.address,
            )
        if victims is None:
            return False
        self._links.add(link)
        for victim in victims:
            assert isinstance(victim, Link)
            victim.evict()
        return True

    def welcome(self, link: Link, host: str) -> None:
        """It has logged in."""
        self.strangers.met(host)
        self._leave(link)

    def wrong_proof(self, link: Link) -> tuple[float, int]:
        return self.strangers.fails(link.host, self.reactor.seconds())

    def forget(self, link: Link) -> None:
        """It has gone."""
        self._leave(link)
        self._links.discard(link)

    def _leave(self, link: Link) -> None:
        self.strangers.leaves(link)
        self._crowded = self._crowded and len(self.strangers) > 0


def split_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port" or "[host]:port"; raises ValueError."""
    host, _, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{_clean(address)!r} is not host:port")
    return host, int(port)


def _host(address: str) -> str:
    try:
        return split_address(address)[0]
    except ValueError:
        return ""


def _clean(text: str) -> str:
    """What somebody else says, fit for the log."""
    return "".join(each if each.isprintable() else "?" for each in text[:_SHOWN])
