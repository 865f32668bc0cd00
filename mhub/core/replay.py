"""The retained messages that a session is sent because it has subscribed.

    add() -> snapshots -> take()                 looked up with the SUBSCRIBE, sent in portions
    add() -> pending -> look_up_next() -> ...    looked up later, if there is very much to do

They come before all that is published after the SUBSCRIBE, so everything else of the session waits
while there are any.  They are outside of the queue and its bounds: a snapshot refers to messages
that are retained anyway.  A session for which none wait has no RetainedReplay.
"""

from collections import deque
from typing import Final

from mhub.core.authorization import Authorizer
from mhub.core.delivery import Subscription
from mhub.core.retained import Retained
from mhub.wire.publish import Publish

MAX_SNAPSHOT: Final = 100_000
"""So many retained messages may wait for one session; more are looked up when these are out."""


class Snapshot:
    """What was retained for one new subscription; there is at least one message."""

    def __init__(self, subscription: Subscription, messages: list[Publish]) -> None:
        self.subscription = subscription
        self.messages = messages  # the next one last


class RetainedReplay:
    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.snapshots: deque[Snapshot] = deque()
        self.waiting = 0  # messages in them
        self.unchecked = False  # rights have changed since some of them were looked up
        self.pending: dict[str, Subscription] = {}  # of which nothing is looked up yet

    def is_over(self) -> bool:
        return not self.snapshots and not self.pending

    def may_look_up(self) -> bool:
        """Whether there is room for one more snapshot, and nothing has to come before it."""
        return not self.pending and self.waiting < MAX_SNAPSHOT

    def look_up(
        self,
        subscription: Subscription,
        retained: Retained,
        now: float,
        authorizer: Authorizer | None,
    ) -> int:
        """Take a snapshot for a subscription; how much work that was."""
        found = retained.match(subscription.topic_filter, now)
        effort = retained.effort()
        if subscription.no_local:
            found = [message for message in found if message.sender != self.client_id]
        if authorizer is not None:
            principal = subscription.session.principal
            effort += len(found)
            found = [message for message in found if authorizer.receive(principal, message.topic)]
        if found:
            found.reverse()
            self.waiting += len(found)
            self.snapshots.append(Snapshot(subscription, found))
        return effort

    def look_up_next(self, retained: Retained, now: float, authorizer: Authorizer | None) -> int:
        """Take the snapshot for the first pending subscription, if there is one."""
        if not self.pending:
            return 0
        first = self.pending.pop(next(iter(self.pending)))
        return self.look_up(first, retained, now, authorizer)

    def withdraw(self, name: str, subscription: Subscription) -> None:
        """A subscription is not allowed any more: what it would bring is not sent."""
        self.pending.pop(name, None)
        kept: deque[Snapshot] = deque()
        for snapshot in self.snapshots:
            if snapshot.subscription is subscription:
                self.waiting -= len(snapshot.messages)
            else:
                kept.append(snapshot)
        self.snapshots = kept

    def next_qos(self) -> int:
        """The QoS of the message that is next; there has to be a snapshot."""
        snapshot = self.snapshots[0]
        return min(snapshot.messages[-1].qos, snapshot.subscription.qos)

    def take(self) -> Publish:
        """The message that is next; there has to be a snapshot."""
        snapshot = self.snapshots[0]
        message = snapshot.messages.pop()
        if not snapshot.messages:
            self.snapshots.popleft()
        self.waiting -= 1
        return message

    def entries(self) -> list[tuple[Subscription, Publish]]:
        """All that was looked up and not sent."""
        return [
            (snapshot.subscription, message)
            for snapshot in self.snapshots
            for message in reversed(snapshot.messages)
        ]
