"""`tl.extra.cpu.vnni_decode`: rows in the order in which CPUs with matrix instructions want them, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def decoded(packed, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, P: tl.constexpr):
    row, column = tl.arange(0, ROWS // P)[:, None], tl.arange(0, COLUMNS * P)[None, :]
    matrix = tl.extra.cpu.vnni_decode(tl.load(packed + row * COLUMNS * P + column))
    i, j = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    tl.store(out + i * COLUMNS + j, matrix)


@pytest.mark.parametrize(("kind", "together"), [(np.int8, 4), (np.float16, 2)])
def test_packed_rows_are_put_in_order(kind: Any, together: int) -> None:
    matrix = np.arange(8 * 4).reshape(8, 4).astype(kind)
    packed = matrix.reshape(8 // together, together, 4).transpose(0, 2, 1).copy()
    out = np.zeros_like(matrix)

    decoded[(1,)](packed, out, ROWS=8, COLUMNS=4, P=together)

    np.testing.assert_array_equal(out, matrix)


def test_wide_elements_are_refused() -> None:
    array = np.zeros((8, 4), np.float32)
    with pytest.raises(tw.CompilationError, match="elements of 8 or 16 bits"):
        decoded[(1,)](array, array, ROWS=8, COLUMNS=4, P=2)
