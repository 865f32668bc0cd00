"""MQTT over HTTP: what the caller may do as an MQTT client, by requests.

Who is logged in may call these; whether the broker does it is decided about the caller's user as
about any other client (`mhub.admin.mqtt`).  See docs/http.md.
"""

import re
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Annotated, Final, cast

from twisted.internet.defer import CancelledError

from mhub.access.scopes import MQTT
from mhub.admin.endpoint import EVENTS, MOST_BODY, Body, Call, Query, Raw, endpoint
from mhub.admin.mqtt.message import (
    MOST_EXPIRY_S,
    Message,
    MessageFields,
    MessageView,
    to_message,
    to_view,
)
from mhub.admin.mqtt.outcome import Published
from mhub.admin.mqtt.publishing import MOST_BATCH, Batch
from mhub.admin.resources.parts import TOPIC as TOPIC_PATTERN
from mhub.core.principal import Principal
from mhub.operations.contract import BadArgument, OperationError

if TYPE_CHECKING:
    from mhub.admin.mqtt.gateway import Gateway

TOPIC: Final = "The topic, without wildcards."
TIMEOUT: Final = "How long to wait for the broker's answer, in seconds."
QOS: Final = "0: no answer is waited for. 1, 2: the answer is that of PUBACK or PUBCOMP."
RETAIN: Final = "Whether it is kept for later subscribers."
PAYLOAD: Final = "The payload, as text."
PAYLOAD_BASE64: Final = "The payload, as base64; instead of `payload`."
PAYLOAD_FORMAT: Final = "Payload Format Indicator."
EXPIRY: Final = "Message Expiry Interval, in seconds."
CONTENT_TYPE: Final = "Content Type."
RESPONSE_TOPIC: Final = "Response Topic."
CORRELATION: Final = "Correlation Data, as text."
CORRELATION_BASE64: Final = "Correlation Data, as base64."
USER_PROPERTIES: Final = "User Properties: pairs of name and value, in their order."

MOST_TIMEOUT_S: Final = 60.0

BASE64: Final = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"

SAFE_TYPE: Final = re.compile(r"[!-~][ -~]{0,254}")
"""A content type that can stand in a header."""

FORM: Final = "application/x-www-form-urlencoded"
"""What curl says of everything, unless it is told otherwise."""


@endpoint("POST", "/mqtt/publish", scope=MQTT, writes=False, codes=(409, 504), base="")
async def mqtt_publish(
    call: Call,
    topic: Annotated[str, Body(TOPIC, shortest=1, pattern=TOPIC_PATTERN)],
    payload: Annotated[str | None, Body(PAYLOAD, longest=MOST_BODY)] = None,
    payload_base64: Annotated[
        str | None, Body(PAYLOAD_BASE64, longest=MOST_BODY, pattern=BASE64)
    ] = None,
    qos: Annotated[int, Body(QOS, low=0, high=2)] = 0,
    retain: Annotated[bool, Body(RETAIN)] = False,
    payload_format: Annotated[str, Body(PAYLOAD_FORMAT, choices=("text", "bytes"))] = "",
    message_expiry_s: Annotated[int | None, Body(EXPIRY, low=0, high=MOST_EXPIRY_S)] = None,
    content_type: Annotated[str | None, Body(CONTENT_TYPE)] = None,
    response_topic: Annotated[
        str | None, Body(RESPONSE_TOPIC, shortest=1, pattern=TOPIC_PATTERN)
    ] = None,
    correlation_data: Annotated[str | None, Body(CORRELATION)] = None,
    correlation_data_base64: Annotated[
        str | None, Body(CORRELATION_BASE64, longest=MOST_BODY, pattern=BASE64)
    ] = None,
    user_properties: Annotated[list[tuple[str, str]], Body(USER_PROPERTIES)] = [],  # noqa: B006
    timeout_s: Annotated[float, Body(TIMEOUT, low=0.1, high=MOST_TIMEOUT_S)] = 10.0,
) -> Published:
    """Publish a message.

    With QoS 1 and 2 the answer comes when the broker has acknowledged the message: it is in the
    store, and on the nodes that it is for. Status 504 says that it may have been published, or may
    be yet.
    """
    message = to_message(
        MessageFields(
            topic=topic,
            payload=payload,
            payload_base64=payload_base64,
            qos=qos,
            retain=retain,
            payload_format=payload_format or None,
            message_expiry_s=message_expiry_s,
            content_type=content_type,
            response_topic=response_topic,
            correlation_data=correlation_data,
            correlation_data_base64=correlation_data_base64,
            user_properties=user_properties,
        )
    )
    return await _gateway(call).publish(_principal(call), message, timeout_s)


@endpoint("POST", "/mqtt/publish/raw", scope=MQTT, writes=False, codes=(409, 504), base="")
async def mqtt_publish_raw(
    call: Call,
    topic: Annotated[str, Query(TOPIC, shortest=1, pattern=TOPIC_PATTERN)],
    body: Annotated[bytes, Raw("*/*", "The payload, as it is.")],
    qos: Annotated[int, Query(QOS, low=0, high=2)] = 0,
    retain: Annotated[bool, Query(RETAIN)] = False,
    message_expiry_s: Annotated[int | None, Query(EXPIRY, low=0, high=MOST_EXPIRY_S)] = None,
    timeout_s: Annotated[float, Query(TIMEOUT, low=0.1, high=MOST_TIMEOUT_S)] = 10.0,
) -> Published:
    """Publish the body of the request.

    Its Content-Type becomes the Content Type of the message, unless it is
    `application/x-www-form-urlencoded`, which curl says of everything.
    """
    fields = MessageFields(
        topic=topic,
        qos=qos,
        retain=retain,
        message_expiry_s=message_expiry_s,
        content_type=call.media_type if call.media_type not in ("", FORM) else None,
    )
    message = to_message(fields, body)
    return await _gateway(call).publish(_principal(call), message, timeout_s)


@endpoint("POST", "/mqtt/publish/batch", scope=MQTT, writes=False, codes=(409,), base="")
async def mqtt_publish_batch(
    call: Call,
    messages: Annotated[
        list[MessageFields], Body(f"The messages, in their order; at most {MOST_BATCH}.")
    ],
    timeout_s: Annotated[float, Body(TIMEOUT, low=0.1, high=MOST_TIMEOUT_S)] = 30.0,
) -> Batch:
    """Publish several messages.

    The answer has a result for each, in their order. A message that is refused does not keep the
    others from being published.
    """
    if len(messages) > MOST_BATCH:
        raise BadArgument(f"messages: {len(messages)}, at most {MOST_BATCH} are allowed")
    wanted: list[Message | OperationError] = []
    for each in messages:
        try:
            wanted.append(to_message(each))
        except BadArgument as error:
            wanted.append(error)
    return await _gateway(call).publish_all(_principal(call), wanted, timeout_s)


@endpoint("GET", "/mqtt/retained", scope=MQTT, codes=(404,), base="")
async def mqtt_retained(
    call: Call, topic: Annotated[str, Query(TOPIC, shortest=1, pattern=TOPIC_PATTERN)]
) -> MessageView:
    """Read a retained message.

    With `Accept: application/octet-stream` the answer is the payload as it is, and the header
    `MQTT-Content-Type` has its content type. Who may not receive the topic is told that there is no
    message.
    """
    message = _gateway(call).retained(_principal(call), topic)
    if "application/octet-stream" not in call.accept:
        return to_view(message)
    # A payload is anybody's: no browser may ever take it for a page, whatever is in it.
    call.headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
    call.headers["Content-Disposition"] = "attachment"
    if message.content_type is not None and SAFE_TYPE.fullmatch(message.content_type):
        call.headers["MQTT-Content-Type"] = message.content_type
    return cast(MessageView, message.payload)  # bytes are the answer as they are


@endpoint("POST", "/mqtt/request", scope=MQTT, writes=False, codes=(409, 504), base="")
async def mqtt_request(
    call: Call,
    topic: Annotated[str, Body(TOPIC, shortest=1, pattern=TOPIC_PATTERN)],
    payload: Annotated[str | None, Body(PAYLOAD, longest=MOST_BODY)] = None,
    payload_base64: Annotated[
        str | None, Body(PAYLOAD_BASE64, longest=MOST_BODY, pattern=BASE64)
    ] = None,
    qos: Annotated[int, Body("QoS of the request.", low=0, high=2)] = 1,
    payload_format: Annotated[str, Body(PAYLOAD_FORMAT, choices=("text", "bytes"))] = "",
    message_expiry_s: Annotated[int | None, Body(EXPIRY, low=0, high=MOST_EXPIRY_S)] = None,
    content_type: Annotated[str | None, Body(CONTENT_TYPE)] = None,
    response_topic: Annotated[
        str | None,
        Body(
            "Where the response is expected; else `users/USER/http/RANDOM`.",
            shortest=1,
            pattern=TOPIC_PATTERN,
        ),
    ] = None,
    correlation_data: Annotated[str | None, Body(f"{CORRELATION} Else it is random.")] = None,
    correlation_data_base64: Annotated[
        str | None, Body(CORRELATION_BASE64, longest=MOST_BODY, pattern=BASE64)
    ] = None,
    user_properties: Annotated[list[tuple[str, str]], Body(USER_PROPERTIES)] = [],  # noqa: B006
    timeout_s: Annotated[
        float, Body("How long to wait for the response.", low=0.1, high=MOST_TIMEOUT_S)
    ] = 10.0,
) -> MessageView:
    """Publish a request, and wait for its response.

    The response is the first message at the response topic with the correlation data of the
    request. The caller has to be allowed to subscribe there.
    """
    message = to_message(
        MessageFields(
            topic=topic,
            payload=payload,
            payload_base64=payload_base64,
            qos=qos,
            payload_format=payload_format or None,
            message_expiry_s=message_expiry_s,
            content_type=content_type,
            response_topic=response_topic,
            correlation_data=correlation_data,
            correlation_data_base64=correlation_data_base64,
            user_properties=user_properties,
        )
    )
    return await _gateway(call).request(_principal(call), message, timeout_s)


@endpoint("GET", "/mqtt/subscribe", scope=MQTT, stream=EVENTS, codes=(409,), base="")
async def mqtt_subscribe(
    call: Call,
    filter: Annotated[list[str], Query("A topic filter; may be repeated.", shortest=1)],
    qos: Annotated[int, Query("The highest QoS of messages.", low=0, high=2)] = 1,
    client_id: Annotated[
        str, Query("A name for the session: letters, digits and _.", longest=64)
    ] = "",
    expiry_s: Annotated[
        int, Query("How long the session is kept without a reader.", low=0, high=0xFFFFFFFF)
    ] = 0,
) -> AsyncGenerator[bytes, None]:
    """Stream messages as server-sent events.

    With `client_id` and `expiry_s` the session is kept while nobody reads, and the header
    `Last-Event-ID` resumes it. A reader that is slow makes the broker wait, within the limits of
    its user.
    """

    stream = await _gateway(call).open_stream(
        _principal(call), filter, qos, client_id, expiry_s, call.last_event_id, call.is_still_known
    )
    call.checks_itself = True  # and says to its reader why it ends
    try:
        while data := await stream.read():
            yield data
    except CancelledError:
        if call.request.channel is None:
            raise  # the reader is gone
        yield stream.stopping()
    finally:
        stream.close("the HTTP connection has ended")


def _gateway(call: Call) -> "Gateway":
    assert call.mqtt is not None
    return call.mqtt


def _principal(call: Call) -> Principal:
    """The caller's, at the address that this request comes from."""
    found = call.caller.principal.copy()
    found.address = call.caller.address
    return found
