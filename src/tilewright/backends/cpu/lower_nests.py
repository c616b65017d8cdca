"""ttcir → vector loops: every nest is replaced, in place, by loops over memory, and every dot by a product of matrices.

    "cpu.nest"() <{mode = rows, outer = array<i64>}> ({             %3 = vector.load %0[%2] … -> vector<8xf32>
      …tile ops…                                             →      %4 = vector.load %1[%2] … -> vector<8xf32>
      tt.store %p, %sum                                             vector.store %5, …
      "cpu.yield"()
    })

Scalars, control flow, calls and reports stay as they are.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.backends.cpu.dot.plan import columns_read
from tilewright.backends.cpu.dot.spec import DotSpec, Prefetch
from tilewright.backends.cpu.dot_masks import common_end
from tilewright.backends.cpu.dot_spec import batches_of, may_step, put_matmul, spec_of, stride_bytes
from tilewright.backends.cpu.loop_builder import LoopBuilder, offset_of, operand_of
from tilewright.backends.cpu.nest.context import Hoisted
from tilewright.backends.cpu.nest.copy_elision import (
    Matrix,
    Needed,
    element_bytes,
    elided_write,
    lower_elided,
    next_tile,
)
from tilewright.backends.cpu.nest.lane_values import Scalar
from tilewright.backends.cpu.nest.loops import lower_nest
from tilewright.backends.cpu.next_turn import NextTurn
from tilewright.backends.cpu.seen_lanes import Shown, blocks_around, seen_along, stores_of
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.cpu import CpuDot, Nest, Write, tile_of
from tilewright.dialects.scf import For
from tilewright.dialects.tt_function import Func
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.types import i8
from tilewright.transforms.functions import functions_of

LIKELY_STEP = 2
"""The distance of columns, in elements, that prefetching assumes where it is known at run time only."""


def lower_nests(module: Op, target: Target) -> None:
    """Replace the nests and the dots of a module (ttcir with placed buffers) by vector loops for `target`."""
    for function in functions_of(module):
        ops = list(function.walk())
        if any(isinstance(op, (Nest, CpuDot)) for op in ops):
            _FunctionLowering(function, target, ops).run()


class _FunctionLowering:
    """Lowers one function.

    Attributes:
        written: the scalars and buffers that there are at the op that is being lowered.
        tiles: what is read where it lies instead of being copied, by buffer: its nest, and its place.
        loops: the loops around.
        hoisted: what stands in front of earlier nests of the block.
    """

    def __init__(self, function: Func, target: Target, ops: list[Op]) -> None:
        self.function, self.target = function, target
        self.builder = LoopBuilder(Block(), entry=function.body)
        self.written: set[Value] = set()
        self.tiles: dict[Value, tuple[Nest, Matrix]] = {}
        self.loops: list[For] = []
        self.hoisted: Hoisted = {}
        self._stores: dict[Value, list[Shown]] = {}
        for buffer in filter(None, map(_filled, reversed(ops))):
            if buffer not in self._stores:
                self._stores[buffer] = stores_of(buffer, self._stores)
        self._extents: dict[tuple[Value, int, Block], Value] = {}
        self._replaced: list[Op] = []

    def run(self) -> None:
        """Lower all nests and dots."""
        self._block(self.function.body)
        for op in reversed(self._replaced):
            op.erase()

    def _block(self, block: Block) -> None:
        hoisted, self.hoisted = self.hoisted, {}
        self.written.update(block.args)
        for op in block:
            if isinstance(op, Nest):
                self._nest(op)
            elif isinstance(op, CpuDot):
                self._dot(op)
            else:
                self._inside(op)
                self.written.update(op.results)
        self.hoisted = hoisted

    def _inside(self, op: Op) -> None:
        if isinstance(op, For):
            self.loops.append(op)
        for region in op.regions:
            for block in region.blocks:
                self._block(block)
        if isinstance(op, For):
            self.loops.pop()

    def _nest(self, op: Nest) -> None:
        elided, target = elided_write(op), self.target
        self.builder.location = op.location
        results: list[Value] = []
        with self.builder.into(Block()) as b:
            if elided is None:
                results = lower_nest(b, op, target, operand_of, hoisted=self.hoisted, seen=self._seen_of(b, op))
            else:
                steps, end = may_step(elided, target), common_end(elided, target)
                needed = self._needed(b, op, elided)
                users = [dot for dot in elided.uses if isinstance(dot, CpuDot)]
                swaps = steps and all(dot.b is not elided and not dot.a_transposed for dot in users)
                tile = lower_elided(b, op, target, operand_of, may_step=steps, may_swap=swaps, end=end, needed=needed)
                self.tiles[elided] = op, tile
            built = b.block
        self._put(op, built)
        for result, value in zip(op.results, results, strict=True):
            result.replace_by(value)
        self.written.update(results)

    def _needed(self, b: LoopBuilder, nest: Nest, buffer: Value) -> Needed | None:
        """How many rows of A, or columns of B, their only product needs; None for all of them."""
        dots = [op for op in buffer.uses if isinstance(op, CpuDot)]
        if len(dots) != 1:
            return None
        (dot,) = dots
        spec = spec_of(dot)
        axis = 0 if dot.a is buffer else 1
        seen = self._seen(b, nest, dot.accumulator, axis)
        if dot.a is dot.b or seen is None or (axis == 0 and spec.a_transposed):
            return None
        read = seen if axis == 0 else columns_read(b, spec, seen, self.target)
        return None if read is None else Needed(axis, read)

    def _seen(self, b: LoopBuilder, user: Op, sums: Value, axis: int) -> Value | None:
        """How many elements along `axis` of a buffer anybody sees; None for all of them."""
        blocks = blocks_around(user)
        known = (self._extents.get((sums, axis, block)) for block in blocks)
        found = next((value for value in known if value is not None), None)
        if found is None:
            stores, target = self._stores[sums], self.target
            found = seen_along(axis, b, sums, stores, target=target, scalar=operand_of, written=self.written)
            if found is not None:
                self._extents[sums, axis, blocks[0]] = found
        return found

    def _seen_of(self, b: LoopBuilder, nest: Nest) -> dict[tuple[Value, int], Scalar]:
        """How many rows and lanes other nests show of what `nest` writes, for buffers that they do not show whole."""
        buffers = [v for op in nest.body if (v := _filled(op)) is not None] if nest.mode == "rows" else []
        outer = len(nest.outer)
        places = [(v, axis) for v in buffers if len(tile_of(v.type).shape) > outer for axis in range(outer + 1)]
        seen = {place: self._seen(b, nest, *place) for place in places}
        return {place: number for place, number in seen.items() if number is not None}

    def _put(self, op: Op, built: Block) -> None:
        """Let what was built stand where `op` does, which is erased when nothing looks at it any more."""
        self._insert(built, op)
        self._replaced.append(op)

    def _insert(self, built: Block, op: Op) -> None:
        """Put what was built in front of `op`."""
        assert op.block is not None, "it stands in the function"
        op.block.splice(built, op)

    def _dot(self, op: CpuDot) -> None:
        self.builder.location = op.location
        with self.builder.into(Block()) as b:
            self._product(b, op)
            built = b.block
        self._put(op, built)

    def _product(self, b: LoopBuilder, op: CpuDot) -> None:
        """Build the products of a dot, one for each matrix of a batch."""
        spec, batches = spec_of(op), batches_of(op)
        if batches > 1:
            with b.loop(0, batches) as loop:
                places = [b.offset(b.pointing(v, i8), b.mul(loop.index, stride_bytes(v))) for v in op.operands]
                put_matmul(b, spec, places, ())
            return
        soon = [self._prefetch(b, v) for v in (op.a, op.b)]
        spec = replace(spec, rows=self._seen(b, op, op.accumulator, 0), columns=self._seen(b, op, op.accumulator, 1))
        left, right, spec = self._in_place(b, op, spec)
        put_matmul(b, spec, [left, right, op.accumulator], [p for p in soon if p is not None])

    def _in_place(self, b: LoopBuilder, op: CpuDot, spec: DotSpec) -> tuple[Value, Value, DotSpec]:
        """The operands of a dot, and how they lie, where they are read from the memory that they come from."""
        left, right, depth = op.a, op.b, None
        if op.a in self.tiles:
            left, stride, step, _, depth = self.tiles[op.a][1]
            spec = replace(spec, a_stride=stride, a_step=step)
        if op.b in self.tiles:
            right, stride, step, _, other = self.tiles[op.b][1]
            spec = replace(spec, b_stride=stride, b_step=step)
            if depth is not None and other is not None and not depth == other == spec.k:
                spec = replace(spec, depth=offset_of(b.smin(b.number(depth), other)))
        return left, right, spec

    def _prefetch(self, b: LoopBuilder, buffer: Value) -> Prefetch | None:
        """The memory that an operand is read from in the next iteration of the loop around."""
        if buffer not in self.tiles or not self.loops:
            return None
        nest, tile = self.tiles[buffer]
        if tile.pitch is None:
            return None
        following = NextTurn(b, self.loops[-1], self.written, operand_of)
        pointer = next_tile(b, nest, self.target, following.value)
        if pointer is None:
            return None
        size = element_bytes(nest)
        rows, columns = tile_of(buffer.type).shape
        stride = tile.pitch * size if isinstance(tile.pitch, int) else b.mul(tile.pitch, size)
        spread = 1 if tile.step == 1 else LIKELY_STEP
        return Prefetch(b.pointing(pointer, i8), stride, rows, columns * size * spread)


def _filled(op: Op) -> Value | None:
    """The buffer, other than one for a row of its nest, that `op` puts results into."""
    if isinstance(op, CpuDot):
        return op.accumulator
    return op.buffer if isinstance(op, Write) and not op.row else None
