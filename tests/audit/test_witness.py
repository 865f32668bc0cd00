"""A witness: what it cosigns, what it refuses and why, and that it never goes back."""

import random
from itertools import pairwise

from twisted.trial.unittest import SynchronousTestCase

from mhub.audit.checkpoint import (
    Checkpoint,
    Cosigned,
    Reason,
    Refused,
    Witness,
    open_checkpoint,
    sign,
)
from mhub.audit.keys import KeyType, Signer
from mhub.audit.merkle import EMPTY_ROOT, Tree
from mhub.audit.note import Note
from tests.audit.log import Log, log_of
from tests.audit.vectors import signer

ORIGIN = "example.com/log"
LOG = signer(ORIGIN)
OTHER = signer("example.com/other")
KEY = signer("example.com/witness", KeyType.COSIGNATURE)
KEYS = {ORIGIN: [LOG.verifier], OTHER.verifier.name: [OTHER.verifier]}
NOW_S = 1_800_000_000


def head(log: Log, size: int, key: Signer = LOG) -> Note:
    return sign(Checkpoint(key.verifier.name, size, log.roots[size]), key)


class WitnessCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.log = log_of(40)
        self.witness = Witness(KEY, KEYS)

    def cosign(
        self, old_size: int, size: int, log: Log | None = None, key: Signer = LOG
    ) -> Cosigned:
        log = log or self.log
        proof = log.consistency(old_size, size) if old_size <= size else []
        return self.witness.cosign(head(log, size, key).data(), old_size, proof, NOW_S)

    def assert_refused(
        self, reason: Reason, data: bytes, old_size: int, proof: list[bytes]
    ) -> Refused:
        """And nothing has changed by it."""
        before = self.witness.state()
        refused = self.assertRaises(Refused, self.witness.cosign, data, old_size, proof, NOW_S)
        self.assertEqual(refused.reason, reason)
        self.assertTrue(str(refused).startswith(reason.value))
        self.assertEqual(self.witness.state(), before)
        return refused

    def last(self, origin: str = ORIGIN) -> tuple[int, bytes]:
        found = self.witness.last(origin)
        assert found is not None
        return found.size, found.root


class CosignTests(WitnessCase):
    def test_a_log_that_grows(self) -> None:
        old = 0
        for size in (0, 0, 1, 2, 7, 7, 8, 31, 40):
            note = head(self.log, size)
            _, signature = self.cosign(old, size)
            data = note.with_signature(signature).data()
            opened = open_checkpoint(data, [LOG.verifier], [KEY.verifier])
            self.assertEqual(opened.cosigned, {KEY.verifier: NOW_S})
            self.assertEqual(self.last(), (size, self.log.roots[size]))
            old = size

    def test_the_first_head_is_taken_as_it_is(self) -> None:
        self.assertIsNone(self.witness.last(ORIGIN))
        self.cosign(0, 33)
        self.assertEqual(self.last(), (33, self.log.roots[33]))

    def test_the_extensions_are_cosigned_and_not_kept(self) -> None:
        note = sign(Checkpoint(ORIGIN, 5, self.log.roots[5], ("extension",)), LOG)
        state, signature = self.witness.cosign(note.data(), 0, [], NOW_S)
        KEY.verifier.verify(note.text, signature)
        self.assertEqual(state, (Checkpoint(ORIGIN, 5, self.log.roots[5]).text(),))
        self.cosign(5, 5)

    def test_each_log_has_a_last_head_of_its_own(self) -> None:
        other = log_of(9, "other")
        self.cosign(0, 20)
        self.cosign(0, 9, other, OTHER)
        self.assertEqual(self.last(), (20, self.log.roots[20]))
        self.assertEqual(self.last(OTHER.verifier.name), (9, other.roots[9]))

    def test_other_signatures_are_ignored(self) -> None:
        note = head(self.log, 5)
        note = note.with_signature(signer("somebody").sign("else"))
        self.witness.cosign(note.data(), 0, [], NOW_S)

    def test_a_log_changes_its_key(self) -> None:
        new = Signer(ORIGIN, KeyType.ED25519, bytes(32))
        self.witness = Witness(KEY, {ORIGIN: [LOG.verifier, new.verifier]})
        self.cosign(0, 5)
        self.cosign(5, 6, key=new)

    def test_a_cosignature_has_a_time(self) -> None:
        data = head(self.log, 5).data()
        for time_s in (0, -1, 2**63):
            self.assertRaises(ValueError, self.witness.cosign, data, 0, [], time_s)
        self.assertEqual(self.witness.state(), ())


class RefuseTests(WitnessCase):
    def setUp(self) -> None:
        super().setUp()
        self.cosign(0, 20)
        self.before = Checkpoint(ORIGIN, 20, self.log.roots[20])

    def test_an_older_head(self) -> None:
        """As a log shows it that was cut off, or a message that was late."""
        for size in (0, 1, 19):
            for old_size in (0, size, 20):
                refused = self.assert_refused(
                    Reason.OLDER, head(self.log, size).data(), old_size, []
                )
                self.assertEqual(refused.last, self.before)

    def test_another_root_of_the_same_size(self) -> None:
        data = head(log_of(20, "rewritten"), 20).data()
        for old_size in (0, 20):
            refused = self.assert_refused(Reason.FORKED, data, old_size, [])
            self.assertEqual(refused.last, self.before)

    def test_a_rewritten_log(self) -> None:
        rewritten = log_of(30, "rewritten")
        proof = rewritten.consistency(20, 30)
        self.assert_refused(Reason.INCONSISTENT, head(rewritten, 30).data(), 20, proof)
        self.assert_refused(Reason.INCONSISTENT, head(rewritten, 30).data(), 20, [])

    def test_one_leaf_of_the_past_was_changed(self) -> None:
        for place in range(20):
            leaves = list(self.log.leaves)
            leaves[place] = bytes(32)
            changed = Log(leaves)
            for size in (21, 32, 40):
                proof = changed.consistency(20, size)
                self.assert_refused(Reason.INCONSISTENT, head(changed, size).data(), 20, proof)

    def test_a_wrong_proof(self) -> None:
        data, proof = head(self.log, 40).data(), self.log.consistency(20, 40)
        for wrong in ([], proof[1:], proof[:-1], [*proof, bytes(32)], [b"", *proof[1:]]):
            self.assert_refused(Reason.INCONSISTENT, data, 20, wrong)
        self.assert_refused(Reason.INCONSISTENT, head(self.log, 20).data(), 20, [bytes(32)])
        self.cosign(20, 40)

    def test_a_proof_from_another_head_than_the_last_one(self) -> None:
        """A log that has missed an answer is told where to start, and not accused."""
        for old_size in (0, 10, 21):
            proof = self.log.consistency(old_size, 40)
            refused = self.assert_refused(
                Reason.OTHER_START, head(self.log, 40).data(), old_size, proof
            )
            self.assertEqual(refused.last, self.before)
        self.cosign(refused.last.size if refused.last else 0, 40)

    def test_a_first_head_has_no_proof(self) -> None:
        other = log_of(3, "other")
        data = head(other, 3, OTHER).data()
        self.assert_refused(Reason.INCONSISTENT, data, 0, [bytes(32)])
        self.assert_refused(Reason.OTHER_START, data, 1, other.consistency(1, 3))

    def test_an_unknown_log(self) -> None:
        stranger = signer("example.com/stranger")
        self.assert_refused(Reason.UNKNOWN_LOG, head(self.log, 30, stranger).data(), 0, [])

    def test_a_head_that_another_key_signed(self) -> None:
        """Even that of another log which is known."""
        proof = self.log.consistency(20, 30)
        text = Checkpoint(ORIGIN, 30, self.log.roots[30]).text()
        for key in (
            OTHER,
            signer("example.com/witness"),
            Signer(ORIGIN, KeyType.ED25519, bytes(32)),
        ):
            data = Note(text, (key.sign(text),)).data()
            self.assert_refused(Reason.BAD_SIGNATURE, data, 20, proof)

    def test_a_wrong_signature(self) -> None:
        text = Checkpoint(ORIGIN, 30, self.log.roots[30]).text()
        data = Note(text, (LOG.sign(text + "\n"),)).data()
        self.assert_refused(Reason.BAD_SIGNATURE, data, 20, self.log.consistency(20, 30))

    def test_what_is_no_checkpoint(self) -> None:
        text = f"{ORIGIN}\n021\nAAAA\n"
        for data in (b"", b"\xff", Note(text, (LOG.sign(text),)).data()):
            self.assert_refused(Reason.MALFORMED, data, 20, [])


class StateTests(WitnessCase):
    def test_it_goes_on_from_what_was_saved(self) -> None:
        self.cosign(0, 9, log_of(9, "other"), OTHER)
        state = self.cosign(0, 20).state
        self.assertEqual(state, self.witness.state())
        self.witness = Witness(KEY, KEYS, state)
        self.assertEqual(self.witness.state(), state)
        self.assert_refused(Reason.OLDER, head(self.log, 19).data(), 20, [])
        self.cosign(20, 21)

    def test_the_state_belongs_to_the_cosignature(self) -> None:
        """What comes with a cosignature has the head that it is for."""
        old = 0
        for size in (3, 5, 8):
            state, _ = self.cosign(old, size)
            self.assertEqual(state, (Checkpoint(ORIGIN, size, self.log.roots[size]).text(),))
            old = size

    def test_a_state_that_was_not_saved(self) -> None:
        """Its cosignature was not sent: after a restart the log may ask for another head."""
        saved = self.cosign(0, 20).state
        self.cosign(20, 30)
        self.witness = Witness(KEY, KEYS, saved)
        self.cosign(20, 25)

    def test_a_log_that_is_gone_is_not_forgotten(self) -> None:
        state = self.cosign(0, 20).state
        self.witness = Witness(KEY, {}, state)
        self.assert_refused(Reason.UNKNOWN_LOG, head(self.log, 30).data(), 0, [])
        self.witness = Witness(KEY, KEYS, self.witness.state())
        self.assert_refused(Reason.OLDER, head(self.log, 19).data(), 0, [])

    def test_what_is_no_state(self) -> None:
        text = Checkpoint(ORIGIN, 0, EMPTY_ROOT).text()
        for state in (["x"], [text[:-1]], [text, text]):
            self.assertRaises(ValueError, Witness, KEY, KEYS, state)

    def test_keys_of_the_wrong_type(self) -> None:
        self.assertRaises(ValueError, Witness, LOG, KEYS)
        self.assertRaises(ValueError, Witness, KEY, {ORIGIN: [KEY.verifier]})


class HistoryTests(SynchronousTestCase):
    """Whatever is asked in whatever order: what was cosigned is one log, and never becomes less."""

    def test_random_requests(self) -> None:
        for seed in range(10):
            self.run_history(random.Random(seed))

    def run_history(self, chance: random.Random) -> None:
        honest = log_of(30)
        leaves = list(honest.leaves)
        leaves[chance.randrange(30)] = bytes(32)
        logs = [honest, Log(leaves), log_of(30, "other")]
        witness = Witness(KEY, KEYS)
        cosigned: list[tuple[Log, int]] = []
        for _ in range(300):
            log = chance.choice(logs)
            last = witness.last(ORIGIN)
            size = chance.randint(0, min(30, (last.size if last else 0) + 2))
            old_size = last.size if last and chance.random() < 0.8 else chance.randint(0, 30)
            proof = log.consistency(old_size, size) if old_size <= size else []
            if proof and chance.random() < 0.2:
                proof.pop(chance.randrange(len(proof)))
            try:
                state, _ = witness.cosign(head(log, size).data(), old_size, proof, NOW_S)
            except Refused:
                continue
            cosigned.append((log, size))
            if chance.random() < 0.1:
                witness = Witness(KEY, KEYS, state)
        self.assertGreater(cosigned[-1][1], 5)
        for (older, size1), (newer, size2) in pairwise(cosigned):
            self.assertLessEqual(size1, size2)
            self.assertEqual(older.leaves[:size1], newer.leaves[:size1])


class TreeTests(WitnessCase):
    def test_a_log_from_the_first_leaf_to_a_cosigned_head(self) -> None:
        """Tree, proof, checkpoint and witness together, with a restart at each step."""
        tree, hashes, old = Tree(), dict[tuple[int, int], bytes](), 0
        for number, leaf in enumerate(self.log.leaves):
            tree = Tree.restore(tree.state())
            for each in tree.append(leaf):
                hashes[each.level, each.index] = each.hash
            if number % 3 == 0:
                self.cosign(old, tree.size)
                old = tree.size
                self.assertEqual(self.last(), (tree.size, tree.root))
        self.assertEqual(hashes, self.log.hashes)
