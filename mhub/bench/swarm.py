"""Many clients on one event loop.

One turn is `read` (wait, then one `recv` for each socket that has something, and the whole of it
goes through `Client.feed`), then the scenario adds what it wants to send, then `flush` (one `send`
for each client that has output).  While clients are being opened any fault is a `BenchError`.  Once
traffic runs, the first connection that the broker closes becomes `trouble`, so that what was
measured until then can still be told.
"""

import ssl
from collections.abc import Callable, Sequence
from typing import Final

from mhub.bench.errors import BenchError
from mhub.bench.load.client import Client, PeerFault
from mhub.bench.load.packets import DISCONNECT, PINGREQ, connect, subscribe
from mhub.bench.load.reasons import words
from mhub.bench.poller import READ, WRITE, Poller
from mhub.bench.target import Address, Target
from mhub.bench.websocket import WebSocket
from mhub.bench.wires import DONE, WANTS_WRITE, TlsWire, Wire, explain

KEEPALIVE_S: Final = 60
MOST_PENDING: Final = 50
"""Connections being opened at once: a listener's backlog is short."""

_SECOND: Final = 1_000_000_000
_POLL_S: Final = 0.1
_RETRY_S: Final = 0.001


class Link:
    """A client, its socket, and the bytes that the socket did not take yet."""

    def __init__(self, name: str, client: Client) -> None:
        self.name = name
        self.client = client
        self.wire: Wire | None = None
        self.websocket: WebSocket | None = None
        self.is_open = False  # the socket is connected, TLS and WebSocket shook hands
        self.rest = memoryview(b"")
        self.since = 0
        self.up_after = 0  # from the start of connecting to CONNACK


class Swarm:
    def __init__(
        self,
        target: Target,
        address: Address,
        tls: ssl.SSLContext | None,
        version: int,
        run: int,
        clock: Callable[[], int],
        poller: Poller,
        timeout_s: float,
    ) -> None:
        self.target = target
        self.version = version
        self.run = run
        self.timeout_s = timeout_s
        self.trouble = ""
        self.names = 0  # client ids given out
        self._address = address
        self._tls = tls
        self._clock = clock
        self._epoch = clock()
        self._poller = poller
        self._links: dict[int, Link] = {}
        self._dirty: list[Link] = []
        self._is_settled = False
        self._keepalive_s = KEEPALIVE_S
        self._pinged = 0

    def now(self) -> int:
        """Nanoseconds since this swarm began: these fit the six bytes in a payload."""
        return self._clock() - self._epoch

    # ---- opening

    def open(
        self,
        links: Sequence[Link],
        sources: Callable[[int], str | None] = lambda _: None,
        on_turn: Callable[[int], bool] = lambda _: True,
    ) -> int:
        """Connect `links`; how many are up.  `on_turn` gets that number, and may say stop."""
        started = up = 0
        waiting: list[Link] = []
        deadline = self.now() + int(self.timeout_s * _SECOND)
        while up < len(links):
            full = False
            while started < len(links) and len(waiting) < MOST_PENDING:
                try:
                    self._start(links[started], sources(started))
                except BlockingIOError:  # a Unix socket's backlog: the broker has to accept first
                    full = True
                    break
                waiting.append(links[started])
                started += 1
            self.read(_RETRY_S if full else _POLL_S)
            self.flush()
            still = [link for link in waiting if not link.client.up]
            if len(still) < len(waiting):
                deadline = self.now() + int(self.timeout_s * _SECOND)
            up += len(waiting) - len(still)
            waiting = still
            if not on_turn(up):
                break
            if self.now() > deadline:
                raise self._no_answer((waiting or links[started:])[0])
        return up

    def subscribe(self, links: Sequence[Link], filters: Sequence[str], qos: int) -> None:
        """Subscribe each link to its filter, and wait for the grants."""
        for link, topic_filter in zip(links, filters, strict=True):
            link.client.subacks.clear()
            link.client.out.append(subscribe(1, topic_filter, qos, self.version))
            self.mark(link)
        self.flush()
        deadline = self.now() + int(self.timeout_s * _SECOND)
        while not all(link.client.subacks for link in links):
            self.read(_POLL_S)
            self.flush()
            if self.now() > deadline:
                raise BenchError(
                    f"the broker did not answer SUBSCRIBE within {self.timeout_s:g} s",
                    "Give it longer with --timeout SECONDS.",
                )
        granted = max(link.client.subacks[-1] for link in links)
        if granted >= 0x80:
            raise BenchError(
                f"the broker refused the subscription to {filters[0]}: "
                f"{words(granted, self.version == 5)}",
                "May this user subscribe there? --topic-prefix chooses another place.",
            )
        granted = min(link.client.subacks[-1] for link in links)
        if granted < qos:
            raise BenchError(f"the broker granted QoS {granted} only", f"Use --qos {granted}.")

    def settle(self) -> None:
        """From now on a lost connection is `trouble`, not an exception."""
        self._is_settled = True

    def _start(self, link: Link, source: str | None) -> None:
        target = self.target
        link.since = self.now()
        try:
            if self._tls is not None:
                link.wire = TlsWire(self._address, self._tls, target.host, source)
            else:
                link.wire = Wire(self._address, source)
        except BlockingIOError:
            raise
        except OSError as error:
            raise explain(error, target) from error
        if target.websocket:
            link.websocket = WebSocket(target.authority, target.path)
        self.names += 1
        name = f"mhb{self.run:08x}{self.names:x}"
        link.client.out.append(
            connect(name, self.version, KEEPALIVE_S, target.username, target.password)
        )
        fd = link.wire.sock.fileno()
        self._links[fd] = link
        self._poller.watch(fd, True)

    def _advance(self, link: Link) -> None:
        wire = link.wire
        assert wire is not None
        try:
            state = wire.advance()
        except OSError as error:
            raise explain(error, self.target) from error
        self._poller.watch(wire.sock.fileno(), state == WANTS_WRITE)
        if state == DONE:
            link.is_open = True
            if link.websocket is not None:
                self._send(link, link.websocket.request)
            else:
                self.mark(link)

    def _no_answer(self, link: Link) -> BenchError:
        missing = "CONNACK" if link.is_open else "TLS" if self._tls else "answer"
        if link.websocket is not None and link.is_open and not link.websocket.open:
            missing = "WebSocket"
        return BenchError(
            f"no {missing} from {self.target} within {self.timeout_s:g} s",
            "Does this port speak what the URL says? Is a firewall in between?",
        )

    # ---- a turn

    def read(self, timeout_s: float) -> None:
        for fd, ready in self._poller.wait(timeout_s):
            link = self._links.get(fd)
            if link is None:
                continue
            if not link.is_open:
                self._advance(link)
                continue
            if ready & WRITE:
                self._send(link, link.rest)
            if ready & READ:
                self._receive(link)
        self._ping()

    def mark(self, link: Link) -> None:
        """`link` has output: the next `flush` sends it."""
        self._dirty.append(link)

    def flush(self) -> None:
        for link in self._dirty:
            # What is blocked goes on when the socket is writable again.
            if not link.client.blocked:
                self._send_output(link)
        self._dirty.clear()

    def _send_output(self, link: Link) -> None:
        if link.websocket is not None and not link.websocket.open:
            return
        data = link.client.take()
        if data:
            self._send(link, data if link.websocket is None else link.websocket.wrap(data))

    def _send(self, link: Link, data: memoryview | bytearray | bytes) -> None:
        wire = link.wire
        if wire is None:
            return
        try:
            sent = wire.send(data)
        except OSError as error:
            self._lost(link, error)
            return
        if sent < len(data):
            link.rest = memoryview(data)[sent:]
            if not link.client.blocked:
                link.client.blocked = True
                self._poller.watch(wire.sock.fileno(), True)
        elif link.client.blocked:
            link.client.blocked = False
            link.rest = memoryview(b"")
            self._poller.watch(wire.sock.fileno(), False)
            self.mark(link)

    def _receive(self, link: Link) -> None:
        wire, client = link.wire, link.client
        if wire is None:
            return
        try:
            data = wire.recv()
        except OSError as error:
            self._lost(link, error)
            return
        if data is None:
            return
        if not data:
            self._lost(link, None)
            return
        if link.websocket is not None:
            data = self._unwrap(link, link.websocket, data)
        was_up = client.up
        try:
            client.feed(data, self._clock() - self._epoch)
        except PeerFault as fault:
            self._not_mqtt(link, fault, data)
            return
        if not was_up:
            self._accepted(link)
        if client.goodbye:
            self._lost(link, None)
            return
        self._dirty.append(link)

    def _unwrap(self, link: Link, websocket: WebSocket, data: bytes) -> bytes:
        was_open = websocket.open
        data = websocket.feed(data)
        if websocket.open and not was_open:
            self.mark(link)
        if websocket.reply and not link.client.blocked:
            reply, websocket.reply = websocket.reply, b""
            self._send(link, reply)
        if websocket.closed:
            link.client.goodbye = websocket.closed
        return data

    def _accepted(self, link: Link) -> None:
        client = link.client
        if client.refused:
            raise BenchError(
                f"the broker refused the connection: {client.refused}", _refusal_hint(client)
            )
        link.up_after = self.now() - link.since
        if client.keepalive_s > 0:
            self._keepalive_s = min(self._keepalive_s, client.keepalive_s)

    def _ping(self) -> None:
        now = self.now()
        if now - self._pinged < self._keepalive_s * _SECOND // 3:
            return
        self._pinged = now
        for link in self._links.values():
            if link.client.up:
                link.client.out.append(PINGREQ)
                self.mark(link)

    # ---- ends

    def _lost(self, link: Link, error: OSError | None) -> None:
        client = link.client
        if not client.up and error is not None:
            raise explain(error, self.target) from error
        if not client.up:
            raise BenchError(
                "the broker closed the connection instead of sending CONNACK",
                "Does the port speak what the URL says (mqtts:// for TLS, ws:// for WebSocket)? "
                "Does the broker take this --version, user name and password?",
            )
        why = client.goodbye or (str(error) if error else "it gave no reason")
        self._fail(link, f"the broker closed the connection of {link.name}: {why}")

    def _not_mqtt(self, link: Link, fault: PeerFault, data: bytes) -> None:
        what = f"it sent {fault}"
        if not link.client.up:
            raise BenchError(
                f"what answers at {self.target} does not speak MQTT: {what}",
                f"Its first bytes were {data[:40]!r}.",
            )
        self._fail(link, f"the broker broke the protocol with {link.name}: {what}")

    def _fail(self, link: Link, text: str) -> None:
        self.drop(link)
        if not self._is_settled:
            raise BenchError(text)
        self.trouble = self.trouble or text

    def drop(self, link: Link) -> None:
        wire = link.wire
        if wire is not None:
            fd = wire.sock.fileno()
            del self._links[fd]
            self._poller.forget(fd)
            wire.close()
            link.wire = None
            link.client.blocked = True

    def close(self) -> None:
        """Say goodbye to the broker, as far as that goes without waiting."""
        for link in list(self._links.values()):
            if link.client.up and not link.client.blocked:
                link.client.out.append(DISCONNECT)
                try:
                    self._send_output(link)
                except BenchError:
                    pass
            self.drop(link)
        self._poller.close()


def _refusal_hint(client: Client) -> str:
    if "version" in client.refused:
        return "Try --version 3.1.1 or --version 5."
    if "user name" in client.refused or "authorized" in client.refused:
        return "Give --username and --password, or mqtt://user:password@host."
    return "The broker's log says more."
