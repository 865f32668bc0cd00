"""Makes what is retained below the prefix equal to what the tables of all nodes say.

A client is looked at again when something may have changed: its connection came or went here, the
table of another node says something else about it, or the node that has it went down or came back.
That is only a hint when to look.  What is published follows from the tables as they are then
(`mhub.operations.places`), and all clients are looked at from time to time without any hint, so
that what was missed does not stay wrong.

    look at a client:
      no node has it                  -> its topic is cleared
      its session is here             -> published
      at a node that can be reached   -> asked for there, in batches; published if the answer is
                                         about what the table says by then, else asked for later
      at a node that cannot           -> offline, with what was known of it before

Only changes are published.  A step does a bounded part of what there is to do, and says whether
something is left.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

import msgspec

from mhub.core import events
from mhub.core.events import Event
from mhub.core.hub import Hub
from mhub.core.peer import Peer
from mhub.core.session import Session
from mhub.operations.cluster_results import Held, Presence
from mhub.operations.places import Place, is_current, own_presence, place_of
from mhub.presence.topics import topic_of

PUBLISHED: Final = 50
"""Messages of one step: a millisecond in pure Python."""

LOOKED_AT: Final = 500
"""Clients that one step looks at: the same."""

BATCH: Final = 200
"""Clients that another node is asked for at a time."""

SWEEP_S: Final = 30.0
"""How often all clients are looked at, if they are not too many for that."""

SWEPT: Final = 1000
SWEPT_S: Final = 0.25
"""So many of them in this time: it takes a hundredth of it."""

RETRY_S: Final = 1.0

HINTS: Final = frozenset(
    (events.CONNECTED, events.DISCONNECTED, events.KICKED, events.SESSION_EXPIRED)
)

Key = tuple[str, float, bool]
"""What was published of a client: the node, the value in its table, whether the node is up."""

Fetched = Callable[[list[Held] | None, bool], None]
"""What a node tells of clients; None and True: it does not answer now, None and False: never."""

Fetch = Callable[[str, list[str], Fetched], None]
"""Ask a node about clients."""


def nobody(node: str, client_ids: list[str], fetched: Fetched) -> None:
    fetched(None, False)


class Publisher:
    def __init__(
        self,
        hub: Hub,
        prefix: str,
        unix_time: Callable[[], float],
        patience_s: float = 0.0,
        fetch: Fetch = nobody,
    ) -> None:
        """A node whose link is lost is down after `patience_s`."""
        self._hub = hub
        self._prefix = prefix
        self._unix_time = unix_time
        self._patience_s = patience_s
        self._fetch = fetch
        self._said: dict[str, Key] = {}
        self._dirty: dict[str, None] = {}  # to be looked at soon, in this order
        self._queue: deque[str] = deque()  # to be looked at after those
        self._swept: list[str] = []  # to be looked at when there is time
        self._to_sweep: list[Iterable[str]] = []  # and what comes after these
        self._swept_at = 0.0
        self._later: dict[str, float] = {}  # to be looked at again, at a time
        self._fetched: dict[str, Held | None] = {}  # what was told, and is to be published
        self._wanted: dict[str, dict[str, None]] = {}  # node -> clients to ask it for
        self._asking: set[str] = set()  # nodes that are being asked
        self._not_before: dict[str, float] = {}  # nodes that have not answered, until when to wait
        self._seen_at: dict[str, float] = {}  # nodes, when they were linked last
        self._up: dict[str, bool] = {}  # nodes, and whether they count as up
        self._sweep_at = 0.0
        self._is_new = True

    # Hints

    def emit(self, event: Event) -> None:
        """As a sink of events."""
        if event.kind in HINTS and event.client_id:
            self._dirty[event.client_id] = None

    def touch(self, client_id: str) -> None:
        """A table says something else about a client."""
        self._dirty[client_id] = None

    # Work

    def step(self, now: float) -> bool:
        """A part of what there is to do; whether something is left for right now."""
        if self._is_new:
            self._is_new = False
            self._queue.extend(self._hub.sessions)
            self._sweep_at = now + SWEEP_S
        self._watch_nodes(now)
        for client_id in [each for each, due in self._later.items() if due <= now]:
            del self._later[client_id]
            self._dirty[client_id] = None
        room = PUBLISHED
        while self._fetched and room:
            client_id = next(iter(self._fetched))
            room -= self._take(client_id, self._fetched.pop(client_id), now)
        looks = LOOKED_AT
        while room > 0 and looks and (self._dirty or self._queue):
            looks -= 1
            if self._dirty:
                client_id = next(iter(self._dirty))
                del self._dirty[client_id]
            else:
                client_id = self._queue.popleft()
            room -= self._look(client_id, now)
        self._sweep(room, now)
        self._ask(now)
        return bool(self._dirty or self._queue or self._fetched)

    def _watch_nodes(self, now: float) -> None:
        """Whether other nodes went down, came back, are new or forgotten."""
        peers = self._hub.peers
        if peers is None:
            return
        if self._up.keys() != peers.peers.keys():
            for name in self._up.keys() - peers.peers.keys():
                del self._up[name]
                self._seen_at.pop(name, None)
                self._wanted.pop(name, None)
                self._not_before.pop(name, None)
            self._queue.extend(self._said)  # a node that is forgotten has no clients any more
        for peer in peers.all:
            if is_current(peer):
                self._seen_at[peer.name] = now
            seen_at = self._seen_at.get(peer.name)
            is_up = seen_at is not None and now - seen_at <= self._patience_s
            if self._up.get(peer.name) != is_up:
                self._up[peer.name] = is_up
                self._queue.extend(peer.clients)

    def _sweep(self, room: int, now: float) -> None:
        """Look at some of all clients, without any hint."""
        if not self._swept and not self._to_sweep and now >= self._sweep_at:
            self._sweep_at = now + SWEEP_S
            hub = self._hub
            self._to_sweep = [hub.sessions, self._said]
            if hub.peers is not None:
                self._to_sweep += [peer.clients for peer in hub.peers.all]
        if now < self._swept_at + SWEPT_S:
            return
        self._swept_at = now
        looks = SWEPT
        while room > 0 and looks and (self._swept or self._to_sweep):
            if not self._swept:
                self._swept = list(self._to_sweep.pop())
                continue
            looks -= 1
            room -= self._look(self._swept.pop(), now)

    def _look(self, client_id: str, now: float) -> int:
        """Publish what is said of a client, if that is known; how many messages it were."""
        place = place_of(self._hub, client_id)
        if place is None:
            return self._clear(client_id)
        peer = place.peer
        if peer is None:
            session = self._hub.sessions.get(client_id)
            if session is None or session.is_connected() != place.is_connected:
                self._later[client_id] = now + RETRY_S  # it is claimed, and on its way
                return 0
            key = self._own_key(session)
            if self._said.get(client_id) == key:
                return 0
            offset_s = self._unix_time() - now
            return self._say(own_presence(self._hub, session, offset_s), key)
        key = self._key(place, peer)
        if self._said.get(client_id) == key:
            return 0
        if key[2]:
            self._wanted.setdefault(peer.name, {})[client_id] = None
            return 0
        return self._say(self._of_lost_node(client_id, peer.name), key)

    def _own_key(self, session: Session) -> Key:
        connection = session.connection
        return "", -1.0 if connection is None else connection.connected_at, True

    def _key(self, place: Place, peer: Peer) -> Key:
        return peer.name, place.value, self._up.get(peer.name, False)

    def _of_lost_node(self, client_id: str, node: str) -> Presence:
        """A client of a node that cannot be reached."""
        known = self.known(client_id)
        if known is not None and known.node == node:
            was_connected = known.state == "connected"
            since = round(self._unix_time(), 3) if was_connected else known.since
            return replace(known, state="offline", node_state="down", version=None, since=since)
        return Presence(client_id, "offline", node, "down", None, None, None, None, None)

    def known(self, client_id: str) -> Presence | None:
        """What is retained of a client."""
        message = self._hub.retained.tree.get(topic_of(self._prefix, client_id))
        if message is None:
            return None
        try:
            return msgspec.json.decode(message.payload, type=Presence)
        except msgspec.DecodeError:
            return None

    def _clear(self, client_id: str) -> int:
        if self._said.pop(client_id, None) is None:
            return 0
        topic = topic_of(self._prefix, client_id)
        if topic:
            self._hub.publish_seldom(topic, b"", True)
        return 1

    def _say(self, presence: Presence, key: Key) -> int:
        topic = topic_of(self._prefix, presence.client_id)
        self._said[presence.client_id] = key
        if topic:  # else there is none that could have it
            self._hub.publish_seldom(topic, msgspec.json.encode(presence), True)
        return 1

    # Clients of other nodes

    def _ask(self, now: float) -> None:
        for node, wanted in list(self._wanted.items()):
            if node in self._asking or now < self._not_before.get(node, now):
                continue
            client_ids = list(wanted)[:BATCH]
            for client_id in client_ids:
                del wanted[client_id]
            if not wanted:
                del self._wanted[node]
            self._asking.add(node)
            self._ask_one(node, client_ids)

    def _ask_one(self, node: str, client_ids: list[str]) -> None:
        def fetched(found: list[Held] | None, is_later: bool) -> None:
            self._asking.discard(node)
            if found is None and is_later:
                self._not_before[node] = self._hub.now + RETRY_S
                self._wanted.setdefault(node, {}).update(dict.fromkeys(client_ids))
                return
            told = {each.presence.client_id: each for each in found or ()}
            for client_id in client_ids:
                if client_id in told or found is None:
                    self._fetched[client_id] = told.get(client_id)
                else:  # its table says so already, and the session is on its way
                    self._later[client_id] = self._hub.now + RETRY_S

        self._fetch(node, client_ids, fetched)

    def _take(self, client_id: str, told: Held | None, now: float) -> int:
        """What a node has told, if its table still says so; None: it tells nothing."""
        place = place_of(self._hub, client_id)
        if place is None or place.peer is None:
            return self._look(client_id, now)
        key = self._key(place, place.peer)
        if not key[2]:
            return self._look(client_id, now)
        name = place.peer.name
        if told is None:
            state = "connected" if place.is_connected else "offline"
            bare = Presence(client_id, state, name, "up", None, None, None, None, None)
            return 0 if self._said.get(client_id) == key else self._say(bare, key)
        if told.presence.node != name or told.value != place.value:
            self._later[client_id] = now + RETRY_S
            return 0
        return 0 if self._said.get(client_id) == key else self._say(told.presence, key)
