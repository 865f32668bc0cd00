"""docs/admin-api.md is what the endpoints are."""

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mhub.admin.openapi import document
from mhub.admin.reference import update
from mhub.admin.resources import ENDPOINTS

PAGE = Path(__file__).parent.parent / "docs" / "admin-api.md"


class AdminDocsTests(SynchronousTestCase):
    def test_reference(self) -> None:
        text = PAGE.read_text("utf-8")
        self.assertEqual(
            update(text, document(ENDPOINTS)),
            text,
            "python -m mhub.admin --write docs/admin-api.md makes it anew",
        )
