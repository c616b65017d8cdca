"""Loop versioning for what nearly always holds, such as that no lane is masked off.

    "cpu.nest"() …                             →      "cpu.nest"() …
      %on = arith.cmpi slt, %i, %n                      %on = arith.cmpi slt, %i, %n
      tt.store %p, %x, %on                              tt.store %p, %x, %on
                                                        "cpu.assume"(%on) <{extent = 1024, phase = 0, axes = [0]}>

    for lane = 0 to 1024 step 16     is to be     if n >= 1024: for lane = 0 to 1024 step 16    without masks
                                                  else: for lane = 0 to 1024 step 16            under masks

A version relies on full masks, on quotients of a range that are uniform because it lies between two multiples, and on
divisors of floats that have a reciprocal. Scalars before the loop determine each of them, so nothing that depends on
loaded lanes is assumed. Loops of atomics have one version, unless nothing competes for the memory. An iteration of a
cpu.accumulate has two in the same way, and so has a loop along columns, for what all its rows share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tilewright.backends.cpu.alignment import ELSEWHERE, Tags, least_lanes, operand_tags
from tilewright.backends.cpu.costs import ACCESSES, ATOMICS, conjuncts, is_sink, is_tile
from tilewright.backends.cpu.nest.loads import is_mask
from tilewright.backends.cpu.reduction_splitting import Nest
from tilewright.backends.cpu.version_atomics import OWN
from tilewright.dialects.arith import Division, Select
from tilewright.dialects.cpu import Accumulate, Read
from tilewright.dialects.cpu import Nest as NestOp
from tilewright.dialects.tt_atomics import AtomicRmw
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_reduce import Reduce
from tilewright.dialects.tt_shape import Join, Reshape
from tilewright.ir.attributes import Attribute, DenseArray, Number
from tilewright.ir.core import Block, Op, Value, tile_type
from tilewright.ir.types import IntType, f32, i64

Asked = tuple[Value, Tags]
"""A value, and by which axes of the nest it is asked for."""


def version_loops(module: Op) -> bool:
    """List in the nests of `module` (ttcir) what fast versions of their loops rely on; returns whether there is any."""
    nests = [op for op in module.ops_of(NestOp) if not op.optimize_size and not op.square]
    return sum(_assume_in(Nest(nest)) for nest in nests if any(_named_by(op) for op in _ops_of(nest))) > 0


def _ops_of(nest: NestOp) -> list[Op]:
    """The ops of a nest, and those of its loops behind them."""
    return [*nest.body.ops(), *(op for loop in nest.ops_of(Accumulate) for op in loop.body)]


def _assume_in(nest: Nest) -> int:
    """Put a cpu.assume into `nest` for all that its loops may rely on; returns their number."""
    count = 0
    for phase, extent, sinks in nest.every_loop():
        if nest.mode != "rows":
            count += _put(nest.body, phase, extent, _assumable_down(nest, sinks))
        elif not _is_one_shuffled(nest, extent) and not any(_competes(sink) for sink in sinks):
            count += _put(nest.body, phase, extent, _assumable(nest, sinks))
    for loop in nest.op.ops_of(Accumulate):
        tile = next(filter(is_tile, loop.results))
        count += _put(loop.body, 0, tile_type(tile).shape[-1], _assumable(nest, [loop.body.terminator]))
    return count


def _competes(sink: Op) -> bool:
    """Whether `sink` is more than a load, an operation and a store: masks are a small part of what it takes."""
    return isinstance(sink, ATOMICS) and not (isinstance(sink, AtomicRmw) and sink.scope == OWN)


def _is_one_shuffled(nest: Nest, extent: int) -> bool:
    """Whether there is one chunk, whose elements trade places: computing outweighs the masks at both ends."""
    return extent <= nest.op.lanes and least_lanes(nest.body) > 1


def _put(body: Block, phase: int, extent: int, asked: Sequence[Asked]) -> int:
    """Put a cpu.assume at the end of `body` for each value; returns their number."""
    for value, tags in asked:
        axes = DenseArray(i64, tuple(-1 if tag is None else tag for tag in tags))
        attributes: dict[str, Attribute] = {"extent": Number(extent, i64), "phase": Number(phase, i64), "axes": axes}
        assert value.op is not None, "it is computed"
        body.insert(Op.create("cpu.assume", (value,), (), attributes, location=value.op.location), body.terminator)
    return len(asked)


def _assumable(nest: Nest, sinks: Sequence[Op]) -> list[Asked]:
    """The values that a loop for `sinks` may rely on, in program order."""
    lane, asked = len(nest.outer), list[tuple[Op, Tags]]()
    for sink in sinks:
        tags: Tags = tuple(range(max(len(v.type.shape or ()) for v in sink.operands)))
        asked.append((sink, tags))
        asked += _asked_by((v, tags) for v in sink.operands)
    return [key for key in _in_order(asked, _ops_of(nest.op)) if _is_told(*key, lane)]


def _assumable_down(nest: Nest, sinks: Sequence[Op]) -> list[Asked]:
    """The values that a loop down columns may rely on, none of which differs from row to row: quotients, and masks.

    Nothing is gained where there are masks alone, as each is computed once for all rows.
    """
    if not all(isinstance(sink, Reduce) for sink in sinks):
        return []
    loads = [op for sink in sinks for op in nest.closures[sink] if isinstance(op, Load) and op.mask is not None]
    masks = {part for load in loads if load.mask is not None for part in conjuncts(load.mask)}
    asked = list(_asked_by((v, tuple(range(len(nest.outer) + 1))) for sink in sinks for v in sink.operands))
    named = [(value, tags) for op, tags in asked for value in op.results if value in masks or _is_quotient(op)]
    told = [key for key in named if not {ELSEWHERE, nest.axis} & {*key[1]} and _is_told(*key, len(nest.outer))]
    place: dict[Op | None, int] = {op: number for number, op in enumerate(nest.body)}
    found = sorted(dict.fromkeys(told), key=lambda key: place[key[0].op])
    has_quotients = any(isinstance(value.op, Division) for value, _ in found)
    return [(value, _without(nest.axis, tags)) for value, tags in found] if has_quotients else []


def _is_quotient(op: Op) -> bool:
    return isinstance(op, Division) and isinstance(op.result.type.scalar, IntType)


def _without(axis: int, tags: Tags) -> Tags:
    """The axes of a nest when its loops have none for `axis`."""
    return tuple(tag - 1 if isinstance(tag, int) and tag > axis else tag for tag in tags)


def assumable_in(value: Value, ops: Iterable[Op]) -> list[Asked]:
    """The values that a version may rely on where `ops` compute the tile `value`, in their order, by its axes."""
    return _in_order(_asked_by([(value, tuple(range(len(value.type.shape or ()))))]), ops)


def _in_order(asked: Iterable[tuple[Op, Tags]], ops: Iterable[Op]) -> list[Asked]:
    """The masks, quotients and the like that are named by ops which are asked for, in the order of `ops`."""
    found = dict.fromkeys((v, tags) for op, tags in asked if ELSEWHERE not in tags for v in _named_by(op))
    place: dict[Op | None, int] = {op: number for number, op in enumerate(ops)}
    return sorted((key for key in found if key[0].op in place), key=lambda key: place[key[0].op])


def _named_by(op: Op) -> list[Value]:
    """The masks, quotients and remainders of `op` that a version may rely on."""
    if isinstance(op, ACCESSES) or (isinstance(op, AtomicRmw) and not _competes(op)):
        return [op.mask] if op.mask is not None and is_tile(op.mask) else []
    if isinstance(op, Select):
        return [op.condition] if is_mask(op) else []
    if not isinstance(op, Division) or not is_tile(op.result):
        return []
    type = op.result.type.scalar
    return [op.result] if isinstance(type, IntType) or (op.name == "arith.divf" and type is f32) else []


def _asked_by(asked: Iterable[Asked]) -> Iterator[tuple[Op, Tags]]:
    """The ops that these values are computed from, down to sinks, and by which axes each is asked for."""
    stack, seen = list(asked), set[Asked]()
    while stack:
        key = value, tags = stack.pop()
        op = value.op
        if key not in seen and is_tile(value) and op is not None and not (is_sink(op) or isinstance(op, Accumulate)):
            seen.add(key)
            yield op, tags
            stack += _operands(op, tags)


def _operands(op: Op, tags: Tags) -> list[Asked]:
    """By which axes each operand is asked for; halves of a row that is joined go along its lanes, too."""
    if isinstance(op, Join):
        return [(v, tags[:-1]) for v in op.operands]
    if isinstance(op, Reshape):
        shape, source = tile_type(op.result).shape, tile_type(op.source).shape
        if len(source) == len(shape) + 1 and source[: len(shape) - 1] == shape[:-1]:
            return [(op.source, (*tags, ELSEWHERE))]
        if source[-1:] == shape[-1:]:
            return [(op.source, (*(ELSEWHERE,) * (len(source) - 1), tags[-1]))]
    return operand_tags(op, tags)


def _is_told(value: Value, tags: Tags, lane: int) -> bool:
    """Whether values before the loop may decide the assumption on `value`: no lane of it is loaded."""
    op = value.op
    if not isinstance(op, Division):
        return not _is_loaded([(value, tags)], lane)
    known = op.operands if isinstance(value.type.scalar, IntType) else [op.rhs]
    return lane in tags and not _is_loaded([(v, tags) for v in known], lane)


def _is_loaded(asked: Iterable[Asked], lane: int) -> bool:
    """Whether lanes of these values depend on lanes in memory, or on ones that are summed up, or carried by a loop."""
    stack, seen = list(asked), set[Asked]()
    while stack:
        key = value, tags = stack.pop()
        op = value.op
        if key not in seen and is_tile(value) and lane in tags:
            seen.add(key)
            if op is None or is_sink(op) or isinstance(op, (Load, Read, Accumulate)):
                return True
            stack += operand_tags(op, tags)
    return False
