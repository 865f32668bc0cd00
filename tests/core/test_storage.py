"""What the store is asked for, and what its answer means by the time that it comes."""

from mhub.core.session import Session
from tests.core.test_journal import DiskCase
from tests.helpers import packets as p


class StaleTests(DiskCase):
    """The answer to a question that nobody has any more."""

    def asked(self) -> Session:
        """A session for which messages are on their way from the store."""
        self.subscriber("away", "t", 1).lose()
        sender = self.world.client("pub")
        for number in range(20):
            sender.publish("t", b"%d" % number, 1)
            self.disk.settle()
        session = self.world.hub.sessions["away"]
        assert session.queue is not None
        for _ in range(3):
            session.discard(session.queue.take())
        self.world.hub.storage.refill(session)
        self.assertEqual(len(self.disk.asked), 1)
        return session

    def test_it_is_not_taken(self) -> None:
        session = self.asked()
        session.forget_load()
        self.disk.step()
        assert session.queue is not None
        self.assertEqual((len(session.queue.deliveries), session.queue.paged_out), (1, 16))

    def test_the_question_is_asked_again(self) -> None:
        session = self.asked()
        session.forget_load()
        self.disk.settle()
        assert session.queue is not None
        self.assertEqual((len(session.queue.deliveries), session.queue.paged_out), (5, 12))

    def test_but_not_for_a_session_that_is_frozen(self) -> None:
        """Who reads it then asks for other messages, and must not be given these."""
        session = self.asked()
        session.frozen = True
        session.forget_load()
        self.disk.step()
        assert session.queue is not None
        self.assertEqual((self.disk.asked, session.queue.loading), ([], False))

    def test_a_session_that_has_ended_takes_nothing(self) -> None:
        session = self.asked()
        self.world.hub.end_session(session)
        self.disk.settle()
        self.assertEqual((session.queue, self.world.hub.queues.size_bytes), (None, 0))


class DrainTests(DiskCase):
    """A long queue, mostly in the store, for a client that acknowledges as fast as it can."""

    def test_it_drains_without_a_tick(self) -> None:
        """Whatever portion and window are: the store's answers and the client keep it going."""
        for portion in (1, 3, 50):
            for max_inflight in (1, 4, 64):
                with self.subTest(portion=portion, max_inflight=max_inflight):
                    self.start(portion=portion, max_inflight=max_inflight)
                    self.check_drains(60)

    def check_drains(self, count: int) -> None:
        self.subscriber("away", "t", 1).lose()
        sender = self.world.client("pub")
        for number in range(count):
            sender.publish("t", b"%d" % number, 1)
            self.disk.settle()
        self.crash()
        client = self.join("away")
        received: list[bytes] = []
        # Nothing else wakes it: no tick, and nobody who asks the journal to hurry.
        while True:
            self.world.settle()
            packets = client.take()
            received += [packet.payload for packet in packets]
            if packets:
                client.send(*[p.puback(packet.pid) for packet in packets if packet.pid])
            elif self.disk.busy():
                self.disk.step()
            else:
                break
        self.assertEqual(received, [b"%d" % number for number in range(count)])
