"""Presence in a cluster of three processes, one of which is killed and comes back."""

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.helpers import packets as p
from tests.helpers.packets import Prop
from tests.system.case import place
from tests.system.cluster_processes import PORT, ClusterProcesses
from tests.system.process import wait_until
from tests.system.raw import Raw
from tests.system.test_everywhere import ask

KEPT = [(Prop.SESSION_EXPIRY, 1000)]
PRESENCE = '\n[presence]\nenabled = true\nprefix = "$SYS/there"\n'


class Watcher(Raw):
    """A client that has subscribed to the presence of all."""

    def __init__(self, address: tuple[str, int], client_id: str) -> None:
        super().__init__(address)
        self.connect(client_id)
        self.send(p.subscribe(1, ("$SYS/there/#", 0)))  # what is retained may overtake the SUBACK
        self._known: dict[str, dict[str, Any]] = {}

    def known(self) -> dict[str, dict[str, Any]]:
        """All that has come by now: client id -> what is said of it."""
        self.send(p.pingreq())
        while True:
            packet = self.receive()
            assert packet is not None
            if packet.type == "PINGRESP":
                return self._known
            if packet.type != "PUBLISH":
                continue
            level = packet.topic.rpartition("/")[2]
            if packet.payload:
                self._known[level] = json.loads(packet.payload)
            else:
                self._known.pop(level, None)

    def shows(self, expected: dict[str, tuple[str, str]]) -> bool:
        found = {name: (each["state"], each["node"]) for name, each in self.known().items()}
        return found == expected


class PresenceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.cluster = ClusterProcesses(place(self))
        self.addCleanup(self.cluster.close)
        self.cluster.add("a", "b", "c")
        for node in self.cluster.nodes.values():
            config = node.directory / "broker.toml"
            config.write_text(config.read_text() + PRESENCE)
        self.cluster.start()
        wait_until(self.cluster.whole, "a cluster of three")

    def at(self, name: str) -> tuple[str, int]:
        return self.cluster.nodes[name].host, PORT

    def listed(self, name: str) -> list[dict[str, Any]]:
        """The same, as a node answers who asks it."""
        status, found = ask(self.cluster.nodes[name].control, "GET", "presence")
        self.assertEqual(status, 200, found)
        clients: list[dict[str, Any]] = found["clients"]
        return clients

    def settled(self, watchers: dict[str, Watcher], **expected: tuple[str, str]) -> None:
        for name in watchers:
            expected[f"watcher-{name}"] = ("connected", name)
        for name, watcher in watchers.items():
            try:
                wait_until(lambda: watcher.shows(expected), "presence")  # noqa: B023
            except AssertionError:
                self.fail(f"at {name}: {watcher.known()}\nexpected: {expected}")

    def test_a_node_is_killed_and_comes_back(self) -> None:
        watchers = {name: Watcher(self.at(name), f"watcher-{name}") for name in "bc"}
        kept, roams, plain = Raw(self.at("a"), 5), Raw(self.at("a"), 5), Raw(self.at("a"))
        kept.connect("kept", clean=False, props=KEPT)
        roams.connect("roams", clean=False, props=KEPT)
        plain.connect("plain/1")
        other = Raw(self.at("b"), 5)
        other.connect("other", clean=False, props=KEPT)
        everybody = {
            "kept": ("connected", "a"),
            "roams": ("connected", "a"),
            "plain%2F1": ("connected", "a"),
            "other": ("connected", "b"),
        }
        self.settled(watchers, **everybody)
        said = watchers["c"].known()["kept"]
        self.assertEqual(said["client_id"], "kept")
        self.assertEqual(said["address"], kept.local)
        self.assertEqual((said["listener"], said["version"]), ("plain", "5.0"))
        self.assertEqual(said, watchers["b"].known()["kept"])

        self.cluster.kill("a")
        gone = {
            "kept": ("offline", "a"),
            "roams": ("offline", "a"),
            "plain%2F1": ("offline", "a"),
            "other": ("connected", "b"),
        }
        self.settled(watchers, **gone)
        self.assertEqual(watchers["b"].known()["kept"]["node_state"], "down")
        self.assertEqual(watchers["b"].known()["kept"]["address"], kept.local)
        listed = {each["client_id"]: each for each in self.listed("b")}
        self.assertEqual(listed["kept"], watchers["b"].known()["kept"])

        again = Raw(self.at("c"), 5)
        again.connect("roams", clean=False, props=KEPT)
        self.settled(watchers, **{**gone, "roams": ("connected", "c")})

        self.cluster.start("a")
        wait_until(self.cluster.whole, "a cluster of three")
        watchers["a"] = Watcher(self.at("a"), "watcher-a")
        back = {
            "kept": ("offline", "a"),
            "roams": ("connected", "c"),
            "other": ("connected", "b"),
        }
        self.settled(watchers, **back)
        self.assertEqual(watchers["b"].known()["kept"]["node_state"], "up")

        more = Raw(self.at("b"), 5)
        more.connect("kept", clean=False, props=KEPT)
        self.settled(watchers, **{**back, "kept": ("connected", "b")})
        more.close()
        self.settled(watchers, **{**back, "kept": ("offline", "b")})
        self.cluster.stop()
        self.assertEqual(self.cluster.wrong, [])

    def test_no_client_can_publish_there(self) -> None:
        client = Raw(self.at("a"), 5)
        client.connect("x")
        client.send(p.publish("$SYS/there/y", b"forged", 1, 1, True, version=5))
        reply = client.receive()
        self.assertTrue(reply is None or reply.type == "DISCONNECT" or reply.reason >= 0x80)
        watcher = Watcher(self.at("a"), "watcher-a")
        wait_until(lambda: "watcher-a" in watcher.known(), "presence")
        self.assertNotIn("y", watcher.known())
