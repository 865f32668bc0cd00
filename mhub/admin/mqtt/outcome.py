"""Reason codes of MQTT as errors of the API, and how the end of a message is told."""

from dataclasses import dataclass
from typing import Final

from mhub.admin.mqtt.client import MAY_BE_PUBLISHED, Ended
from mhub.admin.mqtt.packets import Reply
from mhub.operations.contract import (
    BadArgument,
    Forbidden,
    LimitReached,
    OperationError,
    Unavailable,
)
from mhub.wire import reasons

ERRORS: Final[dict[int, type[OperationError]]] = {
    reasons.NOT_AUTHORIZED: Forbidden,
    reasons.BAD_USER_OR_PASSWORD: Forbidden,
    reasons.BANNED: Forbidden,
    reasons.ADMINISTRATIVE_ACTION: Forbidden,
    reasons.MAXIMUM_CONNECT_TIME: Forbidden,
    reasons.QUOTA_EXCEEDED: LimitReached,
    reasons.MESSAGE_RATE_TOO_HIGH: LimitReached,
    reasons.CONNECTION_RATE_EXCEEDED: LimitReached,
    reasons.RECEIVE_MAXIMUM_EXCEEDED: LimitReached,
    reasons.IMPLEMENTATION_SPECIFIC: BadArgument,  # `limits.message_size_limit`
    reasons.TOPIC_NAME_INVALID: BadArgument,
    reasons.TOPIC_FILTER_INVALID: BadArgument,
    reasons.PACKET_TOO_LARGE: BadArgument,
    reasons.PAYLOAD_FORMAT_INVALID: BadArgument,
    reasons.RETAIN_NOT_SUPPORTED: BadArgument,
    reasons.QOS_NOT_SUPPORTED: BadArgument,
    reasons.SHARED_NOT_SUPPORTED: BadArgument,
    reasons.WILDCARDS_NOT_SUPPORTED: BadArgument,
    reasons.MALFORMED_PACKET: BadArgument,
    reasons.PROTOCOL_ERROR: BadArgument,
    reasons.SERVER_UNAVAILABLE: Unavailable,
    reasons.SERVER_BUSY: Unavailable,
    reasons.SERVER_SHUTTING_DOWN: Unavailable,
    reasons.USE_ANOTHER_SERVER: Unavailable,
    reasons.SERVER_MOVED: Unavailable,
    reasons.UNSPECIFIED: Unavailable,
    reasons.SESSION_TAKEN_OVER: Unavailable,
}


@dataclass(frozen=True)
class Published:
    """What became of a message."""

    topic: str
    qos: int
    reason_code: int
    reason: str  # the same in words, as MQTT names it
    acknowledged: bool  # False: QoS 0, for which there are no acknowledgements


def error_of(reason: int, text: str) -> OperationError:
    kind = ERRORS.get(reason, OperationError)
    return kind(f"{text} (reason code 0x{reason:02x}, {reasons.name(reason)})")


def ended_error(ended: Ended) -> OperationError:
    """A client's connection has ended before what was asked for was done."""
    error = error_of(ended.reason, ended.text)
    if ended.sent:
        return type(error)(f"{error}; {MAY_BE_PUBLISHED}")
    return error


def published(topic: str, qos: int, reply: Reply) -> Published:
    """The end of a message.  Raises an OperationError, if the broker has refused it."""
    reason = reply.reason
    if reason >= reasons.UNSPECIFIED:
        name = reasons.name(reason)
        text = reply.text if reply.text and reply.text != name else f"{topic!r} was refused"
        if reason == reasons.NOT_AUTHORIZED:
            text = f"not authorized to publish to {topic!r}"
        elif reason == reasons.QUOTA_EXCEEDED:
            text = f"{topic!r}: it was not retained, or not taken, for a limit that is reached"
        raise error_of(reason, text)
    return Published(topic, qos, reason, reasons.name(reason), qos > 0)
