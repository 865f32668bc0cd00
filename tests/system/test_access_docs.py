"""docs/access.md, as a reader would go through it: each command is run, and prints what it says."""

from tests.system.pages import DOCS, PageCase, blocks

FACTORY = DOCS / "examples" / "factory"


class AccessPageTests(PageCase):
    def test_files_are_as_the_page_shows_them(self) -> None:
        text = (DOCS / "access.md").read_text("utf-8")
        self.assertIn(blocks(text, "toml")[0], (FACTORY / "mhub.toml").read_text("utf-8"))
        self.assertEqual(blocks(text, "csv")[0], (FACTORY / "policy.csv").read_text("utf-8"))

    def test_commands_do_what_the_page_says(self) -> None:
        self.run_page("access.md", FACTORY, "1883")
