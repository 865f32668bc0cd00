"""The WebSocket handshake: who is let in, and what the others are told."""

import base64
import hashlib
from unittest import TestCase

import h11
from hypothesis import given
from hypothesis import strategies as st

from mhub.net.handshake import Accepted, Handshake, Refused
from tests.helpers.splits import cut, edges, one_by_one, steady

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
GOOD = {
    "Host": "broker.example:8083",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": KEY,
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Protocol": "mqtt",
}


def request(line: str = "GET /mqtt HTTP/1.1", **changes: str | None) -> bytes:
    """A good request with some headers changed, or, where None, left out."""
    headers: dict[str, str | None] = dict(GOOD)
    for name, value in changes.items():
        headers[name.replace("_", "-")] = value
    lines = [line] + [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def feed(handshake: Handshake, pieces: list[bytes]) -> Accepted | Refused | None:
    """The verdict, with what was still to come added to its rest."""
    for at, piece in enumerate(pieces):
        verdict = handshake.receive(piece)
        if isinstance(verdict, Accepted):
            rest = verdict.rest + b"".join(pieces[at + 1 :])
            return Accepted(**{**vars(verdict), "rest": rest})
        if verdict is not None:
            return verdict
    return None


class Accepting(TestCase):
    def accept(self, data: bytes, handshake: Handshake | None = None) -> Accepted:
        verdict = (handshake or Handshake()).receive(data)
        assert isinstance(verdict, Accepted), verdict
        return verdict

    def test_a_good_request_is_answered_as_the_rfc_says(self) -> None:
        """RFC 6455, 1.3 gives the answer to this very key."""
        verdict = self.accept(request(User_Agent="paho", Origin="https://example.org"))
        self.assertEqual(
            verdict.response,
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
            b"Sec-WebSocket-Protocol: mqtt\r\n\r\n",
        )
        self.assertEqual((verdict.subprotocol, verdict.rest), ("mqtt", b""))
        self.assertEqual(verdict.host, "broker.example:8083")
        self.assertEqual((verdict.user_agent, verdict.origin), ("paho", "https://example.org"))

    def test_bytes_behind_the_request_are_kept(self) -> None:
        frames = b"\x82\x80\x00\x00\x00\x00" * 3000
        for size in (1, 7, 300, 100_000):
            data = request() + frames
            pieces = [data[at : at + size] for at in range(0, len(data), size)]
            verdict = feed(Handshake(), pieces)
            assert isinstance(verdict, Accepted)
            self.assertEqual(verdict.rest, frames)

    def test_a_request_in_single_bytes(self) -> None:
        verdict = feed(Handshake(), one_by_one(request()))
        self.assertEqual(verdict, self.accept(request()))

    def test_headers_as_browsers_and_proxies_write_them(self) -> None:
        self.accept(request(Upgrade="WebSocket", Connection="keep-alive, Upgrade"))
        self.accept(request(Connection="keep-alive\r\nConnection: upgrade"))
        self.accept(request(Sec_WebSocket_Extensions="permessage-deflate; client_max_window_bits"))
        self.accept(request("GET /mqtt?token=1 HTTP/1.1"))

    def test_subprotocols(self) -> None:
        """[MQTT-6.0.0-4]"""
        for offer, chosen in (
            ("mqtt", "mqtt"),
            ("mqttv3.1", "mqttv3.1"),
            ("mqttv3.1, mqtt", "mqtt"),
            ("chat , mqtt", "mqtt"),
            ("chat\r\nSec-WebSocket-Protocol: mqttv3.1", "mqttv3.1"),
        ):
            verdict = self.accept(request(Sec_WebSocket_Protocol=offer))
            self.assertEqual(verdict.subprotocol, chosen)
            line = f"Sec-WebSocket-Protocol: {chosen}\r\n".encode()
            self.assertIn(line, verdict.response)

    def test_another_path(self) -> None:
        self.accept(request("GET /ws/ HTTP/1.1"), Handshake("/ws/"))
        self.accept(request("GET /whatever HTTP/1.1"), Handshake(""))

    def test_origins(self) -> None:
        origins = ("https://example.org", "https://*.example.net", "http://localhost:3000")
        for origin in (
            "https://example.org",
            "HTTPS://EXAMPLE.org",
            "https://app.example.net",
            "https://a.b.example.net",
            "http://localhost:3000",
            None,
        ):
            self.accept(request(Origin=origin), Handshake(origins=origins))
        self.accept(request(Origin="null"), Handshake(origins=["*"]))
        self.accept(request(Origin="null"))


class Refusing(TestCase):
    def refuse(
        self, data: bytes, status: int, words: str, handshake: Handshake | None = None
    ) -> bytes:
        """Refused with a whole HTTP response that says why; gives its body."""
        verdict = (handshake or Handshake()).receive(data)
        assert isinstance(verdict, Refused), verdict
        self.assertEqual(verdict.status, status)
        self.assertIn(words, verdict.text)
        client = h11.Connection(h11.CLIENT)
        client.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
        client.send(h11.EndOfMessage())
        client.receive_data(verdict.response)
        response = client.next_event()
        assert isinstance(response, h11.Response)
        self.assertEqual(response.status_code, status)
        self.headers = {name.decode(): value.decode() for name, value in response.headers}
        self.assertIn("close", self.headers["connection"])
        body = client.next_event()
        assert isinstance(body, h11.Data)
        self.assertIsInstance(client.next_event(), h11.EndOfMessage)
        return bytes(body.data)

    def test_no_subprotocol_of_mqtt(self) -> None:
        """[MQTT-6.0.0-3]"""
        self.refuse(request(Sec_WebSocket_Protocol=None), 400, "subprotocol 'mqtt'")
        self.refuse(request(Sec_WebSocket_Protocol="chat"), 400, "'chat'")
        self.refuse(request(Sec_WebSocket_Protocol="MQTT"), 400, "'MQTT'")

    def test_a_wrong_path_is_told_the_right_one(self) -> None:
        body = self.refuse(request("GET /mqtt2 HTTP/1.1"), 404, "is at /mqtt")
        self.assertIn(b"is at /mqtt", body)
        self.refuse(request("GET / HTTP/1.1"), 404, "nothing at '/'")

    def test_a_browser_gets_a_page(self) -> None:
        visit = request(
            Upgrade=None,
            Connection="keep-alive",
            Sec_WebSocket_Key=None,
            Accept="text/html,*/*;q=0.8",
        )
        body = self.refuse(visit, 426, "MQTT broker")
        self.assertEqual(self.headers["content-type"], "text/html; charset=utf-8")
        self.assertEqual(self.headers["upgrade"], "websocket")
        self.assertIn(b"<h1>Upgrade Required</h1>", body)

    def test_another_visitor_gets_text(self) -> None:
        body = self.refuse(b"GET /mqtt HTTP/1.1\r\nHost: x\r\n\r\n", 426, "MQTT broker")
        self.assertEqual(self.headers["content-type"], "text/plain; charset=utf-8")
        self.assertNotIn(b"<", body)

    def test_what_the_client_sent_is_escaped_and_short(self) -> None:
        line = "GET /<script>" + "x" * 5000 + " HTTP/1.1"
        body = self.refuse(request(line, Accept="text/html"), 404, "script")
        self.assertIn(b"&lt;script&gt;", body)
        self.assertLess(len(body), 500)

    def test_a_proxy_that_drops_headers(self) -> None:
        self.refuse(request(Upgrade=None), 426, "proxy")
        self.refuse(request(Connection="close"), 400, "proxy")

    def test_origins(self) -> None:
        for origin in (
            "https://evil.example",
            "http://example.org",
            "https://example.org.evil.example",
            "https://badexample.net",
            "https://example.net",
            "null",
        ):
            handshake = Handshake(origins=("https://example.org", "https://*.example.net"))
            self.refuse(request(Origin=origin), 403, origin, handshake)

    def test_versions(self) -> None:
        self.refuse(request(Sec_WebSocket_Version="8"), 426, "'8'")
        self.assertEqual(self.headers["sec-websocket-version"], "13")
        self.refuse(request(Sec_WebSocket_Version=None), 426, "13")
        self.refuse(request("GET /mqtt HTTP/1.0"), 400, "HTTP/1.1")

    def test_keys(self) -> None:
        for key in (None, "", "short", "dGhlIHNhbXBsZSBub25jZQ", KEY + "=", "ä" * 24):
            self.refuse(request(Sec_WebSocket_Key=key), 400, "Sec-WebSocket-Key")

    def test_headers_given_twice(self) -> None:
        twice = f"{KEY}\r\nSec-WebSocket-Key: {KEY}"
        self.refuse(request(Sec_WebSocket_Key=twice), 400, "twice")
        self.refuse(request(Host="a\r\nHost: b"), 400, "HTTP")

    def test_methods(self) -> None:
        self.refuse(request("POST /mqtt HTTP/1.1"), 405, "'POST'")
        self.assertEqual(self.headers["allow"], "GET")

    def test_head_gets_no_body(self) -> None:
        verdict = Handshake().receive(request("HEAD / HTTP/1.1"))
        assert isinstance(verdict, Refused)
        self.assertEqual(verdict.status, 405)
        self.assertTrue(verdict.response.endswith(b"\r\n\r\n"))

    def test_a_body(self) -> None:
        self.refuse(request(Content_Length="3") + b"abc", 400, "body")
        self.refuse(request(Content_Length="3"), 400, "body")
        self.refuse(request(Transfer_Encoding="chunked"), 400, "body")

    def test_broken_http(self) -> None:
        self.refuse(b"GET /mqtt\r\n\r\n", 400, "HTTP")
        self.refuse(b"GET /mqtt HTTP/1.1\r\n\r\n", 400, "HTTP")
        self.refuse(b"GET /mqtt HTTP/1.1\r\nno header\r\n\r\n", 400, "HTTP")

    def test_the_size_of_a_head_is_judged_alike_at_any_split(self) -> None:
        for size, accepted in ((400, True), (401, False)):
            data = request(X="x" * (size - len(request(X=""))))
            self.assertEqual(len(data), size)
            for step in (1, 100, 400, 401):
                pieces = [data[at : at + step] for at in range(0, size, step)]
                verdict = feed(Handshake(max_size=400), [*pieces, b"frames"])
                self.assertEqual(isinstance(verdict, Accepted), accepted)
        self.refuse(b"G" * 401, 431, "more than 400", Handshake(max_size=400))


class Strangers(TestCase):
    def test_what_is_no_http_gets_no_answer(self) -> None:
        for data, words in (
            (b"\x10\x0c\x00\x04MQTT", "MQTT without WebSocket"),
            (b"\x10", "MQTT without WebSocket"),
            (b"\x16\x03\x01\x02\x00", "a TLS ClientHello"),
            (b"\r\n\r\n\0\r\nQUIT\n!", "a PROXY protocol header"),
            (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n\r\n", "a PROXY protocol header"),
            (b"\xff\xfb\x01", "begins with ff fb 01"),
        ):
            verdict = Handshake().receive(data)
            assert isinstance(verdict, Refused), data
            self.assertEqual((verdict.response, verdict.status), (b"", 0))
            self.assertIn(words, verdict.text)


class Properties(TestCase):
    @steady
    @given(st.binary(max_size=300), edges)
    def test_any_bytes(self, data: bytes, marks: list[int]) -> None:
        """Any bytes are incomplete or get a verdict, the same one however they are cut."""
        for stream in (data, b"GET /mqtt HTTP/1.1\r\n" + data + b"\r\n\r\n", request() + data):
            whole = feed(Handshake(max_size=280), [stream])
            parts = feed(Handshake(max_size=280), cut(stream, marks))
            if isinstance(whole, Refused) and whole.status == 0:
                # The words about a stranger get better with more bytes.
                assert isinstance(parts, Refused)
                self.assertEqual(parts.status, 0)
            else:
                self.assertEqual(whole, parts)

    @steady
    @given(st.lists(st.tuples(st.sampled_from(list(GOOD)), st.text(max_size=20)), max_size=4))
    def test_any_headers(self, changes: list[tuple[str, str]]) -> None:
        """Whatever the headers hold, nobody is let in without key, version and subprotocol."""
        headers = {**GOOD, **dict(changes)}
        lines = [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join(["GET /mqtt HTTP/1.1", *lines, "", ""])
        verdict = Handshake().receive(head.encode())
        if isinstance(verdict, Accepted):
            key = headers["Sec-WebSocket-Key"].strip() + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            token = base64.b64encode(hashlib.sha1(key.encode()).digest())
            self.assertIn(token, verdict.response)
            self.assertIn("mqtt", headers["Sec-WebSocket-Protocol"])
