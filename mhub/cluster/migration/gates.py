"""Which messages are for a session while it migrates, by the node that published them.

    SourceGate    everything is kept; what comes behind a node's mark is noted as beyond the cut
    ArrivalGate   before the session is here: what comes behind a node's mark is held back
    MissingGate   it is here, but nodes were missing: theirs waits for what the source relays
    RelayGate     it was given away: what missing nodes had sent before their marks is relayed

A gate is the `intake` of its session, which asks it for each message (`mhub.core.ports`).  QoS 0 is
not kept for a session that has no client.  What comes by a shared subscription comes to nobody
else, so no gate stops it.
"""

from collections.abc import Callable

from mhub.cluster.migration.frames import marks_in
from mhub.core.delivery import Delivery, Subscription
from mhub.core.hub import Hub
from mhub.core.session import Session
from mhub.wire.publish import Publish


def _publisher(hub: Hub, node: str) -> str:
    """The node that the message at hand was published at."""
    return hub.source.name if hub.source is not None else node


def _copied_mark(hub: Hub, client_id: str) -> int:
    """Of a copy: the epoch of the mark in front of it, in the channel that it was taken from."""
    return marks_in(hub.source_controls).get(client_id, 0) if hub.source_controls else 0


def _delivery(message: Publish, qos: int, subscription: Subscription) -> Delivery:
    retain = message.retain and subscription.retain_as_published
    delivery = Delivery(message, qos, retain, subscription.ids)
    delivery.group = subscription.group
    return delivery


class SourceGate:
    """Marks are kept by their epochs: an entry is beyond the cut of a claim with that epoch or a
    lower one, and an ordinary one for a claim that comes later."""

    def __init__(self, session: Session, node: str, under: "MissingGate | None") -> None:
        self._session = session
        self._node = node
        self.under = under  # the one that the session had, and has again if it stays
        self.marks: dict[str, int] = {}  # node -> the highest epoch of its marks
        self.beyond: dict[int | Delivery, int] = {}  # seq, or the delivery itself -> epoch
        self.after_end: list[Delivery] | None = None  # what came since END
        self.end_epoch = 0  # of the claim that END was for

    def mark(self, node: str, epoch: int) -> None:
        self.marks[node] = max(self.marks.get(node, 0), epoch)

    def has_marked(self, node: str, epoch: int) -> bool:
        return self.marks.get(node, 0) >= epoch

    def admits(self, message: Publish, qos: int, subscription: Subscription) -> bool:
        if not qos:
            return False
        node = _publisher(self._session.hub, self._node)
        is_shared = subscription.group is not None
        epoch = 0
        if not is_shared:
            copied = _copied_mark(self._session.hub, self._session.client_id)
            epoch = max(self.marks.get(node, 0), copied)
            epoch = epoch if epoch > self._session.epoch else 0
        under = self.under
        if under is not None and under.stops(node) and not is_shared:
            if under.has_marked(node) and self.after_end is not None and epoch < self.end_epoch:
                self.add(_delivery(message, qos, subscription), epoch)
            elif under.has_marked(node):
                delivery = _delivery(message, qos, subscription)
                under.hold(node, delivery)
                if epoch:
                    self.beyond[delivery] = epoch
            else:
                under.admits(message, qos, subscription)
            return False
        self.add(_delivery(message, qos, subscription), epoch)
        return False

    def add(self, delivery: Delivery, epoch: int) -> None:
        """Keep it; with an epoch, as beyond the cut."""
        session = self._session
        last_seq = session.last_seq
        session.enqueue(delivery)
        if epoch:
            if not session.sid:
                self.beyond[delivery] = epoch
            elif session.last_seq > last_seq:
                self.beyond[session.last_seq] = epoch
        if self.after_end is not None and epoch < self.end_epoch:
            self.after_end.append(delivery)


class ArrivalGate:
    def __init__(self, session: Session, node: str) -> None:
        self._session = session
        self._node = node
        self.marked = {node}  # this one has marked when it began to route the subscriptions
        self.later_marks: dict[str, int] = {}  # node -> epoch of a mark for a later claim
        # With the node that it was published at, and the epoch of that mark, if it came before
        self.held: list[tuple[str, Delivery, int]] = []

    def admits(self, message: Publish, qos: int, subscription: Subscription) -> bool:
        """Not stored: the source has it, too, until all of this is safe here."""
        node = _publisher(self._session.hub, self._node)
        copied = _copied_mark(self._session.hub, self._session.client_id)
        if qos and (node in self.marked or copied >= self._session.epoch):
            most = self._session.limits.max_queued_messages
            if most and len(self.held) >= most:
                self._session.hub.stats.dropped_queue_full += 1
            else:
                later = max(self.later_marks.get(node, 0), copied)
                later = later if later > self._session.epoch else 0
                self.held.append((node, _delivery(message, qos, subscription), later))
        return False


class MissingGate:
    """`waits` has, for each missing node, the remainders that have not said CLOSED of it; without
    any, only the node's mark is waited for."""

    def __init__(self, session: Session, node: str, epoch: int, waits: dict[str, set[str]]) -> None:
        self._session = session
        self._node = node
        self._epoch = epoch  # of the claim by which the session came here
        self.waits = waits
        self.direct: dict[str, int] = {}  # node -> until its mark for this epoch, it is for here
        self.marked: set[str] = set()  # nodes whose marks for that claim, or a later one, came
        self.held: dict[str, list[Delivery]] = {}  # what they have sent since, or to earlier owners
        self.held_since: dict[str, float] = {}
        # Of a new session: what nodes sent before their marks, which is for older ones, if there
        # are any; and nodes of which an older one has relayed something
        self.early: dict[str, list[Delivery]] | None = None
        self._relayed: set[str] = set()

    def mark(self, node: str, epoch: int) -> None:
        if epoch >= self.direct.get(node, 0):
            self.direct.pop(node, None)
        if node in self.waits and epoch >= self._epoch:
            self.marked.add(node)
            self.held_since.setdefault(node, self._session.hub.now)
            if not self.waits[node]:
                self.release(node)

    def admits(self, message: Publish, qos: int, subscription: Subscription) -> bool:
        node = _publisher(self._session.hub, self._node)
        if not self.stops(node) or subscription.group is not None:
            return True
        if qos and self.has_marked(node):
            self.hold(node, _delivery(message, qos, subscription))
        elif qos and self.early is not None:
            delivery = _delivery(message, qos, subscription)
            self._session.put_aside(delivery)
            self.early.setdefault(node, []).append(delivery)
        return False

    def has_marked(self, node: str) -> bool:
        copied = _copied_mark(self._session.hub, self._session.client_id)
        return node in self.marked or copied >= self._epoch

    def stops(self, node: str) -> bool:
        """Whether what a node sends is not for the session now."""
        return node in self.waits and node not in self.direct

    def hold(self, node: str, delivery: Delivery) -> None:
        self._session.put_aside(delivery)
        self.held.setdefault(node, []).append(delivery)
        self.held_since.setdefault(node, self._session.hub.now)

    def closed(self, node: str, source: str) -> None:
        """A source has relayed all that a node had sent it; "*": that any node had."""
        for name, sources in list(self.waits.items()):
            if node in (name, "*"):
                if node == name and source in sources:
                    self._relayed.add(name)
                sources.discard(source)
                if not sources and (node != "*" or name in self.marked):
                    self.release(name)

    def waits_for(self, name: str) -> bool:
        """Whether for what a node relays."""
        return any(each.startswith(name + ":") for those in self.waits.values() for each in those)

    def forget(self, name: str) -> None:
        """A node is not there any more, as a source or as a publisher."""
        for node, sources in list(self.waits.items()):
            for source in [each for each in sources if each.startswith(name + ":")]:
                self.closed(node, source)
        if name in self.waits:
            self.release(name)

    def give_up_early(self) -> None:
        """The session migrates: rather twice than not at all."""
        early, self.early = self.early, None
        for deliveries in (early or {}).values():
            for delivery in deliveries:
                self._session.requeue(delivery)

    def release(self, node: str) -> None:
        del self.waits[node]
        self.marked.discard(node)
        self.held_since.pop(node, None)
        early = self.early.pop(node, []) if self.early is not None else []
        for delivery in early:
            if node in self._relayed:
                self._session.drop_aside(delivery)
            else:
                self._session.requeue(delivery)
        for delivery in self.held.pop(node, []):
            self._session.requeue(delivery)
        self._session.pump(self._session.hub.portion)


class RelayGate:
    """`missing` has, for each node, whether what it sends is for this part of the session already:
    if that had waited for the node itself, not before its mark."""

    def __init__(
        self,
        hub: Hub,
        node: str,
        epoch: int,
        missing: dict[str, bool],
        relay: Callable[[Delivery], None],
    ) -> None:
        self._hub = hub
        self._node = node
        self._relay = relay
        self.missing = missing
        self.epoch = epoch  # of the claim that the session was given to

    def admits(self, message: Publish, qos: int, subscription: Subscription) -> bool:
        copied = _copied_mark(self._hub, subscription.session.client_id)
        if qos and self.missing.get(_publisher(self._hub, self._node), False):
            if copied < self.epoch:
                self._relay(_delivery(message, qos, subscription))
        return False
