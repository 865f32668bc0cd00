"""The registry: changes as a whole, versions, deletions, who is told, and what a restart leaves."""

import json

from twisted.trial.unittest import SynchronousTestCase

from mhub.core.connection import CLOSED
from mhub.core.hub import Hub
from mhub.core.registry import PREFIX, Registry, StaleVersion, entry_message
from mhub.store.memory import MemoryStore
from mhub.wire.errors import ProtocolFault
from tests.core.disk import Disk, crash
from tests.core.world import World
from tests.helpers import packets as p

ALICE = '{"roles":["device"]}'
BOB = '{"roles":[]}'


def shown(registry: Registry, prefix: str = "") -> dict[str, str]:
    return {entry.key: entry.value for entry in registry.items(prefix)}


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.told: list[list[str]] = []
        self.registry.watchers.append(self.told.append)

    @property
    def hub(self) -> Hub:
        return self.world.hub

    @property
    def registry(self) -> Registry:
        return self.hub.registry

    def change(self, **values: str | None) -> str:
        """Names with _ for /; the revision."""
        given = {name.replace("_", "/"): value for name, value in values.items()}
        return self.registry.change(given, self.world.now).revision


class TableTests(Case):
    """A hub without a store and without a cluster."""

    def test_what_was_set_is_there(self) -> None:
        self.change(user_alice=ALICE)
        found = self.registry.get("user/alice")
        assert found is not None
        self.assertEqual((found.key, found.value), ("user/alice", ALICE))
        self.assertGreater(found.hlc, 0)
        self.assertIsNone(self.registry.get("user/bob"))

    def test_items_are_sorted_and_of_one_prefix(self) -> None:
        self.change(user_b="1", role_x="2", user_a="3", users="4")
        self.change(user_c="5", user_b=None)
        self.assertEqual(list(shown(self.registry, "user/")), ["user/a", "user/c"])
        self.assertEqual(list(shown(self.registry)), ["role/x", "user/a", "user/c", "users"])

    def test_keys_are_sorted_and_behind_one(self) -> None:
        self.change(user_b="1", role_x="2", user_a="3", users="4")
        self.assertEqual(self.registry.keys("user/"), ["user/a", "user/b"])
        self.assertEqual(self.registry.keys("user/", "user/a"), ["user/b"])
        self.assertEqual(self.registry.keys("user/", "user/aa"), ["user/b"])
        self.assertEqual(self.registry.keys("user/", "role/x"), ["user/a", "user/b"])
        self.assertEqual(self.registry.keys("user/", "user/b"), [])
        self.assertEqual(self.registry.keys("user/", "z"), [])

    def test_a_deleted_entry_is_gone(self) -> None:
        self.change(user_alice=ALICE)
        self.change(user_alice=None)
        self.assertIsNone(self.registry.get("user/alice"))
        self.assertEqual((shown(self.registry), len(self.registry)), ({}, 0))

    def test_without_a_cluster_a_tombstone_is_left_for_a_day(self) -> None:
        self.change(user_alice=ALICE)
        self.change(user_alice=None)
        before = self.registry.revision
        self.registry.collect(self.world.now + 86_000.0)
        self.assertEqual(len(self.registry.tombstones), 1)
        self.registry.collect(self.world.now + 87_000.0)
        self.assertEqual((self.registry.known(), self.registry.revision), ([], before))

    def test_each_change_raises_the_revision(self) -> None:
        revisions = [self.registry.revision]
        for value in (ALICE, BOB, BOB, None, ALICE):
            revisions.append(self.change(user_alice=value))
            self.assertEqual(revisions[-1], self.registry.revision)
        self.assertEqual(sorted(set(revisions)), revisions)

    def test_a_change_that_changes_nothing(self) -> None:
        before = self.change(user_alice=ALICE)
        self.told.clear()
        self.assertEqual(self.change(user_bob=None), before)
        self.assertEqual(self.told, [])

    def test_watchers_hear_once_of_a_change_set_when_all_of_it_is_there(self) -> None:
        seen: list[dict[str, str]] = []
        self.registry.watchers.append(lambda keys: seen.append(shown(self.registry)))
        self.change(user_alice=ALICE, user_bob=BOB)
        self.change(user_bob=None, user_carol="{}")
        self.assertEqual(self.told, [["user/alice", "user/bob"], ["user/bob", "user/carol"]])
        self.assertEqual(seen[0], {"user/alice": ALICE, "user/bob": BOB})
        self.assertEqual(seen[1], {"user/alice": ALICE, "user/carol": "{}"})

    def test_a_watcher_that_fails_is_a_defect_of_its_own(self) -> None:
        crashed: list[str] = []
        self.registry.crashed = lambda what, error: crashed.append(f"{what}: {error}")

        def fail(keys: list[str]) -> None:
            raise ValueError("no")

        self.registry.watchers.insert(0, fail)
        self.change(user_alice=ALICE)
        self.assertEqual(self.told, [["user/alice"]])
        self.assertEqual(crashed, ["who watches the registry: no"])

    def test_a_change_is_safe_at_once_where_nothing_is_kept(self) -> None:
        self.assertTrue(self.registry.change({"a": "1"}, self.world.now).is_safe())

    def test_keys_and_values_that_cannot_be_kept(self) -> None:
        for key, value in (
            ("", "1"),
            ("a\0b", "1"),
            ("a" * 70_000, "1"),
            ("a", ""),
            ("a", "\ud800"),
            ("\ud800", "1"),
        ):
            with self.assertRaises(ValueError):
                self.registry.change({"other": "1", key: value}, self.world.now)
        self.assertEqual(shown(self.registry), {})

    def test_a_key_is_free_text(self) -> None:
        key = "ban/client/a/b #+%ü\n"
        self.registry.change({key: "{}"}, self.world.now)
        self.assertEqual(shown(self.registry, "ban/client/a/"), {key: "{}"})


class VersionTests(Case):
    """Changes that expect a version: no update is lost."""

    def version(self, key: str) -> int:
        found = self.registry.get(key)
        return found.hlc if found is not None else 0

    def test_the_version_that_is_there(self) -> None:
        self.change(user_alice=ALICE)
        version = self.version("user/alice")
        self.registry.change({"user/alice": BOB}, self.world.now, {"user/alice": version})
        self.assertEqual(shown(self.registry), {"user/alice": BOB})

    def test_another_version_changes_nothing_at_all(self) -> None:
        self.change(user_alice=ALICE)
        version = self.version("user/alice")
        self.change(user_alice=BOB)
        for expected in ({"user/alice": version}, {"user/alice": 0}, {"user/bob": 7}):
            before = self.registry.revision
            with self.assertRaises(StaleVersion) as raised:
                values: dict[str, str | None] = {"x": "1", "user/alice": "{}"}
                self.registry.change(values, self.world.now, expected)
            (key,) = expected
            self.assertEqual(raised.exception.key, key)
            self.assertEqual(raised.exception.hlc, self.version(key))
            self.assertEqual(self.registry.revision, before)

    def test_nothing_may_be_there(self) -> None:
        self.registry.change({"a": "1"}, self.world.now, {"a": 0})
        self.registry.change({"a": None}, self.world.now)
        self.registry.change({"a": "2"}, self.world.now, {"a": 0})
        self.assertEqual(shown(self.registry), {"a": "2"})


class StoreTests(Case):
    def setUp(self) -> None:
        super().setUp()
        self.disk = Disk(self.world, MemoryStore())

    def restart(self) -> None:
        self.world, self.disk = crash(self.world, self.disk)

    def test_what_is_safe_is_there_after_a_restart(self) -> None:
        self.change(user_alice=ALICE, user_bob=BOB)
        self.change(user_bob=None)
        self.disk.settle()
        before = self.registry.revision
        self.restart()
        self.assertEqual(shown(self.registry), {"user/alice": ALICE})
        self.assertEqual(self.registry.revision, before)
        self.assertGreater(self.change(user_bob=BOB), before)

    def test_the_revision_does_not_go_back_when_the_last_change_is_a_deletion(self) -> None:
        self.change(user_alice=ALICE)
        self.change(user_alice=None)
        before = self.registry.revision
        for seconds in (0.0, 90_000.0):
            self.registry.collect(self.world.now + seconds)
            self.disk.settle()
            self.restart()
            self.assertEqual(self.registry.revision, before)
        self.assertEqual(self.registry.known(), [])

    def test_what_is_not_safe_is_not(self) -> None:
        change = self.registry.change({"a": "1"}, self.world.now)
        self.hub.flush()
        self.assertFalse(change.is_safe())
        self.restart()
        self.assertEqual(shown(self.registry), {})

    def test_who_waits_is_told_when_it_is_safe(self) -> None:
        heard: list[str] = []
        change = self.registry.change({"a": "1"}, self.world.now)
        change.on_safe = lambda: heard.append("safe")
        again = self.registry.change({"b": None}, self.world.now)
        self.assertFalse(again.is_safe())  # as what it relies on is not
        self.hub.flush()
        self.assertEqual(heard, [])
        self.disk.settle()
        self.assertEqual(heard, ["safe"])
        self.assertTrue(change.is_safe())
        self.assertTrue(again.is_safe())
        self.assertEqual(self.registry.waiting, [])

    def test_a_change_set_is_one_batch(self) -> None:
        self.disk.settle()
        before = self.disk.batches
        self.registry.change({f"k{n}": "1" for n in range(100)}, self.world.now)
        self.disk.settle()
        self.assertEqual(self.disk.batches, before + 1)

    def test_changes_without_the_cluster_are_later_than_what_the_node_said(self) -> None:
        """As by a command, while the node does not run: others take it when that is back."""
        ahead = self.registry.clock.at(self.world.now + 3600.0)
        self.hub.require_journal().note("clock", str(ahead))
        self.disk.settle()
        self.restart()
        self.change(user_alice=ALICE)
        self.assertGreater(self.registry.top, ahead)

    def test_a_node_of_a_cluster_leaves_tombstones_also_without_it(self) -> None:
        self.registry.floors.begin("x")
        self.registry.note()
        self.change(user_alice=ALICE, user_bob=BOB)
        self.disk.settle()
        self.restart()
        self.change(user_alice=None)
        self.registry.collect(self.world.now + 90_000.0)
        self.disk.settle()
        self.restart()
        self.assertEqual(
            [each.topic for each in self.registry.tombstones.values()], [PREFIX + "user/alice"]
        )

    def test_watchers_hear_of_what_the_store_had(self) -> None:
        self.change(user_alice=ALICE, user_bob=BOB)
        self.disk.settle()
        world = World()
        told: list[list[str]] = []
        world.hub.registry.watchers.append(told.append)
        Disk(world, self.disk.store)
        self.assertEqual(told, [["user/alice", "user/bob"]])

    def test_it_does_not_count_among_retained_messages(self) -> None:
        self.change(user_alice=ALICE)
        self.disk.settle()
        self.restart()
        retained = self.hub.retained
        self.assertEqual((len(retained) - retained.own, retained.size_bytes), (0, 0))


class ClientTests(Case):
    """Nobody but the node itself reads or writes it."""

    def setUp(self) -> None:
        super().setUp()
        self.change(user_alice=ALICE)
        self.disk = Disk(self.world, MemoryStore())
        self.client = self.world.client("c")

    def test_no_filter_finds_it(self) -> None:
        for topic_filter in ("#", "+/#", "+/+/+", "$SYS/#", "+"):
            self.client.subscribe(topic_filter)
            self.world.settle()
            found = [packet for packet in self.client.take() if packet.type == "PUBLISH"]
            self.assertEqual([packet for packet in found if "alice" in str(packet)], [])
        self.change(user_alice=BOB)
        self.disk.settle()
        self.assertEqual(self.client.take(), [])

    def test_no_client_can_name_it(self) -> None:
        """[MQTT-1.5.4-2]"""
        for packet in (
            p.publish(PREFIX + "user/eve", b"{}", 0, None, True),
            p.publish("\0registry", b'{"set":[["user/eve",9,"{}"]]}', 0, None, True),
            p.subscribe(1, (PREFIX + "user/alice", 0)),
            p.subscribe(1, ("\0registry/#", 0)),
        ):
            client = self.world.client("eve")
            client.send(packet)
            self.assertEqual(client.connection.state, CLOSED)
        self.assertEqual(shown(self.registry), {"user/alice": ALICE})

    def test_nor_leave_a_will_there(self) -> None:
        client = self.world.open()
        will = (PREFIX + "user/eve", b"{}", 0)
        client.send(p.connect("eve", will=will))
        self.assertEqual(client.connection.state, CLOSED)
        self.assertEqual(shown(self.registry), {"user/alice": ALICE})


class TakingTests(Case):
    """What other nodes say."""

    def setUp(self) -> None:
        super().setUp()
        self.registry.count_for_peers()

    def test_newest_wins_whichever_comes_first(self) -> None:
        for order in ((5, 7), (7, 5)):
            self.setUp()
            for hlc in order:
                self.registry.take([("a", hlc, str(hlc))])
            self.assertEqual(shown(self.registry), {"a": "7"})

    def test_of_equal_versions_all_choose_the_same(self) -> None:
        revisions = set()
        for order in ("12", "21"):
            self.setUp()
            for value in order:
                self.registry.take([("a", 5, value)])
            self.assertEqual(shown(self.registry), {"a": "2"})
            revisions.add(self.registry.revision)
        self.assertEqual(len(revisions), 1)

    def test_equal_tables_have_equal_revisions(self) -> None:
        entries = [("a", 5, "1"), ("b", 6, "2"), ("a", 9, ""), ("c", 3, "3")]
        revisions = set()
        for order in (entries, entries[::-1]):
            self.setUp()
            self.registry.take(order)
            revisions.add(self.registry.revision)
        self.assertEqual(len(revisions), 1)
        self.setUp()
        self.registry.take([*entries[:3], ("c", 3, "4")])
        self.assertNotIn(self.registry.revision, revisions)

    def test_watchers_hear_of_what_is_another_one_now(self) -> None:
        self.registry.take([("a", 5, "1"), ("b", 6, ""), ("c", 7, "3")])
        self.registry.take([("a", 4, "0"), ("c", 8, "")])
        self.registry.take([("a", 4, "0")])
        self.assertEqual(self.told, [["a", "c"], ["c"]])

    def test_a_change_here_is_newer_than_all_that_came(self) -> None:
        self.registry.take([("a", 1 << 61, "theirs")])
        self.change(a="ours")
        self.assertEqual(shown(self.registry), {"a": "ours"})
        self.registry.take([("a", 1 << 61, "theirs")])
        self.assertEqual(shown(self.registry), {"a": "ours"})

    def test_what_is_below_the_floor_and_not_here_was_deleted(self) -> None:
        self.registry.take([("a", 5, "1"), ("b", 6, "")])
        self.registry.floors.floor = 10
        refused = self.registry.take(
            [("a", 7, "2"), ("b", 9, "3"), ("c", 10, "4"), ("d", 10, ""), ("e", 11, "5")]
        )
        self.assertEqual(refused, [("c", 10)])
        self.assertEqual(shown(self.registry), {"a": "2", "b": "3", "e": "5"})
        self.assertEqual(self.registry.refused, 1)

    def test_a_node_that_is_told_so_deletes_it(self) -> None:
        self.registry.take([("a", 5, "1"), ("b", 6, "2")])
        self.registry.drop([("a", 5), ("b", 5), ("c", 5)])
        self.assertEqual(shown(self.registry), {"b": "2"})
        self.registry.take([("a", 5, "1")])
        self.assertEqual(shown(self.registry), {"b": "2"})

    def test_frames_that_are_not_what_a_node_sends(self) -> None:
        good = ["a", 5, "1"]
        for wrong in (
            None,
            {},
            [1],
            [["a", 5]],
            [["", 5, "1"]],
            [["a\0", 5, "1"]],
            [["a", 0, "1"]],
            [["a", True, "1"]],
            [["a", 1 << 62, "1"]],
            [["a", 5, None]],
            [[5, 5, "1"]],
            [["\ud800", 5, "1"]],
            [["a", 5, "\ud800"]],
        ):
            found = [good, *wrong] if isinstance(wrong, list) else wrong
            body = json.dumps({"set": found}).encode()
            self.assertRaises(ProtocolFault, self.registry.take_change, body)
        for text in (b"{", b"[]", b"[" * 100_000, b"{}"):
            self.assertRaises(ProtocolFault, self.registry.take_change, text)
        self.assertEqual(shown(self.registry), {})

    def test_an_entry_is_a_message_that_no_client_can_send(self) -> None:
        self.assertTrue(entry_message("user/a", "{}", 5).topic.startswith("\0"))
