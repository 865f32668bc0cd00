"""Histories of a cluster's registry: users, rules and bans change while everything goes wrong.

    history = RegistryHistory(seed, FAULTS)
    history.play()                        the violations

python -m tests.cluster.sim_registry --seeds 200 [--shared]    many of them

The nodes are whole ones (`tests.cluster.simulation`): links, channels, journals, files that lose
what was not synced.  `tests.cluster.registry_walk` plays many more histories of the table alone.

What must be true: a change that was acknowledged is served from then on, or a later one is, by the
node that has acknowledged it and by those that were linked with it; in the end all nodes have the
same table, with all that was acknowledged, without anything that was deleted, and without
tombstones.  Nodes that were forgotten are excused: they take the table of the others.
"""

import argparse
import sys
from random import Random
from typing import Any

from mhub.cluster.node import NodeSettings
from mhub.core.registry import Change
from tests.cluster.simulation import SimNode, Simulation

FAULTS = ("cut", "split", "power", "slow", "absence", "forget")
KEYS = ("user/alice", "user/bob", "role/device", "rule/1", "rule/2", "ban/address/::1")
FORGET_S = 25.0
BEGIN_S = 5.0


class RegistryHistory:
    def __init__(
        self, seed: int, faults: tuple[str, ...], names: str = "abc", shared: bool = False
    ) -> None:
        self.random = Random(f"registry {seed}")
        self.faults = faults
        self.sim = Simulation(seed, names, shared=shared)
        for node in self.sim.nodes.values():
            node.change = self._settings(node)  # type: ignore[method-assign]
        self.wrong: list[str] = []
        self.versions: dict[str, dict[int, str]] = {}  # key -> version -> value; "": deleted
        self.acknowledged: dict[str, dict[int, str]] = {}  # key -> version -> by whom
        self.serves: dict[str, dict[str, int]] = {name: {} for name in names}
        self.forgotten: set[str] = set()
        self.counts = {"changes": 0, "acknowledged": 0, "collected": 0, "refused": 0}

    def _settings(self, node: SimNode) -> Any:
        def change(settings: NodeSettings) -> None:
            settings.round_s = 2.0
            settings.forget_s = FORGET_S
            node.world.hub.registry.tombstone_s = 1.0

        return change

    # What happens

    def play(self) -> list[str]:
        sim, random = self.sim, self.random
        sim.start()
        sim.run(BEGIN_S)
        self._change("a", {KEYS[0]: '"first"'})
        sim.run(2.0)
        for _ in range(random.randrange(15, 40)):
            self._fault(random.choice(self.faults))
            for _ in range(random.randrange(1, 5)):
                for _ in range(random.choice((0, 1, 1, 2))):
                    keys = random.sample(KEYS, random.choice((1, 1, 2)))
                    values = {key: self._value() for key in keys}
                    self._change(random.choice(sorted(sim.nodes)), values)
                sim.run(random.choice((0.01, 0.1, 0.6)))
                self._check()
            if self.wrong:
                return self.wrong
        return self._settle()

    def _value(self) -> str | None:
        return None if self.random.random() < 0.45 else f'"{self.random.randrange(1000)}"'

    def _fault(self, kind: str) -> None:
        sim, random = self.sim, self.random
        names = sorted(sim.nodes)
        node = sim.nodes[random.choice(names)]
        if kind == "cut":
            sim.cut(*random.sample(names, 2))
        elif kind == "slow":
            sim.slow = random.choice((0.005, 0.05, 0.3))
        elif kind == "split":
            sim.split({node.name}, set(names) - {node.name})
            sim.later(random.uniform(0.5, 15.0), sim.heal)
        elif kind == "power":
            for each in random.sample(names, random.choice((1, 1, 2, len(names)))):
                self._crash(sim.nodes[each], random.choice((0.5, 5.0)))
        elif kind == "absence":
            # Away for so long that the others forget it, and collect.
            if random.random() < 0.5:
                self._crash(node, FORGET_S + 15.0)
            else:
                sim.split({node.name}, set(names) - {node.name})
                sim.later(FORGET_S + 12.0, sim.heal)
            for _ in range(6):
                for _ in range(3):
                    self._change(random.choice(names), {random.choice(KEYS): self._value()})
                sim.run(5.0)
                self._note_forgotten()
        elif kind == "forget" and node.node is not None and node.host is None:
            other = random.choice([name for name in names if name != node.name])
            member = node.node.members.get(other)
            if member is not None and member.link is None:
                sim.note(node.name, f"is told to forget {other}")
                self.forgotten.add(other)
                node.enter()
                node.node.forget(other)
                node.leave()

    def _crash(self, node: SimNode, longest_s: float) -> None:
        random = self.random
        if node.up and node.host is None:
            node.crash(random.choice((0.0, random.random(), 1.0)), random.random() < 0.3)
        self.sim.later(random.uniform(0.1, longest_s), lambda: self._start(node))

    def _start(self, node: SimNode) -> None:
        if self.sim.shared:
            node.come()
        elif not node.up:
            node.start()

    def _change(self, name: str, values: dict[str, str | None]) -> None:
        node = self.sim.nodes[name]
        if node.node is None or not node.serves:
            return
        registry = node.world.hub.registry
        given = {k: v for k, v in values.items() if v is not None or registry.get(k) is not None}
        if not given:
            return
        linked = {peer.name for peer in node.node.peers.all if peer.responds()}
        boots = {each: self.sim.nodes[each].boot for each in (name, *linked)}
        node.enter()
        change = registry.change(given, node.world.now)
        version = registry.top
        for key, value in given.items():
            self.versions.setdefault(key, {})[version] = value or ""
        self.sim.note(name, f"changes {given} as {version}")
        self.counts["changes"] += 1
        if change.is_safe():
            self._safe(name, change, version, boots)
        else:
            change.on_safe = lambda: self._safe(name, change, version, boots)
        node.leave()

    def _safe(self, name: str, change: Change, version: int, boots: dict[str, int]) -> None:
        """Whoever asked is told; those that were linked all the time have it as well."""
        node = self.sim.nodes[name]
        assert node.node is not None
        keys = [key for key, versions in self.versions.items() if version in versions]
        self.sim.note(name, f"acknowledges {version}")
        self.counts["acknowledged"] += 1
        for key in keys:
            self.acknowledged.setdefault(key, {})[version] = name
            for each, boot in boots.items():
                peer = node.node.peers.peers.get(each)
                is_linked = each == name or (peer is not None and peer.responds())
                if is_linked and self.sim.nodes[each].boot == boot:
                    serves = self.serves[each]
                    serves[key] = max(serves.get(key, 0), version)

    # What must be true

    def _note_forgotten(self) -> None:
        for node in self.sim.nodes.values():
            if node.node is not None:
                floors = node.world.hub.registry.floors
                self.forgotten |= set(floors.gone)

    def _deleted_since(self, key: str, version: int) -> bool:
        versions = self.versions.get(key, {}).items()
        return any(later >= version and not value for later, value in versions)

    def _check(self) -> None:
        self._note_forgotten()
        for name, node in self.sim.nodes.items():
            if node.node is None or node.host is not None or name in self.forgotten:
                continue
            registry = node.world.hub.registry
            for key, version in self.serves[name].items():
                found = registry.get(key)
                if found is None:
                    if not self._deleted_since(key, version):
                        self.wrong.append(f"{name} does not serve {key}, acknowledged as {version}")
                elif found.hlc < version:
                    self.wrong.append(f"{name} serves {key} as {found.hlc}, not {version}")

    def _settle(self) -> list[str]:
        """Nothing more goes wrong."""
        sim = self.sim
        sim.note("sim", "nothing more goes wrong")
        sim.heal()
        sim.slow = 0.005
        for node in sim.nodes.values():
            self._start(node)
        for _ in range(80):
            sim.run(1.0)
            sim.heal()  # one that was to end later
            for node in sim.nodes.values():
                if node.node is not None and not node.world.hub.registry.floors.lineage:
                    self.wrong.append(f"{node.name} has no lineage")
            self._check()
            if self.wrong or not self._restless():
                break
        return self.wrong or self._restless() or self._check_end()

    def _restless(self) -> list[str]:
        sim = self.sim
        if not sim.whole() or not all(node.serves for node in sim.nodes.values()):
            return ["the nodes are not together"]
        registries = [node.world.hub.registry for node in sim.nodes.values()]
        wrong = []
        if len({registry.revision for registry in registries}) > 1:
            wrong.append(f"revisions differ: {[each.revision for each in registries]}")
        if any(registry.tombstones for registry in registries):
            wrong.append(f"tombstones are left: {[len(each.tombstones) for each in registries]}")
        if any(registry.waiting for registry in registries):
            wrong.append("a change is not safe")
        return wrong

    def _check_end(self) -> list[str]:
        registries = [node.world.hub.registry for node in self.sim.nodes.values()]
        for registry in registries:
            self.counts["collected"] += registry.collected
            self.counts["refused"] += registry.refused
        tables = [
            [(each.key, each.hlc, each.value) for each in registry.items("")]
            for registry in registries
        ]
        if any(table != tables[0] for table in tables):
            return [f"the tables differ: {tables}"]
        for key, safe in self.acknowledged.items():
            found = registries[0].get(key)
            for version, name in safe.items():
                if found is not None and found.hlc < version:
                    if not self.versions[key][version]:
                        self.wrong.append(f"{key} is back: {found.hlc}, deleted as {version}")
                    elif name not in self.forgotten:
                        self.wrong.append(f"{key} of {name} is lost: {found.hlc} < {version}")
                elif found is None and self.versions[key][version]:
                    if name not in self.forgotten and not self._deleted_since(key, version):
                        self.wrong.append(f"{key} of {name} is lost")
        return self.wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="sim_registry", description="Histories of a registry.")
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--faults", default=",".join(FAULTS), help="which may happen")
    parser.add_argument("--shared", action="store_true", help="nodes take over from each other")
    parser.add_argument("--show", action="store_true", help="print the histories")
    args = parser.parse_args()
    bad = 0
    totals: dict[str, int] = {}
    for seed in range(args.first, args.first + args.seeds):
        history = RegistryHistory(seed, tuple(args.faults.split(",")), shared=args.shared)
        wrong = history.play()
        for what, count in history.counts.items():
            totals[what] = totals.get(what, 0) + count
        if args.show:
            print("\n".join(history.sim.history))
        if wrong:
            bad += 1
            print(f"seed {seed}: {'; '.join(wrong[:3])}", flush=True)
    print(f"{args.seeds} histories, {bad} with a violation; {totals}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
