"""`mhub import`: what becomes of a mosquitto.conf."""

import contextlib
import io
import tomllib
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mhub.access.policy import load_csv
from mhub.cli import main
from mhub.config.load import parse
from mhub.config.mosquitto import BRIDGE_OPTIONS, OPTIONS, note_of
from mhub.config.mosquitto_file import LISTENER_OPTIONS, MosquittoFile, read
from mhub.config.mosquitto_import import Import
from tests.helpers.certificates import Authority
from tests.helpers.splits import steady

HASH = "$7$101$c2FsdHNhbHRzYWx0$aGFzaGhhc2g="

# The options that the manual page of Mosquitto 2.1 has, but those of bridges.
LISTED = """
    accept_protocol_versions acl_file allow_anonymous allow_duplicate_messages
    allow_zero_length_clientid auth_plugin_deny_special_chars auto_id_prefix autosave_interval
    autosave_on_changes bind_address bind_interface cafile capath certfile check_retain_source
    ciphers ciphers_tls1.3 clientid_prefixes connection_messages crlfile dhparamfile
    disable_client_cert_date_checks enable_control_api enable_proxy_protocol global_max_clients
    global_max_connections global_plugin http_dir include_dir keyfile listener
    listener_allow_anonymous listener_auto_id_prefix log_dest log_facility log_timestamp
    log_timestamp_format log_type max_connections max_inflight_bytes max_inflight_messages
    max_keepalive max_packet_size max_qos max_queued_bytes max_queued_messages max_topic_alias
    max_topic_alias_broker memory_limit message_size_limit mount_point packet_buffer_size
    password_file per_listener_settings persistence persistence_file persistence_location
    persistent_client_expiration pid_file plugin plugin_load plugin_use plugin_opt_log_level port
    protocol proxy_protocol_v2_require_tls psk_file psk_hint queue_qos0_messages
    require_certificate retain_available retain_expiry_interval set_tcp_nodelay socket_domain
    sys_interval tls_engine tls_engine_kpass_sha1 tls_keyform tls_version upgrade_outgoing_qos
    use_identity_as_username use_subject_as_username use_username_as_clientid user
    websockets_headers_size websockets_log_level websockets_origin
"""
MANUAL = LISTED.split()

DEBIAN = """\
# Place your local configuration in /etc/mosquitto/conf.d/
pid_file /run/mosquitto/mosquitto.pid

persistence true
persistence_location data/

log_dest file /var/log/mosquitto/mosquitto.log

include_dir conf.d
"""

HOME = """\
listener 1883
allow_anonymous true
persistence false
max_queued_messages 5000
queue_qos0_messages true
set_tcp_nodelay true
listener 9001
protocol websockets
websockets_origin https://home.example
websockets_origin http://localhost:8080
"""

FACTORY = """\
per_listener_settings true
persistence true
max_inflight_messages 0
max_inflight_bytes 65536
max_packet_size 1000000
message_size_limit 250000
global_max_clients 5000
global_max_connections -1
persistent_client_expiration 14d
sys_interval 0
log_type error
log_type warning
connection_messages false

listener 1883 127.0.0.1
allow_anonymous true
mount_point local/

listener 8883
certfile server.crt
keyfile server.key
cafile ca.crt
require_certificate true
use_identity_as_username true
use_username_as_clientid true
tls_version tlsv1.3
ciphers_tls1.3 TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256
max_connections 500
accept_protocol_versions 4, 5
enable_proxy_protocol 2

listener 0 mqtt.sock
allow_anonymous false
max_qos 1
"""


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp())
        self.folder.mkdir(parents=True)

    def write(self, text: str, name: str = "mosquitto.conf") -> str:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return str(path)

    def made(self, text: str) -> Import:
        return Import(read(self.write(text)))

    def keys(self, text: str) -> dict[str, Any]:
        return tomllib.loads(self.made(text).toml("x"))

    def listener(self, text: str) -> dict[str, Any]:
        (found,) = self.keys(text)["listeners"]
        return dict(found)

    def about(self, text: str) -> dict[str, list[int]]:
        """Which options are in the list, and their lines."""
        found: dict[str, list[int]] = {}
        made = self.made(text)
        for option, _ in (*made.mistakes, *made.remarks):
            found.setdefault(option.name, []).append(option.line)
        return found

    def run_import(self, *args: str) -> tuple[int, str, str]:
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            status = main(["import", *args])
        return status, out.getvalue(), errors.getvalue()


class Options(Case):
    def test_every_option_of_the_manual_is_known(self) -> None:
        unknown = [name for name in MANUAL if note_of(name) is None]
        self.assertEqual(unknown, [])
        self.assertLessEqual(LISTENER_OPTIONS, {*OPTIONS})

    def test_every_one_becomes_a_key_or_stands_in_the_list(self) -> None:
        """None vanishes, but those whose meaning is the same without."""
        values = {"listener": "1883", "port": "1883", "protocol": "mqtt", "max_keepalive": "60"}
        values |= {"accept_protocol_versions": "4", "enable_proxy_protocol": "1", "log_type": "all"}
        values |= {"log_dest": "syslog", "log_facility": "1"}
        values |= {"persistent_client_expiration": "1d", "tls_version": "tlsv1.3"}
        values |= {"connection_messages": "false", "set_tcp_nodelay": "false"}
        silent = {"include_dir", "per_listener_settings", "listener", "port"}
        numbers = {"max_connections", "max_qos", "packet_buffer_size", "sys_interval"}
        numbers |= {name for name in MANUAL if name.startswith(("max_", "global_max", "message"))}
        tls = "listener 1\ncertfile a\nkeyfile b\nrequire_certificate true\nprotocol websockets\n"
        empty = self.keys(tls)
        for name in {*MANUAL} - silent:
            value = values.get(
                name, "2" if name in numbers | {"websockets_headers_size"} else "true"
            )
            made = self.made(f"{tls}{name} {value}\n")
            self.assertEqual(made.mistakes, [], name)
            listed = any(option.name == name for option, _ in made.remarks)
            changed = tomllib.loads(made.toml("x")) != empty
            same = name in ("require_certificate", "protocol", "socket_domain", "allow_anonymous")
            same = same or name in ("allow_zero_length_clientid", "retain_available")
            self.assertTrue(listed or changed or same, name)

    def test_bridges(self) -> None:
        text = "connection a\naddress h\ntopic # both\nbridge_cafile x\nconnection b\naddress h\n"
        self.assertEqual(self.about(text), {"connection": [1, 5]})
        self.assertEqual(self.about("topic # both\n"), {"topic": [1]})
        self.assertIn("bridge_insecure", BRIDGE_OPTIONS)

    def test_unknown_ones_and_wrong_values_are_mistakes(self) -> None:
        for text, words in (
            ("lisener 1883", "no such option"),
            ("listener x", "expected a number"),
            ("listener", "expected a number"),
            ("listener 70000", "0 to 65535"),
            ("listener 0", "path of a Unix socket"),
            ("allow_anonymous yes", "true or false"),
            ("listener 1\nmax_qos 3", "0 to 2"),
            ("listener 1\naccept_protocol_versions 3,6", "3, 4 and 5"),
            ("persistent_client_expiration 7", "h, d, w, m or y"),
            ("log_type loud", "no type of message"),
            ("log_dest moon", "no place for a log"),
            ("log_dest file", "no place for a log"),
        ):
            made = self.made(f"# first\n{text}\n")
            self.assertEqual(len(made.mistakes), 1, text)
            option, found = made.mistakes[0]
            self.assertIn(words, found)
            self.assertEqual(option.line, 1 + len(text.splitlines()))
            parse(made.toml("x"), str(self.folder / "x.toml"))  # and the rest is right


class Listeners(Case):
    def test_none_is_the_local_one(self) -> None:
        found = self.listener("")
        self.assertEqual((found["host"], found["port"]), ("127.0.0.1", 1883))
        self.assertTrue(found["allow_anonymous"])

    def test_without_an_address_it_is_everywhere(self) -> None:
        self.assertEqual(self.listener("listener 1884")["host"], "::")
        self.assertEqual(self.listener("listener 1884\nsocket_domain ipv4")["host"], "0.0.0.0")

    def test_addresses(self) -> None:
        for given_host, host in (("localhost", "127.0.0.1"), ("::1", "::1"), ("10.0.0.1",) * 2):
            self.assertEqual(self.listener(f"listener 1884 {given_host}")["host"], host)

    def test_a_name_is_listed_and_nothing_is_opened_to_the_world(self) -> None:
        text = "listener 1884 broker.example"
        self.assertEqual(self.listener(text)["host"], "127.0.0.1")
        self.assertEqual(self.about(text), {"listener": [1]})

    def test_the_default_one(self) -> None:
        found = self.keys("bind_address 10.0.0.1\nport 1885\nmax_connections 5\nlistener 1886\n")
        first, second = found["listeners"]
        self.assertEqual((first["host"], first["port"]), ("10.0.0.1", 1885))
        self.assertEqual(first["max_connections"], 5)
        self.assertEqual(second["port"], 1886)
        self.assertEqual(self.listener("max_connections 7")["port"], 1883)

    def test_options_belong_to_the_listener_before_them(self) -> None:
        text = "listener 1\nmax_qos 0\nconnection b\naddress h\nmount_point m/\nlistener 2\n"
        first, second = self.keys(text)["listeners"]
        self.assertEqual((first["max_qos"], first["mount_point"]), (0, "m/"))
        self.assertNotIn("max_qos", second)

    def test_tls_and_websockets(self) -> None:
        tls = "certfile a\nkeyfile b\n"
        web = "protocol websockets\n"
        for text, transport in (("", "tcp"), (tls, "tls"), (web, "ws"), (tls + web, "wss")):
            self.assertEqual(self.listener(f"listener 1\n{text}")["transport"], transport)

    def test_one_with_pre_shared_keys_is_left_out(self) -> None:
        """It would be open to everybody, or would not start."""
        text = "psk_file x\nlistener 1\nlistener 8883\npsk_hint broker\n"
        self.assertEqual([each["port"] for each in self.keys(text)["listeners"]], [1])
        self.assertEqual(self.about(text), {"psk_hint": [4], "psk_file": [1]})
        left = self.listener("listener 8883\npsk_hint broker\n")
        self.assertEqual((left["host"], left["allow_anonymous"]), ("127.0.0.1", False))


class Doors(Case):
    def anonymous(self, text: str) -> list[bool]:
        return [each["allow_anonymous"] for each in self.keys(text)["listeners"]]

    def test_as_in_mosquitto_2(self) -> None:
        """Everybody on this machine without a listener, nobody with one, unless it is said."""
        self.assertEqual(self.anonymous("listener 1"), [False])
        self.assertEqual(self.anonymous("allow_anonymous true\nlistener 1\nlistener 2"), [True] * 2)
        self.assertEqual(self.anonymous("listener 1\nlistener_allow_anonymous true"), [True])
        self.assertEqual(self.anonymous("allow_anonymous false"), [False])
        self.assertEqual(self.anonymous("password_file x"), [False])

    def test_password_file(self) -> None:
        """It is read as it is, for the listeners that it was for."""
        found = self.keys("password_file x")
        self.assertEqual(found["auth"], [{"type": "password-file", "file": "x"}])
        text = (
            "per_listener_settings true\nlistener 1\npassword_file x\nlistener 2\npassword_file y"
        )
        self.assertEqual(
            self.keys(text)["auth"],
            [
                {"type": "password-file", "file": "x", "listeners": ["tcp-1"]},
                {
                    "type": "password-file",
                    "name": "password-file-2",
                    "file": "y",
                    "listeners": ["tcp-2"],
                },
            ],
        )
        text = "listener 1\npassword_file x\nuse_username_as_clientid true"
        self.assertTrue(self.listener(text)["username_as_client_id"])

    def test_password_file_with_rules_that_are_lost(self) -> None:
        found = self.keys("listener 1\npassword_file x\nplugin y")
        self.assertNotIn("auth", found)

    def test_acl_file(self) -> None:
        """Its rules are in a file of their own, for all listeners."""
        text = "acl_file /etc/mosquitto/acl\npassword_file x\nallow_anonymous true\n"
        for listeners in ("", "listener 1\n", "listener 1\nlistener 2\n"):
            found = self.keys(text + listeners)
            self.assertEqual(found["access"], {"policy": "acl.csv"})
            self.assertEqual(found["auth"], [{"type": "password-file", "file": "x"}])
            self.assertTrue(all(each["allow_anonymous"] for each in found["listeners"]))

    def test_acl_file_of_each_listener(self) -> None:
        text = "per_listener_settings true\nlistener 1\nacl_file x\nlistener 2\nacl_file x\n"
        self.assertEqual(self.keys(text)["access"], {"policy": "x.csv"})

    def test_rules_that_are_not_for_all(self) -> None:
        """There is one set of rules here: those who had others are not let in."""
        for second in ("", "acl_file y\n"):
            text = (
                "per_listener_settings true\nlistener 1\nacl_file x\npassword_file p\n"
                f"allow_anonymous true\nlistener 2\n{second}password_file p\n"
            )
            found = self.keys(text)
            self.assertNotIn("access", found)
            self.assertFalse(found["listeners"][0]["allow_anonymous"])
            self.assertIn("acl_file", self.about(text))

    def test_per_listener_settings(self) -> None:
        text = "per_listener_settings true\nlistener 1\nallow_anonymous true\nlistener 2\n"
        self.assertEqual(self.anonymous(text), [True, False])

    def test_nobody_is_let_in_where_rules_are_lost(self) -> None:
        for guard in ("plugin x.so", "auth_plugin x.so", "global_plugin x.so"):
            text = f"{guard}\nallow_anonymous true\nlistener 1\n"
            self.assertEqual(self.anonymous(text), [False], guard)
            self.assertEqual(self.about(text)["allow_anonymous"], [2])
            self.assertIn(guard.split()[0], self.about(text))
        self.assertEqual(
            self.anonymous("password_file x\nallow_anonymous true\nlistener 1"), [True]
        )
        for guard in ("acl_file x", "plugin x"):
            text = f"per_listener_settings true\nlistener 1\n{guard}\nallow_anonymous true\n"
            text += "listener 2\nallow_anonymous true"
            self.assertEqual(self.anonymous(text), [False, True])


class Values(Case):
    def test_numbers_that_mean_any(self) -> None:
        limits = self.keys(
            "max_inflight_messages 0\nmax_packet_size 0\nglobal_max_connections -1\n"
            "max_queued_messages 0\nglobal_max_clients 9\n"
        )["limits"]
        self.assertEqual(limits["max_inflight"], 65535)
        self.assertEqual(limits["max_packet_size"], 256 << 20)
        self.assertEqual((limits["max_connections"], limits["max_sessions"]), (0, 9))
        self.assertEqual(limits["max_queued_messages"], 0)

    def test_a_month_is_not_a_minute(self) -> None:
        limits = self.keys("persistent_client_expiration 2m\n")["limits"]
        self.assertEqual(limits["session_expiry_v3_s"], 60 * 86400)

    def test_what_is_kept(self) -> None:
        self.assertEqual(self.keys("")["store"], {"kind": "memory"})
        self.assertEqual(self.keys("persistence true")["store"], {"kind": "sqlite"})
        text = "persistence true\npersistence_location /var/lib/mosquitto/\n"
        self.assertEqual(self.keys(text)["store"]["path"], "/var/lib/mosquitto/mhub.sqlite")

    def test_log_levels(self) -> None:
        for text, level in (
            ("log_type all", "debug"),
            ("log_type error\nlog_type notice", "info"),
            ("log_type error warning", "warn"),
            ("log_type none", "critical"),
            ("connection_messages false", "warn"),
            ("log_type error\nconnection_messages false", "error"),
        ):
            self.assertEqual(self.keys(text)["log"], {"level": level}, text)
        self.assertNotIn("log", self.keys("connection_messages true"))

    def test_where_the_log_goes(self) -> None:
        for text, expected in (
            (
                "log_dest file /log/m.log",
                {"to": "file", "file": "/log/m.log"},
            ),
            ("log_dest syslog\nlog_facility 5", {"to": "syslog", "facility": "local5"}),
            ("log_dest syslog\nlog_dest stdout\nlog_dest topic", {"to": "stdout"}),
        ):
            self.assertEqual(self.keys(text)["log"], expected, text)
        self.assertNotIn("log", self.keys("log_dest none\n"))
        self.assertEqual(
            self.about("log_dest syslog\nlog_dest topic\nlog_dest stdout\nlog_facility 3\n"),
            {"log_dest": [2, 1], "log_facility": [4]},
        )

    def test_user_names_as_client_ids_need_a_proof(self) -> None:
        self.assertEqual(
            self.about("listener 1\nuse_username_as_clientid true\n"),
            {"use_username_as_clientid": [2]},
        )

    def test_strange_text(self) -> None:
        found = self.listener('listener 1\nmount_point a "quoted" \\ path/\n')
        self.assertEqual(found["mount_point"], 'a "quoted" \\ path/')

    def test_only_a_line_feed_ends_a_line(self) -> None:
        """Python knows others, as Mosquitto does not."""
        found = self.listener("listener 1\r\nmount_point a\x0bb\x85c\u2028d/\r\n")
        self.assertEqual(found["mount_point"], "a\x0bb\x85c\u2028d/")


class Files(Case):
    def test_included_ones_follow_in_their_order(self) -> None:
        names = ("b", "A", "01", "a", "B", "00")
        for index, name in enumerate(names):
            self.write(f"listener {1 + index}\n", f"d/{name}.conf")
        self.write("listener 99\n", "d/other.txt")
        self.write("include_dir nowhere\n", "d/c.conf")
        text = f"listener 9\ninclude_dir {self.folder}/d\nlistener 10\n"
        ports = [each["port"] for each in self.keys(text)["listeners"]]
        order = [names.index(name) + 1 for name in ("00", "01", "A", "a", "B", "b")]
        self.assertEqual(ports, [9, *order, 10])
        self.assertEqual(self.about(text), {"include_dir": [1]})

    def test_a_folder_that_is_not_there(self) -> None:
        status, out, errors = self.run_import(self.write("# x\ninclude_dir /nowhere\n"))
        self.assertEqual((status, out), (1, ""))
        self.assertIn("mosquitto.conf:2: cannot read the folder /nowhere: No such file", errors)

    def test_comments_and_spaces(self) -> None:
        text = "# listener 1\n\n   \n  listener   5   127.0.0.1  \n\t# not this\n"
        self.assertEqual(self.listener(text)["host"], "127.0.0.1")
        found = self.listener("listener 5\nmount_point a#b/\n")  # no comment inside of a line
        self.assertEqual(found["mount_point"], "a#b/")


class Command(Case):
    def check(self, text: str) -> str:
        """Imported without a mistake, and mhub takes it."""
        target = str(self.folder / "mhub.toml")
        status, out, errors = self.run_import(self.write(text), "-o", target)
        self.assertEqual((status, out), (0, ""), errors)
        self.assertNotIn("to be mended", errors)
        with contextlib.redirect_stderr(io.StringIO()):  # it may warn
            self.assertEqual(main(["check-config", "-q", target]), 0)
        return Path(target).read_text()

    def test_debian(self) -> None:
        self.write("listener 1883\nallow_anonymous true\n", "conf.d/local.conf")
        text = DEBIAN.replace("conf.d\n", f"{self.folder}/conf.d\n")
        found = self.check(text)
        self.assertIn("mosquitto.conf:2: pid_file:", found)
        self.assertIn("mosquitto.conf:5: persistence_location: what mosquitto.db holds", found)

    def test_home(self) -> None:
        found = tomllib.loads(self.check(HOME))
        self.assertEqual([each["transport"] for each in found["listeners"]], ["tcp", "ws"])
        self.assertEqual(len(found["listeners"][1]["origins"]), 2)

    def test_factory(self) -> None:
        authority = Authority("authority")
        authority.write(self.folder / "ca.crt")
        authority.issue("localhost", self.folder / "server.crt", self.folder / "server.key")
        text = self.check(FACTORY)
        settings = parse(text, str(self.folder / "mhub.toml"))
        local, devices, socket = settings.listeners
        self.assertEqual((local.host, local.limits.mount_point), ("127.0.0.1", "local/"))
        self.assertTrue(local.limits.allow_anonymous)
        assert devices.tls is not None
        self.assertEqual(devices.tls.client_certificate, "required")
        self.assertEqual(devices.tls.min_version, "1.3")
        (source,) = settings.auth
        self.assertEqual((source.type, source.options.identity), ("certificate", "cn"))
        self.assertEqual(source.listeners, (devices.name,))
        self.assertTrue(devices.limits.username_as_client_id and devices.proxy_protocol)
        self.assertEqual((devices.limits.versions, devices.max_connections), ((4, 5), 500))
        self.assertEqual((socket.transport, socket.limits.max_qos), ("unix", 1))
        self.assertEqual(settings.limits.message_size_limit, 250_000)
        self.assertEqual((settings.broker.max_sessions, settings.log.level), (5000, "warn"))

    RULES = "listener 1883\npassword_file passwd\nacl_file acl\n"

    def test_users_and_rules(self) -> None:
        """The broker has those of Mosquitto: the file with users as it is, the rules as rows."""
        self.write(f"alice:{HASH}\n", "passwd")
        self.write("user alice\ntopic read a/#\n", "acl")
        text = self.check(self.RULES)
        settings = parse(text, str(self.folder / "mhub.toml"))
        assert settings.access is not None
        rules = Path(settings.access.policy)
        self.assertEqual(rules.resolve(), (self.folder / "acl.csv").resolve())
        lines = rules.read_text().splitlines()
        self.assertEqual(lines[-1], "p, user:alice, *, receive, a/#, any, allow")
        (source,) = settings.auth
        self.assertEqual((source.type, len(load_csv(rules).rows)), ("password-file", 4))

    def test_rules_that_are_refused(self) -> None:
        """The configuration is written, and mhub does not start with it."""
        self.write(f"alice:{HASH}\n", "passwd")
        self.write("user alice\ntopic\nread a\n", "acl")
        target = str(self.folder / "mhub.toml")
        status, _, errors = self.run_import(self.write(self.RULES), "-o", target)
        self.assertEqual(status, 1)
        self.assertIn("acl:2: topic without a topic", errors)
        self.assertIn('acl:3: expected user, topic or pattern, found "read"', errors)
        self.assertIn("to be mended", errors)
        self.assertFalse((self.folder / "acl.csv").exists())
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(main(["check-config", "-q", target]), 1)

    def test_rules_that_cannot_be_read(self) -> None:
        target = str(self.folder / "mhub.toml")
        status, _, errors = self.run_import(self.write(self.RULES), "-o", target)
        self.assertEqual(status, 1)
        self.assertIn("acl: cannot be read: No such file", errors)

    def test_no_rules_are_overwritten(self) -> None:
        self.write("", "passwd")
        self.write("", "acl")
        self.write("precious", "acl.csv")
        target = str(self.folder / "mhub.toml")
        status, _, errors = self.run_import(self.write(self.RULES), "-o", target)
        self.assertEqual((status, (self.folder / "acl.csv").read_text()), (1, "precious"))
        self.assertIn("acl.csv: File exists", errors)

    def test_how_to_make_the_rules(self) -> None:
        status, out, errors = self.run_import(self.write(self.RULES))
        self.assertEqual(status, 0)
        for said in (out, errors):
            self.assertIn("`mhub ctl policy import-mosquitto acl --output acl.csv`", said)

    def test_missing_files_are_named(self) -> None:
        text = "listener 8883\ncertfile none.crt\nkeyfile none.key\n"
        status, out, errors = self.run_import(self.write(text))
        self.assertEqual(status, 0)
        self.assertIn("to be mended: mhub.toml:", errors)
        self.assertIn('tls.certificate = "none.crt"', out)

    def test_no_file_is_overwritten(self) -> None:
        target = self.write("precious", "mhub.toml")
        status, _, errors = self.run_import(self.write("listener 1"), "-o", target)
        self.assertEqual((status, Path(target).read_text()), (1, "precious"))
        self.assertIn("File exists", errors)

    def test_mistakes_are_in_the_exit_status_and_the_rest_is_imported(self) -> None:
        status, out, errors = self.run_import(self.write("listener 1\nfoo bar\n"))
        self.assertEqual(status, 1)
        self.assertIn("mosquitto.conf:2: foo: Mosquitto 2.1 has no such option", errors)
        self.assertEqual(tomllib.loads(out)["listeners"][0]["port"], 1)

    def test_no_such_file(self) -> None:
        status, _, errors = self.run_import(str(self.folder / "nowhere.conf"))
        self.assertEqual(status, 1)
        self.assertIn("cannot be read: No such file", errors)


WORDS = st.sampled_from(
    ["", "0", "1", "-1", "99999999999", "true", "false", "x", "1883", "0 s", "::1", "4,5", '"', "é"]
)


class Properties(Case):
    @steady
    @given(st.lists(st.tuples(st.sampled_from(sorted({*MANUAL} - {"include_dir"})), WORDS)))
    def test_any_lines_give_toml(self, lines: list[tuple[str, str]]) -> None:
        """Whatever stands in the file, the result is TOML, and no line makes it fail."""
        self.folder.mkdir(exist_ok=True)
        found = read(self.write("".join(f"{name} {value}\n" for name, value in lines)))
        tomllib.loads(Import(found).toml("x\ny"))

    def test_an_empty_file(self) -> None:
        self.assertEqual(Import(MosquittoFile()).report(), [])
