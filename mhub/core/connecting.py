"""What a connection has only while its CONNECT is dealt with, or its client authenticates."""

from mhub.core.ports import Exchange
from mhub.wire.packets import Connect


class Authentication:
    """Enhanced authentication: of the CONNECT, and whenever the client wishes to repeat it."""

    def __init__(self, method: str, packet: Connect, exchange: Exchange) -> None:
        self.method = method
        self.packet: Connect | None = packet  # the CONNECT, until that is accepted
        self.exchange: Exchange | None = exchange  # None: none is under way


class Welcome:
    """A CONNECT that was found good."""

    def __init__(self, packet: Connect, username: str, expiry_s: int, answer: bytes) -> None:
        self.packet = packet
        self.username = username
        self.expiry_s = expiry_s
        self.answer = answer  # properties of the CONNACK
