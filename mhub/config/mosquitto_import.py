"""`mhub import mosquitto.conf`: a configuration for mhub, and a list of what has no counterpart.

    read (mosquitto_file) -> Import, by mosquitto_values -> TOML, with the list as its first comment

An option that means the same here becomes a key; every other one is in the list, with its line and
the reason.  Where Mosquitto's default differs in who may come in or in what is kept, the key is
written out.  Where rules of access get lost, nobody is let in rather than everybody.
"""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from mhub.config.mosquitto import BRIDGES, note_of
from mhub.config.mosquitto_file import Listener, MosquittoFile, Option, ReadError, read
from mhub.config.mosquitto_values import (
    DESTINATIONS,
    GUARDS,
    LEVELS,
    LIMITS,
    LISTENER,
    NO_DESTINATIONS,
    ORDER,
    TLS,
    Mistake,
    boolean,
    integer,
    versions,
)

OK: Final = 0
FAILED: Final = 1

SEVERAL_RULES: Final = (
    "left out: mhub has one set of rules for all listeners; make one with `mhub ctl policy"
    " import-mosquitto`"
)


class Import:
    """What a mosquitto.conf becomes: tables of keys, and remarks about the rest."""

    def __init__(self, found: MosquittoFile) -> None:
        self._found = found
        self._used: set[Option] = set()
        self.remarks: list[tuple[Option, str]] = []
        self.mistakes: list[tuple[Option, str]] = []
        self.general: dict[str, dict[str, object]] = {}
        self.listeners: list[dict[str, object]] = []
        self._auth: dict[tuple[str, str, str], list[str]] = {}  # the listeners of each [[auth]]
        self._broker()
        self.acl_file = self._find_rules()
        for listener in found.listeners:
            self._listener(listener)
        if not self.listeners:
            # Without any, Mosquitto lets everybody on this machine in, and mhub does, too; not so
            # if those of the file were left out.
            local = not found.listeners and self._allow_anonymous(None, True)
            keys: dict[str, object] = {"host": "127.0.0.1", "port": 1883, "allow_anonymous": local}
            self._password_file(None, keys)
            self.listeners.append(keys)
        self._rest()

    # The broker as a whole

    def _last(self, name: str) -> Option | None:
        found = self._found.general.get(name)
        if not found:
            return None
        self._used.update(found)
        return found[-1]

    def _convert(self, option: Option, convert: Callable[[str], Any]) -> Any:
        """The value, or None where it was wrong."""
        self._used.add(option)
        try:
            return convert(option.value)
        except Mistake as mistake:
            self.mistakes.append((option, str(mistake)))
            return None

    def _set(self, table: str, key: str, value: object) -> None:
        if value is not None:
            self.general.setdefault(table, {})[key] = value

    def _broker(self) -> None:
        for name, (keys, convert) in LIMITS.items():
            if (option := self._last(name)) is not None:
                value = self._convert(option, convert)
                for key in keys:
                    self._set("limits", key, value)
        if (option := self._last("max_keepalive")) is not None:
            most = self._convert(option, integer(0, 65535))
            if most:
                self._set("limits", "max_keepalive_s", most)
                self._set("limits", "allow_keepalive_off", False)
                self._remark(option, "3.1 and 3.1.1 clients that ask for more are refused here")
        if (option := self._last("sys_interval")) is not None:
            self._set("sys", "interval_s", self._convert(option, integer(0, 65535)))
        self._store()
        self._log()

    def _store(self) -> None:
        option = self._last("persistence") or self._last("retained_persistence")
        persists = option is not None and bool(self._convert(option, boolean))
        self._set("store", "kind", "sqlite" if persists else "memory")
        place = self._last("persistence_location")
        if place is not None and persists:
            self._set("store", "path", str(Path(place.value) / "mhub.sqlite"))
            self._remark(place, "what mosquitto.db holds is not taken over")
        elif place is not None:
            self._remark(place, "nothing is kept there, as persistence is off")
        if (name := self._last("persistence_file")) is not None:
            self._remark(name, "mhub.sqlite; it is another kind of file")

    def _log(self) -> None:
        levels = []
        for option in self._found.general.get("log_type", []):
            self._used.add(option)
            for word in option.value.split():
                if word in LEVELS:
                    levels.append(LEVELS[word])
                else:
                    self.mistakes.append((option, f'"{word}" is no type of message'))
        level = min(levels, key=ORDER.index) if levels else None
        if (messages := self._last("connection_messages")) is not None:
            if self._convert(messages, boolean) is False:
                level = max(level or "info", "warn", key=ORDER.index)
        self._set("log", "level", level)
        self._log_destination()

    def _log_destination(self) -> None:
        """There is one here: the last that has a counterpart."""
        chosen: Option | None = None
        keys: dict[str, object] = {}
        for option in self._found.general.get("log_dest", []):
            self._used.add(option)
            word, _, rest = option.value.partition(" ")
            if word in NO_DESTINATIONS:
                self._remark(option, f"there is no {word} for the log here")
                continue
            if word not in DESTINATIONS or (word == "file") != bool(rest.strip()):
                self.mistakes.append((option, f'"{option.value}" is no place for a log'))
                continue
            if chosen is not None:
                self._remark(chosen, "the log goes to one place: see the last one")
            chosen = option
            keys = {"to": word}
            if word == "file":
                keys["file"] = rest.strip()
        facility = self._last("log_facility")
        if facility is not None:
            number = self._convert(facility, integer(0, 7))
            if number is not None and keys.get("to") == "syslog":
                keys["facility"] = f"local{number}"
            elif number is not None:
                self._remark(facility, "the log does not go to syslog")
        for key, value in keys.items():
            self._set("log", key, value)

    # Listeners

    def _listener(self, listener: Listener) -> None:
        hint = listener.last("psk_hint") or listener.last("use_psk")
        if hint is not None and listener.last("certfile") is None:
            self._remark(
                hint,
                f"the listener of line {listener.head.line} is left out: it has no"
                " certificate, and there are no pre-shared keys here",
            )
            for options in listener.options.values():
                self._used.update(options)
            return
        keys: dict[str, object] = {}
        if not self._address(listener, keys):
            for options in listener.options.values():
                self._used.update(options)
            return
        self._transport(listener, keys)
        self._password_file(listener, keys)
        for name, (key, convert) in LISTENER.items():
            if (option := listener.last(name)) is not None:
                value = self._convert(option, convert)
                if value is not None and not (key == "max_connections" and value == 0):
                    keys[key] = value
        if (option := listener.last("accept_protocol_versions")) is not None:
            keys["versions"] = self._convert(option, versions)
        if (option := listener.last("enable_proxy_protocol")) is not None:
            keys["proxy_protocol"] = self._convert(option, integer(1, 2)) is not None
        if keys.get("transport") != "unix":
            nodelay = self._last("set_tcp_nodelay")
            if nodelay is not None and self._convert(nodelay, boolean) is False:
                keys["tcp_nodelay"] = False
            if (option := listener.last("bind_interface")) is not None:
                keys["bind_interface"] = self._convert(option, str)
        if (option := listener.last("use_username_as_clientid")) is not None:
            if self._convert(option, boolean):
                if self._is_asked(keys):
                    keys["username_as_client_id"] = True
                else:
                    self._remark(option, "nobody proves to be who a user name says")
        keys["allow_anonymous"] = self._allow_anonymous(listener, False)
        if keys["allow_anonymous"] and keys.pop("username_as_client_id", False):
            self._remark(listener.head, "username_as_client_id needs allow_anonymous = false")
        for options in listener.options.values():
            for option in options:
                if option not in self._used:
                    self._explain(option)
        self.listeners.append({key: value for key, value in keys.items() if value is not None})

    def _address(self, listener: Listener, keys: dict[str, object]) -> bool:
        """Whether it has one."""
        head = listener.head
        if listener.is_default:
            port, bound = listener.last("port"), listener.last("bind_address")
            keys["host"] = self._host(bound, bound.value if bound else "", listener)
            keys["port"] = 1883 if port is None else self._convert(port, integer(1, 65535))
            if bound is not None:
                self._used.add(bound)
            return keys["port"] is not None
        words = head.value.split(None, 1)
        self._used.add(head)
        try:
            port_number = integer(0, 65535)(words[0] if words else "")
        except Mistake as mistake:
            self.mistakes.append((head, str(mistake)))
            return False
        where = words[1] if len(words) > 1 else ""
        if port_number == 0:
            keys["transport"] = "unix"
            keys["path"] = where
            if not where:
                self.mistakes.append((head, "port 0 needs the path of a Unix socket"))
            return bool(where)
        keys["host"] = self._host(head, where, listener)
        keys["port"] = port_number
        return True

    def _host(self, option: Option | None, host: str, listener: Listener) -> str:
        """An address; Mosquitto takes names as well, and without any listens everywhere."""
        domain = listener.last("socket_domain")
        if domain is not None:
            self._used.add(domain)
        if not host:
            return "0.0.0.0" if domain is not None and domain.value == "ipv4" else "::"
        if host == "localhost":
            return "127.0.0.1"
        try:
            return str(ip_address(host))
        except ValueError:
            if option is not None:
                self._remark(
                    option, f'"{host}" is a name: host takes an address; 127.0.0.1 for now'
                )
            return "127.0.0.1"

    def _transport(self, listener: Listener, keys: dict[str, object]) -> None:
        protocol = listener.last("protocol")
        web = False
        if protocol is not None:
            self._used.add(protocol)
            web = protocol.value == "websockets"
            if protocol.value not in ("mqtt", "websockets"):
                self._remark(
                    protocol,
                    f"there are no listeners for {protocol.value}; it is one for MQTT here",
                )
        secure = listener.last("certfile") is not None or listener.last("keyfile") is not None
        if "transport" not in keys:  # it is not a Unix socket
            keys["transport"] = {
                (False, False): "tcp",
                (False, True): "tls",
                (True, False): "ws",
                (True, True): "wss",
            }[web, secure]
        elif web or secure:
            self._remark(listener.head, "Unix sockets carry plain MQTT here")
        if str(keys["transport"]).startswith("ws"):
            self._web(listener, keys)
        if keys["transport"] in ("tls", "wss"):
            self._tls(listener, keys)

    def _web(self, listener: Listener, keys: dict[str, object]) -> None:
        self._remark(
            listener.head,
            'WebSocket clients have to ask for http_path, "/mqtt"; any path is right for Mosquitto',
        )
        origins = listener.options.get("websockets_origin", [])
        if origins:
            self._used.update(origins)
            keys["origins"] = [option.value for option in origins]
        size = self._last("websockets_headers_size") or self._last("packet_buffer_size")
        if size is not None and (value := self._convert(size, integer(0))):
            keys["max_handshake_size"] = min(max(value, 512), 1 << 20)

    def _tls(self, listener: Listener, keys: dict[str, object]) -> None:
        given = {name: listener.last(name) for name in TLS}
        self._used.update(option for option in given.values() if option is not None)

        def flag(name: str) -> bool:
            option = given[name]
            return option is not None and bool(self._convert(option, boolean))

        for name, key in (("certfile", "certificate"), ("keyfile", "key"), ("cafile", "ca")):
            if (option := given[name]) is not None:
                keys[f"tls.{key}"] = option.value
        if flag("require_certificate"):
            keys["tls.client_certificate"] = "required"
            if (option := given["crlfile"]) is not None:
                keys["tls.crl"] = option.value
            if flag("use_subject_as_username"):
                self._ask("certificate", "identity", "subject", keys)
            elif flag("use_identity_as_username"):
                self._ask("certificate", "identity", "cn", keys)
        else:
            for name in ("crlfile", "use_identity_as_username", "use_subject_as_username"):
                if (option := given[name]) is not None and option.value.lower() != "false":
                    self._remark(option, "without require_certificate it has no effect")
        if (option := given["ciphers"]) is not None:
            keys["tls.ciphers"] = option.value
        if (option := given["ciphers_tls1.3"]) is not None:
            keys["tls.ciphersuites"] = option.value.split(":")
        if (option := given["tls_version"]) is not None:
            version = option.value.removeprefix("tlsv")
            if version in ("1.2", "1.3"):
                keys["tls.min_version"] = version
            else:
                self._remark(option, "TLS 1.2 is the lowest version here")

    # Who is let in

    def _ask(self, kind: str, key: str, value: str, keys: dict[str, object]) -> None:
        """An authenticator for a listener."""
        self._auth.setdefault((kind, key, value), []).append(_name(keys))

    def _is_asked(self, keys: dict[str, object]) -> bool:
        return any(_name(keys) in listeners for listeners in self._auth.values())

    def _password_file(self, listener: Listener | None, keys: dict[str, object]) -> None:
        own = listener.options if listener is not None else {}
        option = listener.last("password_file") if listener is not None else None
        if option is None:
            option = self._last("password_file")
        if option is None:
            return
        self._used.add(option)
        lost = self._lost(own)
        if not lost:
            self._ask("password-file", "file", option.value, keys)
        else:
            others = " and ".join(sorted(lost))
            self._remark(
                option,
                f"left out, as its users could do anything: {others} is not taken over here; make"
                ' rules of it, then add [[auth]] with type = "password-file"',
            )

    def _find_rules(self) -> Option | None:
        """The acl_file, if there is one for all listeners: there is one set of rules here."""
        general = self._found.general.get("acl_file", [])
        each = [
            listener.options.get("acl_file", []) or general for listener in self._found.listeners
        ]
        found = [options[-1] for options in each or [general] if options]
        self._used.update(general, *each)
        if not found:
            return None
        if len(found) < len(each) or len({option.value for option in found}) > 1:
            for option in found:
                self._remark(option, SEVERAL_RULES)
            return None
        rules = rules_file(found[0])
        self._set("access", "policy", rules)
        self._remark(
            found[0],
            f"its rules become those in {rules}; where it was not made, make it with `mhub ctl"
            f" policy import-mosquitto {found[0].value} --output {rules}`",
        )
        return found[0]

    def _lost(self, own: Iterable[str]) -> set[str]:
        """What decided who gets in or what they may do, and is not taken over."""
        taken = {"password_file"} if self.acl_file is None else {"password_file", "acl_file"}
        return ({*own} | {*self._found.general}) & GUARDS - taken

    def _allow_anonymous(self, listener: Listener | None, local: bool) -> bool:
        """As Mosquitto would have it, but never more than that."""
        own = listener.options if listener is not None else {}
        general = self._found.general
        given = own.get("listener_allow_anonymous") or own.get("allow_anonymous")
        if not given and not self._found.per_listener:
            given = general.get("allow_anonymous")
        guards = {*own} & GUARDS | {*general} & GUARDS
        wanted = bool(self._convert(given[-1], boolean)) if given else local and not guards
        if not wanted or not self._lost(own):
            return wanted
        if given:
            text = "only for those with a user for now, as rules and plugins are not taken over"
            self._remark(given[-1], text)
        return False

    # What is left

    def _remark(self, option: Option, text: str) -> None:
        if (option, text) not in self.remarks:
            self.remarks.append((option, text))

    def _explain(self, option: Option) -> None:
        note = note_of(option.name)
        if note is None:
            self.mistakes.append((option, "Mosquitto 2.1 has no such option"))
        elif option.name != "per_listener_settings":
            self._remark(option, note or "no counterpart")

    def _rest(self) -> None:
        for options in self._found.general.values():
            for option in options:
                if option not in self._used:
                    self._explain(option)
        for option in self._found.bridges:
            self._remark(option, BRIDGES)
        if not self._found.bridges:
            for option in self._found.bridge_options:
                self.mistakes.append((option, "it belongs to a bridge, and there is none"))
        for option in self._found.nested:
            self._remark(option, "has no effect in a file that is included")

    # The result

    def report(self) -> list[str]:
        """Everything to know, one line each, in the order of the files."""
        found = [*self.mistakes, *self.remarks]
        found.sort(key=lambda each: (self._found.files.index(each[0].file), each[0].line))
        return [f"{option.place}: {option.name}: {text}" for option, text in found]

    def password_files(self) -> list[str]:
        return [value for kind, _, value in self._auth if kind == "password-file"]

    def toml(self, source: str) -> str:
        return "\n".join(self._lines(source)) + "\n"

    def _lines(self, source: str) -> Iterator[str]:
        yield f"# Made by `mhub import` from {_safe(source)}"
        report = self.report()
        if report:
            yield "#"
            yield "# To look at, since it is different here or has no counterpart:"
            for line in report:
                yield f"# - {_safe(line)}"
        for listener in self.listeners:
            yield ""
            yield "[[listeners]]"
            for key, value in listener.items():
                yield f"{key} = {_value(value)}"
        names = [_name(listener) for listener in self.listeners]
        for number, ((kind, key, value), listeners) in enumerate(self._auth.items()):
            yield from ["", "[[auth]]", f'type = "{kind}"']
            if any(kind == other for other, *_ in list(self._auth)[:number]):
                yield f'name = "{kind}-{number + 1}"'
            yield f"{key} = {_value(value)}"
            if listeners != names:
                yield f"listeners = {_value(listeners)}"
        for table, keys in self.general.items():
            yield ""
            yield f"[{table}]"
            for key, value in keys.items():
                yield f"{key} = {_value(value)}"


def rules_file(acl_file: Option) -> str:
    """The name of the file with what an acl_file becomes, beside the TOML."""
    return f"{Path(acl_file.value).name}.csv"


def _name(keys: dict[str, object]) -> str:
    """What a listener without a name is called."""
    if keys.get("transport") == "unix":
        return f"unix-{os.path.basename(str(keys['path']))}"
    return f"{keys.get('transport', 'tcp')}-{keys['port']}"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _quoted(value) if isinstance(value, str) else str(value)


def _quoted(text: str) -> str:
    signs = (f"\\u{ord(sign):04x}" if sign < " " or sign == "\x7f" else sign for sign in text)
    return '"' + "".join(f"\\{sign}" if sign in '"\\' else sign for sign in signs) + '"'


def _safe(text: str) -> str:
    """For a comment, which is one line."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def main(argv: list[str]) -> int:
    parser = ArgumentParser(
        prog="mhub import",
        description="Make a configuration for mhub from a mosquitto.conf. What is different here or"
        " has no counterpart is listed, with its line: on stderr, and at the head of the result."
        " With -o, the rules of an acl_file are written to a CSV file beside it. Plugins are not"
        " taken over."
        " The exit status is 1 when something in the file was not understood; the rest is"
        " imported all the same.",
    )
    parser.add_argument("file", metavar="FILE", help="a mosquitto.conf; include_dir is followed")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="where to write the TOML; a file that is there already is not overwritten (stdout)",
    )
    args = parser.parse_args(argv)
    try:
        found = Import(read(args.file))
    except ReadError as error:
        print(f"mhub import: {error}", file=sys.stderr)
        return FAILED
    text = found.toml(args.file)
    if args.output is None:
        print(text, end="")
    else:
        try:
            with open(args.output, "x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            print(f"mhub import: {args.output}: {error.strerror}", file=sys.stderr)
            return FAILED
    for line in found.report():
        print(line, file=sys.stderr)
    is_made = args.output is None or _write_rules(found, Path(args.output).parent)
    for line in _unfinished(text, args.output or "mhub.toml"):
        print(f"to be mended: {line}", file=sys.stderr)
    return FAILED if found.mistakes or not is_made else OK


def _write_rules(found: Import, folder: Path) -> bool:
    """What the acl_file becomes, beside the TOML; False if it cannot be made."""
    if found.acl_file is None:
        return True
    from mhub.access.mosquitto_acl import read_files
    from mhub.access.policy import PolicyError, write_csv

    passwords = found.password_files()
    try:
        # Relative paths start there, as those in the TOML do.
        imported = read_files(
            str(folder / found.acl_file.value),
            str(folder / passwords[0]) if len(passwords) == 1 else "",
        )
        text = f"# Made by `mhub import` from {_safe(found.acl_file.value)}\n"
        with open(folder / rules_file(found.acl_file), "x", encoding="utf-8") as file:
            file.write(text + write_csv(imported.rows))
    except PolicyError as error:
        for each in error.errors:
            print(each, file=sys.stderr)
        return False
    except OSError as error:
        print(f"mhub import: {error.filename}: {error.strerror}", file=sys.stderr)
        return False
    for warning in imported.warnings:
        print(warning, file=sys.stderr)
    return True


def _unfinished(text: str, file: str) -> list[str]:
    """What `mhub check-config` will find, as files that are not there."""
    from mhub.config.load import parse
    from mhub.config.problems import ConfigError

    try:
        parse(text, file)
    except ConfigError as error:
        return str(error).splitlines()
    return []
