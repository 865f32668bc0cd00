"""The specification of a decision, as plainly as it can be written: rows are read one by one.

It shares no code with the index or with the functions given to PyCasbin.
"""

import re

from mhub.core.principal import Principal
from mhub.wire.topics import matches

Fields = tuple[str, ...]
ESCAPES = {"%%": "%", "%20": " ", "%22": '"', "%28": "(", "%29": ")", "%2C": ",", "%5B": "["}
ESCAPES["%5D"] = "]"
ALL_ACTIONS = ("connect", "publish", "subscribe", "receive")


def decide(
    rows: list[Fields], who: Principal, action: str, topic: str, qos: int, retain: bool
) -> bool:
    """Allowed if some rule that matches allows, and none denies."""
    own = [("p", "self", "*", *re.split(", *", line)) for line in who.grants]
    subjects = {"self", "role:everyone", "role:authenticated" if who.user else "role:anonymous"}
    subjects |= {f"user:{who.user}"} if who.user else set()
    subjects |= {
        f"role:{r}" for r in who.roles if r not in ("everyone", "authenticated", "anonymous")
    }
    links = [row for row in rows if row[0] == "g" and row[3] in ("*", who.tenant)]
    while more := {row[2] for row in links if row[1] in subjects} - subjects:
        subjects |= more
    effects = {
        effect
        for kind, subject, tenant, actions, pattern, condition, effect in [
            *(row for row in rows if row[0] == "p"),
            *own,
        ]
        if subject in subjects
        and tenant in ("*", who.tenant)
        and action in (ALL_ACTIONS if actions == "*" else actions.split("|"))
        and all(holds(term, qos, retain) for term in condition.split("&"))
        and (text := fill(pattern, who)) is not None
        and matches(text, topic)
    }
    return effects == {"allow"}


def holds(term: str, qos: int, retain: bool) -> bool:
    flags = {"any": True, "retain=yes": retain, "retain=no": not retain, f"qos={qos}": True}
    return flags.get(term, term.startswith("qos<=") and qos <= int(term[5:]))


def fill(pattern: str, who: Principal) -> str | None:
    """The pattern with the client's facts in it; None if it matches nothing."""
    values = {
        "u": who.user,
        "c": who.client_id,
        "t": who.tenant,
        **{f"{{{name}}}": value for name, value in who.attributes.items()},
    }
    values["{cn}"] = who.certificate.common_name if who.certificate else ""
    text = ""
    for piece in re.split(r"(%(?:%|20|22|28|29|2C|5B|5D|u|c|t|\{[^}]*\}))", pattern):
        if piece in ESCAPES or not piece.startswith("%"):
            text += ESCAPES.get(piece, piece)
            continue
        value = values.get(piece[1:], "")
        if not value or set(value) & set("+#/\0") or (text == "" and value.startswith("$")):
            return None
        text += value
    return text
