"""Who changes what, and why, as events: for the log, and for whoever keeps a trail of it.

Every method that changes something takes `by`, the name of who asks ("": somebody at the machine
itself), and `reason`, what he gave as one.  Both, what was asked for and what became of it are an
event `admin` (`mhub.core.events`).  Of the arguments just those that are named here are told, of
objects the names of their fields alone: a password, a hash or the secret of a token is in none.
"""

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from mhub.access.entries import MAX_NOTE
from mhub.core.events import DONE, FAILED, REFUSED_TO
from mhub.operations.contract import BadArgument, OperationError

LOCAL: Final = "local"
"""Who has said no name: at the control socket, or at the store itself."""

SHOWN: Final = 10
"""Names of a list that are told."""

P = ParamSpec("P")
R = TypeVar("R")

Method = Callable[P, Coroutine[Any, Any, R]]


def announced(what: str, *told: str) -> Callable[[Method[P, R]], Method[P, R]]:
    """Makes a method of a part of Access tell of what it does; `told` are arguments of it."""

    def wrap(method: Method[P, R]) -> Method[P, R]:
        signature = inspect.signature(method)

        @wraps(method)
        async def telling(*args: P.args, **kwargs: P.kwargs) -> R:
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            values = given.arguments
            reason = values["reason"]
            if len(reason) > MAX_NOTE or not reason.isprintable():
                raise BadArgument(f"reason: expected one line, of at most {MAX_NOTE} characters")
            text = ", ".join(part for name in told if (part := _told(name, values[name])))
            outcome = FAILED
            try:
                result = await method(*args, **kwargs)
                outcome = DONE
            except OperationError:
                outcome = REFUSED_TO
                raise
            finally:
                table = values["self"]._table
                table.events.admin(values["by"] or LOCAL, what, text, reason, outcome)
            return result

        return telling

    return wrap


def _told(name: str, value: object) -> str:
    """An argument in few words; "" if it is empty."""
    if not value:
        return ""
    if isinstance(value, str):
        return f'{name} "{value}"'
    if isinstance(value, Mapping):
        return f"{name} {' '.join(map(str, value))}"
    if isinstance(value, Sequence):
        if not all(isinstance(each, str) for each in value):
            return f"{name} {len(value)}"
        more = f" and {len(value) - SHOWN} more" if len(value) > SHOWN else ""
        return f"{name} {' '.join(value[:SHOWN])}{more}"
    return name
