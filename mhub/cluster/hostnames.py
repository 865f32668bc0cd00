"""Addresses of other nodes' host names, from the name servers of `cluster.dns`.

Twisted asks the system for a name that it shall connect to.  Where name servers are configured for
the cluster these are asked in its place, for SRV records (`mhub.cluster.discovery`) and for the
addresses of their targets alike: a server for a few internal names is often the only one that knows
either.  The hosts file of the machine comes first, as it does for the system.
"""

import socket
from collections.abc import Sequence
from typing import Any, Final

from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import (
    IHostnameResolver,
    IHostResolution,
    IReactorPluggableNameResolver,
)
from twisted.names import client, dns, hosts
from twisted.python.failure import Failure
from twisted.python.filepath import FilePath
from zope.interface import implementer  # type: ignore[import-untyped]

from mhub.log import logger

HOSTS_FILE: Final = "/etc/hosts"
ALIASES: Final = 8
"""So many CNAMEs are followed; a recursive server follows them itself."""

_PATIENCE_S: Final = (1, 2)
"""With a name server.  A dial has a few seconds, and the connection needs some of them."""

_HOSTS: Final[Any] = hosts  # without annotations in Twisted, as the resolver


@implementer(IHostResolution)
class _Resolution:
    def __init__(self, name: str) -> None:
        self.name = name

    def cancel(self) -> None:
        """Nobody listens any more; the answer may come all the same."""


@implementer(IHostnameResolver)
class Hostnames:
    def __init__(
        self, servers: Sequence[tuple[str, int]], reactor: Any, hosts_file: str = HOSTS_FILE
    ) -> None:
        resolver: Any = client.Resolver
        self._dns = resolver(servers=list(servers), timeout=_PATIENCE_S, reactor=reactor)
        self._hosts_file = FilePath(hosts_file)

    def resolveHostName(
        self,
        resolutionReceiver: Any,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Any = None,
        transportSemantics: str = "TCP",
    ) -> _Resolution:
        resolution = _Resolution(hostName)
        resolutionReceiver.resolutionBegan(resolution)
        finding = Deferred.fromCoroutine(self.find(hostName))

        def found(addresses: list[str]) -> None:
            for address in addresses:
                kind = IPv6Address if ":" in address else IPv4Address
                if addressTypes is None or kind in addressTypes:
                    resolutionReceiver.addressResolved(kind("TCP", address, portNumber))
            resolutionReceiver.resolutionComplete()

        def failed(why: Failure) -> None:
            logger("cluster").failure("internal error while looking up {name}", why, name=hostName)
            resolutionReceiver.resolutionComplete()

        finding.addCallbacks(found, failed)
        return resolution

    async def find(self, name: str) -> list[str]:
        """The addresses of a host, those of IPv6 first; none if nobody knows any."""
        if isIPAddress(name) or isIPv6Address(name):
            return [name]
        try:
            data = name.encode("idna")
        except UnicodeError:
            return []
        known: list[str] = _HOSTS.searchFileForAll(self._hosts_file, data)
        if known:
            return known
        for _ in range(ALIASES):
            answers = await self._ask(data)
            addresses = [_six(each.payload) for each in answers if each.type == dns.AAAA]
            addresses += [each.payload.dottedQuad() for each in answers if each.type == dns.A]
            aliases = [each.payload.name.name for each in answers if each.type == dns.CNAME]
            if addresses or not aliases:
                return list(dict.fromkeys(addresses))
            data = aliases[-1]
        return []

    async def _ask(self, name: bytes) -> list[Any]:
        """Both kinds at once; a server that fails for one of them may know the other."""
        asked = [self._dns.lookupIPV6Address(name), self._dns.lookupAddress(name)]
        results = await DeferredList(asked, consumeErrors=True)
        return [answer for worked, result in results if worked for answer in result[0]]

    def close(self) -> None:
        """Answers that are too long for a datagram come by connections."""
        for connection in self._dns.connections:
            connection.transport.loseConnection()


def _six(payload: Any) -> str:
    return socket.inet_ntop(socket.AF_INET6, payload.address)


@implementer(IReactorPluggableNameResolver)
class NamingReactor:
    """The reactor, with another source of addresses: endpoints take theirs from it."""

    def __init__(self, reactor: Any, names: Hostnames) -> None:
        self._reactor = reactor
        self.nameResolver = names

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)
