"""Where the node, which knows no network, and the links, which know nothing else, meet.

    Dialer.dial(address)                  the node wants a link
    Ends.hello() / Ends.refusal(hello)    each side shows who it is, and is taken or told why not
    Ends.opened(link, hello)              both are content: from here on
    LinkEnd.send() / Ends.received()      frames, in their order, until
    Ends.lost(link) / LinkEnd.close()     the link ends

In production the other side of this is Perspective Broker (`mhub.cluster.link`), in the simulation
a list with a clock.
"""

from typing import Final, Protocol

PROTOCOL: Final = 3
"""The version of everything that crosses a link: hello and frames (docs/peer-protocol.md)."""

OLDEST: Final = 2
"""The oldest version that is still understood.  No release spoke version 1."""


class LinkEnd(Protocol):
    """One authenticated connection to another node."""

    dialled: bool
    """Whether it was us who called."""

    address: str
    """The other end's, for the log."""

    def send(self, kind: int, body: bytes) -> None:
        """A frame; returns at once.  It arrives after all that were sent before, or never."""

    def close(self, text: str) -> None:
        """End it, for the reason that the text gives to both logs; lost() is not called."""


class Ends(Protocol):
    """The node, as the links see it."""

    def hello(self) -> bytes:
        """Who we are, as JSON, for the other side's refusal() and opened()."""

    def refusal(self, hello: bytes) -> str:
        """Why there can be no link to whoever said this; "" if there can be."""

    def name_of(self, hello: bytes) -> str:
        """Whose certificate whoever said this has to show; "": unreadable."""

    def opened(self, link: LinkEnd, hello: bytes) -> None:
        """A link is up: both sides have proven themselves and were content."""

    def received(self, link: LinkEnd, kind: int, body: bytes) -> None:
        """A frame came."""

    def lost(self, link: LinkEnd, text: str) -> None:
        """A link ended without close() having been called here."""

    def dial_failed(self, address: str, text: str) -> None:
        """There will be no link from this dial(): unreachable, refused, or not to be trusted."""


class Dialer(Protocol):
    def dial(self, address: str) -> None:
        """Try once to link with "host:port"; ends in opened() or dial_failed()."""
