"""What the dashboard is made of: its size, where it comes from, and its colours.  No browser."""

import gzip
import re
from importlib.resources import files

from twisted.trial.unittest import SynchronousTestCase

from mhub.admin.static import StaticFiles

MOST_FIRST_VIEW = 60 * 1024
MOST_REQUESTS = 20

FIRST_PAGE = "/pages/overview.js"
IMPORT = re.compile(r'^(?:import|export)\s[^;]*?from\s*"([^"]+)"|^import\s*"([^"]+)"', re.M)
DARK = ':root[data-theme="dark"]'

# What stands on what: the text, and what is behind it.
PAIRS = [
    *[("text", each) for each in ("page", "card", "raised", "accent-soft")],
    *[("soft", each) for each in ("page", "card", "raised")],
    *[("accent", each) for each in ("page", "card", "raised", "accent-soft")],
    *[("on-accent", "accent"), ("ok", "ok-soft"), ("warn", "warn-soft"), ("bad", "bad-soft")],
    *[("ok", "card"), ("warn", "card"), ("bad", "card"), ("second", "card"), ("bad", "page")],
]


def imports(name: str, text: str) -> list[str]:
    folder = name.rpartition("/")[0]
    found = []
    for match in IMPORT.finditer(text):
        path = f"{folder}/{match[1] or match[2]}".replace("/./", "/")
        while "/../" in path:
            path = re.sub(r"/[^/]+/\.\./", "/", path, count=1)
        found.append(path)
    return found


class FileTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.files = StaticFiles().files
        self.texts = {
            name: file.data.decode()
            for name, file in self.files.items()
            if name.endswith((".js", ".html", ".css"))
        }

    def closure(self, *names: str) -> set[str]:
        """Scripts, with all that they import before they run."""
        found: set[str] = set()
        left = list(names)
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left += imports(name, self.texts[name])
        return found

    def test_the_first_view_is_small(self) -> None:
        first = self.closure("/app/main.js", FIRST_PAGE)
        first |= {"/index.html", "/style.css", "/icon.svg"}
        size = sum(len(gzip.compress(self.files[name].data, 9)) for name in first)
        self.assertLess(size, MOST_FIRST_VIEW)
        self.assertLessEqual(len(first), MOST_REQUESTS)

    def test_scripts_are_loaded_at_once(self) -> None:
        """What the first script imports is named in the document: no chain of requests."""
        preloaded = set(re.findall(r'modulepreload" href="([^"]+)"', self.texts["/index.html"]))
        self.assertEqual(preloaded, self.closure("/app/main.js") - {"/app/main.js"})

    def test_all_imports_exist(self) -> None:
        for name, text in self.texts.items():
            if name.endswith(".js"):
                for path in imports(name, text):
                    self.assertIn(path, self.texts, name)

    def test_nothing_parses_markup_or_comes_from_elsewhere(self) -> None:
        for name, text in self.texts.items():
            for wrong in (
                *("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser"),
                *("eval(", "new Function", "createContextualFragment", "setHTML", "onclick="),
                *("https://", "@import", "url("),
            ):
                self.assertNotIn(wrong, text, name)
            if name.endswith(".js"):
                self.assertNotIn('setAttribute("style"', text, name)
        self.assertNotIn("<style", self.texts["/index.html"])
        self.assertNotRegex(self.texts["/index.html"], r"<script(?![^>]*\bsrc=)")

    def test_all_files_are_packaged(self) -> None:
        there = {
            path.name
            for folder in ("", "app", "pages", "pages/access", "mqtt")
            for path in (files("mhub.admin") / "static" / folder).iterdir()
            if path.name.endswith((".js", ".css", ".html", ".svg"))
        }
        self.assertEqual(there, {name.rpartition("/")[2] for name in self.files})

    def test_contrast(self) -> None:
        """WCAG AA: 4.5 to 1 for text, light and dark; both sets of dark colours are the same."""
        css = self.texts["/style.css"]
        light = _colours(css[: css.index("@media")])
        dark = _colours(css[css.index(DARK) : css.index("*, *::before")])
        self.assertEqual(dark, _colours(css[css.index("@media") : css.index(DARK)]))
        for colours in (light, {**light, **dark}):
            for text, behind in PAIRS:
                ratio = _contrast(colours[text], colours[behind])
                self.assertGreaterEqual(ratio, 4.5, f"{text} on {behind}")


def _colours(css: str) -> dict[str, str]:
    found = re.findall(r"--([\w-]+): #([0-9a-f]{3,6});", css)
    return {
        name: value if len(value) == 6 else "".join(2 * c for c in value) for name, value in found
    }


def _contrast(one: str, other: str) -> float:
    a, b = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (a + 0.05) / (b + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
