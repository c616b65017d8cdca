"""The hash is BLAKE2b, wherever it comes from."""

from __future__ import annotations

import hashlib

from tilewright.support.hashing import hash_of


def test_it_is_blake2b() -> None:
    content = bytes(range(256)) * 100
    assert hash_of(content).hexdigest() == hashlib.blake2b(content, digest_size=32).hexdigest()


def test_pieces_make_the_whole() -> None:
    found = hash_of()
    for piece in (b"one", b"", b"two"):
        found.update(piece)
    assert found.digest() == hash_of(b"onetwo").digest()
    assert len(found.digest()) == 32
