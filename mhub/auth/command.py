"""`mhub hash-password`: what a password file, or a database that the broker asks, keeps of one."""

import sys
from argparse import ArgumentParser

from mhub.auth import hashes
from mhub.auth.hashes import Costs
from mhub.auth.users import ITERATIONS, make_verifier, prepare_name
from mhub.control.access_command import add_password, password_of

OK = 0
FAILED = 1


def main(argv: list[str]) -> int:
    parser = ArgumentParser(
        prog="mhub hash-password",
        description="Print the hash of a password (argon2id), for a database that the broker asks."
        " With NAME, print the lines of a password file for that user: the hash, and what"
        " SCRAM-SHA-256 needs.",
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="the user")
    add_password(parser)
    args = parser.parse_args(argv)
    try:
        name = prepare_name(args.name) if args.name is not None else None
        if name is not None and ":" in name:
            raise ValueError("a name in a password file has no colon")
        password = password_of(args)
        if not password:
            raise ValueError("the password is empty")
        text = hashes.make(password.encode(), Costs())
        if name is None:
            print(text)
            return OK
        print(f"{name}:{text}")
        print(f"{name}:{make_verifier(password, args.iterations or ITERATIONS).render()}")
    except (ValueError, OSError) as error:
        print(f"mhub hash-password: {error}", file=sys.stderr)
        return FAILED
    return OK
