"""SIGHUP: what has changed in a file, what of it is taken, and which certificates end soon."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from twisted.trial.unittest import SynchronousTestCase

from mhub.config import Settings, TlsSettings, parse
from mhub.config.certificates import expiry
from mhub.config.changes import changes
from mhub.process.reload import merged
from tests.helpers.certificates import Authority

LISTENERS = '[[listeners]]\nname = "a"\n[[listeners]]\nname = "b"\nport = 2\n'


def settings(text: str) -> Settings:
    return parse(text, "x.toml")


class ChangesTests(SynchronousTestCase):
    def check(self, old: str, new: str, *keys: str) -> None:
        self.assertEqual(changes(settings(old), settings(new)), list(keys))
        self.assertEqual(changes(settings(new), settings(old)), list(keys))

    def test_none(self) -> None:
        """Also if a value is left out that is the default, or written in another way."""
        self.check("", "")
        self.check("", "[limits]\nmax_qos = 2\n[store]\nkind = 'sqlite'\n")
        self.check("[limits]\nmax_packet_size = 65536", "[limits]\nmax_packet_size = '64 KiB'")

    def test_each_table(self) -> None:
        self.check("", "[limits]\nmax_qos = 1", "limits.max_qos")
        self.check("", "[limits]\nmax_connections = 1", "limits.max_connections")
        self.check("", "[store]\npath = 'x'\nretry_s = 3", "store.path", "store.retry_s")
        self.check("", "[sys]\ninterval_s = 1", "sys.interval_s")
        self.check("", "[net]\nportion = 1\n[log]\nlevel = 'warn'", "net.portion", "log.level")
        self.check("", "[control]\npath = 'x'", "control.path")
        redis = "[store]\nkind = 'redis'\n"
        self.check(redis, redis + "redis.password = 'x'", "store.redis.password")

    def test_a_table_that_comes_or_goes(self) -> None:
        cluster = f"[cluster]\nname = 'c'\nnode = 'a'\nsecret = '{'s' * 32}'\n"
        self.check("", cluster, "cluster")
        self.check(cluster, cluster + "peers = ['h:1']\nport = 1", "cluster.port", "cluster.peers")

    def test_listeners(self) -> None:
        self.check("", LISTENERS, "listeners")
        other = LISTENERS.replace("port = 2", "port = 3\nmax_connections = 9")
        self.check(LISTENERS, other, "listeners[1].port", "listeners[1].max_connections")

    def test_limits_of_listeners(self) -> None:
        """What [limits] says is named there, and not once more for each listener."""
        one = LISTENERS + "max_qos = 1\n"
        self.check(LISTENERS, one, "listeners[1].max_qos")
        self.check(LISTENERS, "[limits]\nmax_qos = 0\n" + LISTENERS, "limits.max_qos")
        self.check(one, "[limits]\nmax_qos = 0\n" + one, "limits.max_qos")

    def test_certificates(self) -> None:
        base = settings(LISTENERS)
        keys = TlsSettings("a.crt", "a.key")
        first = replace(base, listeners=(replace(base.listeners[0], tls=keys),))
        other = replace(first.listeners[0], tls=replace(keys, key="b.key", min_version="1.3"))
        self.assertEqual(
            changes(first, replace(base, listeners=(other,))),
            ["listeners[0].tls.key", "listeners[0].tls.min_version"],
        )


class MergedTests(SynchronousTestCase):
    def test_the_level_and_nothing_else(self) -> None:
        old = settings("")
        new = settings("[log]\nlevel = 'warn'\n[limits]\nmax_qos = 1\n[[listeners]]\nport = 7")
        self.assertEqual(merged(old, new), replace(old, log=new.log))

    def test_files_of_a_listener(self) -> None:
        """By its name, and not the rules about who may come in."""
        base = settings(LISTENERS)
        one = replace(base.listeners[0], tls=TlsSettings("a.crt", "a.key"))
        tls = TlsSettings("b.crt", "b.key", ca="ca", client_certificate="required", crl="crl")
        old = replace(base, listeners=(one, base.listeners[1]))
        new = replace(base, listeners=(base.listeners[1], replace(one, tls=tls, port=9)))
        [found, plain] = merged(old, new).listeners
        self.assertEqual(found, replace(one, tls=replace(tls, client_certificate="none")))
        self.assertEqual(plain, base.listeners[1])


class ExpiryTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp())
        self.folder.mkdir()
        self.path = self.folder / "a.crt"
        self.made = Authority("Test").issue("a", self.path, self.folder / "a.key", days=30)
        self.ends = self.made.not_valid_after_utc

    def left(self, **left: int) -> str:
        return expiry(str(self.path), self.ends - timedelta(**left))

    def test_soon(self) -> None:
        date = f"{self.ends:%Y-%m-%d}"
        self.assertEqual(self.left(days=14), "")
        self.assertEqual(self.left(days=13, hours=23), f"{self.path} expires on {date}, in 13 days")
        self.assertEqual(self.left(days=1), f"{self.path} expires on {date}, in 1 day")
        self.assertEqual(self.left(hours=23), f"{self.path} expires on {date}, within a day")
        self.assertEqual(self.left(seconds=-1), f"{self.path} expired on {date}")

    def test_those_that_do_not_last_long(self) -> None:
        """A certificate for six days is not always about to expire."""
        whole = Authority("Test").issue("a", self.path, self.folder / "a.key", days=-54)
        self.assertEqual((whole.not_valid_after_utc - whole.not_valid_before_utc).days, 6)
        self.ends = whole.not_valid_after_utc
        self.assertEqual(self.left(days=2), "")
        self.assertIn("in 1 day", self.left(days=1, hours=23))

    def test_the_first_of_a_chain(self) -> None:
        other = Authority("Test").issue("b", self.path, self.folder / "b.key", days=3)
        pem = [each.public_bytes(Encoding.PEM) for each in (self.made, other)]
        self.path.write_bytes(b"".join(pem))
        self.assertEqual(len(x509.load_pem_x509_certificates(self.path.read_bytes())), 2)
        self.assertIn("expired on", expiry(str(self.path), self.ends - timedelta(days=20)))

    def test_no_certificate(self) -> None:
        self.path.write_text("nothing")
        self.assertEqual(self.left(days=-1), "")
        self.path.unlink()
        self.assertEqual(self.left(days=-1), "")
