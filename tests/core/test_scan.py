"""Scans: what fits, in which order, and which of them are the first."""

import random
from fnmatch import fnmatchcase
from unittest import TestCase

from mhub.core.scan import (
    BEHIND,
    CLIENT_SORTS,
    HERE,
    ClientScan,
    Glob,
    Matcher,
    Selection,
    SubscriptionScan,
    TopicMatch,
)
from mhub.core.tally import GroupScan, Tallies
from mhub.wire.topics import filter_problem, matches
from tests.core.world import World
from tests.helpers import packets as p

LEVELS = ("a", "b", "", "$x", "+", "a.c")


class PatternTests(TestCase):
    def test_globs_fit_as_those_of_a_shell(self) -> None:
        chance = random.Random(1)
        for _ in range(5000):
            pattern = "".join(
                chance.choices("ab*?[]!", (4, 4, 4, 1, 1, 1, 1), k=chance.randrange(8))
            )
            name = "".join(chance.choices("ab", k=chance.randrange(8)))
            self.assertEqual(Glob(pattern).fits(name), fnmatchcase(name, pattern), (pattern, name))

    def test_filters_fit_as_they_do_for_mqtt(self) -> None:
        chance = random.Random(2)
        for _ in range(5000):
            levels = chance.choices(LEVELS, k=chance.randrange(1, 4))
            topic_filter = "/".join(levels + ["#"] * chance.randrange(2))
            topic = "/".join(
                chance.choices(("a", "b", "", "$x", "abc", "a.c"), k=chance.randrange(1, 5))
            )
            if not topic or filter_problem(topic_filter):
                continue
            expected = matches(topic_filter, topic)
            self.assertEqual(Matcher(topic_filter).fits(topic), expected, (topic_filter, topic))
            match = TopicMatch(topic)
            for _ in range(2):  # the second time it is remembered
                self.assertEqual(match.fits(topic_filter), expected, (topic_filter, topic))

    def test_all_but_those_of_the_broker(self) -> None:
        matcher = Matcher("#")
        self.assertTrue(matcher.fits("a/b"))
        self.assertFalse(matcher.fits("$SYS/a"))
        self.assertTrue(Matcher("$SYS/#").fits("$SYS"))


class SelectionTests(TestCase):
    def test_the_first_behind_a_cursor(self) -> None:
        """As if all were sorted, whatever the order in which they come."""
        for seed in range(500):
            chance = random.Random(seed)
            descending, by_name = chance.random() < 0.5, chance.random() < 0.3
            items = [
                (0.0 if by_name else float(chance.randrange(4)), f"{n:03}")
                for n in range(chance.randrange(60))
            ]
            chance.shuffle(items)
            sign = -1.0 if descending else 1.0
            if by_name:
                wanted = sorted(items, reverse=descending)
            else:
                wanted = sorted(items, key=lambda item: (sign * item[0], item[1]))
            limit = chance.randrange(1, 12)
            found: list[tuple[float, str]] = []
            while True:
                selection = Selection(limit, descending, by_name)
                if found:
                    selection.begin_after(*found[-1])
                for value, name in items:
                    if by_name:
                        place = selection.place_of(name)
                    else:
                        place = selection.place_of_value(value, name)
                    if place == HERE:
                        selection.keep(value, name)
                    elif place == BEHIND:
                        selection.fit += 1
                page = selection.first()
                if not page:
                    break
                found += page
                self.assertEqual(selection.fit, len(items) - len(found) + len(page))
            self.assertEqual(found, wanted)

    def test_tallies_of_the_first_names_are_complete(self) -> None:
        for seed in range(300):
            chance = random.Random(seed)
            names = [f"{chance.randrange(40):02}" for _ in range(chance.randrange(200))]
            limit = chance.randrange(1, 8)
            found: list[tuple[str, int]] = []
            while True:
                tallies = Tallies(limit)
                if found:
                    tallies.begin_after(found[-1][0])
                for name in names:
                    tally = tallies.get(name)
                    if tally is not None:
                        tally.count += 1
                page = [(name, tally.count) for name, tally in tallies.first()]
                found += page
                if not tallies.has_more:
                    break
            self.assertEqual(found, sorted({name: names.count(name) for name in names}.items()))


class ScanTests(TestCase):
    def setUp(self) -> None:
        self.world = World(sys_interval_s=0)

    def test_clients_that_stay_are_seen_once(self) -> None:
        """By any sort, while others come and go between the portions of a search."""
        hub = self.world.hub
        limits = self.world.open().connection.limits
        for seed in range(40):
            chance = random.Random(seed)
            for session in list(hub.sessions.values()):
                hub.end_session(session)
            for n in range(200):
                hub.new_session(f"{n:04}", limits)
            passing = [f"{n:04}" for n in range(0, 200, 2)]
            staying = [f"{n:04}" for n in range(1, 200, 2)]
            sort, descending = chance.randrange(len(CLIENT_SORTS)), chance.random() < 0.5
            seen: list[str] = []
            place: tuple[float, str] | None = None
            while True:
                scan = ClientScan(hub, sort, descending, 20)
                if place is not None:
                    scan.selection.begin_after(*place)
                while scan.step(chance.randrange(1, 50)):
                    for name in chance.sample(passing, 10):
                        known = hub.sessions.get(name)
                        if known is not None:
                            hub.end_session(known)
                        else:
                            hub.new_session(name, limits)
                page = scan.selection.first()
                if not page:
                    break
                seen += [name for _, name in page]
                place = page[-1]
            kept = [name for name in seen if name in staying]
            order = descending and sort == 0
            self.assertEqual(kept, sorted(staying, reverse=order), (seed, sort))

    def test_subscriptions_that_stay_are_seen_once(self) -> None:
        clients = {name: self.world.client(name) for name in ("a", "b", "c")}
        for seed in range(10):
            chance = random.Random(seed)
            for n in range(60):
                for name in "ab":
                    clients[name].subscribe(f"{'$share/g/' if n % 7 == 0 else ''}t/{n:02}")
            seen: list[str] = []
            while True:
                scan = SubscriptionScan(self.world.hub, False, False, 15)
                if seen:
                    scan.selection.begin_after(0.0, seen[-1])
                while scan.step(chance.randrange(1, 40)):
                    for n in chance.sample(range(60), 5):
                        clients["c"].subscribe(f"t/{n:02}")
                        clients["c"].send(p.unsubscribe(9, f"t/{chance.randrange(60):02}"))
                        clients["c"].next("UNSUBACK")
                        clients["a"].subscribe(f"{'$share/g/' if n % 7 == 0 else ''}t/{n:02}")
                page = scan.selection.first()
                if not page:
                    break
                seen += [name for _, name in page]
            parts = [tuple(each.split("\0")) for each in seen]
            kept = [(topic, name) for topic, name, _ in parts if name in ("a", "b")]
            self.assertEqual(kept, sorted((f"t/{n:02}", name) for n in range(60) for name in "ab"))

    def test_sessions_that_are_set_apart_do_not_count(self) -> None:
        """One that another node is about to empty, beside the newer one of its client."""
        client = self.world.client("a", clean=False)
        client.subscribe("$share/g/t")
        session = client.session
        client.lose()
        self.world.hub.drop_session(session)
        scan = SubscriptionScan(self.world.hub, False, False, 10)
        groups = GroupScan(self.world.hub, 10)
        self.assertEqual((scan.step(100), groups.step(100)), (False, False))
        self.assertEqual((scan.selection.first(), groups.tallies.first()), ([], []))
