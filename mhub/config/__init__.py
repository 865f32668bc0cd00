"""The configuration: a TOML file becomes frozen settings, checked once.

load              a file -> `Settings`, or `ConfigError` with everything that is wrong
settings          the settings, and with each its type, range, default and documentation
limits            the same for `[limits]`, whose values `mhub.core` reads
auth              the same for `[[auth]]`, whose types are plugins, and `[passwords]`
cluster           the same for `[cluster]`
guard             the same for `[guard]`
presence          the same for `[presence]`
listeners         checks of `[[listeners]]` that need more than one key
cluster_checks    such checks of `[cluster]`
auth_checks       such checks of `[[auth]]`; who may come in without proving who they are
certificates      checks of the files that TLS needs
schema            keys, tables and lists
kinds             the types of values
units             "64 KiB" and "1h"
lines             which line sets which key
problems          how a mistake is reported
mosquitto         where the options of mosquitto.conf went
mosquitto_file    reads a mosquitto.conf
mosquitto_values  what its values are here, and which keys simple options become
mosquitto_import  makes a configuration from it, for `mhub import`
reloadable        which keys a reload takes: the one table
view              the settings for people and programs, without secrets
changes           which settings two readings of a file differ in
summary           what a configuration comes to, for `mhub check-config`
reference         the reference in `docs/configuration.md`; `python -m mhub.config` prints it
"""

from mhub.config.cluster import ClusterSettings, ClusterTlsSettings
from mhub.config.guard import GuardSettings
from mhub.config.limits import BrokerLimits
from mhub.config.load import load, parse
from mhub.config.problems import ConfigError, Problem
from mhub.config.settings import (
    ControlSettings,
    ListenerSettings,
    LogSettings,
    NetSettings,
    Settings,
    SniSettings,
    SysSettings,
    TlsSettings,
)

__all__ = [
    "BrokerLimits",
    "ClusterSettings",
    "ClusterTlsSettings",
    "ConfigError",
    "ControlSettings",
    "GuardSettings",
    "ListenerSettings",
    "LogSettings",
    "NetSettings",
    "Problem",
    "Settings",
    "SniSettings",
    "SysSettings",
    "TlsSettings",
    "load",
    "parse",
]
