"""Matrix products: floats are summed in double precision and rounded once, integers wrap."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.interpreter.machine import Interpreter, executes
from tilewright.interpreter.memory import Array
from tilewright.ir.core import Op
from tilewright.support.exact_rounding import convert_float


def multiply_add(a: Array, b: Array, c: Array) -> Array:
    """c + a @ b in c's type."""
    if c.dtype.kind == "i":
        product = np.matmul(a.astype(np.int64), b.astype(np.int64))
        return (c.astype(np.int64) + product).astype(c.dtype)
    with np.errstate(all="ignore"):
        total = c.astype(np.float64) + np.matmul(a.astype(np.float64), b.astype(np.float64))
        return convert_float(total, c.dtype)


@executes("tt.dot")
def _dot(machine: Interpreter, op: Op, *operands: Any) -> Any:
    return multiply_add(*operands)
