"""Persist, then speak: what waits for the store, what need not, what comes back after a crash."""

from twisted.trial.unittest import SynchronousTestCase

from tests.core.disk import Disk, crash
from tests.core.world import Client, World
from tests.helpers import packets as p

EXPIRY = 0x11
WILL_DELAY = 0x18
FOR_EVER = [(EXPIRY, 0xFFFFFFFF)]


class DiskCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.start()

    def start(self, window: int = 4, max_pending_bytes: int = 1 << 30, **options: object) -> None:
        self.world = World(**options)
        self.disk = Disk(self.world, window=window, max_pending_bytes=max_pending_bytes)

    def join(self, name: str, version: int = 4, **connect: object) -> Client:
        """A client with a session to keep."""
        client = self.world.open(version)
        if version == 5:
            connect.setdefault("props", FOR_EVER)
        connect.setdefault("clean", False)
        client.send(p.connect(name, version, **connect))
        self.disk.settle()
        client.connack = client.next("CONNACK")
        return client

    def subscriber(self, name: str, topic_filter: str, qos: int, version: int = 4) -> Client:
        client = self.join(name, version)
        client.send(p.subscribe(1, (topic_filter, qos), version=version))
        self.disk.settle()
        client.next("SUBACK")
        return client

    def crash(self, seconds: float = 1.0) -> None:
        self.world, self.disk = crash(self.world, self.disk, seconds)

    def kinds(self, client: Client) -> list[str]:
        return [packet.type for packet in client.take()]


class WaitingTests(DiskCase):
    """Each reply leaves when its batch is safe, not before."""

    def check_waits(self, client: Client, packet: bytes, *kinds: str) -> None:
        client.send(packet)
        self.assertEqual(self.kinds(client), [])
        self.disk.settle()
        self.assertEqual(self.kinds(client), list(kinds))

    def test_connack_of_a_session_to_keep(self) -> None:
        client = self.world.open(4)
        self.check_waits(client, p.connect("c", 4, clean=False), "CONNACK")

    def test_connack_that_ended_a_kept_session(self) -> None:
        self.join("c").lose()
        self.disk.settle()
        self.check_waits(self.world.open(4), p.connect("c", 4, clean=True), "CONNACK")
        self.assertEqual(self.disk.store.sessions, {})

    def test_nothing_overtakes_the_connack(self) -> None:
        self.subscriber("c", "t", 1).lose()
        self.disk.settle()
        client = self.world.open(4)
        client.send(p.connect("c", 4, clean=False), p.pingreq())
        self.world.client("other").publish("t", b"x", 1)
        self.assertEqual(self.kinds(client), [])
        self.disk.settle()
        self.assertEqual(self.kinds(client), ["CONNACK", "PINGRESP", "PUBLISH"])

    def test_connack_without_a_session_to_keep_does_not_wait(self) -> None:
        client = self.world.open(4)
        client.send(p.connect("c", 4, clean=True))
        self.assertEqual(self.kinds(client), ["CONNACK"])

    def test_suback_and_unsuback(self) -> None:
        client = self.join("c")
        self.check_waits(client, p.subscribe(1, ("t", 1)), "SUBACK")
        self.check_waits(client, p.unsubscribe(2, "t"), "UNSUBACK")

    def test_puback_of_a_message_for_a_client_that_is_away(self) -> None:
        self.subscriber("away", "t", 1).lose()
        self.disk.settle()
        self.check_waits(self.world.client("c"), p.publish("t", b"x", 1, 1), "PUBACK")

    def test_puback_of_a_retained_message(self) -> None:
        self.check_waits(self.world.client("c"), p.publish("t", b"x", 1, 1, retain=True), "PUBACK")

    def test_puback_without_anything_to_keep_does_not_wait(self) -> None:
        client = self.world.client("c")
        client.send(p.publish("t", b"x", 1, 1))
        self.assertEqual(self.kinds(client), ["PUBACK"])
        self.assertEqual(self.disk.batches, 0)

    def test_pubrec_and_pubcomp_of_a_publisher_with_a_session_to_keep(self) -> None:
        client = self.join("c")
        self.check_waits(client, p.publish("t", b"x", 2, 1), "PUBREC")
        self.check_waits(client, p.pubrel(1), "PUBCOMP")

    def test_qos_2_publish_and_pubrel_to_a_client(self) -> None:
        client = self.subscriber("c", "t", 2)
        self.world.client("pub").publish("t", b"x", 2)
        self.assertEqual(self.kinds(client), [])
        self.disk.settle()
        publish = client.next("PUBLISH")
        self.check_waits(client, p.pubrec(publish.pid), "PUBREL")

    def test_qos_1_publish_to_a_client_does_not_wait(self) -> None:
        client = self.subscriber("c", "t", 1)
        self.world.client("pub").publish("t", b"x", 1)
        self.assertEqual(self.kinds(client), ["PUBLISH"])

    def test_acknowledgements_keep_their_order(self) -> None:
        self.subscriber("away", "kept", 1).lose()
        self.disk.settle()
        client = self.world.client("c")
        client.send(p.publish("kept", b"x", 1, 1), p.publish("other", b"x", 1, 2))
        self.assertEqual(self.kinds(client), [])
        self.disk.settle()
        self.assertEqual([packet.pid for packet in client.take()], [1, 2])

    def test_a_message_that_waits_begins_no_topic_alias(self) -> None:
        """Another one would leave before it, and name an alias that the client does not know."""
        client = self.join("c", 5, props=[*FOR_EVER, (0x22, 10)])
        client.send(p.subscribe(1, ("a/long/topic", 2), version=5))
        self.disk.settle()
        client.next("SUBACK")
        sender = self.world.client("pub", 5)
        sender.publish("a/long/topic", b"waits", 2)
        sender.publish("a/long/topic", b"overtakes", 1)
        first = client.next("PUBLISH")
        self.assertEqual((first.payload, first.topic), (b"overtakes", "a/long/topic"))
        self.disk.settle()
        second = client.next("PUBLISH")
        self.assertEqual((second.payload, second.topic), (b"waits", "a/long/topic"))


class SettledTests(DiskCase):
    """What everybody has acknowledged need not be stored."""

    def test_the_sender_is_answered_when_its_receivers_have_acknowledged(self) -> None:
        client = self.subscriber("c", "t", 1)
        sender = self.world.client("pub")
        sender.send(p.publish("t", b"x", 1, 1))
        self.assertEqual(self.kinds(sender), [])
        client.send(p.puback(client.next("PUBLISH").pid))
        self.assertEqual(self.kinds(sender), ["PUBACK"])

    def test_what_is_over_before_its_batch_is_taken_is_never_stored(self) -> None:
        client = self.subscriber("c", "t", 1)
        sender = self.world.client("pub")
        sender.send(p.publish("t", b"first", 1, 1))  # this batch is under way
        sender.send(p.publish("t", b"second", 1, 2))
        for packet in client.take():
            client.send(p.puback(packet.pid))
        self.assertEqual(self.kinds(sender), ["PUBACK", "PUBACK"])
        before = self.disk.batches
        self.disk.settle()
        self.assertEqual(self.disk.batches, before + 1, "a removal, and nothing else")
        self.assertEqual(self.disk.store.deliveries, {})

    def test_nothing_is_stored_if_nothing_is_left(self) -> None:
        client = self.subscriber("c", "t", 1)
        sender, other = self.world.client("pub"), self.join("other")
        other.send(p.subscribe(1, ("u", 1)))  # this batch is under way
        sender.send(p.publish("t", b"x", 1, 1))
        client.send(p.puback(client.next("PUBLISH").pid))
        before = self.disk.batches
        self.disk.settle()
        self.assertEqual(self.disk.batches, before)

    def test_a_message_for_many_is_stored_once(self) -> None:
        for name in "abc":
            self.subscriber(name, "t", 1).lose()
        self.disk.settle()
        self.world.client("pub").publish("t", b"x" * 1000, 1)
        self.disk.settle()
        store = self.disk.store
        self.assertEqual([each.refs for each in store.messages.values()], [3])
        self.assertEqual([each.body for each in store.deliveries.values()], [b"", b"", b""])
        for name in "abc":
            client = self.join(name)
            client.send(p.puback(client.next("PUBLISH").pid))
        self.disk.settle()
        self.assertEqual((store.messages, store.deliveries), ({}, {}))


class BehindTests(DiskCase):
    """A store that does not keep up slows its publishers down, and nobody else."""

    def setUp(self) -> None:
        self.start(max_pending_bytes=1000)
        self.subscriber("away", "t", 1).lose()
        self.disk.settle()
        self.sender = self.world.client("pub", keepalive=10)
        for number in range(1, 11):
            self.sender.send(p.publish("t", b"x" * 200, 1, number))

    def test_its_publishers_wait(self) -> None:
        self.assertTrue(self.world.hub.storage.behind)
        self.assertFalse(self.sender.outlet.reading)
        self.assertEqual(self.world.stats.store_behind, 1)

    def test_whatever_is_to_be_stored_counts(self) -> None:
        """Retained messages, too, and also those of a batch that is under way."""
        self.disk.settle()
        self.assertFalse(self.world.hub.storage.behind)
        other = self.world.client("other")
        other.send(*(p.publish(f"r/{pid}", b"x" * 200, 1, pid, True) for pid in range(1, 6)))
        self.assertEqual(other.outlet.reading, True)
        other.send(p.publish("r/6", b"x", 1, 6, True))
        self.assertEqual(other.outlet.reading, False)
        self.disk.settle()
        self.assertEqual(other.outlet.reading, True)
        self.assertEqual(len(self.disk.store.retained), 6)

    def test_they_are_not_taken_for_dead(self) -> None:
        self.world.wait(100, steps=100)
        self.assertFalse(self.sender.closed)

    def test_qos_0_goes_on(self) -> None:
        listener = self.world.client("listener")
        listener.subscribe("t")
        self.world.client("other").publish("t", b"now")
        self.assertEqual(listener.payloads(), [b"now"])

    def test_but_not_if_it_is_retained(self) -> None:
        """It would have to be stored, too."""
        other = self.world.client("other")
        other.publish("r", b"x", retain=True)
        self.assertFalse(other.outlet.reading)
        self.assertEqual(len(self.world.hub.retained), 0)
        self.disk.settle()
        self.assertTrue(other.outlet.reading)
        self.assertEqual(len(self.disk.store.retained), 1)

    def test_all_of_it_is_stored_in_the_end(self) -> None:
        self.disk.settle()
        self.assertTrue(self.sender.outlet.reading)
        self.assertEqual([packet.pid for packet in self.sender.take()], list(range(1, 11)))
        self.assertEqual(len(self.disk.store.deliveries), 10)


class RestartTests(DiskCase):
    """A hub goes on where the last one ended."""

    def test_sessions_and_their_routes(self) -> None:
        self.subscriber("c", "a/+", 1)
        self.crash()
        self.world.client("pub").publish("a/b", b"x", 1)
        client = self.join("c")
        assert client.connack is not None
        self.assertTrue(client.connack.session_present)
        self.assertEqual(client.payloads(), [b"x"])

    def test_subscription_options(self) -> None:
        client = self.join("c", 5)
        wanted = p.options(1, no_local=True, as_published=True)
        client.send(p.subscribe(1, ("t", wanted), props=[(0x0B, 7)], version=5))
        self.disk.settle()
        self.crash()
        client = self.join("c", 5)
        client.send(p.publish("t", b"mine", 0, version=5))
        self.world.client("pub").publish("t", b"x", 1, retain=True)
        packet = client.next("PUBLISH")
        self.assertEqual((packet.payload, packet.retain), (b"x", True))
        self.assertIn((0x0B, 7), [tuple(each) for each in packet.props])

    def test_a_session_without_expiry_is_gone(self) -> None:
        client = self.world.open(5)
        client.send(p.connect("c", 5, clean=False))
        self.disk.settle()
        self.crash()
        self.assertEqual(self.world.hub.sessions, {})

    def test_a_session_expires_as_if_there_had_been_no_crash(self) -> None:
        self.join("c", 5, props=[(EXPIRY, 60)]).lose()
        self.disk.settle()
        self.crash(30)
        self.assertIn("c", self.world.hub.sessions)
        self.world.wait(29)
        self.assertIn("c", self.world.hub.sessions)
        self.world.wait(2)
        self.assertNotIn("c", self.world.hub.sessions)
        self.disk.settle()
        self.assertEqual(self.disk.store.sessions, {})

    def test_a_client_that_was_connected_counts_as_gone_from_then_on(self) -> None:
        self.join("c", 5, props=[(EXPIRY, 60)])
        self.crash(1000)
        self.world.wait(59)
        self.assertIn("c", self.world.hub.sessions)
        self.world.wait(2)
        self.assertNotIn("c", self.world.hub.sessions)

    def test_the_will_of_a_client_that_was_connected(self) -> None:
        self.join("c", will=("w", b"gone", 1, True))
        self.crash()
        self.world.wait(1)
        late = self.world.client("late")
        late.send(p.subscribe(1, ("w", 0)))
        self.assertEqual([packet.payload for packet in late.take()[1:]], [b"gone"])
        self.disk.settle()
        self.crash()
        self.assertIsNone(self.world.hub.sessions["c"].will, "it comes once")

    def test_a_delayed_will_comes_in_time(self) -> None:
        will = ("w", b"gone", 0, True, [(WILL_DELAY, 60)])
        self.join("c", 5, will=will).lose()
        self.disk.settle()
        self.crash(30)
        self.world.wait(29)
        self.assertIsNone(self.world.hub.retained.tree.get("w"))
        self.world.wait(2)
        self.assertIsNotNone(self.world.hub.retained.tree.get("w"))

    def test_a_client_that_is_back_before_the_first_tick_has_left_its_will(self) -> None:
        """Also if it leaves another one."""
        for opened in (False, True):
            with self.subTest(opened=opened):
                self.start()
                self.subscriber("heir", "w", 1).lose()
                self.join("c", will=("w", b"first", 1, True))
                self.crash()
                if opened:
                    self.world.hub.publish_due_wills(self.world.now)
                self.join("c", will=("w", b"second", 1))
                self.world.wait(1)
                self.assertEqual(self.world.stats.wills_published, 1)
                self.assertEqual(self.world.hub.retained.tree.get("w").payload, b"first")
                self.disk.settle()
                self.assertEqual(self.join("heir").payloads(), [b"first"])
                self.disk.settle()
                self.crash()
                self.world.hub.publish_due_wills(self.world.now)
                self.assertEqual(self.join("heir").payloads(), [b"first", b"second"])

    def test_a_client_that_is_back_within_the_delay_has_not(self) -> None:
        will = ("w", b"gone", 0, True, [(WILL_DELAY, 60)])
        for connected in (False, True):
            with self.subTest(connected=connected):
                self.start()
                client = self.join("c", 5, will=will)
                if not connected:
                    client.lose()
                self.disk.settle()
                self.crash(30)
                self.world.hub.publish_due_wills(self.world.now)
                self.join("c", 5)
                self.world.wait(100)
                self.assertEqual(self.world.stats.wills_published, 0)

    def test_a_will_of_a_stopped_broker_is_stored_as_a_message(self) -> None:
        """Of sessions that last, and of those that end with it; for who is away, and retained."""
        for clean in (False, True):
            with self.subTest(clean=clean):
                self.start()
                self.subscriber("heir", "w", 1).lose()
                self.join("c", clean=clean, will=("w", b"gone", 1, True))
                self.world.hub.shut_down(self.world.now)
                self.disk.settle()
                self.crash()
                self.world.hub.publish_due_wills(self.world.now)
                self.world.wait(1)
                self.assertEqual(self.world.stats.wills_published, 0, "it comes once")
                self.assertEqual(self.world.hub.retained.tree.get("w").payload, b"gone")
                self.assertEqual(self.join("heir").payloads(), [b"gone"])

    def test_a_delayed_will_of_a_stopped_broker_waits_for_the_next_start(self) -> None:
        will = ("w", b"gone", 0, True, [(WILL_DELAY, 60)])
        self.join("c", 5, will=will)
        self.join("gone before", 5, will=will).lose()
        self.world.hub.shut_down(self.world.now)
        self.disk.settle()
        self.assertEqual(self.world.stats.wills_published, 0)
        self.crash(30)
        self.world.hub.publish_due_wills(self.world.now)
        self.world.wait(29)
        self.assertEqual(self.world.stats.wills_published, 0)
        self.world.wait(2)
        self.assertEqual(self.world.stats.wills_published, 2)

    def test_a_will_delay_longer_than_the_session_ends_with_it_at_a_stop(self) -> None:
        will = ("w", b"gone", 0, True, [(WILL_DELAY, 60)])
        self.join("c", 5, clean=True, props=[], will=will)
        self.world.hub.shut_down(self.world.now)
        self.assertEqual(self.world.stats.wills_published, 1)

    def test_the_will_of_a_frozen_session_is_not_decided_on_here(self) -> None:
        """Another node may have the session by now, and the will with it."""
        self.join("c", will=("w", b"gone", 1, True))
        self.crash()
        self.world.hub.sessions["c"].frozen = True
        self.world.hub.publish_due_wills(self.world.now)
        self.world.wait(1)
        self.world.hub.shut_down(self.world.now)
        self.assertEqual(self.world.stats.wills_published, 0)

    def test_nothing_is_published_of_what_another_node_has_taken_over(self) -> None:
        self.join("c", will=("w", b"gone", 1, True))
        self.world.hub.taken_over = True
        self.world.hub.shut_down(self.world.now)
        self.assertEqual(self.world.stats.wills_published, 0)

    def test_message_expiry_goes_on(self) -> None:
        self.subscriber("c", "t", 1, 5).lose()
        sender = self.world.client("pub", 5)
        sender.send(p.publish("t", b"short", 1, 1, props=[(2, 10)], version=5))
        sender.send(p.publish("t", b"long", 1, 2, props=[(2, 100)], version=5))
        self.disk.settle()
        self.crash(20)
        packet = self.join("c", 5).next("PUBLISH")
        self.assertEqual(packet.payload, b"long")
        self.assertEqual([tuple(each) for each in packet.props], [(2, 80)])

    def test_in_flight_messages_come_again_with_their_packet_ids(self) -> None:
        client = self.subscriber("c", "t", 2)
        for qos in (1, 2):
            self.world.client(f"pub{qos}").publish("t", b"%d" % qos, qos)
        self.disk.settle()
        before = {packet.pid: packet.payload for packet in client.take()}
        self.disk.settle()
        self.crash()
        again = self.join("c").take()
        self.assertEqual({packet.pid: packet.payload for packet in again}, before)
        self.assertTrue(all(packet.dup for packet in again), again)

    def test_a_retained_message_that_was_erased_stays_so(self) -> None:
        sender = self.world.client("pub")
        sender.publish("a", b"x", 1, retain=True)
        sender.publish("b", b"x", 1, retain=True)
        sender.publish("a", b"", 1, retain=True)
        self.disk.settle()
        self.crash()
        self.assertIsNone(self.world.hub.retained.tree.get("a"))
        self.assertIsNotNone(self.world.hub.retained.tree.get("b"))

    def test_the_brokers_own_topics_are_not_stored(self) -> None:
        self.world.wait(1)
        self.disk.settle()
        self.assertEqual(self.disk.store.retained, {})

    def test_the_will_of_a_session_that_ended_meanwhile(self) -> None:
        will = ("w", b"gone", 0, True, [(WILL_DELAY, 60)])
        self.join("c", 5, props=[(EXPIRY, 100)], will=will).lose()
        self.disk.settle()
        self.crash(1000)
        self.world.wait(1)
        self.disk.settle()
        self.assertIsNotNone(self.world.hub.retained.tree.get("w"))
        self.assertEqual(self.disk.store.sessions, {})

    def test_an_expiry_of_more_than_31_bits(self) -> None:
        self.subscriber("c", "t", 1, 5).lose()
        sender = self.world.client("pub", 5)
        sender.send(p.publish("t", b"x", 1, 1, props=[(2, 0xFFFFFFFF)], version=5))
        self.disk.settle()
        self.crash()
        self.assertEqual(self.join("c", 5).next("PUBLISH").payload, b"x")

    def test_a_damaged_message_is_dropped_and_the_others_come(self) -> None:
        self.subscriber("c", "t", 1).lose()
        for number in range(20):
            self.world.client("pub").publish("t", b"%d" % number, 1)
            self.disk.settle()
        record = min(self.disk.store.deliveries.values(), key=lambda each: each.seq)
        record.body = b"short"
        self.crash()
        said: list[str] = []
        self.world.diary.crashed = lambda what, error: said.append(what)  # type: ignore[method-assign]
        payloads = self.join("c").payloads()
        self.assertEqual(payloads, [b"%d" % number for number in range(1, 20)])
        self.assertEqual(len(said), 1)
