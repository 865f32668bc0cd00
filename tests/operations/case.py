"""Operations of a hub whose clients are objects of the test."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mhub.operations.operations import Operations
from tests.core.rules import Rules, Trusting
from tests.core.world import Client, World
from tests.operations.around import Around, Pauses

T = TypeVar("T")


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.build()

    def build(self, **options: Any) -> None:
        self.world = World(sys_interval_s=0, **options)
        self.around = Around(self.world.hub)
        self.pauses = Pauses()
        self.operations = Operations(
            self.world.hub, self.around, lambda: self.world.now, self.pauses
        )

    def done(self, operation: Coroutine[Any, Any, T]) -> T:
        return self.successResultOf(Deferred.fromCoroutine(operation))

    def refused(self, operation: Coroutine[Any, Any, Any], kind: type[Exception]) -> str:
        return str(self.failureResultOf(Deferred.fromCoroutine(operation), kind).value)

    def with_rules(self, *denied: tuple[str, str, str]) -> Rules:
        """(action, user, topic); users are who they say that they are."""
        self.world.hub.admission.authenticator = Trusting()
        rules = Rules()
        rules.denied = set(denied)
        self.world.hub.authorize_with(rules)
        self.world.settle()
        return rules

    def publish(self, topic: str, payload: bytes = b"x", **rest: Any) -> Client:
        client = self.world.client("publisher", **rest.pop("connect", {}))
        client.publish(topic, payload, **rest)
        return client
