"""The calls: each method is one thing that can be asked of a running broker, or done to it."""

import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Final, cast

import msgspec
from twisted.internet.defer import Deferred

from mhub import __version__, build
from mhub.access.access import Access
from mhub.core.hub import Hub
from mhub.core.journal import AckTracker
from mhub.core.promises import Promise
from mhub.core.records import Batch
from mhub.core.scan import CLIENT_SORTS
from mhub.core.session import Session
from mhub.operations import clients, cursors, loss, places, retained, subscriptions, topics
from mhub.operations.activity import MOST as MOST_EVENTS
from mhub.operations.activity import DenialList, EventFilter, EventPage
from mhub.operations.clients import Moment, Wanted
from mhub.operations.cluster_results import ClusterState, Held, HeldPage, NodeReport, PresencePage
from mhub.operations.contract import (
    BadArgument,
    ClientDetail,
    ClientPage,
    Cluster,
    ClusterSummary,
    ConnectionNumbers,
    GroupPage,
    Kicked,
    MessageNumbers,
    NotThere,
    OperationError,
    QueueNumbers,
    RetainedDeleted,
    RetainedLevels,
    RetainedMessage,
    RetainedPage,
    RoutePage,
    Say,
    SessionNumbers,
    Status,
    StoreStatus,
    Subscribed,
    SubscriptionPage,
    Surroundings,
    TopicLevels,
    TopicTop,
    Unavailable,
    Unsubscribed,
)
from mhub.operations.cursors import MOST
from mhub.operations.history import History
from mhub.operations.limits import LimitsInForce, limits_in_force
from mhub.operations.live import LiveWatch
from mhub.operations.monitor import Monitor
from mhub.operations.numbers import Numbers
from mhub.operations.readiness import Health, Readiness
from mhub.operations.retained import PREVIEW
from mhub.operations.slices import SLICE_S, Slices
from mhub.operations.snapshot import hub_pages
from mhub.operations.stats import Stats
from mhub.operations.steer import SteeringOperations
from mhub.store.contract import StoreError
from mhub.store.jsonl import HEADER, REGISTRY, records, to_line
from mhub.wire.errors import ProtocolFault
from mhub.wire.packets import Request
from mhub.wire.primitives import text_of
from mhub.wire.publish import Publish
from mhub.wire.reasons import UNSPECIFIED
from mhub.wire.reasons import name as name_of
from mhub.wire.topics import reserved

PORTION: Final = 25
"""Lines of an export that are made between two looks at the clock."""

MOST_DRIFT_S: Final = 1.0
"""Between the clocks, before it is taken into account: one was set, or the machine has slept."""

MOST_IDENTIFIER: Final = 268_435_455
MOST_TOPIC_BYTES: Final = 65_535


def request_of(
    topic_filter: str,
    qos: int,
    no_local: bool,
    retain_as_published: bool,
    retain_handling: int,
    identifier: int,
) -> Request:
    """What a SUBSCRIBE would bring.  Raises BadArgument for what none could."""
    for name, value, most in (
        ("qos", qos, 2),
        ("retain_handling", retain_handling, 2),
        ("identifier", identifier, MOST_IDENTIFIER),
    ):
        if not 0 <= value <= most:
            raise BadArgument(f"{name}: expected from 0 to {most}")
    try:
        data = topic_filter.encode("utf-8")
        text_of(data)
    except (UnicodeEncodeError, ProtocolFault):
        raise BadArgument("filter: it has characters that MQTT does not allow") from None
    if len(data) > MOST_TOPIC_BYTES:
        raise BadArgument(f"filter: expected at most {MOST_TOPIC_BYTES} bytes")
    options = qos | retain_handling << 4
    if no_local:
        options |= 0x04
    if retain_as_published:
        options |= 0x08
    return Request(topic_filter, options)


class Operations(SteeringOperations):
    def __init__(
        self,
        hub: Hub,
        surroundings: Surroundings,
        clock: Callable[[], float],
        pause: Callable[[], Awaitable[object]],
        access: Access | None = None,
        unix_time: Callable[[], float] = time.time,
    ) -> None:
        """`clock` is the hub's; pause() is as for Slices."""
        self.access = access  # users, roles, rules, bans
        self._hub = hub
        self.hub_events = hub.events
        self._around = surroundings
        self._clock = clock
        self._pause = pause
        self._offset_s = time.time() - clock()  # of the time of day
        self._build = build.kind()
        # Not at the head: what all nodes can be asked is a table of the methods below.
        from mhub.operations.everywhere import Everywhere

        self.everywhere = Everywhere(self, hub, surroundings, self._slices)
        self.monitor = Monitor(hub, surroundings, clock, unix_time, pause)

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

    async def limits(self) -> LimitsInForce:
        return await limits_in_force(self._hub, *self._around.limits(), self.access)

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
        """The shortest of the moving averages; none in the first seconds."""
        loads = self._hub.metrics.loads.get(name)
        return round(loads[0].per_minute / 60, 3) if loads else None

    # Numbers, and what happens

    def numbers(self) -> Numbers:
        """All of this moment, for those who show them in a form of their own."""
        return self.monitor.numbers()

    def pause(self) -> Awaitable[object]:
        """Comes back when everything else has had its turn."""
        return self._pause()

    def slices(self, slice_s: float = SLICE_S) -> Callable[[], Awaitable[None]]:
        """For long work of a caller: what it calls between two pieces."""
        return Slices(self._clock, self._pause, slice_s).pause_if_due

    def stats(self) -> Stats:
        return self.monitor.stats()

    async def history(self, names: tuple[str, ...] = (), span: str = "1h") -> History:
        """Series of the last hour, day or week (`1h`, `1d`, `7d`); without names, all of them."""
        return await self.monitor.history(names, span)

    def live(self) -> LiveWatch:
        """The numbers of each second, until it is closed.  Raises LimitReached."""
        return self.monitor.live()

    def events(
        self,
        after: int = 0,
        kinds: tuple[str, ...] = (),
        client_id: str = "",
        user: str = "",
        address: str = "",
        listener: str = "",
        node: str = "",
        limit: int = 100,
    ) -> EventPage:
        """Events behind the sequence number `after`, oldest first; without it the last ones.

        `client_id` is a pattern with * and ?, `address` what an address begins with.
        """
        if not 1 <= limit <= MOST_EVENTS:
            raise BadArgument(f"limit: expected from 1 to {MOST_EVENTS}")
        wanted = EventFilter(kinds, client_id, user, address, listener, node)
        return self.monitor.events(after, wanted, limit)

    def denials(self, limit: int = 100) -> DenialList:
        """What was denied lately: by client, user, action, topic and rule, the last one first."""
        return self.monitor.denials(limit)

    def ready(self) -> Readiness:
        """Whether a load balancer should send clients here."""
        return self.monitor.ready()

    def health(self) -> Health:
        return self.monitor.health()

    # Clients

    async def clients(
        self,
        match: str = "",
        listener: str = "",
        user: str = "",
        state: str = "",
        after: str = "",
        limit: int = MOST,
        sort: str = "client_id",
        cursor: str = "",
    ) -> ClientPage:
        """The first `limit` clients that fit, behind those of the page that `cursor` is of.

        `match` is a pattern with * and ? for client ids, `state` is "connected" or "offline", and
        `sort` is one of CLIENT_SORTS, descending with a - before it.  `after` is a client id, and
        may stand for the cursor of a list by these.
        """
        wanted = Wanted(match, listener, user, state)
        place = cursors.read(cursor, sort) if cursor else None
        if after and place is None:
            if sort != "client_id":
                raise BadArgument("after: it is for lists by client id; give a cursor")
            place = (0.0, after)
        return await clients.page(
            self._hub, wanted, place, limit, sort, self._slices(), self._moment()
        )

    async def clients_top(self, by: str = "messages_in_per_s", limit: int = 10) -> ClientPage:
        """The clients with the most of something, of CLIENT_SORTS; those with nothing of it too,
        if there are no others."""
        if by not in CLIENT_SORTS[1:]:
            raise BadArgument(f"by: expected one of {', '.join(CLIENT_SORTS[1:])}")
        return await self.clients(sort=f"-{by}", limit=limit)

    def client(self, client_id: str) -> ClientDetail:
        return clients.detail(clients.session_of(self._hub, client_id), self._moment())

    def kick(self, client_id: str, delete_session: bool = False) -> Kicked:
        """Close a client's connection, and delete its session if that is wanted."""
        session = self._session_at_rest(client_id)
        was_connected = session.is_connected()
        if not was_connected and not delete_session:
            raise OperationError(
                "it is not connected; `mhub ctl kick --delete-session` deletes its session"
            )
        self._hub.now = self._clock()
        self._hub.kick(session, delete_session)
        self._around.settle()
        deleted = self._hub.sessions.get(client_id) is not session
        return Kicked(client_id, was_connected, deleted)

    async def client_subscribe(
        self,
        client_id: str,
        topic_filter: str,
        qos: int = 0,
        no_local: bool = False,
        retain_as_published: bool = False,
        retain_handling: int = 0,
        identifier: int = 0,
    ) -> Subscribed:
        """Subscribe for a client, as a SUBSCRIBE of its own would: under its rights and limits.

        Comes back when what a SUBACK would promise is durable.
        """
        request = request_of(
            topic_filter, qos, no_local, retain_as_published, retain_handling, identifier
        )
        session = self._session_at_rest(client_id)
        hub = self._hub
        hub.now = self._clock()
        try:
            code = hub.subscribing.subscribe_for(session, request, identifier)
        except ProtocolFault as fault:
            raise BadArgument(f"filter: {fault.text}") from None
        if code < UNSPECIFIED:
            others = hub.peers.wait_for_table() if hub.peers is not None else None
            await self._until_safe(hub.mark(session), others)
            return Subscribed(client_id, topic_filter, code)
        self._around.settle()
        raise OperationError(f"the client may not have this subscription: {name_of(code)}")

    async def client_unsubscribe(self, client_id: str, topic_filter: str) -> Unsubscribed:
        """Take a subscription from a client, which is not told; `topic_filter` as it wrote it."""
        session = self._session_at_rest(client_id)
        hub = self._hub
        hub.now = self._clock()
        if not hub.subscribing.unsubscribe_for(session, topic_filter):
            raise NotThere("the client has no such subscription")
        await self._until_safe(hub.mark(session), None)
        return Unsubscribed(client_id, topic_filter)

    def _session_at_rest(self, client_id: str) -> Session:
        session = clients.session_of(self._hub, client_id)
        if session.frozen:
            raise OperationError("its session is just going to another node; try again there")
        return session

    async def _until_safe(self, after: int, tracker: AckTracker | None) -> None:
        """End the turn, and wait until what it has changed is in the store and at other nodes."""
        hub = self._hub
        done: Deferred[None] = Deferred()
        trackers = [] if tracker is None else [tracker]
        promise = Promise(after, trackers, lambda: done.callback(None))
        self._around.settle()
        if not promise.is_safe(hub.durable):
            hub.promises.waiting.append(promise)
            await done

    def _slices(self) -> Slices:
        return Slices(self._clock, self._pause)

    def held(self, client_ids: list[str]) -> list[Held]:
        """Of these clients, those whose sessions are here: what other nodes are told of them."""
        offset_s = self._moment().offset_s
        found = [places.held(self._hub, client_id, offset_s) for client_id in client_ids]
        return [each for each in found if each is not None]

    async def held_page(
        self, match: str = "", state: str = "", limit: int = MOST, cursor: str = ""
    ) -> HeldPage:
        """The same of all clients that fit, by client id."""
        page = await self.clients(match=match, state=state, limit=limit, cursor=cursor)
        return HeldPage(tuple(self.held([each.client_id for each in page.clients])), page.next)

    async def presence(
        self, match: str = "", state: str = "", limit: int = MOST, cursor: str = ""
    ) -> PresencePage:
        """Who is connected here, and who has a session; of the cluster, ask `everywhere`."""
        page = await self.held_page(match, state, limit, cursor)
        return PresencePage(tuple(each.presence for each in page.clients), page.next)

    def _moment(self) -> Moment:
        """Of the clocks; a small drift between them does not move what lists are sorted by."""
        now = self._clock()
        offset_s = time.time() - now
        if abs(offset_s - self._offset_s) > MOST_DRIFT_S:
            self._offset_s = offset_s
        return Moment(now, now + self._offset_s, self._node())

    def _node(self) -> str:
        peers = self._hub.peers
        return peers.node if peers is not None else ""

    # Subscriptions

    async def subscriptions(
        self,
        match: str = "",
        client_id: str = "",
        topic: str = "",
        group: str = "",
        kind: str = "",
        limit: int = MOST,
        sort: str = "filter",
        cursor: str = "",
    ) -> SubscriptionPage:
        """The first `limit` subscriptions that fit; sorted by "filter" or "client_id".

        `match` is a pattern with * and ? for filters, `topic` a topic that the filters match,
        `group` the name of a shared group, `kind` is "shared" or "plain".
        """
        wanted = subscriptions.Wanted(match, client_id, topic, group, kind)
        return await subscriptions.page(
            self._hub, wanted, cursor, limit, sort, self._slices(), self._node()
        )

    async def groups(self, limit: int = MOST, cursor: str = "") -> GroupPage:
        """Shared groups that have members here."""
        return await subscriptions.groups(self._hub, cursor, limit, self._slices(), self._node())

    async def routes(self, topic: str, limit: int = MOST, cursor: str = "") -> RoutePage:
        """Who would get a message of a topic."""
        return await subscriptions.routes(
            self._hub, topic, cursor, limit, self._slices(), self._node()
        )

    # Topics

    async def topics_top(
        self, by: str = "messages_per_s", limit: int = 10, sys: bool = False
    ) -> TopicTop:
        """The topics that most is published to; `sys`: also those of the broker itself."""
        return await topics.top(self._hub, by, limit, sys, self._slices(), self._moment())

    async def topics_tree(
        self, prefix: str = "", limit: int = MOST, cursor: str = "", sys: bool = False
    ) -> TopicLevels:
        """The levels below a prefix, of topics that were published to or have a message."""
        return await topics.tree(self._hub, prefix, cursor, limit, sys, self._slices())

    # Retained messages

    async def retained(
        self,
        topic_filter: str = "",
        match: str = "",
        sys: bool = False,
        limit: int = MOST,
        sort: str = "topic",
        cursor: str = "",
    ) -> RetainedPage:
        """The first `limit` retained messages that a topic filter and a pattern fit, by topic."""
        return await retained.page(
            self._hub,
            topic_filter,
            match,
            sys,
            cursor,
            limit,
            sort,
            self._slices(),
            self._moment(),
        )

    async def retained_tree(
        self, prefix: str = "", limit: int = MOST, cursor: str = "", sys: bool = False
    ) -> RetainedLevels:
        """The levels below a prefix, with the number of retained messages."""
        return await topics.retained_tree(self._hub, prefix, cursor, limit, sys, self._slices())

    def retained_message(self, topic: str, most_bytes: int = PREVIEW) -> RetainedMessage:
        """One of them, with up to `most_bytes` of its payload."""
        message = retained.find(self._hub, topic, self._clock())
        return retained.detail(self._hub, message, most_bytes, self._moment())

    async def retained_delete(self, topic: str) -> RetainedDeleted:
        """Delete one as a client does, by an empty message; comes back when that is durable."""
        hub = self._hub
        if reserved(topic):
            raise BadArgument("topic: what is under $SYS is the broker's own")
        retained.find(hub, topic, self._clock())
        hub.now = self._clock()
        route = hub.router.find(topic.encode("utf-8"))
        if hub.peers_refuse(route):
            raise Unavailable("the queue for another node is full; try again later")
        message = Publish(topic.encode("utf-8"), b"", 1, True)
        message.topic = route.topic
        message.topic_field = route.topic_field
        hub.publish(message, route)
        tracker = cast(AckTracker, message.tracker) if message.tracker is not None else None
        await self._until_safe(0, tracker)
        return RetainedDeleted(topic)

    # The store

    async def store_export(self, with_registry: bool = True) -> AsyncGenerator[bytes, None]:
        """The lines of an export, some at a time: sessions and what is retained, of one moment.

        `with_registry`: also users, with the hashes of their passwords, and all else that is there.
        Of a broker without a store each session is of one moment, and not all of the same.
        """
        slices = self._slices()
        pages: AsyncGenerator[Batch, None] | None = self._around.snapshot()
        if pages is None:
            pages = hub_pages(self._hub, time.time() - self._clock(), slices)
        yield HEADER
        try:
            async with aclosing(pages):
                async for batch in pages:
                    lines = []
                    for kind, values in records(batch):
                        if kind == REGISTRY and not with_registry:
                            continue
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

    async def cluster_report(self) -> NodeReport:
        """This node, for who asks about all of them."""
        state = msgspec.convert(self.cluster_status(), ClusterState)
        return NodeReport(state, await loss.holdings(self._hub, self._around, self._slices()))

    def cluster_forget_here(self, node: str) -> int | None:
        """How many messages were kept for it; None: it was not known.  Raises OperationError."""
        result = self._cluster().forget(node)
        return None if result is None else cast(int, result["messages"])

    async def cluster_leave(self, say: Say) -> Mapping[str, object]:
        self._cluster()
        return await self._around.leave(say)

    def cluster_forget(self, node: str) -> Mapping[str, object]:
        result = self._cluster().forget(node)
        if result is None:
            raise NotThere(f'there is no node "{node}"; `mhub ctl cluster status` lists them')
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
