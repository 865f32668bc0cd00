"""Tokens: who signed them decides, and nothing that a token says of itself."""

import base64
import hashlib
import hmac
import json
import warnings
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import TestCase

from mhub.auth.jwks import MIN_PAUSE_S, KeySet, url_problem
from mhub.auth.jwt import MAX_TOKEN, METHOD, JwtSource, Settings
from mhub.core.authentication import FAILURE, SUCCESS, Later, Step
from mhub.wire import reasons
from tests.auth.world import World
from tests.helpers.certificates import Authority
from tests.helpers.splits import steady

NOW = 1_800_000_000.0
SECRET = "a secret that is as long as the longest hash, which has 64 bytes"
RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
EC_384 = ec.generate_private_key(ec.SECP384R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()
KEYS: dict[str, Any] = {"RS256": RSA_KEY, "PS512": RSA_KEY, "ES256": EC_KEY, "ES384": EC_384}
KEYS["EdDSA"] = ED_KEY


def public(key: Any) -> bytes:
    data: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return data


def token(key: Any = SECRET, algorithm: str = "HS256", kid: str = "", **claims: Any) -> bytes:
    """Valid for a minute, unless `claims` say otherwise; None leaves one out."""
    found = {"sub": "alice", "exp": NOW + 60} | claims
    given = {name: value for name, value in found.items() if value is not None}
    header = {"kid": kid} if kid else None
    return jwt.encode(given, key, algorithm, headers=header).encode()


def jwk(key: Any, kid: str, **more: Any) -> dict[str, Any]:
    public_key = key.public_key()
    algorithm: Any = jwt.algorithms.RSAAlgorithm
    if isinstance(key, ec.EllipticCurvePrivateKey):
        algorithm = jwt.algorithms.ECAlgorithm
    elif isinstance(key, ed25519.Ed25519PrivateKey):
        algorithm = jwt.algorithms.OKPAlgorithm
    return {**json.loads(algorithm.to_jwk(public_key)), "kid": kid, **more}


class JwtCase(TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp()).absolute()
        self.folder.mkdir()
        self.now = NOW
        self.world = World()

    def begin(self, client: Any = None, **settings: Any) -> JwtSource:
        settings = settings or {"secret": SECRET}
        found = Settings(**settings)
        keys = KeySet("jwt", found, self.world.context, client)
        source = JwtSource(found, keys, lambda: self.now)
        self.world.put(source, "jwt")
        self.world.start()
        return source

    def file(self, data: bytes, name: str = "key") -> str:
        (self.folder / name).write_bytes(data)
        return str(self.folder / name)

    def send(self, data: bytes, user: str | None = None, **more: Any) -> Step:
        return self.world.ask(user, data, **more)

    def assertUser(self, step: Step, user: str = "alice") -> None:
        self.assertEqual(step.outcome, SUCCESS, step.text)
        assert step.identity is not None
        self.assertEqual((step.identity.user, step.identity.method), (user, METHOD))

    def assertRefused(self, step: Step, text: str) -> None:
        self.assertEqual(step.outcome, FAILURE)
        self.assertIn(text, step.text)


class SignatureTests(JwtCase):
    def test_a_secret(self) -> None:
        self.begin()
        for algorithm in ("HS256", "HS384", "HS512"):
            self.assertUser(self.send(token(SECRET, algorithm)))
        self.assertRefused(self.send(token("another secret, also long enough")), "signature")

    def test_a_secret_that_is_too_short_for_a_hash(self) -> None:
        short = SECRET[:47]
        self.begin(secret=short)
        self.assertUser(self.send(token(short)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = token(short, "HS384")
        self.assertRefused(self.send(made), "not known here")

    def test_public_keys(self) -> None:
        for algorithm, key in KEYS.items():
            self.world = World()
            self.begin(key_file=self.file(public(key)))
            self.assertUser(self.send(token(key, algorithm)))

    def test_a_certificate(self) -> None:
        authority = Authority("issuer")
        authority.write(self.folder / "ca.crt")
        self.begin(key_file=str(self.folder / "ca.crt"))
        self.assertRefused(self.send(token(EC_KEY, "ES256")), "signature")

    def test_another_key(self) -> None:
        self.begin(key_file=self.file(public(ec.generate_private_key(ec.SECP256R1()))))
        self.assertRefused(self.send(token(EC_KEY, "ES256")), "wrong signature")

    def test_none(self) -> None:
        """A token that says that it needs no signature."""
        self.begin(key_file=self.file(public(RSA_KEY)))
        bare = token(None, "none")
        for data in (bare, bare + b"x", bare + token().split(b".")[2]):
            for name in (b"none", b"None", b"NONE", b"nOnE", b""):
                header = base64.urlsafe_b64encode(b'{"alg":"%s"}' % name).rstrip(b"=")
                self.assertEqual(self.send(header + b"." + data.split(b".", 1)[1]).outcome, FAILURE)

    def test_the_public_key_as_a_secret(self) -> None:
        """HS256 with the text of the RSA key, which everybody may know."""
        pem = public(RSA_KEY)
        self.begin(key_file=self.file(pem))
        for secret in (pem, pem.strip(), base64.b64encode(pem)):
            head, body = token().split(b".")[:2]
            made = hmac.digest(secret, head + b"." + body, hashlib.sha256)
            forged = b".".join((head, body, base64.urlsafe_b64encode(made).rstrip(b"=")))
            self.assertRefused(self.send(forged), "not known here")

    def test_algorithms_go_by_the_key(self) -> None:
        """What the header names has to be what the key is for."""
        self.begin(key_file=self.file(public(EC_KEY)))
        body = token(EC_KEY, "ES256")
        for algorithm in ("ES384", "RS256", "HS256", "EdDSA", "ES256K", "x", ""):
            header = base64.urlsafe_b64encode(json.dumps({"alg": algorithm}).encode())
            changed = header.rstrip(b"=") + b"." + body.split(b".", 1)[1]
            self.assertEqual(self.send(changed).outcome, FAILURE, algorithm)

    def test_fewer_algorithms(self) -> None:
        self.begin(key_file=self.file(public(RSA_KEY)), algorithms=("RS512",))
        self.assertUser(self.send(token(RSA_KEY, "RS512")))
        self.assertRefused(self.send(token(RSA_KEY, "RS256")), "not accepted")

    def test_keys_inside_the_token(self) -> None:
        """`jwk`, `jku` and `x5u` in the header are not looked at; `crit` is refused."""
        self.begin(key_file=self.file(public(RSA_KEY)))
        other = rsa.generate_private_key(65537, 2048)
        for header in (
            {"jwk": jwk(other, "x")},
            {"jku": "http://127.0.0.1:1/"},
            {"x5u": "http://127.0.0.1:1/"},
            {"crit": ["exp"], "exp": 1},
        ):
            made = jwt.encode({"sub": "alice", "exp": NOW + 60}, other, "RS256", headers=header)
            self.assertEqual(self.send(made.encode()).outcome, FAILURE)
        good = jwt.encode(
            {"sub": "alice", "exp": NOW + 60}, RSA_KEY, "RS256", headers={"crit": ["x"], "x": 1}
        )
        self.assertRefused(self.send(good.encode()), "extensions")

    def test_changed(self) -> None:
        self.begin()
        data = token()
        head, body, signature = data.split(b".")
        admin = base64.urlsafe_b64encode(json.dumps({"sub": "admin", "exp": NOW + 60}).encode())
        self.assertRefused(self.send(b".".join((head, admin.rstrip(b"="), signature))), "signature")
        flipped = bytes([signature[0] ^ 1]) + signature[1:]
        self.assertEqual(self.send(b".".join((head, body, flipped))).outcome, FAILURE)

    @steady
    @given(st.binary(max_size=200))
    def test_any_bytes(self, data: bytes) -> None:
        """Nothing but a token gets in, and nothing raises."""
        self.setUp()
        self.begin()
        self.assertEqual(self.send(data).outcome, FAILURE)
        self.assertEqual(self.send(token()[: len(data)] + b"." + data).outcome, FAILURE)

    def test_not_a_token(self) -> None:
        """A password is left to the others."""
        source = self.begin()
        for data in (b"secret", b"a.b", b"a.b.c", b"x" * (MAX_TOKEN + 1), b"...", b"e30.e30."):
            answer = source.check(self.world.claim("alice", data))
            assert not isinstance(answer, Deferred)
            self.assertEqual(answer.outcome, "not mine", data[:20])
        answer = source.check(self.world.claim("alice"))
        assert not isinstance(answer, Deferred)
        self.assertEqual(answer.outcome, "not mine")


class ClaimTests(JwtCase):
    def test_times(self) -> None:
        self.begin(secret=SECRET, leeway_s=10.0)
        for claims, text in (
            ({"exp": NOW - 11}, "expired"),
            ({"exp": NOW - 10}, "expired"),
            ({"exp": None}, "without exp"),
            ({"nbf": NOW + 11}, "nbf"),
            ({"iat": NOW + 11}, "iat"),
            ({"exp": "tomorrow"}, "exp is not a time"),
            ({"exp": True}, "exp is not a time"),
            ({"exp": 1e300}, "exp is not a time"),
            ({"nbf": "x"}, "nbf is not a time"),
            ({"iat": [1]}, "iat is not a time"),
        ):
            self.assertRefused(self.send(token(**claims)), text)
        for good in ({"exp": NOW - 9}, {"nbf": NOW + 9}, {"iat": NOW + 9}, {"iat": NOW - 9e5}):
            self.assertUser(self.send(token(**good)))

    def test_without_an_end(self) -> None:
        self.begin(secret=SECRET, require_expiry=False)
        step = self.send(token(exp=None))
        self.assertUser(step)
        assert step.identity is not None
        self.assertEqual(step.identity.expires_at, 0.0)

    def test_the_connection_ends_with_it(self) -> None:
        self.begin(secret=SECRET, leeway_s=5.0)
        step = self.send(token())
        assert step.identity is not None
        self.assertEqual(step.identity.expires_at, NOW + 65)

    def test_issuer(self) -> None:
        """Tokens of others are left to others."""
        self.begin(secret=SECRET, issuer="https://issuer")
        self.assertUser(self.send(token(iss="https://issuer")))
        for issuer in ("https://other", None):
            self.assertRefused(self.send(token(iss=issuer)), "no authenticator accepts")

    def test_two_issuers(self) -> None:
        self.begin(secret=SECRET, issuer="one")
        other = "another secret that is long enough, too"
        self.begin(secret=other, issuer="two")
        self.world._chain = None
        self.world.start()
        self.assertUser(self.send(token(iss="one")))
        self.assertUser(self.send(token(other, iss="two")))
        self.assertRefused(self.send(token(iss="two")), "signature")

    def test_audience(self) -> None:
        self.begin(secret=SECRET, audience=("mhub", "mqtt"))
        for audience in ("mhub", ["x", "mqtt"]):
            self.assertUser(self.send(token(aud=audience)))
        for bad in ("x", ["x"], [], None):
            self.assertRefused(self.send(token(aud=bad)), "aud")

    def test_an_audience_that_nobody_asked_for(self) -> None:
        """It is for somebody else, who might have given it away."""
        self.begin()
        self.assertRefused(self.send(token(aud="other")), "for somebody else")

    def test_who_it_is(self) -> None:
        self.begin(
            secret=SECRET,
            user_claim="account.name",
            roles_claim="realm.roles",
            tenant_claim="org",
            attributes=("site", "line.id", "missing", "flag"),
        )
        step = self.send(
            token(
                account={"name": "pump-7"},
                realm={"roles": ["device", "reader", "device"]},
                org="plant",
                site="hall-1",
                line={"id": 7},
                flag=True,
                grants=["publish, devices/%c/#, any, allow"],
            )
        )
        self.assertUser(step, "pump-7")
        identity = step.identity
        assert identity is not None
        self.assertEqual((identity.roles, identity.tenant), (("device", "reader"), "plant"))
        self.assertEqual(identity.attributes, {"site": "hall-1", "id": "7", "flag": "true"})
        self.assertEqual(identity.grants, ("publish, devices/%c/#, any, allow",))

    def test_roles_as_text(self) -> None:
        self.begin(secret=SECRET, roles_claim="scope")
        step = self.send(token(scope="device reader"))
        assert step.identity is not None
        self.assertEqual(step.identity.roles, ("device", "reader"))

    def test_claims_that_are_something_else(self) -> None:
        self.begin()
        for claims in (
            {"sub": None},
            {"sub": ""},
            {"sub": 7},
            {"sub": "a\r\nb"},
            {"roles": 7},
            {"roles": [7]},
            {"tenant": ["x"]},
            {"grants": ["everything"]},
            {"grants": 7},
        ):
            self.assertEqual(self.send(token(**claims)).outcome, FAILURE, claims)

    def test_user_name_and_client_id(self) -> None:
        self.begin(secret=SECRET, match_username=True, client_id_claim="cid")
        data = token(cid="client")
        self.assertUser(self.send(data))
        self.assertUser(self.send(data, "alice"))
        self.assertRefused(self.send(data, "bob"), "another user")
        self.assertRefused(self.send(data, "alice", client_id="other"), "another client")
        self.assertRefused(self.send(token(), "alice"), "another client")


class MethodTests(JwtCase):
    """By AUTH, which can renew it."""

    def test_again(self) -> None:
        self.begin()
        method = self.world.chain.methods[METHOD]
        first = method(self.world.claim()).step(token())
        assert isinstance(first, Step)
        self.assertUser(first)
        self.now += 50
        second = method(self.world.claim()).step(token(exp=NOW + 120))
        assert isinstance(second, Step) and second.identity is not None
        self.assertEqual(second.identity.expires_at, NOW + 130)

    def test_refused(self) -> None:
        self.begin()
        method = self.world.chain.methods[METHOD]
        for data in (
            b"",
            b"secret",
            token("another secret, also long enough"),
            token(exp=NOW - 99),
        ):
            step = method(self.world.claim()).step(data)
            assert isinstance(step, Step)
            self.assertEqual(step.outcome, FAILURE)


class FileTests(JwtCase):
    def test_a_key_set(self) -> None:
        keys = [jwk(RSA_KEY, "a"), jwk(EC_KEY, "b"), jwk(ED_KEY, "c")]
        strange = [{"kty": "X"}, {"kty": "RSA"}, 7, jwk(EC_384, "d", use="enc")]
        data = json.dumps({"keys": [*strange, *keys]}).encode()
        self.begin(jwks_file=self.file(data))
        self.assertUser(self.send(token(RSA_KEY, "RS256", "a")))
        self.assertUser(self.send(token(EC_KEY, "ES256", "b")))
        self.assertUser(self.send(token(ED_KEY, "EdDSA", "c")))
        self.assertUser(self.send(token(ED_KEY, "EdDSA")))
        self.assertRefused(self.send(token(ED_KEY, "EdDSA", "x")), "not known here")
        self.assertRefused(self.send(token(EC_384, "ES384", "d")), "not known here")
        self.assertRefused(self.send(token(EC_KEY, "ES256", "a")), "not known here")

    def test_an_algorithm_in_the_key_set(self) -> None:
        data = json.dumps({"keys": [jwk(RSA_KEY, "a", alg="PS256")]}).encode()
        self.begin(jwks_file=self.file(data))
        self.assertUser(self.send(token(RSA_KEY, "PS256", "a")))
        self.assertRefused(self.send(token(RSA_KEY, "RS256", "a")), "not known here")

    def test_read_again(self) -> None:
        path = self.file(public(EC_KEY))
        self.begin(key_file=path)
        self.assertUser(self.send(token(EC_KEY, "ES256")))
        Path(path).write_bytes(b"half of it")
        self.assertUser(self.send(token(EC_KEY, "ES256")))
        Path(path).write_bytes(public(EC_384))
        self.assertUser(self.send(token(EC_384, "ES384")))
        self.assertRefused(self.send(token(EC_KEY, "ES256")), "not known here")

    def test_a_secret_in_a_file(self) -> None:
        self.begin(secret_file=self.file(SECRET.encode() + b"\n"))
        self.assertUser(self.send(token()))


class Issuer:
    """A web server that answers when the test wants it."""

    def __init__(self) -> None:
        self.requests: list[Deferred[tuple[int, bytes]]] = []
        self.asked: list[tuple[str, str]] = []
        self.stopped = False

    def request(self, method: str, url: str, headers: Any, data: bytes) -> Deferred[Any]:
        self.asked.append((method, url))
        self.requests.append(Deferred())
        return self.requests[-1]

    def answer(self, *keys: Any, status: int = 200) -> None:
        self.requests.pop(0).callback((status, json.dumps({"keys": list(keys)}).encode()))

    def stop(self) -> None:
        self.stopped = True


class UrlTests(JwtCase):
    URL = "https://issuer.example.org/keys"

    def setUp(self) -> None:
        super().setUp()
        self.issuer = Issuer()
        self.source = self.begin(self.issuer, jwks_url=self.URL, jwks_refresh_s=600.0)
        self.clock: Clock = self.world.clock

    def ask(self, key: Any = EC_KEY, algorithm: str = "ES256", kid: str = "a") -> Step | Later:
        return self.world.connect(None, token(key, algorithm, kid))

    def test_clients_wait_for_the_first_keys(self) -> None:
        """With one request for all of them."""
        waiting = [self.ask() for _ in range(3)]
        self.assertEqual(self.issuer.asked, [("GET", self.URL)])
        gone = waiting.pop()
        assert isinstance(gone, Later)
        gone.abandon()
        self.issuer.answer(jwk(EC_KEY, "a"))
        for later in waiting:
            assert isinstance(later, Later) and later.step is not None
            self.assertUser(later.step)
        step = self.ask()
        assert isinstance(step, Step)
        self.assertUser(step)

    def test_fetched_again(self) -> None:
        self.issuer.answer(jwk(EC_KEY, "a"))
        self.clock.advance(601)
        self.issuer.answer(jwk(EC_384, "b"))
        step = self.ask(EC_384, "ES384", "b")
        assert isinstance(step, Step)
        self.assertUser(step)

    def test_a_key_that_is_new(self) -> None:
        """It is fetched when the first token names it; but not for each token."""
        self.issuer.answer(jwk(EC_KEY, "a"))
        self.clock.advance(MIN_PAUSE_S)
        later = self.ask(EC_384, "ES384", "b")
        assert isinstance(later, Later)
        self.issuer.answer(jwk(EC_KEY, "a"), jwk(EC_384, "b"))
        assert later.step is not None
        self.assertUser(later.step)
        for number in range(100):
            step = self.ask(EC_KEY, "ES256", f"x{number}")
            assert isinstance(step, Step)
            self.assertEqual(step.outcome, FAILURE)
        self.assertEqual(len(self.issuer.asked), 2)

    def test_the_issuer_does_not_answer(self) -> None:
        later = self.ask()
        assert isinstance(later, Later)
        self.clock.advance(5.1)
        assert later.step is not None
        self.assertEqual(later.step.reason, reasons.SERVER_UNAVAILABLE)
        self.assertIn("no answer in time", later.step.text)
        self.clock.advance(MIN_PAUSE_S)  # it is asked again by itself
        self.assertEqual(len(self.issuer.asked), 2)

    def test_the_keys_stay_while_it_is_away(self) -> None:
        self.issuer.answer(jwk(EC_KEY, "a"))
        self.clock.advance(601)
        self.issuer.answer(status=500)
        step = self.ask()
        assert isinstance(step, Step)
        self.assertUser(step)

    def test_what_is_no_key_set(self) -> None:
        for answer in ((302, b""), (200, b"<html>"), (200, b"[]"), (200, b'{"keys": []}')):
            self.setUp()
            self.issuer.requests.pop(0).callback(answer)
            step = self.ask()
            assert isinstance(step, Step)
            self.assertEqual(step.reason, reasons.SERVER_UNAVAILABLE)

    def test_a_secret_that_is_published(self) -> None:
        """Is none."""
        value = base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("=")
        self.issuer.answer({"kty": "oct", "k": value, "kid": "a"}, jwk(EC_KEY, "b"))
        step = self.ask(SECRET, "HS256", "a")
        assert isinstance(step, Step)
        self.assertEqual(step.outcome, FAILURE)

    def test_stopped(self) -> None:
        self.issuer.answer(jwk(EC_KEY, "a"))
        self.source.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertTrue(self.issuer.stopped)

    def test_urls(self) -> None:
        for url in ("https://a/b", "https://a:8443/", "http://127.0.0.1:8080/", "http://[::1]/"):
            self.assertEqual(url_problem(url), "")
        for url in ("http://issuer/keys", "https://", "ftp://a/", "https://u:p@a/", "https://a:x/"):
            self.assertNotEqual(url_problem(url), "", url)
