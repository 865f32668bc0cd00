"""Addresses from DNS: a real name server on loopback, the real resolver, and time by hand."""

from collections.abc import Callable
from typing import Any

from twisted.internet import reactor
from twisted.internet.protocol import DatagramProtocol
from twisted.internet.task import Clock, deferLater
from twisted.logger import formatEvent, globalLogPublisher
from twisted.names import authority, client, dns, server
from twisted.trial.unittest import TestCase

from mhub.cluster.discovery import Discovery, make_resolver

NAME = "_mhub._tcp.cluster.example"
loop: Any = reactor


class Zone(authority.FileAuthority):
    """An authority in memory; the test changes its records."""

    def __init__(self) -> None:
        common: Any = authority.common.ResolverBase.__init__
        common(self)
        self.soa = (b"cluster.example", dns.Record_SOA(minimum=60, expire=60))
        self.records: dict[bytes, list[Any]] = {}
        self.asked = 0

    def say(self, *found: tuple[str, int], ttl: int = 60) -> None:
        self.records[NAME.encode()] = [
            dns.Record_SRV(priority=10, weight=5, port=port, target=host, ttl=ttl)
            for host, port in found
        ]

    def _lookup(self, name: Any, cls: Any, type: Any, timeout: Any = None) -> Any:
        self.asked += 1
        return super()._lookup(name, cls, type, timeout)


class Mute(DatagramProtocol):
    """A name server that does not answer."""

    asked = 0

    def datagramReceived(self, datagram: bytes, addr: Any) -> None:
        self.asked += 1


class DiscoveryCase(TestCase):
    timeout = 30

    def setUp(self) -> None:
        self.zone = Zone()
        self.clock = Clock()
        self.changes = 0
        self.logged: list[str] = []
        globalLogPublisher.addObserver(self._hear)
        self.addCleanup(globalLogPublisher.removeObserver, self._hear)
        factory: Any = server.DNSServerFactory(authorities=[self.zone])
        factory.noisy = False
        self.tcp = loop.listenTCP(0, factory, interface="127.0.0.1")
        self.port = self.tcp.getHost().port
        # That nobody has the same port for datagrams is all but certain.
        datagrams = dns.DNSDatagramProtocol(factory)
        self.udp = loop.listenUDP(self.port, datagrams, interface="127.0.0.1")
        self.addCleanup(self.udp.stopListening)
        self.addCleanup(self.tcp.stopListening)

    def _hear(self, event: Any) -> None:
        if event.get("log_namespace") == "mhub.cluster":
            self.logged.append(formatEvent(event))

    def start(self, *static: str, srv: str = NAME, resolver: Any = None) -> Discovery:
        resolver = resolver or make_resolver([("127.0.0.1", self.port)], loop)
        found = Discovery(static, srv, self._changed, self.clock, resolver)
        self.addCleanup(self.closed, resolver)
        self.addCleanup(found.stop)
        found.start()
        return found

    def resolver(self, *ports: int, timeout: tuple[float, ...]) -> Any:
        make: Any = client.Resolver
        return make(servers=[("127.0.0.1", port) for port in ports], timeout=timeout)

    def mute(self) -> tuple[Mute, int]:
        mute = Mute()
        port = loop.listenUDP(0, mute, interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        return mute, port.getHost().port

    async def closed(self, resolver: Any) -> None:
        await self.until(lambda: not resolver.connections)

    def _changed(self) -> None:
        self.changes += 1

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await deferLater(loop, 0.001)

    async def answered(self) -> None:
        """The discovery has its answer, and waits for its time to ask again."""
        await self.until(lambda: bool(self.clock.getDelayedCalls()))

    async def passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.answered()


class AddressTests(DiscoveryCase):
    async def test_static_only(self) -> None:
        found = self.start("node-a:7000", "node-b:7000", "node-a:7000", srv="")
        self.assertEqual(found.addresses(), ["node-a:7000", "node-b:7000"])
        self.assertEqual(self.zone.asked, 0)

    async def test_the_union(self) -> None:
        """Of both, each address once; the ports are those of the records."""
        self.zone.say(("node-b.example", 7001), ("node-c.example", 7002))
        found = self.start("node-a:7000", "node-b.example:7001")
        self.assertEqual(found.addresses(), ["node-a:7000", "node-b.example:7001"])
        await self.answered()
        self.assertEqual(
            found.addresses(), ["node-a:7000", "node-b.example:7001", "node-c.example:7002"]
        )
        self.assertEqual(self.changes, 1)

    async def test_no_change_of_the_union_is_no_change(self) -> None:
        self.zone.say(("node-b.example", 7001))
        self.start("node-b.example:7001")
        await self.answered()
        self.assertEqual(self.changes, 0)

    async def test_the_service_is_not_there(self) -> None:
        """A target of "." means that there is none (RFC 2782)."""
        self.zone.say(("node-b", 7000), ttl=5)
        found = self.start("node-a:7000")
        await self.answered()
        self.zone.say(("", 0))
        await self.passes(5)
        self.assertEqual(found.addresses(), ["node-a:7000"])

    async def test_more_than_fits_into_a_datagram(self) -> None:
        """The rest comes by TCP."""
        many = [(f"a-node-with-a-long-name-{number}.example", 7000) for number in range(100)]
        self.zone.say(*many, ttl=5)
        found = self.start()
        await self.answered()
        self.assertEqual(len(found.addresses()), 100)
        self.zone.say(*many[1:])
        await self.passes(5)
        self.assertEqual(len(found.addresses()), 99)

    async def test_a_bug_in_the_node(self) -> None:
        """Is logged, and addresses are followed on."""
        self.patch(self, "_changed", lambda: 1 / 0)
        self.zone.say(("node-b", 7000), ttl=5)
        found = self.start()
        await self.answered()
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.zone.say(("node-c", 7000))
        await self.passes(5)
        self.assertEqual(found.addresses(), ["node-c:7000"])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class TimeTests(DiscoveryCase):
    async def test_changes_are_followed(self) -> None:
        self.zone.say(("node-a", 7000), ttl=30)
        found = self.start()
        await self.answered()
        self.zone.say(("node-a", 7000), ("node-b", 7000), ttl=30)
        self.clock.advance(29.9)
        self.assertEqual((found.addresses(), self.zone.asked), (["node-a:7000"], 1))
        await self.passes(0.1)
        self.assertEqual(found.addresses(), ["node-a:7000", "node-b:7000"])
        self.zone.say(("node-b", 7000), ttl=30)
        await self.passes(30)
        self.assertEqual(found.addresses(), ["node-b:7000"])
        self.assertEqual(self.changes, 3)

    async def wait_for(self, *ttls: int) -> float:
        """How long it takes to ask again."""
        self.zone.records[NAME.encode()] = [
            dns.Record_SRV(10, 5, 7000 + number, "node-a", ttl=ttl)
            for number, ttl in enumerate(ttls)
        ]
        self.start()
        await self.answered()
        return float(self.clock.getDelayedCalls()[0].getTime() - self.clock.seconds())

    async def test_the_time_to_live(self) -> None:
        self.assertEqual(await self.wait_for(42), 42)

    async def test_the_shortest_of_them(self) -> None:
        self.assertEqual(await self.wait_for(100, 42, 77), 42)

    async def test_not_all_the_time(self) -> None:
        self.assertEqual(await self.wait_for(0), 1)

    async def test_not_for_ever(self) -> None:
        self.assertEqual(await self.wait_for(86400), 300)

    async def test_nothing_is_cached(self) -> None:
        """Each answer is from the name server, also if the last one has not run out."""
        self.zone.say(("node-a", 7000), ttl=86400)
        found = self.start()
        await self.answered()
        self.zone.say(("node-b", 7000), ttl=86400)
        await self.passes(300)
        self.assertEqual(found.addresses(), ["node-b:7000"])
        self.assertEqual(self.zone.asked, 2)

    async def test_stop(self) -> None:
        self.zone.say(("node-a", 7000))
        found = self.start()
        await self.answered()
        found.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(found.addresses(), ["node-a:7000"])

    async def test_stop_while_asking(self) -> None:
        self.zone.say(("node-a", 7000))
        found = self.start(resolver=self.resolver(self.port, timeout=(0.01,)))
        found.stop()
        await self.until(lambda: self.zone.asked > 0)
        # The resolver, which knows nothing of this, has a timer of its own.
        await deferLater(loop, 0.02)
        self.assertEqual((found.addresses(), self.changes), ([], 0))


class FailureTests(DiscoveryCase):
    def problems(self) -> list[str]:
        return [line for line in self.logged if "keeping the known addresses" in line]

    async def test_the_name_vanishes(self) -> None:
        """What was known is kept; the log says so once, and once that it is over."""
        self.zone.say(("node-a", 7000), ttl=5)
        found = self.start()
        await self.answered()
        self.zone.records.clear()
        for _ in range(4):
            await self.passes(60)
        self.assertEqual(found.addresses(), ["node-a:7000"])
        self.assertEqual(len(self.problems()), 1)
        self.assertIn("there are no such records", self.problems()[0])
        self.assertIn("node-a:7000", self.problems()[0])
        self.zone.say(("node-b", 7000))
        await self.passes(60)
        self.assertEqual(found.addresses(), ["node-b:7000"])
        self.assertEqual(len([line for line in self.logged if "an answer again" in line]), 1)

    async def test_a_name_without_such_records(self) -> None:
        self.zone.records[NAME.encode()] = [dns.Record_A("10.0.0.1", ttl=5)]
        found = self.start("node-a:7000")
        await self.answered()
        self.assertEqual(found.addresses(), ["node-a:7000"])
        self.assertIn("there are no such records", self.problems()[0])

    async def test_a_failing_server(self) -> None:
        self.patch(self.zone, "_lookup", lambda *arguments: 1 / 0)
        found = self.start("node-a:7000")
        await self.answered()
        self.flushLoggedErrors(ZeroDivisionError)
        self.assertEqual(found.addresses(), ["node-a:7000"])
        self.assertIn("the name server fails", self.problems()[0])

    async def test_a_server_that_does_not_answer(self) -> None:
        mute, port = self.mute()
        found = self.start("node-a:7000", resolver=self.resolver(port, timeout=(0.01, 0.01)))
        for _ in range(3):
            await self.answered()
            self.clock.advance(60)
        await self.answered()
        self.assertEqual(found.addresses(), ["node-a:7000"])
        self.assertEqual(len(self.problems()), 1)
        self.assertIn("no name server answers", self.problems()[0])
        self.assertEqual(mute.asked, 8)

    async def test_it_asks_less_and_less_often(self) -> None:
        waits = []
        self.start()
        for _ in range(8):
            await self.answered()
            waits.append(self.clock.getDelayedCalls()[0].getTime() - self.clock.seconds())
            self.clock.advance(waits[-1])
        await self.answered()
        self.assertEqual(waits, [1, 2, 4, 8, 16, 32, 60, 60])

    async def test_another_problem_is_news(self) -> None:
        self.start()
        await self.answered()
        self.patch(self.zone, "_lookup", lambda *arguments: 1 / 0)
        await self.passes(60)
        self.flushLoggedErrors(ZeroDivisionError)
        self.assertEqual(len(self.problems()), 2)

    async def test_the_next_server_is_asked(self) -> None:
        mute, port = self.mute()
        self.zone.say(("node-a", 7000))
        found = self.start(resolver=self.resolver(port, self.port, timeout=(0.01, 1)))
        await self.answered()
        self.assertEqual(found.addresses(), ["node-a:7000"])
        self.assertGreater(mute.asked, 0)
