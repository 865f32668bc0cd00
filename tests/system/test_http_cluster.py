"""MQTT over HTTP on a cluster of two real processes."""

import json
import subprocess
import sys
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.system.case import place
from tests.system.cluster_processes import ClusterProcesses
from tests.system.http_client import Address, EventStream, ask
from tests.system.process import PATIENCE_S, environment, wait_until

ADMIN = """
[admin]
host = "{host}"
port = 8088
basic = true

[passwords]
scram_iterations = 4096
"""

ADD = (sys.executable, "-m", "mhub", "ctl", "user", "add")


class ClusterTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = ClusterProcesses(place(self))
        self.addCleanup(self.nodes.close)
        self.addCleanup(lambda: self.assertEqual(self.nodes.wrong, []))
        self.nodes.add("a", "b")
        for node in self.nodes.nodes.values():
            config = node.directory / "broker.toml"
            config.write_text(config.read_text() + ADMIN.format(host=node.host))
        self.nodes.start()
        wait_until(self.nodes.whole, "a cluster of two")
        self.a, self.b = ((node.host, 8088) for node in self.nodes.nodes.values())
        subprocess.run(
            [*ADD, "ann", "--password-file", "-", "--config", "broker.toml"],
            input="pw-ann\n",
            text=True,
            check=True,
            stdout=subprocess.PIPE,
            cwd=self.nodes.nodes["a"].directory,
            env=environment(),
            timeout=PATIENCE_S,
        )

    def publish(self, node: Address, payload: str, **fields: Any) -> None:
        body = {"topic": "t", "payload": payload, "qos": 1, **fields}
        status, _, data = ask(node, "POST", "/mqtt/publish", body)
        self.assertEqual((200, "success"), (status, json.loads(data).get("reason")), data)

    def test_messages_and_sessions_cross_nodes(self) -> None:
        query = "filter=t&client_id=wall&expiry_s=600"
        stream = EventStream(self, query, "ann", address=self.b)
        self.assertEqual("subscribed", stream.event()["event"])
        self.publish(self.a, "1")
        first = stream.event()
        self.assertEqual("1", first["data"]["payload"])
        stream.close()
        self.publish(self.a, "2", retain=True)
        self.publish(self.b, "3")
        # At the other node the session is the same, and what the reader saw is not known.
        stream = EventStream(self, query, "ann", first["id"], address=self.a)
        self.assertEqual(True, stream.event()["data"]["session_present"])
        self.assertEqual("reset", stream.event()["event"])
        self.assertEqual({"2", "3"}, {stream.message()[1], stream.message()[1]})
        status, _, data = ask(self.b, "GET", "/mqtt/retained?topic=t")
        self.assertEqual((200, "2"), (status, json.loads(data).get("payload")), data)
