"""The keys that tokens are checked with: from files, which may change, and from the issuer's URL.

A file with a mistake changes nothing.  Keys from a URL are fetched at the start, now and then, and
when a token names a key that is not known, though not more often than each MIN_PAUSE_S, or anybody
could make the broker ask the issuer for each CONNECT.  While the issuer does not answer, the keys
that it had stay; without any, it cannot be told who a client is.
"""

import os
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as DeferredTimeout
from twisted.python.failure import Failure

from mhub.auth import jwt_keys
from mhub.auth.contract import Context
from mhub.auth.jwt_keys import BadKey, Key
from mhub.log import logger

if TYPE_CHECKING:
    from mhub.auth.jwt import Settings

MIN_PAUSE_S: Final = 10.0
MAX_BODY: Final = 1 << 20
LOCAL: Final = ("localhost", "127.0.0.1", "::1")


def url_problem(url: str) -> str:
    """What is wrong with where keys shall be fetched from."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        parts.port  # noqa: B018 (raises)
    except ValueError:
        return "not a URL"
    if not host or parts.scheme not in ("https", "http"):
        return "not a URL of a web server"
    if parts.username is not None or parts.password is not None:
        return "there is no user in this URL"
    if parts.scheme == "http" and host not in LOCAL:
        return "expected https: whoever could change the keys on their way could be anybody"
    return ""


def keys_in(kind: str, data: bytes) -> list[Key]:
    """The keys of a file; `kind` is the setting that names it.  Raises BadKey."""
    if kind == "secret_file":
        return [jwt_keys.secret_key(data.strip(b"\r\n"))]
    if kind == "key_file":
        return [jwt_keys.pem_key(data)]
    found = jwt_keys.jwks_keys(data, secrets=True)
    if not found:
        raise BadKey("there is no key for signatures in it that is known here")
    return found


class _File:
    """A file with keys, read again when it has changed."""

    def __init__(self, source: str, kind: str, path: str) -> None:
        self._log = logger("auth")
        self._source = source
        self._kind = kind
        self._path = path
        self._mark = (0, 0, 0)
        self.keys: list[Key] = []

    def refresh(self, *, always: bool = False) -> None:
        mark = self._stat()
        if mark == self._mark and not always:
            return
        self._mark = mark
        try:
            with open(self._path, "rb") as file:
                self.keys = keys_in(self._kind, file.read(MAX_BODY))
        except (OSError, BadKey) as error:
            why = error.strerror if isinstance(error, OSError) else error
            self._log.error(
                "{name}: keys not reloaded, they stay as they were: {path}: {why}",
                name=self._source,
                path=self._path,
                why=why,
            )

    def _stat(self) -> tuple[int, int, int]:
        try:
            found = os.stat(self._path)
        except OSError:
            return (0, 0, 0)
        return (found.st_mtime_ns, found.st_ino, found.st_size)


class KeySet:
    """All keys of one source."""

    def __init__(
        self, name: str, settings: "Settings", context: Context, client: Any = None
    ) -> None:
        self._log = logger("auth")
        self._name = name
        self._settings = settings
        self._reactor = context.reactor
        self._clock = context.clock
        self._fixed = [jwt_keys.secret_key(settings.secret.encode())] if settings.secret else []
        self._files = [
            _File(name, kind, path)
            for kind in ("secret_file", "key_file", "jwks_file")
            if (path := getattr(settings, kind))
        ]
        self._fetched: list[Key] = []
        self._client = client
        self._due: Any = None  # the call that fetches next
        self._fetching = False
        self._waiting: list[Deferred[None]] = []
        self._tried_at: float | None = None
        self.problem = ""  # why there are no keys from the URL
        if settings.jwks_url:
            self.problem = "the keys of the issuer were not fetched yet"
            if client is None:
                from mhub.auth.http_client import HttpClient

                self._client = HttpClient(context.reactor, 1, MAX_BODY, (settings.ca, "", ""))

    def start(self) -> None:
        self.reload()

    def stop(self) -> "Deferred[None] | None":
        if self._due is not None and self._due.active():
            self._due.cancel()
        self._due = None
        closed: Deferred[None] | None = None
        if self._client is not None:
            closed = self._client.stop()
        return closed

    def reload(self) -> None:
        for file in self._files:
            file.refresh(always=True)
        if self._settings.jwks_url:
            self._begin()

    def choose(self, kid: str, algorithm: str) -> list[Key]:
        for file in self._files:
            file.refresh()
        found = [*self._fixed, *self._fetched]
        for file in self._files:
            found += file.keys
        return jwt_keys.choose(found, kid, algorithm)

    def may_find(self, kid: str) -> bool:
        """Whether it is worth to wait for the issuer: it is being asked, or may be."""
        if not self._settings.jwks_url or (not kid and self._fetched):
            return False
        return (
            self._fetching
            or self._tried_at is None
            or self._clock() >= self._tried_at + MIN_PAUSE_S
        )

    def fetch(self) -> "Deferred[None]":
        """When the issuer has answered, or did not in time."""
        waiting: Deferred[None] = Deferred(lambda _: self._waiting.remove(waiting))
        self._waiting.append(waiting)
        self._begin()
        return waiting

    def _begin(self) -> None:
        if self._fetching:
            return
        if self._due is not None and self._due.active():
            self._due.cancel()
        self._fetching = True
        self._tried_at = self._clock()
        url, timeout_s = self._settings.jwks_url, self._settings.jwks_timeout_s
        asked = self._client.request("GET", url, {}, b"")
        asked.addTimeout(timeout_s, self._reactor)
        asked.addCallback(self._take)
        asked.addErrback(self._failed)
        asked.addBoth(self._done)

    def _take(self, answer: tuple[int, bytes]) -> None:
        status, data = answer
        if status != 200:
            raise BadKey(f"status {status}")
        keys = jwt_keys.jwks_keys(data, secrets=False)
        if not keys:
            raise BadKey("there is no key for signatures in it that is known here")
        if self.problem or len(keys) != len(self._fetched):
            self._log.info("{name}: {count} keys fetched", name=self._name, count=len(keys))
        self._fetched = keys
        self.problem = ""

    def _failed(self, failure: Failure) -> None:
        timed_out = failure.check(DeferredTimeout)  # type: ignore[no-untyped-call]
        why = "no answer in time" if timed_out else failure.getErrorMessage()
        text = f"cannot fetch keys from {self._settings.jwks_url}: {why}"
        if text != self.problem:
            self._log.error("{name}: {text}", name=self._name, text=text)
        # With keys that it had before, it can go on; that they cannot be fetched was said.
        self.problem = text

    def _done(self, result: object) -> None:
        self._fetching = False
        again_s = self._settings.jwks_refresh_s
        if self.problem:
            again_s = min(again_s, MIN_PAUSE_S)
        self._due = self._reactor.callLater(again_s, self._begin)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.callback(None)
