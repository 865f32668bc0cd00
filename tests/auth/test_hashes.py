"""Hashes of passwords: those that others have made are read, and none is taken for another."""

import base64
import hashlib
import subprocess
from shutil import which

import bcrypt
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SkipTest, TestCase

from mhub.auth import hashes
from mhub.auth.hashes import Costs, HashError
from tests.auth.world import CHEAP
from tests.helpers.splits import steady

PASSWORD = b"correct horse"


def passlib(digest: str, name: str) -> str:
    def encode(data: bytes) -> str:
        return base64.b64encode(data).decode().rstrip("=").replace("+", ".")

    salt = b"\xfb\xff0123456789"
    made = hashlib.pbkdf2_hmac(digest, PASSWORD, salt, 1000)
    return f"${name}$1000${encode(salt)}${encode(made)}"


def go_auth(digest: str) -> str:
    salt = b"0123456789abcdef"
    made = hashlib.pbkdf2_hmac(digest, PASSWORD, salt, 1000, 32)
    text = [base64.b64encode(each).decode() for each in (salt, made)]
    return f"PBKDF2${digest}$1000${text[0]}${text[1]}"


def mosquitto_old() -> str:
    salt = b"0123456789ab"
    made = hashlib.sha512(PASSWORD + salt).digest()
    return f"$6${base64.b64encode(salt).decode()}${base64.b64encode(made).decode()}"


def mosquitto() -> str:
    salt = b"0123456789ab"
    made = hashlib.pbkdf2_hmac("sha512", PASSWORD, salt, 101, 64)
    return f"$7$101${base64.b64encode(salt).decode()}${base64.b64encode(made).decode()}"


ALL = {
    "argon2id": hashes.make(PASSWORD, CHEAP),
    "bcrypt": bcrypt.hashpw(PASSWORD, bcrypt.gensalt(4)).decode(),
    "bcrypt of PHP": bcrypt.hashpw(PASSWORD, bcrypt.gensalt(4)).decode().replace("$2b$", "$2y$"),
    "passlib, SHA-256": passlib("sha256", "pbkdf2-sha256"),
    "passlib, SHA-512": passlib("sha512", "pbkdf2-sha512"),
    "passlib, SHA-1": passlib("sha1", "pbkdf2"),
    "mosquitto-go-auth": go_auth("sha512"),
    "mosquitto-go-auth, SHA-256": go_auth("sha256"),
    "Mosquitto 1": mosquitto_old(),
    "Mosquitto 2": mosquitto(),
}


class MatchTests(TestCase):
    def test_the_password(self) -> None:
        for name, text in ALL.items():
            self.assertTrue(hashes.matches(text, PASSWORD), name)

    def test_another_one(self) -> None:
        for name, text in ALL.items():
            for other in (b"", b"correct horsf", PASSWORD + b"!", PASSWORD[:-1], b"\0" + PASSWORD):
                self.assertFalse(hashes.matches(text, other), name)

    def test_published_ones(self) -> None:
        """Hashes that were not made here: passlib's documentation, bcrypt's test vectors."""
        for text, password in (
            (
                "$pbkdf2-sha256$6400$.6UI/S.nXIk8jcbdHx3Fhg$98jZicV16ODfEsEZeYPGHU3kbrUrvUEXOPimVSQDD44",
                b"password",
            ),
            ("$2a$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe", b"a"),
        ):
            self.assertTrue(hashes.matches(text, password), text)

    def test_mosquitto_passwd(self) -> None:
        """As the real one writes them."""
        command = which("mosquitto_passwd")
        if command is None:
            raise SkipTest("mosquitto_passwd is not installed")
        path = self.mktemp()
        arguments = [command, "-c", "-b", path, "alice", PASSWORD.decode()]
        subprocess.run(arguments, check=True, capture_output=True, timeout=20)
        with open(path, encoding="ascii") as file:
            name, _, text = file.read().strip().partition(":")
        self.assertEqual(name, "alice")
        self.assertTrue(hashes.matches(text, PASSWORD))
        self.assertFalse(hashes.matches(text, b"wrong"))

    def test_more_than_72_bytes(self) -> None:
        """bcrypt looks at 72: what is longer is refused, and not taken for its beginning."""
        start = b"x" * 72
        text = bcrypt.hashpw(start, bcrypt.gensalt(4)).decode()
        self.assertTrue(hashes.matches(text, start))
        for longer in (start + b"y", start * 100):
            self.assertFalse(hashes.matches(text, longer))

    def test_nul(self) -> None:
        """bcrypt ends at a NUL in some implementations: "a\\0b" is not "a"."""
        text = bcrypt.hashpw(b"a", bcrypt.gensalt(4)).decode()
        self.assertFalse(hashes.matches(text, b"a\0b"))

    @steady
    @given(st.binary(max_size=200))
    def test_any_password(self, password: bytes) -> None:
        """Passwords are any bytes, as MQTT carries them."""
        text = hashes.make(password, CHEAP)
        self.assertTrue(hashes.matches(text, password))
        self.assertFalse(hashes.matches(text, password + b"x"))


class FormTests(TestCase):
    def test_no_hash(self) -> None:
        for text in (
            "",
            "secret",
            "none",
            "null",
            "$1$abc$def",
            "$5$rounds=5000$salt$hash",
            "$6$saltsalt$" + "a" * 86,  # crypt(3): another algorithm
            "$7$0$AAAA$AAAA",
            "$7$99999999$AAAA$AAAA",
            "$7$101$!!!$AAAA",
            "$2b$31$" + "a" * 53,
            "$argon2id$v=19$m=99999999,t=1,p=1$c2FsdHNhbHQ$aGFzaA",
            "PBKDF2$md5$1$AAAA$AAAA",
        ):
            self.assertRaises(HashError, hashes.check_form, text)
            self.assertRaises(HashError, hashes.matches, text, b"secret")

    def test_errors_do_not_quote_it(self) -> None:
        """What was put there by mistake may be a password."""
        error = self.assertRaises(HashError, hashes.check_form, "my password")
        self.assertNotIn("my password", str(error))

    @steady
    @given(st.text(alphabet="$argon2id7bPBKDF,=.5v19m+/ \x00é", max_size=60))
    def test_any_text(self, text: str) -> None:
        """Is a hash, or a HashError; nothing else."""
        try:
            hashes.check_form(text)
        except HashError:
            return
        try:
            hashes.matches(text, b"x")
        except HashError:
            pass

    def test_all_differ(self) -> None:
        """Salts: the same password twice gives two hashes."""
        self.assertNotEqual(hashes.make(PASSWORD, CHEAP), hashes.make(PASSWORD, CHEAP))

    def test_current(self) -> None:
        costs = Costs(64, 2)
        self.assertTrue(hashes.is_current(hashes.make(b"x", costs), costs))
        self.assertTrue(hashes.is_current(hashes.make(b"x", Costs(128, 2)), costs))
        for weaker in (Costs(32, 2), Costs(64, 1)):
            self.assertFalse(hashes.is_current(hashes.make(b"x", weaker), costs))
        for name, text in ALL.items():
            self.assertFalse(hashes.is_current(text, costs), name)

    def test_shapes(self) -> None:
        """What costs the same has one shape."""
        self.assertEqual(
            hashes.shape(hashes.make(b"x", CHEAP)), hashes.shape(hashes.make(b"y", CHEAP))
        )
        self.assertNotEqual(
            hashes.shape(hashes.make(b"x", CHEAP)), hashes.shape(hashes.make(b"x", Costs(64, 1)))
        )
