"""What makes a session get messages, and a message on its way to one."""

from typing import TYPE_CHECKING

from mhub.core.records import DeliveryRecord
from mhub.core.shared import Group
from mhub.wire.publish import Publish

if TYPE_CHECKING:
    from mhub.core.session import Session


class Subscription:
    """One session's interest in one filter (or, for overlapping ones, in one topic)."""

    def __init__(self, session: "Session", topic_filter: str, share: str) -> None:
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
        self.fed = False  # a retained message, for a new subscription
        self.record: DeliveryRecord | None = None  # what the store has of it
