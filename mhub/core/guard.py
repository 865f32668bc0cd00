"""The guard: who is kept out although, or before, it is known who it is.

    CONNECT             -> arriving    address and client id, and the user name as a claim
    authentication: no  -> failed      what repeated failures are counted by
    authentication: yes -> admitted    user, client id as it is used, address
    session arrives     -> admitted    again, if the CONNECT had to wait for another node

Each returns None, or the Refusal that the client gets in the place of any other answer.  A client
that is kept out is told the same whether its password was right or wrong.
"""

from typing import Protocol

from mhub.core.principal import Principal


class Refusal:
    def __init__(self, reason: int, text: str, told: str) -> None:
        self.reason = reason
        self.text = text  # for the log
        self.told = told  # for the client


class Guard(Protocol):
    """Synchronous and in memory: asked for each CONNECT, never for a message."""

    def arriving(self, principal: Principal) -> Refusal | None:
        """Of the user name only a claim is known."""

    def failed(self, principal: Principal, user: str) -> Refusal | None:
        """Somebody could not prove to be `user`; "": it did not say whom."""

    def admitted(self, principal: Principal) -> Refusal | None:
        """Who it is is known, or that it is anonymous."""

    def banned(self, principal: Principal) -> bool:
        """Whether a ban hits one that was admitted before."""
