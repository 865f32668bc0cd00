"""What is logged about connections: the core's Events and the loop's Reporter.

Nothing here runs per message.  Connections that come and go are told at level `debug`, so that a
reconnect storm does not drown the log; what somebody should look at is a warning.
"""

from collections.abc import Sequence

from twisted.python.failure import Failure

from mhub.config import ListenerSettings
from mhub.core.connection import Connection
from mhub.core.session import Session
from mhub.log import logger
from mhub.net import sniff
from mhub.net.loop import Acceptor
from mhub.wire import reasons
from mhub.wire.packets import VERSION_NAMES


class Report:
    def __init__(self, listeners: Sequence[ListenerSettings]) -> None:
        self._log = logger("net")
        self.listeners = listeners  # to name the right one to those who chose the wrong one

    # Events of the core

    def connected(self, connection: Connection) -> None:
        self._log.debug(
            "{client!r} connected from {peer} on {listener}, MQTT {version}",
            client=connection.client_id,
            peer=connection.peer,
            listener=connection.listener,
            version=VERSION_NAMES[connection.version],
        )

    def refused(self, connection: Connection, reason: int, text: str) -> None:
        self._log.warn(
            "{peer} on {listener} was refused: {reason} ({text})",
            peer=connection.peer,
            listener=connection.listener,
            reason=reasons.name(reason),
            text=text,
        )

    def disconnected(self, connection: Connection, reason: int, text: str) -> None:
        self._log.debug(
            "{client!r} from {peer} disconnected: {reason}{text}",
            client=connection.client_id,
            peer=connection.peer,
            reason=reasons.name(reason) if reason else "by itself",
            text=f" ({text})" if text else "",
        )

    def kicked(self, session: Session, forgotten: bool) -> None:
        connection = session.connection
        self._log.info(
            "{client!r}{peer} kicked by an operator{forgotten}",
            client=session.client_id,
            peer=f" from {connection.peer}" if connection is not None else "",
            forgotten=", its session deleted" if forgotten else "",
        )

    def crashed(self, what: str, error: Exception) -> None:
        self._log.failure(
            "a defect in mhub, please report it; {what} was closed, all else goes on",
            Failure(error),  # type: ignore[no-untyped-call]
            what=what,
        )

    # Reporter of the loop

    def stranger(self, acceptor: Acceptor, peer: str, data: bytes) -> None:
        self._log.warn(
            "{peer} on {listener} sent {what}; closed{hint}",
            peer=peer,
            listener=acceptor.name,
            what=sniff.describe(data),
            hint=self._instead(sniff.kind(data)),
        )

    def _instead(self, kind: str) -> str:
        """Which listener such a client should use."""
        wanted = {sniff.TLS: ("tls", "wss"), sniff.HTTP: ("ws", "wss")}.get(kind, ())
        if not wanted:
            return ""
        found = [f"{s.name} ({s.address})" for s in self.listeners if s.transport in wanted]
        if found:
            return ". Use listener " + " or ".join(found)
        return f'. No listener has transport = "{wanted[0]}"'

    def rejected(self, acceptor: Acceptor, peer: str, text: str) -> None:
        self._log.warn(
            "{peer} on {listener} was turned away: {text}",
            peer=peer,
            listener=acceptor.name,
            text=text,
        )

    def accept_failed(self, acceptor: Acceptor, text: str) -> None:
        self._log.error(
            "{listener} cannot accept connections for now: {text}",
            listener=acceptor.name,
            text=text,
        )
