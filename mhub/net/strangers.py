"""What is said of those who do not speak MQTT: what they sent, and which listener they may want."""

from collections.abc import Sequence

from mhub.config import ListenerSettings
from mhub.net import sniff


class Strangers:
    def __init__(self, listeners: Sequence[ListenerSettings]) -> None:
        self.listeners = listeners

    def describe(self, data: bytes) -> str:
        """The first bytes of a connection in words, with a hint for whoever runs that client."""
        return f"{sniff.describe(data)}{self._hint(sniff.kind(data))}"

    def _hint(self, kind: str) -> str:
        wanted = {sniff.TLS: ("tls", "wss"), sniff.HTTP: ("ws", "wss")}.get(kind, ())
        if not wanted:
            return ""
        found = [f"{s.name} ({s.address})" for s in self.listeners if s.transport in wanted]
        if found:
            return "; use listener " + " or ".join(found)
        return f'; no listener has transport = "{wanted[0]}"'
