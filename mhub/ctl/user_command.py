"""`mhub ctl user add|set|passwd|delete|list|show|lock|unlock`."""

from argparse import ArgumentParser, Namespace
from datetime import datetime
from typing import Any

from mhub.ctl.access_command import (
    AccessCommands,
    add_limits,
    add_password,
    chosen,
    limits,
    merged,
    pairs,
    password_of,
)
from mhub.ctl.access_view import ban_line, joined, rule_line, titled
from mhub.ctl.command import Do, rows, show
from mhub.ctl.registry_calls import RegistryCalls
from mhub.ctl.table import safe


def main(argv: list[str]) -> int:
    """Run one of the commands; the result is the exit status."""
    commands = AccessCommands(
        "user",
        "Users of the registry, who log in by a name and a password. A change is in force at once,"
        " also for connections that are up, and on all nodes of a cluster.",
    )
    add = commands.add(
        "add", "add a user, whose password is asked for", _in_file(_add), changes=True
    )
    add.add_argument("name", metavar="NAME", help="the user")
    _add_values(add, "a role that it gets; repeatable")
    add_limits(add, "the user", False)
    add.add_argument(
        "--no-password",
        action="store_true",
        help="the user cannot log in by a password, but by a certificate or otherwise",
    )
    add_password(add)

    change = commands.add(
        "set", "change roles, tenant, attributes, limits or the note of a user", _set, changes=True
    )
    change.add_argument("name", metavar="NAME", help="the user")
    _add_values(change, "a role that it gets in the place of those it has; repeatable")
    for option, what in (
        ("--add-role", "give it this role as well"),
        ("--remove-role", "take this role from it"),
        ("--remove-attribute", "take this attribute from it"),
    ):
        change.add_argument(option, action="append", metavar="NAME", help=f"{what}; repeatable")
    add_limits(change, "the user", True)
    _add_expect(change)

    passwd = commands.add(
        "passwd",
        "give a user another password, which is asked for",
        _in_file(_passwd),
        changes=True,
    )
    passwd.add_argument("name", metavar="NAME", help="the user")
    add_password(passwd)

    delete = commands.add(
        "delete",
        "delete a user and the rules about it; its connections and sessions end",
        _in_file(_delete),
        changes=True,
    )
    delete.add_argument("name", metavar="NAME", help="the user")
    _add_expect(delete)

    found = commands.add("list", "list users", _in_file(_list))
    found.add_argument(
        "--match", default="", metavar="GLOB", help="only names that match, as 'pump-*'"
    )
    found.add_argument(
        "--role", default="", metavar="ROLE", help="only those that were given the role"
    )

    one = commands.add("show", "show a user, its roles and the rules about it", _show)
    one.add_argument("name", metavar="NAME", help="the user")

    for name, text in (
        ("lock", "keep a user out, whatever its password is, and disconnect it"),
        ("unlock", "let a user in again, also one that is locked out after failed logins"),
    ):
        lock = commands.add(name, text, _lock, changes=True)
        lock.add_argument("name", metavar="NAME", help="the user")
    for command in (add, passwd, delete, found):
        command.add_argument(
            "--file",
            metavar="PATH",
            help="a password file in the place of the registry, as `file` of [[auth]] names it",
        )
    return commands.run(argv)


def _add_values(command: ArgumentParser, role: str) -> None:
    command.add_argument("--role", action="append", metavar="ROLE", help=role)
    command.add_argument("--tenant", metavar="NAME", help="the tenant it belongs to")
    command.add_argument(
        "--attribute",
        action="append",
        metavar="NAME=VALUE",
        help="what %%{NAME} in rules stands for; repeatable",
    )
    command.add_argument("--note", metavar="TEXT", help="for people")


def _add_expect(command: ArgumentParser) -> None:
    command.add_argument(
        "--expect",
        default="",
        metavar="VERSION",
        help="refuse the change if the version, as `show` has it, is another one",
    )


def _in_file(do: Do[RegistryCalls]) -> Do[RegistryCalls]:
    """The same command on a password file, if it names one."""
    from mhub.ctl.user_file_command import COMMANDS

    def run(calls: RegistryCalls, args: Namespace) -> int | None:
        return COMMANDS[args.what](args) if args.file else do(calls, args)

    return run


def _add(calls: RegistryCalls, args: Namespace) -> None:
    values: dict[str, object] = {
        "roles": args.role or [],
        "attributes": pairs(args.attribute, "--attribute"),
        "limits": limits(args.limit, "--limit"),
        "tenant": args.tenant or "",
        "note": args.note or "",
    }
    password = "" if args.no_password else password_of(args)
    if not password and not args.no_password:
        raise ValueError("the password is empty; --no-password adds a user without one")
    done = calls(
        "user-add", name=args.name, password=password, iterations=args.iterations, values=values
    )
    from mhub.auth.saslprep import saslprep

    name = saslprep(args.name)  # as it was stored, and as the client has to send it
    show(args, done, lambda: [f'added the user "{safe(name)}"'])


def _set(calls: RegistryCalls, args: Namespace) -> None:
    user = calls("user", name=args.name)["user"]
    values: dict[str, object] = {}
    if args.role is not None or args.add_role or args.remove_role:
        values["roles"] = chosen(
            user["roles"], args.role, args.add_role, args.remove_role, "--remove-role"
        )
    if args.attribute or args.remove_attribute:
        values["attributes"] = merged(
            user["attributes"],
            pairs(args.attribute, "--attribute"),
            args.remove_attribute,
            "--remove-attribute",
        )
    if args.limit or args.remove_limit:
        values["limits"] = merged(
            user["limits"], limits(args.limit, "--limit"), args.remove_limit, "--remove-limit"
        )
    for name in ("tenant", "note"):
        if getattr(args, name) is not None:
            values[name] = getattr(args, name)
    if not values:
        raise ValueError("nothing to change: see `mhub ctl user set --help`")
    done = calls("user-set", name=args.name, values=values, expected=args.expect or user["version"])
    show(args, done, lambda: [f'changed the user "{safe(args.name)}"'])


def _passwd(calls: RegistryCalls, args: Namespace) -> None:
    calls("user", name=args.name)  # before a password is asked for
    password = password_of(args)
    done = calls("user-passwd", name=args.name, password=password, iterations=args.iterations)
    show(args, done, lambda: [f'new password for the user "{safe(args.name)}"'])


def _delete(calls: RegistryCalls, args: Namespace) -> None:
    done = calls("user-delete", name=args.name, expected=args.expect)
    rules = done.get("rules")
    more = f", and {rules} rule{'s' if rules != 1 else ''} about it" if rules else ""
    show(args, done, lambda: [f'deleted the user "{safe(args.name)}"{more}'])


def _lock(calls: RegistryCalls, args: Namespace) -> None:
    done = calls("user-lock", name=args.name, locked=args.what == "lock")
    show(args, done, lambda: [f'{args.what}ed the user "{safe(args.name)}"'])


def _list(calls: RegistryCalls, args: Namespace) -> None:
    page = calls.all("users", "users", "name", match=args.match, role=args.role)

    def text() -> list[str]:
        found = [
            {
                "user": safe(user["name"]),
                "roles": joined(user["roles"]),
                "tenant": safe(user["tenant"]),
                "logs in by": _logs_in_by(user),
                "note": safe(user["note"]),
            }
            for user in page["users"]
        ]
        fits = bool(args.match or args.role)
        return rows(found, ("user", "roles", "note"), "no user matches" if fits else "no users")

    show(args, page, text)


def _logs_in_by(user: dict[str, Any]) -> str:
    if user["locked"]:
        return "nothing, it is locked"
    ways = [way for way, has in (("password", "has_password"), ("SCRAM", "has_scram")) if user[has]]
    return ", ".join(ways) or "other means"


def _show(calls: RegistryCalls, args: Namespace) -> None:
    found = calls("user", name=args.name)

    def text() -> list[str]:
        user = found["user"]
        made = user["created_at"]
        inherited = [role for role in found["all_roles"] if role not in user["roles"]]
        return titled(
            ("user", [safe(user["name"])]),
            ("logs in by", [_logs_in_by(user)]),
            ("roles", [joined(user["roles"])]),
            ("inherited", [joined(inherited)]),
            ("tenant", [safe(user["tenant"])]),
            ("attributes", [f"{name}={safe(to)}" for name, to in user["attributes"].items()]),
            ("limits", [f"{name}={value}" for name, value in user["limits"].items()]),
            ("rules", [rule_line(rule) for rule in found["rules"]]),
            ("bans", [ban_line(ban) for ban in found["bans"]]),
            ("note", [safe(user["note"])]),
            ("added", [datetime.fromtimestamp(made).isoformat(" ", "seconds") if made else ""]),
            ("version", [user["version"]]),
            ("revision", [found["revision"]]),
        )

    show(args, found, text)
