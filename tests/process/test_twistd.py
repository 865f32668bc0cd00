"""What keeps twistd from starting the broker; tests/system/test_run.py has the processes."""

import os

from twisted.trial.unittest import SynchronousTestCase

from mhub.process.twistd import console, fault_in, show_on_console


class FaultTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = os.path.abspath(self.mktemp())
        os.mkdir(self.folder)
        self.file = os.path.join(self.folder, "file")

    def test_nothing(self) -> None:
        self.assertEqual(fault_in({}), "")
        good = {"pidfile": self.file, "logfile": self.file, "rundir": self.folder, "nodaemon": 1}
        self.assertEqual(fault_in(good), "")

    def test_files(self) -> None:
        missing = os.path.join(self.folder, "none", "file")
        for path, why in ((missing, "there is no such directory"), (self.folder, "is a directory")):
            self.assertEqual(
                fault_in({"pidfile": path, "nodaemon": 1}),
                f"twistd cannot write its pid file {path}: {why}; --pidfile= does without,"
                " as `mhub run`",
            )
            self.assertEqual(
                fault_in({"logfile": path}),
                f"twistd cannot write its log {path}: {why}; name another file with --logfile",
            )
            self.assertEqual(fault_in({"logfile": path, "syslog": 1}), "")
            self.assertEqual(fault_in({"pidfile": path, "chroot": "/elsewhere"}), "")
        self.assertEqual(fault_in({"logfile": "-"}), "")

    def test_another_user(self) -> None:
        for name in ("uid", "gid"):
            self.patch(os, "geteuid", lambda: 1000)
            self.assertEqual(
                fault_in({name: 0}), f"twistd --{name}: only root can become another user"
            )
            self.patch(os, "geteuid", lambda: 0)
            self.assertEqual(fault_in({name: 0}), "")


class ConsoleTests(SynchronousTestCase):
    """What is shown once must not be kept: the journal of systemd is no console."""

    def test_whoever_has_started_the_broker(self) -> None:
        self.patch(os, "environ", {})
        self.assertIs(console(), show_on_console)
        self.patch(os, "environ", {"JOURNAL_STREAM": "1:1"})  # of a parent: ours is another one
        self.assertIs(console(), show_on_console)

    def test_the_journal(self) -> None:
        found = os.fstat(1)
        journal = f"{found.st_dev}:{found.st_ino}"
        self.patch(os, "environ", {"JOURNAL_STREAM": journal})
        self.assertIsNone(console())
