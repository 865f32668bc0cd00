"""`mhub ctl status`, `clients` and `kick`: what they ask the broker, and print where."""

import dataclasses
import json

from twisted.trial.unittest import SynchronousTestCase

from mhub.ctl.table import cells, safe, shortened, table
from mhub.operations.clients import Moment, detail, summary
from mhub.operations.operations import Operations
from tests.core.world import World
from tests.ctl.canned import Asked, canned_socket, problem
from tests.ctl.case import CtlCase
from tests.helpers import packets as p
from tests.operations.around import Around, Pauses


class TextTests(SynchronousTestCase):
    def test_safe(self) -> None:
        for text, shown in (
            ("pump-7", "pump-7"),
            ("ß 蜂", "ß 蜂"),
            ("a\nb", "a\\x0ab"),
            ("\x1b[2J", "\\x1b[2J"),
            ("\u202ea\x85", "\\u202ea\\u0085"),
            ("\U000e0001", "\\U000e0001"),
            ("a\\nb", "a\\\\nb"),
        ):
            self.assertEqual(safe(text), shown)

    def test_cells(self) -> None:
        self.assertEqual([cells(text) for text in ("ab", "ß", "蜂b", "e\u0301")], [2, 1, 3, 1])

    def test_shortened(self) -> None:
        self.assertEqual(shortened("abcdef", 6), "abcdef")
        self.assertEqual(shortened("abcdefg", 6), "abcde…")
        self.assertEqual(shortened("蜂蜂蜂", 4), "蜂…")

    def test_table(self) -> None:
        """Texts are cut where it is too narrow, the longest first; numbers never are."""
        rows = [{"who": "x" * 40, "user": "", "at": "y" * 10, "n": "123456"}]
        rows.append({"who": "蜂", "user": "", "at": "", "n": "7"})
        lines = table(rows, frozenset({"n"}), ("who", "user", "at"), 30)
        self.assertEqual({cells(line) for line in lines}, {30})
        self.assertNotIn("user", lines[0])
        self.assertEqual(lines[1], "xxxxxxxxx…  yyyyyyyyyy  123456")
        self.assertEqual(table(rows, frozenset(), ("who",), 200)[1].split()[0], "x" * 40)


class BrokerCommandCase(CtlCase):
    def setUp(self) -> None:
        super().setUp()
        self.socket = self.folder / "mhub-data" / "control.sock"
        self.socket.parent.mkdir()
        self.world = World()

    def ask(self, *argv: str, answers: tuple[object, ...]) -> list[Asked]:
        """The requests that a command makes, and that it succeeds."""
        with canned_socket(self.socket, *answers) as canned:
            self.assertEqual(self.run_ctl(*argv, "--socket", str(self.socket)), 0, self.err)
        self.assertLessEqual(max(map(cells, self.out.split("\n"))), 80)
        return canned.requests

    def page(self, *clients: object, left: int = 0, cursor: str = "") -> dict[str, object]:
        sessions = len(clients) + left
        return {"clients": list(clients), "left": left, "sessions": sessions, "next": cursor}

    def summary(self, client_id: str) -> object:
        return summary(self.world.hub.sessions[client_id], Moment(self.world.now, 0.0))


class StatusTests(BrokerCommandCase):
    def test_text(self) -> None:
        operations = Operations(
            self.world.hub, Around(self.world.hub), lambda: self.world.now, Pauses()
        )
        self.world.client("a").subscribe("t")
        self.world.now += 3700.0
        (request,) = self.ask("status", answers=(operations.status(),))
        self.assertEqual(request.short, ("GET", "status", {}))
        for text in (
            ": running for 1h01m\n",
            "\nlisteners      mqtt, mqtt://127.0.0.1:1883: 1 connected\n",
            "\nauthenticators registry: ok; 3 accepted, 2 refused, 1 passed on, 0 errors\n",
            "\nsessions       1; 1 connected, 1 at most; 0 expired, 0 taken over\n",
            "\nmessages       -/s in, -/s out (-B/s in, -B/s out)\n",
            "\nstore          memory: none\n",
        ):
            self.assertIn(text, self.out)
        self.assertNotIn("cluster", self.out)

    def test_cluster(self) -> None:
        cluster = {"cluster": "plant", "node": "a", "ready": True, "members_up": 1, "members": 2}
        self.ask("status", answers=({"cluster": cluster},))
        self.assertIn("plant, node a: ready, 1 of 2 other nodes up\n", self.out)

    def test_access(self) -> None:
        access = {"policy": "/etc/p.csv", "rows": 12, "revision": "1a-2b", "problem": "p.csv:3: x"}
        self.ask("status", answers=({"access": access},))
        self.assertIn("\naccess         12 rows from /etc/p.csv, revision 1a-2b\n", self.out)
        self.assertIn("not as it is now: p.csv:3: x\n", self.out)

    def test_a_broker_of_another_version(self) -> None:
        """Keys that are missing are no reason to show nothing."""
        self.ask("status", answers=({"version": "9"},))
        self.assertIn("mhub 9 (- build), process -: - for -\n", self.out)

    def test_json(self) -> None:
        self.ask("status", "--json", answers=({"version": "9"},))
        self.assertEqual(json.loads(self.out), {"version": "9"})

    def test_no_broker(self) -> None:
        self.assertEqual(self.run_ctl("status", "--config", self.file("")), 1)
        self.assertIn(f"mhub ctl status: no broker answers at {self.socket}: is it ", self.err)


class ClientsTests(BrokerCommandCase):
    def test_table(self) -> None:
        client = self.world.client("pump-7")
        client.connection.principal.user = "plant"
        client.connection.principal.address = "10.0.0.1:5000"
        client.session.principal.listener = "mqtt"
        self.world.client("a\x1b[2J" + "x" * 100, clean=False).lose()
        self.world.now += 60.0
        clients = [self.summary(name) for name in sorted(self.world.hub.sessions)]
        (request,) = self.ask("clients", answers=(self.page(*clients),))
        self.assertEqual(request.short, ("GET", "clients", {"limit": "100"}))
        titles, other, pump = self.out.splitlines()
        self.assertEqual(
            titles.split(),
            ["client", "user", "address", "since", "subs", "in/s", "out/s", "queued", "flight"],
        )
        self.assertTrue(other.startswith("a\\x1b[2Jxxx"), other)
        self.assertEqual(
            pump.split(),
            ["pump-7", "plant", "10.0.0.1:5000", "1m", "0", "0", "0", "0", "0"],
        )
        self.assertEqual(self.err, "")

    def test_filters(self) -> None:
        argv = "clients --match p* --listener tls --user me --offline --cursor x --limit 5"
        (request,) = self.ask(
            *argv.split(), "--sort=-queued", "--this-node", answers=(self.page(),)
        )
        self.assertEqual(
            request.query,
            {
                "match": "p*",
                "listener": "tls",
                "user": "me",
                "state": "offline",
                "sort": "-queued",
                "cursor": "x",
                "limit": "5",
                "scope": "node",
            },
        )
        self.assertEqual((self.out, self.err), ("", "no clients\n"))

    def test_many(self) -> None:
        """Page by page, each behind the one before."""
        pages = (
            self.page({"client_id": "a"}, left=2, cursor="A"),
            self.page({"client_id": "b\n"}, left=1, cursor="B"),
            self.page({"client_id": "c"}),
        )
        requests = self.ask("clients", "--limit", "0", answers=pages)
        self.assertEqual(
            [(asked.query.get("cursor"), asked.query["limit"]) for asked in requests],
            [(None, "1000"), ("A", "1000"), ("B", "1000")],
        )
        self.assertEqual(len(self.out.splitlines()), 4)

    def test_enough(self) -> None:
        pages = (self.page({"client_id": "a"}, left=7, cursor="A"),)
        self.ask("clients", "--limit", "1", answers=pages)
        self.assertEqual(
            self.err,
            "\n1 of 8 clients: --limit 0 shows all, and the next come with\n--cursor A\n",
        )

    def test_nodes_that_do_not_answer(self) -> None:
        page = {**self.page({"client_id": "a", "node": "b"}), "missing": ["c\x1b"]}
        self.ask("clients", answers=(page,))
        self.assertEqual(self.err, "not answered in time: c\\x1b\n")

    def test_json(self) -> None:
        first = self.page({"client_id": "a\u202e"}, left=1, cursor="A")
        pages = (first, self.page({"client_id": "b"}))
        self.ask("clients", "--json", answers=pages)
        self.assertEqual(
            json.loads(self.out),
            {
                "clients": [{"client_id": "a\u202e"}, {"client_id": "b"}],
                "left": 0,
                "sessions": 1,
                "next": "",
            },
        )
        self.assertTrue(self.out.isascii())

    def test_one(self) -> None:
        client = self.world.client("a\n", 5, keepalive=60, username="me", will=("w", b"bye", 1))
        client.connection.principal.address = "10.0.0.1:5000"
        client.subscribe("t/#", 0x01 | 0x04)
        told = detail(client.session, Moment(self.world.now, self.world.now))
        (request,) = self.ask("clients", "a\n", answers=(told,))
        self.assertEqual(request.short, ("GET", "client", {"client_id": "a\n"}))
        for text in (
            "client         a\\x0a\n",
            "user           me?\n",
            "connected      10.0.0.1:5000, MQTT 5.0, keep-alive 1m\n",
            "               since ",
            "will           w, QoS 1, 3B, after 0s\n",
            "subscriptions  t/#, QoS 1, no local",
        ):
            self.assertIn(text, self.out)

    def test_one_at_its_limits(self) -> None:
        rates = {"max_messages_per_s": 10, "max_messages_out_per_s": 5}
        client = self.world.client("a", limits=rates)
        client.subscribe("t")
        client.send(p.publish("t", b"x") * 20)
        told = detail(client.session, Moment(self.world.now, 0.0))
        self.ask("clients", "a", answers=(told,))
        for line in (
            "limits         max_messages_per_s 10",
            "               max_messages_out_per_s 5",
            "               max_messages_per_s reached 1 time",
            "               it is not read from until it may send again",
            "               messages wait until it may have more",
        ):
            self.assertIn(line, self.out.splitlines())

    def test_one_with_many_subscriptions(self) -> None:
        client = self.world.client("a")
        client.subscribe("t")
        told = detail(client.session, Moment(self.world.now, 0.0))
        many = dataclasses.replace(
            told, client=dataclasses.replace(told.client, subscriptions=1234)
        )
        self.ask("clients", "a", answers=(many,))
        self.assertIn("and 1233 more\n", self.out)

    def test_unknown(self) -> None:
        with canned_socket(self.socket, problem(404, "there is no such client")):
            argv = ("clients", "a\n", "--socket", str(self.socket))
            self.assertEqual(self.run_ctl(*argv), 1)
        self.assertEqual(self.err, "mhub ctl clients: a\\x0a: there is no such client\n")

    def test_mistakes(self) -> None:
        for argv, text in (
            (("--limit", "-1"), "--limit: invalid number value: '-1'"),
            (("--limit", "x"), "--limit: invalid number value: 'x'"),
            (("--offline", "--connected"), "not allowed with argument"),
        ):
            self.assertEqual(self.run_ctl("clients", *argv), 2)
            self.assertIn(text, self.err)


class KickTests(BrokerCommandCase):
    def test_kick(self) -> None:
        done = {"client_id": "a\n", "was_connected": True, "session_deleted": False}
        (request,) = self.ask("kick", "a\n", answers=(done,))
        self.assertEqual(request.short, ("POST", "client/disconnect", {}))
        self.assertEqual(request.body, {"client_id": "a\n"})
        self.assertEqual(self.out, "a\\x0a: disconnected\n")

    def test_delete_session(self) -> None:
        done = {"client_id": "a", "was_connected": False, "session_deleted": True}
        (request,) = self.ask("kick", "a", "--delete-session", "--reason", "x y", answers=(done,))
        query = {"client_id": "a", "reason": "x y"}
        self.assertEqual(request.short, ("DELETE", "client/session", query))
        self.assertEqual(self.out, "a: was not connected, its session is deleted\n")

    def test_help(self) -> None:
        for what in ("status", "clients", "kick"):
            self.assertEqual(self.run_ctl(what, "--help"), 0)
            self.assertIn("--socket PATH", self.out)
            self.assertLessEqual(max(map(len, self.out.split("\n"))), 80)
