"""`mhub ctl policy list|add|remove|import|import-mosquitto|export|test|check|diff|dry-run`.

Rules are read and changed where they are, in the registry; test, check and diff work on files and
on what the registry has, in this process, so that a broker is not kept from its messages.
"""

import sys
from argparse import Namespace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from mhub.ctl import dry_run
from mhub.ctl.access_command import AccessCommands, note_unknown
from mhub.ctl.access_view import folded, row_text
from mhub.ctl.command import FAILED, OK, rows, show, width
from mhub.ctl.registry_calls import RegistryCalls
from mhub.ctl.table import safe

ROW_HELP: Final = (
    "A rule is given as a whole line of a policy, or as SUBJECT ACTION TOPIC: SUBJECT is user:NAME"
    " or role:NAME; ACTION is connect, publish, subscribe or receive, several joined by |, or *;"
    " TOPIC is an MQTT filter, in which %u is the user, %c the client id, %t the tenant and"
    " %{NAME} an attribute. With the actions admin:read and admin:write, TOPIC is what may be seen"
    " or changed over HTTP, as clients, or # for everything. SUBJECT has role:NAME gives it a role."
)
SHORT: Final = {
    "connect": "conn",
    "publish": "pub",
    "subscribe": "sub",
    "receive": "recv",
    "admin:read": "read",
    "admin:write": "write",
}
WIDE: Final = 110
"""Columns of a terminal that has room for notes."""

USERS_AT_ONCE: Final = 5_000


def main(argv: list[str]) -> int:
    """Run one of the commands; the result is the exit status."""
    commands = AccessCommands(
        "policy",
        "The rules that say what clients may do. All rules that match count, deny is stronger than"
        " allow, and what no rule allows is denied.",
    )
    found = commands.add(
        "list",
        "list the rules of the registry",
        _list,
        "Actions are cut: conn, pub, sub, recv, and read, write for admin:read and admin:write."
        " --json has them in full, and the notes.",
    )
    found.add_argument(
        "--subject", default="", metavar="SUBJECT", help="only those about user:NAME or role:NAME"
    )
    found.add_argument(
        "--topic", default="", metavar="GLOB", help="only those whose topic is written like this"
    )
    found.add_argument(
        "--all", action="store_true", help="also what users and roles have by their own entries"
    )

    add = commands.add("add", "add a rule", _add, ROW_HELP, changes=True)
    add.add_argument(
        "row", metavar="ROW", nargs="+", help="a line of a policy, or SUBJECT ACTION TOPIC"
    )
    add.add_argument("--deny", action="store_true", help="deny instead of allow")
    add.add_argument(
        "--tenant", default="*", metavar="NAME", help="for clients of this tenant only"
    )
    add.add_argument(
        "--condition",
        default="any",
        metavar="TERMS",
        help="qos=N, qos<=N, retain=yes, retain=no; several joined by &",
    )
    add.add_argument("--note", default="", metavar="TEXT", help="for people")

    remove = commands.add("remove", "remove rules by their ids", _remove, changes=True)
    remove.add_argument("id", metavar="ID", nargs="+", help="as in `mhub ctl policy list`")

    bring = commands.add(
        "import", "add the rules of a CSV file, all of them or none", _import, changes=True
    )
    bring.add_argument("file", metavar="FILE", help="the file; - is stdin")
    bring.add_argument(
        "--replace", action="store_true", help="remove all rules that are not in the file"
    )
    bring.add_argument("--note", default="", metavar="TEXT", help="for people, of each new rule")

    mosquitto = commands.add(
        "import-mosquitto",
        "add what Mosquitto's acl_file says, all of it or nothing",
        _import_mosquitto,
        "The rules decide as Mosquitto does; docs/mosquitto.md says where not. A line that cannot"
        " be said in rules is refused, and named.",
        changes=True,
    )
    mosquitto.add_argument("file", metavar="ACL_FILE", help="the acl_file")
    mosquitto.add_argument(
        "--passwords",
        default="",
        metavar="FILE",
        help="the password_file: its users are added, with the hashes that they have; those who are"
        " there already stay as they are",
    )
    mosquitto.add_argument(
        "--output", default="", metavar="FILE", help="write a CSV file, and change nothing else"
    )
    mosquitto.add_argument("--replace", action="store_true", help="remove all other rules")
    mosquitto.add_argument("--note", default="", metavar="TEXT", help="for people, of each rule")

    export = commands.add(
        "export",
        "write all rules as a CSV file, with the roles of users and roles, as a policy of its own",
        _export,
    )
    export.add_argument("--output", default="", metavar="FILE", help="write there, not to stdout")

    test = commands.add(
        "test",
        "compare a policy with a file of expectations; the exit status is 1 if one is not met",
        _test,
        "A line is: allow or deny, user:NAME or role:NAME or anonymous, ACTION, TOPIC, and any of"
        " client=ID, tenant=NAME, role=NAME, cn=NAME, attribute.NAME=VALUE, qos=N, retain=yes.",
    )
    test.add_argument("file", metavar="FILE", help="the expectations")
    test.add_argument(
        "--policy",
        default="registry",
        metavar="WHICH",
        help="a CSV file, or `registry` (the default)",
    )

    check = commands.add(
        "check",
        "check a policy, and compare the decisions of mhub with those of PyCasbin",
        _check,
        "Every mistake is listed with its line. The exit status is 1 if there is one.",
    )
    check.add_argument(
        "file", metavar="FILE", nargs="?", default="registry", help="a CSV file, or `registry`"
    )
    diff = commands.add(
        "diff",
        "list exactly what becomes allowed or denied to whom from one policy to another",
        _diff,
        "The exit status is 1 if anything does.",
    )
    for name in ("old", "new"):
        diff.add_argument(name, metavar=name.upper(), help="a CSV file, or `registry`")
    dry_run.add_to(commands)
    return commands.run(argv)


# The registry


def _list(calls: RegistryCalls, args: Namespace) -> None:
    page = calls.all(
        "rules", "rules", "place", subject=args.subject, topic=args.topic, all_rows=args.all
    )

    def text() -> list[str]:
        found = [_table_row(rule) for rule in sorted(page["rules"], key=_by_subject)]
        if width() < WIDE:
            for row in found:
                del row["note"]
        fits = bool(args.subject or args.topic)
        return rows(
            found,
            ("subject", "topic", "condition", "note", "from"),
            "no rule matches" if fits else "no rules",
        )

    show(args, page, text)
    _note_not_in_force(calls)


def _by_subject(rule: dict[str, Any]) -> tuple[str, ...]:
    """Roles before users, and all of one together."""
    row = rule["row"]
    return (row[1], row[0], *row[2:])


def _table_row(rule: dict[str, Any]) -> dict[str, str]:
    row = rule["row"]
    is_rule = row[0] == "p"
    tenant = row[2] if is_rule else row[3]
    own = rule["place"].startswith("rule/")
    return {
        "id": rule["id"],
        "effect": row[6] if is_rule else "has",
        "subject": safe(row[1]),
        "action": " ".join(SHORT.get(each, each) for each in row[3].split("|")) if is_rule else "",
        "topic": safe(row[4] if is_rule else row[2]),
        "condition": row[5] if is_rule and row[5] != "any" else "",
        "tenant": "" if tenant == "*" else safe(tenant),
        "note": safe(rule["note"]),
        "from": "" if own else safe(rule["place"]),
    }


def _add(calls: RegistryCalls, args: Namespace) -> None:
    done = calls("rules-change", add=[_row(args)], places=["the rule"], note=args.note)
    added = done["added"]

    def text() -> list[str]:
        if not added:
            return ["this rule is there already"]
        return [f"added {rule['id']}: {row_text(rule['row'])}" for rule in added]

    show(args, done, text)
    _note_not_in_force(calls)
    for warning in done["warnings"]:
        print(f"note: {safe(warning)}", file=sys.stderr)
    for rule in added:
        _note_unknown(calls, rule["row"])


def _note_not_in_force(calls: RegistryCalls) -> None:
    """Rules of the registry that decide nothing: whoever lists or changes them should know."""
    policy = calls("in-force")["policy"]
    if not policy:
        print("note: access control is off; [access] turns it on", file=sys.stderr)
    elif policy != "registry":
        print(f"note: not in force; the rules are those of {safe(policy)}", file=sys.stderr)


def _note_unknown(calls: RegistryCalls, row: list[str]) -> None:
    """A name that nothing else has may be a typo, or what another authenticator brings."""
    from mhub.access.entries import EVERYBODY
    from mhub.access.rows import unquote

    for subject in row[1:3] if row[0] == "g" else row[1:2]:
        kind, _, name = subject.partition(":")
        if kind == "user":
            note_unknown(calls, unquote(name))
            continue
        found = calls("role", name=name)
        is_known = found["role"]["version"] or found["user_count"] or len(found["rules"]) > 1
        if is_known or name in EVERYBODY:
            continue
        others = [role["name"] for role in calls("roles")["roles"] if role["name"] != name]
        near = get_close_matches(name, others, n=1)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        print(f'note: nobody and no other rule has the role "{name}"{hint}', file=sys.stderr)


def _row(args: Namespace) -> list[str]:
    """What stands on the command line, as the fields of a row."""
    if len(args.row) == 1:
        return [field.strip() for field in args.row[0].split(",")]
    if len(args.row) != 3:
        raise ValueError(
            "expected a line of a policy, or SUBJECT ACTION TOPIC, or SUBJECT has role:NAME"
        )
    subject, action, topic = args.row
    if action == "has":
        return ["g", subject, topic, args.tenant]
    effect = "deny" if args.deny else "allow"
    return ["p", subject, args.tenant, action, topic, args.condition, effect]


def _remove(calls: RegistryCalls, args: Namespace) -> None:
    done = calls("rules-change", remove=args.id)
    show(
        args,
        done,
        lambda: [f"removed {rule['id']}: {row_text(rule['row'])}" for rule in done["removed"]],
    )
    _note_not_in_force(calls)


def _import(calls: RegistryCalls, args: Namespace) -> int:
    from mhub.access.policy import PolicyError, read_csv

    name = "stdin" if args.file == "-" else args.file
    text = sys.stdin.read() if args.file == "-" else Path(args.file).read_text("utf-8")
    try:
        found = read_csv(text, name)
    except PolicyError as error:
        return _say_errors(error)
    done = calls(
        "rules-change",
        add=[list(row.fields) for row in found],
        places=[row.place for row in found],
        replace_all=args.replace,
        note=args.note,
    )
    show(
        args,
        done,
        lambda: [
            f"{len(done['added'])} added, {len(done['removed'])} removed,"
            f" {done['unchanged']} there already; revision {done['revision']}"
        ],
    )
    for warning in done["warnings"]:
        print(f"warning: {safe(warning)}", file=sys.stderr)
    _note_not_in_force(calls)
    return OK


def _import_mosquitto(calls: RegistryCalls, args: Namespace) -> int:
    from mhub.access.mosquitto_acl import read_files
    from mhub.access.policy import PolicyError, write_csv

    if args.output and (args.passwords or args.replace):
        raise ValueError("--output: a file has neither users nor other rules")
    try:
        found = read_files(args.file, args.passwords)
    except PolicyError as error:
        return _say_errors(error)
    for warning in found.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if args.output:
        with open(args.output, "x", encoding="utf-8") as file:
            file.write(f"# Made by `mhub ctl policy import-mosquitto` from {safe(args.file)}\n")
            file.write(write_csv(found.rows))
        print(f"{len(found.rows)} rows to {args.output}", file=sys.stderr)
        return OK
    users = _import_users(calls, found.users, args.note)
    done = calls(
        "rules-change",
        add=[list(row.fields) for row in found.rows],
        places=[row.place for row in found.rows],
        replace_all=args.replace,
        note=args.note,
    )
    others = len(calls.all("rules", "rules", "place")["rules"]) - len(found.rows)
    if others:
        print(
            f"warning: {others} rules were there before and count as well; --replace removes them",
            file=sys.stderr,
        )

    def text() -> list[str]:
        added = len(users["added"])
        kept = f", {len(users['there'])} there already" if users["there"] else ""
        return [
            f"rules: {len(done['added'])} added, {len(done['removed'])} removed,"
            f" {done['unchanged']} there already",
            *([f"users: {added} added{kept}"] if args.passwords else []),
            f"revision {done['revision']}",
        ]

    show(args, {"rules": done, "users": users, "warnings": found.warnings}, text)
    return OK


def _import_users(calls: RegistryCalls, hashes: dict[str, str], note: str) -> dict[str, list[str]]:
    """In portions: a request has a bound."""
    names = list(hashes)
    found: dict[str, list[str]] = {"added": [], "there": []}
    for start in range(0, len(names), USERS_AT_ONCE):
        portion = {name: hashes[name] for name in names[start : start + USERS_AT_ONCE]}
        done = calls("users-import", hashes=portion, note=note)
        for what, known in found.items():
            known += done[what]
    return found


def _export(calls: RegistryCalls, args: Namespace) -> None:
    page = calls.all("rules", "rules", "place", all_rows=True)
    found = sorted(page["rules"], key=_by_subject)
    lines = dict.fromkeys(", ".join(rule["row"]) for rule in found)
    text = f"# revision {page['revision']}\n" + "".join(f"{line}\n" for line in lines)
    if args.json and not args.output:
        show(args, page, list)
    elif args.output:
        Path(args.output).write_text(text, "utf-8")
        print(f"{len(lines)} rows to {args.output}", file=sys.stderr)
    else:
        sys.stdout.write(text)


def _say_errors(error: Any) -> int:
    for each in error.errors:
        print(each, file=sys.stderr)
    return FAILED


# Files and the registry


def _policy(calls: RegistryCalls, which: str) -> Any:
    """A Policy.  Raises PolicyError, OSError, ControlError."""
    from mhub.access.policy import Policy, load_csv
    from mhub.access.rows import parse_row

    if which != "registry":
        return load_csv(Path(which))
    page = calls.all("rules", "rules", "place", all_rows=True)
    return Policy(
        {
            rule["id"]: parse_row(rule["row"], rule["place"]) for rule in reversed(page["rules"])
        }.values()
    )


def _test(calls: RegistryCalls, args: Namespace) -> int:
    from mhub.access.expectations import is_allowed, read_expectations
    from mhub.access.policy import PolicyError

    try:
        index = _policy(calls, args.policy).index()
        text = Path(args.file).read_text("utf-8")
        lookup = _Lookup(calls if args.policy == "registry" else None)
        expected = read_expectations(text, args.file, lookup)
    except PolicyError as error:
        return _say_errors(error)
    if not expected:
        raise ValueError(f"{args.file}: there are no expectations in it")
    failed = [each for each in expected if is_allowed(index, each.question) != each.allowed]
    found = {
        "expectations": len(expected),
        "failed": [
            {"place": each.place, "line": each.text, "decided": "deny" if each.allowed else "allow"}
            for each in failed
        ],
    }

    def lines() -> list[str]:
        wrong = [
            f"{each.place}: {'denied' if each.allowed else 'allowed'}, and expected was:"
            f" {safe(each.text)}"
            for each in failed
        ]
        return [*wrong, f"{len(expected) - len(failed)} of {len(expected)} expectations are met"]

    show(args, found, lines)
    return FAILED if failed else OK


class _Lookup:
    """Users as the registry has them."""

    def __init__(self, calls: RegistryCalls | None) -> None:
        self._calls = calls

    def __call__(self, name: str) -> Any:
        from mhub.access.expectations import stranger
        from mhub.control.contract import ControlError

        principal = stranger(name)
        if self._calls is not None:
            try:
                user = self._calls("user", name=name)["user"]
            except ControlError:
                return principal  # one that another source knows
            principal.tenant = user["tenant"]
            principal.attributes = user["attributes"]
        return principal


def _check(calls: RegistryCalls, args: Namespace) -> int:
    from mhub.access.policy import PolicyError
    from mhub.access.second_opinion import compare

    try:
        policy = _policy(calls, args.file)
    except PolicyError as error:
        return _say_errors(error)
    warnings = [str(warning) for warning in policy.warnings()]
    opinion = compare(policy)
    found = {
        "rows": len(policy.rows),
        "warnings": warnings,
        "compared": opinion.compared,
        "differences": opinion.differences,
    }

    def lines() -> list[str]:
        return [
            *(f"warning: {warning}" for warning in warnings),
            *(f"mhub and PyCasbin differ: {text}" for text in opinion.differences),
            f"{args.file}: {len(policy.rows)} rows are fine; {opinion.compared} decisions compared"
            f" with PyCasbin, {len(opinion.differences) or 'no'} difference"
            + ("s" if len(opinion.differences) > 1 else ""),
        ]

    show(args, found, lines)
    return FAILED if opinion.differences else OK


def _diff(calls: RegistryCalls, args: Namespace) -> int:
    from mhub.access.policy import PolicyError
    from mhub.access.population import compare

    try:
        changes = compare(_policy(calls, args.old), _policy(calls, args.new))
    except PolicyError as error:
        return _say_errors(error)
    found: list[dict[str, Any]] = [
        {"who": list(each.who), "flips": [flip.to_json() for flip in each.flips]}
        for each in changes
    ]

    def lines() -> list[str]:
        shown = []
        for each in found:
            shown += folded(safe("; ".join(each["who"])), width())
            for flip in each["flips"]:
                shown += folded(_flip_line(flip), width())
        return shown or ["nobody may do more or less than before"]

    show(args, {"changes": found}, lines)
    return FAILED if found else OK


def _flip_line(flip: dict[str, Any]) -> str:
    """Such as `+ publish plant/# except plant/secret`."""
    condition = f" ({flip['condition']})" if flip["condition"] != "any" else ""
    others = f" except {', '.join(flip['exceptions'])}" if flip["exceptions"] else ""
    sign = "+" if flip["allowed"] else "-"
    return f"  {sign} {flip['action']} {safe(flip['topics'] + others)}{condition}"
