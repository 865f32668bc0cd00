"""A journal of batches in a file that loses what was not synced."""

from twisted.trial.unittest import SynchronousTestCase

from mhub.core.codec import decode_batch
from tests.core.disk import FileDisk, HastyDisk
from tests.core.files import HEAD, BatchFile, File, record, records
from tests.core.world import World
from tests.helpers import packets as p


class BatchFileTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.file = File()
        self.journal = BatchFile(self.file)
        for data in (b"one", b"", b"three"):
            self.journal.append(data)
        self.journal.sync()

    def test_what_was_synced_is_there(self) -> None:
        self.journal.append(b"four")
        self.file.lose()
        self.assertEqual(self.journal.replay(), [b"one", b"", b"three"])
        self.assertEqual(self.journal.torn, 0)

    def test_what_was_not_synced_may_be_there(self) -> None:
        self.journal.append(b"four")
        self.file.lose(1.0)
        self.assertEqual(self.journal.replay(), [b"one", b"", b"three", b"four"])
        self.assertEqual(self.journal.torn, 0)

    def test_a_record_that_is_cut_anywhere_is_dropped(self) -> None:
        size = len(record(b"four"))
        for zeros in (False, True):
            for kept in range(1, size):
                with self.subTest(kept=kept, zeros=zeros):
                    self.setUp()
                    self.journal.append(b"four")
                    self.file.lose(kept / size, zeros)
                    self.assertEqual(self.journal.replay(), [b"one", b"", b"three"])
                    self.assertEqual(self.journal.torn, 1)

    def test_a_prefix_of_several_records_is_kept(self) -> None:
        for data in (b"four", b"five"):
            self.journal.append(data)
        self.file.lose(0.75)
        self.assertEqual(self.journal.replay(), [b"one", b"", b"three", b"four"])

    def test_what_is_written_behind_a_torn_tail_is_read(self) -> None:
        self.journal.append(b"four")
        self.file.lose(0.6, zeros=True)
        self.journal.replay()
        self.journal.append(b"five")
        self.journal.sync()
        self.assertEqual(self.journal.replay(), [b"one", b"", b"three", b"five"])

    def test_zeros_are_no_records(self) -> None:
        self.assertEqual(records(bytes(3 * HEAD.size)), ([], 0))

    def test_a_byte_that_changed_is_seen(self) -> None:
        whole = record(b"one") + record(b"two")
        for at in range(len(whole)):
            other = bytearray(whole)
            other[at] ^= 0x10
            self.assertEqual(len(records(bytes(other))[0]), at // len(record(b"one")), at)


class FileDiskTests(SynchronousTestCase):
    """A hub that has to keep a message for a session which is away."""

    def setUp(self) -> None:
        self.file = File()
        self.world = World()
        self.disk = FileDisk(self.world, self.file)
        self.subscribe()

    def subscribe(self) -> None:
        sub = self.world.open()
        sub.send(p.connect("sub", clean=False), p.subscribe(1, ("t", 1)))
        sub.lose()
        self.disk.settle()
        self.publisher = self.world.client("pub", clean=True)

    def restart(self) -> list[bytes]:
        """What the subscriber gets from a hub that starts with the file."""
        world = World()
        disk = FileDisk(world, self.file)
        sub = world.open()
        sub.send(p.connect("sub", clean=False))
        disk.settle()
        return [each.payload for each in sub.take() if each.type == "PUBLISH"]

    def test_the_sender_is_answered_after_the_sync(self) -> None:
        self.publisher.send(p.publish("t", b"x", 1, 7))
        self.assertTrue(self.file.unsafe)
        self.assertEqual(self.publisher.take(), [])
        self.disk.step()
        self.assertFalse(self.file.unsafe)
        self.assertEqual([each.type for each in self.publisher.take()], ["PUBACK"])
        self.file.lose()
        self.assertEqual(self.restart(), [b"x"])

    def test_what_was_not_synced_is_lost_or_there(self) -> None:
        for keep, expected in ((0.0, []), (0.5, []), (0.99, []), (1.0, [b"x"])):
            with self.subTest(keep=keep):
                self.setUp()
                self.publisher.send(p.publish("t", b"x", 1, 7))
                self.file.lose(keep)
                self.assertEqual(self.restart(), expected)

    def test_a_file_is_rewritten_at_the_start(self) -> None:
        for n in range(50):
            self.publisher.send(p.publish("t", b"%d" % n, 1, 1 + n))
            self.disk.settle()
        size = len(self.file.safe)
        for _ in range(2):
            self.assertEqual(self.restart(), [b"%d" % n for n in range(50)])
        self.assertLess(len(self.file.safe), size)

    def test_each_record_is_a_batch(self) -> None:
        self.publisher.send(p.publish("t", b"x", 1, 7))
        batch = decode_batch(records(self.file.read())[0][-1])
        self.assertEqual(len(batch.deliveries), 1)

    def test_the_defect_answers_before_the_sync(self) -> None:
        self.file = File()
        self.world = World()
        self.disk = HastyDisk(self.world, self.file)
        self.subscribe()
        answered = []
        while not self.file.unsafe:
            self.publisher.send(p.publish("t", b"x", 1, 7))
            self.disk.step()
            answered += self.publisher.take()
        self.file.lose()
        self.assertEqual(len(self.restart()), len(answered) - 1)
