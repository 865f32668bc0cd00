"""Links over TLS: who is let in by which certificate, and that both logs say why not."""

import tempfile
from pathlib import Path
from typing import Any

from OpenSSL import SSL
from twisted.internet.endpoints import TCP4ClientEndpoint, connectProtocol, wrapClientTLS
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.internet.ssl import CertificateOptions
from twisted.internet.task import deferLater
from zope.interface import implementer

from mhub.cluster.link import PART
from mhub.cluster.tls import LinkTls, TlsError, TlsFiles
from tests.cluster.ends import FakeEnds, LinkCase, Raw, loop
from tests.helpers.certificates import Authority


class TlsCase(LinkCase):
    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)
        self.authority = Authority("cluster authority")
        self.authority.write(self.dir / "ca.crt")

    def files(
        self, name: str, authority: Authority | None = None, ca: str = "ca.crt", **how: Any
    ) -> TlsFiles:
        certificate, key = self.dir / f"{name}.crt", self.dir / f"{name}.key"
        (authority or self.authority).issue(name, certificate, key, **how)
        return TlsFiles(str(certificate), str(key), str(self.dir / ca))

    def serving(self) -> str:
        return self.listening(self.a, tls=self.files("node-a"))[1]

    async def logged_by_both(self, address: str, listener: str, dialler: str) -> None:
        """The log of the dialler is about `address`, that of the listener about somebody else."""
        here: list[str] = []
        there: list[str] = []
        while not here or not there:
            await deferLater(loop, 0.001)
            here = self.lines("no link with", address, dialler)
            there = [line for line in self.lines("no link with", listener) if address not in line]
        self.assertEqual((len(here), len(there)), (1, 1), self.logged)
        self.assertNotIn("opened", self.a.events + self.b.events)


class WelcomeTests(TlsCase):
    async def test_certificates_of_the_cluster(self) -> None:
        """One word is a name, as good as one with dots; and frames pass as without TLS."""
        self.a.name = "node-a.cluster.example"
        _, address = self.listening(self.a, tls=self.files(self.a.name))
        self.links(self.b, tls=self.files("node-b")).dial(address)
        at_a, at_b = await self.a.next("opened"), await self.b.next("opened")
        at_a.send(1, bytes(3 * PART + 1))
        at_b.send(2, b"x")
        self.assertEqual(await self.b.next("received"), (1, bytes(3 * PART + 1)))
        self.assertEqual(await self.a.next("received"), (2, b"x"))

    async def test_without_a_secret(self) -> None:
        _, address = self.listening(self.a, tls=self.files("node-a"), secret=b"")
        self.links(self.b, tls=self.files("node-b"), secret=b"").dial(address)
        await self.b.next("opened")

    async def test_a_secret_counts_nevertheless(self) -> None:
        address = self.serving()
        self.links(self.b, tls=self.files("node-b"), secret=b"another").dial(address)
        _, text = await self.b.next("dial_failed")
        self.assertIn("the shared secrets differ", text)

    async def test_close_is_heard(self) -> None:
        address = self.serving()
        self.links(self.b, tls=self.files("node-b")).dial(address)
        at_a, at_b = await self.a.next("opened"), await self.b.next("opened")
        at_a.send(1, bytes(5 * PART))
        at_a.close("there is a better link")
        _, text = await self.b.next("lost")
        self.assertIn("there is a better link", text)
        self.assertEqual(self.b.events, ["opened", "received", "lost"])
        await at_a.gone
        await at_b.gone

    async def test_not_in_clear(self) -> None:
        """What passes is TLS 1.2 or later."""
        address = self.serving()
        self.links(self.b, tls=self.files("node-b")).dial(address)
        at_b = await self.b.next("opened")
        version = at_b._broker.transport.getHandle().get_protocol_version_name()
        self.assertIn(version, ("TLSv1.2", "TLSv1.3"))


class NameTests(TlsCase):
    """A certificate is for one node: that its authority is right is not enough."""

    async def test_the_dialler_is_somebody_else(self) -> None:
        address = self.serving()
        self.links(self.b, tls=self.files("node-c")).dial(address)
        _, text = await self.b.next("dial_failed")
        words = "the certificate is not for a node named 'node-b'"
        self.assertIn(words, text)
        await self.logged_by_both(address, words, words)
        await self.still_serves(address, tls=self.files("node-late"))

    async def test_the_listener_is_somebody_else(self) -> None:
        _, address = self.listening(self.a, tls=self.files("node-c"))
        self.links(self.b, tls=self.files("node-b")).dial(address)
        _, text = await self.b.next("dial_failed")
        words = "the certificate is not for a node named 'node-a'"
        self.assertEqual(text, words)
        await self.logged_by_both(address, words, words)

    async def test_names_that_no_certificate_can_have(self) -> None:
        """A number could be an address, and other letters are in no host name."""
        address = self.serving()
        for name in ("7", "", "node b", "a" * 70):
            odd = FakeEnds(name)
            self.links(odd, tls=self.files("node-b")).dial(address)
            _, text = await odd.next("dial_failed")
            self.assertIn("the certificate", text)

    async def test_a_wildcard_of_all_is_none(self) -> None:
        address = self.serving()
        self.links(self.b, tls=self.files("*")).dial(address)
        _, text = await self.b.next("dial_failed")
        self.assertIn("the certificate", text)


@implementer(IOpenSSLClientConnectionCreator)
class OldTls:
    def clientConnectionForTLS(self, tlsProtocol: object) -> SSL.Connection:
        context = SSL.Context(SSL.TLS_METHOD)
        context.set_max_proto_version(SSL.TLS1_1_VERSION)
        context.set_cipher_list(b"ALL:@SECLEVEL=0")
        return SSL.Connection(context, None)


class HandshakeTests(TlsCase):
    async def check(self, address: str, tls: TlsFiles | None, listener: str, dialler: str) -> None:
        self.links(self.b, tls=tls).dial(address)
        _, text = await self.b.next("dial_failed")
        self.assertIn(dialler, text)
        await self.logged_by_both(address, listener, dialler)
        self.assertEqual(self.flushLoggedErrors(), [])

    async def test_the_dialler_is_of_another_authority(self) -> None:
        address = self.serving()
        files = self.files("node-b", Authority("another"))
        await self.check(
            address,
            files,
            "the certificate of 'node-b' is not from the authority",
            "the other side knows no authority of our certificate",
        )
        await self.still_serves(address, tls=self.files("node-late"))

    async def test_the_listener_is_of_another_authority(self) -> None:
        _, address = self.listening(self.a, tls=self.files("node-a", Authority("another")))
        await self.check(
            address,
            self.files("node-b"),
            "the other side knows no authority of our certificate",
            "the certificate of 'node-a' is not from the authority",
        )

    async def test_an_expired_certificate(self) -> None:
        await self.check(
            self.serving(),
            self.files("node-b", days=-1),
            "the certificate of 'node-b' has expired",
            "the other side finds our certificate expired",
        )

    async def stranger(self, creator: Any, words: str) -> None:
        """Somebody who speaks TLS as no node does is refused, and the log says why."""
        address = self.serving()
        host, _, port = address.rpartition(":")
        endpoint = wrapClientTLS(creator, TCP4ClientEndpoint(loop, host, int(port)))
        raw = await connectProtocol(endpoint, Raw())
        await raw.ended
        while not self.lines("no link with", words):
            await deferLater(loop, 0.001)
        self.assertEqual(self.a.events, [])
        await self.still_serves(address, tls=self.files("node-late"))

    async def test_no_certificate(self) -> None:
        await self.stranger(CertificateOptions(), "the other side shows no certificate")

    async def test_an_old_version_of_tls(self) -> None:
        await self.stranger(OldTls(), "TLS: unsupported protocol")

    async def test_a_dialler_without_tls(self) -> None:
        """Banana begins with the listener, TLS with the dialler: here both would wait."""
        _, address = self.listening(self.a, tls=self.files("node-a"), login_timeout_s=0.1)
        self.links(self.b, login_timeout_s=0.1).dial(address)
        _, text = await self.b.next("dial_failed")
        while len(self.lines("no link with")) < 2:
            await deferLater(loop, 0.001)
        self.assertIn("TLS", text)
        self.assertEqual(self.a.events, [])

    async def test_a_listener_without_tls(self) -> None:
        _, address = self.listening(self.a)
        await self.check(
            address,
            self.files("node-b"),
            "speaks TLS",
            "the other side does not speak TLS",
        )


class ReloadTests(TlsCase):
    """New certificates are for new links; those that are there stay."""

    def shown(self, link: Any) -> int:
        """The number of the certificate that the other side shows on a link."""
        certificate = link._broker.transport.getHandle().get_peer_certificate()
        return int(certificate.get_serial_number())

    async def test_another_certificate(self) -> None:
        links, address = self.listening(self.a, tls=self.files("node-a"))
        self.links(self.b, tls=self.files("node-b")).dial(address)
        at_a, at_b = await self.a.next("opened"), await self.b.next("opened")
        first = self.shown(at_b)
        self.files("node-a")
        links.tls.read("node-a")()
        late = FakeEnds("node-late")
        self.links(late, tls=self.files("node-late")).dial(address)
        self.assertNotEqual(self.shown(await late.next("opened")), first)
        at_a.send(1, b"still here")
        self.assertEqual(await self.b.next("received"), (1, b"still here"))

    async def test_another_authority(self) -> None:
        """First both are trusted, then new certificates are shown, then only one is trusted."""
        new = Authority("new authority")
        new.write(self.dir / "new.crt")
        old_ca, new_ca = ((self.dir / name).read_bytes() for name in ("ca.crt", "new.crt"))
        listener, address = self.listening(self.a, tls=self.files("node-a"))
        dialler = self.links(self.b, tls=self.files("node-b"))
        dialler.dial(address)
        oldest = await self.b.next("opened")
        for file in ("ca.crt", "both.crt"):
            (self.dir / file).write_bytes(old_ca + new_ca)
        for links, name in ((listener, "node-a"), (dialler, "node-b")):
            links.tls.read(name)()
        for links, name in ((listener, "node-a"), (dialler, "node-b")):
            self.files(name, new)
            links.tls.read(name)()
            dialler.dial(address)
            await self.b.next("opened")
        (self.dir / "ca.crt").write_bytes(new_ca)
        listener.tls.read("node-a")()
        dialler.dial(address)
        await self.b.next("opened")
        left = FakeEnds("node-left")
        self.links(left, tls=self.files("node-left", ca="both.crt")).dial(address)
        _, text = await left.next("dial_failed")
        self.assertIn("the other side knows no authority of our certificate", text)
        oldest.send(1, b"still here")
        self.assertEqual(await self.a.next("received"), (1, b"still here"))

    async def test_what_is_wrong_changes_nothing(self) -> None:
        files = self.files("node-a")
        links, address = self.listening(self.a, tls=files)
        good = {path: Path(path).read_bytes() for path in (files.certificate, files.key, files.ca)}
        other = self.files("node-c")
        wrong = {
            files.certificate: (b"half of it", Path(other.certificate).read_bytes()),
            files.key: (b"", Path(other.key).read_bytes()),
            files.ca: (b"nothing",),
        }
        for path, contents in wrong.items():
            for content in contents:
                Path(path).write_bytes(content)
                self.assertRaises(TlsError, links.tls.read, "node-a")
                Path(path).write_bytes(good[path])
        await self.still_serves(address, tls=self.files("node-late"))

    def test_a_certificate_for_another_node(self) -> None:
        files = self.files("node-a")
        tls = LinkTls(files)
        Authority("cluster authority").issue("c", Path(files.certificate), Path(files.key))
        with self.assertRaises(TlsError) as caught:
            tls.read("node-a")()
        self.assertEqual(
            str(caught.exception), f"{files.certificate}: is not for a node named 'node-a'"
        )


class FileTests(TlsCase):
    def refused(self, files: TlsFiles, path: str) -> None:
        with self.assertRaises(TlsError) as caught:
            LinkTls(files)
        self.assertIn(path, str(caught.exception))

    def test_files_that_are_not_there(self) -> None:
        good = self.files("node-a")
        self.refused(TlsFiles("none.crt", good.key, good.ca), "none.crt")
        self.refused(TlsFiles(good.certificate, "none.key", good.ca), "none.key")
        self.refused(TlsFiles(good.certificate, good.key, "none.ca"), "none.ca")

    def test_files_that_are_something_else(self) -> None:
        good = self.files("node-a")
        self.refused(TlsFiles(good.key, good.key, good.ca), good.key)
        self.refused(TlsFiles(good.certificate, good.ca, good.ca), good.ca)
        self.refused(TlsFiles(good.certificate, good.key, good.key), good.key)

    def test_a_key_of_another_certificate(self) -> None:
        good, other = self.files("node-a"), self.files("node-b")
        self.refused(TlsFiles(good.certificate, other.key, good.ca), other.key)

    def test_a_key_with_a_passphrase(self) -> None:
        locked = self.files("node-a", passphrase=b"x")
        self.refused(locked, locked.key)
