"""Whether TLS settings can work: the files are there, and fit each other.

What the files hold is checked with the libraries that will use them, so that a listener whose
settings pass here starts.  They are imported only when there is TLS to check.
"""

import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeVar

from mhub.config.kinds import Place
from mhub.config.settings import TlsSettings

if TYPE_CHECKING:
    from cryptography import x509

T = TypeVar("T")

SOON: Final = timedelta(days=14)


def check_tls(tls: TlsSettings, place: Place) -> None:
    """Report what would keep a listener from starting, or from letting anyone in."""
    _check_pair(tls.certificate, tls.key, place)
    names: set[str] = set()
    for index, sni in enumerate(tls.sni):
        entry = place.at("sni").item(index)
        _check_pair(sni.certificate, sni.key, entry)
        for host in sni.hosts:
            if host.lower() in names:
                entry.at("hosts").wrong(f'"{host}" has a certificate already')
            names.add(host.lower())
    if tls.ca:
        _parse(tls.ca, place.at("ca"), "a PEM file with certificates", _certificates)
        warn_if_expiring(tls.ca, place.at("ca"))
    if tls.crl:
        _parse(tls.crl, place.at("crl"), "a PEM file with revoked certificates", _revocations)
    if tls.ciphers:
        _check_ciphers(tls.ciphers, place.at("ciphers"))
    if (
        tls.client_certificate != "none"
        and not tls.ca
        and not place.report.covers(place.at("ca").path)
    ):
        place.at("ca").wrong(f'missing; client_certificate = "{tls.client_certificate}" needs it')
    if tls.client_certificate == "none" and tls.crl:
        place.at("crl").wrong('needs client_certificate = "optional" or "required"')


def read_file(path: str, place: Place) -> bytes | None:
    """The content of a file that the settings name, or None when it cannot be read, or is not to
    be."""
    if not place.report.reads_files:
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        place.wrong(f"cannot read {path}: {error.strerror}")
        return None


def first_in(path: str) -> "x509.Certificate":
    """The first certificate of a file, which was checked."""
    from cryptography import x509

    with open(path, "rb") as file:
        return x509.load_pem_x509_certificates(file.read())[0]


def names_in(certificate: "x509.Certificate") -> list[str]:
    """The DNS names that a certificate is valid for."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return names.get_values_for_type(x509.DNSName)


def can_be_certified(name: str) -> bool:
    """Whether a certificate can be for a name: not for what looks like an address."""
    from service_identity.hazmat import DNS_ID

    try:
        DNS_ID(name)
    except ValueError:
        return False
    return True


def fault_for(certificate: "x509.Certificate", name: str) -> str | None:
    """Why a certificate is not for a name; None if it is.  "": it is just for other names.

    By the rules of those who will be shown it (`misnamed` in `mhub.cluster.tls`).
    """
    from service_identity import CertificateError, VerificationError
    from service_identity.cryptography import verify_certificate_hostname

    try:
        verify_certificate_hostname(certificate, name)
    except VerificationError:
        return ""
    except CertificateError as error:
        return str(error).rstrip(".")
    return None


def _check_pair(certificate: str, key: str, place: Place) -> None:
    # An empty path was reported as missing when the table was read.
    cert = key_ok = None
    if certificate:
        cert = _parse(
            certificate, place.at("certificate"), "a PEM file with certificates", _certificates
        )
    if key:
        key_ok = _parse(
            key, place.at("key"), "a PEM file with a private key without a passphrase", _public_part
        )
        warn_if_open(key, place.at("key"))
    if cert is not None and key_ok is not None:
        if cert != key_ok:
            place.at("key").wrong(f"does not belong to the certificate {certificate}")
        warn_if_expiring(certificate, place.at("certificate"))


def _parse(path: str, place: Place, expected: str, parse: Callable[[bytes], T]) -> T | None:
    data = read_file(path, place)
    if data is None:
        return None
    try:
        return parse(data)
    except (ValueError, TypeError):  # TypeError: the key is encrypted
        place.wrong(f"expected {expected}, found something else in {path}")
        return None


def _certificates(data: bytes) -> bytes:
    """The public key of the first certificate."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    first = x509.load_pem_x509_certificates(data)[0]
    return first.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _public_part(data: bytes) -> bytes:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_pem_private_key,
    )

    public = load_pem_private_key(data, None).public_key()
    return public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _revocations(data: bytes) -> bool:
    from cryptography import x509

    x509.load_pem_x509_crl(data)
    return True


def _check_ciphers(ciphers: str, place: Place) -> None:
    from OpenSSL import SSL

    try:
        SSL.Context(SSL.TLS_METHOD).set_cipher_list(ciphers.encode())
    except (SSL.Error, UnicodeEncodeError):
        place.wrong(f'expected a list of ciphers that OpenSSL knows, found "{ciphers}"')


def expiry(path: str, now: datetime) -> str:
    """That a certificate in a file has expired, or will soon; "" if none has, or it has none.

    Soon is two weeks, but for those that do not last long the last third of their time.
    """
    from cryptography import x509

    try:
        with open(path, "rb") as file:
            found = x509.load_pem_x509_certificates(file.read())
    except (OSError, ValueError):
        return ""  # which others report
    first = min(found, key=lambda each: each.not_valid_after_utc)
    ends = first.not_valid_after_utc
    if ends < now:
        return f"{path} expired on {ends:%Y-%m-%d}"
    if ends - now < min(SOON, (ends - first.not_valid_before_utc) / 3):
        days = (ends - now).days
        left = f"in {days} day{'' if days == 1 else 's'}" if days else "within a day"
        return f"{path} expires on {ends:%Y-%m-%d}, {left}"
    return ""


def warn_if_expiring(path: str, place: Place) -> None:
    text = expiry(path, datetime.now(UTC))
    if text:
        place.report.warn(place.path, text)


def warn_if_open(path: str, place: Place) -> None:
    """Warn about a file whose secret everybody here could know."""
    try:
        mode = os.stat(path).st_mode if place.report.reads_files else 0
    except OSError:
        return
    if mode & stat.S_IROTH:
        place.report.warn(place.path, f"everybody on this machine can read {path}; chmod 600 it")
