"""Publishing over HTTP, with a real hub: rights, limits and answers are those of any client."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mhub.admin.mqtt.message import Message
from mhub.core.events import CONNECTED, DENIED, DISCONNECTED
from mhub.core.guard import Refusal
from mhub.core.limits import DISCONNECT, Limits
from mhub.core.principal import Principal
from mhub.operations.contract import (
    BadArgument,
    Forbidden,
    LimitReached,
    TimedOut,
    Unavailable,
)
from mhub.wire import reasons
from tests.admin.mqtt.world import Gate, person
from tests.core.world import World
from tests.helpers import packets as p
from tests.helpers.packets import Prop


class Rules:
    """Who may do what: topics below `free/` and below the user's own name."""

    def __init__(self) -> None:
        self.may_connect = True
        self.asked: list[Principal] = []

    def _allows(self, principal: Principal, topic: str) -> bool:
        return topic.startswith(("free/", f"users/{principal.user}/"))

    def connect(self, principal: Principal) -> int:
        self.asked.append(principal)
        return 0 if self.may_connect else reasons.NOT_AUTHORIZED

    def publish(self, principal: Principal, topic: str, qos: int, retain: bool) -> int:
        return 0 if self._allows(principal, topic) else reasons.NOT_AUTHORIZED

    will = publish

    def subscribe(self, principal: Principal, topic_filter: str, qos: int, share: str) -> int:
        return 0 if self._allows(principal, topic_filter) else reasons.NOT_AUTHORIZED

    def receive(self, principal: Principal, topic: str) -> bool:
        return self._allows(principal, topic) and not topic.endswith("/hidden")

    def rule_of(self, *question: Any) -> str:
        return "no rule"


class GateCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.gate = Gate()

    @property
    def world(self) -> World:
        return self.gate.world

    @property
    def gateway(self) -> Any:
        return self.gate.gateway

    def publish(
        self, topic: str, payload: bytes = b"x", qos: int = 1, who: Any = None, **rest: Any
    ) -> Any:
        message = Message(topic=topic, payload=payload, qos=qos, **rest)
        return self.gate.run(self.gateway.publish(who or person(), message, 10.0))

    def sessions(self) -> list[str]:
        return [name for name in self.world.hub.sessions if name.startswith("http-")]


class PublishTests(GateCase):
    def test_each_qos_reaches_subscribers_once(self) -> None:
        there = self.world.client("sub", 5)
        there.subscribe("a/+", 2)
        for qos in (0, 1, 2):
            result = self.publish(f"a/{qos}", b"%d" % qos, qos)
            self.assertEqual((qos, 0, "success"), (result.qos, result.reason_code, result.reason))
            self.assertEqual(qos > 0, result.acknowledged)
        self.assertEqual([b"0", b"1", b"2"], there.payloads())

    def test_no_subscribers_is_a_success(self) -> None:
        for qos in (1, 2):
            result = self.publish("nobody", b"x", qos)
            self.assertEqual(0x10, result.reason_code)
            self.assertEqual("no matching subscribers", result.reason)

    def test_properties_arrive(self) -> None:
        there = self.world.client("sub", 5)
        there.subscribe("a", 1)
        self.publish(
            "a",
            "größe".encode(),
            payload_format=1,
            message_expiry_s=60,
            content_type="text/plain",
            response_topic="b",
            correlation_data=b"\0\1",
            user_properties=(("k", "1"), ("k", "2")),
        )
        found = there.next("PUBLISH")
        self.assertEqual("größe".encode(), found.payload)
        self.assertEqual(
            [
                (Prop.PAYLOAD_FORMAT, 1),
                (Prop.MESSAGE_EXPIRY, 60),
                (Prop.CONTENT_TYPE, "text/plain"),
                (Prop.RESPONSE_TOPIC, "b"),
                (Prop.CORRELATION_DATA, b"\0\1"),
                (Prop.USER_PROPERTY, ("k", "1")),
                (Prop.USER_PROPERTY, ("k", "2")),
            ],
            found.props,
        )

    def test_retained(self) -> None:
        self.publish("a", b"kept", retain=True)
        there = self.world.client("sub", 5)
        there.send(p.subscribe(1, ("a", 0), version=5))
        self.assertEqual(b"kept", there.take()[1].payload)

    def test_one_client_for_a_caller_closed_when_idle(self) -> None:
        self.publish("a")
        self.publish("b")
        (first,) = self.sessions()
        self.assertRegex(first, r"^http-ann-p\.[0-9a-f]{16}$")
        self.gate.wait(59.0, 59)
        self.publish("c")
        self.assertEqual([first], self.sessions())
        self.gate.wait(61.0, 61)
        self.assertEqual([], self.sessions())
        self.assertEqual(1, len(self.world.diary.of(DISCONNECTED)))
        self.publish("d")
        self.assertNotEqual([first], self.sessions())

    def test_callers_do_not_share_clients(self) -> None:
        whos = (
            person("ann"),
            person("bob"),
            person("ann", roles=("reader",)),
            person("ann", address="192.0.2.8:1"),
            person("ann", address="192.0.2.7:9999"),  # another port is the same caller
        )
        for who in whos:
            self.publish("a", who=who)
        self.assertEqual(4, len(self.sessions()))

    def test_facts_of_the_caller_are_those_of_the_client(self) -> None:
        who = person(roles=("r",), tenant="t", attributes={"line": "3"})
        self.publish("a", who=who)
        (event,) = self.world.diary.of(CONNECTED)
        found = event.principal
        self.assertEqual(("ann", "ann"), (found.user, found.claimed_user))
        self.assertEqual(
            (("r",), "t", {"line": "3"}), (found.roles, found.tenant, found.attributes)
        )
        self.assertEqual(("192.0.2.7:4711", "admin"), (found.address, found.listener))
        self.assertIsNot(found, who)

    def test_limits_are_made_once(self) -> None:
        """What is kept for each object of them must not grow with each client."""
        limits = {id(self.gateway.place.limits()) for _ in range(3)}
        self.assertEqual(1, len(limits))
        self.gate.limits = Limits(max_qos=1)
        self.assertEqual((1, (5,)), _of(self.gateway.place.limits()))

    def test_no_authenticator_is_asked(self) -> None:
        class Never:
            def authenticate(self, claim: Any) -> Any:
                raise AssertionError("asked")

        self.world.hub.admission.authenticator = Never()
        self.publish("a")

    def test_least_recently_used_client_makes_room(self) -> None:
        self.gateway.pool.most = 2
        for name in ("a", "b", "a", "c"):
            self.publish("t", who=person(name))
        self.assertEqual(["a", "c"], [name.split("-")[1] for name in self.sessions()])
        self.assertEqual((3, 1, 0), self.numbers())

    def numbers(self) -> tuple[int, int, int]:
        pool = self.gateway.pool
        return pool.opened, pool.evicted, pool.refused

    def test_clients_in_use_are_not_closed_for_others(self) -> None:
        self.gateway.pool.most = 1
        self.gate.limits = Limits(max_messages_per_s=0.1)
        asking = self.begin_twice()
        error = self.assertRaises(Unavailable, self.publish, "t", who=person("bob"))
        self.assertIn("try again later", str(error))
        self.assertEqual((1, 0, 1), self.numbers())
        self.gate.wait(20.0, 80)
        self.successResultOf(asking)

    def begin_twice(self) -> Any:
        """A publish, and another one that has to wait."""
        self.publish("t")
        return self.gate.begin(
            self.gateway.publish(person(), Message(topic="t", payload=b"2", qos=1), 30.0)
        )


def _of(limits: Limits) -> tuple[int, tuple[int, ...]]:
    return limits.max_qos, limits.versions


class RefusalTests(GateCase):
    def setUp(self) -> None:
        super().setUp()
        self.rules = Rules()
        self.world.hub.authorize_with(self.rules)

    def test_denied_topics_are_forbidden_at_each_qos(self) -> None:
        for qos in (0, 1, 2):
            error = self.assertRaises(Forbidden, self.publish, "theirs", b"x", qos)
            self.assertIn("not authorized to publish to 'theirs'", str(error))
            self.publish("free/a", b"x", qos)  # and the client goes on
        self.assertEqual(3, self.world.stats.publish_denied)
        self.assertEqual(1, len(self.world.diary.of(DENIED)))

    def test_topics_of_the_broker_are_forbidden(self) -> None:
        self.world.hub.authorize_with(None)
        for qos in (0, 1):
            self.assertRaises(Forbidden, self.publish, "$SYS/broker/x", b"x", qos)

    def test_who_may_not_connect_may_not_publish(self) -> None:
        self.rules.may_connect = False
        error = self.assertRaises(Forbidden, self.publish, "free/a")
        self.assertIn("not authorized to connect", str(error))
        self.assertEqual([], self.sessions())
        self.assertEqual(0, len(self.gateway.pool))

    def test_nobody_publishes_without_a_user(self) -> None:
        error = self.assertRaises(Forbidden, self.publish, "free/a", who=person(""))
        self.assertIn("log in", str(error))

    def test_locked_users_are_refused(self) -> None:
        self.world.hub.registry.change({"user/ann": '{"locked": true}'}, self.world.now)
        error = self.assertRaises(Forbidden, self.publish, "free/a")
        self.assertIn("locked", str(error))

    def test_the_guard_keeps_out(self) -> None:
        class Guard:
            def arriving(self, principal: Principal) -> Refusal | None:
                return Refusal(reasons.BANNED, "for the log", "you are banned")

        self.world.hub.admission.guard = Guard()  # type: ignore[assignment]
        error = self.assertRaises(Forbidden, self.publish, "free/a")
        self.assertIn("you are banned", str(error))

    def test_a_user_who_is_disconnected_gets_a_new_client(self) -> None:
        self.publish("free/a")
        self.world.hub.disconnect_user("ann", reasons.ADMINISTRATIVE_ACTION, "locked")
        self.world.hub.flush()
        # Nothing of the client has noticed yet.
        self.assertEqual(0, self.publish("free/a", qos=0).reason_code)
        self.assertEqual(2, self.gateway.pool.opened)

    def test_wrong_messages_are_told_before_they_are_sent(self) -> None:
        self.gate.limits = Limits(
            max_qos=1, retain_available=False, max_topic_length=20, max_packet_size=1000
        )
        for wrong, words in (
            ({"topic": "free/x", "qos": 2}, "max_qos"),
            ({"topic": "free/x", "retain": True}, "retain_available"),
            ({"topic": "free/" + "x" * 20}, "max_topic_length"),
            ({"topic": "free" + "/x" * 128}, "max_topic_length"),
            ({"topic": "free/x", "payload": b"x" * 1000}, "max_packet_size"),
            ({"topic": "free/+"}, "no + and no #"),
        ):
            error = self.assertRaises(BadArgument, self.publish, **wrong)
            self.assertIn(words, str(error))
        self.publish("free/x", b"x" * 970)
        self.assertEqual(1, self.gateway.pool.opened)
        self.assertEqual(0, self.world.stats.protocol_errors)

    def test_payloads_beyond_the_limit_are_told(self) -> None:
        self.gate.limits = Limits(message_size_limit=3)
        error = self.assertRaises(BadArgument, self.publish, "free/x", b"1234")
        self.assertIn("more than 3 bytes", str(error))

    def test_quota_of_retained_messages(self) -> None:
        self.gate.limits = Limits(max_user_retained_messages=1)
        self.publish("free/1", retain=True)
        error = self.assertRaises(LimitReached, self.publish, "free/2", retain=True)
        self.assertIn("not retained", str(error))

    def test_number_of_connections_of_a_user(self) -> None:
        self.gate.limits = Limits(max_user_connections=1)
        self.publish("free/1")
        other = person(address="192.0.2.99:1")
        error = self.assertRaises(LimitReached, self.publish, "free/1", who=other)
        self.assertIn("max_user_connections", str(error))

    def test_a_broker_that_stops_is_unavailable(self) -> None:
        self.publish("free/a")
        self.world.hub.shut_down(self.world.now)
        self.gate.settle()
        self.assertRaises(Unavailable, self.publish, "free/a")


class RateTests(GateCase):
    """A caller that is faster than it may be waits, and others do not."""

    def setUp(self) -> None:
        super().setUp()
        self.gate.limits = Limits(max_messages_per_s=0.1)

    def begin(
        self, payload: bytes, qos: int = 1, timeout_s: float = 10.0, user: str = "ann"
    ) -> Any:
        message = Message(topic="t", payload=payload, qos=qos)
        return self.gate.begin(self.gateway.publish(person(user), message, timeout_s))

    def test_delayed_in_order(self) -> None:
        there = self.world.client("sub", 5)
        there.subscribe("t", 2)
        calls = [self.begin(b"%d" % number, number % 3, 100.0) for number in range(5)]
        self.assertTrue(calls[0].called)
        self.assertFalse(calls[1].called)
        self.begin(b"other", user="bob")
        self.assertEqual([b"0", b"other"], there.payloads())
        self.gate.wait(60.0, 240)
        for call in calls:
            self.successResultOf(call)
        self.assertEqual([b"1", b"2", b"3", b"4"], there.payloads())

    def test_time_is_up_for_what_was_given_to_the_broker(self) -> None:
        self.begin(b"0")
        second = self.begin(b"1", timeout_s=0.5)
        third = self.begin(b"2", timeout_s=0.5)
        self.gate.wait(0.6)
        self.assertIn("may have been published", str(self.failureResultOf(second, TimedOut).value))
        self.assertIn("was not published", str(self.failureResultOf(third, LimitReached).value))
        there = self.world.client("sub", 5)
        there.subscribe("t", 2)
        self.gate.wait(60.0, 240)
        self.assertEqual([b"1"], there.payloads())  # and nothing of the third

    def test_a_caller_that_is_disconnected_for_it_is_told(self) -> None:
        self.gate.limits = Limits(max_messages_per_s=0.1, over_messages_per_s=DISCONNECT)
        self.begin(b"0")
        error = self.failureResultOf(self.begin(b"1"), LimitReached).value
        self.assertIn("max_messages_per_s", str(error))

    def test_queue_of_a_caller_is_bounded(self) -> None:
        self.successResultOf(self.begin(b"x"))
        given = self.begin(b"x")
        calls = [self.begin(b"x") for _ in range(2_005)]
        for call in calls[2_000:]:
            self.failureResultOf(call, LimitReached)
        self.gate.wait(0.5)
        for call in (given, *calls[:2_000]):
            self.assertNoResult(call)
        self.gate.reactor.advance(11.0)
        self.failureResultOf(given, TimedOut)
        for call in calls[:2_000]:
            self.failureResultOf(call, LimitReached)


class BatchTests(GateCase):
    def batch(self, *messages: Any, timeout_s: float = 10.0) -> Any:
        return self.gate.run(self.gateway.publish_all(person(), list(messages), timeout_s))

    def test_results_in_order(self) -> None:
        self.world.hub.authorize_with(Rules())
        there = self.world.client("sub", 5)
        there.subscribe("free/#", 1)
        done = self.batch(
            Message(topic="free/0", payload=b"0", qos=1),
            BadArgument("topic: it is empty"),
            Message(topic="theirs", qos=1),
            Message(topic="free/+"),
            Message(topic="free/4", payload=b"4", qos=2),
            Message(topic="theirs", qos=0),
        )
        self.assertEqual((2, 4), (done.published, done.failed))
        self.assertEqual([0, 1, 2, 3, 4, 5], [each.index for each in done.results])
        self.assertEqual([True, False, False, False, True, False], [e.ok for e in done.results])
        self.assertEqual(
            ["", "BadArgument", "Forbidden", "BadArgument", "", "Forbidden"],
            [each.error for each in done.results],
        )
        self.assertEqual([b"0", b"4"], there.payloads())

    def test_more_than_the_broker_takes_at_once(self) -> None:
        self.gate.limits = Limits(receive_maximum=7)
        there = self.world.client("sub", 5)
        there.subscribe("t", 0)
        done = self.batch(*(Message(topic="t", payload=b"%d" % n, qos=2) for n in range(500)))
        self.assertEqual(500, done.published)
        self.assertEqual([b"%d" % n for n in range(500)], there.payloads())

    def test_bounded(self) -> None:
        messages = [Message(topic="t")] * 1_001
        self.assertRaises(BadArgument, self.batch, *messages)


class RequestTests(GateCase):
    def setUp(self) -> None:
        super().setUp()
        self.device = self.world.client("device", 5)
        self.device.subscribe("ask", 1)

    def ask(self, timeout_s: float = 5.0, **fields: Any) -> Any:
        message = Message(topic="ask", payload=b"?", qos=1, **fields)
        return self.gate.begin(self.gateway.request(person(), message, timeout_s))

    def answer(self, question: Any, payload: bytes, correlation: bytes | None = None) -> None:
        topic = question.prop(Prop.RESPONSE_TOPIC)
        data = question.prop(Prop.CORRELATION_DATA) if correlation is None else correlation
        props = [(Prop.CORRELATION_DATA, data)]
        self.device.publish(topic, payload, props=props)
        self.gate.settle()

    def test_first_answer_with_the_right_correlation_data(self) -> None:
        asking = self.ask()
        question = self.device.next("PUBLISH")
        self.assertRegex(question.prop(Prop.RESPONSE_TOPIC), "^users/ann/http/[0-9a-f]{16}$")
        self.answer(question, b"other", b"other")
        self.device.publish(question.prop(Prop.RESPONSE_TOPIC), b"none")
        self.assertNoResult(asking)
        self.answer(question, b"!")
        view = self.successResultOf(asking)
        self.assertEqual(("!", question.prop(Prop.RESPONSE_TOPIC)), (view.payload, view.topic))
        self.gate.settle()
        (session,) = [s for n, s in self.world.hub.sessions.items() if n.startswith("http-")]
        self.assertEqual({}, session.subscriptions)

    def test_requests_share_a_response_topic_that_was_given(self) -> None:
        asked = [self.ask(response_topic="answers", correlation_data=data) for data in (b"1", b"2")]
        questions = [self.device.next("PUBLISH") for _ in range(2)]
        self.answer(questions[1], b"two")
        self.assertEqual("two", self.successResultOf(asked[1]).payload)
        self.answer(questions[0], b"one")
        self.assertEqual("one", self.successResultOf(asked[0]).payload)

    def test_time_out(self) -> None:
        asking = self.ask(timeout_s=2.0)
        self.gate.wait(2.1)
        error = self.failureResultOf(asking, TimedOut).value
        self.assertIn("no response came within 2 s", str(error))

    def test_retained_messages_are_no_answers(self) -> None:
        self.device.publish("answers", b"old", retain=True, props=[(Prop.CORRELATION_DATA, b"1")])
        asking = self.ask(response_topic="answers", correlation_data=b"1")
        self.assertNoResult(asking)
        self.gate.wait(6.0)
        self.failureResultOf(asking, TimedOut)

    def test_response_topic_that_may_not_be_subscribed_to(self) -> None:
        self.world.hub.authorize_with(Rules())
        error = self.failureResultOf(self.ask(response_topic="theirs"), Forbidden).value
        self.assertIn("response topic 'theirs'", str(error))

    def test_a_request_that_may_not_be_published(self) -> None:
        self.world.hub.authorize_with(Rules())
        self.failureResultOf(self.ask(), Forbidden)

    def test_users_whose_names_cannot_stand_in_a_topic(self) -> None:
        for user in ("a/b", "a+", "#"):
            message = Message(topic="ask", qos=1)
            done = self.gate.begin(self.gateway.request(person(user), message, 1.0))
            self.failureResultOf(done, BadArgument)

    def test_number_of_requests_is_bounded(self) -> None:
        asked = [self.ask() for _ in range(101)]
        self.failureResultOf(asked.pop(), LimitReached)
        self.gate.wait(6.0)
        for each in asked:
            self.failureResultOf(each, TimedOut)
