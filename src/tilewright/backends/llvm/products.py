"""`vector.dot_accumulate`, `vector.matrix_accumulate` and the ops of `amx`, each as one or two machine instructions.

bf16   2   acc[j] += a[0]·b[j][0] + a[1]·b[j][1]                     vdpbf16ps
i8     4   acc[j] += a[0]·b[j][0] + … + a[3]·b[j][3]                 vpdpbusd
i16    2   as bf16                                                   vpmaddwd, vpaddd
bf16   4   acc[2·i + j] += row i of a · row j of b                   bfmmla
i8     8   acc[2·i + j] += row i of a · row j of b                   smmla
bf16   2   tiles of 16 rows                                          tdpbf16ps
i8     4   tiles of 16 rows                                          tdpbssd

LLVM allocates tile registers and configures them. A process may use them once it has asked Linux for them, as their
contents are large to save: kernels with such ops ask on entry, wherever they run (Documentation/arch/x86/xstate.rst).
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tilewright.backends.llvm.scalable import in_register, out_of_register
from tilewright.backends.llvm.spelling import element_of, vector
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.amx import ROW_BYTES, ROWS, TileMultiply
from tilewright.dialects.vector import DotAccumulate, MatrixAccumulate, lanes_of
from tilewright.ir.types import f32
from tilewright.support.system.linux import REQUEST_TILES

Accumulation: TypeAlias = DotAccumulate | MatrixAccumulate | TileMultiply


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

TILE = "x86_amx"
"""LLVM's type of a tile register."""
_EXTENTS = (("i16", str(ROWS)), ("i16", str(ROW_BYTES)))


def accumulate(w: LlvmWriter, op: Accumulation, a: str, b: str, accumulator: str) -> str:
    """Write the op; returns the new accumulator.

    Args:
        w: writes the text.
        a, b: its factors, vectors or tiles.
        accumulator: the sums so far, of the same kind.
    """
    if isinstance(op, TileMultiply):
        name = "tdpbf16ps" if op.accumulator.type.scalar is f32 else "tdpbssd"
        tiles = [("i16", str(ROW_BYTES)), (TILE, accumulator), (TILE, a), (TILE, b)]
        return w.call(TILE, f"llvm.x86.{name}.internal", [*_EXTENTS, *tiles])
    family, element = _family(w, lanes_of(op.result.type)), element_of(op.a.type)
    if isinstance(op, MatrixAccumulate):
        return _accumulate(w, op, MATRICES[family, element], a, b, accumulator)
    by = INSTRUCTIONS[family, element, op.unsigned]
    return _accumulate(w, op, by, a, b, accumulator)


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


def tile_load(w: LlvmWriter, address: str, stride: str) -> str:
    """Write the op; returns the tile."""
    return w.call(TILE, "llvm.x86.tileloadd64.internal", [*_EXTENTS, ("ptr", address), ("i64", stride)])


def tile_store(w: LlvmWriter, address: str, stride: str, value: str) -> None:
    """Write the op."""
    w.call_void("llvm.x86.tilestored64.internal", [*_EXTENTS, ("ptr", address), ("i64", stride), (TILE, value)])


def request_tiles(w: LlvmWriter) -> None:
    """Ask Linux for tile registers, which takes a tenth of a microsecond; whoever has them is given them again."""
    registers = "={rax},{rax},{rdi},{rsi},~{rcx},~{r11},~{memory}"
    numbers = ", ".join(f"i64 {number}" for number in REQUEST_TILES)
    w.emit(f'call i64 asm sideeffect "syscall", "{registers}"({numbers})')
