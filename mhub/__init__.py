"""mhub: an MQTT broker on Twisted.

The packages; `docs/architecture.md` walks a message through them.

    wire      bytes <-> packets                          sans-I/O, compiled
    core      sessions, routing, retained, wills         sans-I/O, compiled
    net       sockets <-> core
    config    TOML -> settings, checked once
    tap       everything is wired there, for `mhub run` and `twistd mhub`
    process   `mhub run`, signals, reload, open files
    cli       the `mhub` command
    bench     `mhub bench`, a load generator for any MQTT broker
    build     which build runs: compiled or pure
"""

from typing import Final

__version__: Final = "0.1.0"
