"""Bans: entries `ban/KIND/VALUE` of the registry, and who is hit by them.

KIND is `user` (who has proved to be it), `client` (the client id) or `address` (also a network).
A ban ends at `until`, in seconds since 1970; 0 is never.
"""

import json
from typing import Final

from mhub.auth.addresses import (
    Networks,
    host_of,
    parse_address,
    parse_network,
)
from mhub.core.principal import Principal

PREFIX: Final = "ban/"
USER: Final = "user"
CLIENT: Final = "client"
ADDRESS: Final = "address"
KINDS: Final = (USER, CLIENT, ADDRESS)


def ban_value(reason: str, until: float, by: str, created_at: float) -> str:
    """A ban as the registry keeps it; those of operators `mhub.access` makes."""
    fields = {"reason": reason, "until": until, "by": by, "created_at": created_at}
    return json.dumps(fields, ensure_ascii=False)


class Ban:
    def __init__(self, kind: str, value: str, text: str) -> None:
        """`text` is JSON.  What cannot be read in it is taken for a ban without an end."""
        self.kind = kind
        self.value = value
        fields = _fields(text)
        reason, by, until = fields.get("reason"), fields.get("by"), fields.get("until")
        self.reason = reason if isinstance(reason, str) else ""
        self.by = by if isinstance(by, str) else ""
        is_time = isinstance(until, (int, float)) and not isinstance(until, bool)
        try:
            self.until = float(until) if is_time else 0.0  # type: ignore[arg-type]
        except OverflowError:
            self.until = 0.0

    @property
    def key(self) -> str:
        return f"{PREFIX}{self.kind}/{self.value}"

    def is_over(self, now: float) -> bool:
        return self.until != 0.0 and self.until <= now

    def show(self) -> str:
        """For the log."""
        name = {USER: "user", CLIENT: "client id", ADDRESS: "address"}[self.kind]
        reason = f": {self.reason}" if self.reason else ""
        return f"{name} {self.value!r} is banned{reason}"


class Bans:
    """All bans, found by what they are of."""

    def __init__(self) -> None:
        self.all: dict[str, Ban] = {}
        self._users: dict[str, Ban] = {}
        self._clients: dict[str, Ban] = {}
        self._networks: Networks[Ban] = Networks()

    def put(self, key: str, text: str | None) -> Ban | None:
        """An entry of the registry has changed; None: it is gone.  The ban, if it is one.

        Raises ValueError for an entry that no ban can be made from.
        """
        kind, _, value = key.removeprefix(PREFIX).partition("/")
        if kind not in KINDS or not value:
            raise ValueError(f"{key}: not the key of a ban")
        network = parse_network(value, strict=False) if kind == ADDRESS else None
        if text is None:
            self.all.pop(key, None)
            if network is not None:
                self._networks.remove(network)
            else:
                self._named(kind).pop(value, None)
            return None
        ban = Ban(kind, value, text)
        self.all[key] = ban
        if network is not None:
            self._networks.put(network, ban)
        else:
            self._named(kind)[value] = ban
        return ban

    def find(self, principal: Principal, now: float) -> Ban | None:
        """The ban that a principal is hit by; its user counts if that is proved."""
        if not self.all:
            return None
        ban = self._clients.get(principal.client_id)
        if ban is not None and not ban.is_over(now):
            return ban
        ban = self._users.get(principal.user) if principal.user else None
        if ban is not None and not ban.is_over(now):
            return ban
        if self._networks:
            address = parse_address(host_of(principal.address))
            if address is not None:
                for ban in self._networks.of(address):
                    if not ban.is_over(now):
                        return ban
        return None

    def are_of_clients(self) -> bool:
        """Whether all are of client ids, so that nobody else need be looked at."""
        return not self._users and not self._networks

    def over(self, now: float) -> list[str]:
        return [key for key, ban in self.all.items() if ban.is_over(now)]

    def __len__(self) -> int:
        return len(self.all)

    def _named(self, kind: str) -> dict[str, Ban]:
        return self._users if kind == USER else self._clients


def _fields(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
