"""Client ids as one level of a topic."""

from twisted.trial.unittest import SynchronousTestCase

from mhub.presence.topics import decode, encode, topic_of
from mhub.wire.topics import has_wildcard


class TopicTests(SynchronousTestCase):
    def test_plain_client_ids_stay_as_they_are(self) -> None:
        for client_id in ("sensor-1", "a b", "caf\u00e9", "a$b", "mqtt_1.2:3@x,y", "\U0001f4a1"):
            self.assertEqual(encode(client_id), client_id)

    def test_what_means_something_in_topics_is_encoded(self) -> None:
        for client_id, level in (
            ("a/b", "a%2Fb"),
            ("+", "%2B"),
            ("#", "%23"),
            ("100%", "100%25"),
            ("%2F", "%252F"),
            ("$SYS", "%24SYS"),
            ("a\tb\x7f", "a%09b%7F"),
            ("\x85", "%C2%85"),
            ("/", "%2F"),
        ):
            self.assertEqual(encode(client_id), level)

    def test_each_client_id_has_a_level_of_its_own(self) -> None:
        strange = ["/", "+", "#", "%", "$", "%24", "%2F", "\x01", "\x80", "a/", "a%2F", "\u2603"]
        everything = [one + other for one in strange for other in strange]
        levels = [encode(each) for each in everything]
        self.assertEqual(len(set(levels)), len(set(everything)))
        for client_id, level in zip(everything, levels, strict=True):
            self.assertEqual(decode(level), client_id)
            self.assertFalse(has_wildcard(level) or "/" in level)

    def test_one_that_is_too_long_for_a_topic_has_none(self) -> None:
        self.assertEqual(topic_of("$SYS/p", "x" * 65_528), "$SYS/p/" + "x" * 65_528)
        self.assertEqual(topic_of("$SYS/p", "x" * 65_529), "")
        self.assertEqual(topic_of("$SYS/p", "/" * 30_000), "")
