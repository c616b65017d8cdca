"""The `cpu` dialect: loop nests executed op by op on whole tiles, buffers as arrays.

Buffers that `allocate_buffers` has placed share the program's arena, so that a wrong overlap changes results. Memory
starts with a bit pattern that no kernel expects, so that reads of buffers before they are written show as well. A
buffer of one row, which the rows of a nest write one after the other, is kept for all rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dialects.cpu import (
    ALL_PHASES,
    Alloc,
    Assume,
    Clip,
    CpuDot,
    Matmul,
    Nest,
    Network,
    ProgramsAhead,
    Read,
    Take,
    Write,
    tile_of,
)
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.dialects.scf import For
from tilewright.dialects.tt_elementwise import Bitcast
from tilewright.dialects.tt_memory import pointee_type
from tilewright.dialects.tt_program import AXES
from tilewright.interpreter.dots import multiply_add
from tilewright.interpreter.machine import Interpreter, executes
from tilewright.interpreter.memory import Array
from tilewright.ir.core import Op, Value
from tilewright.ir.declare import OPS
from tilewright.ir.errors import require
from tilewright.ir.types import FloatType, PointerType, TensorType

UNWRITTEN = 0x7B


@executes("cpu.alloc")
def _alloc(machine: Interpreter, op: Alloc, *_: Any) -> Any:
    tile = tile_of(op.results[0].type)
    dtype = numpy_dtype(tile)
    offset, size = _offset(op), tile.numel * dtype.itemsize
    if offset is None:
        memory = np.full(size, UNWRITTEN, np.uint8)
    elif op.outlives:
        memory = machine.lasting.setdefault(offset, np.full(size, UNWRITTEN, np.uint8))
    else:
        memory = _arena(machine, op)[offset : offset + size]
    return memory.view(dtype).reshape(tile.shape)


@executes("tt.bitcast")
def _bitcast(machine: Interpreter, op: Bitcast, value: Any) -> Any:
    """Vector loops see the address of a buffer; other bits are reinterpreted."""
    if not (isinstance(op.operand.type, PointerType) and isinstance(op.operand.type.pointee, TensorType)):
        assert op.definition.semantics is not None, "bits have a meaning"
        return op.definition.semantics(op, value)
    return _address(machine, value)


def _address(machine: Interpreter, buffer: Array) -> np.int64:
    """The address of a buffer, which may be accessed by addresses from now on."""
    place = (int(buffer.ctypes.data), int(buffer.nbytes))
    seen: set[tuple[int, int]] = machine.state("buffers with addresses", set)
    if place not in seen:
        seen.add(place)
        machine.memory.admit(buffer)
    return np.int64(place[0])


def _offset(op: Alloc) -> int | None:
    """The place in the arena, once `allocate_buffers` has found one."""
    return op.offset if "offset" in op.attributes else None


def _arena(machine: Interpreter, op: Op) -> Array:
    """The scratch memory of the program, large enough for all buffers of the function around `op`."""
    if machine.arena is None:
        outermost = op
        while outermost.parent is not None:
            outermost = outermost.parent
        buffers = [inner for inner in outermost.walk() if isinstance(inner, Alloc)]
        sizes = ((_offset(b) or 0, tile_of(b.results[0].type)) for b in buffers)
        top = max(offset + tile.numel * numpy_dtype(tile).itemsize for offset, tile in sizes)
        machine.arena = np.full(top, UNWRITTEN, np.uint8)
    return machine.arena


@executes("cpu.write")
def _write(machine: Interpreter, op: Write, tile: Any, buffer: Any, *_: Any) -> Any:
    if op.row:
        machine.rows[op.buffer] = np.array(tile)
        buffer[...] = UNWRITTEN
    else:
        buffer[...] = np.array(tile)


@executes("cpu.read")
def _read(machine: Interpreter, op: Read, buffer: Any) -> Any:
    return machine.rows[op.buffer].copy() if op.row else buffer.copy()


@executes("cpu.nest")
def _nest(machine: Interpreter, op: Nest, *_: Any) -> Any:
    return machine.run_region(op.region, ())[1]


@executes("cpu.clip")
def _clip(machine: Interpreter, op: Clip, mask: Any) -> Any:
    """On whole tiles a nest computes all lanes, so nothing happens if the mask is on up to some lane.

    A sum that it compares may wrap in the tile, and the mask be on again from there on.

    Raises:
        VerificationError: the mask is on again more often.
    """
    lanes = np.moveaxis(mask, op.axes.index(0 if op.phase == ALL_PHASES else max(op.axes)), -1)
    on_again = lanes[..., 1:] & ~lanes[..., :-1]
    require(on_again.sum(-1).max(initial=0) <= 1, op, "the mask that ends a loop is on again and again behind the end")


@executes("cpu.assume")
def _assume(machine: Interpreter, op: Assume, value: Any) -> Any:
    """Nothing: whether it holds is tested."""


@executes("cpu.programs_ahead")
def _programs_ahead(machine: Interpreter, op: ProgramsAhead, *_: Any) -> Any:
    """As many as the grid has, of loops over memory; a nest over tiles computes the tiles of one program."""
    axis = AXES.index(op.axis)
    has_tiles = any(isinstance(inner, Nest) for function in machine.functions.values() for inner in function.walk())
    return np.int64(1 if has_tiles else machine.grid[axis] - machine.program[axis])


@executes("cpu.runs_alone")
def _runs_alone(machine: Interpreter, op: Op, *_: Any) -> Any:
    """Whether the program is the only one: each program is a claim of its own."""
    return np.bool_(machine.grid == (1, 1, 1))


@executes("cpu.is_first")
def _is_first(machine: Interpreter, op: Op, *_: Any) -> Any:
    return np.bool_(machine.is_first)


@executes("cpu.take")
def _take(machine: Interpreter, op: Take, count: Any) -> Any:
    axis, (x, y, z) = op.axis, machine.program
    more = range(1, int(count))
    machine.left_out += [(x + n * (axis == "x"), y + n * (axis == "y"), z + n * (axis == "z")) for n in more]


@executes("cpu.store")
def _store(machine: Interpreter, op: Op, pointer: Any, value: Any, buffer: Any, *mask: Any) -> Any:
    """Store at once, and to the buffer for a copy that may follow: in program order that is the same."""
    buffer[...] = value
    machine.memory.write(pointer, value, mask[0] if mask else None, op)


@executes("cpu.redirect")
def _redirect(machine: Interpreter, op: Op, condition: Any, buffer: Any, pointer: Any) -> Any:
    if not condition:
        return pointer
    places = np.arange(buffer.size, dtype=np.int64).reshape(buffer.shape)
    return _address(machine, buffer) + places * buffer.itemsize


@executes("cpu.dot")
def _dot(machine: Interpreter, op: CpuDot, a: Any, b: Any, c: Any, *_: Any) -> Any:
    a, b = (np.swapaxes(x, -1, -2) if swapped else x for x, swapped in ((a, op.a_transposed), (b, op.b_transposed)))
    values, loop = machine.environment, op.parent
    is_first = op.first_iteration and isinstance(loop, For) and values[loop.induction_variable] == values[loop.low]
    start = np.zeros_like(c) if op.zero_init or is_first else c
    c[...] = multiply_add(a, b, start)


@executes("cpu.network")
def _network(machine: Interpreter, op: Network, rows: Any) -> Any:
    places = np.arange(rows.shape[-1])
    semantics = OPS["arith.cmpf" if isinstance(tile_of(op.buffer.type).element, FloatType) else "arith.cmpi"].semantics
    assert semantics is not None, "comparisons have a meaning"
    for distance, bit, is_descending in zip(op.distances, op.direction_bits, op.descending, strict=True):
        partners = rows[..., places ^ distance]
        wants_larger = ((places & distance) != 0) ^ ((places & bit) != 0) ^ (is_descending != 0)
        moves = np.where(wants_larger, semantics(op, partners, rows), semantics(op, rows, partners))
        rows[...] = np.where(moves, partners, rows)


@executes("cpu.matmul")
def _matmul(machine: Interpreter, op: Matmul, a: Any, b: Any, c: Any, *numbers: Any) -> None:
    a_stride, a_step, b_stride, b_step, depth, rows, columns, zero_init = (int(number) for number in numbers[:8])
    steps_of_a = (a_step, a_stride) if op.a_transposed else (a_stride, a_step)
    steps_of_b = (b_step, b_stride) if op.b_transposed else (b_stride, b_step)

    def places(value: Value, first: Any, shape: tuple[int, int], steps: tuple[int, int]) -> tuple[Any, Any]:
        dtype = numpy_dtype(pointee_type(value.type))
        row, column = np.ogrid[: shape[0], : shape[1]]
        return np.int64(first) + (row * steps[0] + column * steps[1]) * dtype.itemsize, dtype

    left = machine.memory.read(*places(op.a, a, (rows, depth), steps_of_a), None, op)
    there = places(op.b, b, (depth, columns), steps_of_b)
    if op.keeps:
        panels, kept = numbers[8:10]
        packed = places(op.b, panels, (depth, columns), (columns, 1))
        if not kept:
            machine.memory.write(packed[0], machine.memory.read(*there, None, op), None, op)
        there = packed
    sources = [(left, there)]
    if op.waits:
        waits, count, table = numbers[10:13]
        if waits:
            return
        entries = np.int64(table) + np.arange(2 * int(count)).reshape(-1, 2) * 8
        told = machine.memory.read(entries, np.dtype(np.int64), None, op)
        sources = [
            (
                machine.memory.read(*places(op.a, first, (rows, depth), steps_of_a), None, op),
                places(op.b, packed_b, (depth, columns), (columns, 1)),
            )
            for first, packed_b in told
        ]
    where, dtype = places(op.sums, c, (rows, columns), (op.shape[1], 1))
    start = np.zeros(where.shape, dtype) if zero_init else machine.memory.read(where, dtype, None, op)
    for left, there in sources:
        start = multiply_add(left, machine.memory.read(*there, None, op), start)
    machine.memory.write(where, start, None, op)
