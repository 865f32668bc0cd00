"""TLS for links: both sides show a certificate of the cluster's authority, issued to their node.

The handshake checks that the authority issued them.  That the name in a certificate is that of the
node which shows it is checked at the login, when the node has said its name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL, crypto
from service_identity import CertificateError, VerificationError
from service_identity.pyopenssl import verify_hostname
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IOpenSSLServerConnectionCreator,
)
from zope.interface import implementer  # type: ignore[import-untyped]

from mhub.config.certificates import fault_for

_CIPHERS: Final = b"ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2; those of 1.3 are all good
_FAULTS: Final = {
    9: "is not valid yet",
    10: "has expired",
    18: "is signed by itself, not by the authority",
    19: "is not from the authority",
    20: "is not from the authority",
    21: "is not from the authority",
    26: "is not meant for both sides of a connection: see its extended key usage",
}
"""OpenSSL's most common verdicts (X509_V_ERR_*), which pyOpenSSL gives as numbers only."""
_HINTS: Final = {
    "wrong version number": "the other side does not speak TLS",
    "peer did not return a certificate": "the other side shows no certificate",
    "alert certificate required": "the other side wants a certificate",
    "alert bad certificate": "the other side does not accept our certificate",
    "alert unknown ca": "the other side knows no authority of our certificate",
    "alert certificate expired": "the other side finds our certificate expired",
    "alert unsupported certificate": "the other side finds our certificate not meant for this",
}
T = TypeVar("T")
_verdicts: Final[WeakKeyDictionary[SSL.Connection, str]] = WeakKeyDictionary()
"""What is wrong with the certificate that was shown: the error that follows does not say it."""


@dataclass(frozen=True)
class TlsFiles:
    """Paths of PEM files."""

    certificate: str
    key: str
    ca: str


class TlsError(ValueError):
    """A file that TLS cannot use; the text names it and says why."""


@implementer(IOpenSSLClientConnectionCreator, IOpenSSLServerConnectionCreator)
class LinkTls:
    """The context of all links that begin, for both sides of them; a link keeps the one it has."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._context = _context(files)

    def read(self, node: str, files: TlsFiles | None = None) -> Callable[[], None]:
        """Read all files, the same ones if none are named; what puts them in force, for the links
        to come.  Raises TlsError."""
        if files is None:
            files = self._files
        context = _context(files)
        # Before the start the configuration is checked for this.
        fault = fault_for(_read(files.certificate, x509.load_pem_x509_certificates)[0], node)
        if fault is not None:
            why = f": {fault}" if fault else ""
            raise TlsError(f"{files.certificate}: is not for a node named {node!r}{why}")
        return partial(self._take, files, context)

    def _take(self, files: TlsFiles, context: SSL.Context) -> None:
        self._files = files
        self._context = context

    def clientConnectionForTLS(self, tlsProtocol: object) -> SSL.Connection:
        return SSL.Connection(self._context, None)

    serverConnectionForTLS = clientConnectionForTLS


def _context(files: TlsFiles) -> SSL.Context:
    context = SSL.Context(SSL.TLS_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    # A session that is resumed is not verified again.
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_options(SSL.OP_NO_TICKET | SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION)
    context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, _verified)
    _load(context, files)
    # The last of them: pyOpenSSL makes a connection for it, and warns of changes after that.
    context.set_cipher_list(_CIPHERS)
    return context


def _load(context: SSL.Context, files: TlsFiles) -> None:
    chain = _read(files.certificate, x509.load_pem_x509_certificates)
    key: Any = _read(files.key, lambda data: load_pem_private_key(data, None))
    try:
        context.use_certificate(chain[0])
        for issuer in chain[1:]:
            context.add_extra_chain_cert(issuer)
        context.use_privatekey(key)
    except SSL.Error as error:
        raise TlsError(f"{files.key}: {_complaint(error)}") from None
    store = context.get_cert_store()
    if store is None:
        raise TlsError("OpenSSL gives no store for certificates")
    for authority in _read(files.ca, x509.load_pem_x509_certificates):
        store.add_cert(crypto.X509.from_cryptography(authority))
        context.add_client_ca(authority)
    # What stands in the file is trusted as it is, be it a root or an authority below one.
    store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)


def _verified(
    connection: SSL.Connection, certificate: crypto.X509, fault: int, depth: int, good: int
) -> bool:
    if not good:
        name = certificate.get_subject().CN
        what = _FAULTS.get(fault, f"is refused by OpenSSL, error {fault}")
        _verdicts[connection] = f"the certificate of {name!r} {what}"
    return bool(good)


def misnamed(connection: SSL.Connection, name: str) -> str:
    """Why the certificate that the other side showed is not that of the node; "" if it is."""
    try:
        verify_hostname(connection, name)
    except VerificationError:
        return f"the certificate is not for a node named {name!r}"
    except (CertificateError, ValueError) as error:
        return f"the certificate cannot be checked for a node named {name!r}: {error}"
    return ""


def explain(error: SSL.Error, connection: SSL.Connection) -> str:
    """Why a connection failed, for the log."""
    if connection in _verdicts:
        return f"TLS: {_verdicts[connection]}"
    complaint = _complaint(error)
    for words, hint in _HINTS.items():
        if words in complaint:
            return f"TLS: {hint} ({complaint})"
    return f"TLS: {complaint}"


def _complaint(error: SSL.Error) -> str:
    """The last of OpenSSL's complaints, without its library and function names."""
    stack = error.args[0] if error.args else None
    return str(stack[-1][-1]) if isinstance(stack, list) and stack else str(error)


def _read(path: str, parse: Callable[[bytes], T]) -> T:
    try:
        with open(path, "rb") as file:
            return parse(file.read())
    except OSError as error:
        raise TlsError(f"{path}: {error.strerror}") from None
    except (ValueError, TypeError) as error:  # TypeError: the key is encrypted
        raise TlsError(f"{path}: {error}") from None
