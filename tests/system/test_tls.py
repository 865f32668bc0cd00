"""Certificates: which one the broker shows, what it asks of clients, and new ones while it runs."""

import signal
import socket
import ssl
import subprocess

from cryptography.x509 import load_pem_x509_certificate

from tests.helpers.certificates import Authority
from tests.system.case import BrokerCase, HouseCase, place
from tests.system.raw import Raw, closed_within


def shown(port: int, context: ssl.SSLContext, name: str | None) -> int:
    """The serial number of the certificate that a client is shown who asks for this name."""
    context.check_hostname = False
    raw = Raw(("127.0.0.1", port), 4, context, name)
    raw.connect(f"asks-for-{name}")
    der = raw.sock.getpeercert(binary_form=True)
    raw.close()
    return serial(ssl.DER_cert_to_PEM_cert(der))


def serial(pem: str) -> int:
    return load_pem_x509_certificate(pem.encode()).serial_number


class ServerNameTests(HouseCase):
    def check(self, name: str | None, file: str) -> None:
        expected = serial((self.house.directory / file).read_text())
        self.assertEqual(expected, shown(self.house.tls, self.house.trust(), name))

    def test_a_client_that_names_no_server(self) -> None:
        self.check(None, "server.crt")

    def test_a_name_with_a_certificate_of_its_own(self) -> None:
        self.check("other.test", "other.crt")

    def test_a_name_below_a_wildcard(self) -> None:
        self.check("any.wild.test", "other.crt")

    def test_a_name_two_levels_below_a_wildcard(self) -> None:
        self.check("a.b.wild.test", "server.crt")

    def test_an_unknown_name(self) -> None:
        self.check("unknown.test", "server.crt")


class VersionTests(HouseCase):
    def test_versions_in_use(self) -> None:
        for version, name in (
            (ssl.TLSVersion.TLSv1_2, "TLSv1.2"),
            (ssl.TLSVersion.TLSv1_3, "TLSv1.3"),
        ):
            context = self.house.trust()
            context.minimum_version = context.maximum_version = version
            raw = Raw(("localhost", self.house.tls), 4, context, "localhost")
            self.addCleanup(raw.sock.close)
            raw.connect(self.name())
            self.assertEqual(name, raw.sock.version())

    def test_an_old_cipher_without_forward_secrecy(self) -> None:
        context = self.house.trust()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("AES256-SHA:AES128-SHA:AES256-GCM-SHA384")
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            Raw(("localhost", self.house.tls), 4, context, "localhost")
        self.logged("on secure was rejected: TLS:")


class ClientCertificateTests(HouseCase):
    """Listener `devices`: a certificate is required, its common name is who the client is."""

    def connection(self, context: ssl.SSLContext) -> Raw:
        raw = Raw(("localhost", self.house.devices), 4, context, "localhost")
        self.addCleanup(raw.sock.close)
        return raw

    def check_turned_away(self, context: ssl.SSLContext) -> str:
        # With TLS 1.3 the client is done before the server has seen the certificate.
        try:
            closed_within(self.connection(context).sock, 5)
        except (ssl.SSLError, ConnectionError):
            pass
        return self.logged("on devices was rejected: TLS:")

    def test_the_common_name_is_the_identity(self) -> None:
        raw = self.connection(self.house.trust("pump-7"))
        raw.connect("what the client calls itself")
        self.logged("'pump-7' connected from")

    def test_no_certificate(self) -> None:
        line = self.check_turned_away(self.house.trust())
        self.assertIn("certificate", line)

    def test_a_certificate_of_somebody_else(self) -> None:
        context = self.house.trust("impostor", Authority("Device Authority"))
        line = self.check_turned_away(context)
        self.assertIn("certificate", line)

    def test_the_certificate_of_the_broker_itself_is_none_of_a_device(self) -> None:
        context = self.house.trust()
        place = self.house.directory
        context.load_cert_chain(place / "server.crt", place / "server.key")
        self.check_turned_away(context)


class ChainTests(BrokerCase):
    def test_authorities_of_ca_complete_the_chain(self) -> None:
        """For a client that knows the root alone, such as openssl."""
        folder = place(self)
        root = Authority("Root")
        root.write(folder / "root.crt")
        middle = Authority("Middle", root)
        middle.write(folder / "middle.crt")
        middle.issue("localhost", folder / "server.crt", folder / "server.key")
        broker = self.start(
            '[[listeners]]\nname = "secure"\ntransport = "tls"\nport = 0\n'
            'tls.certificate = "server.crt"\ntls.key = "server.key"\ntls.ca = "middle.crt"\n',
            directory=folder,
        )
        command = ["openssl", "s_client", "-connect", f"127.0.0.1:{broker.ports['secure']}"]
        command += ["-CAfile", str(folder / "root.crt"), "-verify_return_error", "-showcerts"]
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20
        )
        self.assertEqual(2, ended.stdout.count("BEGIN CERTIFICATE"), ended.stdout + ended.stderr)
        self.assertIn("Verify return code: 0 (ok)", ended.stdout)


class ReloadTests(BrokerCase):
    def setUp(self) -> None:
        self.place = place(self)
        self.authority = Authority("Test Authority")
        self.authority.write(self.place / "ca.crt")
        self.first = self.issue()
        self.broker = self.start(
            '[[listeners]]\nname = "secure"\ntransport = "tls"\nport = 0\n'
            'tls.certificate = "server.crt"\ntls.key = "server.key"\n',
            directory=self.place,
        )
        self.port = self.broker.ports["secure"]

    def issue(self) -> int:
        place = self.place
        made = self.authority.issue("localhost", place / "server.crt", place / "server.key")
        return made.serial_number

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.place / "ca.crt"))

    def shown(self) -> int:
        return shown(self.port, self.trust(), "localhost")

    def reload(self, words: str) -> str:
        mark = len(self.broker.log())
        self.broker.signal(signal.SIGHUP)
        return self.broker.wait_for_log(words, mark)

    def test_new_connections_see_it_and_old_ones_go_on(self) -> None:
        self.assertEqual(self.first, self.shown())
        old = Raw(("localhost", self.port), 4, self.trust(), "localhost")
        self.addCleanup(old.sock.close)
        old.connect("old")
        old.subscribe("news", 1)

        second = self.issue()
        self.reload("secure: certificates reloaded")
        self.assertEqual(second, self.shown())
        new = Raw(("localhost", self.port), 4, self.trust(), "localhost")
        self.addCleanup(new.sock.close)
        new.connect("new")
        new.publish("news", b"x" * 100_000, 1, 1)
        new.expect("PUBACK", pid=1)
        old.expect("PUBLISH", topic="news", payload=b"x" * 100_000)
        old.ping()

    def test_a_broken_file_changes_nothing(self) -> None:
        (self.place / "server.crt").write_text("-----BEGIN CERTIFICATE-----\nhalf of it")
        line = self.reload("found something else in")
        self.assertIn("server.crt", line)
        self.assertEqual(self.first, self.shown())
        second = self.issue()
        self.reload("secure: certificates reloaded")
        self.assertEqual(second, self.shown())


class LinkReloadTests(BrokerCase):
    """The same for links between nodes."""

    def setUp(self) -> None:
        self.place = place(self)
        self.authority = Authority("Test Authority")
        self.authority.write(self.place / "ca.crt")
        self.first = self.issue()
        self.broker = self.start(
            '[cluster]\nname = "house"\nnode = "node-a"\nport = 0\n'
            'tls.certificate = "a.crt"\ntls.key = "a.key"\ntls.ca = "ca.crt"\n',
            directory=self.place,
        )
        line = self.broker.wait_for_log("for peers at")
        self.address = ("127.0.0.1", int(line.rpartition(":")[2]))

    def issue(self, name: str = "node-a") -> int:
        made = self.authority.issue(name, self.place / "a.crt", self.place / "a.key")
        return made.serial_number

    def shown(self) -> int:
        context = ssl.create_default_context(cafile=str(self.place / "ca.crt"))
        context.check_hostname = False
        with (
            socket.create_connection(self.address) as plain,
            context.wrap_socket(plain) as secure,
        ):
            der = secure.getpeercert(binary_form=True)
        assert der is not None
        return serial(ssl.DER_cert_to_PEM_cert(der))

    def reload(self, words: str) -> str:
        mark = len(self.broker.log())
        self.broker.signal(signal.SIGHUP)
        return self.broker.wait_for_log(words, mark)

    def test_new_links_see_it_unless_it_is_wrong(self) -> None:
        self.assertEqual(self.shown(), self.first)
        second = self.issue()
        self.reload("links: certificates reloaded")
        self.assertEqual(self.shown(), second)
        (self.place / "a.crt").write_text("-----BEGIN CERTIFICATE-----\nhalf of it")
        self.assertIn("a.crt", self.reload("found something else in"))
        self.issue("node-b")
        line = self.reload("expected a certificate for the name of the node")
        self.assertIn('"node-a"', line)
        self.assertEqual(self.shown(), second)
