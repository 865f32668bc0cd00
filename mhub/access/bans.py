"""Bans of users, client ids and addresses, and what the broker has locked out itself."""

from typing import Final
from unicodedata import normalize

from mhub.access.announce import announced
from mhub.access.entries import (
    BAN,
    LOCKOUT,
    LOGIN,
    USER,
    Ban,
    EntryError,
    ban_key,
    changed,
    lockout_key,
    split_key,
)
from mhub.access.results import BanPage, Changed
from mhub.access.table import MOST, Table, checked, page_limit
from mhub.operations.contract import BadArgument, NotThere

PREFIXES: Final = {"all": (BAN, LOCKOUT), "ban": (BAN,), "lockout": (LOCKOUT,)}


class Bans:
    def __init__(self, table: Table) -> None:
        self._table = table

    def page(
        self, kind: str = "", after: str = "", limit: int = MOST, what: str = "all"
    ) -> BanPage:
        """Bans, and users and addresses that are locked out after failed logins; or one of both."""
        registry = self._table.registry
        if what not in PREFIXES:
            raise BadArgument(f"what: expected one of {', '.join(PREFIXES)}")
        keys = [
            key
            for prefix in PREFIXES[what]
            for key in registry.keys(prefix, after)
            if not kind or split_key(key)[0] == kind
        ]
        page = [
            self._table.ban_summary(entry)
            for key in keys[: page_limit(limit)]
            if (entry := registry.get(key)) is not None
        ]
        left = len(keys) - len(page)
        return BanPage(tuple(page), left, registry.revision, page[-1].key if left else "")

    @announced("bans.add", "kind", "value")
    async def add(
        self,
        kind: str,
        value: str,
        reason: str = "",
        until: float = 0.0,
        by: str = "",
        expected: str = "",
    ) -> Changed:
        """`until`: seconds since 1970; 0: for ever.  A ban that is there is replaced."""
        value = self._spelt(kind, value)
        key = checked(lambda _: ban_key(kind, value), "")
        entry = self._table.registry.get(key)
        if expected:
            self._table.check_version(entry, expected, key)
        now = self._table.time_of_day()
        if until and until <= now:
            raise BadArgument("the ban would be over already")
        values = {"reason": reason, "until": until, "by": by, "created_at": round(now, 3)}
        try:
            ban = changed(Ban(), key, values)
        except EntryError as error:
            raise BadArgument(str(error)) from None
        return await self._table.put(key, ban, entry.hlc if entry is not None else 0)

    @announced("bans.remove", "kind", "value")
    async def remove(
        self, kind: str, value: str, what: str = "all", by: str = "", reason: str = ""
    ) -> Changed:
        """A ban and a lock-out, whichever there is, or one of both (`what`).

        LOGIN: a user at an address, `ADDRESS NAME`.
        """
        value = self._spelt(kind, value)
        if what not in PREFIXES:
            raise BadArgument(f"what: expected one of {', '.join(PREFIXES)}")
        keys = [] if what == "ban" else [checked(lambda _: lockout_key(kind, value), "")]
        if kind != LOGIN and what != "lockout":
            keys.append(checked(lambda _: ban_key(kind, value), ""))
        found = [entry for each in keys if (entry := self._table.registry.get(each)) is not None]
        if not found:
            raise NotThere(
                f'there is no {"lock-out" if what == "lockout" else "ban"} of the {kind} "{value}"'
                + self._table.meant(value, f"{BAN}{kind}/")
            )
        seen = {entry.key: entry.hlc for entry in found}
        return await self._table.change({entry.key: None for entry in found}, seen)

    def _spelt(self, kind: str, value: str) -> str:
        """The name of a user as it is proved.

        It need not be one of the registry's, and what SASLprep makes of a name that others know may
        be somebody else's.  So it is as it is written, but for accents that stand apart.
        """
        if kind != "user" or self._table.registry.get(USER + value) is not None:
            return value
        name = normalize("NFC", value)
        return name if self._table.registry.get(USER + name) is not None else value
