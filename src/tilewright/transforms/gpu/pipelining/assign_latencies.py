"""The latency of an op: the number of stages between it and the users of its result, `tt.latency`.

    scf.for … {                                                num_stages = 3
      %i = tt.load %ip      {tt.latency = 1}                   an index: it feeds the next load
      %p = tt.addptr %b, %i
      %x = tt.load %p       {tt.latency = 1}
      %d = tt.dot …                                            the stages are divided among the loads of a chain

Only loads that feed dots get a latency, unless the loop requests stages itself (`tt.num_stages`). A load that is too
small for an asynchronous copy, or whose users need different buffers, gets none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from tilewright.analysis.axis_info import AxisInfo, analyze_axis_info
from tilewright.analysis.gather_distance import linear_layout_of
from tilewright.analysis.memory_origins import reads_what_is_written
from tilewright.analysis.value_flow import forward_slice
from tilewright.dialects.scf import For
from tilewright.dialects.traits import DotLike, Loop
from tilewright.dialects.tt_descriptors import DescriptorRead
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.ttg_memory import LocalAlloc, LocalLoad
from tilewright.dialects.ttg_program import ConvertLayout
from tilewright.dialects.ttng_tensor_memory import TmemStore
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value, integer_in, tile_type
from tilewright.ir.types import MemDescType, TensorType, i32
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import Distributed, DotOperand, Encoding, SwizzledShared, encoding
from tilewright.layouts.inference import as_shared
from tilewright.layouts.linear_layout import log2
from tilewright.layouts.memory_access import vector_of
from tilewright.layouts.queries import (
    buffer_order,
    cga_layout,
    contiguous_per_thread,
    memory_order,
    order,
    thread_order,
)
from tilewright.layouts.shared_choice import swizzled_for, swizzled_rows
from tilewright.layouts.walk import operand_order
from tilewright.transforms.gpu.pipelining.product_latencies import SELF_LATENCY, products_that_run_on
from tilewright.transforms.gpu.pipelining.schedule import values_used
from tilewright.transforms.gpu.shared_operands import LOADS
from tilewright.transforms.gpu.tile_ops import distributed_of, module_of
from tilewright.transforms.loop_unroll import NUM_STAGES


class IncompatibleUsersError(Exception):
    """Two users of a tile need different buffers."""


def shared_layout_for(value: Value) -> SwizzledShared | None:
    """The layout of a buffer that all users of `value` read operands of dots from; None: some do something else.

    Raises:
        IncompatibleUsersError: all are operands of dots, but of different kinds.
    """
    found: SwizzledShared | None = None
    for user in value.uses:
        if len(user.results) != 1:
            return None
        wanted = _wanted(value, user)
        if wanted is None:
            return None
        if found is not None and found is not wanted:
            raise IncompatibleUsersError
        found = wanted
    return found


def has_compatible_users(value: Value) -> bool:
    """Whether one buffer serves all users of `value`, as far as they are operands of dots."""
    try:
        shared_layout_for(value)
    except IncompatibleUsersError:
        return False
    return True


def _wanted(value: Value, user: Op) -> SwizzledShared | None:
    """The layout from which `user` reads `value`."""
    result = user.results[0]
    if isinstance(result.type, MemDescType):
        layout = encoding(result.type.encoding)
        if not isinstance(layout, SwizzledShared) or shared_layout_for(result) is None:
            return None
        return layout
    if not isinstance(user, (LocalLoad, ConvertLayout)) or not isinstance(result.type, TensorType):
        return None
    operand = encoding(result.type.encoding or "")
    type = value.type
    assert isinstance(type, TensorType | MemDescType), "what is loaded is a tile"
    source = encoding(type.encoding or "")
    if isinstance(operand, DotOperand):
        return swizzled_for(operand, type.shape, _order(source, type.shape), bits=type.bits, cga=cga_layout(operand))
    return _wanted_by_rows(distributed_of(result), type.shape, type.bits)


@cache
def _wanted_by_rows(layout: Distributed, shape: tuple[int, ...], bits: int) -> SwizzledShared | None:
    """The layout as for an operand of a dot, if lanes hold eight rows of four pieces each as there; else None."""
    order = thread_order(layout, shape)
    rank = len(order)
    index = next((index for index in (0, 1) if rank > 1 and operand_order(index, rank) == order), None)
    if index is None:
        return None
    inner, outer = order[:2]
    width = contiguous_per_thread(layout, shape)[inner]
    bases = to_linear_layout(layout, shape).bases
    count = log2(width)
    tile = [*bases["register"][:count], *bases["lane"]]
    wanted = [(inner, 1 << bit) for bit in range(count + 2)] + [(outer, 1 << bit) for bit in range(3)]
    if tile != [tuple(step if dim == axis else 0 for dim in range(rank)) for axis, step in wanted]:
        return None
    others = [*bases["register"][count:], *bases["warp"], *bases["block"]]
    if any(row[inner] % (4 * width) or row[outer] % 8 for row in others):
        return None
    return swizzled_rows(index, width, shape, order, bits=bits, cga=cga_layout(layout))


def _order(layout: Encoding, shape: tuple[int, ...]) -> tuple[int, ...]:
    if isinstance(layout, Distributed):
        return memory_order(layout, shape)
    return buffer_order(as_shared(layout))


LATENCY = "tt.latency"
SMALLEST_COPY = 32
"""Min size of an asynchronous copy, in bits: it moves 4, 8 or 16 bytes."""


@dataclass(frozen=True)
class StageOptions:
    """How many iterations of a loop that does not say so itself are under way at once."""

    num_stages: int = 3


DEFAULT_STAGES = StageOptions()


def assign_latencies(root: Op, options: StageOptions = DEFAULT_STAGES) -> bool:
    """Assign latencies to the ops in `root`, a module or loop, that should run ahead of their users."""
    loops = [op for op in root.walk() if isinstance(op, For) and can_be_pipelined(op)]
    loops = [loop for loop in loops if stages_of(loop, options.num_stages) > 1]
    facts = analyze_axis_info(module_of(root)) if loops else {}
    changed = False
    for loop in loops:
        if any(LATENCY in op.attributes for op in loop.body):
            continue  # somebody knows better
        stages = stages_of(loop, options.num_stages)
        levels = LoadLevels(loop, facts, without_dots=NUM_STAGES in loop.attributes).found(stages)
        deepest = max(levels.values(), default=0)
        for load in levels:
            load.attributes = {**load.attributes, LATENCY: Number((stages - 1) // (deepest + 1), i32)}
        products = products_that_run_on(loop, levels)
        for product, (of_users, own) in products.items():
            later = {LATENCY: Number(of_users, i32)} if of_users else {}
            product.attributes = {**product.attributes, **later, SELF_LATENCY: Number(own, i32)}
        changed |= bool(levels or products)
    return changed


def stages_of(loop: Op, default: int) -> int:
    """The number of iterations of `loop` that should be in flight at once."""
    own = integer_in(loop, NUM_STAGES)
    return default if own is None else own


def can_be_pipelined(loop: For) -> bool:
    """Whether no value is carried over several iterations, and no loop is inside."""
    if any(isinstance(op, Loop) for op in loop.body):
        return False
    return all(value.op is not None for value in loop.yielded)


class LoadLevels:
    """The loads of a loop that are worth a buffer, and how many other loads lie between them and a dot.

    With `without_dots` loads that feed no dot count, too.
    """

    def __init__(self, loop: For, facts: Mapping[Value, AxisInfo], *, without_dots: bool) -> None:
        self.loop, self.facts = loop, facts
        self.without_dots = without_dots
        self._levels: dict[Op, int] = {}
        self._excluded: set[Op] = _kept_in_order(loop)
        self._seen: set[Op] = set()

    def found(self, stages: int) -> dict[Op, int]:
        """The loads with their levels, as far as there are enough stages for them."""
        body = [op for op in self.loop.body if not op.definition.terminator]
        for op in body:
            if isinstance(op, (DotLike, TmemStore)):
                self._seen = set()
                self._visit(op, 0)
        if self.without_dots:
            for op in body:
                if not isinstance(op, LOADS):
                    self._visit(op, 0)
        return {load: level for load, level in self._levels.items() if level < stages - 1}

    def _visit(self, op: Op, level: int) -> None:
        if op in self._seen or op in self._excluded:
            return
        self._seen.add(op)
        if isinstance(op, LOADS):
            if not self._is_worth_a_buffer(op):
                return
            if self._levels.setdefault(op, level) != level:
                # Used near and far: there is no one distance.
                del self._levels[op]
                self._excluded.add(op)
                return
            level += 1
        accumulator = op.accumulator if isinstance(op, DotLike) else None
        for value in values_used(op):
            if value.op is not None and value.op.block is op.block and value is not accumulator:
                self._visit(value.op, level)

    def _is_worth_a_buffer(self, load: Load | DescriptorRead) -> bool:
        if isinstance(load, DescriptorRead):
            return True
        if elements_at_once(load, self.facts) * load.result.type.bits < SMALLEST_COPY:
            return False
        result = load.result
        if not has_compatible_users(result):
            return False
        layouts = {user.results[0].type for user in result.uses if isinstance(user, LocalAlloc)}
        encodings = {type.encoding for type in layouts if isinstance(type, MemDescType)}
        if len(encodings) > 1:
            return False
        return not encodings or bits_into(result, encoding(encodings.pop())) >= SMALLEST_COPY


def _kept_in_order(loop: For) -> set[Op]:
    """The ops of `loop` that read what it may have written, and those that need them: they do not run ahead."""
    reads = reads_what_is_written(loop)
    later = {op for read in reads for value in read.results for op in forward_slice(value)}
    return reads | later


def elements_at_once(load: Load, facts: Mapping[Value, AxisInfo]) -> int:
    """The number of neighbours that one instruction of a thread can load."""
    pointer = load.pointer
    if not isinstance(pointer.type, TensorType):
        return 1
    layout, shape = distributed_of(pointer), pointer.type.shape
    axis = order(layout, shape)[0]
    info = facts[pointer]
    aligned = max(1, info.divisibility[axis] // max(1, load.result.type.bits // 8))
    count = min(aligned, info.contiguity[axis], contiguous_per_thread(layout, shape)[axis])
    if load.mask is not None:
        count = min(count, max(1, facts[load.mask].constancy[axis]))
    return count


def bits_into(value: Value, layout: Encoding) -> int:
    """The number of bits of the tile `value` that one thread writes to neighbouring places of a buffer."""
    type = tile_type(value)
    memory = to_linear_layout(layout, type.shape)
    return vector_of(linear_layout_of(value), memory, type.bits).width * type.bits
