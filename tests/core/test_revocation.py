"""Rights that change while sessions exist.  One class for each place where a message may be, or a
right be remembered: the invariants of `mhub.core.revocation`, with their numbers."""

from typing import Any
from unittest import TestCase

from mhub.core import revocation
from mhub.core.events import DENIED, KICKED
from mhub.core.principal import Principal
from mhub.wire import reasons
from tests.core.disk import Disk, crash, done
from tests.core.rules import NO, Rules, Trusting
from tests.core.world import Client, World
from tests.helpers import packets as p
from tests.helpers.packets import Prop

KEPT = {"clean": False, "props": [(Prop.SESSION_EXPIRY, 3600)]}


class Case(TestCase):
    options: dict[str, Any] = {}

    def setUp(self) -> None:
        self.rules = Rules()
        self.disk: Disk | None = None
        self.world = self.control(World(sys_interval_s=0, **self.options))
        self.writer = self.client("writer")

    def control(self, world: World) -> World:
        world.hub.admission.authenticator = Trusting()
        world.hub.authorize_with(self.rules)
        return world

    def client(self, user: str, client_id: str = "", version: int = 5, **connect: Any) -> Client:
        client = self.world.open(version)
        client.send(p.connect(client_id or user, version, username=user, **connect))
        if self.disk is not None:
            self.disk.settle()
        client.connack = client.next("CONNACK")
        self.assertEqual(client.connack.reason, 0)
        return client

    def subscribe(self, client: Client, topic_filter: str, qos: int) -> None:
        """The same as Client.subscribe, with a store."""
        assert self.disk is not None
        client.send(p.subscribe(1, (topic_filter, qos), version=client.version))
        self.disk.settle()
        self.assertEqual(client.next("SUBACK").reasons, [qos])

    def stay(self, user: str, version: int = 5) -> Client:
        """A client whose session outlives its connection."""
        if version == 5:
            return self.client(user, version=5, **KEPT)
        return self.client(user, version=version, clean=False)

    def deny(self, *denied: tuple[str, str, str], users: set[str] | None = None) -> None:
        """From now on; nothing else happens in this turn."""
        self.rules.denied |= set(denied)
        self.world.hub.rights_changed(users)

    def allow(self) -> None:
        self.rules.denied = set()
        self.world.hub.rights_changed()

    def rest(self) -> None:
        self.world.settle()

    def topics(self, client: Client) -> list[str]:
        return [packet.topic for packet in client.take() if packet.type == "PUBLISH"]


class Routes(Case):
    """R1"""

    def test_a_topic_that_may_not_be_received_any_more(self) -> None:
        reader = self.client("reader")
        reader.subscribe("#")
        self.writer.publish("a")
        self.deny(("receive", "reader", "a"))
        self.writer.publish("a")
        self.writer.publish("b")
        self.assertEqual(self.topics(reader), ["a", "b"])

    def test_a_subscription_brings_nothing_before_it_is_withdrawn(self) -> None:
        reader = self.client("reader", version=4)
        reader.subscribe("a/#")
        self.writer.publish("a/1")
        self.deny(("subscribe", "reader", "a/#"))
        self.writer.publish("a/1")
        self.writer.publish("a/2")
        self.assertIn("a/#", reader.session.subscriptions)
        self.assertEqual(self.topics(reader), ["a/1"])
        self.rest()
        self.assertEqual(reader.session.subscriptions, {})

    def test_of_two_that_overlap_one_is_left(self) -> None:
        reader = self.client("reader", version=4)
        reader.subscribe("a/#", 2)
        reader.subscribe("a/+", 1)
        self.deny(("subscribe", "reader", "a/#"))
        self.writer.publish("a/1", b"", 2)
        self.assertEqual([packet.qos for packet in reader.take()], [1])

    def test_a_right_that_comes_back_before_the_review(self) -> None:
        reader = self.client("reader")
        reader.subscribe("a")
        self.deny(("subscribe", "reader", "a"))
        self.allow()
        self.rest()
        self.writer.publish("a")
        self.assertEqual(self.topics(reader), ["a"])

    def test_of_some_users_only(self) -> None:
        one, two = self.client("one", version=4), self.client("two", version=4)
        for client in (one, two):
            client.subscribe("a")
        self.writer.publish("a")
        self.deny(("subscribe", "one", "a"), ("subscribe", "two", "a"), users={"one"})
        self.writer.publish("a")
        self.assertEqual((self.topics(one), self.topics(two)), (["a"], ["a", "a"]))
        self.rest()
        self.assertEqual((one.session.subscriptions, [*two.session.subscriptions]), ({}, ["a"]))

    def test_no_question_for_a_message_once_all_are_reviewed(self) -> None:
        reader = self.client("reader")
        reader.subscribe("a")
        self.deny()
        self.rest()
        self.writer.publish("a")
        self.rules.take()
        self.writer.publish("a")
        self.assertEqual(self.rules.take(), [])


class Withdrawn(Case):
    def test_a_client_of_mqtt_5_is_told_and_keeps_its_session(self) -> None:
        reader = self.stay("reader")
        reader.subscribe("a")
        reader.subscribe("b")
        self.deny(("subscribe", "reader", "a"))
        self.rest()
        last = reader.next("DISCONNECT")
        self.assertEqual(last.reason, reasons.NOT_AUTHORIZED)
        self.assertIn("'a'", last.prop(Prop.REASON_STRING))
        self.assertTrue(reader.closed)
        self.assertEqual([*self.world.hub.sessions["reader"].subscriptions], ["b"])
        self.assertEqual(self.world.stats.subscriptions_withdrawn, 1)
        again = self.stay("reader")
        assert again.connack is not None
        self.assertTrue(again.connack.session_present)
        self.assertEqual(again.take(), [])

    def test_it_is_told_the_name_that_it_gave(self) -> None:
        reader = self.world.client("r", 5, {"mount_point": "m/"}, username="reader")
        reader.subscribe("$share/g/a")
        self.deny(("subscribe", "reader", "m/a"))
        self.rest()
        self.assertIn("'$share/g/a'", reader.next("DISCONNECT").prop(Prop.REASON_STRING))

    def test_older_clients_are_not_told(self) -> None:
        reader = self.client("reader", version=4)
        reader.subscribe("a")
        self.deny(("subscribe", "reader", "a"))
        self.rest()
        self.assertEqual((reader.take(), reader.closed), ([], False))
        self.assertEqual(self.world.hub.router.subscriptions, 0)

    def test_nobody_is_told_if_that_is_configured(self) -> None:
        self.world.hub.tell_withdrawn = False
        reader = self.client("reader")
        reader.subscribe("a")
        self.deny(("subscribe", "reader", "a"))
        self.rest()
        self.assertEqual((reader.take(), reader.closed), ([], False))
        self.assertEqual(reader.session.subscriptions, {})

    def test_who_was_away_is_told_with_the_connack(self) -> None:
        reader = self.stay("reader")
        reader.subscribe("a")
        reader.lose()
        self.deny(("subscribe", "reader", "a"))
        self.rest()
        again = self.stay("reader")
        assert again.connack is not None
        self.assertTrue(again.connack.session_present)
        self.assertIn("'a'", again.connack.prop(Prop.REASON_STRING))
        again.lose()
        third = self.stay("reader")
        assert third.connack is not None
        self.assertIsNone(third.connack.prop(Prop.REASON_STRING))

    def test_the_event_names_the_rule(self) -> None:
        reader = self.client("reader")
        reader.subscribe("a", 1)
        self.deny(("subscribe", "reader", "a"))
        self.rest()
        [event] = self.world.diary.of(DENIED)
        self.assertEqual((event.cause, event.topic, event.client_id), ("subscribe", "a", "reader"))
        self.assertEqual(event.rule, "subscribe a 1 False")
        self.assertEqual(self.world.stats.denied_by_rule, {event.rule: 1})

    def test_a_client_that_may_not_connect_any_more(self) -> None:
        reader = self.stay("reader")
        reader.subscribe("a")
        self.deny(("connect", "reader", "reader"))
        self.rest()
        self.assertEqual(reader.next("DISCONNECT").reason, NO)
        self.assertEqual([*self.world.hub.sessions["reader"].subscriptions], ["a"])
        again = self.world.open(5)
        again.send(p.connect("reader", 5, username="reader"))
        self.assertEqual(again.next("CONNACK").reason, NO)

    def test_many_sessions_and_subscriptions_in_slices(self) -> None:
        clients = [self.client(f"c{n}", version=4) for n in range(20)]
        for client in clients:
            client.send(p.subscribe(1, *[(f"t/{n}", 0) for n in range(100)], version=4))
        self.rules.take()
        self.deny(*[("subscribe", f"c{n}", "t/7") for n in range(20)])
        turns = 0
        while self.world.hub.is_unfinished():
            self.world.turn()
            turns += 1
            self.assertLessEqual(len(self.rules.take()), 2 * revocation.QUESTIONS)
        self.assertGreaterEqual(turns, 2000 // revocation.QUESTIONS)
        self.assertEqual(self.world.hub.router.subscriptions, 20 * 99)

    def test_another_change_while_a_session_is_reviewed(self) -> None:
        reader = self.client("reader")
        names = [f"t/{n}" for n in range(2 * revocation.QUESTIONS)]
        reader.send(p.subscribe(1, *[(name, 0) for name in names], version=5))
        reader.take()
        self.world.hub.tell_withdrawn = False
        self.deny()
        self.world.turn()
        self.deny(*[("subscribe", "reader", name) for name in names])
        self.rest()
        self.assertEqual(reader.session.subscriptions, {})

    def test_another_change_of_the_same_user_while_it_is_reviewed(self) -> None:
        reader = self.client("reader")
        names = [f"t/{n}" for n in range(2 * revocation.QUESTIONS)]
        reader.send(p.subscribe(1, *[(name, 0) for name in names], version=5))
        reader.take()
        self.world.hub.tell_withdrawn = False
        self.deny(users={"reader"})
        self.world.turn()
        self.deny(*[("subscribe", "reader", name) for name in names], users={"reader"})
        self.rest()
        self.assertEqual(reader.session.subscriptions, {})


class Queues(Case):
    """R2"""

    def test_of_a_client_that_is_away(self) -> None:
        reader = self.stay("reader")
        reader.subscribe("#", 1)
        reader.lose()
        for topic in ("a", "b", "a"):
            self.writer.publish(topic, b"", 1)
        self.deny(("receive", "reader", "a"))
        self.writer.publish("c", b"", 1)
        again = self.stay("reader")
        self.assertEqual(self.topics(again), ["b", "c"])
        self.assertEqual(self.world.stats.receive_denied, 2)
        self.assertIsNone(again.session.queue)

    def test_of_one_that_does_not_read(self) -> None:
        reader = self.client("reader")
        reader.subscribe("#", 1)
        reader.outlet.full = True
        for topic in ("a", "a", "b"):
            self.writer.publish(topic, b"", 1)
        self.deny(("receive", "reader", "a"))
        self.rest()
        reader.unblock()
        self.rest()
        self.assertEqual(self.topics(reader), ["a", "b"])  # the first one was on its way

    def test_qos_0(self) -> None:
        reader = self.client("reader")
        reader.subscribe("#")
        reader.outlet.full = True
        for topic in ("a", "a", "b"):
            self.writer.publish(topic)
        self.deny(("receive", "reader", "a"))
        reader.unblock()
        self.rest()
        self.assertEqual(self.topics(reader), ["a", "b"])

    def test_with_a_window_that_is_full(self) -> None:
        reader = self.client("reader", props=[(Prop.RECEIVE_MAXIMUM, 1)])
        reader.subscribe("#", 1)
        for topic in ("a", "b", "c"):
            self.writer.publish(topic, b"", 1)
        first = reader.next("PUBLISH")
        self.deny(("receive", "reader", "b"))
        reader.send(p.puback(first.pid))
        self.assertEqual(self.topics(reader), ["c"])

    def test_a_right_that_comes_back_in_time(self) -> None:
        reader = self.stay("reader")
        reader.subscribe("#", 1)
        reader.lose()
        self.writer.publish("a", b"", 1)
        self.deny(("receive", "reader", "a"))
        self.allow()
        self.assertEqual(self.topics(self.stay("reader")), ["a"])

    def test_who_logs_in_to_an_anonymous_session(self) -> None:
        """The client of a session is somebody else than the one that the messages waited for."""
        reader = self.client("", "c", **KEPT)
        reader.subscribe("#", 1)
        reader.lose()
        self.writer.publish("a", b"", 1)
        self.rules.denied = {("receive", "mallory", "a")}
        self.assertEqual(self.topics(self.client("mallory", "c", **KEPT)), [])

    def test_what_was_in_flight_and_waits_again(self) -> None:
        """A session that its client does not know any more: all of it is in front of the queue."""
        reader = self.stay("reader")
        reader.subscribe("#", 1)
        self.writer.publish("a", b"", 1)
        self.assertEqual(self.topics(reader), ["a"])
        self.deny(("receive", "reader", "a"))
        self.rest()
        reader.unblock()  # so that all that waits was looked at
        self.assertEqual(reader.session.rights, self.world.hub.rights)
        reader.lose()
        self.world.hub.sessions["reader"].state_lost = True
        self.assertEqual(self.topics(self.stay("reader")), [])

    def test_denials_are_told_as_a_burst(self) -> None:
        reader = self.stay("reader")
        reader.subscribe("#", 1)
        reader.lose()
        for _ in range(5):
            self.writer.publish("a", b"", 1)
        self.deny(("receive", "reader", "a"))
        self.stay("reader")
        [event] = self.world.diary.of(DENIED)
        self.assertEqual((event.cause, event.topic, event.reason), ("receive", "a", NO))
        self.assertTrue(event.rule.startswith("receive a"))
        self.world.wait(10)
        later = self.world.diary.of(DENIED)[1]
        self.assertEqual((later.count, later.is_first, later.rule), (4, False, event.rule))
        self.assertEqual(self.world.stats.denied_by_rule, {event.rule: 5})


class PagedOut(Case):
    """R3, and the store has none of it afterwards."""

    disk: Disk

    def setUp(self) -> None:
        super().setUp()
        self.disk = Disk(self.world, window=2)

    def fill(self) -> Client:
        reader = self.stay("reader")
        self.subscribe(reader, "#", 1)
        self.subscribe(reader, "x", 1)
        reader.lose()
        for n in range(20):
            self.writer.publish("ab"[n % 2], b"%d" % n, 1)
        self.disk.settle()
        return reader

    def come_back(self) -> list[str]:
        reader = self.stay("reader")
        found = []
        for _ in range(100):
            self.disk.settle()
            packets = [packet for packet in reader.take() if packet.type == "PUBLISH"]
            if not packets:
                break
            found += [packet.topic for packet in packets]
            reader.send(*[p.puback(packet.pid) for packet in packets])
        self.disk.settle()
        return found

    def rows(self) -> int:
        session = self.world.hub.sessions["reader"]
        return len(done(self.disk.store.load(session.sid, 0, 1000, 1 << 30)))

    def test_nothing_of_it_comes(self) -> None:
        self.fill()
        self.assertGreater(self.world.hub.sessions["reader"].queue.paged_out, 10)  # type: ignore[union-attr]
        self.deny(("receive", "reader", "a"))
        self.assertEqual(self.come_back(), ["b"] * 10)
        self.assertEqual(self.rows(), 0)

    def test_after_a_restart(self) -> None:
        """The change came while the broker was down."""
        self.fill()
        self.rules.denied = {("receive", "reader", "a"), ("subscribe", "reader", "x")}
        self.world, self.disk = crash(self.world, self.disk)
        self.control(self.world)
        self.disk.settle()
        self.assertEqual([*self.world.hub.sessions["reader"].subscriptions], ["#"])
        self.assertEqual(self.come_back(), ["b"] * 10)

    def test_an_authorizer_that_is_there_before_the_sessions(self) -> None:
        self.fill()
        self.rules.denied = {("receive", "reader", "a"), ("subscribe", "reader", "x")}
        after = World(**self.world.options)
        after.now = self.world.now
        after.hub.tick(after.now)
        self.world = self.control(after)
        self.disk = Disk(after, self.disk.store, 2)
        self.assertEqual(self.world.hub.router.subscriptions, 2)
        self.disk.settle()
        self.assertEqual([*self.world.hub.sessions["reader"].subscriptions], ["#"])
        self.assertEqual(self.come_back(), ["b"] * 10)

    def test_a_withdrawn_subscription_does_not_come_back_with_the_store(self) -> None:
        self.fill()
        self.deny(("subscribe", "reader", "x"))
        self.disk.settle()
        self.world, self.disk = crash(self.world, self.disk)
        self.rules.denied = set()
        self.control(self.world)
        self.disk.settle()
        self.assertEqual([*self.world.hub.sessions["reader"].subscriptions], ["#"])

    def test_while_they_are_on_their_way_from_the_store(self) -> None:
        self.fill()
        reader = self.world.open(5)
        reader.send(p.connect("reader", 5, username="reader", **KEPT))
        while not self.disk.asked:
            self.disk.step()
        before = [packet for packet in reader.take() if packet.type == "PUBLISH"]
        self.deny(("receive", "reader", "a"))
        self.disk.settle()
        self.assertLess(len(before), 3)
        self.assertEqual(self.topics(reader), ["b"] * 10)


class InFlight(Case):
    """R4"""

    def reader_with(self, qos: int) -> Client:
        reader = self.stay("reader")
        reader.subscribe("#", qos)
        for topic in ("a", "b"):
            self.writer.publish(topic, b"", qos)
        return reader

    def test_what_is_sent_again(self) -> None:
        for qos in (1, 2):
            self.setUp()
            reader = self.reader_with(qos)
            self.assertEqual(self.topics(reader), ["a", "b"])
            reader.lose()
            self.deny(("receive", "reader", "a"))
            again = self.stay("reader")
            self.assertEqual(self.topics(again), ["b"])
            self.assertEqual(len(again.session.inflight), 1)

    def test_in_the_middle_of_it(self) -> None:
        reader = self.reader_with(1)
        reader.lose()
        again = self.client("reader", clean=False, props=[(Prop.RECEIVE_MAXIMUM, 1)])
        first = again.next("PUBLISH")
        self.assertEqual(first.topic, "a")
        self.deny(("receive", "reader", "b"))
        again.send(p.puback(first.pid))
        self.assertEqual(self.topics(again), [])

    def test_what_was_sent_is_acknowledged_as_ever(self) -> None:
        reader = self.reader_with(1)
        packets = reader.take()
        self.deny(("receive", "reader", "a"), ("receive", "reader", "b"))
        self.rest()
        self.assertEqual(len(reader.session.inflight), 2)
        reader.send(*[p.puback(packet.pid) for packet in packets])
        self.assertEqual((len(reader.session.inflight), reader.closed), (0, False))

    def test_a_pubrel_goes_all_the_same(self) -> None:
        reader = self.reader_with(2)
        packets = reader.take()
        reader.send(p.pubrec(packets[0].pid))
        reader.take()
        reader.lose()
        self.deny(("receive", "reader", "a"), ("receive", "reader", "b"))
        again = self.stay("reader")
        self.assertEqual([packet.type for packet in again.take()], ["PUBREL"])

    def test_what_waits_for_the_store(self) -> None:
        """A QoS 2 PUBLISH is held back until its packet id is safe."""
        self.disk = Disk(self.world)
        reader = self.stay("reader")
        self.subscribe(reader, "#", 2)
        for topic in ("a", "b"):
            self.writer.publish(topic, b"", 2)
        self.assertEqual(reader.take(), [])
        self.deny(("receive", "reader", "a"))
        self.disk.settle()
        self.assertEqual(self.topics(reader), ["b"])
        self.assertEqual(
            [d.message.topic for d in reader.session.inflight.deliveries.values()], ["b"]
        )

    def test_after_a_restart(self) -> None:
        self.disk = Disk(self.world)
        reader = self.stay("reader")
        self.subscribe(reader, "#", 1)
        for topic in ("a", "b"):
            self.writer.publish(topic, b"", 1)
        self.disk.settle()
        self.assertEqual(self.topics(reader), ["a", "b"])
        self.rules.denied = {("receive", "reader", "a")}
        self.world, self.disk = crash(self.world, self.disk)
        self.control(self.world)
        again = self.stay("reader")
        self.assertEqual(self.topics(again), ["b"])


class Replay(Case):
    """R5"""

    options = {"portion": 1}

    def setUp(self) -> None:
        super().setUp()
        for n in range(4):
            self.writer.publish(f"a/{n}", b"x", retain=True)

    def begin(self, topic_filter: str) -> Client:
        """A client that has subscribed, and reads nothing yet."""
        reader = self.client("reader", version=4)
        reader.outlet.full = True
        reader.send(p.subscribe(1, (topic_filter, 1), version=4))
        return reader

    def go_on(self, reader: Client) -> list[str]:
        reader.unblock()
        self.rest()
        return self.topics(reader)

    def test_what_was_looked_up_before(self) -> None:
        reader = self.begin("#")
        self.deny(("receive", "reader", "a/2"))
        found = self.go_on(reader)
        self.assertEqual(sorted(found), ["a/0", "a/1", "a/3"])

    def test_of_a_withdrawn_subscription(self) -> None:
        reader = self.begin("#")
        self.deny(("subscribe", "reader", "#"))
        self.world.turn()
        self.assertLessEqual(len(self.go_on(reader)), 1)
        self.assertIsNone(reader.session.replay)

    def test_what_is_to_be_looked_up(self) -> None:
        reader = self.client("reader", version=4)
        self.world.hub.look_ups = 1 << 20
        reader.send(p.subscribe(1, ("#", 1), version=4))
        self.deny(("receive", "reader", "a/2"))
        self.rest()
        self.assertEqual(sorted(self.topics(reader)), ["a/0", "a/1", "a/3"])

    def test_what_is_to_be_looked_up_for_a_withdrawn_subscription(self) -> None:
        reader = self.begin("b")
        self.world.hub.look_ups = 1 << 20
        reader.send(p.subscribe(1, ("#", 1), version=4))
        assert reader.session.replay is not None
        self.deny(("subscribe", "reader", "#"))
        for _ in range(5):
            self.world.turn()
        self.assertEqual(self.go_on(reader), [])
        self.assertIsNone(reader.session.replay)


class Groups(Case):
    """R6"""

    def members(self) -> tuple[Client, Client]:
        one, two = self.stay("one", 4), self.stay("two", 4)
        for client in (one, two):
            client.subscribe("$share/g/#", 1)
        return one, two

    def test_a_member_is_passed_over(self) -> None:
        one, two = self.members()
        self.deny(("receive", "one", "a"))
        for _ in range(4):
            self.writer.publish("a", b"", 1)
        self.assertEqual((self.topics(one), self.topics(two)), ([], ["a"] * 4))

    def test_one_whose_subscription_is_withdrawn(self) -> None:
        one, two = self.members()
        self.deny(("subscribe", "one", "#"))
        for _ in range(4):
            self.writer.publish("a", b"", 1)
        self.assertEqual((self.topics(one), self.topics(two)), ([], ["a"] * 4))
        self.rest()
        self.assertEqual(self.world.hub.router.shared_subscriptions, 1)

    def test_what_waits_goes_to_another_one(self) -> None:
        one, two = self.members()
        one.outlet.full = two.outlet.full = True
        for n in range(8):
            self.writer.publish("a", b"%d" % n, 1)
        self.deny(("receive", "one", "a"))
        one.unblock()
        two.unblock()
        self.rest()
        sent_before = one.payloads()
        self.assertEqual(len(sent_before), 1)
        got = two.payloads()
        self.assertEqual(sorted(got + sent_before), [b"%d" % n for n in range(8)])

    def test_what_is_not_acknowledged_goes_to_another_one(self) -> None:
        one, two = self.members()
        two.lose()
        self.writer.publish("a", b"1", 1)
        self.assertEqual(one.payloads(), [b"1"])
        one.lose()
        self.deny(("receive", "one", "a"))
        again = self.stay("one", 4)
        self.assertEqual(again.take(), [])
        self.assertEqual(self.stay("two", 4).payloads(), [b"1"])

    def test_a_qos_2_delivery_that_has_begun_goes_to_nobody_else(self) -> None:
        """Its client may have it; whether it is sent again at once, or waits for the store."""
        for is_stored in (False, True):
            self.setUp()
            if is_stored:
                self.disk = Disk(self.world)
            one = self.client("one", **KEPT)
            one.send(p.subscribe(1, ("$share/g/#", 2), version=5))
            self.settle()
            self.writer.publish("a", b"1", 2)
            self.settle()
            self.assertEqual(self.topics(one), ["a"])
            one.lose()
            two = self.client("two", **KEPT)
            two.send(p.subscribe(1, ("$share/g/#", 2), version=5))
            self.settle()
            two.take()
            self.deny(("receive", "one", "a"))
            self.client("one", **KEPT)
            self.settle()
            self.assertEqual(two.take(), [])

    def settle(self) -> None:
        if self.disk is not None:
            self.disk.settle()
        else:
            self.rest()

    def test_nothing_is_redistributed_to_who_may_not(self) -> None:
        one, two = self.members()
        one.outlet.full = True
        two.lose()
        for n in range(3):
            self.writer.publish("a", b"%d" % n, 1)
        two = self.stay("two", 4)
        self.deny(("receive", "two", "a"), ("subscribe", "one", "#"))
        self.rest()
        self.assertEqual(two.take(), [])

    def test_order_after_redistribution_of_what_is_unchecked(self) -> None:
        one, two = self.members()
        one.subscribe("b", 1)
        two.lose()
        one.lose()
        for n in range(4):
            self.writer.publish("b", b"%d" % n, 1)
        self.deny(("receive", "one", "b"))
        two = self.stay("two", 4)
        one = self.stay("one", 4)
        self.assertEqual(one.take(), [])


class Wills(Case):
    """R7"""

    def test_of_a_client_that_is_away(self) -> None:
        watcher = self.client("watcher")
        watcher.subscribe("#")
        props = [(Prop.WILL_DELAY, 60)]
        leaver = self.client("u", will=("w", b"bye", 0, False, props), **KEPT)
        leaver.lose()
        self.deny(("will", "u", "w"))
        self.world.wait(61)
        self.assertEqual(watcher.take(), [])
        self.assertEqual(self.world.stats.publish_denied, 1)
        [event] = self.world.diary.of(DENIED)
        self.assertEqual((event.cause, event.topic, event.client_id), ("will", "w", "u"))
        self.assertEqual(event.rule, "publish w 0 False")

    def test_at_a_node_that_takes_over_from_another(self) -> None:
        """Its hub has no clients and no listeners, but sessions whose wills become due."""
        self.disk = Disk(self.world)
        self.client("u", will=("w", b"bye", 0, True), **KEPT)
        self.disk.settle()
        after, _ = crash(self.world, self.disk)
        self.deny(("will", "u", "w"))
        after.hub.judge_wills_as(self.world.hub)
        after.wait(1)
        self.assertEqual(after.stats.publish_denied, 1)
        self.assertEqual(len(after.hub.retained), 0)

    def test_with_the_session_of_a_deleted_user(self) -> None:
        watcher = self.client("watcher")
        watcher.subscribe("#")
        self.client("u", will=("w", b"bye"))
        self.deny(("will", "u", "w"))
        self.world.hub.disconnect_user("u", reasons.NOT_AUTHORIZED, "deleted", True)
        self.rest()
        self.assertEqual(watcher.take(), [])


class Publishes(Case):
    """R9"""

    def ask(self, client: Client, topic: str, qos: int = 0, retain: bool = False) -> int:
        """How often that was asked for."""
        self.rules.take()
        client.publish(topic, b"x", qos, retain=retain)
        client.take()
        return len([asked for asked in self.rules.take() if asked[0] == "publish"])

    def test_an_answer_is_remembered_for_a_topic_a_qos_and_retain(self) -> None:
        client = self.client("u")
        for retain in (False, True):
            for qos in (0, 1, 2):
                self.assertEqual(self.ask(client, "t", qos, retain), 1)
        for retain in (False, True):
            for qos in (0, 1, 2):
                self.assertEqual(self.ask(client, "t", qos, retain), 0)
        self.assertEqual(self.ask(client, "t2"), 1)
        self.assertEqual(self.ask(self.client("v"), "t"), 1)

    def test_no_is_remembered_as_well(self) -> None:
        self.rules.denied = {("publish", "u", "t")}
        client = self.client("u")
        for _ in range(2):
            client.publish("t", b"", 1)
            self.assertEqual(client.next("PUBACK").reason, NO)
        self.assertEqual(self.ask(client, "t", 1), 0)
        self.assertEqual(self.ask(client, "t", 0), 1)
        self.assertEqual(self.world.stats.publish_denied, 4)

    def test_not_beyond_a_change(self) -> None:
        client = self.client("u")
        client.publish("t", b"", 1)
        self.assertEqual(client.next("PUBACK").reason, reasons.NO_MATCHING_SUBSCRIBERS)
        self.deny(("publish", "u", "t"))
        client.publish("t", b"", 1)
        self.assertEqual(client.next("PUBACK").reason, NO)
        self.allow()
        client.publish("t", b"", 1)
        self.assertEqual(client.next("PUBACK").reason, reasons.NO_MATCHING_SUBSCRIBERS)

    def test_a_change_of_one_user(self) -> None:
        one, two = self.client("one"), self.client("two")
        for client in (one, two):
            self.ask(client, "t")
        self.deny(users={"one"})
        self.assertEqual((self.ask(one, "t"), self.ask(two, "t")), (1, 0))

    def test_the_memory_is_bounded(self) -> None:
        self.world.hub.publish_cache_size = 3
        client = self.client("u")
        for n in range(10):
            self.ask(client, f"t/{n}")
        assert client.connection.decisions is not None
        self.assertLessEqual(len(client.connection.decisions), 3)
        self.ask(client, "x" * 1000)
        self.assertNotIn(b"x" * 1000, client.connection.decisions)

    def test_topics_in_full_with_a_mount_point(self) -> None:
        self.rules.denied = {("publish", "u", "m/t")}
        client = self.world.client("c", 5, {"mount_point": "m/"}, username="u")
        client.publish("t", b"", 1)
        self.assertEqual(client.next("PUBACK").reason, NO)

    def test_an_alias_is_no_way_around(self) -> None:
        client = self.client("u")
        client.publish("t", b"", 1, props=[(Prop.TOPIC_ALIAS, 1)])
        client.next("PUBACK")
        self.deny(("publish", "u", "t"))
        client.publish("", b"", 1, props=[(Prop.TOPIC_ALIAS, 1)])
        self.assertEqual(client.next("PUBACK").reason, NO)


class DeniedPublishes(Case):
    def setUp(self) -> None:
        super().setUp()
        self.rules.denied = {("publish", "u", "secret")}

    def test_acknowledged_and_dropped(self) -> None:
        watcher = self.client("watcher")
        watcher.subscribe("#")
        for version in (3, 4):
            client = self.client("u", f"c{version}", version)
            for qos, reply in ((0, []), (1, ["PUBACK"]), (2, ["PUBREC"])):
                client.publish("secret", b"", qos)
                self.assertEqual([packet.type for packet in client.take()], reply)
        self.assertEqual(watcher.take(), [])

    def test_disconnected(self) -> None:
        self.world.hub.denied_publish = "disconnect"
        for version in (3, 4):
            for qos in (0, 1, 2):
                client = self.client("u", version=version, clean=False)
                client.publish("secret", b"", qos)
                self.assertEqual((client.take(), client.closed), ([], True))
                self.assertEqual(self.world.hub.sessions["u"].incoming, {})
        self.assertEqual(
            self.world.diary.lines[-1],
            ("disconnected", "u", NO, "not authorized to publish to 'secret'"),
        )
        self.assertEqual(self.world.stats.protocol_errors, 0)

    def test_the_text_has_no_mount_point(self) -> None:
        self.world.hub.denied_publish = "disconnect"
        self.rules.denied = {("publish", "u", "m/secret")}
        client = self.world.client("u", 4, {"mount_point": "m/"}, username="u")
        client.publish("secret")
        self.assertIn("'secret'", self.world.diary.lines[-1][-1])

    def test_version_5_is_told_and_stays(self) -> None:
        self.world.hub.denied_publish = "disconnect"
        client = self.client("u")
        for qos, reply in ((0, []), (1, [NO]), (2, [NO])):
            client.publish("secret", b"", qos)
            self.assertEqual([packet.reason for packet in client.take()], reply)
        self.assertFalse(client.closed)

    def test_what_is_the_brokers_own_needs_no_rule(self) -> None:
        client = self.client("u")
        client.publish("$SYS/x", b"", 1)
        self.assertEqual(client.next("PUBACK").reason, NO)
        [event] = self.world.diary.of(DENIED)
        self.assertEqual(event.rule, "reserved")


class Connects(Case):
    def test_asked_with_the_client_id_that_it_gets(self) -> None:
        self.rules.take()
        client = self.world.client("", 5, username="u")
        self.assertEqual(self.rules.take(), [("connect", "u", client.session.client_id)])

    def test_refused(self) -> None:
        self.rules.denied = {("connect", "u", "c")}
        for version, code in ((4, 5), (5, NO)):
            client = self.world.open(version)
            client.send(p.connect("c", version, username="u"))
            self.assertEqual(client.next("CONNACK").reason, code)
        self.assertEqual(self.world.stats.connect_denied, 2)
        event = self.world.diary.of(DENIED)[0]
        self.assertEqual(
            (event.cause, event.topic, event.rule), ("connect", "c", "connect c 0 False")
        )


class Users(Case):
    def test_a_user_is_disconnected(self) -> None:
        one, other, third = self.stay("u"), self.client("u", "second", 4), self.client("v")
        found = self.world.hub.disconnect_user("u", reasons.BANNED, "banned by an operator")
        self.assertEqual(found, 2)
        last = one.next("DISCONNECT")
        self.assertEqual(
            (last.reason, last.prop(Prop.REASON_STRING)), (reasons.BANNED, "banned by an operator")
        )
        self.assertEqual([one.closed, other.closed, third.closed], [True, True, False])
        self.assertEqual([*self.world.hub.sessions], ["writer", "u", "v"])
        self.assertEqual(
            [event.client_id for event in self.world.diary.of(KICKED)], ["u", "second"]
        )

    def test_a_user_is_deleted(self) -> None:
        one, two = self.stay("u"), self.client("u", "away", **KEPT)
        two.subscribe("#")
        two.lose()
        self.assertEqual(self.world.hub.disconnect_user("u", reasons.NOT_AUTHORIZED, "x", True), 2)
        self.assertTrue(one.closed)
        self.assertEqual([*self.world.hub.sessions], ["writer"])
        self.assertEqual(self.world.hub.router.subscriptions, 0)

    def test_an_anonymous_client_is_nobodys(self) -> None:
        client = self.client("", "c")
        self.world.hub.disconnect_user("u", reasons.BANNED, "x")
        self.assertFalse(client.closed)

    def test_the_session_of_a_deleted_user_that_comes_back_at_a_restart(self) -> None:
        self.disk = Disk(self.world)
        self.subscribe(self.stay("reader"), "#", 1)
        self.world, self.disk = crash(self.world, self.disk)
        self.world.hub.is_deleted = lambda principal: principal.user == "reader"
        self.control(self.world)
        self.disk.settle()
        self.assertEqual(self.world.hub.sessions, {})
        self.world, self.disk = crash(self.world, self.disk)
        self.assertEqual(self.world.hub.sessions, {})

    def test_what_is_known_of_a_user_changes(self) -> None:
        self.disk = Disk(self.world)
        client = self.stay("u")
        self.subscribe(client, "#", 0)
        self.ask_publish(client)

        def other_tenant(principal: Principal) -> Principal:
            other = principal.copy()
            other.tenant = "t2"
            return other

        self.rules.take()
        self.assertEqual(self.world.hub.update_principals("u", other_tenant), 1)
        self.assertEqual(client.connection.principal.tenant, "t2")
        self.assertIs(client.session.principal, client.connection.principal)
        self.disk.settle()
        self.assertIn(("subscribe", "u", "#", 0, ""), self.rules.take())
        self.assertEqual(self.ask_publish(client), 1)
        self.world, self.disk = crash(self.world, self.disk)
        self.assertEqual(self.world.hub.sessions["u"].principal.tenant, "t2")

    def ask_publish(self, client: Client) -> int:
        self.rules.take()
        client.publish("t")
        return len([asked for asked in self.rules.take() if asked[0] == "publish"])


class Contents(TestCase):
    def test_a_certificate_is_kept_with_the_session(self) -> None:
        """Else a rule about its CN would take all subscriptions away with a restart."""
        from mhub.core.principal import Certificate, principal_of

        principal = Principal("1.2.3.4", "tls")
        principal.certificate = Certificate("dev-1", "CN=dev-1", "ab", 5.0)
        again = principal_of(principal.to_text(), "c", "tls")
        self.assertTrue(again.receives_as(principal))
        assert again.certificate is not None
        self.assertEqual(again.certificate.fingerprint, "ab")
        again.certificate = Certificate("dev-2")
        self.assertFalse(again.receives_as(principal))
