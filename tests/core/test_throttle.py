"""Clients that are faster than they may be: what waits, what is dropped, who has to go."""

import random
from dataclasses import fields
from typing import Any
from unittest import TestCase

from mhub.core import events
from mhub.core.authentication import Claim, Later, Step, success
from mhub.core.connection import RATE
from mhub.core.limits import Limits
from mhub.core.principal import Identity, Principal
from mhub.core.quota import Quota
from mhub.wire import reasons
from tests.core.world import Client, World
from tests.helpers import packets as p
from tests.helpers.packets import Prop


class Trusting:
    """Believes every user name, of which `tenant/user` has both."""

    def authenticate(self, claim: Claim) -> Step | Later:
        tenant, _, user = (claim.username or "").rpartition("/")
        identity = Identity(user, "trust")
        identity.tenant = tenant
        return success(identity)


def numbered(count: int, qos: int = 0, topic: str = "t", first: int = 0) -> bytes:
    return b"".join(
        p.publish(topic, b"%d" % n, qos, n % 60_000 + 1 if qos else None)
        for n in range(first, first + count)
    )


def numbers(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


class Case(TestCase):
    def build(self, **options: Any) -> None:
        self.world = World(sys_interval_s=0, **options)
        self.world.hub.admission.authenticator = Trusting()
        self.bystander = self.world.client("bystander", limits=OFF)
        self.bystander.subscribe("#", 0)

    def client(self, client_id: str = "c", user: str = "", version: int = 4, **rest: Any) -> Client:
        if user:
            rest["username"] = user
        return self.world.client(client_id, version, **rest)

    def heard(self, seconds: float = 0.0) -> int:
        """How many messages pass, after this time."""
        if seconds:
            self.world.wait(seconds, max(1, round(seconds * 4)))
        return len(self.bystander.payloads())

    def limited(self, limit: int) -> int:
        count: int = self.world.stats.limited[limit]
        return count


OFF = {
    field.name: 0
    for field in fields(Limits)
    if field.name.startswith("max_") and field.name.endswith("_per_s")
}


class DelayTests(Case):
    def test_what_is_too_fast_waits_and_nothing_is_lost_or_reordered(self) -> None:
        self.build(max_messages_per_s=20)
        client = self.client()
        client.send(numbered(100))
        self.assertEqual(self.bystander.payloads(), numbers(20))
        self.assertFalse(client.outlet.reading)
        self.assertEqual(client.connection.paused, RATE)
        rest = []
        for _ in range(15):
            self.world.wait(0.25)
            found = self.bystander.payloads()
            self.assertEqual(len(found), 5)
            rest += found
        self.world.wait(1, 4)
        rest += self.bystander.payloads()
        self.assertEqual(numbers(20) + rest, numbers(100))
        self.assertTrue(client.outlet.reading)
        self.assertEqual(client.connection.paused, 0)

    def test_qos_1_is_acknowledged_when_it_has_passed(self) -> None:
        self.build(max_messages_per_s=10)
        client = self.client()
        client.send(numbered(15, 1))
        self.assertEqual(len(client.take()), 10)
        self.world.wait(1, 4)
        self.assertEqual([packet.pid for packet in client.take()], [11, 12, 13, 14, 15])

    def test_whoever_is_slow_enough_never_waits(self) -> None:
        self.build(max_messages_per_s=20)
        client = self.client()
        for _ in range(200):
            client.send(numbered(4))
            self.world.wait(0.25)
        self.assertEqual(self.heard(), 800)
        self.assertEqual(self.limited(events.MESSAGES), 0)
        self.assertIsNone(client.connection.limited)

    def test_a_packet_that_came_in_parts(self) -> None:
        self.build(max_messages_per_s=1)
        client = self.client()
        data = numbered(3)
        for n in range(len(data)):
            client.send(data[n : n + 1])
            if not client.outlet.reading:
                break
        client.send(data[n + 1 :])  # as at the end of a connection, that is read all the same
        self.assertEqual((self.heard(), self.limited(events.MESSAGES)), (1, 1))
        self.assertEqual(self.heard(2.5), 2)

    def test_nothing_else_makes_it_go_on(self) -> None:
        self.build(max_messages_per_s=1)
        client = self.client()
        client.send(numbered(10))
        self.world.now += 0.9  # there are tokens, and no tick has shared them out
        for _ in range(3):
            self.world.hub.continue_later(client.connection)
            self.world.turn()
        self.assertEqual((self.heard(), self.limited(events.MESSAGES)), (1, 1))
        self.assertFalse(client.outlet.reading)

    def test_bytes(self) -> None:
        self.build(max_bytes_per_s=1000)
        client = self.client()
        client.send(p.publish("t", bytes(495)) * 10)  # 501 bytes each
        self.assertEqual(self.heard(), 2)
        self.assertEqual(self.heard(8.0), 8)
        self.assertGreater(self.limited(events.BYTES), 0)

    def test_other_packets_cost_bytes_too(self) -> None:
        self.build(max_bytes_per_s=100)
        client = self.client()
        client.send(p.pingreq() * 100)
        self.assertEqual(len(client.take()), 50)
        self.world.wait(1, 4)
        self.assertEqual(len(client.take()), 50)

    def test_it_is_counted_and_told(self) -> None:
        self.build(max_messages_per_s=1)
        client = self.client()
        client.send(numbered(3))
        self.world.wait(5, 20)
        self.assertEqual(self.limited(events.MESSAGES), 1)
        self.assertEqual(client.connection.limited, {events.MESSAGES: 1})
        (event,) = self.world.diary.of(events.LIMITED)
        self.assertEqual(
            (event.client_id, event.cause, event.is_first), ("c", "limits.max_messages_per_s", True)
        )
        for _ in range(2):
            client.send(numbered(3))
            self.world.wait(8, 32)
        self.assertEqual(client.connection.limited, {events.MESSAGES: 3})
        self.assertEqual(sum(event.count for event in self.world.diary.of(events.LIMITED)), 3)

    def test_a_client_that_goes_away_while_it_waits(self) -> None:
        self.build(max_messages_per_s=1)
        client = self.client()
        client.send(numbered(10))
        client.lose()
        self.world.wait(20, 80)
        self.assertEqual(self.heard(), 1)
        throttle = self.world.hub.throttle
        self.assertEqual((throttle.awaited, throttle.clients, throttle.gone), ({}, {}, {}))

    def test_to_connect_again_does_not_help(self) -> None:
        self.build(max_messages_per_s=10)
        for _ in range(5):
            client = self.client()
            client.send(numbered(100))
            client.lose()
        self.assertEqual(self.heard(), 10)

    def test_a_disconnect_behind_what_waits_is_read_in_its_turn(self) -> None:
        self.build(max_messages_per_s=2)
        client = self.client(will=("will", b"gone"))
        client.send(numbered(6), p.disconnect())
        self.assertFalse(client.closed)
        self.assertEqual(self.heard(3.0), 6)
        self.assertTrue(client.closed)  # and the will was taken back

    def test_a_bystander_is_served_meanwhile(self) -> None:
        self.build(max_messages_per_s=1)
        self.client().send(numbered(1000))
        free = self.client("free", limits=OFF)
        free.send(numbered(1000))
        self.assertEqual(self.heard(), 1001)

    def test_without_limits_there_is_no_meter(self) -> None:
        self.build()
        self.assertIsNone(self.client(user="acme/alice").connection.meter)


class KeepaliveTests(Case):
    def test_who_is_not_read_from_is_not_given_up(self) -> None:
        """Its PINGREQ lies in the socket."""
        self.build(max_messages_per_s=1)
        client = self.client(keepalive=2)
        client.send(numbered(10))
        self.world.wait(8, 32)
        self.assertFalse(client.closed)
        self.assertEqual(self.heard(), 9)

    def test_nor_if_its_next_message_may_pass_much_later(self) -> None:
        self.build(max_messages_per_s=0.05)
        client = self.client(keepalive=2)
        client.send(numbered(2))
        self.world.wait(18, 72)
        self.assertFalse(client.closed)
        self.assertEqual(self.heard(2.5), 2)

    def test_it_counts_again_when_it_is_read_from(self) -> None:
        self.build(max_messages_per_s=1)
        client = self.client(keepalive=2)
        client.send(numbered(3))
        self.world.wait(1.25, 5)
        self.assertTrue(client.outlet.reading)
        self.world.wait(2.75, 11)
        self.assertFalse(client.closed)
        self.world.wait(0.75, 3)
        self.assertTrue(client.closed)
        self.assertEqual(self.world.stats.keepalive_timeouts, 1)


class SharedTests(Case):
    """All connections of a user, a tenant, a listener."""

    def test_user(self) -> None:
        self.build(max_user_messages_per_s=10)
        clients = [self.client(f"c{n}", "alice") for n in range(2)]
        other = self.client("other", "bob")
        for client in (*clients, other):
            client.send(numbered(100))
        self.assertEqual(self.heard(), 20)
        self.assertGreater(self.limited(events.USER_MESSAGES), 0)

    def test_it_is_shared_out_equally(self) -> None:
        self.build(max_user_messages_per_s=40)
        for n in range(4):
            self.client(f"c{n}", "alice").send(numbered(500, topic=f"t/{n}"))
        self.bystander.payloads()
        total = [0] * 4
        for _ in range(40):
            self.world.wait(0.25)
            topics = [packet.topic for packet in self.bystander.take()]
            each = [topics.count(f"t/{n}") for n in range(4)]
            self.assertEqual(sum(each), 10)
            total = [before + new for before, new in zip(total, each, strict=True)]
            self.assertLessEqual(max(total) - min(total), 3, total)

    def test_a_user_that_was_not_proved_is_none(self) -> None:
        self.build(max_user_messages_per_s=1)
        self.world.hub.admission.authenticator = None
        self.client(user="alice").send(numbered(50))
        self.assertEqual(self.heard(), 50)

    def test_tenant(self) -> None:
        self.build(max_tenant_messages_per_s=10)
        for name in ("acme/alice", "acme/bob", "other/eve", "nobody"):
            self.client(name, name).send(numbered(30))
        self.assertEqual(self.heard(), 10 + 10 + 30)

    def test_tenant_bytes(self) -> None:
        self.build(max_tenant_bytes_per_s=1000)
        for name in ("acme/alice", "acme/bob"):
            self.client(name, name).send(p.publish("t", bytes(95)) * 20)
        self.assertEqual(self.heard(), 10)
        self.assertGreater(self.limited(events.TENANT_BYTES), 0)

    def test_listener(self) -> None:
        self.build(max_listener_messages_per_s=10)
        for n in range(3):
            self.client(f"c{n}").send(numbered(30))
        self.assertEqual(self.heard(), 10)
        self.assertEqual(self.heard(8.0), 80)

    def test_several_limits_at_once(self) -> None:
        """Each holds: of two clients with 10 a second, their user has 15."""
        self.build(max_messages_per_s=10, max_user_messages_per_s=15)
        clients = [self.client(f"c{n}", "alice") for n in range(2)]
        for client in clients:
            client.send(numbered(200))
        self.assertEqual(self.heard(), 15)
        self.assertEqual(self.heard(10.0), 150)


class RandomTests(Case):
    """Any limits, clients, sizes and moments."""

    def test_nothing_is_lost_or_reordered_and_no_rate_is_passed(self) -> None:
        for seed in range(40):
            self.run_one(random.Random(seed))

    def run_one(self, rng: random.Random) -> None:
        limits: dict[str, Any] = {}
        for scope in ("", "user_", "tenant_", "listener_"):
            if rng.random() < 0.6:
                limits[f"max_{scope}messages_per_s"] = rng.choice((0.7, 3, 20, 150))
            if rng.random() < 0.6:
                limits[f"max_{scope}bytes_per_s"] = rng.choice((300, 2000, 20_000))
        limits["rate_burst_s"] = rng.choice((0.5, 1.0, 5.0))
        self.build(work_per_turn=rng.choice((5, 20_000)), **limits)
        users = [f"{rng.choice('xy')}/{rng.choice('ab')}" for _ in range(4)]
        clients = [self.client(f"c{n}", user) for n, user in enumerate(users)]
        sent = [0] * 4
        found: list[list[int]] = [[] for _ in clients]
        passed: list[tuple[float, int, int]] = []  # when, whose, how many bytes
        begin = self.world.now
        for turn in range(600):
            for n, client in enumerate(clients):
                if turn < 40 and client.outlet.reading and rng.random() < 0.4:
                    pieces = []
                    for _ in range(rng.randrange(12)):
                        data = b"%d " % sent[n] + bytes(rng.choice((0, 50, 700)))
                        qos = rng.randrange(2)
                        pid = sent[n] % 60_000 + 1 if qos else None
                        pieces.append(p.publish(f"t/{n}", data, qos, pid))
                        sent[n] += 1
                    client.send(*pieces)
            self.world.wait(rng.choice((0.25, 0.25, 0.3, 1.0)))
            self.world.settle()
            for packet in self.bystander.take():
                n = int(packet.topic[2:])
                found[n].append(int(packet.payload.split(b" ")[0]))
                passed.append((self.world.now, n, len(packet.payload)))
        for n, client in enumerate(clients):
            done = len(found[n])
            self.assertEqual(found[n], list(range(done)), limits)
            self.assertEqual(done == sent[n], client.outlet.reading, limits)
        elapsed_s = self.world.now - begin
        most = limits.get("max_listener_messages_per_s")
        if most:
            self.assertLessEqual(
                len(passed), most * (elapsed_s + limits["rate_burst_s"]) + 1, limits
            )
        most = limits.get("max_messages_per_s")
        for numbers_of_one in found if most else ():
            self.assertLessEqual(
                len(numbers_of_one), most * (elapsed_s + limits["rate_burst_s"]) + 1, limits
            )


class DropTests(Case):
    def test_qos_0_is_dropped_and_reading_goes_on(self) -> None:
        self.build(max_messages_per_s=5, over_messages_per_s="drop")
        client = self.client()
        client.send(numbered(20), p.pingreq())
        self.assertEqual(self.bystander.payloads(), numbers(5))
        self.assertEqual(client.take()[-1].type, "PINGRESP")
        self.assertTrue(client.outlet.reading)
        stats = self.world.stats
        self.assertEqual((stats.dropped_rate, stats.publish_received), (15, 20))
        self.assertEqual(client.connection.limited, {events.MESSAGES: 15})

    def test_others_are_delayed(self) -> None:
        self.build(max_messages_per_s=5, over_messages_per_s="drop")
        client = self.client()
        client.send(numbered(10, 1))
        self.assertEqual(self.heard(), 5)
        self.assertEqual(self.heard(1.25), 5)
        self.assertEqual(self.world.stats.dropped_rate, 0)

    def test_the_alias_of_a_dropped_message_counts(self) -> None:
        self.build(max_messages_per_s=1, over_messages_per_s="drop")
        client = self.client(version=5)
        alias = [(Prop.TOPIC_ALIAS, 1)]
        client.send(
            p.publish("t", b"1", version=5), p.publish("long/topic", b"2", version=5, props=alias)
        )
        self.world.wait(1, 4)
        client.send(p.publish("", b"3", version=5, props=alias))
        self.assertEqual(
            [(found.topic, found.payload) for found in self.bystander.take()],
            [("t", b"1"), ("long/topic", b"3")],
        )


class DisconnectTests(Case):
    def test_too_many_messages(self) -> None:
        self.build(max_messages_per_s=5, over_messages_per_s="disconnect")
        client = self.client(version=5)
        client.send(p.publish("t", b"x", version=5) * 10)
        self.assertEqual(client.next("DISCONNECT").reason, reasons.MESSAGE_RATE_TOO_HIGH)
        self.assertTrue(client.closed)
        self.assertEqual((self.heard(), self.limited(events.MESSAGES)), (5, 1))

    def test_too_many_bytes(self) -> None:
        self.build(max_bytes_per_s=100, over_bytes_per_s="disconnect")
        client = self.client(version=5)
        client.send(p.publish("t", bytes(60), version=5) * 10)
        self.assertEqual(client.next("DISCONNECT").reason, reasons.QUOTA_EXCEEDED)


class OutputTests(Case):
    def subscriber(self, **limits: Any) -> Client:
        self.build()
        subscriber = self.client("s", limits={"max_messages_out_per_s": 10, **limits})
        subscriber.subscribe("t", 1)
        self.publisher = self.client("p")
        return subscriber

    def test_messages_wait_in_the_queue(self) -> None:
        subscriber = self.subscriber()
        self.publisher.send(numbered(35))
        self.assertEqual(subscriber.payloads(), numbers(10))
        self.assertEqual(subscriber.session.queued(), 25)
        self.assertEqual(self.world.hub.unfinished, [])  # nobody goes round in circles
        found = []
        for _ in range(12):
            self.world.wait(0.25)
            found += subscriber.payloads()
        self.assertEqual(found, numbers(35)[10:])
        self.assertEqual(self.limited(events.MESSAGES_OUT), len([1 for _ in range(10)]))

    def test_the_publisher_does_not_notice(self) -> None:
        self.subscriber()
        self.publisher.send(numbered(1000))
        self.assertTrue(self.publisher.outlet.reading)
        self.assertEqual(self.heard(), 1000)

    def test_order_with_both_qos(self) -> None:
        subscriber = self.subscriber()
        sent = numbers(40)
        for n, payload in enumerate(sent):
            self.publisher.publish("t", payload, n % 2)
        found = []
        for _ in range(20):
            for packet in subscriber.take():
                found.append(packet.payload)
                if packet.qos:
                    subscriber.send(p.puback(packet.pid))
            self.world.wait(0.25)
        self.assertEqual(found, sent)

    def test_retained_messages_count(self) -> None:
        subscriber = self.subscriber()
        for n in range(30):
            self.publisher.publish(f"r/{n}", b"x", retain=True)
        subscriber.subscribe("r/#")
        self.world.settle()
        self.assertEqual(len(subscriber.payloads()), 10)
        self.world.wait(2.25, 9)
        self.assertEqual(len(subscriber.payloads()), 20)

    def test_drop(self) -> None:
        subscriber = self.subscriber(over_messages_out_per_s="drop")
        self.publisher.send(numbered(30), numbered(5, 1, first=30))
        self.assertEqual(subscriber.payloads(), numbers(10))
        self.world.wait(1, 4)
        self.assertEqual(subscriber.payloads(), numbers(35)[30:])
        self.assertEqual(self.world.stats.dropped_rate, 20)

    def test_disconnect(self) -> None:
        self.build()
        subscriber = self.client(
            "s",
            version=5,
            limits={"max_messages_out_per_s": 10, "over_messages_out_per_s": "disconnect"},
        )
        subscriber.subscribe("t", 0)
        self.client("p").send(numbered(30))
        self.assertEqual(
            [packet.type for packet in subscriber.take()], ["PUBLISH"] * 10 + ["DISCONNECT"]
        )
        self.assertTrue(subscriber.closed)


class TopicTests(Case):
    def check(self, allowed: bool, topic: str, **limits: Any) -> None:
        self.build(**limits)
        client = self.client(version=5)
        client.publish(topic)
        self.assertEqual(client.closed, not allowed)
        if not allowed:
            self.assertEqual(client.next("DISCONNECT").reason, reasons.TOPIC_NAME_INVALID)

    def test_length(self) -> None:
        self.check(True, "ä" * 5, max_topic_length=10)
        self.check(False, "ä" * 5 + "x", max_topic_length=10)
        self.assertEqual(self.limited(events.TOPIC_LENGTH), 1)

    def test_levels_of_a_client_that_may_have_fewer(self) -> None:
        for topic, allowed in (("a/b/c", True), ("a/b/c/d", False), ("////", False)):
            self.build()
            client = self.client(limits={"max_topic_levels": 3})
            client.publish(topic)
            self.assertEqual(client.closed, not allowed, topic)

    def test_filters_are_refused_one_by_one(self) -> None:
        self.build()
        client = self.client(version=5, limits={"max_topic_levels": 3, "max_topic_length": 10})
        client.send(
            p.subscribe(
                1, ("a/+/#", 0), ("a/b/c/#", 0), ("x" * 11, 0), ("$share/g/a", 0), version=5
            )
        )
        no = reasons.TOPIC_FILTER_INVALID
        self.assertEqual(client.next("SUBACK").reasons, [0, no, no, 0])

    def test_filters_beyond_what_all_clients_may_have(self) -> None:
        """The same answer as for a limit of one listener: the connection stays."""
        self.build(max_topic_levels=3)
        client = self.client(version=5, limits={"max_topic_levels": 9})
        client.send(p.subscribe(1, ("a/+/#", 0), ("a/b/c/#", 0), version=5))
        self.assertEqual(client.next("SUBACK").reasons, [0, reasons.TOPIC_FILTER_INVALID])
        self.assertEqual(self.limited(events.TOPIC_LEVELS), 1)

    def test_wills(self) -> None:
        for topic in ("x" * 11, "a/b/c/d"):
            self.build()
            client = self.world.open(5, max_topic_levels=3, max_topic_length=10)
            client.send(p.connect("c", 5, will=(topic, b"x")))
            self.assertEqual(client.next("CONNACK").reason, reasons.TOPIC_NAME_INVALID)


class QuotaTests(Case):
    """Limits of users, in the place of the listener's, also while they are connected."""

    def build(self, **options: Any) -> None:
        super().build(**options)
        self.quotas: dict[str, Quota] = {}
        self.world.hub.quota_of = self.quota_of

    def quota_of(self, principal: Principal) -> Quota | None:
        return self.quotas.get(principal.user)

    def change(self, user: str, **values: Any) -> None:
        self.quotas[user] = Quota(values)
        self.world.hub.quotas_changed({user})
        self.world.wait(0.25)

    def test_at_connect(self) -> None:
        self.build(max_messages_per_s=5)
        self.quotas["alice"] = Quota({"max_messages_per_s": 50.0})
        self.client("a", "alice").send(numbered(100))
        self.client("b", "bob").send(numbered(100))
        self.assertEqual(self.heard(), 55)

    def test_a_user_may_have_none(self) -> None:
        self.build(max_messages_per_s=5)
        self.quotas["alice"] = Quota({"max_messages_per_s": 0.0})
        client = self.client("a", "alice")
        self.assertIsNone(client.connection.meter)

    def test_clients_with_the_same_quota_share_their_limits(self) -> None:
        self.build()
        self.quotas["alice"] = Quota({"message_size_limit": 5})
        limits = Limits(max_qos=1)
        found = []
        for n in range(2):
            client = Client(self.world, 4, limits)
            client.send(p.connect(f"c{n}", username="alice"))
            found.append(client.connection.limits)
        self.assertIs(found[0], found[1])
        self.assertEqual((found[0].max_qos, found[0].message_size_limit), (1, 5))

    def test_a_limit_comes_to_a_client_that_had_none(self) -> None:
        self.build()
        client = self.client("a", "alice")
        client.send(numbered(100))
        self.assertEqual(self.heard(), 100)
        self.change("alice", max_messages_per_s=10.0)
        client.send(numbered(100))
        self.assertEqual(self.heard(), 10)

    def test_one_that_waits_goes_on_when_its_limit_is_gone(self) -> None:
        self.build(max_messages_per_s=10)
        client = self.client("a", "alice")
        client.send(numbered(100))
        self.assertEqual(self.heard(), 10)
        self.change("alice", max_messages_per_s=0.0)
        self.world.settle()
        self.assertEqual(self.bystander.payloads()[-1], b"99")
        self.assertTrue(client.outlet.reading)

    def test_one_that_waits_gets_a_lower_limit(self) -> None:
        self.build(max_messages_per_s=100)
        client = self.client("a", "alice")
        client.send(numbered(500))
        self.change("alice", max_messages_per_s=4.0)
        self.world.settle()
        self.heard()
        self.assertEqual(self.heard(5.0), 20)

    def test_output_that_waits_goes_on(self) -> None:
        self.build(max_messages_out_per_s=5)
        client = self.client("a", "alice")
        client.subscribe("t")
        self.client("p", limits=OFF).send(numbered(50))
        self.assertEqual(len(client.payloads()), 5)
        self.change("alice", max_messages_out_per_s=0.0)
        self.world.settle()
        self.assertEqual(len(client.payloads()), 45)

    def test_other_limits_change_as_well(self) -> None:
        self.build()
        client = self.client("a", "alice", version=5)
        self.change("alice", message_size_limit=3, max_subscriptions=1)
        client.send(p.publish("t", b"long", 1, 1, version=5))
        self.assertEqual(client.next("PUBACK").reason, reasons.IMPLEMENTATION_SPECIFIC)
        client.subscribe("x")
        self.assertEqual(client.subscribe("y").reasons, [reasons.QUOTA_EXCEEDED])

    def test_the_bound_of_its_queue_changes_as_well(self) -> None:
        self.build()
        client = self.client("a", "alice")
        client.subscribe("t", 1)
        self.change("alice", max_queued_messages=3)
        client.outlet.full = True
        client.send(p.pingreq())
        self.client("p").send(numbered(10, 1))
        self.assertEqual(client.session.queued(), 3)

    def test_authentication_again(self) -> None:
        """With other roles come other limits."""
        self.build()

        class Exchange:
            def step(self, data: bytes) -> Step | Later:
                return success(Identity("alice", "m"))

        self.world.hub.admission.methods["m"] = lambda claim: Exchange()
        self.quotas["alice"] = Quota({"max_messages_per_s": 1.0})
        client = self.world.client("c", 5, props=[(Prop.AUTH_METHOD, "m")])
        self.assertIsNotNone(client.connection.meter)
        self.quotas["alice"] = Quota({})
        client.send(p.auth(reasons.REAUTHENTICATE, [(Prop.AUTH_METHOD, "m")]))
        self.assertIsNone(client.connection.meter)

    def test_of_everybody_in_slices(self) -> None:
        self.build()
        clients = [self.client(f"c{n}", f"u{n}") for n in range(20)]
        for n in range(20):
            self.quotas[f"u{n}"] = Quota({"max_messages_per_s": 1.0})
        self.world.hub.quotas_changed(None)
        self.world.wait(0.25)
        self.assertNotIn(None, [client.connection.meter for client in clients])
        self.assertEqual(self.world.hub.quota_reviews, [])

    def test_while_others_change(self) -> None:
        """A walk that is under way comes to its end, however often there is another change."""
        self.build()
        self.world.hub.sessions_per_tick = 3
        clients = [self.client(f"c{n}", f"u{n}") for n in range(20)]
        for n in range(20):
            self.quotas[f"u{n}"] = Quota({"max_messages_per_s": 1.0})
            self.world.hub.quotas_changed({f"u{n}"})
            if n % 3 == 0:
                self.world.wait(0.25)
        ticks = 0
        while self.world.hub.quota_reviews:
            self.world.wait(0.25)
            ticks += 1
        self.assertLess(ticks, 30)
        self.assertNotIn(None, [client.connection.meter for client in clients])
