"""Inline PTX of a program.

    %y = tt.elementwise_inline_asm "add.f16x2 $0, $1, $2;" {constraints = "=r,r,r", packed_element = 2 : i32, …} %a, %b

    %v = call <2 x half> asm "add.f16x2 $0, $1, $2;", "=r,r,r"(<2 x half> %a01, <2 x half> %b01)

`packed_element` elements are computed at once. Elements narrower than 32 bits share registers. `ttg.inline_asm` is one
piece of assembly for all registers of a thread; a buffer in shared memory is passed as its address.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.llvm.spelling import vector
from tilewright.backends.llvm.writer import Typed
from tilewright.backends.nvidia.lower.buffers import buffer_pointer
from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering
from tilewright.backends.nvidia.lower.tiles import registers_of
from tilewright.dialects.tt_elementwise import InlineAsm
from tilewright.dialects.ttg_program import ThreadAsm
from tilewright.ir.core import Value
from tilewright.ir.types import MemDescType, PointerType, Type

REGISTER = 32
"""Bits of a register that narrower elements share."""


def _elementwise(lowerer: Lowerer, op: InlineAsm) -> None:
    packed = op.pack
    count = registers_of(lowerer, op.results[0].type)
    given = [_padded(_spread(lowerer.registers(value), count), packed) for value in op.arguments]
    found: list[list[str]] = [[] for _ in op.results]
    for first in range(0, count, packed):
        blocks = [own[first : first + packed] for own in given]
        for own, values in zip(found, _block(lowerer, op, blocks, packed), strict=True):
            own += values
    for result, values in zip(op.results, found, strict=True):
        lowerer.bind(result, values[:count])


def _spread(registers: Sequence[str], count: int) -> list[str]:
    """A scalar beside tiles is there for every register."""
    return list(registers) * count if len(registers) == 1 else list(registers)


def _padded(registers: list[str], packed: int) -> list[str]:
    return registers + ["poison"] * (-len(registers) % packed)


def _block(lowerer: Lowerer, op: InlineAsm, blocks: Sequence[Sequence[str]], packed: int) -> list[list[str]]:
    """One piece of assembly: per operand its elements; returns those of each result."""
    operands: list[Typed] = []
    for value, elements in zip(op.arguments, blocks, strict=True):
        operands += _shared(lowerer, value.type, elements)
    sizes = [min(max(REGISTER // _bits(result.type), 1), packed) for result in op.results]
    types = [vector(lowerer.element(result.type), size) for result, size in zip(op.results, sizes, strict=True)]
    all_types = [type for type, size in zip(types, sizes, strict=True) for _ in range(packed // size)]
    found = lowerer.assembly_results(all_types, op.text, operands, constraints=op.constraints, effects=not op.pure)
    parts = iter(found)
    return [
        [element for _ in range(packed // size) for element in _elements(lowerer, type, next(parts), size)]
        for type, size in zip(types, sizes, strict=True)
    ]


def _shared(lowerer: Lowerer, type: Type, elements: Sequence[str]) -> list[Typed]:
    """The elements, as many to a register as fit."""
    w, element = lowerer.w, lowerer.element(type)
    size = min(max(REGISTER // _bits(type), 1), len(elements))
    found = []
    for first in range(0, len(elements), size):
        part = elements[first : first + size]
        packed, *_ = part
        if size > 1:
            packed = "poison"
            for index, value in enumerate(part):
                packed = w.insert(vector(element, size), packed, element, value, index)
        found.append((vector(element, size), packed))
    return found


def _elements(lowerer: Lowerer, type: str, value: str, size: int) -> list[str]:
    return [value] if size == 1 else [lowerer.w.extract(type, value, index) for index in range(size)]


def _bits(type: Type) -> int:
    return 64 if isinstance(type.scalar, PointerType) else type.scalar.bits


def _of_thread(lowerer: Lowerer, op: ThreadAsm) -> None:
    """One piece of assembly with all registers of each operand, and the address of each buffer."""
    operands: list[Typed] = []
    for value in op.arguments:
        if isinstance(value.type, MemDescType):
            operands.append(("i32", _origin(lowerer, value)))
        else:
            element = lowerer.element(value.type)
            operands += [(element, register) for register in lowerer.registers(value)]
    counts = [registers_of(lowerer, result.type) for result in op.results]
    types = [
        lowerer.element(result.type) for result, count in zip(op.results, counts, strict=True) for _ in range(count)
    ]
    found = iter(lowerer.assembly_results(types, op.text, operands, constraints=op.constraints, effects=not op.pure))
    for result, count in zip(op.results, counts, strict=True):
        lowerer.bind(result, [next(found) for _ in range(count)])


def _origin(lowerer: Lowerer, value: Value) -> str:
    """The address of a buffer's first element."""
    return lowerer.w.emit(f"ptrtoint ptr addrspace(3) {buffer_pointer(lowerer, value)} to i32")


LOWERINGS: dict[str, Lowering] = {"tt.elementwise_inline_asm": _elementwise, "ttg.inline_asm": _of_thread}
