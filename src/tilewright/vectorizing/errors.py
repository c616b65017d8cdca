"""Errors of vectorized functions and of their arguments.

Machine code reports errors to its caller by one bit each:

ASK_PYTHON          the Python function decides: it is called with the same numbers
ZERO_DIVISION       a RuntimeWarning; the elements are 0, as in NumPy
others              an exception
"""

from __future__ import annotations

import warnings
from typing import ClassVar

from tilewright.support.diagnostics import Diagnostic, Limit


class NotANumber(Diagnostic):
    """Something that no array element can be."""

    title: ClassVar[str] = "{type} cannot be used as a number"
    label: ClassVar[str] = "vectorized functions compute with bool, integer and float numbers"
    type: str


class NoSuchOperation(Diagnostic):
    """NumPy has no such operation for these dtypes."""

    title: ClassVar[str] = "`{operation}` is not defined for {types}"
    label: ClassVar[str] = "{reason}"
    operation: str
    types: str
    reason: str = "NumPy refuses it, too"


class OutOfBounds(Diagnostic):
    """A Python integer that the dtype of the other operand cannot hold."""

    title: ClassVar[str] = "the integer {number} is out of bounds for {kind}"
    label: ClassVar[str] = "it meets values of {kind} here"
    help: ClassVar[str] = "convert them first, with .astype(…)"
    number: int
    kind: str


class ValueNeeded(Diagnostic):
    """Python asks for the value of a number that is known only when the function runs."""

    title: ClassVar[str] = "the value of this number is not known while the function is {done}"
    label: ClassVar[str] = "{kind}{origin}"
    help: ClassVar[str] = "{advice}"
    done: str
    kind: str
    origin: str = ""
    advice: str = "use np.where, or frontend='ast', which reads `if` and `while` itself"


class NotOneNumber(Diagnostic):
    """The function returns something else than a number."""

    title: ClassVar[str] = "a vectorized function returns one number"
    label: ClassVar[str] = "this one returns {type}"
    type: str


class NoValue(Diagnostic):
    """A variable that has a value on one side of a branch only, or after a loop that may not run."""

    title: ClassVar[str] = "`{name}` may have no value here"
    label: ClassVar[str] = "{reason}"
    help: ClassVar[str] = "give it a value before"
    name: str
    reason: str


class CannotChange(Diagnostic):
    """Something that is no number changes under a condition that is known only when the function runs."""

    title: ClassVar[str] = "`{name}` cannot change {where}"
    label: ClassVar[str] = "{before} and {after} are not two numbers"
    name: str
    where: str
    before: str
    after: str


class NotVectorizable(Limit):
    """A call of something that has no meaning on array elements."""

    title: ClassVar[str] = "`{name}` cannot be called with a number that is known only when the function runs"
    label: ClassVar[str] = "not a function that can be compiled"
    help: ClassVar[str] = "math, NumPy's ufuncs, tl functions and plain Python functions can be"
    name: str


class EndlessCalls(Limit):
    """A function calls itself."""

    title: ClassVar[str] = "`{name}` calls itself"
    label: ClassVar[str] = "recursion must end at compile time"
    name: str


class BadParameters(Diagnostic):
    """Parameters that no call by position can fill."""

    title: ClassVar[str] = "`{name}` cannot be vectorized"
    label: ClassVar[str] = "{reason}"
    name: str
    reason: str


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
