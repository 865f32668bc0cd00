"""Sockets to core and back: accept, read, write straight through.

One epoll instance holds every socket of every listener; the reactor sees it as a single descriptor
(`mhub.net.service`).  So an idle connection costs a `Link`, not a Twisted transport, and the
reactor's bookkeeping is not paid for each message.  Compiled by mypyc; imports the core and the
standard library only.

    serve(): turn after turn, until the reactor has more to do than to serve its own sockets
    turn():  for each socket that is ready: accept a few, or read up to 64 KiB into the core
             then hub.flush(): every connection with output is written once

Between socket and core may stand layers: PROXY header, TLS, WebSocket (`mhub.net.layers`).
"""

import errno
import select
import socket
from collections.abc import Callable
from typing import Final, Protocol

from mhub.core.connection import NEW, Connection
from mhub.core.events import ADDRESS_CONNECTS, CONNECTS
from mhub.core.hub import Hub
from mhub.core.limits import DELAY, Limits
from mhub.core.rates import AddressRates, Bucket
from mhub.core.timers import SLOTS_PER_SECOND
from mhub.wire.decode import may_be_connect

READ_SIZE: Final = 64 * 1024
EVENTS_PER_TURN: Final = 256
MANY: Final = 100
UNREAD: Final = 64 * 1024
"""Bytes that a peer has not read yet, while layers answer it; beyond, nothing is read from it."""
LINGER_S: Final = 2.0
"""How long a peer may take to hear our last words and close."""
HANDSHAKES: Final = 4
HANDSHAKES_S: Final = 0.005
"""So many connections without a CONNECT are served, then again as many, for so long in a turn."""
ACCEPT_PAUSE_S: Final = 1.0
"""How long nobody is accepted after the system refused (too many open files)."""

TICK_S: Final = 1.0 / SLOTS_PER_SECOND
"""How often tick() is called."""

LOCAL: Final = "local"
TOO_OFTEN: Final = "connections come too fast"

BUFFER: Final = memoryview(bytearray(READ_SIZE))
"""Every read goes here and is copied out: to allocate 64 KiB for each costs more."""

IN: Final = select.EPOLLIN
OUT: Final = select.EPOLLOUT


class LayerEnd(Exception):
    """A layer ends the connection: `text` goes into the log, its close() to the peer.

    `carried` came before the end and still counts for the layers above.
    """

    def __init__(self, text: str, carried: bytes) -> None:
        super().__init__(text)
        self.text = text
        self.carried = carried


class Layer(Protocol):
    """Something between the socket and the core.  The lowest one stands next to the socket."""

    def receive(self, data: bytes) -> bytes:
        """What bytes from below mean to the layer above."""

    def replies(self) -> bytes:
        """What the layer itself has to say to the peer since receive()."""

    def send(self, data: bytes) -> bytes:
        """Bytes from above, for the layer below."""

    def close(self) -> bytes:
        """The layer's last words."""

    def introduce(self, connection: Connection) -> None:
        """Tell the connection what is known of the peer, before its first byte."""


class Acceptor:
    """One listening socket, and what its connections get."""

    def __init__(self, name: str, listener: socket.socket, limits: Limits) -> None:
        self.name = name
        self.listener = listener
        self.limits = limits
        self.backlog = 4096
        self.max_connections = 0  # 0: any number
        self.connections = 0
        self.accepted = 0
        self.connects = Bucket()  # how many more may come now (`limits.max_connects_per_s`)
        self.is_proxied = False  # who it is that connects is told by a PROXY header
        self.layers: Callable[[], list[Layer]] | None = None
        self.resume_at = 0.0  # 0: not paused


class Link:
    """One accepted socket: the core's Outlet."""

    def __init__(self, loop: "Loop", acceptor: Acceptor, sock: socket.socket) -> None:
        self.loop = loop
        self.acceptor = acceptor
        self.sock = sock
        self.fd = sock.fileno()
        self.epoll = loop.handshaking  # which one watches it
        self.mask = IN
        self.unsent: bytes = b""  # what the socket did not take, from
        self.unsent_from = 0  # here on
        self.layers: list[Layer] | None = None
        self.closing = False  # nothing goes to or comes from the core any more
        self.linger_until = 0.0
        self.connection: Connection

    # From the socket

    def readable(self, now: float) -> None:
        try:
            # In two steps: mypyc would evaluate the call twice as a bound of the slice.
            size = self.sock.recv_into(BUFFER)
            data = BUFFER[:size].tobytes()
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(error.strerror or str(error))
            return
        if not data:
            self._lost("the peer closed the connection" if not self.closing else "")
        elif self.closing:
            return  # it has not heard our last words yet
        elif self.layers is not None:
            self._climb(data, now)
        elif (
            self.connection.state == NEW
            and not may_be_connect(data[0])
            and self.connection.partial is None
        ):
            self._stranger(data)
        else:
            self.connection.receive(data, now)

    def _climb(self, data: bytes, now: float) -> None:
        """Through the layers up to the core."""
        layers = self.layers
        assert layers is not None
        ended: LayerEnd | None = None
        for index, layer in enumerate(layers):
            try:
                data = layer.receive(data)
            except LayerEnd as end:
                data = end.carried
                if ended is None:
                    ended = end
            reply = layer.replies()
            if reply:
                self._send_below(reply, index)
            if not data:
                break
        if data:
            self._introduce(data, now)
        if ended is not None and not self.closing:
            self._end(ended.text)

    def _introduce(self, data: bytes, now: float) -> None:
        """Bytes that have passed all layers, to the core."""
        connection = self.connection
        if connection.state == NEW and connection.partial is None:
            if not may_be_connect(data[0]):
                self._stranger(data)
                return
            if self.layers is not None:
                for layer in self.layers:
                    layer.introduce(connection)
            if self.acceptor.is_proxied:
                address = connection.principal.address
                limit = self.loop.too_often(self.acceptor, address, now)
                if limit:
                    self.loop.hub.events.rejected(self.acceptor.name, address, TOO_OFTEN, limit)
                    connection.lost("")
                    self.close(True)
                    return
        connection.receive(data, now)

    def _stranger(self, data: bytes) -> None:
        loop = self.loop
        text = loop.describe_stranger(data)
        loop.hub.events.stranger(self.acceptor.name, self.connection.principal.address, text)
        self.closing = True
        self.connection.lost("")
        self._drop()

    def _end(self, text: str) -> None:
        """A layer does not go on."""
        if self.connection.state == NEW and text:
            self.loop.hub.events.rejected(
                self.acceptor.name, self.connection.principal.address, text
            )
        self.connection.lost(text)
        self.close(True)

    # To the socket

    def write(self, data: bytes) -> bool:
        if self.layers is not None:
            data = self._descend(data, len(self.layers) - 1)
        return self._put(data)

    def _descend(self, data: bytes, top: int) -> bytes:
        layers = self.layers
        assert layers is not None
        for index in range(top, -1, -1):
            data = layers[index].send(data)
        return data

    def _send_below(self, data: bytes, index: int) -> None:
        """What the layer at index says, through those below it."""
        self._put(self._descend(data, index - 1))

    def _put(self, data: bytes) -> bool:
        if self.unsent:
            self.unsent = self.unsent[self.unsent_from :] + data
            self.unsent_from = 0
            if len(self.unsent) > UNREAD:
                self._watch(self.mask & ~IN)
            return False
        try:
            sent = self.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._lost(error.strerror or str(error))
            return True
        if sent == len(data):
            return True
        self.unsent = data
        self.unsent_from = sent
        self._watch(self.mask | OUT)
        return False

    def writable(self, now: float) -> None:
        if self.unsent:
            try:
                self.unsent_from += self.sock.send(memoryview(self.unsent)[self.unsent_from :])
            except BlockingIOError:
                return
            except OSError as error:
                self._lost(error.strerror or str(error))
                return
            if self.unsent_from < len(self.unsent):
                return
            self.unsent = b""
            self.unsent_from = 0
        mask = self.mask & ~OUT
        self._watch(mask if self.connection.paused else mask | IN)
        if self.closing:
            self._finish(True)
        else:
            self.connection.writable(now)

    def pause(self) -> None:
        self._watch(self.mask & ~IN)

    def resume(self) -> None:
        self._watch(self.mask | IN)

    def _watch(self, mask: int) -> None:
        if mask != self.mask and self.fd >= 0:
            self.mask = mask
            self.epoll.modify(self.fd, mask)

    def grow_up(self) -> None:
        """It speaks MQTT now, and is served with all the others."""
        self.epoll.unregister(self.fd)
        self.epoll = self.loop.epoll
        self.epoll.register(self.fd, self.mask)

    # The end

    def close(self, linger: bool) -> None:
        """Close; with linger only once the peer has read our last words, or had time to."""
        if self.fd < 0 or self.closing:
            return
        if self.layers is not None:
            for index in range(len(self.layers) - 1, -1, -1):
                last = self.layers[index].close()
                if last:
                    self._send_below(last, index)
        self._finish(linger)

    def _finish(self, linger: bool) -> None:
        if self.fd < 0:
            return
        self.closing = True
        if not linger and not self.unsent:
            self._drop()
            return
        # A close() with unread input would be a reset that can overtake our last words.  So only
        # our half is closed, and what still comes is read and thrown away until the peer closes.
        if not self.linger_until:
            self.linger_until = self.loop.hub.now + LINGER_S
            self.loop.lingering[self.fd] = self
        if not self.unsent:
            try:
                self.sock.shutdown(socket.SHUT_WR)
            except OSError:
                self._drop()
                return
            self._watch(IN)

    def _lost(self, text: str) -> None:
        if self.fd < 0:
            return
        self._drop()
        if not self.closing:
            self.closing = True
            self.connection.lost(text)

    def _drop(self) -> None:
        if self.fd < 0:
            return
        loop = self.loop
        loop.lingering.pop(self.fd, None)
        del loop.links[self.fd]
        self.fd = -1
        self.sock.close()  # epoll forgets it by itself
        self.unsent = b""
        self.acceptor.connections -= 1
        loop.hub.stats.connections_open -= 1


class Loop:
    def __init__(
        self, hub: Hub, clock: Callable[[], float], describe_stranger: Callable[[bytes], str]
    ) -> None:
        self.hub = hub
        self.clock = clock
        self.describe_stranger = describe_stranger  # what came, which is not MQTT, for people
        self.epoll = select.epoll()
        # Connections without a CONNECT yet are apart, and only a few of them are served in a turn:
        # a storm of handshakes, TLS above all, must not stand before the messages of the others.
        self.handshaking = select.epoll()
        self.epoll.register(self.handshaking.fileno(), IN)
        self.links: dict[int, Link] = {}
        self.acceptors: dict[int, Acceptor] = {}
        self.lingering: dict[int, Link] = {}
        self.paused: list[Acceptor] = []
        self.max_connections = 0  # of all listeners together; 0: any number
        self.accepts_per_turn = 32
        self.summoned = False  # the reactor has something to do
        self.addresses = AddressRates()
        self.behind_since = 0.0  # since then, each turn left sockets that are ready; 0: none
        self.ticked_at = 0.0

    def listen(self, acceptor: Acceptor) -> None:
        """Open a listener that is bound."""
        acceptor.listener.listen(acceptor.backlog)
        fd = acceptor.listener.fileno()
        self.acceptors[fd] = acceptor
        self.epoll.register(fd, IN)

    def withdraw(self, acceptor: Acceptor) -> None:
        """Accept nobody from a listener for now; its socket stays as it is."""
        fd = acceptor.listener.fileno()
        if self.acceptors.get(fd) is not acceptor:
            return
        del self.acceptors[fd]
        if acceptor in self.paused:
            self.paused.remove(acceptor)
        else:
            self.epoll.unregister(fd)

    def links_of(self, acceptor: Acceptor) -> list[Link]:
        """The connections that came by a listener."""
        return [link for link in self.links.values() if link.acceptor is acceptor]

    def watch(self, fd: int) -> None:
        """A descriptor, the reactor's epoll, for the time in which serve() waits."""
        self.epoll.register(fd, IN)

    def serve(
        self,
        patience: Callable[[], float | None],
        others: Callable[[], bool] | None = None,
    ) -> None:
        """Turn after turn, until what is watched is readable or there is no more patience.

        patience() says in how many seconds somebody else's timer is due; None: there is none.
        others(), if there is one, does what makes it readable; False: that was all.
        """
        hub = self.hub
        self.summoned = False
        while True:
            wait = patience()
            due = wait is not None and wait <= 0.0
            if hub.is_unfinished():
                wait = 0.0
            events: list[tuple[int, int]] = self.epoll.poll(wait, EVENTS_PER_TURN)
            self._handle(events)
            if self.summoned:
                self.summoned = False
                if others is None or others() or self.epoll.closed:
                    return
            if due or (not events and not hub.is_unfinished()):
                return

    def turn(self) -> bool:
        """Handle what is ready now, without waiting; whether there is more to do at once."""
        return self._handle(self.epoll.poll(0, EVENTS_PER_TURN))

    def _handle(self, events: list[tuple[int, int]]) -> bool:
        """One turn, with what epoll has found."""
        hub = self.hub
        now = self.clock()
        if len(events) < EVENTS_PER_TURN:
            self.behind_since = 0.0
        elif not self.behind_since:
            self.behind_since = now
        self._read(events, now)
        if len(hub.dirty) >= MANY:
            # So many writes take longer than a second look: what came meanwhile goes with them.
            self._read(self.epoll.poll(0, EVENTS_PER_TURN), now)
        hub.flush()
        if hub.is_unfinished():
            hub.proceed(now)
            hub.flush()
        return hub.is_unfinished() or len(events) == EVENTS_PER_TURN

    def _read(self, events: list[tuple[int, int]], now: float) -> None:
        hub = self.hub
        links = self.links
        for fd, mask in events:
            link = links.get(fd)
            if link is None:
                self._special(fd, now)
                continue
            self._serve_link(link, mask, now)
            if hub.work >= hub.work_per_turn:
                hub.flush()

    def _serve_link(self, link: Link, mask: int, now: float) -> None:
        try:
            if mask & OUT:
                link.writable(now)
            if mask & ~OUT and link.fd >= 0:
                link.readable(now)
        except Exception as error:
            self.hub.crash(link.connection, error)
            link._lost("an internal error")

    def _serve_handshakes(self, now: float) -> None:
        """Serve some that have not sent their CONNECT: not many, and not for long.

        A handshake of TLS takes from a fraction of a millisecond to several of them.  Meanwhile
        nobody else is served, and nobody is accepted: their time would begin later.
        """
        left = self.accepts_per_turn
        until = self.clock() + HANDSHAKES_S
        while left > 0:
            events: list[tuple[int, int]] = self.handshaking.poll(0, min(left, HANDSHAKES))
            for fd, mask in events:
                link = self.links.get(fd)
                if link is not None:
                    self._serve_link(link, mask, now)
                    if link.fd >= 0 and link.connection.state != NEW and not link.closing:
                        link.grow_up()
            if len(events) < HANDSHAKES or self.clock() >= until:
                return
            left -= HANDSHAKES

    def _special(self, fd: int, now: float) -> None:
        """A descriptor that is no link: a listener, those without a CONNECT, or the reactor's."""
        if fd == self.handshaking.fileno():
            self._serve_handshakes(now)
            return
        acceptor = self.acceptors.get(fd)
        if acceptor is None:
            self.summoned = True
            return
        try:
            self._accept(acceptor, now)
        except Exception as error:
            self.hub.events.crashed(f"listener {acceptor.name}", error)

    def _accept(self, acceptor: Acceptor, now: float) -> None:
        """A few at a time, so that a storm of connections does not stall those that are there."""
        limits = acceptor.limits
        for _ in range(self.accepts_per_turn):
            if limits.max_connects_per_s and limits.over_connects_per_s == DELAY:
                if acceptor.connects.is_empty(limits.rate_burst_s, now):
                    self.hub.stats.limited[CONNECTS] += 1
                    self._pause(acceptor, acceptor.connects.full_at - limits.rate_burst_s)
                    return
            try:
                sock, address = acceptor.listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == errno.ECONNABORTED:
                    continue
                self._pause(acceptor, now + ACCEPT_PAUSE_S)
                self.hub.events.accept_failed(acceptor.name, error.strerror or str(error))
                return
            self._welcome(acceptor, sock, _show(address), now)

    def _welcome(self, acceptor: Acceptor, sock: socket.socket, address: str, now: float) -> None:
        text = "the connection limit is reached"
        limit = self._over_rate(acceptor, address, now)
        if limit:
            text = TOO_OFTEN
        elif acceptor.max_connections and acceptor.connections >= acceptor.max_connections:
            limit = "listeners.max_connections"
        elif self.max_connections and len(self.links) >= self.max_connections:
            limit = "limits.max_connections"
        if limit:
            sock.close()
            self.hub.events.rejected(acceptor.name, address, text, limit)
            return
        self.hub.stats.connections_accepted += 1
        self.hub.stats.connections_open += 1
        acceptor.connections += 1
        acceptor.accepted += 1
        sock.setblocking(False)
        link = Link(self, acceptor, sock)
        link.connection = Connection(self.hub, link, acceptor.limits, now, address, acceptor.name)
        if acceptor.layers is not None:
            link.layers = acceptor.layers()
        self.links[link.fd] = link
        self.handshaking.register(link.fd, IN)

    def _over_rate(self, acceptor: Acceptor, address: str, now: float) -> str:
        """The setting by which a connection comes too soon, "" if by none; it counts if it may
        stay."""
        limits = acceptor.limits
        if not acceptor.is_proxied:
            limit = self.too_often(acceptor, address, now)
            if limit:
                return limit
        if limits.max_connects_per_s:
            # With "delay" the caller has looked.
            if acceptor.connects.is_empty(limits.rate_burst_s, now):
                self.hub.stats.limited[CONNECTS] += 1
                return "limits.max_connects_per_s"
            acceptor.connects.take(1.0 / limits.max_connects_per_s, now)
        return ""

    def too_often(self, acceptor: Acceptor, address: str, now: float) -> str:
        """The same for an address; those of a Unix socket have none."""
        limits = acceptor.limits
        rate = limits.max_address_connects_per_s
        if not rate or address == LOCAL:
            return ""
        if self.addresses.may_connect(address, rate, limits.rate_burst_s, now):
            return ""
        self.hub.stats.limited[ADDRESS_CONNECTS] += 1
        return "limits.max_address_connects_per_s"

    def _pause(self, acceptor: Acceptor, until: float) -> None:
        acceptor.resume_at = until
        self.epoll.unregister(acceptor.listener.fileno())
        self.paused.append(acceptor)

    def measure(self) -> None:
        """Before each tick that the reactor makes: by how much it is late.

        The tick itself comes too late if a turn takes long.  If turns are short but there are so
        many sockets that none of them sees all, it is the time for which that has been so.
        """
        now = self.clock()
        drift_s = 0.0
        if self.ticked_at:
            drift_s = max(0.0, now - self.ticked_at - TICK_S)
        self.ticked_at = now
        if self.behind_since:
            drift_s = max(drift_s, now - self.behind_since)
        self.hub.measure_drift(drift_s, now)

    def tick(self) -> None:
        """A few times a second."""
        now = self.clock()
        try:
            self.hub.tick(now)
            self.hub.flush()
        except Exception as error:
            self.hub.events.crashed("the clock", error)
        for link in [k for k in self.lingering.values() if k.linger_until <= now]:
            link._drop()
        for acceptor in [a for a in self.paused if a.resume_at <= now]:
            self.paused.remove(acceptor)
            self.epoll.register(acceptor.listener.fileno(), IN)

    def stop_listening(self) -> None:
        for fd, acceptor in self.acceptors.items():
            if acceptor not in self.paused:
                self.epoll.unregister(fd)
            acceptor.listener.close()
        self.acceptors = {}
        self.paused = []

    def close(self) -> None:
        """Drop what is left."""
        self.stop_listening()
        for link in list(self.links.values()):
            link._lost("the broker is stopping")
        self.handshaking.close()
        self.epoll.close()


def _show(address: object) -> str:
    """A client's address as a person writes it; that of a Unix socket is `local`."""
    if isinstance(address, tuple) and len(address) >= 2:
        host, port = address[0], address[1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return LOCAL
