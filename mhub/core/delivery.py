"""What makes a session get messages, and a message on its way to one."""

from mhub.core.principal import NOBODY
from mhub.core.records import DeliveryRecord, Row, SessionRecord, publish_of
from mhub.core.shared import Group
from mhub.core.slots import NOWHERE
from mhub.core.timers import Timed
from mhub.wire.publish import Publish


class Subscriber(Timed):
    """A session, as far as those need to know it that route messages to it, or store them."""

    def __init__(self, client_id: str) -> None:
        super().__init__()
        self.client_id = client_id
        self.principal = NOBODY
        self.sid = 0  # its number in the store; 0: it is not there
        self.last_seq = 0  # of its deliveries in the store
        self.hub_slot = NOWHERE  # among those of the hub; there if it is the one of its client
        self.granted = 0  # the revision of the rights under which all it subscribed to was asked

    def is_connected(self) -> bool:
        raise NotImplementedError

    def ready(self) -> bool:
        """Whether a QoS 1 message would leave at once."""
        raise NotImplementedError

    def deliver(self, message: Publish, qos: int, subscription: "Subscription") -> None:
        """Take a message over: send it now, or keep it as long as it takes."""
        raise NotImplementedError

    def record(self, clock_offset_s: float) -> SessionRecord:
        """What the store has of it, its times in those of the day."""
        raise NotImplementedError

    # Rights that have changed: `mhub.core.revocation`

    def tell_denied_receive(self, topic: str) -> None:
        """It does not get messages of a topic that it has subscribed to."""
        raise NotImplementedError

    def begin_review(self) -> list[str]:
        """The names of subscriptions that are to be asked for."""
        raise NotImplementedError

    def review(self, name: str) -> bool:
        """Whether a subscription stays; it is withdrawn if it may not."""
        raise NotImplementedError

    def end_review(self, withdrawn: list[str], is_whole: bool) -> None:
        """What came of it; whether all names were asked for."""
        raise NotImplementedError


class Subscription:
    """One session's interest in one filter (or, for overlapping ones, in one topic)."""

    def __init__(self, session: Subscriber, topic_filter: str, share: str) -> None:
        self.session = session
        self.topic_filter = topic_filter  # without $share/NAME/
        self.share = share  # NAME, or ""
        self.group: Group | None = None
        self.qos = 0
        self.no_local = False
        self.own: Subscription | None = None  # what is left for the session's own messages
        self.retain_as_published = False
        self.ids = b""  # Subscription Identifiers as properties, ready to send
        self.lasting = False  # QoS 1 or 2, of a session that outlives its connection
        self.slot = NOWHERE  # among those of the router

    def covers(self, other: "Subscription") -> bool:
        """Whether another one of the same session adds nothing, for a topic that both match."""
        return (
            other.qos <= self.qos
            and not other.ids
            and not other.no_local
            and not self.no_local
            and (self.retain_as_published or not other.retain_as_published)
        )

    def overlapping(self, other: "Subscription") -> "Subscription":
        """Both as one, for a topic that both match."""
        both = Subscription(self.session, self.topic_filter, "")
        both.qos = max(self.qos, other.qos)
        both.retain_as_published = self.retain_as_published or other.retain_as_published
        both.ids = self.ids + other.ids
        both.no_local = self.no_local or other.no_local
        if both.no_local:
            # A message of its own reaches the session by the subscriptions without No Local only.
            left = self.own if self.no_local else self
            right = other.own if other.no_local else other
            if left is not None and right is not None:
                both.own = left.overlapping(right)
            else:
                both.own = left if left is not None else right
        return both


class Delivery:
    """A message on its way to one session."""

    def __init__(self, message: Publish, qos: int, retain: bool, ids: bytes) -> None:
        self.message = message
        self.qos = qos
        self.retain = retain
        self.ids = ids
        self.group: Group | None = None
        self.released = False  # QoS 2: PUBREC came, PUBREL is out
        self.counted = False  # its PUBLISH went out on this connection: it takes a place
        self.record: DeliveryRecord | None = None  # what the store has of it

    def size_bytes(self) -> int:
        return len(self.message.payload) + len(self.message.topic_data)


def delivery_of(
    row: Row, clock_offset_s: float, subscriptions: dict[str, Subscription]
) -> Delivery:
    """A delivery as it was stored or transferred; ValueError if that is damaged."""
    record = row.record
    delivery = Delivery(publish_of(row.body, clock_offset_s), record.qos, record.retain, record.ids)
    delivery.released = record.released
    if record.share:
        for subscription in subscriptions.values():
            group = subscription.group
            if group is not None and group.full_name == record.share:
                delivery.group = group
    return delivery
