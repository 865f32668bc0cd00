"""Events: every sink hears them, whatever the others do; and never one for each message."""

from unittest import TestCase

from mhub.core import events
from mhub.core.events import Event, Events
from mhub.core.principal import NOBODY
from mhub.wire import reasons
from tests.core.world import Client, World
from tests.helpers import packets as p
from tests.helpers.packets import Prop

INTERVAL_S = 10.0


class Ear:
    def __init__(self) -> None:
        self.heard: list[Event] = []

    def emit(self, event: Event) -> None:
        self.heard.append(event)


class Broken:
    def emit(self, event: Event) -> None:
        raise RuntimeError("a defect")


class Sinks(TestCase):
    def test_all_hear_it_in_turn(self) -> None:
        first, second = Ear(), Ear()
        Events([first, second]).node("b", "down", "why")
        self.assertEqual(len(first.heard), 1)
        self.assertIs(first.heard[0], second.heard[0])
        event = first.heard[0]
        self.assertEqual((event.kind, event.node, event.text), (events.NODE, "b", "why"))

    def test_one_that_fails_hurts_nobody_and_the_others_are_told(self) -> None:
        before, after = Ear(), Ear()
        Events([before, Broken(), after]).accept_failed("tcp", "too many open files")
        for ear in (before, after):
            kinds = {event.kind for event in ear.heard}
            self.assertEqual(kinds, {events.ACCEPT_FAILED, events.CRASHED})
            self.assertTrue(any(isinstance(e.error, RuntimeError) for e in ear.heard))

    def test_two_that_fail(self) -> None:
        ear = Ear()
        Events([Broken(), Broken(), ear]).accept_failed("tcp", "too many open files")
        self.assertEqual(len(ear.heard), 3)


class Case(TestCase):
    def setUp(self) -> None:
        self.world = World()

    def last(self, kind: str) -> Event:
        return self.world.diary.of(kind)[-1]

    def take(self, kind: str) -> list[Event]:
        found = self.world.diary.of(kind)
        self.world.diary.events.clear()
        return found


class Connections(Case):
    def test_connected(self) -> None:
        client = self.world.open(5)
        client.connection.principal.address = "192.0.2.1:50000"
        client.connection.principal.listener = "tcp-1883"
        client.send(p.connect("c", 5, username="alice", clean=False, props=[(0x11, 100)]))
        event = self.last(events.CONNECTED)
        self.assertEqual(
            (event.client_id, event.claimed_user, event.address, event.listener, event.version),
            ("c", "alice", "192.0.2.1:50000", "tcp-1883", 5),
        )
        self.assertFalse(event.session_present)

    def test_a_session_that_was_there(self) -> None:
        self.world.client("c", clean=False).lose()
        self.world.client("c", clean=False)
        self.assertTrue(self.last(events.CONNECTED).session_present)

    def test_who_ended_it(self) -> None:
        self.world.client("a").send(p.disconnect())
        self.assertEqual(self.last(events.DISCONNECTED).by, events.CLIENT)
        self.world.client("a").lose("reset")
        event = self.last(events.DISCONNECTED)
        self.assertEqual((event.by, event.text), (events.NETWORK, "reset"))
        self.world.client("a").send(b"\xf0\0")
        event = self.last(events.DISCONNECTED)
        self.assertEqual((event.by, event.reason), (events.BROKER, reasons.PROTOCOL_ERROR))

    def test_kicked(self) -> None:
        client = self.world.client("a", 5)
        self.world.hub.kick(client.session, False)
        self.assertEqual(client.next("DISCONNECT").reason, reasons.ADMINISTRATIVE_ACTION)
        self.assertEqual(self.last(events.KICKED).text, "disconnected by an operator")
        self.assertEqual(self.last(events.DISCONNECTED).by, events.OPERATOR)
        self.assertEqual(self.world.stats.clients_kicked, 1)

    def test_kicked_while_it_is_away(self) -> None:
        client = self.world.client("a", clean=False)
        client.lose()
        self.world.hub.kick(self.world.hub.sessions["a"], True)
        event = self.last(events.KICKED)
        self.assertEqual((event.client_id, event.text), ("a", "session deleted by an operator"))
        self.assertEqual(self.world.hub.sessions, {})

    def test_taken_over(self) -> None:
        self.world.client("a")
        newcomer = self.world.open(4)
        newcomer.connection.principal.address = "192.0.2.9:1"
        newcomer.send(p.connect("a", 4))
        kinds = [event.kind for event in self.world.diary.events]
        self.assertEqual(
            kinds,
            [events.CONNECTED, events.TAKEN_OVER, events.DISCONNECTED, events.CONNECTED],
        )
        self.assertIn("192.0.2.9:1", self.last(events.TAKEN_OVER).text)
        self.assertEqual(self.world.stats.sessions_taken_over, 1)

    def test_expired(self) -> None:
        props = [(0x11, 5)]
        self.world.client("a", 5, clean=False, props=props).lose()
        self.world.wait(6)
        self.assertEqual(self.last(events.SESSION_EXPIRED).client_id, "a")
        self.assertEqual(self.world.stats.sessions_expired, 1)

    def test_refused_counts_once(self) -> None:
        self.world.open(5, allow_anonymous=False).send(p.connect("a", 5))
        self.assertEqual(len(self.take(events.REFUSED)), 1)
        self.assertEqual(self.world.stats.connections_refused, 1)


class Bursts(Case):
    def away(self, name: str) -> None:
        client = self.world.client(name, clean=False)
        client.subscribe("t")
        client.lose()

    def sender(self) -> Client:
        return self.world.client("sender")

    def test_the_first_then_their_number(self) -> None:
        self.away("away")
        sender = self.sender()
        for _ in range(100):
            sender.publish("t")
        (event,) = self.take(events.DROPPED)
        self.assertEqual((event.client_id, event.cause, event.count), ("away", "offline", 1))
        self.assertTrue(event.is_first)
        self.world.wait(INTERVAL_S)
        (event,) = self.take(events.DROPPED)
        self.assertEqual((event.client_id, event.count, event.is_first), ("away", 99, False))
        self.assertEqual(self.world.stats.dropped_offline, 100)

    def test_a_burst_goes_on_until_an_interval_without(self) -> None:
        self.away("away")
        sender = self.sender()
        for number in (3, 1, 2, 0):
            for _ in range(number):
                sender.publish("t")
            self.world.wait(INTERVAL_S)
        found = [(event.count, event.is_first) for event in self.take(events.DROPPED)]
        self.assertEqual(found, [(1, True), (2, False), (1, False), (2, False)])
        sender.publish("t")
        (event,) = self.take(events.DROPPED)
        self.assertTrue(event.is_first)

    def test_each_cause_and_each_client_has_its_own(self) -> None:
        self.away("away")
        self.away("other")
        small = self.world.client("small", 5, props=[(Prop.MAXIMUM_PACKET_SIZE, 30)])
        small.subscribe("t")
        self.sender().publish("t", b"x" * 50)
        found = {(event.client_id, event.cause) for event in self.take(events.DROPPED)}
        self.assertEqual(found, {("away", "offline"), ("other", "offline"), ("small", "too_large")})

    def test_very_many_clients_are_told_together(self) -> None:
        """A message to a million clients that are away is not a million events."""
        for _ in range(events.MOST_BURSTS + 20):
            self.world.hub.events.begin_burst(NOBODY)
        self.away("away")
        sender = self.sender()
        for _ in range(5):
            sender.publish("t")
        (event,) = self.take(events.DROPPED)
        self.assertEqual((event.client_id, event.count), ("", 1))
        self.world.wait(INTERVAL_S)
        (event,) = self.take(events.DROPPED)
        self.assertEqual((event.client_id, event.count), ("", 4))
        self.assertEqual(self.world.hub.events.bursts, [])

    def test_denied(self) -> None:
        client = self.world.client("a")
        hub = self.world.hub
        for _ in range(3):
            hub.events.denied(client.connection, events.PUBLISH, "secret/t", reasons.NOT_AUTHORIZED)
        hub.events.denied(client.connection, events.SUBSCRIBE, "#", reasons.NOT_AUTHORIZED)
        first, second = self.take(events.DENIED)
        self.assertEqual((first.client_id, first.cause, first.topic), ("a", "publish", "secret/t"))
        self.assertEqual((second.cause, second.topic), ("subscribe", "#"))
        self.world.wait(INTERVAL_S)
        (event,) = self.take(events.DENIED)
        self.assertEqual((event.cause, event.count, event.is_first), ("publish", 2, False))


class Watches(Case):
    def test_retained_messages_at_their_bound(self) -> None:
        self.world = World(max_retained_messages=1, sys_interval_s=0)
        sender = self.world.client("sender")
        for number in range(5):
            sender.publish(f"t/{number}", retain=True)
        self.world.wait(0.5)
        (event,) = self.take(events.DROPPED)
        self.assertEqual((event.cause, event.count, event.is_first), ("retained_full", 4, True))
        sender.publish("t/5", retain=True)
        self.world.wait(1)
        self.assertEqual(self.take(events.DROPPED), [])
        self.world.wait(INTERVAL_S)
        (event,) = self.take(events.DROPPED)
        self.assertEqual((event.count, event.is_first), (1, False))
        self.world.wait(3 * INTERVAL_S)
        sender.publish("t/6", retain=True)
        self.world.wait(1)
        (event,) = self.take(events.DROPPED)
        self.assertTrue(event.is_first)
