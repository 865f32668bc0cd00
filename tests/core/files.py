"""A file that may lose what was not synced, and a journal of batches in it.

    file = File()
    file.write(data)              may be on the disk from now on: all of it, a part, or nothing
    file.sync()                   all of it is
    file.lose(keep, zeros)        the power went off, or the process was killed

    journal = BatchFile(file)
    journal.append(encode_batch(batch))
    journal.sync()
    journal.replay()              the batches that are whole, as bytes; a torn tail is cut off

    record    size of the data, four bytes; CRC-32 of these four bytes and of the data; the data

The data of a record is what `mhub.core.codec` makes of a batch, and is not looked at here: so a
record may as well be one that another node has sent.
"""

import struct
import zlib
from collections.abc import Iterable

SIZE = struct.Struct("<I")
HEAD = struct.Struct("<II")


class File:
    """Bytes in two parts: those that are safe, and those that were written since."""

    def __init__(self) -> None:
        self.safe = bytearray()
        self.unsafe = bytearray()

    def write(self, data: bytes) -> None:
        self.unsafe += data

    def sync(self) -> None:
        self.safe += self.unsafe
        self.unsafe.clear()

    def replace(self, data: bytes) -> None:
        """Other contents, as by a synced file that gets the name of this one."""
        self.safe[:] = data
        self.unsafe.clear()

    def read(self) -> bytes:
        return bytes(self.safe + self.unsafe)

    def lose(self, keep: float = 0.0, zeros: bool = False) -> None:
        """Of what was not synced only the first part is there, from 0.0 to 1.0 of its bytes.

        With `zeros` the file is as long as it was: its size reached the disk before the bytes did.
        """
        size = round(len(self.unsafe) * keep)
        lost = len(self.unsafe) - size
        del self.unsafe[size:]
        if zeros:
            self.unsafe += bytes(lost)
        self.sync()


class BatchFile:
    def __init__(self, file: File) -> None:
        self.file = file
        self.torn = 0  # how often replay() found a tail to cut off

    def append(self, data: bytes) -> None:
        self.file.write(record(data))

    def sync(self) -> None:
        self.file.sync()

    def replay(self) -> list[bytes]:
        data = self.file.read()
        found, end = records(data)
        if end != len(data):
            self.torn += 1
            self.file.replace(data[:end])
        return found

    def rewrite(self, batches: Iterable[bytes]) -> None:
        """Only these from now on: they say the same as all that were there."""
        self.file.replace(b"".join([record(data) for data in batches]))


def record(data: bytes) -> bytes:
    # The size is under the checksum as well, so a run of zeros is no empty record.
    crc = zlib.crc32(data, zlib.crc32(SIZE.pack(len(data))))
    return HEAD.pack(len(data), crc) + data


def records(data: bytes) -> tuple[list[bytes], int]:
    """What is in the records from the beginning that are whole, and where they end."""
    found: list[bytes] = []
    pos = 0
    while pos + HEAD.size <= len(data):
        size, _ = HEAD.unpack_from(data, pos)
        end = pos + HEAD.size + size
        inside = data[pos + HEAD.size : end]
        if record(inside) != data[pos:end]:
            break
        found.append(inside)
        pos = end
    return found, pos
