"""`mhub ctl` itself: help, and names that are not commands."""

from mhub.cli import MOVED
from mhub.ctl.main import COMMANDS
from tests.ctl.case import CtlCase


class MainTests(CtlCase):
    def test_help(self) -> None:
        """It names every command, within 80 columns."""
        self.assertEqual(self.run_ctl("--help"), 0)
        for name in COMMANDS:
            self.assertIn(f"\n  {name} ", self.out)
        self.assertLess(max(map(len, self.out.split("\n"))), 80)
        self.assertEqual(self.run_ctl(), 2)
        self.assertIn("commands:\n", self.err)

    def test_help_of_commands(self) -> None:
        for name in COMMANDS:
            self.assertEqual(self.run_ctl(name, "--help"), 0, name)
            self.assertLessEqual(max(map(len, self.out.split("\n"))), 80, name)
            self.assertTrue(self.out.startswith(f"usage: mhub ctl {name} "), self.out)
            asked = self.out
            self.assertEqual(self.run_ctl("help", name), 0)
            self.assertEqual(self.out, asked)
            self.assertEqual(self.run_mhub("help", "ctl", name), 0)
            self.assertEqual(self.out, asked)

    def test_unknown(self) -> None:
        self.assertEqual(self.run_ctl("cleints"), 2)
        self.assertEqual(self.err, 'mhub ctl: no command "cleints"; did you mean "clients"?\n')
        self.assertEqual(self.run_ctl("xyzzy"), 2)
        self.assertEqual(self.err, 'mhub ctl: no command "xyzzy"; `mhub ctl --help` lists all\n')
        self.assertEqual(self.run_ctl("--xyzzy"), 2)

    def test_commands_of_earlier_versions(self) -> None:
        for name in MOVED:
            self.assertIn(name, COMMANDS)
            self.assertEqual(self.run_mhub(name, "--help"), 2)
            self.assertEqual((self.out, self.err), ("", f"mhub: it is `mhub ctl {name}` now\n"))
