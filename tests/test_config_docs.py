"""The documentation of the configuration says what the code does."""

import re
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

from twisted.trial.unittest import TestCase

from mhub.auth.users import make_verifier
from mhub.config import load, parse
from mhub.config.mosquitto import OPTIONS
from mhub.config.reference import all_keys, update
from tests.helpers.certificates import Authority
from tests.helpers.users import write_users

DOCS = Path(__file__).absolute().parent.parent / "docs"
EXAMPLES = sorted((DOCS / "examples").glob("*.toml"))


class ReferenceTests(TestCase):
    def setUp(self) -> None:
        self.text = (DOCS / "configuration.md").read_text("utf-8")

    def test_is_made_from_the_code(self) -> None:
        """After a change of a key: python -m mhub.config --write docs/configuration.md"""
        self.assertEqual(self.text, update(self.text))

    def test_names_every_key(self) -> None:
        for key in all_keys():
            name = key.rpartition(".")[2]
            self.assertTrue(
                any(form in self.text for form in (f"| `{name}` |", f"`[{key}]`", f"`[[{key}]]`")),
                key,
            )

    def test_mosquitto_table_names_keys_that_exist(self) -> None:
        named = {key for keys, _ in OPTIONS.values() for key in keys}
        self.assertEqual(named - set(all_keys()), set())

    def test_examples_are_listed(self) -> None:
        for example in EXAMPLES:
            self.assertIn(f"(examples/{example.name})", self.text)


class ExampleTests(TestCase):
    def setUp(self) -> None:
        # Not below the working directory: the path of a Unix socket may have 107 bytes only.
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "certs").mkdir()

    def test_every_example_loads(self) -> None:
        """Without a warning, given the files that it names."""
        self.assertIn("quickstart.toml", [example.name for example in EXAMPLES])
        for example in EXAMPLES:
            self._make_files(example.read_text("utf-8"))
            copy = self.folder / example.name
            copy.write_text(example.read_text("utf-8"))
            self.assertEqual(load(copy).warnings, (), example.name)

    def test_quickstart_is_on_loopback(self) -> None:
        settings = load(DOCS / "examples" / "quickstart.toml")
        self.assertEqual(
            [listener.address for listener in settings.listeners],
            ["mqtt://127.0.0.1:1883", "ws://127.0.0.1:8083/mqtt"],
        )

    def test_snippets_in_the_documentation(self) -> None:
        """The TOML in the documentation loads as well."""
        count = 0
        pages = ("configuration", "authentication", "external-users", "cluster", "limits")
        for page in (f"{name}.md" for name in pages):
            for snippet in re.findall(r"```toml\n(.*?)```", (DOCS / page).read_text("utf-8"), re.S):
                self._make_files(snippet)
                parse(snippet, str(self.folder / page))
                count += 1
        self.assertGreaterEqual(count, 14)

    def _make_files(self, text: str) -> None:
        authority = Authority("Example CA")
        document = tomllib.loads(text)
        cluster = document.get("cluster", {})
        for table in [*document.get("listeners", []), cluster]:
            tls = table.get("tls", {})
            for entry in [tls, *tls.get("sni", [])]:
                if "certificate" in entry:
                    authority.issue(
                        table.get("node", "x"),
                        self.folder / entry["certificate"],
                        self.folder / entry["key"],
                    )
            if "ca" in tls:
                authority.write(self.folder / tls["ca"])
        for table in document.get("auth", []):
            if "ca" in table:
                authority.write(self.folder / table["ca"])
            if "password_file" in table:
                (self.folder / table["password_file"]).write_text("secret")
        if "secret_file" in cluster:
            (self.folder / cluster["secret_file"]).write_text("x" * 32)
        for source in document.get("auth", []):
            if source["type"] == "password-file":
                write_users(self.folder / source["file"], alice=make_verifier("x", 4096))
