"""Errors as RFC 9457 has them: `application/problem+json`, with a text that one can act on."""

from dataclasses import dataclass
from typing import Final

import msgspec

from mhub.admin.logins import NotLoggedIn
from mhub.operations.contract import (
    BadArgument,
    Forbidden,
    LimitReached,
    NotThere,
    OperationError,
    Stale,
    TimedOut,
    Unavailable,
)

CONTENT_TYPE: Final = "application/problem+json"


class UnsupportedType(BadArgument):
    """The body is of another type."""


STATUS: Final[dict[type[OperationError], int]] = {
    BadArgument: 400,
    NotLoggedIn: 401,
    Forbidden: 403,
    NotThere: 404,
    OperationError: 409,
    Stale: 412,
    LimitReached: 429,
    UnsupportedType: 415,
    Unavailable: 503,
    TimedOut: 504,
}

TITLES: Final = {
    400: "The request is wrong",
    401: "Not logged in",
    403: "Not allowed",
    404: "There is no such thing",
    405: "This method is not for this path",
    409: "Not possible as things are",
    411: "The length is missing",
    412: "Changed meanwhile",
    413: "The body is too long",
    414: "The head is too long",
    415: "The body is of another type",
    428: "Something is missing",
    429: "Too many requests",
    500: "A defect of the broker",
    503: "Not available at the moment",
    504: "No answer in time",
}


@dataclass(frozen=True)
class Problem:
    type: str
    title: str
    status: int
    detail: str


def problem(status: int, detail: str) -> Problem:
    return Problem("about:blank", TITLES.get(status, "Error"), status, detail)


def encoded(status: int, detail: str) -> bytes:
    return msgspec.json.encode(problem(status, detail))


def status_of(error: OperationError) -> int:
    for cls in type(error).__mro__:
        if cls in STATUS:
            return STATUS[cls]
    return 409
