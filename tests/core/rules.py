"""An authorizer whose answers a test can change, and an authenticator that believes everybody."""

from typing import Any

from mhub.core.authentication import Claim, Later, Step, success
from mhub.core.principal import Identity, Principal
from mhub.wire import reasons

NO = reasons.NOT_AUTHORIZED


class Rules:
    """Everything may be done but what the test denies: (action, user, topic)."""

    def __init__(self) -> None:
        self.denied: set[tuple[str, str, str]] = set()
        self.asked: list[tuple[Any, ...]] = []

    def _reason(self, action: str, principal: Principal, topic: str, *rest: Any) -> int:
        self.asked.append((action, principal.user, topic, *rest))
        return NO if (action, principal.user, topic) in self.denied else 0

    def connect(self, principal: Principal) -> int:
        return self._reason("connect", principal, principal.client_id)

    def publish(self, principal: Principal, topic: str, qos: int, retain: bool) -> int:
        return self._reason("publish", principal, topic, qos, retain)

    def will(self, principal: Principal, topic: str, qos: int, retain: bool) -> int:
        return self._reason("will", principal, topic, qos, retain)

    def subscribe(self, principal: Principal, topic_filter: str, qos: int, share: str) -> int:
        return self._reason("subscribe", principal, topic_filter, qos, share)

    def receive(self, principal: Principal, topic: str) -> bool:
        return not self._reason("receive", principal, topic)

    def rule_of(self, principal: Principal, action: str, topic: str, qos: int, retain: bool) -> str:
        return f"{action} {topic} {qos} {retain}"

    def take(self) -> list[tuple[Any, ...]]:
        asked, self.asked = self.asked, []
        return asked


class Trusting:
    """An authenticator that believes every user name."""

    def authenticate(self, claim: Claim) -> Step | Later:
        return success(Identity(claim.username or "", "trust"))
