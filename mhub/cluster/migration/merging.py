"""Older sessions of a client that has a newer one: what they have is relayed to that, as late.

An older session is set apart: it has no name in the hub any more, and a Source that is MERGING.
"""

from typing import TYPE_CHECKING

from mhub.cluster.migration import controls
from mhub.cluster.migration.source import DOUBT, ENDED, MERGING, Source
from mhub.cluster.migration.target import ARRIVING
from mhub.core.delivery import delivery_of
from mhub.core.records import Row
from mhub.core.session import Session
from mhub.core.table import CLIENT

if TYPE_CHECKING:
    from mhub.cluster.migration.migration import Migration


class Merging:
    def __init__(self, migration: "Migration") -> None:
        self._migration = migration
        self._node = migration.node
        self._apart: dict[str, list[Source]] = {}  # by client id

    def of(self, client_id: str) -> list[Source]:
        """Older sessions of a client whose messages are on their way to the newest one."""
        return list(self._apart.get(client_id, ()))

    def relay(self, old: Session, rows: list[Row]) -> None:
        """What an older session had, to the one that the client has now."""
        if not rows:
            return
        self._migration.progress += len(rows)
        client_id = old.client_id
        body = controls.relay(old.principal.user, rows)
        if client_id in self._node.hub.sessions or client_id in self._migration.targets:
            self._migration.intakes.came("", client_id, body)
            return
        highest = self._migration.holders.highest(client_id)
        if highest is not None:
            highest.peer.outgoing.put_control(client_id, body)

    def relayed(self, client_id: str, body: bytes) -> None:
        """Late entries came: the session may be here, on its way, or elsewhere."""
        target = self._migration.targets.get(client_id)
        session = self._node.hub.sessions.get(client_id)
        if target is not None and (target.state == ARRIVING or session is None):
            target.relayed.append(body)
            return
        highest = self._migration.holders.highest(client_id)
        if session is None:
            if highest is not None:
                highest.peer.outgoing.put_control(client_id, body)
            return
        source = self._migration.sources.get(session)
        if source is not None and source.state in (ENDED, DOUBT) and highest is not None:
            highest.peer.outgoing.put_control(client_id, body)  # and here, in case that it stays
        self._join(session, body)

    def _join(self, session: Session, body: bytes) -> None:
        """Late entries to the end of the queue, but for those that are not for its client.

        During a split anybody may have connected with the client id.  What had waited for a user is
        for nobody else (`Principal.owns`), and what its user may not receive any more for nobody;
        but what came by a shared subscription is for the others of its group.
        """
        user, rows = controls.relayed(body)
        is_owner = session.principal.owns_of(user)
        clock_offset_s = self._migration.clock_offset_s()
        for row in rows:
            delivery = delivery_of(row, clock_offset_s, session.subscriptions)
            topic = delivery.message.topic
            if is_owner and session.may_receive_now(topic):
                session.enqueue(delivery)
                continue
            if row.record.share:
                self._node.hub.share_again(delivery.message, row.record.share)
            elif is_owner:
                session.tell_denied_receive(topic)
            else:
                session.drop_of_other_user()
        session.drain_queue(self._node.hub.portion)

    def set_apart(self, source: Source) -> None:
        """It is not the session of its client any more, but one that is emptied."""
        client_id, session = source.client_id, source.session
        self._apart.setdefault(client_id, []).append(source)
        self._migration.intakes.unwatch(session)
        if self._node.hub.sessions.get(client_id) is session:
            self._node.hub.drop_session(session)
            if client_id not in self._migration.targets:
                self._node.peers.table.announce(CLIENT + client_id, session.epoch << 1)

    def ended(self, source: Source) -> None:
        apart = self._apart.get(source.client_id, [])
        if source in apart:
            apart.remove(source)
            if not apart:
                del self._apart[source.client_id]

    def fold(self, old: Session, session: Session) -> None:
        """What an older session has here joins the newer one that has come."""
        source = self._migration.sources.get(old)
        if source is None:
            source = self._migration.sources[old] = Source(self._migration, old)
        source.give_up()
        if session.clean:
            self._migration.end_source(source, None, [])
        else:
            self._migration.intakes.close(old, self._node.name)
            source.handle("merge")

    def look(self) -> None:
        """A node that is linked for long has been asked to switch, if it has to."""
        now = self._node.hub.now
        for source in [each for each in self._migration.sources.values() if each.state == MERGING]:
            if now - source.merging_since >= self._node.settings.takeover_timeout_s:
                current = [m.name for m in self._node.members.values() if m.is_current()]
                for name in [self._node.name, *current]:
                    self._migration.intakes.close(source.session, name)
                source.look()
