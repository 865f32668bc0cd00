"""The keys of `[access]`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mhub.config.kinds import Boolean, Choice, FilePath, Integer, Kind, Place
from mhub.config.problems import Wrong
from mhub.config.schema import setting

REGISTRY: Final = "registry"


class PolicyPlace(Kind[str]):
    """Where the rules are."""

    name = '`"registry"` or path'
    expected = '"registry", or the path of a CSV file'

    def read(self, value: object, place: Place) -> str:
        if value == REGISTRY:
            return REGISTRY
        try:
            return FilePath().read(value, place)
        except Wrong as wrong:
            raise Wrong(self.expected, wrong.hint) from None


@dataclass(frozen=True)
class AccessSettings:
    enabled: bool = setting(
        Boolean(), True, "Whether rules decide what clients may do; without them, all may do all."
    )
    policy: str = setting(
        PolicyPlace(),
        REGISTRY,
        "Where the rules are: in the registry, which all nodes share and `mhub ctl policy` changes,"
        " or in a CSV file, which is read again when it changes. A file with a mistake leaves the"
        " rules as they were, and the log names the line. Users and their roles are in the registry"
        " in either case.",
    )
    subscribe: str = setting(
        Choice("strict", "receive"),
        "strict",
        "When a subscription is refused: `strict`, unless every topic that its filter could match"
        " is allowed; `receive`, if none is, and of those that match only what is allowed is"
        " delivered.",
    )
    denied_publish: str = setting(
        Choice("acknowledge", "disconnect"),
        "acknowledge",
        "What becomes of a message that a client of MQTT 3.1 or 3.1.1 may not publish: it is"
        " acknowledged and dropped, or the client is disconnected. Clients of MQTT 5.0 are told by"
        " the reason 0x87; at QoS 0, where there is no answer, it is dropped.",
    )
    publish_cache_size: int = setting(
        Integer(0, 1_000_000),
        256,
        "How many topics a connection remembers that it may publish to, so that rules are searched"
        " once for a topic and not for each message.",
    )
    tell_withdrawn: bool = setting(
        Boolean(),
        True,
        "Disconnect clients of MQTT 5.0 whose subscription is not allowed any more, with the reason"
        " 0x87, so that they know. Their session stays, without it.",
    )


def check_policy(access: AccessSettings, place: Place) -> None:
    """That a file with rules can be read; all lines that are wrong are named."""
    if not access.enabled or access.policy == REGISTRY or not place.report.reads_files:
        return
    from mhub.access.policy import PolicyError, load_csv

    try:
        load_csv(Path(access.policy))
    except OSError as error:
        place.wrong(f"cannot read {access.policy}: {error.strerror}")
    except PolicyError as error:
        for each in error.errors:
            place.wrong(str(each))
