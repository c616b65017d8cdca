"""The messages of a launch about arguments that it cannot take, word for word."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


def array(dtype=np.float32, *, writable=True):
    made = np.ones(64, dtype)
    made.flags.writeable = writable
    return made


LAUNCHES = {
    "unhashable constexpr": lambda: scale[(1,)](array(), array(), 64, BLOCK={64}),
    "read-only target": lambda: scale[(1,)](array(), array(writable=False), 64, BLOCK=64),
    "text": lambda: scale[(1,)](array(), "out", 64, BLOCK=64),
    "complex numbers": lambda: scale[(1,)](array(np.complex128), array(), 64, BLOCK=64),
    "missing argument": lambda: scale[(1,)](array(), array(), BLOCK=64),
    "unknown keyword": lambda: scale[(1,)](array(), array(), 64, BLOCK=64, block=64),
    "number too large": lambda: scale[(1,)](array(), array(), 2**64, BLOCK=64),
    "grid of four axes": lambda: scale[(1, 1, 1, 1)](array(), array(), 64, BLOCK=64),
}


def test_numbers_beyond_64_bits_overflow():
    with pytest.raises(OverflowError, match="does not fit into 64 bits"):
        scale[(1,)](array(), array(), -(2**63) - 1, BLOCK=64)


def test_words(golden):
    said = []
    for name, launch in LAUNCHES.items():
        with pytest.raises((TypeError, ValueError, KeyError, OverflowError, tw.TilewrightError)) as caught:
            launch()
        said.append(f"{name}\n    {type(caught.value).__name__}: {caught.value}\n")
    golden("".join(said), "runtime/argument_errors.txt")
