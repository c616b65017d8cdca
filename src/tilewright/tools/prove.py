"""The process of the self-test: launches a kernel and compares with NumPy. See `runtime/self_test.py`."""

from __future__ import annotations

import sys

import numpy as np

import tilewright as tw
import tilewright.language as tl
from tilewright.runtime.self_test import PASSED
from tilewright.support.system import SYSTEM

_SIZE, _BLOCK = 1_000_003, 1024


@tw.jit(interpret=False)
def _polynomial(x, y, out, n, block: tl.constexpr):  # type: ignore[no-untyped-def]  # a kernel
    i = tl.program_id(0) * block + tl.arange(0, block)
    a, b = tl.load(x + i, mask=i < n), tl.load(y + i, mask=i < n)
    tl.store(out + i, a * b + tl.sum(a, axis=0), mask=i < n)


def main() -> int:
    """0 when the kernel is right."""
    SYSTEM.trust()
    generator = np.random.default_rng(0)
    x, y = (generator.integers(-8, 8, _SIZE).astype(np.float32) for _ in range(2))
    out = np.full(_SIZE + 1, 7, np.float32)
    blocks = np.pad(x, (0, -_SIZE % _BLOCK)).reshape(-1, _BLOCK)
    expected = x * y + blocks.sum(axis=1).repeat(_BLOCK)[:_SIZE]
    for _ in range(3):  # compiled, through the launcher, on threads that are awake
        out[:-1] = 0
        _polynomial[(len(blocks),)](x, y, out, _SIZE, block=_BLOCK)
        if not np.array_equal(out[:-1], expected) or out[-1] != 7:
            print("a kernel gives other numbers than NumPy", file=sys.stderr)
            return 1
    print(PASSED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
