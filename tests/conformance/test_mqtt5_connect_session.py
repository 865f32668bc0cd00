"""MQTT 5, chapters 3.1.2.4, 3.1.3.1, 3.1.4 and 4.1: clean start, expiry, take-over, client ids."""

from tests.conformance import mqtt5 as p5
from tests.conformance.mqtt5 import Mqtt5Case, Reason
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.client import RawClient
from tests.helpers.packets import Prop


def session_present(client: RawClient) -> bool:
    assert client.connack is not None
    return client.connack.session_present


class CleanStart(Mqtt5Case):
    @statement("5", "MQTT-3.1.2-4", "MQTT-3.1.4-4", "MQTT-3.2.2-2")
    def test_clean_start_throws_the_old_session_away(self) -> None:
        """Subscriptions and waiting messages are gone, and Session Present says so."""
        client = self.resume()
        client.subscribe("t", 1)
        client.close()
        sender = self.connect("sender")
        sender.publish("t", "waiting", qos=1)
        client = self.connect(clean=True, props=[(Prop.SESSION_EXPIRY, 1000)])
        self.assertFalse(session_present(client))
        sender.publish("t", "later", qos=1)
        client.expect_nothing()

    @statement("5", "MQTT-3.1.2-4", "MQTT-3.2.2-2")
    def test_clean_start_forgets_half_received_qos_2_messages(self) -> None:
        """A packet id of the old session stands for a new message."""
        watcher = self.watcher()
        client = self.resume()
        client.send(p5.publish("t", b"first", qos=2, pid=7))
        client.expect("PUBREC", pid=7)
        client.abort()
        client = self.connect(clean=True)
        client.publish("t", b"second", qos=2, pid=7)
        self.assertIn(b"second", [packet.payload for packet in watcher.drain()])

    @statement("5", "MQTT-3.1.2-5", "MQTT-3.1.4-4", "MQTT-3.2.2-3", "MQTT-3.1.2-23")
    def test_session_goes_on(self) -> None:
        """Clean Start 0: subscriptions and waiting messages are those of the stored session."""
        client = self.resume()
        client.subscribe("t", 1)
        client.close()
        sender = self.connect("sender")
        sender.publish("t", "waiting", qos=1)
        client = self.resume()
        self.assertTrue(session_present(client))
        client.acknowledge(client.expect("PUBLISH", payload=b"waiting"))
        sender.publish("t", "later", qos=1)
        client.expect("PUBLISH", payload=b"later")

    @statement("5", "MQTT-3.1.2-5")
    def test_subscriptions_go_on_with_all_their_options(self) -> None:
        """QoS, No Local, Retain As Published, Subscription Identifier: all part of the session."""
        client = self.resume()
        options = p.options(1, no_local=True, as_published=True)
        client.subscribe("t", options=options, props=[(Prop.SUBSCRIPTION_ID, 9)])
        client.close()
        client = self.resume()
        client.publish("t", "own", 2)
        self.connect("sender").publish("t", "x", 2, retain=True)
        packet = client.expect("PUBLISH", payload=b"x", qos=1, retain=True)
        self.assertEqual([9], packet.all_props(Prop.SUBSCRIPTION_ID))

    @statement("5", "MQTT-3.1.2-6", "MQTT-3.2.2-3")
    def test_a_session_is_made_where_there_is_none(self) -> None:
        """Clean Start 0 for an unknown client id: accepted, Session Present 0, and usable."""
        client = self.connect("new", clean=False)
        self.assertFalse(session_present(client))
        client.subscribe("t")
        client.publish("t", "x")
        client.expect("PUBLISH", payload=b"x")

    @statement("5", "MQTT-3.1.3-2")
    def test_the_client_id_is_the_key_of_the_session(self) -> None:
        """Each id has its own state; ids are compared byte by byte."""
        for client_id in ("one", "two"):
            client = self.resume(client_id)
            client.subscribe(client_id, 1)
            client.close()
        self.connect("sender").publish("one", "for one", qos=1)
        self.assertFalse(session_present(self.resume("ONE")))
        self.resume("two").expect_nothing()
        one = self.resume("one")
        self.assertTrue(session_present(one))
        one.expect("PUBLISH", payload=b"for one")


class SessionExpiry(Mqtt5Case):
    @statement("5", "MQTT-3.1.2-23", "MQTT-4.1.0-2")
    def test_session_lives_until_its_interval_is_over(self) -> None:
        """Counted from the end of the connection."""
        for away_s, kept in ((99, True), (101, False)):
            with self.case(away_s):
                client = self.resume("client", expiry_s=100)
                client.subscribe("t")
                self.advance(1000)  # connected: no time is counted
                client.abort()
                self.advance(away_s)
                self.assertEqual(kept, session_present(self.resume("client", expiry_s=0)))

    @statement("5", "MQTT-4.1.0-2")
    def test_session_without_interval_ends_with_the_connection(self) -> None:
        """Session Expiry Interval 0 or missing."""
        for props in ([], [(Prop.SESSION_EXPIRY, 0)]):
            self.connect(clean=False, props=props).abort()
            self.assertFalse(session_present(self.connect(clean=False)))

    @statement("5", "MQTT-3.1.2-23")
    def test_session_that_never_expires(self) -> None:
        """Session Expiry Interval 0xFFFFFFFF keeps the session for good."""
        self.resume(expiry_s=0xFFFFFFFF).close()
        self.advance(10 * 365 * 86400)
        self.assertTrue(session_present(self.resume()))

    @statement("5", "MQTT-4.1.0-1")
    def test_session_is_kept_while_the_connection_is_up(self) -> None:
        """An interval of 0 or 10 seconds does not run while the client is there."""
        client = self.connect()
        client.subscribe("t")
        other = self.connect("other", props=[(Prop.SESSION_EXPIRY, 10)])
        other.subscribe("t")
        self.advance(100_000)
        self.connect("sender").publish("t", "x")
        client.expect("PUBLISH", payload=b"x")
        other.expect("PUBLISH", payload=b"x")

    def test_reconnect_stops_the_clock_and_sets_a_new_interval(self) -> None:
        """The interval of the last CONNECT counts, from the last close."""
        self.resume(expiry_s=100).abort()
        self.advance(90)
        self.resume(expiry_s=1000).abort()
        self.advance(900)
        self.assertTrue(session_present(self.resume(expiry_s=10)))

    def test_disconnect_may_change_the_interval(self) -> None:
        """Session Expiry Interval in DISCONNECT replaces the one of CONNECT, 0 included."""
        for expiry_s, away_s, kept in ((1000, 900, True), (10, 11, False), (0, 0, False)):
            with self.case(expiry_s):
                client = self.connect(props=[(Prop.SESSION_EXPIRY, 100)])
                client.send(p.disconnect(0, [(Prop.SESSION_EXPIRY, expiry_s)]))
                client.expect_closed()
                self.advance(away_s)
                self.assertEqual(kept, session_present(self.resume()))

    def test_disconnect_may_not_give_life_to_a_session_that_had_none(self) -> None:
        """Raising the interval from 0 is a Protocol Error."""
        client = self.connect()
        packet = p.disconnect(0, [(Prop.SESSION_EXPIRY, 10)])
        self.cut_off(client, packet, Reason.PROTOCOL_ERROR)
        self.assertFalse(session_present(self.connect(clean=False)))
        self.connect("zero").send(p.disconnect(0, [(Prop.SESSION_EXPIRY, 0)]))

    def test_server_may_shorten_the_interval(self) -> None:
        """CONNACK then has the interval that counts, and no interval otherwise."""
        self.start(max_session_expiry_s=100)
        client = self.resume(expiry_s=1000)
        assert client.connack is not None
        self.assertEqual(100, client.connack.prop(Prop.SESSION_EXPIRY))
        client.abort()
        self.advance(101)
        client = self.resume(expiry_s=50)
        assert client.connack is not None
        self.assertFalse(client.connack.session_present)
        self.assertIn(client.connack.prop(Prop.SESSION_EXPIRY), (None, 50))


class TakeOver(Mqtt5Case):
    @statement("5", "MQTT-3.1.4-3", "MQTT-3.14.4-2")
    def test_the_old_connection_is_told_and_closed(self) -> None:
        """A second client with the same id gets the place; the first one learns why."""
        old = self.connect("same")
        new = self.connect("same")
        old.closed_after("DISCONNECT", reason=Reason.TAKEN_OVER)
        new.ping()

    @statement("5", "MQTT-3.1.4-3", "MQTT-3.2.2-3")
    def test_the_session_moves_to_the_new_connection(self) -> None:
        """With Clean Start 0 the subscriptions and what was not acknowledged come along."""
        old = self.resume("same")
        old.subscribe("t", 1)
        sender = self.connect("sender")
        sender.publish("t", "unacknowledged", qos=1)
        pid = old.expect("PUBLISH", dup=False).pid
        new = self.resume("same")
        self.assertTrue(session_present(new))
        old.closed_after("DISCONNECT", reason=Reason.TAKEN_OVER)
        new.expect("PUBLISH", payload=b"unacknowledged", dup=True, pid=pid)

    @statement("5", "MQTT-3.1.4-3", "MQTT-3.1.2-4")
    def test_clean_start_takes_the_place_but_not_the_session(self) -> None:
        """With Clean Start 1 nothing of the old session is left."""
        old = self.resume("same")
        old.subscribe("t", 1)
        new = self.connect("same")
        old.closed_after("DISCONNECT", reason=Reason.TAKEN_OVER)
        self.assertFalse(session_present(new))
        self.connect("sender").publish("t", "x", qos=1)
        new.expect_nothing()

    def test_a_session_that_ends_with_the_connection_ends_at_take_over(self) -> None:
        """Session Expiry Interval 0: the session ended when the old connection closed."""
        self.connect("same").subscribe("t", 1)
        self.assertFalse(session_present(self.connect("same", clean=False)))

    def test_a_client_of_another_version_takes_over(self) -> None:
        """Client ids are one name space for all versions."""
        old = self.connect("same")
        new = self.connect("same", version=4)
        old.closed_after("DISCONNECT", reason=Reason.TAKEN_OVER)
        newest = self.connect("same")
        new.expect_closed()
        newest.ping()


class ClientIds(Mqtt5Case):
    @statement("5", "MQTT-3.1.3-6", "MQTT-3.1.3-7", "MQTT-3.2.2-16")
    def test_empty_client_id_gets_a_unique_one(self) -> None:
        """CONNACK tells it; two clients never get the same."""
        ids = set()
        for _ in range(5):
            connack = self.connect("").connack
            assert connack is not None
            ids.add(connack.prop(Prop.ASSIGNED_CLIENT_ID))
        self.assertEqual(5, len(ids))
        self.assertNotIn(None, ids)
        self.assertNotIn("", ids)

    @statement("5", "MQTT-3.1.3-7")
    def test_the_assigned_id_is_as_good_as_a_chosen_one(self) -> None:
        """The client comes back to its session under that id."""
        client = self.connect("", props=[(Prop.SESSION_EXPIRY, 100)])
        assert client.connack is not None
        client_id = client.connack.prop(Prop.ASSIGNED_CLIENT_ID)
        client.subscribe("t", 1)
        client.abort()
        self.connect("sender").publish("t", "waiting", qos=1)
        client = self.resume(client_id)
        assert client.connack is not None
        self.assertTrue(client.connack.session_present)
        self.assertIsNone(client.connack.prop(Prop.ASSIGNED_CLIENT_ID))
        client.expect("PUBLISH", payload=b"waiting")

    @statement("5", "MQTT-3.1.3-7")
    def test_empty_client_id_without_clean_start(self) -> None:
        """Version 5 allows it: the session begins here and the client is told its name."""
        client = self.resume("")
        assert client.connack is not None
        self.assertFalse(client.connack.session_present)
        client_id = client.connack.prop(Prop.ASSIGNED_CLIENT_ID)
        client.close()
        self.assertTrue(session_present(self.resume(client_id)))
