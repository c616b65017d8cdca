"""`ttg.global_scratch_alloc`: a program's own part of the memory that a launch gives all programs.

%m = ttg.global_scratch_alloc {…}       scratch parameter + number of this program * bytes of one + offset
"""

from __future__ import annotations

from tilewright.backends.nvidia.lower.lowerer import GLOBAL_POINTER, Lowerer, Lowering
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op
from tilewright.transforms.gpu.allocate_global_scratch import OFFSET, SIZE

PARAMETER = "%global_scratch"


def scratch_of(lowerer: Lowerer, op: Op) -> str:
    """The address of the scratch memory of `op`, an allocation or a call."""
    offset = op.attributes.get(OFFSET)
    start = _start(lowerer)
    if not isinstance(offset, Number) or not offset.value:
        return start
    return lowerer.w.emit(f"getelementptr inbounds i8, {GLOBAL_POINTER} {start}, i64 {offset.value}")


def _start(lowerer: Lowerer) -> str:
    """The address of the scratch memory of this function: a function that is called is given its part."""
    size = lowerer.function.attributes.get(SIZE)
    if not lowerer.is_kernel or not isinstance(size, Number) or not size.value:
        return PARAMETER
    return lowerer.once("global scratch", lambda: _of_program(lowerer, int(size.value)))


def _of_program(lowerer: Lowerer, size: int) -> str:
    w, number = lowerer.w, lowerer.special("ctaid.z")
    for axis in "yx":
        product = w.emit(f"mul i32 {number}, {lowerer.special(f'nctaid.{axis}')}")
        number = w.emit(f"add i32 {product}, {lowerer.special(f'ctaid.{axis}')}")
    distance = w.emit(f"mul i64 {w.emit(f'zext i32 {number} to i64')}, {size}")
    return w.emit(f"getelementptr inbounds i8, {GLOBAL_POINTER} {PARAMETER}, i64 {distance}")


def _alloc(lowerer: Lowerer, op: Op) -> None:
    lowerer.bind(op.result, [scratch_of(lowerer, op)])


LOWERINGS: dict[str, Lowering] = {"ttg.global_scratch_alloc": _alloc}
