"""Another level of the log for some clients, for a while.

What is known of a client and is at least of its level is logged, whatever the level of the rest is,
and without the limit of lines per second.  There are few such clients, and each for a time that has
an end: somebody looks for a defect, and may forget it.
"""

from typing import Any, Final

from twisted.logger import LogLevel

MOST: Final = 16


class ClientLevels:
    def __init__(self) -> None:
        self.levels: dict[str, Any] = {}  # by client id

    def set(self, client_id: str, level: str) -> None:
        self.levels[client_id] = LogLevel.levelWithName(level)

    def forget(self, client_id: str) -> None:
        self.levels.pop(client_id, None)

    def wants(self, client_id: str, level: Any) -> bool:
        wanted = self.levels.get(client_id)
        return wanted is not None and bool(level >= wanted)


CLIENTS: Final = ClientLevels()
"""Of this process, as the level of the rest is."""
