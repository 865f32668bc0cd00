"""HTTP requests to the admin side of a broker in a process of its own."""

import base64
import http.client
import json
import re
import socket
from typing import Any

from tests.system.process import Broker, wait_until

ADMIN = "[admin]\nport = 0\n"
PASSWORD = "a long enough password"

_PORT = re.compile(r"admin API and dashboard on https?://\S+:(\d+)")
_FIRST = re.compile(r"Password +(\S+)")


class Reply:
    def __init__(self, status: int, headers: http.client.HTTPMessage, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"<{self.status} {self.body[:300]!r}>"


class Unix(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("mhub", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(30)
        self.sock.connect(self._path)


class Web:
    """One who asks; without credentials, nobody in particular."""

    def __init__(self, broker: Broker, **headers: str) -> None:
        wait_until(lambda: _PORT.search(broker.log()) is not None, "the admin listener opens")
        found = _PORT.search(broker.log())
        assert found is not None
        self.broker = broker
        self.port = int(found[1])
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        return _ask(connection, method, path, body, {**self.headers, **(headers or {})})

    def get(self, path: str, **headers: str) -> Reply:
        return self.ask("GET", path, headers=headers)

    def begin(self, path: str) -> Reply:
        """The head of a stream, which is then left; an error has a body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path, None, self.headers)
            answer = connection.getresponse()
            body = answer.read() if answer.status != 200 else b""
            return Reply(answer.status, answer.headers, body)
        finally:
            connection.close()

    def local(self, method: str, path: str, body: object = None) -> Reply:
        """At the control socket."""
        socket_path = self.broker.directory / "mhub-data" / "control.sock"
        return _ask(Unix(str(socket_path)), method, path, body, {})

    # Who asks

    def as_user(self, name: str, password: str = PASSWORD) -> "Web":
        """With a session."""
        reply = self.ask("POST", "/admin/v1/login", {"user": name, "password": password})
        assert reply.status == 200, reply
        cookie = str(reply.headers["Set-Cookie"]).partition(";")[0]
        return Web(self.broker, Cookie=cookie, X_CSRF_Token=reply.json["csrf"])

    def as_basic(self, name: str, password: str = PASSWORD) -> "Web":
        pair = base64.b64encode(f"{name}:{password}".encode()).decode()
        return Web(self.broker, Authorization=f"Basic {pair}")

    def as_token(self, *scopes: str, roles: tuple[str, ...] = ("admin",)) -> "Web":
        reply = self.local(
            "POST",
            "/admin/v1/tokens",
            {"name": f"t{abs(hash((scopes, roles)))}", "scopes": scopes, "roles": roles},
        )
        assert reply.status == 200, reply
        return Web(self.broker, Authorization=f"Bearer {reply.json['token']}")

    def add_user(self, name: str, *roles: str) -> None:
        reply = self.local(
            "POST",
            "/admin/v1/users",
            {"name": name, "password": PASSWORD, "roles": roles},
        )
        assert reply.status == 200, reply

    def allow(self, *rows: str) -> None:
        add = [[field.strip() for field in row.split(",")] for row in rows]
        reply = self.local("POST", "/admin/v1/policies/change", {"add": add})
        assert reply.status == 200, reply

    def first_password(self) -> str:
        """That of the user `admin`, as the console has shown it."""
        wait_until(lambda: _FIRST.search(self.broker.log()) is not None, "the first password")
        found = _FIRST.search(self.broker.log())
        assert found is not None
        return found[1]


def _ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: object,
    headers: dict[str, str],
) -> Reply:
    data: bytes | None = None
    if isinstance(body, bytes):
        data = body
    elif body is not None:
        data = json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **headers}
    try:
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        return Reply(answer.status, answer.headers, answer.read())
    finally:
        connection.close()
