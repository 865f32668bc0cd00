"""Signed notes: the examples of the specification, and what is no note."""

from twisted.trial.unittest import SynchronousTestCase

from mhub.audit.keys import KeyType, NoteError, Signature, SignatureError, Verifier
from mhub.audit.note import MAX_BYTES, MAX_SIGNATURES, Note
from tests.audit.vectors import (
    ARCHE,
    ARCHE_KEY,
    ENOCH_KEY,
    ENOCH_LINE,
    EXAMPLE,
    EXAMPLE_KEY,
    PETER_KEY,
    PETER_LINE,
    POEM,
    PROBLEM,
    REMORA_KEY,
    SOFA,
    signer,
)

PETER, ENOCH = Verifier.parse(PETER_KEY), Verifier.parse(ENOCH_KEY)


def note(*lines: str, text: str = PROBLEM) -> Note:
    return Note.parse((text + "\n" + "".join(lines)).encode())


class ExampleTests(SynchronousTestCase):
    def test_of_the_specification(self) -> None:
        found = Note.parse(EXAMPLE.encode())
        self.assertEqual(found.text, "This is an example message.\n")
        self.assertEqual(list(found.verify([Verifier.parse(EXAMPLE_KEY)])), [found_key()])

    def test_they_come_out_as_they_went_in(self) -> None:
        for text in (EXAMPLE, POEM, SOFA, ARCHE, f"{PROBLEM}\n{PETER_LINE}{ENOCH_LINE}"):
            self.assertEqual(Note.parse(text.encode()).data().decode(), text)

    def test_the_last_empty_line_ends_the_text(self) -> None:
        self.assertTrue(Note.parse(POEM.encode()).text.endswith("sole:\n\ned è subito sera.\n"))
        for text in ("\n", "a\n\n", "\n\n\n", f"a\n\n{PETER_LINE}", "\u2028\x7f\u0085\n"):
            made = Note(text, (signer("a").sign(text),))
            self.assertEqual(Note.parse(made.data()), made)

    def test_a_cosignature_of_a_public_log(self) -> None:
        """Others of its signatures are of types, or by keys, that are not known here."""
        found = Note.parse(ARCHE.encode())
        keys = [Verifier.parse(ARCHE_KEY), Verifier.parse(REMORA_KEY)]
        signed = found.verify(keys)
        self.assertEqual(list(signed), keys)
        self.assertEqual(signed[keys[1]].time_s, 1779573024)

    def test_every_changed_byte_is_noticed(self) -> None:
        data = EXAMPLE.encode()
        for at in range(len(data)):
            changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            with self.assertRaises(NoteError):
                Note.parse(changed).verify([found_key()])


def found_key() -> Verifier:
    return Verifier.parse(EXAMPLE_KEY)


class VerifyTests(SynchronousTestCase):
    def test_signatures_by_unknown_keys_are_ignored(self) -> None:
        both = note(PETER_LINE, ENOCH_LINE)
        self.assertEqual(list(both.verify([PETER])), [PETER])
        self.assertEqual(list(both.verify([ENOCH])), [ENOCH])
        self.assertEqual(set(both.verify([ENOCH, PETER])), {PETER, ENOCH})
        garbage = ENOCH_LINE.replace("QQ=", "AA=")
        self.assertEqual(list(note(garbage, PETER_LINE).verify([PETER])), [PETER])

    def test_no_known_key(self) -> None:
        for known in ([], [ENOCH], [signer("PeterNeumann").verifier]):
            with self.assertRaisesRegex(SignatureError, "no signature is by a known key"):
                note(PETER_LINE).verify(known)

    def test_a_name_or_an_id_alone_is_another_key(self) -> None:
        renamed = PETER_LINE.replace("PeterNeumann", "CarmenSandiego")
        other_id = PETER_LINE.replace("x08go", "x18go")
        for line in (renamed, other_id):
            self.assertEqual(list(note(line, ENOCH_LINE).verify([PETER, ENOCH])), [ENOCH])

    def test_one_wrong_signature_of_a_known_key_is_one_too_many(self) -> None:
        wrong = PETER_LINE.replace("JnAM=", "JnAA=")
        for lines in ((wrong,), (wrong, ENOCH_LINE), (ENOCH_LINE, wrong), (PETER_LINE, wrong)):
            with self.assertRaisesRegex(SignatureError, "PeterNeumann.c74f20a3 is wrong"):
                note(*lines).verify([PETER, ENOCH])

    def test_a_key_that_signs_twice_counts_once(self) -> None:
        witness = signer("w", KeyType.COSIGNATURE)
        first, second = witness.cosign(PROBLEM, 1), witness.cosign(PROBLEM, 2)
        found = Note(PROBLEM, (first, second)).verify([witness.verifier])
        self.assertEqual(found, {witness.verifier: first})

    def test_two_keys_of_the_same_name_and_id(self) -> None:
        """Four bytes collide by chance, or because somebody tries."""

        class Colliding(Verifier):
            id = PETER.id

        other = Colliding("PeterNeumann", KeyType.ED25519, ENOCH.key)
        self.assertRaises(ValueError, note(PETER_LINE).verify, [PETER, other])
        self.assertEqual(list(note(PETER_LINE).verify([PETER, PETER])), [PETER])


class FormTests(SynchronousTestCase):
    def test_what_is_no_note(self) -> None:
        whole = f"{PROBLEM}\n{PETER_LINE}".encode()
        Note.parse(whole)
        for data in (
            b"",
            b"\n",
            b"\n\n",
            PROBLEM.encode(),
            PROBLEM.encode() + b"\n",
            PROBLEM.encode() + PETER_LINE.encode(),
            PETER_LINE.encode(),
            b"\n" + PETER_LINE.encode(),
            whole[:-1],
            whole + b"\n",
            whole + b"Another line\n",
            whole.replace(b"\n", b"\r\n"),
            b"\x01" + whole,
            b"a\tb" + whole,
            b"\0" + whole,
            b"\xff" + whole,
            b"\xed\xa0\x80" + whole,
            whole + PETER_LINE[:40].encode() + b"\n",
        ):
            self.assertRaises(NoteError, Note.parse, data)

    def test_what_cannot_be_made(self) -> None:
        signature = signer("a").sign("a")
        for text in ("", "a", "a\r\n", "a\0\n", "\ud800\n"):
            self.assertRaises(NoteError, Note, text, (signature,))
        self.assertRaises(NoteError, Note, "a\n", ())
        self.assertRaises(NoteError, Note, "a" * MAX_BYTES + "\n", (signature,))
        self.assertRaises(NoteError, Signature, "a b", b"1234", b"5")
        self.assertRaises(NoteError, Signature, "a", b"123", b"4")
        self.assertRaises(NoteError, Signature, "a", b"1234", b"")

    def test_the_number_of_signatures(self) -> None:
        most = note(*[PETER_LINE] * MAX_SIGNATURES)
        self.assertEqual(len(most.signatures), MAX_SIGNATURES)
        self.assertRaises(NoteError, note, *[PETER_LINE] * (MAX_SIGNATURES + 1))
        self.assertRaises(NoteError, most.with_signature, signer("a").sign(PROBLEM))

    def test_the_size(self) -> None:
        self.assertRaisesRegex(
            NoteError, "at most", Note.parse, b"a" * MAX_BYTES + f"\n\n{PETER_LINE}".encode()
        )

    def test_a_new_signature_replaces_the_old_one_of_the_same_key(self) -> None:
        witness = signer("w", KeyType.COSIGNATURE)
        old, new = witness.cosign(PROBLEM, 1), witness.cosign(PROBLEM, 2)
        found = note(PETER_LINE).with_signature(old).with_signature(new)
        self.assertEqual(found.signatures, (*note(PETER_LINE).signatures, new))
        same_name = signer("w").sign(PROBLEM)
        self.assertEqual(len(found.with_signature(same_name).signatures), 3)
