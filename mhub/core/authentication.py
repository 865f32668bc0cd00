"""Enhanced authentication (MQTT 5, section 4.12): what a method is, and a client that uses one."""

from typing import Final, Protocol

from mhub.wire.packets import Connect

CONTINUE: Final = 0
SUCCESS: Final = 1
FAILURE: Final = 2


class Step:
    """What one step of an authentication exchange came to."""

    def __init__(self, outcome: int, data: bytes, username: str, text: str) -> None:
        self.outcome = outcome
        self.data = data  # for the client
        self.username = username  # who it is, once outcome is SUCCESS
        self.text = text  # why it failed, for the log


class Exchange(Protocol):
    """One client's enhanced authentication."""

    def step(self, data: bytes) -> Step: ...


class Method(Protocol):
    """An authentication method: starts an exchange."""

    def __call__(self) -> Exchange: ...


class Authentication:
    """That of a CONNECT, and whenever the client wishes to repeat it."""

    def __init__(self, method: str, packet: Connect, exchange: Exchange) -> None:
        self.method = method
        self.packet: Connect | None = packet  # the CONNECT, until that is accepted
        self.exchange: Exchange | None = exchange  # None: none is under way
