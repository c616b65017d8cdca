"""Digests of what kernels depend on and of what is kept of them.

    hash_of(b"text").hexdigest()      64 digits; equal digests mean equal content

BLAKE2b from Python's own module where it can be had alone: `hashlib` loads OpenSSL with it, which is a tenth of the
time that importing this package takes.
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
