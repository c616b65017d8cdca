"""The messages of machine code to its caller when something went wrong: one bit each, and what the caller does then.

ASK_PYTHON          the Python function decides: it is called with the same numbers
ZERO_DIVISION       a RuntimeWarning; the elements are 0, as in NumPy
others              an exception
"""

from __future__ import annotations

import warnings

ASK_PYTHON = "only Python knows"
NEGATIVE_POWER = "Integers to negative integer powers are not allowed."
OUT_OF_BOUNDS = "Python integer out of bounds for its dtype"
ZERO_DIVISION = "divide by zero encountered in an integer division"

FLAGS = {ASK_PYTHON: 1, ZERO_DIVISION: 2, NEGATIVE_POWER: 4, OUT_OF_BOUNDS: 8}
ASSERTION = 16
"""The bit of an `assert` in the function."""


def flag_of(message: str) -> int:
    """The bit for the message of a check."""
    return FLAGS.get(message, ASSERTION)


def tell(flags: int, *, depth: int = 6) -> None:
    """Raise or warn as the bits say.

    Args:
        flags: the bits.
        depth: how many calls above is the user's program, this one included.

    Raises:
        AssertionError: an assertion of the function does not hold.
        OverflowError: a Python integer does not fit into the dtype that it met.
        ValueError: an integer was raised to a negative power.
    """
    if flags & ASSERTION:
        raise AssertionError("an assertion of the vectorized function does not hold for some element")
    if flags & FLAGS[OUT_OF_BOUNDS]:
        raise OverflowError(OUT_OF_BOUNDS)
    if flags & FLAGS[NEGATIVE_POWER]:
        raise ValueError(NEGATIVE_POWER)
    if flags & FLAGS[ZERO_DIVISION]:
        warnings.warn(ZERO_DIVISION, RuntimeWarning, stacklevel=depth)
