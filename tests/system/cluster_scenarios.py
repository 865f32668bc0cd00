"""What can happen to a cluster under load, each told once: for the short tests and the long run.

    kill      each node in turn is killed, and comes back on its store
    freeze    a node stands still for longer than the others wait, then goes on
    still     the same, and what becomes of those who do not need it (`cluster_still`)
    split     one node is apart from the two others; clients reach all of them
    rolling   each node in turn is stopped and started by its operator
    join      a fourth node comes
    leave     a node goes for good
    proxy     a node is killed behind HAProxy, and its clients come back through it
    roam      nothing fails, but two subscribers go from node to node (`cluster_roam`)

What must hold in the end is in `cluster_check`.
"""

import time
from collections.abc import Callable

from tests.system.cluster_check import ClusterVerdict, judge_retained
from tests.system.cluster_processes import PORT, Node
from tests.system.cluster_roam import TEMPERS, add_clients, roam
from tests.system.cluster_still import still
from tests.system.cluster_testbed import Testbed
from tests.system.durability import Stuck

DEAD_S = 2.0
"""After so long nodes give a silent one up (`dead_s` in `cluster_processes.CONFIG`)."""


def kill(testbed: Testbed) -> None:
    for name in testbed.victims():
        testbed.cluster.kill(name)
        testbed.work()
        testbed.cluster.start(name)
        testbed.until_whole()
        testbed.work()


def freeze(testbed: Testbed) -> None:
    node = testbed.cluster.nodes[testbed.rng.choice("abc")]
    testbed.trace.note("CLUSTER", f"{node.name} is frozen")
    frozen_at = time.monotonic()
    node.freeze()
    testbed.cluster.shut(node.name)
    testbed.work(DEAD_S + testbed.seconds)
    testbed.trace.note("CLUSTER", f"{node.name} goes on")
    node.thaw()
    testbed.cluster.open(node.name)
    testbed.until_whole()
    testbed.load.together_again(frozen_at)
    testbed.work()


def split(testbed: Testbed) -> None:
    cluster = testbed.cluster
    alone = testbed.rng.choice("abc")
    others = [node for name, node in cluster.nodes.items() if name != alone]
    testbed.trace.note("CLUSTER", f"{alone} is apart")
    cluster.is_split = True
    cluster.switch.split(alone)
    testbed.load.run_until(
        lambda: all(alone not in _up(node) for node in others), "the others miss it"
    )
    testbed.work(DEAD_S + testbed.seconds)
    testbed.trace.note("CLUSTER", "all are together")
    cluster.switch.heal()
    testbed.until_whole()
    cluster.is_split = False
    testbed.work()


def _up(node: Node) -> set[str]:
    """Whom a node sees."""
    status = node.status() or {"members": []}
    return {each["node"] for each in status["members"] if each["state"] == "up"}


def rolling(testbed: Testbed) -> None:
    for name in testbed.victims():
        testbed.cluster.terminate(name)
        testbed.until_ended(name)
        testbed.work()
        testbed.cluster.start(name)
        testbed.until_whole()
        testbed.work()


def join(testbed: Testbed) -> None:
    cluster, load = testbed.cluster, testbed.load
    cluster.add("d")
    node = cluster.nodes["d"]
    node.start()
    load.run_until(lambda: bool((node.status() or {}).get("ready")), "a fourth node that is ready")
    # Now, before anything else comes: it has what the others have.
    wrong = judge_retained("d", (node.host, PORT), load.publishers)
    if wrong and cluster.missed("d"):
        # Publishers do not wait for a node that is suspected: it is behind until no other node has
        # anything queued for it, and all see each other.
        testbed.rest()
        wrong = judge_retained("d", (node.host, PORT), load.publishers)
    testbed.wrong += wrong
    load.tell_all_by((node.host, PORT))
    cluster.open("d")
    testbed.until_whole()
    testbed.work()


def leave(testbed: Testbed) -> None:
    cluster, load = testbed.cluster, testbed.load
    name = testbed.rng.choice(sorted(cluster.nodes))
    before = _absent(testbed)
    cluster.shut(name)
    command = cluster.leave(name)
    load.run_until(lambda: command.poll() is not None, "the end of mhub ctl cluster leave")
    said = command.communicate()[0]
    if command.returncode:
        testbed.wrong.append(f"mhub ctl cluster leave ended with {command.returncode}: {said}")
    testbed.until_ended(name)
    cluster.forget(name)
    testbed.until_whole()
    testbed.work()
    lost = _absent(testbed) - before
    if lost:
        testbed.wrong.append(f"{lost} sessions were not handed over")


def proxy(testbed: Testbed) -> None:
    cluster, load = testbed.cluster, testbed.load
    testbed.rest()
    _come_back(testbed, "while all is well")
    before = _absent(testbed)
    # HAProxy may have thought that a busy node is gone, and have sent everybody to the others.
    holders = [n for n, node in cluster.nodes.items() if (node.status() or {}).get("clients")]
    victim = testbed.rng.choice(holders)
    cluster.kill(victim)
    load.hear_from_nodes()
    # They had come in turn, so some sessions were there, and are not to be had now.
    if _absent(testbed) == before:
        testbed.wrong.append("nobody had a session on the node that was killed")
    # Those on the other nodes are: whoever comes back finds one, on either of them.
    _come_back(testbed, "while a node is dead")
    testbed.work()
    cluster.start(victim)
    testbed.until_whole()
    testbed.rest()
    # Its sessions are back, and one with those that took their place.
    _come_back(testbed, "after the node has come back")
    testbed.work()


def _come_back(testbed: Testbed, when: str) -> None:
    """Everybody leaves, comes back, and finds a session."""
    before = _absent(testbed)
    testbed.load.close()
    testbed.load.calmly_until(testbed.load.everybody, f"everybody back {when}")
    absent = _absent(testbed) - before
    if absent:
        testbed.wrong.append(f"{absent} clients came back to no session {when}")


def _absent(testbed: Testbed) -> int:
    """How often a client that came back did not find its session."""
    return sum(client.forgotten for client in testbed.load.clients)


SCENARIOS: dict[str, Callable[[Testbed], None]] = {
    "kill": kill,
    "freeze": freeze,
    "still": still,
    "split": split,
    "rolling": rolling,
    "join": join,
    "leave": leave,
    "proxy": proxy,
    "roam": roam,
}


FAILURES = tuple(name for name in SCENARIOS if name != "roam")
"""Those in which nodes or links fail: `make chaos` runs them all."""


def run_scenarios(testbed: Testbed, *names: str, temper: str = TEMPERS[0]) -> ClusterVerdict:
    """One of them, or several in turn, from the first node to the verdict."""
    testbed.cluster.switched = "split" in names
    testbed.cluster.add("a", "b", "c")
    if "proxy" in names:
        testbed.add_proxy()
    if "roam" in names:
        hosts = {name: node.host for name, node in testbed.cluster.nodes.items()}
        add_clients(testbed.load, hosts, temper, testbed.rng)
        testbed.nothing_failed = names == ("roam",)
    testbed.begin()
    for name in names:
        try:
            SCENARIOS[name](testbed)
            if name != names[-1]:
                testbed.rest()
        except Stuck as stuck:
            raise Stuck(f"{name}: {stuck}") from stuck
    return testbed.finish()
