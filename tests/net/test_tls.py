"""TLS in memory: our contexts behind Twisted's TLS, the standard library's client before it."""

import gc
import ssl
import tempfile
import weakref
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import TestCase

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa, x25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from OpenSSL import SSL
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.protocols.tls import TLSMemoryBIOFactory

from mhub.config import SniSettings, TlsSettings
from mhub.net.tls import TlsContexts, TlsError
from tests.helpers.certificates import Authority, write_revocations

DER = 2  # what OpenSSL calls that form


class Echo(Protocol):
    def dataReceived(self, data: bytes) -> None:
        transport: Any = self.transport
        transport.write(data)


class Link:
    """A client and a server with memory between them."""

    def __init__(
        self,
        contexts: TlsContexts,
        client: ssl.SSLContext,
        host: str | None = "broker.example",
        session: ssl.SSLSession | None = None,
    ) -> None:
        self.clock = Clock()
        # zope's interfaces are not known to the type checker.
        factory_class: Any = TLSMemoryBIOFactory
        factory = factory_class(contexts, False, Factory.forProtocol(Echo), self.clock)
        self.server: Any = factory.buildProtocol(None)
        self.transport: Any = StringTransport()
        self.server.makeConnection(self.transport)
        self.to_client = ssl.MemoryBIO()
        self.from_client = ssl.MemoryBIO()
        self.client = client.wrap_bio(
            self.to_client, self.from_client, server_hostname=host, session=session
        )
        self.ready = False
        self.heard = b""

    def pump(self) -> "Link":
        """Let both speak until neither has more to say; a refusal raises here."""
        while True:
            try:
                if not self.ready:
                    self.client.do_handshake()
                    self.ready = True
                self.heard += self.client.read()
            except ssl.SSLWantReadError:
                pass
            sent = self.from_client.read()
            if sent:
                self.server.dataReceived(sent)
            self.clock.advance(0)
            answer = self.transport.value()
            self.transport.clear()
            self.to_client.write(answer)
            if not sent and not answer:
                return self

    def echo(self, data: bytes) -> bytes:
        self.heard = b""
        self.client.write(data)
        self.pump()
        return self.heard

    @property
    def shown(self) -> str:
        """The common name of the certificate that the server showed."""
        der = self.client.getpeercert(True)
        assert der is not None
        names = x509.load_der_x509_certificate(der).subject.get_attributes_for_oid(
            NameOID.COMMON_NAME
        )
        return str(names[0].value)

    @property
    def handle(self) -> Any:
        return self.server.getHandle()


class TlsCase(TestCase):
    """Files of one authority for the broker and one for the devices."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)
        self.web = Authority("web authority")
        self.web.write(self.dir / "web.crt")
        self.devices = Authority("device authority")
        self.devices.write(self.dir / "devices.crt")
        self.issue(self.web, "broker.example")

    def path(self, name: str) -> str:
        return str(self.dir / name)

    def issue(self, authority: Authority, name: str, **how: Any) -> x509.Certificate:
        return authority.issue(name, self.dir / f"{name}.crt", self.dir / f"{name}.key", **how)

    def settings(self, **changes: Any) -> TlsSettings:
        pair = {"certificate": self.path("broker.example.crt")}
        pair["key"] = self.path("broker.example.key")
        return TlsSettings(**{**pair, **changes})

    def contexts(self, **changes: Any) -> TlsContexts:
        return TlsContexts(self.settings(**changes))

    def guarded(self, how: str = "required", **changes: Any) -> TlsContexts:
        return self.contexts(client_certificate=how, ca=self.path("devices.crt"), **changes)

    def client(self, certificate: str = "", version: str = "") -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.path("web.crt"))
        if certificate:
            context.load_cert_chain(
                self.path(f"{certificate}.crt"), self.path(f"{certificate}.key")
            )
        if version:
            context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
        return context

    def check_refused(self, contexts: TlsContexts, client: ssl.SSLContext, words: str) -> None:
        with self.assertRaises(ssl.SSLError) as caught:
            Link(contexts, client).pump()
        self.assertIn(words, str(caught.exception.reason).replace("_", " ").lower())


class OddCase(TlsCase):
    """Certificates as the helper does not make them."""

    def write_odd(
        self,
        authority: Authority,
        file: str,
        name: str | x509.Name,
        key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None,
        usage: x509.ObjectIdentifier | None = None,
    ) -> None:
        key = key or ec.generate_private_key(ec.SECP256R1())
        host = name if isinstance(name, str) else "odd.example"
        if isinstance(name, str):
            name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(authority.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        )
        if usage is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        signed = builder.sign(authority.key, hashes.SHA256())
        (self.dir / f"{file}.crt").write_bytes(signed.public_bytes(Encoding.PEM))
        (self.dir / f"{file}.key").write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )

    def write_middle(self, root: Authority) -> Authority:
        """An authority below another, in middle.crt."""
        middle = Authority("middle", root)
        middle.write(self.dir / "middle.crt")
        return middle


class Server(OddCase):
    def test_both_versions_carry_bytes(self) -> None:
        for version in ("TLSv1_2", "TLSv1_3"):
            link = Link(self.contexts(), self.client(version=version)).pump()
            self.assertEqual(link.client.version(), version.replace("_", "."))
            self.assertEqual(link.echo(b"hello"), b"hello")
            self.assertIsNone(link.client.compression())

    def test_twisted_takes_it_for_what_it_is(self) -> None:
        self.assertTrue(IOpenSSLServerConnectionCreator.providedBy(self.contexts()))

    def test_older_versions_are_refused(self) -> None:
        old = self.client(version="TLSv1_1")
        # The client's own library would not even try without this.
        old.set_ciphers("DEFAULT@SECLEVEL=0")
        self.check_refused(self.contexts(), old, "alert protocol version")
        newer = self.client(version="TLSv1_2")
        self.check_refused(self.contexts(min_version="1.3"), newer, "alert protocol version")

    def test_only_ciphers_with_forward_secrecy_by_default(self) -> None:
        """The broker's is an ECDSA key, RSA key exchange needs another."""
        self.write_odd(self.web, "rsa", "broker.example", rsa.generate_private_key(65537, 2048))
        changes = {"certificate": self.path("rsa.crt"), "key": self.path("rsa.key")}
        client = self.client(version="TLSv1_2")
        client.set_ciphers("AES128-GCM-SHA256")
        self.check_refused(self.contexts(**changes), client, "handshake failure")
        Link(self.contexts(ciphers="AES128-GCM-SHA256", **changes), client).pump()

    def test_the_servers_order_of_ciphers_counts(self) -> None:
        first, second = "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256"
        client = self.client(version="TLSv1_2")
        client.set_ciphers(f"{second}:{first}")
        link = Link(self.contexts(ciphers=f"{first}:{second}"), client).pump()
        self.assertEqual((link.client.cipher() or ("",))[0], first)

    def test_ciphersuites(self) -> None:
        contexts = self.contexts(ciphersuites=("TLS_CHACHA20_POLY1305_SHA256",))
        link = Link(contexts, self.client()).pump()
        self.assertEqual((link.client.cipher() or ("",))[0], "TLS_CHACHA20_POLY1305_SHA256")

    def test_a_chain_is_shown_whole(self) -> None:
        middle = self.write_middle(self.web)
        self.issue(middle, "leaf.example")
        leaf = self.dir / "leaf.example.crt"
        leaf.write_bytes(leaf.read_bytes() + middle.certificate.public_bytes(Encoding.PEM))
        contexts = self.contexts(certificate=str(leaf), key=self.path("leaf.example.key"))
        Link(contexts, self.client(), "leaf.example").pump()

    def chain(self, **changes: Any) -> list[str]:
        """The names of the certificates that a client is shown, the broker's first."""
        link = Link(self.contexts(**changes), self.client(), "leaf.example").pump()
        client: Any = link.client  # it has no public name before Python 3.13
        shown = (each.public_bytes(DER) for each in client._sslobj.get_unverified_chain())
        names = (x509.load_der_x509_certificate(der).subject for der in shown)
        return [str(name.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value) for name in names]

    def test_a_chain_is_completed_from_the_authorities(self) -> None:
        """As Mosquitto does with its cafile; in whatever order they are, and without the root."""
        middle = self.write_middle(self.web)
        self.issue(middle, "leaf.example")
        leaf = {"certificate": self.path("leaf.example.crt"), "key": self.path("leaf.example.key")}
        everything = b"".join(
            (self.dir / name).read_bytes() for name in ("devices.crt", "web.crt", "middle.crt")
        )
        (self.dir / "all.crt").write_bytes(everything)
        for how in ("none", "optional"):
            shown = self.chain(**leaf, ca=self.path("all.crt"), client_certificate=how)
            self.assertEqual(shown, ["leaf.example", "middle"])
        self.check_refused(self.contexts(**leaf), self.client(), "certificate verify failed")

    def test_a_chain_that_is_whole_gets_nothing_on_top(self) -> None:
        middle = self.write_middle(self.web)
        self.issue(middle, "leaf.example")
        leaf = self.dir / "leaf.example.crt"
        leaf.write_bytes(leaf.read_bytes() + middle.certificate.public_bytes(Encoding.PEM))
        (self.dir / "all.crt").write_bytes(
            (self.dir / "middle.crt").read_bytes() + (self.dir / "web.crt").read_bytes()
        )
        shown = self.chain(
            certificate=str(leaf),
            key=self.path("leaf.example.key"),
            ca=self.path("all.crt"),
            client_certificate="optional",
        )
        self.assertEqual(shown, ["leaf.example", "middle"])

    def test_a_root_is_not_shown(self) -> None:
        self.issue(self.web, "leaf.example")
        leaf = {"certificate": self.path("leaf.example.crt"), "key": self.path("leaf.example.key")}
        for how in ("none", "optional"):
            shown = self.chain(**leaf, ca=self.path("web.crt"), client_certificate=how)
            self.assertEqual(shown, ["leaf.example"])

    def test_an_authority_of_the_same_name_is_not_taken_for_the_issuer(self) -> None:
        middle = self.write_middle(self.web)
        other = self.write_middle(self.web)
        self.issue(middle, "leaf.example")
        (self.dir / "all.crt").write_bytes(
            other.certificate.public_bytes(Encoding.PEM)
            + middle.certificate.public_bytes(Encoding.PEM)
        )
        shown = self.chain(
            certificate=self.path("leaf.example.crt"),
            key=self.path("leaf.example.key"),
            ca=self.path("all.crt"),
        )
        self.assertEqual(shown, ["leaf.example", "middle"])

    def test_alpn_is_answered_and_not_needed(self) -> None:
        for offered, chosen in ((["mqtt"], "mqtt"), (["h2", "mqtt"], "mqtt"), (["h2"], None)):
            client = self.client()
            client.set_alpn_protocols(offered)
            link = Link(self.contexts(), client).pump()
            self.assertEqual(link.client.selected_alpn_protocol(), chosen)
        client = self.client()
        client.set_alpn_protocols(["http/1.1"])
        link = Link(TlsContexts(self.settings(), ["http/1.1"]), client).pump()
        self.assertEqual(link.client.selected_alpn_protocol(), "http/1.1")

    def test_a_client_that_comes_back_resumes_its_session(self) -> None:
        contexts, client = self.contexts(), self.client()
        first = Link(contexts, client).pump()
        again = Link(contexts, client, session=first.client.session).pump()
        self.assertTrue(again.client.session_reused)
        self.assertEqual(again.echo(b"hello"), b"hello")


class Names(TlsCase):
    def setUp(self) -> None:
        super().setUp()
        for name in ("one.example", "two.example", "three.example"):
            self.issue(self.web, name)
        self.by_name = self.contexts(
            sni=(
                self.entry("one.example", "one.example", "ONE.Example.Net"),
                self.entry("two.example", "*.two.example"),
                self.entry("three.example", "deep.two.example", "bücher.example"),
            )
        )

    def entry(self, file: str, *hosts: str) -> SniSettings:
        return SniSettings(hosts, self.path(f"{file}.crt"), self.path(f"{file}.key"))

    def test_the_certificate_follows_the_name_asked_for(self) -> None:
        for host, shown in (
            ("one.example", "one.example"),
            ("One.EXAMPLE", "one.example"),
            ("one.example.net", "one.example"),
            ("any.two.example", "two.example"),
            ("deep.two.example", "three.example"),
            ("xn--bcher-kva.example", "three.example"),
            ("broker.example", "broker.example"),
            ("two.example", "broker.example"),
            ("too.far.two.example", "broker.example"),
            (None, "broker.example"),
        ):
            for version in ("TLSv1_2", "TLSv1_3"):
                client = self.client(version=version)
                client.check_hostname = False
                link = Link(self.by_name, client, host).pump()
                self.assertEqual(link.shown, shown, host)
                self.assertEqual(link.echo(b"hello"), b"hello")

    def test_the_demands_are_the_same_under_every_name(self) -> None:
        contexts = self.guarded(sni=(self.entry("one.example", "one.example"),))
        client = self.client()
        with self.assertRaises(ssl.SSLError):
            Link(contexts, client, "one.example").pump()
        client.set_alpn_protocols(["mqtt"])
        link = Link(self.by_name, client, "one.example").pump()
        self.assertEqual(link.client.selected_alpn_protocol(), "mqtt")

    def test_a_bad_pair_is_named(self) -> None:
        bad = SniSettings(("x",), self.path("one.example.crt"), self.path("two.example.key"))
        with self.assertRaisesRegex(TlsError, r"two\.example\.key: not the key of .*one\.example"):
            self.contexts(sni=(bad,))


def common_name(connection: SSL.Connection) -> str:
    certificate = TlsContexts.client_certificate(connection)
    return certificate.common_name if certificate is not None else ""


def subject(connection: SSL.Connection) -> str:
    certificate = TlsContexts.client_certificate(connection)
    return certificate.subject if certificate is not None else ""


class Clients(OddCase):
    """What clients' certificates are held to."""

    def test_a_good_certificate_gives_an_identity(self) -> None:
        self.issue(self.devices, "pump-7")
        for version in ("TLSv1_2", "TLSv1_3"):
            link = Link(self.guarded(), self.client("pump-7", version)).pump()
            self.assertEqual(link.echo(b"hello"), b"hello")
            self.assertEqual(common_name(link.handle), "pump-7")
            self.assertEqual(subject(link.handle), "CN=pump-7")

    def test_a_subject_is_written_as_in_rfc_4514(self) -> None:
        name = x509.Name(
            [
                x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Pumps, Ltd"),
                x509.NameAttribute(NameOID.COMMON_NAME, "Größe 7"),
            ]
        )
        self.write_odd(self.devices, "odd", name)
        link = Link(self.guarded(), self.client("odd")).pump()
        self.assertEqual(common_name(link.handle), "Größe 7")
        self.assertEqual(subject(link.handle), "CN=Größe 7,O=Pumps\\, Ltd,C=DE")

    def test_what_says_nothing_certain_gives_no_identity(self) -> None:
        for names in ([], ["one", "two"], ["pump\0admin"]):
            attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names]
            attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Works"))
            self.write_odd(self.devices, "odd", x509.Name(attributes))
            link = Link(self.guarded(), self.client("odd")).pump()
            self.assertEqual(common_name(link.handle), "")

    def test_required_and_missing(self) -> None:
        self.check_refused(self.guarded(), self.client(version="TLSv1_3"), "certificate required")
        self.check_refused(self.guarded(), self.client(version="TLSv1_2"), "handshake failure")

    def test_optional_and_missing(self) -> None:
        link = Link(self.guarded("optional"), self.client()).pump()
        self.assertEqual(link.echo(b"hello"), b"hello")
        self.assertEqual(common_name(link.handle), "")

    def test_not_asked_for(self) -> None:
        self.issue(self.devices, "pump-7")
        link = Link(self.contexts(), self.client("pump-7")).pump()
        self.assertEqual(common_name(link.handle), "")

    def test_another_authority(self) -> None:
        """Also one of the same name."""
        for authority in (self.web, Authority("device authority")):
            self.issue(authority, "fake")
            for how in ("required", "optional"):
                with self.assertRaises(ssl.SSLError):
                    Link(self.guarded(how), self.client("fake")).pump()

    def test_out_of_date(self) -> None:
        self.issue(self.devices, "old", days=-1)
        self.check_refused(self.guarded(), self.client("old"), "certificate expired")

    def test_made_for_servers(self) -> None:
        self.write_odd(self.devices, "odd", "odd", usage=ExtendedKeyUsageOID.SERVER_AUTH)
        self.check_refused(self.guarded(), self.client("odd"), "unsupported certificate")
        self.write_odd(self.devices, "odd", "odd", usage=ExtendedKeyUsageOID.CLIENT_AUTH)
        Link(self.guarded(), self.client("odd")).pump()

    def test_revoked(self) -> None:
        good, bad = self.issue(self.devices, "good"), self.issue(self.devices, "bad")
        lists = self.dir / "lists.pem"
        write_revocations(self.web, lists, good)
        other = lists.read_bytes()
        write_revocations(self.devices, lists, bad)
        lists.write_bytes(other + lists.read_bytes())
        contexts = self.guarded(crl=str(lists))
        Link(contexts, self.client("good")).pump()
        self.check_refused(contexts, self.client("bad"), "certificate revoked")

    def test_an_authority_below_a_root_is_enough(self) -> None:
        middle = self.write_middle(self.devices)
        self.issue(middle, "pump-7")
        self.issue(self.devices, "sister")
        contexts = self.contexts(client_certificate="required", ca=self.path("middle.crt"))
        Link(contexts, self.client("pump-7")).pump()
        self.check_refused(contexts, self.client("sister"), "unknown ca")

    def test_no_session_stands_in_for_a_certificate(self) -> None:
        self.issue(self.devices, "pump-7")
        for version in ("TLSv1_2", "TLSv1_3"):
            contexts, client = self.guarded(), self.client("pump-7", version)
            first = Link(contexts, client).pump()
            again = Link(contexts, client, session=first.client.session).pump()
            self.assertFalse(again.client.session_reused)
            self.assertEqual(common_name(again.handle), "pump-7")


class Reloading(TlsCase):
    def pair_for(self, name: str) -> SniSettings:
        return SniSettings((name,), self.path(f"{name}.crt"), self.path(f"{name}.key"))

    def replace(self) -> None:
        """A new certificate in the place of the old."""
        authority = Authority("web authority")
        authority.write(self.dir / "web.crt")
        self.issue(authority, "broker.example")

    def test_new_connections_get_the_new_certificate_and_old_ones_go_on(self) -> None:
        contexts, client = self.contexts(), self.client()
        link = Link(contexts, client).pump()
        self.replace()
        # Not before the word is given.
        Link(contexts, client).pump()
        contexts.take_from(self.contexts())
        self.assertEqual(link.echo(b"still here"), b"still here")
        Link(contexts, self.client()).pump()
        with self.assertRaises(ssl.SSLCertVerificationError):
            Link(contexts, client).pump()

    def test_in_the_middle_of_a_handshake(self) -> None:
        """A connection ends its handshake with the contexts it began it with."""
        self.issue(self.web, "one.example")
        contexts, client = self.contexts(sni=(self.pair_for("one.example"),)), self.client()
        link = Link(contexts, client, "one.example")
        with self.assertRaises(ssl.SSLWantReadError):
            link.client.do_handshake()
        self.replace()
        contexts.take_from(self.contexts())
        gc.collect()
        link.pump()
        self.assertEqual(link.shown, "one.example")
        self.assertEqual(link.echo(b"hello"), b"hello")

    def test_a_bad_file_leaves_the_old_in_force(self) -> None:
        contexts, client = self.contexts(), self.client()
        key = self.dir / "broker.example.key"
        for content in (b"", b"-----BEGIN PRIVATE KEY-----\n", key.read_bytes()[:100]):
            key.write_bytes(content)
            with self.assertRaisesRegex(TlsError, r"broker\.example\.key"):
                contexts.take_from(self.contexts())
            self.assertEqual(Link(contexts, client).pump().echo(b"hello"), b"hello")

    def test_a_bad_file_of_one_name_leaves_all_as_they_were(self) -> None:
        self.issue(self.web, "one.example")
        contexts, client = self.contexts(sni=(self.pair_for("one.example"),)), self.client()
        self.replace()
        (self.dir / "one.example.crt").unlink()
        with self.assertRaisesRegex(TlsError, r"one\.example\.crt: No such file"):
            contexts.take_from(self.contexts(sni=(self.pair_for("one.example"),)))
        for host in ("broker.example", "one.example"):
            self.assertEqual(Link(contexts, client, host).pump().shown, host)

    def test_new_authorities_and_revocations_count_from_then_on(self) -> None:
        bad = self.issue(self.devices, "bad")
        write_revocations(self.devices, self.dir / "crl.pem")
        contexts = self.guarded(crl=self.path("crl.pem"))
        link = Link(contexts, self.client("bad")).pump()
        write_revocations(self.devices, self.dir / "crl.pem", bad)
        contexts.take_from(self.guarded(crl=self.path("crl.pem")))
        self.check_refused(contexts, self.client("bad"), "certificate revoked")
        self.assertEqual(link.echo(b"live on"), b"live on")

    def test_new_settings(self) -> None:
        contexts = self.contexts()
        contexts.take_from(self.contexts(min_version="1.3"))
        self.check_refused(contexts, self.client(version="TLSv1_2"), "alert protocol version")
        contexts.take_from(self.contexts())
        self.assertEqual(Link(contexts, self.client(version="TLSv1_2")).pump().echo(b"x"), b"x")

    def test_old_contexts_go_with_their_last_connection(self) -> None:
        """Not sooner: the first context may be called back after another was chosen by name."""
        contexts = self.contexts(sni=(self.pair_for("broker.example"),))
        link = Link(contexts, self.client()).pump()
        old = weakref.ref(contexts._current)
        contexts.take_from(self.contexts())
        gc.collect()
        self.assertIsNotNone(old())
        del link
        gc.collect()
        self.assertIsNone(old())


class BadSettings(OddCase):
    def check(self, words: str, **changes: Any) -> None:
        with self.assertRaises(TlsError) as caught:
            self.contexts(**changes)
        self.assertIn(words, str(caught.exception))

    def test_files(self) -> None:
        (self.dir / "text").write_text("no PEM\n")
        text = self.path("text")
        self.check(f"{text}: no certificates in PEM form", certificate=text)
        self.check(f"{text}: no private key in PEM form", key=text)
        self.check(f"{self.dir}: Is a directory", certificate=str(self.dir))
        self.check("absent: No such file", key=self.path("absent"))
        ca = {"client_certificate": "required", "ca": text}
        self.check(f"{text}: no certificates in PEM form", **ca)
        ca["ca"] = self.path("devices.crt")
        self.check(f"{text}: no revocation lists in PEM form", crl=text, **ca)
        self.check("ca: missing", client_certificate="optional")

    def test_keys(self) -> None:
        self.issue(self.web, "locked", passphrase=b"secret")
        changes = {"certificate": self.path("locked.crt"), "key": self.path("locked.key")}
        self.check("locked.key: the key is encrypted", **changes)
        self.issue(self.web, "other")
        self.check("other.key: not the key of", key=self.path("other.key"))
        (self.dir / "x.key").write_bytes(
            x25519.X25519PrivateKey.generate().private_bytes(
                Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
            )
        )
        self.check("x.key: a key of a kind", key=self.path("x.key"))

    def test_a_key_that_openssl_finds_too_weak(self) -> None:
        weak = rsa.generate_private_key(65537, 1024)
        self.write_odd(self.web, "weak", "weak.example", weak)
        changes = {"certificate": self.path("weak.crt"), "key": self.path("weak.key")}
        self.check("weak.crt: OpenSSL says: ee key too small", **changes)

    def test_ciphers(self) -> None:
        self.check("ciphers: OpenSSL says", ciphers="NO-SUCH-CIPHER")
        self.check("ciphersuites: OpenSSL says", ciphersuites=("NO_SUCH_SUITE",))

    def test_hosts(self) -> None:
        pair = self.path("broker.example.crt"), self.path("broker.example.key")
        self.check("is not a host name", sni=(SniSettings(("ü" * 100,), *pair),))
