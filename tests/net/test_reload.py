"""Listeners that are replaced while clients are connected, on real sockets."""

import socket
from dataclasses import replace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from mhub.config import ListenerSettings, parse
from mhub.core.events import Events
from mhub.core.hub import Hub, HubSettings
from mhub.net.listen import ListenError
from mhub.net.service import NetService
from mhub.operations.contract import NotThere, OperationError
from tests.helpers import packets as p
from tests.helpers.broker import Clock, Diary
from tests.helpers.client import RawClient

TWO = '[[listeners]]\nname = "a"\nport = 0\n[[listeners]]\nname = "b"\nport = 0\n'


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.settings = parse(TWO, "x.toml")
        self.clock = Clock()
        self.hub = Hub(HubSettings(), Events([Diary()]), lambda: "1", self.clock.now)
        self.reactor = MemoryReactorClock()
        self.net = NetService(self.settings, self.hub, self.reactor, self.clock)
        self.net.privilegedStartService()
        self.net.open()
        self.addCleanup(self.net.loop.close)

    def pump(self) -> bool:
        loop = self.net.loop
        busy = bool(loop.epoll.poll(0)) or bool(self.hub.unfinished)
        loop.turn()
        return busy

    def port(self, name: str) -> int:
        (found,) = [each for each in self.net.listener_details() if each.name == name]
        return int(found.address.rpartition(":")[2])

    def client(self, listener: str, client_id: str, version: int = 5) -> RawClient:
        sock = socket.create_connection(("127.0.0.1", self.port(listener)))
        client = RawClient(sock, self.pump, version, self)
        client.send(p.connect(client_id, version))
        client.expect("CONNACK", reason=0)
        return client

    def prepare(self, *listeners: ListenerSettings) -> Any:
        new = replace(self.settings, listeners=listeners)
        return self.successResultOf(
            Deferred.fromCoroutine(self.net.part.prepare(self.settings, new))
        )

    def take(self, *listeners: ListenerSettings) -> None:
        self.prepare(*listeners).apply()
        self.settings = replace(self.settings, listeners=listeners)
        self.reactor.advance(0)

    @property
    def listeners(self) -> tuple[ListenerSettings, ...]:
        return self.settings.listeners

    def refused(self, port: int) -> None:
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


class PartTests(Case):
    def test_the_same_again(self) -> None:
        """Nobody notices, and an open port that the system chose stays the same."""
        client = self.client("a", "c")
        before = self.port("a"), self.port("b")
        for _ in range(3):
            self.take(*self.listeners)
        self.assertEqual((self.port("a"), self.port("b")), before)
        client.send(p.pingreq())
        client.expect("PINGRESP")
        self.client("a", "d")

    def test_discard_frees_what_was_bound(self) -> None:
        probe = socket.create_server(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        prepared = self.prepare(*self.listeners, replace(self.listeners[0], name="c", port=port))
        prepared.discard()
        socket.create_server(("127.0.0.1", port)).close()
        self.assertEqual([each.name for each in self.net.listener_details()], ["a", "b"])
        self.client("a", "c")

    def test_what_cannot_be_bound(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            coroutine = self.net.part.prepare(
                self.settings,
                replace(
                    self.settings,
                    listeners=(
                        replace(self.listeners[0], name="x"),
                        replace(self.listeners[0], name="c", port=port),
                    ),
                ),
            )
            error = self.failureResultOf(Deferred.fromCoroutine(coroutine), ListenError).value
        self.assertIn(f"listener c: cannot listen on mqtt://127.0.0.1:{port}", str(error))
        self.client("a", "c")

    def test_removed(self) -> None:
        client, other = self.client("a", "c"), self.client("b", "d")
        silent = RawClient(
            socket.create_connection(("127.0.0.1", self.port("a"))), self.pump, 5, self
        )
        self.pump()
        port = self.port("a")
        self.take(self.listeners[1])
        self.refused(port)
        client.expect("DISCONNECT", reason=0x98)
        client.expect_closed()
        silent.expect_closed()
        other.send(p.pingreq())
        other.expect("PINGRESP")

    def test_who_waits_to_be_accepted_is_handed_over(self) -> None:
        """The socket goes to another name with all who wait in it."""
        number = self.port("a")
        named = replace(self.listeners[0], port=number)
        self.take(named, self.listeners[1])
        waiting = socket.create_connection(("127.0.0.1", self.port("a")))
        self.take(replace(named, name="z"), self.listeners[1])
        self.assertEqual(self.port("z"), number)
        client = RawClient(waiting, self.pump, 5, self)
        client.send(p.connect("c", 5))
        client.expect("CONNACK", reason=0)
        self.assertEqual(self.hub.sessions["c"].principal.listener, "z")

    def test_limits(self) -> None:
        client = self.client("a", "c")
        one = self.listeners[0]
        limits = replace(one.limits, message_size_limit=3, max_qos=1)
        self.take(replace(one, limits=limits), self.listeners[1])
        for _ in range(3):
            self.net.loop.tick()
        connection = self.hub.sessions["c"].connection
        assert connection is not None
        self.assertEqual(connection.limits.message_size_limit, 3)
        self.assertEqual(connection.limits.max_qos, 2)  # as its CONNACK has said
        client.send(p.publish("t", b"long", 1, 1, version=5))
        client.expect("PUBACK", reason=0x83)
        self.client("a", "d")
        other = self.hub.sessions["d"].connection
        assert other is not None
        self.assertEqual(other.limits.max_qos, 1)


class OpenCloseTests(Case):
    def state(self, name: str) -> str:
        return {each.name: each.state for each in self.net.listener_details()}[name]

    def test_close_and_open(self) -> None:
        client = self.client("a", "c")
        port = self.port("a")
        self.assertEqual(self.net.listener_close("a", False).state, "closed")
        self.refused(port)
        client.send(p.pingreq())
        client.expect("PINGRESP")
        self.assertEqual(self.net.listener_open("a").state, "open")
        self.client("a", "d")
        self.assertEqual(self.net.listener_open("a").state, "open")

    def test_close_for_all(self) -> None:
        """With those who are connected: their sessions stay."""
        sock = socket.create_connection(("127.0.0.1", self.port("a")))
        client = RawClient(sock, self.pump, 5, self)
        client.send(p.connect("c", 5, props=[(0x11, 600)]))
        client.expect("CONNACK", reason=0)
        self.net.listener_close("a", True)
        self.reactor.advance(0)
        client.expect("DISCONNECT", reason=0x98)
        self.assertIn("c", self.hub.sessions)
        self.client("b", "d")

    def test_it_stays_closed_unless_its_settings_change(self) -> None:
        self.net.listener_close("a", False)
        self.take(*self.listeners)
        self.assertEqual(self.state("a"), "closed")
        general = replace(self.listeners[0].limits, max_qos=1)  # by [limits]
        self.take(replace(self.listeners[0], limits=general), self.listeners[1])
        self.assertEqual(self.state("a"), "closed")
        self.take(replace(self.listeners[0], max_connections=7), self.listeners[1])
        self.assertEqual(self.state("a"), "open")
        self.client("a", "c")

    def test_unknown(self) -> None:
        error = self.assertRaises(NotThere, self.net.listener_close, "x", False)
        self.assertEqual(str(error), 'there is no listener "x"; there are: a, b')

    def test_an_address_that_is_taken_meanwhile(self) -> None:
        number = self.port("a")
        self.take(replace(self.listeners[0], port=number), self.listeners[1])
        self.net.listener_close("a", False)
        with socket.create_server(("127.0.0.1", number)):
            self.assertRaises(OperationError, self.net.listener_open, "a")
            self.assertEqual(self.state("a"), "closed")
        self.net.listener_open("a")
        self.client("a", "c")

    def test_not_while_it_stops(self) -> None:
        self.hub.stopping = True
        self.assertRaises(OperationError, self.net.listener_open, "a")

    def test_details(self) -> None:
        self.client("a", "c")
        found = self.net.listener_details()[0]
        self.assertEqual((found.name, found.state, found.transport), ("a", "open", "tcp"))
        self.assertEqual((found.connections, found.max_connections), (1, 0))
        self.assertIsNone(found.certificate_expires_at)
        self.assertEqual(found.limits["max_qos"], 2)
