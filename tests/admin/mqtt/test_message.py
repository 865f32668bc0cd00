"""Messages in the JSON of requests and answers."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mhub.admin.mqtt import packets
from mhub.admin.mqtt.message import Message, MessageFields, to_message, to_view
from mhub.operations.contract import BadArgument
from mhub.wire.decode import frame
from tests.helpers.splits import steady

texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)
topics = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0+#"), min_size=1)
maybe = st.none()
messages = st.builds(
    Message,
    topic=topics,
    payload=st.binary(max_size=300),
    qos=st.integers(0, 2),
    retain=st.booleans(),
    payload_format=maybe,
    message_expiry_s=maybe | st.integers(0, 0xFFFFFFFF),
    content_type=maybe | texts,
    response_topic=maybe | topics,
    correlation_data=maybe | st.binary(max_size=20),
    user_properties=st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
)


class MessageTests(SynchronousTestCase):
    @steady
    @given(messages)
    def test_packets_and_views_say_all_of_a_message(self, message: Message) -> None:
        data = packets.publish(message, 7 if message.qos else 0)
        body, end = frame(data, 0, len(data))
        self.assertEqual(len(data), end)
        received = packets.read_publish(data, body)
        self.assertEqual(message, received.message)
        self.assertEqual((7 if message.qos else 0, False), (received.pid, received.dup))
        view = to_view(message)
        fields = {name: value for name, value in vars(view).items() if value is not None}
        again = to_message(MessageFields(**{**fields, "qos": message.qos}))
        self.assertEqual(message, again)

    def test_what_can_be_read_is_shown_as_text(self) -> None:
        for payload, text in (
            (b"21.5", "21.5"),
            ("größe\r\n\t".encode(), "größe\r\n\t"),
            (b"", ""),
            (b"\x00", None),
            (b"\xff", None),
            (b"a\x1bb", None),
        ):
            view = to_view(Message(topic="t", payload=payload))
            self.assertEqual(text, view.payload)
            self.assertEqual(text is None, view.payload_base64 is not None)

    def test_what_is_wrong_is_named(self) -> None:
        for wrong, words in (
            ({"topic": ""}, "topic: it is empty"),
            ({"topic": "a/#"}, "topic: a topic to publish to has no"),
            ({"topic": "a\0"}, "topic: it has U+0000"),
            ({"topic": "a\ud800"}, "topic: it is not Unicode"),
            ({"topic": "x" * 65_536}, "topic: it has 65536 bytes"),
            ({"qos": 3}, "qos: it is 0, 1 or 2"),
            ({"payload": "a", "payload_base64": "YQ=="}, "payload, payload_base64: only one"),
            ({"payload": "\ud800"}, "payload: it is not Unicode"),
            ({"payload_base64": "YQ"}, "payload_base64: it is not base64"),
            ({"payload_base64": "Y Q="}, "payload_base64: it is not base64"),
            ({"payload_base64": "YÄ=="}, "payload_base64: it is not base64"),
            ({"payload_format": "utf8"}, "payload_format: it is"),
            ({"payload_format": "text", "payload_base64": "/w=="}, "the payload is not UTF-8"),
            ({"message_expiry_s": -1}, "message_expiry_s"),
            ({"message_expiry_s": 1 << 32}, "message_expiry_s"),
            ({"content_type": "a\0"}, "content_type: it has U+0000"),
            ({"response_topic": "+"}, "response_topic: a topic to publish to has no"),
            ({"response_topic": ""}, "response_topic: it is empty"),
            ({"correlation_data": "a", "correlation_data_base64": ""}, "correlation_data"),
            ({"correlation_data": "x" * 65_536}, "correlation_data: it has more"),
            ({"user_properties": [("a", "\0")]}, "user_properties: it has U+0000"),
            ({"user_properties": [("a", "b")] * 101}, "user_properties: at most 100"),
        ):
            fields: dict[str, Any] = {"topic": "t", **wrong}
            error = self.assertRaises(BadArgument, to_message, MessageFields(**fields))
            self.assertIn(words, str(error))
