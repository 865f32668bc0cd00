"""Why a client may do something, or may not.

The decision itself is the index's own (`View.decide`), so that what is explained is what the broker
does; the tests hold the two equal.  Around it is told what it rests on:

    deciding   all rules that decide: those that deny; if there are none, those that allow
    overruled  rules that allow, beside one that denies
    example    of a subscription: a topic inside of the filter for which the answer is no
               (strict), or yes (if any topic is enough)
    nearest    of a default deny: the rules that come closest to allowing it, and what about each
               does not hold, in the order in which the model asks: subject, tenant, action, topic,
               condition

Nothing here runs per message; it looks at each row.
"""

from collections.abc import Generator
from dataclasses import asdict, dataclass
from typing import Any, Final

from mhub.access import rows
from mhub.access.containment import readable
from mhub.access.diff import at_once
from mhub.access.index import Index, Reach
from mhub.access.rows import Level, Row
from mhub.access.trie import filled, value_of
from mhub.core.principal import Principal
from mhub.wire.topics import SHARE, filter_problem, has_wildcard, reserved, split_share

MOST_NEAREST: Final = 3

PORTION: Final = 20
"""Rules that are compared between two pauses."""

ACTIONS: Final = ("connect", "publish", "will", "subscribe", "receive", *rows.ADMIN_ACTIONS)


@dataclass(frozen=True)
class Step:
    """A subject on the way from the client to a rule, and the row that gives it the role."""

    subject: str
    row: str = ""  # its id; "": the client has it by itself
    place: str = ""


@dataclass(frozen=True)
class Rule:
    """A rule that counts for the client, as it is for this client."""

    id: str
    place: str
    text: str
    effect: str
    path: tuple[Step, ...]
    values: dict[str, str]  # of the placeholders


@dataclass(frozen=True)
class NearRule:
    """A rule that would have allowed it, but for what failed."""

    id: str
    place: str
    text: str
    failed: str  # subject, tenant, action, topic or condition
    why: str


@dataclass(frozen=True)
class Explanation:
    allowed: bool
    reason: str  # a sentence
    user: str
    client_id: str
    tenant: str
    action: str
    topic: str
    qos: int
    retain: bool
    revision: str  # of the policy
    deciding: tuple[Rule, ...] = ()
    overruled: tuple[Rule, ...] = ()
    example: str = ""
    nearest: tuple[NearRule, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def explain(
    index: Index,
    principal: Principal,
    action: str,
    topic: str = "",
    qos: int = 0,
    retain: bool = False,
) -> Explanation:
    """`topic`: of subscribe a filter; of connect nothing, it is about the client id; of admin
    actions the resource.

    ValueError for what could not be asked by a client.
    """
    return at_once(explaining(index, principal, action, topic, qos, retain))


def explaining(
    index: Index,
    principal: Principal,
    action: str,
    topic: str = "",
    qos: int = 0,
    retain: bool = False,
) -> Generator[None, None, Explanation]:
    """The same for those who have to pause: a policy may have very many rules."""
    topic = _checked(principal, action, topic, qos)
    view = index.view(principal)
    bit = rows.bit_of(action, qos, retain)
    is_filter = action == rows.SUBSCRIBE
    decision = view.decide(is_filter, bit, topic.split("/"), index.strict)
    allowed = decision.allowed and not _is_reserved(action, topic)
    denying = [_rule(row, principal, view.reach) for row in decision.denying]
    allowing = [_rule(row, principal, view.reach) for row in decision.allowing]
    example = ""
    if is_filter and decision.topic and (has_wildcard(topic) or not index.strict):
        example = readable(decision.topic, view.names())
    nearest: tuple[NearRule, ...] = ()
    if not allowed and not denying and not decision.problem:
        wanted = example if example and index.strict else topic
        is_filter = is_filter and not index.strict
        nearest = yield from _nearest(index, principal, view.reach, action, wanted, bit, is_filter)
    if allowed:
        deciding, overruled = allowing, denying if is_filter else []
    else:
        deciding, overruled = denying, allowing if denying else []
    return Explanation(
        allowed,
        _reason(index, action, topic, allowed, decision.problem, bool(denying), example),
        principal.user,
        principal.client_id,
        principal.tenant,
        action,
        topic,
        qos,
        retain,
        index.revision,
        tuple(deciding),
        tuple(overruled),
        example,
        nearest,
    )


def _checked(principal: Principal, action: str, topic: str, qos: int) -> str:
    if action not in ACTIONS:
        raise ValueError(f"{action!r}: an action is one of {', '.join(ACTIONS)}")
    if qos not in (0, 1, 2):
        raise ValueError(f"QoS {qos}: there are 0, 1 and 2")
    if action == rows.CONNECT:
        return principal.client_id
    if action == rows.SUBSCRIBE:
        if topic.startswith(SHARE):
            topic = split_share(topic)[1]  # groups decide nothing
        problem = filter_problem(topic)
        if problem:
            raise ValueError(f"{topic!r}: {problem}")
    elif not topic or has_wildcard(topic):
        raise ValueError(f"{topic!r}: a topic is not empty and has no wildcards")
    if "\0" in topic:
        raise ValueError("no topic has a NUL")
    return topic


def _is_reserved(action: str, topic: str) -> bool:
    return action in (rows.PUBLISH, "will") and reserved(topic)


def _reason(
    index: Index, action: str, topic: str, allowed: bool, problem: str, denied: bool, example: str
) -> str:
    if problem:
        return f"the client has no rights, as a rule of its own cannot be read: {problem}"
    if _is_reserved(action, topic):
        return "topics below $SYS are the broker's own: nobody may publish there"
    if allowed:
        if example:
            return f"a rule allows topics of the filter, as {example}; `receive` decides about each"
        return "a rule allows it, and none denies it"
    if action == rows.SUBSCRIBE and example and index.strict:
        by = "a rule denies" if denied else "no rule allows"
        return f"the filter matches {example}, which {by}"
    return "a rule denies it" if denied else "no rule allows it"


def _rule(row: Row, principal: Principal, reach: Reach) -> Rule:
    values = {
        _written(part.kind, part.text): value_of(part.kind, part.text, principal)
        for level in row.levels
        for part in level.parts
        if part.kind != rows.TEXT
    }
    effect = "allow" if row.allows else "deny"
    return Rule(row.id, row.place, row.text(), effect, _path(row.subject, reach), values)


def _written(kind: int, text: str) -> str:
    return f"%{{{text}}}" if kind in (rows.COMMON_NAME, rows.ATTRIBUTE) else text


def _path(subject: str, reach: Reach) -> tuple[Step, ...]:
    """From what the client is by itself to a subject."""
    steps: list[Step] = []
    while True:
        given = reach.subjects.get(subject)
        if given is None:
            steps.append(Step(subject))
            return tuple(reversed(steps))
        steps.append(Step(subject, given.id, given.place))
        subject = given.subject


# Nearest rules


def _nearest(
    index: Index,
    principal: Principal,
    reach: Reach,
    action: str,
    topic: str,
    bit: int,
    is_filter: bool,
) -> Generator[None, None, tuple[NearRule, ...]]:
    """The rules that allow with the most that holds; of those alike, in the order of the rows."""
    found: list[tuple[float, int, NearRule]] = []
    grants = index.grants_of(principal)
    own = grants.rows if grants is not None else []
    for number, row in enumerate([*own, *index.rows.values()]):
        if number % PORTION == 0:
            yield
        if row.kind != "p" or not row.allows:
            continue
        failed, why, score = _compare(row, principal, reach, action, topic, bit, is_filter)
        if failed:
            near = NearRule(row.id, row.place, row.text(), failed, why)
            found.append((-score, number, near))
    found.sort(key=lambda one: (one[0], one[1]))
    # A rule of which nearly nothing holds is no help.
    return tuple([near for score, _, near in found[:MOST_NEAREST] if score <= -2.5])


def _compare(
    row: Row,
    principal: Principal,
    reach: Reach,
    action: str,
    topic: str,
    bit: int,
    is_filter: bool,
) -> tuple[str, str, float]:
    """The first field of a rule that does not hold, why, and how much of it holds."""
    failures: list[tuple[str, str]] = []
    score = 5.0
    if row.subject != rows.SELF and row.subject not in reach.subjects:
        failures.append(("subject", f"the client is not {row.subject} and does not have that role"))
    if row.tenant != rows.ALL_TENANTS and row.tenant != rows.quote(principal.tenant):
        tenant = repr(principal.tenant) if principal.tenant else "none"
        failures.append(("tenant", f"the rule is for {row.tenant!r}, the client's is {tenant}"))
    actions = row.fields[3]
    asked = rows.PUBLISH if action == "will" else action
    if not row.mask & rows.BITS_OF[asked]:
        failures.append(("action", f"the rule is for {actions}"))
    matched, why = _compare_topic(row.levels, principal, topic, is_filter)
    if why:
        failures.append(("topic", why))
        score += matched
    if row.mask & rows.BITS_OF[asked] and not row.mask & bit:
        failures.append(("condition", f"{row.fields[5]} is not met"))
        score += 0.5
    if not failures:
        return "", "", score
    return failures[0][0], failures[0][1], score - len(failures)


def _compare_topic(
    levels: list[Level], principal: Principal, topic: str, is_filter: bool
) -> tuple[float, str]:
    """How much of a topic a pattern matches, below 1, and where it ends; "" if it matches."""
    names = topic.split("/")
    share = 1.0 / (len(names) + 1)
    if names[0].startswith("$") and levels[0].kind in (rows.PLUS, rows.REST):
        return 0.0, "a leading wildcard does not match topics that begin with $"
    for index, level in enumerate(levels):
        if level.kind == rows.REST:
            return 1.0, ""
        if index == len(names):
            return index * share, f"the topic ends before level {index + 1}, {level.text!r}"
        name = names[index]
        if is_filter and name == "#":
            return 1.0, ""
        wanted: str | None = level.text
        if level.kind == rows.HOLE:
            wanted = filled(level, principal, index == 0)
            if wanted is None:
                return index * share, f"{level.text} {_unfillable(level, principal)}"
        if level.kind == rows.PLUS or name == wanted or (is_filter and name == "+"):
            continue
        return index * share, f"level {index + 1} is {name!r}, the rule has {wanted!r}"
    if len(names) > len(levels) and not (is_filter and names[len(levels) :] == ["#"]):
        return len(levels) * share, f"the topic goes on behind level {len(levels)}"
    return 1.0, ""


def _unfillable(level: Level, principal: Principal) -> str:
    for part in level.parts:
        if part.kind == rows.TEXT:
            continue
        value = value_of(part.kind, part.text, principal)
        name = _written(part.kind, part.text)
        if not value:
            return f"matches nothing: the client has no value for {name}"
        if has_wildcard(value) or "/" in value or "\0" in value:
            return (
                f"matches nothing: {name} is {value!r}, and a value with + # / or NUL never counts"
            )
    return "matches nothing: a value that begins with $ does not count at the start of a topic"


# Text


def lines(found: Explanation) -> list[str]:
    """For a terminal."""
    said = [f"{'allowed' if found.allowed else 'denied'}: {found.reason}"]
    for title, rules in (("by", found.deciding), ("overruled", found.overruled)):
        for rule in rules:
            said.append(f"  {title} {rule.id}  {rule.text}  ({rule.place})")
            said.append("     for " + " -> ".join(step.subject for step in rule.path))
            for name, value in rule.values.items():
                said.append(f"     {name} is {value!r}")
    for near in found.nearest:
        said.append(f"  near {near.id}  {near.text}  ({near.place})")
        said.append(f"     but the {near.failed} does not match: {near.why}")
    if found.revision:
        said.append(f"  revision {found.revision}")
    return said
