"""Loop interchange: iterations that only add to rows of a buffer, and continue along rows of memory, run row by row.

    scf.for %start = 0 to %columns step 1024 {       scf.for %row = 0 to 4 {
      scf.for %row = 0 to 4 {                          scf.for %start = 0 to %columns step 1024 {
        %sum = %buffer + %row * 1024             →       %sum = %buffer + %row * 1024
        %x = %memory + %row * %columns + %start          %x = %memory + %row * %columns + %start
        %sum[…] = %sum[…] + %x[…]                        %sum[…] = %sum[…] + %x[…]
      }                                                } {cpu.along}
    }                                                }

Otherwise memory is read one piece of each row after the other, each on another page, and hardware prefetchers stop at
the end of the piece. A row of the buffer stays in the L1 cache, too. Every element goes through the same operations in
the same order: no iteration reads another row, and only rows of buffers are stored to. Loops over rows that fit into
registers were moved inside before (`interchange_loops.py`).
"""

from __future__ import annotations

from tilewright.analysis.value_flow import backward_slice
from tilewright.backends.cpu.address_growth import Growth
from tilewright.backends.cpu.loop_builder import LoopBuilder, known, offset_of
from tilewright.backends.cpu.loop_facts import (
    ALONG,
    PROGRAMS,
    ROWS,
    RUNS,
    Access,
    first_address,
    lanes_of_row,
    width_of,
)
from tilewright.dialects.arith import Division
from tilewright.dialects.cpu import Alloc
from tilewright.dialects.scf import For, Parallel
from tilewright.dialects.tt_elementwise import Bitcast
from tilewright.dialects.tt_memory import AddPtr, pointee_type
from tilewright.dialects.vector import Load, MaskedLoad, MaskedStore, Store, lanes_of
from tilewright.ir.attributes import UNIT
from tilewright.ir.core import Block, Op, Value, defining
from tilewright.ir.declare import Effect
from tilewright.ir.types import Type
from tilewright.transforms.functions import functions_of
from tilewright.transforms.matching import binary_of

STORES = (Store, MaskedStore)


def interchange_rows(module: Op) -> bool:
    """Interchange loops of `module` with the loops over rows inside, where legal; returns whether any were."""
    found = False
    for function in functions_of(module):
        for loop in function.ops_of(For):
            rows = _rows_of(loop)
            if rows is not None and _keeps_rows_apart(rows) and _goes_on(loop, rows):
                _interchange(loop, rows)
                found = True
    return found


def _rows_of(loop: For) -> For | None:
    """The loop over several rows that is all that an iteration does, if every iteration has the same rows."""
    inside = [op for op in loop.body.ops() if op.definition.effect is not Effect.NONE and not op.definition.terminator]
    rows = inside[0] if len(inside) == 1 else None
    if not isinstance(rows, For) or loop.results or rows.results or known(rows.high) == 1:
        return None
    marks = {PROGRAMS, ROWS} & (loop.attributes.keys() | rows.attributes.keys())
    has_runs = any(RUNS in op.attributes for op in rows.ops_of(Parallel))
    fixed, moving = _parts_of(loop, rows)
    is_same = not any(value.op in moving or value is loop.induction_variable for value in rows.bounds)
    is_safe = not any(isinstance(op, Division) for op in fixed)
    return rows if is_same and is_safe and not marks and not has_runs else None


def _parts_of(loop: For, rows: For) -> tuple[list[Op], list[Op]]:
    """The numbers before `rows` that all iterations share, and those that differ from iteration to iteration."""
    differ, fixed, moving = {loop.induction_variable}, list[Op](), list[Op]()
    for op in loop.body:
        if op is rows or op.definition.terminator:
            continue
        if differ.isdisjoint(op.operands):
            fixed.append(op)
        else:
            moving.append(op)
            differ.update(op.results)
    return fixed, moving


def _keeps_rows_apart(rows: For) -> bool:
    """Whether all stores are to rows of buffers, each in its own iteration of `rows`, which nothing else reads."""
    accesses = list[Access]()
    for op in rows.walk():
        if isinstance(op, (Load, MaskedLoad, *STORES)):
            accesses.append(op)
        elif op is not rows and (isinstance(op, For) or op.definition.effect not in (Effect.NONE, Effect.RECURSIVE)):
            return False
    stores = [op for op in accesses if isinstance(op, STORES)]
    own = {row for op in stores if (row := _own_row(op, rows)) is not None}
    stored = {buffer for row in own for buffer in _buffers_of(row)}
    is_apart = len(own) == len(stored) and all(_own_row(op, rows) in own for op in stores)
    others = (op for op in accesses if _own_row(op, rows) not in own)
    return bool(stores) and is_apart and all(stored.isdisjoint(_buffers_of(op.base)) for op in others)


def _own_row(access: Access, rows: For) -> Value | None:
    """The address of the row of a buffer that `access` keeps to, where each iteration of `rows` has another one."""
    along = _loop_along(access, rows)
    row = access.base if along is None else first_address(along, access)
    step = None if row is None else defining(row, AddPtr)
    if step is None or access.stride is not None or offset_of(access.offset) != 0:
        return None
    width, type = _width_of(step.offset, rows), _type_of(access)
    lanes = lanes_of(type) if along is None else -(-lanes_of_row(along) // width_of(along)) * width_of(along)
    is_within = 0 < lanes * type.scalar.bits <= width * pointee_type(step.result.type).bits
    return row if is_within and isinstance(_without_casts(step.pointer).op, Alloc) else None


def _loop_along(access: Access, rows: For) -> Parallel | None:
    """The loop along a row around `access`."""
    site = access.parent
    while site is not rows and not isinstance(site, Parallel):
        assert site is not None, "it stands in the loop over rows"
        site = site.parent
    return site if isinstance(site, Parallel) else None


def _width_of(place: Value, rows: For) -> int:
    """The elements from row to row, where `place` is the first one of a row; 0: not known."""
    product = binary_of(place, "arith.muli")
    factors = [] if product is None else [value for value in product.operands if value is not rows.induction_variable]
    number = known(factors[0]) if len(factors) == 1 else 1 if place is rows.induction_variable else 0
    return number if isinstance(number, int) else 0


def _type_of(access: Access) -> Type:
    return access.value.type if isinstance(access, STORES) else access.result.type


def _without_casts(pointer: Value) -> Value:
    while isinstance(pointer.op, Bitcast):
        pointer = pointer.op.operand
    return pointer


def _buffers_of(address: Value) -> set[Value]:
    """The buffers that an address may lie in."""
    return {op.results[0] for op in backward_slice(address) if isinstance(op, Alloc)}


def _goes_on(loop: For, rows: For) -> bool:
    """Whether each iteration reads on where the previous one ended, and some of it is rows that are longer."""
    aside = Block()
    b = LoopBuilder(aside, entry=aside)  # nothing that is computed here stays
    growth, steps = Growth(b, loop, "", loop), list[bool]()
    for load in rows.ops_of(Load):
        along = _loop_along(load, rows)
        row = None if along is None else first_address(along, load)
        if along is not None and row is not None and not _buffers_of(row):
            step, bytes = growth.of(row), lanes_of_row(along) * load.result.type.scalar.bits // 8
            steps.append(step == bytes != 0)
    for op in reversed(list(aside)):
        op.erase()
    return bool(steps) and all(steps)


def _interchange(loop: For, rows: For) -> None:
    fixed, _ = _parts_of(loop, rows)
    block = loop.block
    assert block is not None, "it stands in a function"
    block.splice([*fixed, rows], loop)
    inner = [op for op in rows.body if not op.definition.terminator]
    loop.body.splice(inner, loop.body.terminator)
    rows.body.splice([loop], rows.body.terminator)
    loop.attributes[ALONG] = UNIT
