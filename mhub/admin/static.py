"""The files of the dashboard, from memory: all of them together are small.

Each is there twice, as it is and compressed, with a digest by which a browser finds out that it has
it already.  Only names that were found at the start are served: a path is never made into the name
of a file.
"""

import gzip
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

from klein import Klein

from mhub.admin.app import POLICY, set_headers

TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}

INDEX: Final = "/index.html"


@dataclass(frozen=True)
class File:
    media_type: str
    data: bytes
    compressed: bytes
    etag: str


class StaticFiles:
    def __init__(
        self,
        folder: Traversable | None = None,
        sockets: Callable[[str], Iterable[str]] = lambda host: (),
    ) -> None:
        """`sockets(host)` are the WebSockets that the MQTT console may connect to."""
        self.files: dict[str, File] = {}
        self._sockets = sockets
        self._read(folder if folder is not None else files("mhub.admin") / "static", "")

    def _read(self, folder: Traversable, path: str) -> None:
        if not folder.is_dir():
            return
        for each in folder.iterdir():
            name = f"{path}/{each.name}"
            if each.is_dir():
                self._read(each, name)
                continue
            self.add(name, each.read_bytes())

    def add(self, path: str, data: bytes) -> None:
        """A file of a type that pages are made of; others are left out."""
        media_type = TYPES.get("." + path.rpartition(".")[2])
        if media_type is not None and data:
            digest = sha256(data).hexdigest()[:32]
            compressed = gzip.compress(data, 9, mtime=0)
            self.files[path] = File(media_type, data, compressed, f'"{digest}"')

    def add_to(self, app: Klein) -> None:
        """A page has one document; which of its views is shown is in the fragment."""
        for name in self.files:
            for path in [name, "/"] if name == INDEX else [name]:
                app.route(path, methods=("GET", "HEAD"), endpoint=f"static {path}")(
                    self._handler(name)
                )

    def _handler(self, name: str) -> Callable[[Any], bytes]:
        def serve(request: Any) -> bytes:
            return self._serve(request, self.files[name])

        return serve

    def _serve(self, request: Any, file: File) -> bytes:
        set_headers(request, {"Cache-Control": "no-cache", "ETag": file.etag})
        request.setHeader("Content-Type", file.media_type)
        request.setHeader("Vary", "Accept-Encoding")
        sockets = " ".join(self._sockets(_host(request)))
        if sockets:
            request.setHeader("Content-Security-Policy", f"{POLICY}; connect-src 'self' {sockets}")
        if request.getHeader("if-none-match") == file.etag:
            request.setResponseCode(304)
            return b""
        data = file.data
        if "gzip" in (request.getHeader("accept-encoding") or ""):
            request.setHeader("Content-Encoding", "gzip")
            data = file.compressed
        request.setHeader("Content-Length", str(len(data)))
        return data


_HOST: Final = re.compile(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")


def _host(request: Any) -> str:
    """The name by which the page was asked for; "" if it is none."""
    found = _HOST.fullmatch(request.getHeader("host") or "")
    return found[1] if found is not None else ""
