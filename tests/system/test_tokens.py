"""JSON Web Tokens at a real broker, with keys from a real web server."""

import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from tests.helpers import packets
from tests.helpers.packets import Prop
from tests.system.case import BrokerCase
from tests.system.process import Broker
from tests.system.raw import Raw

METHOD = "JWT"
AGAIN = 0x19
BAD_USER_OR_PASSWORD, NOT_AUTHORIZED, UNAVAILABLE = 0x86, 0x87, 0x88
MAXIMUM_CONNECT_TIME = 0xA0

CONFIG = """
[[listeners]]
name = "users"
port = 0

[[auth]]
type = "jwt"
listeners = ["users"]
jwks_url = "http://127.0.0.1:{port}/keys"
leeway_s = 0
audience = ["mhub"]
"""


class Issuer:
    """Has keys, publishes them, makes tokens."""

    def __init__(self) -> None:
        self.keys = {"a": ec.generate_private_key(ec.SECP256R1())}
        self.asked = 0
        self.redirect = ""
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked += 1
                self.send_response(302 if issuer.redirect else 200)
                if issuer.redirect:
                    self.send_header("Location", issuer.redirect)
                self.end_headers()
                self.wfile.write(issuer.document())

            def log_message(self, *arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        Thread(target=self.server.serve_forever, daemon=True).start()

    def document(self) -> bytes:
        to_jwk: Any = jwt.algorithms.ECAlgorithm.to_jwk
        keys = [
            {**json.loads(to_jwk(key.public_key())), "kid": kid} for kid, key in self.keys.items()
        ]
        return json.dumps({"keys": keys}).encode()

    def token(self, for_s: float = 60.0, user: str = "pump-7", kid: str = "a") -> str:
        claims = {"sub": user, "aud": "mhub", "exp": time.time() + for_s}
        return jwt.encode(claims, self.keys[kid], "ES256", headers={"kid": kid})

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class TokenTests(BrokerCase):
    def setUp(self) -> None:
        self.issuer = Issuer()
        self.addCleanup(self.issuer.stop)

    def begin(self) -> Broker:
        return self.start(CONFIG.format(port=self.issuer.port))

    def raw(self, broker: Broker) -> Raw:
        raw = Raw(("127.0.0.1", broker.ports["users"]), 5)
        self.addCleanup(raw.sock.close)
        return raw

    def login(self, broker: Broker, token: str) -> int:
        raw = self.raw(broker)
        raw.send(packets.connect("c", 5, username="x", password=token))
        reason: int = raw.expect("CONNACK").reason
        return reason

    def test_as_a_password(self) -> None:
        broker = self.begin()
        self.assertEqual(self.login(broker, self.issuer.token()), 0)
        broker.wait_for_log("user 'pump-7'")
        self.assertEqual(self.login(broker, self.issuer.token(-1)), NOT_AUTHORIZED)
        self.assertEqual(self.login(broker, "not a token"), BAD_USER_OR_PASSWORD)
        self.assertEqual(self.login(broker, self.issuer.token() + "x"), BAD_USER_OR_PASSWORD)
        self.assertNotIn(self.issuer.token()[:30], broker.log())

    def test_the_connection_ends_with_the_token(self) -> None:
        broker = self.begin()
        raw = self.raw(broker)
        raw.send(packets.connect("c", 5, username="x", password=self.issuer.token(1.5)))
        raw.expect("CONNACK", reason=0)
        raw.expect("DISCONNECT", reason=MAXIMUM_CONNECT_TIME)
        raw.expect_closed()

    def test_renewed(self) -> None:
        """By AUTH: the connection outlives the first token."""
        broker = self.begin()
        raw = self.raw(broker)
        first = [(Prop.AUTH_METHOD, METHOD), (Prop.AUTH_DATA, self.issuer.token(1.5).encode())]
        raw.send(packets.connect("c", 5, props=first))
        raw.expect("CONNACK", reason=0)
        second = [(Prop.AUTH_METHOD, METHOD), (Prop.AUTH_DATA, self.issuer.token(60).encode())]
        raw.send(packets.auth(AGAIN, second))
        raw.expect("AUTH", reason=0)
        time.sleep(2.5)  # the first one has expired
        raw.ping()

    def test_renewed_for_another_user(self) -> None:
        broker = self.begin()
        raw = self.raw(broker)
        first = [(Prop.AUTH_METHOD, METHOD), (Prop.AUTH_DATA, self.issuer.token().encode())]
        raw.send(packets.connect("c", 5, props=first))
        raw.expect("CONNACK", reason=0)
        token = self.issuer.token(user="admin").encode()
        raw.send(packets.auth(AGAIN, [(Prop.AUTH_METHOD, METHOD), (Prop.AUTH_DATA, token)]))
        raw.expect("DISCONNECT", reason=NOT_AUTHORIZED)

    def test_no_redirects(self) -> None:
        """Keys come from where the configuration says, and from nowhere else."""
        other = Issuer()
        self.addCleanup(other.stop)
        self.issuer.redirect = f"http://127.0.0.1:{other.port}/"
        self.issuer.keys, other.keys = {}, self.issuer.keys
        broker = self.begin()
        self.assertEqual(self.login(broker, other.token()), UNAVAILABLE)
        self.assertEqual(other.asked, 0)
        broker.wait_for_log("cannot fetch keys")
        broker.wait_for_log("the authenticator jwt cannot tell who clients are")
