"""The rules for topic names and topic filters.

Matching proper is done by the trees in `mhub.core`; here is what may be written at all.

What breaks a rule of MQTT is malformed (0x81), in whichever packet it stands.  0x8F and 0x90 are
for what is "correctly formed, but not accepted": here, what has too many levels.
"""

from typing import Final

from mhub.wire.errors import ProtocolFault
from mhub.wire.primitives import malformed
from mhub.wire.reasons import PROTOCOL_ERROR, TOPIC_FILTER_INVALID, TOPIC_NAME_INVALID

SHARE: Final = "$share/"
SYS: Final = "$SYS/"


def check_name(topic: str, max_levels: int) -> None:
    """A topic name has no wildcard and is not empty [MQTT-3.3.2-2, MQTT-4.7.0-1, MQTT-4.7.3-1]."""
    if not topic:  # the only name that section 3.3.2.1 calls a Protocol Error
        raise ProtocolFault(PROTOCOL_ERROR, "the topic name is empty")
    if has_wildcard(topic):
        raise malformed("the topic name contains a wildcard")
    if topic.count("/") >= max_levels:
        raise ProtocolFault(TOPIC_NAME_INVALID, f"the topic has more than {max_levels} levels")


def check_name_form(topic: str, what: str) -> None:
    """The same for names that stand elsewhere than in a PUBLISH, whatever their levels."""
    if not topic:
        raise malformed(f"the {what} is empty")
    if has_wildcard(topic):
        raise malformed(f"the {what} contains a wildcard")


def reserved(topic: str) -> bool:
    """Whether a topic is the broker's own: clients may not publish there."""
    return topic.startswith(SYS) or topic == SYS[:-1]


def has_wildcard(topic_filter: str) -> bool:
    return "+" in topic_filter or "#" in topic_filter


def filter_problem(topic_filter: str) -> str:
    """What is wrong with a filter, "" if nothing is [MQTT-4.7.1-1, MQTT-4.7.1-2, MQTT-4.7.3-1]."""
    if not topic_filter:
        return "the topic filter is empty"
    if has_wildcard(topic_filter):
        levels = topic_filter.split("/")
        last = len(levels) - 1
        for index, level in enumerate(levels):
            if "#" in level and (level != "#" or index != last):
                return "'#' must stand alone in the last level of a filter"
            if "+" in level and level != "+":
                return "'+' must fill a whole level of a filter"
    return ""


def check_filter_form(topic_filter: str) -> None:
    """A filter, shared or not, whatever its levels."""
    _, topic_filter = split_share(topic_filter)
    problem = filter_problem(topic_filter)
    if problem:
        raise malformed(problem)


def check_filter(topic_filter: str, max_levels: int) -> None:
    """A filter without its group."""
    # First: with very many levels the other check would be long.
    if topic_filter.count("/") >= max_levels:
        raise ProtocolFault(
            TOPIC_FILTER_INVALID, f"the topic filter has more than {max_levels} levels"
        )
    problem = filter_problem(topic_filter)
    if problem:
        raise malformed(problem)


def split_share(topic_filter: str) -> tuple[str, str]:
    """(group, filter) of a shared filter, ("", filter) of any other [MQTT-4.8.2-1, -2]."""
    if not topic_filter.startswith(SHARE):
        return "", topic_filter
    group, slash, rest = topic_filter[len(SHARE) :].partition("/")
    if not group or not slash or not rest or has_wildcard(group):
        raise malformed("a shared subscription has the form $share/NAME/FILTER")
    return group, rest


def matches(topic_filter: str, topic: str) -> bool:
    """Whether a valid filter matches a topic: the plain statement of what the trees do faster."""
    if topic.startswith("$") and topic_filter[0] in "+#":  # [MQTT-4.7.2-1]
        return False
    levels = topic.split("/")
    wanted = topic_filter.split("/")
    for index, level in enumerate(wanted):
        if level == "#":
            return True
        if index >= len(levels) or (level != "+" and level != levels[index]):
            return False
    return len(wanted) == len(levels)
