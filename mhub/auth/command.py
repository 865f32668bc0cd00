"""`mhub hash-password`: what a database that the broker asks keeps of a password."""

import sys
from argparse import ArgumentParser

from mhub.auth import hashes
from mhub.auth.hashes import Costs
from mhub.ctl.access_command import add_password, password_of

OK = 0
FAILED = 1


def main(argv: list[str]) -> int:
    parser = ArgumentParser(
        prog="mhub hash-password",
        description="Print the hash of a password (argon2id), for a database that the broker asks."
        " `mhub ctl user` sets passwords in the registry and in password files.",
    )
    add_password(parser, with_scram=False)
    args = parser.parse_args(argv)
    try:
        password = password_of(args)
        if not password:
            raise ValueError("the password is empty")
        print(hashes.make(password.encode(), Costs()))
    except (ValueError, OSError) as error:
        print(f"mhub hash-password: {error}", file=sys.stderr)
        return FAILED
    return OK
