"""`mhub ctl role add|set|delete|list|show`."""

from argparse import Namespace

from mhub.ctl.access_command import AccessCommands, add_limits, chosen, limits, merged
from mhub.ctl.access_view import joined, rule_line, titled
from mhub.ctl.command import rows, show
from mhub.ctl.registry_calls import RegistryCalls
from mhub.ctl.table import safe


def main(argv: list[str]) -> int:
    """Run one of the commands; the result is the exit status."""
    commands = AccessCommands(
        "role",
        "Roles: what rules are about, and what users have. A role inherits all that its parents"
        " may, and what they may not.",
    )
    add = commands.add("add", "add a role", _add, changes=True)
    add.add_argument("name", metavar="NAME", help="the role")
    change = commands.add("set", "change parents, limits or the note of a role", _set, changes=True)
    change.add_argument("name", metavar="NAME", help="the role")
    for command in (add, change):
        command.add_argument(
            "--parent", action="append", metavar="ROLE", help="inherit from these; repeatable"
        )
        command.add_argument("--note", metavar="TEXT", help="for people")
        add_limits(command, "each user that has the role", command is change)
    change.add_argument(
        "--add-parent", action="append", metavar="ROLE", help="inherit from this one as well"
    )
    change.add_argument(
        "--remove-parent", action="append", metavar="ROLE", help="inherit from it no longer"
    )
    delete = commands.add(
        "delete", "delete a role that nobody has and no rule names", _delete, changes=True
    )
    delete.add_argument("name", metavar="NAME", help="the role")
    delete.add_argument(
        "--cascade",
        action="store_true",
        help="take it from all users and roles, and remove the rules about it",
    )
    for command in (change, delete):
        command.add_argument(
            "--expect",
            default="",
            metavar="VERSION",
            help="refuse the change if the version, as `show` has it, is another one",
        )
    commands.add("list", "list all roles, with those that only rules name", _list)
    one = commands.add("show", "show a role, who has it, and the rules about it", _show)
    one.add_argument("name", metavar="NAME", help="the role")
    return commands.run(argv)


def _add(calls: RegistryCalls, args: Namespace) -> None:
    values = {
        "parents": args.parent or [],
        "limits": limits(args.limit, "--limit"),
        "note": args.note or "",
    }
    done = calls("role-add", name=args.name, values=values)
    show(args, done, lambda: [f'added the role "{safe(args.name)}"'])


def _set(calls: RegistryCalls, args: Namespace) -> None:
    role = calls("role", name=args.name)["role"]
    values: dict[str, object] = {}
    if args.parent is not None or args.add_parent or args.remove_parent:
        values["parents"] = chosen(
            role["parents"], args.parent, args.add_parent, args.remove_parent, "--remove-parent"
        )
    if args.limit or args.remove_limit:
        values["limits"] = merged(
            role["limits"], limits(args.limit, "--limit"), args.remove_limit, "--remove-limit"
        )
    if args.note is not None:
        values["note"] = args.note
    if not values:
        raise ValueError("nothing to change: see `mhub ctl role set --help`")
    expected = args.expect or role["version"] or "0"
    done = calls("role-set", name=args.name, values=values, expected=expected)
    show(args, done, lambda: [f'changed the role "{safe(args.name)}"'])


def _delete(calls: RegistryCalls, args: Namespace) -> None:
    done = calls("role-delete", name=args.name, cascade=args.cascade, expected=args.expect)
    more = "".join(
        f", {text} {number} {what}{'s' if number != 1 else ''}"
        for text, what, number in (
            ("took it from", "user", done.get("users", 0)),
            ("removed", "rule", done.get("rules", 0)),
        )
        if number
    )
    show(args, done, lambda: [f'deleted the role "{safe(args.name)}"{more}'])


def _list(calls: RegistryCalls, args: Namespace) -> None:
    found = calls("roles")

    def text() -> list[str]:
        shown = [
            {
                "role": safe(role["name"]),
                "inherits from": joined(role["parents"]),
                "rules": str(role["rules"]),
                "note": safe(role["note"]),
            }
            for role in found["roles"]
        ]
        return rows(shown, ("role", "inherits from", "note"), "no roles")

    show(args, found, text)


def _show(calls: RegistryCalls, args: Namespace) -> None:
    found = calls("role", name=args.name)

    def text() -> list[str]:
        role = found["role"]
        more = found["user_count"] - len(found["users"])
        indirect = [name for name in found["all_parents"] if name not in role["parents"]]
        return titled(
            ("role", [safe(role["name"])]),
            ("inherits from", [joined(role["parents"])]),
            ("and through", [joined(indirect)]),
            ("limits", [f"{name}={value}" for name, value in role["limits"].items()]),
            ("users", [joined(found["users"]) + (f" and {more} more" if more > 0 else "")]),
            ("rules", [rule_line(rule) for rule in found["rules"]]),
            ("note", [safe(role["note"])]),
            ("version", [role["version"]]),
            ("revision", [found["revision"]]),
        )

    show(args, found, text)
