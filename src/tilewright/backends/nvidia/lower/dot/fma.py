"""`tt.dot` without matrix instructions: each thread has all of k for its rows and columns.

%d = tt.dot %a, %b, %c : tensor<16x8xf32, #dot_op<0>> * tensor<8x16xf32, #dot_op<1>> -> tensor<16x16xf32, #blocked>

    %v7 = call float @llvm.fma.f32(float %a3, float %b5, float %c2)
"""

from __future__ import annotations

from tilewright.backends.nvidia.lower.dot.fragments import places
from tilewright.backends.nvidia.lower.lowerer import Lowerer
from tilewright.dialects.tt_dot import Dot


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
