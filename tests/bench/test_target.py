"""URLs mean what people expect, and other people's hosts are left alone."""

import socket
from unittest import TestCase

from mhub.bench.errors import BenchError
from mhub.bench.target import DEFAULT_URL, Address, Target, check_consent, parse, resolve
from tests.bench.command import bench


class ParseTests(TestCase):
    def test_each_scheme(self) -> None:
        for url, expected in (
            (DEFAULT_URL, Target("mqtt", "127.0.0.1", 1883)),
            ("mqtt://host", Target("mqtt", "host", 1883)),
            ("mqtts://host", Target("mqtts", "host", 8883)),
            ("ws://host", Target("ws", "host", 80, "/mqtt")),
            ("wss://host/a/b?c=d", Target("wss", "host", 443, "/a/b?c=d")),
            ("ws://host:8083/", Target("ws", "host", 8083, "/")),
            ("mqtt://[::1]:1884", Target("mqtt", "::1", 1884)),
            ("unix:///run/mqtt.sock", Target("unix", path="/run/mqtt.sock")),
            ("unix://mqtt.sock", Target("unix", path="mqtt.sock")),
            ("localhost:1884", Target("mqtt", "localhost", 1884)),
        ):
            self.assertEqual(parse(url), expected, url)

    def test_user_name_and_password(self) -> None:
        target = parse("mqtt://me%40home:p%3Aw@host")
        self.assertEqual((target.username, target.password), ("me@home", "p:w"))

    def test_a_report_never_shows_the_password(self) -> None:
        for url in ("mqtt://me:secret@host:1", "unix://me:secret@/run/x", "ws://me:secret@h/p"):
            self.assertNotIn("secret", str(parse(url)))

    def test_written_back(self) -> None:
        for url in ("mqtt://h:1883", "wss://h:443/mqtt", "mqtt://[::1]:5", "unix:///run/x"):
            self.assertEqual(str(parse(url)), url)

    def test_what_cannot_be_meant(self) -> None:
        for url in (
            "http://host", "mqtt://", "mqtt://host:x", "mqtt://host:0", "mqtt://host:99999",
            "mqtt://host/path", "unix://", "mqtt://[::1",
        ):  # fmt: skip
            with self.assertRaises(BenchError, msg=url):
                parse(url)


class ConsentTests(TestCase):
    def test_loopback_and_unix_sockets_are_free(self) -> None:
        for address in (
            Address(socket.AF_INET, ("127.0.0.1", 1883)),
            Address(socket.AF_INET, ("127.9.9.9", 1883)),
            Address(socket.AF_INET6, ("::1", 1883, 0, 0)),
            Address(socket.AF_UNIX, "/run/mqtt.sock"),
        ):
            check_consent(Target("mqtt", "x"), [address], False)

    def test_other_hosts_need_a_word(self) -> None:
        elsewhere = [Address(socket.AF_INET, ("127.0.0.1", 1)), Address(2, ("192.0.2.1", 1))]
        with self.assertRaises(BenchError) as caught:
            check_consent(Target("mqtt", "host"), elsewhere, False)
        self.assertIn("--yes-this-host-is-mine", caught.exception.hint)
        check_consent(Target("mqtt", "host"), elsewhere, True)

    def test_the_command_refuses_before_it_connects(self) -> None:
        said = bench("mqtt://192.0.2.1:1883")
        self.assertEqual(said.status, 1)
        self.assertIn("--yes-this-host-is-mine", said.err)


class ResolveTests(TestCase):
    def test_an_address_is_itself(self) -> None:
        [address] = resolve(parse("mqtt://127.0.0.1:1883"))
        self.assertEqual(address.where, ("127.0.0.1", 1883))

    def test_a_unix_socket_has_no_host(self) -> None:
        self.assertEqual(resolve(parse("unix:///x")), [Address(socket.AF_UNIX, "/x")])
