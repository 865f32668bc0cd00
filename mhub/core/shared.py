"""Groups of shared subscribers: $share/NAME/FILTER.

Each message goes to one member: live ones in turn, and only when none is live to one that is away
with a session.  What a member that leaves had not acknowledged goes to the others; a QoS 2 message
whose delivery had begun stays with its client [MQTT-4.8.2-4, MQTT-4.8.2-5].
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mhub.core.session import Session, Subscription


class Group:
    def __init__(self, name: str, topic_filter: str) -> None:
        self.name = name
        self.topic_filter = topic_filter
        self.full_name = f"$share/{name}/{topic_filter}"
        self.members: list[Subscription] = []
        self.turn = 0

    def join(self, subscription: "Subscription") -> None:
        for index, member in enumerate(self.members):
            if member.session is subscription.session:
                self.members[index] = subscription
                return
        self.members.append(subscription)

    def leave(self, session: "Session") -> None:
        self.members = [member for member in self.members if member.session is not session]

    def choose(self, besides: "Session | None" = None) -> "Subscription | None":
        """Whose turn it is: the next ready member, else the next live one, else the next."""
        count = len(self.members)
        live: Subscription | None = None
        away: Subscription | None = None
        for step in range(count):
            index = (self.turn + step) % count
            member = self.members[index]
            session = member.session
            if session is besides:
                continue
            if session.connection is None:
                if away is None:
                    away = member
            elif session.ready():
                self.turn = index + 1
                return member
            elif live is None:
                live = member
        self.turn += 1
        return live if live is not None else away

    def has_live_member(self, besides: "Session") -> bool:
        for member in self.members:
            if member.session is not besides and member.session.connection is not None:
                return True
        return False
