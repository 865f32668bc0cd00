"""Addresses and networks, as bans and lock-outs see them."""

from unittest import TestCase

from mhub.auth.addresses import (
    Networks,
    host_of,
    network_around,
    parse_address,
    parse_network,
    show_network,
)


class HostTests(TestCase):
    def test_with_and_without_a_port(self) -> None:
        for address, host in {
            "192.0.2.1:50000": "192.0.2.1",
            "192.0.2.1": "192.0.2.1",
            "[2001:db8::1]:50000": "2001:db8::1",
            "[2001:db8::1]": "2001:db8::1",
            "2001:db8::1": "2001:db8::1",
            "local": "local",
            "": "",
        }.items():
            self.assertEqual(host_of(address), host)

    def test_a_unix_socket_has_no_address(self) -> None:
        self.assertIsNone(parse_address(host_of("local")))
        self.assertIsNone(parse_address(""))

    def test_mapped_addresses_are_ipv4(self) -> None:
        self.assertEqual(str(parse_address("::ffff:192.0.2.1")), "192.0.2.1")
        self.assertEqual(str(parse_address("::ffff:c000:201")), "192.0.2.1")

    def test_a_zone_is_left_out(self) -> None:
        self.assertEqual(str(parse_address("fe80::1%eth0")), "fe80::1")


class NetworkTests(TestCase):
    def test_one_form(self) -> None:
        for text, shown in {
            "192.0.2.1": "192.0.2.1",
            " 192.0.2.1 ": "192.0.2.1",
            "192.0.2.1/32": "192.0.2.1",
            "192.0.2.0/24": "192.0.2.0/24",
            "192.0.2.0/255.255.255.0": "192.0.2.0/24",
            "2001:DB8:0:0::/32": "2001:db8::/32",
            "2001:db8::1/128": "2001:db8::1",
            "::ffff:192.0.2.1": "192.0.2.1",
            "::ffff:192.0.2.0/120": "192.0.2.0/24",
            "::ffff:0:0/96": "0.0.0.0/0",
            "::/0": "::/0",
        }.items():
            self.assertEqual(show_network(parse_network(text)), shown)

    def test_what_is_none(self) -> None:
        for text in ("", "host", "192.0.2.256", "192.0.2.0/33", "192.0.2", "1.2.3.4:80", "a/b"):
            with self.assertRaises(ValueError, msg=text):
                parse_network(text)

    def test_an_address_inside_of_a_network_is_a_mistake(self) -> None:
        with self.assertRaisesRegex(ValueError, "write 192.0.2.0/24 for the network"):
            parse_network("192.0.2.1/24")
        self.assertEqual(show_network(parse_network("192.0.2.1/24", strict=False)), "192.0.2.0/24")

    def test_what_one_client_has(self) -> None:
        v4, v6 = parse_address("192.0.2.1"), parse_address("2001:db8:1:2:3::1")
        assert v4 is not None and v6 is not None
        self.assertEqual(show_network(network_around(v4, 64)), "192.0.2.1")
        self.assertEqual(show_network(network_around(v6, 64)), "2001:db8:1:2::/64")
        self.assertEqual(show_network(network_around(v6, 128)), "2001:db8:1:2:3::1")


class LookUpTests(TestCase):
    def setUp(self) -> None:
        self.networks: Networks[str] = Networks()

    def found(self, host: str) -> set[str]:
        address = parse_address(host)
        assert address is not None
        return set(self.networks.of(address))

    def put(self, *texts: str) -> None:
        for text in texts:
            self.networks.put(parse_network(text), text)

    def test_all_networks_that_an_address_is_in(self) -> None:
        self.put("192.0.2.0/24", "192.0.0.0/16", "192.0.2.7", "10.0.0.0/8", "::/0")
        self.assertEqual(self.found("192.0.2.7"), {"192.0.2.0/24", "192.0.0.0/16", "192.0.2.7"})
        self.assertEqual(self.found("192.0.3.7"), {"192.0.0.0/16"})
        self.assertEqual(self.found("11.0.0.1"), set())
        self.assertEqual(self.found("2001:db8::1"), {"::/0"})

    def test_the_whole_of_ipv4(self) -> None:
        self.put("0.0.0.0/0")
        self.assertEqual(self.found("255.255.255.255"), {"0.0.0.0/0"})
        self.assertEqual(self.found("::1"), set())

    def test_removed(self) -> None:
        self.put("192.0.2.0/24", "192.0.3.0/24")
        self.networks.remove(parse_network("192.0.2.0/24"))
        self.assertEqual(self.found("192.0.2.1"), set())
        self.assertEqual(self.found("192.0.3.1"), {"192.0.3.0/24"})
        self.networks.remove(parse_network("192.0.3.0/24"))
        self.assertFalse(self.networks)
        self.networks.remove(parse_network("192.0.3.0/24"))
