"""docs/http.md, as a reader would go through it: each command is run, and prints what it says."""

from shutil import which

from twisted.trial.unittest import SkipTest

from tests.system.pages import DOCS, PageCase, blocks

FILES = DOCS / "examples" / "http"

WAIT = "for _ in $(seq 300); do grep -q '{what}' events 2>/dev/null && break; sleep 0.1; done"


class HttpPageTests(PageCase):
    def test_the_file_is_as_the_page_shows_it(self) -> None:
        text = (DOCS / "http.md").read_text("utf-8")
        self.assertIn(blocks(text, "toml")[0], (FILES / "mhub.toml").read_text("utf-8"))

    def test_commands_do_what_the_page_says(self) -> None:
        if which("curl") is None or which("jq") is None:
            raise SkipTest("curl or jq is not there: apt-get install curl jq")
        self.run_page("http.md", FILES, "1883", "8088")

    def prepared(self, command: str) -> str:
        """A person takes longer than the broker to look at what has come."""
        if command.endswith("> events &"):
            return f"{command}\n{WAIT.format(what='subscribed')}"
        if command == "cat events":
            return f"{WAIT.format(what='too hot')}\n{command}"
        return command
