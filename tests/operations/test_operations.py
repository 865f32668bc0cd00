"""Status, clients and kicks: what is told of a hub, and what is done to it."""

import random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mhub.core.events import KICKED
from mhub.operations import clients
from mhub.operations.contract import BadArgument, ClientPage, NotThere, OperationError
from mhub.operations.cursors import MOST
from mhub.operations.operations import Operations
from mhub.operations.slices import SLICE_S
from mhub.operations.walk import LONGEST_MATCH, PORTION
from tests.core.world import World
from tests.helpers import packets as p
from tests.helpers.properties import Prop
from tests.operations.around import Around, Pauses

KEPT = [(Prop.SESSION_EXPIRY, 100)]


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.around = Around(self.world.hub)
        self.pauses = Pauses()
        self.operations = Operations(
            self.world.hub, self.around, lambda: self.world.now, self.pauses
        )

    def page(self, **asked: Any) -> ClientPage:
        return self.successResultOf(Deferred.fromCoroutine(self.operations.clients(**asked)))

    def ids(self, **asked: Any) -> list[str]:
        return [each.client_id for each in self.page(**asked).clients]


class StatusTests(Case):
    def test_numbers(self) -> None:
        self.world.client("a").subscribe("t/#", 1)
        self.world.client("b", clean=False).lose()
        self.world.client("c").publish("t/1", b"x", 0, retain=True)
        self.world.wait(60.0, 6)
        status = self.operations.status()
        self.assertEqual(status.uptime_s, 60.0)
        sessions = status.sessions
        self.assertEqual((sessions.total, sessions.connected, sessions.connected_most), (3, 2, 2))
        self.assertEqual((sessions.subscriptions, sessions.shared_subscriptions), (1, 0))
        self.assertEqual((status.messages.received, status.messages.sent), (1, 1))
        self.assertGreater(status.messages.received_per_s or 0.0, 0.0)
        self.assertEqual([each.connections for each in status.listeners], [2])
        self.assertEqual((status.store.name, status.store.state), ("memory", "none"))
        self.assertIsNone(status.cluster)

    def test_retained_messages_of_clients_alone(self) -> None:
        """As their bounds count them: without what the broker publishes under $SYS."""
        self.world.client("c").publish("t/1", b"x", 0, retain=True)
        self.world.wait(60.0, 6)
        self.assertGreater(len(self.world.hub.retained), 1)
        queues = self.operations.status().queues
        self.assertEqual(queues.retained, 1)
        self.assertGreater(queues.retained_bytes, 0)

    def test_rates_without_sys(self) -> None:
        self.world = World(sys_interval_s=0.0)
        self.operations = Operations(
            self.world.hub, Around(self.world.hub), lambda: self.world.now, self.pauses
        )
        self.assertIsNone(self.operations.status().messages.received_per_s)
        self.world.wait(60.0, 6)
        self.assertEqual(self.operations.status().messages.received_per_s, 0.0)


class ClientTests(Case):
    def test_connected(self) -> None:
        client = self.world.client("a", 5, keepalive=60, username="me")
        principal = client.connection.principal
        principal.address, principal.listener = "10.0.0.1:5000", "mqtt"
        client.subscribe("t/#", 1)
        self.world.now += 90.0
        client.outlet.full = True
        for _ in range(3):
            self.world.client("p").publish("t/1", b"x", 1)
        detail = self.operations.client("a")
        told = detail.client
        self.assertEqual(
            (
                told.client_id,
                told.claimed_user,
                told.state,
                told.listener,
                told.address,
                told.version,
            ),
            ("a", "me", "connected", "mqtt", "10.0.0.1:5000", "5.0"),
        )
        self.assertEqual(told.connected_s, 90.0)
        self.assertEqual((told.subscriptions, told.queued + told.inflight), (1, 3))
        self.assertEqual((detail.keepalive_s, detail.is_reading), (60, False))
        (subscription,) = detail.subscriptions
        self.assertEqual((subscription.name, subscription.qos), ("t/#", 1))

    def test_offline(self) -> None:
        client = self.world.client("a", 5, props=KEPT)
        client.subscribe("t", 1)
        client.lose()
        self.world.client("p").publish("t", b"12345", 1)
        self.world.now += 30.0
        detail = self.operations.client("a")
        told = detail.client
        self.assertEqual((told.state, told.address, told.version), ("offline", "", None))
        self.assertEqual((told.connected_at, told.connected_s), (None, None))
        self.assertEqual((told.queued, told.queued_bytes, told.inflight), (1, 6, 0))
        self.assertEqual((detail.expiry_s, detail.expires_in_s), (100, 70.0))
        self.assertEqual((detail.keepalive_s, detail.is_reading, detail.will), (None, None, None))

    def test_will(self) -> None:
        self.world.client("a", 4, will=("gone/a", b"bye", 1, True), clean=False)
        will = self.operations.client("a").will
        assert will is not None
        self.assertEqual(
            (will.topic, will.qos, will.retain, will.size_bytes), ("gone/a", 1, True, 3)
        )
        self.assertIsNone(self.operations.client("a").expiry_s)

    def test_limits(self) -> None:
        rates = {"max_messages_per_s": 10, "max_messages_out_per_s": 5}
        client = self.world.client("a", limits=rates)
        client.subscribe("t")
        client.send(p.publish("t", b"x") * 20)
        detail = self.operations.client("a")
        self.assertEqual(detail.rates, rates)
        self.assertEqual(detail.limited, {"max_messages_per_s": 1})
        self.assertEqual(detail.waits_for, ("rate", "max_messages_out_per_s"))
        client.lose()
        self.world.client("a", clean=False).lose()
        detail = self.operations.client("a")
        self.assertEqual((detail.rates, detail.limited, detail.waits_for), ({}, {}, ()))

    def test_unknown(self) -> None:
        error = self.assertRaises(NotThere, self.operations.client, "a")
        self.assertEqual(str(error), "there is no such client")


class PageTests(Case):
    def fill(self, count: int) -> list[str]:
        names = [f"c{n:05}" for n in range(count)]
        shuffled = list(names)
        random.Random(7).shuffle(shuffled)
        for name in shuffled:
            self.world.hub.new_session(name, self.world.open().connection.limits)
        return names

    def test_pages_are_in_order(self) -> None:
        names = self.fill(1200)
        page = self.page(limit=500)
        self.assertEqual([each.client_id for each in page.clients], names[:500])
        self.assertEqual((page.left, page.sessions), (700, 1200))
        self.assertEqual(self.ids(limit=500, after=names[499]), names[500:1000])
        page = self.page(limit=500, after=names[999])
        self.assertEqual([each.client_id for each in page.clients], names[1000:])
        self.assertEqual(page.left, 0)

    def test_who_stays_is_seen_once(self) -> None:
        """Whoever comes and goes between two pages."""
        names = self.fill(300)
        chance = random.Random(3)
        seen: list[str] = []
        after = ""
        while page := self.ids(limit=20, after=after):
            seen += page
            after = page[-1]
            for name in chance.sample(names[::2], 10):
                session = self.world.hub.sessions.get(name)
                if session is not None:
                    self.world.hub.end_session(session)
            self.world.client(f"c{chance.randrange(300):05}x", clean=False)
        self.assertEqual([name for name in seen if name in names[1::2]], names[1::2])
        self.assertEqual(len(seen), len(set(seen)))

    def test_filters(self) -> None:
        for name in ("pump-1", "pump-2", "valve-1"):
            self.world.client(
                name, clean=False, username=name[:4]
            ).session.principal.listener = name[:4]
        self.world.client("pump-3", clean=False).lose()
        self.assertEqual(self.ids(match="pump-*"), ["pump-1", "pump-2", "pump-3"])
        self.assertEqual(self.ids(match="*-[13]"), ["pump-1", "pump-3", "valve-1"])
        self.assertEqual(self.ids(match="PUMP*"), [])
        self.assertEqual(self.ids(match="*" * LONGEST_MATCH), self.ids())
        self.assertEqual(self.ids(state="offline"), ["pump-3"])
        self.assertEqual(self.ids(state="connected", match="pump-?"), ["pump-1", "pump-2"])
        self.assertEqual(self.ids(listener="valv"), ["valve-1"])
        self.assertEqual(self.ids(user="pump"), ["pump-1", "pump-2"])
        self.assertEqual(self.page(match="pump-*", limit=1).left, 2)

    def test_bounds(self) -> None:
        for asked in (
            {"limit": 0},
            {"limit": MOST + 1},
            {"state": "sleeping"},
            {"match": "[" * (LONGEST_MATCH + 1)},
        ):
            failing = Deferred.fromCoroutine(self.operations.clients(**asked))
            self.failureResultOf(failing, BadArgument)

    def test_long_names_make_shorter_pages(self) -> None:
        """No page is larger than somebody can wait for, and none is empty."""
        self.patch(clients, "MOST_TEXT", 100)
        names = [*(f"{n}" * 40 for n in range(5)), "99", "9" * 200]
        for name in names:
            self.world.client(name)
        self.world.hub.sessions["1" * 40].principal.claimed_user = "x" * 30
        pages = [self.page(after=name) for name in ["", *names]]
        self.assertEqual([len(page.clients) for page in pages], [1, 1, 2, 3, 2, 1, 1, 0])
        self.assertEqual([page.left for page in pages], [6, 5, 3, 1, 1, 1, 0, 0])

    def test_long_filters(self) -> None:
        self.patch(clients, "MOST_TEXT", 100)
        client = self.world.client("c")
        for n in range(3):
            client.subscribe(f"{n}" * 40)
        detail = self.operations.client("c")
        self.assertEqual((detail.client.subscriptions, len(detail.subscriptions)), (3, 2))

    def test_others_have_their_turn(self) -> None:
        """Every few hundred sessions, if these take so long; and may end sessions meanwhile."""
        self.fill(10 * PORTION)
        clock = [0.0]

        def slow() -> float:
            clock[0] += SLICE_S
            return clock[0]

        def end_some() -> None:
            for session in list(self.world.hub.sessions.values())[: PORTION // 4]:
                self.world.hub.end_session(session)

        self.operations = Operations(self.world.hub, self.around, slow, self.pauses)
        self.pauses.meanwhile = end_some
        page = self.page(limit=PORTION)
        self.assertGreaterEqual(self.pauses.count, 10)
        found = [each.client_id for each in page.clients]
        self.assertEqual(found, sorted(set(found)))
        self.assertGreater(len(found), 0)


class KickTests(Case):
    def test_kick(self) -> None:
        """The client is told why, its will goes out, its session stays."""
        client = self.world.client("a", 5, props=KEPT, will=("gone", b"bye"))
        other = self.world.client("b")
        other.subscribe("gone")
        kicked = self.operations.kick("a")
        self.assertEqual((kicked.was_connected, kicked.session_deleted), (True, False))
        self.assertEqual(client.next("DISCONNECT").reason, 0x98)
        self.assertTrue(client.closed)
        self.assertEqual(other.payloads(), [b"bye"])
        self.assertIn("a", self.world.hub.sessions)
        self.assertEqual(self.world.stats.clients_kicked, 1)
        self.assertEqual([event.client_id for event in self.world.diary.of(KICKED)], ["a"])
        self.assertEqual(self.operations.status().connections.kicked, 1)

    def test_an_older_client(self) -> None:
        """MQTT 3.1.1 has no word for it."""
        client = self.world.client("a", 4)
        self.assertTrue(self.operations.kick("a").session_deleted)  # it was a clean one
        self.assertEqual((client.take(), client.closed), ([], True))

    def test_delete_session(self) -> None:
        client = self.world.client("a", 5, props=KEPT)
        client.subscribe("t", 1)
        kicked = self.operations.kick("a", True)
        self.assertEqual((kicked.was_connected, kicked.session_deleted), (True, True))
        self.assertEqual((self.world.hub.sessions, self.world.hub.router.subscriptions), ({}, 0))

    def test_delete_the_session_of_one_who_is_away(self) -> None:
        self.world.client("a", clean=False).lose()
        error = self.assertRaises(OperationError, self.operations.kick, "a")
        self.assertIn("it is not connected; ", str(error))
        kicked = self.operations.kick("a", True)
        self.assertEqual((kicked.was_connected, kicked.session_deleted), (False, True))
        self.assertEqual(self.world.hub.sessions, {})

    def test_a_session_that_migrates(self) -> None:
        self.world.client("a", clean=False).lose()
        self.world.hub.sessions["a"].frozen = True
        error = self.assertRaises(OperationError, self.operations.kick, "a", True)
        self.assertIn("going to another node", str(error))
        self.assertEqual(self.operations.client("a").client.state, "migrating")

    def test_unknown(self) -> None:
        self.assertRaises(NotThere, self.operations.kick, "a")
        self.assertEqual(self.world.stats.clients_kicked, 0)
