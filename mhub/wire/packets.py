"""What the packets from a client hold, PUBLISH aside (that is `mhub.wire.publish`)."""

from typing import Final

from mhub.wire.properties import NONE, Properties
from mhub.wire.publish import Publish

CONNECT: Final = 1
CONNACK: Final = 2
PUBLISH: Final = 3
PUBACK: Final = 4
PUBREC: Final = 5
PUBREL: Final = 6
PUBCOMP: Final = 7
SUBSCRIBE: Final = 8
SUBACK: Final = 9
UNSUBSCRIBE: Final = 10
UNSUBACK: Final = 11
PINGREQ: Final = 12
PINGRESP: Final = 13
DISCONNECT: Final = 14
AUTH: Final = 15

NAMES: Final = (
    "reserved packet 0",
    "CONNECT",
    "CONNACK",
    "PUBLISH",
    "PUBACK",
    "PUBREC",
    "PUBREL",
    "PUBCOMP",
    "SUBSCRIBE",
    "SUBACK",
    "UNSUBSCRIBE",
    "UNSUBACK",
    "PINGREQ",
    "PINGRESP",
    "DISCONNECT",
    "AUTH",
)

V31: Final = 3
V311: Final = 4
V5: Final = 5
VERSION_NAMES: Final[dict[int, str]] = {V31: "3.1", V311: "3.1.1", V5: "5.0"}


class Connect:
    def __init__(self, version: int) -> None:
        self.version = version
        self.client_id = ""
        self.clean = True
        self.keepalive_s = 0
        self.username: str | None = None
        self.password: bytes | None = None
        self.will: Publish | None = None
        self.will_delay_s = 0
        self.properties: Properties = NONE


class Request:
    """One filter of a SUBSCRIBE, with its options."""

    def __init__(self, topic_filter: str, options: int) -> None:
        self.topic_filter = topic_filter
        self.qos = options & 3
        self.no_local = options & 0x04 != 0
        self.retain_as_published = options & 0x08 != 0
        self.retain_handling = options >> 4 & 3


class Subscribe:
    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.requests: list[Request] = []
        self.subscription_id = 0


class Unsubscribe:
    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.filters: list[str] = []


class Disconnect:
    def __init__(self) -> None:
        self.reason = 0
        self.session_expiry_s = -1  # -1: not given


class Auth:
    def __init__(self) -> None:
        self.reason = 0
        self.method = ""
        self.data = b""
