"""What waits for a client is sent in portions, as fast as it reads."""

from mhub.core.connection import ENOUGH
from tests.core.subscriber import KEPT, SubscriberCase
from tests.core.world import World
from tests.helpers import packets as p
from tests.helpers.packets import Prop


class Draining(SubscriberCase):
    def test_a_portion_a_turn(self) -> None:
        self.build(portion=3)
        self.away()
        self.publish(*range(8))
        client = self.back()
        self.assertEqual(self.numbers(client), [0, 1, 2])
        self.world.turn()
        self.assertEqual(self.numbers(client), [3, 4, 5])
        self.world.turn()
        self.assertEqual(self.numbers(client), [6, 7])
        self.assertEqual(self.world.hub.unfinished, [])

    def test_nothing_into_a_blocked_outlet(self) -> None:
        self.build(portion=3)
        self.away()
        self.publish(*range(8))
        client = self.world.open(5)
        client.outlet.full = True
        client.send(p.connect("s", 5, False, props=KEPT))
        self.world.settle()
        self.assertEqual(len(client.take()), 1 + 3)
        client.unblock()
        self.world.settle()
        self.assertEqual(self.numbers(client), [3, 4, 5, 6, 7])

    def test_large_messages_in_small_portions(self) -> None:
        """A portion counts bytes as well: not all that waits is put into memory at once."""
        self.build(max_packet_size=1 << 20)
        self.away()
        size = ENOUGH // 4
        self.publish(*range(12), size=size)
        client = self.back()
        self.assertLessEqual(len(client.outlet.data), 5 * (size + 100))
        client.outlet.full = True
        self.world.settle()
        self.assertLessEqual(len(client.outlet.data), 10 * (size + 100))
        client.unblock()
        self.world.settle()
        self.assertEqual(self.numbers(client), [*range(12)])

    def test_expired_while_they_waited(self) -> None:
        """[MQTT-3.3.2-5]; and those that are left carry the time that is left."""
        self.build()
        self.away()
        publisher = self.world.client("five", 5)
        for number, expiry in enumerate((10, 60)):
            props = [(Prop.MESSAGE_EXPIRY, expiry)]
            publisher.publish("t", b"%d" % number, 1, props=props)
        self.world.wait(20)
        (packet,) = self.back().take()
        self.assertEqual((packet.payload, packet.prop(Prop.MESSAGE_EXPIRY)), (b"1", 40))
        self.assertEqual(self.world.stats.dropped_expired, 1)

    def test_at_the_moment_of_its_expiry_a_message_is_not_sent(self) -> None:
        """Nor with an expiry of 0, which is the moment at which it came."""
        self.build()
        self.away()
        publisher = self.world.client("five", 5)
        publisher.publish("t", b"1", 1, props=[(Prop.MESSAGE_EXPIRY, 10)])
        self.world.wait(10)
        publisher.publish("t", b"2", 1, props=[(Prop.MESSAGE_EXPIRY, 0)])
        self.assertEqual(self.back().take(), [])

    def test_the_work_of_a_turn_is_bounded_for_all_together(self) -> None:
        """Each client has its portion, but not all of them in the same turn."""
        world = World(work_per_turn=10, portion=10)
        for name in "abc":
            client = world.client(name, clean=False)
            client.subscribe("t", 1)
            client.lose()
        publisher = world.client("publisher")
        for number in range(20):
            publisher.publish("t", b"%d" % number, 1)
            world.settle()
        back = [world.client(name, clean=False) for name in "abc"]
        turns = []
        for _ in range(4):
            turns.append([len(client.take()) for client in back])
            world.turn()
        self.assertEqual(turns, [[10, 10, 10], [10, 0, 0], [0, 10, 0], [0, 0, 10]])
