"""MQTT 5, chapters 3.15 and 4.12: enhanced authentication."""

from typing import Any

from mhub.core.authentication import Claim, Step, failure, proceed, success
from mhub.core.principal import Identity
from tests.conformance import mqtt5 as p5
from tests.conformance.mqtt5 import Mqtt5Case, Reason
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.client import RawClient
from tests.helpers.packets import Packet, Prop

METHOD = "riddle"


class Riddle:
    """An exchange of two steps: any first word, then the answer "42"."""

    def __init__(self, claim: Claim) -> None:
        self.asked = False

    def step(self, data: bytes) -> Step:
        if not self.asked and data != b"rude":
            self.asked = True
            return proceed(b"six by nine?")
        if data == b"42":
            return success(Identity("deep", METHOD), b"right")
        return failure("a wrong answer")


def props(data: bytes | None = None, method: str = METHOD) -> list[tuple[int, Any]]:
    """Authentication Method, and Authentication Data if there is any."""
    found: list[tuple[int, Any]] = [(Prop.AUTH_METHOD, method)]
    return found if data is None else [*found, (Prop.AUTH_DATA, data)]


class AuthCase(Mqtt5Case):
    def setUp(self) -> None:
        super().setUp()
        self.start()
        self.hub.admission.methods[METHOD] = Riddle

    def asked(self, client_id: str = "c", **args: Any) -> RawClient:
        """A client whose CONNECT was answered by the question."""
        client = self.open()
        extra = args.pop("props", [])
        client.send(p5.connect(client_id, props=[*props(b"hello"), *extra], **args))
        client.expect("AUTH", reason=Reason.CONTINUE)
        return client

    def known(self, client_id: str = "c", **args: Any) -> RawClient:
        """A client that has given the right answer."""
        client = self.asked(client_id, **args)
        client.send(p.auth(Reason.CONTINUE, props(b"42")))
        client.connack = client.expect("CONNACK", reason=0)
        return client

    def assert_refused(self, client: RawClient, data: bytes, *reasons: int) -> Packet:
        """Before CONNACK 0: the answer is a CONNACK that refuses, and a close."""
        client.send(data)
        connack = client.closed_after("CONNACK")
        assert connack is not None
        self.assertIn(connack.reason, reasons)
        return connack


class AtConnect(AuthCase):
    @statement("5", "MQTT-4.12.0-2", "MQTT-4.12.0-5", "MQTT-3.15.2-1", "MQTT-3.2.0-1")
    def test_a_whole_exchange(self) -> None:
        """AUTH 0x18 asks, CONNACK 0x00 ends it; all of them name the method."""
        client = self.open()
        client.send(p5.connect(props=props(b"hello")))
        auth = client.expect("AUTH", reason=Reason.CONTINUE)
        self.assertCountEqual(props(b"six by nine?"), auth.props)
        client.expect_nothing()
        client.send(p.auth(Reason.CONTINUE, props(b"42")))
        connack = client.expect("CONNACK", reason=0)
        self.assertEqual(METHOD, connack.prop(Prop.AUTH_METHOD))
        self.assertEqual(b"right", connack.prop(Prop.AUTH_DATA))
        client.subscribe("t")
        client.publish("t", "x")
        client.expect("PUBLISH", payload=b"x")

    @statement("5", "MQTT-4.12.0-1")
    def test_unknown_method_is_refused(self) -> None:
        """CONNACK 0x8C."""
        for method in ("none", "", "RIDDLE", "x" * 1000):
            with self.case(method):
                packet = p5.connect(props=props(b"hello", method))
                self.refused(packet, Reason.BAD_METHOD, Reason.NOT_AUTHORIZED)

    @statement("5", "MQTT-4.12.0-4", "MQTT-3.1.4-2", "MQTT-4.13.2-1")
    def test_refusal_at_any_step(self) -> None:
        """At the first one and at a later one: CONNACK of 0x80 or above, then the end."""
        self.refused(p5.connect(props=props(b"rude")), Reason.NOT_AUTHORIZED)
        packet = p.auth(Reason.CONTINUE, props(b"41"))
        self.assert_refused(self.asked(), packet, Reason.NOT_AUTHORIZED)

    @statement("5", "MQTT-4.12.0-3", "MQTT-3.15.2-1")
    def test_the_answer_of_the_client_has_reason_0x18(self) -> None:
        """Any other reason is a Protocol Error."""
        for reason in (0x00, 0x19, 0x01, 0x17, 0x80, 0x87, 0xFF):
            with self.case(hex(reason)):
                packet = p.auth(reason, props(b"42"))
                self.assert_refused(self.asked(), packet, Reason.PROTOCOL_ERROR)

    @statement("5", "MQTT-4.12.0-5")
    def test_the_answer_of_the_client_names_the_method(self) -> None:
        """The one of CONNECT; another one or none is a Protocol Error."""
        for properties in (props(b"42", "other"), [(Prop.AUTH_DATA, b"42")], []):
            with self.case(properties):
                packet = p.auth(Reason.CONTINUE, properties)
                self.assert_refused(self.asked(), packet, Reason.PROTOCOL_ERROR)

    @statement("5", "MQTT-3.1.2-30", "MQTT-3.2.0-1")
    def test_nothing_but_auth_and_disconnect_until_connack(self) -> None:
        """Other packets end the connection and have no effect."""
        watcher = self.watcher()
        for packet in (
            p5.publish("t", b"x"),
            p5.publish("t", b"x", 1, 1),
            p5.subscribe(1, ("t", 0)),
            p5.unsubscribe(1, "t"),
            p.pingreq(),
            p.puback(1),
            p5.connect(props=props(b"hello")),
        ):
            with self.case(packet):
                self.assert_refused(self.asked(), packet, Reason.PROTOCOL_ERROR)
        watcher.expect_nothing()

    @statement("5", "MQTT-3.1.2-30", "MQTT-3.14.0-1")
    def test_disconnect_instead_of_an_answer(self) -> None:
        """The client may leave; there was no session and no will yet."""
        watcher = self.watcher()
        client = self.asked(will=("will", b"x"))
        client.send(p.disconnect(Reason.WITH_WILL))
        client.expect_closed()
        watcher.expect_nothing()

    @statement("5", "MQTT-3.1.4-6")
    def test_what_stands_behind_a_refused_answer_is_ignored(self) -> None:
        """Nothing that comes with the wrong answer is handled."""
        watcher = self.watcher()
        packet = p.auth(Reason.CONTINUE, props(b"41")) + p5.publish("t", b"x", 1, 1)
        self.assert_refused(self.asked(), packet, Reason.NOT_AUTHORIZED)
        watcher.expect_nothing()

    def test_a_client_that_never_answers(self) -> None:
        """The time for CONNECT is the time for the whole exchange; nobody is pushed out by it."""
        old = self.connect("same")
        client = self.asked("same")
        self.advance(60)
        self.assertTrue(all(packet.type == "CONNACK" for packet in client.drain()))
        client.expect_closed()
        old.ping()

    def test_the_session_goes_on_after_the_exchange(self) -> None:
        """Clean Start 0, waiting messages and take-over are as always."""
        expiry = [(Prop.SESSION_EXPIRY, 100)]
        client = self.known(clean=False, props=expiry)
        client.subscribe("t", 1)
        client.abort()
        self.connect("sender").publish("t", "x", 1)
        client = self.known(clean=False, props=expiry)
        assert client.connack is not None
        self.assertTrue(client.connack.session_present)
        client.expect("PUBLISH", payload=b"x")


class WithoutMethod(AuthCase):
    @statement("5", "MQTT-4.12.0-6")
    def test_no_auth_and_no_method_from_the_broker(self) -> None:
        """A client that asks for none is let in by CONNACK alone."""
        client = self.connect()
        assert client.connack is not None
        for key in (Prop.AUTH_METHOD, Prop.AUTH_DATA):
            self.assertIsNone(client.connack.prop(key))
        self.advance(1000)
        client.expect_nothing()

    @statement("5", "MQTT-4.12.0-7")
    def test_auth_from_the_client_is_a_protocol_error(self) -> None:
        """With whatever reason and method."""
        for packet in (
            p.auth(Reason.REAUTHENTICATE, props(b"hello")),
            p.auth(Reason.CONTINUE, props(b"hello")),
            p.auth(),
        ):
            with self.case(packet):
                self.cut_off(self.connect(), packet, Reason.PROTOCOL_ERROR)


class Again(AuthCase):
    @statement("5", "MQTT-4.12.1-1", "MQTT-4.12.0-5", "MQTT-3.15.2-1")
    def test_a_whole_exchange(self) -> None:
        """AUTH 0x19 begins it, AUTH 0x00 ends it; the traffic goes on meanwhile."""
        client = self.known()
        client.subscribe("t")
        client.send(p.auth(Reason.REAUTHENTICATE, props(b"hello")))
        auth = client.expect("AUTH", reason=Reason.CONTINUE)
        self.assertCountEqual(props(b"six by nine?"), auth.props)
        client.publish("t", "meanwhile")
        client.expect("PUBLISH", payload=b"meanwhile")
        client.send(p.auth(Reason.CONTINUE, props(b"42")))
        auth = client.expect("AUTH", reason=Reason.SUCCESS)
        self.assertEqual(METHOD, auth.prop(Prop.AUTH_METHOD))
        client.ping()

    @statement("5", "MQTT-4.12.1-1")
    def test_another_method_is_a_protocol_error(self) -> None:
        """Even if the broker has it."""
        self.hub.admission.methods["other"] = Riddle
        packet = p.auth(Reason.REAUTHENTICATE, props(b"hello", "other"))
        self.cut_off(self.known(), packet, Reason.PROTOCOL_ERROR)

    @statement("5", "MQTT-4.12.1-2", "MQTT-4.13.2-1")
    def test_a_wrong_answer_ends_the_connection(self) -> None:
        """DISCONNECT 0x87, and the will goes out."""
        watcher = self.watcher()
        client = self.known(will=("will", b"gone"))
        client.send(p.auth(Reason.REAUTHENTICATE, props(b"hello")))
        client.expect("AUTH", reason=Reason.CONTINUE)
        packet = p.auth(Reason.CONTINUE, props(b"41"))
        self.cut_off(client, packet, Reason.NOT_AUTHORIZED)
        watcher.expect("PUBLISH", topic="will")

    def test_an_answer_without_a_question_is_a_protocol_error(self) -> None:
        """AUTH 0x18 belongs into an exchange, AUTH 0x19 before it."""
        packet = p.auth(Reason.CONTINUE, props(b"42"))
        self.cut_off(self.known(), packet, Reason.PROTOCOL_ERROR)
        client = self.known()
        client.send(p.auth(Reason.REAUTHENTICATE, props(b"hello")))
        client.expect("AUTH", reason=Reason.CONTINUE)
        packet = p.auth(Reason.REAUTHENTICATE, props(b"hello"))
        self.cut_off(client, packet, Reason.PROTOCOL_ERROR)

    @statement("5", "MQTT-3.15.2-1")
    def test_reasons_that_are_not_in_the_list(self) -> None:
        """Including 0x00, which is the server's."""
        for reason in (0x00, 0x01, 0x17, 0x1A, 0x80, 0x87, 0xFF):
            with self.case(hex(reason)):
                packet = p.auth(reason, props(b"42"))
                self.cut_off(self.known(), packet, Reason.PROTOCOL_ERROR)


class Format(AuthCase):
    @statement("5", "MQTT-3.15.1-1", "MQTT-2.1.3-1")
    def test_flags_are_0000(self) -> None:
        """Any other value closes, before CONNACK and after it."""
        _, body = p.split(p.auth(Reason.CONTINUE, props(b"42")))
        for flags in range(1, 16):
            with self.case(flags):
                packet = p.frame(0xF0 | flags, body)
                self.assert_refused(self.asked(), packet, Reason.MALFORMED)
                self.cut_off(self.known(), packet, Reason.MALFORMED)

    @statement("5", "MQTT-3.15.2-2", "MQTT-3.15.2-3", "MQTT-3.1.2-24")
    def test_auth_has_no_words_where_there_is_no_room(self) -> None:
        """Only what the exchange needs; the limit holds before CONNACK, too."""
        size = [(Prop.MAXIMUM_PACKET_SIZE, 40)]
        client = self.open()
        client.send(p5.connect(props=[*props(b"hello"), *size]))
        auth = client.expect("AUTH")
        self.assertLessEqual(auth.size, 40)
        self.assertEqual([], auth.all_props(Prop.REASON_STRING))
        self.assertEqual([], auth.all_props(Prop.USER_PROPERTY))

    @statement("5", "MQTT-3.1.2-24")
    def test_auth_that_does_not_fit_is_not_sent(self) -> None:
        """The exchange cannot go on: the client is refused."""
        size = [(Prop.MAXIMUM_PACKET_SIZE, 20)]
        packet = p5.connect(props=[*props(b"hello"), *size])
        self.closed_at_connect(packet, Reason.TOO_LARGE)

    def test_properties_of_auth(self) -> None:
        """Reason String and User Property are taken; others are malformed, doubles an error."""
        words = [(Prop.REASON_STRING, "here you are"), (Prop.USER_PROPERTY, ("a", "b"))]
        client = self.asked()
        client.send(p.auth(Reason.CONTINUE, [*props(b"42"), *words, words[1]]))
        client.expect("CONNACK", reason=0)
        wrong = p.auth(Reason.CONTINUE, [*props(b"42"), (Prop.SESSION_EXPIRY, 1)])
        self.assert_refused(self.asked(), wrong, Reason.MALFORMED)
        twice = p.auth(Reason.CONTINUE, [*props(b"42"), (Prop.AUTH_DATA, b"42")])
        self.assert_refused(self.asked(), twice, Reason.PROTOCOL_ERROR)
