"""Where other nodes may be: a list that is given, and DNS SRV records, which may change.

The records are asked for again when the first of them has passed its time to live.  A name server
that fails or does not know the name takes nothing away: what was known stays known until a good
answer replaces it.  The targets of the records are host names; the dial resolves them
(`mhub.cluster.hostnames`).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.error import ConnectError
from twisted.internet.task import deferLater
from twisted.names import client, dns
from twisted.names.error import AuthoritativeDomainError, DNSNameError, DomainError

from mhub.log import logger

SHORTEST_S: Final = 1.0
LONGEST_S: Final = 300.0
"""How long to wait before asking again, whatever the records say."""

_RETRY_MAX_S: Final = 60.0
_PATIENCE_S: Final = (1, 2, 4)  # with a name server: then the same again, or the next one
_FAILURES: Final = (DomainError, AuthoritativeDomainError, TimeoutError, ConnectError, OSError)


def make_resolver(servers: Sequence[tuple[str, int]], reactor: Any) -> Any:
    """One that asks these name servers, or those of this machine if there are none.

    It asks each time: Twisted's resolver keeps nothing, unlike those of whole systems.  Nor does
    it try the search domains of the machine: names are whole names.
    """
    # Untyped in Twisted.
    resolver: Any = client.Resolver
    if servers:
        return resolver(servers=list(servers), timeout=_PATIENCE_S, reactor=reactor)
    return resolver(resolv="/etc/resolv.conf", timeout=_PATIENCE_S, reactor=reactor)


class Discovery:
    """`changed` is called whenever `addresses()` has become another; not before `start`."""

    def __init__(
        self,
        static: Iterable[str],
        srv: str,
        changed: Callable[[], None],
        reactor: Any,
        resolver: Any = None,
    ) -> None:
        self._static = list(static)
        self._srv = srv
        self._changed = changed
        self._reactor = reactor
        self._resolver = resolver
        self._found: list[str] = []
        self._problem = ""
        self._failures = 0
        self._following: Deferred[None] | None = None
        self._log = logger("cluster")

    def addresses(self) -> list[str]:
        """All of them, each once: those of the list first."""
        return list(dict.fromkeys((*self._static, *self._found)))

    def asked(self) -> bool:
        """Whether there was an answer, or the lack of one; always so without a name to ask for."""
        return not self._srv or bool(self._found) or bool(self._problem)

    def start(self) -> None:
        if self._srv:
            if self._resolver is None:
                self._resolver = make_resolver((), self._reactor)
            self._following = Deferred.fromCoroutine(self._follow())
            self._following.addErrback(self._ended)

    def stop(self) -> None:
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            # Answers that are too long for a datagram come by these.
            for connection in self._resolver.connections:
                connection.transport.loseConnection()

    def _ended(self, why: Any) -> None:
        if not isinstance(why.value, CancelledError):
            self._log.failure(
                "DNS SRV {name}: internal error; discovery has stopped", why, name=self._srv
            )

    async def _follow(self) -> None:
        while True:
            wait_s = await self._ask()
            await deferLater(self._reactor, wait_s)

    async def _ask(self) -> float:
        """Ask once; in how many seconds to ask again."""
        try:
            answers, _, _ = await self._resolver.lookupService(self._srv)
            records = [answer for answer in answers if answer.type == dns.SRV]
            if not records:
                raise DNSNameError
        except _FAILURES as error:
            self._failures += 1
            self._report(_describe(error))
            return min(SHORTEST_S * 2.0 ** min(self._failures - 1, 10), _RETRY_MAX_S)
        self._failures = 0
        self._report("")
        self._take(records)
        shortest = min(float(each.ttl) for each in records)
        return min(max(shortest, SHORTEST_S), LONGEST_S)

    def _take(self, records: list[Any]) -> None:
        found = sorted({_address(each.payload) for each in records} - {""})
        if found == self._found:
            return
        before = self.addresses()
        self._found = found
        names = ", ".join(found) or "none"
        self._log.info("DNS SRV {name}: {found}", name=self._srv, found=names)
        if self.addresses() == before:
            return
        try:
            self._changed()
        except Exception:
            self._log.failure("internal error while handling new addresses")

    def _report(self, problem: str) -> None:
        """Into the log, if it is news."""
        if problem == self._problem:
            return
        self._problem = problem
        if problem:
            self._log.warn(
                "DNS SRV {name}: {problem}; keeping the known addresses: {found}",
                name=self._srv,
                problem=problem,
                found=", ".join(self._found) or "none",
            )
        else:
            self._log.info("DNS SRV {name}: there is an answer again", name=self._srv)


def _address(payload: Any) -> str:
    # RFC 2782: "." as the only target says that there is no such service.
    target = payload.target.name.decode("ascii", "replace").rstrip(".")
    return f"{target}:{payload.port}" if target else ""


def _describe(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no name server answers"
    if isinstance(error, DNSNameError):
        return "there are no such records"
    return f"the name server fails: {type(error).__name__}"
