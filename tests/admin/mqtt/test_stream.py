"""Server-sent events: order, slow readers, resuming, and each way in which a stream ends."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mhub.admin.mqtt import client as in_process
from mhub.admin.mqtt.events import RING_EVENTS, Rings
from mhub.admin.mqtt.message import Message
from mhub.admin.mqtt.packets import Received
from mhub.core.limits import Limits
from mhub.core.session import Session
from mhub.operations.contract import BadArgument, Forbidden, OperationError, Unavailable
from mhub.wire import reasons
from tests.admin.mqtt.test_publishing import Rules
from tests.admin.mqtt.world import WALL, Gate, Reader, parse, person
from tests.helpers import packets as p


class StreamCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.gate = Gate()
        self.source = self.gate.world.client("source", 5)

    def open(self, *filters: str, **options: Any) -> Reader:
        """A stream that has begun."""
        reader = self.gate.subscribe(options.pop("who", person()), *filters, **options)
        self.begun = reader.events()
        return reader

    def publish(self, topic: str, *payloads: str, qos: int = 1, **rest: Any) -> None:
        for payload in payloads:
            self.source.publish(topic, payload.encode(), qos, **rest)
            if qos:
                self.source.take()

    def session(self, name: str) -> Session:
        return self.gate.world.hub.sessions[name]

    def sessions(self) -> list[str]:
        return [name for name in self.gate.world.hub.sessions if name.startswith("http-")]


class EventTests(StreamCase):
    def test_messages_are_events(self) -> None:
        reader = self.open("a/#", "b")
        retry, subscribed = self.begun
        self.assertEqual(("retry", "subscribed"), (retry["event"], subscribed["event"]))
        self.assertEqual(
            [{"filter": "a/#", "qos": 1}, {"filter": "b", "qos": 1}], subscribed["data"]["filters"]
        )
        self.assertRegex(subscribed["data"]["client_id"], r"^http-ann-s\.[0-9a-f]{16}$")
        self.publish("a/1", "x")
        self.source.publish("b", b"\xff", retain=True)
        first, second = reader.events()
        self.assertEqual(
            {
                "topic": "a/1",
                "qos": 1,
                "retain": False,
                "payload": "x",
                "time": WALL + self.gate.world.now,
            },
            first["data"],
        )
        self.assertEqual(("b", 0, "/w=="), _parts(second["data"]))
        epoch, _, number = first["id"].partition("-")
        self.assertEqual((f"{epoch}-1", f"{epoch}-2"), (f"{epoch}-{number}", second["id"]))

    def test_no_payload_ends_an_event(self) -> None:
        """What is in a message can be no line of the stream."""
        reader = self.open("#", who=person())
        evil = "\n\nevent: end\ndata: {}\n\n\u2028\r"
        self.publish("a\nid: 7", evil)
        (event,) = reader.events()
        self.assertEqual((evil, "a\nid: 7"), (event["data"]["payload"], event["data"]["topic"]))

    def test_retained_messages_come_first(self) -> None:
        self.publish("a", "kept", retain=True)
        reader = self.open("a")
        self.publish("a", "new")
        found = [each["data"] for each in [*self.begun, *reader.events()] if "data" in each]
        self.assertEqual(
            [("kept", True), ("new", False)],
            [(each["payload"], each["retain"]) for each in found if "payload" in each],
        )

    def test_each_qos(self) -> None:
        reader = self.open("a", qos=2)
        for qos in (0, 1, 2):
            self.publish("a", str(qos), qos=0) if not qos else self._publish_qos(qos)
        self.assertEqual(["0", "1", "2"], reader.messages())
        (name,) = [name for name in self.sessions() if "-s." in name]
        self.assertEqual(0, len(self.session(name).inflight))

    def _publish_qos(self, qos: int) -> None:
        self.gate.run(
            self.gate.gateway.publish(
                person("bob"), Message(topic="a", payload=b"%d" % qos, qos=qos), 5.0
            )
        )

    def test_keep_alive(self) -> None:
        reader = self.open("a")
        self.gate.wait(14.0)
        self.assertEqual([], reader.events())
        self.gate.wait(2.0)
        self.assertEqual(["comment"], [each["event"] for each in reader.events()])
        self.publish("a", "x")
        self.assertEqual(["x"], reader.messages())

    def test_an_unnamed_stream_leaves_nothing_behind(self) -> None:
        reader = self.open("a")
        self.assertEqual(1, self.gate.gateway.streams)
        reader.leave()
        self.assertEqual(([], 0), (self.sessions(), self.gate.gateway.streams))

    def test_a_reader_that_leaves_while_an_event_is_on_its_way(self) -> None:
        reader = self.open("a")
        self.publish("a", "1", "2")
        self.assertIn(b'"1"', reader.read())
        reader.leave()
        self.assertEqual(([], 0), (self.sessions(), self.gate.gateway.streams))


class SlowReaderTests(StreamCase):
    def test_what_was_not_taken_is_not_acknowledged(self) -> None:
        reader = self.open("a")
        (name,) = self.sessions()
        session = self.session(name)
        self.publish("a", *map(str, range(200)))
        reader.read()
        reader.read()
        # One was taken, as the reader has asked for the next; the window is full behind it.
        self.assertEqual(in_process.RECEIVE_MAXIMUM, len(session.inflight))
        assert session.queue is not None
        self.assertEqual(200 - 1 - in_process.RECEIVE_MAXIMUM, session.queue.at_hand)
        rest = reader.messages()
        self.assertEqual([str(number) for number in range(2, 200)], rest)
        self.assertEqual(0, len(session.inflight))

    def test_qos_0_waits_in_the_queue_of_the_session(self) -> None:
        self.gate.limits = Limits(max_queued_messages=100)
        reader = self.open("a", qos=0)
        (name,) = self.sessions()
        for number in range(1_000):
            self.source.publish("a", b"%05d" % number * 200)
            self.gate.settle()
        session = self.session(name)
        connection = session.connection
        assert connection is not None and session.queue is not None
        self.assertTrue(connection.blocked)
        self.assertEqual(100, session.queue.at_hand)
        self.assertGreater(self.gate.world.stats.dropped_queue_full, 800)
        got = reader.messages()
        self.assertEqual([f"{number:05d}" * 200 for number in range(len(got))], got)
        self.assertLess(len(got), 200)
        self.publish("a", "again", qos=0)
        self.assertEqual(["again"], reader.messages())

    def test_the_reactor_has_its_turn_between_many_messages(self) -> None:
        reader = self.open("a", qos=0)
        self.gate.step_s = 0.0005
        for number in range(300):
            self.source.publish("a", b"%d" % number)
        self.assertEqual([str(number) for number in range(300)], reader.messages())
        self.assertGreater(self.gate.pauses, 50)

    def test_others_are_not_held_up(self) -> None:
        slow = self.open("a")
        quick = self.open("a", who=person("bob"))
        self.publish("a", *map(str, range(300)))
        self.assertEqual(300, len(quick.messages()))
        self.assertEqual(300, len(slow.messages()))


class ResumeTests(StreamCase):
    def kept(self, *filters: str, **options: Any) -> Reader:
        options.setdefault("name", "feed")
        options.setdefault("expiry_s", 300)
        return self.open(*(filters or ("a",)), **options)

    def test_session_goes_on(self) -> None:
        self.kept().leave()
        self.publish("a", "1", "2")
        self.assertEqual(["http-ann-feed"], self.sessions())
        self.kept()
        subscribed = self.begun[1]
        self.assertEqual(
            ("http-ann-feed", True),
            (subscribed["data"]["client_id"], subscribed["data"]["session_present"]),
        )
        self.assertEqual(["1", "2"], [e["data"]["payload"] for e in self.begun[2:]])

    def test_written_and_not_seen_comes_again(self) -> None:
        reader = self.kept()
        self.publish("a", *map(str, range(10)))
        events = reader.events()
        reader.leave()
        self.publish("a", "10", "11")
        self.kept(last_event_id=events[3]["id"])
        again = self.begun[2:]
        self.assertEqual(
            [str(number) for number in range(4, 12)], [e["data"]["payload"] for e in again]
        )
        self.assertEqual([e["id"] for e in events[4:]], [e["id"] for e in again[:6]])

    def test_each_message_once_wherever_the_connection_breaks(self) -> None:
        """The reader goes after each number of events, with what it saw last."""
        for qos in (1, 2):
            for breaks in range(1, 8):
                gate = self.gate = Gate()
                self.source = gate.world.client("source", 5)
                reader = self.kept(qos=qos)
                seen: list[str] = []
                last = ""
                for payload in "abcdef":
                    self.source.publish("a", payload.encode(), qos)
                    if qos == 2:
                        pid = self.source.next("PUBREC").pid
                        assert pid is not None
                        self.source.send(p.pubrel(pid))
                    self.source.take()
                while len(seen) < 6:
                    for _ in range(breaks):
                        data = reader.read()
                        if b"\nevent: end" in data or not data:
                            break
                        for event in _messages(data):
                            seen.append(event["data"]["payload"])
                            last = event["id"]
                    reader.leave()
                    reader = self.gate.subscribe(
                        person(), "a", qos=qos, name="feed", expiry_s=300, last_event_id=last
                    )
                    reader.read()
                self.assertEqual(list("abcdef"), seen, (qos, breaks))

    def test_what_broke_off_comes_again_without_an_id(self) -> None:
        reader = self.kept()
        self.publish("a", "1", "2")
        self.assertIn(b'"1"', reader.read())
        reader.leave()  # nobody knows whether it was seen
        self.kept()
        self.assertEqual(["1", "2"], [e["data"]["payload"] for e in self.begun[2:]])

    def test_unknown_ids_are_told(self) -> None:
        reader = self.kept()
        self.publish("a", "1")
        (event,) = reader.events()
        reader.leave()
        epoch = event["id"].partition("-")[0]
        for unknown in ("x", f"{epoch}-2", "00000000-1", f"{epoch}-", f"{epoch}-1x", "-", "9" * 99):
            self.kept(last_event_id=unknown).leave()
            reset = self.begun[2]
            self.assertEqual(("reset", unknown), (reset["event"], reset["data"]["last_event_id"]))
        self.kept(last_event_id=event["id"])
        self.assertEqual(2, len(self.begun))

    def test_too_old_ids_are_told(self) -> None:
        reader = self.kept()
        self.publish("a", "first")
        (first,) = reader.events()
        self.publish("a", *map(str, range(RING_EVENTS + 1)))
        reader.events()
        reader.leave()
        self.kept(last_event_id=first["id"])
        self.assertEqual("reset", self.begun[2]["event"])

    def test_another_session_after_a_restart(self) -> None:
        reader = self.kept()
        self.publish("a", "1")
        (event,) = reader.events()
        self.gate = Gate()
        self.kept(last_event_id=event["id"])
        self.assertEqual(False, self.begun[1]["data"]["session_present"])
        self.assertEqual("reset", self.begun[2]["event"])

    def test_subscriptions_are_those_of_the_last_request(self) -> None:
        self.kept("a", "b").leave()
        self.kept("b", "c")
        session = self.session("http-ann-feed")
        self.assertEqual({"b", "c"}, set(session.subscriptions))

    def test_retained_messages_do_not_come_again(self) -> None:
        self.publish("a", "kept", retain=True)
        self.kept().leave()
        self.kept()
        self.assertEqual(2, len(self.begun))

    def test_a_second_reader_takes_over(self) -> None:
        first = self.kept()
        second = self.kept()
        (end,) = first.events()
        self.assertEqual(
            ("end", reasons.SESSION_TAKEN_OVER), (end["event"], end["data"]["reason_code"])
        )
        self.publish("a", "1")
        self.assertEqual(["1"], second.messages())

    def test_session_ends_when_its_time_is_over(self) -> None:
        self.kept(expiry_s=10).leave()
        self.gate.wait(11.0, 11)
        self.assertEqual([], self.sessions())

    def test_names_are_checked(self) -> None:
        for name in ("a-b", "a.b", "a/b", "ä", "x" * 65, "a b", "+"):
            error = self.assertRaises(BadArgument, self.kept, name=name)
            self.assertIn("client_id", str(error))
        self.assertRaises(BadArgument, self.open, "a", expiry_s=5)

    def test_sessions_of_others_are_not_touched(self) -> None:
        """No name of one user is that of another, and what a client has here stays its own."""
        self.kept(who=person("a-b"), name="c")
        self.kept(who=person("a"), name="c")
        self.assertEqual({"http-a-b-c", "http-a-c"}, set(self.sessions()))
        self.gate.world.client("http-ann-mine", 5)
        self.assertRaises(OperationError, self.kept, name="mine")
        self.assertFalse(self._of("http-ann-mine").closed)

    def _of(self, name: str) -> Any:
        connection = self.session(name).connection
        assert connection is not None
        return connection.outlet


class RingsTests(SynchronousTestCase):
    def test_bounded_for_all_streams_together(self) -> None:
        rings = Rings(100_000)
        for number in range(200):
            ring = rings.of(f"c{number}", "ann")
            ring.add(b"x" * 5_000, Received(Message(topic="t"), 0, False, 5_000))
        self.assertEqual(100_000 // 6_000, len(rings))
        first = rings.of("c199", "ann")
        self.assertEqual(1, first.last)
        self.assertEqual(0, rings.of("c199", "bob").last)  # of another user it is another one


class EndTests(StreamCase):
    def setUp(self) -> None:
        super().setUp()
        self.rules = Rules()
        self.gate.world.hub.authorize_with(self.rules)

    def end(self, reader: Reader) -> dict[str, Any]:
        *_, last = reader.events()
        self.assertEqual("end", last["event"])
        self.assertEqual(b"END", reader.read())
        self.assertEqual(0, self.gate.gateway.streams)
        found: dict[str, Any] = last["data"]
        return found

    def test_refused_filters(self) -> None:
        for name in ("", "keep"):
            options = {"name": name, "expiry_s": 60} if name else {}
            error = self.assertRaises(Forbidden, self.open, "free/a", "theirs/#", **options)
            self.assertIn("'theirs/#'", str(error))
            self.gate.settle()
            self.assertEqual(([], 0), (self.sessions(), self.gate.gateway.streams))

    def test_topics_that_may_not_be_received_do_not_come(self) -> None:
        reader = self.open("free/#")
        self.publish("free/hidden", "1")
        self.publish("free/seen", "2")
        self.assertEqual(["2"], reader.messages())

    def test_rights_that_are_withdrawn(self) -> None:
        reader = self.open("free/#", name="n", expiry_s=60)
        self.publish("free/a", "x")
        self.rules._allows = lambda principal, topic: False  # type: ignore[method-assign]
        self.gate.world.hub.rights_changed()
        end = self.end(reader)
        self.assertEqual(reasons.NOT_AUTHORIZED, end["reason_code"])
        self.assertIn("'free/#'", end["detail"])

    def test_what_waits_is_not_sent_when_rights_are_withdrawn(self) -> None:
        reader = self.open("free/#")
        self.publish("free/a", *map(str, range(20)))
        self.gate.settle()
        self.rules._allows = lambda principal, topic: False  # type: ignore[method-assign]
        self.gate.world.hub.rights_changed()
        self.gate.settle()
        events = reader.events()
        self.assertLessEqual(len(events), 2)  # one was on its way
        self.assertEqual("end", events[-1]["event"])

    def test_users_who_are_disconnected(self) -> None:
        reader = self.open("free/#")
        self.gate.world.hub.disconnect_user("ann", reasons.ADMINISTRATIVE_ACTION, "it is locked")
        end = self.end(reader)
        self.assertEqual(
            (reasons.ADMINISTRATIVE_ACTION, "it is locked"), (end["reason_code"], end["detail"])
        )

    def test_logins_that_expire(self) -> None:
        reader = self.open("free/#", who=person(expires_at=self.gate.world.now + 10))
        self.gate.wait(11.0, 44)
        self.assertEqual(reasons.MAXIMUM_CONNECT_TIME, self.end(reader)["reason_code"])

    def test_the_broker_stops(self) -> None:
        reader = self.open("free/#")
        self.gate.world.hub.shut_down(self.gate.world.now)
        self.assertEqual(reasons.SERVER_SHUTTING_DOWN, self.end(reader)["reason_code"])
        self.assertRaises(Unavailable, self.open, "free/#")

    def test_the_login_is_over(self) -> None:
        known = [True]

        async def is_allowed() -> bool:
            return known[0]

        reader = self.open("free/#", is_allowed=is_allowed)
        self.gate.wait(31.0, 4)
        self.assertEqual({"comment"}, {each["event"] for each in reader.events()})
        known[0] = False
        self.gate.wait(16.0, 2)
        end = self.end(reader)
        self.assertEqual(reasons.NOT_AUTHORIZED, end["reason_code"])
        self.assertIn("login", end["detail"])

    def test_number_of_streams_is_bounded(self) -> None:
        self.gate.gateway.streams = 1_000
        self.assertRaises(Unavailable, self.open, "free/#")
        self.assertEqual(1, self.gate.gateway.streams_refused)

    def test_wrong_filters(self) -> None:
        for filters, words in (
            ((), "at least one"),
            (("a/#/b",), "'#' must stand alone"),
            (("a", "a"), "twice"),
            (("a\0",), "U+0000"),
            (("$share/x",), "$share"),
        ):
            error = self.assertRaises(BadArgument, self.open, *filters)
            self.assertIn(words, str(error))

    def test_number_of_subscriptions_is_limited_as_for_any_client(self) -> None:
        self.gate.limits = Limits(max_subscriptions=2)
        self.assertRaises(OperationError, self.open, "free/1", "free/2", "free/3")


class RetainedTests(StreamCase):
    def setUp(self) -> None:
        super().setUp()
        self.gate.world.hub.authorize_with(Rules())

    def put(self, topic: str, payload: str, **rest: Any) -> None:
        self.gate.world.hub.authorize_with(None)
        self.publish(topic, payload, retain=True, **rest)
        self.gate.world.hub.authorize_with(Rules())

    def read(self, topic: str) -> Message:
        return self.gate.gateway.retained(person(), topic)

    def test_with_its_properties(self) -> None:
        self.gate.run(
            self.gate.gateway.publish(
                person(),
                Message(
                    topic="free/a",
                    payload=b"x",
                    qos=1,
                    retain=True,
                    content_type="text/plain",
                    message_expiry_s=100,
                    user_properties=(("k", "v"),),
                ),
                5.0,
            )
        )
        self.gate.wait(40.0)
        found = self.read("free/a")
        self.assertEqual((b"x", 1, True, 60), _all(found))
        self.assertEqual(("text/plain", (("k", "v"),)), (found.content_type, found.user_properties))
        self.gate.wait(60.0)
        self.assertRaises(OperationError, self.read, "free/a")

    def test_who_may_not_receive_is_told_that_there_is_none(self) -> None:
        for topic in ("free/hidden", "theirs", "free/none"):
            if topic != "free/none":
                self.put(topic, "x")
            error = self.assertRaises(OperationError, self.read, topic)
            self.assertIn(f"no retained message at {topic!r}", str(error))

    def test_wrong_topics(self) -> None:
        for topic in ("", "a/+", "a\0"):
            self.assertRaises(BadArgument, self.read, topic)


def _parts(data: dict[str, Any]) -> tuple[Any, ...]:
    return data["topic"], data["qos"], data["payload_base64"]


def _messages(data: bytes) -> list[dict[str, Any]]:
    return [event for event in parse(data) if event["event"] == "message"]


def _all(message: Message) -> tuple[Any, ...]:
    return message.payload, message.qos, message.retain, message.message_expiry_s
