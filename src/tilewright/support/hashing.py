"""Digests of the dependencies of kernels and of cached files.

    hash_of(b"text").hexdigest()      64 digits; equal digests mean equal content

BLAKE2b is imported from Python's own module if that is possible: `hashlib` loads OpenSSL as well, which is a tenth of
the time that importing this package takes.
"""

from __future__ import annotations

from typing import Protocol

try:
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b


class Hash(Protocol):
    """The hash of all that was added so far."""

    def update(self, content: bytes, /) -> None: ...
    def digest(self) -> bytes: ...
    def hexdigest(self) -> str: ...


def hash_of(content: bytes = b"") -> Hash:
    """The hash, of 32 bytes, of `content` and of what is added to it."""
    return blake2b(content, digest_size=32)
