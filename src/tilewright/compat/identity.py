"""`triton.runtime.cache.triton_key`: what compiles, in one text; caches of other programs have it in their keys."""

from __future__ import annotations

from tilewright.compiler.cache_key import COMPILER_IDENTITY, llvm_identity


def triton_key() -> str:
    """Differs between versions of Tilewright and of LLVM."""
    return f"tilewright-{COMPILER_IDENTITY}-{llvm_identity()}"
