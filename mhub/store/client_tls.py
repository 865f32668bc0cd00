"""TLS to a server that the broker connects to: whom it trusts, and what it shows."""

import re
from typing import Any, Final

from OpenSSL import crypto
from twisted.internet.ssl import (
    Certificate,
    KeyPair,
    PrivateCertificate,
    optionsForClientTLS,
    platformTrust,
    trustRootFromCertificates,
)

_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def client_tls(host: str, ca: str = "", certificate: str = "", key: str = "") -> Any:
    """For wrapClientTLS() and Agent: all are files.  Raises OSError, ValueError, SSL.Error.

    The server's certificate has to be for `host`, and from one of `ca`, or the system's.
    """
    trusted = platformTrust()
    if ca:
        trusted = trustRootFromCertificates(_certificates(ca))
    if not certificate:
        return optionsForClientTLS(host, trusted)
    first, *chain = _certificates(certificate)
    pair = KeyPair.load(_read(key or certificate), crypto.FILETYPE_PEM)
    own = PrivateCertificate.fromCertificateAndKeyPair(first, pair)
    others = {"extraCertChain": [each.original for each in chain]}
    return optionsForClientTLS(host, trusted, own, extraCertificateOptions=others)


def _certificates(path: str) -> list[Certificate]:
    found = _PEM.findall(_read(path))
    if not found:
        raise ValueError(f"there is no certificate in {path}")
    return [Certificate.loadPEM(each) for each in found]


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
