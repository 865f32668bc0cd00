"""`mhub ctl COMMAND ...`: which command is which function.

Each module is imported when its command runs, so that the others cost nothing.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from difflib import get_close_matches
from importlib import import_module
from typing import Final, NamedTuple

OK: Final = 0
USAGE: Final = 2


class Command(NamedTuple):
    summary: str
    module: str  # of this package
    function: str = "main"

    def run(self, argv: list[str]) -> int:
        found: int = getattr(import_module(f"mhub.ctl.{self.module}"), self.function)(argv)
        return found


COMMANDS: Final = {
    "status": Command("show the broker", "broker_command", "status"),
    "top": Command("watch clients and topics by rate", "top_command"),
    "stats": Command("show all numbers", "activity_command", "stats"),
    "events": Command("show what has happened lately", "activity_command", "events"),
    "denials": Command("show what was denied lately", "activity_command", "denials"),
    "clients": Command("list clients, or show one", "broker_command", "clients"),
    "kick": Command("disconnect a client", "broker_command", "kick"),
    "presence": Command("show who is connected, and where", "cluster_command", "presence"),
    "subscriptions": Command("see and change who gets what", "subscriptions_command"),
    "topics": Command("see what is published to", "topics_command", "topics"),
    "retained": Command("see and delete retained messages", "topics_command", "retained"),
    "trace": Command("watch the packets of a client", "log_command", "trace"),
    "user": Command("add, change, lock and delete users", "user_command"),
    "role": Command("add, change and delete roles", "role_command"),
    "policy": Command("list, change, test and compare the rules of access", "policy_command"),
    "ban": Command("keep users, clients and addresses out", "ban_command"),
    "explain": Command("say why a client may do something, or may not", "explain_command"),
    "token": Command("make, list and revoke API tokens", "token_command", "token"),
    "limits": Command("show the limits in force", "token_command", "limits"),
    "listener": Command("list, open and close listeners", "steering_command", "listener"),
    "config": Command("see, check and reload the configuration", "steering_command", "config"),
    "log": Command("see the log, and set its level", "log_command", "log"),
    "store": Command("see and export the store", "store_command"),
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
        description="See and change a running broker.\n\n"
        "On its own machine it is found by --config FILE or --socket PATH, without a\n"
        "login; from elsewhere by --url https://HOST:PORT and --token-file FILE (or\n"
        "MHUB_URL and MHUB_TOKEN). These options stand behind the command.",
        epilog=f"commands:\n{commands}\n\n`mhub ctl COMMAND --help` says more about each.",
        formatter_class=RawDescriptionHelpFormatter,
    )
