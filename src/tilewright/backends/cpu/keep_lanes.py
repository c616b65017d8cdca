"""Lane values that all rows of a nest share are computed once, before the rows, and kept on the stack.

    scf.for %r = 0 to %rows {                               scf.parallel %i = 0 to 128 step 16 {
      %p = A(%r)                                              vector.store B(%i), %kept[%i * 8]
      scf.parallel %i = 0 to 128 step 16 {                  }
        %places = B(%i)                              →      scf.for %r = 0 to %rows {
        vector.store … %p … %places …                         %p = A(%r)
      }                                                       scf.parallel %i = 0 to 128 step 16 {
    } {cpu.rows}                                                %places = vector.load %kept[%i * 8]
                                                                vector.store … %p … %places …
                                                              }
                                                            }

The addresses of a convolution's pixels, and whether these are contiguous, are the same for all channels. Only rows
whose addresses are tested for being contiguous have the mark `cpu.rows`; lanes of others are cheap.
"""

from __future__ import annotations

from tilewright.backends.cpu.loop_builder import LoopBuilder, offset_of
from tilewright.backends.cpu.loop_facts import ROWS, number_in, width_of
from tilewright.dialects.scf import For, Parallel
from tilewright.dialects.traits import WritesMemory
from tilewright.dialects.vector import NONEMPTY, UNROLL, lanes_of
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.declare import Effect
from tilewright.ir.types import Type, VectorType, i1, i8, with_element
from tilewright.transforms.functions import functions_of

MIN_GAIN = 6
"""Min number of ops on vectors that a row no longer computes, beyond two for each value that it loads instead."""

MAX_BYTES = 8192
"""Max bytes of the stack for the lanes of one nest: a part of the L1 cache."""


def keep_lanes(module: Op) -> bool:
    """Keep values that the rows of marked loops of `module` share, where that pays; returns whether there are any."""
    found = False
    for function in functions_of(module):
        loops = [op for op in function.ops_of(For) if ROWS in op.attributes]
        builder = LoopBuilder(Block(), entry=function.body) if loops else None
        for rows in loops:
            assert builder is not None, "there are loops"
            row = number_in(rows, ROWS)
            del rows.attributes[ROWS]
            lanes = _only_loop(rows)
            plan = None if lanes is None else _Plan(rows, lanes, row)
            if plan is not None and plan.pays_off():
                plan.keep(builder)
        found |= bool(loops)
    return found


def _only_loop(rows: For) -> Parallel | None:
    """The loop over the lanes of a row, if all rows have as many and nothing else is stored there."""
    loops = [op for op in rows.body if op.regions]
    is_only = len(loops) == 1 and not rows.body.ops_of(WritesMemory)
    lanes = loops[0] if is_only else None
    if not isinstance(lanes, Parallel) or lanes.results or offset_of(lanes.low) != 0 or _is_in(lanes.high, rows.body):
        return None
    return lanes


class _Plan:
    """The values that the rows of one loop share.

    Attributes:
        row: the max number of lanes of a row.
        shared: the ops of an iteration that do not depend on the row.
        costly: those of them that are more than a number computed from the lane.
        kept: the results of those that the rest of an iteration needs.
        factors: the bytes of the stack for each lane of these.
    """

    def __init__(self, rows: For, lanes: Parallel, row: int) -> None:
        self.rows, self.lanes, self.row = rows, lanes, row
        self.shared = _independent(lanes, rows)
        self.costly = _costly(self.shared)
        rest = [op for user in lanes.body if user not in self.shared for op in user.walk()]
        self.kept = list(dict.fromkeys(v for op in rest for v in op.operands if v.op in self.costly))
        self.factors = [-(-_bytes(value.type) // width_of(lanes)) for value in self.kept]

    def pays_off(self) -> bool:
        """Whether a row is short, and computes much more than it would load."""
        wide = sum(any(isinstance(v.type, VectorType) for v in (*op.operands, *op.results)) for op in self.costly)
        is_gain = bool(self.kept) and wide >= MIN_GAIN + 2 * len(self.kept)
        return is_gain and self.row * sum(self.factors) <= MAX_BYTES

    def keep(self, b: LoopBuilder) -> None:
        """Build the loop before the rows, and let iterations load what it has stored."""
        self.lanes.attributes.pop(UNROLL, None)  # what is left is short, but for lanes that are read one by one
        kept = zip(self.kept, self.factors, strict=True)
        places = [(value, b.stack(self.row * factor), factor) for value, factor in kept]
        b.location = self.lanes.location
        with b.before(self.rows):
            if NONEMPTY in self.rows.attributes:
                self._compute(b, places)
            else:
                with b.branch(b.compare("slt", self.rows.low, self.rows.high)) as branch, branch.then():
                    self._compute(b, places)
        for place in places:
            self._load(b, *place)
        for op in reversed(self.shared):
            if not any(value.uses for value in op.results):
                op.erase()

    def _compute(self, b: LoopBuilder, places: list[tuple[Value, Value, int]]) -> None:
        """Build the loop that computes what is kept."""
        with b.parallel(0, self.lanes.high, width_of(self.lanes), unroll=1, facts={}) as loop:
            copies = {self.lanes.induction_variable: loop.index}
            for op in self.shared:
                b.append(op.clone(copies))
            for value, start, factor in places:
                is_truth = value.type.scalar is i1
                stored = b.extend(copies[value], i8, signed=False) if is_truth else copies[value]
                b.store(stored, start, b.mul(loop.index, factor))

    def _load(self, b: LoopBuilder, value: Value, start: Value, factor: int) -> None:
        """Load what is kept where it is needed first."""
        users = [op for op in value.uses if op not in self.shared]
        blocks = {op.block for op in users}
        block = users[0].block if len(blocks) == 1 else self.lanes.body
        assert block is not None, "users stand in the loop"
        first = next(op for op in block if op in users or op.regions)
        with b.before(first):
            loaded = b.load(_stored(value.type), start, b.mul(self.lanes.induction_variable, factor))
            loaded = b.compare("ne", loaded, 0) if value.type.scalar is i1 else loaded
        for op in users:
            op.set_operands([loaded if operand is value else operand for operand in op.operands])


def _independent(lanes: Parallel, rows: For) -> list[Op]:
    """The ops of an iteration of `lanes` that do not depend on the iteration of `rows`."""
    found = dict[Op, None]()
    for op in lanes.body:
        own = [v.op for v in op.operands if _is_in(v, lanes.body) and v is not lanes.induction_variable]
        is_pure = not op.regions and not isinstance(op, WritesMemory) and not op.definition.terminator
        if is_pure and all(maker in found for maker in own) and not any(_is_in(v, rows.body) for v in op.operands):
            found[op] = None
    return list(found)


def _is_in(value: Value, block: Block) -> bool:
    return value in block.args or (value.op is not None and value.op.block is block)


def _costly(shared: list[Op]) -> set[Op]:
    """The ops that read memory or vectors, or the results of such ops."""
    found = set[Op]()
    for op in shared:
        is_wide = any(isinstance(value.type, VectorType) for value in (*op.operands, *op.results))
        if is_wide or op.definition.effect is not Effect.NONE or any(value.op in found for value in op.operands):
            found.add(op)
    return found


def _bytes(type: Type) -> int:
    """The bytes of a value in memory."""
    return lanes_of(type) * (max(8, type.scalar.bits) // 8)


def _stored(type: Type) -> Type:
    """The type of what memory holds: truth values are bytes."""
    return with_element(type, i8) if type.scalar is i1 else type
