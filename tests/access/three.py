"""Three evaluators of one policy: the naive one, PyCasbin's `enforce`, and the index."""

from mhub.access.casbin_model import RowsAdapter, enforce, make_enforcer
from mhub.access.index import Index
from mhub.access.policy import Policy
from mhub.access.rows import parse_row
from mhub.core.principal import Principal
from tests.access import naive

Fields = tuple[str, ...]
Question = tuple[str, str, int, bool]  # action, topic, QoS, retain


def policy_of(rows: list[Fields]) -> Policy:
    return Policy([parse_row(list(row), f"row {n}") for n, row in enumerate(rows, 1)])


def ask_index(index: Index, who: Principal, question: Question) -> bool:
    """By the methods that the broker calls."""
    action, topic, qos, retain = question
    if action == "connect":
        who.client_id = topic
        return index.connect(who) == 0
    if action == "publish":
        reason = index.publish(who, topic, qos, retain)
        assert reason == index.will(who, topic, qos, retain)
        return reason == 0
    if action.startswith("admin:"):
        return index.admin(who, action, topic)
    if action == "subscribe":  # a filter without wildcards is a topic
        return index.subscribe(who, topic, qos, "") == 0
    return index.receive(who, topic)


def differences(
    rows: list[Fields], clients: list[Principal], questions: list[Question]
) -> list[str]:
    """Questions to which the three do not give the same answer."""
    policy = policy_of(rows)
    index = policy.index()
    enforcer = make_enforcer(RowsAdapter(policy.rows.values()))
    found = []
    for who in clients:
        client_id = who.client_id
        for question in questions:
            action, topic, qos, retain = question
            who.client_id = topic if action == "connect" else client_id
            answers = {
                "naive": naive.decide(rows, who, action, topic, qos, retain),
                "casbin": enforce(enforcer, who, action, topic, qos, retain),
                "index": ask_index(index, who, question),
            }
            if len(set(answers.values())) > 1:
                found.append(f"{answers}: {question} of {vars_of(who)} with {rows}")
        who.client_id = client_id
    return found


def vars_of(who: Principal) -> str:
    certificate = who.certificate.common_name if who.certificate else None
    return (
        f"principal({who.user!r}, {who.client_id!r}, {list(who.roles)!r}, {who.tenant!r}, "
        f"{list(who.grants)!r}, {certificate!r}, {who.attributes.get('site')!r})"
    )
