"""Tiles whose elements follow from their coordinates: ranges, constants, splats; and pointers.

%r = tt.make_range {start = 0, end = 128}        the coordinate of each register
%s = tt.splat %x                                 the scalar, in every register
%b = tt.broadcast %c : 64x1 -> 64x32             for each register, the one with the same element of the source
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod

from tilewright.analysis.buffer_aliases import is_in_shared_memory
from tilewright.backends.llvm.spelling import in_registers, literal
from tilewright.backends.nvidia.lower.buffers import SharedBuffer
from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering, llvm_element, shared_results
from tilewright.dialects.arith import Constant
from tilewright.dialects.tt_memory import AddPtr, pointee_type
from tilewright.dialects.tt_program import MakeRange
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Splat
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, tile_type
from tilewright.ir.types import TensorType, Type
from tilewright.layouts.linear_layout import LinearLayout


def memory_element(type: Type) -> str:
    """The LLVM type of one element in memory: a truth value takes a byte."""
    element = llvm_element(type)
    return "i8" if element == "i1" else element


def registers_of(lowerer: Lowerer, type: Type) -> int:
    """The number of registers of each thread that a value takes."""
    return lowerer.layout(type).in_size("register") if isinstance(type, TensorType) else 1


def _constant(lowerer: Lowerer, op: Constant) -> None:
    constant, type = op.value, op.result.type
    element = lowerer.element(type)
    if isinstance(constant, Number):
        lowerer.bind(op.result, [literal(in_registers(constant.value, type), element)] * registers_of(lowerer, type))
    else:
        _table(lowerer, op, [literal(in_registers(value, type), element) for value in constant.values])


def _table(lowerer: Lowerer, op: Op, values: Sequence[str]) -> None:
    """A tile of different numbers is read from constant memory."""
    w, element, type = lowerer.w, lowerer.element(op.result.type), tile_type(op.result)
    array = f"[{len(values)} x {element}] [{', '.join(f'{element} {value}' for value in values)}]"
    name = w.define(w.fresh_label("table"), f"internal addrspace(4) constant {array}, align 16")
    strides = [prod(type.shape[axis + 1 :]) for axis in range(len(type.shape))]
    found = []
    for coordinates in lowerer.coordinates(lowerer.layout(type)):
        place = "0"
        for coordinate, stride in zip(coordinates, strides, strict=True):
            place = w.emit(f"add i32 {place}, {w.emit(f'mul i32 {coordinate}, {stride}')}")
        pointer = w.emit(f"getelementptr {element}, ptr addrspace(4) {name}, i32 {place}")
        found.append(w.emit(f"load {element}, ptr addrspace(4) {pointer}"))
    lowerer.bind(op.result, found)


def _poison(lowerer: Lowerer, op: Op) -> None:
    if is_in_shared_memory(op.result):
        lowerer.bind_buffer(op.result, SharedBuffer("poison"))
        return
    lowerer.bind(op.result, ["poison"] * registers_of(lowerer, op.result.type))


def _make_range(lowerer: Lowerer, op: MakeRange) -> None:
    places = [place for (place,) in lowerer.coordinates(lowerer.layout(op.result))]
    if op.start:
        places = [lowerer.w.emit(f"add i32 {place}, {op.start}") for place in places]
    lowerer.bind(op.result, places)


def _splat(lowerer: Lowerer, op: Splat) -> None:
    lowerer.bind(op.result, [lowerer.scalar(op.source)] * registers_of(lowerer, op.result.type))


def _broadcast(lowerer: Lowerer, op: Broadcast) -> None:
    chosen = clipped_registers(lowerer.layout(op.source), lowerer.layout(op.result))
    registers = lowerer.registers(op.source)
    lowerer.bind(op.result, [registers[number] for number in chosen])


def _expand_dims(lowerer: Lowerer, op: ExpandDims) -> None:
    chosen = expanded_registers(lowerer.layout(op.source), lowerer.layout(op.result), op.axis)
    registers = lowerer.registers(op.source)
    lowerer.bind(op.result, [registers[number] for number in chosen])


@cache
def clipped_registers(source: LinearLayout, result: LinearLayout) -> list[int]:
    """Per register of `result` that of `source` with the same element, where axes of extent 1 have but one."""
    shape = source.shape
    return _chosen(source, result, lambda place: tuple(c % size for c, size in zip(place, shape, strict=True)))


@cache
def expanded_registers(source: LinearLayout, result: LinearLayout, axis: int) -> list[int]:
    """Per register of `result` that of `source`, which lacks `axis`."""
    return _chosen(source, result, lambda place: place[:axis] + place[axis + 1 :])


def _chosen(
    source: LinearLayout, result: LinearLayout, project: Callable[[tuple[int, ...]], tuple[int, ...]]
) -> list[int]:
    count = source.in_size("register")
    first = {source.apply(register=number): number for number in reversed(range(count))}
    return [first[project(result.apply(register=number))] for number in range(result.in_size("register"))]


def _add_pointer(lowerer: Lowerer, op: AddPtr) -> None:
    w, type, index = lowerer.w, lowerer.element(op.result.type), lowerer.element(op.offset.type)
    inside = memory_element(pointee_type(op.result.type))
    pairs = zip(lowerer.registers(op.pointer), lowerer.registers(op.offset), strict=True)
    found = shared_results(pairs, lambda pair: w.emit(f"getelementptr {inside}, {type} {pair[0]}, {index} {pair[1]}"))
    lowerer.bind(op.result, found)


LOWERINGS: dict[str, Lowering] = {
    "arith.constant": _constant,
    "llvm.mlir.undef": _poison,
    "tt.addptr": _add_pointer,
    "tt.broadcast": _broadcast,
    "tt.expand_dims": _expand_dims,
    "tt.make_range": _make_range,
    "tt.splat": _splat,
    "tt.unsplat": lambda lowerer, op: lowerer.bind(op.result, lowerer.registers(op.source)[:1]),
    "ub.poison": _poison,
}
