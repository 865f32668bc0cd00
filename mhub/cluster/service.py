"""The node as a Twisted service: its clock, its links, where it looks for others, and its end.

join()   once the store is open: listen for peers, look for them, and be complete
enter()  the same for a node that another one takes over from: it only calls others
leave()  hand over what is here and go, while others go on
ask()    a question to another node; serve() says who answers those of others
status   what `mhub ctl cluster` shows
"""

import random
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.task import LoopingCall, deferLater
from twisted.python.failure import Failure

from mhub import __version__
from mhub.cluster.dials import Dial
from mhub.cluster.discovery import Discovery, make_resolver
from mhub.cluster.hostnames import Hostnames
from mhub.cluster.link import Links, LinkSettings, split_address
from mhub.cluster.member import Member
from mhub.cluster.node import Node, NodeSettings
from mhub.cluster.queries import NOT_ASKED, UNABLE, Asked, Outcome, Replying
from mhub.cluster.tls import TlsError, TlsFiles
from mhub.config.cluster import ClusterSettings
from mhub.config.kinds import join_address
from mhub.core.hlc import Clock
from mhub.core.hub import Hub
from mhub.core.limits import Limits, PeerLimits
from mhub.core.peers import Peers
from mhub.core.timers import SLOTS_PER_SECOND
from mhub.log import logger
from mhub.operations.contract import OperationError, Reply, Respond

JOIN_S: Final = 15.0
"""How long a node looks for others before it serves clients alone."""

LEAVE_TOLD_S: Final = 1.0
"""How often a node that leaves says how much is left."""

LEAVE_S: Final = 60.0
"""How long sessions may take to be handed over."""

GRACE_S: Final = 3600.0
"""How long after a change of the secret nodes with the previous one are let in."""

NEAR: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where a node that listens on every address can be called by itself."""


class ClusterError(OperationError):
    """The node cannot start, or not do what it was told; the text says why."""


class ClusterService(Service):
    name = "cluster"

    def __init__(
        self,
        settings: ClusterSettings,
        hub: Hub,
        reactor: Any,
        clock: Callable[[], float],
        limits_of: Callable[[str], Limits],
        host: "ClusterService | None" = None,
    ) -> None:
        """`host` is the node in whose process this one is, if that takes over from it."""
        self._settings = settings
        self._hub = hub
        self._reactor = reactor
        self._clock = clock
        self._log = logger("cluster", settings.node if host is not None else "")
        self.is_ready = False  # it has joined
        self._names: Hostnames | None = None
        self.near = ""  # where those in this process reach it
        wanted = _node_settings(settings)
        if host is not None:
            wanted.host = host.node.name
            wanted.address = settings.advertise
        self.node: Node = Node(hub, wanted, self, clock, random.Random(), self._note, limits_of)
        if host is None:
            self.node.warn = self._warn  # else that node warns of the same
        try:
            self._links = self._make_links(host)
            self.node.count_strangers = self._links.strangers.numbers
        except (OSError, ValueError, TlsError) as error:
            raise ClusterError(f"[cluster]: {error}") from error
        self._links.listed = self.node.addresses
        self._peers = Peers(
            hub,
            settings.node,
            Clock(settings.node, time.time() - clock()),
            self.node,
            _peer_limits(settings),
        )
        self._peers.local_first = settings.shared == "local-first"
        self._peers.suback_waits = settings.suback_waits
        self._peers.table.sessions = settings.sessions
        hub.retained.tombstone_s = settings.tombstone_s
        hub.registry.tombstone_s = settings.tombstone_s
        hub.join(self._peers)
        self._ticks = LoopingCall(self._tick)
        self._ticks.clock = reactor
        self._discovery = self._make_discovery(settings)

    def _make_discovery(self, settings: ClusterSettings) -> Discovery:
        resolver = None
        if settings.srv and settings.dns:
            resolver = make_resolver([split_address(a) for a in settings.dns], self._reactor)
        return Discovery(settings.peers, settings.srv, self._look_again, self._reactor, resolver)

    def _make_links(self, host: "ClusterService | None") -> Links:
        if host is not None:
            # Not from the files again, which only root may be able to read.
            theirs = host._links
            return Links(
                self.node,
                theirs.settings,
                self._reactor,
                self._log,
                theirs.tls,
                theirs.names,
                theirs.secrets,
            )
        settings = self._settings
        secret = settings.read_secret().encode("utf-8")
        tls = settings.tls
        files = TlsFiles(tls.certificate, tls.key, tls.ca) if tls is not None else None
        link_settings = LinkSettings(
            settings.host,
            settings.port,
            secret,
            files,
            login_timeout_s=settings.login_timeout_s,
            max_strangers=settings.max_strangers,
            max_strangers_per_address=settings.max_strangers_per_address,
        )
        names = None
        if settings.dns:
            servers = [split_address(address) for address in settings.dns]
            names = self._names = Hostnames(servers, self._reactor)
        return Links(self.node, link_settings, self._reactor, self._log, names=names)

    def dial(self, address: str) -> None:
        self._links.dial(address)

    def _note(self, text: str) -> None:
        self._log.info("{text}", text=text)

    def _warn(self, text: str) -> None:
        self._log.warn("{text}", text=text)

    def _look_again(self) -> None:
        self.node.seeds = self._discovery.addresses()

    # The start

    async def join(self) -> None:
        """Find the others, and have what they have; but do not wait for ever."""
        try:
            port = self._links.listen()
        except CannotListenError as error:
            raise ClusterError(
                f"[cluster] {self._settings.address}: {error.socketError}"
            ) from error
        self.node.settings.address = self._settings.reached_at(port)
        self.near = join_address(NEAR.get(self._settings.host, self._settings.host), port)
        self._log.info(
            "node {node} of cluster {cluster}, for peers at {address}",
            node=self._settings.node,
            cluster=self._settings.name,
            address=self.node.settings.address,
        )
        self.enter()
        deadline = self._clock() + JOIN_S
        while not (self._discovery.asked() and self.node.complete()):
            if self._clock() >= deadline:
                self._log.warn("not all peers could be reached; serving clients without them")
                break
            await deferLater(self._reactor, 0.05)
        self.is_ready = True
        count = sum(1 for member in self.node.members.values() if member.whole())
        nodes = "node" if count == 1 else "nodes"
        self._log.info("ready, with {count} other {nodes}", count=count, nodes=nodes)

    def enter(self) -> None:
        self.node.recall()
        self._discovery.start()
        self._look_again()
        self._ticks.start(1.0 / SLOTS_PER_SECOND)

    def _tick(self) -> None:
        try:
            self.node.tick(self._clock())
            self._hub.flush()
            self._hub.wake()
        except Exception:
            self._log.failure("a defect in the cluster's clock")

    # Other settings

    def prepare(self, new: ClusterSettings) -> Callable[[], None]:
        """Read what new settings name; what puts them in force.  Raises ClusterError.

        Of a running node those that `mhub.config.reloadable` has: whom it joins, and how nodes
        prove themselves to each other.  Links that are there stay as they are.
        """
        try:
            secret = new.read_secret().encode("utf-8")
            take_tls = None
            if self._links.tls is not None and new.tls is not None:
                files = TlsFiles(new.tls.certificate, new.tls.key, new.tls.ca)
                take_tls = self._links.tls.read(self.node.name, files)
        except (OSError, ValueError, TlsError) as error:
            raise ClusterError(f"[cluster]: {error}") from error
        return lambda: self._take(new, secret, take_tls)

    def _take(
        self, new: ClusterSettings, secret: bytes, take_tls: Callable[[], None] | None
    ) -> None:
        before, self._settings = self._settings, new
        self._links.secrets.change(secret, GRACE_S)
        self._links.settings = replace(self._links.settings, secret=secret)
        if take_tls is not None:
            take_tls()
            self._log.info("links: certificates reloaded")
        if new.dns != before.dns:
            closing, self._names = self._names, None
            if new.dns:
                servers = [split_address(address) for address in new.dns]
                self._names = Hostnames(servers, self._reactor)
            self._links.names = self._names
            if closing is not None:
                closing.close()
        if (new.peers, new.srv, new.dns) != (before.peers, before.srv, before.dns):
            self._discovery.stop()
            self._discovery = self._make_discovery(new)
            self._discovery.start()
            self._look_again()

    # Questions

    def nodes(self) -> dict[str, str]:
        return {member.name: member.state for member in self.node.members.values()}

    def ask(
        self, node: str, name: str, arguments: Mapping[str, object], within_s: float
    ) -> Awaitable[Reply]:
        member = self.node.members.get(node)
        if member is None:
            return succeed(Reply(b"", NOT_ASKED, f"there is no node {node}"))
        queries = self.node.queries
        asked: list[Asked] = []

        def cancel(found: "Deferred[Reply]") -> None:
            while asked:
                queries.cancel(asked.pop())

        found: Deferred[Reply] = Deferred(cancel)

        def done(outcome: Outcome) -> None:
            found.callback(Reply(outcome.data, outcome.error, outcome.text))

        under_way = queries.ask(member, name, dict(arguments), within_s, done)
        if under_way is not None:
            asked.append(under_way)
        return found

    def serve(self, respond: Respond) -> None:
        def answer(name: str, arguments: dict[str, Any], replying: Replying) -> None:
            answering = Deferred.fromCoroutine(_as_coroutine(respond(name, arguments)))
            replying.cancel = answering.cancel
            answering.addCallbacks(replying.reply, lambda failure: self._failed(failure, replying))

        self.node.queries.respondent = answer

    def _failed(self, failure: Failure, replying: Replying) -> None:
        error = failure.value
        if isinstance(error, OperationError):
            replying.fail(type(error).__name__, str(error))
        elif not isinstance(error, CancelledError):
            self._log.failure("a defect in the answer to another node", failure)
            replying.fail(UNABLE, f"a defect of node {self.node.name}, whose log says more")

    def watch_clients(self, changed: Callable[[str], None]) -> None:
        self.node.client_changed = changed

    # The end

    async def leave(self, say: Callable[[str], None]) -> dict[str, int]:
        """Hand over all sessions, say goodbye; the caller stops the process."""
        node = self.node
        if not any(member.peer.up for member in node.members.values()):
            say("no other node is linked: what is here stays here")
        clients = node.evacuate(self._settings.server_reference)
        sessions = len(self._hub.sessions)
        say_at = self._clock()
        deadline = say_at + LEAVE_S
        while (waiting := node.holding()) and self._clock() < deadline:
            if self._clock() >= say_at:
                say(f"{waiting} sessions and messages to hand over")
                say_at = self._clock() + LEAVE_TOLD_S
            node.offer()
            self._hub.flush()
            self._hub.wake()
            await deferLater(self._reactor, 0.05)
        left = len(self._hub.sessions)
        if left:
            say(f"{left} sessions could not be handed over; they stay in the store of this node")
        node.leave()
        await deferLater(self._reactor, 0.2)
        return {"sessions": sessions - left, "clients": clients, "left": left}

    def stopService(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        self._discovery.stop()
        if self._ticks.running:
            self._ticks.stop()
        self.node.close()
        await self._links.stop()
        if self._names is not None:
            self._names.close()

    # For people

    def forget(self, name: str) -> dict[str, object] | None:
        """None: there is no such node.  Raises ClusterError for one that is there."""
        if name == self.node.name:
            raise ClusterError(f"node {name} is this node: let it leave, or stop it")
        member = self.node.members.get(name)
        if member is not None and member.link is not None:
            raise ClusterError(f"node {name} is {member.state}: stop it or let it leave first")
        routes = len(member.peer.routes) if member is not None else 0
        dropped = self.node.forget(name)
        if dropped is None:
            return None
        self._hub.flush()
        return {"node": name, "messages": dropped, "routes": routes}

    def status(self) -> dict[str, object]:
        settings = self.node.settings
        now = self._clock()
        return {
            "cluster": settings.cluster,
            "node": settings.node,
            "version": __version__,
            "protocol": settings.protocol,
            "ready": self.is_ready,
            "leaving": self.node.leaving,
            "address": settings.address,
            "routes": self._peers.table.routes,
            "clients": len(self._hub.sessions),
            "refused": self._hub.require_peers().counters().refused,
            "sessions": self.node.migration.outlook.numbers(),
            "registry": self.node.rounds.numbers(),
            "members": [_describe(self.node, each, now) for each in self.node.members.values()],
            "strangers": self._links.strangers.numbers(),
            "unreachable": [_describe_dial(each, now) for each in self.node.unreachable()],
        }


async def _as_coroutine(found: Awaitable[bytes]) -> bytes:
    return await found


def _describe_dial(dial: Dial, now: float) -> dict[str, object]:
    return {
        "address": dial.address,
        "node": dial.member,
        "reason": dial.reason,
        "since_s": round(now - dial.failing_since, 1),
        "attempts": dial.failures,
        "next_call_s": round(dial.wait_left_s(now), 1),
    }


def _describe(node: Node, member: Member, now: float) -> dict[str, object]:
    peer = member.peer
    dial = node.dial_of(member)
    host = member.host if member.link is not None else ""
    waits, held_since = node.migration.outlook.of(member.name)
    note = f"node {host} takes over from it" if host and not member.note else member.note
    return {
        "node": member.name,
        "host": host,
        "state": member.state,
        "address": member.address,
        "version": member.version,
        "latency_ms": round(member.latency_s * 1000, 3) if member.latency_s >= 0 else None,
        "queued_messages": peer.outgoing.queued,
        "queued_bytes": peer.outgoing.queued_bytes + peer.outgoing.queued_bytes_qos0,
        "routes": len(peer.routes),
        "clients": len(peer.clients),
        "since_s": round(now - member.since, 1),
        "sent": peer.counters.messages_sent,
        "received": peer.counters.messages_received,
        "dropped": peer.counters.dropped_qos0 + peer.counters.dropped_full,
        "dropped_qos0": peer.counters.dropped_qos0,
        "dropped_full": peer.counters.dropped_full,
        "refused": peer.counters.refused,
        "sessions": waits,
        "held_s": round(now - held_since, 1) if waits["held"] else None,
        "calls_failed": dial.failures if dial is not None else 0,
        "call_error": dial.reason if dial is not None else "",
        "next_call_s": round(dial.wait_left_s(now) if dial is not None else 0.0, 1)
        if member.link is None
        else None,
        "revision": member.revision,
        "takeover": node.can_be_replaced(member),
        "note": note,
    }


def _node_settings(settings: ClusterSettings) -> NodeSettings:
    wanted = NodeSettings(settings.name, settings.node, settings.address)
    wanted.version = __version__
    wanted.instance = secrets.token_hex(8)
    wanted.heartbeat_s = settings.heartbeat_s
    wanted.suspect_s = settings.suspect_s
    wanted.dead_s = settings.dead_s
    wanted.forget_s = settings.forget_s
    wanted.takeover_timeout_s = settings.takeover_timeout_s
    wanted.retry_s = settings.retry_s
    wanted.retry_max_s = settings.retry_max_s
    return wanted


def _peer_limits(settings: ClusterSettings) -> PeerLimits:
    limits = PeerLimits()
    limits.window_bytes = settings.window_bytes
    limits.max_queued_messages = settings.max_queued_messages
    limits.max_queued_bytes = settings.max_queued_bytes
    limits.max_queued_bytes_qos0 = settings.max_queued_bytes_qos0
    limits.refuse_when_full = settings.queue_full == "refuse"
    return limits
