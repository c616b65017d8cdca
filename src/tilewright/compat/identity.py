"""Keys of `triton.runtime.cache`, for caches of other programs: what compiles, in one text."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from tilewright.compiler.cache_key import COMPILER_IDENTITY, llvm_identity
from tilewright.runtime.cache.managers import base32
from tilewright.support.hashing import hash_of

TRITON_MODULE = "triton.language"
GLUON_MODULE = "triton.experimental.gluon.language"


def triton_key() -> str:
    """Differs between versions of Tilewright and of LLVM."""
    return f"tilewright-{COMPILER_IDENTITY}-{llvm_identity()}"


def make_so_cache_key(
    version_hash: str, signature: Mapping[Any, Any], constants: Mapping[Any, Any], ids: Hashable, **kwargs: Any
) -> str:
    """The key of a shared library: it differs whenever an argument does."""
    facts = (version_hash, sorted(map(repr, signature.items())), sorted(map(repr, constants.items())), ids)
    return base32(hash_of(f"{facts} {sorted(kwargs.items())}".encode()).hexdigest())
