"""Groups of shared subscribers: $share/NAME/FILTER, on this node and on others.

Each message goes to one member: live ones in turn, and only when none is live to one that is away
with a session.  What a member that leaves had not acknowledged goes to the others; a QoS 2 message
whose delivery had begun stays with its client [MQTT-4.8.2-4, MQTT-4.8.2-5].
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mhub.core.delivery import Subscriber, Subscription


class RemoteNode:
    """Another node, as far as those need to know it that route messages to it: a `Peer`."""

    def __init__(self) -> None:
        self.name = ""
        self.up = False  # there is a link, and both sides know where the other one stands

    def full(self) -> bool:
        """Whether it can be sent nothing more for now."""
        raise NotImplementedError


class Group:
    def __init__(self, name: str, topic_filter: str) -> None:
        self.name = name
        self.topic_filter = topic_filter
        self.full_name = f"$share/{name}/{topic_filter}"
        self.members: list[Subscription] = []
        self.turn = 0
        self.live = 0  # connected members, and
        self.lasting = False  # whether one outlives its connection, as they were counted last
        self.peers: dict[RemoteNode, int] | None = None  # values as in `mhub.core.table`
        self.elsewhere = False  # the message at hand goes to a peer

    def join(self, subscription: "Subscription") -> "Subscription | None":
        """The one of the same session before, if there is one."""
        for index, member in enumerate(self.members):
            if member.session is subscription.session:
                self.members[index] = subscription
                return member
        self.members.append(subscription)
        return None

    def leave(self, session: "Subscriber") -> None:
        self.members = [member for member in self.members if member.session is not session]

    def choose(
        self, besides: "Subscriber | None", denied: "set[Subscription] | None"
    ) -> "Subscription | None":
        """Whose turn it is: the next ready member, else the next live one, else the next.

        Neither `besides` nor one of those that may not receive the message.
        """
        count = len(self.members)
        live: Subscription | None = None
        away: Subscription | None = None
        for step in range(count):
            index = (self.turn + step) % count
            member = self.members[index]
            session = member.session
            if session is besides or (denied is not None and member in denied):
                continue
            if not session.is_connected():
                if away is None:
                    away = member
            elif session.ready():
                self.turn = index + 1
                return member
            elif live is None:
                live = member
        self.turn += 1
        return live if live is not None else away

    def has_live_member(self, besides: "Subscriber") -> bool:
        for member in self.members:
            if member.session is not besides and member.session.is_connected():
                return True
        if self.peers is not None:
            for peer, value in self.peers.items():
                if peer.up and value >> 2:
                    return True
        return False

    # Members on other nodes

    def recount(self) -> None:
        self.live = 0
        self.lasting = False
        for member in self.members:
            if member.session.is_connected():
                self.live += 1
            if member.lasting:
                self.lasting = True

    def choose_peer(self, local_first: bool) -> "RemoteNode | None":
        """The node whose turn it is; None if it is a member here, or nobody at all.

        Connected members have equal turns, wherever they are.  Only if there are none, it is one
        that is away: here if there is any.
        """
        peers = self.peers
        if peers is None or (local_first and self.live):
            return None
        total = self.live
        for peer, value in peers.items():
            if peer.up and not peer.full():
                total += value >> 2
        if total:
            place = self.turn % total
            self.turn += 1
            if place < self.live:
                return None
            place -= self.live
            for peer, value in peers.items():
                if peer.up and not peer.full():
                    if place < value >> 2:
                        return peer
                    place -= value >> 2
        if self.members:
            return None
        for peer in peers:
            if peer.up and not peer.full():
                return peer
        for peer in peers:
            if not peer.full():
                return peer
        return None

    def choose_other(self, besides: list[str]) -> "RemoteNode | None":
        """A node with members, but for these: one with connected ones, if there is any."""
        if self.peers is None:
            return None
        found: RemoteNode | None = None
        best = -1
        for peer, value in self.peers.items():
            if peer.full() or peer.name in besides:
                continue
            rank = (2 if value >> 2 else 1) if peer.up else 0
            if rank > best:
                found = peer
                best = rank
        return found

    def name_for(self, denied_at: list[str]) -> str:
        """How a message says that it is for this group, and which nodes it need not come to again.

        Without that, a message that no member of a group may receive would go around for ever.
        """
        return self.full_name if not denied_at else "\0".join([self.full_name, *denied_at])

    def stuck(self) -> bool:
        """Whether all members are on nodes that can be sent nothing more for now."""
        if self.members or self.peers is None:
            return False
        return all(peer.full() for peer in self.peers)


def read_share(name: str) -> tuple[str, list[str]]:
    """What Group.name_for() wrote: the full name of a group, and nodes."""
    if "\0" not in name:
        return name, []
    parts = name.split("\0")
    return parts[0], parts[1:]
