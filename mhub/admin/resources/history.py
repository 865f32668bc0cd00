"""The broker's own short history, for charts."""

from typing import Annotated

from mhub.admin.endpoint import Call, Query, endpoint
from mhub.admin.resources.parts import some_of
from mhub.operations.history import SPANS, History
from mhub.operations.series import NAMES


@endpoint("GET", "/history", resource="stats")
async def history(
    call: Call,
    names: Annotated[
        str,
        Query(
            f"Series, with commas in between; without it, all: {', '.join(NAMES)}.",
            longest=1000,
            pattern=some_of(NAMES),
        ),
    ] = "",
    span: Annotated[str, Query("How far back.", choices=tuple(SPANS))] = "1h",
) -> History:
    """Show series of the last hour, day or week.

    One value for each 5 seconds, minute or 10 minutes; null is a gap. Rates are per second. It is
    in memory, and begins anew with the process.
    """
    wanted = tuple(name.strip() for name in names.split(",") if name.strip())
    return await call.operations.history(wanted, span)
