"""The rules for topic names and filters, and the plain statement of what matches what."""

from unittest import TestCase

from mhub.wire import topics
from mhub.wire.errors import ProtocolFault
from mhub.wire.reasons import (
    MALFORMED_PACKET,
    PROTOCOL_ERROR,
    TOPIC_FILTER_INVALID,
    TOPIC_NAME_INVALID,
)

LEVELS = 8


class Names(TestCase):
    def test_what_may_be_a_name(self) -> None:
        for name in ("a", "/", "//", "a/b", "/a", "a/", " ", "$SYS/x", "$", "é/€", "a b/c"):
            topics.check_name(name, LEVELS)

    def refuse(self, name: str, reason: int) -> None:
        with self.assertRaises(ProtocolFault) as caught:
            topics.check_name(name, LEVELS)
        self.assertEqual(caught.exception.reason, reason)

    def test_no_empty_name(self) -> None:
        """[MQTT-4.7.3-1]"""
        self.refuse("", PROTOCOL_ERROR)

    def test_no_wildcards(self) -> None:
        """[MQTT-3.3.2-2]: in no place of a name."""
        for name in ("+", "#", "a/+", "a/#", "a+", "#a", "a/b#c/d"):
            self.refuse(name, MALFORMED_PACKET)

    def test_outside_of_a_publish(self) -> None:
        """Wills and response topics: neither empty nor with wildcards."""
        topics.check_name_form("a/b", "will topic")
        for name in ("", "+", "a/#"):
            with self.assertRaises(ProtocolFault) as caught:
                topics.check_name_form(name, "will topic")
            self.assertEqual(caught.exception.reason, MALFORMED_PACKET)
            self.assertIn("will topic", caught.exception.text)

    def test_levels_are_bounded(self) -> None:
        topics.check_name("/" * (LEVELS - 1), LEVELS)
        self.refuse("/" * LEVELS, TOPIC_NAME_INVALID)


class Filters(TestCase):
    def test_what_may_be_a_filter(self) -> None:
        for text in ("a", "/", "#", "+", "+/+", "a/#", "a/+/b", "/+", "+/", "/#", "$SYS/#", "+/#"):
            self.assertEqual(topics.filter_problem(text), "", text)
            topics.check_filter(text, LEVELS)
            topics.check_filter_form(text)
            topics.check_filter_form(f"$share/g/{text}")

    def refuse(self, text: str, words: str) -> None:
        self.assertIn(words, topics.filter_problem(text))
        with self.assertRaises(ProtocolFault) as caught:
            topics.check_filter(text, LEVELS)
        self.assertEqual(caught.exception.reason, MALFORMED_PACKET)
        for form in (text, f"$share/g/{text}"):
            with self.assertRaises(ProtocolFault) as caught:
                topics.check_filter_form(form)
            self.assertEqual(caught.exception.reason, MALFORMED_PACKET)

    def test_no_empty_filter(self) -> None:
        """[MQTT-4.7.3-1]"""
        self.refuse("", "empty")

    def test_the_rest_only_alone_and_last(self) -> None:
        """[MQTT-4.7.1-1]"""
        for text in ("a#", "#a", "##", "#/a", "a/#/b", "a/b#", "+#"):
            self.refuse(text, "'#'")

    def test_a_level_only_whole(self) -> None:
        """[MQTT-4.7.1-2]"""
        for text in ("a+", "+a", "++", "a/+b", "a/b+/c"):
            self.refuse(text, "'+'")

    def test_levels_are_bounded(self) -> None:
        topics.check_filter("+/" * (LEVELS - 1) + "#", LEVELS)
        with self.assertRaises(ProtocolFault) as caught:
            topics.check_filter("+/" * LEVELS + "#", LEVELS)
        self.assertEqual(caught.exception.reason, TOPIC_FILTER_INVALID)


class SharedFilters(TestCase):
    def test_group_and_filter(self) -> None:
        self.assertEqual(topics.split_share("$share/g/a/#"), ("g", "a/#"))
        self.assertEqual(topics.split_share("$share/g//a"), ("g", "/a"))
        self.assertEqual(topics.split_share("$share/g/$share/x"), ("g", "$share/x"))

    def test_any_other_filter_is_its_own(self) -> None:
        for text in ("a", "$share", "$SHARE/g/a", "x/$share/g/a", "$shared/g/a"):
            self.assertEqual(topics.split_share(text), ("", text))

    def test_incomplete_ones_are_refused(self) -> None:
        """[MQTT-4.8.2-1], [MQTT-4.8.2-2]"""
        for text in ("$share/", "$share/g", "$share/g/", "$share//a", "$share/+/a", "$share/g#/a"):
            with self.assertRaises(ProtocolFault, msg=text) as caught:
                topics.split_share(text)
            self.assertEqual(caught.exception.reason, MALFORMED_PACKET)


class Matching(TestCase):
    # Of the specification, section 4.7, and the corners it leaves to the reader.
    MATCH = (
        ("sport/tennis/player1/#", "sport/tennis/player1"),
        ("sport/tennis/player1/#", "sport/tennis/player1/ranking"),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon"),
        ("sport/#", "sport"),
        ("#", "sport"),
        ("#", "/"),
        ("sport/tennis/+", "sport/tennis/player1"),
        ("sport/+", "sport/"),
        ("+", "sport"),
        ("+/+", "/finance"),
        ("/+", "/finance"),
        ("+/tennis/#", "sport/tennis"),
        ("/#", "/"),
        ("+/", "/"),
        ("$SYS/#", "$SYS/broker"),
        ("$SYS/monitor/+", "$SYS/monitor/Clients"),
        ("a/+", "a/$b"),
        ("a/#", "a/$b"),
        ("a", "a"),
    )
    MISS = (
        ("sport/tennis/+", "sport/tennis/player1/ranking"),
        ("sport/+", "sport"),
        ("+", "/finance"),
        ("#", "$SYS/broker"),
        ("+/monitor/Clients", "$SYS/monitor/Clients"),
        ("+", "$"),
        ("$SYS/+", "$SYS"),
        ("$SYS", "$SYS/"),
        ("a", "A"),
        ("a", "/a"),
        ("a/", "a"),
        ("a/b", "a"),
        ("a/b/#", "a"),
    )

    def test_matches(self) -> None:
        for topic_filter, topic in self.MATCH:
            self.assertTrue(topics.matches(topic_filter, topic), (topic_filter, topic))

    def test_misses(self) -> None:
        for topic_filter, topic in self.MISS:
            self.assertFalse(topics.matches(topic_filter, topic), (topic_filter, topic))
