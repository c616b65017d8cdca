"""Copy elision: products read operands that are plain loads in place, if they are a matrix there.

    "cpu.nest"() … {                               %place, %stride = scf.if %is_matrix {
      "cpu.write"(tt.load %p, %a) {elide_copy}       scf.yield %first, %pitch
    }                                          →   } else {
    "cpu.dot"(%a, %b, %c)                            "cpu.nest"() …
                                                     scf.yield %a, 64 }
                                                   "cpu.matmul"(%place, %b, %c, %stride, …)

The test is a few scalar instructions per tile: rows have one stride, columns are contiguous, no lane is masked off. The
copy would be one more pass over the tile. Rows at arbitrary addresses are always copied, up to the end of the product;
the copy runs along rows if columns turn out not to be contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tilewright.backends.cpu.costs import conjuncts
from tilewright.backends.cpu.dot.plan import columns_read, plan_of, takes_steps
from tilewright.backends.cpu.dot.spec import DotSpec, Prefetch, batches_of, put_matmul, spec_of, stride_bytes
from tilewright.backends.cpu.dot_masks import common_end, source_of
from tilewright.backends.cpu.loop_builder import LoopBuilder, offset_of, operand_of
from tilewright.backends.cpu.nest.context import Context, Guarded
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import (
    ZERO,
    ActiveLaneBound,
    Address,
    Affine,
    Scalar,
    Uniform,
    pointer,
)
from tilewright.backends.cpu.nest.loads import is_on, single_address
from tilewright.backends.cpu.nest.versions import at, rely
from tilewright.backends.cpu.next_iteration import NextIteration
from tilewright.backends.cpu.order_programs import order_of
from tilewright.backends.cpu.prefetch_tiles import computed_from, result_rows, rows_ahead, rows_of_next_program
from tilewright.backends.cpu.version_loops import assumable_in
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.arith import IntegerRemainder
from tilewright.dialects.cpu import CpuDot, Nest, Write, buffer_type, tile_of
from tilewright.dialects.scf import For
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_memory import Load
from tilewright.ir.attributes import Attribute, DenseArray
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.types import TensorType, i8, i32, i64
from tilewright.transforms.functions import functions_of


class Matrix(NamedTuple):
    """The place of a tile in memory.

    Attributes:
        pointer: the address of the first element.
        stride, step: the distances of rows and of columns in elements.
        pitch: the distance of rows in the program's memory, where the next tile lies, too; None: rows lie anywhere.
        depth: how many rows or columns along the product's k count, one at least; None if that was not asked for.
    """

    pointer: Value
    stride: Scalar
    step: Scalar = 1
    pitch: Scalar | None = None
    depth: Scalar | None = None


def copy_elision(module: Op, target: Target) -> bool:
    """Turn the products of `module` (ttcir) into products of matrices anywhere in memory; returns whether any were."""
    found = [function for function in functions_of(module) if function.ops_of(CpuDot)]
    for function in found:
        _Products(function, target).run()
    return bool(found)


class _Products:
    """The products of one function.

    Attributes:
        written: the scalars and buffers that there are at the op at hand.
        tiles: what may be read in place, by buffer, and its place.
        computed: what other operands are computed from, by buffer, and the nest that does it.
        loops: the loops around.
    """

    def __init__(self, function: Func, target: Target) -> None:
        self.function, self.target = function, target
        self.builder = LoopBuilder(Block(), entry=function.body)
        self.written: set[Value] = set()
        self.tiles: dict[Value, tuple[_Tile, Matrix]] = {}
        self.computed: dict[Value, tuple[Load, Nest]] = {}
        self.loops: list[For] = []

    def run(self) -> None:
        """Place all operands and build all products."""
        self._block(self.function.body)
        for tile, _ in self.tiles.values():
            if tile.nest.block is None:
                tile.nest.erase()

    def _block(self, block: Block) -> None:
        self.written.update(block.args)
        for op in block:
            if isinstance(op, Nest):
                self._nest(op)
            elif isinstance(op, CpuDot):
                self._dot(op)
            else:
                self._inside(op)
                self.written.update(op.results)

    def _inside(self, op: Op) -> None:
        if isinstance(op, For):
            self.loops.append(op)
        for region in op.regions:
            for block in region.blocks:
                self._block(block)
        if isinstance(op, For):
            self.loops.pop()

    def _nest(self, nest: Nest) -> None:
        """Place the tile that `nest` copies for a product, if it does no more."""
        self.written.update(nest.results)
        after, write = nest.next, nest.copy
        if write is None:
            self._computes(nest)
            return
        nest.unlink()
        self.builder.location = nest.location
        with self.builder.before(after):
            tile = _Tile(self.builder, nest, write, self.target)
            self.tiles[write.buffer] = tile, tile.placed()

    def _computes(self, nest: Nest) -> None:
        """Remember what the operands of products that `nest` computes are made of."""
        for write in nest.body.ops_of(Write):
            if any(isinstance(user, CpuDot) and write.buffer is not user.accumulator for user in write.buffer.uses):
                load = computed_from(nest, write)
                if load is not None:
                    self.computed[write.buffer] = load, nest

    def _dot(self, op: CpuDot) -> None:
        with self.builder.in_place_of(op):
            self._product(self.builder, op)

    def _product(self, b: LoopBuilder, op: CpuDot) -> None:
        """Build the products of a dot, one for each matrix of a batch."""
        spec, batches, places = spec_of(op), batches_of(op), (op.a, op.b, op.accumulator)
        if op.first_iteration:
            loop = self.loops[-1]
            spec = replace(spec, zero_init=b.compare("eq", loop.induction_variable, loop.low))
        if batches > 1:
            with b.loop(0, batches) as each:
                parts = [b.offset(b.pointing(v, i8), b.mul(each.index, stride_bytes(v))) for v in places]
                put_matmul(b, spec, parts, ())
            return
        plan = plan_of(spec, self.target)
        factors = (op.a, op.b) if plan is not None and plan.prefetches else ()
        found = [self._prefetch(b, op, factor) for factor in factors]
        soon = [replace(tile, operand=number) for number, tile in enumerate(found) if tile is not None]
        result = self._after_the_loop(b, op) if soon and self.target.costs.prefetched_results else None
        left, right, spec = self._in_place(b, op, spec)
        put_matmul(b, spec, [left, right, op.accumulator], soon if result is None else [*soon, result])

    def _after_the_loop(self, b: LoopBuilder, op: CpuDot) -> Prefetch | None:
        """The memory that the loop around a product is followed by: where its result goes, or the next program's A."""
        loop = self.loops[-1]
        found = result_rows(b, op, loop, self.written)
        if found is None and op.a in self.computed and op.block is loop.body:
            load, nest = self.computed[op.a]
            if nest.block is loop.block:
                return rows_of_next_program(b, load, nest, order_of(self.function)[0])
        return found

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

    def _prefetch(self, b: LoopBuilder, op: CpuDot, buffer: Value) -> Prefetch | None:
        """The memory that an operand is read from in the next iteration of the loop around."""
        if buffer in self.computed and self.loops:
            load, nest = self.computed[buffer]
            following = NextIteration(b, self.loops[-1], self.written, operand_of)
            return rows_ahead(b, load, nest, following.value) if nest.block is op.block else None
        if buffer not in self.tiles or not self.loops:
            return None
        tile, place = self.tiles[buffer]
        if place.pitch is None:
            return None
        pointer = tile.first(NextIteration(b, self.loops[-1], self.written, operand_of))
        if pointer is None:
            return None
        size, (rows, columns) = max(1, tile_of(buffer.type).element.bits // 8), tile.extents
        stride = place.pitch * size if isinstance(place.pitch, int) else b.mul(place.pitch, size)
        return Prefetch(b.pointing(pointer, i8), stride, rows, columns * size)


class _Tile:
    """An operand that is a plain load: the test whether it lies there as a matrix, and the copy if it does not.

    Attributes:
        b: where the ops go.
        nest, write: what copies it.
        may_step: columns need not be neighbours to be read in place.
        may_swap: columns of the copy need not be neighbours either.
        end: where the product ends; None if it takes the whole tile.
        needed: the axis along which so many rows or columns, perhaps none, are read; None: all are.
        ends: how many rows and columns are copied.
    """

    def __init__(self, b: LoopBuilder, nest: Nest, write: Write, target: Target) -> None:
        self.b, self.nest, self.write, self.target, buffer = b, nest, write, target, write.buffer
        rows, columns = self.extents = tile_of(buffer.type).shape
        source = source_of(write.value)
        assert source is not None, "only copies of loads are elided"
        self.source = source
        self.c = Context(b, operand_of, 1)
        dots = [op for op in buffer.uses if isinstance(op, CpuDot)]
        places = [(op, place) for op in dots for place, factor in enumerate((op.a, op.b)) if factor is buffer]
        self.may_step = all(takes_steps(spec_of(op), place, target) for op, place in places)
        self.may_swap = self.may_step and not any(place == 1 or op.a_transposed for op, place in places)
        self.end = common_end(buffer, target)
        self.needed = self._needed(*places[0]) if write.seen else None
        self.ends: list[Scalar] = [rows, columns]
        if self.needed is not None:
            axis, self.ends[axis] = self.needed

    def _needed(self, dot: CpuDot, axis: int) -> tuple[int, Value] | None:
        """The axis along which the only product reads a part, and how many of its elements."""
        seen = self.write.seen[axis]
        read = seen if axis == 0 else columns_read(self.b, spec_of(dot), seen, self.target)
        return None if read is None else (axis, read)

    def placed(self) -> Matrix:
        """Build the test and the copy; returns where the tile lies then."""
        c, b, (_, columns) = self.c, self.b, self.extents
        depth = self._depth()
        in_place = self._in_place(depth)
        if in_place is None:
            return self._copied(depth)
        found, conditions = in_place
        buffer = pointer(c.buffer(self.write.buffer))
        if not conditions:
            return found
        with b.branch(c.all_of(conditions)) as branch, branch.otherwise():
            # whole vectors are copied so fast that more code does not pay
            self._copy(self.nest, self.extents if found.step == 1 else self.ends)
            # rows that do not wrap are many, and far cheaper to copy
            wraps = bool(self.nest.body.ops_of(IntegerRemainder))
            self.nest.mark(optimize_size=not wraps, wraps=wraps)

        def either(there: Scalar, here: Scalar) -> Value:
            return branch.join(b.number(there), b.number(here))

        step = 1 if found.step == 1 else either(found.step, 1)
        return Matrix(branch.join(found.pointer, buffer), either(found.stride, columns), step, found.pitch, depth)

    def _copy(self, nest: Nest, ends: Sequence[Scalar]) -> None:
        """Let `nest` copy so many rows and columns, here."""
        write = nest.copy
        assert write is not None, "the nest copies"
        is_whole = tuple(ends) == tile_of(write.buffer.type).shape
        write.set_operands([write.value, write.buffer, *([] if is_whole else map(self.b.number, ends))])
        self.b.append(nest)

    def _copied(self, depth: Scalar | None) -> Matrix:
        """The place of a tile that is always copied, along rows where its columns do not lie one apart."""
        b, c, (rows, columns) = self.b, self.c, self.extents
        step = self._column_step() if self.may_swap and min(rows, columns) > 1 else 1
        if step == 1:
            self._copy(self.nest, self.ends)
            return Matrix(pointer(c.buffer(self.write.buffer)), columns, depth=depth)
        swapped = self._swapped()
        place = pointer(c.buffer(self.write.buffer))
        with b.branch(b.compare("eq", b.number(step), 1)) as branch:
            with branch.then():
                self._copy(self.nest, self.ends)
            with branch.otherwise():
                self._copy(swapped, self.ends[::-1])
        strides = branch.join(b.number(columns), b.number(1)), branch.join(b.number(1), b.number(rows))
        return Matrix(place, *strides, depth=depth)

    def _swapped(self) -> Nest:
        """A nest that copies the transpose of the tile, to the same place."""
        copy = self.nest.clone()
        write, (rows, columns) = copy.copy, self.extents
        assert write is not None, "the nest copies"
        assert write.buffer.op is not None, "what is copied lies in a buffer"
        type = TensorType((columns, rows), write.value.type.scalar)
        order: dict[str, Attribute] = {"order": DenseArray(i32, (1, 0))}
        trans = copy.body.insert(Op.create("tt.trans", (write.value,), (type,), order, location=copy.location), write)
        buffer = self.b.emit("cpu.alloc", (), buffer_type(type), dict(write.buffer.op.attributes))
        write.set_operands([trans.result, buffer])
        copy.attributes["outer"] = DenseArray(i64, (columns,))
        return copy

    def _in_place(self, depth: Scalar | None) -> tuple[Matrix, Sequence[Value]] | None:
        """The place of the tile in memory up to its end at `depth`, and the conditions; None if no condition helps."""
        c, place, mask = self.c, self.source.load.pointer, self.source.load.mask
        lines, conditions = list[tuple[Address, Affine]](), dict[Value, None]()
        assumable = assumable_in(place, self.nest.body)
        for axis in (0, 1):
            index = self.source.line(axis)
            c.extent = self.extents[axis]
            c.lanes_read = self.needed[1] if self.needed is not None and axis == self.needed[0] else None
            c.begin(Guarded(c.lane_level))
            conditions |= dict.fromkeys(rely(c, [(v, at(index, tags)) for v, tags in assumable]))
            lane = evaluate(c, place, index)
            if not isinstance(lane, Address) or not isinstance(lane.offset, Affine) or lane.offset.local:
                return None
            lines.append((lane, lane.offset))
            if c.lanes_read is not None and axis == 1 and lane.offset.stride != 1 and c.facts:
                least = self._least(lane.offset, lane.offset.level)
                conditions[c.compare("sge", c.lanes_read, least, i64, lane.offset.level)] = None
            if mask is None:
                continue
            if not _is_separable(mask):
                return None
            on = evaluate(c, mask, index)
            if depth is not None and self.end is not None and axis == self.end.axis and isinstance(on, ActiveLaneBound):
                conditions[c.compare("sge", on.below, depth, i64, on.level)] = None
            elif self.needed is not None and axis == self.needed[0] and isinstance(on, ActiveLaneBound):
                conditions[c.compare("sge", on.below, self._least(lane.offset, on.level), i64, on.level)] = None
            elif not isinstance(on, Uniform) or on.value != 1:
                condition = is_on(c, on)
                if condition is None:
                    return None
                conditions[condition] = None
        (row, along_rows), (column, along_columns) = lines
        if (along_columns.stride != 1 and not self.may_step) or row.base != column.base:
            return None
        first = single_address(c, row._replace(offset=Uniform(along_rows.base, along_rows.level)))
        found = Matrix(pointer(first), along_rows.stride, along_columns.stride, along_rows.stride, depth)
        return found, list(conditions)

    def _least(self, along: Affine, level: int) -> Scalar:
        """How many rows or columns have to be there, where only those that are needed are read."""
        assert self.needed is not None, "some may be missing"
        c, (axis, number) = self.c, self.needed
        some: Scalar = c.binary("arith.maxsi", number, 1, i64, level)  # the first tells where depth ends
        if axis == 1 and along.stride != 1:
            dense = c.compare("eq", along.stride, 1, i64, level)
            some = c.select(dense, some, self.extents[axis], i64, level)  # what is packed is packed whole
        return some

    def _depth(self) -> Scalar | None:
        """How many rows or columns stand before the product's end, 1 at least; None if it has none."""
        if self.end is None:
            return None
        c, axis = self.c, self.end.axis
        c.extent = self.extents[axis]
        depth: Scalar = c.extent
        lanes = [evaluate(c, condition, self.source.line(axis)) for condition in self.end.conditions]
        for end in [c.end_of(on) for on in lanes if isinstance(on, ActiveLaneBound)]:
            depth = c.binary("arith.minsi", end, depth, i64, 0)
        if depth != c.extent:
            depth = c.binary("arith.maxsi", depth, 1, i64, 0)
        self.ends[axis] = depth
        return depth

    def _column_step(self) -> Scalar:
        """The distance of neighbours in a row, in elements; 1 where they do not lie at one distance."""
        lane = evaluate(self.c, self.source.load.pointer, self.source.line(1))
        if isinstance(lane, Address) and isinstance(lane.offset, Affine) and not lane.offset.local:
            return lane.offset.stride
        return 1

    def first(self, following: NextIteration) -> Value | None:
        """The address of the first element in another iteration; None if it has none of its own."""
        c = Context(following.b, following.value, 1)
        lane = evaluate(c, self.source.load.pointer, (ZERO, ZERO))
        return pointer(single_address(c, lane)) if isinstance(lane, (Address, Uniform)) else None


def _is_separable(mask: Value) -> bool:
    """Whether the mask is a conjunction of conditions on single axes: on everywhere if on at two edges."""
    conditions = [part for part in conjuncts(mask) if part.op is not None]
    return all(sum(extent > 1 for extent in part.type.shape or ()) <= 1 for part in conditions)
