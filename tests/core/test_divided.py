"""What a session remembers while other nodes have a part of it."""

from twisted.trial.unittest import SynchronousTestCase

from mhub.core.delivery import Delivery
from mhub.core.divided import Divided, Taken
from mhub.wire.publish import Publish
from tests.core.test_peer import Side
from tests.core.world import Client
from tests.helpers import packets as p


def delivery(uid: int, payload: bytes = b"x") -> Delivery:
    message = Publish(b"t", payload, 2, False)
    message.topic = "t"
    message.topic_field = b"\x00\x01t"
    message.uid = uid
    return Delivery(message, 2, False, b"")


class DividedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.side = Side("a", "b")
        assert self.side.hub.peers is not None
        self.peers = self.side.hub.peers
        self.client: Client = self.side.world.client("s", clean=False)
        self.client.send(p.subscribe(1, ("t", 2)))
        self.client.take()

    def divide(self) -> Divided:
        return self.client.session.divide()

    def test_a_message_is_new_once(self) -> None:
        divided = self.divide()
        self.assertTrue(divided.first(7))
        self.assertFalse(divided.first(7))
        divided.given(7)
        self.assertTrue(divided.first(7))

    def test_names_are_bounded_and_counted(self) -> None:
        self.peers.max_names = 10
        divided = self.divide()
        for uid in range(1, 16):
            self.assertTrue(divided.first(uid))
        self.assertEqual(list(divided.seen), list(range(6, 16)))
        self.assertEqual(divided.twins, set())
        self.assertEqual((self.peers.names, self.peers.names_dropped), (10, 5))
        divided.name(99)
        self.assertEqual((self.peers.names, self.peers.names_dropped), (10, 6))
        self.client.session.unite()
        self.assertEqual(self.peers.names, 0)
        self.assertIsNone(self.client.session.divided)

    def test_what_is_settled_is_what_the_client_has(self) -> None:
        divided = self.divide()
        message = delivery(5).message
        self.client.session.deliver(message, 2, self.client.session.subscriptions["t"])
        self.side.hub.flush()
        (found,) = self.client.take()
        self.assertEqual(divided.names(), [])
        self.client.send(p.pubrec(found.pid), p.pubcomp(found.pid))
        self.assertEqual(divided.names(), [5])

    def test_what_comes_in_flight_and_waits_in_the_queue_is_sent_once(self) -> None:
        session = self.client.session
        self.client.lose()
        session.stand_back()
        session.receive(delivery(5), 0, False)
        session.receive(delivery(6), 0, False)
        session.receive(delivery(5), 77, False)
        session.complete()
        again = self.side.world.client("s", clean=False)
        found = [(each.pid, each.dup) for each in again.take() if each.type == "PUBLISH"]
        self.assertEqual(len(found), 2)
        self.assertEqual(found[0], (77, True))

    def test_what_was_released_is_not_sent_again(self) -> None:
        session = self.client.session
        self.client.lose()
        session.stand_back()
        session.receive(delivery(5), 0, True)  # of a node that may not have the client's state
        self.assertEqual(self.divide().names(), [5])
        session.receive(delivery(5), 77, True)  # it has
        session.complete()
        again = self.side.world.client("s", clean=False)
        self.assertEqual([(each.type, each.pid) for each in again.take()], [("PUBREL", 77)])


class TakenTests(SynchronousTestCase):
    def test_it_is_the_same_after_a_restart(self) -> None:
        taken = Taken()
        taken.add(3, False)
        taken.add(9, True)
        for each in (taken, Taken(taken.text())):
            self.assertTrue(each.has(2, False))
            self.assertFalse(each.has(4, False))
            self.assertTrue(each.has(9, True))
            self.assertFalse(each.has(2, True))
