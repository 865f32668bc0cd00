"""The answer to one request at the control socket: lines, and the last one of them."""

from collections.abc import Mapping
from typing import Any, Final

from mhub.control.contract import to_line
from mhub.web.stream import Stream

CONTENT_TYPE: Final = b"application/x-ndjson"


class Answer(Stream):
    """Whoever cancels `ended` has seen the client go."""

    def __init__(self, request: Any, reactor: Any) -> None:
        self.asked: bytes = request.content.read()
        request.setHeader(b"Content-Type", CONTENT_TYPE)
        super().__init__(request, reactor)

    def say(self, text: str) -> None:
        """How far it has come."""
        self.write(to_line({"progress": text}))

    def end(self, last: Mapping[str, object]) -> None:
        self.finish(to_line(last))  # which may fail: then nothing of it is written

    def fail(self, code: int, text: str) -> None:
        if not self.begun and not self.is_gone:
            self._request.setResponseCode(code)
        self.end({"error": text})
