"""`vector.dot_accumulate`: one instruction, or two, of the machine.

bf16   2   acc[j] += a[0]·b[j][0] + a[1]·b[j][1]                     vdpbf16ps
i8     4   acc[j] += a[0]·b[j][0] + … + a[3]·b[j][3]                 vpdpbusd
i16    2   as bf16                                                   vpmaddwd, vpaddd
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.backends.llvm.spelling import element_of, vector
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.vector import DotAccumulate, lanes_of


class Instruction(NamedTuple):
    """LLVM's names for an instruction.

    Attributes:
        names: by the number of lanes of the accumulator.
        accumulates: it adds the products to the accumulator; if not, another one does.
    """

    names: dict[int, str]
    accumulates: bool = True


INSTRUCTIONS = {
    ("x86", "bfloat", False): Instruction({n: f"llvm.x86.avx512bf16.dpbf16ps.{32 * n}" for n in (4, 8, 16)}),
    ("x86", "i8", True): Instruction({n: f"llvm.x86.avx512.vpdpbusd.{32 * n}" for n in (4, 8, 16)}),
    ("x86", "i16", False): Instruction(
        {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"},
        accumulates=False,
    ),
    ("neon", "bfloat", False): Instruction({4: "llvm.aarch64.neon.bfdot.v4f32.v8bf16"}),
    ("neon", "i8", False): Instruction({4: "llvm.aarch64.neon.sdot.v4i32.v16i8"}),
}
"""By family of machines, element and whether the integers in `a` have no sign."""


def accumulate_products(w: LlvmWriter, op: DotAccumulate, a: str, b: str, accumulator: str) -> str:
    """Write the op; returns the new accumulator."""
    element, lanes = element_of(op.a.type), lanes_of(op.result.type)
    names, accumulates = INSTRUCTIONS["neon" if w.target.neon else "x86", element, op.unsigned]
    type, operand = vector(element_of(op.result.type), lanes), vector(element, lanes_of(op.a.type))
    if accumulates:
        return w.call(type, names[lanes], [(type, accumulator), (operand, a), (operand, b)])
    products = w.call(type, names[lanes], [(operand, a), (operand, b)])
    return w.emit(f"add {type} {accumulator}, {products}")
