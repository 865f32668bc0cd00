"""Rules that would allow what somebody was denied: the smallest ones that make sense.

    for the user itself             the topic as it is
    for each role that it has       the topic with %u and %c where a level is its user or client id,
                                    so that the rule is for all who are like it
    for clients without a user      the same, for role:anonymous

If a rule denies it, no other rule can allow it: then it is proposed to remove that one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mhub.access import rows
from mhub.access.explain import Explanation
from mhub.access.rows import ALL_TENANTS, BUILT_IN, quote, user_subject
from mhub.core.principal import Principal

MOST_ROLES: Final = 4

ACTIONS: Final = {
    "will": "publish",
    "subscribe": "subscribe|receive",  # who may not receive has nothing of a subscription
}

_ESCAPES: Final = {char: f"%{ord(char):02X}" for char in '()[],"'} | {"%": "%%"}


@dataclass(frozen=True)
class Candidate:
    summary: str
    add: tuple[tuple[str, ...], ...] = ()
    remove: tuple[str, ...] = ()


def candidates(
    principal: Principal, subjects: Iterable[str], found: Explanation
) -> list[Candidate]:
    """`subjects`: all that the client is, as rules call it; `found`: why it was denied."""
    denying = [rule for rule in found.deciding if rule.effect == "deny"]
    if denying:
        ids = tuple(rule.id for rule in denying)
        return [Candidate(f"remove what denies it: {'; '.join(r.text for r in denying)}", (), ids)]
    action = ACTIONS.get(found.action, found.action)
    plain = pattern_of(found.topic)
    general = plain if action in rows.ADMIN_ACTIONS else general_pattern(found.topic, principal)
    tenant = quote(principal.tenant) or ALL_TENANTS
    wanted: list[tuple[str, str]] = []
    if principal.user:
        wanted.append((user_subject(principal.user), plain))
    roles = [each for each in subjects if each.startswith("role:") and each not in BUILT_IN]
    wanted += [(role, general) for role in roles[:MOST_ROLES]]
    if not principal.user:
        wanted.append((rows.ANONYMOUS, general))
    return [
        Candidate(
            f"{subject} may {action.replace('|', ' and ')} {pattern}",
            (("p", subject, tenant, action, pattern, "any", "allow"),),
        )
        for subject, pattern in wanted
    ]


def general_pattern(topic: str, principal: Principal) -> str:
    """With placeholders for what is the client's own."""
    own = {
        value: placeholder
        for value, placeholder in ((principal.client_id, "%c"), (principal.user, "%u"))
        if value and not set(value) & set("+#/\0$")
    }
    return "/".join(own.get(level, pattern_of(level)) for level in topic.split("/"))


def pattern_of(topic: str) -> str:
    """A topic or a filter as a rule writes it."""
    text = "".join(_ESCAPES.get(char, char) for char in topic)
    inner = text.strip(" ")
    start = len(text) - len(text.lstrip(" "))
    return "%20" * start + inner + "%20" * (len(text) - len(inner) - start)
