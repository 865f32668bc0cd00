"""What happened, line by line with the time: every packet of every client, and what befell nodes.

A run with `--keep` writes it beside the stores and logs of nodes, so that of a message that is lost
one can see who had it last.
"""

import time
from pathlib import Path

from tests.helpers import packets as p
from tests.helpers.packets import Packet

TOLD = range(3, 8)
"""Types of packets that clients send about messages: PUBLISH to PUBCOMP."""

SHOWN = 12
"""So much of a payload tells which message it is."""


class Trace:
    def __init__(self, path: Path | None = None) -> None:
        self._file = path.open("w", buffering=1 << 16) if path is not None else None

    def note(self, who: str, text: str) -> None:
        if self._file is not None:
            now = time.time()
            clock = time.strftime("%H:%M:%S", time.localtime(now))
            self._file.write(f"{clock}.{int(now % 1 * 1000):03} {who} {text}\n")

    def sent(self, who: str, data: bytes, version: int = 4) -> None:
        """One packet, as it goes out."""
        if self._file is not None and data[0] >> 4 in TOLD:
            self.note(who, f"-> {_brief(p.decode(*p.split(data), version))}")

    def came(self, who: str, packet: Packet) -> None:
        if self._file is not None:
            self.note(who, f"<- {_brief(packet)}")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _brief(packet: Packet) -> str:
    text = packet.type
    if packet.pid is not None:
        text += f" {packet.pid}"
    if packet.type == "PUBLISH":
        text += f" dup={packet.dup:d} qos={packet.qos} {packet.payload[:SHOWN].decode()}"
    if packet.type == "CONNACK":
        text += f" reason={packet.reason} present={packet.session_present:d}"
    return text
