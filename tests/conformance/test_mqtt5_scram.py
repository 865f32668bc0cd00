"""MQTT 5, chapter 4.12 with a real method: SCRAM-SHA-256 over AUTH packets (RFC 5802, RFC 7677)."""

import base64
import hashlib
import hmac

from mhub.auth.scram import METHOD
from mhub.auth.users import make_verifier
from tests.auth.world import World
from tests.conformance import mqtt5 as p5
from tests.conformance.mqtt5 import Mqtt5Case, Reason
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.client import RawClient
from tests.helpers.packets import Packet, Prop
from tests.helpers.users import write_users


class Login:
    """The client's half of SCRAM-SHA-256."""

    def __init__(self, user: str, password: str) -> None:
        self.bare = f"n={user},r=client-nonce"
        self.password = password
        self.server_signature = b""

    def first(self) -> bytes:
        return b"n,," + self.bare.encode()

    def final(self, server_first: bytes) -> bytes:
        fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
        salt, rounds = base64.b64decode(fields["s"]), int(fields["i"])
        salted = hashlib.pbkdf2_hmac("sha256", self.password.encode(), salt, rounds)
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        server_key = hmac.digest(salted, b"Server Key", "sha256")
        unproven = "c=biws,r=" + fields["r"]
        said = ",".join((self.bare, server_first.decode(), unproven)).encode()
        signature = hmac.digest(hashlib.sha256(client_key).digest(), said, "sha256")
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self.server_signature = hmac.digest(server_key, said, "sha256")
        return f"{unproven},p={base64.b64encode(proof).decode()}".encode()


class Scram(Mqtt5Case):
    def setUp(self) -> None:
        super().setUp()
        users = self.mktemp()
        verifier = make_verifier("secret", 4096)
        write_users(users, alice=verifier, bob=verifier)
        self.start()
        world = World()
        world.add("password-file", file=users)
        world.start()
        self.hub.admission.methods.update(world.chain.methods)

    def auth(self, reason: int, data: bytes) -> bytes:
        return p.auth(reason, [(Prop.AUTH_METHOD, METHOD), (Prop.AUTH_DATA, data)])

    def begin(self, login: Login) -> tuple[RawClient, Packet]:
        """Up to the challenge of the broker."""
        client = self.open()
        props = [(Prop.AUTH_METHOD, METHOD), (Prop.AUTH_DATA, login.first())]
        client.send(p5.connect(props=props))
        challenge = client.expect("AUTH", reason=Reason.CONTINUE)
        self.assertEqual(METHOD, challenge.prop(Prop.AUTH_METHOD))
        return client, challenge

    def enter(self, login: Login) -> RawClient:
        client, challenge = self.begin(login)
        client.send(self.auth(Reason.CONTINUE, login.final(challenge.prop(Prop.AUTH_DATA))))
        client.connack = client.expect("CONNACK", reason=0)
        return client

    @statement("5", "MQTT-4.12.0-2", "MQTT-4.12.0-5")
    def test_the_right_password(self) -> None:
        """CONNACK proves that the broker knows the password as well."""
        login = Login("alice", "secret")
        client = self.enter(login)
        assert client.connack is not None
        proof = b"v=" + base64.b64encode(login.server_signature)
        self.assertEqual(proof, client.connack.prop(Prop.AUTH_DATA))
        client.ping()

    @statement("5", "MQTT-4.12.0-4")
    def test_a_wrong_password_or_an_unknown_user(self) -> None:
        """Both get as far as the challenge and are refused in the same way."""
        for login in (Login("alice", "wrong"), Login("mallory", "secret")):
            with self.case(login.bare):
                client, challenge = self.begin(login)
                final = login.final(challenge.prop(Prop.AUTH_DATA))
                client.send(self.auth(Reason.CONTINUE, final))
                client.closed_after("CONNACK", reason=Reason.NOT_AUTHORIZED)

    @statement("5", "MQTT-4.12.0-4")
    def test_nonsense(self) -> None:
        """Whatever the data is, there is one clean refusal."""
        for data in (b"", b"\xff", b"n,,", b"n,,n=alice", b"x" * 65000):
            with self.case(data[:10]):
                props = [(Prop.AUTH_METHOD, METHOD), (Prop.AUTH_DATA, data)]
                self.refused(p5.connect(props=props), Reason.NOT_AUTHORIZED)
        packet = p5.connect(props=[(Prop.AUTH_METHOD, METHOD)])
        self.refused(packet, Reason.NOT_AUTHORIZED)

    @statement("5", "MQTT-4.12.1-1", "MQTT-4.12.1-2")
    def test_again(self) -> None:
        """The same user may prove itself again; another one may not take its place."""
        for user, answer in (("alice", "AUTH"), ("bob", "DISCONNECT")):
            with self.case(user):
                client = self.enter(Login("alice", "secret"))
                login = Login(user, "secret")
                client.send(self.auth(Reason.REAUTHENTICATE, login.first()))
                challenge = client.expect("AUTH", reason=Reason.CONTINUE)
                final = login.final(challenge.prop(Prop.AUTH_DATA))
                client.send(self.auth(Reason.CONTINUE, final))
                client.expect(answer)
