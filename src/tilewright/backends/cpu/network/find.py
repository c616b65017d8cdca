"""Chains of steps that each order elements and their partners at a distance become one op on a buffer.

    %p = tt.gather %x[%i ^ 2]                                      %b = cpu.alloc
    %l = arith.select (%p > %x), %p, %x                     →      cpu.write %x, %b
    %s = arith.select (%p < %x), %p, %x                            cpu.network %b <{distances = [2, …], …}>
    %y = arith.select ((%i & 2) != 0), %l, %s ; …                  %y = cpu.read %b

A tile has to fill as many vectors as a pass needs, and intermediate results of a chain must have no other use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tilewright.analysis.gather_distance import distance_of_indices, is_place
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.arith import Binary, Compare, Constant, Select
from tilewright.dialects.cpu import buffer_type
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Gather
from tilewright.ir.attributes import Attribute, DenseArray, Keyword, Number
from tilewright.ir.core import Block, Op, Value, defining, tile_type
from tilewright.ir.types import TensorType, i1, i64
from tilewright.transforms.functions import functions_of
from tilewright.transforms.matching import is_zero

MIN_STEPS = 3
"""Min number of steps that a buffer pays off for."""
MIN_VECTORS = 4
"""Min number of vectors that a tile fills: a step needs a bit for partners and one for directions."""
MAX_DEPTH = 4
"""Max depth of XORs of conditions: a step has two bits, that of partners and that of directions."""
NARROWEST = 128
"""Min bits of vectors, the width that all CPUs have."""
LESS = {"ogt": "olt", "sgt": "slt", "ugt": "ult"}
"""The predicate for a smaller element by that for a larger one."""


class Exchange(NamedTuple):
    """One step: `partner` looks up what lies at the distance, `result` is behind the step, and its ops."""

    partner: Gather
    result: Value
    ops: tuple[Op, ...]
    distance: int
    direction_bit: int
    is_descending: bool
    predicate: str

    @property
    def source(self) -> Value:
        """The value before the step; another one, when the chain before it was replaced."""
        return self.partner.source


def find_networks(module: Op, target: Target) -> bool:
    """Replace chains of sorting steps by ops on buffers; returns whether there were any."""
    chains = [chain for function in functions_of(module) for block in _blocks(function) for chain in _chains(block)]
    wide = [chain for chain in chains if _is_wide(tile_type(chain[0].source), target) and len(chain) >= MIN_STEPS]
    for chain in wide:
        _replace(chain)
    return bool(wide)


def _blocks(function: Op) -> Iterator[Block]:
    for region in function.regions:
        for block in region.blocks:
            yield block
            for op in block:
                yield from _blocks(op)


def lanes_for(tile: TensorType, target: Target) -> int:
    """The lanes of vectors of which the tile fills MIN_VECTORS."""
    return min(target.lanes(tile.element.bits), tile.numel // MIN_VECTORS)


def _is_wide(tile: TensorType, target: Target) -> bool:
    bits = tile.numel * tile.element.bits
    return tile.element is not i1 and bits > target.vector_bits and bits >= MIN_VECTORS * NARROWEST


def _chains(block: Block) -> list[list[Exchange]]:
    """The steps of a block, those together that follow each other."""
    chains: dict[Value, list[Exchange]] = {}
    for op in block:
        step = exchange_of(op) if isinstance(op, Select) else None
        if step is None:
            continue
        chain = chains.pop(step.source, [])
        if chain and not (chain[-1].predicate == step.predicate and all(user in step.ops for user in step.source.uses)):
            chains[step.source] = chain
            chain = []
        chains[step.result] = [*chain, step]
    return list(chains.values())


def exchange_of(op: Select) -> Exchange | None:
    """The step that ends with the selection `op` between the larger and the smaller of two partners."""
    sides = [defining(side, Select) for side in (op.chosen, op.other)]
    partner = None if sides[0] is None else defining(sides[0].chosen, Gather)
    if partner is None:
        return None
    predicates: list[str] = []
    made: list[Op] = [partner]
    for side in sides:
        condition = None if side is None else defining(side.condition, Compare)
        pair = [partner.result, partner.source]
        if side is None or condition is None or not [*condition.operands] == [*side.operands[1:]] == pair:
            return None
        predicates.append(condition.predicate)
        made += [condition, side]
    return _exchange(op, partner, predicates, [*made, op])


def _exchange(op: Select, partner: Gather, predicates: Sequence[str], made: Sequence[Op]) -> Exchange | None:
    """The step whose ops are `made`, if it puts elements in order along rows."""
    source, axis, distance = partner.source, partner.axis, distance_of_indices(partner)
    bits = _bits(op.condition, axis)
    if distance is None or bits is None or LESS.get(predicates[0]) != predicates[1]:
        return None
    *_, length = tile_type(source).shape
    direction, is_descending = (bits[0] ^ distance) & (length - 1), bits[1]
    is_row = axis == len(tile_type(source).shape) - 1 and source.type is op.result.type
    if not is_row or not is_power(distance) or direction & distance or (direction and not is_power(direction)):
        return None
    return Exchange(partner, op.result, tuple(made), distance, direction, is_descending, predicates[0])


def _bits(condition: Value, axis: int, depth: int = 0) -> tuple[int, bool] | None:
    """The bits of places along the axis whose XOR a condition is, and whether it is the opposite of that."""
    op = condition.op
    if isinstance(op, Binary) and op.name == "arith.xori" and depth < MAX_DEPTH:
        sides = [_bits(side, axis, depth + 1) for side in (op.lhs, op.rhs)]
        a, b = sides
        return None if a is None or b is None else (a[0] ^ b[0], a[1] != b[1])
    if isinstance(op, Compare) and op.predicate in ("eq", "ne") and is_zero(op.rhs):
        bit = _bit(op.lhs, axis)
        return None if bit is None else (bit, op.predicate == "eq")
    if isinstance(op, Constant):
        return (0, bool(op.value.value)) if isinstance(op.value, Number) else None
    if isinstance(op, Broadcast):
        is_along = tile_type(op.source).shape[axis] == tile_type(op.result).shape[axis]
        return _bits(op.source, axis, depth) if is_along else None
    if isinstance(op, ExpandDims) and op.axis != axis:
        return _bits(op.source, axis - (op.axis < axis), depth)
    return None


def _bit(value: Value, axis: int) -> int | None:
    """The one bit of places along the axis that `value` is, or None."""
    op = value.op
    if not (isinstance(op, Binary) and op.name == "arith.andi" and is_place(op.lhs, axis)):
        return None
    mask = defining(op.rhs, Constant)
    number = int(mask.value.value) if mask is not None and isinstance(mask.value, Number) else 0
    return number if is_power(number) else None


def is_power(number: int) -> bool:
    """Whether it is a power of two."""
    return number > 0 and not number & (number - 1)


def _replace(chain: Sequence[Exchange]) -> None:
    """Put a network into the place of the steps."""
    first, last = chain[0], chain[-1]
    at = first.partner
    assert at.block is not None, "it stands in the function"
    type = tile_type(first.source)
    numbers = {
        "distances": [step.distance for step in chain],
        "direction_bits": [step.direction_bit for step in chain],
        "descending": [int(step.is_descending) for step in chain],
    }
    attributes: dict[str, Attribute] = {
        **{name: DenseArray(i64, tuple(values)) for name, values in numbers.items()},
        "predicate": Keyword(first.predicate),
    }
    location = last.ops[-1].location
    alloc = at.block.insert(Op.create("cpu.alloc", (), (buffer_type(type),), location=location), at)
    for op in (
        Op.create("cpu.write", (first.source, alloc.result), (), location=location),
        Op.create("cpu.network", (alloc.result,), (), attributes, location=location),
    ):
        at.block.insert(op, at)
    read = at.block.insert(Op.create("cpu.read", (alloc.result,), (type,), location=location), at)
    last.result.replace_by(read.result)
    for step in reversed(chain):
        for op in reversed(step.ops):
            if not op.result.uses:
                op.erase()
