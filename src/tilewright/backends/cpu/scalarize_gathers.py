"""Gathers whose indices are in memory become scalar loads: each index is loaded where an address is made of it.

    %i = vector.load %n[%o]               →      %i0 = vector.load %n[%o] : !tt.ptr<i64> -> i64
    %v = vector.gather %p[%i]                    %p0 = tt.addptr %p, %i0
                                                 %v0 = vector.load %p0[%c0] : !tt.ptr<f32> -> f32
                                                 …
                                                 %v = vector.from_elements %v0, %v1, …

A gather takes its indices from a register. The gather instruction splits them inside of the processor; extractions take
two instructions for most lanes. Either takes longer than loading the indices one by one. Zen 5, of 1,024 rows of 256 in
L1: 50 µs instead of 109 (its instruction) and 66 (extractions from vectors of four).

The lowering computes an address from each lane's index separately, as long as that is cheap. Masks are vectors, so
masked gathers are kept; so are gathers whose indices may have been overwritten meanwhile, and those with volatile loads
of indices, because other users of the vector have to see the same values.
"""

from __future__ import annotations

from typing import TypeAlias

from tilewright.dialects.arith import Division
from tilewright.dialects.vector import Broadcast, Gather, Load, Prefetch, Step, lanes_of
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value
from tilewright.ir.effects import is_pure, writes_memory
from tilewright.ir.types import IntType, i64
from tilewright.transforms.functions import functions_of
from tilewright.transforms.matching import integer_of
from tilewright.transforms.op_builder import OpBuilder

MAX_COMPUTED = 5
"""Max number of ops between a number in memory and its address."""
WORDS = (32, 64)
"""Bits of the elements that one instruction puts from memory into a lane."""
MIN_LANES = 4
"""Min lanes of a gather: with fewer it is scalar loads in any case."""

Lanes: TypeAlias = dict[tuple[Value, int], Value]
"""The numbers in lanes, by the vector and the lane."""


def scalarize_gathers(module: Op) -> bool:
    """Load the indices of gathers in `module` as scalars; returns whether there were such gathers."""
    gathers = [op for function in functions_of(module) for op in function.ops_of(Gather)]
    chosen = [op for op in gathers if _has_numbers_in_memory(op)]
    for op in chosen:
        _scalarize(op)
    return bool(chosen)


def _has_numbers_in_memory(op: Gather) -> bool:
    """Whether `op` has no mask, and its numbers come from memory by little arithmetic."""
    element = op.result.type.scalar
    if op.mask is not None or lanes_of(op.result.type) < MIN_LANES or element.bits not in WORDS:
        return False
    loads, computed = list[Load](), 0
    seen, stack = set[Value](), [op.indices]
    while stack:
        value = stack.pop()
        made = value.op
        if value in seen or lanes_of(value.type) == 1 or integer_of(value) is not None:
            continue
        seen.add(value)
        if isinstance(made, Load):
            loads.append(made)
        elif isinstance(made, Broadcast | Step):
            continue
        elif made is not None and _is_cheap(made):
            computed += 1
            stack += made.operands
        else:
            return False
    return bool(loads) and computed <= MAX_COMPUTED and all(_is_as_loaded(load, op) for load in loads)


def _is_cheap(op: Op) -> bool:
    """Whether `op` computes integers lane by lane, and is one instruction for a lane or none."""
    return op.definition.elementwise and isinstance(op.result.type.scalar, IntType) and not isinstance(op, Division)


def _is_as_loaded(load: Load, op: Op) -> bool:
    """Whether `load` reads neighbours, and the same ones if it is executed where `op` is, as well."""
    if load.stride is not None or load.is_volatile or load.block is not op.block:
        return False
    between = load.next
    while between is not None and between is not op:
        if not isinstance(between, Prefetch) and not is_pure(between) and writes_memory(between):
            return False
        between = between.next
    return between is op


def _scalarize(op: Gather) -> None:
    at, known = OpBuilder(op), Lanes()
    zero, element = at.literal(0, i64), op.result.type.scalar
    terms = sorted(_terms(op.indices), key=_place_in_sum)
    found = []
    for lane in range(lanes_of(op.result.type)):
        place = op.base
        for term in terms:
            place = at.emit("tt.addptr", (place, _lane(at, term, lane, known)), op.base.type)
        found.append(at.emit("vector.load", (place, zero), element, {"alignment": Number(op.alignment, i64)}))
    op.replace([at.emit("vector.from_elements", found, op.result.type)])


def _terms(value: Value) -> list[Value]:
    """The terms of a sum; another value is the only one."""
    op = value.op
    if op is None or op.name != "arith.addi":
        return [value]
    return [term for operand in op.operands for term in _terms(operand)]


def _place_in_sum(term: Value) -> int:
    """The order of a term: what all lanes share comes first, once, and a lane's own number last, within its load."""
    return 0 if isinstance(term.op, Broadcast) else 2 if isinstance(term.op, Step) else 1


def _lane(at: OpBuilder, value: Value, lane: int, known: Lanes) -> Value:
    """A lane of a vector that gathers' numbers are made of, as a number; what is a number is that of all lanes."""
    if lanes_of(value.type) == 1:
        return value
    if (value, lane) not in known:
        known[value, lane] = _computed(at, value, lane, known)
    return known[value, lane]


def _computed(at: OpBuilder, value: Value, lane: int, known: Lanes) -> Value:
    op, element, number = value.op, value.type.scalar, integer_of(value)
    if number is not None:
        return at.literal(number, element)
    assert op is not None, "what a number is made of has been looked at"
    if isinstance(op, Broadcast):
        return op.source
    if isinstance(op, Step):
        return at.literal(lane, element)
    if isinstance(op, Load):
        bytes = lane * element.bits // 8
        offset = at.compute("arith.addi", op.offset, at.literal(bytes, i64)) if lane else op.offset
        return at.emit("vector.load", (op.base, offset), element, {"alignment": _alignment(op, bytes)})
    operands = [_lane(at, operand, lane, known) for operand in op.operands]
    return at.emit(op.name, operands, element, dict(op.attributes))


def _alignment(op: Load, bytes: int) -> Number:
    """The alignment of an address so many bytes behind that of `op`."""
    shared = op.alignment | bytes
    return Number(shared & -shared, i64)
