"""MQTT 3.1.1, sections 3.1.3.1 and 3.1.4: client ids, and two clients with the same one."""

import string

from tests.conformance.cases import ProtocolCase
from tests.conformance.statements import statement
from tests.helpers import packets as p


class ClientIds(ProtocolCase):
    @statement("3.1.1", "MQTT-3.1.3-5")
    def test_ids_of_1_to_23_letters_and_digits_are_accepted(self) -> None:
        """The ids that every broker has to take."""
        alphabet = string.digits + string.ascii_letters
        ids = [alphabet[start : start + 23] for start in range(0, len(alphabet), 23)]
        for client_id in [*ids, "0", "z", "A" * 23]:
            self.assert_works(self.connect(client_id))

    def test_longer_and_stranger_ids_are_accepted(self) -> None:
        """mhub takes any UTF-8 string as an id, unless it is configured not to."""
        for client_id in ("x" * 24, "x" * 65535, "a/b+c#", "$SYS", "Zähler 7", "🛰"):
            self.assert_works(self.connect(client_id))

    @statement("3.1.1", "MQTT-3.1.3-6")
    def test_empty_id_gets_a_unique_one(self) -> None:
        """Clients without an id live side by side."""
        clients = [self.connect("") for _ in range(5)]
        for client in clients:
            self.assertFalse(client.connack.session_present)
            client.subscribe("t", 1)
        clients[0].publish("t", b"x", qos=1)
        for client in clients:
            client.take("PUBLISH", payload=b"x")
            self.assert_works(client)

    @statement("3.1.1", "MQTT-3.1.3-7", "MQTT-3.1.3-8", "MQTT-3.2.2-4")
    def test_empty_id_with_a_session_to_keep_is_refused_with_code_2(self) -> None:
        """An id that the client does not know cannot be resumed: CONNACK 0x02."""
        self.assert_refused(p.connect("", clean=False), 2)

    @statement("3.1.1", "MQTT-3.1.3-9", "MQTT-3.2.2-5")
    def test_id_longer_than_the_listener_allows_is_refused_with_code_2(self) -> None:
        """A refused id: CONNACK 0x02, then the end."""
        self.start(max_client_id_length=23)
        self.assert_works(self.connect("x" * 23))
        self.assert_refused(p.connect("x" * 24), 2)

    @statement("3.1.1", "MQTT-3.1.3-9")
    def test_empty_id_is_refused_with_code_2_where_it_is_not_allowed(self) -> None:
        """A listener may insist on ids."""
        self.start(allow_empty_client_id=False)
        self.assert_refused(p.connect(""), 2)

    @statement("3.1.1", "MQTT-3.1.3-2")
    def test_session_belongs_to_the_exact_id(self) -> None:
        """The id is the key of the session, letter for letter."""
        self.connect("Client", clean=False).close()
        for other in ("client", "Client ", "Clien", "Client1"):
            self.assertFalse(self.connect(other, clean=False).connack.session_present)
        self.assertTrue(self.connect("Client", clean=False).connack.session_present)

    @statement("3.1.1", "MQTT-3.1.3-2", "MQTT-4.7.3-4")
    def test_ids_are_not_normalised(self) -> None:
        """Composed and decomposed letters make two clients."""
        self.connect("\u00c5", clean=False).close()
        self.assertFalse(self.connect("A\u030a", clean=False).connack.session_present)


class Takeover(ProtocolCase):
    @statement("3.1.1", "MQTT-3.1.4-2")
    def test_older_connection_is_closed(self) -> None:
        """The newcomer with the same id wins."""
        for clean in (True, False):
            old = self.connect("same", clean=clean)
            new = self.connect("same", clean=clean)
            old.expect_closed()
            self.assert_works(new)
            new.close()

    def test_chain_of_takeovers_leaves_the_last(self) -> None:
        """Each newcomer replaces the one before."""
        clients = [self.connect("same") for _ in range(10)]
        for client in clients[:-1]:
            client.expect_closed()
        self.assert_works(clients[-1])

    @statement("3.1.1", "MQTT-3.1.4-2", "MQTT-3.1.2-4")
    def test_session_moves_to_the_new_connection(self) -> None:
        """Subscriptions and unacknowledged messages go with the session."""
        old = self.connect("same", clean=False)
        old.subscribe("t", 1)
        old.publish("t", b"pending", qos=1)
        pending = old.expect("PUBLISH", payload=b"pending", dup=False)
        new = self.connect("same", clean=False)
        self.assertTrue(new.connack.session_present)
        old.expect_closed()
        new.expect("PUBLISH", payload=b"pending", dup=True, pid=pending.pid)
        new.publish("t", b"more", qos=1)
        new.expect("PUBLISH", payload=b"more", dup=False)

    @statement("3.1.1", "MQTT-3.1.4-2", "MQTT-3.1.2-6")
    def test_clean_newcomer_drops_the_session(self) -> None:
        """CleanSession 1 throws away what the older connection had."""
        old = self.connect("same", clean=False)
        old.subscribe("t", 1)
        new = self.connect("same", clean=True)
        old.expect_closed()
        self.assertFalse(new.connack.session_present)
        self.connect("pub").publish("t", b"x", qos=1)
        new.expect_nothing()

    @statement("3.1.1", "MQTT-3.1.4-2", "MQTT-3.1.2-6", "MQTT-3.2.2-3")
    def test_clean_session_ends_at_takeover(self) -> None:
        """A clean session is not inherited by a newcomer that would keep one."""
        old = self.connect("same", clean=True)
        old.subscribe("t", 1)
        new = self.connect("same", clean=False)
        old.expect_closed()
        self.assertFalse(new.connack.session_present)
        self.connect("pub").publish("t", b"x", qos=1)
        new.expect_nothing()

    def test_end_of_the_old_connection_does_not_hurt_the_new_one(self) -> None:
        """The session is the newcomer's: the closing of the loser's socket changes nothing."""
        old = self.connect("same", clean=False)
        new = self.connect("same", clean=False)
        old.expect_closed()
        old.abort()
        new.subscribe("t", 1, granted=1)
        new.publish("t", b"x", qos=1)
        new.expect("PUBLISH", payload=b"x")

    def test_bytes_of_the_old_connection_have_no_effect(self) -> None:
        """What the loser sends after the takeover is not handled."""
        subscriber = self.subscriber("#")
        old = self.connect("same")
        self.connect("same")
        old.send(p.publish("t", b"ghost"))
        old.expect_closed()
        subscriber.expect_nothing()

    def test_takeover_within_one_handshake(self) -> None:
        """A QoS 2 publish begun on one connection is finished on the next, delivered once."""
        subscriber = self.subscriber("t", qos=2)
        old = self.connect("same", clean=False)
        old.send(p.publish("t", b"once", qos=2, pid=7))
        old.expect("PUBREC", pid=7)
        new = self.connect("same", clean=False)
        new.send(p.publish("t", b"once", qos=2, pid=7, dup=True))
        new.expect("PUBREC", pid=7)
        new.send(p.pubrel(7))
        new.expect("PUBCOMP", pid=7)
        subscriber.acknowledge(subscriber.expect("PUBLISH", payload=b"once"))
        subscriber.expect_nothing()
