"""Signed notes: a text, and lines with signatures of it (C2SP signed-note).

    note       text LF line {line}     text is UTF-8 and ends in LF; no other control characters
    line       of a signature: see `mhub.audit.keys`

The last empty line ends the text, which may have such lines itself.  A text means nothing before a
signature by a key that is known has been verified.  Signatures by other keys are ignored, so that a
log can change its key and witnesses can come and go; one that names a known key and is not by it
makes the whole note invalid.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mhub.audit.keys import NoteError, Signature, SignatureError, Verifier, check_characters

MAX_BYTES: Final = 1_000_000
MAX_SIGNATURES: Final = 100
"""Both as in Go's package for notes; the specification asks for at least 16 signatures."""


@dataclass(frozen=True)
class Note:
    """A well-formed note, which does not say that anything in it is true: see `verify`."""

    text: str
    signatures: tuple[Signature, ...]

    def __post_init__(self) -> None:
        check_characters(self.text)
        if not self.text.endswith("\n"):
            raise NoteError("the text of a note ends in a newline")
        if not 0 < len(self.signatures) <= MAX_SIGNATURES:
            raise NoteError(f"a note has 1 to {MAX_SIGNATURES} signatures")
        if len(self.data()) > MAX_BYTES:
            raise NoteError(f"a note has at most {MAX_BYTES} bytes")

    @classmethod
    def parse(cls, data: bytes) -> "Note":
        if len(data) > MAX_BYTES:
            raise NoteError(f"a note of {len(data)} bytes; at most {MAX_BYTES} are read")
        try:
            whole = data.decode("utf-8")
        except UnicodeDecodeError:
            raise NoteError("a note is UTF-8") from None
        text, separator, rest = whole.rpartition("\n\n")
        if not separator or not rest.endswith("\n"):
            raise NoteError("a note is a text, an empty line, and signature lines")
        # Not splitlines(): to that, U+2028 and others end a line too.
        lines = rest[:-1].split("\n")
        if len(lines) > MAX_SIGNATURES:
            raise NoteError(f"a note has 1 to {MAX_SIGNATURES} signatures")
        return cls(text + "\n", tuple(map(Signature.parse, lines)))

    def data(self) -> bytes:
        return (self.text + "\n" + "".join(each.line() for each in self.signatures)).encode()

    def with_signature(self, signature: Signature) -> "Note":
        """With one more, which replaces an older one by the same key."""
        key = (signature.name, signature.key_id)
        others = [each for each in self.signatures if (each.name, each.key_id) != key]
        return Note(self.text, (*others, signature))

    def verify(self, known: Iterable[Verifier]) -> dict[Verifier, Signature]:
        """The known keys that signed it, each with its first signature.

        Raises SignatureError if a signature by one of them is wrong, or there is none.
        """
        by_name: dict[tuple[str, bytes], Verifier] = {}
        for verifier in known:
            if by_name.setdefault((verifier.name, verifier.id), verifier) != verifier:
                raise ValueError(f"two keys are called {verifier.name}+{verifier.id.hex()}")
        found: dict[Verifier, Signature] = {}
        for signature in self.signatures:
            signed_by = by_name.get((signature.name, signature.key_id))
            if signed_by is not None:
                signed_by.verify(self.text, signature)
                found.setdefault(signed_by, signature)
        if not found:
            raise SignatureError("no signature is by a known key")
        return found
