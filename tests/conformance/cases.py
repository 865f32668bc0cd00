"""Test cases that the chapters share: what a violation of the protocol has to lead to."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.helpers import packets as p
from tests.helpers.broker import BrokerCase
from tests.helpers.client import RawClient
from tests.helpers.packets import Text


class ProtocolCase(BrokerCase):
    """A broker case that knows how versions before 5 treat a violation: close, without a word."""

    version = 4

    @contextmanager
    def about(self, what: object) -> Iterator[None]:
        """Names one of several inputs in the failure that it causes."""
        try:
            yield
        except AssertionError as error:
            raise self.failureException(f"{what}: {error}") from error

    def assert_closes(self, data: bytes, what: object = None) -> None:
        """A connected client that sends this is cut off.

        Whole, byte by byte, and with a packet behind it that must not be answered.
        """
        with self.about(what or data[:40]):
            self._connected().expect_closed_after_sending(data)
            self._connected().expect_closed_after_sending(*(bytes([byte]) for byte in data))
            self._connected().expect_closed_after_sending(data + p.pingreq())

    def assert_connect_closes(self, data: bytes, what: object = None) -> None:
        """A connection that begins like this is closed without a CONNACK."""
        with self.about(what or data[:40]):
            self.open(self.version).expect_closed_after_sending(data)
            self.open(self.version).expect_closed_after_sending(*(bytes([byte]) for byte in data))
            self.open(self.version).expect_closed_after_sending(data + p.pingreq())

    def assert_refused(self, data: bytes, reason: int, what: object = None) -> None:
        """A connection that begins like this gets a CONNACK with that code and is closed."""
        with self.about(what or data[:40]):
            for sent in (data, data + p.pingreq()):
                client = self.open(self.version)
                client.send(sent)
                client.closed_after("CONNACK", reason=reason, session_present=False)

    def assert_works(self, client: RawClient) -> None:
        """The connection is alive and nothing else was waiting on it."""
        client.ping()
        client.expect_nothing()

    def subscriber(self, *filters: Text, qos: int = 0, client_id: str = "sub") -> RawClient:
        """A connected client with these subscriptions."""
        client = self.connect(client_id, self.version)
        for text in filters:
            client.subscribe(text, qos, granted=qos)
        return client

    def _connected(self) -> RawClient:
        return self.connect("violator", self.version)
