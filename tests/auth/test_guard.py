"""The guard: bans, lock-outs after failed logins, flapping clients."""

import json
from collections.abc import Callable
from typing import Any
from unittest import TestCase

from mhub.access.entries import ban_key
from mhub.auth.bans import ban_value
from mhub.auth.guard import SLICE, SWEEP_MOST, LoginGuard
from mhub.config import parse
from mhub.config.guard import GuardSettings
from mhub.core import events
from mhub.core.authentication import Claim, Later, Step, failure, proceed, success
from mhub.core.principal import CERTIFICATE, Certificate, Identity
from mhub.wire import reasons
from tests.core.world import Client, World
from tests.helpers import packets as p
from tests.helpers.packets import Prop

EPOCH = 1_800_000_000.0


class Passwords:
    """Everybody's password is "right"."""

    def __init__(self) -> None:
        self.asked = 0
        self.reason = reasons.BAD_USER_OR_PASSWORD

    def authenticate(self, claim: Claim) -> Step | Later:
        self.asked += 1
        if claim.password == b"right":
            return success(Identity(claim.username or "", "test"))
        return failure("wrong password", self.reason)


class Exchange:
    """Enhanced authentication whose name is in the data: NAME, then the password."""

    def __init__(self) -> None:
        self.name = ""

    def step(self, data: bytes) -> Step | Later:
        if not self.name:
            self.name = data.decode()
            return proceed(b"")
        if data == b"right":
            return success(Identity(self.name, "test"))
        step = failure("wrong")
        step.user = self.name
        return step


class Case(TestCase):
    settings: dict[str, Any] = {}

    def setUp(self) -> None:
        self.world = World()
        self.hub = self.world.hub
        self.registry = self.hub.registry
        self.changes: list[list[str]] = []
        self.registry.watchers.append(self.changes.append)
        self.passwords = Passwords()
        self.hub.admission.authenticator = self.passwords
        self.hub.admission.methods["test"] = lambda claim: Exchange()
        self.calls: list[Callable[[], None]] = []
        self.guard = self.make_guard(**self.settings)

    def make_guard(self, **settings: Any) -> LoginGuard:
        guard = LoginGuard(
            GuardSettings(**settings),
            self.hub,
            lambda: EPOCH + self.world.now,
            self.calls.append,
            self.hub.flush,
        )
        self.hub.admission.guard = guard
        self.hub.events.sinks.append(guard)
        return guard

    @property
    def table(self) -> dict[str, str]:
        return {entry.key: entry.value for entry in self.registry.items("")}

    @property
    def now(self) -> float:
        return EPOCH + self.world.now

    def run_calls(self) -> int:
        turns = 0
        while self.calls:
            turns += 1
            self.calls.pop(0)()
        return turns

    def ban(self, kind: str, value: str, until: float = 0.0, reason: str = "") -> None:
        self.registry.change(
            {ban_key(kind, value): ban_value(reason, until, "", 0.0)}, self.world.now
        )

    def open(self, address: str = "192.0.2.1:50000", version: int = 5) -> Client:
        client = self.world.open(version)
        client.connection.principal.address = address
        return client

    def connect(
        self,
        user: str = "alice",
        password: bytes = b"right",
        address: str = "192.0.2.1:50000",
        client_id: str = "c",
        version: int = 5,
    ) -> Client:
        client = self.open(address, version)
        client.send(p.connect(client_id, version, username=user, password=password))
        client.connack = client.next("CONNACK")
        return client

    def reason(self, *args: Any, **more: Any) -> int:
        connack = self.connect(*args, **more).connack
        assert connack is not None
        assert connack.reason is not None
        return connack.reason

    def fail(self, count: int, user: str = "alice", address: str = "192.0.2.1:50000") -> None:  # type: ignore[override]
        for _ in range(count):
            self.assertEqual(self.reason(user, b"wrong", address), reasons.BAD_USER_OR_PASSWORD)


class BanTests(Case):
    def test_nobody_is_banned_at_first(self) -> None:
        self.assertEqual(self.reason(), 0)

    def test_a_client_id(self) -> None:
        self.ban("client", "c")
        self.assertEqual(self.reason(), reasons.BANNED)
        self.assertEqual(self.passwords.asked, 0)
        self.assertEqual(self.reason(client_id="d"), 0)
        self.assertEqual(self.world.stats.refused_banned, 1)

    def test_a_user_that_has_proved_to_be_it(self) -> None:
        self.ban("user", "alice", reason="left the company")
        self.assertEqual(self.reason(), reasons.BANNED)
        self.assertEqual(self.reason(password=b"wrong"), reasons.BAD_USER_OR_PASSWORD)
        self.assertEqual(self.reason("bob"), 0)
        self.assertIn("left the company", str(self.world.diary.lines[0]))

    def test_the_claim_of_a_name_is_not_the_user(self) -> None:
        self.hub.admission.authenticator = None
        self.ban("user", "alice")
        self.assertEqual(self.reason(), 0)

    def test_the_client_is_not_told_why(self) -> None:
        self.ban("client", "c", reason="a secret")
        client = self.connect()
        assert client.connack is not None
        self.assertEqual(client.connack.prop(Prop.REASON_STRING), "banned")
        self.assertTrue(client.closed)

    def test_older_clients_are_not_authorized(self) -> None:
        self.ban("client", "c")
        self.assertEqual(self.reason(version=4), 5)

    def test_the_client_id_that_a_user_gets(self) -> None:
        self.ban("client", "alice")
        client = self.world.open(5, username_as_client_id=True, allow_anonymous=False)
        client.send(p.connect("other", 5, username="alice", password=b"right"))
        self.assertEqual(client.next("CONNACK").reason, reasons.BANNED)

    def test_addresses_and_networks(self) -> None:
        self.ban("address", "198.51.100.0/24")
        self.ban("address", "2001:db8::/32")
        self.ban("address", "203.0.113.9")
        for address, is_banned in {
            "198.51.100.77:1": True,
            "[::ffff:198.51.100.77]:1": True,
            "198.51.101.1:1": False,
            "[2001:db8:ffff::1]:1": True,
            "[2001:db9::1]:1": False,
            "203.0.113.9:1": True,
            "203.0.113.10:1": False,
            "local": False,
        }.items():
            expected = reasons.BANNED if is_banned else 0
            self.assertEqual(self.reason(address=address), expected, address)

    def test_a_mapped_network_is_of_ipv4(self) -> None:
        self.ban("address", "::ffff:198.51.100.0/120")
        self.assertEqual(self.reason(address="198.51.100.7:1"), reasons.BANNED)
        self.assertEqual(list(self.table), ["ban/address/198.51.100.0/24"])

    def test_a_narrow_ban_that_is_over_does_not_hide_a_wider_one(self) -> None:
        self.ban("address", "198.51.100.7", until=self.now - 1)
        self.ban("address", "198.51.100.0/24")
        self.assertEqual(self.reason(address="198.51.100.7:1"), reasons.BANNED)

    def test_it_ends(self) -> None:
        self.ban("client", "c", until=self.now + 60)
        self.world.wait(59)
        self.assertEqual(self.reason(), reasons.BANNED)
        self.world.wait(1)
        self.assertEqual(self.reason(), 0)

    def test_it_is_taken_back(self) -> None:
        for kind, value in (("client", "c"), ("user", "alice"), ("address", "192.0.2.0/24")):
            self.ban(kind, value)
            self.assertEqual(self.reason(), reasons.BANNED)
            self.registry.change({ban_key(kind, value): None}, 0.0)
            self.assertEqual(self.reason(), 0)

    def test_what_was_there_at_the_start(self) -> None:
        self.ban("client", "c")
        self.make_guard()
        self.assertEqual(self.reason(), reasons.BANNED)

    def test_values_with_slashes(self) -> None:
        self.ban("client", "a/b/c")
        self.assertEqual(self.reason(client_id="a/b/c"), reasons.BANNED)
        self.assertEqual(self.reason(client_id="a"), 0)

    def test_entries_that_are_out_of_all_bounds(self) -> None:
        """They come with others, as at the start, and must not hide these."""
        huge, deep = "9" * 400, "[" * 100_000
        values: dict[str, str | None] = {
            f"lockout/user/{number}": text
            for number, text in enumerate(
                (
                    *('{"times": 1e999}', '{"times": NaN, "until": NaN}', deep),
                    *(f'{{"times": {huge}}}', f'{{"until": {huge}}}'),
                )
            )
        }
        values["ban/client/a"] = f'{{"until": {huge}}}'
        values["ban/client/b"] = deep
        values["ban/client/c"] = "{}"
        values["lockout/user/alice"] = f'{{"until": {self.now + 60}, "times": 1}}'
        self.registry.change(values, 0.0)
        for client_id in "abc":
            self.assertEqual(self.reason(client_id=client_id), reasons.BANNED)
        self.assertEqual(self.reason(client_id="d"), reasons.NOT_AUTHORIZED)
        for number in range(5):
            self.assertEqual(self.reason(str(number), client_id="d"), 0)

    def test_damaged_entries(self) -> None:
        """What says that somebody is banned, and not for how long, holds."""
        self.registry.change({"ban/client/c": "{"}, 0.0)
        self.registry.change({"ban/client/d": '{"until": "tomorrow"}'}, 0.0)
        self.registry.change({"ban/client/e": "[]"}, 0.0)
        for client_id in "cde":
            self.assertEqual(self.reason(client_id=client_id), reasons.BANNED)
        self.registry.change({"ban/address/nowhere": "{}", "ban/planet/x": "{}"}, 0.0)
        self.assertEqual(self.reason(client_id="f"), 0)


class LiveTests(Case):
    def connected(self, **more: Any) -> Client:
        client = self.connect(**more)
        assert client.connack is not None and client.connack.reason == 0
        return client

    def assertBanned(self, client: Client, version: int = 5) -> None:
        if version == 5:
            self.assertEqual(client.next("DISCONNECT").reason, reasons.BANNED)
        self.assertTrue(client.closed)

    def test_those_who_are_connected(self) -> None:
        for kind, value in (("client", "c"), ("user", "alice"), ("address", "192.0.2.0/24")):
            other = self.connected(user="bob", client_id="d", address="198.51.100.1:1")
            client = self.connected()
            self.ban(kind, value)
            self.assertFalse(client.closed)
            self.run_calls()
            self.assertBanned(client)
            self.assertFalse(other.closed)
            self.registry.change({ban_key(kind, value): None}, 0.0)
        self.assertEqual(self.world.stats.clients_banned, 3)

    def test_older_clients(self) -> None:
        client = self.connected(version=4)
        self.ban("user", "alice")
        self.run_calls()
        self.assertBanned(client, 4)

    def test_a_ban_that_is_over_hits_nobody(self) -> None:
        self.connected()
        self.ban("user", "alice", until=self.now - 1)
        self.assertEqual(self.run_calls(), 0)

    def test_many_are_looked_at_in_slices(self) -> None:
        clients = [self.connected(client_id=f"c{n}") for n in range(SLICE + 10)]
        self.ban("user", "alice")
        self.calls.pop(0)()
        self.assertEqual(sum(client.closed for client in clients), SLICE)
        self.run_calls()
        self.assertTrue(all(client.closed for client in clients))

    def test_a_second_ban_while_the_first_is_under_way(self) -> None:
        clients = [self.connected(client_id=f"c{n}") for n in range(SLICE + 10)]
        other = self.connected(user="bob", client_id="a-bob")
        self.ban("user", "alice")
        self.calls.pop(0)()
        self.ban("client", "a-bob")
        self.run_calls()
        self.assertTrue(all(client.closed for client in clients))
        self.assertTrue(other.closed)

    def test_the_session_stays(self) -> None:
        client = self.open()
        props = [(Prop.SESSION_EXPIRY, 100)]
        client.send(p.connect("c", 5, username="alice", password=b"right", props=props))
        client.next("CONNACK")
        self.ban("user", "alice")
        self.run_calls()
        self.assertTrue(client.closed)
        self.assertIn("c", self.hub.sessions)

    def test_a_ban_during_authentication(self) -> None:
        """It is asked again when it is known who it is."""
        later = Later()
        asker = self.passwords
        asker.authenticate = lambda claim: later  # type: ignore[method-assign]
        client = self.open()
        client.send(p.connect("c", 5, username="alice", password=b"right"))
        self.assertEqual(client.take(), [])
        self.ban("address", "192.0.2.1")
        later.give(success(Identity("alice", "test")))
        self.world.settle()
        self.assertEqual(client.next("CONNACK").reason, reasons.BANNED)


class LockoutTests(Case):
    settings = {"login_failures": 3, "address_failures": 10, "user_failures": 20}

    def test_a_user_at_an_address(self) -> None:
        self.fail(3)
        self.assertEqual(self.reason(), reasons.NOT_AUTHORIZED)
        self.assertEqual(self.reason(address="192.0.2.2:1"), 0)
        self.assertEqual(self.reason("bob"), 0)
        self.assertEqual(list(self.table), ["lockout/login/192.0.2.1 alice"])
        self.assertEqual(self.world.stats.refused_locked_out, 1)
        self.assertEqual(self.world.stats.lockouts, 1)
        self.assertEqual(self.world.stats.authentication_failures, 3)

    def test_it_says_for_how_long(self) -> None:
        self.fail(3)
        self.world.wait(10)
        connack = self.connect().connack
        assert connack is not None
        self.assertIn("try again in 20 s", connack.prop(Prop.REASON_STRING))

    def test_the_event(self) -> None:
        self.fail(3)
        (event,) = self.world.diary.of(events.LOCKED_OUT)
        self.assertEqual((event.cause, event.count, event.duration_s), ("login", 3, 30.0))
        self.assertEqual(event.text, "user 'alice' at 192.0.2.1")

    def test_no_write_for_a_failure(self) -> None:
        self.fail(2)
        self.assertEqual(self.changes, [])

    def test_time_grows(self) -> None:
        self.make_guard(login_failures=3, address_failures=0, user_failures=0)
        lengths = []
        for _ in range(9):
            self.fail(3)
            begun = self.world.now
            while self.reason(password=b"wrong") == reasons.NOT_AUTHORIZED:
                self.world.wait(1)
            lengths.append(round(self.world.now - begun))
            # That try was a failure; two more follow.
            self.assertEqual(self.reason(), 0)
        self.assertEqual(lengths[:4], [30, 60, 120, 240])
        self.assertEqual(lengths[-2:], [3600, 3600])

    def test_it_is_forgotten(self) -> None:
        self.fail(3)
        self.world.wait(30 + 3600)
        self.fail(3)
        self.assertEqual(json.loads(self.table["lockout/login/192.0.2.1 alice"])["times"], 1)

    def test_the_right_password_does_not_tell(self) -> None:
        """Right or wrong, the answer is the same; and trying does not make it longer."""
        self.fail(3)
        for password in (b"right", b"wrong", b"right"):
            self.assertEqual(self.reason(password=password), reasons.NOT_AUTHORIZED)
        self.world.wait(30)
        self.assertEqual(self.reason(), 0)
        self.assertEqual(self.passwords.asked, 4)

    def test_many_at_a_time_get_no_more_tries(self) -> None:
        """Those that came before the lock-out, and are answered after it, learn nothing."""
        laters: list[Later] = []

        def authenticate(claim: Claim) -> Later:
            laters.append(Later())
            return laters[-1]

        self.passwords.authenticate = authenticate  # type: ignore[method-assign]
        clients = [self.open() for _ in range(6)]
        for number, client in enumerate(clients):
            client.send(p.connect(f"c{number}", 5, username="alice", password=b"?"))
        for later in laters[:3]:
            later.give(failure("no", reasons.BAD_USER_OR_PASSWORD))
        laters[3].give(failure("no", reasons.BAD_USER_OR_PASSWORD))
        laters[4].give(success(Identity("alice", "test")))
        laters[5].give(success(Identity("bob", "test")))
        self.world.settle()
        answers = [client.next("CONNACK").reason for client in clients]
        wrong = reasons.BAD_USER_OR_PASSWORD
        locked = reasons.NOT_AUTHORIZED
        self.assertEqual(answers, [wrong, wrong, wrong, locked, locked, 0])

    def test_success_begins_anew(self) -> None:
        for _ in range(3):
            self.fail(2)
            self.assertEqual(self.reason(), 0)

    def test_an_address(self) -> None:
        for number in range(10):
            self.fail(1, f"user{number}")
        self.assertEqual(self.reason("carol"), reasons.NOT_AUTHORIZED)
        self.assertEqual(self.reason("carol", address="192.0.2.2:1"), 0)
        self.assertIn("lockout/address/192.0.2.1", self.table)

    def test_who_has_a_password_gets_no_more_tries(self) -> None:
        for number in range(10):
            self.assertEqual(self.reason("mallory"), 0)
            self.fail(1, f"user{number}")
        self.assertEqual(self.reason("mallory"), reasons.NOT_AUTHORIZED)

    def test_an_old_password_does_not_lock_out_the_address(self) -> None:
        """Tries during a lock-out are not counted: others at that address go on."""
        for _ in range(100):
            self.reason(password=b"old")
            self.world.wait(1)
        self.assertEqual(self.reason("bob"), 0)

    def test_an_ipv6_network_is_one_address(self) -> None:
        for number in range(3):
            self.fail(1, "alice", f"[2001:db8:0:1::{number}]:1")
        self.assertEqual(self.reason(address="[2001:db8:0:1::ffff]:1"), reasons.NOT_AUTHORIZED)
        self.assertEqual(self.reason(address="[2001:db8:0:2::1]:1"), 0)

    def test_mapped_addresses_are_the_same(self) -> None:
        self.fail(2)
        self.fail(1, "alice", "[::ffff:192.0.2.1]:1")
        self.assertEqual(self.reason(), reasons.NOT_AUTHORIZED)

    def fail_from_anywhere(self, count: int) -> None:
        for number in range(count):
            self.fail(1, "alice", f"198.51.100.{number}:1")

    def test_a_user_from_anywhere(self) -> None:
        self.fail_from_anywhere(20)
        self.assertEqual(self.reason(), reasons.NOT_AUTHORIZED)
        self.assertEqual(self.reason("bob"), 0)

    def test_a_user_stays_where_it_has_logged_in(self) -> None:
        self.assertEqual(self.reason(), 0)
        self.fail_from_anywhere(20)
        self.assertEqual(self.reason(), 0)
        self.assertEqual(self.reason(address="192.0.2.2:1"), reasons.NOT_AUTHORIZED)

    def test_also_after_a_restart_where_it_has_a_session(self) -> None:
        client = self.open()
        props = [(Prop.SESSION_EXPIRY, 1000)]
        client.send(p.connect("c", 5, username="alice", password=b"right", props=props))
        client.lose()
        self.make_guard(**self.settings)
        self.fail_from_anywhere(20)
        self.assertEqual(self.reason(client_id="other"), reasons.NOT_AUTHORIZED)
        self.assertEqual(self.reason(), 0)

    def test_a_user_is_locked_out_for_a_short_time_only(self) -> None:
        """Anybody can bring that about who knows the name."""
        for _ in range(8):
            self.fail_from_anywhere(20)
            self.world.wait(300)
        self.assertEqual(self.reason(), 0)
        until = json.loads(self.table["lockout/user/alice"])["until"]
        self.assertLessEqual(until, self.now)

    def test_shared_addresses(self) -> None:
        """A proxy is not locked out, nor is a user there before its own threshold."""
        for number in range(30):
            self.fail(1, f"user{number}", "127.0.0.1:1")
        self.fail(19, "alice", "127.0.0.1:1")
        self.assertEqual(self.reason(address="127.0.0.1:1"), 0)
        self.fail(1, "alice", "127.0.0.1:1")
        self.assertEqual(self.reason(address="127.0.0.1:1"), reasons.NOT_AUTHORIZED)
        self.assertEqual(self.reason("bob", address="127.0.0.1:1"), 0)

    def test_a_unix_socket_is_shared(self) -> None:
        self.fail(20, "alice", "local")
        self.assertEqual(self.reason(address="local"), reasons.NOT_AUTHORIZED)
        self.assertEqual(self.reason("bob", address="local"), 0)

    def test_what_is_not_about_credentials_does_not_count(self) -> None:
        for reason in (reasons.SERVER_UNAVAILABLE, reasons.SERVER_BUSY):
            self.passwords.reason = reason
            for _ in range(50):
                self.assertEqual(self.reason(password=b"wrong"), reason)
        self.assertEqual(self.world.stats.authentication_failures, 0)

    def with_certificate(self, step: Step) -> int:
        """The answer to a client of whom TLS knows a certificate, if authentication says this."""
        self.passwords.authenticate = lambda claim: step  # type: ignore[method-assign]
        client = self.open()
        client.connection.principal.certificate = Certificate("alice")
        client.send(p.connect("c", 5, username="alice", password=b"?"))
        return client.next("CONNACK").reason or 0

    def test_certificates_are_not_guessed(self) -> None:
        self.fail(3)
        for number in range(7):
            self.fail(1, f"user{number}")
        self.assertEqual(len(self.table), 2)  # the address as well
        self.assertEqual(self.with_certificate(success(Identity("alice", CERTIFICATE))), 0)

    def test_a_certificate_is_no_way_around(self) -> None:
        """Who has one, and logs in with a password, has the answer of all."""
        self.fail(3)
        locked = reasons.NOT_AUTHORIZED
        wrong = failure("wrong", reasons.BAD_USER_OR_PASSWORD)
        self.assertEqual(self.with_certificate(success(Identity("alice", "password"))), locked)
        self.assertEqual(self.with_certificate(wrong), locked)

    def test_very_long_names(self) -> None:
        """They are counted for the address, and not kept."""
        self.fail(10, "x" * 60_000)
        self.assertEqual(list(self.table), ["lockout/address/192.0.2.1"])

    def exchange(self, user: str, password: bytes) -> int:
        client = self.open()
        props = [(Prop.AUTH_METHOD, "test"), (Prop.AUTH_DATA, user.encode())]
        client.send(p.connect("c", 5, props=props))
        client.next("AUTH")
        props = [(Prop.AUTH_METHOD, "test"), (Prop.AUTH_DATA, password)]
        client.send(p.auth(reasons.CONTINUE_AUTHENTICATION, props))
        return client.next("CONNACK").reason or 0

    def test_enhanced_authentication_names_the_user_later(self) -> None:
        """The answer is the same for the right and the wrong password there, too."""
        for _ in range(3):
            self.assertEqual(self.exchange("alice", b"wrong"), reasons.NOT_AUTHORIZED)
        self.assertIn("lockout/login/192.0.2.1 alice", self.table)
        self.assertEqual(self.exchange("alice", b"right"), reasons.NOT_AUTHORIZED)
        self.assertEqual(self.exchange("bob", b"right"), 0)
        self.world.wait(31)
        self.assertEqual(self.exchange("alice", b"right"), 0)

    def again_as(self, user: str, password: bytes) -> tuple[Any, ...]:
        """What a client that is connected as mallory is told when it authenticates as another."""
        client = self.open()
        client.send(p.connect("m", 5, props=[(Prop.AUTH_METHOD, "test"), (Prop.AUTH_DATA, b"m")]))
        client.next("AUTH")
        props = [(Prop.AUTH_METHOD, "test"), (Prop.AUTH_DATA, b"right")]
        client.send(p.auth(reasons.CONTINUE_AUTHENTICATION, props))
        self.assertEqual(client.next("CONNACK").reason, 0)
        props = [(Prop.AUTH_METHOD, "test"), (Prop.AUTH_DATA, user.encode())]
        client.send(p.auth(reasons.REAUTHENTICATE, props))
        client.next("AUTH")
        props = [(Prop.AUTH_METHOD, "test"), (Prop.AUTH_DATA, password)]
        client.send(p.auth(reasons.CONTINUE_AUTHENTICATION, props))
        told = client.next("DISCONNECT")
        return told.reason, told.prop(Prop.REASON_STRING)

    def test_authenticating_again_tells_nothing_about_others(self) -> None:
        """Who is connected learns neither before nor during a lock-out whose password is right."""
        answers = {self.again_as("alice", b"right"), self.again_as("alice", b"wrong")}
        self.assertEqual(len(answers), 1)
        self.assertEqual(self.world.stats.authentication_failures, 2)
        self.again_as("alice", b"right")
        self.assertIn("lockout/login/192.0.2.1 alice", self.table)
        locked = self.again_as("alice", b"wrong")
        self.assertIn("too many failed logins", locked[1])
        self.assertEqual(self.again_as("alice", b"right"), locked)

    def test_a_client_id_that_is_refused_tells_nothing(self) -> None:
        """Whatever else is wrong with a CONNECT, a lock-out is the first thing to be said."""
        for _ in range(3):
            self.exchange("alice", b"wrong")
        answers = []
        for password in (b"right", b"wrong"):
            client = self.world.open(5, max_client_id_length=10)
            client.connection.principal.address = "192.0.2.1:50000"
            props = [(Prop.AUTH_METHOD, "test"), (Prop.AUTH_DATA, b"alice")]
            client.send(p.connect("x" * 11, 5, props=props))
            client.next("AUTH")
            props = [(Prop.AUTH_METHOD, "test"), (Prop.AUTH_DATA, password)]
            client.send(p.auth(reasons.CONTINUE_AUTHENTICATION, props))
            answers.append(client.next("CONNACK").reason)
        self.assertEqual(answers, [reasons.NOT_AUTHORIZED] * 2)

    def test_other_nodes(self) -> None:
        """What one node decides holds on the other."""
        other = Case()
        other.settings = self.settings
        other.setUp()
        self.registry.forward = lambda message: other.registry.take_change(message.payload)
        self.fail(3)
        self.assertEqual(other.reason(), reasons.NOT_AUTHORIZED)

    def test_an_operator_takes_it_back(self) -> None:
        self.fail(3)
        self.registry.change({"lockout/login/192.0.2.1 alice": None}, 0.0)
        self.assertEqual(self.reason(), 0)

    def test_damaged_entries(self) -> None:
        for value in ("{", "[]", '{"until": "x", "times": null}'):
            self.registry.change({"lockout/user/alice": value}, 0.0)
            self.assertEqual(self.reason(), 0)

    def test_turned_off(self) -> None:
        self.make_guard(login_failures=0, address_failures=0, user_failures=0)
        self.hub.events.sinks.remove(self.guard)
        self.fail(200)


class BoundTests(Case):
    settings = {"login_failures": 2, "address_failures": 0, "user_failures": 0, "max_entries": 3}

    def test_the_registry_is_not_filled(self) -> None:
        """Beyond the bound, lock-outs hold here all the same."""
        for number in range(5):
            self.fail(2, f"user{number}")
        self.assertEqual(len(self.table), 3)
        self.assertEqual(self.world.stats.guard_unstored, 2)
        for number in range(5):
            self.assertEqual(self.reason(f"user{number}"), reasons.NOT_AUTHORIZED)

    def test_those_end_as_well(self) -> None:
        for number in range(5):
            self.fail(2, f"user{number}")
        self.world.wait(5000)
        self.guard.sweep()
        self.assertEqual((self.table, self.guard.lockouts), ({}, {}))
        for number in range(3):
            self.fail(2, f"user{number}")
        self.assertEqual(len(self.table), 3)

    def test_room_is_used_again(self) -> None:
        for number in range(5):
            self.fail(2, f"user{number}")
        self.registry.change({"lockout/login/192.0.2.1 user0": None}, 0.0)
        self.fail(2, "user9")
        self.assertIn("lockout/login/192.0.2.1 user9", self.table)

    def test_bans_of_operators_do_not_count(self) -> None:
        for number in range(10):
            self.ban("client", f"x{number}")
        self.fail(2)
        self.assertIn("lockout/login/192.0.2.1 alice", self.table)

    def test_counters_that_had_to_go_are_counted(self) -> None:
        self.make_guard(login_failures=5, max_counters=100)
        for number in range(110):
            self.reason(f"user{number}", b"wrong", f"198.51.{number}.1:1")
        self.assertGreaterEqual(self.world.stats.guard_evicted, 10)


class SweepTests(Case):
    settings = {"login_failures": 1, "address_failures": 0, "user_failures": 0}

    def test_nothing_to_do(self) -> None:
        self.ban("client", "x")
        self.fail(1)
        self.changes.clear()
        self.guard.sweep()
        self.assertEqual(self.changes, [])

    def test_what_is_over_is_deleted(self) -> None:
        self.ban("client", "x", until=self.now + 10)
        self.ban("client", "y")
        self.fail(1)
        self.world.wait(11)
        self.guard.sweep()
        self.assertEqual(list(self.table), ["ban/client/y", "lockout/login/192.0.2.1 alice"])
        self.world.wait(3630)
        self.guard.sweep()
        self.assertEqual(list(self.table), ["ban/client/y"])

    def test_some_at_a_time(self) -> None:
        for number in range(SWEEP_MOST + 50):
            self.ban("client", f"x{number}", until=self.now + 10)
        self.world.wait(11)
        self.changes.clear()
        self.guard.sweep()
        self.guard.sweep()
        self.guard.sweep()
        self.assertEqual([len(change) for change in self.changes], [SWEEP_MOST, 50])

    def test_one_node_does_it(self) -> None:
        self.ban("client", "x", until=self.now + 10)
        self.world.wait(11)

        class Peer:
            def __init__(self, name: str, up: bool) -> None:
                self.name = name
                self.up = up

        class Peers:
            node = "b"
            all = [Peer("a", True), Peer("c", True)]

        peers = Peers()
        self.guard._hub = Around(self.hub, peers)  # type: ignore[assignment]
        self.guard.sweep()
        self.assertIn("ban/client/x", self.table)
        peers.all[0].up = False
        self.guard.sweep()
        self.assertNotIn("ban/client/x", self.table)


class Around:
    """A hub that has other nodes."""

    def __init__(self, hub: Any, peers: Any) -> None:
        self.hub = hub
        self.peers = peers

    def __getattr__(self, name: str) -> Any:
        return getattr(self.hub, name)


class FlappingTests(Case):
    settings = {"flapping_connects": 5, "flapping_window_s": 60.0, "flapping_ban_s": 100.0}

    def flap(self, count: int, client_id: str = "c") -> Client:
        for _ in range(count):
            client = self.connect(client_id=client_id)
            assert client.connack is not None
            self.assertEqual(client.connack.reason, 0)
        return client

    def test_it_is_banned_for_a_while(self) -> None:
        client = self.flap(5)
        self.run_calls()
        self.assertEqual(client.next("DISCONNECT").reason, reasons.BANNED)
        self.assertEqual(self.reason(), reasons.BANNED)
        self.assertEqual(self.reason(client_id="d"), 0)
        self.world.wait(100)
        self.assertEqual(self.reason(), 0)

    def test_the_entry(self) -> None:
        self.flap(5)
        entry = json.loads(self.table["ban/client/c"])
        self.assertEqual((entry["by"], entry["until"]), ("flapping", self.now + 100))
        self.assertEqual(len(self.world.diary.of(events.FLAPPING)), 1)
        self.assertEqual(self.world.stats.flapping_bans, 1)

    def test_slow_ones_are_not(self) -> None:
        for _ in range(20):
            self.flap(1)
            self.world.wait(61)

    def test_two_with_the_same_client_id(self) -> None:
        """Each takes the session from the other, for ever."""
        for _ in range(5):
            self.connect(client_id="c")
        self.assertEqual(self.world.stats.flapping_bans, 1)

    def test_very_long_client_ids_do_not_fill_the_registry(self) -> None:
        self.flap(50, "x" * 5000)
        self.assertEqual(self.table, {})

    def test_off_by_default(self) -> None:
        self.hub.events.sinks.remove(self.guard)
        self.make_guard()
        self.flap(200)


class SettingsTests(TestCase):
    def test_networks(self) -> None:
        text = '[guard]\nshared_addresses = ["10.0.0.0/8", "::ffff:192.0.2.1"]\n'
        self.assertEqual(parse(text, "x").guard.shared_addresses, ("10.0.0.0/8", "192.0.2.1"))

    def test_a_mistake(self) -> None:
        with self.assertRaisesRegex(Exception, "write 10.0.0.0/8 for the network"):
            parse('[guard]\nshared_addresses = ["10.0.0.1/8"]\n', "x")

    def test_the_default_can_be_read(self) -> None:
        World()
        guard = GuardSettings()
        text = f"[guard]\nshared_addresses = {json.dumps(guard.shared_addresses)}\n"
        self.assertEqual(parse(text, "x").guard, guard)
