"""SIGHUP: what has changed in a file, what of it is taken, and which certificates end soon."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mhub.config import Settings, TlsSettings, parse
from mhub.config.certificates import expiry
from mhub.config.changes import changes
from mhub.config.reference import all_keys
from mhub.config.reloadable import RELOADABLE, merged, needs_restart
from mhub.process.reload import Change, Reload, ReloadRefused
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
    def test_what_can_be_taken_and_nothing_else(self) -> None:
        old = settings("")
        new = settings(
            "[log]\nlevel = 'warn'\n[limits]\nmax_qos = 1\nmax_sessions = 7\n"
            "[[listeners]]\nport = 7\n[passwords]\nthreads = 3\nmax_queued = 5\n"
            "[store]\nkind = 'memory'\n[control]\npath = 'x'\n"
        )
        found = merged(old, new)
        self.assertEqual((found.log, found.limits, found.broker), (new.log, new.limits, new.broker))
        self.assertEqual(found.listeners, new.listeners)
        self.assertEqual((found.store, found.control), (old.store, old.control))
        self.assertEqual(found.passwords, replace(old.passwords, max_queued=5))
        self.assertEqual(
            changes(found, new),
            ["store.kind", "passwords.threads", "control.path"],
        )

    def test_a_table_that_comes_or_goes(self) -> None:
        """A broker does not become a node, nor a node a broker alone."""
        node = settings(f"[cluster]\nname = 'c'\nnode = 'a'\nsecret = '{'s' * 32}'\n")
        alone = settings("")
        self.assertIsNone(merged(alone, node).cluster)
        self.assertEqual(merged(node, alone).cluster, node.cluster)
        self.assertEqual(changes(merged(alone, node), node), ["cluster"])
        ruled = settings("[access]\nsubscribe = 'receive'\n")
        self.assertEqual(merged(alone, ruled).access, ruled.access)
        self.assertIsNone(merged(ruled, alone).access)

    def test_a_cluster(self) -> None:
        text = "[cluster]\nname = 'c'\nnode = 'a'\nsecret = '{}'\npeers = ['{}']\nport = {}\n"
        old = settings(text.format("s" * 32, "h:1", 7))
        new = settings(text.format("t" * 32, "i:2", 8))
        found = merged(old, new)
        assert found.cluster is not None and old.cluster is not None
        self.assertEqual(found.cluster, replace(old.cluster, secret="t" * 32, peers=("i:2",)))
        self.assertEqual(changes(found, new), ["cluster.port"])

    def test_every_key_is_told_of_once(self) -> None:
        """Each key of the table is a key of the file, and none stands below another one."""
        known = set(all_keys())
        for key in RELOADABLE:
            self.assertIn(key, known)
            self.assertFalse([other for other in RELOADABLE if key.startswith(other + ".")], key)
        self.assertTrue(needs_restart("store.path"))
        self.assertTrue(needs_restart("passwords"))
        self.assertFalse(needs_restart("listeners[0].tls.key"))


class Recorder:
    """A part that notes what is asked of it."""

    def __init__(self, name: str, notes: list[str], error: Exception | None = None) -> None:
        self.name = name
        self.notes = notes
        self.error = error

    async def prepare(self, old: Settings, new: Settings) -> Change:
        if self.error is not None:
            raise self.error
        self.notes.append(f"prepare {self.name}")
        return Change(
            lambda: self.notes.append(f"apply {self.name}"),
            lambda: self.notes.append(f"discard {self.name}"),
        )


class Refusal(Exception):
    pass


class ReloadTests(SynchronousTestCase):
    """The engine, with parts that only note what they are told."""

    def setUp(self) -> None:
        self.notes: list[str] = []
        self.file = ""
        self.reload = Reload(settings(""), self.read, (Refusal,))

    async def read(self) -> Settings:
        return settings(self.file)

    def add_parts(self, failing: str = "", error: Exception | None = None) -> list[str]:
        names = sorted({name for name, _ in RELOADABLE.values()})
        for name in names:
            self.reload.add(Recorder(name, self.notes, error if name == failing else None))
        return names

    def run_reload(self) -> Deferred[Any]:
        return Deferred.fromCoroutine(self.reload.run())

    def test_all_are_prepared_before_the_first_is_applied(self) -> None:
        names = self.add_parts()
        self.file = "[limits]\nmax_qos = 1\n[store]\nretry_s = 9\n"
        result = self.successResultOf(self.run_reload())
        self.assertEqual(
            self.notes, [*(f"prepare {name}" for name in names), *(f"apply {n}" for n in names)]
        )
        self.assertEqual(result.in_force, ("limits.max_qos",))
        self.assertEqual(result.needs_restart, ("store.retry_s",))
        self.assertEqual(self.reload.settings.limits.max_qos, 1)
        self.assertEqual(self.reload.needs_restart(), ("store.retry_s",))

    def test_one_that_fails_undoes_all(self) -> None:
        names = self.add_parts(failing="log", error=Refusal("the disk is full"))
        before = self.reload.settings
        self.file = "[limits]\nmax_qos = 1\n"
        error = self.failureResultOf(self.run_reload(), ReloadRefused).value
        self.assertEqual(str(error), "the disk is full")
        done = names[: names.index("log")]
        self.assertEqual(
            self.notes, [*(f"prepare {name}" for name in done), *(f"discard {n}" for n in done)]
        )
        self.assertIs(self.reload.settings, before)
        self.assertEqual(self.reload.needs_restart(), ())

    def test_a_defect_is_a_refusal(self) -> None:
        self.add_parts(failing="log", error=KeyError("x"))
        self.failureResultOf(self.run_reload(), ReloadRefused)
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)
        self.assertNotIn("apply access", self.notes)

    def test_a_mistake_in_the_file(self) -> None:
        self.add_parts()
        self.file = "[limits]\nmax_qso = 1\n"
        error = self.failureResultOf(self.run_reload(), ReloadRefused).value
        self.assertIn("x.toml:2: limits.max_qso: unknown key", str(error))
        self.assertEqual(self.notes, [])

    def test_a_part_is_missing(self) -> None:
        error = self.failureResultOf(self.run_reload(), ReloadRefused).value
        self.assertIn("cannot reload", str(error))

    def test_one_at_a_time(self) -> None:
        """The second waits for the first, and reads the file after it."""
        self.add_parts()
        waiting: list[Deferred[Settings]] = []

        async def read() -> Settings:
            waiting.append(Deferred())
            return await waiting[-1]

        self.reload._read = read
        one, two = self.run_reload(), self.run_reload()
        self.assertEqual(len(waiting), 1)
        waiting[0].callback(settings("[limits]\nmax_qos = 1\n"))
        self.assertEqual(self.successResultOf(one).in_force, ("limits.max_qos",))
        self.assertNoResult(two)
        waiting[1].callback(settings(""))
        self.assertEqual(self.successResultOf(two).in_force, ("limits.max_qos",))
        self.assertEqual(self.reload.settings.limits.max_qos, 2)

    def test_without_a_file(self) -> None:
        """Certificates and rules are read again all the same."""
        self.reload = Reload(settings(""), None, ())
        names = self.add_parts()
        result = self.successResultOf(self.run_reload())
        self.assertEqual((result.file, result.in_force), ("", ()))
        self.assertEqual(len(self.notes), 2 * len(names))


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
