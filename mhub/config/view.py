"""The settings as a nested mapping for those who ask for the configuration, without secrets.

What is secret is a matter of the kind of a value (`mhub.config.kinds.Secret`), and nothing is shown
by another way than this one.
"""

from dataclasses import fields, is_dataclass
from typing import Any, Final

from mhub.config.auth import COMMON, SourceSettings
from mhub.config.limits import LIMIT_KEYS
from mhub.config.schema import Key, keys_of
from mhub.config.settings import ListenerSettings, Settings

Shown = dict[str, object]

_APART: Final = ("file", "listeners", "limits", "broker", "auth", "warnings", "lines")


def shown(settings: Settings) -> Shown:
    """All tables, in the form of the file: `{"limits": {"max_qos": 2, ...}, "listeners": [...]}`.

    Durations are seconds, sizes are bytes.  A table that the file does not have and that has no
    defaults, as `[cluster]`, is None.
    """
    limits = _of_keys(settings.limits, LIMIT_KEYS)
    found: Shown = {
        "listeners": [_listener(each) for each in settings.listeners],
        "limits": _table(settings.broker) | limits,
        "auth": [_source(each) for each in settings.auth],
    }
    for each in fields(settings):
        if each.name not in _APART:
            value = getattr(settings, each.name)
            found[each.name] = None if value is None else _table(value)
    return found


def _table(value: Any) -> Shown:
    return _of_keys(value, keys_of(value))


def _of_keys(value: Any, keys: dict[str, Key[Any]]) -> Shown:
    return {name: _show(getattr(value, name), key) for name, key in keys.items()}


def _show(value: object, key: Key[Any]) -> object:
    if is_dataclass(value):
        return _table(value)
    if isinstance(value, tuple) and any(is_dataclass(each) for each in value):
        return [_table(each) for each in value]
    shown = None if value is None else key.kind.redacted(value)
    return list(shown) if isinstance(shown, tuple) else shown


def _listener(listener: ListenerSettings) -> Shown:
    """With the limits that its clients have, be they its own or those of `[limits]`."""
    return _table(listener) | listener_limits(listener)


def listener_limits(listener: ListenerSettings) -> Shown:
    """What its clients may do."""
    return _of_keys(listener.limits, LIMIT_KEYS)


def _source(source: SourceSettings) -> Shown:
    options = {} if source.options is None else _table(source.options)
    return _of_keys(source, dict(COMMON)) | options
