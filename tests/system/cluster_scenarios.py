"""What can happen to a cluster under load, each told once: for the short tests and the long run.

    kill      each node in turn is killed, and comes back on its store
    freeze    a node stands still for longer than the others wait, then goes on
    still     the same, and what becomes of those who do not need it (`cluster_still`)
    split     one node is apart from the two others; clients reach all of them
    rolling   each node in turn is stopped and started by its operator
    join      a fourth node comes
    leave     a node goes for good
    proxy     a node is killed behind HAProxy, and its clients come back through it

Nothing that was acknowledged may be lost in the end.
"""

from collections.abc import Callable

from tests.system.cluster_check import ClusterVerdict, judge_retained
from tests.system.cluster_house import PORT, Node
from tests.system.cluster_stage import Stage
from tests.system.cluster_still import still
from tests.system.durability import Stuck

DEAD_S = 2.0
"""After so long nodes give a silent one up (`dead_s` in `cluster_house.CONFIG`)."""


def kill(stage: Stage) -> None:
    for name in stage.victims():
        stage.house.kill(name)
        stage.work()
        stage.house.start(name)
        stage.until_whole()
        stage.work()


def freeze(stage: Stage) -> None:
    node = stage.house.nodes[stage.rng.choice("abc")]
    stage.trace.note("HOUSE", f"{node.name} is frozen")
    node.freeze()
    stage.house.shut(node.name)
    stage.work(DEAD_S + stage.seconds)
    stage.trace.note("HOUSE", f"{node.name} goes on")
    node.thaw()
    stage.house.open(node.name)
    stage.until_whole()
    stage.work()


def split(stage: Stage) -> None:
    house = stage.house
    alone = stage.rng.choice("abc")
    others = [node for name, node in house.nodes.items() if name != alone]
    stage.trace.note("HOUSE", f"{alone} is apart")
    house.switch.split(alone)
    stage.load.run_until(
        lambda: all(alone not in _up(node) for node in others), "the others miss it"
    )
    stage.work(DEAD_S + stage.seconds)
    stage.trace.note("HOUSE", "all are together")
    house.switch.heal()
    stage.until_whole()
    stage.work()


def _up(node: Node) -> set[str]:
    """Whom a node sees."""
    status = node.status() or {"members": []}
    return {each["node"] for each in status["members"] if each["state"] == "up"}


def rolling(stage: Stage) -> None:
    for name in stage.victims():
        stage.house.terminate(name)
        stage.until_ended(name)
        stage.work()
        stage.house.start(name)
        stage.until_whole()
        stage.work()


def join(stage: Stage) -> None:
    house, load = stage.house, stage.load
    house.add("d")
    node = house.nodes["d"]
    node.start()
    load.run_until(lambda: bool((node.status() or {}).get("ready")), "a fourth node that is ready")
    # Now, before anything else comes: it has what the others have.
    stage.wrong += judge_retained("d", (node.host, PORT), load.publishers)
    load.tell_all_by((node.host, PORT))
    house.open("d")
    stage.until_whole()
    stage.work()


def leave(stage: Stage) -> None:
    house, load = stage.house, stage.load
    name = stage.rng.choice(sorted(house.nodes))
    before = _absent(stage)
    house.shut(name)
    command = house.leave(name)
    load.run_until(lambda: command.poll() is not None, "the end of mhub cluster leave")
    said = command.communicate()[0]
    if command.returncode:
        stage.wrong.append(f"mhub cluster leave ended with {command.returncode}: {said}")
    stage.until_ended(name)
    house.forget(name)
    stage.until_whole()
    stage.work()
    lost = _absent(stage) - before
    if lost:
        stage.wrong.append(f"{lost} sessions were not handed over")


def proxy(stage: Stage) -> None:
    house, load = stage.house, stage.load
    stage.rest()
    _come_back(stage, "while all is well")
    before = _absent(stage)
    # HAProxy may have thought that a busy node is gone, and have sent everybody to the others.
    holders = [n for n, node in house.nodes.items() if (node.status() or {}).get("clients")]
    victim = stage.rng.choice(holders)
    house.kill(victim)
    load.hear_from_nodes()
    # They had come in turn, so some sessions were there, and are not to be had now.
    if _absent(stage) == before:
        stage.wrong.append("nobody had a session on the node that was killed")
    # Those on the other nodes are: whoever comes back finds one, on either of them.
    _come_back(stage, "while a node is dead")
    stage.work()
    house.start(victim)
    stage.until_whole()
    stage.rest()
    # Its sessions are back, and one with those that took their place.
    _come_back(stage, "after the node has come back")
    stage.work()


def _come_back(stage: Stage, when: str) -> None:
    """Everybody leaves, comes back, and finds a session."""
    before = _absent(stage)
    stage.load.close()
    stage.load.calmly_until(stage.load.everybody, f"everybody back {when}")
    absent = _absent(stage) - before
    if absent:
        stage.wrong.append(f"{absent} clients came back to no session {when}")


def _absent(stage: Stage) -> int:
    """How often a client that came back did not find its session."""
    return sum(client.forgotten for client in stage.load.clients)


SCENARIOS: dict[str, Callable[[Stage], None]] = {
    "kill": kill,
    "freeze": freeze,
    "still": still,
    "split": split,
    "rolling": rolling,
    "join": join,
    "leave": leave,
    "proxy": proxy,
}


def play(stage: Stage, *names: str) -> ClusterVerdict:
    """One of them, or several in turn, from the first node to the verdict."""
    stage.house.switched = "split" in names
    if "proxy" in names:
        stage.begin_behind_proxy()
    else:
        stage.begin()
    for name in names:
        try:
            SCENARIOS[name](stage)
            if name != names[-1]:
                stage.rest()
        except Stuck as stuck:
            raise Stuck(f"{name}: {stuck}") from stuck
    return stage.finish()
