"""`mhub ctl COMMAND ...`: which command is which function.

Each module is imported when its command runs, so that the others cost nothing.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Final

OK: Final = 0
USAGE: Final = 2


@dataclass(frozen=True)
class Command:
    summary: str
    module: str  # of this package
    function: str = "main"

    def run(self, argv: list[str]) -> int:
        found: int = getattr(import_module(f"mhub.ctl.{self.module}"), self.function)(argv)
        return found


COMMANDS: Final = {
    "status": Command("show the broker", "broker_command", "status"),
    "clients": Command("list clients, or show one", "broker_command", "clients"),
    "kick": Command("disconnect a client", "broker_command", "kick"),
    "user": Command("add, change, lock and delete users", "user_command"),
    "role": Command("add, change and delete roles", "role_command"),
    "policy": Command("list, change, test and compare the rules of access", "policy_command"),
    "ban": Command("keep users, clients and addresses out", "ban_command"),
    "explain": Command("say why a client may do something, or may not", "explain_command"),
    "cluster": Command("see and change the cluster", "cluster_command"),
}


def main(argv: list[str]) -> int:
    """Run one command; the result is the exit status."""
    if not argv:
        parser().print_help(sys.stderr)
        return USAGE
    name, rest = argv[0], argv[1:]
    if name in COMMANDS:
        return COMMANDS[name].run(rest)
    if name == "help":
        return main([*rest, "--help"])
    if name.startswith("-"):
        parser().parse_args(argv)
        return USAGE
    near = get_close_matches(name, COMMANDS, n=1)
    hint = f'did you mean "{near[0]}"?' if near else "`mhub ctl --help` lists all"
    print(f'mhub ctl: no command "{name}"; {hint}', file=sys.stderr)
    return USAGE


def parser() -> ArgumentParser:
    width = max(map(len, COMMANDS))
    commands = "\n".join(
        f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()
    )
    return ArgumentParser(
        prog="mhub ctl",
        usage="mhub ctl COMMAND ...",
        description="See and change a running broker.",
        epilog=f"commands:\n{commands}\n\n`mhub ctl COMMAND --help` says more about each.",
        formatter_class=RawDescriptionHelpFormatter,
    )
