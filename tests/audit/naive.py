"""The definitions of RFC 6962, section 2.1, as they stand there, for comparison.

Lists of leaves are copied at each step, which is why nobody would do it like this.
"""

from hashlib import sha256


def root(leaves: list[bytes]) -> bytes:
    """MTH(D[n]), of the hashes of the leaves."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = split(len(leaves))
    return sha256(b"\x01" + root(leaves[:k]) + root(leaves[k:])).digest()


def inclusion(m: int, leaves: list[bytes]) -> list[bytes]:
    """PATH(m, D[n])"""
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    if m < k:
        return [*inclusion(m, leaves[:k]), root(leaves[k:])]
    return [*inclusion(m - k, leaves[k:]), root(leaves[:k])]


def consistency(m: int, leaves: list[bytes], whole: bool = True) -> list[bytes]:
    """PROOF(m, D[n]) is SUBPROOF(m, D[n], true)."""
    if m == len(leaves):
        return [] if whole else [root(leaves)]
    k = split(len(leaves))
    if m <= k:
        return [*consistency(m, leaves[:k], whole), root(leaves[k:])]
    return [*consistency(m - k, leaves[k:], False), root(leaves[:k])]


def split(size: int) -> int:
    """The largest power of two below the size."""
    k = 1
    while 2 * k < size:
        k *= 2
    return k
