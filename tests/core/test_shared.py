"""Shared subscriptions: each message to one member, in turn."""

from collections import Counter
from itertools import chain
from unittest import TestCase

from tests.core.world import Client, World
from tests.helpers import packets as p
from tests.helpers.packets import Prop

KEPT = [(Prop.SESSION_EXPIRY, 1000)]


class Case(TestCase):
    def setUp(self) -> None:
        self.world = World()
        self.publisher = self.world.client("publisher")

    def member(self, name: str, qos: int = 1, topic_filter: str = "$share/g/t") -> Client:
        client = self.world.client(name, 5, clean=False, props=KEPT)
        if not client.session.subscriptions:
            client.subscribe(topic_filter, qos)
        return client

    def publish(self, count: int, qos: int = 1, start: int = 0) -> None:
        for number in range(start, start + count):
            self.publisher.publish("t", b"%d" % number, qos)


class Fairness(Case):
    def test_members_take_turns(self) -> None:
        members = [self.member(name) for name in "abc"]
        self.publish(9)
        got = [member.payloads() for member in members]
        self.assertEqual([len(each) for each in got], [3, 3, 3])
        self.assertEqual(sorted(chain(*got)), [b"%d" % number for number in range(9)])

    def test_one_that_is_away_is_passed_over(self) -> None:
        members = [self.member(name) for name in "abc"]
        members[1].lose()
        self.publish(4)
        self.assertEqual([len(members[at].payloads()) for at in (0, 2)], [2, 2])

    def test_one_whose_window_is_full_is_passed_over(self) -> None:
        """A member that does not acknowledge must not collect what others could do now."""
        slow = self.world.client("slow", 5, props=[(Prop.RECEIVE_MAXIMUM, 1)])
        slow.subscribe("$share/g/t", 1)
        fast = self.member("fast")
        self.publish(7)
        self.assertEqual([len(slow.payloads()), len(fast.payloads())], [1, 6])

    def test_one_that_is_busy_comes_before_one_that_is_away(self) -> None:
        self.member("away").lose()
        busy = self.world.client("busy", 5, props=[(Prop.RECEIVE_MAXIMUM, 1)])
        busy.subscribe("$share/g/t", 1)
        self.publish(3)
        for number in range(3):
            packet = busy.next("PUBLISH")
            self.assertEqual(packet.payload, b"%d" % number)
            busy.send(p.puback(packet.pid or 0))
        self.assertEqual(self.member("away").take(), [])

    def test_with_nobody_live_it_waits_for_one_that_comes_back(self) -> None:
        for name in "ab":
            self.member(name).lose()
        self.publish(4)
        got = [self.member(name).payloads() for name in "ab"]
        self.assertEqual(sorted(chain(*got)), [b"0", b"1", b"2", b"3"])
        self.assertEqual([len(each) for each in got], [2, 2])

    def test_groups_are_served_each(self) -> None:
        """One copy for each group, and one for an ordinary subscription of the same session."""
        first = self.member("a")
        second = self.member("b", topic_filter="$share/h/t")
        first.subscribe("t", 1)
        self.publish(2)
        counted = Counter(first.payloads() + second.payloads())
        self.assertEqual(counted, {b"0": 3, b"1": 3})

    def test_the_members_own_qos_counts(self) -> None:
        low = self.member("low", qos=0)
        high = self.member("high", qos=2)
        self.publish(2, qos=2)
        self.assertEqual([packet.qos for packet in low.take() + high.take()], [0, 2])

    def test_subscribing_again_does_not_double_a_member(self) -> None:
        member = self.member("a")
        member.subscribe("$share/g/t", 2)
        other = self.member("b")
        self.publish(4)
        self.assertEqual([len(member.payloads()), len(other.payloads())], [2, 2])
        self.assertEqual(self.world.hub.router.shared_subscriptions, 2)
