"""The frames of a migration: to the source or target that they are about, if they are not stale.

It also answers offers to a session that is here, and remembers what was taken from whom.
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from mhub.cluster import frames
from mhub.cluster.member import Member
from mhub.cluster.migration.pending import read_pending
from mhub.cluster.migration.reading import read_rows, read_session
from mhub.cluster.migration.segments import segments_of
from mhub.cluster.migration.source import Source
from mhub.cluster.migration.target import ARRIVING, Offer, Target
from mhub.cluster.said import Said, as_list, split
from mhub.core.session import Session

if TYPE_CHECKING:
    from mhub.cluster.migration.migration import Migration

TOOK: Final = "took/"
"""Notes of sessions that were taken from another node begin so: until that has forgotten them."""


class Exchange:
    def __init__(self, migration: "Migration") -> None:
        self._migration = migration
        self._node = migration.node
        self._took: dict[tuple[str, str], str] = {}  # by client id and source: its session id there
        self._offers: dict[str, dict[str, Offer]] = {}  # to sessions that are frozen here
        # (batch, client, source, epoch): sessions that have come, until they are safe
        self._safe: deque[tuple[int, str, str, int]] = deque()

    def on_session(self, member: Member, body: bytes) -> None:
        said, data = split(body)
        client_id, epoch = said.text("client"), said.timestamp("epoch")
        offer = Offer(said.text("session_id"), said.real("now"), read_session(data))
        target = self._migration.targets.get(client_id)
        if target is not None:
            if epoch == target.epoch:
                target.offers[member.name] = offer
                target.wait()
                self._migration.claims.check(target)
            elif target.state == ARRIVING:
                target.offers[member.name] = offer  # to be judged when it is here
            return
        session = self._node.hub.sessions.get(client_id)
        if session is not None and session.epoch == epoch:
            self._offers.setdefault(client_id, {})[member.name] = offer
            self.judge(client_id)

    def judge(self, client_id: str) -> None:
        """A session that is here is offered what others have."""
        session = self._node.hub.sessions.get(client_id)
        if session is None:
            self._offers.pop(client_id, None)
            return
        if session.frozen or client_id in self._migration.targets:
            return
        for name, offer in self._offers.pop(client_id, {}).items():
            if self._took.get((client_id, name)) == offer.session_id:
                self._say_done(client_id, name, session.epoch)
                continue
            merge = not session.clean
            if merge and session.connection is None:
                self._migration.claims.forget_pids(session)  # the client may have been there last
            self._migration.tell(
                name, frames.REFUSED, client=client_id, epoch=session.epoch, merge=merge
            )

    def is_split(self, target: Target) -> bool:
        """Whether nodes have offered other sessions than the one that the client gets."""
        client_id = target.client_id
        return any(
            self._took.get((client_id, name)) != offer.session_id
            for name, offer in target.offers.items()
        )

    def on_accept(self, member: Member, body: bytes) -> None:
        source = self._serving(member, Said(body))
        if source is not None:
            source.handle("accepted")

    def on_entries(self, member: Member, body: bytes) -> None:
        said, data = split(body)
        target = self._arriving(member, said)
        if target is not None:
            target.handle("entries", read_rows(data))

    def on_pending(self, member: Member, body: bytes) -> None:
        said, data = split(body)
        name = said.text("node")
        target = self._arriving(member, said)
        if target is not None:
            pending = read_pending(target.client_id, data, self._node.hub.now)
            target.handle("pending", name, pending)

    def _arriving(self, member: Member, said: Said) -> Target | None:
        """The fence: the target that a frame is about, if it serves that epoch."""
        client_id, epoch = said.text("client"), said.timestamp("epoch")
        target = self._migration.targets.get(client_id)
        if target is not None and target.source == member.name:
            if target.state == ARRIVING and target.epoch == epoch:
                return target
        return None

    def on_more(self, member: Member, body: bytes) -> None:
        source = self._serving(member, Said(body))
        if source is not None:
            source.handle("more")

    def on_end(self, member: Member, body: bytes) -> None:
        said = Said(body)
        gates = {
            name: segments_of(as_list(each, "gates"))
            for name, each in said.by_name("gates").items()
        }
        is_lost = said.flag("lost")
        target = self._arriving(member, said)
        if target is not None:
            target.handle("end", gates, is_lost)

    def took(self, target: Target, session: Session, offer: Offer, older: set[str]) -> None:
        """A session has arrived.  Remember it, in the store together with the session, until the
        source has forgotten; when it is safe, the source is told, and all who publish for it."""
        client_id, name, epoch = target.client_id, target.source, target.epoch
        self._took[client_id, name] = offer.session_id
        if session.sid:
            self._node.hub.require_journal().note(f"{TOOK}{name}/{client_id}", offer.session_id)
        self._migration.intakes.note(session)
        self._migration.claims.completed(target, session)
        self._say_done(client_id, name, epoch)
        self._migration.switches.say_switched(client_id, epoch, older - {name})

    def _say_done(self, client_id: str, name: str, epoch: int) -> None:
        """DONE, and CUT to all who publish, when all of it is safe here."""
        journal = self._node.hub.journal
        batch = journal.mark() if journal is not None else 0
        self._safe.append((batch, client_id, name, epoch))
        self._migration.count()

    def _is_safe(self, client_id: str, name: str, epoch: int) -> None:
        member = self._node.members.get(name)
        if member is not None:
            self._migration.tell_table(member)
            number = self._node.peers.table.number
            self._migration.tell(name, frames.DONE, client=client_id, epoch=epoch, table=number)
        session = self._node.hub.sessions.get(client_id)
        if session is not None:
            self._migration.intakes.watch(session)
            self._migration.intakes.settle(session)

    def forget_took(self, client_id: str, name: str) -> None:
        if self._took.pop((client_id, name), None) is not None:
            if self._node.hub.journal is not None:
                self._node.hub.journal.note(f"{TOOK}{name}/{client_id}", "")

    def table(self, member: Member) -> None:
        """All that a node has is known: what it has forgotten while we could not hear it, too."""
        for client_id, name in list(self._took):
            if name == member.name and client_id not in member.peer.clients:
                self.forget_took(client_id, name)

    def on_done(self, member: Member, body: bytes) -> None:
        said = Said(body)
        number = said.number("table")
        source = self._serving(member, said)
        if source is not None:
            source.handle("done", number)

    def on_refused(self, member: Member, body: bytes) -> None:
        said = Said(body)
        event = "merge" if said.flag("merge") else "refused"
        source = self._serving(member, said)
        if source is not None:
            source.handle(event)

    def on_ask(self, member: Member, body: bytes) -> None:
        said = Said(body)
        client_id, epoch = said.text("client"), said.timestamp("epoch")
        session_id, instance = said.text("session_id"), said.text("instance")
        if self._took.get((client_id, member.name)) == session_id:
            self._say_done(client_id, member.name, epoch)
            return
        is_same = instance == self._node.settings.instance
        sure = is_same or self._node.hub.journal is not None
        self._migration.tell(member.name, frames.UNKNOWN, client=client_id, epoch=epoch, sure=sure)

    def on_unknown(self, member: Member, body: bytes) -> None:
        said = Said(body)
        event = "unknown" if said.flag("sure") else "unsure"
        source = self._serving(member, said)
        if source is not None:
            source.handle(event)

    def _serving(self, member: Member, said: Said) -> Source | None:
        client_id, epoch = said.text("client"), said.timestamp("epoch")
        source = self._migration.source_of(client_id)
        if source is not None and source.serves(member.name, epoch):
            return source
        return None

    def pending(self) -> int:
        return len(self._safe)

    def turn(self) -> None:
        while self._safe and self._safe[0][0] <= self._node.hub.durable:
            _, client_id, name, epoch = self._safe.popleft()
            self._is_safe(client_id, name, epoch)

    def keep(self, client_id: str, offers: dict[str, Offer]) -> None:
        """Offers to a claim that is over: judge() answers them."""
        if offers:
            self._offers[client_id] = offers

    def unlinked(self, name: str) -> None:
        for offers in self._offers.values():
            offers.pop(name, None)

    def forgotten(self, name: str) -> None:
        for key in [key for key in self._took if key[1] == name]:
            self.forget_took(*key)

    def recall(self, notes: dict[str, str]) -> None:
        for name, text in notes.items():
            if name.startswith(TOOK):
                node, _, client_id = name[len(TOOK) :].partition("/")
                self._took[client_id, node] = text
