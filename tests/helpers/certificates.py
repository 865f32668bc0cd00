"""Certificates for tests, made on the spot."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Authority:
    """An authority, and what it issues."""

    def __init__(self, name: str, above: "Authority | None" = None) -> None:
        self.name = name
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = (above or self)._sign(name, self.key, 30, ca=True)

    def write(self, path: Path) -> None:
        path.write_bytes(self.certificate.public_bytes(Encoding.PEM))

    def issue(
        self, name: str, certificate: Path, key: Path, *, days: int = 30, passphrase: bytes = b""
    ) -> x509.Certificate:
        """Write a certificate for a host or a client, and its key."""
        private = ec.generate_private_key(ec.SECP256R1())
        signed = self._sign(name, private, days, ca=False)
        certificate.write_bytes(signed.public_bytes(Encoding.PEM))
        protection: KeySerializationEncryption = NoEncryption()
        if passphrase:
            protection = BestAvailableEncryption(passphrase)
        key.touch(0o600)
        key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection))
        return signed

    def _sign(
        self, name: str, key: ec.EllipticCurvePrivateKey, days: int, *, ca: bool
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(_name(self.name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=60))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .sign(self.key, hashes.SHA256())
        )


def write_revocations(authority: Authority, path: Path, *revoked: x509.Certificate) -> None:
    """Write a list of revoked certificates, which may be empty."""
    now = datetime.now(UTC)
    builder = x509.CertificateRevocationListBuilder().issuer_name(_name(authority.name))
    builder = builder.last_update(now).next_update(now + timedelta(days=30))
    for certificate in revoked:
        entry = x509.RevokedCertificateBuilder().serial_number(certificate.serial_number)
        builder = builder.add_revoked_certificate(entry.revocation_date(now).build())
    path.write_bytes(builder.sign(authority.key, hashes.SHA256()).public_bytes(Encoding.PEM))
