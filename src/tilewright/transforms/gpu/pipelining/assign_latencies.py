"""The latency of an op: the stages of a loop between it and those that use its result, `tt.latency`.

    scf.for … {                                                num_stages = 3
      %i = tt.load %ip      {tt.latency = 1}                   an index: it feeds the next load
      %p = tt.addptr %b, %i
      %x = tt.load %p       {tt.latency = 1}
      %d = tt.dot …                                            the stages are divided among the loads of a chain

Only loads that feed dots get a latency, unless the loop asks for stages itself (`tt.num_stages`). A load that is too
small for an asynchronous copy, or whose users need different buffers, gets none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.analysis.axis_info import AxisInfo, analyze_axis_info
from tilewright.dialects.scf import For
from tilewright.dialects.traits import DotLike, Loop
from tilewright.dialects.tt_descriptors import DescriptorRead
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.ttg_memory import LocalAlloc
from tilewright.dialects.ttng_tensor_memory import TmemStore
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value, tile_type
from tilewright.ir.types import MemDescType, TensorType, i32
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import Encoding, encoding
from tilewright.layouts.memory_access import vector_of
from tilewright.layouts.queries import contiguous_per_thread, order
from tilewright.transforms.gpu.pipelining.shared_users import has_compatible_users
from tilewright.transforms.gpu.relayout import distributed_of
from tilewright.transforms.gpu.shared_operands import LOADS

LATENCY = "tt.latency"
NUM_STAGES = "tt.num_stages"
SMALLEST_COPY = 32
"""Min size of an asynchronous copy, in bits: it moves 4, 8 or 16 bytes."""


@dataclass(frozen=True)
class StageOptions:
    """Options of the passes on loops.

    Attributes:
        num_stages: how many iterations of a loop that does not say so itself are under way at once.
    """

    num_stages: int = 3


def assign_latencies(module: Op, options: StageOptions = StageOptions()) -> bool:
    """Give the ops of `module` that should run ahead of their users their latency."""
    loops = [op for op in module.walk() if isinstance(op, For) and can_be_pipelined(op)]
    loops = [loop for loop in loops if stages_of(loop, options.num_stages) > 1]
    facts = analyze_axis_info(module) if loops else {}
    changed = False
    for loop in loops:
        if any(LATENCY in op.attributes for op in loop.body):
            continue  # somebody knows better
        stages = stages_of(loop, options.num_stages)
        levels = LoadLevels(loop, facts, without_dots=NUM_STAGES in loop.attributes).found(stages)
        deepest = max(levels.values(), default=0)
        for load in levels:
            load.attributes = {**load.attributes, LATENCY: Number((stages - 1) // (deepest + 1), i32)}
            changed = True
    return changed


def stages_of(loop: Op, default: int) -> int:
    """The number of iterations of `loop` that should be in flight at once."""
    own = loop.attributes.get(NUM_STAGES)
    return int(own.value) if isinstance(own, Number) else default


def can_be_pipelined(loop: For) -> bool:
    """Whether no value is carried over several iterations, and no loop is inside."""
    if any(isinstance(op, Loop) for op in loop.body):
        return False
    return all(value.op is not None for value in loop.yielded)


class LoadLevels:
    """The loads of a loop that are worth a buffer, and how many other loads lie between them and a dot.

    Args:
        loop: an `scf.for`.
        facts: axis info of its values.
        without_dots: loads that feed no dot count, too.
    """

    def __init__(self, loop: For, facts: Mapping[Value, AxisInfo], *, without_dots: bool) -> None:
        self.loop, self.facts = loop, facts
        self.without_dots = without_dots
        self._levels: dict[Op, int] = {}
        self._excluded: set[Op] = set()
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
        for value in _operands(op):
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
        return not encodings or _bits_into(result, encoding(encodings.pop())) >= SMALLEST_COPY


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


def _bits_into(value: Value, layout: Encoding) -> int:
    """The number of bits of the tile `value` that one thread writes to neighbouring places of a buffer."""
    type = tile_type(value)
    registers, memory = to_linear_layout(distributed_of(value), type.shape), to_linear_layout(layout, type.shape)
    return vector_of(registers, memory, type.bits).width * type.bits


def _operands(op: Op) -> Iterator[Value]:
    """The values that `op` uses, also within its regions."""
    for inner in op.walk():
        yield from inner.operands
