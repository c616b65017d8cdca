"""The choices in which Triton's versions differ: 3.5 has `MatmulOptions(16, blocked_accumulators=True)`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MatmulOptions:
    """Choices between layouts that all compute the same.

    Attributes:
        f64_rows: rows of the result that one `mma.sync` for f64 computes: 8, or 16.
        blocked_accumulators: what goes to tensor memory has blocked layouts, and the memory is described as Triton 3.5
            does.
        sixteen_rows: a warp reads and writes 16 rows of tensor memory at once where it can, and else 32.
    """

    f64_rows: int = 8
    blocked_accumulators: bool = False
    sixteen_rows: bool = False


NEWEST = MatmulOptions()
