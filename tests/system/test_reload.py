"""SIGHUP to a running broker: what it says, and what is in force after it."""

import http.client
import signal
import socket
import ssl
from pathlib import Path

from tests.helpers import packets as p
from tests.helpers.certificates import Authority
from tests.system.case import PLAIN, BrokerCase, place
from tests.system.process import PATIENCE_S, Broker, wait_until
from tests.system.raw import Raw

ADMINISTRATIVE = 0x98
PASSWORD = "tw9-vier"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


class ReloadCase(BrokerCase):
    def write(self, broker: Broker, config: str, plain: str = PLAIN) -> None:
        (broker.directory / "broker.toml").write_text(plain + config)

    def reload(self, broker: Broker, config: str, until: str, plain: str = PLAIN) -> str:
        """What is logged from a SIGHUP on, up to this text; `config` is new in the file."""
        self.write(broker, config, plain)
        mark = len(broker.log())
        broker.signal(signal.SIGHUP)
        broker.wait_for_log(until, mark)
        broker._find_ports()
        return broker.log(mark)

    def client(self, broker: Broker, name: str, listener: str = "plain", version: int = 5) -> Raw:
        raw = Raw(("127.0.0.1", broker.ports[listener]), version)
        self.addCleanup(raw.sock.close)
        raw.connect(name)
        return raw


class ReloadTests(ReloadCase):
    def test_what_is_reloaded_and_what_is_not(self) -> None:
        broker = self.start()
        log = self.reload(broker, "", "no setting has changed")
        self.assertIn(f"SIGHUP: reading {broker.directory}/broker.toml", log)
        log = self.reload(
            broker,
            '[store]\nretry_s = 2\n[sys]\ninterval_s = 5\n[log]\nlevel = "debug"\n',
            "only a restart reloads it: store.retry_s",
        )
        self.assertIn("reloaded: sys.interval_s, log.level", log)
        # The restart is still to come.
        log = self.reload(
            broker,
            '[store]\nretry_s = 2\n[sys]\ninterval_s = 5\n[log]\nlevel = "debug"\n',
            "only a restart reloads it: store.retry_s",
        )
        self.assertNotIn("reloaded: ", log)

    def test_the_level_of_the_log(self) -> None:
        broker = self.start()
        self.reload(broker, '[log]\nlevel = "error"\n', "reloaded: log.level")
        log = self.reload(broker, "[limits]\nmax_qso = 1\n", "limits.max_qso: unknown key")
        self.assertNotIn("SIGHUP", log)

    def test_a_mistake_changes_nothing(self) -> None:
        """Neither what is right in the same file, nor what it would have closed or opened."""
        broker = self.start('[[listeners]]\nname = "more"\nport = 0\n')
        client = self.client(broker, "c", "more")
        new = free_port()
        config = f'[[listeners]]\nname = "new"\nport = {new}\n[limits]\nmax_qos = 0\n'
        log = self.reload(broker, config + "max_qso = 1\n", "limits.max_qso: unknown key")
        self.assertIn("nothing is reloaded", log)
        with self.assertRaises(ConnectionRefusedError):
            Raw(("127.0.0.1", new))
        client.publish("t", b"", 2, 1)
        client.expect("PUBREC", pid=1)
        self.client(broker, "d", "more")
        # Nor does something that only shows when it is tried: another process has the port.
        with socket.create_server(("127.0.0.1", new)):
            log = self.reload(broker, config, "Address already in use")
        self.assertIn(f"listener new: cannot listen on mqtt://127.0.0.1:{new}", log)
        client.ping()
        self.client(broker, "e", "more").close()
        log = self.reload(broker, config, "reloaded: limits.max_qos, listeners[1]")
        packet = client.expect("DISCONNECT", reason=ADMINISTRATIVE)
        self.assertEqual(packet.reason, ADMINISTRATIVE)
        self.client(broker, "f", "new").ping()

    def test_certificates(self) -> None:
        """In other files, expired, about to; one that is wrong leaves all as it was."""
        folder = place(self)
        authority = Authority("Test Authority")
        authority.write(folder / "ca.crt")
        for name, days in (("one", 30), ("two", 5), ("old", -1)):
            authority.issue("localhost", folder / f"{name}.crt", folder / f"{name}.key", days=days)
        secure = (
            '[[listeners]]\nname = "secure"\ntransport = "tls"\nport = 0\n'
            'tls.certificate = "{0}.crt"\ntls.key = "{0}.key"\n'
        )
        broker = self.start(secure.format("one"), directory=folder)
        self.assertNotIn("expire", broker.log())
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        client = Raw(("127.0.0.1", broker.ports["secure"]), 5, context, "localhost")
        client.connect("c")
        done = "reloaded: listeners[1].tls.certificate, listeners[1].tls.key"
        log = self.reload(broker, secure.format("two"), done)
        self.assertIn("secure: certificates reloaded", log)
        self.assertRegex(log, r"listeners\[1\].tls.certificate: \S+/two.crt expires on .*, in 4 d")
        self.assertEqual(self.shown(broker), (folder / "two.crt").read_text())
        log = self.reload(broker, secure.format("old"), done)
        self.assertRegex(log, r"/old.crt expired on ")
        self.assertEqual(self.shown(broker), (folder / "old.crt").read_text())
        self.reload(broker, secure.format("one") + "tls.ky = 1\n", "nothing is reloaded")
        self.assertEqual(self.shown(broker), (folder / "old.crt").read_text())
        # The same names, renewed.
        for kind in ("crt", "key"):
            (folder / f"one.{kind}").replace(folder / f"old.{kind}")
        self.reload(broker, secure.format("old"), "no setting has changed")
        self.assertEqual(self.shown(broker), (folder / "old.crt").read_text())
        client.ping()
        client.close()

    def shown(self, broker: Broker) -> str:
        return ssl.get_server_certificate(("127.0.0.1", broker.ports["secure"]))

    def test_limits_of_clients_that_are_connected(self) -> None:
        """Bounds hold for them within seconds; what they were told, until they connect again."""
        broker = self.start()
        client = self.client(broker, "c")
        client.subscribe("a/b/c", 1)
        self.reload(
            broker,
            "[limits]\nmessage_size_limit = 10\nmax_subscriptions = 1\nmax_qos = 1\n",
            "reloaded: limits.max_qos, limits.message_size_limit, limits.max_subscriptions",
        )

        def refused() -> bool:
            client.send(p.publish("t", b"x" * 11, 1, 7, version=5))
            return client.expect("PUBACK", pid=7).reason == 0x83

        wait_until(refused, "the limit holds")
        client.send(p.subscribe(9, ("x/y", 0), version=5))
        client.expect("SUBACK", reasons=[0x97])
        client.publish("t", b"x", 2, 8)
        client.expect("PUBREC", pid=8)
        other = Raw(("127.0.0.1", broker.port), 5)
        connack = other.connect("d")
        self.assertIn((0x24, 1), connack.props)  # Maximum QoS
        other.close()


class ListenerTests(ReloadCase):
    def test_ports_change_places(self) -> None:
        """Two listeners swap their ports: both go on, nobody loses the connection."""
        one, two = free_port(), free_port()
        text = '[[listeners]]\nname = "x"\nport = {}\n[[listeners]]\nname = "y"\nport = {}\n'
        broker = self.start(text.format(one, two))
        at_x, at_y = self.client(broker, "c", "x"), self.client(broker, "d", "y")
        self.reload(broker, text.format(two, one), "reloaded: listeners[1].port, listeners[2].port")
        self.assertEqual((broker.ports["x"], broker.ports["y"]), (two, one))
        at_x.ping()
        at_y.ping()
        self.client(broker, "e", "x").ping()
        self.client(broker, "f", "y").ping()

    def test_another_address_keeps_its_clients(self) -> None:
        one, two = free_port(), free_port()
        text = '[[listeners]]\nname = "x"\nport = {}\n'
        broker = self.start(text.format(one))
        client = self.client(broker, "c", "x")
        self.reload(broker, text.format(two), "reloaded: listeners[1].port")
        client.ping()
        with self.assertRaises(ConnectionRefusedError):
            Raw(("127.0.0.1", one))
        self.client(broker, "d", "x").ping()

    def test_another_transport_does_not(self) -> None:
        port = free_port()
        text = '[[listeners]]\nname = "x"\nport = {}\ntransport = "{}"\n'
        broker = self.start(text.format(port, "tcp"))
        client = self.client(broker, "c", "x")
        self.reload(broker, text.format(port, "ws"), "reloaded: listeners[1].transport")
        client.expect("DISCONNECT", reason=ADMINISTRATIVE)
        client.expect_closed()

    def test_a_wider_address_needs_two_steps(self) -> None:
        port = free_port()
        text = '[[listeners]]\nname = "x"\nport = {}\nhost = "{}"\nallow_anonymous = true\n'
        broker = self.start(text.format(port, "127.0.0.1"))
        log = self.reload(broker, text.format(port, "0.0.0.0"), "until the reload is done")
        self.assertIn("remove it with one reload", log)
        self.reload(broker, "", "reloaded: listeners")
        self.reload(broker, text.format(port, "0.0.0.0"), "reloaded: listeners")
        self.client(broker, "c", "x").ping()

    def test_unix_sockets(self) -> None:
        folder = place(self)
        text = '[[listeners]]\nname = "u"\ntransport = "unix"\npath = "{}"\nmode = "{}"\n'
        broker = self.start(text.format("one.sock", "0600"), directory=folder)
        client = Raw(str(folder / "one.sock"))
        client.connect("c")
        self.reload(broker, text.format("one.sock", "0660"), "reloaded: listeners[1].mode")
        self.assertEqual((folder / "one.sock").stat().st_mode & 0o777, 0o660)
        self.reload(broker, text.format("two.sock", "0660"), "reloaded: listeners[1].path")
        self.assertFalse((folder / "one.sock").exists())
        other = Raw(str(folder / "two.sock"))
        other.connect("d")
        client.ping()
        other.close()
        client.close()


class PartsTests(ReloadCase):
    def password_file(self, broker_folder: Path, name: str) -> str:
        from mhub.auth import hashes

        line = f"{name}:{hashes.make(PASSWORD.encode(), hashes.Costs(8, 1))}\n"
        path = broker_folder / f"{name}.users"
        path.write_text(line)
        path.chmod(0o600)
        anonymous = "[limits]\nallow_anonymous = true\n"  # for who looks whether the broker is up
        return f'{anonymous}[[auth]]\ntype = "password-file"\nfile = "{path.name}"\n'

    def login(self, broker: Broker, user: str) -> int:
        raw = Raw(("127.0.0.1", broker.port), 5)
        self.addCleanup(raw.sock.close)
        raw.send(p.connect(f"by-{user}", 5, username=user, password=PASSWORD.encode()))
        return int(raw.expect("CONNACK").reason)

    def test_authenticators(self) -> None:
        folder = place(self)
        one, two = self.password_file(folder, "anna"), self.password_file(folder, "bert")
        broker = self.start(one, directory=folder)
        self.assertEqual(self.login(broker, "anna"), 0)
        self.assertNotEqual(self.login(broker, "bert"), 0)
        stays = Raw(("127.0.0.1", broker.port), 5)
        self.addCleanup(stays.sock.close)
        stays.send(p.connect("stays", 5, username="anna", password=PASSWORD.encode()))
        stays.expect("CONNACK", reason=0)
        self.reload(broker, two, "reloaded: auth[0].file")
        self.assertEqual(self.login(broker, "bert"), 0)
        self.assertNotEqual(self.login(broker, "anna"), 0)
        stays.ping()
        # A mistake in another table leaves them as they are.
        self.reload(broker, one + '[log]\nto = "file"\nfile = "no/such/x.log"\n', "no folder")
        self.assertEqual(self.login(broker, "bert"), 0)
        # None at all: whoever comes is anonymous.
        self.reload(broker, "", "reloaded: ")
        self.assertEqual(self.login(broker, "anna"), 0)

    def test_rules(self) -> None:
        folder = place(self)
        rules = "p, role:everyone, *, connect|subscribe|publish, #, any, allow\n"
        (folder / "rules.csv").write_text(rules)
        broker = self.start(directory=folder)
        client = self.client(broker, "c")
        client.subscribe("a")
        access = '[access]\npolicy = "rules.csv"\n'
        (folder / "rules.csv").write_text(rules.replace("publish,", "publsh,"))
        self.reload(broker, access, "rules.csv:1")
        client.send(p.publish("a", b"1", version=5))
        client.expect("PUBLISH", payload=b"1")
        (folder / "rules.csv").write_text(rules.replace("|subscribe", ""))
        self.reload(broker, access, "reloaded: access")
        client.expect("DISCONNECT", reason=0x87)
        self.reload(broker, "", "access control is off")
        self.client(broker, "d").subscribe("a")

    def test_where_the_log_goes(self) -> None:
        broker = self.start()
        path = broker.directory / "mhub.log"
        self.write(broker, f'[log]\nto = "file"\nfile = "{path}"\n')
        broker.signal(signal.SIGHUP)
        broker.wait_for_log("reloaded: log.to")
        self.assertIn("reloaded: log.to", path.read_text())

    def test_low_ports(self) -> None:
        """What the user of the process may not have is refused, and the text says what to do."""
        from mhub.config import parse
        from mhub.net.listen import _hint

        (listener,) = parse('[[listeners]]\nname = "x"\nport = 883\n', "x.toml").listeners
        error = PermissionError(13, "Permission denied")
        self.assertIn("can only bind it at a restart", _hint(listener, error))
        self.assertEqual(_hint(listener, OSError(98, "Address already in use")), "")


class ClusterTests(ReloadCase):
    def cluster(self, node: str, port: int, secret: str, *peers: str) -> str:
        return (
            f'[cluster]\nname = "c"\nnode = "{node}"\nport = {port}\nretry_max_s = 1\n'
            f'secret = "{secret}"\npeers = {list(peers)}\n'
        )

    def test_the_admin_side(self) -> None:
        """Who may use it how; the listener itself needs a restart."""
        broker = self.start("[admin]\nport = 0\n")
        port = int(broker.log().partition("dashboard on http://127.0.0.1:")[2].split()[0])

        def ask(path: str, **headers: str) -> tuple[int, str]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            answer.read()
            connection.close()
            return answer.status, answer.headers.get("Access-Control-Allow-Origin", "")

        origin = "https://ops.example.org"
        self.assertEqual(ask("/metrics"), (401, ""))
        log = self.reload(
            broker,
            f'[admin]\nport = 1\nmetrics = "open"\norigins = ["{origin}"]\nidle_timeout_s = 5\n',
            "only a restart reloads it: admin.port",
        )
        self.assertIn("reloaded: admin.origins, admin.metrics, admin.idle_timeout_s", log)
        self.assertEqual(ask("/metrics", Origin=origin), (200, origin))
        self.reload(broker, "[admin]\nport = 0\n", "reloaded: admin.")
        self.assertEqual(ask("/metrics", Origin=origin), (401, ""))

    def test_peers_and_secret(self) -> None:
        """A node that gets a peer calls it; then both get another secret, one after the other."""
        one, two = free_port(), free_port()
        old, new = "an old secret of 16", "a new secret of 16."
        a = self.start(self.cluster("a", one, old))
        b = self.start(self.cluster("b", two, old))
        address = f"127.0.0.1:{one}"
        self.reload(b, self.cluster("b", two, old, address), "reloaded: cluster.peers")
        b.wait_for_log("node a is up")
        # The link stays; a node that still has the old secret can come.
        self.reload(a, self.cluster("a", one, new), "reloaded: cluster.secret")
        third = self.start(self.cluster("third", free_port(), old, address))
        third.wait_for_log("node a is up")
        self.reload(b, self.cluster("b", two, new, address), "reloaded: cluster.secret")
        fourth = self.start(self.cluster("fourth", free_port(), new, address))
        fourth.wait_for_log("node a is up")
        self.assertNotIn("node b is", a.log().rpartition("node b is up")[2])
