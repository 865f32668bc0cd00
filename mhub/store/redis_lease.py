"""Who has the keys of a prefix: one broker at a time, or a node that takes over from a dead one.

    owner         goes `lease_s` after its holder was killed or cut off; which renews it till then
    applied_by    in the hash `meta`: who was the last to become the owner, for good

`owner` keeps others from coming in; `applied_by` keeps the one before from changing anything, when
it comes back after its lease has lapsed and somebody took it.  If nobody did, it goes on.

A node of a cluster that takes over from another one (`mhub.cluster.failover`) does not wait for the
lease, and does not change the version of the schema: the node itself may be an older mhub.  The
node itself waits as long as another one has its lease.
"""

import os
import socket
from collections.abc import Callable
from secrets import token_hex
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import LoopingCall, deferLater

from mhub.core import records
from mhub.log import logger
from mhub.store import redis_lua as lua
from mhub.store.contract import NothingThere, StillOwned, StoreBroken, StoreError, StoreTaken
from mhub.store.redis_link import RedisLink
from mhub.store.redis_records import Answer

_SUCCESSOR: Final = b"failover: "
"""What `owner` begins with while it is not the broker itself; no name of a host has this."""


class RedisLease:
    def __init__(
        self,
        reactor: Any,
        link: RedisLink,
        lease_s: float,
        successor: str = "",
        taken: Callable[[StoreTaken], None] | None = None,
    ) -> None:
        """`successor` is the node that takes over from the one whose prefix this is.

        taken() is called when another one has taken the lease, each time that this shows.
        """
        self._reactor = reactor
        self._link = link
        self._lease_s = lease_s
        self._successor = successor
        self._taken = taken
        self._token = token_hex(8).encode()
        self._waiting: Deferred[None] | None = None  # for another owner to go
        self._renewal = LoopingCall(self._go_on)
        self._renewal.clock = reactor
        self.owner = b""
        self.lease_ms = b"%d" % (lease_s * 1000)

    async def wait(self) -> tuple[bool, int]:
        """Become the owner.  Returns whether to recount refs, and the server's time.

        Whoever was killed does not renew its lease; who still has it by then is alive.  One that
        takes over from us is done after some time, and a successor does not wait.
        """
        if self._successor:
            return await self.take()
        deadline = self._reactor.seconds() + 1.25 * self._lease_s
        told = False
        while True:
            try:
                return await self.take()
            except StillOwned as held:
                if held.by_successor:
                    deadline = self._reactor.seconds() + 1.25 * self._lease_s
                    if not told:
                        logger("store").warn(
                            "{who} is taking over what this node had: waiting until it is done",
                            who=held.who,
                        )
                    told = True
                elif self._reactor.seconds() > deadline:
                    raise StoreBroken(
                        f"{self._link.name}: in use by {held.who}; each broker needs its own prefix"
                    ) from None
            self._waiting = deferLater(self._reactor, self._lease_s / 20)
            await self._waiting

    async def take(self) -> tuple[bool, int]:
        """As wait(), but if somebody else is the owner, fail at once."""
        # Not before: a process that goes to the background has another id then.
        self.owner = b"%b pid %d %b" % (socket.gethostname().encode(), os.getpid(), self._token)
        if self._successor:
            self.owner = _SUCCESSOR + f"node {self._successor} on ".encode() + self.owner
        name = self._link.name
        known = b"%d" % records.SCHEMA
        fails_over = b"%d" % bool(self._successor)
        answer = Answer(
            await self._link.run(
                lua.OPEN, self._token, self.owner, self.lease_ms, known, fails_over
            )
        )
        outcome = answer.number()
        if outcome == 1:
            raise StoreBroken(
                f"{name}: schema {answer.large()} is of a newer mhub; this one knows"
                f" {records.SCHEMA}"
            )
        if outcome == 2:
            owner = answer.text()
            who = owner.removeprefix(_SUCCESSOR).decode("utf-8", "replace").rpartition(" ")[0]
            raise StillOwned(name, who, owner.startswith(_SUCCESSOR))
        if outcome == 3:
            raise NothingThere(f"{name}: nothing is there")
        if outcome == 4:
            raise StoreBroken(
                f"{name}: schema {answer.large()} is of an older mhub, which has to go on with it"
                " itself"
            )
        if not self._renewal.running:
            self._renewal.start(self._lease_s / 4, now=False).addErrback(lambda _: None)
        return answer.number() != 0, answer.large()

    async def run(self, script: str, *arguments: bytes) -> int:
        """What a script answers that changes something, for its owner only."""
        answer: int = await self._link.run(script, self._token, *arguments)
        name = self._link.name
        if answer == -1:
            error = StoreTaken(
                f"{name}: another broker uses it now: this one was cut off for longer than"
                f" {self._lease_s:g} s, or both have the same prefix; nothing is stored until this"
                " broker starts again"
            )
            if self._taken is not None:
                self._taken(error)
            raise error
        if answer == -2:
            raise StoreBroken(
                f"{name}: it has lost its contents, by a restart without appendonly or by"
                " FLUSHDB; nothing is stored until this broker starts again"
            )
        return answer

    async def renew(self) -> None:
        """Also says whether it was ours all the time."""
        await self.run(lua.RENEW, self.owner, self.lease_ms)

    async def close(self) -> None:
        """Give it back, for the next one to take at once."""
        if self._waiting is not None:
            self._waiting.cancel()
        if self._renewal.running:
            self._renewal.stop()
            try:
                await self.run(lua.RENEW, self.owner, b"0")
            except StoreError:
                pass  # it goes by itself

    async def _go_on(self) -> None:
        try:
            await self.renew()
        except (StoreError, CancelledError):
            pass  # the next commit says so
