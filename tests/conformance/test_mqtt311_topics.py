"""MQTT 3.1.1, section 4.7: topic names and filters, and which matches which."""

from tests.conformance.cases import ProtocolCase
from tests.conformance.statements import statement
from tests.helpers import packets as p

MATCHES = {
    "sport/tennis/player1/#": {
        "sport/tennis/player1": True,
        "sport/tennis/player1/ranking": True,
        "sport/tennis/player1/score/wimbledon": True,
        "sport/tennis/player2": False,
        "sport/tennis": False,
        "sport/tennis/player10": False,
    },
    "sport/#": {"sport": True, "sport/": True, "sport/tennis": True, "sports": False},
    "#": {"a": True, "/": True, "a/b/c": True, "/a": True, "$a": False, "$a/b": False},
    "+": {"a": True, " ": True, "a/b": False, "/a": False, "a/": False, "$a": False},
    "sport/tennis/+": {
        "sport/tennis/player1": True,
        "sport/tennis/": True,
        "sport/tennis/player1/ranking": False,
        "sport/tennis": False,
    },
    "sport/+": {"sport": False, "sport/": True, "sport/tennis": True},
    "+/tennis/#": {"sport/tennis": True, "/tennis/a/b": True, "sport/golf": False},
    "sport/+/player1": {
        "sport/tennis/player1": True,
        "sport/player1": False,
        "sport//player1": True,
    },
    "+/+": {"/finance": True, "a/b": True, "finance": False, "a/b/c": False, "/": True},
    "/+": {"/finance": True, "finance": False, "/a/b": False},
    "/": {"/": True, "//": False, "a/": False},
    "//": {"//": True, "/": False, "///": False},
    "+/+/+": {"//": True, "a//b": True, "a/b": False},
    "/#": {"/": True, "/a/b": True, "a": False, "a/b": False},
    "+/#": {"a": True, "a/b/c": True, "/": True, "$a/b": False},
    "a/+/#": {"a/b": True, "a/b/c/d": True, "a": False, "a/": True},
    "a/b": {"a/b": True, "A/b": False, "a/b/": False, "/a/b": False, "a": False, "a//b": False},
    "$a/#": {"$a": True, "$a/b": True, "a/b": False},
    "$a/+": {"$a/b": True, "$a": False, "$a/b/c": False},
    "a/$b": {"a/$b": True, "a/b": False},
    "a/+/b": {"a/$x/b": True, "a/x/y/b": False},
    "accounts payable": {"accounts payable": True, "Accounts payable": False},
}


class Matching(ProtocolCase):
    @statement("3.1.1", "MQTT-3.3.2-3", "MQTT-4.7.1-2", "MQTT-4.7.1-3", "MQTT-4.7.2-1")
    def test_filters_match_as_the_specification_says(self) -> None:
        """Each filter against topics that match and topics that nearly do."""
        publisher = self.connect("pub")
        for text, topics in MATCHES.items():
            client = self.subscriber(text)
            for topic, matches in topics.items():
                with self.about(f"{text} and {topic}"):
                    publisher.publish(topic, topic)
                    if matches:
                        client.expect("PUBLISH", topic=topic)
                    self.assertEqual([], client.drain() if not matches else [])
            client.expect_nothing()
            client.close()

    @statement("3.1.1", "MQTT-3.3.1-6", "MQTT-4.7.1-2", "MQTT-4.7.1-3", "MQTT-4.7.2-1")
    def test_retained_messages_match_by_the_same_rules(self) -> None:
        """The other direction: one filter over many topics."""
        publisher = self.connect("pub")
        every = sorted({topic for topics in MATCHES.values() for topic in topics})
        for topic in every:
            publisher.publish(topic, topic, retain=True)
        client = self.connect()
        for text, topics in MATCHES.items():
            client.subscribe(text)
            got = {packet.topic for packet in client.drain()}
            with self.about(text):
                self.assertEqual(
                    {topic for topic, matches in topics.items() if matches}, got & set(topics)
                )
            client.unsubscribe(text)

    @statement("3.1.1", "MQTT-4.7.2-1")
    def test_wildcards_at_the_start_do_not_match_dollar_topics(self) -> None:
        """Neither live nor retained; only a filter that names the $ level does."""
        publisher = self.connect("pub")
        wild = self.subscriber("#", "+/a", "+/#", "+/+", client_id="wild")
        named = self.subscriber("$x/#", client_id="named")
        publisher.publish("$x/a", b"x", retain=True)
        named.expect("PUBLISH", topic="$x/a")
        wild.subscribe("#")
        wild.subscribe("+/a")
        wild.expect_nothing()

    @statement("3.1.1", "MQTT-4.7.2-1")
    def test_topics_of_the_broker_do_not_reach_a_wildcard(self) -> None:
        """$SYS speaks to who asks for it by name."""
        wild = self.subscriber("#", "+/#", client_id="wild")
        self.advance(120)
        wild.expect_nothing()
        named = self.subscriber("$SYS/#", client_id="named")
        self.advance(120)
        got = named.drain()
        self.assertTrue(got, "$SYS is empty")
        self.assertTrue(all((packet.topic or "").startswith("$SYS/") for packet in got))
        wild.expect_nothing()

    @statement("3.1.1", "MQTT-4.7.3-4")
    def test_matching_is_literal(self) -> None:
        """No normalisation, no case folding, no trimming, no escapes."""
        pairs = (
            ("\u00c5", "A\u030a"),
            ("\u00c5", "\u212b"),
            ("ﬁ", "fi"),
            ("straße", "strasse"),
            ("a", "A"),
            ("a ", "a"),
            ("a/b", "a%2Fb"),
            ("é", "e"),
        )
        publisher = self.connect("pub")
        for text, topic in pairs:
            client = self.subscriber(text)
            publisher.publish(topic, b"other")
            client.expect_nothing()
            publisher.publish(text, b"same")
            client.expect("PUBLISH", topic=text, payload=b"same")
            client.close()

    @statement("3.1.1", "MQTT-4.7.3-4")
    def test_topic_bytes_pass_unchanged(self) -> None:
        """The subscriber gets the very bytes."""
        client = self.subscriber("#")
        for topic in ("A\u030a/\u00c5", "\u2126\u03a9", "a//b/", "/", " /x"):
            client.publish(topic, b"x")
            packet = client.expect("PUBLISH")
            self.assertEqual(p.utf8(topic) + b"x", packet.body)


class Levels(ProtocolCase):
    def test_deep_topics(self) -> None:
        """A hundred levels, empty ones among them."""
        client = self.subscriber("#", "/".join("+" * 100))
        for topic in ("/".join("x" * 100), "/" * 99):
            client.publish(topic, b"x")
            client.expect("PUBLISH", topic=topic)
            client.expect_nothing()

    def test_too_many_levels_are_no_way_to_hurt_the_broker(self) -> None:
        """A topic of slashes only: refused or delivered, but the broker lives on."""
        other = self.connect("other")
        client = self.connect("c")
        client.send(p.publish("/" * 65535, b"x", retain=True))
        client.drain()
        client = self.connect("c")
        client.send(p.subscribe(1, ("/" * 65535, 0)))
        client.drain()
        client = self.connect("c")
        client.send(p.subscribe(1, ("+/" * 32767 + "#", 0)))
        client.drain()
        self.assert_works(other)
