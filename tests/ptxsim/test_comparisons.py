"""`setp` of every type of floats, and of pairs of them, with every comparison, beside NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ptx_programs import compute

Array = np.ndarray[Any, Any]
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, np.inf, -np.inf, np.nan, -np.nan]
COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def bits_of(numbers: Array, type: str) -> Array:
    """The bits of numbers that all types have."""
    if type == "bf16":
        return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[type]
    return numbers.astype(dtype).view(f"u{dtype().itemsize}")


def expected(name: str, a: Array, b: Array) -> Array:
    """Names that end in `u` hold of NaNs as well, `num` and `nan` look only for them."""
    unordered = np.isnan(a) | np.isnan(b)
    if name in ("num", "nan"):
        return unordered if name == "nan" else ~unordered
    base = COMPARISONS[name[:2]](a, b)
    return base | unordered if name.endswith("u") else base & ~unordered


NAMES = [*COMPARISONS, *(f"{name}u" for name in COMPARISONS), "num", "nan"]
WORDS = {"": None, ".and": np.logical_and, ".or": np.logical_or, ".xor": np.logical_xor}
A, B = (x.ravel() for x in np.meshgrid(np.array(NUMBERS), np.array(NUMBERS)))
NOTE = "selp.b32 %r4, 1, 0, %p1; selp.b32 %r5, 2, 0, %p2; or.b32 %r4, %r4, %r5; mad.lo.u32 %r9, %r9, 4, %r4;"


def noted(pairs: list[tuple[Array, Array]]) -> Array:
    """Two bits for each pair of predicates, those of the last one at the end."""
    found = np.zeros(A.size, np.uint32)
    for first, second in pairs:
        found = found << 2 | first | second.astype(np.uint32) << 1
    return found


@pytest.mark.quick
@pytest.mark.parametrize(("type", "register"), [("f16", "h"), ("bf16", "h"), ("f32", "r"), ("f64", "d")])
def test_numbers(type: str, register: str) -> None:
    """The second predicate is the opposite; with a third one, both are combined with it."""
    third = np.arange(A.size) % 3 == 0
    code, pairs = ["setp.ne.b32 %p3, %r3, 0; mov.u32 %r9, 0;"], []
    for place, name in enumerate(NAMES):
        wanted, (word, mixed) = expected(name, A, B), list(WORDS.items())[place % 4]
        pairs.append((wanted, ~wanted) if mixed is None else (mixed(wanted, third), mixed(~wanted, third)))
        last = ", %p3" if word else ""
        code.append(f"setp.{name}{word}.{type} %p1|%p2, %{register}1, %{register}2{last}; {NOTE}")
    found = compute("".join(code), "u4", bits_of(A, type), bits_of(B, type), third.astype(np.uint32))
    np.testing.assert_array_equal(found, noted(pairs))


@pytest.mark.quick
@pytest.mark.parametrize("type", ["f16", "bf16"])
def test_pairs(type: str) -> None:
    """Each of both predicates is for one half."""
    a, b = (bits_of(x, type).astype(np.uint32) for x in (A, B))
    code = "".join(f"setp.{name}.{type}x2 %p1|%p2, %r1, %r2; {NOTE}" for name in NAMES)
    found = compute(f"mov.u32 %r9, 0; {code}", "u4", a | b << 16, b | a << 16)
    np.testing.assert_array_equal(found, noted([(expected(name, A, B), expected(name, B, A)) for name in NAMES]))
