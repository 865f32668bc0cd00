"""Expectations about a policy, for `mhub ctl policy test`: what has to be allowed, and what denied.

    # comment
    allow, user:alice, publish, devices/pump-1/state, client=pump-1, qos=1, retain=yes
    deny,  role:device, subscribe, #
    deny,  anonymous, connect, anything

A line is EFFECT, WHO, ACTION, TOPIC and any number of NAME=VALUE:

    WHO        user:NAME; role:NAME, a user called NAME who has this role; or anonymous
    ACTION     connect (the topic is the client id), publish, subscribe (the topic is a filter),
               receive, admin:read, admin:write (the topic is the resource)
    NAME       client (id), user, role (repeatable), tenant, cn (of a certificate), qos, retain
               (yes, no), or attribute.NAME

Names are written as in policies: what would end a field is %XX.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mhub.access.index import Index
from mhub.access.policy import PolicyError
from mhub.access.resources import check_resource
from mhub.access.rows import (
    ADMIN_ACTIONS,
    BITS_OF,
    CONNECT,
    PUBLISH,
    SUBSCRIBE,
    RowError,
    unquote,
)
from mhub.config.problems import nearest
from mhub.core.principal import Certificate, Principal
from mhub.wire.topics import filter_problem, split_share

FORM: Final = "allow or deny, WHO, ACTION, TOPIC, and NAME=VALUE as often as needed"
OPTIONS: Final = ("client", "user", "role", "tenant", "cn", "qos", "retain", "attribute.NAME")

Lookup = Callable[[str], Principal]
"""A user by its name, with its tenant and attributes."""


@dataclass(frozen=True)
class Question:
    """What somebody wants to do."""

    principal: Principal
    action: str
    topic: str
    qos: int = 0
    retain: bool = False


@dataclass(frozen=True)
class Expectation:
    place: str
    text: str  # the line
    allowed: bool
    question: Question


def stranger(user: str) -> Principal:
    """A user of whom no more is known."""
    principal = Principal("", "")
    principal.user = user
    return principal


def read_expectations(text: str, name: str, lookup: Lookup = stranger) -> list[Expectation]:
    """Raises PolicyError with all lines that are wrong."""
    found: list[Expectation] = []
    errors: list[RowError] = []
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if line and not line.startswith("#"):
            try:
                found.append(_read(line, f"{name}:{number}", lookup))
            except ValueError as error:
                text = error.text if isinstance(error, RowError) else str(error)
                errors.append(RowError(f"{name}:{number}", text))
    if errors:
        raise PolicyError(errors)
    return found


def _read(line: str, place: str, lookup: Lookup) -> Expectation:
    fields = [field.strip() for field in line.split(",")]
    if len(fields) < 4:
        raise ValueError(f"{len(fields)} fields, at least 4 are needed: {FORM}")
    effect, who, action, topic = fields[:4]
    if effect not in ("allow", "deny"):
        raise ValueError(f"{effect!r}: a line begins with allow or deny")
    options: dict[str, list[str]] = {}
    for field in fields[4:]:
        name, equals, value = field.partition("=")
        if not equals or not (name.startswith("attribute.") or name in OPTIONS):
            near = nearest(name, OPTIONS)
            hint = f"did you mean {near!r}?" if near else f"expected one of {', '.join(OPTIONS)}"
            raise ValueError(f"{field!r}: {hint}")
        options.setdefault(name, []).append(unquote(value))
    principal = _principal(who, options, lookup)
    qos = options.get("qos", ["0"])[-1]
    retain = options.get("retain", ["no"])[-1]
    if qos not in ("0", "1", "2"):
        raise ValueError(f"qos={qos}: expected 0, 1 or 2")
    if retain not in ("yes", "no"):
        raise ValueError(f"retain={retain}: expected yes or no")
    if action in ADMIN_ACTIONS:
        check_resource(topic)
    question = make_question(principal, action, unquote_topic(topic), int(qos), retain == "yes")
    return Expectation(place, line, effect == "allow", question)


def unquote_topic(topic: str) -> str:
    """A topic, in which %2C is a comma."""
    return topic.replace("%2C", ",").replace("%25", "%")


def _principal(who: str, options: dict[str, list[str]], lookup: Lookup) -> Principal:
    kind, _, name = who.partition(":")
    if who == "anonymous":
        if "user" in options:
            raise ValueError("anonymous: such a client has no user")
        principal = Principal("", "")
    elif kind in ("user", "role") and name:
        name = unquote(name)
        if kind == "user":
            principal = lookup(name)
        else:
            principal = stranger(name)
            principal.roles = (name,)
    else:
        raise ValueError(f"{who!r}: expected user:NAME, role:NAME or anonymous")
    principal.client_id = options.get("client", [principal.client_id])[-1]
    principal.user = options.get("user", [principal.user])[-1]
    principal.tenant = options.get("tenant", [principal.tenant])[-1]
    principal.roles += tuple(options.get("role", ()))
    attributes = dict(principal.attributes)
    for option, values in options.items():
        if option.startswith("attribute."):
            attributes[option.removeprefix("attribute.")] = values[-1]
    principal.attributes = attributes
    if "cn" in options:
        principal.certificate = Certificate(options["cn"][-1])
    return principal


def make_question(
    principal: Principal, action: str, topic: str, qos: int, retain: bool
) -> Question:
    """Raises ValueError for what nobody can do."""
    if action not in BITS_OF:
        near = nearest(action, BITS_OF)
        hint = f"did you mean {near!r}?" if near else f"expected one of {', '.join(BITS_OF)}"
        raise ValueError(f"{action!r} is no action; {hint}")
    if action == CONNECT:
        principal.client_id = topic or principal.client_id
        topic = principal.client_id
    elif action == SUBSCRIBE:
        _, topic = split_share(topic)
        if problem := filter_problem(topic):
            raise ValueError(f"{topic!r}: {problem}")
    elif not topic or "+" in topic or "#" in topic or "\0" in topic:
        raise ValueError(f"{topic!r}: to {action} needs a topic, without wildcards")
    return Question(principal, action, topic, qos, retain)


def is_allowed(index: Index, question: Question) -> bool:
    """The decision, as the live broker makes it."""
    principal, topic = question.principal, question.topic
    if question.action == CONNECT:
        return not index.connect(principal)
    if question.action == PUBLISH:
        return not index.publish(principal, topic, question.qos, question.retain)
    if question.action == SUBSCRIBE:
        return not index.subscribe(principal, topic, question.qos, "")
    if question.action in ADMIN_ACTIONS:
        return index.admin(principal, question.action, topic)
    return index.receive(principal, topic)
