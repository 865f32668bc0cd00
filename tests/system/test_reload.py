"""SIGHUP to a running broker: what it says, and what is in force after it."""

import signal
import ssl

from tests.helpers.certificates import Authority
from tests.system.case import PLAIN, BrokerCase, place
from tests.system.process import Broker
from tests.system.raw import Raw


class ReloadTests(BrokerCase):
    def reload(self, broker: Broker, config: str, until: str) -> str:
        """What is logged from a SIGHUP on, up to this text; `config` is new in the file."""
        (broker.directory / "broker.toml").write_text(PLAIN + config)
        mark = len(broker.log())
        broker.signal(signal.SIGHUP)
        broker.wait_for_log(until, mark)
        return broker.log(mark)

    def test_what_is_reloaded_and_what_is_not(self) -> None:
        broker = self.start()
        log = self.reload(broker, "", "no setting has changed")
        self.assertIn(f"SIGHUP: reading {broker.directory}/broker.toml", log)
        log = self.reload(
            broker,
            '[limits]\nmax_qos = 1\n[sys]\ninterval_s = 5\n[log]\nlevel = "debug"\n',
            "only a restart reloads it: limits.max_qos, sys.interval_s",
        )
        self.assertIn("reloaded: log.level", log)
        # The restart is still to come; and the broker is what it was.
        log = self.reload(
            broker, '[limits]\nmax_qos = 1\n[log]\nlevel = "debug"', "reloads it: limits.max_qos"
        )
        self.assertNotIn("reloaded: ", log)
        raw = Raw(("127.0.0.1", broker.port))
        raw.connect("c")
        raw.publish("t", b"", 2, 1)
        raw.expect("PUBREC", pid=1)
        raw.close()

    def test_the_level_of_the_log(self) -> None:
        broker = self.start()
        self.reload(broker, '[log]\nlevel = "error"\n', "reloaded: log.level")
        log = self.reload(broker, "[limits]\nmax_qso = 1\n", "limits.max_qso: unknown key")
        self.assertNotIn("SIGHUP", log)

    def test_a_mistake(self) -> None:
        broker = self.start()
        log = self.reload(broker, "[limits]\nmax_qso = 1\n", "limits.max_qso: unknown key")
        self.assertIn("no setting is reloaded", log)
        self.reload(broker, "", "no setting has changed")

    def test_certificates(self) -> None:
        """In other files, expired, about to; also with a mistake elsewhere in the file."""
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
        done = "secure: certificates reloaded"
        log = self.reload(broker, secure.format("two"), done)
        self.assertIn("reloaded: listeners[1].tls.certificate, listeners[1].tls.key", log)
        self.assertRegex(log, r"listeners\[1\].tls.certificate: \S+/two.crt expires on .*, in 4 d")
        self.assertEqual(self.shown(broker), (folder / "two.crt").read_text())
        log = self.reload(broker, secure.format("old"), done)
        self.assertRegex(log, r"/old.crt expired on ")
        self.assertEqual(self.shown(broker), (folder / "old.crt").read_text())
        log = self.reload(broker, secure.format("one") + "tls.ky = 1\n", done)
        self.assertRegex(log, r"/old.crt expired on ")
        self.assertEqual(self.shown(broker), (folder / "old.crt").read_text())

    def shown(self, broker: Broker) -> str:
        return ssl.get_server_certificate(("127.0.0.1", broker.ports["secure"]))
