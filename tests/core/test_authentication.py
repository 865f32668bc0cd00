"""Authentication that takes its time: what a client is told, and what waits for it."""

from types import SimpleNamespace
from typing import Any
from unittest import TestCase

from mhub.core.authentication import Claim, Later, Step, failure, proceed, success
from mhub.core.principal import Identity
from mhub.wire import reasons
from tests.core.world import Client, World
from tests.helpers import packets as p
from tests.helpers.packets import Prop


class Slow:
    """An authenticator whose answers the test gives; as a method of MQTT 5, too."""

    def __init__(self) -> None:
        self.claims: list[Claim] = []
        self.laters: list[Later] = []
        self.abandoned = 0
        self.data: list[bytes] = []

    def later(self) -> Later:
        later = Later()
        later.on_abandon = self.count
        self.laters.append(later)
        return later

    def count(self) -> None:
        self.abandoned += 1

    def authenticate(self, claim: Claim) -> Step | Later:
        self.claims.append(claim)
        return self.later()

    def __call__(self, claim: Claim) -> "Slow":
        self.claims.append(claim)
        return self

    def step(self, data: bytes) -> Step | Later:
        self.data.append(data)
        return self.later()


class Case(TestCase):
    def setUp(self) -> None:
        self.world = World(authentication_timeout_s=5.0, connect_timeout_s=10.0)
        self.slow = Slow()
        self.world.hub.admission.authenticator = self.slow
        self.world.hub.admission.methods["slow"] = self.slow
        self.woken = 0
        self.world.hub.wake = self.wake

    def wake(self) -> None:
        self.woken += 1

    def begin(self, version: int = 4, *more: bytes, **connect: Any) -> Client:
        client = self.world.open(version)
        client.send(p.connect("c", version, username="alice", password=b"pw", **connect), *more)
        return client

    def give(self, step: Step) -> None:
        self.slow.laters[-1].give(step)
        self.world.settle()

    def admit(self, *roles: str) -> None:
        identity = Identity("alice", "slow")
        identity.roles = roles
        self.give(success(identity))


class Proved(Case):
    """Whoever makes a connection in this process may have proved who it is."""

    def connect(self, user: str) -> Client:
        client = self.world.open(5)
        client.connection.principal.user = user
        client.connection.principal.roles = ("operator",)
        client.send(p.connect("c", 5, username="mallory", password=b"wrong"))
        return client

    def test_nobody_is_asked(self) -> None:
        client = self.connect("alice")
        self.assertEqual(client.next("CONNACK").reason, 0)
        principal = client.session.principal
        self.assertEqual((principal.user, principal.roles), ("alice", ("operator",)))
        self.assertEqual(self.slow.claims, [])

    def test_all_else_is_asked_as_ever(self) -> None:
        self.world.hub.is_deleted = lambda principal: principal.user == "alice"
        self.assertEqual(self.connect("alice").next("CONNACK").reason, reasons.NOT_AUTHORIZED)

    def test_a_user_that_is_only_claimed_is_not_proved(self) -> None:
        self.assertEqual(self.connect("").take(), [])
        self.assertEqual(len(self.slow.claims), 1)


class Connects(Case):
    def test_the_answer_may_come_later(self) -> None:
        for version in (3, 4, 5):
            client = self.begin(version)
            self.assertEqual(client.take(), [])
            self.assertEqual(self.world.hub.connected, 0)
            self.admit("operator")
            self.assertEqual(client.next("CONNACK").reason, 0)
            principal = client.session.principal
            self.assertIs(principal, client.connection.principal)
            self.assertEqual((principal.user, principal.roles), ("alice", ("operator",)))
            self.assertEqual((principal.client_id, principal.method), ("c", "slow"))
            client.lose()
        self.assertEqual(self.woken, 3)

    def test_it_is_told_what_the_client_says(self) -> None:
        self.begin()
        [claim] = self.slow.claims
        self.assertEqual((claim.username, claim.password), ("alice", b"pw"))
        principal = claim.principal
        self.assertEqual((principal.client_id, principal.claimed_user), ("c", "alice"))
        self.assertFalse(principal.is_verified())

    def test_the_answer_may_be_no(self) -> None:
        for version, reason, code in (
            (4, reasons.BAD_USER_OR_PASSWORD, 4),
            (4, reasons.NOT_AUTHORIZED, 5),
            (4, reasons.SERVER_UNAVAILABLE, 3),
            (5, reasons.BAD_USER_OR_PASSWORD, 0x86),
            (5, reasons.BANNED, 0x8A),
        ):
            client = self.begin(version)
            self.give(failure("the directory says no", reason))
            connack = client.next("CONNACK")
            self.assertEqual((connack.reason, client.closed), (code, True))
            self.assertNotIn(b"the directory", connack.body)  # which is for the log alone
            self.assertEqual(self.world.hub.sessions, {})
        self.assertEqual(self.world.diary.lines[0], ("refused", 0x86, "the directory says no"))
        self.assertEqual(self.world.stats.protocol_errors, 0)

    def test_it_may_be_known_at_once(self) -> None:
        """A Later that was given its Step before it was returned is as good as the Step."""

        class Quick(Slow):
            def later(self) -> Later:
                later = Later()
                later.give(success(Identity("alice", "quick")))
                return later

        self.world.hub.admission.authenticator = Quick()
        client = self.begin()
        self.assertEqual(client.next("CONNACK").reason, 0)

    def test_an_anonymous_client_needs_a_listener_that_allows_it(self) -> None:
        for allowed, code in ((True, 0), (False, 0x87)):
            client = self.world.open(5, allow_anonymous=allowed)
            client.send(p.connect("c", 5))
            self.give(success(Identity("", "")))
            self.assertEqual(client.next("CONNACK").reason, code)

    def test_what_follows_the_connect_waits_and_nothing_more_is_read(self) -> None:
        watcher = self.begin()
        self.admit()
        watcher.take()
        watcher.subscribe("#")
        client = self.world.open(4)
        client.send(p.connect("d", 4), p.publish("a", b"1"), p.publish("a", b"2"))
        self.assertFalse(client.outlet.reading)
        self.assertEqual(watcher.take(), [])
        self.admit()
        self.assertTrue(client.outlet.reading)
        self.assertEqual(watcher.payloads(), [b"1", b"2"])
        self.assertEqual([packet.type for packet in client.take()], ["CONNACK"])

    def test_what_comes_in_another_read_waits_as_well(self) -> None:
        client = self.begin()
        self.assertTrue(client.outlet.reading)
        client.send(p.pingreq()[:1])
        self.assertFalse(client.outlet.reading)
        client.feed(p.pingreq()[1:])  # it was on its way already
        self.admit()
        self.assertEqual([packet.type for packet in client.take()], ["CONNACK", "PINGRESP"])
        self.assertTrue(client.outlet.reading)

    def test_no_answer(self) -> None:
        """The client is refused, and who was asked is told not to bother."""
        for version, code in ((4, 3), (5, 0x88)):
            client = self.begin(version)
            self.world.wait(4.0)
            self.assertFalse(client.closed)
            self.world.wait(1.5)
            self.assertEqual((client.next("CONNACK").reason, client.closed), (code, True))
            self.admit()  # too late
            self.assertEqual((client.take(), self.world.hub.sessions), ([], {}))
        self.assertEqual((self.slow.abandoned, self.world.stats.authentication_timeouts), (2, 2))

    def test_it_has_its_own_time(self) -> None:
        """Not what is left of the time for the CONNECT."""
        client = self.world.open(4)
        self.world.wait(8.0, 32)
        client.send(p.connect("c", 4))
        self.world.wait(4.5, 18)
        self.assertFalse(client.closed)
        self.admit()
        self.assertEqual(client.next("CONNACK").reason, 0)
        self.world.wait(60.0, 8)
        self.assertFalse(client.closed)

    def test_the_client_may_go(self) -> None:
        client = self.begin()
        client.lose()
        self.assertEqual(self.slow.abandoned, 1)
        self.admit()
        self.assertEqual(self.world.hub.sessions, {})
        self.world.wait(20.0, 8)
        self.assertEqual(self.world.stats.authentication_timeouts, 0)

    def test_a_node_that_leaves_meanwhile(self) -> None:
        client = self.begin(5)
        self.world.hub.evacuate("elsewhere")
        self.admit()
        self.assertEqual((client.next("CONNACK").reason, client.closed), (0x9D, True))

    def test_only_the_first_answer_counts(self) -> None:
        client = self.begin()
        self.slow.laters[0].give(success(Identity("alice", "slow")))
        self.slow.laters[0].give(failure("no"))
        self.world.settle()
        self.assertEqual(client.next("CONNACK").reason, 0)

    def test_a_will_is_judged_when_it_is_known_who_leaves_it(self) -> None:
        found = []

        class Watching:
            def connect(self, *_: object) -> int:
                return 0

            def rule_of(self, *_: object) -> str:
                return ""

            def publish(self, *_: object) -> int:
                return 0

            def will(self, principal: object, topic: str, qos: int, retain: bool) -> int:
                found.append((principal, topic, qos, retain))
                return 0

            def subscribe(self, *_: object) -> int:
                return 0

            def receive(self, *_: object) -> bool:
                return True

        self.world.hub.authorize_with(Watching())
        client = self.begin(5, will=("w", b"bye", 1, True))
        self.assertEqual(found, [])
        self.admit()
        principal = client.connection.principal
        self.assertEqual((principal.user, principal.client_id), ("alice", "c"))
        self.assertEqual(found, [(principal, "w", 1, True)])


class Exchanges(Case):
    """Enhanced authentication, where each step may take its time."""

    def begin_exchange(self) -> Client:
        client = self.world.open(5)
        props = [(Prop.AUTH_METHOD, "slow"), (Prop.AUTH_DATA, b"1")]
        client.send(p.connect("c", 5, props=props))
        return client

    def auth(self, client: Client, data: bytes, reason: int = 0x18) -> None:
        client.send(p.auth(reason, [(Prop.AUTH_METHOD, "slow"), (Prop.AUTH_DATA, data)]))

    def connected(self) -> Client:
        client = self.begin_exchange()
        self.admit()
        self.assertEqual(client.next("CONNACK").reason, 0)
        return client

    def test_each_step(self) -> None:
        client = self.begin_exchange()
        self.assertEqual(client.take(), [])
        self.give(proceed(b"more"))
        self.assertEqual(client.next("AUTH").prop(Prop.AUTH_DATA), b"more")
        self.auth(client, b"2")
        self.assertEqual(client.take(), [])
        self.admit("operator")
        self.assertEqual(client.next("CONNACK").reason, 0)
        self.assertEqual(self.slow.data, [b"1", b"2"])
        self.assertEqual(client.session.principal.roles, ("operator",))

    def test_the_client_must_wait_for_its_turn(self) -> None:
        """What it sends at a wrong time is judged as if it had come after the answer."""
        client = self.begin_exchange()
        client.send(p.pingreq())
        self.give(proceed(b"more"))
        client.next("AUTH")
        self.assertEqual((client.next("CONNACK").reason, client.closed), (0x82, True))

    def test_again_while_connected(self) -> None:
        """[MQTT-4.12.1-1]: work goes on, and the roles are those of the new answer."""
        client = self.connected()
        self.auth(client, b"again", 0x19)
        client.send(p.pingreq())
        self.assertEqual([packet.type for packet in client.take()], ["PINGRESP"])
        self.admit("auditor")
        self.assertEqual(client.next("AUTH").reason, 0)
        self.assertEqual(client.session.principal.roles, ("auditor",))
        self.assertIs(client.session.principal, client.connection.principal)

    def test_the_next_auth_has_time_of_its_own(self) -> None:
        """However long the answer took that it follows."""
        client = self.world.open(5, authentication_timeout_s=60.0)
        props = [(Prop.AUTH_METHOD, "slow"), (Prop.AUTH_DATA, b"1")]
        client.send(p.connect("c", 5, props=props))
        self.world.wait(30.0, 120)
        self.give(proceed(b"2"))
        client.next("AUTH")
        self.world.wait(9.5, 38)
        self.assertFalse(client.closed)
        self.world.wait(1.0, 4)
        self.assertTrue(client.closed)
        self.assertIn("no AUTH within 10 s", self.world.diary.lines[-1][2])

    def test_again_without_an_answer(self) -> None:
        client = self.connected()
        self.auth(client, b"again", 0x19)
        self.world.wait(5.5, 22)
        self.assertEqual((client.next("DISCONNECT").reason, client.closed), (0x89, True))
        self.assertEqual((self.slow.abandoned, self.world.stats.authentication_timeouts), (1, 1))

    def test_an_authenticator_that_fails_when_nobody_waits_any_more(self) -> None:
        """It is told as a defect, and holds up neither the client's end nor anybody else's."""
        crashes: list[str] = []
        self.world.diary.crashed = lambda what, error: crashes.append(f"{what}: {error}")
        waiting = self.begin()
        client = self.connected()
        self.auth(client, b"again", 0x19)
        for later in self.slow.laters:
            later.on_abandon = self.fail_to_abandon
        client.lose()
        self.assertEqual(self.world.hub.connected, 0)
        self.assertIsNone(self.world.hub.sessions.get("c"))
        self.assertEqual(len(crashes), 1)
        self.world.wait(5.5, 22)
        self.assertEqual((waiting.next("CONNACK").reason, waiting.closed), (3, True))
        self.assertEqual(crashes, ["the end of an authentication: oops"] * 2)

    def fail_to_abandon(self) -> None:
        raise RuntimeError("oops")

    def test_again_and_refused(self) -> None:
        """Whatever the reason is: DISCONNECT has fewer than CONNACK."""
        client = self.connected()
        self.auth(client, b"again", 0x19)
        self.give(failure("gone", reasons.BANNED))
        self.assertEqual((client.next("DISCONNECT").reason, client.closed), (0x87, True))

    def test_again_and_impatient(self) -> None:
        client = self.connected()
        self.auth(client, b"again", 0x19)
        self.auth(client, b"and again", 0x18)
        self.assertEqual((client.next("DISCONNECT").reason, client.closed), (0x82, True))
        self.assertEqual(self.slow.abandoned, 1)

    def test_keepalive_goes_on_meanwhile(self) -> None:
        client = self.world.open(5, authentication_timeout_s=1000.0)
        props = [(Prop.AUTH_METHOD, "slow"), (Prop.AUTH_DATA, b"1")]
        client.send(p.connect("c", 5, props=props, keepalive=10))
        self.admit()
        client.next("CONNACK")
        self.auth(client, b"again", 0x19)
        self.world.wait(16.0, 64)
        self.assertEqual((client.next("DISCONNECT").reason, client.closed), (0x8D, True))


class LaterSteps(TestCase):
    def test_it_is_asked_again_when_it_takes_effect(self) -> None:
        """The user may have been locked since the authenticator knew."""
        world = World()
        later = Later()
        world.hub.admission.authenticator = SimpleNamespace(authenticate=lambda claim: later)
        client = world.open(5)
        client.send(p.connect("c", 5, username="u", password=b"x"))
        step = success(Identity("u", "test"))
        step.again = lambda: failure("locked")
        later.give(step)
        world.settle()
        self.assertEqual(client.next("CONNACK").reason, reasons.NOT_AUTHORIZED)


class Expiry(Exchanges):
    """What proves a client may not be valid for ever: the connection ends with it."""

    def setUp(self) -> None:
        super().setUp()
        self.offset_s = 1_700_000_000.0
        self.world.hub.unix_time = lambda: self.world.now + self.offset_s

    def admit_until(self, seconds: float) -> None:
        identity = Identity("alice", "slow")
        identity.expires_at = self.world.now + self.offset_s + seconds
        self.give(success(identity))

    def connect_for(self, seconds: float) -> Client:
        client = self.begin_exchange()
        self.admit_until(seconds)
        self.assertEqual(client.next("CONNACK").reason, 0)
        return client

    def test_the_connection_ends(self) -> None:
        client = self.connect_for(60)
        self.world.wait(59.5, 200)
        self.assertEqual((client.take(), client.closed), ([], False))
        self.world.wait(1.0, 4)
        last = client.next("DISCONNECT")
        self.assertEqual((last.reason, client.closed), (reasons.MAXIMUM_CONNECT_TIME, True))

    def test_an_older_client_is_closed(self) -> None:
        client = self.begin(4)
        self.admit_until(10)
        client.next("CONNACK")
        self.world.wait(10.5, 40)
        self.assertEqual((client.take(), client.closed), ([], True))

    def test_keepalive_goes_on_as_well(self) -> None:
        client = self.begin(5, keepalive=10)
        self.admit_until(60)
        client.next("CONNACK")
        self.world.wait(16, 64)
        self.assertEqual(client.next("DISCONNECT").reason, reasons.KEEP_ALIVE_TIMEOUT)

    def test_whoever_authenticates_again_stays(self) -> None:
        client = self.connect_for(60)
        self.world.wait(30, 100)
        self.auth(client, b"again", 0x19)
        self.admit_until(60)
        client.next("AUTH")
        self.world.wait(50, 100)
        self.assertFalse(client.closed)
        self.world.wait(15, 60)
        self.assertEqual(client.next("DISCONNECT").reason, reasons.MAXIMUM_CONNECT_TIME)

    def test_a_shorter_time_holds_as_well(self) -> None:
        client = self.connect_for(3600)
        self.auth(client, b"again", 0x19)
        self.admit_until(10)
        client.next("AUTH")
        self.world.wait(10.5, 40)
        self.assertTrue(client.closed)

    def test_what_has_expired_already(self) -> None:
        client = self.begin_exchange()
        self.admit_until(-1)
        self.assertEqual((client.next("CONNACK").reason, client.closed), (0x87, True))
        client = self.connect_for(60)
        self.auth(client, b"again", 0x19)
        self.admit_until(-1)
        self.assertEqual((client.next("DISCONNECT").reason, client.closed), (0x87, True))

    def test_the_time_of_day_may_be_set(self) -> None:
        """A machine without a clock of its own learns the time after its start."""
        self.offset_s = 0.0
        client = self.connect_for(60)
        self.offset_s = 1_700_000_000.0
        self.world.wait(50, 200)
        self.assertFalse(client.closed)
        self.assertEqual(self.connect_for(60).closed, False)
