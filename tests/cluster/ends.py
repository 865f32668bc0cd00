"""A node that only listens, and links for it: what the tests of links have in common."""

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, DeferredQueue
from twisted.internet.endpoints import TCP4ClientEndpoint, connectProtocol
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import LogLevel, formatEvent, globalLogPublisher
from twisted.trial.unittest import TestCase

from mhub.cluster.contract import LinkEnd
from mhub.cluster.link import Links, LinkSettings
from mhub.log import set_level

loop: Any = reactor
SETTINGS = LinkSettings("127.0.0.1", 0, b"a secret of the cluster")
LONGEST_S = 30
"""How long a test may wait for anything; a broken one ends here."""


class FakeEnds:
    """Ends that keeps what it was told, until somebody asks: `await ends.next("opened")`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.refuses = ""
        self.events: list[str] = []
        self._queues: dict[str, DeferredQueue[Any]] = defaultdict(DeferredQueue)

    def next(self, what: str) -> Deferred[Any]:
        return self._queues[what].get()

    def _put(self, what: str, *values: object) -> None:
        self.events.append(what)
        self._queues[what].put(values if len(values) > 1 else values[0])

    def hello(self) -> bytes:
        return json.dumps({"name": self.name}).encode()

    def refusal(self, hello: bytes) -> str:
        return self.refuses

    def name_of(self, hello: bytes) -> str:
        try:
            return str(json.loads(hello)["name"])
        except (ValueError, LookupError, TypeError):
            return ""

    def opened(self, link: LinkEnd, hello: bytes) -> None:
        self._put("opened", link)

    def received(self, link: LinkEnd, kind: int, body: bytes) -> None:
        self._put("received", kind, body)

    def lost(self, link: LinkEnd, text: str) -> None:
        self._put("lost", link, text)

    def dial_failed(self, address: str, text: str) -> None:
        self._put("dial_failed", address, text)


class Raw(Protocol):
    """One end of a connection that speaks by hand: what it gets, and when it ends."""

    def __init__(self) -> None:
        self.data = b""
        self.ended: Deferred[None] = Deferred()

    def dataReceived(self, data: bytes) -> None:
        self.data += data

    def connectionLost(self, reason: Any = None) -> None:
        self.ended.callback(None)

    def say(self, data: bytes) -> None:
        self.transport.write(data)

    def hang_up(self) -> None:
        self.transport.abortConnection()


class LinkCase(TestCase):
    timeout = LONGEST_S

    def setUp(self) -> None:
        self.logged: list[str] = []
        self.warned: list[str] = []
        globalLogPublisher.addObserver(self._hear)
        self.addCleanup(globalLogPublisher.removeObserver, self._hear)
        set_level("debug")
        self.addCleanup(set_level, "info")
        self.a = FakeEnds("node-a")
        self.b = FakeEnds("node-b")

    def _hear(self, event: Any) -> None:
        if event.get("log_namespace") == "mhub.cluster":
            self.logged.append(formatEvent(event))
            if event["log_level"] >= LogLevel.warn:
                self.warned.append(self.logged[-1])

    def links(self, ends: Any, **changes: Any) -> Links:
        links = Links(ends, replace(SETTINGS, **changes), loop)
        self.addCleanup(links.stop)
        return links

    def listening(self, ends: Any, **changes: Any) -> tuple[Links, str]:
        """Links that listen, and where."""
        links = self.links(ends, **changes)
        return links, f"127.0.0.1:{links.listen()}"

    async def linked(self, **changes: Any) -> tuple[Any, Any]:
        """The two ends of a link: that of `a`, which listens, and that of `b`, which dialled."""
        _, address = self.listening(self.a, **changes)
        self.links(self.b, **changes).dial(address)
        return await self.a.next("opened"), await self.b.next("opened")

    async def still_serves(self, address: str, **changes: Any) -> None:
        """Another node gets its link, whatever happened before."""
        late = FakeEnds("node-late")
        self.links(late, **changes).dial(address)
        link = await late.next("opened")
        await self.a.next("opened")
        link.send(1, b"still here")
        self.assertEqual(await self.a.next("received"), (1, b"still here"))

    async def call(self, address: str) -> Raw:
        """A connection by hand to somebody who listens."""
        host, _, port = address.rpartition(":")
        raw: Raw = await connectProtocol(TCP4ClientEndpoint(loop, host, int(port)), Raw())
        self.addCleanup(raw.hang_up)
        return raw

    def serve(self, make: Callable[[], Protocol]) -> str:
        """Somebody who listens and is no node; where."""
        factory: Any = Factory()
        factory.noisy = False
        factory.buildProtocol = lambda address: make()
        port = loop.listenTCP(0, factory, interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        return f"127.0.0.1:{port.getHost().port}"

    def lines(self, *words: str) -> list[str]:
        """What was logged that has all these words."""
        return [line for line in self.logged if all(word in line for word in words)]
