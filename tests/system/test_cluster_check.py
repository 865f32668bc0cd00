"""The check of cluster runs finds what is wrong, and excuses nothing but Session Present 0."""

import random
import time
from collections.abc import Iterator

from twisted.trial.unittest import SynchronousTestCase

from tests.helpers.packets import Packet
from tests.system.cluster_check import ClusterVerdict, judge
from tests.system.cluster_clients import ClusterLoad, RoamingPublisher, RoamingSubscriber
from tests.system.cluster_trace import Trace
from tests.system.durability_clients import payload_of, topic_of


class Publisher(RoamingPublisher):
    spread = 1

    def get(self, type: str, **fields: object) -> None:
        """A packet comes."""
        packet = Packet(type, 0, b"", **fields)  # type: ignore[arg-type]
        (self._welcome if type == "CONNACK" else self._handle)(packet)

    def publish_and_get(self, count: int = 1) -> None:
        """Messages that are published, and acknowledged."""
        for _ in range(count):
            self.publish()
            pid = next(iter(self._waiting))
            self.get("PUBREC" if self.qos == 2 else "PUBACK", pid=pid)
            if self.qos == 2:
                self.get("PUBCOMP", pid=pid)


class Subscriber(RoamingSubscriber):
    spread = 1
    pids: Iterator[int]

    def connack(self, present: bool) -> None:
        self._welcome(Packet("CONNACK", 0, b"", reason=0, session_present=present))

    def suback(self) -> None:
        self._handle(Packet("SUBACK", 0, b"", pid=1, reasons=[self.qos]))

    def get(self, name: str, *numbers: int, dup: bool = False, retain: bool = False) -> None:
        """Messages of a publisher, from the first packet to the last."""
        for number in numbers:
            pid = next(self.pids)
            self.get_publish(name, number, pid, dup, retain)
            if self.qos == 2:
                self._handle(Packet("PUBREL", 2, b"", pid=pid))

    def get_publish(
        self, name: str, number: int, pid: int, dup: bool = False, retain: bool = False
    ) -> None:
        topic, payload = topic_of(name, number, 1), payload_of(name, number)
        self._handle(
            Packet("PUBLISH", 0, b"", dup, self.qos, retain, pid, topic, payload),
        )


class CheckTests(SynchronousTestCase):
    """One publisher and one subscriber, of QoS 2 unless told."""

    def setUp(self) -> None:
        self.is_split = False
        self.begin(2)

    def begin(self, qos: int) -> None:
        self.load = ClusterLoad(random.Random(0), list, lambda: self.is_split, Trace())
        self.publisher = Publisher("p", qos)
        self.subscriber = Subscriber("s", qos)
        self.subscriber.pids = iter(range(1, 60_000))
        self.load.set_clients([self.publisher], [self.subscriber])
        self.subscriber.connack(False)
        self.subscriber.suback()
        self.publisher.get("CONNACK", reason=0)

    def verdict(self, nothing_failed: bool = False) -> ClusterVerdict:
        return judge(self.load, nothing_failed)

    def check(self, nothing_failed: bool = False, **expected: int) -> None:
        """These are counted and wrong; and nothing else is."""
        verdict = self.verdict(nothing_failed)
        found = {
            name: getattr(verdict, name)
            for name in ("lost", "twice", "disordered", "no_dup")
            if getattr(verdict, name)
        }
        self.assertEqual(expected, found, verdict.wrong)
        self.assertEqual(bool(expected), bool(verdict.wrong), verdict.wrong)

    def test_nothing_is_wrong(self) -> None:
        self.publisher.publish_and_get(3)
        self.subscriber.get("p", 1, 2, 3)
        self.check(nothing_failed=True)

    def test_a_message_that_does_not_come_is_lost(self) -> None:
        self.publisher.publish_and_get(3)
        self.subscriber.get("p", 1, 3)
        self.check(lost=1)

    def test_what_was_not_acknowledged_need_not_come(self) -> None:
        self.publisher.publish()
        self.check()

    def test_a_later_message_first_is_out_of_order(self) -> None:
        self.publisher.publish_and_get(5)
        self.subscriber.get("p", 1, 4, 2, 3, 5)
        self.check(disordered=2)
        self.assertIn("p -> s: 2 3: out of order", self.verdict().wrong[0])
        self.assertIn("1 4 *2* 3 5", self.verdict().wrong[0])

    def test_session_present_1_excuses_nothing(self) -> None:
        self.publisher.publish_and_get(4)
        self.subscriber.get("p", 1, 3)
        self.subscriber.connack(True)
        self.subscriber.get("p", 2, 3)
        self.check(disordered=1, twice=1, lost=1)

    def test_a_repeat_of_an_open_packet_id_is_no_second_copy(self) -> None:
        self.publisher.publish_and_get()
        self.subscriber.get_publish("p", 1, pid=7)
        self.subscriber.connack(True)
        self.subscriber.get_publish("p", 1, pid=7, dup=True)
        self.check(nothing_failed=True)

    def test_an_open_message_with_another_packet_id_came_twice(self) -> None:
        self.publisher.publish_and_get()
        self.subscriber.get_publish("p", 1, pid=7)
        self.subscriber.connack(True)
        self.subscriber.get_publish("p", 1, pid=8, dup=True)
        self.check(twice=1)

    def test_an_open_packet_id_with_another_message_is_wrong(self) -> None:
        self.publisher.publish_and_get(2)
        self.subscriber.get_publish("p", 1, pid=7)
        self.subscriber.get_publish("p", 2, pid=7)
        self.check(lost=1)
        self.assertIn("packet id 7", self.verdict().wrong[0])

    def test_after_session_present_0_older_messages_may_be_missing_late_and_again(self) -> None:
        self.publisher.publish_and_get(4)
        self.subscriber.get("p", 1, 2)
        self.subscriber.connack(False)
        self.subscriber.suback()
        self.publisher.publish_and_get(2)
        self.subscriber.get("p", 5, 2, 6)
        self.subscriber.get("p", 4)
        verdict = self.verdict()
        self.check()
        self.assertEqual((1, 1, 1), (verdict.lost_excused, verdict.twice_excused, verdict.absent))

    def test_newer_messages_are_judged_after_session_present_0_as_ever(self) -> None:
        self.subscriber.connack(False)
        self.subscriber.suback()
        self.publisher.publish_and_get(4)
        self.subscriber.get("p", 2, 1, 1, 3)
        self.check(lost=1, twice=1, disordered=1)

    def test_session_present_0_is_wrong_where_nothing_failed(self) -> None:
        self.subscriber.connack(False)
        self.assertEqual([], self.verdict().wrong)
        self.assertIn("s: Session Present 0", self.verdict(nothing_failed=True).wrong[0])

    def test_a_publisher_that_read_session_present_0_has_published_twice(self) -> None:
        self.publisher.publish()
        self.publisher.get("CONNACK", reason=0)
        self.publisher.get("PUBREC", pid=1)
        self.subscriber.get("p", 1, 1)
        self.check()

    def test_a_publisher_that_read_session_present_1_has_not(self) -> None:
        self.publisher.publish()
        self.publisher.get("CONNACK", reason=0, session_present=True)
        self.publisher.get("PUBREC", pid=1)
        self.subscriber.get("p", 1, 1)
        self.check(twice=1)

    def test_a_repeat_of_qos_1_has_dup_where_nothing_failed(self) -> None:
        self.begin(1)
        self.publisher.publish_and_get(2)
        self.subscriber.get("p", 1, 2)
        self.subscriber.get("p", 1, dup=True)
        self.check(nothing_failed=True)
        self.subscriber.get("p", 2)
        self.check(nothing_failed=True, no_dup=1)
        self.check(nothing_failed=False)

    def test_a_retained_message_for_a_subscription_is_no_second_copy(self) -> None:
        self.publisher.publish_and_get(2)
        self.subscriber.get("p", 1, 2)
        self.subscriber.get("p", 1, retain=True)
        self.check()

    def test_who_read_session_present_0_in_a_split_is_exempt_until_connack_after_it(self) -> None:
        self.is_split = True
        self.subscriber.connack(False)
        self.subscriber.suback()
        self.publisher.publish_and_get(5)
        self.subscriber.get("p", 1, 3, 2)
        self.subscriber.connack(True)  # the other side's session
        self.subscriber.get("p", 1, 4)
        self.is_split = False
        self.subscriber.get("p", 3, 5)
        self.check()
        self.subscriber.connack(True)
        self.publisher.publish_and_get(3)
        self.subscriber.get("p", 4, 5, 7, 6)
        self.check(disordered=1, lost=1)

    def test_who_read_session_present_1_in_a_split_is_not(self) -> None:
        self.is_split = True
        self.subscriber.connack(True)
        self.publisher.publish_and_get(2)
        self.subscriber.get("p", 2, 1, 1)
        self.check(disordered=1, twice=1)

    def test_what_a_publisher_sent_during_a_freeze_may_come_late(self) -> None:
        """It has gone to another node that has no session for it, and so does not wait."""
        since = time.monotonic()
        self.publisher.publish_and_get(2)
        self.publisher.get("CONNACK", reason=0)
        self.publisher.publish_and_get(2)
        self.subscriber.get("p", 3, 1, 2, 4)
        self.check(disordered=2)
        self.load.together_again(since)
        self.check()
        self.publisher.publish_and_get(2)
        self.subscriber.get("p", 6, 5)
        self.check(disordered=1)

    def test_not_so_without_session_present_0(self) -> None:
        self.publisher.get("CONNACK", reason=0)
        since = time.monotonic()
        self.publisher.publish_and_get(2)
        self.publisher.get("CONNACK", reason=0, session_present=True)
        self.publisher.publish_and_get(1)
        self.subscriber.get("p", 3, 1, 2)
        self.load.together_again(since)
        self.check(disordered=2)

    def test_nor_what_it_sent_before(self) -> None:
        self.publisher.publish_and_get(2)
        since = time.monotonic()
        self.publisher.get("CONNACK", reason=0)
        self.publisher.publish_and_get(1)
        self.subscriber.get("p", 3, 1, 2)
        self.load.together_again(since)
        self.check(disordered=2)
