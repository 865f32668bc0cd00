"""What keeps twistd from starting the broker; tests/system/test_run.py has the processes."""

import os

from twisted.trial.unittest import SynchronousTestCase

from mhub.process.twistd import fault_in


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
