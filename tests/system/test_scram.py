"""Logging in with SCRAM-SHA-256, by a client that computes its half itself (RFC 5802)."""

import base64
import hashlib
import hmac
import secrets

from tests.helpers import packets
from tests.helpers.packets import Packet, Prop
from tests.system.case import HouseCase
from tests.system.house import PASSWORD, USER
from tests.system.raw import Raw

METHOD = "SCRAM-SHA-256"
CONTINUE, AGAIN = 0x18, 0x19
BAD_USER_OR_PASSWORD, NOT_AUTHORIZED, BAD_METHOD = 0x86, 0x87, 0x8C


class Login:
    """The client's half of one exchange."""

    def __init__(self, user: str, password: str) -> None:
        self._password = password.encode()
        self._bare = f"n={user},r={secrets.token_urlsafe(18)}"
        self.first = f"n,,{self._bare}".encode()
        self.signature = b""  # what the broker has to answer in the end

    def final(self, challenge: bytes) -> bytes:
        fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
        salt, rounds = base64.b64decode(fields["s"]), int(fields["i"])
        unproven = f"c=biws,r={fields['r']}"
        message = f"{self._bare},{challenge.decode()},{unproven}".encode()
        salted = hashlib.pbkdf2_hmac("sha256", self._password, salt, rounds)
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        signed = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
        proof = bytes(a ^ b for a, b in zip(client_key, signed, strict=True))
        server_key = hmac.digest(salted, b"Server Key", "sha256")
        self.signature = b"v=" + base64.b64encode(hmac.digest(server_key, message, "sha256"))
        return unproven.encode() + b",p=" + base64.b64encode(proof)


class ScramTests(HouseCase):
    """Listener `users`, which lets nobody in without a proof."""

    def open(self) -> Raw:
        raw = Raw(("127.0.0.1", self.house.users), 5)
        self.addCleanup(raw.sock.close)
        return raw

    def props(self, data: bytes) -> list[tuple[int, object]]:
        return [(Prop.AUTH_METHOD, METHOD), (Prop.AUTH_DATA, data)]

    def log_in(self, raw: Raw, login: Login) -> Packet:
        """CONNECT with the first message, AUTH with the second; what the broker says then."""
        raw.send(packets.connect(self.name(), 5, props=self.props(login.first)))
        challenge = raw.expect("AUTH", reason=CONTINUE).prop(Prop.AUTH_DATA)
        raw.send(packets.auth(CONTINUE, self.props(login.final(challenge))))
        answer = raw.receive()
        assert answer is not None
        return answer

    def test_the_right_password(self) -> None:
        raw, login = self.open(), Login(USER, PASSWORD)
        connack = self.log_in(raw, login)
        self.assertEqual(("CONNACK", 0), (connack.type, connack.reason))
        self.assertEqual(METHOD, connack.prop(Prop.AUTH_METHOD))
        self.assertEqual(login.signature, connack.prop(Prop.AUTH_DATA), "the broker's own proof")
        raw.subscribe(self.topic, 1)
        raw.publish(self.topic, b"in", 1, 3)
        self.assertEqual({"PUBACK", "PUBLISH"}, {raw.receive().type, raw.receive().type})

    def test_a_wrong_password(self) -> None:
        raw = self.open()
        connack = self.log_in(raw, Login(USER, PASSWORD + "!"))
        self.assertEqual(("CONNACK", NOT_AUTHORIZED), (connack.type, connack.reason))
        raw.expect_closed()
        self.assertIn("on users was refused: not authorized", self.logged(f"{raw.local} on"))

    def test_a_user_who_is_not_there_looks_like_a_wrong_password(self) -> None:
        raw = self.open()
        connack = self.log_in(raw, Login("nobody", PASSWORD))
        self.assertEqual(("CONNACK", NOT_AUTHORIZED), (connack.type, connack.reason))
        raw.expect_closed()

    def test_no_method(self) -> None:
        """The same password serves CONNECT."""
        raw = self.open()
        raw.send(packets.connect(self.name(), 5, username=USER, password=PASSWORD + "!"))
        raw.expect("CONNACK", reason=BAD_USER_OR_PASSWORD)
        raw.expect_closed()
        raw = self.open()
        raw.send(packets.connect(self.name(), 5, username=USER, password=PASSWORD))
        raw.expect("CONNACK", reason=0)
        raw.close()

    def test_an_unknown_method(self) -> None:
        raw = self.open()
        props = [(Prop.AUTH_METHOD, "SCRAM-SHA-1"), (Prop.AUTH_DATA, b"n,,n=alice,r=x")]
        raw.send(packets.connect(self.name(), 5, props=props))
        raw.expect("CONNACK", reason=BAD_METHOD)
        raw.expect_closed()

    def test_again_on_the_same_connection(self) -> None:
        raw = self.open()
        self.log_in(raw, Login(USER, PASSWORD))
        login = Login(USER, PASSWORD)
        raw.send(packets.auth(AGAIN, self.props(login.first)))
        challenge = raw.expect("AUTH", reason=CONTINUE).prop(Prop.AUTH_DATA)
        raw.send(packets.auth(CONTINUE, self.props(login.final(challenge))))
        done = raw.expect("AUTH", reason=0)
        self.assertEqual(login.signature, done.prop(Prop.AUTH_DATA))
        raw.ping()
