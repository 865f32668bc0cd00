"""Which settings differ between two readings of a file, by the names that they have there."""

from dataclasses import fields, is_dataclass
from typing import Any, Final

from mhub.config.auth import SourceSettings
from mhub.config.schema import keys_of
from mhub.config.settings import ListenerSettings, Settings

_APART: Final = ("file", "listeners", "limits", "broker", "warnings", "lines")
"""Fields of Settings that are no table of that name, or compared in another way."""


def changes(old: Settings, new: Settings) -> list[str]:
    """The keys whose values differ, such as `limits.max_qos` and `listeners[0].tls.key`.

    A value that was left out, and one that says the default, are the same.
    """
    found = [
        *_compare(old.broker, new.broker, "limits"),
        *_compare(old.limits, new.limits, "limits"),
    ]
    found += _listeners(old, new)
    for name in (field.name for field in fields(Settings)):
        if name not in _APART:
            found += _compare(getattr(old, name), getattr(new, name), name)
    return found


def _compare(old: Any, new: Any, key: str) -> list[str]:
    if old == new:
        return []
    if isinstance(old, SourceSettings) and isinstance(new, SourceSettings):
        # Its own keys and those of its type stand in one table.
        own = [
            changed
            for name in keys_of(old)
            for changed in _compare(getattr(old, name), getattr(new, name), f"{key}.{name}")
        ]
        return own + _compare(old.options, new.options, key)
    if is_dataclass(old) and type(old) is type(new):
        # Fields that are no keys are made from others, but for Limits, whose fields all are keys.
        names = list(keys_of(old)) or [field.name for field in fields(old)]
        return [
            changed
            for name in names
            for changed in _compare(getattr(old, name), getattr(new, name), f"{key}.{name}")
        ]
    if isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new):
        if all(is_dataclass(each) for each in (*old, *new)):
            return [
                changed
                for index, (one, other) in enumerate(zip(old, new, strict=True))
                for changed in _compare(one, other, f"{key}[{index}]")
            ]
    return [key]


def _listeners(old: Settings, new: Settings) -> list[str]:
    if len(old.listeners) != len(new.listeners):
        return ["listeners"]
    found = []
    for index, (one, other) in enumerate(zip(old.listeners, new.listeners, strict=True)):
        key = f"listeners[{index}]"
        found += _compare(one, other, key)
        for name in (field.name for field in fields(one.limits)):
            if _own(one, old, name) != _own(other, new, name):
                found.append(f"{key}.{name}")
    return found


def _own(listener: ListenerSettings, settings: Settings, name: str) -> object:
    """What a listener has for a limit that is not what [limits] says; None if it is that."""
    value: object = getattr(listener.limits, name)
    return None if value == getattr(settings.limits, name) else (value,)
