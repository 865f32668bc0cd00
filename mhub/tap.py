"""`twistd mhub`: the one place where everything is wired.

configuration -> hub (core) -> net service (listeners)
"""

import gc
import secrets
import signal
import sys
import time
from typing import Any

from twisted.application.service import MultiService
from twisted.python import usage

from mhub import __version__, build
from mhub.auth.scram import METHOD, ScramMethod
from mhub.config import ConfigError, Settings, load, parse
from mhub.core.hub import Hub, HubSettings
from mhub.log import logger, set_level
from mhub.net.listen import ListenError
from mhub.net.report import Report
from mhub.net.service import NetService
from mhub.net.tls import TlsError


class Options(usage.Options):
    """The command line of `twistd mhub`."""

    synopsis = "[--config FILE]"
    longdesc = "An MQTT broker. Without a configuration it listens on 127.0.0.1:1883."
    optParameters = (
        ("config", "c", None, "The configuration, a TOML file (docs/configuration.md)."),
    )

    def opt_version(self) -> None:
        """Show the version and which build runs, and exit."""
        print(build.describe())
        sys.exit(0)


def hub_settings(settings: Settings) -> HubSettings:
    wanted = HubSettings()
    wanted.version = __version__
    wanted.route_cache_size = settings.broker.route_cache_size
    wanted.max_retained_messages = settings.broker.max_retained_messages
    wanted.max_retained_bytes = settings.broker.max_retained_bytes
    wanted.max_topic_levels = settings.broker.max_topic_levels
    wanted.work_per_turn = settings.net.deliveries_per_turn
    wanted.portion = settings.net.portion
    wanted.sys_interval_s = settings.sys.interval_s
    return wanted


class Broker(MultiService):
    """Everything that runs, and what belongs to the process as a whole: log and signals."""

    def __init__(self, settings: Settings, reactor: Any) -> None:
        super().__init__()
        self._log = logger("broker")
        self._reactor = reactor
        self._warnings = settings.warnings
        report = Report(settings.listeners)
        self.hub = Hub(
            hub_settings(settings), report, lambda: secrets.token_hex(10), time.monotonic()
        )
        if settings.auth.scram is not None:
            self.hub.admission.methods[METHOD] = ScramMethod(settings.auth.scram.users_file)
        # Not the reactor's clock, which jumps when the time of day is set.
        self.net = NetService(settings, self.hub, report, reactor, time.monotonic)
        self.net.setServiceParent(self)

    def privilegedStartService(self) -> None:
        try:
            super().privilegedStartService()
        except (ListenError, TlsError) as error:
            sys.exit(str(error))

    def startService(self) -> None:
        # What is there now stays: no garbage collection need look at it again.
        gc.collect()
        gc.freeze()
        self._log.info("{build}", build=build.describe())
        for warning in self._warnings:
            self._log.warn("{warning}", warning=warning)
        super().startService()
        self._reactor.callWhenRunning(self._catch_signals)

    def _catch_signals(self) -> None:
        """In the place of the reactor's handlers: twistd would end by the signal that stops it."""
        signal.signal(signal.SIGHUP, self._on_hangup)
        signal.signal(signal.SIGTERM, self._on_stop)
        signal.signal(signal.SIGINT, self._on_stop)

    def _on_hangup(self, number: int, frame: object) -> None:
        self._reactor.callFromThread(self.net.reload_certificates)

    def _on_stop(self, number: int, frame: object) -> None:
        self._log.info("stopping: {name}", name=signal.Signals(number).name)
        # A second signal ends the process at once, as twistd does it.
        signal.signal(number, signal.SIG_DFL)
        self._reactor.callFromThread(self._reactor.stop)


def makeService(options: Options) -> Broker:
    from twisted.internet import reactor

    try:
        settings = load(options["config"]) if options["config"] else parse("", "no file")
    except ConfigError as error:
        sys.exit(str(error))
    set_level(settings.log.level)
    return Broker(settings, reactor)
