"""What the store has of a session: all that waits, and nothing of what is over."""

from mhub.core.authentication import Step, success
from mhub.core.hub import SWEEP_S
from mhub.core.principal import Identity
from mhub.wire import reasons
from tests.core.test_journal import DiskCase
from tests.core.world import Client
from tests.helpers import packets as p
from tests.helpers.packets import Prop

KEPT = (Prop.SESSION_EXPIRY, 1000)


class Case(DiskCase):
    def away(self, name: str = "away", topic_filter: str = "t", qos: int = 2) -> None:
        """A session whose client is not there."""
        self.subscriber(name, topic_filter, qos, 5).lose()
        self.disk.settle()

    def publish(self, *payloads: bytes, qos: int = 1, **rest: object) -> None:
        sender = self.world.client("pub", 5)
        for payload in payloads:
            sender.publish("t", payload, qos, **rest)
        self.disk.settle()

    def back(self, name: str = "away", *props: tuple[int, int]) -> Client:
        return self.join(name, 5, props=[KEPT, *props])

    def stored(self) -> int:
        """Deliveries that a crash would bring back."""
        self.disk.settle()
        return len(self.disk.store.deliveries)


class Identified(Case):
    def test_what_a_client_has_lost_by_authenticating_again(self) -> None:
        """A crash does not bring roles back: its will, for one, is judged by those."""
        roles = [("operator",), ()]

        class Exchange:
            def step(self, data: bytes) -> Step:
                identity = Identity("alice", "m")
                identity.roles = roles.pop(0)
                return success(identity)

        self.world.hub.admission.methods["m"] = lambda claim: Exchange()
        client = self.join("c", 5, props=[KEPT, (Prop.AUTH_METHOD, "m")])
        client.send(p.auth(reasons.REAUTHENTICATE, [(Prop.AUTH_METHOD, "m")]))
        self.disk.settle()
        self.assertEqual(client.next("AUTH").reason, 0)
        self.crash()
        found = self.world.hub.sessions["c"].principal
        self.assertEqual((found.user, found.roles), ("alice", ()))


class Counted(Case):
    def test_the_sessions_of_each_listener_are_counted_after_a_start(self) -> None:
        for name, listener in (("a", "one"), ("b", "two"), ("c", "two")):
            client = self.world.open(4)
            client.connection.principal.listener = listener
            client.send(p.connect(name, 4, clean=False))
            self.disk.settle()
        self.crash()
        self.assertEqual(self.world.hub.sessions_at, {"one": 1, "two": 2})


class Over(Case):
    """A delivery that is over, however it ended, does not come back after a crash."""

    def check_gone(self) -> None:
        self.assertEqual(self.stored(), 0)
        self.assertEqual(self.disk.store.messages, {})
        self.crash()
        self.assertEqual(self.back().take(), [])

    def test_one_that_has_expired_in_the_queue(self) -> None:
        self.away()
        self.publish(b"x", props=[(Prop.MESSAGE_EXPIRY, 10)])
        self.world.wait(11)
        self.assertEqual(self.back().take(), [])
        self.check_gone()

    def test_one_that_is_larger_than_the_client_takes(self) -> None:
        client = self.subscriber("away", "t", 2, 5)
        client.lose()
        client = self.back("away", (Prop.MAXIMUM_PACKET_SIZE, 100))
        self.publish(bytes(200))
        self.publish(bytes(200), qos=2)
        self.assertEqual(client.take(), [])
        client.lose()
        self.check_gone()

    def test_one_that_was_in_flight_and_is_too_large_now(self) -> None:
        client = self.subscriber("away", "t", 2, 5)
        self.publish(bytes(200))
        client.lose()
        client = self.back("away", (Prop.MAXIMUM_PACKET_SIZE, 100))
        self.assertEqual(client.take(), [])
        client.lose()
        self.check_gone()

    def test_one_that_a_newer_one_has_pushed_out(self) -> None:
        self.start(queue_full="drop-oldest", max_queued_messages=3)
        self.away()
        self.publish(*[b"%d" % number for number in range(10)])
        self.assertEqual(self.stored(), 3)
        self.crash()
        self.assertEqual(self.back().payloads(), [b"7", b"8", b"9"])

    def test_one_that_the_store_has_damaged(self) -> None:
        self.away()
        self.publish(b"x")
        (record,) = self.disk.store.deliveries.values()
        record.body = b"short"
        self.crash()
        said: list[str] = []
        self.world.diary.crashed = lambda what, error: said.append(what)  # type: ignore[method-assign]
        self.assertEqual(self.back().take(), [])
        self.assertEqual((self.stored(), len(said)), (0, 1))

    def test_one_that_another_member_of_the_group_has_taken(self) -> None:
        """Also if it was stored by a process that has ended since."""
        self.away("away", "$share/g/t")
        self.publish(b"x")
        self.crash()
        self.subscriber("other", "$share/g/t", 1, 5)
        first = self.back()
        self.assertEqual(first.payloads(), [b"x"])
        first.lose()
        self.disk.settle()
        other = self.world.hub.sessions["other"].connection
        assert other is not None
        self.assertEqual(self.stored(), 1)
        self.assertEqual(self.back().take(), [])


class Shared(Case):
    """A message for several sessions is in the store once, as long as one of them needs it."""

    def setUp(self) -> None:
        super().setUp()
        for name in "abc":
            self.away(name)

    def acknowledge(self, *names: str) -> None:
        for name in names:
            client = self.back(name)
            client.send(p.puback(client.next("PUBLISH").pid or 0))
            client.lose()
            self.disk.settle()

    def test_until_the_last_has_acknowledged(self) -> None:
        self.publish(b"x")
        self.acknowledge("a", "b")
        self.assertEqual((self.stored(), len(self.disk.store.messages)), (1, 1))
        self.crash()
        self.assertEqual(self.back("c").payloads(), [b"x"])
        self.crash()
        self.acknowledge("c")
        self.assertEqual((self.stored(), self.disk.store.messages), (0, {}))

    def test_one_that_has_it_before_it_is_stored_does_not_count(self) -> None:
        client = self.back("a")
        self.join("other").send(p.subscribe(1, ("u", 1)))  # this batch is under way
        self.world.client("pub").publish("t", b"x", 1)
        client.send(p.puback(client.next("PUBLISH").pid or 0))
        self.assertEqual(self.stored(), 2)
        self.acknowledge("b", "c")
        self.assertEqual((self.stored(), self.disk.store.messages), (0, {}))

    def test_if_the_store_has_damaged_it_it_is_gone_with_the_last_of_them(self) -> None:
        self.publish(b"x")
        (message,) = self.disk.store.messages.values()
        message.body = b"short"
        self.crash()
        said: list[str] = []
        self.world.diary.crashed = lambda what, error: said.append(what)  # type: ignore[method-assign]
        for name in "abc":
            self.assertEqual(self.back(name).take(), [])
        self.assertEqual((self.stored(), self.disk.store.messages, len(said)), (0, {}, 3))

    def test_a_session_that_gets_it_later_has_a_copy_of_its_own(self) -> None:
        """The store counts only those that came together."""
        self.publish(b"x", retain=True)
        late = self.join("late", 5)
        late.send(p.subscribe(1, ("t", 1), version=5))
        self.disk.settle()
        late.lose()
        self.acknowledge("a", "b", "c")
        self.assertEqual((self.stored(), self.disk.store.messages), (1, {}))
        self.crash()
        self.assertEqual(self.back("late").payloads(), [b"x"])


class QoS0(Case):
    """With `queue_qos0_offline` also QoS 0 waits for a client that is away."""

    def setUp(self) -> None:
        self.start(queue_qos0_offline=True)
        self.away()

    def test_it_survives_a_crash(self) -> None:
        self.publish(b"0", qos=0)
        self.publish(b"1")
        self.publish(b"2", qos=0)
        self.crash()
        self.assertEqual(self.back().payloads(), [b"0", b"1", b"2"])

    def test_in_its_place_in_a_long_queue(self) -> None:
        for number in range(20):
            self.publish(b"%d" % number, qos=number % 2)
        self.assertEqual(self.back().payloads(), [b"%d" % number for number in range(20)])

    def test_once_sent_it_is_gone(self) -> None:
        self.publish(b"0", b"1", qos=0)
        self.assertEqual(self.stored(), 2)
        self.back()
        self.assertEqual(self.stored(), 0)

    def test_to_a_client_that_is_far_behind_it_is_dropped(self) -> None:
        """A part of its queue is in the store alone: QoS 0 in memory would come before that."""
        client = self.back()
        client.outlet.full = True
        self.publish(*[b"%d" % number for number in range(10)])
        self.publish(b"zero", qos=0)
        self.assertEqual(self.world.stats.dropped_queue_full, 1)
        client.outlet.full = False
        client.connection.writable(self.world.now)
        self.disk.settle()
        self.assertEqual(client.payloads(), [b"%d" % number for number in range(10)])


class Retained(Case):
    def test_one_for_which_there_is_no_room_is_not_stored_either(self) -> None:
        self.start(max_retained_messages=1)
        sender = self.world.client("pub")
        for topic in ("first", "second"):
            sender.publish(topic, b"x", 1, retain=True)
        self.disk.settle()
        self.assertEqual(len(sender.take()), 2)
        self.assertEqual(set(self.disk.store.retained), {"first"})

    def test_one_that_has_expired_is_swept(self) -> None:
        self.publish(b"x", retain=True, props=[(Prop.MESSAGE_EXPIRY, 5)])
        self.assertEqual(len(self.disk.store.retained), 1)
        self.world.wait(SWEEP_S + 1)
        self.disk.settle()
        self.assertEqual(self.disk.store.retained, {})

    def test_one_that_a_new_subscription_got_comes_again_after_a_crash(self) -> None:
        """It was sent at QoS 1 and is not acknowledged."""
        self.publish(b"x", retain=True)
        self.subscriber("c", "u", 1, 5).lose()
        client = self.back("c")
        client.send(p.subscribe(2, ("t", 1), version=5))
        self.disk.settle()
        (pid,) = [packet.pid for packet in client.take() if packet.type == "PUBLISH"]
        self.crash()
        again = self.back("c").next("PUBLISH")
        self.assertEqual((again.payload, again.pid, again.dup), (b"x", pid, True))


class Granted(Case):
    def test_a_subscription_beyond_a_lowered_bound_survives(self) -> None:
        """Bounds are for new subscriptions: a session never loses what it was granted."""
        deep = "/b/c/d/e/f/g/h/i"
        client = self.subscriber("c", "+" + deep, 1)
        client.send(p.subscribe(2, ("a/+" + deep, 1)))
        self.disk.settle()
        self.world.options["max_wildcard_patterns"] = 1
        self.crash()
        self.assertEqual(len(self.world.hub.router.filters.patterns), 2)
        client = self.join("c")
        client.send(p.subscribe(3, ("a/+" + deep, 0), ("a/b/+" + deep, 0)))
        self.disk.settle()
        self.assertEqual(client.next("SUBACK").reasons, [0, 0x80])


class Ended(Case):
    def test_a_session_that_is_to_end_with_its_connection_does_not_survive_a_crash(self) -> None:
        """Though it was one to keep when its client came before."""
        self.away()
        client = self.join("away", 5, props=[])
        assert client.connack is not None
        self.assertTrue(client.connack.session_present)
        self.disk.settle()
        self.crash()
        self.assertEqual(self.world.hub.sessions, {})


class Lost(Case):
    def test_a_queue_that_the_store_has_lost_begins_anew(self) -> None:
        self.away("away", "t", 1)
        self.publish(*[b"%d" % number for number in range(10)])
        self.crash()
        self.disk.store.deliveries.clear()
        said: list[str] = []
        self.world.diary.crashed = lambda what, error: said.append(what)  # type: ignore[method-assign]
        client = self.back()
        self.assertEqual((client.take(), len(said)), ([], 1))
        client.lose()
        payloads = [b"%d" % number for number in range(20, 40)]
        self.publish(*payloads)
        self.assertEqual(self.back().payloads(), payloads)


class PacketIds(Case):
    def test_a_qos_2_message_leaves_when_its_packet_id_is_safe(self) -> None:
        """Else it could come again with another one after a crash, and be taken twice."""
        self.away()
        self.publish(b"x", qos=2)
        client = self.world.open(5)
        client.send(p.connect("away", 5, clean=False, props=[KEPT]))
        self.disk.step()
        self.world.settle()
        self.assertEqual(self.kinds(client), ["CONNACK"])
        self.disk.step()
        packet = client.next("PUBLISH")
        self.crash()
        again = self.back().next("PUBLISH")
        self.assertEqual((again.pid, again.dup), (packet.pid, True))
