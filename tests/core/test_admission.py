"""CONNECT and AUTH: who gets in, as whom, and what the CONNACK says."""

from typing import Any
from unittest import TestCase

from mhub.core.authentication import Claim, Step, failure, proceed, success
from mhub.core.principal import Identity
from mhub.wire import reasons
from tests.core.world import Client, World
from tests.helpers import packets as p
from tests.helpers.packets import Packet, Prop


def answer(data: bytes, version: int, **limits: Any) -> Packet | None:
    """The CONNACK to this CONNECT; None where it is just closed."""
    client = World(**limits).open(version)
    client.send(data)
    packets = client.take()
    assert len(packets) <= 1
    if not packets or packets[0].reason:
        assert client.closed
    return packets[0] if packets else None


class ClientIds(TestCase):
    def check(
        self, code: int, client_id: str, version: int, clean: bool = True, **limits: Any
    ) -> None:
        packet = answer(p.connect(client_id, version, clean), version, **limits)
        assert packet is not None
        self.assertEqual(packet.reason, code)

    def test_an_empty_one_is_filled(self) -> None:
        """[MQTT-3.1.3-6], [MQTT-3.1.3-7]; version 5 is told which [MQTT-3.2.2-16]."""
        world = World(client_id_prefix="auto-")
        names = []
        for version in (4, 5):
            client = world.client("", version)
            names.append(client.connection.client_id)
        self.assertEqual(set(world.hub.sessions), set(names))
        self.assertTrue(all(name.startswith("auto-") for name in names))
        assert client.connack is not None
        self.assertEqual(client.connack.prop(Prop.ASSIGNED_CLIENT_ID), names[1])

    def test_one_made_here_is_nobody_elses(self) -> None:
        world = World(client_id_prefix="auto-")
        for number in range(1, 4):
            world.client(f"auto-{number}")
        self.assertEqual(world.client("").connection.client_id, "auto-4")

    def test_an_empty_one_with_a_session_to_keep(self) -> None:
        """[MQTT-3.1.3-8]: not in 3.1.1; version 5 may."""
        self.check(2, "", 4, clean=False)
        self.check(0, "", 5, clean=False)

    def test_an_empty_one_where_none_is_made(self) -> None:
        self.check(2, "", 4, allow_empty_client_id=False)
        self.check(0x85, "", 5, allow_empty_client_id=False)
        self.check(2, "", 3)

    def test_too_long(self) -> None:
        self.check(0, "x" * 30, 4, max_client_id_length=30)
        self.check(2, "x" * 31, 4, max_client_id_length=30)
        self.check(0x85, "x" * 31, 5, max_client_id_length=30)
        self.check(0, "x" * 24, 3)
        self.check(0, "x" * 23, 3, max_client_id_length_v31=23)
        self.check(2, "x" * 24, 3, max_client_id_length_v31=23)
        self.check(0, "x" * 24, 4, max_client_id_length_v31=23)

    def test_the_user_name_as_client_id(self) -> None:
        """Only the name of a user who was authenticated: else anybody could be anybody."""
        world = World(username_as_client_id=True)
        client = world.open(4)
        client.connection.principal.user = "alice"
        client.send(p.connect("ignored", 4, username="mallory"))
        self.assertEqual(client.next("CONNACK").reason, 0)
        self.assertEqual(client.connection.client_id, "alice")
        self.check(5, "c", 4, username_as_client_id=True)
        packet = answer(
            p.connect("c", 5, username="alice", password=b"?"), 5, username_as_client_id=True
        )
        assert packet is not None
        self.assertEqual(packet.reason, 0x87)


class Offers(TestCase):
    """What differs from MQTT's default stands in the CONNACK; what does not is left out."""

    def props(self, connect: dict[str, Any] | None = None, **limits: Any) -> dict[int, Any]:
        packet = answer(p.connect("c", 5, **(connect or {})), 5, **limits)
        assert packet is not None
        return dict(packet.props)

    def test_limits(self) -> None:
        found = self.props(
            max_packet_size=1000,
            receive_maximum=7,
            max_topic_alias=3,
            max_qos=1,
            retain_available=False,
            wildcard_subscriptions=False,
            shared_subscriptions=False,
        )
        expected = {Prop.MAXIMUM_PACKET_SIZE: 1000, Prop.RECEIVE_MAXIMUM: 7}
        expected |= {Prop.TOPIC_ALIAS_MAXIMUM: 3, Prop.MAXIMUM_QOS: 1, Prop.RETAIN_AVAILABLE: 0}
        expected |= {Prop.WILDCARD_AVAILABLE: 0, Prop.SHARED_AVAILABLE: 0}
        self.assertEqual(found, expected)

    def test_defaults_of_mqtt_are_not_told(self) -> None:
        found = self.props(max_packet_size=1000, receive_maximum=65535, max_topic_alias=0)
        self.assertEqual(found, {Prop.MAXIMUM_PACKET_SIZE: 1000})

    def test_a_shorter_keep_alive(self) -> None:
        """[MQTT-3.2.2-21]"""
        found = self.props({"keepalive": 1000}, max_keepalive_s=60)
        self.assertEqual(found[Prop.SERVER_KEEP_ALIVE], 60)
        found = self.props({"keepalive": 0}, max_keepalive_s=60, allow_keepalive_off=False)
        self.assertEqual(found[Prop.SERVER_KEEP_ALIVE], 60)
        self.assertNotIn(Prop.SERVER_KEEP_ALIVE, self.props({"keepalive": 60}, max_keepalive_s=60))

    def test_a_keep_alive_that_version_3_cannot_be_told(self) -> None:
        packet = answer(p.connect("c", 4, keepalive=61), 4, max_keepalive_s=60)
        assert packet is not None
        self.assertEqual(packet.reason, 2)


class Refusals(TestCase):
    def code(self, connect: bytes, version: int, **limits: Any) -> int | None:
        packet = answer(connect, version, **limits)
        return None if packet is None else packet.reason

    def test_versions_that_are_switched_off(self) -> None:
        self.assertEqual(self.code(p.connect("c", 5), 5, versions=(4,)), 0x84)
        self.assertEqual(self.code(p.connect("c", 4), 4, versions=(5,)), 1)
        self.assertEqual(self.code(p.connect("c", 3), 3, versions=(4, 5)), 1)

    def test_an_unknown_version(self) -> None:
        """[MQTT-3.1.2-2]: in the form of 3.1.1 up to 5, in that of 5 above; shortly."""
        for name, level, version, code in (
            ("MQTT", 0, 4, 1),
            ("MQTT", 3, 4, 1),
            ("MQTT", 0x84, 4, 1),
            ("MQIsdp", 4, 4, 1),
            ("MQIsdp", 6, 4, 1),
            ("MQTT", 6, 5, 0x84),
            ("MQTT", 255, 5, 0x84),
        ):
            data = p.frame(0x10, p.utf8(name) + bytes([level]) + b"anything")
            packet = answer(data, version)
            assert packet is not None
            self.assertEqual((packet.reason, packet.props), (code, []), (name, level))

    def test_another_protocol(self) -> None:
        """[MQTT-3.1.2-1]"""
        self.assertIsNone(self.code(p.connect("c", 4, name="MQXX"), 4))

    def test_nobody_without_a_name(self) -> None:
        for version, code in ((4, 5), (5, 0x87)):
            self.assertEqual(
                self.code(p.connect("c", version), version, allow_anonymous=False), code
            )

    def test_wills_beyond_the_limits(self) -> None:
        will = p.connect("c", 5, will=("w", b"", 2, True))
        self.assertEqual(self.code(will, 5, max_qos=1), 0x9B)
        self.assertEqual(self.code(will, 5, retain_available=False), 0x9A)
        for wrong in ("", "w/#"):
            will = p.connect("c", 5, will=(wrong, b""))
            self.assertEqual(self.code(will, 5), 0x81)
            self.assertEqual(self.code(will, 5, mount_point="m/"), 0x81)
        self.assertEqual(self.code(p.connect("c", 5, will=("/" * 300, b"")), 5), 0x90)
        self.assertEqual(self.code(p.connect("c", 5, will=("$SYS/x", b"")), 5), 0x87)

    def test_a_will_that_is_too_long(self) -> None:
        will = p.connect("c", 5, will=("w", b"x" * 11))
        self.assertEqual(self.code(will, 5, message_size_limit=10), 0x95)
        self.assertEqual(self.code(will, 5, message_size_limit=11), 0)
        will = p.connect("c", 4, will=("w", b"x" * 11))
        self.assertIsNone(self.code(will, 4, message_size_limit=10))

    def test_no_room_for_a_connack(self) -> None:
        """[MQTT-3.1.2-24]: then nothing may be sent that is longer, and no session is touched."""
        for size in range(1, 16):
            world = World()
            old = world.client("c", 5)
            client = world.open(5)
            client.send(p.connect("c", 5, props=[(Prop.MAXIMUM_PACKET_SIZE, size)]))
            self.assertTrue(client.closed)
            self.assertLessEqual(len(client.outlet.data), size)
            self.assertFalse(old.closed)

    def test_refusals_are_counted_and_told(self) -> None:
        world = World(allow_anonymous=False)
        world.open(5).send(p.connect("c", 5))
        self.assertEqual(world.stats.connections_refused, 1)
        self.assertEqual(world.diary.lines[0][:2], ("refused", reasons.NOT_AUTHORIZED))
        self.assertEqual(world.hub.sessions, {})

    def test_no_words_for_those_who_do_not_want_them(self) -> None:
        """[MQTT-3.1.2-29] spares CONNACK and DISCONNECT, and everything else is silent."""
        world = World()
        client = world.client("c", 5, props=[(Prop.REQUEST_PROBLEM_INFO, 0)])
        client.send(p.publish("$SYS/x", b"", 1, 1, version=5))
        self.assertEqual(client.next("PUBACK").props, [])


class Echo:
    """An exchange of three steps: it repeats what it hears, and "no" fails."""

    def __init__(self, claim: Claim) -> None:
        self.steps = 0

    def step(self, data: bytes) -> Step:
        self.steps += 1
        if data == b"no":
            return failure("they said no")
        if self.steps < 3:
            return proceed(data)
        return success(Identity(data.decode(), "echo"), b"welcome")


class Exchanges(TestCase):
    """Enhanced authentication, section 4.12."""

    def setUp(self) -> None:
        self.world = World(allow_anonymous=False)
        self.world.hub.admission.methods["echo"] = Echo

    def begin(self, data: bytes = b"1", **connect: Any) -> Client:
        client = self.world.open(5)
        props = [(Prop.AUTH_METHOD, "echo"), (Prop.AUTH_DATA, data)]
        client.send(p.connect("c", 5, props=props, **connect))
        return client

    def auth(self, client: Client, data: bytes, reason: int = 0x18, method: str = "echo") -> None:
        client.send(p.auth(reason, [(Prop.AUTH_METHOD, method), (Prop.AUTH_DATA, data)]))

    def finish(self, client: Client, name: bytes = b"alice") -> Packet:
        client.next("AUTH")
        self.auth(client, b"2")
        client.next("AUTH")
        self.auth(client, name)
        return client.next("CONNACK")

    def test_to_its_good_end(self) -> None:
        client = self.begin()
        self.assertEqual(client.outlet.data[0] >> 4, 15)
        connack = self.finish(client)
        self.assertEqual((connack.reason, connack.prop(Prop.AUTH_DATA)), (0, b"welcome"))
        self.assertEqual(client.session.principal.user, "alice")

    def test_each_step_carries_the_data(self) -> None:
        client = self.begin(b"first")
        packet = client.next("AUTH")
        self.assertEqual((packet.reason, packet.prop(Prop.AUTH_DATA)), (0x18, b"first"))

    def test_to_its_bad_end(self) -> None:
        client = self.begin()
        client.take()
        self.auth(client, b"no")
        self.assertEqual((client.next("CONNACK").reason, client.closed), (0x87, True))
        self.assertEqual(self.world.hub.sessions, {})

    def test_nothing_else_before_it_is_over(self) -> None:
        """[MQTT-3.1.2-30]"""
        for data in (p.pingreq(), p.publish("t", b"", version=5), p.connect("c", 5)):
            client = self.begin()
            client.take()
            client.send(data)
            self.assertEqual((client.next("CONNACK").reason, client.closed), (0x82, True))

    def test_the_client_may_give_up(self) -> None:
        client = self.begin()
        client.take()
        client.send(p.disconnect())
        self.assertEqual((client.closed, client.take()), (True, []))

    def test_a_node_that_leaves_meanwhile(self) -> None:
        client = self.begin()
        self.world.hub.evacuate("elsewhere")
        connack = self.finish(client)
        self.assertEqual((connack.reason, client.closed), (0x9D, True))
        self.assertEqual(connack.prop(Prop.SERVER_REFERENCE), "elsewhere")
        self.assertEqual(self.world.hub.sessions, {})

    def test_it_takes_no_longer_than_connect_may(self) -> None:
        client = self.begin()
        self.world.wait(11)
        self.assertTrue(client.closed)

    def test_another_method_half_way(self) -> None:
        """[MQTT-4.12.0-5]"""
        client = self.begin()
        client.take()
        self.auth(client, b"2", method="other")
        self.assertEqual(client.next("CONNACK").reason, 0x82)

    def test_again_while_connected(self) -> None:
        """[MQTT-4.12.1-1]: work goes on meanwhile."""
        client = self.begin()
        self.finish(client)
        self.auth(client, b"1", 0x19)
        client.send(p.pingreq())
        client.next("AUTH")
        client.next("PINGRESP")
        self.auth(client, b"2")
        client.next("AUTH")
        self.auth(client, b"alice")
        self.assertEqual(client.next("AUTH").reason, 0)

    def test_again_as_somebody_else(self) -> None:
        client = self.begin()
        self.finish(client)
        for data, reason in ((b"1", 0x19), (b"2", 0x18), (b"mallory", 0x18)):
            self.auth(client, data, reason)
        self.assertEqual(client.take()[-1].reason, reasons.NOT_AUTHORIZED)
        self.assertTrue(client.closed)

    def test_auth_out_of_place(self) -> None:
        client = self.begin()
        self.finish(client)
        self.auth(client, b"", 0x18)
        self.assertEqual(client.next("DISCONNECT").reason, 0x82)
        plain = World().client("c", 5)
        plain.send(p.auth(0x19, [(Prop.AUTH_METHOD, "echo")]))
        self.assertEqual(plain.next("DISCONNECT").reason, 0x82)


class SessionCaps(TestCase):
    """max_sessions, of the broker and of a listener: no new ones beyond, old ones as ever."""

    def join(self, world: World, client_id: str, listener: str = "l", **connect: Any) -> Packet:
        version = connect.pop("version", 4)
        client = world.open(version)
        client.connection.principal.listener = listener
        client.send(p.connect(client_id, version, **connect))
        self.client = client
        return client.next("CONNACK")

    def test_a_new_session_is_refused(self) -> None:
        world = World(max_sessions=2)
        self.join(world, "a")
        self.join(world, "b", clean=False)
        self.client.lose()
        self.assertEqual(self.join(world, "c").reason, 3)
        self.assertEqual(self.join(world, "c", version=5).reason, 0x97)
        self.assertEqual(self.join(world, "", version=5).reason, 0x97)
        self.assertEqual(world.stats.sessions_refused, 3)
        self.assertEqual({*world.hub.sessions}, {"a", "b"})

    def test_who_has_one_gets_it(self) -> None:
        """Connected or not, clean or not."""
        world = World(max_sessions=2)
        self.join(world, "a")
        self.join(world, "b", clean=False)
        self.client.lose()
        for clean in (False, True):
            self.assertEqual(self.join(world, "b", clean=clean).reason, 0)
        self.assertEqual(self.join(world, "a", clean=False).reason, 0)
        self.assertEqual(world.stats.sessions_refused, 0)

    def test_one_that_has_ended_makes_room(self) -> None:
        world = World(max_sessions=1)
        self.join(world, "a")
        self.client.lose()
        self.assertEqual(self.join(world, "b").reason, 0)

    def test_a_listener_counts_its_own(self) -> None:
        world = World(max_listener_sessions=1)
        self.join(world, "a", "one", clean=False)
        first = self.client
        self.assertEqual(self.join(world, "b", "one").reason, 3)
        self.assertEqual(self.join(world, "b", "two").reason, 0)
        self.assertEqual(self.join(world, "c", "two").reason, 3)
        first.lose()
        self.assertEqual(self.join(world, "c", "one").reason, 3)
        self.assertEqual(self.join(world, "a", "two", clean=False).reason, 0)  # it moves
        self.assertEqual(world.hub.sessions_at, {"one": 0, "two": 2})
        self.assertEqual(self.join(world, "c", "one").reason, 0)

    def test_counts_are_right_after_any_of_them_ended(self) -> None:
        world = World()
        for number in range(9):
            self.join(world, f"c{number % 4}", f"l{number % 3}", clean=number % 2 == 0)
        counted = dict.fromkeys(("l0", "l1", "l2"), 0)
        for session in world.hub.sessions.values():
            counted[session.principal.listener] += 1
        self.assertEqual(world.hub.sessions_at, counted)
        for session in list(world.hub.sessions.values()):
            world.hub.end_session(session)
        self.assertEqual({*world.hub.sessions_at.values()}, {0})
