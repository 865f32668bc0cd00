"""Proofs about the audit log: that nothing in it was changed, left out or cut off.

    leaves -> merkle (root) -> checkpoint (signed by the log, cosigned by witnesses) -> verifier
                 |                                                                        ^
                 +--- proofs: a leaf is in the log; a later log continues an earlier one -+

All of it is pure: time, randomness, reading and writing are the caller's.

merkle      the tree of RFC 6962: a growing log's root, proofs, and their verification
keys        Ed25519 keys, their text forms, and signatures by them (C2SP signed-note)
note        texts with signatures of them (C2SP signed-note)
checkpoint  the head of a log as a signed note, and the witness that cosigns it
"""
