"""Retained messages: the last of each topic, within bounds, not beyond their time."""

from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mhub.core.replicated import BUCKETS
from mhub.core.retained import Retained
from mhub.core.stats import Stats
from mhub.wire.publish import Publish
from mhub.wire.topics import matches
from tests.core.topics import filters, topics
from tests.helpers.splits import steady

NOW = 1000.0


def message(topic: str, payload: bytes = b"x", expires_at: float = 0.0) -> Publish:
    made = Publish(topic.encode(), payload, 0, True)
    made.topic = topic
    made.expires_at = expires_at
    return made


def retained(max_messages: int = 0, max_bytes: int = 0) -> Retained:
    return Retained(Stats(), max_messages, max_bytes)


def sizes_of(*messages: Publish) -> int:
    """What these messages count together."""
    store = retained()
    for each in messages:
        store.store(each)
    return store.size_bytes


class Storing(TestCase):
    def test_the_last_message_of_a_topic_is_kept(self) -> None:
        """[MQTT-3.3.1-5]"""
        store = retained()
        store.store(message("t", b"one"))
        second = message("t", b"two")
        store.store(second)
        self.assertEqual((store.match("t", NOW), len(store)), ([second], 1))

    def test_an_empty_message_erases_and_is_not_kept(self) -> None:
        """[MQTT-3.3.1-6], [MQTT-3.3.1-7]"""
        store = retained()
        store.store(message("t"))
        store.store(message("t", b""))
        store.store(message("u", b""))
        self.assertEqual((len(store), store.size_bytes), (0, 0))

    @given(st.lists(st.tuples(topics, st.binary(max_size=3), st.booleans()), max_size=15), filters)
    @steady
    def test_any_history_against_a_dictionary(
        self, steps: list[tuple[str, bytes, bool]], topic_filter: str
    ) -> None:
        store = retained()
        plain: dict[str, Publish] = {}
        for topic, payload, expires in steps:
            made = message(topic, payload, NOW + 5 if expires else 0.0)
            store.store(made)
            plain[topic] = made
            if not payload:
                del plain[topic]
        self.assertEqual(len(store), len(plain))
        self.assertEqual(store.size_bytes, sizes_of(*plain.values()))
        self.assertEqual(set(store.expiring), {t for t, m in plain.items() if m.expires_at})
        found = {each.topic for each in store.match(topic_filter, NOW)}
        self.assertEqual(found, {topic for topic in plain if matches(topic_filter, topic)})
        for topic in list(plain):
            store.store(message(topic, b""))
        self.assertEqual((len(store), store.size_bytes, store.expiring), (0, 0, {}))
        self.assertIsNone(store.tree.root.children)


class Bounds(TestCase):
    def test_at_most_so_many(self) -> None:
        store = retained(max_messages=2)
        for topic in "abc":
            store.store(message(topic))
        self.assertEqual([m.topic for m in store.match("#", NOW)], ["a", "b"])
        self.assertEqual(store.stats.dropped_retained_full, 1)

    def test_a_topic_that_has_one_may_still_change_it(self) -> None:
        store = retained(max_messages=2)
        for topic in "aba":
            store.store(message(topic, b"new"))
        self.assertEqual((len(store), store.stats.dropped_retained_full), (2, 0))

    def test_room_that_became_free_is_used(self) -> None:
        store = retained(max_messages=1)
        store.store(message("a"))
        store.store(message("a", b""))
        store.store(message("b"))
        self.assertEqual([m.topic for m in store.match("#", NOW)], ["b"])

    def test_at_most_so_many_bytes(self) -> None:
        small = message("a", b"x" * 100)
        store = retained(max_bytes=sizes_of(small) * 2)
        store.store(small)
        store.store(message("b", b"x" * 100))
        store.store(message("c", b"x"))
        self.assertEqual([m.topic for m in store.match("#", NOW)], ["a", "b"])
        self.assertEqual(store.stats.dropped_retained_full, 1)
        self.assertLessEqual(store.size_bytes, store.max_bytes)

    def test_one_that_does_not_fit_still_ends_the_one_before_it(self) -> None:
        """[MQTT-3.3.1-5]: the old message is out of date, whether or not the new one is kept."""
        old = message("a", b"x" * 10)
        store = retained(max_bytes=sizes_of(old) + 10)
        store.store(old)
        store.store(message("a", b"x" * 50))
        self.assertEqual((len(store), store.size_bytes), (0, 0))
        self.assertEqual(store.stats.dropped_retained_full, 1)

    def test_the_brokers_own_do_not_count(self) -> None:
        kept = message("a")
        store = retained(max_messages=1, max_bytes=sizes_of(kept))
        for number in range(3):
            store.store(message(f"$SYS/broker/{number}", b"x" * 1000))
            store.store(message(f"$SYS/broker/{number}", b"y" * 1000))
        store.store(kept)
        self.assertEqual((len(store), store.stats.dropped_retained_full), (4, 0))
        store.store(message("$SYS/broker/3"))
        store.store(message("b"))
        self.assertEqual((len(store), store.stats.dropped_retained_full), (5, 1))
        for number in range(4):
            store.store(message(f"$SYS/broker/{number}", b""))
        store.store(message("c"))
        self.assertEqual([m.topic for m in store.match("#", NOW)], ["a"])
        self.assertEqual((store.own, store.size_bytes), (0, sizes_of(kept)))

    def test_whoever_asks_is_told_whether_the_last_one_was_kept(self) -> None:
        store = retained(max_messages=1)
        found = []
        for each in (
            message("a"),
            message("b"),
            message("a", b"new"),
            message("b"),
            message("b", b""),
        ):
            store.store(each)
            found.append(store.refused)
        self.assertEqual(found, [False, True, False, True, False])

    def test_the_nodes_of_deep_topics_count_too(self) -> None:
        flat = sizes_of(message("a" * 99))
        deep = sizes_of(message("/".join("a" * 50)))
        self.assertGreater(deep, 10 * flat)


class Expiry(TestCase):
    def test_not_sent_once_expired(self) -> None:
        """[MQTT-3.3.2-5], also before the sweep has come."""
        store = retained()
        store.store(message("t", b"x", NOW + 5))
        self.assertEqual(len(store.match("t", NOW + 4.9)), 1)
        for topic_filter in ("t", "#"):
            self.assertEqual(store.match(topic_filter, NOW + 5), [])

    def test_the_sweep_forgets_and_counts(self) -> None:
        store = retained()
        for topic, expires_at in (("a", NOW + 5), ("b", NOW + 50), ("c", 0.0)):
            store.store(message(topic, b"x", expires_at))
        store.sweep(NOW + 5)
        self.assertEqual([m.topic for m in store.match("#", NOW)], ["b", "c"])
        self.assertEqual((len(store), store.stats.dropped_expired), (2, 1))
        store.sweep(NOW + 1e9)
        self.assertEqual((len(store), list(store.expiring)), (1, []))

    def test_a_newer_message_without_expiry_stays(self) -> None:
        store = retained()
        store.store(message("t", b"x", NOW + 5))
        store.store(message("t", b"y"))
        store.sweep(NOW + 100)
        self.assertEqual([m.payload for m in store.match("t", NOW + 100)], [b"y"])


class Cluster(TestCase):
    """What several nodes have to agree on: the latest of each topic, an erasure among them."""

    def setUp(self) -> None:
        self.store = retained()
        self.store.count_for_peers()
        self.store.tombstone_s = 100.0

    def retained(self, hlc: int, payload: bytes = b"x", topic: str = "t") -> Publish:
        made = message(topic, payload)
        made.hlc = hlc
        return made

    def erase(self, hlc: int, topic: str = "t") -> None:
        """As the hub does it."""
        empty = self.retained(hlc, b"", topic)
        self.store.store(empty)
        self.store.put_tombstone(empty, NOW)

    def check_sums(self) -> None:
        """They are those of a node that has the same and counts it now."""
        before = list(self.store.digests or [])
        self.store.count_for_peers()
        self.assertEqual(before, self.store.digests)

    def test_newer_is_what_has_a_higher_timestamp(self) -> None:
        self.assertTrue(self.store.newer(self.retained(1)))
        self.store.store(self.retained(5, b"five"))
        found = [self.store.newer(self.retained(hlc, b"other")) for hlc in (4, 6)]
        self.assertEqual(found, [False, True])

    def test_of_equal_timestamps_the_payload_decides(self) -> None:
        """The same way on each node; the same message is not newer than itself."""
        self.store.store(self.retained(5, b"b"))
        found = [self.store.newer(self.retained(5, payload)) for payload in (b"a", b"b", b"c")]
        self.assertEqual(found, [False, False, True])

    def test_an_erasure_is_remembered(self) -> None:
        self.store.store(self.retained(5))
        self.erase(7)
        self.assertEqual(self.store.match("t", NOW), [])
        found = [self.store.newer(self.retained(hlc)) for hlc in (6, 8)]
        self.assertEqual(found, [False, True])

    def test_for_a_while(self) -> None:
        self.erase(7)
        self.assertEqual(self.store.sweep(NOW + 99.0), [])
        self.assertFalse(self.store.newer(self.retained(6)))
        self.assertEqual(self.store.sweep(NOW + 100.0), ["t"])
        self.assertTrue(self.store.newer(self.retained(6)))
        self.check_sums()

    def test_until_there_is_a_newer_message(self) -> None:
        self.erase(7)
        self.store.store(self.retained(8))
        self.assertEqual([each.hlc for each in self.store.known()], [8])
        self.assertEqual(self.store.sweep(NOW + 1000.0), [])

    def test_the_last_hlc_is_that_of_the_latest_of_both(self) -> None:
        self.assertEqual(self.store.last_hlc(), 0)
        self.store.store(self.retained(5, topic="a"))
        self.erase(7, "b")
        self.store.store(self.retained(6, topic="c"))
        self.assertEqual(self.store.last_hlc(), 7)

    def test_what_is_not_of_the_cluster_is_not_compared(self) -> None:
        """The broker's own topics have no timestamps, and other values on each node."""
        self.store.store(message("$SYS/uptime", b"1"))
        self.assertEqual(self.store.known(), [])
        self.check_sums()
        self.assertEqual(self.store.digests, [0] * BUCKETS)

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["store", "erase", "expiring", "plain", "sweep"]),
                st.sampled_from("abc"),
                st.integers(1, 5),
            ),
            max_size=25,
        )
    )
    @steady
    def test_sums_follow_any_history(self, steps: list[tuple[str, str, int]]) -> None:
        self.setUp()
        for at, (what, topic, size) in enumerate(steps):
            if what == "erase":
                self.erase(at + 1, topic)
            elif what == "sweep":
                self.store.sweep(NOW + 30.0 * at)
            else:
                made = message(topic, b"x" * size, NOW + 20.0 * size if what == "expiring" else 0.0)
                made.hlc = 0 if what == "plain" else at + 1
                self.store.store(made)
            self.check_sums()
