"""SASLprep (RFC 4013): names and passwords in the one form in which they are compared.

The same name can be typed as different code points.  This maps them to one, and refuses what cannot
be typed reliably: control characters, unassigned code points, text whose direction is mixed.
"""

import stringprep
import unicodedata
from collections.abc import Callable
from typing import Final

_PROHIBITED: Final[tuple[Callable[[str], bool], ...]] = (
    stringprep.in_table_a1,  # unassigned in Unicode 3.2, which RFC 3454 is written for
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def saslprep(text: str) -> str:
    """`text` prepared.  Raises ValueError when it holds what may not be there."""
    mapped = "".join(
        " " if stringprep.in_table_c12(char) else char
        for char in text
        if not stringprep.in_table_b1(char)
    )
    # RFC 3454 is defined on Unicode 3.2: later versions normalize some code points differently.
    prepared = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    for char in prepared:
        if any(prohibited(char) for prohibited in _PROHIBITED):
            raise ValueError(f"U+{ord(char):04X} is not allowed in names and passwords")
    # RFC 3454, section 6: text from right to left is so from its first to its last character.
    if any(stringprep.in_table_d1(char) for char in prepared):
        ends = stringprep.in_table_d1(prepared[0]) and stringprep.in_table_d1(prepared[-1])
        if not ends or any(stringprep.in_table_d2(char) for char in prepared):
            raise ValueError("right-to-left text is mixed with other text")
    return prepared
