"""Reason codes in words a user can act on."""

from typing import Final

from mhub.wire.reasons import NAMES

_CONNACK_3: Final = {
    1: "unacceptable protocol version",
    2: "client identifier rejected",
    3: "server unavailable",
    4: "bad user name or password",
    5: "not authorized",
}


def words(code: int, v5: bool) -> str:
    """`code` of a CONNACK, SUBACK, PUBACK or DISCONNECT, such as "not authorized (0x87)"."""
    if not v5:
        if code == 0x80:  # the only code a SUBACK of 3.1.1 has for "no"
            return "refused (0x80)"
        return f"{_CONNACK_3.get(code, 'unknown return code')} ({code})"
    return f"{NAMES.get(code, 'unknown reason code')} (0x{code:02x})"
