"""The keys of `[presence]`."""

from dataclasses import dataclass

from mhub.config.kinds import Boolean, Text
from mhub.config.schema import setting
from mhub.wire.topics import SYS, has_wildcard


def _is_prefix(text: str) -> bool:
    """Below `$SYS`, where no client can publish; `$SYS/broker` has other things."""
    levels = text.split("/")
    return (
        text.startswith(SYS)
        and all(levels)
        and levels[1] != "broker"
        and not has_wildcard(text)
        and "\0" not in text
        and len(text) <= 200
    )


@dataclass(frozen=True)
class PresenceSettings:
    enabled: bool = setting(
        Boolean(),
        False,
        "Whether each client has a retained message that says whether it is connected, since when"
        " and from where; see `monitoring.md`.",
    )
    prefix: str = setting(
        Text(empty=False, check=_is_prefix, what='a topic below $SYS, such as "$SYS/presence"'),
        "$SYS/presence",
        "The topics begin with this, and the client id is the next level. It has to be below"
        " `$SYS`, where clients cannot publish, and not below `$SYS/broker`.",
    )
