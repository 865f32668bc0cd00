"""A registry of one node, as far as the guard needs one."""

from collections.abc import Callable


class Entry:
    def __init__(self, key: str, value: str) -> None:
        self.key = key
        self.value = value


class FakeRegistry:
    def __init__(self) -> None:
        self.table: dict[str, str] = {}
        self.watchers: list[Callable[[list[str]], None]] = []
        self.changes: list[dict[str, str | None]] = []
        self.others: list[FakeRegistry] = []

    def get(self, key: str) -> Entry | None:
        value = self.table.get(key)
        return None if value is None else Entry(key, value)

    def items(self, prefix: str) -> list[Entry]:
        return [Entry(key, self.table[key]) for key in sorted(self.table) if key.startswith(prefix)]

    def change(self, values: dict[str, str | None], now: float) -> None:
        self.changes.append(dict(values))
        for registry in (self, *self.others):
            for key, value in values.items():
                if value is None:
                    registry.table.pop(key, None)
                else:
                    registry.table[key] = value
            for watcher in registry.watchers:
                watcher(list(values))
