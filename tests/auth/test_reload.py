"""Other authenticators while clients log in."""

from dataclasses import replace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from mhub.auth import reload
from mhub.auth.chain import Chain, Member
from mhub.auth.contract import Answer, yes
from mhub.auth.guard import LoginGuard
from mhub.auth.hashes import Costs
from mhub.auth.passwords import Passwords
from mhub.auth.reload import Authenticators
from mhub.config import ConfigError, Settings, parse
from mhub.core.authentication import Claim
from mhub.core.principal import Identity
from tests.core.world import World
from tests.helpers import packets as p

ANY = "[limits]\nallow_anonymous = false\n[[auth]]\ntype = 'registry'\nname = '{}'\n"


class Source:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Deferred[Answer]] = []
        self.calls: list[str] = []
        self.fails = False

    def check(self, claim: Claim) -> Deferred[Answer]:
        self.asked.append(Deferred())
        return self.asked[-1]

    def start(self) -> None:
        if self.fails:
            raise OSError("no such server")
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def reload(self) -> None:
        self.calls.append("reload")


class Nobody:
    def run(self, job: Any, done: Any) -> None: ...

    def stop(self) -> None: ...


class AuthenticatorTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        hub = self.world.hub
        self.reactor = Clock()
        self.sources: dict[str, Source] = {}
        self.passwords = Passwords(Nobody(), 1, 10, hub.stats)
        self.settings = self.parse("one")
        guard = LoginGuard(self.settings.guard, hub, lambda: 0.0, lambda call: call(), lambda: None)
        self.patch(reload, "make_chain", self.make_chain)
        chain = self.make_chain(self.settings)
        assert chain is not None
        chain.start()
        self.owner = Authenticators(
            hub, self.passwords, guard, self.reactor, lambda: self.world.now, chain
        )

    def parse(self, name: str, more: str = "") -> Settings:
        return parse(ANY.format(name) + more, "x.toml")

    def make_chain(self, settings: Settings, *rest: Any) -> Chain | None:
        if not settings.auth:
            return None
        members = []
        for each in settings.auth:
            source = self.sources.setdefault(each.name, Source())
            members.append(Member(each.name, source))
        return Chain(members, self.world.hub, self.passwords)

    def prepare(self, new: Settings) -> Any:
        return self.successResultOf(Deferred.fromCoroutine(self.owner.prepare(self.settings, new)))

    def connect(self, name: str) -> Any:
        client = self.world.open(5)
        client.send(p.connect(name, 5, username="u", password=b"x"))
        return client

    def test_a_login_that_is_under_way_ends_with_the_old_one(self) -> None:
        client = self.connect("c")
        prepared = self.prepare(self.parse("two"))
        one, two = self.sources["one"], self.sources["two"]
        self.assertEqual(two.calls, ["start"])  # before anything is replaced
        prepared.apply()
        other = self.connect("d")
        self.assertEqual((len(one.asked), len(two.asked)), (1, 1))
        one.asked[0].callback(yes(Identity("u", "password")))
        two.asked[0].callback(yes(Identity("u", "password")))
        self.world.settle()
        for each in (client, other):
            self.assertEqual(each.next("CONNACK").reason, 0)
        self.assertEqual(one.calls, ["start"])
        self.reactor.advance(20.0)
        self.assertEqual(one.calls, ["start", "stop"])
        self.assertEqual(two.calls, ["start"])

    def test_discard(self) -> None:
        self.prepare(self.parse("two")).discard()
        self.assertEqual(self.sources["two"].calls, ["start", "stop"])
        self.connect("c")
        self.assertEqual(len(self.sources["one"].asked), 1)

    def test_one_that_cannot_be_started(self) -> None:
        self.sources["two"] = Source()
        self.sources["two"].fails = True
        coroutine = self.owner.prepare(self.settings, self.parse("two"))
        error = self.failureResultOf(Deferred.fromCoroutine(coroutine), ConfigError).value
        self.assertIn("no such server", str(error))
        self.assertEqual(self.sources["one"].calls, ["start"])

    def test_the_same_ones_read_their_files_again(self) -> None:
        self.prepare(self.settings).apply()
        self.assertEqual(self.sources["one"].calls, ["start", "reload"])

    def test_none_and_back(self) -> None:
        changed: list[Any] = []
        self.owner.on_change = changed.append
        self.prepare(replace(self.settings, auth=())).apply()
        self.assertIsNone(self.world.hub.admission.authenticator)
        self.assertEqual(len(changed), 1)

    def test_passwords_and_guard(self) -> None:
        new = self.parse(
            "one",
            "[passwords]\nmemory = '8 MiB'\niterations = 3\nscram_iterations = 5000\n"
            "[guard]\nlogin_failures = 2\n",
        )
        self.prepare(new).apply()
        self.assertEqual(self.passwords.costs, Costs(8192, 3))
        self.assertEqual(self.passwords.scram_iterations, 5000)

    def test_the_end(self) -> None:
        """Both are stopped, also the one that waited for its logins."""
        self.prepare(self.parse("two")).apply()
        self.successResultOf(Deferred.fromCoroutine(self.owner.stop(1.0)))
        for name in ("one", "two"):
            self.assertEqual(self.sources[name].calls, ["start", "stop"])
        self.assertEqual(self.reactor.getDelayedCalls(), [])
