"""Users, roles and rules on a store, while no broker runs."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mhub.access import direct
from mhub.access.direct import OfflineHub
from mhub.config import parse
from mhub.core.records import publish_of
from mhub.core.registry import PREFIX
from mhub.operations.contract import BadArgument
from mhub.store.contract import StoreError
from mhub.store.memory import MemoryStore
from tests.core.disk import Disk, done
from tests.core.world import World
from tests.helpers import packets as p
from tests.helpers.properties import Prop

CONFIG = "[access]\n"


class DirectCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.store = MemoryStore()
        self.patch(direct, "make_store", lambda *_: self.store)

    def open(self, config: str = CONFIG) -> OfflineHub:
        offline = OfflineHub(parse(config, "broker.toml"), None)
        done(offline.open())
        return offline

    def call(self, name: str, /, **arguments: Any) -> Any:
        """By a command of its own."""
        return done(self.open().perform(name, arguments))

    def kept(self, key: str) -> bytes | None:
        """What the store has under a key; b"": that it was deleted."""
        body = self.store.retained.get(PREFIX + key)
        return None if body is None else publish_of(body, 0.0).payload


class DirectTests(DirectCase):
    def test_from_one_command_to_the_next(self) -> None:
        self.call("user-add", name="alice", values={"roles": ["operator"]})
        page = self.call("users")
        self.assertEqual([user.name for user in page.users], ["alice"])
        self.assertEqual(self.call("role", name="operator").users, ("alice",))

    def test_versions_go_on(self) -> None:
        """A later command has the later version, though each has a clock of its own."""
        first = self.call("user-add", name="a").version
        second = self.call("user-set", name="a", values={"note": "x"}).version
        self.assertGreater(int(second, 16), int(first, 16))

    def test_the_default_policy_is_as_it_would_be(self) -> None:
        self.assertGreater(len(self.call("rules").rules), 5)
        self.assertEqual(self.store.retained, {})  # who looks changes nothing
        self.call("user-add", name="alice")
        self.assertIsNotNone(self.kept("setting/default-policy"))

    def test_without_access_control(self) -> None:
        offline = self.open("")
        self.assertIsNone(offline.access.status())
        # They say who may administer the broker.
        self.assertGreater(len(done(offline.perform("rules", {})).rules), 5)
        question = {"user": "a", "action": "admin:read", "topic": "clients", "roles": ["viewer"]}
        self.assertTrue(done(offline.perform("explain", question)).explanation.allowed)

    def test_sessions_and_messages_stay(self) -> None:
        world = World()
        disk = Disk(world, self.store)
        client = world.open(5)
        lasts = [(Prop.SESSION_EXPIRY, 60)]
        client.send(p.connect("c", 5, props=lasts), p.subscribe(1, ("t/#", 1), version=5))
        disk.settle()
        client.lose()
        world.client("p").publish("t/1", b"x", 1, retain=True)
        disk.settle()
        self.assertEqual((len(self.store.sessions), len(self.store.deliveries)), (1, 1))
        before = (dict(self.store.sessions), dict(self.store.deliveries), self.store.last_mid)
        retained = set(self.store.retained)
        self.call("user-add", name="alice")
        after = (dict(self.store.sessions), dict(self.store.deliveries), self.store.last_mid)
        self.assertEqual([len(part) for part in before[:2]], [len(part) for part in after[:2]])
        self.assertEqual(before[2], after[2])
        self.assertLess(retained, set(self.store.retained))

    def test_a_deletion_is_remembered_for_the_cluster(self) -> None:
        """A node that is started again must not take the user back from the others."""
        self.call("user-add", name="alice")
        self.call("user-delete", name="alice")
        self.assertEqual(self.kept("user/alice"), b"")

    def test_a_store_that_fails(self) -> None:
        """The command fails, and says why."""
        offline = self.open()
        self.store.failing = "the disk is full"
        work = offline.perform("user-add", {"name": "alice"})
        error = self.assertRaises(StoreError, done, work)
        self.assertIn("the disk is full", str(error))

    def test_mistakes(self) -> None:
        offline = self.open()
        self.assertRaises(BadArgument, done, offline.perform("user", {"nmae": "x"}))
        self.assertRaises(BadArgument, done, offline.perform("user-add", {"name": ""}))
