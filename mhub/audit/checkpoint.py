"""Checkpoints: the head of a log as a signed note (C2SP tlog-checkpoint), and its witnesses.

    origin LF size LF base64(root) LF {extension LF}     the text of the note

A log signs its head, and nothing keeps it from signing another head of the same size for somebody
else, or a later one without some of the leaves.  Who has both sees it.  So a witness keeps the last
head that it has seen of each log, wants a proof that the next one continues it, and then cosigns:
two checkpoints with the cosignature of one honest witness are heads of the same log.

What a witness keeps to, for each origin:

- The heads that it cosigns never become smaller, and each continues the one before.  The first one
  is taken as it is: any log continues the empty one.
- In memory it goes on to a head at once when that is cosigned, so that no two calls, however they
  overlap with saving, start from the same old head.
- A cosignature comes together with the state to be saved *before* it is sent, in the order of the
  calls.  If saving fails it is not sent.  So no restart finds an older head than was sent.

It is the state in full, with logs that are not known any more: one that returns goes on from there.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from mhub.audit.keys import (
    KeyType,
    NoteError,
    Signature,
    SignatureError,
    Signer,
    Verifier,
    check_characters,
    decode_base64,
    encode_base64,
)
from mhub.audit.merkle import EMPTY_ROOT, HASH_BYTES, MAX_SIZE, ProofError, verify_consistency
from mhub.audit.note import Note

_DECIMAL: Final = re.compile(r"0|[1-9][0-9]{0,18}")  # as many digits as MAX_SIZE has


@dataclass(frozen=True)
class Checkpoint:
    """The head of a log: what is said about it, by nobody yet."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for line in (self.origin, *self.extensions):
            check_characters(line)
            if not line or "\n" in line:
                raise NoteError("origin and extensions of a checkpoint are lines, and not empty")
        if not 0 <= self.size <= MAX_SIZE:
            raise NoteError(f"the size of a log is 0 to {MAX_SIZE}, not {self.size}")
        if len(self.root) != HASH_BYTES:
            raise NoteError(f"the root has {HASH_BYTES} bytes, not {len(self.root)}")
        if self.size == 0 and self.root != EMPTY_ROOT:
            raise NoteError("a log of size 0 with another root than that of the empty log")

    def text(self) -> str:
        lines = (self.origin, str(self.size), encode_base64(self.root), *self.extensions)
        return "".join(f"{line}\n" for line in lines)

    @classmethod
    def parse(cls, text: str) -> "Checkpoint":
        """The reverse of `text`: what would not come out of that again is an error."""
        lines = text.split("\n")
        if len(lines) < 4 or lines.pop():
            raise NoteError("a checkpoint is three lines or more: origin, size, root")
        origin, size, encoded, *extensions = lines
        if not _DECIMAL.fullmatch(size):
            raise NoteError("the size of a log is a decimal number without leading zeros")
        root = decode_base64(encoded)
        if root is None:
            raise NoteError("the root of a log is base64")
        return cls(origin, int(size), root, tuple(extensions))


class Opened(NamedTuple):
    """A checkpoint that its log has signed."""

    checkpoint: Checkpoint
    note: Note
    cosigned: dict[Verifier, int]  # by which witnesses, and when, in seconds since 1970


def sign(checkpoint: Checkpoint, signer: Signer) -> Note:
    """By the log itself, whose key has the name of the origin."""
    if signer.verifier.name != checkpoint.origin:
        raise ValueError(f"{signer.verifier.name} cannot sign for the log {checkpoint.origin}")
    text = checkpoint.text()
    return Note(text, (signer.sign(text),))


def open_checkpoint(
    data: bytes, log: Iterable[Verifier], witnesses: Iterable[Verifier] = ()
) -> Opened:
    """Raises NoteError unless one of the log's keys has signed it.

    Whether the witnesses are enough, and whether the origin is the expected one, says the caller.
    """
    log, witnesses = _of_type(KeyType.ED25519, log), _of_type(KeyType.COSIGNATURE, witnesses)
    note = Note.parse(data)
    signed = note.verify([*log, *witnesses])
    if not any(each in signed for each in log):
        raise SignatureError("the checkpoint is not signed by its log")
    cosigned = {each: signed[each].time_s for each in witnesses if each in signed}
    return Opened(Checkpoint.parse(note.text), note, cosigned)


class Reason(StrEnum):
    """Why a witness did not cosign.

    Messages that are late or wrong lead to all of them but `FORKED`: there the log has signed two
    heads that contradict each other, which whoever has kept both can show.
    """

    MALFORMED = "malformed"
    UNKNOWN_LOG = "unknown log"
    BAD_SIGNATURE = "bad signature"
    OLDER = "older"  # than the last one cosigned: late, or the log was cut off
    FORKED = "forked"  # the log has signed two roots of the same size
    OTHER_START = "other start"  # the proof is from another size than that of the last one cosigned
    INCONSISTENT = "inconsistent"  # the proof is wrong: made badly, or the log was rewritten


class Refused(Exception):
    def __init__(self, reason: Reason, text: str, last: Checkpoint | None = None) -> None:
        super().__init__(f"{reason}: {text}")
        self.reason = reason
        self.last = last  # cosigned of that log: where a proof has to start


class Cosigned(NamedTuple):
    state: tuple[str, ...]  # to be saved before the signature is sent
    signature: Signature


class Witness:
    """Cosigns the heads of logs as long as each continues the one before: see above."""

    def __init__(
        self, signer: Signer, logs: Mapping[str, Sequence[Verifier]], state: Iterable[str] = ()
    ) -> None:
        """`logs`: the keys of each, by its origin.  `state`: as saved last."""
        _of_type(KeyType.COSIGNATURE, [signer.verifier])
        self._signer = signer
        self._logs = {origin: _of_type(KeyType.ED25519, keys) for origin, keys in logs.items()}
        heads = [Checkpoint.parse(text) for text in state]
        self._last = {head.origin: head for head in heads}
        if len(self._last) != len(heads):
            raise ValueError("the state of a witness names a log twice")

    def last(self, origin: str) -> Checkpoint | None:
        """The last head of that log that was cosigned."""
        return self._last.get(origin)

    def state(self) -> tuple[str, ...]:
        return tuple(head.text() for head in self._last.values())

    def cosign(self, data: bytes, old_size: int, proof: Sequence[bytes], time_s: int) -> Cosigned:
        """`proof`: that the checkpoint continues the log of `old_size`.  Raises Refused."""
        if time_s <= 0:
            raise ValueError("a witness says when it cosigned")
        opened = self._open(data)
        head = opened.checkpoint
        last = self._last.get(head.origin)
        size, root = (last.size, last.root) if last else (0, EMPTY_ROOT)
        if head.size < size:
            raise Refused(Reason.OLDER, f"size {head.size}, after {size} was cosigned", last)
        if head.size == size and head.root != root:
            raise Refused(Reason.FORKED, f"another root of size {size} was cosigned", last)
        if old_size != size:
            raise Refused(Reason.OTHER_START, f"the proof has to start at size {size}", last)
        try:
            verify_consistency(size, root, head.size, head.root, proof)
        except ProofError as error:
            raise Refused(Reason.INCONSISTENT, str(error), last) from None
        signature = self._signer.cosign(opened.note.text, time_s)
        self._last[head.origin] = Checkpoint(head.origin, head.size, head.root)
        return Cosigned(self.state(), signature)

    def _open(self, data: bytes) -> Opened:
        try:
            origin = Checkpoint.parse(Note.parse(data).text).origin
        except NoteError as error:
            raise Refused(Reason.MALFORMED, str(error)) from None
        keys = self._logs.get(origin)
        if keys is None:
            raise Refused(Reason.UNKNOWN_LOG, "its origin is not one that is witnessed here")
        try:
            return open_checkpoint(data, keys)
        except SignatureError as error:
            raise Refused(Reason.BAD_SIGNATURE, str(error), self._last.get(origin)) from None


def _of_type(wanted: KeyType, keys: Iterable[Verifier]) -> tuple[Verifier, ...]:
    found = tuple(keys)
    for key in found:
        if key.type != wanted:
            raise ValueError(f"the key {key} is not of the type {wanted.name}")
    return found
