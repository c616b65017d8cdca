"""Products of tiles in registers: which lowering computes them.

tt.dot -> #mma          mma_sync.py
tt.dot -> #blocked      lower_fma: each thread has all of k for its rows and columns
tt.dot_scaled -> #mma   scaled.py; others are products of scaled operands, see transforms/gpu/scaled_dot.py
"""

from __future__ import annotations

from tilewright.backends.nvidia.lower.dot.fragments import places
from tilewright.backends.nvidia.lower.dot.mma_sync import lower_mma
from tilewright.backends.nvidia.lower.dot.scaled import lower_dot_scaled
from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering, layout_of
from tilewright.dialects.tt_dot import Dot
from tilewright.ir.core import tile_type
from tilewright.layouts.encodings import NvidiaMma


def lower_dot(lowerer: Lowerer, op: Dot) -> None:
    """Write a `tt.dot`."""
    if isinstance(layout_of(tile_type(op.result)), NvidiaMma):
        lower_mma(lowerer, op)
    else:
        lower_fma(lowerer, op)


def lower_fma(lowerer: Lowerer, op: Dot) -> None:
    """Write a `tt.dot` whose operands and accumulator have elements of one type."""
    a, b, c = op.a, op.b, op.accumulator
    element = lowerer.element(op.result.type)
    assert lowerer.element(a.type) == lowerer.element(b.type) == element, "operands are as wide as the accumulator"
    left, right = places(lowerer.layout(a)), places(lowerer.layout(b))
    a_registers, b_registers = lowerer.registers(a), lowerer.registers(b)
    layout = lowerer.layout(c)
    accumulators = {place: lowerer.registers(c)[register] for place, register in places(layout).items()}
    for place, value in accumulators.items():  # one after the other: registers run out otherwise
        *batch, m, n = place
        for k in range((a.type.shape or ())[-1]):
            first, second = a_registers[left[*batch, m, k]], b_registers[right[*batch, k, n]]
            value = _added(lowerer, element, first, second, value)
        accumulators[place] = value
    lowerer.bind(
        op.result, [accumulators[layout.apply(register=register)] for register in range(layout.in_size("register"))]
    )


def _added(lowerer: Lowerer, element: str, a: str, b: str, accumulator: str) -> str:
    """a·b + accumulator: with one rounding where the program allows it."""
    w = lowerer.w
    if element.startswith("i"):
        return w.emit(f"add {element} {w.emit(f'mul {element} {a}, {b}')}, {accumulator}")
    if lowerer.target.fuse:
        return w.intrinsic("llvm.fma", element, a, b, accumulator)
    return w.emit(f"fadd {element} {w.emit(f'fmul {element} {a}, {b}')}, {accumulator}")


LOWERINGS: dict[str, Lowering] = {"tt.dot": lower_dot, "tt.dot_scaled": lower_dot_scaled}
