"""What would keep twistd from starting the broker, found before twistd gets that far.

twistd goes to the background, writes its files and changes the user after it has the service, and
what fails there is a traceback; in the background not even that, as its parent waits for ever for a
child that ended by SystemExit.
"""

import os
from collections.abc import Mapping
from typing import Any


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
