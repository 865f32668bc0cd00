"""Requests to the admin API: their answers, and what a user is told when there is none."""

import json
import os
import ssl
import subprocess
from argparse import Namespace
from pathlib import Path
from unittest import mock

from twisted.trial.unittest import TestCase

from mhub.control.contract import ControlError
from mhub.ctl.client import Api, Refused, encoded_query, events
from mhub.ctl.place import Place, place_of
from tests.ctl.canned import answer, canned_port, canned_socket, chunked, problem


class ClientCase(TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp()).absolute()
        self.folder.mkdir()
        self.path = self.folder / "control.sock"

    @property
    def api(self) -> Api:
        return Api(Place(socket=str(self.path)))

    def error(self, silence_s: float = 30.0) -> str:
        api = self.api
        api.silence_s = silence_s
        return str(self.assertRaises(ControlError, api.get, "x"))


class AnswerTests(ClientCase):
    def test_get(self) -> None:
        with canned_socket(self.path, {"a": [1, None]}) as canned:
            found = self.api.get("clients", match="a*", limit=5, sys=False)
        self.assertEqual(found, {"a": [1, None]})
        (asked,) = canned.requests
        query = {"match": "a*", "limit": "5", "sys": "false"}
        self.assertEqual(asked.short, ("GET", "clients", query))
        self.assertNotIn("Authorization", asked.headers)

    def test_post(self) -> None:
        with canned_socket(self.path, {"version": "1"}) as canned:
            api = self.api
            api.reason = "they asked"
            self.assertEqual(api.post("users", name="é"), {"version": "1"})
        (asked,) = canned.requests
        self.assertEqual(asked.short, ("POST", "users", {"reason": "they asked"}))
        self.assertEqual(asked.body, {"name": "é"})
        self.assertEqual(asked.headers["Content-Type"], "application/json")

    def test_version(self) -> None:
        with canned_socket(self.path, {}) as canned:
            self.api.call("DELETE", "user", {"name": "a"}, version="7")
        self.assertEqual(canned.requests[0].headers["If-Match"], '"7"')

    def test_no_content(self) -> None:
        with canned_socket(self.path, b"HTTP/1.1 204 No Content\r\n\r\n"):
            self.assertIsNone(self.api.call("POST", "logout"))

    def test_other_paths(self) -> None:
        with canned_socket(self.path, {}) as canned:
            self.api.get("/stats")
        self.assertEqual(canned.requests[0].path, "/stats")

    def test_any_text(self) -> None:
        for text in ("a&b=c#d", "é\U0001f41d", "100% +?/", "\n\x1b"):
            with canned_socket(self.path, {}) as canned:
                self.api.get("client", client_id=text)
            self.assertEqual(canned.requests[0].query, {"client_id": text})
            self.path.unlink()

    def test_bytes_of_a_command_line_that_are_not_utf8(self) -> None:
        """The broker says what it thinks of them."""
        self.assertEqual(encoded_query({"client_id": "a\udcff"}), "client_id=a%FF")

    def test_lists_in_queries(self) -> None:
        self.assertEqual(encoded_query({"role": ["a", "b"], "all": True}), "role=a&role=b&all=true")

    def test_long_answer(self) -> None:
        with canned_socket(self.path, {"x": "x" * 1_000_000}):
            self.assertEqual(self.api.get("x"), {"x": "x" * 1_000_000})

    def test_refused(self) -> None:
        with canned_socket(self.path, problem(409, "not today")):
            error = self.assertRaises(Refused, self.api.get, "x")
        self.assertEqual((error.status, str(error)), (409, "not today"))

    def test_strange_results(self) -> None:
        with canned_socket(self.path, [1]):
            self.assertIn("does not understand", self.error())


class StreamTests(ClientCase):
    def test_lines(self) -> None:
        with canned_socket(self.path, chunked(b"one\ntw", b"o\n", b"three")):
            self.assertEqual(list(self.api.lines("GET", "x")), [b"one\n", b"two\n", b"three"])

    def test_cut_off(self) -> None:
        """Whoever gets a part is told that it is one."""
        got = []
        with canned_socket(self.path, chunked(b"one\n", ends=False)):
            lines = self.api.lines("GET", "x")
            with self.assertRaisesRegex(ControlError, "went away without an answer"):
                for line in lines:
                    got.append(line)
        self.assertEqual(got, [b"one\n"])

    def test_refused(self) -> None:
        with canned_socket(self.path, problem(409, "not today")):
            self.assertRaises(Refused, list, self.api.lines("GET", "x"))

    def test_events(self) -> None:
        text = b'retry: 2000\n\nid: 1\nevent: packet\ndata: {"a": 1}\n\n: hi\n\ndata: {"b": 2}\n\n'
        found = list(events(iter(text.splitlines(keepends=True))))
        self.assertEqual(found, [("packet", {"a": 1}), ("message", {"b": 2})])


class NobodyTests(ClientCase):
    def test_nobody_there(self) -> None:
        """Neither a file, nor a socket that was left behind, nor a wrong path is a broker."""
        text = f"no broker answers at {self.path}: is it running, and is that its control socket?"
        self.assertEqual(self.error(), text)
        with canned_socket(self.path, {}):
            self.api.get("x")
        self.assertEqual(self.error(), text)
        self.path.unlink()
        self.path.write_text("a file")
        self.assertEqual(self.error(), text)
        self.path = self.path / "below"
        self.assertIn("no broker answers at", self.error())

    def test_not_allowed(self) -> None:
        # Not by the file's mode, which does not keep out root.
        with mock.patch("mhub.ctl.client.short_name", side_effect=PermissionError()):
            self.assertIn(f"not allowed to use {self.path}: run this as the user", self.error())

    def test_busy(self) -> None:
        with mock.patch("mhub.ctl.client.short_name", side_effect=BlockingIOError()):
            self.assertIn("does not take the connection", self.error())

    def test_other_errors(self) -> None:
        self.path = self.folder / ("x" * 200)
        self.assertIn(f"cannot connect to {self.path}: ", self.error())

    def test_silence(self) -> None:
        with canned_socket(self.path, b"HTTP/1.1 200 OK\r\n", silent=True):
            self.assertEqual(
                self.error(silence_s=0.01),
                f"nothing was received from the broker at {self.path} for 0.01 s; its log may tell"
                " why",
            )

    def test_no_answer(self) -> None:
        whole = answer({"a": 1})
        for data in (b"", whole[:20], whole[:-1], chunked(b"x")[:-10]):
            with canned_socket(self.path, data):
                self.assertEqual(
                    self.error(),
                    f"the broker at {self.path} went away without an answer: has it ended?",
                )
            self.path.unlink()

    def test_strangers(self) -> None:
        deep = answer(json.loads("{}")).replace(b"Content-Length: 2", b"Content-Length: 100002")
        for data in (
            b"220 mail.example.org ESMTP\r\n",
            b"HTTP/1.1 OK\r\n",
            b"x" * 100_000,
            answer({})[:-2].replace(b"Content-Length: 2", b"Content-Length: 3") + b"{]}",
            deep[:-2] + b"[" * 100_002,
            chunked().replace(b"0\r\n", b"no number\r\n"),
            answer([], 409, "application/problem+json"),
        ):
            with canned_socket(self.path, data):
                self.assertEqual(
                    self.error(), f"what answers at {self.path} is not a broker's control socket"
                )
            self.path.unlink()
        with (
            mock.patch("mhub.ctl.client.MAX_LINE", 1000),
            canned_socket(self.path, {"a": "x" * 2000}),
        ):
            self.assertIn("is not a broker's control socket", self.error())

    def test_a_proxy(self) -> None:
        with canned_socket(self.path, b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"):
            self.assertIn("answers with the status 502", self.error())


class RemoteTests(ClientCase):
    def setUp(self) -> None:
        super().setUp()
        self.patch(os, "environ", {"PATH": os.environ.get("PATH", "")})

    def place(self, url: str, token: str = "", ca: str = "") -> Place:
        file = None
        if token:
            file = str(self.folder / "token")
            Path(file).write_text(f"{token}\n")
        args = Namespace(url=url, token_file=file, ca=ca, socket=None, config=None)
        found = place_of(args)
        assert found is not None
        return found

    def refused(self, url: str, token: str = "") -> str:
        return str(self.assertRaises(ControlError, self.place, url, token))

    def test_urls(self) -> None:
        for url, host, port, prefix in (
            ("https://hub.example.org", "hub.example.org", 443, ""),
            ("http://localhost/", "localhost", 80, ""),
            ("https://hub:8088/mhub/", "hub", 8088, "/mhub"),
            ("https://[::1]:8088", "::1", 8088, ""),
            ("https://[::1]", "::1", 443, ""),
        ):
            place = self.place(url)
            self.assertEqual((place.hostname, place.port, place.prefix), (host, port, prefix))
        for url in (
            "hub:8088",
            "ftp://hub",
            "https://",
            "https://hub:x",
            "https://me:pw@hub",
            "https://h?x",
        ):
            self.assertIn("expected https://HOST:PORT", self.refused(url))

    def test_token(self) -> None:
        with canned_port({"a": 1}) as (canned, port):
            place = self.place(f"http://127.0.0.1:{port}/behind", "mhub_secret")
            self.assertEqual(Api(place).get("status"), {"a": 1})
        (asked,) = canned.requests
        self.assertEqual(asked.headers["Authorization"], "Bearer mhub_secret")
        self.assertEqual(asked.path, "/behind/admin/v1/status")
        self.assertNotIn("secret", place.address)

    def test_a_token_needs_tls(self) -> None:
        self.assertIn("not sent over a network without TLS", self.refused("http://hub", "secret"))

    def test_no_token_in_the_file(self) -> None:
        for text in ("\n", "two words\n", "é\n"):
            (self.folder / "empty").write_text(text)
            args = Namespace(
                url="https://hub", token_file=str(self.folder / "empty"), ca=None, socket=None
            )
            error = self.assertRaises(ControlError, place_of, args)
            self.assertIn("there is no token in it", str(error))

    def test_environment(self) -> None:
        os.environ.update(MHUB_URL="https://hub:1", MHUB_TOKEN="secret", MHUB_CA="/ca.pem")
        args = Namespace(url=None, token_file=None, ca=None, socket=None, config=None)
        place = place_of(args)
        assert place is not None
        self.assertEqual((place.address, place.token), ("https://hub:1", "secret"))
        self.assertEqual(place.ca, "/ca.pem")
        args.socket = "x.sock"
        self.assertEqual(place_of(args), Place(socket="x.sock"))

    def test_options_of_a_url_alone(self) -> None:
        args = Namespace(url=None, token_file="x", ca=None, socket="y", config=None)
        error = self.assertRaises(ControlError, place_of, args)
        self.assertIn("--token-file: this is for --url", str(error))

    def test_not_logged_in(self) -> None:
        with canned_port(problem(401, "this token has expired")) as (_, port):
            place = self.place(f"http://127.0.0.1:{port}", "secret")
            error = self.assertRaises(Refused, Api(place).get, "status")
        self.assertIn("does not accept the token: this token has expired", str(error))
        with canned_port(problem(401, "log in first")) as (_, port):
            error = self.assertRaises(Refused, Api(self.place(f"http://127.0.0.1:{port}")).get, "x")
        self.assertIn("wants a token: give one by --token-file FILE or MHUB_TOKEN", str(error))

    def test_nobody(self) -> None:
        with canned_port() as (_, port):
            pass
        text = self.remote_error(f"http://127.0.0.1:{port}")
        self.assertIn(f"nobody answers at http://127.0.0.1:{port}: is the broker running", text)

    def remote_error(self, url: str, ca: str = "") -> str:
        return str(self.assertRaises(ControlError, Api(self.place(url, ca=ca)).get, "x"))

    def certificate(self) -> tuple[ssl.SSLContext, str]:
        key, cert = str(self.folder / "key.pem"), str(self.folder / "cert.pem")
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"),
                *("ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert),
                *("-days", "2", "-subj", "/CN=hub", "-addext", "subjectAltName=IP:127.0.0.1"),
            ],
            check=True,
            capture_output=True,
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        return context, cert

    def test_tls(self) -> None:
        tls, ca = self.certificate()
        with canned_port({"a": 1}, tls=tls) as (_, port):
            place = self.place(f"https://127.0.0.1:{port}", "secret", ca)
            self.assertEqual(Api(place).get("x"), {"a": 1})
        with canned_port({"a": 1}, tls=tls) as (_, port):
            text = self.remote_error(f"https://127.0.0.1:{port}")
        self.assertIn(f"the certificate of https://127.0.0.1:{port} is not trusted: self-", text)
        self.assertIn("--ca FILE", text)
        with canned_port({"a": 1}, tls=tls) as (_, port):
            text = self.remote_error(f"https://localhost:{port}", ca)
        self.assertIn("Hostname mismatch", text)

    def test_no_tls_there(self) -> None:
        with canned_port({"a": 1}) as (_, port):
            text = self.remote_error(f"https://127.0.0.1:{port}")
        self.assertIn(f"https://127.0.0.1:{port}", text)

    def test_no_such_ca(self) -> None:
        with canned_port({"a": 1}) as (_, port):
            text = self.remote_error(f"https://127.0.0.1:{port}", "/nowhere.pem")
        self.assertIn("--ca /nowhere.pem: No such file", text)
