"""How many connections, sessions, subscriptions and retained messages a user and a tenant have."""

from typing import Any
from unittest import TestCase

from mhub.core import events
from mhub.core.channel_records import read_record, record_of
from mhub.core.principal import Principal
from mhub.core.records import message as record_of_message
from mhub.core.records import publish_of
from mhub.store.jsonl import _message, _show_message
from mhub.wire import reasons
from mhub.wire.publish import Publish
from tests.core.test_journal import DiskCase
from tests.core.test_throttle import Trusting
from tests.core.world import Client, World
from tests.helpers import packets as p
from tests.helpers.packets import Prop

FULL = reasons.QUOTA_EXCEEDED


class Case(TestCase):
    def build(self, **options: Any) -> None:
        self.world = World(sys_interval_s=0, **options)
        self.hub = self.world.hub
        self.hub.admission.authenticator = Trusting()

    def client(self, client_id: str, user: str, **connect: Any) -> Client:
        return self.world.client(client_id, 5, username=user, **connect)

    def refused(self, client_id: str, user: str, **connect: Any) -> int:
        """The reason why a client is not let in."""
        client = self.world.open(5)
        client.send(p.connect(client_id, 5, username=user, **connect))
        packet = client.next("CONNACK")
        assert packet.reason, packet
        self.assertTrue(client.closed)
        return packet.reason

    def numbers(self, user: str) -> tuple[int, int, int, int]:
        found = self.hub.accounts.users[user]
        return found.connections, found.sessions, found.subscriptions, found.retained

    def limited(self, limit: int) -> int:
        count: int = self.world.stats.limited[limit]
        return count


class CountTests(Case):
    """Whatever happens, the numbers are those that a count would find."""

    def setUp(self) -> None:
        self.build()

    def test_a_life(self) -> None:
        client = self.client("c", "acme/alice", clean=False, props=[(Prop.SESSION_EXPIRY, 100)])
        self.assertEqual(self.numbers("alice"), (1, 1, 0, 0))
        client.subscribe("a")
        client.subscribe("b")
        client.subscribe("b")
        self.assertEqual(self.numbers("alice"), (1, 1, 2, 0))
        client.send(p.unsubscribe(9, "a", version=5))
        client.publish("r", b"x", retain=True)
        self.assertEqual(self.numbers("alice"), (1, 1, 1, 1))
        tenant = self.hub.accounts.tenants["acme"]
        self.assertEqual(
            (tenant.connections, tenant.sessions, tenant.subscriptions, tenant.retained),
            (1, 1, 1, 1),
        )
        client.lose()
        self.assertEqual(self.numbers("alice"), (0, 1, 1, 1))
        self.world.wait(101)
        self.assertEqual(self.numbers("alice"), (0, 0, 0, 1))

    def test_nobody_is_kept_without_a_reason(self) -> None:
        client = self.client("c", "alice")
        client.publish("r", b"x", retain=True)
        client.lose()
        self.world.wait(60)
        self.assertIn("alice", self.hub.accounts.users)
        self.client("d", "bob").publish("r", b"", retain=True)
        self.hub.sessions["d"].connection.lost("")  # type: ignore[union-attr]
        self.world.wait(60)
        self.assertEqual(self.hub.accounts.users, {})

    def test_anonymous_clients_have_no_account(self) -> None:
        self.hub.admission.authenticator = None
        client = self.world.client("c", 4, username="alice")
        client.subscribe("a")
        self.assertEqual((self.hub.accounts.users, client.session.counted), ({}, None))

    def test_a_takeover(self) -> None:
        for _ in range(3):
            self.client("c", "alice")
        self.assertEqual(self.numbers("alice"), (1, 1, 0, 0))

    def test_a_session_that_changes_hands(self) -> None:
        """Another user with the same client id gets a new session."""
        self.client("c", "alice", clean=False).subscribe("a")
        self.client("c", "bob", clean=False)
        self.assertEqual(self.numbers("alice"), (0, 0, 0, 0))
        self.assertEqual(self.numbers("bob"), (1, 1, 0, 0))

    def test_who_is_another_tenant_now(self) -> None:
        client = self.client("c", "acme/alice")
        principal = Principal("", "")
        principal.user, principal.tenant = "alice", "other"
        self.hub.set_principal(client.session, principal)
        tenants = self.hub.accounts.tenants
        self.assertEqual((tenants["acme"].connections, tenants["other"].connections), (0, 1))
        self.assertEqual(self.numbers("alice"), (1, 1, 0, 0))

    def test_retained_messages_are_whose_first_they_were(self) -> None:
        self.client("a", "alice").publish("r", b"1", retain=True)
        self.client("b", "bob").publish("r", b"2", retain=True)
        self.assertEqual((self.numbers("alice")[3], self.numbers("bob")[3]), (1, 0))
        self.client("b", "bob").publish("r", b"", retain=True)
        self.assertEqual((self.numbers("alice")[3], self.numbers("bob")[3]), (0, 0))

    def test_retained_messages_that_expire(self) -> None:
        client = self.client("a", "alice")
        expiry = [(Prop.MESSAGE_EXPIRY, 1)]
        client.send(p.publish("r", b"1", retain=True, version=5, props=expiry))
        self.assertEqual(self.numbers("alice")[3], 1)
        self.world.wait(60)
        self.assertEqual(self.numbers("alice")[3], 0)


class ConnectionTests(Case):
    def test_of_a_user(self) -> None:
        self.build(max_user_connections=2)
        first = self.client("1", "alice")
        self.client("2", "alice")
        self.assertEqual(self.refused("3", "alice"), FULL)
        self.client("4", "bob")
        first.lose()
        self.client("3", "alice")
        self.assertEqual(self.limited(events.USER_CONNECTIONS), 1)

    def test_the_same_client_may_come_again(self) -> None:
        self.build(max_user_connections=1, max_user_sessions=1)
        self.client("1", "alice")
        self.client("1", "alice")
        self.assertEqual(self.numbers("alice")[:2], (1, 1))

    def test_mqtt_3_is_told_what_it_can_be(self) -> None:
        self.build(max_user_connections=1)
        self.client("1", "alice")
        client = self.world.open(4)
        client.send(p.connect("2", 4, username="alice"))
        self.assertEqual(client.next("CONNACK").reason, 3)

    def test_of_a_tenant(self) -> None:
        self.build(max_tenant_connections=2)
        self.client("1", "acme/alice")
        self.client("2", "acme/bob")
        self.assertEqual(self.refused("3", "acme/eve"), FULL)
        self.client("4", "other/eve")
        self.assertEqual(self.limited(events.TENANT_CONNECTIONS), 1)

    def test_sessions_that_are_not_connected_count(self) -> None:
        for name, limit in (("user", events.USER_SESSIONS), ("tenant", events.TENANT_SESSIONS)):
            self.build(**{f"max_{name}_sessions": 2})
            lasting = {"clean": False, "props": [(Prop.SESSION_EXPIRY, 100)]}
            for n in range(2):
                self.client(f"c{n}", "acme/alice", **lasting).lose()
            self.assertEqual(self.refused("c2", "acme/alice"), FULL)
            self.client("c1", "acme/alice", **lasting)
            self.assertEqual(self.limited(limit), 1)


class SubscriptionTests(Case):
    def test_of_a_user(self) -> None:
        self.build(max_user_subscriptions=3)
        one, two = self.client("1", "alice"), self.client("2", "alice")
        for client, topic_filter, granted in (
            (one, "a", True),
            (two, "a", True),
            (two, "b", True),
            (one, "c", False),
            (one, "a", True),  # it has it
        ):
            expected = [0] if granted else [FULL]
            self.assertEqual(client.subscribe(topic_filter).reasons, expected, topic_filter)
        two.send(p.unsubscribe(7, "b", version=5))
        self.assertEqual(one.subscribe("c").reasons, [0])
        self.assertEqual(self.limited(events.USER_SUBSCRIPTIONS), 1)

    def test_within_one_packet(self) -> None:
        self.build(max_tenant_subscriptions=2)
        client = self.client("1", "acme/alice")
        client.send(p.subscribe(1, *[(f"t/{n}", 0) for n in range(4)], version=5))
        self.assertEqual(client.next("SUBACK").reasons, [0, 0, FULL, FULL])
        self.assertEqual(self.limited(events.TENANT_SUBSCRIPTIONS), 2)

    def test_of_a_session_is_counted_too(self) -> None:
        self.build(max_subscriptions=1)
        client = self.client("1", "alice")
        client.subscribe("a")
        client.subscribe("b")
        self.assertEqual(client.connection.limited, {events.SUBSCRIPTIONS: 1})


class StoredTests(DiskCase):
    def test_after_a_restart_the_numbers_are_the_same(self) -> None:
        self.world.hub.admission.authenticator = Trusting()
        client = self.join("c", username="acme/alice")
        client.send(p.subscribe(1, ("a", 1)))
        for n in range(3):
            client.publish(f"r/{n}", b"x", retain=True)
        client.publish("r/0", b"", retain=True)
        self.disk.settle()
        self.crash()
        for found in (
            self.world.hub.accounts.users["alice"],
            self.world.hub.accounts.tenants["acme"],
        ):
            self.assertEqual(
                (found.connections, found.sessions, found.subscriptions, found.retained),
                (0, 1, 1, 2),
            )


class OwnerTests(TestCase):
    """Whose a retained message is goes where it goes: to the store, an export, other nodes."""

    def setUp(self) -> None:
        self.message = Publish(b"t", b"x", 1, True)
        self.message.topic = "t"
        self.message.topic_field = b"\0\1t"

    def test_to_the_store_and_back(self) -> None:
        for owner in ("", "alice\0", "älice\0acme", "x" * 70_000 + "\0"):
            for hlc in (0, 1 << 60):
                self.message.owner = owner
                self.message.hlc = hlc
                body = record_of_message(self.message, 5.0)
                found = publish_of(body, 5.0)
                self.assertEqual(
                    (found.owner, found.hlc, found.topic, found.payload), (owner, hlc, "t", b"x")
                )

    def test_what_is_cut_off(self) -> None:
        self.message.owner = "alice\0acme"
        body = record_of_message(self.message, 0.0)
        for size in range(len(body) - 1):
            try:
                publish_of(body[:size], 0.0)
            except ValueError:
                pass

    def test_in_an_export(self) -> None:
        self.message.owner = "alice\0acme"
        body = record_of_message(self.message, 0.0)
        shown = _show_message(body)
        assert isinstance(shown, dict)
        self.assertEqual(shown["owner"], "alice\0acme")
        self.assertEqual(_message(shown), body)

    def test_to_another_node(self) -> None:
        self.message.hlc = 77
        for owner in ("", "alice\0acme"):
            self.message.owner = owner
            data = record_of(self.message, True, ["$share/g/t"], 0.0) + b"rest"
            found, plain, shares, end = read_record(data, 0, 0.0)
            self.assertEqual(
                (found.owner, found.hlc, plain, shares), (owner, 77, True, ["$share/g/t"])
            )
            self.assertEqual(data[end:], b"rest")


class RetainedTests(Case):
    def test_a_message_beyond_is_delivered_and_not_kept(self) -> None:
        for name, limit in (("user", events.USER_RETAINED), ("tenant", events.TENANT_RETAINED)):
            self.build(**{f"max_{name}_retained_messages": 2})
            listener = self.client("l", "bob")
            listener.subscribe("#")
            client = self.client("c", "acme/alice")
            for n in range(3):
                client.send(p.publish(f"r/{n}", b"x", 1, n + 1, retain=True, version=5))
            self.assertEqual([packet.reason for packet in client.take()], [0, 0, FULL])
            self.assertEqual(len(listener.payloads()), 3)
            self.assertEqual(len(self.hub.retained), 2)
            self.assertEqual(self.limited(limit), 1)

    def test_wills_beyond_are_delivered_and_not_kept(self) -> None:
        """To leave them and go, again and again, is no way around the limit."""
        for name, limit in (("user", events.USER_RETAINED), ("tenant", events.TENANT_RETAINED)):
            self.build(**{f"max_{name}_retained_messages": 2})
            listener = self.client("l", "bob")
            listener.subscribe("#")
            for n in range(3):
                client = self.client("c", "acme/alice", will=(f"w/{n}", b"x", 0, True))
                client.lose()
            self.assertEqual(len(listener.payloads()), 3)
            self.assertEqual(len(self.hub.retained), 2)
            self.assertEqual(self.limited(limit), 1)

    def test_a_will_at_a_known_topic_is_kept(self) -> None:
        self.build(max_user_retained_messages=1)
        for payload in (b"1", b"2"):
            self.client("c", "alice", will=("w", payload, 0, True)).lose()
        found = self.hub.retained.tree.get("w")
        assert found is not None
        self.assertEqual(found.payload, b"2")

    def test_a_new_message_of_a_known_topic(self) -> None:
        self.build(max_user_retained_messages=1)
        client = self.client("c", "alice")
        for payload in (b"1", b"2"):
            client.publish("r", payload, retain=True)
        found = self.hub.retained.tree.get("r")
        assert found is not None
        self.assertEqual(found.payload, b"2")

    def test_to_delete_one_makes_room(self) -> None:
        self.build(max_user_retained_messages=1)
        client = self.client("c", "alice")
        client.publish("r/1", b"x", retain=True)
        client.publish("r/1", b"", retain=True)
        client.publish("r/2", b"x", retain=True)
        self.assertIsNotNone(self.hub.retained.tree.get("r/2"))
