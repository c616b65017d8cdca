"""`vector.dot_accumulate` and `vector.matrix_accumulate`, each as one or two machine instructions.

bf16   2   acc[j] += a[0]·b[j][0] + a[1]·b[j][1]                     vdpbf16ps
i8     4   acc[j] += a[0]·b[j][0] + … + a[3]·b[j][3]                 vpdpbusd
i16    2   as bf16                                                   vpmaddwd, vpaddd
bf16   4   acc[2·i + j] += row i of a · row j of b                   bfmmla
i8     8   acc[2·i + j] += row i of a · row j of b                   smmla
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.backends.llvm.scalable import in_register, out_of_register
from tilewright.backends.llvm.spelling import element_of, vector
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.vector import DotAccumulate, MatrixAccumulate, lanes_of


class ProductInstruction(NamedTuple):
    """LLVM's names for an instruction.

    Attributes:
        names: by the number of lanes of the accumulator.
        accumulates: it adds the products to the accumulator; if not, another one does.
        scalable: its registers are scalable vectors, in which those of a fixed length lie.
    """

    names: dict[int, str]
    accumulates: bool = True
    scalable: bool = False


INSTRUCTIONS = {
    ("x86", "bfloat", False): ProductInstruction({n: f"llvm.x86.avx512bf16.dpbf16ps.{32 * n}" for n in (4, 8, 16)}),
    ("x86", "i8", True): ProductInstruction({n: f"llvm.x86.avx512.vpdpbusd.{32 * n}" for n in (4, 8, 16)}),
    ("x86", "i16", False): ProductInstruction(
        {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"},
        accumulates=False,
    ),
    ("neon", "bfloat", False): ProductInstruction({4: "llvm.aarch64.neon.bfdot.v4f32.v8bf16"}),
    ("neon", "i8", False): ProductInstruction({4: "llvm.aarch64.neon.sdot.v4i32.v16i8"}),
    ("sve", "bfloat", False): ProductInstruction(dict.fromkeys((8, 16), "llvm.aarch64.sve.bfdot"), scalable=True),
    ("sve", "i8", False): ProductInstruction(dict.fromkeys((8, 16), "llvm.aarch64.sve.sdot.nxv4i32"), scalable=True),
}
"""Instructions that multiply row by row, by machines, element and whether the integers in `a` have no sign."""

MATRICES = {
    ("neon", "bfloat"): ProductInstruction({4: "llvm.aarch64.neon.bfmmla"}),
    ("neon", "i8"): ProductInstruction({4: "llvm.aarch64.neon.smmla.v4i32.v16i8"}),
    ("sve", "bfloat"): ProductInstruction(dict.fromkeys((8, 16), "llvm.aarch64.sve.bfmmla"), scalable=True),
    ("sve", "i8"): ProductInstruction(dict.fromkeys((8, 16), "llvm.aarch64.sve.smmla.nxv4i32"), scalable=True),
}
"""Instructions that multiply two rows by two columns, by family of machines and element."""


def accumulate_products(w: LlvmWriter, op: DotAccumulate, a: str, b: str, accumulator: str) -> str:
    """Write the op; returns the new accumulator.

    Args:
        w: writes the text.
        a, b: its factors, vectors.
        accumulator: the sums so far, a vector.
    """
    family = _family(w, lanes_of(op.result.type))
    return _accumulate(w, op, INSTRUCTIONS[family, element_of(op.a.type), op.unsigned], a, b, accumulator)


def accumulate_matrices(w: LlvmWriter, op: MatrixAccumulate, a: str, b: str, accumulator: str) -> str:
    """Write the op; returns the new accumulator.

    Args:
        w: writes the text.
        a, b: its factors, vectors.
        accumulator: the sums so far, a vector.
    """
    family = _family(w, lanes_of(op.result.type))
    return _accumulate(w, op, MATRICES[family, element_of(op.a.type)], a, b, accumulator)


def _accumulate(
    w: LlvmWriter, op: DotAccumulate | MatrixAccumulate, by: ProductInstruction, a: str, b: str, accumulator: str
) -> str:
    element, lanes = element_of(op.a.type), lanes_of(op.result.type)
    names, accumulates, scalable = by
    type, operand = vector(element_of(op.result.type), lanes), vector(element, lanes_of(op.a.type))
    if scalable:
        sums = in_register(w, element_of(op.result.type), lanes, accumulator)
        factors = [in_register(w, element, lanes_of(op.a.type), factor) for factor in (a, b)]
        total = w.call(sums[0], names[lanes], [sums, *factors])
        return out_of_register(w, element_of(op.result.type), lanes, total)
    if accumulates:
        return w.call(type, names[lanes], [(type, accumulator), (operand, a), (operand, b)])
    products = w.call(type, names[lanes], [(operand, a), (operand, b)])
    return w.emit(f"add {type} {accumulator}, {products}")


def _family(w: LlvmWriter, lanes: int) -> str:
    if not w.target.neon:
        return "x86"
    return "sve" if lanes > 4 else "neon"
