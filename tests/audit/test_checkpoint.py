"""Checkpoints: their text, and who has signed them."""

from twisted.trial.unittest import SynchronousTestCase

from mhub.audit.checkpoint import Checkpoint, open_checkpoint, sign
from mhub.audit.keys import KeyType, NoteError, Signature, SignatureError, Verifier
from mhub.audit.merkle import EMPTY_ROOT, MAX_SIZE
from mhub.audit.note import Note
from tests.audit.vectors import ARCHE, ARCHE_KEY, EXAMPLE, EXAMPLE_KEY, REMORA_KEY, SOFA, signer

ROOT = bytes(range(32))
LOG = signer("example.com/log")
WITNESS = signer("example.com/witness", KeyType.COSIGNATURE)
HEAD = Checkpoint("example.com/log", 42, ROOT)


class TextTests(SynchronousTestCase):
    def test_the_example_of_the_specification(self) -> None:
        note = Note.parse(SOFA.encode())
        found = Checkpoint.parse(note.text)
        self.assertEqual((found.origin, found.size), ("example.com/behind-the-sofa", 20852163))
        self.assertEqual(found.root.hex()[:16], "0ac5186a91863e8e")
        self.assertEqual((found.extensions, found.text()), ((), note.text))
        self.assertEqual(note.signatures[1].time_s, 1679315147)

    def test_it_comes_out_as_it_went_in(self) -> None:
        for made in (
            HEAD,
            Checkpoint("o", 0, EMPTY_ROOT),
            Checkpoint("an origin + spaces", MAX_SIZE, ROOT),
            Checkpoint("o", 10, ROOT, ("an extension", "another \u2028 one", "\u2014 a")),
        ):
            self.assertEqual(Checkpoint.parse(made.text()), made)

    def test_what_is_no_checkpoint(self) -> None:
        origin, size, root, _ = HEAD.text().split("\n")
        Checkpoint.parse(f"{origin}\n{size}\n{root}\n")
        for text in (
            "",
            "\n\n\n",
            f"{origin}\n{size}\n{root}",
            f"{origin}\n{size}\n",
            f"\n{size}\n{root}\n",
            f"{origin}\n{size}\n{root}\n\n",
            f"{origin}\n{size}\n{root}\n\nextension\n",
            f"{origin}\n{size}\n{root}\ntab\t\n",
            f"{origin}\r\n{size}\n{root}\n",
            f"{origin}\n{size}\n{root[:-1]}\n",
            f"{origin}\n{size}\n{root[:-4]}\n",
            f"{origin}\n{size}\nAAAA{root}\n",
            f"{origin}\n{size}\n{root[:-2]}9=\n",
            f"{origin}\n{size}\n {root}\n",
            f"{origin}\n{size}\n{ROOT.hex()}\n",
            f"{origin}\n0\n{root}\n",
        ):
            self.assertRaises(NoteError, Checkpoint.parse, text)
        numbers = ("", "042", "00", "+42", "-1", "-0", "4_2", "42 ", " 42", "0x2a", "4.2", "\u0664")
        for number in (*numbers, str(MAX_SIZE + 1), "9" * 5000):
            self.assertRaises(NoteError, Checkpoint.parse, f"{origin}\n{number}\n{root}\n")

    def test_what_cannot_be_made(self) -> None:
        for arguments in (
            ("", 1, ROOT),
            ("a\nb", 1, ROOT),
            ("a", -1, ROOT),
            ("a", MAX_SIZE + 1, ROOT),
            ("a", 1, ROOT[1:]),
            ("a", 0, ROOT),
            ("a", 1, ROOT, ("",)),
            ("a", 1, ROOT, ("b\nc",)),
        ):
            self.assertRaises(NoteError, Checkpoint, *arguments)


class SignedTests(SynchronousTestCase):
    def test_signed_and_cosigned(self) -> None:
        signed = sign(HEAD, LOG)
        opened = open_checkpoint(signed.data(), [LOG.verifier], [WITNESS.verifier])
        self.assertEqual((opened.checkpoint, opened.cosigned), (HEAD, {}))
        cosigned = signed.with_signature(WITNESS.cosign(signed.text, 1679315147))
        opened = open_checkpoint(cosigned.data(), [LOG.verifier], [WITNESS.verifier])
        self.assertEqual((opened.checkpoint, opened.note), (HEAD, cosigned))
        self.assertEqual(opened.cosigned, {WITNESS.verifier: 1679315147})
        self.assertEqual(open_checkpoint(cosigned.data(), [LOG.verifier]).cosigned, {})

    def test_a_public_log(self) -> None:
        log, witness = Verifier.parse(ARCHE_KEY), Verifier.parse(REMORA_KEY)
        opened = open_checkpoint(ARCHE.encode(), [log], [witness])
        self.assertEqual(opened.checkpoint.size, 1432088532)
        self.assertEqual(opened.cosigned, {witness: 1779573024})

    def test_a_witness_does_not_sign_for_the_log(self) -> None:
        text = HEAD.text()
        cosigned = Note(text, (WITNESS.cosign(text, 7),))
        with self.assertRaisesRegex(SignatureError, "not signed by its log"):
            open_checkpoint(cosigned.data(), [LOG.verifier], [WITNESS.verifier])

    def test_a_key_of_the_wrong_type(self) -> None:
        data = sign(HEAD, LOG).data()
        self.assertRaises(ValueError, open_checkpoint, data, [WITNESS.verifier])
        self.assertRaises(ValueError, open_checkpoint, data, [LOG.verifier], [LOG.verifier])

    def test_a_log_changes_its_key(self) -> None:
        new = signer("example.com/log", KeyType.ED25519)
        old = Verifier("example.com/log", KeyType.ED25519, bytes(32))
        self.assertEqual(
            open_checkpoint(sign(HEAD, new).data(), [old, new.verifier]).checkpoint, HEAD
        )

    def test_a_log_signs_under_the_name_of_its_origin(self) -> None:
        self.assertRaises(ValueError, sign, HEAD, signer("example.com/other"))

    def test_a_wrong_cosignature_of_a_known_witness(self) -> None:
        signed = sign(HEAD, LOG)
        right = WITNESS.cosign(signed.text, 7)
        wrong = Signature(right.name, right.key_id, right.data[:-1] + b"\0")
        data = signed.with_signature(wrong).data()
        known = [LOG.verifier], [WITNESS.verifier]
        self.assertRaises(SignatureError, open_checkpoint, data, *known)
        self.assertEqual(open_checkpoint(data, [LOG.verifier]).checkpoint, HEAD)

    def test_a_signed_text_that_is_no_checkpoint(self) -> None:
        key = Verifier.parse(EXAMPLE_KEY)
        with self.assertRaisesRegex(NoteError, "three lines or more"):
            open_checkpoint(EXAMPLE.encode(), [key])

    def test_every_changed_byte_is_noticed(self) -> None:
        signed = sign(Checkpoint(HEAD.origin, 42, ROOT, ("extension",)), LOG)
        data = signed.with_signature(WITNESS.cosign(signed.text, 7)).data()
        for at in range(len(data)):
            changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            try:
                opened = open_checkpoint(changed, [LOG.verifier], [WITNESS.verifier])
            except NoteError:
                continue
            # The name or the id of the witness: now it is one that is not known.
            self.assertEqual((opened.note.text, opened.cosigned), (signed.text, {}))
