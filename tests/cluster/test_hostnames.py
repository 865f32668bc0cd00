"""Host names of nodes: a real name server on loopback, and links that are made by it."""

from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.task import deferLater
from twisted.names import authority, dns, server

from mhub.cluster.hostnames import ALIASES, Hostnames
from mhub.cluster.link import Links
from tests.cluster.ends import SETTINGS, LinkCase, loop

NAME = "node-a.cluster.example"


class Zone(authority.FileAuthority):
    """An authority in memory; an alias is answered with the alias alone."""

    def __init__(self) -> None:
        common: Any = authority.common.ResolverBase.__init__
        common(self)
        self.soa = (b"cluster.example", dns.Record_SOA(minimum=60, expire=60))
        self.records: dict[bytes, list[Any]] = {}
        self.asked: list[bytes] = []

    def _lookup(self, name: Any, cls: Any, type: Any, timeout: Any = None) -> Any:
        self.asked.append(name)
        return super()._lookup(name, cls, type, timeout)


class HostnameCase(LinkCase):
    def setUp(self) -> None:
        super().setUp()
        self.zone = Zone()
        factory: Any = server.DNSServerFactory(authorities=[self.zone])
        factory.noisy = False
        tcp = loop.listenTCP(0, factory, interface="127.0.0.1")
        self.port = tcp.getHost().port
        udp = loop.listenUDP(self.port, dns.DNSDatagramProtocol(factory), interface="127.0.0.1")
        self.addCleanup(udp.stopListening)
        self.addCleanup(tcp.stopListening)
        self.hosts = self.mktemp()
        with open(self.hosts, "w") as file:
            file.write("127.9.9.9 from-a-file\n")
        self.names = Hostnames([("127.0.0.1", self.port)], loop, self.hosts)
        self.addCleanup(self.names.close)

    def say(self, name: str, *records: Any) -> None:
        self.zone.records[name.encode()] = list(records)


class FindTests(HostnameCase):
    async def test_both_kinds(self) -> None:
        self.say(NAME, dns.Record_A("127.0.0.7"), dns.Record_AAAA("::1"))
        self.assertEqual(await self.names.find(NAME), ["::1", "127.0.0.7"])

    async def test_one_kind(self) -> None:
        self.say(NAME, dns.Record_A("127.0.0.7"), dns.Record_A("127.0.0.8"))
        self.assertEqual(sorted(await self.names.find(NAME)), ["127.0.0.7", "127.0.0.8"])

    async def test_none(self) -> None:
        self.assertEqual(await self.names.find(NAME), [])
        self.assertEqual(await self.names.find("x" * 70), [])

    async def test_an_address_is_its_own(self) -> None:
        for address in ("127.0.0.1", "::1"):
            self.assertEqual(await self.names.find(address), [address])
        self.assertEqual(self.zone.asked, [])

    async def test_the_hosts_file_comes_first(self) -> None:
        self.assertEqual(await self.names.find("from-a-file"), ["127.9.9.9"])
        self.assertEqual(self.zone.asked, [])

    async def test_aliases(self) -> None:
        self.say("alias.cluster.example", dns.Record_CNAME(NAME))
        self.say(NAME, dns.Record_A("127.0.0.7"))
        self.assertEqual(await self.names.find("alias.cluster.example"), ["127.0.0.7"])

    async def test_aliases_without_an_end(self) -> None:
        self.say("one.cluster.example", dns.Record_CNAME("other.cluster.example"))
        self.say("other.cluster.example", dns.Record_CNAME("one.cluster.example"))
        self.assertEqual(await self.names.find("one.cluster.example"), [])
        self.assertLessEqual(len(self.zone.asked), 4 * ALIASES)


class DialTests(HostnameCase):
    def dialling(self, **changes: Any) -> Links:
        links = Links(self.b, SETTINGS, loop, names=self.names, **changes)
        self.addCleanup(links.stop)
        return links

    async def test_a_node_is_reached_by_a_name_that_the_system_does_not_know(self) -> None:
        _, address = self.listening(self.a)
        self.say(NAME, dns.Record_A("127.0.0.1"))
        self.dialling().dial(f"{NAME}:{address.rpartition(':')[2]}")
        await self.b.next("opened")
        await self.a.next("opened")
        self.assertIn(NAME.encode(), self.zone.asked)

    async def test_the_next_address_if_the_first_does_not_answer(self) -> None:
        _, address = self.listening(self.a)
        self.say(NAME, dns.Record_AAAA("::1"), dns.Record_A("127.0.0.1"))
        self.dialling().dial(f"{NAME}:{address.rpartition(':')[2]}")
        await self.b.next("opened")
        await self.a.next("opened")

    async def test_a_name_that_is_not_known(self) -> None:
        """Not even if the system knows it."""
        for name in (NAME, "localhost"):
            self.dialling().dial(f"{name}:7883")
            failed, text = await self.b.next("dial_failed")
            self.assertEqual(failed, f"{name}:7883")
            self.assertIn("no results for hostname lookup", text)

    async def test_what_the_endpoint_asks_for(self) -> None:
        came: list[Any] = []

        class Receiver:
            def resolutionBegan(self, resolution: Any) -> None:
                came.append(resolution.name)

            def addressResolved(self, address: Any) -> None:
                came.append(address)

            def resolutionComplete(self) -> None:
                came.append("complete")

        self.say(NAME, dns.Record_A("127.0.0.7"), dns.Record_AAAA("::1"))
        self.names.resolveHostName(Receiver(), NAME, 7883, [IPv4Address])
        while len(came) < 3:
            await deferLater(loop, 0.001)
        self.assertEqual(came, [NAME, IPv4Address("TCP", "127.0.0.7", 7883), "complete"])
