"""A command line in this process."""

from tests.test_cli import CliCase


class CtlCase(CliCase):
    def run_ctl(self, *argv: str, stdin: str = "") -> int:
        return self.run_mhub("ctl", *argv, stdin=stdin)
