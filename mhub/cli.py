"""The `mhub` command: `mhub COMMAND ...`.

Each command imports what it needs when it runs, so that `mhub --help` answers at once.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2


class Command(NamedTuple):
    summary: str
    run: Callable[[list[str]], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit status."""
    args = list(sys.argv[1:] if argv is None else argv)
    if not args:
        _parser().print_help(sys.stderr)
        return USAGE
    name, rest = args[0], args[1:]
    try:
        if name in COMMANDS:
            return COMMANDS[name].run(rest)
        if name == "help":
            return main([*rest, "--help"])
        if not name.startswith("-"):
            return _unknown(name)
        if _parser().parse_args(args).version:
            return _version()
        return USAGE
    except SystemExit as stop:  # argparse: 0 after --help, 2 after a mistake
        return stop.code if isinstance(stop.code, int) else FAILED
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output, such as head, has had enough
        sys.stderr.close()
        return FAILED


def run_broker(argv: list[str]) -> int:
    from mhub.process.run import main as run

    return run(argv)


def check_config(argv: list[str]) -> int:
    parser = ArgumentParser(
        prog="mhub check-config",
        description="Check a configuration without starting the broker. The exit status is 0 when"
        " it is fine, and 1 when not; then every mistake is listed. Run it as the user that the"
        " broker runs as: what that user can read and write is checked, too. A Redis server is not"
        " asked.",
    )
    parser.add_argument("file", metavar="FILE", help="the configuration, a TOML file")
    parser.add_argument("-q", "--quiet", action="store_true", help="print mistakes only")
    args = parser.parse_args(argv)

    from mhub.config import ConfigError, load

    try:
        settings = load(args.file)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return FAILED
    for warning in settings.warnings:
        print(f"warning: {warning}", file=sys.stderr)

    from mhub.store.make import fault_of

    fault = fault_of(settings)
    if fault:
        print(f"{args.file}: {fault}", file=sys.stderr)
        return FAILED
    if not args.quiet:
        from mhub.config.summary import summary

        print(summary(settings))
    return OK


def hash_password(argv: list[str]) -> int:
    from mhub.auth.command import main as run

    return run(argv)


def bench(argv: list[str]) -> int:
    from mhub.bench.cli import main as run

    return run(argv)


def store(argv: list[str]) -> int:
    from mhub.store.command import main as run

    return run(argv)


def ctl(argv: list[str]) -> int:
    from mhub.ctl.main import main as run

    return run(argv)


def import_config(argv: list[str]) -> int:
    from mhub.config.mosquitto_import import main as run

    return run(argv)


COMMANDS: Final = {
    "run": Command("run the broker in the foreground", run_broker),
    "check-config": Command("check a configuration without starting the broker", check_config),
    "import": Command("make a configuration from a mosquitto.conf", import_config),
    "ctl": Command("see and change a running broker", ctl),
    "hash-password": Command("hash a password, for a database", hash_password),
    "store": Command("check, export or import sessions and messages", store),
    "bench": Command("put load on any MQTT broker and measure it", bench),
}

MOVED: Final = frozenset(
    ("status", "clients", "kick", "user", "role", "policy", "ban", "explain", "cluster")
)
"""What was a command itself in earlier versions."""


def _parser() -> ArgumentParser:
    width = max(map(len, COMMANDS))
    commands = "\n".join(
        f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()
    )
    parser = ArgumentParser(
        prog="mhub",
        usage="mhub COMMAND ...",
        description="An MQTT broker. Start it with: mhub run --config FILE",
        epilog=f"commands:\n{commands}\n\n`mhub COMMAND --help` says more about each.",
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and the build")
    return parser


def _version() -> int:
    from mhub.build import describe

    print(describe())
    return OK


def _unknown(name: str) -> int:
    if name in MOVED:
        print(f"mhub: it is `mhub ctl {name}` now", file=sys.stderr)
        return USAGE
    near = get_close_matches(name, COMMANDS, n=1)
    hint = f'did you mean "{near[0]}"?' if near else "expected one of " + ", ".join(COMMANDS)
    print(f'mhub: no command "{name}"; {hint}', file=sys.stderr)
    return USAGE
