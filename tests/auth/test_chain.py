"""Authenticators one after the other: the first yes or no counts, and nothing else tells names."""

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import TestCase

from mhub.auth import hashes
from mhub.auth.chain import as_step
from mhub.auth.contract import Answer, cannot_tell, no, not_mine, yes
from mhub.core import events
from mhub.core.authentication import FAILURE, SUCCESS, Claim, Later, Step
from mhub.core.principal import Identity
from mhub.wire import reasons
from tests.auth.world import CHEAP, World


class Says:
    """A source that answers what it was told to."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Claim] = []

    def check(self, claim: Claim) -> Answer | Deferred[Answer]:
        self.asked.append(claim)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        result: Answer | Deferred[Answer] = answer
        return result

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def reload(self) -> None:
        pass


class Checks(Says):
    """A source with users and hashes."""

    def __init__(self, world: World, **users: str) -> None:
        super().__init__()
        self.world, self.users = world, users
        self.checked: list[str] = []

    def check(self, claim: Claim) -> Answer | Deferred[Answer]:
        text = self.users.get(claim.username or "")
        if text is None or claim.password is None:
            return not_mine()
        verifying = self.world.passwords.verify(text, claim.password, claim.principal.address)
        return verifying.addCallback(self._judged, claim.username)

    def _judged(self, right: bool, name: str) -> Answer:
        return yes(Identity(name, "password")) if right else no("wrong password")

    def decoy(self) -> str:
        return next(iter(self.users.values()), "")


def alice() -> Answer:
    return yes(Identity("alice", "test"))


class ChainCase(TestCase):
    def setUp(self) -> None:
        self.world = World()

    def assertRefused(self, step: Step, reason: int) -> None:
        self.assertEqual((step.outcome, step.reason), (FAILURE, reason))

    def assertUser(self, step: Step, user: str) -> None:
        self.assertEqual(step.outcome, SUCCESS, step.text)
        assert step.identity is not None
        self.assertEqual(step.identity.user, user)


class OrderTests(ChainCase):
    def test_the_first_yes_or_no_counts(self) -> None:
        for answer, outcome in ((alice(), SUCCESS), (no("no"), FAILURE)):
            self.world = World()
            self.world.put(Says(not_mine()), "first")
            self.world.put(Says(answer), "second")
            last = self.world.put(Says(alice()), "third")
            self.assertEqual(self.world.ask("alice", b"x").outcome, outcome)
            self.assertEqual(last.asked, [])

    def test_nobody_knows_it(self) -> None:
        """Without a password it is anonymous, which the listener may not allow."""
        self.world.put(Says(not_mine()))
        for user in (None, "alice"):
            self.assertUser(self.world.ask(user), "")

    def test_nobody_accepts_its_password(self) -> None:
        """It wanted to be somebody: that is refused, also where anonymous clients are allowed."""
        self.world.put(Says(not_mine()))
        self.assertRefused(self.world.ask("alice", b"x"), reasons.BAD_USER_OR_PASSWORD)

    def test_listeners(self) -> None:
        inside = self.world.put(Says(alice()), listeners=("inside",))
        self.assertUser(self.world.ask("alice", b"x", listener="inside"), "alice")
        self.assertUser(self.world.ask("alice", b"x", listener="outside"), "")
        self.assertEqual(len(inside.asked), 1)

    def test_what_is_refused(self) -> None:
        self.world.put(Says(no("banned", reasons.BANNED)), "list")
        step = self.world.ask("alice", b"x")
        self.assertRefused(step, reasons.BANNED)
        self.assertEqual(step.text, "list: banned")

    def test_counted(self) -> None:
        self.world.put(Says(alice(), no("no"), not_mine()))
        for _ in range(3):
            self.world.ask("alice", b"x")
        self.assertEqual(self.world.hub.stats.authentications, 1)
        (status,) = self.world.chain.status()
        self.assertEqual((status.name, status.state), ("other", "ok"))
        self.assertEqual((status.accepted, status.refused, status.passed_on), (1, 1, 1))


class CannotTellTests(ChainCase):
    def test_refused(self) -> None:
        self.world.put(Says(cannot_tell("it is down")))
        other = self.world.put(Says(alice()))
        self.assertRefused(self.world.ask("alice", b"x"), reasons.SERVER_UNAVAILABLE)
        self.assertEqual(other.asked, [])
        self.assertEqual(self.world.hub.stats.authentication_errors, 1)

    def test_the_next_one_is_asked(self) -> None:
        self.world.put(Says(cannot_tell("it is down")), on_error="next")
        self.world.put(Says(alice()))
        self.assertUser(self.world.ask("alice", b"x"), "alice")

    def test_nobody_else_knows_it(self) -> None:
        """The password may be right: that is not said to be wrong, which would be counted."""
        self.world.put(Says(cannot_tell("it is down")), "ldap", on_error="next")
        self.world.put(Says(not_mine()))
        step = self.world.ask("alice", b"x")
        self.assertRefused(step, reasons.SERVER_UNAVAILABLE)
        self.assertEqual(step.text, "ldap: it is down")

    def test_a_no_after_it(self) -> None:
        self.world.put(Says(cannot_tell("it is down")), on_error="next")
        self.world.put(Says(no("wrong")))
        self.assertRefused(self.world.ask("alice", b"x"), reasons.BAD_USER_OR_PASSWORD)

    def test_a_defect(self) -> None:
        """What an authenticator of somebody else does wrong lets nobody in, and is said."""
        self.world.put(Says(ZeroDivisionError("what it is about")), "broken")
        step = self.world.ask("alice", b"x")
        self.assertRefused(step, reasons.SERVER_UNAVAILABLE)
        self.assertNotIn("what it is about", step.text)
        kinds = [event.kind for event in self.world.events]
        self.assertEqual(kinds, [events.CRASHED, events.SOURCE_FAILED])

    def test_a_deferred_that_fails(self) -> None:
        failed: Deferred[Answer] = Deferred()
        failed.errback(ConnectionError("gone"))
        self.world.put(Says(failed))
        self.assertRefused(self.world.ask("alice", b"x"), reasons.SERVER_UNAVAILABLE)

    def test_shown(self) -> None:
        self.world.put(Says(cannot_tell("it is down")), "ldap")
        self.world.ask("alice", b"x")
        (status,) = self.world.chain.status()
        self.assertEqual((status.state, status.errors), ("failing: it is down", 1))

    def test_said_once(self) -> None:
        down = cannot_tell("it is down")
        self.world.put(Says(down, down, down, not_mine(), down, alice(), down), "ldap")
        for _ in range(7):
            self.world.ask("alice", b"x")
        said = [(event.kind, event.cause) for event in self.world.events]
        self.assertEqual(
            said,
            [
                (events.SOURCE_FAILED, "ldap"),
                (events.SOURCE_RECOVERED, "ldap"),
                (events.SOURCE_FAILED, "ldap"),
            ],
        )


class LaterTests(ChainCase):
    def begin(self, on_error: str = "refuse") -> tuple[Deferred[Answer], Later]:
        asked: Deferred[Answer] = Deferred()
        self.world.put(Says(asked), on_error=on_error)
        self.world.put(Says(no("the second one")))
        later = self.world.connect("alice", b"x")
        assert isinstance(later, Later)
        return asked, later

    def test_answered_later(self) -> None:
        asked, later = self.begin()
        told: list[None] = []
        later.on_step = lambda: told.append(None)
        asked.callback(alice())
        assert later.step is not None
        self.assertUser(later.step, "alice")
        self.assertEqual(told, [None])

    def test_then_the_next_one(self) -> None:
        asked, later = self.begin()
        asked.callback(not_mine())
        assert later.step is not None
        self.assertIn("the second one", later.step.text)

    def test_a_defect_is_no_yes_and_shows_in_the_log(self) -> None:
        async def deciding() -> Step:
            raise RuntimeError("not foreseen")

        step = as_step(deciding())
        assert isinstance(step, Step)
        self.assertEqual((step.outcome, step.reason), (FAILURE, reasons.SERVER_UNAVAILABLE))
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_abandoned(self) -> None:
        """The client has gone: the question is cancelled, and no other one is asked."""
        asked, later = self.begin(on_error="next")
        later.abandon()
        self.assertIsNone(later.step)
        self.assertTrue(asked.called)
        self.assertEqual(self.world.members[1].source.asked, [])  # type: ignore

    def test_cancelled_by_somebody_else(self) -> None:
        asked, later = self.begin()
        asked.errback(CancelledError())
        assert later.step is not None
        self.assertRefused(later.step, reasons.SERVER_UNAVAILABLE)


class EndTests(ChainCase):
    """What a source of somebody else does wrong at the end hurts nobody."""

    def test_stop_and_reload(self) -> None:
        broken, hanging, last = Says(), Says(), Says()
        done: list[str] = []

        def fail() -> None:
            raise ZeroDivisionError

        broken.stop = broken.reload = fail  # type: ignore
        hanging.stop = Deferred  # type: ignore
        last.stop = lambda: done.append("stopped")  # type: ignore
        last.reload = lambda: done.append("reloaded")  # type: ignore
        for source in (broken, hanging, last):
            self.world.put(source)
        self.world.chain.reload()
        ended = Deferred.fromCoroutine(self.world.chain.stop(self.world.clock, 5.0))
        self.assertNoResult(ended)
        self.world.clock.advance(5.1)
        self.successResultOf(ended)
        self.assertEqual(done, ["reloaded", "stopped"])
        self.assertEqual([event.kind for event in self.world.events], [events.CRASHED] * 3)


class CostTests(ChainCase):
    """A login that fails costs the same, and is answered the same, whoever knows the name."""

    def setUp(self) -> None:
        super().setUp()
        self.verified: list[str] = []
        original = self.world.passwords.verify

        def verify(text: str, password: bytes, address: str = "") -> Deferred[bool]:
            self.verified.append(text)
            return original(text, password, address)

        self.world.passwords.verify = verify  # type: ignore
        self.one = hashes.make(b"one", CHEAP)
        self.two = hashes.make(b"two", CHEAP)
        self.world.put(Checks(self.world, alice=self.one), "first")
        self.world.put(Says(not_mine()), "between")
        self.world.put(Checks(self.world, bob=self.two), "second")

    def cost(self, user: str, password: bytes) -> tuple[list[str], Step]:
        self.verified = []
        step = self.world.ask(user, password)
        return sorted(self.verified), step

    def test_failures(self) -> None:
        costs, steps = zip(
            *(self.cost(user, b"wrong") for user in ("alice", "bob", "nobody")), strict=True
        )
        self.assertEqual(costs[0], sorted([self.one, self.two]))
        self.assertEqual(costs[0], costs[1])
        self.assertEqual(costs[0], costs[2])
        for step in steps:
            self.assertRefused(step, reasons.BAD_USER_OR_PASSWORD)
            self.assertEqual(step.data, b"")

    def test_a_login_pays_its_own_only(self) -> None:
        cost, step = self.cost("bob", b"two")
        self.assertUser(step, "bob")
        self.assertEqual(cost, [self.two])

    def test_the_password_of_the_decoy(self) -> None:
        """Nobody gets in by it."""
        _, step = self.cost("nobody", b"one")
        self.assertRefused(step, reasons.BAD_USER_OR_PASSWORD)

    def test_sentinels(self) -> None:
        """Names that look like something else are names."""
        for name in ("none", "null", "None", "anonymous", "*", "%u", "user/alice", "../alice"):
            _, step = self.cost(name, b"wrong")
            self.assertRefused(step, reasons.BAD_USER_OR_PASSWORD)
        self.world.put(Checks(self.world, null=self.one), "third")
        self.world._chain = None
        self.assertUser(self.world.ask("null", b"one"), "null")


class BusyTests(ChainCase):
    """So many passwords wait that no more are taken: 0x89, whoever it is."""

    def setUp(self) -> None:
        self.world = World(at_once=False, threads=1, max_queued=1)
        self.world.put(Checks(self.world, alice=hashes.make(b"x", CHEAP)), "users", (), "next")
        self.world.put(Says(alice()), "others")

    def test_refused(self) -> None:
        for _ in range(2):
            self.assertIsInstance(self.world.connect("alice", b"x"), Later)
        self.assertRefused(self.world.ask("alice", b"x"), reasons.SERVER_BUSY)
        self.assertEqual(self.world.hub.stats.passwords_refused, 1)
        self.assertEqual(self.world.events, [])  # it is no failure of the source

    def test_a_name_that_is_not_known(self) -> None:
        self.world.members.pop()
        for _ in range(2):
            self.assertIsInstance(self.world.connect("nobody", b"x"), Later)
        self.assertRefused(self.world.ask("nobody", b"x"), reasons.SERVER_BUSY)

    def test_who_has_gone_leaves_its_place(self) -> None:
        waiting = [self.world.connect("alice", b"x") for _ in range(2)]
        assert isinstance(waiting[1], Later)
        waiting[1].abandon()
        self.assertIsInstance(self.world.connect("alice", b"x"), Later)


class UserTests(ChainCase):
    """What holds whoever said yes."""

    def test_locked(self) -> None:
        self.world.put(Says(alice()))
        self.world.registry.put("user/alice", {"locked": True})
        step = self.world.ask("alice", b"x")
        self.assertRefused(step, reasons.NOT_AUTHORIZED)
        self.assertIn("locked", step.text)

    def test_the_name_of_a_token(self) -> None:
        """No authenticator makes a client an API token."""
        self.world.put(Says(yes(Identity("token:ci", "test"))))
        self.assertRefused(self.world.ask("token:ci", b"x"), reasons.NOT_AUTHORIZED)

    def test_damaged(self) -> None:
        """An entry that cannot be read lets nobody in."""
        self.world.put(Says(alice()))
        self.world.registry.change({"user/alice": "["})
        self.assertRefused(self.world.ask("alice", b"x"), reasons.NOT_AUTHORIZED)

    def test_tenant_and_attributes(self) -> None:
        """Those of the registry, unless the source knows better."""
        given = Identity("bob", "test")
        given.tenant = "other"
        self.world.put(Says(alice(), yes(given)))
        for name in ("alice", "bob"):
            entry = {"tenant": "plant", "attributes": {"site": "hall-1", "n": 3}}
            self.world.registry.put(f"user/{name}", entry)
        first, second = self.world.ask("alice", b"x"), self.world.ask("bob", b"x")
        assert first.identity is not None and second.identity is not None
        self.assertEqual(
            (first.identity.tenant, first.identity.attributes), ("plant", {"site": "hall-1"})
        )
        self.assertEqual((second.identity.tenant, second.identity.attributes), ("other", {}))

    def test_the_source_keeps_its_identity(self) -> None:
        """It may be a remembered answer: what the registry says later counts later."""
        answer = alice()
        self.world.put(Says(answer))
        for tenant in ("plant", "other"):
            self.world.registry.put("user/alice", {"tenant": tenant})
            step = self.world.ask("alice", b"x")
            assert step.identity is not None
            self.assertEqual(step.identity.tenant, tenant)

    def test_what_changes_before_the_answer_takes_effect(self) -> None:
        """An answer that comes later is looked at again in the turn in which it is acted on."""
        waiting: Deferred[Answer] = Deferred()
        self.world.put(Says(waiting))
        self.world.registry.put("user/alice", {"tenant": "plant"})
        later = self.world.connect("alice", b"x")
        assert isinstance(later, Later)
        waiting.callback(yes(Identity("alice", "test")))
        step = later.step
        assert step is not None and step.again is not None
        self.world.registry.put("user/alice", {"tenant": "other"})
        step = step.again()
        assert step.identity is not None
        self.assertEqual(step.identity.tenant, "other")
        self.world.registry.put("user/alice", {"locked": True})
        assert step.again is not None
        self.assertRefused(step.again(), reasons.NOT_AUTHORIZED)

    def test_what_cannot_be_stored(self) -> None:
        """JSON can write half a surrogate pair, which is no text: a session of that user would keep
        the store from storing anything."""
        half = "\ud800"
        for name, value in (
            ("user", half),
            ("tenant", half),
            ("roles", ("a", half)),
            ("attributes", {"site": half}),
            ("attributes", {half: "x"}),
            ("grants", (f"publish, {half}, any, allow",)),
        ):
            self.world = World()
            identity = Identity("alice", "test")
            setattr(identity, name, value)
            self.world.put(Says(yes(identity)))
            step = self.world.ask("alice", b"x")
            self.assertEqual((step.outcome, step.reason), (FAILURE, reasons.NOT_AUTHORIZED), name)

    def test_control_characters(self) -> None:
        """CR, LF and NUL in a name get neither to a source nor out of one."""
        for name in ("a\r\nX-User: admin", "a\nb", "a\0b", "\x7f", "a\x85b", "a\u2028b"):
            self.world = World()
            source = self.world.put(Says(yes(Identity(name, "test"))))
            self.assertRefused(self.world.ask(name, b"x"), reasons.BAD_USER_OR_PASSWORD)
            self.assertEqual(source.asked, [])
            self.assertRefused(self.world.ask("alice", b"x"), reasons.NOT_AUTHORIZED)


class AnonymousTests(ChainCase):
    def test_without_a_password(self) -> None:
        self.world.add("anonymous", roles=("guest",), tenant="public")
        step = self.world.ask("whoever")
        self.assertUser(step, "")
        assert step.identity is not None
        self.assertEqual((step.identity.roles, step.identity.tenant), (("guest",), "public"))
        self.assertEqual(self.world.hub.stats.authentications, 0)

    def test_with_a_password(self) -> None:
        self.world.add("anonymous")
        self.assertRefused(self.world.ask("whoever", b"x"), reasons.BAD_USER_OR_PASSWORD)
