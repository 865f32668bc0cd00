"""`mhub run`: the broker in the foreground, for a terminal or a service manager.

The same broker as `twistd -n mhub`, without what twistd does besides: no pid file, short log lines,
and an exit status that says how it ended.

    0   stopped by SIGTERM, SIGINT or `mhub ctl cluster leave`
    1   it could not start, or could not go on; the last line says why
    2   the command line was wrong

The log goes to standard output unless `[log]` says otherwise, an error before there is a log to
standard error.
"""

import os
import sys
from argparse import ArgumentParser
from typing import Any, Final

from mhub.process.signals import Signals

OK: Final = 0
FAILED: Final = 1


def main(argv: list[str]) -> int:
    parser = ArgumentParser(
        prog="mhub run",
        description="Run the broker in the foreground until SIGTERM or Ctrl-C; SIGHUP makes it"
        " read its certificates and its configuration again. The exit status is 0 after a stop, 1"
        " if the broker cannot start or go on, 2 if this command line is wrong.",
    )
    parser.add_argument(
        "-c",
        "--config",
        metavar="FILE",
        help="the configuration, a TOML file; without one the broker listens on 127.0.0.1:1883",
    )
    args = parser.parse_args(argv)
    signals = Signals()
    signals.catch()
    _open_standard_streams()

    # Only now: this takes most of the time of a start.
    from mhub.process.twistd import console
    from mhub.tap import StartError, make_broker

    try:
        broker = make_broker(args.config, signals)
    except StartError as error:
        print(error, file=sys.stderr)
        return FAILED
    broker.console = console()
    _begin_log(broker.destination)

    from twisted.internet import reactor

    loop: Any = reactor  # a module to mypy
    loop.addSystemEventTrigger("before", "shutdown", broker.stopService)
    broker.startService()
    # Twisted's handlers would take the place of ours, and its reactor waits for no child here.
    loop.run(installSignalHandlers=False)
    return FAILED if broker.failed else OK


def _open_standard_streams() -> None:
    """Where one was closed: the next socket or file would take its number, and get the log."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one


def _begin_log(observer: Any) -> None:
    from twisted.logger import globalLogBeginner

    globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False)
