"""Nodes of one cluster, each a `twistd mhub` on a store of its own: they start, stop, freeze, die.

Each cluster has addresses of its own, 127.X.Y.N, so that ports can be the same for all and stay the
same when a node comes back; no other process of this machine uses them.

If it is `switched`, the links between nodes pass through a `Switch`, which can take them apart.
"""

import random
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from mhub.control.contract import ControlError
from mhub.ctl.client import Api
from mhub.ctl.place import Place
from tests.system.cluster_switch import Switch
from tests.system.cluster_trace import Trace
from tests.system.process import PATIENCE_S, Broker, environment

PORT = 1883
PROXIED_PORT = 1884
PEER_PORT = 7883

NAMES = "abcdefgh"
"""Of nodes; the place here is the last number of the address."""

ASK_S = 2.0
"""How long a node may take to say how it is; it is asked again, so a busy one is no failure."""

LOG_END = 6000
"""So much of each log is shown when something is wrong."""

CONFIG = """
[[listeners]]
name = "plain"
host = "{host}"
port = 1883

[[listeners]]
name = "proxied"
host = "{host}"
port = 1884
proxy_protocol = true
allow_anonymous = true

[limits]
max_queued_messages = 0
max_queued_bytes = 0

[store]
{store}

[control]
path = "control.sock"

[cluster]
name = "test"
node = "{name}"
host = "{host}"
port = 7883
advertise = "{advertise}"
peers = [{peers}]
secret = "known to these nodes alone"
{timing}
"""

SQLITE = 'path = "mhub.sqlite"\nqueue_window = 64'
MEMORY = 'kind = "memory"'

QUICK = """
heartbeat_s = 0.2
suspect_s = 0.6
dead_s = 2
retry_s = 0.1
retry_max_s = 1
takeover_timeout_s = 5
"""
"""For nodes that fail: others find out soon."""

PATIENT = """
suspect_s = 10
dead_s = 30
takeover_timeout_s = 30
"""
"""For nodes that do not fail, on a machine that is too busy to tell a slow one from a dead one."""


def redis_store(port: int, prefix: str = "mhub:") -> str:
    """For all nodes of a cluster; each one adds its own name to the prefix."""
    return f'kind = "redis"\nqueue_window = 64\nredis.port = {port}\nredis.prefix = "{prefix}"'


Status = dict[str, Any]


def random_net() -> str:
    """127.X.Y, for addresses that nothing else on this machine uses."""
    chance = random.SystemRandom()
    return f"127.{chance.randrange(1, 255)}.{chance.randrange(256)}"


class Node(Broker):
    """A broker of the cluster; `start` does not wait for it."""

    def __init__(self, directory: Path, name: str, host: str, config: str) -> None:
        directory.mkdir(exist_ok=True)
        super().__init__(directory, config)
        self.name = name
        self.host = host
        self.frozen = False
        self.control = str(directory / "control.sock")

    def _answers(self) -> bool:
        """Whoever needs it looks for itself, as the others go on meanwhile."""
        return True

    def status(self) -> Status | None:
        """How it sees the cluster; None: it does not say."""
        if not self.running or self.frozen:
            return None
        try:
            said = Api(Place(socket=self.control), ASK_S).get("cluster", scope="node")
        except ControlError:
            return None
        return said["state"]

    def freeze(self) -> None:
        self.frozen = True
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.frozen = False
        self.signal(signal.SIGCONT)


class ClusterProcesses:
    """`open_nodes` are those nodes that a load balancer would send clients to."""

    def __init__(
        self,
        directory: Path,
        trace: Trace | None = None,
        store: str = SQLITE,
        timing: str = QUICK,
    ) -> None:
        """All have `store` in the table of that name, and `timing` in that of the cluster."""
        self.directory = directory
        self._trace = trace or Trace()
        self._store = store
        self._timing = timing
        self.nodes: dict[str, Node] = {}
        self.open_nodes: list[str] = []
        self.switched = False  # whether nodes reach each other by the switch
        self.is_split = False  # whether they do not all see each other because of it
        self.wrong: list[str] = []  # what nodes must not do, and did
        self._know: dict[str, str] = {}  # where nodes are reached by others
        self._net = random_net()
        self.switch = Switch(self._net, PEER_PORT)

    # Nodes

    def add(self, *names: str) -> None:
        """Nodes that know of each other, and of all that were there before."""
        for name in names:
            host = self._host(name)
            self._know[name] = f"{host}:{PEER_PORT}"
            if self.switched:
                self._know[name] = self.switch.add(name, host)
        for name in names:
            host, advertise = self._host(name), self._know[name]
            peers = ", ".join(f'"{each}"' for n, each in self._know.items() if n != name)
            config = CONFIG.format(
                name=name,
                host=host,
                advertise=advertise,
                peers=peers,
                store=self._store,
                timing=self._timing,
            )
            self.nodes[name] = Node(self.directory / name, name, host, config)

    def _host(self, name: str) -> str:
        return f"{self._net}.{1 + NAMES.index(name)}"

    def start(self, *names: str) -> None:
        for name in names or self.nodes:
            self._trace.note("CLUSTER", f"{name} starts at {self.nodes[name].host}")
            self.nodes[name].start()
            self.switch.pids[self.nodes[name].pid] = name
            self.open(name)

    def open(self, name: str) -> None:
        if name not in self.open_nodes:
            self.open_nodes.append(name)

    def shut(self, name: str) -> None:
        """No clients for this node."""
        if name in self.open_nodes:
            self.open_nodes.remove(name)

    def kill(self, name: str) -> None:
        self.shut(name)
        self.nodes[name].kill()
        self._trace.note("CLUSTER", f"{name} is killed")

    def terminate(self, name: str) -> None:
        """As an operator does it; it is over when the node does not run any more."""
        self.shut(name)
        self._trace.note("CLUSTER", f"{name} is told to end")
        self.nodes[name].signal(signal.SIGTERM)

    def ended(self, name: str) -> bool:
        """Whether a node has ended, as it should."""
        node = self.nodes[name]
        if node.running:
            return False
        status = node.wait()
        if status:
            self.wrong.append(f"node {name} ended with {status}")
        return True

    def leave(self, name: str) -> subprocess.Popen[str]:
        """`mhub ctl cluster leave`, under way."""
        self._trace.note("CLUSTER", f"{name} is told to leave")
        return self._command(self.nodes[name], "ctl", "cluster", "leave")

    def _command(self, node: Node, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "mhub", *words, "--config", "broker.toml"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=node.directory,
            env=environment(),
        )

    def forget(self, name: str) -> None:
        """It has left the cluster for good."""
        self._read_log(self.nodes.pop(name))
        self._know.pop(name)

    # The cluster as its nodes see it

    def whole(self) -> bool:
        """Whether every node is ready, and sees every other one."""
        for name in self.nodes:
            status = self.nodes[name].status()
            if status is None or not status["ready"]:
                return False
            up = {each["node"] for each in status["members"] if each["state"] == "up"}
            if up != self.nodes.keys() - {name}:
                return False
        return True

    def missed(self, name: str) -> bool:
        """Whether another node has suspected this one, or has lost the link with it."""
        logs = [node.log() for each, node in self.nodes.items() if each != name]
        signs = [f"node {name} is {state}:" for state in ("suspect", "down")]
        return any(sign in log for log in logs for sign in signs)

    def at_rest(self, sessions: int) -> bool:
        """Whether nothing waits for a node, and each of so many sessions is in one place."""
        found = 0
        for node in self.nodes.values():
            status = node.status()
            if status is None or any(each["queued_messages"] for each in status["members"]):
                return False
            found += status["clients"]
        return found == sessions

    def describe(self) -> str:
        """For a failure: how each node sees the others, and the ends of the logs."""
        lines = []
        for node in self.nodes.values():
            lines.append(f"-- node {node.name}: {node.status()}")
            lines.append(node.log()[-LOG_END:])
        return "\n".join(lines)

    # The end

    def stop(self) -> None:
        """As an operator does it; the stores then must be sound, and hold no message any more."""
        for name in self.nodes:
            self.terminate(name)
        for node in self.nodes.values():
            if node.wait():
                self.wrong.append(f"node {node.name} ended with {node.wait()}")
            self._read_log(node)
        if self._store == MEMORY:
            return  # there is nothing to check
        checks = [(node, self._command(node, "store", "check")) for node in self.nodes.values()]
        for node, check in checks:
            said = check.communicate(timeout=PATIENCE_S)[0]
            if check.returncode or re.search(r"\d (message|deliver|QoS 2)", said):
                self.wrong.append(f"store of {node.name} after the end: {said.strip()}")

    def close(self) -> None:
        """Whatever happened."""
        for node in self.nodes.values():
            node.kill()
        self.switch.close()

    def _read_log(self, node: Node) -> None:
        log = node.log()
        if "Traceback" in log:
            self.wrong.append(f"in the log of {node.name}: {log[log.index('Traceback') :][:3000]}")
