"""Users, roles, rules and bans by the command line: with a broker that runs, and on its store."""

import json
import os
import subprocess
import sys
from typing import Any

from tests.helpers import packets
from tests.helpers.redis import RedisServer
from tests.system.case import PLAIN, BrokerCase, place
from tests.system.process import PATIENCE_S, Broker, environment
from tests.system.raw import Raw

CONFIG = """allow_anonymous = true

[[auth]]
type = "registry"

[access]
"""
FIRST = "p, role:anonymous, *, connect, first, any, allow"
"""The client by which a test finds out that its broker answers."""

MOSQUITTO = "$7$101$c2FsdHNhbHRzYWx0$aGFzaGhhc2g="
"""A hash as mosquitto_passwd writes it."""

QUICK = "\n[passwords]\nscram_iterations = 4096\n"


class AccessCase(BrokerCase):
    def setUp(self) -> None:
        self.place = place(self)
        self.configure(CONFIG + QUICK)
        self.out = self.err = ""

    def configure(self, text: str) -> None:
        (self.place / "broker.toml").write_text(PLAIN + text)
        self.config = text

    def mhub(self, *argv: str, stdin: str = "", status: int = 0) -> str:
        """What a command prints; `status` is how it has to end."""
        ended = subprocess.run(
            [sys.executable, "-m", "mhub", "ctl", *argv, "--config", "broker.toml"],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=self.place,
            env={**environment(), "COLUMNS": "80"},
            timeout=PATIENCE_S,
        )
        self.out, self.err = ended.stdout, ended.stderr
        self.assertEqual(ended.returncode, status, f"{argv}: {self.out}{self.err}")
        self.assertNotIn("Traceback", self.err)
        return self.out

    def json(self, *argv: str) -> Any:
        return json.loads(self.mhub(*argv, "--json"))

    def add(self, name: str, *more: str) -> None:
        self.mhub("user", "add", name, *more, "--password-file", "-", stdin=f"pw-{name}\n")

    def run_broker(self) -> Broker:
        self.mhub("policy", "add", FIRST)
        return self.start(self.config, self.place)

    def again(self) -> Broker:
        """The next broker at the same place."""
        (self.place / "broker.log").unlink()
        return self.start(self.config, self.place)

    def client(self, broker: Broker, user: str, client_id: str = "c", version: int = 5) -> Raw:
        raw = Raw(("127.0.0.1", broker.port), version)
        self.addCleanup(raw.sock.close)
        raw.connect(client_id, username=user, password=f"pw-{user}")
        return raw

    def refusal(self, broker: Broker, user: str, password: str = "") -> int:
        """The reason for which a client is not let in."""
        raw = Raw(("127.0.0.1", broker.port), 5)
        self.addCleanup(raw.sock.close)
        raw.send(packets.connect("r", 5, username=user, password=password or f"pw-{user}"))
        return raw.expect("CONNACK").reason

    def may_publish(self, raw: Raw, topic: str) -> bool:
        raw.publish(topic, b"x", 1, 7)
        return raw.expect("PUBACK").reason in (0, 0x10)


class StoreTests(AccessCase):
    """No broker runs."""

    def test_users_and_roles(self) -> None:
        self.add("alice", "--role", "operator", "--attribute", "site=hall-1", "--note", "shift 1")
        self.assertIn("no broker runs: using sqlite", self.err)
        self.mhub("user", "add", "pump", "--no-password", "--tenant", "acme")
        self.assertEqual(
            self.mhub("user", "list"),
            "user   roles     tenant  logs in by       note\n"
            "alice  operator          password, SCRAM  shift 1\n"
            "pump             acme    other means\n",
        )
        shown = self.json("user", "show", "alice")
        self.assertEqual(shown["all_roles"], ["operator", "reader"])
        self.assertNotIn("argon2", self.out)
        self.mhub("role", "add", "chief", "--parent", "operator")
        self.mhub("user", "set", "alice", "--add-role", "chief", "--remove-role", "operator")
        self.assertIn("chief", self.mhub("user", "show", "alice"))
        self.mhub("role", "delete", "chief", status=1)
        self.assertIn("1 user (alice)", self.err)
        self.mhub("role", "delete", "chief", "--cascade")
        self.mhub("user", "delete", "alice")
        self.assertEqual([each["name"] for each in self.json("user", "list")["users"]], ["pump"])

    def test_mistakes_are_one_line_with_a_hint(self) -> None:
        self.add("alice")
        for argv, text in (
            (("user", "show", "alcie"), 'no user "alcie"; did you mean "alice"?'),
            (("user", "set", "alice", "--add-role", "amdin"), 'did you mean "admin"?'),
            (("user", "set", "alice"), "nothing to change"),
            (("user", "set", "alice", "--attribute", "x"), "expected NAME=VALUE"),
            (("user", "add", "alice", "--no-password"), "there is a user"),
            (("policy", "add", "role:x", "publihs", "a"), "an action is one of"),
            (("policy", "remove", "0123"), 'there is no rule "0123"'),
            (("ban", "add", "adress", "::1"), 'did you mean "address"?'),
            (("ban", "add", "user", "x", "--for", "ever"), "expected a time"),
            (("explain", "--client", "c", "--action", "publish", "--topic", "a"), "no broker runs"),
        ):
            self.mhub(*argv, status=1)
            self.assertIn(text, self.err)
            self.err = self.err.replace("no broker runs: using", "", 1)
            self.assertLessEqual(self.err.count("\n"), 2, self.err)
        self.mhub("user", "lsit", status=2)
        self.assertIn('no command "lsit"; did you mean "list"?', self.err)

    def mosquitto(self, acl: str, passwords: str = "") -> None:
        (self.place / "acl").write_text(acl)
        (self.place / "passwords").write_text(passwords)

    def test_rules_and_users_of_mosquitto(self) -> None:
        self.mosquitto("user alice\ntopic read a/#\n", f"alice:{MOSQUITTO}\nbob:{MOSQUITTO}\n")
        self.add("bob")
        command = ("policy", "import-mosquitto", "acl", "--passwords", "passwords")
        said = self.mhub(*command)
        self.assertIn("rules: 4 added, 0 removed, 0 there already\n", said)
        self.assertIn("users: 1 added, 1 there already\n", said)
        self.assertIn("rules were there before and count as well; --replace removes", self.err)
        said = self.mhub(*command, "--replace", "--note", "from Mosquitto")
        self.assertRegex(said, "rules: 0 added, [1-9][0-9]* removed, 4 there already")
        self.assertNotIn("count as well", self.err)
        found = self.json("policy", "list", "--subject", "user:alice")["rules"]
        self.assertEqual([rule["row"][4] for rule in found], ["a/#"])
        self.assertTrue(self.json("user", "show", "bob")["user"]["has_scram"])  # stays as it was
        self.assertTrue(self.json("user", "show", "alice")["user"]["has_password"])

    def test_a_file_with_rules_of_mosquitto(self) -> None:
        self.mosquitto("user alice\ntopic read a/#\n")
        command = ("policy", "import-mosquitto", "acl", "--output", "rules.csv")
        self.mhub(*command)
        self.assertIn("warning: the rules of users hold for users that mhub has", self.err)
        text = (self.place / "rules.csv").read_text()
        self.assertTrue(text.endswith("p, user:alice, *, receive, a/#, any, allow\n"), text)
        self.mhub("policy", "check", "rules.csv")
        self.mhub(*command, status=1)
        self.assertIn("File exists", self.err)

    def test_lines_of_mosquitto_that_are_refused(self) -> None:
        self.mosquitto("user alice\ntopic raed a/#\n\tx\n", "alice:hunter2\n")
        command = ("policy", "import-mosquitto", "acl")
        self.mhub(*command, "--passwords", "passwords", status=1)
        for line in ("acl:2: ", "acl:3: ", "passwords:1: "):
            self.assertIn(line, self.err)
        self.assertNotIn("hunter2", self.err)
        self.mhub("policy", "import-mosquitto", "nowhere", status=1)
        self.assertIn("nowhere: cannot be read", self.err)
        self.mhub(*command, "--output", "x", "--replace", status=1)

    def test_passwords_are_not_shown(self) -> None:
        self.add("alice")
        self.mhub("user", "passwd", "alice", "--password-file", "-", stdin="\n", status=1)
        self.assertIn("the password is empty", self.err)
        secret = self.place / "secret"
        secret.write_text("pw-other\n")
        self.mhub("user", "passwd", "alice", "--password-file", str(secret))
        for argv in (("user", "show", "alice"), ("user", "list"), ("policy", "export")):
            self.assertNotIn("pw-", self.mhub(*argv, "--json"))

    def test_default_policy_stays_removed(self) -> None:
        self.add("alice")
        rules = self.json("policy", "list")["rules"]
        self.assertGreater(len(rules), 5)
        self.mhub("policy", "remove", *(rule["id"] for rule in rules))
        self.assertEqual(self.json("policy", "list")["rules"], [])

    def test_files(self) -> None:
        """What is exported can be imported, tested, checked."""
        self.add("alice", "--role", "admin")
        self.mhub("policy", "export", "--output", "p.csv")
        self.assertIn("g, user:alice, role:admin, *", (self.place / "p.csv").read_text())
        self.mhub("policy", "import", "p.csv")
        self.assertRegex(self.out, "^0 added, 0 removed, [0-9]+ there already")
        self.mhub("policy", "check", "p.csv")
        self.assertIn("decisions compared with PyCasbin, no difference", self.out)
        (self.place / "t.csv").write_text(
            "# what has to hold\n"
            "allow, user:alice, subscribe, #\n"
            "allow, role:device, publish, devices/d1/x, user=d1, qos=1\n"
            "deny, role:device, publish, devices/d2/x, user=d1\n"
            "deny, anonymous, connect, c\n"
        )
        self.mhub("policy", "test", "t.csv")
        self.assertEqual(self.out, "4 of 4 expectations are met\n")
        (self.place / "t.csv").write_text(
            "deny, user:alice, publish, a\nallow, user:bob, connect, c\n"
        )
        self.mhub("policy", "test", "t.csv", "--policy", "p.csv", status=1)
        self.assertIn("t.csv:1: allowed, and expected was: deny, user:alice, publish, a", self.out)
        self.assertIn("1 of 2 expectations are met", self.out)
        (self.place / "t.csv").write_text("deny, user:alice, publihs, a\n\npermit, x, y, z\n")
        self.mhub("policy", "test", "t.csv", status=1)
        self.assertIn("t.csv:1: 'publihs' is no action; did you mean 'publish'?", self.err)
        self.assertIn("t.csv:3: 'permit'", self.err)

    def test_diff(self) -> None:
        """Between two files, or a file and the registry; the exit status says whether any."""
        self.add("alice", "--role", "device")
        self.mhub("policy", "export", "--output", "p.csv")
        self.mhub("policy", "diff", "p.csv", "registry")
        self.assertEqual(self.out, "nobody may do more or less than before\n")
        self.mhub("policy", "add", "user:alice", "publish", "plant/%c")
        self.mhub("policy", "diff", "p.csv", "registry", status=1)
        self.assertEqual(self.out, "user:alice\n  + publish plant/%c\n")
        (self.place / "q.csv").write_text("p, role:x\n")
        self.mhub("policy", "diff", "p.csv", "q.csv", status=1)
        self.assertIn("q.csv:1: 2 fields", self.err)

    def test_a_bad_file_changes_nothing(self) -> None:
        self.add("alice")
        before = self.json("policy", "list")
        (self.place / "p.csv").write_text(
            "p, role:a, *, publish, x, any, allow\np, role:a, *, publish, x/#/y, any, allow\n"
            "p, role:a, *, publish, y, any, alow\n"
        )
        for argv in (("policy", "import", "p.csv"), ("policy", "check", "p.csv")):
            self.mhub(*argv, status=1)
            self.assertIn("p.csv:2: ", self.err)
            self.assertIn("p.csv:3: 'alow': the effect is allow or deny", self.err)
        self.assertEqual(self.json("policy", "list")["rules"], before["rules"])

    def test_explain(self) -> None:
        self.add("alice", "--role", "device")
        ask = ("explain", "--user", "alice", "--client", "d1", "--action")
        found = self.json(*ask, "publish", "--topic", "devices/alice/x")
        why = found["explanation"]
        self.assertTrue(why["allowed"])
        self.assertEqual(
            [step["subject"] for step in why["deciding"][0]["path"]], ["user:alice", "role:device"]
        )
        self.assertEqual(why["deciding"][0]["values"], {"%u": "alice"})
        text = self.mhub(*ask, "subscribe", "--topic", "devices/#")
        self.assertIn("denied", text)
        self.assertRegex(text, "not allowed +devices")
        text = self.mhub(*ask, "publish", "--topic", "devices/d2/x")
        self.assertIn("nearest", text)
        self.assertIn("level 2 is 'd2', the rule has", text)
        self.mhub("user", "lock", "alice")
        self.assertIn('the user "alice" is locked', self.mhub(*ask, "connect"))

    def test_explain_without_access_control(self) -> None:
        self.configure(CONFIG.replace("[access]", ""))
        self.add("alice")
        ask = ("explain", "--user", "alice", "--action", "publish", "--topic", "a")
        self.mhub(*ask, status=1)
        self.assertIn("access control is off", self.err)

    def test_nothing_there(self) -> None:
        self.configure(CONFIG + '[store]\nkind = "memory"\n')
        self.mhub("user", "list", status=1)
        self.assertIn('store.kind is "memory"', self.err)
        self.configure("")
        self.mhub("user", "list", status=1)
        self.assertIn("nothing to show", self.err)
        self.assertFalse((self.place / "mhub-data" / "mhub.sqlite").exists())

    def test_a_store_in_use(self) -> None:
        """A broker without a control socket has it: then nothing is done."""
        self.configure(CONFIG + QUICK + '[control]\npath = ""\n')
        self.run_broker()
        self.mhub("user", "list", status=1)
        self.assertRegex(self.err, "in use|uses it")

    def test_sessions_stay(self) -> None:
        """Whoever changes a user leaves sessions and messages as they are."""
        broker = self.run_broker()
        self.add("alice", "--role", "admin")
        raw = self.client(broker, "alice")
        raw.close()
        lasting = Raw(("127.0.0.1", broker.port), 4)
        lasting.connect("lasting", clean=False, username="alice", password="pw-alice")
        lasting.subscribe("a/#", 1)
        lasting.close()
        other = self.client(broker, "alice", "other")
        self.assertTrue(self.may_publish(other, "a/b"))
        broker.stop()
        self.mhub("user", "set", "alice", "--note", "new")
        self.mhub("user", "list")
        broker = self.again()
        lasting = Raw(("127.0.0.1", broker.port), 4)
        self.addCleanup(lasting.sock.close)
        lasting.send(
            packets.connect("lasting", 4, clean=False, username="alice", password="pw-alice")
        )
        lasting.expect("CONNACK", reason=0, session_present=True)
        lasting.expect("PUBLISH", topic="a/b")


class RedisStoreTests(AccessCase):
    def test_users(self) -> None:
        server = RedisServer()
        self.addCleanup(server.remove)
        self.configure(
            CONFIG + QUICK + f'[store]\nkind = "redis"\n[store.redis]\nport = {server.port}\n'
        )
        self.add("alice", "--role", "admin")
        self.assertIn("no broker runs: using Redis", self.err)
        broker = self.run_broker()
        self.assertTrue(self.may_publish(self.client(broker, "alice"), "a"))
        self.add("bob")
        self.assertNotIn("no broker runs", self.err)
        broker.stop()
        names = [each["name"] for each in self.json("user", "list")["users"]]
        self.assertEqual(names, ["alice", "bob"])


class LiveTests(AccessCase):
    """A broker runs, with clients."""

    def test_a_change_is_in_force_at_once(self) -> None:
        broker = self.run_broker()
        self.add("bob", "--role", "device")
        raw = self.client(broker, "bob", "d1")
        self.assertTrue(self.may_publish(raw, "devices/bob/x"))
        self.assertFalse(self.may_publish(raw, "plant/x"))
        self.mhub("policy", "add", "role:device", "publish", "plant/#")
        self.assertTrue(self.may_publish(raw, "plant/x"))
        rule = self.json("policy", "list", "--topic", "plant/#")["rules"][0]["id"]
        self.mhub("policy", "remove", rule)
        self.assertFalse(self.may_publish(raw, "plant/x"))
        broker.wait_for_log("may not publish 'plant/x'")

    def test_one_password_serves_connect_and_auth(self) -> None:
        self.add("alice")
        kept = json.dumps(self.json("user", "show", "alice"))
        self.assertIn('"has_password": true', kept)
        self.assertIn('"has_scram": true', kept)

    def test_explain_a_client(self) -> None:
        broker = self.run_broker()
        self.add("bob", "--role", "device")
        self.client(broker, "bob", "d1")
        ask = ("explain", "--client", "d1", "--action", "publish", "--topic")
        why = self.json(*ask, "devices/bob/x")["explanation"]
        self.assertEqual((why["user"], why["allowed"]), ("bob", True))
        revision = self.json("user", "list")["revision"]
        self.assertEqual(why["revision"], revision)
        self.mhub("explain", "--client", "d9", *ask[3:], "a", status=1)
        self.assertIn("there is no such client", self.err)

    def test_locked_and_deleted(self) -> None:
        broker = self.run_broker()
        self.add("bob", "--role", "device")
        raw = self.client(broker, "bob")
        self.mhub("user", "lock", "bob")
        self.assertEqual(raw.expect("DISCONNECT").reason, 0x98)
        self.assertNotEqual(self.refusal(broker, "bob"), 0)
        self.mhub("user", "unlock", "bob")
        raw = self.client(broker, "bob")
        self.mhub("user", "passwd", "bob", "--password-file", "-", stdin="pw-2\n")
        raw.ping()  # who is connected stays
        self.assertNotEqual(self.refusal(broker, "bob"), 0)
        self.assertEqual(self.refusal(broker, "bob", "pw-2"), 0)
        self.mhub("user", "delete", "bob")
        self.assertEqual(raw.expect("DISCONNECT").reason, 0x98)
        self.assertNotEqual(self.refusal(broker, "bob", "pw-2"), 0)

    def test_tenant_and_attributes(self) -> None:
        broker = self.run_broker()
        self.mhub("policy", "add", "role:authenticated", "publish", "%{site}/x")
        self.mhub("policy", "add", "role:authenticated", "publish", "t/%t", "--tenant", "acme")
        self.add("bob", "--attribute", "site=hall-1")
        raw = self.client(broker, "bob")
        self.assertTrue(self.may_publish(raw, "hall-1/x"))
        self.assertFalse(self.may_publish(raw, "t/acme"))
        self.mhub("user", "set", "bob", "--attribute", "site=hall-2", "--tenant", "acme")
        self.assertFalse(self.may_publish(raw, "hall-1/x"))
        self.assertTrue(self.may_publish(raw, "hall-2/x"))
        self.assertTrue(self.may_publish(raw, "t/acme"))

    def test_a_change_is_durable_when_it_is_answered(self) -> None:
        """kill -9 right behind the answer."""
        broker = self.run_broker()
        for number in range(3):
            self.mhub("user", "add", f"u{number}", "--no-password")
            broker.kill()
            broker = self.again()
        names = [each["name"] for each in self.json("user", "list")["users"]]
        self.assertEqual(names, ["u0", "u1", "u2"])

    def test_two_who_change_the_same(self) -> None:
        self.run_broker()
        self.add("bob")
        version = self.json("user", "show", "bob")["user"]["version"]
        self.mhub("user", "set", "bob", "--note", "one", "--expect", version)
        self.mhub("user", "set", "bob", "--note", "two", "--expect", version, status=1)
        self.assertIn("user/bob was changed meanwhile", self.err)
        self.assertEqual(self.json("user", "show", "bob")["user"]["note"], "one")

    def test_secrets_stay_out_of_the_log(self) -> None:
        self.configure(CONFIG + QUICK + '[log]\nlevel = "debug"\n')
        broker = self.run_broker()
        self.add("bob", "--role", "device")
        self.client(broker, "bob")
        self.assertNotIn("pw-bob", broker.log())
        self.assertNotIn("argon2", broker.log())

    def test_bans_are_kept(self) -> None:
        broker = self.run_broker()
        self.mhub("ban", "add", "client", "d/1", "--for", "1h", "--reason", "noise")
        broker.kill()
        self.again()
        (ban,) = self.json("ban", "list")["bans"]
        self.assertEqual((ban["kind"], ban["value"], ban["reason"]), ("client", "d/1", "noise"))
        self.mhub("ban", "remove", "client", "d/1")
        self.assertEqual(self.json("ban", "list")["bans"], [])


class FileTests(AccessCase):
    """The rules are in a file."""

    def setUp(self) -> None:
        super().setUp()
        self.file = self.place / "policy.csv"
        self.rules = [
            FIRST,
            "p, role:authenticated, *, connect, #, any, allow",
            "p, role:device, *, publish, devices/%c/#, any, allow",
        ]
        self.write()
        self.configure(CONFIG + 'policy = "policy.csv"\n' + QUICK)

    def write(self) -> None:
        scratch = self.place / "new.csv"
        scratch.write_text("".join(f"{line}\n" for line in self.rules))
        os.replace(scratch, self.file)

    def test_reload(self) -> None:
        self.add("bob", "--role", "device")
        broker = self.start(self.config, self.place)
        raw = self.client(broker, "bob", "d1")
        self.assertTrue(self.may_publish(raw, "devices/d1/x"))
        self.rules.append("p, role:device, *, publish, plant, any, allow")
        self.write()
        broker.wait_for_log("policy.csv read again: 4 rows")
        self.assertTrue(self.may_publish(raw, "plant"))

    def test_a_bad_file_leaves_the_policy_and_names_the_line(self) -> None:
        self.add("bob", "--role", "device")
        broker = self.start(self.config, self.place)
        raw = self.client(broker, "bob", "d1")
        self.rules[2] = "p, role:device, *, publish, devices/%c/#, any, alow"
        self.write()
        line = broker.wait_for_log("the policy stays as it was")
        self.assertIn(f"{self.file}:3: 'alow': the effect is allow or deny", line)
        self.assertTrue(self.may_publish(raw, "devices/d1/x"))
        self.rules[2] = "p, role:device, *, publish, other/#, any, allow"
        self.write()
        broker.wait_for_log("policy.csv read again")
        self.assertFalse(self.may_publish(raw, "devices/d1/x"))

    def test_a_bad_file_at_the_start(self) -> None:
        self.rules.append("p, role:device")
        self.write()
        ended = subprocess.run(
            [sys.executable, "-m", "mhub", "run", "--config", "broker.toml"],
            capture_output=True,
            text=True,
            cwd=self.place,
            env=environment(),
            timeout=PATIENCE_S,
        )
        self.assertEqual(ended.returncode, 1)
        self.assertIn("access.policy: ", ended.stderr)
        self.assertIn("policy.csv:4: 2 fields", ended.stderr)

    def test_roles_of_the_file_are_known(self) -> None:
        self.mhub("user", "add", "bob", "--no-password", "--role", "devcie", status=1)
        self.assertIn('did you mean "device"?', self.err)
