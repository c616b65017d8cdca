"""Loops along rows get a version for what is true nearly always, such as that no lane is masked off.

    "cpu.nest"() …                             →      "cpu.nest"() …
      %on = arith.cmpi slt, %i, %n                      %on = arith.cmpi slt, %i, %n
      tt.store %p, %x, %on                              tt.store %p, %x, %on
                                                        "cpu.assume"(%on) <{extent = 1024, phase = 0, axes = [0]}>

    for lane = 0 to 1024 step 16     is to be     if n >= 1024: for lane = 0 to 1024 step 16    without masks
                                                  else: for lane = 0 to 1024 step 16            under masks

A version relies on masks that are on, on quotients of a range that are one number, as it lies between two multiples,
and on divisors of floats that have a reciprocal. Each is told by numbers in front of the loop, so it is not assumed of
what depends on lanes that are loaded. A turn of a cpu.accumulate has two versions in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.backends.cpu.alignment import ELSEWHERE, Tags, least_lanes, operand_tags
from tilewright.backends.cpu.costs import ACCESSES, ATOMICS, SINKS, is_tile
from tilewright.backends.cpu.nest.loads import masks_memory
from tilewright.backends.cpu.reduction_splitting import Nest
from tilewright.dialects.arith import Division, Select
from tilewright.dialects.cpu import Accumulate, Read
from tilewright.dialects.cpu import Nest as NestOp
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_reduce import Scan
from tilewright.dialects.tt_shape import Join, Reshape
from tilewright.ir.attributes import Attribute, DenseArray, Number
from tilewright.ir.core import Block, Op, Value, tile_type
from tilewright.ir.types import IntType, f32, i64

Asked = tuple[Value, Tags]
"""A value, and by which axes of the nest it is asked for."""

_DIVISIONS = ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui")


def version_loops(module: Op) -> bool:
    """Say in the nests of `module` (ttcir) what versions of their loops rely on; returns whether there is anything."""
    nests = [op for op in module.ops_of(NestOp) if not op.optimize_size and not op.square]
    return sum(_assumptions_of(Nest(nest)) for nest in nests if _may_assume(nest)) > 0


def _may_assume(nest: NestOp) -> bool:
    return any(_named_by(op) for op in (*nest.body, *(op for a in nest.ops_of(Accumulate) for op in a.body)))


def _assumptions_of(nest: Nest) -> int:
    count = 0
    if nest.mode == "rows":
        for phase, extent, sinks in nest.every_loop():
            if not _is_one_shuffled(nest, extent) and not any(isinstance(sink, (Scan, *ATOMICS)) for sink in sinks):
                count += _assume(nest.body, phase, extent, _named(nest, sinks, nest.body))
    for op in nest.op.ops_of(Accumulate):
        (sink,) = [v for v in op.results if is_tile(v)][:1]
        count += _assume(op.body, 0, tile_type(sink).shape[-1], _named(nest, [op.body.terminator], op.body))
    return count


def _is_one_shuffled(nest: Nest, extent: int) -> bool:
    """Whether there is one chunk, whose elements trade places: computing outweighs the masks at both ends."""
    return extent <= nest.op.lanes and least_lanes(nest.body) > 1


def _assume(body: Block, phase: int, extent: int, named: Sequence[Asked]) -> int:
    """Put a cpu.assume at the end of `body` for each value; returns their number."""
    for value, tags in named:
        axes = DenseArray(i64, tuple(-1 if tag is None else tag for tag in tags))
        attributes: dict[str, Attribute] = {"extent": Number(extent, i64), "phase": Number(phase, i64), "axes": axes}
        assert value.op is not None
        body.insert(Op.create("cpu.assume", (value,), (), attributes, location=value.op.location), body.terminator)
    return len(named)


def _named(nest: Nest, sinks: Sequence[Op], body: Block) -> list[Asked]:
    """The values that a loop for `sinks` may rely on, in program order."""
    lane = len(nest.outer)
    found = dict.fromkeys(
        (value, by)
        for op, tags in _asked_by(sinks)
        for value in _named_by(op)
        for by in [tags if value in op.results else operand_tags_of(op, value, tags)]
        if ELSEWHERE not in by and value.op is not None and _may_rely_on(value, by, lane)
    )
    place = {op: number for number, op in enumerate((*nest.body, *body))}
    return sorted((key for key in found if key[0].op in place), key=lambda key: place[key[0].op])


def assumable_in(value: Value) -> list[Asked]:
    """Masks, quotients and the like that the tile `value` is computed from, in program order, by axes of the tile."""
    tags: Tags = tuple(range(len(value.type.shape or ())))
    assert value.op is not None, "it is computed"
    return [(v, by) for op, by in _asked_from([(value.op, tags)]) for v in _named_by(op) if ELSEWHERE not in by][::-1]


def operand_tags_of(op: Op, value: Value, tags: Tags) -> Tags:
    """By which axes `op` asks for its operand `value`."""
    return tags if is_tile(value) else ()


def _named_by(op: Op) -> list[Value]:
    """The masks, quotients and remainders of `op` that a version may rely on."""
    if isinstance(op, ACCESSES):
        return [op.mask] if op.mask is not None and is_tile(op.mask) else []
    if isinstance(op, Select):
        return [op.condition] if is_tile(op.condition) and masks_memory(op.condition) else []
    is_quotient = op.name in _DIVISIONS or (op.name == "arith.divf" and op.result.type.scalar is f32)
    return [op.result] if is_quotient and is_tile(op.result) else []


def _asked_by(sinks: Sequence[Op]) -> Iterator[tuple[Op, Tags]]:
    """The sinks and all ops that they are computed from, down to other sinks, and by which axes each is asked for."""
    stack: list[tuple[Op, Tags]] = []
    for sink in sinks:
        tags = tuple(range(max(len(v.type.shape or ()) for v in sink.operands)))
        yield sink, tags
        stack += [(v.op, tags) for v in sink.operands if is_tile(v) and v.op is not None]
    yield from _asked_from(stack)


def _asked_from(stack: list[tuple[Op, Tags]]) -> Iterator[tuple[Op, Tags]]:
    seen = set[tuple[Op, Tags]]()
    while stack:
        key = op, tags = stack.pop()
        if key not in seen and not isinstance(op, (*SINKS, Accumulate)):
            seen.add(key)
            yield key
            stack += [(v.op, by) for v, by in _operands(op, tags) if is_tile(v) and v.op is not None]


def _operands(op: Op, tags: Tags) -> list[Asked]:
    """By which axes each operand is asked for; halves of a row that is joined go along its lanes, too."""
    if isinstance(op, Join):
        return [(v, tags[:-1]) for v in op.operands]
    if isinstance(op, Reshape):
        shape, source = tile_type(op.result).shape, tile_type(op.source).shape
        if len(source) == len(shape) + 1 and source[: len(shape) - 1] == shape[:-1]:
            return [(op.source, (*tags, ELSEWHERE))]
    return operand_tags(op, tags)


def _may_rely_on(value: Value, tags: Tags, lane: int) -> bool:
    """Whether numbers in front of the loop may tell what is assumed of `value`."""
    op = value.op
    if not isinstance(op, Division):
        return _is_told(value, tags, lane)
    told = op.operands if isinstance(value.type.scalar, IntType) else [op.rhs]
    return lane in tags and all(_is_told(v, tags, lane) for v in told)


def _is_told(value: Value, tags: Tags, lane: int) -> bool:
    """Whether no lane of `value` depends on lanes that are loaded."""
    stack, seen = [(value, tags)], set[Asked]()
    while stack:
        key = stack.pop()
        op = key[0].op
        if key in seen or op is None or not is_tile(key[0]) or lane not in key[1]:
            continue
        seen.add(key)
        if isinstance(op, (Load, Read, *SINKS, Accumulate)):
            return False
        stack += operand_tags(op, key[1])
    return True
