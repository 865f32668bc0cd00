"""The Merkle tree of a log (RFC 6962, section 2.1; RFC 9162 has the same).

    hash of a leaf     SHA-256(0x00 || leaf)
    hash of a node     SHA-256(0x01 || left || right)
    root of n leaves   none: SHA-256(""); one: its hash; more: the node of the first k and of the
                       others, where k is the largest power of two below n

The two prefixes keep a node from being shown as a leaf.

What the rest relies on:

- A *complete* subtree has 2**level leaves and begins at a multiple of that: `(level, index)`.  Once
  its leaves are there its hash never changes, however the log grows.
- Every range that occurs in a tree is complete, or ends where the tree ends.  Such a range is a row
  of complete subtrees, larger ones first, one for each bit of its length.  So whoever stores the
  hashes of complete subtrees, fewer than two for each leaf, can prove anything about any size that
  the log has had; and of a growing log only the row of the whole, its right edge, is needed.
- The way from the root down to a leaf, or to the end of a smaller tree, follows from two numbers.
  The siblings on it are the proof.  Prover and verifier take the same way, so the length of a proof
  and the place of each hash in it are never the prover's choice.
- At most one of the siblings is not complete, and a way has at most one step for each bit of the
  size: a proof needs O(log n) stored hashes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NamedTuple

HASH_BYTES: Final = 32
MAX_SIZE: Final = 2**63 - 1
"""What other implementations can count to; it bounds the length of every proof."""

EMPTY_ROOT: Final = sha256(b"").digest()

_SIZE_BYTES: Final = 8

HashAt = Callable[[int, int], bytes]
"""Reads the hash of the complete subtree (level, index)."""


class ProofError(ValueError):
    """Something is not proven by what was given, or cannot be; the text says why."""


@dataclass(frozen=True, slots=True)
class Subtree:
    """A complete subtree: of the leaves from index << level to (index + 1) << level."""

    level: int
    index: int
    hash: bytes


class _Sibling(NamedTuple):
    """A range of leaves beside the way down, which goes on at its other side."""

    start: int
    end: int
    is_left: bool


def leaf_hash(data: bytes) -> bytes:
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


class Tree:
    """Size, root and right edge of a growing log: all that is needed to append to it."""

    def __init__(self) -> None:
        self.size = 0
        self._edge: list[bytes] = []  # the complete subtrees that make up the tree, largest first

    def append(self, leaf: bytes) -> list[Subtree]:
        """Add the hash of a leaf.  Returns what became complete by it, to be stored for proofs."""
        _check_hash(leaf, "a leaf's hash")
        if self.size == MAX_SIZE:
            raise ValueError(f"the tree is full: it has {MAX_SIZE} leaves")
        level, index, found = 0, self.size, leaf
        completed = [Subtree(level, index, found)]
        # Like a carry in binary counting: two subtrees of one size become one of twice the size.
        while index & 1:
            level, index, found = level + 1, index >> 1, node_hash(self._edge.pop(), found)
            completed.append(Subtree(level, index, found))
        self._edge.append(found)
        self.size += 1
        return completed

    @property
    def root(self) -> bytes:
        return _fold(self._edge) if self._edge else EMPTY_ROOT

    def state(self) -> bytes:
        """Size and right edge, for `restore`.  It has no check sum: the root is its check."""
        return self.size.to_bytes(_SIZE_BYTES, "big") + b"".join(self._edge)

    @classmethod
    def restore(cls, state: bytes) -> "Tree":
        tree = cls()
        tree.size = int.from_bytes(state[:_SIZE_BYTES], "big")
        edge = state[_SIZE_BYTES:]
        expected = tree.size.bit_count() * HASH_BYTES
        if len(state) < _SIZE_BYTES or tree.size > MAX_SIZE or len(edge) != expected:
            raise ValueError(f"not the state of a tree: {len(state)} bytes, size {tree.size}")
        tree._edge = [edge[at : at + HASH_BYTES] for at in range(0, expected, HASH_BYTES)]
        return tree


def inclusion_proof(index: int, size: int, hash_at: HashAt) -> list[bytes]:
    """That the leaf `index` is in the tree of `size` leaves."""
    _check_index(index, size)
    _, siblings = _way(size, index + 1, to_leaf=True)
    return [_range_hash(each.start, each.end, hash_at) for each in reversed(siblings)]


def verify_inclusion(
    leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes
) -> None:
    """Raises ProofError unless the leaf of that hash is leaf `index` in the tree of that root.

    The hash is to be made here, from the leaf itself: those of nodes would do as well, and the
    size is only known to be right if it comes with the root, from a checkpoint.
    """
    _check_index(index, size)
    _check_hashes(proof, leaf, root)
    _, siblings = _way(size, index + 1, to_leaf=True)
    _check_length(proof, len(siblings), f"of leaf {index} of {size}")
    found = leaf
    for sibling, other in zip(reversed(siblings), proof, strict=True):
        found = node_hash(other, found) if sibling.is_left else node_hash(found, other)
    if found != root:
        raise ProofError(f"the proof does not lead from leaf {index} of {size} to the root")


def consistency_proof(size1: int, size2: int, hash_at: HashAt) -> list[bytes]:
    """That the tree of `size2` leaves begins with the one of `size1`."""
    _check_sizes(size1, size2)
    if size1 == 0:
        return []
    start, siblings = _way(size2, size1, to_leaf=False)
    ranges = [(each.start, each.end) for each in reversed(siblings)]
    if start:
        ranges.insert(0, (start, size1))
    return [_range_hash(*each, hash_at) for each in ranges]


def verify_consistency(
    size1: int, root1: bytes, size2: int, root2: bytes, proof: Sequence[bytes]
) -> None:
    """Raises ProofError unless the second tree begins with all leaves of the first.

    Every tree begins with the empty one, and with itself: there is nothing to prove then, and a
    proof that is not empty is an error.
    """
    _check_sizes(size1, size2)
    _check_hashes(proof, root1, root2)
    for size, root in ((size1, root1), (size2, root2)):
        if size == 0 and root != EMPTY_ROOT:
            raise ProofError("a tree of size 0 with another root than that of the empty tree")
    what = f"from size {size1} to {size2}"
    if size1 == 0:
        return _check_length(proof, 0, what)
    start, siblings = _way(size2, size1, to_leaf=False)
    _check_length(proof, len(siblings) + bool(start), what)
    # Where the old tree is itself a subtree of the new one, its root is known already.
    old = new = proof[0] if start else root1
    for sibling, other in zip(reversed(siblings), proof[bool(start) :], strict=True):
        if sibling.is_left:
            old, new = node_hash(other, old), node_hash(other, new)
        else:
            new = node_hash(new, other)  # leaves that the old tree does not have
    if old != root1:
        raise ProofError(f"the proof {what} does not lead to the older root")
    if new != root2:
        raise ProofError(f"the proof {what} does not lead to the newer root")


def _way(size: int, end: int, *, to_leaf: bool) -> tuple[int, list[_Sibling]]:
    """The way down to the subtree that ends at `end`: where that begins, and the siblings.

    To the largest such subtree, or on to the leaf which is the last in it.
    """
    siblings = []
    left, right = 0, size
    while right - left > 1 if to_leaf else right != end:
        split = left + (1 << (right - left - 1).bit_length() - 1)
        if end <= split:
            siblings.append(_Sibling(split, right, is_left=False))
            right = split
        else:
            siblings.append(_Sibling(left, split, is_left=True))
            left = split
    return left, siblings


def _range_hash(start: int, end: int, hash_at: HashAt) -> bytes:
    """The hash of a range that occurs in a tree, from those of the complete subtrees in it."""
    hashes = []
    while start < end:
        level = (end - start).bit_length() - 1
        hashes.append(hash_at(level, start >> level))
        start += 1 << level
    return _fold(hashes)


def _fold(hashes: Sequence[bytes]) -> bytes:
    """The hash of a row of subtrees that become smaller to the right."""
    found = hashes[-1]
    for left in reversed(hashes[:-1]):
        found = node_hash(left, found)
    return found


def _check_index(index: int, size: int) -> None:
    if not 0 <= index < size <= MAX_SIZE:
        raise ProofError(f"there is no leaf {index} in a tree of {size}")


def _check_sizes(size1: int, size2: int) -> None:
    if not 0 <= size1 <= size2 <= MAX_SIZE:
        raise ProofError(f"a tree of {size2} cannot begin with one of {size1}")


def _check_length(proof: Sequence[bytes], expected: int, what: str) -> None:
    if len(proof) != expected:
        raise ProofError(f"the proof {what} has {len(proof)} hashes; expected {expected}")


def _check_hashes(proof: Sequence[bytes], *others: bytes) -> None:
    for each in (*others, *proof):
        _check_hash(each, "a hash")


def _check_hash(data: bytes, what: str) -> None:
    if len(data) != HASH_BYTES:
        raise ProofError(f"{what} has {HASH_BYTES} bytes, not {len(data)}")
