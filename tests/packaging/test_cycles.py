"""Import cycles inside of the core: what has to be read together, and nothing else.

An import for type checking only counts as well: who reads a module has to know what it names.
"""

from twisted.trial.unittest import SynchronousTestCase

from tests.packaging.tree import imports_of, modules, within

CORE = "mhub.core."

# The hub, what it owns, and the rules that act on all of it: docs/architecture.md says why.
TOGETHER = {
    *("hub", "connection", "session", "peers", "peer", "channel_in", "channel_out"),
    *("admission", "publishing", "subscribing", "redistribution", "storage", "metrics", "traffic"),
    "ports",
}

# A subscription names its shared group, and the group its members.
PAIR = {"delivery", "shared"}


def references(name: str, known: set[str]) -> set[str]:
    """The modules among `known` that a module imports something from."""
    found = set()
    for imported in imports_of(name):
        while imported and imported not in known:
            imported = imported.rpartition(".")[0]
        if imported and imported != name:
            found.add(imported)
    return found


def reachable(start: str, graph: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    left = [start]
    while left:
        for name in graph[left.pop()] - found:
            found.add(name)
            left.append(name)
    return found


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Groups of which each member reaches each other one, the largest first."""
    reach = {name: reachable(name, graph) for name in graph}
    groups = {
        frozenset(other for other in reach[name] if name in reach[other])
        for name in graph
        if name in reach[name]
    }
    return sorted((set(group) for group in groups), key=len, reverse=True)


class CycleTests(SynchronousTestCase):
    def test_what_belongs_together_in_the_core(self) -> None:
        names = {name for name in modules() if within(name, "mhub.core") and name != "mhub.core"}
        graph = {name: references(name, names) for name in names}
        found = [{name.removeprefix(CORE) for name in group} for group in cycles(graph)]
        self.assertEqual(found, [TOGETHER, PAIR])


class FinderTests(SynchronousTestCase):
    def test_cycles_and_what_only_leads_to_them(self) -> None:
        graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"e"}, "e": set()}
        self.assertEqual(cycles(graph), [{"b", "c"}])

    def test_each_cycle_once_the_largest_first(self) -> None:
        graph = {"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"e"}, "e": {"c"}}
        self.assertEqual(cycles(graph), [{"c", "d", "e"}, {"a", "b"}])

    def test_none(self) -> None:
        self.assertEqual(cycles({"a": {"b"}, "b": set()}), [])
