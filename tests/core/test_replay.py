"""Retained messages for new subscriptions: in portions, before all that is newer."""

from typing import Any

from mhub.core.connection import ENOUGH
from mhub.core.hub import CATCH_UP, LOOK_UPS
from tests.core.subscriber import SubscriberCase
from tests.helpers import packets as p
from tests.helpers.packets import Prop


class Retained(SubscriberCase):
    """The retained messages of a new subscription."""

    def build(self, **options: Any) -> None:
        super().build(**options)
        for number in range(7):
            self.publisher.publish(f"r/{number}", b"%d" % number, 1, retain=True)

    def test_in_portions_behind_the_suback(self) -> None:
        self.build(portion=3)
        self.subscriber.send(p.subscribe(5, ("r/#", 0), version=5))
        self.subscriber.next("SUBACK")
        self.assertEqual(len(self.numbers()), 3)
        self.world.settle()
        self.assertEqual(len(self.numbers()), 4)

    def test_before_newer_messages(self) -> None:
        self.build(portion=1)
        self.subscriber.send(p.subscribe(5, ("r/#", 0), version=5))
        self.publisher.publish("r/6", b"99")
        self.world.settle()
        self.subscriber.next("SUBACK")
        self.assertEqual(self.numbers(), [0, 1, 2, 3, 4, 5, 6, 99])

    def test_any_number_of_times_they_take_no_room(self) -> None:
        """A client that subscribes again and again and does not read fills no memory."""
        self.build(max_control_size=1 << 20)
        self.subscriber.outlet.full = True
        self.subscriber.send(p.pingreq())
        session = self.subscriber.session
        before = len(self.subscriber.outlet.data)
        for _ in range(15):
            self.subscriber.feed(p.subscribe(5, *[("r/#", 0)] * 5000, version=5))
            self.world.hub.flush()
        self.assertLess(session.replay.waiting, 250_000)
        self.assertIsNone(session.queue)
        self.assertEqual(len(self.subscriber.outlet.data), before)
        self.assertFalse(self.subscriber.outlet.reading)

    def test_no_more_bytes_than_a_turn_may_have(self) -> None:
        size = ENOUGH // 4
        super().build(max_packet_size=2 * size)
        for number in range(12):
            self.publisher.publish(f"r/{number:02}", (b"%d" % number).ljust(size), 1, retain=True)
        self.subscriber.send(p.subscribe(5, ("r/#", 0), version=5))
        self.subscriber.next("SUBACK")
        self.assertLessEqual(len(self.subscriber.outlet.data), 5 * (size + 100))
        self.world.settle()
        self.assertEqual(self.numbers(), [*range(12)])

    def test_sending_them_is_work(self) -> None:
        """A turn that has sent as many as it may leaves the next SUBSCRIBE to the next turn."""
        self.build(work_per_turn=7, portion=7)
        clients = (self.subscriber, self.world.client("other"))
        for client in clients:
            client.feed(p.subscribe(5, ("r/#", 0), version=client.version))
        self.world.hub.flush()
        self.assertEqual([len(client.take()) for client in clients], [8, 0])
        self.world.settle()
        self.assertEqual([len(client.take()) for client in clients], [0, 8])

    def test_those_that_expire_while_they_wait_do_not_come(self) -> None:
        """At the moment of their expiry they are gone; they are counted."""
        self.build(portion=1)
        five = self.world.client("five", 5)
        five.publish("r/6", b"6", retain=True, props=[(Prop.MESSAGE_EXPIRY, 10)])
        self.subscriber.send(p.subscribe(5, ("r/#", 0), version=5))
        self.world.now += 10
        self.world.settle()
        self.subscriber.next("SUBACK")
        self.assertEqual(self.numbers(), [0, 1, 2, 3, 4, 5])
        self.assertEqual(self.world.stats.dropped_expired, 1)

    def test_within_the_window(self) -> None:
        self.build(max_inflight=2)
        self.subscriber.send(p.subscribe(5, ("r/#", 1), version=5))
        self.world.settle()
        self.subscriber.next("SUBACK")
        self.assertEqual(self.numbers(), [0, 1])
        self.subscriber.send(p.puback(1), p.puback(2))
        self.world.settle()
        self.assertEqual(self.numbers(), [2, 3])

    def test_looking_for_them_is_bounded_for_all_together(self) -> None:
        """Clients that subscribe at once: in one turn only some of them are looked for."""
        super().build()
        for number in range(LOOK_UPS * 4):
            self.publisher.publish(f"many/{number}", b"x", retain=True)
        clients = [self.world.client(f"c{number}") for number in range(20)]
        for client in clients:
            client.feed(p.subscribe(5, ("many/#", 0), version=client.version))
            self.world.hub.flush()  # as when a turn has a lot to do: what was counted begins anew
        begun = [client for client in clients if len(client.take()) > 1]
        self.assertEqual(len(begun), 3)  # each costs a tenth of the topics, 800, and 2,000 may be
        self.world.settle()
        left = [len(client.take()) for client in clients if client not in begun]
        self.assertEqual(left, [LOOK_UPS * 4] * 17)

    def test_others_are_served_in_between(self) -> None:
        """However many have much to catch up with, the sockets are looked at soon."""
        super().build(portion=CATCH_UP // 4)
        for number in range(CATCH_UP):
            self.publisher.publish(f"many/{number}", b"x", retain=True)
        clients = [self.world.client(f"c{number}") for number in range(30)]
        for client in clients:
            client.send(p.subscribe(5, ("many/#", 0), version=client.version))
            client.take()
        self.world.hub.proceed(self.world.now)
        self.assertLess(self.world.hub.work, 2 * CATCH_UP)
        self.world.hub.flush()
        self.world.settle()
