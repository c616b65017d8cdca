"""A user's program with everything that is imported every day; type checkers find no mistake in it, and it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import tilewright as tw
import tilewright.language as tl
from tilewright import testing


@tw.jit
def scaled(x: tl.tensor, factor: tl.tensor) -> tl.tensor:
    return x * factor


@tw.autotune(
    configs=[tw.Config({"BLOCK": block}, num_warps=4) for block in (64, 128)],
    key=["n"],
)
@tw.heuristics({"EVEN": lambda arguments: arguments["n"] % 2 == 0})
@tw.jit
def scale(x_ptr: tl.tensor, out_ptr: tl.tensor, n: int, factor: float, EVEN: tl.constexpr, BLOCK: tl.constexpr) -> None:
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(x_ptr + i, mask=inside, other=0.0)
    total = tl.sum(x, axis=0)
    y = tl.where(x > 0, scaled(x, factor), tl.exp(x) - total)
    tl.store(out_ptr + i, y.to(tl.float32), mask=inside)


@tw.jit(debug=True)
def checked(x_ptr: tl.tensor, BLOCK: tl.constexpr) -> None:
    i = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for step in range(4):
        acc += tl.load(x_ptr + i + step)
    tl.device_assert(tl.max(acc, axis=0) > 0, "positive")
    tl.store(x_ptr + i, acc)


@tw.vectorize
def lerp(a: float, b: float, t: float) -> float:
    return a + (b - a) * t if t > 0 else a


def grid(meta: dict[str, Any]) -> tuple[int, ...]:
    return (tw.cdiv(meta["n"], meta["BLOCK"]),)


def launch(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    out = np.empty_like(x)
    scale[(tw.cdiv(x.size, 128),)](x, out, x.size, 2.0)
    scale[grid](x, out, x.size, 2.0)
    compiled = checked[(1,)](x, BLOCK=16)
    print(compiled)
    between = lerp(x, out, 0.5)
    print(between)
    number = lerp(1.0, 2.0, 0.5)
    print(number)
    return out


def measured(x: npt.NDArray[np.float32]) -> float:
    milliseconds = testing.do_bench(lambda: launch(x))
    testing.assert_close(launch(x), x, rtol=1e-3)
    return float(milliseconds)


if __name__ == "__main__":
    try:
        launch(np.ones(512, np.float32))
    except tw.CompilationError as error:
        print(error.diagnostic)
