"""Reads a mosquitto.conf: which option stands where, and to which listener it belongs.

It follows Mosquitto 2.1: an option is the first word of a line, its value the rest; `#` begins a
comment at the beginning of a line only; `listener` and `connection` begin a listener and a bridge,
and what follows is about them; the files of `include_dir` follow in the order of their names.
What the options mean is for `mhub.config.mosquitto_import`.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mhub.config.mosquitto import BRIDGE_OPTIONS

# About one listener; before the first `listener` line, about the default one.
LISTENER_OPTIONS: Final = frozenset(
    {
        "accept_protocol_versions",
        "bind_address",
        "bind_interface",
        "cafile",
        "capath",
        "certfile",
        "ciphers",
        "ciphers_tls1.3",
        "crlfile",
        "dhparamfile",
        "disable_client_cert_date_checks",
        "enable_proxy_protocol",
        "http_dir",
        "keyfile",
        "listener_allow_anonymous",
        "listener_auto_id_prefix",
        "max_connections",
        "max_qos",
        "max_topic_alias",
        "max_topic_alias_broker",
        "mount_point",
        "plugin_use",
        "port",
        "protocol",
        "proxy_protocol_v2_require_tls",
        "psk_hint",
        "require_certificate",
        "socket_domain",
        "tls_engine",
        "tls_engine_kpass_sha1",
        "tls_keyform",
        "tls_version",
        "use_identity_as_username",
        "use_psk",
        "use_subject_as_username",
        "use_username_as_clientid",
        "websockets_origin",
    }
)

# The same with `per_listener_settings true`; else about all of them.
SECURITY_OPTIONS: Final = frozenset(
    {
        "acl_file",
        "allow_anonymous",
        "allow_zero_length_clientid",
        "auth_plugin",
        "auth_plugin_deny_special_chars",
        "auto_id_prefix",
        "password_file",
        "plugin",
        "psk_file",
    }
)

PREFIXES: Final = ("auth_opt_", "plugin_opt_")
"""What options of plugins begin with."""


class ReadError(Exception):
    """A file that cannot be read; the text names it."""


@dataclass(frozen=True)
class Option:
    name: str
    value: str
    file: str
    line: int

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass
class Listener:
    head: Option  # `listener`, or what began the default one
    is_default: bool
    options: dict[str, list[Option]] = field(default_factory=dict)

    def last(self, name: str) -> Option | None:
        """An option that counts once: the last of its lines."""
        found = self.options.get(name)
        return found[-1] if found else None


@dataclass
class MosquittoFile:
    """All options of a mosquitto.conf and what it includes."""

    files: list[str] = field(default_factory=list)  # in the order in which they were read
    general: dict[str, list[Option]] = field(default_factory=dict)
    listeners: list[Listener] = field(default_factory=list)
    bridges: list[Option] = field(default_factory=list)  # their `connection` lines
    bridge_options: list[Option] = field(default_factory=list)
    per_listener: bool = False
    nested: list[Option] = field(default_factory=list)  # `include_dir` where it has no effect


def read(path: str) -> MosquittoFile:
    """The options of a file; `ReadError` if it, or one that it includes, cannot be read."""
    reader = _Reader()
    reader.read(path, main=True)
    return reader.found


class _Reader:
    def __init__(self) -> None:
        self.found = MosquittoFile()
        self._listener: Listener | None = None

    def read(self, path: str, main: bool) -> None:
        self.found.files.append(path)
        for number, line in enumerate(_text(path).split("\n"), 1):
            words = line.strip().split(None, 1)
            if not words or words[0].startswith("#"):
                continue
            option = Option(words[0], words[1].strip() if len(words) > 1 else "", path, number)
            if option.name == "include_dir":
                if main:
                    self._include(option)
                else:
                    self.found.nested.append(option)
            else:
                self._take(option)

    def _include(self, option: Option) -> None:
        try:
            names = [each.name for each in Path(option.value).iterdir()]
        except OSError as error:
            text = f"{option.place}: cannot read the folder {option.value}: {error.strerror}"
            raise ReadError(text) from None
        # Letter by letter, the upper case of each before its lower case.
        names.sort(key=lambda name: [(sign.lower(), sign) for sign in name])
        for name in names:
            if name.endswith(".conf"):
                self.read(str(Path(option.value) / name), main=False)

    def _take(self, option: Option) -> None:
        found = self.found
        name = option.name
        if name == "listener":
            self._listener = Listener(option, is_default=False)
            found.listeners.append(self._listener)
        elif name == "connection":
            found.bridges.append(option)
        elif name in BRIDGE_OPTIONS:
            found.bridge_options.append(option)
        elif name in LISTENER_OPTIONS or (found.per_listener and _is_security(name)):
            # A second `port` would be the default listener again, wherever it stands.
            is_default = name in ("port", "bind_address")
            listener = self._default(option) if is_default else self._current(option)
            listener.options.setdefault(name, []).append(option)
        else:
            if name == "per_listener_settings":
                found.per_listener = option.value.lower() in ("true", "1")
            found.general.setdefault(name, []).append(option)

    def _current(self, option: Option) -> Listener:
        return self._listener if self._listener is not None else self._default(option)

    def _default(self, option: Option) -> Listener:
        for listener in self.found.listeners:
            if listener.is_default:
                self._listener = listener
                return listener
        self._listener = Listener(option, is_default=True)
        self.found.listeners.append(self._listener)
        return self._listener


def _is_security(name: str) -> bool:
    return name in SECURITY_OPTIONS or name.startswith(PREFIXES)


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise ReadError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ReadError(f"{path}: is not UTF-8: see byte {error.start}") from None
