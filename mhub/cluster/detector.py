"""The failed-node detector: which nodes this one should try to take over from, and when.

A node that is not linked may be dead, or only out of our reach; its lease in the store that all
nodes share knows (`mhub.cluster.failover`).  So every node with that store tries, a moment after
the link is gone and then again and again; one of them gets the lease once it has lapsed.

    due()     those to try now; each is busy then, until
    failed()  the lease was not to be had: again soon
    ended()   it was, and this is over: not at once again, so that the node itself can come back

Sans-I/O, as the node itself.
"""

from random import Random
from typing import Final

from mhub.cluster.member import DEAD, DOWN, Member
from mhub.cluster.node import Node

PAUSE_S: Final = 60.0
"""After something could not be handed over."""


class FailedNode:
    def __init__(self, due_at: float) -> None:
        self.due_at = due_at
        self.busy = False


class FailedNodeDetector:
    def __init__(self, node: Node, lease_s: float, random: Random) -> None:
        self._node = node
        self._lease_s = lease_s
        self._random = random
        self._found: dict[str, FailedNode] = {}

    def due(self, now: float) -> list[str]:
        node = self._node
        if node.leaving:
            return []
        members = node.members
        for name in [name for name, each in self._found.items() if not each.busy]:
            if name not in members or not self._has_failed(members[name]):
                del self._found[name]
        due = []
        for name, member in members.items():
            if not self._has_failed(member):
                continue
            found = self._found.get(name)
            if found is None:
                # Not all nodes at the same moment.
                found = FailedNode(now + self._random.uniform(0.0, self._lease_s / 4))
                self._found[name] = found
            if not found.busy and found.due_at <= now:
                found.busy = True
                due.append(name)
        return due

    def _has_failed(self, member: Member) -> bool:
        gone = member.link is None and member.state in (DOWN, DEAD)
        return gone and self._node.can_be_replaced(member)

    def failed(self, name: str, now: float) -> None:
        # A lease that has not lapsed after some time has an owner.
        member = self._node.members.get(name)
        is_new = member is not None and now - member.gone_at < 3 * self._lease_s
        wait_s = self._lease_s / 4 if is_new else self._lease_s
        self._again(name, now + wait_s * self._random.uniform(0.75, 1.25))

    def ended(self, name: str, now: float) -> None:
        self._again(name, now + PAUSE_S)

    def _again(self, name: str, due_at: float) -> None:
        found = self._found[name]
        found.busy = False
        found.due_at = due_at
