"""What PyCasbin says about a policy that the index decides: for `mhub ctl policy check`.

Each row is asked about by who it is for and, where that is a role, by somebody who has it, on a
topic that its pattern matches and on one beside it, at each QoS and with and without retain.  As an
answer of PyCasbin takes as long as there are rows, the number of questions is bounded by time; rows
are then taken from all over the policy.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mhub.access import rows
from mhub.access.casbin_model import RowsAdapter, enforce, make_enforcer
from mhub.access.expectations import Question, is_allowed, make_question, stranger
from mhub.access.policy import Policy
from mhub.access.rows import Row, unquote
from mhub.core.principal import Certificate, Principal

PATIENCE_S = 10.0
SHOWN = 10


@dataclass(frozen=True)
class Opinion:
    compared: int
    differences: list[str]


def compare(
    policy: Policy, clock: Callable[[], float] = time.monotonic, patience_s: float = PATIENCE_S
) -> Opinion:
    index = policy.index()
    enforcer = make_enforcer(RowsAdapter(policy.rows.values()))
    until = clock() + patience_s
    compared = 0
    differences: list[str] = []
    for row in _spread([row for row in policy.rows.values() if row.kind == "p"]):
        for question in questions_about(row):
            ours = is_allowed(index, question)
            theirs = enforce(
                enforcer,
                question.principal,
                question.action,
                question.topic,
                question.qos,
                question.retain,
            )
            compared += 1
            if ours != theirs:
                differences.append(f"{row.place}: {_describe(question)}: {_word(ours)} here")
                if len(differences) == SHOWN:
                    return Opinion(compared, differences)
        if clock() >= until:
            break
    return Opinion(compared, differences)


def _spread(found: list[Row]) -> Iterator[Row]:
    """All rows, the first ones from all over the policy."""
    step = max(1, int(len(found) ** 0.5))
    for start in range(step):
        yield from found[start::step]


def questions_about(row: Row) -> Iterator[Question]:
    """Each decision that the row may be a part of; without `subscribe`, where PyCasbin would have
    to be asked about every topic of a filter.
    """
    for topic in _topics(row):
        for action in (rows.PUBLISH, rows.RECEIVE, rows.CONNECT, *rows.ADMIN_ACTIONS):
            for qos, retain in (
                [(qos, retain) for qos in range(3) for retain in (False, True)]
                if action == rows.PUBLISH
                else [(0, False)]
            ):
                yield make_question(_holder(row), action, topic, qos, retain)


def _holder(row: Row) -> Principal:
    """Somebody whom the row is about."""
    name = unquote(row.subject[5:])
    if row.subject.startswith("user:"):
        principal = stranger(name)
    elif row.subject == rows.ANONYMOUS:
        principal = stranger("")
    else:
        principal = stranger("somebody")
        principal.roles = (name,)
    principal.client_id = "client-1"
    principal.tenant = "" if row.tenant == rows.ALL_TENANTS else unquote(row.tenant)
    principal.certificate = Certificate("common-name")
    principal.attributes = {
        part.text: "value"
        for level in row.levels
        for part in level.parts
        if part.kind == rows.ATTRIBUTE
    }
    return principal


def _topics(row: Row) -> list[str]:
    """One that the pattern matches, one that is longer, and one that is another."""
    holder = _holder(row)
    known = {
        rows.USER: holder.user,
        rows.CLIENT: holder.client_id,
        rows.TENANT: holder.tenant or "tenant",
        rows.COMMON_NAME: "common-name",
        rows.ATTRIBUTE: "value",
    }
    levels = []
    for level in row.levels:
        if level.kind == rows.HOLE:
            levels.append(
                "".join(
                    part.text if part.kind == rows.TEXT else known[part.kind]
                    for part in level.parts
                )
            )
        else:
            levels.append("any" if level.kind in (rows.PLUS, rows.REST) else level.text)
    topic = "/".join(levels)
    return [each for each in (topic, f"{topic}/more", f"other/{topic}") if each]


def _describe(question: Question) -> str:
    who = question.principal
    name = f"user:{who.user}" if who.user else "anonymous"
    roles = "".join(f" with role:{role}" for role in who.roles)
    more = f", QoS {question.qos}{', retained' if question.retain else ''}"
    return f"{name}{roles}, {question.action} {question.topic}{more}"


def _word(allowed: bool) -> str:
    return "allowed" if allowed else "denied"
