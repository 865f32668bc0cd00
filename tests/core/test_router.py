"""Routes: the cache is never wrong, never large, and loses no more than it has to."""

from typing import Any
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mhub.core.delivery import Subscription
from mhub.core.limits import Limits
from mhub.core.router import CACHED_BYTES, CACHED_LEVELS, LOOKS, Route, Router
from mhub.core.session import Session
from mhub.core.stats import Stats
from mhub.wire import reasons
from mhub.wire.errors import ProtocolFault
from mhub.wire.topics import matches
from tests.core.topics import filters, topics
from tests.core.world import World
from tests.helpers.splits import steady

LEVELS = 20


class Case(TestCase):
    def setUp(self) -> None:
        self.hub = World().hub

    def session(self, name: str) -> Session:
        return Session(self.hub, name, Limits())

    def router(self, size: int = 100) -> Router:
        return Router(Stats(), size, LEVELS)

    def subscribe(self, router: Router, session: Session, text: str, **fields: Any) -> Subscription:
        """A subscription of the session, which replaces one to the same filter."""
        subscription = Subscription(session, text, fields.pop("share", ""))
        for name, value in fields.items():
            setattr(subscription, name, value)
        router.add(subscription)
        return subscription


def portrait(route: Route) -> tuple[Any, ...]:
    """All that matters of a route, in an order of its own."""

    def target(subscription: Subscription | None) -> Any:
        if subscription is None:
            return None
        ids = sorted(subscription.ids)
        flags = (subscription.qos, subscription.no_local, subscription.retain_as_published)
        return subscription.session.client_id, *flags, ids, target(subscription.own)

    groups = sorted(
        (group.name, group.topic_filter, sorted(m.session.client_id for m in group.members))
        for group in route.groups
    )
    targets = sorted(map(target, route.targets), key=str)
    return route.topic, route.topic_field, route.reserved, targets, groups


steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), topics),
        st.tuples(
            st.just("subscribe"),
            filters,
            st.sampled_from(["s", "t"]),
            st.integers(0, 2),
            st.booleans(),
            st.sampled_from(["", "", "g", "h"]),
        ),
        st.tuples(st.just("unsubscribe"), st.integers(0, 9)),
    ),
    max_size=25,
)


class Cache(Case):
    @given(steps, st.sampled_from([0, 1, 3, 100]))
    @steady
    def test_a_cached_route_is_what_a_search_would_find(self, plan: list[Any], size: int) -> None:
        """After any history, for every topic that came up; and the cache keeps to its bound."""
        cached = self.router(size)
        fresh = self.router(0)
        sessions = {name: self.session(name) for name in "st"}
        there: dict[tuple[str, str, str], list[Subscription]] = {}
        seen = {"a", "$x", "/"}
        for number, step in enumerate(plan):
            if step[0] == "publish":
                seen.add(step[1])
            elif step[0] == "subscribe":
                _, text, name, qos, no_local, share = step
                fields = {"qos": qos, "share": share, "ids": bytes([number])}
                fields["no_local"] = no_local and not share
                there[name, text, share] = [
                    self.subscribe(router, sessions[name], text, **fields)
                    for router in (cached, fresh)
                ]
            elif there:
                key = list(there)[step[1] % len(there)]
                for router, subscription in zip((cached, fresh), there.pop(key), strict=True):
                    router.remove(subscription)
            for topic in sorted(seen):
                found = portrait(cached.find(topic.encode()))
                self.assertEqual(found, portrait(fresh.find(topic.encode())))
                self.assertLessEqual(len(cached.cache), size)
                self.assertEqual(cached.cached.size, len(cached.cache))
        self.assertEqual(cached.subscriptions, len(there))
        self.assertEqual(cached.shared_subscriptions, sum(1 for key in there if key[2]))

    @given(steps)
    @steady
    def test_nothing_is_left_when_all_have_gone(self, plan: list[Any]) -> None:
        router = self.router()
        there: dict[tuple[str, str, str], Subscription] = {}
        sessions = {name: self.session(name) for name in "st"}
        for step in plan:
            if step[0] == "publish":
                router.find(step[1].encode())
            elif step[0] == "subscribe":
                _, text, name, qos, _, share = step
                subscription = self.subscribe(router, sessions[name], text, qos=qos, share=share)
                there[name, text, share] = subscription
        for subscription in there.values():
            router.remove(subscription)
        self.assertTrue(router.filters.root.empty())
        self.assertEqual(router.filters.exact, {})
        self.assertEqual((router.subscriptions, router.shared_subscriptions), (0, 0))
        for route in router.cache.values():
            self.assertEqual((route.targets, route.groups), ([], []))

    def test_a_subscription_drops_only_the_routes_that_it_matches(self) -> None:
        names = ["a/b", "a/c", "b", "$x/y", "a", "c/d/e"]
        for text in ("a/b", "a/+", "a/#", "#", "+", "$x/#", "z", "c/+/e"):
            router = self.router()
            for name in names:
                router.find(name.encode())
            subscription = self.subscribe(router, self.session("s"), text)
            kept = {name for name in names if not matches(text, name)}
            self.assertEqual({key.decode() for key in router.cache}, kept, text)
            for name in names:
                router.find(name.encode())
            router.remove(subscription)
            self.assertEqual({key.decode() for key in router.cache}, kept, text)

    def test_a_storm_of_subscribers_leaves_the_cache_alone(self) -> None:
        router = self.router()
        for number in range(50):
            router.find(b"live/%d" % number)
        misses = router.stats.route_cache_misses
        for number in range(200):
            self.subscribe(router, self.session(f"s{number}"), f"inbox/{number}/#")
        for number in range(50):
            router.find(b"live/%d" % number)
        self.assertEqual(router.stats.route_cache_misses, misses)

    def test_filters_that_look_at_many_topics_do_so_only_so_often(self) -> None:
        """Each of them alone would look at all topics, and find none."""
        router = self.router(1000)
        for number in range(500):
            router.find(b"live/%d/x" % number)
        session = self.session("s")
        looks = 0
        for number in range(500):
            router.cached.visited = 0
            self.subscribe(router, session, f"+/+/{number}")
            looks += router.cached.visited
        self.assertLess(looks, 500 * (LOOKS + 2))
        self.assertEqual(router.cache, {})
        (target,) = router.find(b"live/1/7").targets
        self.assertEqual(target.topic_filter, "+/+/7")

    def test_a_few_of_them_leave_the_cache_alone(self) -> None:
        router = self.router(1000)
        for number in range(500):
            router.find(b"live/%d/x" % number)
        for number in range(4):
            self.subscribe(router, self.session("s"), f"+/+/{number}")
        self.assertEqual(len(router.cache), 500)

    def test_a_hit_is_no_search(self) -> None:
        router = self.router()
        first = router.find(b"a/b")
        self.assertIs(router.find(b"a/b"), first)
        self.assertEqual(router.stats.route_cache_misses, 1)

    def test_long_and_deep_topics_are_not_kept(self) -> None:
        """A cache bounded by entries alone could be filled with topics of 64 KB."""
        router = self.router()
        router.find(b"x" * CACHED_BYTES)
        router.find(b"/" * (CACHED_LEVELS - 1))
        self.assertEqual(len(router.cache), 2)
        router.find(b"y" * (CACHED_BYTES + 1))
        router.find(b"y" + b"/" * CACHED_LEVELS)
        self.assertEqual(len(router.cache), 2)

    def test_wrong_topics_are_refused_each_time(self) -> None:
        router = self.router()
        for _ in range(2):
            for topic, reason in (
                (b"a/+", reasons.MALFORMED_PACKET),
                (b"", reasons.PROTOCOL_ERROR),
                (b"\xff", reasons.MALFORMED_PACKET),
                (b"a\0", reasons.MALFORMED_PACKET),
                (b"/" * LEVELS, reasons.TOPIC_NAME_INVALID),
            ):
                with self.assertRaises(ProtocolFault) as caught:
                    router.find(topic)
                self.assertEqual(caught.exception.reason, reason)
        self.assertEqual(router.cache, {})


class Routes(Case):
    def test_the_topic_as_text_and_as_it_stands_in_a_packet(self) -> None:
        route = self.router().find("é/x".encode())
        self.assertEqual((route.topic, route.topic_field), ("é/x", b"\0\x04\xc3\xa9/x"))

    def test_sys_is_the_brokers_own(self) -> None:
        router = self.router()
        for topic in (b"$SYS/x", b"$SYS"):  # "$SYS/#" matches both
            self.assertTrue(router.find(topic).reserved)
        for topic in (b"$SYSTEM/x", b"a/$SYS/x", b"$sys/x"):
            self.assertFalse(router.find(topic).reserved)

    def test_overlapping_subscriptions_are_one_target(self) -> None:
        """[MQTT-3.3.4-2, MQTT-3.3.4-3]: the highest QoS, all identifiers, each session once."""
        router = self.router()
        session = self.session("s")
        for qos, text, ids in ((0, "a/#", b"1"), (2, "+/b", b"2"), (1, "a/b", b"3")):
            self.subscribe(router, session, text, qos=qos, ids=ids)
        other = self.subscribe(router, self.session("t"), "a/b", qos=1)
        targets = {target.session.client_id: target for target in router.find(b"a/b").targets}
        self.assertEqual(set(targets), {"s", "t"})
        self.assertIs(targets["t"], other)
        self.assertEqual((targets["s"].qos, sorted(targets["s"].ids)), (2, sorted(b"123")))

    def test_what_an_overlapping_subscription_adds_is_not_lost(self) -> None:
        """In whichever order they are found."""
        plain = {"qos": 1}
        for more in ({"qos": 2}, {"ids": b"\x0b\x01"}, {"retain_as_published": True}):
            for first, second in ((plain, more), (more, plain)):
                router = self.router()
                session = self.session("s")
                self.subscribe(router, session, "a/+", **first)
                self.subscribe(router, session, "+/b", **second)
                (target,) = router.find(b"a/b").targets
                self.assertEqual(target.qos, max(plain["qos"], more.get("qos", 0)))
                self.assertEqual(target.ids, more.get("ids", b""))
                self.assertEqual(target.retain_as_published, "retain_as_published" in more)

    def test_no_local_holds_for_its_own_subscription_only(self) -> None:
        """A session's own message comes by those of its subscriptions that do not exclude it."""
        router = self.router()
        session = self.session("s")
        self.subscribe(router, session, "a/#", qos=2, no_local=True, ids=b"1")
        self.subscribe(router, session, "a/b", qos=1, ids=b"2")
        self.subscribe(router, session, "+/b", qos=0, no_local=True, ids=b"3")
        (target,) = router.find(b"a/b").targets
        self.assertTrue(target.no_local)
        self.assertEqual((target.qos, sorted(target.ids)), (2, sorted(b"123")))
        assert target.own is not None
        self.assertEqual((target.own.qos, target.own.ids), (1, b"2"))
        (target,) = router.find(b"a/c").targets
        self.assertIsNone(target.own)

    def test_groups_stand_apart(self) -> None:
        router = self.router()
        session = self.session("s")
        self.subscribe(router, session, "a", share="g")
        self.subscribe(router, session, "a", share="h")
        self.subscribe(router, session, "+", share="g")
        self.subscribe(router, session, "a")
        route = router.find(b"a")
        self.assertEqual(len(route.targets), 1)
        found = sorted((group.name, group.topic_filter) for group in route.groups)
        self.assertEqual(found, [("g", "+"), ("g", "a"), ("h", "a")])
        self.assertEqual((router.subscriptions, router.shared_subscriptions), (4, 3))
