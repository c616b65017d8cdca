"""4-bit floats on a GPU."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tile_programs import loaded, program, run, stored, tensor

NUMBERS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
PACKED, UNPACKED = (
    f"#ttg.blocked<{{sizePerThread = [1, {size}], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}}>"
    for size in (4, 8)
)


@pytest.mark.parametrize("capability", [80, pytest.param(90, marks=pytest.mark.slow)])
@pytest.mark.parametrize("element", ["f16", pytest.param("bf16", marks=pytest.mark.slow)])
def test_every_code(element: str, capability: int) -> None:
    before, after = tensor((32, 16), "i8", PACKED), tensor((32, 32), element, UNPACKED)
    lines = [
        *loaded("%x", "%p0", PACKED, (32, 16), "i8"),
        f"%y = ttg.fp4_to_fp %x {{axis = 1 : i32}} : {before} -> {after}",
        *stored("%y", "%p1", UNPACKED, (32, 32), element),
    ]
    x = np.resize(np.arange(256, dtype=np.uint8), (32, 16))
    dtype = np.float16 if element == "f16" else ml_dtypes.bfloat16
    _, found = run(program(lines, elements=["i8", element]), [x, np.zeros((32, 32), dtype)], capability=capability)
    expected = np.stack([NUMBERS[x & 15], NUMBERS[x >> 4]], axis=-1).reshape(32, 32)
    assert (found.astype(np.float64) == expected).all()
    assert (np.signbit(found.astype(np.float64)) == np.signbit(expected)).all()
