"""Users of the registry: one password for CONNECT and for SCRAM, on every node."""

import base64
from typing import Any

from twisted.trial.unittest import TestCase

from mhub.auth import hashes
from mhub.auth.hashes import Costs
from mhub.auth.scram import METHOD
from mhub.auth.users import make_verifier, parse_verifier
from mhub.core.authentication import FAILURE, SUCCESS, Later, Step
from mhub.wire import reasons
from tests.auth.test_hashes import ALL, PASSWORD
from tests.auth.test_scram import final, login
from tests.auth.world import CHEAP, World

HASH = hashes.make(b"secret", CHEAP)
VERIFIER = make_verifier("secret", 4096).render()


class RegistryCase(TestCase):
    def setUp(self) -> None:
        self.world = World()

    def begin(self, **options: Any) -> None:
        self.source = self.world.add("registry", **options)
        self.world.start()

    def put(self, name: str, **entry: Any) -> None:
        self.world.registry.put(f"user/{name}", entry)

    def assertUser(self, step: Step, user: str) -> None:
        self.assertEqual(step.outcome, SUCCESS, step.text)
        assert step.identity is not None
        self.assertEqual(step.identity.user, user)


class PasswordTests(RegistryCase):
    def test_login(self) -> None:
        entry = {"tenant": "plant", "attributes": {"site": "hall-1"}, "roles": ["device"]}
        self.put("alice", password=HASH, **entry)
        self.begin()
        step = self.world.ask("alice", b"secret")
        self.assertUser(step, "alice")
        assert step.identity is not None
        self.assertEqual(
            (step.identity.tenant, step.identity.attributes), ("plant", {"site": "hall-1"})
        )
        self.assertEqual(step.identity.method, "password")
        self.assertEqual(step.identity.roles, ())  # which are rows of the policy

    def test_refused(self) -> None:
        self.put("alice", password=HASH)
        self.begin()
        for user, password in (("alice", b"Secret"), ("alice", b""), ("Alice", b"secret")):
            step = self.world.ask(user, password)
            self.assertEqual((step.outcome, step.reason), (FAILURE, reasons.BAD_USER_OR_PASSWORD))

    def test_a_user_without_a_password(self) -> None:
        """It has none here: an empty one is not its password."""
        self.put("alice", password="", scram="")
        self.begin()
        for password in (b"", b"x"):
            self.assertEqual(self.world.ask("alice", password).outcome, FAILURE)

    def test_locked(self) -> None:
        """Which only who knows the password finds out."""
        self.put("alice", password=HASH, locked=True)
        self.begin()
        self.assertEqual(self.world.ask("alice", b"wrong").reason, reasons.BAD_USER_OR_PASSWORD)
        self.assertEqual(self.world.ask("alice", b"secret").reason, reasons.NOT_AUTHORIZED)

    def test_changes_count_at_once(self) -> None:
        self.begin()
        self.assertEqual(self.world.ask("alice", b"secret").outcome, FAILURE)
        self.put("alice", password=HASH)
        self.assertUser(self.world.ask("alice", b"secret"), "alice")
        self.put("alice", password=hashes.make(b"other", CHEAP))
        self.assertEqual(self.world.ask("alice", b"secret").outcome, FAILURE)
        self.world.registry.delete("user/alice")
        self.assertEqual(self.world.ask("alice", b"other").outcome, FAILURE)
        self.assertEqual(self.world.forgotten, 3)

    def test_changed_while_the_password_is_checked(self) -> None:
        """A password that was replaced meanwhile does not count any more."""
        self.world = World(at_once=False)
        self.put("alice", password=HASH)
        self.begin()
        later = self.world.connect("alice", b"secret")
        assert isinstance(later, Later)
        self.world.registry.delete("user/alice")
        while self.world.workers.jobs:
            self.world.workers.turn()
        assert later.step is not None
        self.assertEqual(later.step.outcome, FAILURE)

    def begin_login(self) -> Later:
        self.world = World(at_once=False)
        self.put("alice", password=HASH)
        self.begin()
        later = self.world.connect("alice", b"secret")
        assert isinstance(later, Later)
        return later

    def finish(self, later: Later) -> Step:
        while self.world.workers.jobs:
            self.world.workers.turn()
        assert later.step is not None
        return later.step

    def test_upgraded_while_the_password_is_checked(self) -> None:
        """Another login of the same user may have done that: the new hash decides."""
        later = self.begin_login()
        self.put("alice", password=hashes.make(b"secret", CHEAP))
        self.assertUser(self.finish(later), "alice")

    def test_another_password_while_the_old_one_is_checked(self) -> None:
        later = self.begin_login()
        self.put("alice", password=hashes.make(b"other", CHEAP))
        self.assertEqual(self.finish(later).outcome, FAILURE)

    def test_a_hash_that_changes_all_the_time(self) -> None:
        later = self.begin_login()
        checks = 0
        while self.world.workers.jobs:
            checks += 1
            self.put("alice", password=hashes.make(b"secret", CHEAP))
            self.world.workers.turn()
        assert later.step is not None
        self.assertEqual(later.step.outcome, FAILURE)
        self.assertLess(checks, 10)

    def test_by_the_client_id(self) -> None:
        self.put("pump-7", password=HASH)
        self.begin(identify_by="client_id")
        self.assertUser(self.world.ask("x", b"secret", client_id="pump-7"), "pump-7")
        self.assertUser(self.world.ask(None, b"secret", client_id="pump-7"), "pump-7")
        self.assertEqual(self.world.ask("pump-7", b"secret", client_id="x").outcome, FAILURE)

    def test_by_both(self) -> None:
        """The user is the whole entry: nobody else's name."""
        self.put("plant@pump-7", password=HASH)
        self.begin(identify_by="both")
        self.assertUser(self.world.ask("plant", b"secret", client_id="pump-7"), "plant@pump-7")
        for user, client_id in (("plant", "pump-8"), ("x", "pump-7"), ("plant@pump-7", "")):
            step = self.world.ask(user, b"secret", client_id=client_id)
            self.assertEqual(step.outcome, FAILURE)

    def test_whose_password_was_tried(self) -> None:
        """That is whom failures are counted for: a user name that decides nothing is none."""
        self.put("pump-7", password=HASH)
        self.put("plant@pump-7", password=HASH)
        for by, user in (("client_id", "pump-7"), ("both", "plant@pump-7")):
            self.world = World()
            self.put(user, password=HASH)
            self.begin(identify_by=by)
            step = self.world.ask("plant", b"wrong", client_id="pump-7")
            self.assertEqual((step.outcome, step.user), (FAILURE, user))
            step = self.world.ask("plant", b"wrong", client_id="pump-8")
            self.assertEqual((step.outcome, step.user), (FAILURE, user[:-1] + "8"))

    def test_names_that_look_like_keys(self) -> None:
        """A name is what is behind the first separator, whatever it looks like."""
        for name in ("none", "null", "user/alice", "a/b", "../x", "*"):
            self.put(name, password=HASH)
        self.begin()
        for name in ("none", "null", "user/alice", "a/b", "../x", "*"):
            self.assertUser(self.world.ask(name, b"secret"), name)
        self.assertEqual(self.world.ask("alice", b"secret").outcome, FAILURE)

    def test_not_a_hash(self) -> None:
        self.put("alice", password="secret")
        self.begin()
        step = self.world.ask("alice", b"secret")
        self.assertEqual(step.outcome, FAILURE)
        self.assertNotIn("'secret'", step.text)


class UpgradeTests(RegistryCase):
    def test_every_old_hash(self) -> None:
        """After one login it is argon2id, and the password still the same."""
        for name, text in ALL.items():
            self.world = World()
            self.world.passwords.costs = Costs(16, 1)
            self.put("alice", password=text, note=name)
            self.begin()
            self.assertUser(self.world.ask("alice", PASSWORD), "alice")
            entry = self.world.registry.get("user/alice")
            self.assertTrue(hashes.is_current(entry["password"], Costs(16, 1)), name)
            self.assertEqual(entry["note"], name)
            self.assertTrue(entry["scram"])
            self.assertUser(self.world.ask("alice", PASSWORD), "alice")
            method = self.world.chain.methods[METHOD]
            exchange: Any = method(self.world.claim())
            self.assertUser(login(exchange, "alice", PASSWORD.decode()), "alice")

    def test_only_by_the_right_password(self) -> None:
        self.put("alice", password=ALL["Mosquitto 2"])
        self.begin()
        self.world.ask("alice", b"wrong")
        self.assertEqual(self.world.registry.get("user/alice"), {"password": ALL["Mosquitto 2"]})

    def test_a_current_one_is_left_alone(self) -> None:
        self.put("alice", password=HASH)
        self.begin()
        self.world.ask("alice", b"secret")
        self.assertEqual(self.world.registry.get("user/alice"), {"password": HASH})

    def test_a_verifier_stays(self) -> None:
        self.put("alice", password=ALL["Mosquitto 2"], scram=VERIFIER)
        self.begin()
        self.world.ask("alice", PASSWORD)
        self.assertEqual(self.world.registry.get("user/alice")["scram"], VERIFIER)

    def test_a_password_that_scram_cannot_have(self) -> None:
        text = hashes.make(b"\xff\x00", Costs(8, 1))
        self.world.passwords.costs = Costs(16, 1)
        self.put("alice", password=text)
        self.begin()
        self.assertUser(self.world.ask("alice", b"\xff\x00"), "alice")
        entry = self.world.registry.get("user/alice")
        self.assertNotEqual(entry["password"], text)
        self.assertFalse(entry.get("scram"))

    def test_changed_meanwhile(self) -> None:
        """What an administrator has set in between stays."""
        self.world = World(at_once=False)
        self.put("alice", password=ALL["Mosquitto 2"])
        self.begin()
        later = self.world.connect("alice", PASSWORD)
        assert isinstance(later, Later)
        self.world.workers.turn()
        assert later.step is not None
        self.assertUser(later.step, "alice")
        self.put("alice", password=HASH)
        while self.world.workers.jobs:
            self.world.workers.turn()
        self.assertEqual(self.world.registry.get("user/alice"), {"password": HASH})

    def test_once_at_a_time(self) -> None:
        self.world = World(at_once=False, threads=9)
        self.put("alice", password=ALL["Mosquitto 2"])
        self.begin()
        for _ in range(2):
            self.world.connect("alice", PASSWORD)
        self.world.workers.turn()
        self.world.workers.turn()
        self.assertEqual(len(self.world.workers.jobs), 1)


class CostTests(RegistryCase):
    def test_a_decoy_like_most(self) -> None:
        self.begin()
        self.assertEqual(self.source.decoy(), "")
        for number in range(3):
            self.put(f"u{number}", password=hashes.make(b"x", Costs(16, 1)))
        self.put("v", password=HASH)
        self.assertEqual(
            hashes.shape(self.source.decoy()), hashes.shape(hashes.make(b"", Costs(16, 1)))
        )
        for number in range(3):
            self.world.registry.delete(f"user/u{number}")
        self.assertEqual(self.source.decoy(), HASH)
        self.put("v", password="")
        self.assertEqual(self.source.decoy(), "")

    def test_those_that_were_there_before(self) -> None:
        self.put("alice", password=HASH, scram=VERIFIER)
        self.begin()
        self.assertEqual(self.source.decoy(), HASH)
        self.assertEqual(self.source.scram_decoy()[:2], (4096, 16))

    def test_unknown_names_cost_a_check(self) -> None:
        self.put("alice", password=HASH)
        self.begin()
        before = self.world.hub.stats.passwords_checked
        self.world.ask("nobody", b"x")
        self.assertEqual(self.world.hub.stats.passwords_checked, before + 1)


class ScramTests(RegistryCase):
    def exchange(self) -> Any:
        return self.world.chain.methods[METHOD](self.world.claim())

    def test_login(self) -> None:
        self.put("alice", scram=VERIFIER, tenant="plant")
        self.begin()
        step = login(self.exchange(), "alice", "secret")
        self.assertUser(step, "alice")
        assert step.identity is not None
        self.assertEqual((step.identity.tenant, step.identity.method), ("plant", METHOD))
        self.assertEqual(login(self.exchange(), "alice", "wrong").outcome, FAILURE)

    def test_one_password_for_both(self) -> None:
        self.put("alice", password=HASH, scram=VERIFIER)
        self.begin()
        self.assertUser(login(self.exchange(), "alice", "secret"), "alice")
        self.assertUser(self.world.ask("alice", b"secret"), "alice")

    def test_locked(self) -> None:
        self.put("alice", scram=VERIFIER, locked=True)
        self.begin()
        self.assertEqual(login(self.exchange(), "alice", "secret").outcome, FAILURE)

    def test_deleted_or_changed_in_between(self) -> None:
        for change in (
            lambda: self.world.registry.delete("user/alice"),
            lambda: self.put("alice", scram=make_verifier("other", 4096).render()),
        ):
            self.world = World()
            self.put("alice", scram=VERIFIER)
            self.begin()
            exchange = self.exchange()
            first = exchange.step(b"n,,n=alice,r=abc")
            change()
            step = exchange.step(final("n=alice,r=abc", first.data, "secret"))
            self.assertEqual(step.outcome, FAILURE)

    def test_a_damaged_verifier(self) -> None:
        self.put("alice", scram="SCRAM-SHA-256$4096:!")
        self.begin()
        self.assertEqual(login(self.exchange(), "alice", "secret").outcome, FAILURE)

    def test_decoys_are_the_same_everywhere(self) -> None:
        """The secret is in the registry, so all nodes have it."""
        self.begin()
        secret = self.world.registry.get("setting/decoy-secret")
        other = World()
        other.registry.put("setting/decoy-secret", secret)
        other.add("registry")
        other.start()
        self.assertEqual(other.registry.get("setting/decoy-secret"), secret)
        self.assertEqual(len(base64.b64decode(secret["value"])), 32)
        first = self.exchange().step(b"n,,n=nobody,r=a").data.split(b",")[1]
        second: Any = other.chain.methods[METHOD](other.claim())
        self.assertEqual(first, second.step(b"n,,n=nobody,r=a").data.split(b",")[1])

    def test_verifiers_that_are_made(self) -> None:
        made = self.successResultOf(self.world.passwords.verifier("secret"))
        self.assertEqual(parse_verifier(made).iterations, 4096)
        self.put("alice", scram=made)
        self.begin()
        self.assertUser(login(self.exchange(), "alice", "secret"), "alice")
