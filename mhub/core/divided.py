"""What a session remembers while other nodes have a part of it, or had one a moment ago.

A message can come to such a session on two ways: straight, from the node where it was published,
and from a node that had the session before.  So it knows messages by their names (`uid`), until
every way was heard to its end (`mhub.cluster.fading`).

    first()  is it new?          a message that comes straight
    has()    is it needed?       a message of the queue, before it is sent
    name()   the client has it   once it is settled; the store remembers this, for after a crash

It exists only as long as it has to: a session that never moved pays for one pointer.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mhub.core.delivery import Delivery
    from mhub.core.peer import Peer
    from mhub.core.session import Session

NAMES: Final = "seen/"
"""Notes about messages that a client has, while they may come again, begin so."""

TOOK: Final = "took/"
"""Notes about what was taken from another node begin so."""


class Taken:
    """What was taken of another node's part, by the places that it has in that node's store."""

    def __init__(self, text: str = "") -> None:
        high, _, others = text.partition(" ")
        self.high = int(high or 0)  # of the queue
        self.inflight = {int(place) for place in others.split(",") if place}

    def has(self, place: int, inflight: bool) -> bool:
        return place in self.inflight if inflight else place <= self.high

    def add(self, place: int, inflight: bool) -> None:
        if inflight:
            self.inflight.add(place)
        else:
            self.high = place

    def text(self) -> str:
        return f"{self.high} {','.join(map(str, self.inflight))}"


class Divided:
    def __init__(self, session: "Session") -> None:
        self._session = session
        self.seen: dict[int, bool] = {}  # uids, and whether the client has that message
        self.twins: set[int] = set()  # uids of messages in the queue that may not be needed
        self.bars: dict[Peer, int] = {}  # how far each peer's line is not for it; -1: not known yet
        self.late: list[Delivery] | None = None  # what waits behind the part that is to come
        self.newest = 0  # the highest stamp of a part that came
        self.taken: dict[str, Taken] = {}  # by the life of what was taken

    # Names

    def first(self, uid: int) -> bool:
        """Whether a message that comes straight is new."""
        hub = self._session.hub
        if self.bars and hub.source is not None:
            # What was sent here before its node knew that the session is here went to where it
            # was, too, and comes from there, unless the client has it already.
            bar = self.bars.get(hub.source, 0)
            if bar < 0 or hub.source_n <= bar:
                return False
        if uid in self.seen:
            return False
        if self._session.spilled:
            self.twins.add(uid)  # what the store alone has of the queue is not known by name
        self.add(uid)
        return True

    def add(self, uid: int) -> None:
        """It is here now; too many names push the oldest out."""
        seen = self.seen
        if uid in seen:
            return
        seen[uid] = False
        peers = self._session.hub.peers
        if peers is None:
            return
        peers.names += 1
        if peers.names > peers.max_names:
            oldest = next(iter(seen))
            peers.names -= 1
            peers.names_dropped += 1
            self.twins.discard(oldest)
            if seen.pop(oldest):
                self._note(oldest, "")

    def given(self, uid: int) -> None:
        """It is another node's now, and may come back; unless the client has it."""
        if not self.seen.get(uid, True):
            del self.seen[uid]
            self.twins.discard(uid)
            self._uncount(1)

    def name(self, uid: int) -> None:
        """The client has this message, whoever brings it again; also after a crash."""
        if uid:
            self.recall_name(uid)
            if uid in self.seen:
                self._note(uid, "1")

    def recall_name(self, uid: int) -> None:
        """The store remembers that the client has it."""
        self.add(uid)
        if uid in self.seen:
            self.seen[uid] = True

    def names(self) -> list[int]:
        """Of messages that the client has."""
        return [uid for uid, has in self.seen.items() if has]

    def has(self, uid: int) -> bool:
        """Whether the client has a message of the queue, or will have it without this one."""
        if self.seen.get(uid, False):
            return True
        if uid in self.twins:
            for delivery in self._session.inflight.values():
                if delivery.message.uid == uid and not delivery.fed:
                    return True
        return False

    # What was taken from other nodes

    def taken_of(self, life: str) -> Taken:
        return self.taken.setdefault(life, Taken())

    def note_taken(self, life: str) -> None:
        session = self._session
        if session.sid:
            session.hub.book().note(f"{TOOK}{session.client_id}/{life}", self.taken[life].text())

    def forget_taken(self, node: str) -> None:
        """A node has nothing of it any more; "": none has."""
        session = self._session
        for life in [life for life in self.taken if not node or life.startswith(node + "/")]:
            del self.taken[life]
            if session.sid:
                session.hub.book().note(f"{TOOK}{session.client_id}/{life}", "")

    # The end

    def forget(self) -> None:
        """No message comes on two ways any more."""
        for uid, has in self.seen.items():
            if has:
                self._note(uid, "")
        self._uncount(len(self.seen))
        self.seen = {}
        self.forget_taken("")

    def _note(self, uid: int, text: str) -> None:
        session = self._session
        if session.sid:
            session.hub.book().note(f"{NAMES}{session.client_id}/{uid:x}", text)

    def _uncount(self, count: int) -> None:
        peers = self._session.hub.peers
        if peers is not None:
            peers.names -= count
