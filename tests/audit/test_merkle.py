"""The Merkle tree: the vectors of the specifications, the naive definition, and tampering."""

import random
from hashlib import sha256

from twisted.trial.unittest import SynchronousTestCase

from mhub.audit.merkle import (
    EMPTY_ROOT,
    MAX_SIZE,
    ProofError,
    Tree,
    inclusion_proof,
    leaf_hash,
    verify_consistency,
    verify_inclusion,
)
from tests.audit import naive
from tests.audit.log import Log, log_of

MOST = 64

# The leaves that implementations of Certificate Transparency are tested with, the roots of the logs
# of the first 0 to 8 of them, and proofs about these.
LEAVES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
LEAF_1 = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
LEAF_4 = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"
LEAF_6 = "b08693ec2e721597130641e8211e7eedccb4c26413963eee6c1e2ed16ffb1a5f"
NODE_23 = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
NODE_45 = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a"
NODE_67 = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"
NODE_4567 = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"
INCLUSION = {
    (0, 1): [],
    (0, 2): [LEAF_1],
    (1, 2): [ROOTS[1]],
    (2, 3): [ROOTS[2]],
    (1, 5): [ROOTS[1], NODE_23, LEAF_4],
    (0, 8): [LEAF_1, NODE_23, NODE_4567],
    (5, 8): [LEAF_4, NODE_67, ROOTS[4]],
}
CONSISTENCY = {
    (1, 1): [],
    (1, 8): [LEAF_1, NODE_23, NODE_4567],
    (2, 5): [NODE_23, LEAF_4],
    (6, 7): [NODE_45, LEAF_6, ROOTS[4]],
    (6, 8): [NODE_45, NODE_67, ROOTS[4]],
}


def hexadecimal(hashes: list[bytes]) -> list[str]:
    return [each.hex() for each in hashes]


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]


class TreeCase(SynchronousTestCase):
    log: Log

    def check_inclusion(self, index: int, size: int, proof: list[bytes]) -> None:
        verify_inclusion(self.log.leaves[index], index, size, proof, self.log.roots[size])

    def check_consistency(self, size1: int, size2: int, proof: list[bytes]) -> None:
        verify_consistency(size1, self.log.roots[size1], size2, self.log.roots[size2], proof)


class VectorTests(TreeCase):
    """What the tests of other implementations expect."""

    def setUp(self) -> None:
        self.log = Log(leaf_hash(leaf) for leaf in LEAVES)

    def test_roots(self) -> None:
        self.assertEqual(hexadecimal(self.log.roots), ROOTS)
        self.assertEqual(EMPTY_ROOT.hex(), ROOTS[0])

    def test_subtrees(self) -> None:
        found = {place: data.hex() for place, data in self.log.hashes.items()}
        self.assertEqual(len(found), 8 + 4 + 2 + 1)
        for place, expected in {
            (0, 1): LEAF_1,
            (0, 4): LEAF_4,
            (0, 6): LEAF_6,
            (1, 0): ROOTS[2],
            (1, 1): NODE_23,
            (1, 2): NODE_45,
            (1, 3): NODE_67,
            (2, 0): ROOTS[4],
            (2, 1): NODE_4567,
            (3, 0): ROOTS[8],
        }.items():
            self.assertEqual(found[place], expected)

    def test_inclusion(self) -> None:
        for (index, size), expected in INCLUSION.items():
            proof = self.log.inclusion(index, size)
            self.assertEqual(hexadecimal(proof), expected)
            self.check_inclusion(index, size, proof)

    def test_consistency(self) -> None:
        for (size1, size2), expected in CONSISTENCY.items():
            proof = self.log.consistency(size1, size2)
            self.assertEqual(hexadecimal(proof), expected)
            self.check_consistency(size1, size2, proof)


class DefinitionTests(TreeCase):
    """All that can be asked of logs of up to 64 leaves is as the definition has it."""

    def setUp(self) -> None:
        self.log = log_of(MOST)

    def test_roots(self) -> None:
        expected = [naive.root(self.log.leaves[:size]) for size in range(MOST + 1)]
        self.assertEqual(self.log.roots, expected)

    def test_inclusion(self) -> None:
        for size in range(1, MOST + 1):
            for index in range(size):
                proof = self.log.inclusion(index, size)
                self.assertEqual(proof, naive.inclusion(index, self.log.leaves[:size]))
                self.check_inclusion(index, size, proof)

    def test_consistency(self) -> None:
        for size2 in range(1, MOST + 1):
            for size1 in range(1, size2 + 1):
                proof = self.log.consistency(size1, size2)
                self.assertEqual(proof, naive.consistency(size1, self.log.leaves[:size2]))
                self.check_consistency(size1, size2, proof)

    def test_a_proof_takes_few_reads(self) -> None:
        for size in range(1, MOST + 1):
            for index in range(size):
                self.log.reads = 0
                self.log.inclusion(index, size)
                self.assertLessEqual(self.log.reads, 2 * size.bit_length())
                self.log.reads = 0
                self.log.consistency(index + 1, size)
                self.assertLessEqual(self.log.reads, 2 * size.bit_length() + 1)


class LargeTests(TreeCase):
    def test_random_sizes(self) -> None:
        chance = random.Random(6962)
        self.log = log_of(3000)
        for _ in range(300):
            size2 = chance.randint(1, 3000)
            size1 = chance.randint(1, size2)
            self.check_inclusion(size1 - 1, size2, self.log.inclusion(size1 - 1, size2))
            self.check_consistency(size1, size2, self.log.consistency(size1, size2))

    def test_the_largest_size(self) -> None:
        """A proof has at most one hash for each bit, and its length is known before it is made."""
        chance = random.Random(9162)
        for index in (0, 1, MAX_SIZE // 2, MAX_SIZE - 1, chance.randrange(MAX_SIZE)):
            proof = inclusion_proof(index, MAX_SIZE, lambda level, index: bytes(32))
            self.assertLessEqual(len(proof), 63)
            with self.assertRaisesRegex(ProofError, "does not lead"):
                verify_inclusion(bytes(32), index, MAX_SIZE, proof, bytes(32))


class StateTests(TreeCase):
    def test_a_restored_tree_goes_on_from_there(self) -> None:
        self.log = log_of(MOST)
        for size in range(MOST):
            tree = Tree()
            for leaf in self.log.leaves[:size]:
                tree.append(leaf)
            self.assertEqual(len(tree.state()), 8 + 32 * size.bit_count())
            tree = Tree.restore(tree.state())
            self.assertEqual((tree.size, tree.root), (size, self.log.roots[size]))
            for each in tree.append(self.log.leaves[size]):
                self.assertEqual(each.hash, self.log.hashes[each.level, each.index])
            self.assertEqual(tree.root, self.log.roots[size + 1])

    def test_what_is_not_a_state(self) -> None:
        self.log = log_of(5)
        state = self.log.tree.state()
        for data in (
            b"",
            state[:-1],
            state + b"x",
            state[:7],
            bytes(8) + state[8:],
            (7).to_bytes(8, "big") + state[8:],
            (2**63).to_bytes(8, "big") + bytes(32),
        ):
            with self.assertRaisesRegex(ValueError, "not the state of a tree"):
                Tree.restore(data)

    def test_a_full_tree_takes_no_more(self) -> None:
        tree = Tree.restore(MAX_SIZE.to_bytes(8, "big") + bytes(32 * 63))
        with self.assertRaisesRegex(ValueError, "full"):
            tree.append(bytes(32))

    def test_what_is_appended_is_a_hash(self) -> None:
        tree = Tree()
        self.assertRaises(ValueError, tree.append, b"a line of the log")
        self.assertEqual(tree.size, 0)


class TamperingTests(TreeCase):
    def setUp(self) -> None:
        self.log = log_of(MOST)

    def assert_refused(self, *arguments: object) -> None:
        verify = verify_inclusion if isinstance(arguments[0], bytes) else verify_consistency
        self.assertRaises(ProofError, verify, *arguments)

    def changed(self, proof: list[bytes]) -> list[list[bytes]]:
        """Proofs with one byte, or one hash, other than this one."""
        found = [
            [*proof[:place], flipped(each, at), *proof[place + 1 :]]
            for place, each in enumerate(proof)
            for at in range(len(each))
        ]
        for place, each in enumerate(proof):
            found += [[*proof[:place], *proof[place + 1 :]], [*proof[:place], each, *proof[place:]]]
            found.append([*proof[:place], each[:-1], *proof[place + 1 :]])
            found.append([*proof[:place], each + b"\0", *proof[place + 1 :]])
        found += [[*proof, bytes(32)], [bytes(32), *proof], [*proof, b""]]
        if len(set(proof)) > 1:
            found.append(proof[::-1])
        return found

    def test_inclusion(self) -> None:
        for size in (1, 2, 3, 6, 7, 8, 11, 64):
            for index in {0, 1, size // 2, size - 1} & set(range(size)):
                leaf, root = self.log.leaves[index], self.log.roots[size]
                proof = self.log.inclusion(index, size)
                for changed in self.changed(proof):
                    self.assert_refused(leaf, index, size, changed, root)
                for at in range(32):
                    self.assert_refused(flipped(leaf, at), index, size, proof, root)
                    self.assert_refused(leaf, index, size, proof, flipped(root, at))

    def test_consistency(self) -> None:
        for size1, size2 in ((1, 2), (1, 8), (3, 4), (4, 8), (6, 7), (6, 11), (33, 64), (8, 8)):
            root1, root2 = self.log.roots[size1], self.log.roots[size2]
            proof = self.log.consistency(size1, size2)
            for changed in self.changed(proof):
                self.assert_refused(size1, root1, size2, root2, changed)
            for at in range(32):
                self.assert_refused(size1, flipped(root1, at), size2, root2, proof)
                self.assert_refused(size1, root1, size2, flipped(root2, at), proof)

    def test_another_place_than_that_which_was_proven(self) -> None:
        for size in range(1, 17):
            for index in range(size):
                proof = self.log.inclusion(index, size)
                for other in range(size):
                    if other != index:
                        self.assert_refused(
                            self.log.leaves[index], other, size, proof, self.log.roots[size]
                        )

    def test_another_size_than_that_which_was_proven(self) -> None:
        for size2 in range(2, 17):
            for size1 in range(1, size2):
                proof = self.log.consistency(size1, size2)
                for other in range(1, size2):
                    if other != size1:
                        self.assert_refused(
                            *(other, self.log.roots[size1], size2, self.log.roots[size2], proof)
                        )

    def test_a_rewritten_log_does_not_continue_the_old_one(self) -> None:
        chance = random.Random(7)
        for _ in range(100):
            size1 = chance.randint(1, 40)
            size2 = chance.randint(size1, 60)
            old_root = naive.root(self.log.leaves[:size1])
            leaves = list(self.log.leaves[:size2])
            place = chance.randrange(size1)
            leaves[place] = sha256(leaves[place]).digest()
            rewritten = Log(leaves)
            proof = rewritten.consistency(size1, size2)
            self.assert_refused(size1, old_root, size2, rewritten.roots[size2], proof)

    def test_a_node_is_no_leaf(self) -> None:
        """What a subtree of two leaves is made from is no leaf of a log of half the size."""
        data, proof = self.log.leaves[0] + self.log.leaves[1], [self.log.hashes[1, 1]]
        self.assert_refused(leaf_hash(data), 0, 2, proof, self.log.roots[4])


class LimitTests(TreeCase):
    """Sizes and places that there are not."""

    def setUp(self) -> None:
        self.log = log_of(8)

    def test_no_such_leaf(self) -> None:
        for index, size in ((0, 0), (8, 8), (9, 8), (-1, 8), (0, -1), (0, MAX_SIZE + 1)):
            with self.assertRaisesRegex(ProofError, "there is no leaf"):
                verify_inclusion(self.log.leaves[0], index, size, [], self.log.roots[1])
            self.assertRaises(ProofError, self.log.inclusion, index, size)

    def test_an_older_tree_is_not_larger(self) -> None:
        for size1, size2 in ((8, 7), (-1, 8), (1, 0), (1, MAX_SIZE + 1)):
            with self.assertRaisesRegex(ProofError, "cannot begin with"):
                verify_consistency(size1, bytes(32), size2, bytes(32), [])
            self.assertRaises(ProofError, self.log.consistency, size1, size2)

    def test_every_tree_begins_with_the_empty_one(self) -> None:
        for size in (0, 1, 8):
            self.assertEqual(self.log.consistency(0, size), [])
            self.check_consistency(0, size, [])
            with self.assertRaisesRegex(ProofError, "has 1 hashes; expected 0"):
                self.check_consistency(0, size, [bytes(32)])

    def test_the_empty_tree_has_one_root(self) -> None:
        for roots in ((bytes(32), self.log.roots[8]), (bytes(32), bytes(32))):
            for size2 in (0, 8):
                with self.assertRaisesRegex(ProofError, "size 0 with another root"):
                    verify_consistency(0, roots[0], size2, roots[1], [])

    def test_a_tree_begins_with_itself(self) -> None:
        self.check_consistency(8, 8, [])
        with self.assertRaisesRegex(ProofError, "does not lead to the newer root"):
            verify_consistency(8, self.log.roots[8], 8, self.log.roots[7], [])

    def test_what_is_no_hash(self) -> None:
        for leaf, root in (
            (b"", self.log.roots[1]),
            (self.log.leaves[0], self.log.roots[1] + b"x"),
        ):
            with self.assertRaisesRegex(ProofError, "has 32 bytes, not"):
                verify_inclusion(leaf, 0, 1, [], root)
        with self.assertRaisesRegex(ProofError, "has 32 bytes, not 31"):
            verify_consistency(8, self.log.roots[8][1:], 8, self.log.roots[8], [])
