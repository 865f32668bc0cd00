"""SCRAM-SHA-256 from the server's side: who knows the password gets in, and nobody learns more."""

import base64
import hashlib
import hmac
import os
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import TestCase

from mhub.auth.scram import MAX_MESSAGE, METHOD, ScramExchange
from mhub.auth.users import (
    Users,
    Verifier,
    make_verifier,
    parse_users,
)
from mhub.core.authentication import CONTINUE, FAILURE, SUCCESS, Step
from mhub.core.principal import Identity
from mhub.wire import reasons
from tests.auth.world import World
from tests.helpers.splits import steady
from tests.helpers.users import write_users

# RFC 7677, section 3.
RFC_SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
RFC_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
RFC_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
RFC_SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
RFC_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
RFC_SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

PENCIL = make_verifier("pencil", 4096, RFC_SALT)
SECRET = bytes(32)


def user_of(step: Step) -> str:
    """Whom it has let in."""
    return step.identity.user if step.identity is not None else ""


class Known:
    """Users as one source has them."""

    def __init__(self, users: Users, secret: bytes) -> None:
        self.users, self.secret = users, secret

    def find(self, name: str) -> tuple[Verifier, Identity | None] | None:
        verifier = self.users.verifiers.get(name)
        return None if verifier is None else (verifier, Identity(name, METHOD))

    def decoy(self) -> tuple[int, int, bytes]:
        return (*self.users.usual, self.secret)


def exchange(name: str = "user", verifier: Verifier = PENCIL) -> ScramExchange:
    return ScramExchange(Known(Users({name: verifier}, SECRET, (4096, 16)), SECRET), RFC_NONCE)


def final(
    bare: str, server_first: bytes, password: str, header: str = "n,,", extra: str = ""
) -> bytes:
    """What an honest client answers to the server's first message."""
    parts = dict(part.split("=", 1) for part in server_first.decode().split(","))
    salt, rounds = base64.b64decode(parts["s"]), int(parts["i"])
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, rounds)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    unproven = f"c={base64.b64encode(header.encode()).decode()},r={parts['r']}{extra}"
    said = f"{bare},{server_first.decode()},{unproven}".encode()
    signature = hmac.digest(hashlib.sha256(client_key).digest(), said, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"{unproven},p={base64.b64encode(proof).decode()}".encode()


def login(
    tried: ScramExchange, name: str, password: str, header: str = "n,,", extra: str = ""
) -> Step:
    """A whole login by an honest client; the last step."""
    bare = f"n={name},r=abc{extra}"
    step = tried.step(f"{header}{bare}".encode())
    if step.outcome != CONTINUE:
        return step
    return tried.step(final(bare, step.data, password, header, extra))


class LoginTests(TestCase):
    def test_rfc_7677(self) -> None:
        """The example of RFC 7677, byte for byte."""
        tried = exchange()
        step = tried.step(RFC_FIRST)
        self.assertEqual((step.outcome, step.data, user_of(step)), (CONTINUE, RFC_SERVER_FIRST, ""))
        step = tried.step(RFC_FINAL)
        self.assertEqual(
            (step.outcome, step.data, user_of(step)), (SUCCESS, RFC_SERVER_FINAL, "user")
        )

    def test_our_client_agrees_with_the_rfc(self) -> None:
        """The client that the other tests use makes the RFC's message too."""
        self.assertEqual(final(RFC_FIRST[3:].decode(), RFC_SERVER_FIRST, "pencil"), RFC_FINAL)

    def test_wrong_password(self) -> None:
        step = login(exchange(), "user", "pen")
        self.assertEqual((step.outcome, step.data, user_of(step)), (FAILURE, b"", ""))

    def test_headers(self) -> None:
        """A client that would do channel binding (y), or names itself twice, gets in too."""
        for header in ("n,,", "y,,", "n,a=user,"):
            self.assertEqual(login(exchange(), "user", "pencil", header).outcome, SUCCESS, header)

    def test_headers_refused(self) -> None:
        for header in ("p=tls-unique,,", "n,a=admin,", "N,,", "n,", "n,b=user,", ""):
            self.assertEqual(login(exchange(), "user", "pencil", header).outcome, FAILURE, header)

    def test_header_changed_on_the_way(self) -> None:
        """Somebody who takes channel binding out of the first message is found out by the last."""
        tried = exchange()
        step = tried.step(b"n,,n=user,r=abc")
        answer = final("n=user,r=abc", step.data, "pencil", "y,,")
        self.assertEqual(tried.step(answer).outcome, FAILURE)

    def test_optional_extensions_are_skipped(self) -> None:
        self.assertEqual(login(exchange(), "user", "pencil", extra=",x=1,y=2").outcome, SUCCESS)

    def test_mandatory_extension(self) -> None:
        """RFC 5802, section 5.1: `m=` asks for what we do not know."""
        self.assertEqual(exchange().step(b"n,,m=x,n=user,r=abc").outcome, FAILURE)

    def test_names(self) -> None:
        """Signs that SCRAM needs for itself are escaped; SASLprep makes names alike."""
        for sent, name in (
            ("a=2Cb", "a,b"),
            ("a=3D2C", "a=2C"),
            ("I\u00adX", "IX"),
            ("\u2168", "IX"),
            ("\u00aa", "a"),
            ("Jos\u0065\u0301", "Jos\u00e9"),
        ):
            step = login(exchange(name), sent, "pencil")
            self.assertEqual((step.outcome, user_of(step)), (SUCCESS, name))

    def test_bad_names(self) -> None:
        for name in ("", "a=", "a=2c", "a=41", "\x07", "\u00ad", "\u0627\u0031", "a\x00b"):
            step = login(exchange(), name, "pencil")
            self.assertEqual((step.outcome, step.data), (FAILURE, b""), name)

    def test_nonce(self) -> None:
        """Only the nonce that was given, whole, ends an exchange."""
        for nonce in (b"abc", b"abd" + RFC_NONCE.encode(), b"abc" + RFC_NONCE.encode() + b"x"):
            tried = exchange()
            tried.step(b"n,,n=user,r=abc")
            answer = RFC_FINAL.replace(RFC_FINAL.split(b",")[1], b"r=" + nonce)
            self.assertEqual(tried.step(answer).outcome, FAILURE)

    def test_replay(self) -> None:
        """What one login sent is of no use in the next, whose nonce is another."""
        tried = ScramExchange(Known(Users({"user": PENCIL}), SECRET), "another")
        tried.step(RFC_FIRST)
        self.assertEqual(tried.step(RFC_FINAL).outcome, FAILURE)

    def test_proofs(self) -> None:
        head = RFC_FINAL.rpartition(b"p=")[0]
        for proof in (b"", b"=", b"AAAA", b"A", base64.b64encode(bytes(32)), 99 * b"A", b"!"):
            tried = exchange()
            tried.step(RFC_FIRST)
            self.assertEqual(tried.step(head + b"p=" + proof).outcome, FAILURE, proof)

    def test_no_second_try(self) -> None:
        """After its end, an exchange takes no more messages."""
        tried = exchange()
        tried.step(RFC_FIRST)
        self.assertEqual(tried.step(b"nonsense").outcome, FAILURE)
        self.assertEqual(tried.step(RFC_FINAL).outcome, FAILURE)
        tried = exchange()
        tried.step(RFC_FIRST)
        self.assertEqual(tried.step(RFC_FINAL).outcome, SUCCESS)
        self.assertEqual(tried.step(RFC_FINAL).outcome, FAILURE)

    def test_long_message(self) -> None:
        name = MAX_MESSAGE * b"a"
        self.assertEqual(exchange().step(b"n,,n=" + name + b",r=abc").outcome, FAILURE)

    @steady
    @given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
    def test_any_password(self, password: str) -> None:
        """The password that was set gets in, and another does not."""
        tried = exchange("user", make_verifier(password, 4096))
        self.assertEqual(login(tried, "user", password).outcome, SUCCESS)
        tried = exchange("user", make_verifier(password, 4096))
        self.assertEqual(login(tried, "user", password + "x").outcome, FAILURE)


class FuzzTests(TestCase):
    """Any bytes give a Step, and never SUCCESS without the password; no exception, ever."""

    @steady
    @given(st.lists(st.binary(), max_size=4))
    def test_bytes(self, messages: list[bytes]) -> None:
        tried = exchange()
        for message in messages:
            self.assertEqual(tried.step(message).outcome, FAILURE)

    @steady
    @given(st.text(alphabet="ny,p=arc=n2C3D \x00\u00e9\u0627"))
    def test_first_messages(self, text: str) -> None:
        self.assertIn(exchange().step(b"n,," + text.encode()).outcome, (CONTINUE, FAILURE))

    @steady
    @given(st.text(min_size=1), st.text(min_size=1))
    def test_names_and_nonces(self, name: str, nonce: str) -> None:
        data = f"n,,n={name},r={nonce}".encode("utf-8", "surrogatepass")
        self.assertIn(exchange().step(data).outcome, (CONTINUE, FAILURE))

    @steady
    @given(st.integers(0, len(RFC_FINAL) - 1), st.integers(0, 255))
    def test_changed_final_message(self, at: int, byte: int) -> None:
        changed = RFC_FINAL[:at] + bytes([byte]) + RFC_FINAL[at + 1 :]
        tried = exchange()
        tried.step(RFC_FIRST)
        self.assertEqual(tried.step(changed).outcome, SUCCESS if changed == RFC_FINAL else FAILURE)

    @steady
    @given(st.text(alphabet="cbiws=,rpabc0AZ+/", max_size=60))
    def test_final_messages(self, text: str) -> None:
        tried = exchange()
        tried.step(b"n,,n=user,r=abc")
        self.assertEqual(tried.step(text.encode()).outcome, FAILURE)


class DecoyTests(TestCase):
    """Nobody learns which names exist."""

    def salt(self, tried: ScramExchange, name: str) -> bytes:
        step = tried.step(f"n,,n={name},r=abc".encode())
        self.assertEqual(step.outcome, CONTINUE)
        return step.data.split(b",")[1]

    def test_looks_like_a_user(self) -> None:
        """The salt of a name without a user has the usual length, and is always the same."""
        nobody = self.salt(exchange(), "nobody")
        self.assertEqual(len(nobody), len(self.salt(exchange(), "user")))
        self.assertEqual(nobody, self.salt(exchange(), "nobody"))
        self.assertNotEqual(nobody, self.salt(exchange(), "noone"))

    def test_depends_on_the_secret(self) -> None:
        other = ScramExchange(Known(Users({"user": PENCIL}), b"another secret"), RFC_NONCE)
        self.assertNotEqual(self.salt(exchange(), "nobody"), self.salt(other, "nobody"))

    def test_takes_the_usual_iterations(self) -> None:
        lines = [f"u{n}:{make_verifier('x', 5000).render()}" for n in range(3)]
        lines.append(f"v:{make_verifier('x', 4096).render()}")
        users = parse_users("\n".join(lines).encode(), "users")
        step = ScramExchange(Known(users, SECRET), RFC_NONCE).step(b"n,,n=nobody,r=abc")
        self.assertTrue(step.data.endswith(b",i=5000"))

    def test_fails_like_a_wrong_password(self) -> None:
        """Nothing that could be shown to the client differs, but the name it sent itself."""
        nobody = login(exchange(), "nobody", "pencil")
        wrong = login(exchange(), "user", "pen")
        self.assertEqual((nobody.outcome, nobody.data), (wrong.outcome, wrong.data))
        self.assertEqual(nobody.text.replace("nobody", "user"), wrong.text)

    def test_nobody_knows_the_keys(self) -> None:
        """Even a proof made with the decoy's own keys does not get in."""
        tried = exchange()
        tried.step(b"n,,n=nobody,r=abc")
        zero = Verifier(4096, b"", hashlib.sha256(bytes(32)).digest(), bytes(32))
        tried._verifier = zero  # a client key of zeros
        so_far = tried._so_far
        unproven = f"c=biws,r=abc{RFC_NONCE}"
        proof = hmac.digest(zero.stored_key, (so_far + unproven).encode(), "sha256")
        answer = f"{unproven},p={base64.b64encode(proof).decode()}".encode()
        self.assertEqual(tried.step(answer).outcome, FAILURE)


class MethodTests(TestCase):
    """SCRAM over the users of a password file."""

    def setUp(self) -> None:
        self.path = str(Path(self.mktemp()).absolute())
        write_users(self.path, user=PENCIL)
        self.world = World()

    def begin(self) -> Any:
        return self.method()(self.world.claim())

    def method(self) -> Any:
        if not self.world.members:
            self.world.add("password-file", file=self.path)
            self.world.start()
        return self.world.chain.methods[METHOD]

    def test_login(self) -> None:
        step = login(self.begin(), "user", "pencil")
        self.assertEqual((step.outcome, user_of(step)), (SUCCESS, "user"))

    def test_nonces_differ(self) -> None:
        first, second = (self.begin().step(RFC_FIRST).data for _ in range(2))
        self.assertNotEqual(first, second)

    def test_sees_changes(self) -> None:
        """A new password, a new user and a deleted one count from the next login on."""
        self.method()
        write_users(self.path, user=make_verifier("brush", 4096), new=PENCIL)
        self.assertEqual(login(self.begin(), "user", "pencil").outcome, FAILURE)
        self.assertEqual(login(self.begin(), "user", "brush").outcome, SUCCESS)
        self.assertEqual(login(self.begin(), "new", "pencil").outcome, SUCCESS)
        write_users(self.path)
        self.assertEqual(login(self.begin(), "new", "pencil").outcome, FAILURE)

    def test_decoys_survive_a_restart(self) -> None:
        """The secret is in the file, so two brokers with the file give the same salts."""
        salts = set()
        for _ in range(2):
            self.world = World()
            salts.add(self.begin().step(b"n,,n=nobody,r=a").data.split(b",")[1])
        self.assertEqual(len(salts), 1)

    def test_broken_file_while_running(self) -> None:
        """The users stay as they were, until the file is right again."""
        self.method()
        good = Path(self.path).read_bytes()
        Path(self.path).write_bytes(b"nonsense")
        self.assertEqual(login(self.begin(), "user", "pencil").outcome, SUCCESS)
        os.unlink(self.path)
        self.assertEqual(login(self.begin(), "user", "pencil").outcome, SUCCESS)
        Path(self.path).write_bytes(good.replace(b"user:", b"other:"))
        self.assertEqual(login(self.begin(), "other", "pencil").outcome, SUCCESS)

    def test_reload(self) -> None:
        """A change that left time and size alone is seen on demand."""
        self.method()
        before = os.stat(self.path)
        data = Path(self.path).read_bytes().replace(b"user:", b"resu:")
        with open(self.path, "r+b") as file:
            file.write(data)
        os.utime(self.path, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.assertEqual(login(self.begin(), "resu", "pencil").outcome, FAILURE)
        self.world.chain.reload()
        self.assertEqual(login(self.begin(), "resu", "pencil").outcome, SUCCESS)

    def test_locked_in_the_registry(self) -> None:
        """Whatever source has the user: who is locked is not let in."""
        self.method()
        self.world.registry.put("user/user", {"locked": True})
        step = login(self.begin(), "user", "pencil")
        self.assertEqual((step.outcome, step.reason), (FAILURE, reasons.NOT_AUTHORIZED))

    def test_other_listener(self) -> None:
        self.world.add("password-file", listeners=("inside",), file=self.path)
        self.world.start()
        method = self.world.chain.methods[METHOD]
        self.assertEqual(
            login(method(self.world.claim(listener="inside")), "user", "pencil").outcome, SUCCESS
        )
        step = login(method(self.world.claim(listener="outside")), "user", "pencil")
        self.assertEqual(step.reason, reasons.BAD_AUTHENTICATION_METHOD)
