"""MQTT 5, chapter 4.7: topic names and topic filters."""

from tests.conformance import mqtt5 as p5
from tests.conformance.mqtt5 import Mqtt5Case, Reason
from tests.conformance.statements import statement
from tests.helpers.packets import Prop

# filter: (topics that it matches, topics that it does not)
MATCHES: dict[str, tuple[list[str], list[str]]] = {
    "sport/tennis/player1/#": (
        ["sport/tennis/player1", "sport/tennis/player1/ranking", "sport/tennis/player1/a/b"],
        ["sport/tennis/player2", "sport/tennis", "sport/tennis/player11"],
    ),
    "sport/#": (["sport", "sport/", "sport/tennis"], ["sports", "/sport"]),
    "#": (["a", "/", "/a", "a/b/c"], ["$x", "$x/a"]),
    "sport/tennis/+": (["sport/tennis/p1", "sport/tennis/"], ["sport/tennis/p1/r", "sport/tennis"]),
    "sport/+": (["sport/"], ["sport", "sport/a/b"]),
    "+": (["finance", " "], ["/finance", "finance/", "$x"]),
    "+/+": (["/finance", "a/b", "/"], ["finance", "$x/a", "a/b/c"]),
    "/+": (["/finance", "/"], ["finance", "/a/b"]),
    "+/tennis/#": (["sport/tennis", "/tennis/x"], ["tennis", "$x/tennis"]),
    "a//b": (["a//b"], ["a/b", "a/ /b"]),
    "a/b": (["a/b"], ["A/b", "a/B", "a/b/", "/a/b", "a/b "]),
    "/": (["/"], ["//", "", " /"]),
    " ": ([" "], ["  ", "a"]),
    "$x/#": (["$x", "$x/a", "$x/a/b"], ["x", "$y/a", "a/$x"]),
    "$x/+": (["$x/a"], ["$x", "$x/a/b"]),
    "a/$x": (["a/$x"], ["a/x"]),
    "a/+/$x": (["a/b/$x"], ["a/b/x"]),
    "+/$x": (["a/$x"], ["$a/$x"]),
}


class Names(Mqtt5Case):
    @statement("5", "MQTT-4.7.0-1")
    def test_wildcards_belong_into_filters_only(self) -> None:
        """A PUBLISH with one in its topic ends the connection."""
        for topic in ("a/+", "#", "+", "a/b#"):
            with self.case(topic):
                self.cut_off(self.connect(), p5.publish(topic), Reason.MALFORMED)
        self.connect().subscribe("a/+/#", granted=0)

    @statement("5", "MQTT-4.7.3-1")
    def test_names_and_filters_are_never_empty(self) -> None:
        """A PUBLISH without name and alias is a Protocol Error (3.3.2.1), all else malformed."""
        self.cut_off(self.connect(), p5.publish(""), Reason.PROTOCOL_ERROR)
        self.cut_off(self.connect(), p5.subscribe(1, ("", 0)), Reason.MALFORMED)
        self.cut_off(self.connect(), p5.subscribe(1, ("$share/g/", 0)), Reason.MALFORMED)
        self.cut_off(self.connect(), p5.unsubscribe(1, ""), Reason.MALFORMED)
        self.refused(p5.connect(will=("", b"")), Reason.MALFORMED)
        empty = p5.publish("t", props=[(Prop.RESPONSE_TOPIC, "")])
        self.cut_off(self.connect(), empty, Reason.MALFORMED)

    @statement("5", "MQTT-4.7.3-2")
    def test_no_null_character_in_names_and_filters(self) -> None:
        """The packet is malformed."""
        for packet in (
            p5.publish("a\0b"),
            p5.subscribe(1, ("a\0b", 0)),
            p5.unsubscribe(1, "a\0b"),
        ):
            with self.case(packet):
                self.cut_off(self.connect(), packet, Reason.MALFORMED)

    @statement("5", "MQTT-4.7.3-4")
    def test_matching_is_literal(self) -> None:
        """Composed and decomposed, upper and lower case, full and half width stay apart."""
        topics = ["\u00e5", "a\u030a", "\u212b", "A\u030a", "\uff21", "A", "a", "ß", "ss"]
        for topic in topics:
            client = self.connect(topic)
            client.subscribe(topic)
            for other in topics:
                client.publish(other, other)
            client.expect("PUBLISH", topic=topic, payload=topic.encode())
            client.expect_nothing()

    def test_the_longest_name(self) -> None:
        """65535 bytes are allowed."""
        topic = "a" * 65535
        client = self.connect()
        client.subscribe(topic)
        client.publish(topic, "x")
        client.expect("PUBLISH", topic=topic)


class Filters(Mqtt5Case):
    def invalid(self, *filters: str) -> None:
        for filter in filters:
            with self.case(filter):
                packet = p5.subscribe(1, (filter, 0))
                self.cut_off(self.connect(), packet, Reason.MALFORMED)

    @statement("5", "MQTT-4.7.1-1")
    def test_multi_level_wildcard_stands_alone_and_last(self) -> None:
        """Anything else is no filter."""
        self.invalid("a#", "a/b#", "#/a", "a/#/b", "##", "#a", "a/#b", "+#", "#/", "/##")

    @statement("5", "MQTT-4.7.1-2")
    def test_single_level_wildcard_fills_its_level(self) -> None:
        """Anything else is no filter."""
        self.invalid("a+", "+a", "a/b+", "a+/b", "++", "a/+b/c", "/+a", "#+")

    @statement("5", "MQTT-4.7.1-1", "MQTT-4.7.1-2")
    def test_wildcards_anywhere_they_may_be(self) -> None:
        """Both, alone, mixed, and single-level ones at any position."""
        client = self.connect()
        for filter in ("#", "+", "/#", "+/#", "a/+/#", "+/+/+", "/+/", "+/a/+", "a/#", "//+"):
            client.subscribe(filter, granted=0)

    @statement("5", "MQTT-3.3.2-3", "MQTT-4.7.1-1", "MQTT-4.7.1-2", "MQTT-4.7.2-1")
    def test_what_filters_match(self) -> None:
        """The table above, for live messages."""
        topics = {topic for pair in MATCHES.values() for part in pair for topic in part} - {""}
        sender = self.connect("sender")
        for filter, (matching, others) in MATCHES.items():
            client = self.connect()
            client.subscribe(filter)
            sender.send(b"".join(p5.publish(topic) for topic in sorted(topics)))
            found = {packet.topic for packet in client.drain()}
            with self.case(filter):
                self.assertEqual(set(matching), found & {*matching, *others})

    @statement("5", "MQTT-4.7.2-1")
    def test_wildcards_do_not_match_dollar_topics(self) -> None:
        """A subscriber to # or +/x does not see $SYS; one that asks for it does."""
        client = self.connect()
        for filter in ("#", "+/#", "+/broker/version", "+/broker/#"):
            client.subscribe(filter)
        self.advance(60)
        client.expect_nothing()
        client.subscribe("$SYS/#")
        self.advance(60)
        found = client.drain()
        self.assertTrue(found)
        for packet in found:
            self.assertTrue(packet.topic and packet.topic.startswith("$SYS/"), packet)
