"""What a store has to do.

A store holds sessions, their subscriptions and messages, retained messages and notes, as the
records of `mhub.core.records`.  It is changed by whole batches only.  Calls come one after the
other, never two at a time, but for load(), which may come while a commit() is under way and then
sees what was stored before that commit or after it, and for snapshot(), during which all else may
come.

A `SharedStore` can do more, which the nodes of a cluster need to take over from each other.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Protocol

from mhub.core.records import HEAD, HEAD_SIZE, Batch, Contents, Row, SessionRecord


class StoreError(Exception):
    """It did not work this time; the text says what and where.  The same call may work later."""


class StoreBroken(StoreError):
    """It will not work: a corrupt file, a newer schema, a wrong password.  Nothing was changed."""


class StoreInUse(StoreBroken):
    """A broker uses it, and nobody else can as long as that runs."""


class StoreTaken(StoreBroken):
    """Another broker has it now, and may have changed it: nothing is stored from here any more."""


class StillOwned(StoreError):
    """Somebody has the lease: `who`, as text for people."""

    def __init__(self, name: str, who: str, by_successor: bool) -> None:
        self.who = who
        self.by_successor = by_successor  # and not by the node whose contents they are
        super().__init__(f"{name}: it is being {'taken over' if by_successor else 'used'} by {who}")


class NothingThere(StoreError):
    """There is nothing to take over."""


class Store(Protocol):
    name: str
    """For people: the kind, and where it is."""

    async def open(self, now: float) -> Contents:
        """Connect, make or upgrade the schema, and bring what a hub has to know at the start.

        Sessions that ended before `now` (seconds of the epoch), or with the process (expiry_s 0),
        are removed with all they had, and so are retained messages that have expired.  But such a
        session that still has a will comes with the others: the hub publishes it, then ends the
        session.
        """

    async def commit(self, batch: Batch) -> None:
        """Apply a batch: when this returns, all of it is as safe as the store can make it.

        Numbers of messages with refs 0 and of sessions in `ended` count for last_mid and last_sid,
        though nothing is stored of them: no number is ever used again.

        After StoreError nothing of it or all of it was applied; the same batch then comes again,
        unchanged, until it succeeds, and has its effect once.
        """

    async def load(self, sid: int, after: int, most: int, most_bytes: int) -> list[Row]:
        """Queued deliveries (pid 0) of a session with seq > after, in order.

        At most `most` of them, and no more once they have `most_bytes` (but at least one).  One
        whose message is missing, as only damage makes it, comes with the body b"", here and in
        open(): that is no message, so the hub can tell.
        """

    def pages(self) -> AsyncIterator[Batch]:
        """All there is, as batches which bring an empty store to the same contents.

        Also to the same last_mid and last_sid, by a message with refs 0 and an `ended` session.
        """

    def snapshot(self) -> AsyncGenerator[Batch, None]:
        """As pages(), but all of one moment, and while commits go on."""

    async def check(self) -> list[str]:
        """What is wrong with the contents, as far as that can be told: a line for each; or none."""

    async def close(self) -> None:
        """Let go of the file or the connection; whatever was committed stays."""


class SharedStore(Store, Protocol):
    """A store in which all nodes of a cluster have their contents, each its own: for failover.

    Whoever has the lease of a node's contents may change them: that node, which renews it as long
    as it lives.  When the lease has lapsed another node can claim it, and hand over what is there.
    """

    lease_s: float
    """How long after its holder was killed or cut off a lease lapses."""

    async def identity(self) -> str:
        """A word that is the same on all nodes that share this store, and on no other node."""

    def beside(self, node: str, by: str, taken: Callable[[StoreTaken], None]) -> "SharedStore":
        """The contents of another node, for the node `by` to claim; not yet open.

        taken() is called when somebody else has got the lease, each time that this shows.
        """

    async def claim(self) -> None:
        """Get the lease at once, before open(); or StillOwned, NothingThere: nothing is changed."""


def is_over(record: SessionRecord, now: float) -> bool:
    """Whether it goes at the start.  One with a will comes to the hub, which publishes it."""
    return not record.will and (record.expiry_s == 0 or 0 < record.ends_at <= now)


def expires_at_of(body: bytes) -> float:
    """When a stored message expires; 0: never, or it is cut off, which check() will tell."""
    if len(body) < HEAD_SIZE:
        return 0.0
    return float(HEAD.unpack_from(body)[4])
