"""How fast connections may come, and by how much the loop is late."""

import socket

from mhub.core import events
from mhub.core.overload import Overload
from mhub.net.layers import ProxyLayer
from mhub.net.loop import EVENTS_PER_TURN, TICK_S
from tests.helpers import packets as p
from tests.net.loop_case import Case


class ConnectRateTests(Case):
    def waiting(self, count: int) -> list[socket.socket]:
        return [self.dial() for _ in range(count)]

    def tick(self, seconds: float) -> None:
        self.clock.now += seconds
        self.loop.tick()
        self.quiet()

    def test_more_wait_until_they_are_accepted(self) -> None:
        self.start(max_connects_per_s=4)
        self.waiting(10)
        self.quiet()
        found = [len(self.loop.links)]
        for _ in range(6):
            self.tick(0.25)
            found.append(len(self.loop.links))
        self.assertEqual(found, [4, 5, 6, 7, 8, 9, 10])
        self.assertEqual(self.hub.stats.limited[events.CONNECTS], 7)  # also behind the last one
        self.assertEqual(self.hub.stats.connections_rejected, 0)

    def test_more_are_closed(self) -> None:
        self.start(max_connects_per_s=4, over_connects_per_s="disconnect")
        clients = self.waiting(10)
        self.quiet()
        self.assertEqual((len(self.loop.links), self.hub.stats.connections_rejected), (4, 6))
        self.assertEqual(self.rest(clients[-1]), b"")
        self.assertEqual(self.hub.stats.limited[events.CONNECTS], 6)

    def test_of_an_address(self) -> None:
        self.start(max_address_connects_per_s=2)
        self.waiting(5)
        self.quiet()
        self.assertEqual((len(self.loop.links), self.hub.stats.connections_rejected), (2, 3))
        self.assertEqual(self.hub.stats.limited[events.ADDRESS_CONNECTS], 3)
        self.clock.now += 1.0
        self.waiting(1)
        self.quiet()
        self.assertEqual(len(self.loop.links), 3)

    def test_of_the_address_that_a_proxy_tells(self) -> None:
        self.start(max_address_connects_per_s=2)
        self.acceptor.is_proxied = True
        self.acceptor.layers = lambda: [ProxyLayer()]
        clients = []
        for n, host in enumerate(["192.0.2.1"] * 3 + ["192.0.2.2"]):
            sock = self.dial()
            sock.send(f"PROXY TCP4 {host} 192.0.2.9 {1000 + n} 1883\r\n".encode())
            sock.send(p.connect(f"c{n}"))
            clients.append(sock)
        self.quiet()
        self.assertEqual(sorted(self.hub.sessions), ["c0", "c1", "c3"])
        self.assertEqual(self.rest(clients[2]), b"")
        self.assertEqual(self.hub.stats.connections_rejected, 1)

    def test_without_limits_nothing_is_counted(self) -> None:
        self.waiting(20)
        self.quiet()
        self.assertEqual((len(self.loop.links), self.loop.addresses.buckets), (20, {}))


class DriftTests(Case):
    def setUp(self) -> None:
        super().setUp()
        self.hub.overload = Overload(1.0)

    def drift(self, seconds: float) -> float:
        self.clock.now += seconds
        self.loop.measure()
        return round(self.hub.overload.drift_s, 6)

    def test_a_tick_that_comes_late(self) -> None:
        self.assertEqual([self.drift(s) for s in (5, TICK_S, 1.0, TICK_S)], [0, 0, 0.75, 0])

    def test_sockets_that_are_not_reached(self) -> None:
        """More are ready than one turn serves, again and again."""
        self.drift(0)
        client = self.client("c")
        fd = self.link("c").fd
        full = [(fd, 0)] * EVENTS_PER_TURN
        found = []
        for _ in range(8):
            self.loop._handle(full)
            found.append(self.drift(TICK_S))
        self.assertEqual(found, [TICK_S * n for n in range(1, 9)])
        self.assertTrue(self.hub.overload.active)
        self.loop._handle(full[1:])
        self.assertEqual(self.drift(TICK_S), 0)
        self.ping(client)

    def test_idle_time_is_no_drift(self) -> None:
        self.drift(0)
        for _ in range(8):
            self.loop.turn()
            self.assertEqual(self.drift(TICK_S), 0)
