"""A TOML file becomes settings, or a report of everything that is wrong with it."""

import socket
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import TestCase

from mhub.auth.plugins import OWN
from mhub.config import ClusterSettings, ConfigError, Settings, load, parse
from mhub.config.changes import changes
from mhub.config.limits import LIMIT_KEYS
from mhub.config.lines import line_numbers
from mhub.config.load import STORE_KEYS, TOP
from mhub.config.mosquitto import OPTIONS
from mhub.config.schema import keys_of
from mhub.config.settings import RedisSettings, StoreSettings
from mhub.config.summary import summary
from mhub.config.units import parse_duration, parse_size, show_duration, show_size
from mhub.core.limits import NEVER, Limits
from tests.helpers.certificates import Authority, write_revocations
from tests.helpers.splits import steady


class ConfigCase(TestCase):
    """Texts are parsed as if they stood in a file of an empty folder."""

    def setUp(self) -> None:
        self.folder = Path(self.mktemp()).absolute()
        self.folder.mkdir()
        self.file = str(self.folder / "broker.toml")

    def settings(self, text: str) -> Settings:
        return parse(text, self.file)

    def problems(self, text: str) -> list[str]:
        """What is wrong with a text, without the name of the file."""
        error = self.assertRaises(ConfigError, parse, text, self.file)
        lines = str(error).split("\n")
        self.assertTrue(all(line.startswith(self.file + ":") for line in lines), lines)
        return [line.removeprefix(self.file + ":") for line in lines]

    def assertProblem(self, text: str, *expected: str) -> None:
        self.assertEqual(self.problems(text), list(expected))


class LogTests(ConfigCase):
    def test_everything(self) -> None:
        log = self.settings(
            '[log]\nlevel = "warn"\nto = "file"\nformat = "json"\nfile = "mhub.log"\n'
            'max_file_size = "1 MiB"\nkeep_files = 3\nrate = 0.5\nburst = 10\nsummary_s = "1m"\n'
        ).log
        self.assertEqual((log.to, log.file), ("file", str(self.folder / "mhub.log")))
        self.assertEqual((log.max_file_size, log.keep_files, log.rate), (1 << 20, 3, 0.5))

    def test_syslog(self) -> None:
        for address in ("/dev/log", "192.0.2.1:514", "[2001:db8::1]:514"):
            log = self.settings(f'[log]\nto = "syslog"\nsyslog = "{address}"\n').log
            self.assertEqual(log.syslog, address)

    def test_mistakes(self) -> None:
        self.assertProblem('[log]\nto = "file"\n', '1: log.file: missing; to = "file" needs it')
        self.assertProblem(
            '[log]\nfile = "x"\nfacility = "user"\n',
            '2: log.file: only for to = "file"',
            '3: log.facility: only for to = "syslog"',
        )
        self.assertProblem(
            '[log]\nto = "file"\nfile = "no/x"\n',
            f"3: log.file: there is no folder {self.folder / 'no'}",
        )
        self.assertProblem(
            '[log]\nto = "file"\nfile = "."\n',
            f"3: log.file: expected a file, found the folder {self.folder}",
        )
        self.assertProblem(
            '[log]\nto = "syslog"\nsyslog = "host.example:514"\n',
            "3: log.syslog: expected a string: the path of a socket, or"
            ' "address:port" with an IP address, found "host.example:514"',
        )
        self.assertProblem(
            '[log]\nto = "fil"\nrate = -1\n',
            '2: log.to: expected one of "stdout", "file", "syslog", found "fil"'
            ' (did you mean "file"?)',
            "3: log.rate: expected a number from 0 to 1000000, found -1",
        )


class DefaultsTests(ConfigCase):
    def test_empty_file(self) -> None:
        """An empty file is a broker on loopback with the core's own limits."""
        settings = self.settings("")
        (listener,) = settings.listeners
        self.assertEqual(listener.address, "mqtt://127.0.0.1:1883")
        self.assertEqual(listener.name, "tcp-1883")
        self.assertEqual(listener.limits, Limits())
        self.assertEqual(settings.limits, Limits())
        self.assertEqual(settings.sys.interval_s, 10)
        self.assertEqual(settings.auth, ())
        self.assertEqual(settings.warnings, ())

    def test_limits_without_listener(self) -> None:
        """`[limits]` alone reaches the listener that is there by default."""
        settings = self.settings("[limits]\nmax_qos = 1\nmax_connections = 7")
        self.assertEqual(settings.listeners[0].limits.max_qos, 1)
        self.assertEqual(settings.broker.max_connections, 7)
        self.assertEqual(settings.broker.max_sessions, 0)
        self.assertEqual(settings.listeners[0].max_connections, 0)

    def test_sessions_are_counted_for_the_broker_and_for_a_listener(self) -> None:
        settings = self.settings(
            "[limits]\nmax_sessions = 9\n"
            "[[listeners]]\nmax_sessions = 5\n[[listeners]]\nport = 1884"
        )
        self.assertEqual(settings.broker.max_sessions, 9)
        counts = [listener.limits.max_listener_sessions for listener in settings.listeners]
        self.assertEqual(counts, [5, 0])

    def test_frozen(self) -> None:
        """Nobody changes settings behind another's back."""
        with self.assertRaises(FrozenInstanceError):
            self.settings("").sys.interval_s = 1  # type: ignore[misc]

    def test_every_limit_is_a_key(self) -> None:
        """A field that the core gets is one that the file can set."""
        names = {field.name for field in fields(Limits)}
        self.assertEqual({*LIMIT_KEYS, "max_listener_sessions"}, names)  # listeners.max_sessions

    def test_defaults_are_allowed_values(self) -> None:
        """What the reference shows as the default can be written down and gives the default."""
        text = "[limits]\n" + "\n".join(
            f"{name} = {entry.kind.show(entry.default)}" for name, entry in LIMIT_KEYS.items()
        )
        self.assertEqual(self.settings(text).limits, Limits())

    def test_file_is_read(self) -> None:
        Path(self.file).write_text("[sys]\ninterval_s = 0\n")
        self.assertEqual(load(self.file).sys.interval_s, 0)
        self.assertEqual(load(Path(self.file)).file, self.file)


class ListenerTests(ConfigCase):
    def test_overrides(self) -> None:
        """A listener's limit stands above that of `[limits]`, and only for this listener."""
        one, two = self.settings(
            """
            [limits]
            max_packet_size = "1 MiB"
            max_qos = 1
            [[listeners]]
            [[listeners]]
            port = 1884
            max_packet_size = "64 KiB"
            versions = ["5.0"]
            """
        ).listeners
        self.assertEqual((one.limits.max_packet_size, one.limits.max_qos), (1 << 20, 1))
        self.assertEqual((two.limits.max_packet_size, two.limits.max_qos), (1 << 16, 1))
        self.assertEqual((one.limits.versions, two.limits.versions), ((3, 4, 5), (5,)))

    def test_addresses(self) -> None:
        settings = self.settings(
            """
            [[listeners]]
            host = "[::1]"
            [[listeners]]
            transport = "ws"
            host = "localhost"
            port = 8083
            http_path = "/"
            [[listeners]]
            transport = "unix"
            path = "mhub.sock"
            mode = "600"
            [[listeners]]
            host = "fe80::1%eth0"
            port = 0
            allow_anonymous = true
            """
        )
        self.assertEqual(
            [listener.address for listener in settings.listeners],
            [
                "mqtt://[::1]:1883",
                "ws://127.0.0.1:8083/",
                f"unix:{self.folder}/mhub.sock",
                "mqtt://[fe80::1%eth0]:0",
            ],
        )
        self.assertEqual(settings.listeners[2].mode, 0o600)
        self.assertEqual(settings.listeners[2].name, "unix-mhub.sock")

    def test_bad_hosts(self) -> None:
        expected = 'expected an IPv4 or IPv6 address, or "localhost", found'
        for host, rest in (
            ("*", ' ("0.0.0.0" is every IPv4 address, "::" every address of both kinds)'),
            ("127.0.0.1:1883", " (the port has its own key, `port`)"),
            ("[::1]:1883", " (the port has its own key, `port`)"),
            ("broker.example.org", ""),
            ("300.0.0.1", ""),
            ("::g", ""),
        ):
            self.assertProblem(
                f'[[listeners]]\nhost = "{host}"',
                f'2: listeners[0].host: {expected} "{host}"{rest}',
            )

    def test_what_a_transport_needs(self) -> None:
        self.assertProblem(
            """
            [[listeners]]
            transport = "ws"
            [[listeners]]
            transport = "unix"
            [[listeners]]
            transport = "tls"
            [[listeners]]
            transport = "wss"
            """,
            "2: listeners[0].port: missing; transport ws has no usual port",
            "4: listeners[1].path: missing; transport unix needs it",
            "6: listeners[2].tls: missing; transport tls needs tls.certificate and tls.key",
            "8: listeners[3].port: missing; transport wss has no usual port",
            "8: listeners[3].tls: missing; transport wss needs tls.certificate and tls.key",
        )

    def test_keys_of_other_transports(self) -> None:
        """A key that would have no effect is a misunderstanding, so it is an error."""
        self.assertProblem(
            """
            [[listeners]]
            http_path = "/mqtt"
            mode = "0600"
            [[listeners]]
            transport = "unix"
            path = "/a.sock"
            port = 1
            """,
            "3: listeners[0].http_path: only for transport ws or wss; this listener's is tcp",
            "4: listeners[0].mode: only for transport unix; this listener's is tcp",
            "8: listeners[1].port: only for transport tcp or tls or ws or wss;"
            " this listener's is unix",
        )

    def test_wrong_transport_is_one_problem(self) -> None:
        """When the transport is unknown, nothing is said about what it would have needed."""
        self.assertProblem(
            '[[listeners]]\ntransport = "tpc"\nhttp_path = "/"',
            '2: listeners[0].transport: expected one of "tcp", "tls", "ws", "wss", "unix",'
            ' found "tpc" (did you mean "tcp"?)',
        )

    def test_same_address(self) -> None:
        for one, two, clash in (
            ("127.0.0.1", "127.0.0.1", True),
            ("::1", "0:0::1", True),
            ("0.0.0.0", "127.0.0.1", True),
            ("127.0.0.1", "0.0.0.0", True),
            ("::", "127.0.0.1", True),
            ("::", "0.0.0.0", True),
            ("127.0.0.1", "127.0.0.2", False),
            ("0.0.0.0", "::1", False),
            ("127.0.0.1", "::1", False),
        ):
            text = f"""
                [[listeners]]
                name = "one"
                host = "{one}"
                [[listeners]]
                name = "two"
                host = "{two}"
                port = 1883
                [limits]
                allow_anonymous = true
                """
            if clash:
                (problem,) = self.problems(text)
                self.assertIn("8: listeners[1].port: listeners[0] listens on mqtt://", problem)
            else:
                self.assertEqual(len(self.settings(text).listeners), 2)

    def test_any_free_port_twice(self) -> None:
        text = '[[listeners]]\nport = 0\nname = "a"\n[[listeners]]\nport = 0\nname = "b"'
        self.assertEqual(len(self.settings(text).listeners), 2)

    def test_same_name_and_path(self) -> None:
        self.assertProblem(
            """
            [[listeners]]
            transport = "unix"
            path = "./a.sock"
            [[listeners]]
            transport = "unix"
            path = "a.sock"
            """,
            '5: listeners[1].name: "unix-a.sock" is the name of listeners[0] too',
            f"7: listeners[1].path: listeners[0] listens on unix:{self.folder}/a.sock already",
        )

    def test_unix_paths(self) -> None:
        (self.folder / "file").write_text("")
        # The test's own folder can be too deep for the path of a socket.
        with TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as left_over:
            left_over.bind(f"{short}/left-over.sock")
            self.settings(f'[[listeners]]\ntransport = "unix"\npath = "{short}/left-over.sock"')
        self.assertProblem(
            '[[listeners]]\ntransport = "unix"\npath = "file"',
            f"3: listeners[0].path: {self.folder}/file exists and is not a socket",
        )
        long = "/" + 107 * "x"
        self.assertProblem(
            f'[[listeners]]\ntransport = "unix"\npath = "{long}"',
            f"3: listeners[0].path: expected at most 107 bytes, found 108: {long}",
        )

    def test_user_names_that_nobody_has_checked_are_no_client_ids(self) -> None:
        problem = (
            "username_as_client_id: at tcp-1883, users are not authenticated: anybody could take"
            " over anybody's session. Set allow_anonymous = false"
        )
        self.assertProblem(
            "[[listeners]]\nusername_as_client_id = true", f"2: listeners[0].{problem}"
        )
        self.assertProblem(
            "[limits]\nusername_as_client_id = true\n[[listeners]]\nport = 1883",
            f"3: listeners[0].{problem}",
        )
        self.settings("[limits]\nusername_as_client_id = true\nallow_anonymous = false")

    def test_client_ids_that_another_listener_lets_anybody_choose(self) -> None:
        both = (
            "[[listeners]]\nport = 1883\n"
            "[[listeners]]\nport = 1884\nallow_anonymous = false\nusername_as_client_id = true\n"
        )
        warnings = [text for text in self.settings(both).warnings if "choose" in text]
        self.assertEqual(
            warnings,
            [
                f"{self.file}:1: listeners[0].username_as_client_id: clients of tcp-1883 choose"
                " their client id, and can take over the sessions of users of tcp-1884, whose"
                " client ids are their names"
            ],
        )
        one = self.settings("[limits]\nusername_as_client_id = true\nallow_anonymous = false")
        self.assertFalse([text for text in one.warnings if "choose" in text])

    def test_a_mount_point_that_others_begin_with(self) -> None:
        """Two customers must not reach each other because one name begins with the other."""
        (warning,) = self.settings('[[listeners]]\nmount_point = "acme"').warnings
        self.assertIn('mount_point: does not end with a slash: a topic "2/x"', warning)
        self.assertEqual(self.settings('[[listeners]]\nmount_point = "acme/"').warnings, ())

    def test_rules_for_users_and_no_users(self) -> None:
        (warning,) = self.settings("[access]").warnings
        self.assertIn("access: there is no [[auth]], so all clients are anonymous", warning)
        self.assertEqual(self.settings('[access]\n[[auth]]\ntype = "registry"').warnings, ())
        self.assertEqual(self.settings("[access]\nenabled = false").warnings, ())

    def test_nobody_can_log_in(self) -> None:
        (warning,) = self.settings("[[listeners]]\nallow_anonymous = false").warnings
        self.assertEqual(
            warning,
            f"{self.file}:2: listeners[0].allow_anonymous: nobody can log in at tcp-1883:"
            " it requires a user, and no [[auth]] is for it",
        )


class MistakeTests(ConfigCase):
    def test_all_at_once(self) -> None:
        """One run reports every mistake, in the order of the file."""
        self.assertProblem(
            """
            verbose = true
            [[listeners]]
            prot = 1883
            max_connections = -1
            [limits]
            max_qos = 3
            max_inflight_messages = 20
            [limmits]
            [sys]
            interval_s = "soon"
            """,
            f"2: verbose: unknown key; expected one of {', '.join(TOP)}",
            '4: listeners[0].prot: unknown key; did you mean "port"?',
            "5: listeners[0].max_connections: expected an integer, 0 or more, found -1",
            "7: limits.max_qos: expected an integer from 0 to 2, found 3",
            "8: limits.max_inflight_messages: unknown key; what mosquitto.conf calls"
            " max_inflight_messages is limits.max_inflight and limits.receive_maximum here",
            '9: limmits: unknown key; did you mean "limits"?',
            "11: sys.interval_s: expected a duration from 0s to 1d, in seconds or as text such as"
            ' "30s" or "1h", found "soon"',
        )

    def test_every_option_of_mosquitto_has_an_answer(self) -> None:
        """Options with another name here, or none, are answered; the same name is just right."""
        for option in OPTIONS:
            (problem,) = self.problems(f'"{option}" = 1')
            self.assertRegex(
                problem, "what mosquitto.conf calls|mosquitto.conf has it, mhub does not"
            )

    def test_wrong_types(self) -> None:
        for text, problem in (
            ("limits = 3", "1: limits: expected a table, found 3"),
            ("[[limits]]", "1: limits: expected a table, found a list"),
            (
                "[listeners]",
                "1: listeners: expected a list of tables, each headed [[listeners]], found a table",
            ),
            ("listeners = [1]", "1: listeners[0]: expected a table, found 1"),
            (
                "[limits]\nretain_available = 1",
                "2: limits.retain_available: expected true or false, found 1",
            ),
            (
                "[limits]\nmax_qos = true",
                "2: limits.max_qos: expected an integer from 0 to 2, found true",
            ),
            (
                "[limits]\nmax_qos = 1.0",
                "2: limits.max_qos: expected an integer from 0 to 2, found 1.0",
            ),
            (
                "[limits]\nclient_id_prefix = 1979-05-27",
                "2: limits.client_id_prefix: expected a string, found the date or time 1979-05-27",
            ),
            (
                '[limits]\nversions = ["3.1", 5.0]',
                '2: limits.versions[1]: expected one of "3.1", "3.1.1", "5.0", found 5.0'
                " (write it in quotes)",
            ),
            (
                "[limits]\nversions = []",
                '2: limits.versions: expected a list that is not empty, each one of "3.1",'
                ' "3.1.1", "5.0", found an empty list',
            ),
            (
                '[limits]\nmount_point = "a/#"',
                "2: limits.mount_point: expected a string: the beginning of a topic,"
                ' without wildcards, found "a/#"',
            ),
            (
                '[[listeners]]\ntransport = "unix"\npath = "a"\nmode = 0o660',
                "4: listeners[0].mode: expected permissions as octal digits in a string,"
                ' such as "0660", found 432',
            ),
        ):
            self.assertProblem(text, problem)

    def test_not_toml(self) -> None:
        (problem,) = self.problems("[limits]\nmax_qos 1")
        self.assertTrue(problem.startswith("2: not TOML: "), problem)
        self.assertTrue(self.problems("a = " + 5000 * "[")[0])

    def test_not_a_text_file(self) -> None:
        Path(self.file).write_bytes(b"a = '\xff'")
        error = self.assertRaises(ConfigError, load, self.file)
        self.assertEqual(str(error), f"{self.file}: is not UTF-8: see byte 5")
        error = self.assertRaises(ConfigError, load, str(self.folder))
        self.assertEqual(str(error), f"{self.folder}: cannot be read: Is a directory")

    def test_long_values_are_shortened(self) -> None:
        (problem,) = self.problems(f'[limits]\nmax_qos = "{1000 * "x"}"')
        self.assertLess(len(problem), 150)

    @steady
    @given(st.text())
    def test_any_text(self, text: str) -> None:
        """Any text gives settings or a ConfigError, nothing else."""
        try:
            parse(text, "broker.toml")
        except ConfigError:
            pass

    @steady
    @given(
        st.dictionaries(
            st.sampled_from([*LIMIT_KEYS, "host", "port", "transport", "mode", "origins", "tls"]),
            st.sampled_from(
                ["0", "-1", "1e400", "nan", "true", '""', '"a"', "[]", "[[]]", "{}", "12:00:00"]
            ),
        )
    )
    def test_any_value(self, table: dict[str, str]) -> None:
        """No type of value in any key gives anything but settings or a ConfigError."""
        rows = "\n".join(f"{name} = {value}" for name, value in table.items())
        try:
            parse(f"[[listeners]]\n{rows}", "broker.toml")
        except ConfigError:
            pass


class TlsTests(ConfigCase):
    def setUp(self) -> None:
        super().setUp()
        self.authority = Authority("Test CA")
        self.authority.write(self.folder / "ca.crt")
        self.authority.issue("localhost", self.folder / "a.crt", self.folder / "a.key")
        self.authority.issue("other", self.folder / "b.crt", self.folder / "b.key")

    def listener(self, extra: str = "", certificate: str = "a.crt", key: str = "a.key") -> str:
        return (
            f'[[listeners]]\ntransport = "tls"\n[listeners.tls]\n'
            f'certificate = "{certificate}"\nkey = "{key}"\n{extra}'
        )

    def test_fine(self) -> None:
        (listener,) = self.settings(
            self.listener(
                """
                ca = "ca.crt"
                client_certificate = "required"
                ciphers = "ECDHE+AESGCM"
                ciphersuites = ["TLS_AES_128_GCM_SHA256"]
                sni = [{hosts = ["other"], certificate = "b.crt", key = "b.key"}]
                """
            )
        ).listeners
        assert listener.tls is not None
        self.assertEqual(listener.address, "mqtts://127.0.0.1:8883")
        self.assertEqual(listener.tls.certificate, str(self.folder / "a.crt"))
        self.assertEqual(listener.tls.min_version, "1.2")
        self.assertEqual(listener.tls.sni[0].hosts, ("other",))

    def test_files(self) -> None:
        (self.folder / "garbage").write_text("garbage")
        at = "listeners[0].tls"
        other = f"found something else in {self.folder}/garbage"
        for certificate, key, *problems in (
            (
                "a.crt",
                "b.key",
                f"5: {at}.key: does not belong to the certificate {self.folder}/a.crt",
            ),
            (
                "none",
                "a.key",
                f"4: {at}.certificate: cannot read {self.folder}/none: No such file or directory",
            ),
            (
                "garbage",
                "garbage",
                f"4: {at}.certificate: expected a PEM file with certificates, {other}",
                f"5: {at}.key: expected a PEM file with a private key without a passphrase,"
                f" {other}",
            ),
            ("", "a.key", f'4: {at}.certificate: expected a path, found ""'),
        ):
            self.assertProblem(self.listener("", certificate, key), *problems)

    def test_encrypted_key(self) -> None:
        self.authority.issue(
            "x", self.folder / "x.crt", self.folder / "x.key", passphrase=b"secret"
        )
        (problem,) = self.problems(self.listener("", "x.crt", "x.key"))
        self.assertIn("without a passphrase", problem)

    def test_missing(self) -> None:
        self.assertProblem(
            '[[listeners]]\ntransport = "tls"\n[listeners.tls]',
            "3: listeners[0].tls.certificate: missing; expected a path",
            "3: listeners[0].tls.key: missing; expected a path",
        )

    def test_client_certificates(self) -> None:
        self.assertProblem(
            self.listener('client_certificate = "optional"'),
            '3: listeners[0].tls.ca: missing; client_certificate = "optional" needs it',
        )
        write_revocations(self.authority, self.folder / "crl.pem")
        self.assertProblem(
            self.listener('crl = "crl.pem"'),
            '6: listeners[0].tls.crl: needs client_certificate = "optional" or "required"',
        )
        self.assertProblem(
            self.listener('client_certificate = "required"\nca = "ca.crt"\ncrl = "ca.crt"'),
            "8: listeners[0].tls.crl: expected a PEM file with revoked certificates,"
            f" found something else in {self.folder}/ca.crt",
        )
        self.settings(
            self.listener('client_certificate = "required"\nca = "ca.crt"\ncrl = "crl.pem"')
        )

    def test_ciphers(self) -> None:
        self.assertProblem(
            self.listener('ciphers = "BEST"\nciphersuites = ["TLS_AES_256_GCM_SHA385"]'),
            "6: listeners[0].tls.ciphers: expected a list of ciphers that OpenSSL knows,"
            ' found "BEST"',
            '7: listeners[0].tls.ciphersuites[0]: expected one of "TLS_AES_256_GCM_SHA384",'
            ' "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256",'
            ' "TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_8_SHA256",'
            ' found "TLS_AES_256_GCM_SHA385"',
        )

    def test_server_names(self) -> None:
        self.assertProblem(
            self.listener(
                """[[listeners.tls.sni]]
                hosts = ["other"]
                certificate = "b.crt"
                key = "b.key"
                [[listeners.tls.sni]]
                hosts = ["OTHER"]
                certificate = "b.crt"
                key = "a.key"
                """
            ),
            '11: listeners[0].tls.sni[1].hosts: "OTHER" has a certificate already',
            "13: listeners[0].tls.sni[1].key: does not belong to the certificate"
            f" {self.folder}/b.crt",
        )

    def test_warnings(self) -> None:
        (self.folder / "a.key").chmod(0o644)
        (warning,) = self.settings(self.listener()).warnings
        self.assertIn("5: listeners[0].tls.key: everybody on this machine can read", warning)
        self.authority.issue("old", self.folder / "old.crt", self.folder / "old.key", days=-1)
        (warning,) = self.settings(self.listener("", "old.crt", "old.key")).warnings
        self.assertIn("4: listeners[0].tls.certificate:", warning)
        self.assertIn("expired on", warning)


class StoreTests(ConfigCase):
    def redis(self, keys: str = "") -> str:
        return f'[store]\nkind = "redis"\n[store.redis]\n{keys}'

    def last_line(self, text: str) -> str:
        return summary(self.settings(text)).split("\n")[-1].strip()

    def test_defaults(self) -> None:
        """The file is beside the configuration, wherever the broker was started."""
        for text in ("", "[store]", '[store]\nkind = "sqlite"'):
            store = self.settings(text).store
            self.assertEqual(
                store, StoreSettings(path=str(self.folder / "mhub-data" / "mhub.sqlite"))
            )
        self.assertEqual((store.kind, store.synchronous), ("sqlite", "full"))

    def test_paths(self) -> None:
        """As a person would write them; a home has to be there."""
        store = self.settings('[store]\npath = "a/../b/./x"').store
        self.assertEqual(store.path, str(self.folder / "b" / "x"))
        self.assertEqual(self.settings('[store]\npath = "~/x"').store.path, str(Path.home() / "x"))
        [problem] = self.problems('[store]\npath = "~nobody-of-that-name/x"')
        self.assertIn("2: store.path: expected a path, found", problem)
        self.assertIn("there is no such home directory", problem)
        self.assertEqual((store.max_pending_bytes, store.queue_window), (64 << 20, 256))
        self.assertEqual(self.settings("").broker.max_queued_bytes_total, 2 << 30)

    def test_without_a_file(self) -> None:
        self.assertEqual(
            parse("", "no file").store.path, str(Path.cwd() / "mhub-data" / "mhub.sqlite")
        )

    def test_defaults_are_allowed_values(self) -> None:
        for kind, keys, table in (
            ("sqlite", STORE_KEYS, "[store]"),
            ("redis", keys_of(RedisSettings), '[store]\nkind = "redis"\n[store.redis]'),
        ):
            rows = [
                f"{name} = {entry.kind.show(entry.default)}"
                for name, entry in keys.items()
                if not entry.kind.keys and (entry.default != "" or not entry.shown)
            ]
            store = self.settings("\n".join([table, *rows])).store
            path = str(self.folder / "mhub-data" / "mhub.sqlite")
            self.assertEqual(store, StoreSettings(kind=kind, path=path))

    def test_path(self) -> None:
        store = self.settings('[store]\npath = "x.db"\nsynchronous = "off"').store
        self.assertEqual((store.path, store.synchronous), (str(self.folder / "x.db"), "off"))
        self.assertProblem(
            '[store]\npath = "."', f"2: store.path: expected a file, found the folder {self.folder}"
        )

    def test_keys_of_other_kinds(self) -> None:
        self.assertProblem(
            '[store]\nkind = "redis"\npath = "x"\nsynchronous = "full"',
            "3: store.path: only for kind sqlite; this store's is redis",
            "4: store.synchronous: only for kind sqlite; this store's is redis",
        )
        self.assertProblem(
            "[store]\n[store.redis]\ndb = 1",
            "2: store.redis: only for kind redis; this store's is sqlite",
        )

    def test_wrong_kind_is_one_problem(self) -> None:
        self.assertProblem(
            '[store]\nkind = "rediss"\npath = "x"\nredis = {host = "a"}',
            '2: store.kind: expected one of "sqlite", "redis", "memory", found "rediss"'
            ' (did you mean "redis"?)',
        )

    def test_redis_passwords(self) -> None:
        (self.folder / "secret").write_text("pencil\n")
        (self.folder / "empty").write_text("\n")
        at = "store.redis"
        redis = self.settings(self.redis('username = "u"\npassword_file = "secret"')).store.redis
        self.assertEqual(redis.password_file, str(self.folder / "secret"))
        self.settings(self.redis('password = "pencil"'))
        self.settings(self.redis('username = "u"\npassword = "pencil"'))
        for keys, problem in (
            ('username = "u"', f"4: {at}.username: needs password or password_file"),
            (
                'password = "x"\npassword_file = "secret"',
                f"5: {at}.password_file: not together with password",
            ),
            (
                'password_file = "none"',
                f"4: {at}.password_file: cannot read {self.folder}/none: No such file or directory",
            ),
            (
                'password_file = "empty"',
                f"4: {at}.password_file: there is no password in {self.folder}/empty",
            ),
        ):
            self.assertProblem(self.redis(keys), problem)

    def test_passwords_are_not_shown(self) -> None:
        settings = self.settings(self.redis('password = "pencil"'))
        self.assertNotIn("pencil", repr(settings) + summary(settings))

    def test_sentinels(self) -> None:
        fine = 'sentinels = ["a.example:26379", "[::1]:26379"]\nsentinel_name = "main"'
        self.assertEqual(len(self.settings(self.redis(fine)).store.redis.sentinels), 2)
        at = "store.redis"
        for keys, *problems in (
            ('sentinels = ["a:1"]', f"3: {at}.sentinel_name: missing; sentinels needs it"),
            ('sentinel_name = "main"', f"4: {at}.sentinel_name: needs sentinels"),
            (
                fine + '\nhost = "b"\nport = 7',
                f"6: {at}.host: not together with sentinels",
                f"7: {at}.port: not together with sentinels",
            ),
            (
                'sentinels = ["a", "a:1"]\nsentinel_name = "main"',
                f'4: {at}.sentinels[0]: expected a string: "host:port", found "a"',
            ),
        ):
            self.assertProblem(self.redis(keys), *problems)

    def test_redis_over_tls(self) -> None:
        authority = Authority("Test CA")
        authority.write(self.folder / "ca.crt")
        authority.issue("mhub", self.folder / "a.crt", self.folder / "a.key")
        authority.issue("other", self.folder / "b.crt", self.folder / "b.key")
        fine = 'ca = "ca.crt"\ncertificate = "a.crt"\nkey = "a.key"'
        self.settings(self.redis("tls = true\n" + fine))
        at = "store.redis"
        self.assertProblem(
            self.redis(fine),
            f"4: {at}.ca: needs tls = true",
            f"5: {at}.certificate: needs tls = true",
            f"6: {at}.key: needs tls = true",
        )
        self.assertProblem(
            self.redis('tls = true\nkey = "a.key"'),
            f"3: {at}.certificate: missing; key needs it",
        )
        self.assertProblem(
            self.redis('tls = true\ncertificate = "a.crt"\nkey = "b.key"\nca = "none"'),
            f"6: {at}.key: does not belong to the certificate {self.folder}/a.crt",
            f"7: {at}.ca: cannot read {self.folder}/none: No such file or directory",
        )

    def test_summary(self) -> None:
        where = f"sessions and messages in {self.folder}/mhub-data/mhub.sqlite"
        for text, line in (
            ("", where),
            ('[store]\nsynchronous = "normal"', where + ', synchronous = "normal"'),
            (
                '[store]\nkind = "memory"',
                "sessions and messages in memory: they end with the process",
            ),
            (
                self.redis('host = "::1"\ndb = 2'),
                "sessions and messages in Redis at [::1]:6379, database 2, keys mhub:*",
            ),
            (
                self.redis('host = "/run/redis.sock"'),
                "sessions and messages in Redis at /run/redis.sock, database 0, keys mhub:*",
            ),
            (
                self.redis('tls = true\nsentinels = ["a:1", "b:2"]\nsentinel_name = "main"'),
                "sessions and messages in Redis at main, by a:1 b:2 over TLS, database 0,"
                " keys mhub:*",
            ),
        ):
            self.assertEqual(self.last_line(text), line)


class ClusterTests(ConfigCase):
    SECRET = 'secret = "correct horse battery"\n'

    def cluster(self, keys: str = "", secret: str = SECRET) -> str:
        """A table whose lines 2 to 4 are right; `keys` begin in line 5."""
        return f'[cluster]\nname = "demo"\nnode = "a"\n{secret}{keys}'

    def node(self, keys: str = "", secret: str = SECRET) -> ClusterSettings:
        cluster = self.settings(self.cluster(keys, secret)).cluster
        assert cluster is not None
        return cluster

    def test_no_table_is_no_cluster(self) -> None:
        self.assertIsNone(self.settings("").cluster)

    def test_defaults(self) -> None:
        node = self.node()
        self.assertEqual((node.name, node.node), ("demo", "a"))
        self.assertEqual((node.peers, node.srv, node.dns, node.tls), ((), "", (), None))
        self.assertEqual(node.address, "127.0.0.1:7883")
        self.assertEqual(node.reached_at(7883), "127.0.0.1:7883")

    def test_defaults_are_allowed_values(self) -> None:
        rows = [
            f"{name} = {entry.kind.show(entry.default)}"
            for name, entry in keys_of(ClusterSettings).items()
            if not entry.required and not entry.kind.keys and entry.default != ""
        ]
        self.assertEqual(self.node("\n".join(rows)), self.node())

    def test_needed(self) -> None:
        self.assertProblem(
            "[cluster]",
            "1: cluster.name: missing; expected a string: 1 to 64 printable characters",
            '1: cluster.node: missing; expected a string: 1 to 64 letters, digits, "-", "_" and'
            ' ".", first a letter or a digit',
            "1: cluster.secret: missing; a cluster needs secret, secret_file or tls, so that only"
            " its own nodes can join",
        )

    def test_names(self) -> None:
        for name in ("a", "A-1_b.example", "0" * 64):
            self.settings(f'[cluster]\nname = "x"\nnode = "{name}"\n{self.SECRET}')
        for name in ("", "-a", "a b", "a/b", "\u00e4", "0" * 65):
            (problem,) = self.problems(f'[cluster]\nname = "x"\nnode = "{name}"\n{self.SECRET}')
            self.assertIn("3: cluster.node: expected a string: 1 to 64 letters", problem)
        for name in ("", "a\\tb", "0" * 65):
            (problem,) = self.problems(f'[cluster]\nname = "{name}"\nnode = "a"\n{self.SECRET}')
            self.assertIn("2: cluster.name: expected a string: 1 to 64 printable", problem)

    def test_addresses(self) -> None:
        node = self.node(
            """
            host = "::"
            port = 0
            advertise = "[2001:db8::1]:7000"
            peers = ["b.example.org:7883", "10.0.0.2:1", "[::1]:65535"]
            srv = "_mhub._tcp.example.org"
            dns = ["127.0.0.1:5353", "[::1]:53"]
            """
        )
        self.assertEqual(node.address, "[::]:0")
        self.assertEqual(node.reached_at(7), "[2001:db8::1]:7000")
        self.assertEqual(len(node.peers), 3)
        self.assertEqual(self.node('host = "::1"\nport = 0').reached_at(7), "[::1]:7")

    def test_bad_addresses(self) -> None:
        at = "5: cluster"
        for keys, problem in (
            ('peers = ["b"]', f'{at}.peers[0]: expected a string: "host:port", found "b"'),
            (
                'peers = ["a:1", "b:65536"]',
                f'{at}.peers[1]: expected a string: "host:port", found "b:65536"',
            ),
            (
                'advertise = "::1:7883"',
                f'{at}.advertise: expected a string: "host:port", found "::1:7883"',
            ),
            (
                'advertise = "[b]:7883"',
                f'{at}.advertise: expected a string: "host:port", found "[b]:7883"',
            ),
            (
                'dns = ["ns.example.org:53"]',
                f'{at}.dns[0]: expected a string: "address:port" with an IP address,'
                ' found "ns.example.org:53"',
            ),
            (
                'srv = "_mhub._tcp..org"',
                f'{at}.srv: expected a string: a DNS name, found "_mhub._tcp..org"',
            ),
            (
                'host = "0.0.0.0"',
                '1: cluster.advertise: missing; host = "0.0.0.0" does not tell the other nodes'
                ' where this one is: expected "host:port"',
            ),
            (
                "port = 1883",
                f"{at}.port: listeners[0] listens on mqtt://127.0.0.1:1883 already",
            ),
        ):
            self.assertProblem(self.cluster(keys), problem)

    def test_secrets(self) -> None:
        secret = self.folder / "secret"
        secret.touch(0o600)
        secret.write_text("correct horse battery\n")
        self.assertEqual(
            self.node(secret='secret_file = "secret"').read_secret(), "correct horse battery"
        )
        self.assertEqual(self.node().read_secret(), "correct horse battery")
        (self.folder / "short").touch(0o600)
        (self.folder / "short").write_text("fifteen letters\n")
        (self.folder / "binary").write_bytes(b"\xff" * 20)
        for keys, problem in (
            ('secret = "fifteen letters"', "secret: expected at least 16 characters, found 15"),
            (
                'secret_file = "short"',
                f"secret_file: expected at least 16 characters, found 15 in {self.folder}/short",
            ),
            (
                'secret_file = "none"',
                f"secret_file: cannot read {self.folder}/none: No such file or directory",
            ),
            (
                'secret_file = "binary"',
                f"secret_file: expected text, found something else in {self.folder}/binary",
            ),
        ):
            self.assertProblem(self.cluster(secret=keys), f"4: cluster.{problem}")
        self.assertProblem(
            self.cluster('secret_file = "secret"'),
            "5: cluster.secret_file: not together with secret",
        )

    def test_secret_is_not_shown(self) -> None:
        settings = self.settings(self.cluster())
        self.assertNotIn("horse", repr(settings) + summary(settings))
        self.assertNotIn("fifteen", str(self.problems(self.cluster(secret='secret = "fifteen"'))))

    def test_a_takeover_that_is_not_waited_for(self) -> None:
        redis = '\n[store]\nkind = "redis"\n'
        (warning,) = self.settings(self.cluster("takeover_timeout_s = 4") + redis).warnings
        self.assertIn("5: cluster.takeover_timeout_s: a CONNECT does not wait until", warning)
        self.assertIn("that takes 5s, or set failover = false", warning)
        for keys, store in (
            ("takeover_timeout_s = 5", redis),
            ("takeover_timeout_s = 4", ""),
            ("takeover_timeout_s = 4\nfailover = false", redis),
            ("takeover_timeout_s = 4\nsessions = false", redis),
        ):
            self.assertEqual(self.settings(self.cluster(keys) + store).warnings, ())

    def test_secret_that_everybody_can_read(self) -> None:
        (self.folder / "secret").write_text("correct horse battery")
        (self.folder / "secret").chmod(0o644)
        (warning,) = self.settings(self.cluster(secret='secret_file = "secret"')).warnings
        self.assertIn("4: cluster.secret_file: everybody on this machine can read", warning)

    def test_times(self) -> None:
        for keys, problem in (
            (
                'heartbeat_s = "5s"',
                "1: cluster.suspect_s: expected more than heartbeat_s, which is 5s, found 3s",
            ),
            (
                "suspect_s = 10",
                "1: cluster.dead_s: expected more than suspect_s, which is 10s, found 10s",
            ),
            (
                "retry_max_s = 0.4",
                "5: cluster.retry_max_s: expected at least retry_s, which is 0.5s, found 0.4s",
            ),
        ):
            self.assertProblem(self.cluster(keys), problem)
        self.assertEqual(self.node("retry_max_s = 0.5\nforget_s = 0").forget_s, 0)
        (problem,) = self.problems(self.cluster('heartbeat_s = "soon"\nsuspect_s = 0.5'))
        self.assertIn("5: cluster.heartbeat_s: expected a duration", problem)

    def test_tls(self) -> None:
        """A certificate is enough, if it is for the name of the node."""
        authority = Authority("Test CA")
        authority.write(self.folder / "ca.crt")
        for name in ("a", "A", "b", "*.plant.example", "*.example"):
            authority.issue(name, self.folder / f"{name}.crt", self.folder / f"{name}.key")

        def tls(name: str) -> str:
            return f'[cluster.tls]\ncertificate = "{name}.crt"\nkey = "{name}.key"\nca = "ca.crt"\n'

        self.assertIsNotNone(self.node(tls("a"), secret="").tls)
        self.assertIsNotNone(self.node(tls("A"), secret=self.SECRET).tls)
        self.assertProblem(
            self.cluster(tls("b"), secret=""),
            '5: cluster.tls.certificate: expected a certificate for the name of the node, "a";'
            f" {self.folder}/b.crt is for b (as a DNS name among its subject alternative names)",
        )
        for name, fine in (
            ("a.plant.example", True),
            ("plant.example", False),
            ("a.b.plant.example", False),
        ):
            text = f'[cluster]\nname = "x"\nnode = "{name}"\n' + tls("*.plant.example")
            if fine:
                self.settings(text)
            else:
                (problem,) = self.problems(text)
                self.assertIn("is for *.plant.example (", problem)
        (problem,) = self.problems('[cluster]\nname = "x"\nnode = "a.example"\n' + tls("*.example"))
        self.assertIn("too few host components for wildcard usage", problem)

    def test_names_that_no_certificate_can_be_for(self) -> None:
        """What looks like an address is one, to those who check certificates."""
        authority = Authority("Test CA")
        authority.write(self.folder / "ca.crt")
        authority.issue("a", self.folder / "a.crt", self.folder / "a.key")
        tls = '[cluster.tls]\ncertificate = "a.crt"\nkey = "a.key"\nca = "ca.crt"\n'
        for name in ("1", "007", "1_000", "10.0.0.1"):
            text = f'[cluster]\nname = "x"\nnode = "{name}"\n'
            self.settings(text + self.SECRET)
            self.assertProblem(
                text + tls,
                "3: cluster.node: expected a name that a certificate can be for, as there is"
                f' cluster.tls, found "{name}": a number could be an address; put a letter'
                " before it",
            )
        for name in ("n1", "10.0.0.1a", "1.2", "a_1"):
            authority.issue(name, self.folder / "a.crt", self.folder / "a.key")
            self.settings(f'[cluster]\nname = "x"\nnode = "{name}"\n{tls}')

    def test_tls_needs_all_its_files(self) -> None:
        self.assertProblem(
            self.cluster('[cluster.tls]\nkey = "none"', secret=""),
            "4: cluster.tls.certificate: missing; expected a path",
            "4: cluster.tls.ca: missing; expected a path",
            f"5: cluster.tls.key: cannot read {self.folder}/none: No such file or directory",
        )

    def test_typo(self) -> None:
        self.assertProblem(
            self.cluster('peer = ["b:1"]\nqueue_full = "refuze"'),
            '5: cluster.peer: unknown key; did you mean "peers"?',
            '6: cluster.queue_full: expected one of "refuse", "drop", found "refuze"'
            ' (did you mean "refuse"?)',
        )

    def test_summary(self) -> None:
        def lines(keys: str) -> list[str]:
            return [line.strip() for line in summary(self.settings(keys)).split("\n")[-2:]]

        control = f"control socket {self.folder}/mhub-data/control.sock"
        start = "node a of the cluster demo on 127.0.0.1:7883, trust by a secret; joins"
        self.assertEqual(lines(self.cluster()), [f"{start} nobody: it waits for others", control])
        self.assertEqual(
            lines(self.cluster('peers = ["b:1", "c:2"]\nsrv = "x.example"')),
            [f"{start} b:1, c:2, SRV x.example", control],
        )

    @steady
    @given(
        st.dictionaries(
            st.sampled_from(list(keys_of(ClusterSettings))),
            st.sampled_from(
                ["0", "-1", "1e400", "nan", "true", '""', '"a"', "[]", '[""]', "{}", "12:00:00"]
            ),
        )
    )
    def test_any_value(self, table: dict[str, str]) -> None:
        """No type of value in any key gives anything but settings or a ConfigError."""
        rows = "\n".join(f"{name} = {value}" for name, value in table.items())
        try:
            parse(f"[cluster]\n{rows}", "broker.toml")
        except ConfigError:
            pass


class ControlTests(ConfigCase):
    def test_defaults(self) -> None:
        """The socket is beside the configuration; a broker that nobody asked for it may fail it."""
        for text in ("", "[control]", '[control]\nmode = "0600"'):
            control = self.settings(text).control
            self.assertEqual(control.path, str(self.folder / "mhub-data" / "control.sock"))
            self.assertFalse(control.required)
        self.assertEqual((self.settings("").control.mode, control.mode), (0o660, 0o600))

    def test_without_a_file(self) -> None:
        self.assertEqual(
            parse("", "no file").control.path, str(Path.cwd() / "mhub-data" / "control.sock")
        )

    def test_required(self) -> None:
        """Who names it, or has a cluster to see and change by it, wants it."""
        control = self.settings('[control]\npath = "c.sock"').control
        self.assertEqual((control.path, control.required), (str(self.folder / "c.sock"), True))
        cluster = f'[cluster]\nname = "x"\nnode = "a"\n{ClusterTests.SECRET}'
        self.assertTrue(self.settings(cluster).control.required)

    def test_off(self) -> None:
        control = self.settings('[control]\npath = ""').control
        self.assertEqual((control.path, control.required), ("", False))

    def test_mistakes(self) -> None:
        (self.folder / "file").write_text("")
        self.assertProblem(
            '[control]\npath = "file"',
            f"2: control.path: {self.folder}/file exists and is not a socket",
        )
        self.assertProblem(
            '[control]\npath = "./x"\n[[listeners]]\ntransport = "unix"\npath = "x"',
            f"2: control.path: listeners[0] listens on unix:{self.folder}/x already",
        )
        self.assertProblem(
            '[control]\nmode = "rw"',
            "2: control.mode: expected permissions as octal digits in a string, such as"
            ' "0660", found "rw"',
        )


class AccessTests(ConfigCase):
    def test_off_without_the_table(self) -> None:
        self.assertIsNone(self.settings("").access)
        self.assertNotIn("access control", summary(self.settings("[access]\nenabled = false\n")))

    def test_registry(self) -> None:
        settings = self.settings("[access]\n")
        access = settings.access
        assert access is not None
        self.assertEqual((access.policy, access.subscribe), ("registry", "strict"))
        self.assertIn("\n  access control by rules in the registry", summary(settings))

    def test_file(self) -> None:
        """It starts from the folder of the configuration, and is checked with it."""
        file = self.folder / "policy.csv"
        text = '[access]\npolicy = "policy.csv"\nsubscribe = "receive"\n'
        self.assertProblem(text, f"2: access.policy: cannot read {file}: No such file or directory")
        file.write_text("p, role:a, *, publish, x, any, alow\n\np, role:a\n")
        first, second = self.problems(text)
        self.assertIn(f"2: access.policy: {file}:1: 'alow'", first)
        self.assertIn(f"2: access.policy: {file}:3: 2 fields", second)
        file.write_text("p, role:a, *, publish, x, any, allow\n")
        settings = self.settings(text)
        assert settings.access is not None
        self.assertEqual(settings.access.policy, str(file))
        self.assertIn(f'by rules in {file}, subscribe = "receive"', summary(settings))

    def test_mistakes(self) -> None:
        self.assertProblem(
            '[access]\npolicy = ""\ndenied_publish = "drop"\npolcy = "x"\n',
            '2: access.policy: expected "registry", or the path of a CSV file, found ""',
            '3: access.denied_publish: expected one of "acknowledge", "disconnect", found "drop"',
            '4: access.polcy: unknown key; did you mean "policy"?',
        )


class UnitTests(TestCase):
    def test_sizes(self) -> None:
        for text, size in (
            ("0", 0),
            ("12", 12),
            ("64 KiB", 65536),
            ("64KiB", 65536),
            ("10 MB", 10_000_000),
            ("1.5 kB", 1500),
            ("2 gib", 2 << 30),
            ("7 B", 7),
        ):
            self.assertEqual(parse_size(text), size)
        for text in ("", "KiB", "1 TB", "-1", "0.5", "1 Ki B", "1,5 kB", "\u0661"):
            self.assertIsNone(parse_size(text), text)

    def test_durations(self) -> None:
        for text, seconds in (
            ("30s", 30),
            ("1h", 3600),
            ("1h30m", 5400),
            ("1h 30 min", 5400),
            ("250ms", 0.25),
            ("1.5 d", 129600),
            ("2w", 1209600),
            (" 1s ", 1),
        ):
            self.assertEqual(parse_duration(text), seconds)
        for text in ("", "30", "s", "1 year", "-1s", "1h!", "1s2", "never"):
            self.assertIsNone(parse_duration(text), text)

    @steady
    @given(st.integers(0, 1 << 40))
    def test_shown_is_exact(self, number: int) -> None:
        self.assertEqual(parse_size(show_size(number)), number)

    @steady
    @given(st.integers(0, NEVER))
    def test_shown_duration_is_exact(self, number: int) -> None:
        self.assertEqual(parse_duration(show_duration(number)), number)


class LineTests(TestCase):
    def test_lines(self) -> None:
        """Comments, strings and lists that look like keys do not lead it astray."""
        text = '''# a = 1
top = """
[not.a.table]
x = 1
"""
[ "quoted" . plain ] # comment
key = [
  "x = 1", # ]
  { a = 1 },
]
'single' = 'it # is'
[[list]]
a.b = 1
[[list]]
[list.inner]
c = "\\"]"
[[list.inner2]]
[[list.inner2]]
d = 1
'''
        self.assertEqual(
            line_numbers(text),
            {
                "top": 2,
                "quoted.plain": 6,
                "quoted.plain.key": 7,
                "quoted.plain.single": 11,
                "list": 12,
                "list[0]": 12,
                "list[0].a": 13,
                "list[0].a.b": 13,
                "list[1]": 14,
                "list[1].inner": 15,
                "list[1].inner.c": 16,
                "list[1].inner2": 17,
                "list[1].inner2[0]": 17,
                "list[1].inner2[1]": 18,
                "list[1].inner2[1].d": 19,
            },
        )

    @steady
    @given(st.text(alphabet="a.=[]{}\"'#\n \\1"))
    def test_any_text(self, text: str) -> None:
        """It ends, whatever the text is."""
        line_numbers(text)


class AuthTests(ConfigCase):
    """`[[auth]]`, whose types are plugins."""

    def test_in_the_order_of_the_file(self) -> None:
        settings = self.settings(
            """
            [[listeners]]
            name = "a"
            port = 1
            [[listeners]]
            name = "b"
            port = 2
            proxy_protocol = true
            [[auth]]
            type = "certificate"
            identity = "uri"
            listeners = ["b"]
            [[auth]]
            type = "registry"
            name = "users"
            on_error = "next"
            """
        )
        first, second = settings.auth
        self.assertEqual(
            (first.type, first.name, first.on_error), ("certificate", "certificate", "refuse")
        )
        self.assertEqual((first.listeners, first.options.identity), (("b",), "uri"))
        self.assertEqual((second.type, second.name, second.on_error), ("registry", "users", "next"))
        self.assertTrue(second.applies_to("a") and not first.applies_to("a"))

    def test_mistakes(self) -> None:
        kinds = ", ".join(f'"{kind}"' for kind in sorted(OWN))
        self.assertProblem(
            '[[auth]]\nname = "x"', f"1: auth[0].type: missing; expected one of {kinds}"
        )
        self.assertProblem(
            '[[auth]]\ntype = "regsitry"',
            f"2: auth[0].type: expected one of {kinds}, found 'regsitry';"
            ' did you mean "registry"?',
        )
        self.assertProblem(
            '[[auth]]\ntype = "registry"\nidentity = "cn"',
            '3: auth[0].identity: unknown key; did you mean "identify_by"?',
        )
        self.assertProblem(
            '[[auth]]\ntype = "certificate"\nidentity = "dn"\n[[listeners]]\nproxy_protocol = true',
            '3: auth[0].identity: expected one of "cn", "subject", "dns", "uri", "email",'
            ' found "dn" (did you mean "dns"?)',
        )
        self.assertProblem(
            '[[auth]]\ntype = "registry"\n[[auth]]\ntype = "registry"',
            '3: auth[1].name: "registry" is the name of another one; give it a name of its own',
        )
        self.assertProblem(
            '[[auth]]\ntype = "registry"\nlisteners = ["mqtt"]',
            '3: auth[0].listeners[0]: there is no listener "mqtt"; there are: tcp-1883, admin',
        )
        self.assertProblem(
            '[auth.scram]\nusers_file = "x"',
            " auth: expected a list of tables, each headed [[auth]], found a table",
        )

    def test_certificates_that_nobody_asks_for(self) -> None:
        (problem,) = self.problems('[[auth]]\ntype = "certificate"')
        self.assertIn("1: auth[0]: its listeners ask nobody for a certificate", problem)

    def test_changes(self) -> None:
        """A reload names what needs a restart."""
        text = '[[auth]]\ntype = "registry"\non_error = "{}"\nidentify_by = "{}"\n'
        one = self.settings(text.format("refuse", "username"))
        self.assertEqual(changes(one, self.settings(text.format("refuse", "username"))), [])
        self.assertEqual(
            changes(one, self.settings(text.format("next", "both"))),
            ["auth[0].on_error", "auth[0].identify_by"],
        )
        self.assertIn("auth", changes(one, self.settings("")))

    def test_password_file(self) -> None:
        """What is wrong with it is an error of the configuration, with the line of the file."""
        self.assertProblem(
            '[[auth]]\ntype = "password-file"\nfile = "none"',
            f"3: auth[0].file: cannot read {self.folder}/none: No such file or directory",
        )
        (self.folder / "users").write_text("# users\nalice:plain text")
        (problem,) = self.problems('[[auth]]\ntype = "password-file"\nfile = "users"')
        self.assertIn(f"3: auth[0].file: {self.folder}/users:2: not a hash", problem)
        self.assertNotIn("plain text", problem)


class AnonymousTests(ConfigCase):
    """A broker that is open to all does not come about by leaving out a line."""

    def allowed(self, text: str) -> list[bool]:
        return [each.limits.allow_anonymous for each in self.settings(text).listeners]

    def test_on_this_machine(self) -> None:
        local = '[[listeners]]\n[[listeners]]\nhost = "::1"\nport = 1884\n[[listeners]]\n'
        text = local + 'transport = "unix"\npath = "x.sock"\n'
        self.assertEqual(self.allowed(text), [True] * 3)

    def test_others_can_reach_it(self) -> None:
        for line in (
            'host = "0.0.0.0"',
            'host = "::"',
            'host = "192.0.2.7"',
            "proxy_protocol = true",
        ):
            (problem,) = self.problems(f"[[listeners]]\n{line}\n")
            self.assertIn("1: listeners[0]: others can reach tcp-1883", problem)
            self.assertIn('Add [[auth]] with type = "registry"', problem)
            self.assertIn("or set allow_anonymous = true to let everybody in", problem)

    def test_said_so(self) -> None:
        text = '[[listeners]]\nhost = "0.0.0.0"\n'
        self.assertEqual(self.allowed(text + "allow_anonymous = true"), [True])
        self.assertEqual(self.allowed(text + "[limits]\nallow_anonymous = true"), [True])
        self.assertEqual(self.allowed(text + "allow_anonymous = false"), [False])

    def test_with_an_authenticator(self) -> None:
        text = '[[listeners]]\nhost = "0.0.0.0"\n[[auth]]\ntype = "registry"\n'
        self.assertEqual(self.allowed(text), [False])
        self.assertEqual(self.allowed(text + "[limits]\nallow_anonymous = true"), [True])

    def test_with_one_for_another_listener(self) -> None:
        text = """
            [[listeners]]
            name = "in"
            [[listeners]]
            name = "out"
            host = "0.0.0.0"
            port = 1884
            [[auth]]
            type = "registry"
            listeners = ["in"]
            """
        (problem,) = self.problems(text)
        self.assertIn("4: listeners[1]: others can reach out", problem)

    def test_anonymous_as_a_type(self) -> None:
        text = """
            [[listeners]]
            host = "0.0.0.0"
            [[auth]]
            type = "registry"
            [[auth]]
            type = "anonymous"
            """
        self.assertEqual(self.allowed(text), [True])
        self.assertProblem(
            text + "[limits]\nallow_anonymous = false",
            '2: listeners[0].allow_anonymous: not together with [[auth]] of type "anonymous" for'
            " tcp-1883",
        )

    def test_what_is_wrong_with_auth_is_said_alone(self) -> None:
        text = '[[listeners]]\nhost = "0.0.0.0"\n[[auth]]\ntype = "x"'
        (problem,) = self.problems(text)
        self.assertIn("auth[0].type", problem)


class JwtTests(ConfigCase):
    def at(self, text: str) -> str:
        return f'[[auth]]\ntype = "jwt"\n{text}\n'

    def test_a_key_is_needed(self) -> None:
        self.assertProblem(
            self.at(""),
            "1: auth[0]: needs secret, secret_file, key_file, jwks_file or jwks_url",
        )

    def test_secrets(self) -> None:
        self.assertProblem(
            self.at('secret = "short"'),
            "3: auth[0].secret: a secret of 5 bytes; expected 32 or more",
        )
        (source,) = self.settings(self.at(f'secret = "{"x" * 32}"')).auth
        self.assertNotIn("xxx", repr(source))

    def test_files(self) -> None:
        for name, data, problem in (
            ("key_file", "nonsense", "not a public key or certificate in PEM form"),
            (
                "key_file",
                "-----BEGIN PRIVATE KEY-----",
                "a private key; the broker needs the public one, and nobody else this one",
            ),
            ("jwks_file", "{}", 'not a JSON Web Key Set: there is no list "keys"'),
            ("secret_file", "short", "a secret of 5 bytes; expected 32 or more"),
        ):
            (self.folder / "key").write_text(data)
            self.assertProblem(
                self.at(f'{name} = "key"'), f"3: auth[0].{name}: {self.folder}/key: {problem}"
            )

    def test_urls(self) -> None:
        self.assertProblem(
            self.at('jwks_url = "http://issuer.example.org/keys"'),
            "3: auth[0].jwks_url: expected https: whoever could change the keys on their way could"
            " be anybody",
        )
        self.assertProblem(
            self.at('jwks_url = "http://127.0.0.1/"\nca = "ca.crt"'),
            "4: auth[0].ca: needs a jwks_url with https",
        )
