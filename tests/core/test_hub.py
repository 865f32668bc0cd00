"""Sessions over their whole life: takeover, wills, expiry, the end; and a hub that goes on."""

from typing import Any
from unittest import TestCase

from mhub.core.connection import CLOSED, Connection
from mhub.core.events import CRASHED, Event, Events
from mhub.core.hub import SWEEP_S, Hub, HubSettings
from mhub.core.limits import NEVER, Limits
from mhub.wire import reasons
from tests.core.world import START, Client, Outlet, World
from tests.helpers import packets as p
from tests.helpers.packets import Prop

WILL = ("will", b"gone")


def kept(seconds: int) -> list[tuple[int, int]]:
    return [(Prop.SESSION_EXPIRY, seconds)]


class Case(TestCase):
    def setUp(self) -> None:
        self.world = World()
        self.watcher = self.world.client("watcher")
        self.watcher.subscribe("will")

    def client(self, version: int = 5, **connect: Any) -> Client:
        return self.world.client("c", version, **connect)

    @property
    def sessions(self) -> set[str]:
        return set(self.world.hub.sessions) - {"watcher"}


class Takeover(Case):
    def test_the_old_connection_is_told_and_closed(self) -> None:
        """[MQTT-3.1.4-3]"""
        for version, words in ((5, ["DISCONNECT"]), (4, [])):
            old = self.client(version)
            new = self.client(version)
            self.assertEqual([packet.type for packet in old.take()], words)
            self.assertTrue(old.closed)
            new.send(p.pingreq())
            self.assertEqual(len(new.take()), 1)
        self.assertEqual(self.world.stats.sessions_taken_over, 3)

    def test_the_session_goes_on(self) -> None:
        old = self.client(clean=False, props=kept(100))
        old.subscribe("t", 1)
        self.world.client("p").publish("t", b"one", 1)
        new = self.client(clean=False, props=kept(100))
        assert new.connack is not None
        self.assertTrue(new.connack.session_present)
        (packet,) = new.take()
        self.assertEqual((packet.payload, packet.dup), (b"one", True))

    def test_its_will_is_published(self) -> None:
        """A new connection ends the old one, which did not say goodbye."""
        self.client(will=WILL)
        self.client()
        self.assertEqual(self.watcher.payloads(), [b"gone"])

    def test_a_delayed_will_is_not_if_the_session_goes_on(self) -> None:
        """[MQTT-3.1.3-9]"""
        will = (*WILL, 0, False, [(Prop.WILL_DELAY, 10)])
        self.client(clean=False, will=will, props=kept(100))
        self.client(clean=False, props=kept(100))
        self.world.wait(200, steps=50)
        self.assertEqual(self.watcher.take(), [])

    def test_counts_stay_right(self) -> None:
        for _ in range(5):
            self.client()
        self.assertEqual((self.world.hub.connected, len(self.sessions)), (2, 1))
        self.assertEqual(self.world.stats.clients_maximum, 2)

    def test_the_late_end_of_the_old_one_harms_nobody(self) -> None:
        old = self.client()
        new = self.client()
        old.connection.lost("late")
        old.connection.receive(p.disconnect(), self.world.now)
        self.assertEqual((new.session.connection, self.world.hub.connected), (new.connection, 2))


class Wills(Case):
    def test_published_when_the_connection_is_lost(self) -> None:
        """[MQTT-3.1.2-8]"""
        self.client(will=WILL).lose()
        self.assertEqual(self.watcher.payloads(), [b"gone"])
        self.assertEqual(self.world.stats.wills_published, 1)

    def test_or_for_a_fault_of_the_client(self) -> None:
        self.client(will=WILL).send(b"\xff\0")
        self.assertEqual(self.watcher.payloads(), [b"gone"])

    def test_or_for_silence(self) -> None:
        self.client(will=WILL, keepalive=10)
        self.world.wait(20, steps=20)
        self.assertEqual(self.watcher.payloads(), [b"gone"])

    def test_taken_back_by_disconnect(self) -> None:
        """[MQTT-3.14.4-3]"""
        for version in (3, 4, 5):
            self.client(version, will=WILL).send(p.disconnect())
        self.assertEqual(self.watcher.take(), [])

    def test_kept_by_disconnect_with_will(self) -> None:
        self.client(will=WILL).send(p.disconnect(0x04))
        self.assertEqual(self.watcher.payloads(), [b"gone"])

    def test_retained(self) -> None:
        self.client(will=(*WILL, 1, True)).lose()
        self.assertEqual(self.watcher.payloads(), [b"gone"])
        late = self.world.client("late")
        late.send(p.subscribe(1, ("will", 0)))
        late.next("SUBACK")
        self.assertTrue(late.next("PUBLISH").retain)

    def test_expiry_counts_from_its_publication(self) -> None:
        will = (*WILL, 0, True, [(Prop.MESSAGE_EXPIRY, 10), (Prop.WILL_DELAY, 5)])
        self.client(clean=False, will=will, props=kept(100)).lose()
        self.world.wait(6, steps=24)
        self.assertEqual(self.watcher.payloads(), [b"gone"])
        late = self.world.client("late", 5)
        late.send(p.subscribe(1, ("will", 0), version=5))
        late.next("SUBACK")
        self.assertIn(late.next("PUBLISH").prop(Prop.MESSAGE_EXPIRY), (9, 10))
        self.world.wait(10)
        late.subscribe("will")
        self.assertEqual(late.take(), [])

    def delayed(self, delay: int, expiry: int) -> Client:
        will = (*WILL, 0, False, [(Prop.WILL_DELAY, delay)])
        return self.client(clean=False, will=will, props=kept(expiry))

    def test_not_to_ones_own_session_with_no_local(self) -> None:
        """[MQTT-3.8.3-3]: it is a message of that client."""
        client = self.client(clean=False, props=kept(60), will=("will", b"bye", 1))
        client.subscribe("will", p.options(1, no_local=True))
        client.lose()
        self.assertEqual(self.client(clean=False, props=kept(60)).take(), [])

    def test_delayed(self) -> None:
        """[MQTT-3.1.3-9]"""
        self.delayed(10, 100).lose()
        self.world.wait(9.5, steps=40)
        self.assertEqual(self.watcher.take(), [])
        self.world.wait(1, steps=4)
        self.assertEqual(self.watcher.payloads(), [b"gone"])
        self.assertEqual(self.sessions, {"c"})
        self.world.wait(95, steps=10)
        self.assertEqual((self.watcher.take(), self.sessions), ([], set()))

    def test_delayed_no_longer_than_its_session_lives(self) -> None:
        self.delayed(1000, 10).lose()
        self.world.wait(11, steps=44)
        self.assertEqual(self.watcher.payloads(), [b"gone"])
        self.assertEqual(self.sessions, set())

    def test_delayed_but_its_session_ends_with_the_connection(self) -> None:
        self.delayed(1000, 0).lose()
        self.assertEqual(self.watcher.payloads(), [b"gone"])

    def test_delayed_and_its_session_replaced(self) -> None:
        """A clean start ends the old session, and with it the wait."""
        self.delayed(1000, 2000).lose()
        self.client()
        self.assertEqual(self.watcher.payloads(), [b"gone"])

    def test_delayed_and_its_session_never_expires(self) -> None:
        self.delayed(10, NEVER).lose()
        self.world.wait(11, steps=44)
        self.assertEqual((self.watcher.payloads(), self.sessions), ([b"gone"], {"c"}))

    def test_back_in_time(self) -> None:
        self.delayed(10, 100).lose()
        self.world.wait(5)
        self.delayed(10, 100)
        self.world.wait(100, steps=50)
        self.assertEqual(self.watcher.take(), [])

    def test_a_will_replaces_the_one_before(self) -> None:
        self.delayed(10, 100).lose()
        self.client(clean=False, will=("will", b"second"), props=kept(100)).lose()
        self.world.wait(100, steps=50)
        self.assertEqual(self.watcher.payloads(), [b"second"])


class Expiry(Case):
    def test_a_session_ends_when_its_time_is_over(self) -> None:
        client = self.client(clean=False, props=kept(60))
        client.subscribe("t", 1)
        client.lose()
        self.world.wait(59, steps=10)
        self.assertEqual(self.sessions, {"c"})
        self.world.wait(2, steps=8)
        self.assertEqual((self.sessions, self.world.stats.sessions_expired), (set(), 1))
        self.assertEqual(self.world.hub.router.subscriptions, 1)
        again = self.client(clean=False).connack
        self.assertFalse(again is None or again.session_present)

    def test_zero_ends_with_the_connection(self) -> None:
        self.client(clean=False).lose()
        self.assertEqual(self.sessions, set())

    def test_before_version_5_clean_session_says_it(self) -> None:
        self.client(4, clean=True).lose()
        self.assertEqual(self.sessions, set())
        self.client(4, clean=False).lose()
        self.world.wait(1e8)
        self.assertEqual(self.sessions, {"c"})

    def test_before_version_5_for_as_long_as_configured(self) -> None:
        world = World(session_expiry_v3_s=60)
        world.client("c", clean=False).lose()
        world.wait(61, steps=2)
        self.assertEqual(world.hub.sessions, {})

    def test_coming_back_starts_it_anew(self) -> None:
        for _ in range(5):
            self.client(clean=False, props=kept(60)).lose()
            self.world.wait(50)
        self.assertEqual(self.sessions, {"c"})
        self.world.wait(61, steps=2)
        self.assertEqual(self.sessions, set())

    def test_coming_back_for_ever_ends_it(self) -> None:
        self.client(clean=False, props=kept(60)).lose()
        self.world.wait(50)
        self.client(clean=False, props=kept(0xFFFFFFFF)).lose()
        self.world.wait(1e6, steps=10)
        self.assertEqual(self.sessions, {"c"})

    def test_a_clean_start_ends_the_old_time_as_well(self) -> None:
        self.client(clean=False, props=kept(60)).lose()
        client = self.client(clean=True)
        self.world.wait(100, steps=10)
        self.assertEqual((self.sessions, self.world.stats.sessions_expired), ({"c"}, 0))
        self.assertFalse(client.closed)

    def test_what_waited_for_a_session_that_ended_takes_no_room(self) -> None:
        """The bound is one for all queues together."""
        world = World(max_queued_bytes_total=100)
        publisher = world.client("publisher")
        for name in "ab":
            client = world.client(name, 5, clean=False, props=kept(60))
            client.subscribe("t", 1)
            client.lose()
            publisher.publish("t", bytes(90), 1)
            self.assertEqual(len(world.hub.sessions[name].queue or ()), 1)
            world.wait(100, steps=2)
        self.assertEqual(world.stats.dropped_queue_full, 0)

    def test_disconnect_may_change_it(self) -> None:
        self.client(clean=False, props=kept(60)).send(p.disconnect(0, kept(5)))
        self.world.wait(6, steps=2)
        self.assertEqual(self.sessions, set())

    def test_disconnect_may_say_that_it_stays_zero(self) -> None:
        """Only a session that ends with its connection and then should not is a fault."""
        watcher = self.world.client("other", 5)
        watcher.subscribe("will")
        client = self.client(clean=False, will=("will", b"bye"))
        client.send(p.disconnect(0, kept(0)))
        self.assertEqual((client.closed, client.take(), watcher.take()), (True, [], []))
        client = self.client(clean=False)
        client.send(p.disconnect(0, kept(1)))
        self.assertEqual(client.next("DISCONNECT").reason, 0x82)

    def test_not_longer_than_allowed(self) -> None:
        world = World(max_session_expiry_s=60)
        client = world.client("c", 5, clean=False, props=kept(1000))
        assert client.connack is not None
        self.assertEqual(client.connack.prop(Prop.SESSION_EXPIRY), 60)
        client.send(p.disconnect(0, kept(2000)))
        world.wait(61, steps=2)
        self.assertEqual(world.hub.sessions, {})

    def test_retained_messages_are_swept(self) -> None:
        publisher = self.world.client("p", 5)
        publisher.publish("t", retain=True, props=[(Prop.MESSAGE_EXPIRY, 5)])
        self.world.wait(SWEEP_S + 1)
        self.assertIsNone(self.world.hub.retained.tree.get("t"))


class Residue(Case):
    def test_nothing_is_left_of_clients_that_have_gone(self) -> None:
        world = World(sys_interval_s=0)
        for version in (3, 4, 5):
            client = world.client("c", version, will=("w", b"bye", 1))
            client.send(p.subscribe(1, ("a/#", 1), ("b", 2), ("$share/g/c", 0), version=version))
            client.publish("b", b"x", 2)
            client.lose()
        hub = world.hub
        self.assertEqual((hub.sessions, hub.connected, hub.wheel.slots), ({}, 0, {}))
        self.assertTrue(hub.router.filters.root.empty())
        self.assertEqual((hub.router.filters.exact, hub.router.subscriptions), ({}, 0))
        self.assertEqual((hub.dirty, hub.unfinished, hub.dismissed), ([], [], []))


class ShutDown(Case):
    def test_everybody_is_told(self) -> None:
        five, four = self.client(), self.world.client("four")
        self.world.hub.shut_down(self.world.now)
        self.assertEqual(five.next("DISCONNECT").reason, reasons.SERVER_SHUTTING_DOWN)
        self.assertEqual((five.closed, four.closed, four.take()), (True, True, []))
        self.assertEqual(self.world.hub.connected, 0)

    def test_what_was_to_be_sent_is_sent_before(self) -> None:
        client = self.client()
        client.subscribe("t")
        publisher = self.world.client("p")
        publisher.feed(p.publish("t", b"last"))
        self.world.hub.shut_down(self.world.now)
        self.assertEqual([packet.type for packet in client.take()], ["PUBLISH", "DISCONNECT"])

    def test_wills_come_before_the_end(self) -> None:
        """To those who are connected, whoever of them is told first."""
        early = self.world.client("early", 5)
        mortal = self.world.client("m", 5, will=WILL)
        late = self.world.client("late", 5)
        for client in (early, late):
            client.subscribe(WILL[0])
        self.world.hub.shut_down(self.world.now)
        for client in (early, late):
            self.assertEqual([packet.type for packet in client.take()], ["PUBLISH", "DISCONNECT"])
        self.assertEqual([packet.type for packet in mortal.take()], ["DISCONNECT"])
        self.assertEqual(self.world.stats.wills_published, 1)

    def test_a_will_that_was_taken_back_does_not_come(self) -> None:
        mortal, heir = self.world.client("m", 5, will=WILL), self.world.client("heir", 5)
        heir.subscribe(WILL[0])
        mortal.send(p.disconnect(0))
        self.world.hub.shut_down(self.world.now)
        self.assertEqual([packet.type for packet in heir.take()], ["DISCONNECT"])

    def test_sessions_that_are_not_stored_leave_their_delayed_wills(self) -> None:
        """They end with the process."""
        delayed = (*WILL[:2], 0, False, [(0x18, 60)])
        lasting = [(0x11, 1000)]
        self.world.client("gone", 5, will=delayed, props=lasting).lose()
        self.world.client("here", 5, will=delayed, props=lasting)
        self.assertEqual(self.world.stats.wills_published, 0)
        self.world.hub.shut_down(self.world.now)
        self.assertEqual(self.world.stats.wills_published, 2)
        self.world.wait(100)
        self.assertEqual(self.world.stats.wills_published, 2)

    def test_nobody_is_let_in_any_more(self) -> None:
        late = self.world.open(5)
        self.world.hub.shut_down(self.world.now)
        late.send(p.connect("late", 5))
        self.assertTrue(late.closed)
        self.assertTrue(all(packet.reason for packet in late.take()))


class Leaving(Case):
    """A node goes for good: its clients are told where else to go, if that is known."""

    ELSEWHERE = (("", 0x9C, None), ("broker.example:1883", 0x9D, "broker.example:1883"))

    def test_clients_are_told(self) -> None:
        for reference, reason, said in self.ELSEWHERE:
            with self.subTest(reference=reference):
                world = World()
                five, three = world.client("five", 5), world.client("three", 4)
                self.assertEqual(world.hub.evacuate(reference), 2)
                world.hub.flush()
                (packet,) = five.take()
                self.assertEqual((packet.type, packet.reason), ("DISCONNECT", reason))
                self.assertEqual(packet.prop(Prop.SERVER_REFERENCE), said)
                self.assertEqual(three.take(), [])
                self.assertTrue(five.closed and three.closed)

    def test_who_comes_is_told_as_well(self) -> None:
        """MQTT 3 has no word for it but that the server is not available."""
        for reference, reason, said in self.ELSEWHERE:
            for version, code in ((3, 3), (4, 3), (5, reason)):
                with self.subTest(reference=reference, version=version):
                    world = World()
                    client = world.open(version)
                    world.hub.evacuate(reference)
                    client.send(p.connect("c", version))
                    (packet,) = client.take()
                    self.assertEqual((packet.type, packet.reason), ("CONNACK", code))
                    self.assertEqual(packet.prop(Prop.SERVER_REFERENCE), said if code > 3 else None)
                    self.assertTrue(client.closed)
                    self.assertEqual(world.hub.sessions, {})

    def test_not_more_than_a_client_takes(self) -> None:
        """[MQTT-3.1.2-24]: the reference is left out before the reason is."""
        where = "a-long-name.example:1883"
        for room, said in ((60, where), (40, where), (20, None)):
            with self.subTest(room=room):
                world = World()
                props = [(Prop.MAXIMUM_PACKET_SIZE, room)]
                there, comes = world.client("there", 5, props=props), world.open(5)
                world.hub.evacuate(where)
                world.hub.flush()
                comes.send(p.connect("comes", 5, props=props))
                for client in (there, comes):
                    (packet,) = client.take()
                    self.assertEqual(packet.reason, 0x9D)
                    self.assertEqual(packet.prop(Prop.SERVER_REFERENCE), said)
                    self.assertLessEqual(packet.size, room)

    def test_sessions_stay_to_be_handed_over(self) -> None:
        self.client(clean=False, props=kept(100))
        self.world.hub.evacuate("")
        self.assertEqual(self.sessions, {"c"})


class Defects(TestCase):
    """A defect of ours hits one connection; the others do not notice."""

    def setUp(self) -> None:
        case = self

        class Calm:
            crashes = 0

            def emit(self, event: Event) -> None:
                if event.kind == CRASHED:
                    case.assertIsInstance(event.error, RuntimeError)
                    self.crashes += 1

        self.events = Calm()
        self.hub = Hub(HubSettings(), Events([self.events]), lambda: "x", START)

    def client(self, name: str) -> tuple[Connection, Outlet]:
        outlet = Outlet()
        connection = Connection(self.hub, outlet, Limits(), START)
        connection.receive(p.connect(name) + p.subscribe(1, ("t", 0)), START)
        self.hub.flush()
        return connection, outlet

    def test_in_the_flush(self) -> None:
        broken, outlet = self.client("broken")
        other, other_outlet = self.client("other")

        def explode() -> None:
            raise RuntimeError("a defect")

        outlet.on_write = explode
        before = len(other_outlet.data)
        other.receive(p.publish("t", b"x"), START)
        self.hub.flush()
        self.assertEqual((self.events.crashes, broken.state), (1, CLOSED))
        self.assertGreater(len(other_outlet.data), before)
        self.assertEqual(set(self.hub.sessions), {"other"})
