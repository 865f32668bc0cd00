"""A log for tests: a tree, what it stores, and what it was at each size."""

from collections.abc import Iterable

from mhub.audit.merkle import Tree, consistency_proof, inclusion_proof, leaf_hash


class Log:
    def __init__(self, leaves: Iterable[bytes]) -> None:
        """`leaves`: their hashes."""
        self.tree = Tree()
        self.leaves: list[bytes] = []
        self.roots = [self.tree.root]
        self.hashes: dict[tuple[int, int], bytes] = {}
        self.reads = 0
        for leaf in leaves:
            self.append(leaf)

    def append(self, leaf: bytes) -> None:
        for each in self.tree.append(leaf):
            assert (each.level, each.index) not in self.hashes, "complete twice"
            self.hashes[each.level, each.index] = each.hash
        self.leaves.append(leaf)
        self.roots.append(self.tree.root)

    def hash_at(self, level: int, index: int) -> bytes:
        self.reads += 1
        return self.hashes[level, index]

    def inclusion(self, index: int, size: int) -> list[bytes]:
        return inclusion_proof(index, size, self.hash_at)

    def consistency(self, size1: int, size2: int) -> list[bytes]:
        return consistency_proof(size1, size2, self.hash_at)


def log_of(size: int, name: str = "leaf") -> Log:
    return Log(leaf_hash(f"{name} {number}".encode()) for number in range(size))
