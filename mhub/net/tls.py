"""TLS for listeners: the certificates in force, chosen by server name, and replaced while in use.

`TlsContexts` hands Twisted's TLS one OpenSSL connection for each client.  All contexts made from
one reading of the files form a set.  A reload makes a whole new set, in other TlsContexts, before
`take_from` puts it in the place of the old one, so a file that is broken or half written leaves
everything as it was; a connection keeps the set it began with.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID
from OpenSSL import SSL, crypto
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from zope.interface import implementer  # type: ignore[import-untyped]

from mhub.config import TlsSettings
from mhub.core.principal import Certificate

FORWARD_SECRET: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""The default for TLS 1.2: a key stolen tomorrow does not open what was recorded today."""

_VERSIONS: Final = {"1.2": SSL.TLS1_2_VERSION, "1.3": SSL.TLS1_3_VERSION}
_VERIFY: Final = {
    "none": SSL.VERIFY_NONE,
    "optional": SSL.VERIFY_PEER,
    "required": SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT,
}
_NO_AUTO_CHAIN: Final = 0x8  # pyOpenSSL has no name for it
_CRL: Final = re.compile(rb"-----BEGIN X509 CRL-----.+?-----END X509 CRL-----", re.DOTALL)

_ALTERNATIVES: Final[tuple[tuple[str, Any], ...]] = (
    ("dns", x509.DNSName),
    ("uri", x509.UniformResourceIdentifier),
    ("email", x509.RFC822Name),
)

_SigningKey = (
    ec.EllipticCurvePrivateKey
    | rsa.RSAPrivateKey
    | ed25519.Ed25519PrivateKey
    | ed448.Ed448PrivateKey
)
T = TypeVar("T")


class TlsError(ValueError):
    """A file or a setting that TLS cannot use; the text names it and says why."""


@implementer(IOpenSSLServerConnectionCreator)
class TlsContexts:
    """What one listener shows its clients, and asks of them.

    `alpn` are the protocols a client may name in its hello; one that names none of them, or does
    not speak ALPN, is let in all the same.
    """

    def __init__(self, settings: TlsSettings, alpn: Sequence[str] = ("mqtt",)) -> None:
        self._alpn = [name.encode("ascii") for name in alpn]
        self._current = _ContextSet(settings, self._alpn)

    def take_from(self, other: "TlsContexts") -> None:
        """What another one has read, for the connections to come."""
        self._current = other._current

    @property
    def expires_at(self) -> float:
        """When the first of the certificates expires, in seconds of the Unix epoch."""
        return self._current.expires_at

    def serverConnectionForTLS(self, tlsProtocol: object) -> SSL.Connection:
        return SSL.Connection(self._current.default, None)

    @staticmethod
    def client_certificate(connection: SSL.Connection) -> Certificate | None:
        """The client's verified certificate, if it has one.

        One with two common names has none here: whoever checks it elsewhere may have looked at the
        other one.
        """
        try:
            found = connection.get_peer_certificate(as_cryptography=True)
            if found is None:
                return None
            subject = found.subject.rfc4514_string()
            names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            common_name = str(names[0].value) if len(names) == 1 else ""
            fingerprint = found.fingerprint(hashes.SHA256()).hex()
            expires_at = found.not_valid_after_utc.timestamp()
            alternatives = _alternative_names(found)
        except ValueError:
            # OpenSSL reads certificates that the stricter parser does not.
            return None
        # What cannot be a User Name of MQTT cannot be a user here.
        common_name, subject = ("" if "\0" in text else text for text in (common_name, subject))
        return Certificate(common_name, subject, fingerprint, expires_at, alternatives)


class _ContextSet:
    """All contexts of one reading of the files."""

    def __init__(self, settings: TlsSettings, alpn: list[bytes]) -> None:
        recipe = _Recipe(settings, alpn)
        self.default = recipe.make(settings.certificate, settings.key)
        self._exact: dict[str, SSL.Context] = {}
        self._below: dict[str, SSL.Context] = {}
        for entry in settings.sni:
            context = recipe.make(entry.certificate, entry.key)
            # OpenSSL may call back into the default context although this one was chosen, and the
            # connection holds on to the chosen one only: so that one holds on to the whole set.
            context.set_app_data(self)
            for host in entry.hosts:
                name = _canonical(host)
                if name.startswith("*."):
                    self._below[name[2:]] = context
                else:
                    self._exact[name] = context
        self.expires_at = recipe.expires_at
        if settings.sni:
            self.default.set_tlsext_servername_callback(self._choose)

    def _choose(self, connection: SSL.Connection) -> None:
        """Take the certificate for the name the client asked for; the default if there is none."""
        asked = connection.get_servername()
        if asked is None:
            return
        name = asked.decode("ascii", "replace").lower().rstrip(".")
        # A wildcard stands for one level of names, as in certificates.
        context = self._exact.get(name) or self._below.get(name.partition(".")[2])
        if context is not None:
            connection.set_context(context)


def _alternative_names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    names = [
        f"{kind}:{name}"
        for kind, cls in _ALTERNATIVES
        for name in found.get_values_for_type(cls)
        if "\0" not in name
    ]
    return tuple(names)


def _canonical(host: str) -> str:
    """As it stands in a client's hello: small letters, and other scripts in their ASCII form."""
    star, name = ("*.", host[2:]) if host.startswith("*.") else ("", host)
    if not name.isascii():
        try:
            name = name.encode("idna").decode("ascii")
        except UnicodeError:
            raise TlsError(f"sni.hosts: {host!r} is not a host name") from None
    return star + name.lower().rstrip(".")


class _Recipe:
    """How to make a context: all but the certificate, which is the same for the whole set."""

    def __init__(self, settings: TlsSettings, alpn: list[bytes]) -> None:
        self._settings = settings
        self._alpn = alpn
        self._known: list[x509.Certificate] = []  # what may be needed to complete a chain
        self._authorities: list[x509.Certificate] = []
        self._revoked: list[x509.CertificateRevocationList] = []
        self.expires_at = math.inf  # of what was made so far
        if settings.ca:
            self._known = _read(settings.ca, "certificates", x509.load_pem_x509_certificates)
        if settings.client_certificate != "none":
            if not settings.ca:
                raise TlsError(
                    f"ca: missing, client certificates are {settings.client_certificate}"
                )
            self._authorities = self._known
            if settings.crl:
                self._revoked = _read(settings.crl, "revocation lists", _revocations)

    def make(self, certificate: str, key: str) -> SSL.Context:
        context = SSL.Context(SSL.TLS_SERVER_METHOD)
        self._set_protocol(context)
        self._set_verification(context)
        chain = _read(certificate, "certificates", x509.load_pem_x509_certificates)
        self.expires_at = min(self.expires_at, chain[0].not_valid_after_utc.timestamp())
        private = _read_key(key)
        if _public(private.public_key()) != _public(chain[0].public_key()):
            raise TlsError(f"{key}: not the key of the first certificate in {certificate}")
        try:
            context.use_certificate(chain[0])
            for issuer in chain[1:] + _issuers(chain[-1], self._known):
                context.add_extra_chain_cert(issuer)
            context.use_privatekey(private)
        except SSL.Error as error:
            raise TlsError(f"{certificate}: OpenSSL says: {_reason(error)}") from None
        return context

    def _set_protocol(self, context: SSL.Context) -> None:
        settings = self._settings
        context.set_min_proto_version(_VERSIONS[settings.min_version])
        context.set_options(
            SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_CIPHER_SERVER_PREFERENCE
        )
        # An idle connection gives its buffers back: 26 KiB of memory each instead of 58.
        # And what is shown of a chain is for make() to say, not for what clients are checked by.
        context.set_mode(SSL.MODE_RELEASE_BUFFERS | _NO_AUTO_CHAIN)
        try:
            context.set_cipher_list((settings.ciphers or FORWARD_SECRET).encode())
        except SSL.Error as error:
            raise TlsError(f"ciphers: OpenSSL says: {_reason(error)}") from None
        if settings.ciphersuites:
            suites = ":".join(settings.ciphersuites)
            try:
                context.set_tls13_ciphersuites(suites.encode())
            except SSL.Error as error:
                raise TlsError(f"ciphersuites: OpenSSL says: {_reason(error)}") from None
        if self._alpn:
            context.set_alpn_select_callback(self._select)

    def _select(self, connection: SSL.Connection, offered: list[bytes]) -> Any:
        for name in self._alpn:
            if name in offered:
                return name
        return SSL.NO_OVERLAPPING_PROTOCOLS

    def _set_verification(self, context: SSL.Context) -> None:
        # Sessions live in tickets that the clients keep: no memory here, however many come back.
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
        context.set_verify(_VERIFY[self._settings.client_certificate])
        if not self._authorities:
            return
        # A resumed session is not verified again.  Where certificates count, each connection
        # shows its own, and one that was revoked or ran out stays outside.
        context.set_options(SSL.OP_NO_TICKET)
        store = context.get_cert_store()
        if store is None:
            raise TlsError("OpenSSL gives no store for certificates")
        # What stands in the file is trusted as it is, be it a root or an authority below one.
        flags = crypto.X509StoreFlags.PARTIAL_CHAIN
        for authority in self._authorities:
            store.add_cert(crypto.X509.from_cryptography(authority))
            context.add_client_ca(authority)
        for revoked in self._revoked:
            store.add_crl(revoked)
            flags |= crypto.X509StoreFlags.CRL_CHECK
        store.set_flags(flags)


def _read(path: str, what: str, parse: Callable[[bytes], list[T]]) -> list[T]:
    try:
        found = parse(_content(path))
    except ValueError as error:
        raise TlsError(f"{path}: no {what} in PEM form, {error}") from None
    if not found:
        raise TlsError(f"{path}: no {what} in PEM form")
    return found


def _issuers(
    certificate: x509.Certificate, known: list[x509.Certificate]
) -> list[x509.Certificate]:
    """The authorities above a certificate, as far as they are known, without the root.

    Clients have the root, or they do not believe it.
    """
    found: list[x509.Certificate] = []
    while len(found) <= len(known):  # two that have signed each other are no chain
        above = next((each for each in known if _has_issued(each, certificate)), None)
        if above is None or above.subject == above.issuer:
            break
        found.append(above)
        certificate = above
    return found


def _has_issued(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    if certificate.issuer != authority.subject or certificate == authority:
        return False
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):  # another one of that name, or a strange key
        return False
    return True


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise TlsError(f"{path}: {error.strerror}") from None


def _revocations(data: bytes) -> list[x509.CertificateRevocationList]:
    return [x509.load_pem_x509_crl(block) for block in _CRL.findall(data)]


def _read_key(path: str) -> _SigningKey:
    data = _content(path)
    try:
        key = load_pem_private_key(data, None)
    except TypeError:
        raise TlsError(
            f"{path}: the key is encrypted and nobody is there to type its passphrase; "
            f"write it without one: openssl pkey -in {path} -out FILE"
        ) from None
    except ValueError as error:
        raise TlsError(f"{path}: no private key in PEM form, {error}") from None
    if not isinstance(key, _SigningKey):
        raise TlsError(f"{path}: a key of a kind that TLS servers do not use")
    return key


def _public(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _reason(error: SSL.Error) -> str:
    """The last of OpenSSL's complaints, without its library and function names."""
    stack = error.args[0] if error.args else None
    return str(stack[-1][-1]) if isinstance(stack, list) and stack else str(error)
