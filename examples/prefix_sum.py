"""Running sums of a long vector in one pass, by looking back. `python examples/prefix_sum.py`

A program adds up its block and publishes the total at once. Then it walks back over its predecessors: one that has only
published its total contributes that and the walk goes on; one that knows the sum of everything up to its end
contributes this and the walk is over. Programs start in order, so whom a program waits for is already running.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from arrays import Array, empty_like, largest_error, require, zeros_like

import tilewright as tw
import tilewright.language as tl

NOTHING = tl.constexpr(0)
TOTAL = tl.constexpr(1)
PREFIX = tl.constexpr(2)
"""The state and the sum that a program has published."""


@tw.jit
def publish(value, values_ptr, states_ptr, program, STATE: tl.constexpr):
    tl.store(values_ptr + program, value)
    tl.debug_barrier()
    tl.atomic_xchg(states_ptr + program, STATE)


@tw.jit
def sum_before(program, totals_ptr, prefixes_ptr, states_ptr, ZERO):
    """The sum of all blocks before that of `program`."""
    result = ZERO
    back = program - 1
    while back >= 0:
        state = tl.atomic_add(states_ptr + back, 0)
        while state == NOTHING:
            state = tl.atomic_add(states_ptr + back, 0)
        if state == PREFIX:
            result += tl.load(prefixes_ptr + back, volatile=True)
            back = -1
        else:
            result += tl.load(totals_ptr + back, volatile=True)
            back -= 1
    return result


@tw.jit
def prefix_sum_kernel(x_ptr, out_ptr, totals_ptr, prefixes_ptr, states_ptr, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    offsets = program * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside, other=0)
    total = tl.sum(x, axis=0)
    publish(total, totals_ptr, states_ptr, program, TOTAL)
    before = sum_before(program, totals_ptr, prefixes_ptr, states_ptr, total - total)
    publish(before + total, prefixes_ptr, states_ptr, program, PREFIX)
    tl.store(out_ptr + offsets, tl.cumsum(x, axis=0) + before, mask=inside)


def prefix_sum(x: Array, *, block: int = 1024, **options: Any) -> Array:
    """The sums of the first 1, 2, 3 … elements.

    Args:
        x: a contiguous vector of fp32, fp64, int32 or int64.
        block: elements per program, a power of two.
        options: compile and launch options, such as `num_threads`.
    """
    require(x.ndim == 1, "prefix_sum wants a vector")
    n = x.shape[0]
    programs = tw.cdiv(n, block)
    out, totals, prefixes = empty_like(x), empty_like(x, (programs,)), empty_like(x, (programs,))
    states = zeros_like(x, (programs,), "int32")
    prefix_sum_kernel[(programs,)](x, out, totals, prefixes, states, n, BLOCK=block, **options)
    return out


def main() -> None:
    x = np.random.default_rng(0).integers(-9, 10, 77_777, np.int32)
    error = largest_error(prefix_sum(x), np.cumsum(x))
    print(f"prefix sum, {x.size} integers: largest error {error}")
    assert error == 0.0


if __name__ == "__main__":
    main()
