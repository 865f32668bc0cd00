"""Users in Redis, against a real server."""

from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, DeferredList
from twisted.trial.unittest import SynchronousTestCase, TestCase

from mhub.auth import redis
from mhub.auth.contract import CANNOT_TELL, NO, NOT_MINE, YES, Answer
from tests.auth.external import HASH, ask, go_auth_hash, make_claim, make_context, problems
from tests.helpers.redis import RedisServer, shared_server


class RedisCase(TestCase):
    layout = "hash"

    def setUp(self) -> None:
        self.server = shared_server()
        self.context = make_context(reactor)
        self.source = self.make()

    def make(self, **settings: Any) -> Any:
        given = {"port": self.server.port, "layout": self.layout, "negative_cache_s": 0.0}
        source = redis.make("users", redis.Settings(**(given | settings)), self.context)
        self.addCleanup(source.stop)
        return source

    def ask(self, **claim: Any) -> "Deferred[Answer]":
        return ask(self.source, make_claim(**claim))


class HashTests(RedisCase):
    def put(self, name: str, **found: Any) -> None:
        words = [word for pair in found.items() for word in pair]
        self.server.ask("HSET", f"mhub:user:{name}", *words)

    async def test_user(self) -> None:
        self.put(
            "alice",
            password_hash=HASH,
            roles="device, reader",
            tenant="acme",
            site="hall-1",
            grants="publish, a/%c/#, any, allow",
        )
        answer = await self.ask()
        self.assertEqual(answer.outcome, YES, answer.text)
        identity = answer.identity
        assert identity is not None
        self.assertEqual((identity.user, identity.method), ("alice", "redis"))
        self.assertEqual(identity.roles, ("device", "reader"))
        self.assertEqual(identity.tenant, "acme")
        self.assertEqual(identity.attributes, {"site": "hall-1"})
        self.assertEqual(identity.grants, ("publish, a/%c/#, any, allow",))

    async def test_wrong_password(self) -> None:
        self.put("alice", password_hash=HASH)
        self.assertEqual((await self.ask(password="Secret")).outcome, NO)

    async def test_unknown_user(self) -> None:
        self.assertEqual((await self.ask(username="bob")).outcome, NOT_MINE)

    async def test_a_decoy_is_like_the_hashes_that_were_seen(self) -> None:
        self.assertEqual(self.source.decoy(), "")
        self.put("alice", password_hash=HASH)
        await self.ask(password="wrong")
        self.assertEqual(self.source.decoy(), HASH)

    async def test_a_remembered_refusal_costs_as_much_as_the_first(self) -> None:
        """Else a second try with the same password would tell which names there are."""
        self.put("alice", password_hash=HASH)
        source = self.make(negative_cache_s=60.0)
        for checked in (1, 2, 3):
            answer = await ask(source, make_claim(password="wrong"))
            self.assertEqual(answer.outcome, NO)
            self.assertEqual(self.context.hub.stats.passwords_checked, checked)
        self.assertEqual(self.context.hub.stats.auth_backend_answers, 1)

    async def test_superuser(self) -> None:
        for text, roles in (("true", ("admin",)), ("1", ("admin",)), ("0", ()), ("false", ())):
            self.put("alice", password_hash=HASH, superuser=text)
            answer = await self.ask()
            assert answer.identity is not None
            self.assertEqual(answer.identity.roles, roles, text)

    async def test_names_are_values(self) -> None:
        """Nothing that a client can send is anything but a part of a key."""
        self.put("alice", password_hash=HASH)
        for name in ("ali*", "alice\r\nFLUSHALL\r\n", "alice secret", "*", "%u", "a" * 65535):
            expected = NOT_MINE if name.isprintable() else NO
            self.assertEqual((await self.ask(username=name)).outcome, expected, name)
        self.assertEqual((await self.ask()).outcome, YES)

    async def test_what_is_no_hash_is_no_user(self) -> None:
        self.server.ask("SET", "mhub:user:alice", "x")
        self.assertEqual((await self.ask()).outcome, NOT_MINE)
        self.assertEqual(self.context.hub.stats.auth_backend_failures, 0)

    async def test_what_is_not_understood_is_refused(self) -> None:
        """A grant that is left out could be a deny."""
        self.put("alice", password_hash=HASH, grants="publish, a, any, dney")
        answer = await self.ask()
        self.assertEqual(answer.outcome, CANNOT_TELL)
        self.assertIn("dney", answer.text)
        self.assertEqual(self.context.hub.stats.auth_backend_failures, 0)

    async def test_by_client_id(self) -> None:
        source = self.make(identify_by="client_id", user_key="device:%c")
        self.server.ask("HSET", "device:c1", "password_hash", HASH)
        answer = await ask(source, make_claim(username=None))
        assert answer.identity is not None
        self.assertEqual(answer.identity.user, "c1")
        self.assertEqual((await ask(source, make_claim(client_id=""))).outcome, NOT_MINE)

    async def test_without_a_password_or_a_name_it_is_for_others(self) -> None:
        for claim in ({"password": None}, {"username": None}, {"username": ""}):
            self.assertEqual((await self.ask(**claim)).outcome, NOT_MINE)
        self.assertEqual(self.context.hub.stats.auth_backend_answers, 0)


class GoAuthTests(RedisCase):
    """The layout of mosquitto-go-auth, as it is."""

    layout = "go-auth"

    async def test_user_and_lists(self) -> None:
        for words in (
            ("SET", "alice", go_auth_hash("secret")),
            ("SET", "alice:su", "true"),
            ("SADD", "alice:sacls", "a/#"),
            ("SADD", "alice:racls", "a/b", "100%u"),
            ("SADD", "alice:wacls", "a/+/c", "bad+filter"),
            ("SADD", "alice:rwacls", "a, b"),
            ("SADD", "common:racls", "all/%u/#"),
            ("SADD", "common:wacls", "all/%c"),
        ):
            self.server.ask(*words)
        answer = await self.ask()
        self.assertEqual(answer.outcome, YES, answer.text)
        assert answer.identity is not None
        self.assertEqual(answer.identity.roles, ("admin",))
        self.assertEqual(
            set(answer.identity.grants),
            {
                "subscribe, a/#, any, allow",
                "receive, 100%%u, any, allow",  # a list of one user has no placeholders there
                "receive, a/b, any, allow",
                "publish, a/+/c, any, allow",
                "receive, a%2C b, any, allow",
                "publish, a%2C b, any, allow",
                "receive, all/%u/#, any, allow",
                "publish, all/%c, any, allow",
            },
        )

    async def test_superusers_can_be_disabled(self) -> None:
        self.server.ask("SET", "alice", HASH)
        self.server.ask("SET", "alice:su", "true")
        answer = await ask(self.make(superuser_role=""), make_claim())
        assert answer.identity is not None
        self.assertEqual(answer.identity.roles, ())

    async def test_a_key_that_anybody_can_name_is_no_user(self) -> None:
        """Nor can it open the circuit."""
        self.server.ask("SADD", "common:racls", "a")
        self.server.ask("SET", "alice:su", "true")
        for _ in range(10):
            answer = await self.ask(username="common:racls")
            self.assertEqual(answer.outcome, NOT_MINE)
            self.assertEqual((await self.ask(username="alice:su")).outcome, NO)
        self.assertEqual(self.context.hub.stats.auth_backend_failures, 0)


class ServerTests(TestCase):
    """What becomes of clients when the server hangs, dies, comes back."""

    def setUp(self) -> None:
        self.server = RedisServer()
        self.addCleanup(self.server.remove)
        self.server.ask("HSET", "mhub:user:alice", "password_hash", HASH)
        self.context = make_context(reactor)
        settings = redis.Settings(
            port=self.server.port,
            timeout_s=2.0,
            max_concurrent=2,
            breaker_failures=2,
            breaker_pause_s=0.1,
        )
        self.source = redis.make("users", settings, self.context)
        self.addCleanup(self.source.stop)

    def ask(self) -> "Deferred[Answer]":
        return ask(self.source, make_claim())

    async def test_hangs_and_goes_on(self) -> None:
        self.assertEqual((await self.ask()).outcome, YES)
        self.server.pause()
        answer = await self.ask()
        self.assertEqual(answer.outcome, CANNOT_TELL)
        self.assertIn("no answer within 2 s", answer.text)
        self.server.go_on()
        await self.until_yes()

    async def test_dies_and_comes_back(self) -> None:
        self.assertEqual((await self.ask()).outcome, YES)
        self.server.kill()
        # At once: more than are asked about before the circuit is open.
        answers = await DeferredList([self.ask() for _ in range(10)])
        self.assertEqual({answer.outcome for _, answer in answers}, {CANNOT_TELL})
        self.assertGreaterEqual(self.context.hub.stats.auth_backend_rejected, 1)
        self.server.start()
        self.server.ask("HSET", "mhub:user:alice", "password_hash", HASH)
        await self.until_yes()

    async def until_yes(self) -> None:
        for _ in range(200):
            answer = await self.ask()
            if answer.outcome == YES:
                return
            pause: Deferred[None] = Deferred()
            reactor.callLater(0.05, pause.callback, None)  # type: ignore[attr-defined]
            await pause
        self.fail(answer.text)


class SettingsTests(SynchronousTestCase):
    def test_mistakes(self) -> None:
        for settings, problem in (
            ({"user_key": "users:%x"}, "user_key: %x is no placeholder"),
            ({"user_key": "users:%c"}, "user_key: needs %{username}, which says who the client is"),
            ({"user_key": "u:%u:%{password}"}, "user_key: must not have the password in it"),
            ({"sentinels": ("a:1",)}, "sentinel_name: missing"),
            ({"username": "x"}, "username: needs password or password_file"),
            ({"ca": "x.pem"}, "ca: needs tls = true"),
            ({"layout": "go-auth", "identify_by": "client_id", "user_key": "%c"}, "identify_by:"),
        ):
            found = problems(redis, **settings)
            self.assertEqual(len(found), 1, found)
            self.assertIn(problem, found[0])

    def test_no_secret_is_shown(self) -> None:
        self.assertNotIn("hidden", repr(redis.Settings(password="hidden")))
