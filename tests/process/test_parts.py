"""What a reload changes in the hub, the log and the admin listener."""

from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import LogLevel
from twisted.trial.unittest import SynchronousTestCase

from mhub.config import Settings, parse
from mhub.log import level, set_level, set_rate_limit
from mhub.log.destination import Destination, LogError
from mhub.process.hub_settings import hub_settings
from mhub.process.parts import ClusterPart, LimitsPart, LogPart
from tests.core.world import World


def settings(text: str) -> Settings:
    return parse(text, "x.toml")


class Net:
    def __init__(self) -> None:
        self.settings: Settings | None = None

    def set_limits(self, settings: Settings) -> None:
        self.settings = settings


class Case(SynchronousTestCase):
    def prepare(self, part: Any, old: Settings, new: Settings) -> Any:
        return self.successResultOf(Deferred.fromCoroutine(part.prepare(old, new)))


class LimitsTests(Case):
    def test_all_plain_numbers(self) -> None:
        """What a start would set, a reload sets as well."""
        world, net = World(), Net()
        hub = world.hub
        new = settings(
            "[limits]\nmax_sessions = 1\nmax_retained_messages = 2\nmax_retained_bytes = 3\n"
            "max_queued_bytes_total = 4\nmax_partial_bytes = 5\nmax_wildcard_patterns = 6\n"
            "route_cache_size = 7\nmax_topic_levels = 8\n[sys]\ninterval_s = 9\n"
            "[net]\ndeliveries_per_turn = 110\nportion = 11\noverload_drift_s = 12\n"
        )
        world.client("c").publish("a/b")
        part = LimitsPart(hub, net, hub_settings)
        self.prepare(part, settings(""), new).apply()
        self.assertEqual(
            (
                hub.max_sessions,
                hub.retained.max_messages,
                hub.retained.max_bytes,
                hub.queues.most_bytes,
                hub.partials.most_bytes,
                hub.router.max_patterns,
                hub.router.cache_size,
                hub.router.max_levels,
                hub.sys.interval_s,
            ),
            (1, 2, 3, 4, 5, 6, 7, 8, 9.0),
        )
        self.assertEqual((hub.work_per_turn, hub.portion, hub.overload.limit_s), (110, 11, 12.0))
        self.assertIs(net.settings, new)

    def test_more_levels_than_a_client_may_use(self) -> None:
        """Whoever may use less than the others is counted from then on."""
        world = World(max_topic_levels=4)
        client = world.client("c", 5)
        self.assertIsNone(client.connection.meter)
        part = LimitsPart(world.hub, Net(), hub_settings)
        new = settings("[[listeners]]\nname = 'x'\nmax_topic_levels = 4\n[limits]\n")
        client.connection.principal.listener = "x"
        self.prepare(part, settings(""), new).apply()
        world.wait(1.0)
        self.assertIsNotNone(client.connection.meter)


class LogTests(Case):
    def setUp(self) -> None:
        self.addCleanup(set_level, level().name)
        self.addCleanup(set_rate_limit, None)
        self.folder = Path(self.mktemp())
        self.folder.mkdir()
        self.world = World()

    def log(self, destination: Destination, text: str) -> None:
        destination(
            {
                "log_time": 1.0,
                "log_level": LogLevel.info,
                "log_namespace": "mhub.x",
                "log_format": "{text}",
                "text": text,
            }
        )

    def to(self, name: str, more: str = "") -> Settings:
        path = (self.folder / name).absolute()
        return settings(f'[log]\nto = "file"\nfile = "{path}"\n{more}')

    def test_another_file(self) -> None:
        old = self.to("one.log")
        new = self.to("two.log", 'format = "json"\nlevel = "error"\nsummary_s = 7\n')
        destination = Destination(old.log)
        part = LogPart(destination, self.world.hub, Clock())
        prepared = self.prepare(part, old, new)
        self.log(destination, "before")
        prepared.apply()
        self.log(destination, "after")
        self.assertIn("info x: before", (self.folder / "one.log").read_text())
        self.assertIn('"message": "after"', (self.folder / "two.log").read_text())
        self.assertEqual(level().name, "error")
        self.assertEqual(self.world.hub.events.interval_s, 7.0)

    def test_one_that_cannot_be_written(self) -> None:
        old, new = self.to("one.log"), self.to("two.log")
        (self.folder / "two.log").mkdir()
        part = LogPart(Destination(old.log), self.world.hub, Clock())
        self.failureResultOf(Deferred.fromCoroutine(part.prepare(old, new)), LogError)

    def test_a_level_that_an_operator_has_set(self) -> None:
        """It stays, unless the file says another one than before."""
        old, new = self.to("one.log"), self.to("one.log", "burst = 7\n")
        part = LogPart(Destination(old.log), self.world.hub, Clock())
        set_level("debug")
        self.prepare(part, old, new).apply()
        self.assertEqual(level().name, "debug")


class OtherTests(Case):
    def test_a_broker_alone(self) -> None:
        self.prepare(ClusterPart(None), settings(""), settings("")).apply()
