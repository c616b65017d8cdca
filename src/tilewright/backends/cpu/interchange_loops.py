"""Loop interchange: loops that carry tiles and only read memory move into the loops over elements of these tiles.

    %r = scf.for %i = … iter_args(%sum = %zero) {         %r = "cpu.accumulate"(…, %zero) ({
      %next = arith.addf %sum, (tt.load …)                ^bb0(%i: i32, %sum: tensor<4x1024xf32>):
      scf.yield %next                               →       %next = arith.addf %sum, (tt.load …)
    }                                                       "cpu.yield"(%next)
                                                          })

A `cpu.accumulate` is a part of a nest: for some elements at a time, all iterations of the loop run with the carried
values in registers. Otherwise each iteration would read and write whole tiles. Every element goes through the same
operations in the same order. Memory is still read in order: a row of the tile fits into registers, and the next
iteration continues after it. If rows are longer, only loops of FEW_ITERATIONS are moved, because many iterations would
read pieces of distant rows. An iteration may also read a tile of other rows, as sums along columns do: then a row is a
piece of memory of its own in either order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tilewright.backends.cpu.affine import is_affine
from tilewright.backends.cpu.costs import cost, is_tile
from tilewright.backends.cpu.reduction_splitting import STREAMING, TRANSCENDENTAL
from tilewright.backends.cpu.strides import Known, goes_on, has_own_rows, steps_of_iteration
from tilewright.backends.llvm.elementwise import is_elementwise
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.scf import For
from tilewright.dialects.tt_elementwise import Bitcast
from tilewright.dialects.tt_memory import AddPtr, Load
from tilewright.dialects.tt_program import MakeRange
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Splat
from tilewright.ir.core import Op, Region, Value, tile_type
from tilewright.ir.types import IntType, PointerType
from tilewright.transforms.matching import binary_of, integer_of
from tilewright.transforms.op_builder import OpBuilder

FEW_ITERATIONS = 4
"""Max iterations of a loop that moves inside though rows exceed the registers: it reads so many places at once."""

_PLACES = (AddPtr, Bitcast, Broadcast, ExpandDims, MakeRange, Splat)
"""Ops, besides those on elements, that loops may have."""


def interchange_loops(module: Op, target: Target) -> bool:
    """Move loops inside the loops over elements where that is legal and pays; returns whether any was."""
    loops = [op for op in module.ops_of(For) if _pays(op, target)]
    for loop in loops:
        _replace(loop)
    return bool(loops)


def _pays(loop: For, target: Target) -> bool:
    if not _may_go_inside(loop):
        return False
    if keeps_rows_in_registers(loop, target):
        (shape,) = {value.type.shape for value in loop.results if is_tile(value)}
        return _reads(loop, lambda pointer, steps: goes_on(pointer, steps) or has_own_rows(pointer, steps, shape))
    return _reads(loop, goes_on) and _has_few_iterations(loop)


def goes_along_rows(loop: For) -> bool:
    """Whether the loop does little but read memory along the rows of the tiles that it carries, and may go inside."""
    return _may_go_inside(loop) and _reads(loop, goes_on)


def _may_go_inside(loop: For) -> bool:
    """Whether the loop does little but read memory, and no element of what it carries depends on another one."""
    is_free = _carries_tiles(loop) and all(_may_be_inside(op) for op in loop.body) and _keeps_elements(loop)
    return is_free and _is_cheap(loop)


def _carries_tiles(loop: For) -> bool:
    """Whether the loop carries tiles of numbers, all of one shape, and scalars that are unused after it."""
    tiles = [value for value in loop.results if is_tile(value)]
    if any(value.uses for value in loop.results if not is_tile(value)) or not isinstance(loop.low.type, IntType):
        return False
    numbers = not any(isinstance(value.type.scalar, PointerType) for value in tiles)
    is_ordinary = "tt.disable_licm" not in loop.attributes
    return numbers and is_ordinary and len({value.type.shape for value in tiles}) == 1


def reads_own_rows(loop: For) -> bool:
    """Whether the loop may go inside, and each iteration reads other rows of the tiles that it carries."""
    if not _may_go_inside(loop):
        return False
    (shape,) = {value.type.shape for value in loop.results if is_tile(value)}
    others = [value for value in loop.carried if not is_tile(value)]
    return _reads(loop, lambda pointer, steps: has_own_rows(pointer, steps, shape), others)


def keeps_rows_in_registers(loop: For, target: Target, times: int = 1) -> bool:
    """Whether `times` rows of all carried tiles side by side fit into half the registers, and are read in one step."""
    tiles = [tile_type(value) for value in loop.results if is_tile(value)]
    vectors = [-(-times * tile.shape[-1] * tile.bits // target.vector_bits) for tile in tiles if tile.shape]
    costs = target.costs
    return 2 * sum(vectors) <= costs.registers and max(vectors, default=costs.registers) <= costs.chains


def _is_cheap(loop: For) -> bool:
    costs = [cost(op) for op in loop.body if op.results and is_tile(op.result)]
    return sum(costs) <= STREAMING and max(costs, default=0) < TRANSCENDENTAL


def _may_be_inside(op: Op) -> bool:
    if isinstance(op, Load):
        return not op.is_volatile and is_affine(op.pointer)
    is_simple = op.definition.constant or op.definition.terminator or (op.definition.elementwise and is_elementwise(op))
    return not op.regions and (is_simple or isinstance(op, _PLACES))


def _keeps_elements(loop: For) -> bool:
    """Whether what depends on carried tiles is computed element by element, and no place in memory depends on it."""
    stack = [value for value in loop.carried if is_tile(value)]
    seen = set(stack)
    while stack:
        for user in stack.pop().uses:
            if user.definition.terminator:
                continue
            if not user.definition.elementwise or isinstance(user, AddPtr):
                return False
            stack += [value for value in user.results if value not in seen]
            seen.update(user.results)
    return True


def _reads(loop: For, how: Callable[[Value, Known], bool], moving: Iterable[Value] = ()) -> bool:
    """Whether all tiles that an iteration loads lie as `how` says of their addresses, and of the steps of scalars.

    Scalars that are `moving` are others in the next iteration; nothing is said of those whose growth is not known.
    """
    pairs = list(zip(loop.carried, loop.yielded, strict=True))
    counters = [loop.induction_variable, *(value for value, next in pairs if _grows(value, next))]
    steps = steps_of_iteration(loop.body, counters, [value for value in moving if value not in counters])
    return all(how(op.pointer, steps) for op in loop.body.ops_of(Load) if is_tile(op.pointer))


def _grows(value: Value, next: Value) -> bool:
    """Whether the scalar `value` grows by a number that is known now."""
    sum = binary_of(next, "arith.addi")
    return sum is not None and sum.lhs is value and integer_of(sum.rhs) is not None


def known_trip_count(loop: For) -> int | None:
    """The number of iterations, if it is known now."""
    bounds = [number for value in loop.bounds if (number := integer_of(value)) is not None]
    return len(range(*bounds)) if len(bounds) == len(loop.bounds) and bounds[-1] > 0 else None


def _has_few_iterations(loop: For) -> bool:
    count = known_trip_count(loop)
    return count is not None and count <= FEW_ITERATIONS


def _replace(loop: For) -> None:
    body, end = loop.body, loop.body.terminator
    body.append(Op.create("cpu.yield", end.operands, location=end.location))
    end.erase()
    types = [value.type for value in loop.results]
    new = OpBuilder(loop).op("cpu.accumulate", loop.operands, types, {}, [Region([body])])
    for old, result in zip(loop.results, new.results, strict=True):
        result.name = old.name
        old.replace_by(result)
    loop.regions = ()
    loop.erase()
