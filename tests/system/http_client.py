"""Plain HTTP clients for the admin listener, with user name and password: `pw-USER` for each."""

import base64
import http.client
import json
import socket
from typing import Any

from tests.system.process import PATIENCE_S

Address = tuple[str, int]


def ask(
    address: Address,
    method: str,
    path: str,
    body: Any = None,
    user: str = "ann",
    headers: dict[str, str] | None = None,
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an answer; `_` in names of headers stands for `-`."""
    connection = http.client.HTTPConnection(*address, timeout=PATIENCE_S)
    given = {name.replace("_", "-"): text for name, text in (headers or {}).items()}
    if isinstance(body, (dict, list)):
        body = json.dumps(body).encode()
        given["Content-Type"] = "application/json"
    try:
        connection.request(method, path, body, {**login(user), **given})
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def login(user: str) -> dict[str, str]:
    secret = base64.b64encode(f"{user}:pw-{user}".encode()).decode()
    return {"Authorization": f"Basic {secret}"} if user else {}


class EventStream:
    """A reader of server-sent events, which reads when it is told to."""

    def __init__(
        self,
        case: Any,
        query: str,
        user: str,
        last: str = "",
        path: str = "",
        address: Address | None = None,
    ) -> None:
        """Of MQTT, unless there is a path; at `case.admin`, unless there is an address."""
        self.sock = socket.socket()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        self.sock.settimeout(PATIENCE_S)
        case.addCleanup(self.sock.close)
        self.sock.connect(address or ("127.0.0.1", case.admin))
        lines = [f"GET {path or f'/mqtt/subscribe?{query}'} HTTP/1.1", "Host: localhost"]
        lines += [f"{name}: {value}" for name, value in login(user).items()]
        if last:
            lines.append(f"Last-Event-ID: {last}")
        self.sock.sendall("\r\n".join([*lines, "", ""]).encode())
        self.answer = http.client.HTTPResponse(self.sock, method="GET")
        self.answer.begin()

    def event(self) -> dict[str, Any]:
        """The next one; comments and the time to retry are passed over."""
        while True:
            fields: dict[str, Any] = {"event": "message"}
            while line := self.answer.readline().decode().rstrip("\n"):
                name, _, value = line.partition(": ")
                fields[name] = json.loads(value) if name == "data" else value
            if "data" in fields:
                return fields
            if len(fields) == 1:
                raise EOFError

    def message(self) -> tuple[str, str]:
        event = self.event()
        return event["data"]["topic"], event["data"]["payload"]

    def close(self) -> None:
        self.answer.close()
        self.sock.close()
