"""A publisher, and a subscriber whose session outlives its connection."""

from typing import Any
from unittest import TestCase

from tests.core.world import Client, World
from tests.helpers.packets import Prop

KEPT = [(Prop.SESSION_EXPIRY, 1000)]


class SubscriberCase(TestCase):
    def build(self, **options: Any) -> None:
        """A publisher, and a subscriber to t at QoS 2 whose session outlives its connection."""
        self.world = World(**options)
        self.publisher = self.world.client("publisher", limits={"queue_full": "drop-newest"})
        self.subscriber = self.back()
        self.subscriber.subscribe("t", 2)

    def back(self, **connect: Any) -> Client:
        props = [*KEPT, *connect.pop("props", [])]
        return self.world.client("s", 5, clean=False, props=props, **connect)

    def publish(self, *payloads: int, qos: int = 1, size: int = 0) -> None:
        for number in payloads:
            self.publisher.publish("t", (b"%d" % number).ljust(size), qos)

    def numbers(self, client: Client | None = None) -> list[int]:
        return [int(payload) for payload in (client or self.subscriber).payloads()]

    def away(self) -> None:
        self.subscriber.take()
        self.subscriber.lose()

    def queued(self) -> list[int]:
        queue = self.subscriber.session.queue
        return [int(each.message.payload) for each in queue.deliveries] if queue else []
