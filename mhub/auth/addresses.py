"""Addresses of clients, and the networks that they are in.

An IPv4 address that reaches an IPv6 socket (`::ffff:192.0.2.1`) is the IPv4 address, as a client
and in a ban: a ban could be evaded otherwise by choosing the other way in.
"""

from collections.abc import Iterator
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final, Generic, TypeVar

T = TypeVar("T")

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_MAPPED: Final = IPv6Network("::ffff:0:0/96")


def host_of(address: str) -> str:
    """The host of `192.0.2.1:50000`, `[2001:db8::1]:50000` or of either without a port."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0] if address.count(":") == 1 else address


@lru_cache(maxsize=4096)
def parse_address(host: str) -> Address | None:
    """None for what is none, such as the client of a Unix socket."""
    try:
        found = ip_address(host.partition("%")[0])  # the zone is of this machine alone
    except ValueError:
        return None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found


def parse_network(text: str, *, strict: bool = True) -> Network:
    """An address, or a network such as `192.0.2.0/24`.  Raises ValueError, which says why.

    `strict`: an address inside of a network is not taken for the network.
    """
    text = text.strip()
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        raise ValueError(
            f'"{text}" is neither an address nor a network such as 192.0.2.0/24 or 2001:db8::/32'
        ) from None
    given = text.partition("/")[0]
    if strict and network.prefixlen < network.max_prefixlen:
        if ip_address(given) != network.network_address:
            raise ValueError(
                f'"{text}" is an address inside of a network: write {network} for the network,'
                f" or {given} for the address"
            )
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        low = network.network_address.ipv4_mapped
        assert low is not None
        return IPv4Network((int(low), network.prefixlen - 96))
    return network


def show_network(network: Network) -> str:
    """A network of one address is written as that."""
    if network.prefixlen == network.max_prefixlen:
        return str(network.network_address)
    return str(network)


def network_around(address: Address, ipv6_prefix: int) -> Network:
    """What one client has of addresses: one of IPv4, a network of IPv6."""
    if isinstance(address, IPv4Address):
        return IPv4Network(address)
    return IPv6Network((address, ipv6_prefix), strict=False)


class Networks(Generic[T]):
    """Networks -> values.  A look-up costs one step for each length of a prefix that occurs."""

    def __init__(self) -> None:
        self._tables: dict[tuple[int, int], dict[int, T]] = {}

    def put(self, network: Network, value: T) -> None:
        table = self._tables.setdefault((network.version, network.prefixlen), {})
        table[int(network.network_address)] = value

    def remove(self, network: Network) -> None:
        kind = (network.version, network.prefixlen)
        table = self._tables.get(kind, {})
        table.pop(int(network.network_address), None)
        if not table:
            self._tables.pop(kind, None)

    def of(self, address: Address) -> Iterator[T]:
        """The values of all networks that an address is in."""
        number = int(address)
        for (version, length), table in self._tables.items():
            if version == address.version:
                shift = address.max_prefixlen - length
                found = table.get(number >> shift << shift)
                if found is not None:
                    yield found

    def __contains__(self, address: Address) -> bool:
        return next(self.of(address), None) is not None

    def __bool__(self) -> bool:
        return bool(self._tables)
