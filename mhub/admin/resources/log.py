"""The log: its level, also for one client, and its last lines."""

from typing import Annotated

from mhub.admin.endpoint import Body, Call, Query, endpoint
from mhub.operations.steer import LEVELS, LONGEST_S, MOST_LINES
from mhub.operations.steering import LogLevels, LogPage


@endpoint("GET", "/log/level", resource="log")
async def log_level(call: Call) -> LogLevels:
    """Show the level of the log, and the clients that have another one."""
    return call.operations.log_level()


@endpoint("PUT", "/log/level", resource="log", codes=(409,))
async def set_log_level(
    call: Call,
    level: Annotated[str, Body("The least important lines that are logged.", choices=LEVELS)],
    client_id: Annotated[str, Body("Only what concerns this client; empty: all.")] = "",
    seconds: Annotated[
        float, Body("For how long; only with `client_id`.", low=1, high=LONGEST_S)
    ] = 600.0,
) -> LogLevels:
    """Set the level of the log.

    For all of it, until it is set again or a reload changes it; or for one client, for a while: at
    `debug` with a line for each of its packets.
    """
    return call.operations.set_log_level(level, client_id, seconds)


@endpoint("GET", "/log/recent", resource="log")
async def recent_log(
    call: Call,
    after: Annotated[int, Query("The number of the last line that is known; -1: none.")] = -1,
    least: Annotated[str, Query("The least important lines.", choices=LEVELS)] = "debug",
    limit: Annotated[int, Query("How many at most.", low=1, high=MOST_LINES)] = 100,
) -> LogPage:
    """Show the last lines of the log.

    Ask again with `next` as `after` to get those that follow.
    """
    return call.operations.log_recent(after, least, limit)
