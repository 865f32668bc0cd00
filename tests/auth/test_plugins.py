"""Where authenticators come from."""

import runpy
from pathlib import Path

from twisted.plugin import IPlugin
from twisted.trial.unittest import TestCase
from zope.interface.verify import verifyObject

from mhub.auth.contract import IAuthenticatorPlugin
from mhub.auth.plugins import OWN, find

DROP_IN = Path(__file__).parents[2] / "twisted" / "plugins" / "mhub_authenticators.py"


class PluginTests(TestCase):
    def test_twisted_is_shown_all_of_them(self) -> None:
        found = [each for each in runpy.run_path(str(DROP_IN)).values() if IPlugin.providedBy(each)]
        self.assertEqual({each.kind for each in found}, set(OWN))

    def test_each_is_what_it_says(self) -> None:
        for kind, plugin in OWN.items():
            verifyObject(IAuthenticatorPlugin, plugin)
            self.assertIs(find(kind), plugin)
            self.assertTrue(plugin.settings)

    def test_unknown(self) -> None:
        self.assertIsNone(find("no such type"))
