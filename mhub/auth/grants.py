"""Grants: rules for one client alone, which an authenticator gives it, as lines of a policy.

    publish, devices/%u/#, any, allow

An access list of another program becomes grants here.  Its lines are topics: what has a meaning in
our policy and none there is escaped, so that a topic with a percent sign or a comma in it stays
that topic.
"""

from typing import Final

from mhub.wire.topics import filter_problem

_ESCAPES: Final = str.maketrans({sign: f"%{ord(sign):02X}" for sign in '()[],"'})

MAX_GRANTS: Final = 1000
"""Of one client.  They are kept with its session."""


def grant(action: str, topic: str, placeholders: bool = True) -> str:
    """The line that allows it; "" for a topic that is not one, which nothing ever matches."""
    if filter_problem(topic):
        return ""
    return f"{action}, {escaped(topic, placeholders)}, any, allow"


def escaped(topic: str, placeholders: bool = True) -> str:
    """A topic as a policy writes it; `placeholders`: %u and %c in it are user and client id."""
    text = topic.replace("%", "%%")
    if placeholders:
        text = text.replace("%%u", "%u").replace("%%c", "%c")
    text = text.translate(_ESCAPES)
    inner = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    after = len(text) - before - len(inner)
    return "%20" * before + inner + "%20" * after
