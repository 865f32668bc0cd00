"""MQTT 5, chapters 3.1.2.5 to 3.1.2.7 and 3.1.3.2: the Will and its delay."""

from typing import Any

from tests.conformance import mqtt5 as p5
from tests.conformance.mqtt5 import Mqtt5Case, Reason
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.client import RawClient
from tests.helpers.packets import Prop


class WillCase(Mqtt5Case):
    def mortal(
        self, delay_s: int | None = None, expiry_s: int = 0, clean: bool = True, **args: Any
    ) -> RawClient:
        """A client named "mortal" whose will is "gone", to the topic "will"."""
        props = [] if delay_s is None else [(Prop.WILL_DELAY, delay_s)]
        return self.connect(
            "mortal",
            will=("will", b"gone", 1, False, props),
            props=[(Prop.SESSION_EXPIRY, expiry_s)],
            clean=clean,
            **args,
        )


class When(WillCase):
    @statement("5", "MQTT-3.1.2-7", "MQTT-3.1.2-8")
    def test_will_goes_out_when_the_connection_is_lost(self) -> None:
        """At once without a delay, whether the socket ends or breaks."""
        watcher = self.watcher()
        for reset in (False, True):
            self.mortal().abort(reset)
            watcher.expect("PUBLISH", topic="will", payload=b"gone", qos=1, retain=False)
            watcher.expect_nothing()

    @statement("5", "MQTT-3.1.2-8", "MQTT-4.13.1-1")
    def test_will_goes_out_when_the_broker_closes_for_an_error(self) -> None:
        """A client that breaks the protocol has not said goodbye."""
        watcher = self.watcher()
        self.cut_off(self.mortal(), p.frame(0x36, p.utf8("t")), Reason.MALFORMED)
        watcher.expect("PUBLISH", topic="will")

    @statement("5", "MQTT-3.1.2-8", "MQTT-3.1.2-22")
    def test_will_goes_out_at_keep_alive_timeout(self) -> None:
        """Silence for one and a half Keep Alive times is a lost connection."""
        watcher = self.watcher()
        client = self.mortal(keepalive=10)
        self.advance(16)
        client.closed_after("DISCONNECT", reason=Reason.KEEP_ALIVE)
        watcher.expect("PUBLISH", topic="will")

    @statement("5", "MQTT-3.1.2-8", "MQTT-3.1.2-10", "MQTT-3.14.4-3")
    def test_no_will_after_a_normal_disconnect(self) -> None:
        """DISCONNECT 0x00 takes the will away, for good."""
        watcher = self.watcher()
        for packet in (p.disconnect(), p.disconnect(0), p.disconnect(0, [])):
            with self.case(packet):
                client = self.mortal(delay_s=5, expiry_s=10)
                client.send(packet)
                client.expect_closed()
                self.advance(20)
                watcher.expect_nothing()

    @statement("5", "MQTT-3.1.2-8")
    def test_disconnect_with_another_reason_sends_the_will(self) -> None:
        """0x04 asks for it, an error leaves it in force."""
        watcher = self.watcher()
        for reason in (0x04, 0x80, 0x81, 0x82, 0x83, 0x93, 0x97, 0x98):
            with self.case(reason):
                client = self.mortal()
                client.send(p.disconnect(reason))
                client.expect_closed()
                watcher.expect("PUBLISH", topic="will", payload=b"gone")

    def test_disconnect_with_will_still_waits_for_the_delay(self) -> None:
        """Reason 0x04 sends the will as if the connection had been lost."""
        watcher = self.watcher()
        client = self.mortal(delay_s=10, expiry_s=100)
        client.send(p.disconnect(Reason.WITH_WILL))
        client.expect_closed()
        self.advance(9)
        watcher.expect_nothing()
        self.advance(2)
        watcher.expect("PUBLISH", topic="will")

    @statement("5", "MQTT-3.1.2-10")
    def test_will_goes_out_once(self) -> None:
        """Neither the end of the session nor the next connection publishes it again."""
        watcher = self.watcher()
        self.mortal(delay_s=10, expiry_s=20).abort()
        self.advance(11)
        watcher.expect("PUBLISH", topic="will")
        self.advance(100)
        self.connect("mortal").abort()
        self.advance(100)
        watcher.expect_nothing()

    @statement("5", "MQTT-3.1.2-7", "MQTT-3.1.2-10")
    def test_each_connect_replaces_the_will(self) -> None:
        """The will of the last CONNECT counts; none in it means none."""
        watcher = self.watcher()
        self.mortal(delay_s=10, expiry_s=100).abort()
        self.resume("mortal", will=("will", b"new")).abort()
        watcher.expect("PUBLISH", payload=b"new")
        self.mortal(delay_s=10, expiry_s=100, clean=False).abort()
        self.resume("mortal").abort()
        self.advance(100)
        watcher.expect_nothing()


class Delay(WillCase):
    @statement("5", "MQTT-3.1.2-8")
    def test_will_waits_for_its_delay(self) -> None:
        """Not before the delay is over, and right after it."""
        watcher = self.watcher()
        self.mortal(delay_s=60, expiry_s=1000).abort()
        self.advance(59)
        watcher.expect_nothing()
        self.advance(2)
        watcher.expect("PUBLISH", topic="will", payload=b"gone")

    @statement("5", "MQTT-3.1.3-9", "MQTT-3.1.2-8")
    def test_reconnect_within_the_delay_cancels_the_will(self) -> None:
        """The client that comes back to its session in time is not reported dead."""
        watcher = self.watcher()
        self.mortal(delay_s=60, expiry_s=1000).abort()
        self.advance(59)
        self.resume("mortal")
        self.advance(1000)
        watcher.expect_nothing()

    @statement("5", "MQTT-3.1.2-8", "MQTT-4.1.0-2")
    def test_end_of_the_session_comes_before_the_delay(self) -> None:
        """The will goes out when the session ends, if that is earlier."""
        watcher = self.watcher()
        self.mortal(delay_s=100, expiry_s=10).abort()
        self.advance(9)
        watcher.expect_nothing()
        self.advance(2)
        watcher.expect("PUBLISH", topic="will")
        self.advance(100)
        watcher.expect_nothing()

    @statement("5", "MQTT-3.1.2-8")
    def test_session_without_life_of_its_own_has_no_delay(self) -> None:
        """Session Expiry Interval 0: the session ends at the close, and so does the waiting."""
        watcher = self.watcher()
        self.mortal(delay_s=100, expiry_s=0).abort()
        watcher.expect("PUBLISH", topic="will")

    def test_disconnect_that_ends_the_session_ends_the_delay(self) -> None:
        """DISCONNECT 0x04 with Session Expiry Interval 0 publishes the will at once."""
        watcher = self.watcher()
        client = self.mortal(delay_s=100, expiry_s=100)
        client.send(p.disconnect(Reason.WITH_WILL, [(Prop.SESSION_EXPIRY, 0)]))
        client.expect_closed()
        watcher.expect("PUBLISH", topic="will")

    @statement("5", "MQTT-3.1.2-8", "MQTT-3.1.2-4")
    def test_clean_start_within_the_delay_sends_the_will(self) -> None:
        """Clean Start ends the old session, which publishes its will."""
        watcher = self.watcher()
        self.mortal(delay_s=100, expiry_s=1000).abort()
        watcher.expect_nothing()
        self.connect("mortal")
        watcher.expect("PUBLISH", topic="will")

    @statement("5", "MQTT-3.1.4-3", "MQTT-3.1.2-8")
    def test_take_over_of_the_connection(self) -> None:
        """The will goes out unless the session goes on within the delay."""
        watcher = self.watcher()
        for delay_s, clean, published in ((0, False, 1), (10, False, 0), (10, True, 1)):
            with self.case(delay_s, clean):
                self.mortal(delay_s=delay_s, expiry_s=1000)
                self.connect("mortal", clean=clean, props=[(Prop.SESSION_EXPIRY, 1000)]).close()
                self.advance(20)
                self.assertEqual(published, len(watcher.drain()))


class What(WillCase):
    @statement("5", "MQTT-3.1.2-14")
    def test_will_without_retain_is_not_kept(self) -> None:
        """Will Retain 0: those who are there get it, those who come later do not."""
        watcher = self.watcher()
        self.mortal().abort()
        watcher.expect("PUBLISH", topic="will", retain=False)
        late = self.connect("late")
        late.subscribe("will")
        late.expect_nothing()

    @statement("5", "MQTT-3.1.2-15")
    def test_will_with_retain_is_kept(self) -> None:
        """Will Retain 1: the will is the retained message of its topic."""
        watcher = self.watcher()
        self.connect("mortal", will=("will", b"gone", 1, True)).abort()
        watcher.expect("PUBLISH", topic="will", retain=False)
        late = self.connect("late")
        late.subscribe("will", 1)
        late.expect("PUBLISH", topic="will", payload=b"gone", qos=1, retain=True)

    @statement("5", "MQTT-3.1.3-10", "MQTT-3.3.2-17", "MQTT-3.3.2-18")
    def test_will_properties_are_those_of_the_message(self) -> None:
        """All but the delay travel with it; User Properties keep their order."""
        properties = [
            (Prop.USER_PROPERTY, ("z", "1")),
            (Prop.USER_PROPERTY, ("a", "2")),
            (Prop.PAYLOAD_FORMAT, 1),
            (Prop.CONTENT_TYPE, "text/plain"),
            (Prop.USER_PROPERTY, ("z", "1")),
            (Prop.RESPONSE_TOPIC, "answer"),
            (Prop.CORRELATION_DATA, b"\0\xff"),
        ]
        watcher = self.watcher()
        will = ("will", b"gone", 0, False, [(Prop.WILL_DELAY, 0), *properties])
        self.connect("mortal", will=will).abort()
        message = watcher.expect("PUBLISH", topic="will")
        self.assertCountEqual(properties, message.props)
        users = [value for key, value in properties if key == Prop.USER_PROPERTY]
        self.assertEqual(users, message.all_props(Prop.USER_PROPERTY))

    def test_message_expiry_of_a_will_starts_when_it_is_published(self) -> None:
        """The delay does not count as time in the broker."""
        watcher = self.resume("watcher")
        watcher.subscribe("will", 1)
        watcher.close()
        props = [(Prop.WILL_DELAY, 50), (Prop.MESSAGE_EXPIRY, 30)]
        self.resume("mortal", will=("will", b"gone", 1, False, props)).abort()
        self.advance(60)
        message = self.resume("watcher").expect("PUBLISH", payload=b"gone")
        self.assertIn(message.prop(Prop.MESSAGE_EXPIRY), (19, 20, 21, 30))

    def test_empty_will(self) -> None:
        """A will of zero bytes is a message like any other."""
        watcher = self.watcher()
        self.connect("mortal", will=("will", b"")).abort()
        watcher.expect("PUBLISH", topic="will", payload=b"")

    def test_text_will_that_is_no_text_is_refused(self) -> None:
        """Payload Format Indicator 1 with a payload that is not UTF-8."""
        will = ("will", b"\xff", 0, False, [(Prop.PAYLOAD_FORMAT, 1)])
        self.refused(p5.connect(will=will), Reason.PAYLOAD_FORMAT)
