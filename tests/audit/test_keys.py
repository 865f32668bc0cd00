"""Keys: their texts, what they sign, and what is none."""

from twisted.trial.unittest import SynchronousTestCase

from mhub.audit.keys import (
    MAX_TIME_S,
    KeyTextError,
    KeyType,
    NoteError,
    Signature,
    SignatureError,
    Signer,
    Verifier,
    encode_base64,
)
from tests.audit.vectors import (
    ARCHE_KEY,
    ENOCH_KEY,
    EXAMPLE_KEY,
    PETER_KEY,
    PETER_LINE,
    PETER_PRIVATE,
    PROBLEM,
    REMORA_KEY,
    signer,
)

SPACES = " \t\u00a0\u2003\u2028\u3000"


class TextTests(SynchronousTestCase):
    def test_the_keys_of_others(self) -> None:
        for text in (EXAMPLE_KEY, PETER_KEY, ENOCH_KEY, ARCHE_KEY, REMORA_KEY):
            key = Verifier.parse(text)
            self.assertEqual(str(key), text)
            self.assertEqual(key.name, text.partition("+")[0])
        self.assertEqual(Verifier.parse(PETER_KEY).type, KeyType.ED25519)
        self.assertEqual(Verifier.parse(REMORA_KEY).type, KeyType.COSIGNATURE)

    def test_a_private_key(self) -> None:
        key = Signer.parse(PETER_PRIVATE)
        self.assertEqual(key.private_text(), PETER_PRIVATE)
        self.assertEqual(str(key.verifier), PETER_KEY)

    def test_the_type_is_part_of_the_key_id(self) -> None:
        log, witness = signer("a"), signer("a", KeyType.COSIGNATURE)
        self.assertEqual(log.verifier.key, witness.verifier.key)
        self.assertNotEqual(log.verifier.id, witness.verifier.id)
        for each in (log, witness):
            self.assertEqual(Signer.parse(each.private_text()).verifier, each.verifier)

    def test_no_part_of_a_key_is_one(self) -> None:
        for parse, text in ((Verifier.parse, PETER_KEY), (Signer.parse, PETER_PRIVATE)):
            for start in range(len(text)):
                for end in range(start, len(text) + 1):
                    if (start, end) != (0, len(text)):
                        self.assertRaises(NoteError, parse, text[start:end])

    def test_a_changed_key_is_none(self) -> None:
        for parse, text in ((Verifier.parse, PETER_KEY), (Signer.parse, PETER_PRIVATE)):
            for at in range(len(text)):
                for other in (chr(ord(text[at]) + 1), " ", "+", "=", "A"):
                    if other != text[at]:
                        changed = text[:at] + other + text[at + 1 :]
                        self.assertRaises(NoteError, parse, changed)

    def test_others_than_ed25519(self) -> None:
        """Each with the hash that belongs to it."""
        with self.assertRaisesRegex(KeyTextError, "type 101"):
            Verifier.parse("PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")
        long = "PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY=="
        self.assertRaises(KeyTextError, Verifier.parse, long)

    def test_names(self) -> None:
        for name in ("", "a+b", "a\nb", "\x1f", "\ud800", *(f"a{space}b" for space in SPACES)):
            self.assertRaises(NoteError, signer, name)
        for name in ("a", "example.com/log", "schwarzes-brett-\u00e4", "\u2014"):
            self.assertEqual(Verifier.parse(str(signer(name).verifier)).name, name)

    def test_an_error_does_not_quote_a_private_key(self) -> None:
        secret = PETER_PRIVATE.rpartition("+")[2]
        for text in (PETER_PRIVATE[:-1], PETER_PRIVATE.replace("c74f", "c74e"), "x" + secret):
            error = self.assertRaises(NoteError, Signer.parse, text)
            self.assertNotIn(secret[:8], str(error))
        self.assertNotIn(secret, repr(Signer.parse(PETER_PRIVATE)))

    def test_a_seed_has_32_bytes(self) -> None:
        self.assertRaises(KeyTextError, Signer, "a", KeyType.ED25519, bytes(31))
        self.assertRaises(KeyTextError, Verifier, "a", KeyType.ED25519, bytes(33))


class SignatureTests(SynchronousTestCase):
    def test_the_signature_of_another_implementation(self) -> None:
        found = Signer.parse(PETER_PRIVATE).sign(PROBLEM)
        self.assertEqual(found.line(), PETER_LINE)
        self.assertEqual(Signature.parse(PETER_LINE[:-1]), found)
        Verifier.parse(PETER_KEY).verify(PROBLEM, found)

    def test_a_changed_text_or_signature(self) -> None:
        made = [(key := signer("a")).verifier, key.sign(PROBLEM)]
        also = [(key := signer("w", KeyType.COSIGNATURE)).verifier, key.cosign(PROBLEM, 1679315147)]
        for verifier, signature in (made, also):
            verifier.verify(PROBLEM, signature)
            self.assertRaises(SignatureError, verifier.verify, PROBLEM + "\n", signature)
            data = signature.data
            wrong = [data[:-1], data + b"\0", b"\0" + data, data[8:]]
            wrong += [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))]
            for each in wrong:
                changed = Signature(signature.name, signature.key_id, each)
                self.assertRaises(SignatureError, verifier.verify, PROBLEM, changed)

    def test_neither_type_passes_for_the_other(self) -> None:
        log, witness = signer("a"), signer("a", KeyType.COSIGNATURE)
        signed, cosigned = log.sign(PROBLEM), witness.cosign(PROBLEM, 7)
        self.assertRaises(SignatureError, witness.verifier.verify, PROBLEM, signed)
        self.assertRaises(SignatureError, log.verifier.verify, PROBLEM, cosigned)
        tail = Signature("a", log.verifier.id, cosigned.data[8:])
        self.assertRaises(SignatureError, log.verifier.verify, PROBLEM, tail)
        timed = Signature("a", witness.verifier.id, bytes(8) + signed.data)
        self.assertRaises(SignatureError, witness.verifier.verify, PROBLEM, timed)
        self.assertRaises(ValueError, log.cosign, PROBLEM, 7)
        self.assertRaises(ValueError, witness.sign, PROBLEM)

    def test_the_time_of_a_cosignature(self) -> None:
        witness = signer("w", KeyType.COSIGNATURE)
        for time_s in (0, 1, 1679315147, MAX_TIME_S):
            found = witness.cosign(PROBLEM, time_s)
            self.assertEqual(found.time_s, time_s)
            witness.verifier.verify(PROBLEM, found)
        for time_s in (-1, MAX_TIME_S + 1):
            self.assertRaises(ValueError, witness.cosign, PROBLEM, time_s)

    def test_a_time_that_others_cannot_count_to(self) -> None:
        """Even if all else about the signature is right."""
        verifier = signer("w", KeyType.COSIGNATURE).verifier
        time_s = MAX_TIME_S + 1
        made = signer("w").sign(f"cosignature/v1\ntime {time_s}\n{PROBLEM}")
        found = Signature("w", verifier.id, time_s.to_bytes(8, "big") + made.data)
        self.assertRaises(SignatureError, verifier.verify, PROBLEM, found)

    def test_what_a_cosignature_signs(self) -> None:
        found = signer("w", KeyType.COSIGNATURE).cosign("a\n0\nb\n", 1679315147)
        as_text = Signature("w", b"1234", found.data[8:])
        plain = signer("w").verifier
        plain.verify("cosignature/v1\ntime 1679315147\na\n0\nb\n", as_text)


class LineTests(SynchronousTestCase):
    def test_what_is_no_signature_line(self) -> None:
        good = encode_base64(b"1234" + bytes(64))
        Signature.parse(f"\u2014 a {good}")
        for line in (
            "",
            "\u2014",
            "\u2014 a",
            "\u2014 a ",
            f"\u2014  {good}",
            f"\u2014 {good}",
            f"- a {good}",
            f"\u2013 a {good}",
            f" \u2014 a {good}",
            f"\u2014a {good}",
            f"\u2014 a  {good}",
            f"\u2014 a {good} ",
            f"\u2014 a {good}\r",
            f"\u2014 a b {good}",
            f"\u2014 a+b {good}",
            f"\u2014 a\u00a0b {good}",
            f"\u2014 a {good[:-1]}",
            f"\u2014 a {good}=",
            f"\u2014 a {good[:20]}\n{good[20:]}",
            f"\u2014 a {good[:-3]}B==",  # bits that no byte has
            f"\u2014 a {good.replace('A', '-')}",
            f"\u2014 a {encode_base64(b'1234')}",
            f"\u2014 a \u00e9{good}",
        ):
            self.assertRaises(NoteError, Signature.parse, line)
