"""What the commands about users, roles, rules and bans have in common."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from mhub.control.contract import ControlError
from mhub.ctl.command import Commands
from mhub.ctl.registry_calls import PLACE_HELP, RegistryCalls


class AccessCommands(Commands[RegistryCalls]):
    """Of a broker, or of its store."""

    def __init__(self, name: str, description: str) -> None:
        super().__init__(name, f"{description} {PLACE_HELP}", RegistryCalls)


def note_unknown(calls: RegistryCalls, user: str) -> None:
    """Say on stderr that the registry has no such user: another authenticator may, or not."""
    try:
        calls("user", name=user)
    except ControlError as error:
        print(f"note: {error}", file=sys.stderr)


def add_password(command: ArgumentParser, with_scram: bool = True) -> None:
    command.add_argument(
        "--password-file",
        metavar="FILE",
        help="read the password from the first line of FILE (- is stdin) instead of asking for it",
    )
    command.set_defaults(iterations=0)
    if not with_scram:
        return
    command.add_argument(
        "--iterations",
        type=int,
        default=0,
        metavar="N",
        help="rounds of hashing that each login by SCRAM costs the client (default 600000); 4096 is"
        " enough for long random passwords on small devices",
    )


def password_of(args: Namespace) -> str:
    """The password that a command is given.  Raises ValueError, and OSError."""
    if args.iterations and not 4096 <= args.iterations <= 10_000_000:
        raise ValueError("--iterations: expected from 4096 to 10000000")
    if args.password_file == "-":
        if sys.stdin is None:
            raise ValueError("standard input is closed")
        return sys.stdin.readline().rstrip("\r\n")
    if args.password_file:
        with open(args.password_file, encoding="utf-8") as file:
            return file.readline().rstrip("\r\n")

    import warnings
    from getpass import GetPassWarning, getpass

    try:
        with warnings.catch_warnings():
            # Without a terminal it would show what is typed, if anybody can type at all.
            warnings.simplefilter("error", GetPassWarning)
            password = getpass("Password: ")
            again = getpass("Again: ")
    except EOFError:  # Ctrl-D
        print(file=sys.stderr)
        raise ValueError("no password was given") from None
    except GetPassWarning:
        raise ValueError(
            "there is no terminal to ask for the password at; give it with --password-file FILE, or"
            " --password-file - for stdin"
        ) from None
    if again != password:
        raise ValueError("the two passwords differ")
    return password


def pairs(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """NAME=VALUE, as they were given.  Raises ValueError."""
    found = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"{option}: expected NAME=VALUE, found {text!r}")
        found[name] = value
    return found


def limits(texts: Sequence[str] | None, option: str) -> dict[str, int | float | str]:
    """NAME=VALUE, where a value may be a number, or text such as a size."""
    found: dict[str, int | float | str] = {}
    for name, text in pairs(texts, option).items():
        try:
            found[name] = int(text) if text.isdigit() else float(text)
        except ValueError:
            found[name] = text
    return found


def add_limits(command: ArgumentParser, who: str, also_remove: bool) -> None:
    command.add_argument(
        "--limit", action="append", metavar="NAME=VALUE", help=f"a limit of {who}; repeatable"
    )
    if also_remove:
        command.add_argument(
            "--remove-limit", action="append", metavar="NAME", help="go back to the default"
        )


def merged(
    old: Mapping[str, Any], new: Mapping[str, Any], removed: Sequence[str] | None, option: str
) -> dict[str, Any]:
    """`old` with what was set, and without what was removed.  Raises ValueError."""
    for name in removed or ():
        if name not in old:
            raise ValueError(f"{option}: there is no {name!r}")
    return {name: value for name, value in {**old, **new}.items() if name not in (removed or ())}


def chosen(
    old: Sequence[str],
    instead: Sequence[str] | None,
    added: Sequence[str] | None,
    removed: Sequence[str] | None,
    option: str,
) -> list[str]:
    """A list of names after a change.  Raises ValueError."""
    found = list(old if instead is None else [name for name in instead if name])
    for name in removed or ():
        if name not in found:
            near = get_close_matches(name, found, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"{option}: {name!r} is not among them{hint}")
        found.remove(name)
    return found + [name for name in added or () if name not in found]
