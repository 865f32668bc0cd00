"""Who a connection is, and what of it outlives the connection."""

from unittest import TestCase

from mhub.core.principal import Certificate, Identity, Principal, principal_of
from tests.core.world import Client, World
from tests.helpers import packets as p


class Texts(TestCase):
    def full(self) -> Principal:
        principal = Principal("127.0.0.1:5", "tls")
        principal.client_id = "pump"
        principal.claimed_user = "bob"
        principal.certificate = Certificate("pump.example", "CN=pump.example", "00", 1.0)
        identity = Identity("ålice", "password")
        identity.roles = ("operator", "b,c")
        identity.tenant = "north"
        identity.attributes = {"site": '"7"\n'}
        return principal.identified(identity)

    def test_what_is_kept_comes_back(self) -> None:
        before = self.full()
        after = principal_of(before.to_text(), "pump", "tls")
        for name in (
            *("address", "listener", "client_id", "user", "claimed_user"),
            *("method", "roles", "tenant", "attributes"),
        ):
            self.assertEqual(getattr(after, name), getattr(before, name), name)
        self.assertEqual(after.common_name(), "pump.example")
        self.assertTrue(after.receives_as(before))
        after.certificate = None  # rules may be about its name
        self.assertFalse(after.receives_as(before))
        after.certificate = before.certificate
        self.assertEqual(after.to_text(), before.to_text())

    def test_nothing_is_no_text(self) -> None:
        self.assertEqual(Principal("", "tcp").to_text(), "")
        self.assertEqual(principal_of("", "c", "tcp").to_text(), "")

    def test_damage_takes_away_and_never_gives(self) -> None:
        text = self.full().to_text()
        for damaged in (
            text[:-1],
            "[1]",
            "null",
            "7",
            '{"user":7,"roles":"admin","attributes":[]}',
            "[" * 100_000,
            '{"expires_at":' + "9" * 400 + "}",
        ):
            principal = principal_of(damaged, "pump", "tls")
            self.assertFalse(principal.is_verified(), damaged)
            self.assertEqual((principal.roles, principal.attributes), ((), {}), damaged)

    def test_a_claim_that_was_proved_is_not_kept_twice(self) -> None:
        principal = Principal("", "")
        principal.claimed_user = "alice"
        self.assertIn("claimed", principal.to_text())
        principal.user = "alice"
        self.assertNotIn("claimed", principal.to_text())


class Owners(TestCase):
    """Under the same client id: whose session is it?"""

    def connect(self, world: World, user: str) -> Client:
        client = world.open(4)
        client.connection.principal.user = user
        client.send(p.connect("c", 4, clean=False))
        return client

    def test_what_waits_for_a_user_is_for_nobody_else(self) -> None:
        for user in ("bob", ""):
            world = World()
            alice = self.connect(world, "alice")
            alice.next("CONNACK")
            alice.subscribe("t", 1)
            alice.lose()
            world.client("sender").publish("t", b"for alice", 1)
            other = self.connect(world, user)
            self.assertFalse(other.next("CONNACK").session_present)
            self.assertEqual((other.take(), other.session.subscriptions), ([], {}))
            self.assertEqual(world.hub.router.subscriptions, 0)

    def test_the_same_user_goes_on_and_an_anonymous_one_may_log_in(self) -> None:
        world = World()
        for user in ("", "alice", "alice"):
            client = self.connect(world, user)
            present = client.next("CONNACK").session_present
            self.assertEqual(present, "t" in client.session.subscriptions)
            if not present:
                client.subscribe("t", 1)
            client.lose()
        self.assertTrue(present)


class Sessions(TestCase):
    def test_the_name_in_a_connect_is_only_a_claim(self) -> None:
        client = World().client("c", 5, username="alice", password=b"anything")
        principal = client.session.principal
        self.assertEqual((principal.user, principal.claimed_user), ("", "alice"))
        self.assertEqual(principal.client_id, "c")

    def test_a_certificate_goes_before_the_name(self) -> None:
        client = World().open(5)
        client.connection.principal.user = "pump-7"
        client.send(p.connect("c", 5, username="alice"))
        self.assertEqual(client.next("CONNACK").reason, 0)
        self.assertEqual(client.session.principal.user, "pump-7")
        self.assertEqual(client.session.principal.claimed_user, "alice")
