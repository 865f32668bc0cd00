"""Messages, as requests bring them and as answers show them.

Text and bytes are told apart by the names of fields: `payload` is text, `payload_base64` is bytes,
and a message has one of the two, or neither, which is an empty payload.  The same holds for
`correlation_data`.  An answer has `payload` where the bytes are UTF-8 without control characters
other than tab and line ends, so that most messages can be read as they are.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final

import msgspec

from mhub.core.limits import Limits
from mhub.operations.contract import BadArgument
from mhub.wire.errors import ProtocolFault
from mhub.wire.topics import check_name, has_wildcard

LONGEST: Final = 65_535
"""Bytes of a text or of binary data, in MQTT."""

MOST_PAIRS: Final = 100
"""User properties of a message."""

MOST_EXPIRY_S: Final = 0xFFFFFFFF

CONTROLS: Final = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f]")


@dataclass(frozen=True)
class Message:
    """A message as MQTT has it; None: it does not have that property."""

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    payload_format: int | None = None  # 1: the payload is text
    message_expiry_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    user_properties: tuple[tuple[str, str], ...] = ()


class MessageFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message as it stands in the JSON of a request."""

    topic: str
    payload: str | None = None
    payload_base64: str | None = None
    qos: int = 0
    retain: bool = False
    payload_format: str | None = None
    message_expiry_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: str | None = None
    correlation_data_base64: str | None = None
    user_properties: list[tuple[str, str]] | None = None


@dataclass(frozen=True)
class MessageView:
    """A message as it stands in the JSON of an answer; None: it does not have that."""

    topic: str
    qos: int
    retain: bool
    payload: str | None = None
    payload_base64: str | None = None
    payload_format: str | None = None
    message_expiry_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: str | None = None
    correlation_data_base64: str | None = None
    user_properties: tuple[tuple[str, str], ...] | None = None


BYTES, TEXT = "bytes", "text"


def to_message(given: MessageFields, body: bytes | None = None) -> Message:
    """What a request wants to publish; `body`: the payload, where it is not in the fields.

    Raises BadArgument, which names the field.
    """
    if given.qos not in (0, 1, 2):
        raise BadArgument("qos: it is 0, 1 or 2")
    expiry_s = given.message_expiry_s
    if expiry_s is not None and not 0 <= expiry_s <= MOST_EXPIRY_S:
        raise BadArgument(f"message_expiry_s: it is from 0 to {MOST_EXPIRY_S}")
    if given.payload_format not in (None, BYTES, TEXT):
        raise BadArgument('payload_format: it is "text" or "bytes"')
    payload = body
    if payload is None:
        payload = _either("payload", given.payload, given.payload_base64) or b""
    if given.payload_format == TEXT:
        try:
            payload.decode("utf-8")
        except UnicodeDecodeError:
            raise BadArgument('payload_format: "text", but the payload is not UTF-8') from None
    correlation = _either("correlation_data", given.correlation_data, given.correlation_data_base64)
    if correlation is not None and len(correlation) > LONGEST:
        raise BadArgument(f"correlation_data: it has more than {LONGEST} bytes")
    if given.response_topic is not None:
        check_topic(given.response_topic, "response_topic")
    pairs = given.user_properties or []
    if len(pairs) > MOST_PAIRS:
        raise BadArgument(f"user_properties: at most {MOST_PAIRS} are allowed")
    for name, value in pairs:
        _text("user_properties", name)
        _text("user_properties", value)
    check_topic(given.topic, "topic")
    return Message(
        topic=given.topic,
        payload=payload,
        qos=given.qos,
        retain=given.retain,
        payload_format=None if given.payload_format is None else int(given.payload_format == TEXT),
        message_expiry_s=expiry_s,
        content_type=_text("content_type", given.content_type),
        response_topic=given.response_topic,
        correlation_data=correlation,
        user_properties=tuple((name, value) for name, value in pairs),
    )


def check_topic(topic: str, field: str, most_levels: int = LONGEST) -> None:
    _text(field, topic)
    if not topic:
        raise BadArgument(f"{field}: it is empty")
    if has_wildcard(topic):
        raise BadArgument(f"{field}: a topic to publish to has no + and no #")
    try:
        check_name(topic, most_levels)
    except ProtocolFault as fault:
        raise BadArgument(f"{field}: {fault.text}") from None


def check_allowed(message: Message, allowed: Limits, most_levels: int) -> None:
    """What would end a client's connection: here it is an answer that says what is wrong."""
    size = len(message.topic.encode("utf-8"))
    if size > allowed.max_topic_length:
        raise BadArgument(
            f"topic: {size} bytes, at most {allowed.max_topic_length} are allowed"
            " (limits.max_topic_length)"
        )
    check_topic(message.topic, "topic", min(allowed.max_topic_levels, most_levels))
    if message.qos > allowed.max_qos:
        raise BadArgument(f"qos: at most {allowed.max_qos} is allowed (limits.max_qos)")
    if message.retain and not allowed.retain_available:
        raise BadArgument("retain: it is not allowed (limits.retain_available)")


def _text(field: str, value: str | None) -> str | None:
    if value is None:
        return None
    if "\0" in value:
        raise BadArgument(f"{field}: it has U+0000, which MQTT does not allow")
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        raise BadArgument(f"{field}: it is not Unicode text (a lone surrogate)") from None
    if size > LONGEST:
        raise BadArgument(f"{field}: it has {size} bytes, at most {LONGEST} are allowed")
    return value


def _either(field: str, text: str | None, encoded: str | None) -> bytes | None:
    if text is not None and encoded is not None:
        raise BadArgument(f"{field}, {field}_base64: only one of the two")
    if text is not None:
        try:
            return text.encode("utf-8")
        except UnicodeEncodeError:
            raise BadArgument(f"{field}: it is not Unicode text (a lone surrogate)") from None
    if encoded is None:
        return None
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise BadArgument(f"{field}_base64: it is not base64") from None


def to_view(message: Message) -> MessageView:
    payload, payload_base64 = _shown(message.payload)
    correlation, correlation_base64 = (
        (None, None) if message.correlation_data is None else _shown(message.correlation_data)
    )
    return MessageView(
        topic=message.topic,
        qos=message.qos,
        retain=message.retain,
        payload=payload,
        payload_base64=payload_base64,
        payload_format=(
            None if message.payload_format is None else (BYTES, TEXT)[message.payload_format]
        ),
        message_expiry_s=message.message_expiry_s,
        content_type=message.content_type,
        response_topic=message.response_topic,
        correlation_data=correlation,
        correlation_data_base64=correlation_base64,
        user_properties=message.user_properties or None,
    )


def _shown(data: bytes) -> tuple[str | None, str | None]:
    """(text, None) of what can be read, (None, base64) of all else."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if CONTROLS.search(text) is None:
        return text, None
    return None, base64.b64encode(data).decode("ascii")
