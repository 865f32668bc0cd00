"""What a bounded queue does at its bound; the specification leaves it to the server."""

from tests.conformance.cases import ProtocolCase
from tests.helpers.client import RawClient


class QueueBounds(ProtocolCase):
    def offline(self) -> RawClient:
        """A publisher, and a session that is away."""
        client = self.connect("c", clean=False)
        client.subscribe("t", 2)
        client.close()
        return self.connect("pub")

    def returned(self) -> list[bytes]:
        return [packet.payload for packet in self.connect("c", clean=False).drain()]

    def test_drop_newest(self) -> None:
        """What does not fit any more is dropped; the publisher is acknowledged all the same."""
        self.start(max_queued_messages=3, queue_full="drop-newest")
        publisher = self.offline()
        for number in range(6):
            publisher.publish("t", str(number), qos=1)
        self.assertEqual([b"0", b"1", b"2"], self.returned())

    def test_drop_oldest(self) -> None:
        """The newest ones are kept."""
        self.start(max_queued_messages=3, queue_full="drop-oldest")
        publisher = self.offline()
        for number in range(6):
            publisher.publish("t", str(number), qos=1)
        self.assertEqual([b"3", b"4", b"5"], self.returned())

    def test_bound_in_bytes(self) -> None:
        """Large messages fill a queue sooner."""
        self.start(max_queued_bytes=10_000, queue_full="drop-newest")
        publisher = self.offline()
        for number in range(20):
            publisher.publish("t", str(number) * 1000, qos=1)
        got = self.returned()
        self.assertTrue(3 <= len(got) <= 10, len(got))
        self.assertEqual([str(number).encode() * 1000 for number in range(len(got))], got)

    def test_room_again_after_delivery(self) -> None:
        """A queue that was full takes messages again once it was emptied."""
        self.start(max_queued_messages=2)
        publisher = self.offline()
        for payload in (b"1", b"2", b"3"):
            publisher.publish("t", payload, qos=1)
        client = self.connect("c", clean=False)
        for payload in (b"1", b"2"):
            client.acknowledge(client.expect("PUBLISH", payload=payload))
        client.close()
        publisher.publish("t", b"4", qos=1)
        self.assertEqual([b"4"], self.returned())

    def test_disconnect_of_a_client_that_does_not_acknowledge(self) -> None:
        """The policy `disconnect` ends the connection of a client that lags too far behind."""
        self.start(max_inflight=1, max_queued_messages=2, queue_full="disconnect")
        client = self.connect("c")
        client.subscribe("t", 1)
        publisher = self.connect("pub")
        for number in range(6):
            publisher.publish("t", str(number), qos=1)
        client.closed_after("PUBLISH")

    def test_full_queue_of_one_session_is_no_matter_to_others(self) -> None:
        """Each session has its own queue."""
        self.start(max_queued_messages=1, max_inflight=1)
        other = self.subscriber("t", qos=1, client_id="other")
        publisher = self.offline()
        for number in range(5):
            publisher.publish("t", str(number), qos=1)
            other.acknowledge(other.expect("PUBLISH", payload=str(number).encode()))
        self.assertEqual([b"0"], self.returned())
