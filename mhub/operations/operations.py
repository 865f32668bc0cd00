"""The calls: each method is one thing that can be asked of a running broker, or done to it."""

import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Final

from mhub import __version__, build
from mhub.access.access import Access
from mhub.core.hub import Hub
from mhub.core.records import Batch
from mhub.operations import clients
from mhub.operations.clients import MOST, Moment, Wanted
from mhub.operations.contract import (
    ClientDetail,
    ClientPage,
    Cluster,
    ClusterSummary,
    ConnectionNumbers,
    Kicked,
    MessageNumbers,
    NotThere,
    OperationError,
    QueueNumbers,
    Say,
    SessionNumbers,
    Status,
    StoreStatus,
    Surroundings,
)
from mhub.operations.slices import Slices
from mhub.operations.snapshot import hub_pages
from mhub.operations.steer import SteeringOperations
from mhub.store.contract import StoreError
from mhub.store.jsonl import HEADER, records, to_line

PORTION: Final = 25
"""Lines of an export that are made between two looks at the clock."""


class Operations(SteeringOperations):
    def __init__(
        self,
        hub: Hub,
        surroundings: Surroundings,
        clock: Callable[[], float],
        pause: Callable[[], Awaitable[object]],
        access: Access | None = None,
    ) -> None:
        """`clock` is the hub's; pause() is as for Slices."""
        self.access = access  # users, roles, rules, bans
        self._hub = hub
        self._around = surroundings
        self._clock = clock
        self._pause = pause
        self._build = build.kind()

    # The broker

    def status(self) -> Status:
        hub = self._hub
        stats = hub.stats
        return Status(
            version=__version__,
            build=self._build,
            pid=os.getpid(),
            state=self._around.state(),
            uptime_s=round(self._clock() - hub.started_at, 3),
            listeners=tuple(self._around.listeners()),
            authenticators=tuple(self._around.authenticators()),
            connections=ConnectionNumbers(
                open=stats.connections_open,
                accepted=stats.connections_accepted,
                refused=stats.connections_refused,
                rejected=stats.connections_rejected,
                kicked=stats.clients_kicked,
            ),
            sessions=SessionNumbers(
                total=len(hub.sessions),
                connected=hub.connected,
                connected_most=stats.clients_maximum,
                expired=stats.sessions_expired,
                taken_over=stats.sessions_taken_over,
                subscriptions=hub.router.subscriptions,
                shared_subscriptions=hub.router.shared_subscriptions,
            ),
            messages=self._messages(),
            queues=QueueNumbers(
                queued_bytes=hub.queues.size_bytes,
                max_queued_bytes=hub.queues.most_bytes,
                retained=len(hub.retained) - hub.retained.own,
                retained_bytes=hub.retained.size_bytes,
            ),
            store=StoreStatus(
                name=self._around.store_name,
                state=hub.storage.state,
                pending_bytes=hub.journal.pending_bytes() if hub.journal is not None else 0,
                commits=stats.store_commits,
                failures=stats.store_failures,
                behind=stats.store_behind,
            ),
            cluster=self._cluster_summary(),
            access=self.access.status() if self.access is not None else None,
        )

    def _messages(self) -> MessageNumbers:
        stats = self._hub.stats
        return MessageNumbers(
            received=stats.publish_received,
            sent=stats.publish_sent,
            dropped=stats.dropped(),
            received_per_s=self._per_s("publish/received"),
            sent_per_s=self._per_s("publish/sent"),
            bytes_received_per_s=self._per_s("bytes/received"),
            bytes_sent_per_s=self._per_s("bytes/sent"),
        )

    def _per_s(self, name: str) -> float | None:
        """The shortest of the averages that `$SYS` has; none, if that is off."""
        loads = self._hub.metrics.loads.get(name)
        return round(loads[0].per_minute / 60, 3) if loads else None

    # Clients

    async def clients(
        self,
        match: str = "",
        listener: str = "",
        user: str = "",
        state: str = "",
        after: str = "",
        limit: int = MOST,
    ) -> ClientPage:
        """The first `limit` clients that fit, by client id, of those behind `after`.

        `match` is a pattern with * and ? for client ids, `state` is "connected" or "offline".
        """
        wanted = Wanted(match, listener, user, state)
        slices = Slices(self._clock, self._pause)
        return await clients.page(self._hub, wanted, after, limit, slices, self._moment())

    def client(self, client_id: str) -> ClientDetail:
        return clients.detail(clients.session_of(self._hub, client_id), self._moment())

    def kick(self, client_id: str, delete_session: bool = False) -> Kicked:
        """Close a client's connection, and delete its session if that is wanted."""
        session = clients.session_of(self._hub, client_id)
        if session.frozen:
            raise OperationError("its session is just going to another node; try again there")
        was_connected = session.is_connected()
        if not was_connected and not delete_session:
            raise OperationError(
                "it is not connected; `mhub kick --delete-session` deletes its session"
            )
        self._hub.now = self._clock()
        self._hub.kick(session, delete_session)
        self._around.settle()
        deleted = self._hub.sessions.get(client_id) is not session
        return Kicked(client_id, was_connected, deleted)

    def _moment(self) -> Moment:
        return Moment(self._clock(), time.time())

    # The store

    async def store_export(self) -> AsyncGenerator[bytes, None]:
        """The lines of an export, some at a time: sessions and what is retained, of one moment.

        Of a broker without a store each session is of one moment, and not all of the same.
        """
        slices = Slices(self._clock, self._pause)
        pages: AsyncGenerator[Batch, None] | None = self._around.snapshot()
        if pages is None:
            pages = hub_pages(self._hub, time.time() - self._clock(), slices)
        yield HEADER
        try:
            async with aclosing(pages):
                async for batch in pages:
                    lines = []
                    for kind, values in records(batch):
                        lines.append(to_line(kind, values))
                        if len(lines) == PORTION:
                            yield b"".join(lines)
                            lines = []
                            await slices.pause_if_due()
                    yield b"".join(lines)
                    await slices.pause_if_due()
        except StoreError as error:
            raise OperationError(str(error)) from error

    # The cluster

    def cluster_status(self) -> Mapping[str, object]:
        return self._cluster().status()

    async def cluster_leave(self, say: Say) -> Mapping[str, object]:
        self._cluster()
        return await self._around.leave(say)

    def cluster_forget(self, node: str) -> Mapping[str, object]:
        result = self._cluster().forget(node)
        if result is None:
            raise NotThere(f'there is no node "{node}"; `mhub cluster status` lists them')
        return result

    def _cluster(self) -> Cluster:
        cluster = self._around.cluster
        if cluster is None:
            raise OperationError("this broker is not part of a cluster")
        return cluster

    def _cluster_summary(self) -> ClusterSummary | None:
        peers = self._hub.peers
        if self._around.cluster is None or peers is None:
            return None
        status = self._around.cluster.status()
        outgoing = [peer.outgoing for peer in peers.all]
        return ClusterSummary(
            cluster=str(status["cluster"]),
            node=peers.node,
            ready=status["ready"] is True,
            members_up=sum(1 for peer in peers.all if peer.up),
            members=len(outgoing),
            queued_messages=sum(each.queued for each in outgoing),
            queued_bytes=sum(each.queued_bytes + each.queued_bytes_qos0 for each in outgoing),
        )
