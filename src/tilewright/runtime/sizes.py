"""Arithmetic on sizes that both hosts and kernels need, on numbers known when the kernel is compiled."""

from __future__ import annotations

import operator
from typing import Any

from tilewright.semantics.constexpr import unwrap


def next_power_of_2(n: Any) -> int:
    """The smallest power of two that is not below `n`; 1 for one and below.

    Raises:
        TypeError: `n` is not a whole number.
    """
    return 1 << max(operator.index(unwrap(n)) - 1, 0).bit_length()
