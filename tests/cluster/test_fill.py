"""Retained messages on two nodes that meet: each takes what is newer at the other, and no more."""

import random

from twisted.trial.unittest import SynchronousTestCase

from mhub.cluster.fill import AT_ONCE, PART_BYTES
from mhub.cluster.frames import DIGESTS, FILLED, HAVE, PUBLISHES, RETAINED, TABLE
from mhub.core.channel_records import read_record, record_of
from mhub.core.replicated import BUCKETS, bucket_of
from mhub.wire.publish import Publish, topic_field
from tests.cluster.far import Here
from tests.cluster.simulation import Simulation
from tests.helpers import packets as p

LATER = 1 << 61
"""A timestamp that is later than any of node a."""


def topic_in(bucket: int, number: int = 0) -> str:
    """The topic of a bucket; any number of them."""
    found = 0
    for index in range(1_000_000):
        if bucket_of(b"r/%d" % index) == bucket:
            if found == number:
                return f"r/{index}"
            found += 1
    raise AssertionError(bucket)


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.here = Here()
        self.client = self.here.world.client("c")

    def retain(self, topic: str, payload: bytes = b"x", qos: int = 0) -> int:
        """A client of node a retains something; its timestamp."""
        self.client.publish(topic, payload, qos, retain=True)
        return next(m.hlc for m in self.here.world.hub.retained.known() if m.topic == topic)

    def kept(self) -> dict[str, bytes]:
        """What is retained at node a."""
        found = self.here.world.hub.retained.match("#", self.here.world.now)
        return {message.topic: message.payload for message in found}

    def record(self, topic: str, payload: bytes, hlc: int) -> bytes:
        """A message that node b has retained."""
        message = Publish(topic.encode(), payload, 0, True)
        message.topic = topic
        message.topic_field = topic_field(topic.encode())
        message.hlc = hlc
        return record_of(message, False, None, self.here.world.now)

    def read(self, bodies: list[bytes]) -> dict[str, bytes]:
        """The messages of frames from node a, each of which is there once."""
        found: dict[str, bytes] = {}
        for body in bodies:
            pos = 0
            while pos < len(body):
                message, plain, _, pos = read_record(body, pos, 0.0)
                topic = message.topic_data.decode()
                self.assertEqual((plain, topic in found), (False, False))
                found[topic] = message.payload
        return found


class Asking(Case):
    """Node a asks for what node b may have."""

    def digests(self, *differ: int) -> list[int]:
        """Digests that are other ones in some buckets."""
        ours = list(self.here.world.hub.retained.digests or [])
        return [each ^ 1 if bucket in differ else each for bucket, each in enumerate(ours)]

    def test_a_link_begins_with_a_sum_for_each_bucket(self) -> None:
        topic = topic_in(7)
        self.retain(topic)
        (said,) = self.here.link().told(DIGESTS)
        self.assertEqual([b for b in range(BUCKETS) if said["digests"][b]], [7])

    def test_nothing_is_asked_where_all_are_equal(self) -> None:
        self.retain(topic_in(7))
        far = self.here.link()
        far.say(TABLE, at=-2, to=0, number=0, set=[])
        self.assertEqual(self.here.state(), "syncing")
        far.say(DIGESTS, digests=self.digests())
        self.assertEqual((far.took(HAVE), self.here.state()), ([], "up"))

    def test_a_few_buckets_at_a_time_until_all_were_asked_for(self) -> None:
        """And the other node is up when the last of them has come, not before."""
        differ = list(range(3, 3 + 2 * AT_ONCE + 1))
        far = self.here.link()
        far.say(TABLE, at=-2, to=0, number=0, set=[])
        far.say(DIGESTS, digests=self.digests(*differ))
        asked, left = [], []
        while said := far.told(HAVE):
            self.assertEqual((len(said), self.here.state()), (1, "syncing"))
            asked.append(said[0]["buckets"])
            left.append(said[0]["left"])
            far.say(FILLED)
        self.assertEqual([len(each) for each in asked], [AT_ONCE, AT_ONCE, 1])
        self.assertEqual([bucket for each in asked for bucket in each], differ)
        self.assertEqual(left, [AT_ONCE + 1, 1, 0])
        self.assertEqual(self.here.state(), "up")

    def test_with_what_is_here_of_these_buckets(self) -> None:
        times = {topic_in(7): 0, topic_in(7, 1): 0, topic_in(8): 0, topic_in(9): 0}
        for topic in times:
            times[topic] = self.retain(topic)
        erased = topic_in(8)
        self.retain(erased, b"")
        far = self.here.link()
        far.say(DIGESTS, digests=self.digests(7, 8))
        (said,) = far.told(HAVE)
        known = dict(said["known"])
        self.assertEqual(set(known), {topic_in(7), topic_in(7, 1), erased})
        self.assertEqual(known[topic_in(7)], times[topic_in(7)])
        self.assertGreater(known[erased], times[erased])

    def test_sums_of_more_buckets_than_there_are(self) -> None:
        """Another release may have more: those that both have are compared."""
        far = self.here.link()
        far.say(TABLE, at=-2, to=0, number=0, set=[])
        far.say(DIGESTS, digests=[*self.digests(), 1, 2, 3])
        self.assertEqual((far.took(HAVE), self.here.state()), ([], "up"))


class Taking(Case):
    """What comes from node b is kept if it is newer."""

    def come(self, *records: bytes) -> None:
        self.here.link().give(RETAINED, b"".join(records))

    def test_what_is_new_and_what_is_newer(self) -> None:
        hlc = self.retain("r/1", b"old")
        self.come(self.record("r/1", b"new", hlc + 1), self.record("r/2", b"first", 1))
        self.assertEqual(self.kept(), {"r/1": b"new", "r/2": b"first"})

    def test_not_what_is_older(self) -> None:
        hlc = self.retain("r/1", b"new")
        self.come(self.record("r/1", b"old", hlc - 1))
        self.assertEqual(self.kept(), {"r/1": b"new"})

    def test_an_erasure_that_is_newer(self) -> None:
        hlc = self.retain("r/1", b"x")
        self.come(self.record("r/1", b"", hlc + 1))
        self.assertEqual(self.kept(), {})

    def test_not_what_was_erased_since(self) -> None:
        """A node that was away does not bring it back."""
        hlc = self.retain("r/1", b"x")
        self.retain("r/1", b"")
        self.come(self.record("r/1", b"x", hlc))
        self.assertEqual(self.kept(), {})

    def test_of_equal_timestamps_all_nodes_choose_the_same(self) -> None:
        for first, second in ((b"1", b"2"), (b"2", b"1")):
            self.setUp()
            self.come(self.record("r/1", first, LATER), self.record("r/1", second, LATER))
            self.assertEqual(self.kept(), {"r/1": b"2"})

    def test_subscribers_are_not_sent_what_is_no_news(self) -> None:
        self.client.subscribe("r/#")
        self.come(self.record("r/1", b"x", LATER))
        self.assertEqual(self.client.take(), [])

    def test_what_is_retained_here_from_then_on_is_newer(self) -> None:
        """However far ahead the other node's clock is."""
        self.come(self.record("r/1", b"theirs", LATER))
        self.retain("r/1", b"ours")
        self.assertEqual(self.kept(), {"r/1": b"ours"})


class Giving(Case):
    """Node b asks, and gets what it does not have."""

    def ask(self, *buckets: int, **known: int) -> dict[str, bytes]:
        """What it is given; `known` are its topics with their timestamps."""
        far = self.here.link()
        far.say(HAVE, buckets=list(buckets), known=list(known.items()), left=0)
        self.assertEqual(len(far.took(FILLED)), 1)
        return self.read(far.took(RETAINED))

    def test_what_it_does_not_have(self) -> None:
        one, two, other = topic_in(7), topic_in(7, 1), topic_in(8)
        for topic in (one, two, other):
            self.retain(topic, topic.encode())
        self.assertEqual(self.ask(7), {one: one.encode(), two: two.encode()})

    def test_what_it_has_an_older_one_of(self) -> None:
        topic = topic_in(7)
        hlc = self.retain(topic)
        self.assertEqual(self.ask(7, **{topic: hlc - 1}), {topic: b"x"})
        self.setUp()
        hlc = self.retain(topic)
        self.assertEqual(self.ask(7, **{topic: hlc}), {})
        self.setUp()
        hlc = self.retain(topic)
        self.assertEqual(self.ask(7, **{topic: hlc + 1}), {})

    def test_what_was_erased(self) -> None:
        topic = topic_in(7)
        hlc = self.retain(topic)
        self.retain(topic, b"")
        self.assertEqual(self.ask(7, **{topic: hlc}), {topic: b""})

    def test_nothing_but_the_end_if_there_is_nothing(self) -> None:
        self.assertEqual(self.ask(7), {})

    def test_much_of_it_in_parts(self) -> None:
        topics = [topic_in(7, number) for number in range(7)]
        for topic in topics:
            self.retain(topic, bytes(PART_BYTES // 2))
        far = self.here.link()
        far.say(HAVE, buckets=[7], known=[], left=0)
        bodies = far.took(RETAINED)
        self.assertEqual(len(bodies), 4)
        self.assertLess(max(map(len, bodies)), 2 * PART_BYTES)
        self.assertEqual(sorted(self.read(bodies)), sorted(topics))

    def test_what_comes_meanwhile_is_told_by_itself(self) -> None:
        """While buckets are compared, new messages go to the other node as they are published."""
        far = self.here.link()
        self.retain(topic_in(7), b"1")
        far.say(HAVE, buckets=[6], known=[], left=1)
        far.took(RETAINED)
        self.retain(topic_in(7), b"2")
        self.assertEqual(len(far.took(PUBLISHES)), 2)


class Meeting(SynchronousTestCase):
    """Two nodes that were apart, whatever happened there, have the same in the end."""

    def test_any_two_histories(self) -> None:
        for seed in range(5):
            sim = Simulation(seed, "ab")
            sim.start()
            sim.run(3.0)
            sim.cut("a", "b")
            sim.split({"a"}, {"b"})
            chance = random.Random(seed)
            for name in "ab":
                node = sim.nodes[name]
                client = node.open(4)
                node.send(client, p.connect(name))
                for number in range(60):
                    topic = f"r/{chance.randrange(25)}"
                    payload = b"%d" % number * chance.choice((0, 1, 1))
                    node.send(client, p.publish(topic, payload, 0, None, True))
                    sim.run(0.05)
            sim.heal()
            sim.run(20.0)
            self.assertTrue(sim.whole())
            kept = []
            for node in sim.nodes.values():
                found = node.world.hub.retained.match("#", node.world.now)
                kept.append({message.topic: message.payload for message in found})
            self.assertEqual(kept[0], kept[1])
            self.assertGreater(len(kept[0]), 5)
            digests = [node.world.hub.retained.digests for node in sim.nodes.values()]
            self.assertEqual(digests[0], digests[1])
