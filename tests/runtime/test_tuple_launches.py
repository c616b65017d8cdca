"""Kernels that take tuples: native from the second launch on, compiled anew only where an element asks."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.runtime.drivers.cpu.launcher import is_native

pytestmark = pytest.mark.skipif(not is_native(), reason="there is no native launcher here")

Line = namedtuple("Line", "slope offset")


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """out[i] = slope · x[i] + offset, for i < n."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))

    @tw.jit
    def line(arrays, coefficients, BLOCK: tl.constexpr):
        (x, (out, n)) = arrays
        i = tl.arange(0, BLOCK)
        tl.store(out + i, coefficients.slope * tl.load(x + i, i < n) + coefficients.offset, i < n)

    return line


def test_tuples_are_launched_natively(line: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    slow: list[Any] = []
    launch = type(line)._launch
    monkeypatch.setattr(type(line), "_launch", lambda self, *args: slow.append(args) or launch(self, *args))
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    for n, slope, offset in ((30, 2.5, 4), (29, -1.0, 5), (28, 3.0, 7), (32, 2.0, 3), (30, 2.0, 1), (27, 2.0, 1)):
        out[:] = 0
        line[(1,)]((x, (out, n)), Line(slope, offset), BLOCK=64)
        assert np.array_equal(out, np.where(np.arange(64) < n, slope * x + offset, 0).astype(np.float32))
    assert len(slow) == 3  # the first; n is a multiple of 16; the offset is 1
    x.flags.writeable = False
    line[(1,)]((x, (out, 30)), Line(2.5, 4), BLOCK=64)
    out.flags.writeable = False
    with pytest.raises(tw.ReadOnlyError):
        line[(1,)]((x, (out, 30)), Line(2.5, 4), BLOCK=64)
    with pytest.raises(tw.CompilationError):
        line[(1,)]((x, (out, 30)), (2.5, 4), BLOCK=64)
