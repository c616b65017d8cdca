"""Hints at loops that reach LLVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.base import GPUTarget


@tw.jit
def counted(x_ptr, n, CLOSED: tl.constexpr):
    total = 0
    for i in tl.range(0, n, disable_licm=CLOSED):
        total += tl.load(x_ptr) * i
        tl.store(x_ptr + 1, total)


@tw.jit
def asked(x_ptr, n, CLOSED: tl.constexpr):
    i = 0
    while tl.condition(i < n, disable_licm=CLOSED):
        tl.store(x_ptr + 1, tl.load(x_ptr) * i)
        i += 1


KERNELS = pytest.mark.parametrize(("kernel", "last"), [(counted, 12), (asked, 6)], ids=["for", "while"])


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def says_so(text: str) -> bool:
    """Whether one loop of a text of LLVM IR is closed."""
    counts = text.count("!llvm.loop"), text.count('!{!"llvm.licm.disable"}')
    assert counts in ((0, 0), (1, 1))
    return counts == (1, 1)


@KERNELS
@pytest.mark.parametrize("closed", [False, True])
def test_llvm_moves_nothing_out_of_a_loop_on_a_cpu(kernel: Any, last: int, closed: bool) -> None:
    x = np.array([2, 0], np.int32)
    made = kernel[(1,)](x, 4, CLOSED=closed)
    assert x.tolist() == [2, last]
    assert says_so(made.asm["llir"]) is closed


@KERNELS
def test_nor_on_a_gpu(kernel: Any, last: int) -> None:
    source = tw.ASTSource(kernel, {"x_ptr": "*i32", "n": "i32", "CLOSED": "constexpr"}, {"CLOSED": True})
    assert says_so(str(tw.compile(source, target=GPUTarget("cuda", 90, 32)).asm["llir"]))
