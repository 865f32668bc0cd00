"""`mhub ctl cluster`: what it asks the node, prints where, and its exit status."""

import json
import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mhub.ctl.cluster_view import render
from mhub.ctl.figures import short_count, short_size, short_time
from tests.ctl.canned import Asked, canned_socket, chunked, problem
from tests.ctl.case import CtlCase
from tests.helpers.splits import steady


def member(node: str, **changes: object) -> dict[str, object]:
    return {
        "node": node,
        "state": "up",
        "address": f"127.0.0.1:{7883 + ord(node[-1]) - ord('a')}",
        "version": "0.5.0",
        "latency_ms": 0.42,
        "queued_messages": 0,
        "queued_bytes": 0,
        "routes": 12,
        "clients": 4000,
        "since_s": 7500.0,
        "sent": 1,
        "received": 2,
        "dropped": 0,
        "note": "",
        **changes,
    }


def status(*members: dict[str, object], **changes: object) -> dict[str, object]:
    return {
        "cluster": "example",
        "node": "a",
        "version": "0.5.0",
        "protocol": 2,
        "ready": True,
        "leaving": False,
        "address": "127.0.0.1:7883",
        "routes": 1,
        "clients": 5000,
        "members": list(members),
        **changes,
    }


HEAD = """\
cluster example, node a at 127.0.0.1:7883: ready
5000 clients, 1 route; mhub 0.5.0, protocol 2
"""


class RenderTests(SynchronousTestCase):
    def test_table(self) -> None:
        troubled = member(
            "c",
            state="suspect",
            latency_ms=None,
            queued_messages=1234,
            queued_bytes=3_500_000,
            since_s=4.2,
            dropped=7,
            note="no heartbeat",
        )
        self.assertEqual(
            render(status(member("b"), troubled), 80),
            HEAD
            + """
node  state    address          ms      queue  routes  clients  version  since
b     up       127.0.0.1:7884  0.4          0      12     4.0k  0.5.0    2h05m
c     suspect  127.0.0.1:7885    -  1.2k/3.3M      12     4.0k  0.5.0       4s
    7 messages dropped; no heartbeat""",
        )

    def test_notes(self) -> None:
        """What a node that is away costs, and when it is called again."""
        away = member("b", state="dead", refused=3, calls_failed=12, next_call_s=14.2, note="")
        shown = render(status(away), 80).split("\n")
        self.assertEqual(shown[-1], "    3 messages refused; 12 calls failed, the next in 14s")
        shown = render(status({**away, "call_error": "refused"}), 80).split("\n")
        self.assertEqual(
            shown[-1], "    3 messages refused; 12 calls failed, the next in 14s: refused"
        )
        linked = member("b", calls_failed=1, next_call_s=None)
        self.assertNotIn("failed", render(status(linked), 80))

    def test_addresses_where_nobody_answers(self) -> None:
        typo = {
            "address": "nod-c.example.org:7883",
            "node": "",
            "reason": "DNS lookup failed",
            "since_s": 130.0,
            "attempts": 12,
            "next_call_s": 14.2,
        }
        known = {**typo, "address": "127.0.0.1:7884", "node": "b"}
        expected = """
not reached:
nod-c.example.org:7883
    DNS lookup failed (12 attempts in 2m, the next in 14s)"""
        there = member("b", state="dead")
        shown = render(status(there, unreachable=[typo, known]), 80)
        self.assertEqual(shown, render(status(there), 80) + "\n" + expected)
        shown = render(status(unreachable=[typo]), 80)
        self.assertTrue(shown.endswith(expected), shown)
        self.assertNotIn("No other node is known", shown)
        self.assertEqual(render(status(there, unreachable=[known]), 80), render(status(there), 80))

    def test_sessions_between_nodes(self) -> None:
        numbers = {"migrating": 2, "waiting": 1, "merging": 0, "held": 3}
        of_b = {"waiting": 1, "merging": 2, "held": 3}
        there = member("b", sessions=of_b, held_s=130.0)
        shown = render(status(there, sessions=numbers), 120)
        text = " ".join(shown.split())
        self.assertIn(
            "protocol 2 2 sessions migrating; 1 session waiting for messages of other nodes;"
            " confirmations held for 3 sessions node state",
            text,
        )
        self.assertTrue(
            text.endswith(
                "1 session here waiting for its messages; older copies of 2 sessions here waiting"
                " for it to merge; confirmations to it held for 3 sessions since 2m"
            ),
            text,
        )

    def test_nothing_is_said_of_sessions_that_stay(self) -> None:
        none = {"migrating": 0, "waiting": 0, "merging": 0, "held": 0}
        quiet = member("b", sessions=dict(none), held_s=None)
        shown = render(status(quiet, sessions=none), 120)
        self.assertEqual(shown, render(status(member("b")), 120))

    def test_revisions_of_the_registry(self) -> None:
        facts = {"revision": "00ff-beef", "entries": 2, "tombstones": 0, "behind": []}
        same, other = member("b", revision="00ff-beef"), member("c", revision="00fe-cafe")
        away = member("d", state="down", revision="")
        shown = render(status(same, registry=facts), 120)
        self.assertIn("registry: revision 00ff-beef, on all nodes; 2 entries\n", shown)
        shown = render(status(same, other, away, registry=facts), 120)
        self.assertIn("registry: revision 00ff-beef; 2 entries\n", shown)
        self.assertEqual(shown.count("00ff-beef"), 1)
        self.assertIn("    registry: revision 00fe-cafe\n", shown)
        facts = {**facts, "entries": 1, "tombstones": 3, "behind": ["d", "e"]}
        shown = render(status(same, registry=facts), 120)
        self.assertIn(
            "; 1 entry, 3 deletions remembered until these nodes have them: d, e\n", shown
        )

    def test_nothing_is_said_of_a_registry_that_was_never_used(self) -> None:
        facts = {"revision": "0000000000000000-0000", "entries": 0, "tombstones": 0}
        shown = render(status(member("b", revision="0000000000000000-0000"), registry=facts), 120)
        self.assertNotIn("registry", shown)

    def test_version_goes_first(self) -> None:
        """When the table is too wide, the version that all have goes: the head has it."""
        shown = render(status(member("node-b", address="10.20.30.40:7883")), 75)
        self.assertEqual(
            shown.split("\n")[-2:],
            [
                "node    state  address            ms  queue  routes  clients  since",
                "node-b  up     10.20.30.40:7883  0.4      0      12     4.0k  2h05m",
            ],
        )

    def test_lines_where_no_table_fits(self) -> None:
        long = member(
            "mhub-1.mhub.default.svc.cluster.local",
            address="mhub-1.mhub.default.svc.cluster.local:7883",
            version="0.4.9",
            note="speaks " + "word " * 30,
        )
        shown = render(status(long), 80)
        self.assertIn(
            """
mhub-1.mhub.default.svc.cluster.local
    up for 2h05m; mhub-1.mhub.default.svc.cluster.local:7883, mhub 0.4.9
    latency 0.4 ms; queue 0; routes 12; clients 4.0k
    speaks word word""",
            shown,
        )
        self.assertLessEqual(max(map(len, shown.split("\n"))), 80)

    def test_alone(self) -> None:
        self.assertEqual(
            render(status(), 80),
            HEAD + "No other node is known; see peers and srv in the [cluster] table.",
        )

    def test_states_of_this_node(self) -> None:
        self.assertIn(": not ready\n", render(status(ready=False), 80))
        self.assertIn(": leaving\n", render(status(leaving=True), 80))

    def test_a_node_of_another_version(self) -> None:
        """Keys that are missing or strange are no reason to show nothing."""
        self.assertIn("cluster -, node - at -: not ready\n- clients", render({}, 80))
        shown = render(status({"node": "b", "routes": "many", "latency_ms": 3}), 80)
        self.assertEqual(shown.split("\n")[-1].split()[:5], ["b", "-", "-", "3.0", "-/-"])

    def test_terminals_are_safe(self) -> None:
        """What another node says cannot move the cursor."""
        shown = render(status(member("b", note="\x1b[2J\rready", version="1\n2")), 80)
        self.assertNotIn("\x1b", shown)
        self.assertIn("?[2J?ready", shown)
        self.assertIn("1?2", shown)

    @steady
    @given(st.floats(0, 1e14))
    def test_short(self, number: float) -> None:
        for shown in (short_count(number), short_size(number)):
            self.assertLessEqual(len(shown), 5)
        self.assertLessEqual(len(short_time(min(number, 9998 * 86400))), 6)

    def test_numbers(self) -> None:
        for number, text in (
            (0, "0"),
            (999, "999"),
            (1000, "1.0k"),
            (9960, "10k"),
            (3.4e6, "3.4M"),
        ):
            self.assertEqual(short_count(number), text)
        for number, text in ((1023, "1023"), (1024, "1.0K"), (64 << 20, "64M")):
            self.assertEqual(short_size(number), text)
        for number, text in (
            (0.9, "0s"),
            (60, "1m"),
            (3660, "1h01m"),
            (90000, "1d01h"),
            (864000, "10d"),
        ):
            self.assertEqual(short_time(number), text)


class ClusterCommandTests(CtlCase):
    def setUp(self) -> None:
        super().setUp()
        self.socket = self.folder / "mhub-data" / "control.sock"
        self.socket.parent.mkdir()

    def ask(self, *argv: str, answers: tuple[object, ...]) -> list[Asked]:
        """The requests that a command makes, and that it succeeds."""
        with canned_socket(self.socket, *answers) as canned:
            self.assertEqual(self.run_ctl("cluster", *argv), 0)
        self.assertEqual(self.err, "")
        return canned.requests

    def test_status(self) -> None:
        """The configuration says where the socket is; the table fits 80 columns."""
        state = status(member("b"), member("c"))
        losses = [
            {"node": "a", "text": "3 sessions are taken over"},
            {"node": "b", "text": ""},
            {"node": "c", "text": " ".join(["what waits for them comes later"] * 4)},
        ]
        view = {"state": state, "links": [], "losses": losses, "missing": []}
        (request,) = self.ask("status", "--config", self.file(""), answers=(view,))
        self.assertEqual(request.short, ("GET", "cluster", {}))
        self.assertTrue(self.out.startswith(HEAD), self.out)
        self.assertIn(
            "\n\nif a node is lost:\n  a: 3 sessions are taken over\n  c: what ", self.out
        )
        self.assertLessEqual(max(map(len, self.out.split("\n"))), 80)

    def test_status_as_json(self) -> None:
        view = {"state": status(member("b")), "missing": ["c"]}
        self.ask("status", "--json", "--socket", str(self.socket), answers=(view,))
        self.assertEqual(json.loads(self.out), view)

    def test_leave(self) -> None:
        """It is the node that answers which leaves, and no other one."""
        left = chunked(
            b'{"progress": "3 sessions and messages to hand over"}\n{"prog',
            b'ress": "1 sessions could not be handed over"}\n',
            b'{"result": {"node": "a", "sessions": 2, "clients": 1, "left": 1}}\n',
        )
        with canned_socket(self.socket, {"state": status()}, left) as server:
            argv = ("leave", "--socket", str(self.socket))
            self.assertEqual(self.run_ctl("cluster", *argv), 0)
        self.assertEqual(server.requests[1].short, ("POST", "cluster/leave", {"node": "a"}))
        self.assertEqual(
            self.err,
            "3 sessions and messages to hand over\n1 sessions could not be handed over\n",
        )
        self.assertEqual(
            self.out, "left the cluster: 2 sessions handed over, 1 client disconnected\n"
        )

    def test_leave_by_name_as_json(self) -> None:
        done = {"node": "b", "sessions": 0, "clients": 0, "left": 0}
        left = chunked(json.dumps({"result": done}).encode() + b"\n")
        with canned_socket(self.socket, left) as server:
            argv = ("leave", "b", "--json", "--socket", str(self.socket))
            self.assertEqual(self.run_ctl("cluster", *argv), 0)
        self.assertEqual(server.requests[0].query, {"node": "b"})
        self.assertEqual(json.loads(self.out), done)

    def test_a_node_that_ends_while_it_leaves(self) -> None:
        for answer in (
            chunked(b'{"progress": "3 sessions and messages to hand over"}\n'),
            chunked(b'{"progress": "3 sessions and messages to hand over"}\n', ends=False),
        ):
            with canned_socket(self.socket, answer):
                argv = ("leave", "b", "--socket", str(self.socket))
                self.assertEqual(self.run_ctl("cluster", *argv), 1)
            self.assertEqual(self.out, "")
            self.assertIn("went away", self.err)
            self.socket.unlink()

    def test_forget(self) -> None:
        done = {"node": "b", "at": ["a"], "messages": 1200, "missing": []}
        (request,) = self.ask("forget", "b", "--socket", str(self.socket), answers=(done,))
        self.assertEqual(request.short, ("POST", "cluster/forget", {"node": "b"}))
        self.assertEqual(self.out, "forgot b: 1200 messages for it dropped\n")

    def test_forget_with_nodes_that_do_not_answer(self) -> None:
        done = {"node": "b", "messages": 1, "missing": ["c"]}
        with canned_socket(self.socket, done):
            argv = ("forget", "b", "--socket", str(self.socket))
            self.assertEqual(self.run_ctl("cluster", *argv), 0)
        self.assertEqual(self.err, "these nodes have not answered, and may still know it: c\n")

    def test_refused(self) -> None:
        with canned_socket(self.socket, problem(409, "this broker is not part of a cluster")):
            self.assertEqual(self.run_ctl("cluster", "leave", "--config", self.file("")), 1)
        self.assertEqual(
            (self.out, self.err),
            ("", "mhub ctl cluster leave: this broker is not part of a cluster\n"),
        )

    def test_presence(self) -> None:
        clients = [
            {"client_id": "a\n", "state": "connected", "node": "b", "node_state": "down"},
            {"client_id": "c", "state": "offline", "since": 1e9, "node": "a", "user": None},
        ]
        with canned_socket(
            self.socket, {"clients": clients, "next": "", "missing": ["b"]}
        ) as canned:
            argv = ("presence", "--match", "*", "--connected", "--socket", str(self.socket))
            self.assertEqual(self.run_ctl(*argv), 0)
        asked = {"match": "*", "state": "connected", "limit": "100"}
        self.assertEqual(canned.requests[0].short, ("GET", "presence", asked))
        self.assertIn("a\\x0a", self.out)
        self.assertIn("b (down)\n", self.out)
        self.assertEqual(self.err, "not answered in time: b\n")

    def test_strange_answer(self) -> None:
        with canned_socket(self.socket, [1]):
            self.assertEqual(self.run_ctl("cluster", "status", "--socket", str(self.socket)), 1)
        self.assertIn("an answer that this mhub does not understand", self.err)

    def test_where_the_node_is(self) -> None:
        """Without an option, the node is that of the working directory."""
        before = Path.cwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder)
        self.assertEqual(self.run_ctl("cluster", "status"), 1)
        self.assertEqual(
            self.err,
            "mhub ctl cluster status: there is no mhub-data/control.sock here; name the broker"
            " by --config FILE, --socket PATH or --url URL\n",
        )
        self.ask("status", answers=({"state": status()},))

    def test_no_broker(self) -> None:
        self.assertEqual(self.run_ctl("cluster", "status", "--config", self.file("")), 1)
        self.assertEqual(
            self.err,
            f"mhub ctl cluster status: no broker answers at {self.socket}: is it running, and is"
            " that its control socket?\n",
        )

    def test_turned_off(self) -> None:
        file = self.file('[control]\npath = ""')
        self.assertEqual(self.run_ctl("cluster", "status", "--config", file), 1)
        self.assertEqual(
            self.err,
            f"mhub ctl cluster status: {file} turns the control socket off: [control] path is"
            " empty\n",
        )

    def test_mistakes(self) -> None:
        for argv, text in (
            ((), "the following arguments are required: COMMAND"),
            (("statsu",), 'no command "statsu"; did you mean "status"?'),
            (("forget",), "the following arguments are required: NODE"),
            (("status", "--config", "x", "--socket", "y"), "not allowed with argument"),
        ):
            self.assertEqual(self.run_ctl("cluster", *argv), 2)
            self.assertIn(text, self.err)
        file = self.file("[cluster]\nnmae = 1")
        self.assertEqual(self.run_ctl("cluster", "status", "--config", file), 1)
        self.assertIn(f'{file}:2: cluster.nmae: unknown key; did you mean "name"?', self.err)

    def test_help(self) -> None:
        for what in ("status", "leave", "forget"):
            self.assertEqual(self.run_ctl("cluster", what, "--help"), 0)
            self.assertIn("--socket PATH", self.out)
            self.assertLessEqual(max(map(len, self.out.split("\n"))), 80)
