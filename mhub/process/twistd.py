"""What twistd does not do for a broker: faults before it starts, a console, an exit status.

twistd goes to the background, writes its files and changes the user after it has the service, and
what fails there is a traceback; in the background not even that, as its parent waits for ever for a
child that ended by SystemExit.
"""

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from twisted.python import usage

from mhub import build


class Options(usage.Options):
    """The command line of `twistd mhub`."""

    synopsis = "[--config FILE]"
    longdesc = "An MQTT broker. Without a configuration it listens on 127.0.0.1:1883."
    optParameters = (
        ("config", "c", None, "The configuration, a TOML file (docs/configuration.md)."),
    )

    def opt_version(self) -> None:
        """Show the version and which build runs, and exit."""
        print(build.describe())
        sys.exit(0)


def fault_in(options: Mapping[str, Any]) -> str:
    """Why twistd could not go on with these options of its own; "" if it can."""
    if options.get("chroot"):
        return ""  # all paths mean something else there
    rundir = options.get("rundir") or "."
    if not os.path.isdir(rundir):
        return f"twistd --rundir {rundir}: there is no such directory"
    pid_file = options.get("pidfile")
    if pid_file:
        why = _unwritable(os.path.join(rundir, pid_file))
        if why:
            return f"twistd cannot write its pid file {why}; --pidfile= does without, as `mhub run`"
    log_file = options.get("logfile") or ("" if options.get("nodaemon") else "twistd.log")
    if log_file and log_file != "-" and not options.get("syslog") and not options.get("logger"):
        why = _unwritable(log_file)
        if why:
            return f"twistd cannot write its log {why}; name another file with --logfile"
    for name in ("uid", "gid"):
        if options.get(name) is not None and os.geteuid() != 0:
            return f"twistd --{name}: only root can become another user"
    return ""


def _unwritable(path: str) -> str:
    """The file and why it cannot be written; "" if it can."""
    path = os.path.abspath(path)
    folder = os.path.dirname(path)
    if os.path.isdir(path):
        why = "is a directory"
    elif not os.path.isdir(folder):
        why = "there is no such directory"
    elif os.access(path if os.path.exists(path) else folder, os.W_OK):
        return ""
    else:
        why = "permission denied"
    return f"{path}: {why}"


def console() -> Callable[[str], None] | None:
    """What shows something to whoever has started the broker; None: nobody is there to see it.

    A unit of systemd has its standard output in the journal, which keeps it, and says so.
    """
    journal = os.environ.get("JOURNAL_STREAM", "")
    try:
        found = os.fstat(1)
    except OSError:
        return None
    return None if journal == f"{found.st_dev}:{found.st_ino}" else show_on_console


def show_on_console(text: str) -> None:
    """Not to the log."""
    stream = sys.__stdout__
    if stream is not None:
        stream.write(text)
        stream.flush()


def exit_status(has_failed: Callable[[], bool]) -> None:
    """At the end of the process: twistd ends with 0, whatever the reason was."""
    if has_failed():
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass
        os._exit(1)
