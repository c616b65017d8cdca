"""The ranges of the integer types of parameters.

check_fits(300, "i8")       ArgumentRangeError: 300 does not fit: the parameter is a tl.int8, …
"""

from __future__ import annotations

import operator
from typing import Any

from tilewright.runtime.errors import ArgumentError, ArgumentRangeError

RANGES = {
    **{f"i{bits}": range(-(2 ** (bits - 1)), 2 ** (bits - 1)) for bits in (8, 16, 32, 64)},
    **{f"u{bits}": range(2**bits) for bits in (8, 16, 32, 64)},
}
"""Type strings of signatures, and the numbers that such a parameter holds."""


def check_fits(value: Any, kind: str) -> None:
    """Check that a number fits into a parameter of type `kind`; other types than integers hold all numbers.

    Raises:
        ArgumentRangeError: it is too large or too small.
        ArgumentError: it is no whole number.
    """
    allowed = RANGES.get(kind)
    if allowed is None:
        return
    name = f"tl.{'u' * kind.startswith('u')}int{kind[1:]}"
    try:
        number = operator.index(value)
    except TypeError:
        whose = type(value).__name__
        raise ArgumentError(f"the parameter is a {name}, and a {whose} is no whole number: pass an int") from None
    if number not in allowed:
        raise ArgumentRangeError(
            f"{number} does not fit: the parameter is a {name}, which holds {allowed.start} to {allowed.stop - 1}"
        )
