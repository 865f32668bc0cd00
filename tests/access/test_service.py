"""Access control of a broker: the index follows the registry and the file, and so do clients."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from mhub.access.entries import Role, Rule, User, write
from mhub.access.policy import PolicyError, default_rows
from mhub.access.resources import RESOURCES
from mhub.access.rows import parse_row, row_id_of
from mhub.access.seeding import ADMIN_POLICY, DEFAULT_POLICY, EVERYTHING, seed
from mhub.access.service import AccessService, only_registry
from mhub.config.access import AccessSettings
from mhub.config.auth import SourceSettings
from mhub.core.authentication import Claim, Later, Step, success
from mhub.core.principal import Identity, Principal
from mhub.core.registry import entry_of
from mhub.wire.reasons import NOT_AUTHORIZED
from tests.core.world import Client, World
from tests.helpers import packets as p

CONNECT = "p, role:everyone, *, connect, #, any, allow"
DEVICE = "p, role:device, *, publish|subscribe|receive, devices/%c/#, any, allow"


class Names:
    """Whoever gives a name is that user."""

    def __init__(self, registry: Any) -> None:
        self._registry = registry

    def authenticate(self, claim: Claim) -> Step:
        identity = Identity(claim.username or "", "password" if claim.username else "")
        entry = self._registry.get(f"user/{claim.username}")
        if entry is not None:
            identity.tenant = json.loads(entry.value)["tenant"]
            identity.attributes = json.loads(entry.value)["attributes"]
        return success(identity)


class ServiceCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.hub = self.world.hub
        self.registry = self.hub.registry
        self.hub.admission.authenticator = Names(self.registry)
        self.reactor = Clock()
        self.file = Path(self.mktemp())
        self.user("alice")

    def service(self, *, start: bool = True, **settings: Any) -> AccessService:
        service = AccessService(
            AccessSettings(**settings),
            self.hub,
            self.reactor,
            self.world.turn,
            True,
        )
        if start:
            service.start()
        self.world.settle()
        return service

    def rules(self, *lines: str) -> None:
        values: dict[str, str | None] = {}
        for line in lines:
            row = parse_row([field.strip() for field in line.split(",")])
            values[f"rule/{row.id}"] = write(Rule(row.fields))
        self.change(values)

    def user(self, name: str, **values: Any) -> None:
        self.change({f"user/{name}": write(User(**values))})

    def change(self, values: dict[str, str | None]) -> None:
        self.registry.change(values, self.world.now)
        self.world.settle()

    def client(self, user: str, client_id: str = "d1", version: int = 5) -> Client:
        return self.world.client(client_id, version=version, username=user)

    def may_publish(self, client: Client, topic: str) -> bool:
        client.publish(topic, qos=1)
        return client.next("PUBACK").reason in (0, 0x10)


class RegistryTests(ServiceCase):
    def test_default_deny(self) -> None:
        """With access control on, what no rule allows is denied; without it, nothing is."""
        self.rules(CONNECT)
        client = self.client("alice")
        self.assertTrue(self.may_publish(client, "a"))
        self.service()
        self.assertFalse(self.may_publish(client, "a"))

    def test_off(self) -> None:
        service = self.service(enabled=False)
        self.assertIsNone(service.index)
        self.assertIsNone(self.hub.authorizer)
        self.assertIsNotNone(self.registry.get(DEFAULT_POLICY))  # for the admin side

    def test_rules_come_and_go(self) -> None:
        self.rules(CONNECT)
        service = self.service()
        client = self.client("alice")
        self.rules("p, user:alice, *, publish, a, any, allow")
        self.assertTrue(self.may_publish(client, "a"))
        before = service.index.revision
        key = next(e.key for e in self.registry.items("rule/") if "user:alice" in e.value)
        self.change({key: None})
        self.assertFalse(self.may_publish(client, "a"))
        self.assertGreater(service.index.revision, before)
        self.assertEqual(service.index.revision, self.registry.revision)

    def test_roles(self) -> None:
        self.rules(CONNECT, DEVICE)
        self.service()
        client = self.client("alice")
        self.assertFalse(self.may_publish(client, "devices/d1/x"))
        self.user("alice", roles=("pump",))
        self.change({"role/pump": write(Role(parents=("device",)))})
        self.assertTrue(self.may_publish(client, "devices/d1/x"))
        self.change({"role/pump": write(Role())})
        self.assertFalse(self.may_publish(client, "devices/d1/x"))

    def test_a_subscription_is_withdrawn(self) -> None:
        self.rules(CONNECT, DEVICE)
        self.service()
        self.user("alice", roles=("device",))
        client = self.client("alice")
        client.subscribe("devices/d1/#")
        self.user("alice")
        self.assertEqual(client.next("DISCONNECT").reason, 0x87)

    def test_not_told(self) -> None:
        world = World(tell_withdrawn=False)
        self.world, self.hub, self.registry = world, world.hub, world.hub.registry
        self.hub.admission.authenticator = Names(self.registry)
        self.rules(CONNECT, DEVICE)
        self.service()
        self.user("alice", roles=("device",))
        client = self.client("alice")
        client.subscribe("devices/d1/#")
        self.user("alice")
        self.assertFalse(client.closed)

    def test_locked(self) -> None:
        self.rules(CONNECT)
        self.service()
        self.user("alice")
        client = self.client("alice")
        self.user("alice", locked=True)
        self.assertEqual(client.next("DISCONNECT").reason, 0x98)

    def test_locked_without_access_control(self) -> None:
        self.service(enabled=False)
        self.user("alice")
        self.user("bob")
        client, other = self.client("alice"), self.client("bob", "d2")
        self.user("alice", locked=True)
        self.assertTrue(client.closed)
        self.assertFalse(other.closed)

    def test_deleted(self) -> None:
        """The connection and the session end, that of a client that is away as well."""
        self.rules(CONNECT)
        self.service()
        self.user("alice")
        client = self.client("alice")
        away = self.world.client("d2", version=4, clean=False, username="alice")
        away.lose()
        self.assertIn("d2", self.hub.sessions)
        self.change({"user/alice": None})
        self.assertEqual(client.next("DISCONNECT").reason, 0x98)
        self.assertEqual(self.hub.sessions, {})

    def test_deleted_while_the_node_was_away(self) -> None:
        away = self.world.client("d2", version=4, clean=False, username="bob")
        away.lose()
        other = self.world.client("d3", version=4, clean=False)
        other.lose()
        self.service()
        self.assertEqual(list(self.hub.sessions), ["d3"])

    def test_users_of_other_sources_are_not_deleted(self) -> None:
        def source(kind: str) -> SourceSettings:
            return SourceSettings(type=kind, name=kind)

        self.assertTrue(only_registry([source("registry"), source("certificate")]))
        self.assertFalse(only_registry([source("registry"), source("password-file")]))
        self.assertFalse(only_registry([source("postgresql")]))

    def test_attributes_and_tenant(self) -> None:
        self.rules(CONNECT, "p, role:everyone, *, publish, %{site}/%t, any, allow")
        self.service()
        self.user("alice", attributes={"site": "a"}, tenant="t")
        client = self.client("alice")
        self.assertTrue(self.may_publish(client, "a/t"))
        self.user("alice", attributes={"site": "b"}, tenant="u")
        self.assertFalse(self.may_publish(client, "a/t"))
        self.assertTrue(self.may_publish(client, "b/u"))

    def test_damaged(self) -> None:
        """An entry that cannot be read takes rights away, and gives none."""
        self.rules(CONNECT, DEVICE)
        self.service()
        self.user("alice", roles=("device",))
        client = self.client("alice")
        self.change({"user/alice": '{"roles": 7}'})
        self.assertTrue(client.closed)
        self.flushLoggedErrors()

    def test_entries_that_are_out_of_all_bounds(self) -> None:
        """They come with others, as at the start, and must not hide these: a deny, for example."""
        self.service()
        self.change(
            {
                "role/deep": "[" * 100_000,
                "rule/a": '{"row": ' + "[" * 100_000,
                "user/alice": '{"created_at": ' + "9" * 400 + "}",
                "user/bob": write(User(roles=("device",))),
            }
        )
        self.rules(CONNECT, DEVICE)
        client = self.client("bob")
        self.assertTrue(self.may_publish(client, "devices/d1/x"))
        self.flushLoggedErrors()

    def test_a_user_who_is_deleted_while_its_answer_is_on_its_way(self) -> None:
        """The authenticator has said yes, and the connection has not come to that yet."""
        self.rules(CONNECT)
        self.service()
        self.user("bob")
        later = Later()
        self.hub.admission.authenticator = SimpleNamespace(authenticate=lambda claim: later)
        client = self.world.open(5)
        client.send(p.connect("c", 5, username="bob", password=b"x"))
        later.give(success(Identity("bob", "password")))
        self.registry.change({"user/bob": None}, self.world.now)
        self.world.settle()
        self.assertEqual(client.next("CONNACK").reason, NOT_AUTHORIZED)

    def test_strict_or_receive(self) -> None:
        self.rules(CONNECT, DEVICE)
        self.user("alice", roles=("device",))
        self.service(subscribe="receive")
        client = self.client("alice")
        self.assertEqual(client.subscribe("devices/#").reasons, [0])

    def test_seed(self) -> None:
        """An empty registry gets the default policy; what was removed stays removed."""
        self.service()
        keys = [entry.key for entry in self.registry.items("rule/")]
        self.assertEqual(len(keys), len(default_rows()))
        self.change(dict.fromkeys(keys))
        self.assertFalse(seed(self.registry, self.world.now))
        self.assertEqual(self.registry.items("rule/"), [])

    def test_seed_brings_nothing_back(self) -> None:
        """A new node that comes to a cluster later loses against what was removed there."""
        new = World().hub.registry
        self.assertTrue(seed(new, 0.0))
        kept, gone = [entry.key for entry in new.items("rule/")][:2]
        self.registry.count_for_peers()  # as in a cluster: deletions are remembered
        self.change({gone: "{}", kept: "{}"})
        self.change({gone: None, kept: '{"row": [], "note": "changed"}'})
        self.registry.take([entry_of(message) for message in new.known()])
        self.assertIsNone(self.registry.get(gone))
        self.assertIn("changed", self.registry.get(kept).value)
        new.take([entry_of(message) for message in self.registry.known()])
        self.assertIsNone(new.get(gone))

    def test_no_seed_beside_rules(self) -> None:
        self.rules(CONNECT)
        self.service()
        self.assertEqual(len(self.registry.items("rule/")), 1)

    def former(self, *more: str) -> None:
        """A registry with the default policy from before there was an admin side."""
        lines = [row.text() for row in default_rows() if "admin:" not in row.text()]
        self.change({DEFAULT_POLICY: "{}"})
        self.rules(*lines, *more)

    def test_a_former_default_policy_gets_the_admin_side_once(self) -> None:
        self.former()
        self.user("root", roles=("admin",))
        service = self.service()
        self.assertTrue(service.may_admin(who("root"), "write", "users"))
        self.assertEqual(len(self.registry.items("rule/")), len(default_rows()))
        gone = [e.key for e in self.registry.items("rule/") if "admin:" in e.value]
        self.change(dict.fromkeys(gone))
        self.assertFalse(seed(self.registry, self.world.now))
        self.assertFalse(service.may_admin(who("root"), "write", "users"))

    def test_a_role_admin_that_was_changed_does_not(self) -> None:
        self.former()
        self.change({f"rule/{row_id_of(EVERYTHING)}": None})
        self.user("root", roles=("admin",))
        service = self.service()
        self.assertFalse(service.may_admin(who("root"), "read", "stats"))
        self.assertFalse(service.has_administrators())
        self.assertIsNotNone(self.registry.get(ADMIN_POLICY))

    def test_a_cluster_that_has_agreed_on_what_is_deleted_gets_it_too(self) -> None:
        self.former()
        self.registry.floors.floor = self.registry.top
        self.assertTrue(seed(self.registry, self.world.now))
        self.assertEqual(len(self.registry.items("rule/")), len(default_rows()))

    def test_bans_raise_the_revision(self) -> None:
        service = self.service()
        self.change({"ban/user/x": '{"reason": ""}'})
        self.assertEqual(service.index.revision, self.registry.revision)


def who(user: str, *roles: str, method: str = "password") -> Principal:
    principal = Principal("192.0.2.1", "admin")
    principal.user = user
    principal.roles = roles
    principal.method = method
    return principal


class AdminTests(ServiceCase):
    def test_without_access_control_the_default_policy_decides(self) -> None:
        service = AccessService(None, self.hub, self.reactor, self.world.turn, True)
        service.start()
        self.assertIsNone(self.hub.authorizer)
        self.user("root", roles=("admin",))
        self.user("eve", roles=("viewer",))
        for resource in (*RESOURCES, "x/any"):
            self.assertTrue(service.may_admin(who("root"), "read", resource))
            self.assertTrue(service.may_admin(who("root"), "write", resource))
            self.assertFalse(service.may_admin(who("eve"), "write", resource))
            self.assertFalse(service.may_admin(who("alice"), "read", resource))
        service.plugins = ("hello",)
        self.assertEqual(
            service.permissions(who("eve")),
            {"read": ["clients", "subscriptions", "cluster", "stats"], "write": []},
        )
        self.assertEqual(service.permissions(who("root"))["write"], [*RESOURCES, "x/hello"])

    def test_a_change_of_rules_decides_at_once(self) -> None:
        service = self.service(enabled=False)
        self.assertFalse(service.may_admin(who("alice"), "write", "clients"))
        self.rules("p, user:alice, *, admin:write, clients, any, allow")
        self.assertTrue(service.may_admin(who("alice"), "write", "clients"))
        self.assertFalse(service.may_admin(who("alice"), "read", "clients"))
        self.rules("p, role:everyone, *, admin:write, #, any, deny")
        self.assertFalse(service.may_admin(who("alice"), "write", "clients"))

    def test_all_topics_are_no_resource(self) -> None:
        self.rules("p, user:alice, *, *, #, any, allow")
        service = self.service()
        self.assertEqual(service.permissions(who("alice")), {"read": [], "write": []})

    def test_nobody_may_anything(self) -> None:
        self.rules("p, role:everyone, *, admin:read, #, any, allow")
        service = self.service()
        self.assertFalse(service.may_admin(who(""), "read", "stats"))
        self.assertTrue(service.may_admin(who("x"), "read", "stats"))

    def test_rows_of_a_file(self) -> None:
        """Also where access control is off; those of the registry do not count then."""
        self.rules("p, user:alice, *, admin:read, #, any, allow")
        self.file.write_text("p, role:boss, *, admin:read, stats, any, allow\n")
        for enabled in (True, False):
            service = self.service(policy=str(self.file), enabled=enabled)
            self.assertFalse(service.may_admin(who("alice"), "read", "stats"))
            self.assertTrue(service.may_admin(who("bob", "boss"), "read", "stats"))
            self.assertFalse(service.may_admin(who("bob", "boss"), "read", "log"))
            self.file.write_text("p, role:boss, *, admin:read, log, any, allow\n")
            settings = AccessSettings(policy=str(self.file), enabled=enabled)
            service.prepare(settings, True)()
            self.assertTrue(service.may_admin(who("bob", "boss"), "read", "log"))
            service.stop()
            self.file.write_text("p, role:boss, *, admin:read, stats, any, allow\n")

    def test_no_token_manages_people_rules_or_tokens(self) -> None:
        service = self.service(enabled=False)
        token = who("token:ci", "admin", method="token")
        for verb, resource in (
            ("write", "users"),
            ("write", "roles"),
            ("write", "policies"),
            ("write", "configuration"),
            ("read", "tokens"),
            ("write", "tokens"),
        ):
            self.assertFalse(service.may_admin(token, verb, resource), (verb, resource))
        self.assertTrue(service.may_admin(token, "write", "bans"))


class LimitTests(ServiceCase):
    def test_of_users_and_roles(self) -> None:
        """What the user has counts; else the most generous of its roles; else the listener's."""
        self.service(enabled=False)
        self.user("alice", roles=("a", "b"))
        self.user("bob")
        client, other = self.client("alice"), self.client("bob", "d2")
        usual = client.connection.limits.max_subscriptions
        self.change(
            {
                "role/a": write(Role(limits={"max_subscriptions": 5})),
                "role/b": write(Role(limits={"max_subscriptions": 7})),
            }
        )
        self.world.wait(1.0)
        self.assertEqual(client.connection.limits.max_subscriptions, 7)
        self.assertEqual(other.connection.limits.max_subscriptions, usual)
        self.user("alice", roles=("a", "b"), limits={"max_subscriptions": 3})
        self.world.wait(1.0)
        self.assertEqual(client.connection.limits.max_subscriptions, 3)
        self.user("alice")
        self.world.wait(1.0)
        self.assertEqual(client.connection.limits.max_subscriptions, usual)

    def test_by_inheritance(self) -> None:
        self.service(enabled=False)
        self.change(
            {
                "role/a": write(Role(limits={"max_subscriptions": 5})),
                "role/b": write(Role(parents=("a",))),
                "user/alice": write(User(roles=("b",))),
            }
        )
        self.assertEqual(self.client("alice").connection.limits.max_subscriptions, 5)


class FileTests(ServiceCase):
    def write(self, *lines: str) -> None:
        """As an editor does it: another file of the same name."""
        scratch = self.file.with_suffix(".new")
        scratch.write_text("".join(f"{line}\n" for line in lines))
        scratch.replace(self.file)

    def look(self) -> None:
        self.reactor.advance(1.0)
        self.world.settle()

    def from_file(self) -> AccessService:
        return self.service(policy=str(self.file))

    def test_file(self) -> None:
        """The file's rules are in force, the registry's are not; users' roles are."""
        self.write(CONNECT, DEVICE)
        self.rules("p, role:everyone, *, publish, a, any, allow")
        self.user("alice", roles=("device",))
        self.from_file()
        client = self.client("alice")
        self.assertTrue(self.may_publish(client, "devices/d1/x"))
        self.assertFalse(self.may_publish(client, "a"))
        self.rules("p, role:everyone, *, publish, b, any, allow")
        self.assertFalse(self.may_publish(client, "b"))
        self.user("alice")
        self.assertFalse(self.may_publish(client, "devices/d1/x"))

    def test_reload(self) -> None:
        self.write(CONNECT)
        service = self.from_file()
        client = self.client("alice")
        before = service.index.revision
        self.write(CONNECT, "p, role:everyone, *, publish, a, any, allow")
        self.assertFalse(self.may_publish(client, "a"))
        self.look()
        self.assertTrue(self.may_publish(client, "a"))
        self.assertNotEqual(service.index.revision, before)
        self.write(CONNECT)
        service.prepare(AccessSettings(policy=str(self.file)), True)()
        self.world.settle()
        self.assertFalse(self.may_publish(client, "a"))
        self.assertEqual(service.index.revision, before)

    def test_other_settings(self) -> None:
        """From the registry to a file, in force as a whole, off, and back."""
        allow = "p, role:everyone, *, publish, {}, any, allow"
        self.rules(CONNECT, allow.format("a"))
        service = self.service()
        client = self.client("alice")
        self.assertTrue(self.may_publish(client, "a"))
        self.write(CONNECT, allow.format("b"))
        service.prepare(AccessSettings(policy=str(self.file)), True)()
        self.world.settle()
        self.assertFalse(self.may_publish(client, "a"))
        self.assertTrue(self.may_publish(client, "b"))
        self.assertEqual(service.policy, str(self.file))
        # The file is looked at from now on, and users of the registry are still followed.
        self.write(CONNECT, allow.format("c"))
        self.look()
        self.assertTrue(self.may_publish(client, "c"))
        service.prepare(AccessSettings(policy=str(self.file), enabled=False), True)()
        self.world.settle()
        self.assertIsNone(self.hub.authorizer)
        self.assertTrue(self.may_publish(client, "x"))
        service.prepare(AccessSettings(), True)()
        self.world.settle()
        self.assertTrue(self.may_publish(client, "a"))
        self.assertFalse(self.may_publish(client, "c"))
        self.look()
        self.rules(allow.format("d"))
        self.world.settle()
        self.assertTrue(self.may_publish(client, "d"))
        service.stop()
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_a_file_with_a_mistake_is_not_taken(self) -> None:
        self.rules(CONNECT)
        service = self.service()
        self.write("p, role:everyone")
        settings = AccessSettings(policy=str(self.file))
        self.assertRaises(PolicyError, service.prepare, settings, True)
        self.assertEqual(service.policy, "registry")
        self.client("alice")

    def test_mistake(self) -> None:
        """The policy stays as it was, and the line is named."""
        allow = "p, role:everyone, *, publish, a, any, allow"
        self.write(CONNECT, allow)
        service = self.from_file()
        client = self.client("alice")
        for lines, text in (
            ((CONNECT, "p, role:everyone, *, publish, b, any, alow"), ":2: 'alow'"),
            ((CONNECT, "g, role:a, role:b, *", "g, role:b, role:a, *"), "roles in a circle"),
        ):
            self.write(*lines)
            self.look()
            self.assertIn(text, service.problem)
            self.assertTrue(self.may_publish(client, "a"))
        self.file.unlink()
        self.look()
        self.assertIn("cannot be read", service.problem)
        self.assertTrue(self.may_publish(client, "a"))
        self.write(CONNECT)
        self.look()
        self.assertEqual(service.problem, "")
        self.assertFalse(self.may_publish(client, "a"))

    def test_mistake_at_the_start(self) -> None:
        self.write("p, role:a")
        self.assertRaises(PolicyError, self.from_file)

    def test_circle_with_the_registry(self) -> None:
        self.write(CONNECT)
        self.change({"role/b": write(Role(parents=("a",)))})
        service = self.from_file()
        self.write(CONNECT, "g, role:a, role:b, *")
        self.look()
        self.assertIn("roles in a circle", service.problem)

    def test_a_row_in_both(self) -> None:
        """A role that the file gives and the entry as well goes when both have gone."""
        link = "g, user:alice, role:device, *"
        self.write(CONNECT, DEVICE, link)
        self.user("alice", roles=("device",))
        self.from_file()
        client = self.client("alice")
        self.user("alice")
        self.assertTrue(self.may_publish(client, "devices/d1/x"))
        self.user("alice", roles=("device",))
        self.write(CONNECT, DEVICE)
        self.look()
        self.assertTrue(self.may_publish(client, "devices/d1/x"))
        self.user("alice")
        self.assertFalse(self.may_publish(client, "devices/d1/x"))

    def test_stop(self) -> None:
        self.write(CONNECT)
        self.from_file().stop()
        self.assertEqual(self.reactor.getDelayedCalls(), [])
