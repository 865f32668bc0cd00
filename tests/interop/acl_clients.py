"""Decides the cases of `acl_cases` at a broker, with clients over sockets."""

from mhub.wire.reasons import DISCONNECT_WITH_WILL
from tests.helpers import packets as p
from tests.helpers.packets import Packet
from tests.interop.acl_cases import WRITER, Case
from tests.system.process import wait_until
from tests.system.raw import Raw

RETAINED = "retained "
"""Their payload begins with this: what is retained for one case is not taken for another's."""


def password(user: str) -> str:
    return f"password of {user}"


class Decider:
    """Asks one broker.  Messages that must not come are not waited for: a PINGRESP is behind them.

    That holds for both brokers: each is done with a packet before it reads the next one, and what a
    PUBLISH sends to others is written before its sender's PINGRESP is.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._writer = self._connect(WRITER, "the writer")
        self._watcher = self._connect(WRITER, "the watcher")
        assert _granted(self._watcher, "#")
        self._count = 0

    def close(self) -> None:
        self._writer.close()
        self._watcher.close()

    def allows(self, case: Case) -> bool:
        self._count += 1
        action, _, topic_filter = case.action.partition(":")
        if action == "will":
            return self._leaves_will(case)
        client = self._connect(case.user, case.client_id)
        try:
            if action == "publish":
                return self._publishes(client, case.topic)
            if action == "subscribe":
                return _granted(client, case.topic)
            if action == "retained":
                return self._gets_retained(client, case.topic)
            if action == "shared":
                topic_filter = f"$share/group/{case.topic}"
            assert action in ("receive", "shared"), action
            return self._receives(client, topic_filter or case.topic, case.topic)
        finally:
            client.close()

    def wait_for_statistics(self) -> None:
        """Until there is something below $SYS."""

        def is_there() -> bool:
            client = self._connect(WRITER, "who waits")
            try:
                _granted(client, "$SYS/broker/version")
                return bool(_messages(client))
            finally:
                client.close()

        wait_until(is_there, "the first statistics")

    def _connect(self, user: str, client_id: str, **more: object) -> Raw:
        client = Raw(("127.0.0.1", self._port), 5)
        reason = self._send_connect(client, user, client_id, **more)
        assert reason == 0, f"{user!r} as {client_id!r}: 0x{reason:02x}"
        return client

    def _send_connect(self, client: Raw, user: str, client_id: str, **more: object) -> int:
        names = {"username": user, "password": password(user)} if user else {}
        client.send(p.connect(client_id, 5, **names, **more))  # type: ignore[arg-type]
        connack = client.expect("CONNACK")
        assert connack.reason is not None
        return connack.reason

    def _payload(self) -> bytes:
        return b"%d" % self._count

    def _publishes(self, client: Raw, topic: str) -> bool:
        payload = self._payload()
        client.publish(topic, payload, 1, 1)
        reason = client.expect("PUBACK", pid=1).reason
        is_accepted = (reason or 0) < 0x80
        came = payload in _messages(self._watcher)
        if not topic.startswith("$") and is_accepted != came:
            # The watcher may not read all, where that would change the rules.
            assert is_accepted and not self._can_watch(topic), f"{topic}: {reason}, came: {came}"
        return is_accepted

    def _can_watch(self, topic: str) -> bool:
        payload = self._payload() + b" again"
        self._writer.publish(topic, payload)
        self._writer.ping()
        return payload in _messages(self._watcher)

    def _receives(self, client: Raw, topic_filter: str, topic: str) -> bool:
        assert _granted(client, topic_filter)
        if topic.startswith("$"):
            return topic in [packet.topic for packet in _packets(client)]
        return self._sent_to(client, topic)

    def _sent_to(self, client: Raw, topic: str) -> bool:
        payload = self._payload()
        self._writer.publish(topic, payload)
        self._writer.ping()
        assert payload in _messages(self._watcher), f"{topic}: not even the watcher got it"
        return payload in _messages(client)

    def _gets_retained(self, client: Raw, topic: str) -> bool:
        payload = RETAINED.encode() + self._payload()
        self._writer.send(p.publish(topic, payload, retain=True, version=5))
        self._writer.ping()
        try:
            assert _granted(client, topic)
            return payload in _messages(client)
        finally:
            self._writer.send(p.publish(topic, b"", retain=True, version=5))
            self._writer.ping()
            _messages(self._watcher)

    def _leaves_will(self, case: Case) -> bool:
        payload = self._payload()
        client = Raw(("127.0.0.1", self._port), 5)
        will = (case.topic, payload, 0, False)
        reason = self._send_connect(client, case.user, case.client_id, will=will)
        assert reason in (0, 0x87), hex(reason)
        if reason:
            return False
        client.send(p.disconnect(DISCONNECT_WITH_WILL))
        client.expect_closed()
        return payload in _messages(self._watcher)


def _granted(client: Raw, topic_filter: str) -> bool:
    client.send(p.subscribe(1, (topic_filter, 0), version=5))
    reasons = client.expect("SUBACK", pid=1).reasons
    return reasons[0] < 0x80


def _packets(client: Raw) -> list[Packet]:
    """All messages that have come."""
    client.send(p.pingreq())
    found = []
    while True:
        packet = client.receive()
        assert packet is not None, "the broker has closed"
        if packet.type == "PINGRESP":
            return found
        assert packet.type == "PUBLISH", packet
        found.append(packet)


def _messages(client: Raw) -> list[bytes]:
    return [packet.payload for packet in _packets(client)]
