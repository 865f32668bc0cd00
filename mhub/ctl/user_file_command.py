"""`mhub ctl user add|passwd|delete|list --file FILE`: users of mhub's own password file.

One password makes two lines: for CONNECT, and for SCRAM-SHA-256.
"""

from argparse import Namespace
from collections.abc import Callable
from typing import Final

from mhub.ctl.access_command import password_of
from mhub.ctl.command import rows, show
from mhub.ctl.table import safe

ONLY_REGISTRY: Final = ("role", "tenant", "attribute", "limit", "note", "no_password", "expect")


def _set(args: Namespace) -> None:
    from mhub.auth.hashes import Costs, make
    from mhub.auth.users import ITERATIONS, make_verifier, prepare_name, read_users, set_user

    _check(args)
    name = prepare_name(args.name)  # before asking for a password
    try:
        users = read_users(args.file)
        there = name in users.verifiers or name in users.hashes
    except Exception:
        there = False
    if args.what == "add" and there:
        raise ValueError(f'there is a user "{name}" already in {args.file}')
    if args.what == "passwd" and not there:
        raise ValueError(f'there is no user "{name}" in {args.file}')
    password = password_of(args)
    verifier = make_verifier(password, args.iterations or ITERATIONS)
    set_user(args.file, name, verifier, make(password.encode(), Costs()))
    done = "added" if args.what == "add" else "new password for"
    place = "to" if args.what == "add" else "in"
    text = f'{done} "{safe(name)}" {place} {args.file}'
    show(args, {"name": name, "file": args.file}, lambda: [text])


def _delete(args: Namespace) -> None:
    from mhub.auth.users import delete_user

    _check(args)
    if not delete_user(args.file, args.name):
        raise ValueError(f'there is no user "{args.name}" in {args.file}')
    text = f'deleted "{safe(args.name)}" from {args.file}'
    show(args, {"name": args.name, "file": args.file}, lambda: [text])


def _list(args: Namespace) -> None:
    from mhub.auth.users import read_users

    _check(args)
    users = read_users(args.file)
    found = [
        {"name": name, "has_password": name in users.hashes, "has_scram": name in users.verifiers}
        for name in sorted({*users.hashes, *users.verifiers})
    ]

    def text() -> list[str]:
        shown = [
            {
                "user": safe(str(user["name"])),
                "logs in by": ", ".join(
                    way
                    for way, has in (("password", "has_password"), ("SCRAM", "has_scram"))
                    if user[has]
                ),
            }
            for user in found
        ]
        return rows(shown, ("user",), f"no users in {args.file}")

    show(args, {"users": found, "file": args.file}, text)


def _check(args: Namespace) -> None:
    for name in ONLY_REGISTRY:
        if getattr(args, name, None):
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option}: a password file has names and passwords only")


COMMANDS: Final[dict[str, Callable[[Namespace], int | None]]] = {
    "add": _set,
    "passwd": _set,
    "delete": _delete,
    "list": _list,
}
