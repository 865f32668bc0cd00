"""A policy in PyCasbin's own Enforcer: the truth about a decision, at PyCasbin's pace.

`policies/model.conf` says how rows decide; here are the functions that it names, written for one
row at a time and sharing no code with the index but the reading of patterns.  The tests compare all
three. `mhub ctl policy check` and whoever wants a second opinion can ask it; the broker never does,
for enforce() takes milliseconds and grows with the rows.

How PyCasbin 2.8 behaves, and what is done about it
    tenants       in `g` a domain is compared as text, so `*` would mean a tenant called *: the
                  domain matching function makes it all tenants
    long chains   are cut behind 9 links (its limit of 10 counts the subject): refused by Policy
    no rows       the matcher is asked about a row of empty fields: has() never holds for ""
    `eft`         other than allow and deny makes a row vanish: refused by parse_row()
    wrong length  of a row makes each enforce() raise (p), or what is too much is lost (g): refused
    its CSV       see mhub.access.policy
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import casbin  # type: ignore[import-untyped]
from casbin.persist import Adapter  # type: ignore[import-untyped]

from mhub.access import rows
from mhub.access.policy import POLICIES, Policy, load_csv, write_csv
from mhub.access.rows import Row, parse_grant, parse_pattern
from mhub.access.trie import filled
from mhub.core.principal import Principal
from mhub.wire.topics import matches

MODEL = POLICIES / "model.conf"


class RowsAdapter(Adapter):  # type: ignore[misc]  # casbin has no types
    """Rows from wherever they are, as the registry, straight into a model."""

    def __init__(self, found: Iterable[Row]) -> None:
        self.rows = list(found)

    def load_policy(self, model: Any) -> None:
        for row in self.rows:
            # Not model.add_policy(), which looks for the row among all others first.
            model.model[row.kind][row.kind].policy.append(list(row.fields[1:]))

    def save_policy(self, model: Any) -> None:
        raise NotImplementedError("rows are changed where they are kept")


class CsvAdapter(RowsAdapter):
    """A CSV file, with all checks: PyCasbin's own file adapter has none."""

    def __init__(self, path: Path) -> None:
        super().__init__(load_csv(path).rows.values())
        self.path = path

    def save_policy(self, model: Any) -> None:
        found = [
            rows.parse_row([kind, *fields], str(self.path))
            for kind in ("p", "g")
            for fields in model.model[kind][kind].policy
        ]
        self.path.write_text(write_csv(Policy(found).rows.values()), "utf-8")


def make_enforcer(adapter: Adapter, model: Path = MODEL) -> "casbin.Enforcer":
    """An Enforcer with mhub's functions.  Ask it with request()."""
    enforcer = casbin.Enforcer(str(model))
    enforcer.enable_auto_save(False)
    links = enforcer.get_role_manager()
    links.add_domain_matching_func(lambda wanted, given: given == wanted or given == "*")
    enforcer.set_adapter(adapter)
    enforcer.load_policy()

    def has(who: Principal, subject: str, tenant: str) -> bool:
        return any(links.has_link(own, subject, tenant) for own in subjects_of(who))

    for function in (has, does, topic_matches, meets):
        enforcer.add_function(function.__name__.removeprefix("topic_"), function)
    return enforcer


def enforce(
    enforcer: "casbin.Enforcer",
    who: Principal,
    action: str,
    topic: str,
    qos: int = 0,
    retain: bool = False,
) -> bool:
    """Casbin's decision, with the rules that are for this client alone."""
    policy = enforcer.model.model["p"]["p"].policy
    own = [list(parse_grant(line).fields[1:]) for line in who.grants]
    policy.extend(own)
    try:
        tenant = rows.quote(who.tenant)
        return bool(enforcer.enforce(who, tenant, action, topic, qos, retain))
    finally:
        del policy[len(policy) - len(own) :]


# The functions of the matcher


def subjects_of(who: Principal) -> list[str]:
    given = [rows.role_subject(role) for role in who.roles]
    return [
        rows.SELF,
        rows.EVERYONE,
        rows.AUTHENTICATED if who.user else rows.ANONYMOUS,
        *([rows.user_subject(who.user)] if who.user else []),
        *(role for role in given if role not in rows.BUILT_IN),
    ]


def does(action: str, actions: str) -> bool:
    if actions == "*":
        return action in rows.MQTT_ACTIONS
    return action in actions.split("|")


def topic_matches(topic: str, pattern: str, who: Principal) -> bool:
    levels: list[str] = []
    for index, level in enumerate(parse_pattern(pattern)):
        if level.kind == rows.HOLE:
            text = filled(level, who, index == 0)
            if text is None:
                return False
            levels.append(text)
        else:
            levels.append(level.text)
    return matches("/".join(levels), topic)


def meets(condition: str, qos: int, retain: bool) -> bool:
    if condition == "any":
        return True
    flags = {"retain=yes": retain, "retain=no": not retain}
    for term in condition.split("&"):
        if term in flags:
            held = flags[term]
        elif term.startswith("qos<="):
            held = qos <= int(term[5:])
        else:
            held = qos == int(term.removeprefix("qos="))
        if not held:
            return False
    return True
