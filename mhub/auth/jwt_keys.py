"""Keys that check tokens, each with the algorithms that it is for, which a token cannot change.

    secret                     HS256, HS384, HS512, as far as it is long enough
    RSA                        RS256 ... RS512, PS256 ... PS512
    EC P-256, P-384, P-521     ES256, ES384, ES512
    Ed25519, Ed448             EdDSA

A token names an algorithm, and must not be believed: `none` would need no key, and HS256 with what
is an RSA key here would be signed with a public text.  So the key decides, and what a token names
has to be among its algorithms.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt import PyJWK
from jwt.exceptions import PyJWTError

HMAC: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
"""With the least length of a secret, that of the hash (RFC 7518, section 3.2).  Shorter ones can be
guessed offline, by anybody who has one token."""

RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
CURVES: Final = {"secp256r1": ("ES256",), "secp384r1": ("ES384",), "secp521r1": ("ES512",)}
EDWARDS: Final = ("EdDSA",)
ALGORITHMS: Final = (*HMAC, *RSA, "ES256", "ES384", "ES512", *EDWARDS)

MIN_SECRET: Final = HMAC["HS256"]
MIN_RSA_BITS: Final = 2048
MAX_KEYS: Final = 100


class BadKey(ValueError):
    """Not a key that can be used; the text says why and does not quote it."""


class Key:
    def __init__(self, key: Any, algorithms: Sequence[str], kid: str = "") -> None:
        self.key = key
        self.algorithms = tuple(algorithms)
        self.kid = kid  # "": any


def secret_key(secret: bytes) -> Key:
    if len(secret) < MIN_SECRET:
        raise BadKey(f"a secret of {len(secret)} bytes; expected {MIN_SECRET} or more")
    return Key(secret, [name for name, least in HMAC.items() if len(secret) >= least])


def pem_key(data: bytes) -> Key:
    """A public key, or the one of a certificate."""
    if b"PRIVATE KEY-----" in data:
        raise BadKey("a private key; the broker needs the public one, and nobody else this one")
    try:
        if b"-----BEGIN CERTIFICATE-----" in data:
            key: Any = x509.load_pem_x509_certificate(data).public_key()
        else:
            key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        raise BadKey("not a public key or certificate in PEM form") from None
    return Key(key, algorithms_of(key))


def algorithms_of(key: Any) -> tuple[str, ...]:
    """What a public key is for.  Raises BadKey."""
    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size < MIN_RSA_BITS:
            raise BadKey(f"an RSA key of {key.key_size} bits; expected {MIN_RSA_BITS} or more")
        return RSA
    if isinstance(key, ec.EllipticCurvePublicKey):
        found = CURVES.get(key.curve.name)
        if found is None:
            raise BadKey(f"a key on the curve {key.curve.name}; expected P-256, P-384 or P-521")
        return found
    if isinstance(key, (ed25519.Ed25519PublicKey, ed448.Ed448PublicKey)):
        return EDWARDS
    raise BadKey("a key of another kind; expected RSA, EC or EdDSA")


def jwks_keys(data: bytes, *, secrets: bool) -> list[Key]:
    """The keys of a JSON Web Key Set (RFC 7517) that are for signatures.

    Those of kinds that are not known are skipped, as the RFC wants it.  `secrets`: there may be
    symmetric ones, which nobody should publish.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise BadKey("not JSON") from None
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise BadKey('not a JSON Web Key Set: there is no list "keys"')
    if len(entries) > MAX_KEYS:
        raise BadKey(f"{len(entries)} keys; at most {MAX_KEYS} are read")
    found = [_jwk(entry, secrets) for entry in entries if isinstance(entry, dict)]
    return [key for key in found if key is not None]


def _jwk(entry: dict[str, Any], secrets: bool) -> Key | None:
    if entry.get("use", "sig") != "sig" or "verify" not in entry.get("key_ops", ["verify"]):
        return None
    kind, kid = entry.get("kty"), entry.get("kid", "")
    if kind not in ("RSA", "EC", "OKP", "oct") or not isinstance(kid, str):
        return None
    if kind == "oct" and not secrets:
        return None
    # What is private has no business here, and a public part is all that is needed.
    public = {name: value for name, value in entry.items() if kind == "oct" or name not in PRIVATE}
    try:
        # `alg` of the entry may be another word for the kind of key, or one that is not known.
        key = PyJWK({**public, "alg": _guess(public)}).key
        made = secret_key(key) if kind == "oct" else Key(key, algorithms_of(key))
    except (PyJWTError, BadKey, ValueError, TypeError, UnsupportedAlgorithm):
        return None
    made.kid = kid
    alg = entry.get("alg")
    if alg is not None:
        made.algorithms = tuple(each for each in made.algorithms if each == alg)
    return made if made.algorithms else None


PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})


def _guess(entry: dict[str, Any]) -> str:
    """An algorithm by which the library reads an entry; which ones hold is decided by the key."""
    kind = entry["kty"]
    if kind == "EC":
        return {"P-384": "ES384", "P-521": "ES512"}.get(str(entry.get("crv")), "ES256")
    return {"RSA": "RS256", "OKP": "EdDSA"}.get(kind, "HS256")


def choose(keys: Iterable[Key], kid: str, algorithm: str) -> list[Key]:
    """Those that may have made a signature: of that name, or without one, for that algorithm."""
    named = [key for key in keys if algorithm in key.algorithms]
    if not kid:
        return named
    return [key for key in named if key.kid == kid] or [key for key in named if not key.kid]
