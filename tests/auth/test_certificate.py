"""Client certificates: the name that TLS has verified, and no other."""

from twisted.trial.unittest import TestCase

from mhub.core.authentication import FAILURE, SUCCESS
from mhub.core.principal import Certificate
from mhub.wire import reasons
from tests.auth.world import World

NAMES = ("dns:pump-7.example.org", "uri:urn:pump:7", "email:a@example.org", "email:b@example.org")


class CertificateTests(TestCase):
    def user(self, identity: str, certificate: Certificate | None, user: str | None = None) -> str:
        self.world = World()
        self.world.add("certificate", identity=identity)
        step = self.world.ask(user, certificate=certificate)
        self.assertEqual(step.outcome, SUCCESS, step.text)
        assert step.identity is not None
        return step.identity.user

    def test_names(self) -> None:
        certificate = Certificate("pump-7", "CN=pump-7,O=Plant", alternative_names=NAMES)
        for identity, user in (
            ("cn", "pump-7"),
            ("subject", "CN=pump-7,O=Plant"),
            ("dns", "pump-7.example.org"),
            ("uri", "urn:pump:7"),
            ("email", ""),  # there are two
        ):
            self.assertEqual(self.user(identity, certificate), user)
            self.assertEqual(self.user(identity, certificate, "admin"), user)

    def test_one_of_several(self) -> None:
        """The client chooses by its user name, among those that are in the certificate."""
        certificate = Certificate("x", alternative_names=NAMES)
        self.assertEqual(self.user("email", certificate, "b@example.org"), "b@example.org")
        self.assertEqual(self.user("email", certificate, "c@example.org"), "")

    def test_none(self) -> None:
        self.assertEqual(self.user("cn", None, "pump-7"), "")
        self.assertEqual(self.user("cn", Certificate("")), "")
        self.assertEqual(self.user("dns", Certificate("pump-7")), "")

    def test_a_common_name_is_not_an_alternative_name(self) -> None:
        self.assertEqual(self.user("dns", Certificate("dns:x", "dns:x")), "")

    def test_control_characters(self) -> None:
        """CR, LF and NUL in a common name, also one that a proxy tells, make no user."""
        for name in ("a\r\nb", "a\nb", "a\0b", "\x1b[2J"):
            world = World()
            world.add("certificate")
            step = world.ask(certificate=Certificate(name))
            self.assertEqual((step.outcome, step.reason), (FAILURE, reasons.NOT_AUTHORIZED))
            self.assertTrue(step.text.isprintable())

    def test_locked_in_the_registry(self) -> None:
        world = World()
        world.add("certificate")
        world.registry.put("user/pump-7", {"locked": True})
        self.assertEqual(world.ask(certificate=Certificate("pump-7")).outcome, FAILURE)
