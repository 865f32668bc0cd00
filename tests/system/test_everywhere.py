"""One node of three processes answers for all of them, while others stand still or are dead."""

import http.client
import json
import socket
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.helpers.packets import Prop
from tests.system.case import place
from tests.system.cluster_processes import PATIENT, PORT, ClusterProcesses
from tests.system.process import PATIENCE_S, wait_until
from tests.system.raw import Raw

KEPT = [(Prop.SESSION_EXPIRY, 1000)]


class LocalConnection(http.client.HTTPConnection):
    """HTTP at a control socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(path: str, method: str, target: str, body: object = None) -> tuple[int, Any]:
    """Status and JSON of an answer of the admin API."""
    connection = LocalConnection(path)
    data = b"" if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} if data else {}
    connection.request(method, f"/admin/v1/{target}", data, headers)
    answer = connection.getresponse()
    found = json.loads(answer.read().splitlines()[-1])  # of a stream, what it ends with
    connection.close()
    return answer.status, found


class EverywhereTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.cluster = ClusterProcesses(place(self), timing=PATIENT)
        self.addCleanup(self.cluster.close)
        self.cluster.add("a", "b", "c")
        self.cluster.start()
        wait_until(self.cluster.whole, "a cluster of three")
        self.clients = {}
        for name, node in self.cluster.nodes.items():
            client = Raw((node.host, PORT), 5)
            client.connect(f"at-{name}", clean=False, props=KEPT)
            self.clients[name] = client

    def get(self, name: str, target: str) -> Any:
        status, found = ask(self.cluster.nodes[name].control, "GET", target)
        self.assertEqual(status, 200, found)
        return found

    def shown(self, name: str, target: str = "presence") -> Any:
        found = self.get(name, target)
        clients = [(each["client_id"], each["state"], each["node"]) for each in found["clients"]]
        return clients, found["missing"]

    def post(self, name: str, target: str, **body: Any) -> tuple[int, Any]:
        return ask(self.cluster.nodes[name].control, "POST", target, body)

    def test_what_is_done_to_a_client_is_done_where_it_is(self) -> None:
        def at(name: str) -> list[tuple[str, str]]:
            found = self.get(name, "clients?sort=-client_id")
            self.assertEqual((found["missing"], found["sessions"]), ([], 3))
            return [(each["client_id"], each["node"]) for each in found["clients"]]

        everybody = [("at-c", "c"), ("at-b", "b"), ("at-a", "a")]
        for name in "abc":
            self.assertEqual(at(name), everybody)
        status, found = self.post("a", "client/subscribe", client_id="at-c", filter="t/#", qos=1)
        self.assertEqual((status, found["node"], found["qos"]), (200, "c", 1), found)
        self.clients["b"].publish("t/1", b"for c", 1, 1)
        self.clients["b"].expect("PUBACK", pid=1)
        self.clients["c"].expect("PUBLISH", payload=b"for c")
        found = self.get("b", "subscriptions?topic=t/1")
        entries = [(each["client_id"], each["node"]) for each in found["subscriptions"]]
        self.assertEqual(entries, [("at-c", "c")])
        found = self.get("c", "topics/top?by=messages")
        self.assertEqual(
            [(each["topic"], each["node"]) for each in found["topics"]], [("t/1", "b")]
        )
        detail = self.get("a", "client?client_id=at-c")
        self.assertEqual((detail["client"]["node"], len(detail["subscriptions"])), ("c", 1))
        status, found = self.post("a", "client/unsubscribe", client_id="at-c", filter="none")
        self.assertEqual(status, 404, found)

        status, found = self.post("b", "client/disconnect", client_id="at-c")
        self.assertEqual((status, found["node"], found["was_connected"]), (200, "c", True), found)
        self.clients["c"].expect("DISCONNECT", reason=0x98)
        status, found = self.post("b", "client/disconnect", client_id="nobody")
        self.assertEqual(status, 404, found)
        control = self.cluster.nodes["a"].control
        status, found = ask(control, "DELETE", "client/session?client_id=at-c")
        self.assertEqual((status, found["session_deleted"]), (200, True), found)
        wait_until(lambda: len(self.get("b", "clients")["clients"]) == 2, "its session is gone")
        self.cluster.nodes["b"].freeze()
        status, found = ask(control, "GET", "client?client_id=at-b")
        self.assertEqual(status, 504, found)
        self.cluster.nodes["b"].thaw()

    def test_all_nodes_then_some_that_do_not_answer(self) -> None:
        everybody = [(f"at-{name}", "connected", name) for name in "abc"]
        for name in "abc":
            wait_until(lambda: self.shown(name) == (everybody, []), "presence")  # noqa: B023
        first = self.get("a", "presence?limit=2")
        rest = self.get("b", f"presence?limit=2&cursor={first['next']}")
        ids = [each["client_id"] for each in (*first["clients"], *rest["clients"])]
        self.assertEqual((ids, rest["next"]), (["at-a", "at-b", "at-c"], ""))
        local = [("at-b", "connected", "b")]
        self.assertEqual(self.shown("b", "presence?scope=node"), (local, []))

        totals = self.get("c", "cluster/totals")
        self.assertEqual(totals["total"]["sessions"]["connected"], 3)
        self.assertEqual({each["node"] for each in totals["nodes"]}, {"a", "b", "c"})
        view = self.get("b", "cluster")
        links = {(each["node"], each["to"], each["state"]) for each in view["links"]}
        pairs = {(one, other, "up") for one in "abc" for other in "abc" if one != other}
        self.assertEqual((links, view["missing"]), (pairs, []))
        losses = {each["node"]: each for each in view["losses"]}
        self.assertEqual(losses.keys(), {"a", "b", "c"})
        self.assertEqual((losses["a"]["connected"], losses["a"]["sessions"]), (1, 1))
        self.assertEqual(losses["a"]["fate"], "kept in its store")

        # It stands still, and is not suspected yet: the others wait for it, but not for ever.
        self.cluster.nodes["b"].freeze()
        self.assertEqual(self.shown("a"), (everybody, ["b"]))
        totals = self.get("c", "cluster/totals")
        self.assertEqual((totals["total"]["sessions"]["connected"], totals["missing"]), (2, ["b"]))

        self.cluster.kill("c")
        wait_until(lambda: self.shown("a")[0][2] == ("at-c", "offline", "c"), "node c is down")
        self.assertEqual(self.shown("a")[1], ["b", "c"])
        view = self.get("a", "cluster")
        self.assertEqual(view["missing"], ["b", "c"])
        silent = {each["node"]: each["is_known"] for each in view["losses"]}
        self.assertEqual(silent, {"a": True, "b": False, "c": False})
        status, found = ask(self.cluster.nodes["a"].control, "POST", "cluster/forget?node=b")
        self.assertEqual(status, 409, found)

        self.cluster.nodes["b"].thaw()
        wait_until(lambda: self.shown("a")[1] == ["c"], "node b answers again")
        self.assertEqual(self.shown("b")[1], ["c"])
        status, found = ask(self.cluster.nodes["b"].control, "POST", "cluster/forget?node=c")
        self.assertEqual((status, sorted(found["at"])), (200, ["a", "b"]), found)
        everybody = everybody[:2]
        for name in "ab":
            wait_until(lambda: self.shown(name) == (everybody, []), "c is forgotten")  # noqa: B023
        status, found = ask(self.cluster.nodes["b"].control, "POST", "cluster/forget?node=x")
        self.assertEqual(status, 404, found)

        status, found = ask(self.cluster.nodes["a"].control, "POST", "cluster/leave?node=b")
        self.assertEqual(status, 400, found)
        self.clients["a"].close()
        status, found = ask(self.cluster.nodes["a"].control, "POST", "cluster/leave?node=a")
        done = {"node": "a", "sessions": 1, "clients": 0, "left": 0}
        self.assertEqual((status, found), (200, {"result": done}))
        wait_until(lambda: self.cluster.ended("a"), "the end of node a")
        there = [("at-a", "offline", "b"), ("at-b", "connected", "b")]
        wait_until(lambda: self.shown("b") == (there, []), "a has left")
        self.assertEqual(self.cluster.wrong, [])
