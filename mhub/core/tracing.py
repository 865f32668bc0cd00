"""Looking on at the messages of a topic, or at clients as they come.

Nothing here costs a message anything while nobody looks on.  A connection that is traced has a
`tap` (`mhub.core.ports.Tap`), which is asked about once for each read, and another outlet.  Those
who look on at a topic are in its Route, as if they had subscribed to it, but for what publishers
are told: `Route.is_wanted` does not count them.
"""

from collections.abc import Callable

from mhub.core.delivery import Subscriber, Subscription
from mhub.wire.publish import Publish


class TopicTap(Subscriber):
    """Who looks on; `tell` gets each message once, and must not raise."""

    def __init__(self, topic_filter: str, tell: Callable[[Publish], None]) -> None:
        super().__init__("")
        self.topic_filter = topic_filter
        self.tell = tell
        self.subscription = Subscription(self, topic_filter, "")
        self.subscription.qos = 2

    def is_connected(self) -> bool:
        return True

    def ready(self) -> bool:
        return True

    def deliver(self, message: Publish, qos: int, subscription: Subscription) -> None:
        self.tell(message)
