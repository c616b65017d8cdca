"""The lowering of one function of TTGIR to LLVM IR: the code of one thread of a CTA.

The layout of a tile says which of its elements each thread holds, one per register. So a tile of 128 elements over 128
threads with `sizePerThread = [1]` is one LLVM value, and an op on it is one instruction:

    %c = arith.addf %a, %b : tensor<128xf32, #blocked>       %v9 = fadd contract float %v7, %v8

Tables of lowerings (`tables.py` joins them) say what each op becomes:

    def lower(lowerer: Lowerer, op: Binary) -> None:
        pairs = zip(lowerer.registers(op.lhs), lowerer.registers(op.rhs), strict=True)
        lowerer.bind(op.result, [lowerer.w.emit(f"add i32 {x}, {y}") for x, y in pairs])
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from tilewright.analysis.axis_lattice import AxisInfo
from tilewright.backends.llvm.spelling import element_of
from tilewright.backends.llvm.writer import LlvmWriter, Typed
from tilewright.backends.nvidia.lower.access_plan import Place, diagonals, place_of
from tilewright.backends.nvidia.lower.legality import missing_instruction, unsupported
from tilewright.dialects.rules import number
from tilewright.dialects.tt_function import Func
from tilewright.dialects.ttg_attributes import OFFSET
from tilewright.ir.core import Block, Op, Region, Value, tile_type
from tilewright.ir.types import PointerType, TensorDescType, TensorType, Type
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encoding import Distributed, encoding, encoding_as
from tilewright.layouts.linear_layout import LinearLayout
from tilewright.support.cached_property import cached_property

WARP = 32
"""Lanes of a warp."""
LANE_BITS = 5
SHARED = "@global_smem"
"""The block's shared memory."""
SHARED_POINTER, GLOBAL_POINTER = "ptr addrspace(3)", "ptr addrspace(1)"
POSITION = ("lane", "warp", "block")
"""The inputs of layouts that differ between threads."""


@dataclass(frozen=True)
class Target:
    """The device that the code is for.

    Attributes:
        capability: the compute capability of the device: 80, 90, 100, ….
        ptx: the version of PTX, ten times: 83.
        num_warps: the number of warps of a block.
        num_ctas: the number of blocks that share each tile.
        fuse: a product and a sum of the program may become one fused operation.
        flush: powers of two flush denormals.
    """

    capability: int
    ptx: int
    num_warps: int = 4
    num_ctas: int = 1
    fuse: bool = True
    flush: bool = True

    @property
    def threads(self) -> int:
        """The number of threads of a block."""
        return self.num_warps * WARP


class LoweredDescriptor(Protocol):
    """A memory descriptor while code is written: values of LLVM, and facts known at compile time."""

    def parts(self) -> list[Typed]:
        """The values that loops and branches pass on."""

    def with_parts(self, values: Sequence[str]) -> Any:
        """The same descriptor, made of other values."""


class Group(NamedTuple):
    """Warps that execute a part of a kernel together.

    Attributes:
        first_thread: the number of their first thread in the block.
        barrier: the number of their barrier.
    """

    first_thread: int
    barrier: int


Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")
Lowering: TypeAlias = "Callable[[Lowerer, Any], None]"
"""A function that writes ops of some kinds; its second parameter is of the class that these kinds share."""


@dataclass
class Module:
    """State that all functions of a module share while it is written.

    Attributes:
        target: the device that it is for.
        table: the lowering of each op, by its name.
        facts: axis info of every value.
        functions: per name of a function of the program its name in LLVM IR.
    """

    w: LlvmWriter
    target: Target
    table: Mapping[str, Lowering]
    facts: Mapping[Value, AxisInfo]
    functions: Mapping[str, str]
    strings: dict[str, str] = field(default_factory=dict)


class Lowerer:
    """One function being lowered.

    Attributes:
        w: where code goes.
        target: the device that it is for.
        module: the state that all functions share.
        function: the `tt.func`.
        shared_base: the start of the function's shared memory.
        joins: the blocks of the function that jumps have named so far; see `control.py`.
        at_exit: these write what a kernel does last, the latest first.
        group: the warps that execute what is written now; None if all warps of the block do.
        groups: writes the code of other warps, in kernels that have some; see `warp_groups.py`.
        current: the op that is being written.
    """

    def __init__(self, module: Module, function: Func) -> None:
        self.module, self.function = module, function
        self.w, self.target = module.w, module.target
        self.shared_base = SHARED
        self.joins: dict[Block, Any] = {}
        self.at_exit: list[Callable[[], None]] = []
        self.group: Group | None = None
        self.groups: Any = None
        self.current: Op = function
        self._values: dict[Value, list[str]] = {}
        self._buffers: dict[Value, Any] = {}
        self._once: dict[object, str] = {}
        self._once_for_all: dict[object, str] = {}
        self._sums: dict[str, tuple[str, int]] = {}

    # ---- values ----

    def registers(self, value: Value) -> list[str]:
        """The LLVM values of a tile, one per register of its layout, in the order of registers; of a scalar one."""
        return self._values[value]

    def scalar(self, value: Value) -> str:
        """The LLVM value of a scalar."""
        (only,) = self._values[value]
        return only

    def bind(self, value: Value, registers: Sequence[str]) -> None:
        """From here on, `value` is in these registers."""
        self._values[value] = list(registers)

    def buffer(self, value: Value) -> Any:
        """The buffer that `bind_buffer` gave to a memory descriptor."""
        return self._buffers[value]

    def bind_buffer(self, value: Value, buffer: LoweredDescriptor) -> None:
        """From here on, the memory descriptor `value` is `buffer`."""
        self._buffers[value] = buffer

    def parts(self, value: Value) -> list[Typed]:
        """All LLVM values that a value of any kind consists of: none for tokens."""
        if value in self._buffers:
            return list(self._buffers[value].parts())
        element = self.element(value.type) if value in self._values else ""
        return [(element, name) for name in self._values.get(value, ())]

    def bind_parts(self, value: Value, like: Value, names: Sequence[str]) -> None:
        """`value` has the form of `like`, and consists of these LLVM values."""
        if like in self._buffers:
            self._buffers[value] = self._buffers[like].with_parts(names)
        elif like in self._values:
            self._values[value] = list(names)

    def alias(self, value: Value, same: Value) -> None:
        """`value` is `same`, whatever kind it has."""
        if same in self._buffers:
            self._buffers[value] = self._buffers[same]
        if same in self._values:
            self._values[value] = self._values[same]

    # ---- types and layouts ----

    def layout(self, what: Value | TensorType) -> LinearLayout:
        """The layout from register, lane, warp and block to the elements of a tile."""
        type = tile_type(what) if isinstance(what, Value) else what
        return to_linear_layout(encoding(type.encoding or ""), type.shape)

    def element(self, type: Type) -> str:
        """The LLVM type of one element in a register: fp8 and fp4 as i8, pointers with their address space."""
        return llvm_element(type)

    def axis_info(self, value: Value) -> AxisInfo | None:
        """The known contiguity and divisibility of a tile of integers or pointers; None if nothing is known."""
        return self.module.facts.get(value)

    # ---- where this thread is ----

    def once(self, key: object, write: Callable[[], str]) -> str:
        """The result of `write`, whose code is written once, on entry to the function."""
        if key not in self._once:
            with self.w.at(self.w.entry):
                self._once[key] = write()
        return self._once[key]

    def once_for_all_warps(self, key: object, write: Callable[[], str]) -> str:
        """The same as `once`, for code that all warps of the block execute, also those with code of their own later."""
        if self.groups is None:
            return self.once(key, write)
        outer = self.group, self.groups, self._once
        self.group, self.groups, self._once = None, None, self._once_for_all
        try:
            return self.once(key, write)
        finally:
            self.group, self.groups, self._once = outer

    def special(self, register: str) -> str:
        """A special register of PTX, i32: `tid.x`, `ctaid.y`, `clusterid.x`."""
        return self.once(register, lambda: self.w.call("i32", f"llvm.nvvm.read.ptx.sreg.{register}", []))

    def thread(self) -> str:
        """The number of this thread in its block, or among the warps that execute this code."""
        first = 0 if self.group is None else self.group.first_thread
        if not first:
            return self.special("tid.x")
        return self.once("thread", lambda: self.w.emit(f"sub i32 {self.special('tid.x')}, {first}"))

    @contextmanager
    def acting(self, group: Group, target: Target) -> Iterator[None]:
        """Until the end of the `with`, code is for other warps; `target` says how many they are."""
        outer = self.group, self.target, self._once
        self.group, self.target, self._once = group, target, {}
        try:
            yield
        finally:
            self.group, self.target, self._once = outer

    def lane(self) -> str:
        """The number of this thread in its warp."""
        return self.once("lane", lambda: self.w.emit(f"and i32 {self.thread()}, {WARP - 1}"))

    def warp(self) -> str:
        """The number of this thread's warp in its block; LLVM does not know that all lanes agree."""
        if self.target.num_warps == 1:
            return "0"
        return self.once("warp", lambda: self.w.emit(f"lshr i32 {self.thread()}, 5"))

    def block_in_cluster(self) -> str:
        """The number of this block among those that share tiles."""
        return "0" if self.target.num_ctas == 1 else self.special("cluster.ctarank")

    def linear(self, columns: Mapping[str, Sequence[int]]) -> str:
        """The XOR of `columns`, packed, whose bit of lane, warp or block is set; i32. Other inputs are left out."""
        chosen = tuple((name, tuple(columns.get(name, ()))) for name in POSITION)
        if not any(column for _, own in chosen for column in own):
            return "0"
        return self.once(chosen, lambda: self._linear(chosen))

    def _linear(self, chosen: Sequence[tuple[str, Sequence[int]]]) -> str:
        (_, lane), (_, warp), (_, block) = chosen
        threads = (*lane, *(0,) * (LANE_BITS - len(lane)), *warp)
        sources = ((self.thread, threads, self.target.threads), (self.block_in_cluster, block, self.target.num_ctas))
        found = ""
        for source, columns, size in sources:
            for shift, mask in diagonals(columns):
                part = self._bits(source(), mask, shift, size)
                found = self.w.emit(f"xor i32 {found}, {part}") if found else part
        return found or "0"

    def _bits(self, value: str, mask: int, shift: int, size: int) -> str:
        """The bits in `mask`, moved up by `shift`; `value` is below `size`."""
        if mask != size - 1:
            value = self.w.emit(f"and i32 {value}, {mask}")
        if shift:
            value = self.w.emit(f"{'shl' if shift > 0 else 'lshr'} i32 {value}, {abs(shift)}")
        return value

    def placed(self, place: Place, register: int) -> tuple[str, int]:
        """The place of `register`: a value of this thread, and the number to be added to it."""
        fixed, added = place.constant(register)
        base = self.linear(place.columns)
        if fixed:
            base = self.once(("xor", base, fixed), lambda: self.w.emit(f"xor i32 {base}, {fixed}"))
        return base, added

    def coordinates(self, layout: LinearLayout) -> list[list[str]]:
        """Per register one i32 per dimension."""
        places = [place_of(layout, axis) for axis in range(len(layout.outs))]
        return [[self._sum(*self.placed(place, r)) for place in places] for r in range(layout.in_size("register"))]

    def _sum(self, base: str, added: int) -> str:
        if base == "0" or not added:
            return str(added) if base == "0" else base
        found = self.once(("or", base, added), lambda: self.w.emit(f"or disjoint i32 {base}, {added}"))
        self._sums[found] = base, added
        return found

    def product(self, value: str, factor: int) -> str:
        """An i32 times a number; of a coordinate that is a sum, the product of its thread's part is written once."""
        if value not in self._sums:
            return self.w.emit(f"mul i32 {value}, {factor}")
        base, added = self._sums[value]
        first = self.once(("mul", base, factor), lambda: self.w.emit(f"mul i32 {base}, {factor}"))
        return self.w.emit(f"add i32 {first}, {added * factor % 2**32}")

    # ---- shared memory ----

    def shared(self, offset: int | str) -> str:
        """The address of byte `offset` of the block's shared memory."""
        if offset in (0, "0"):
            return self.shared_base
        return self.w.emit(f"getelementptr inbounds i8, {SHARED_POINTER} {self.shared_base}, i32 {offset}")

    def scratch(self, op: Op) -> str:
        """The address of the shared memory that `op` has for itself."""
        return self.shared(scratch_offset(op))

    def barrier(self) -> None:
        """All threads that execute this wait for each other, and see what the others wrote."""
        if self.group is not None:
            self.barrier_of(self.group.barrier, self.target.threads)
            return
        self.w.call_void("llvm.nvvm.barrier.cta.sync.aligned.all", [("i32", "0")])

    def barrier_of(self, number: int, threads: int) -> None:
        """The number of threads that wait for each other at this barrier."""
        self.w.call_void("llvm.nvvm.barrier.cta.sync.aligned.count", [("i32", str(number)), ("i32", str(threads))])

    # ---- code ----

    def assembly(self, text: str, operands: Sequence[Typed]) -> None:
        """Instructions of PTX as they are: `$0`, `$1`, … stand for the operands."""
        self.assembly_results([], text, operands)

    def assembly_results(
        self,
        types: Sequence[str],
        text: str,
        operands: Sequence[Typed],
        *,
        constraints: str | None = None,
        effects: bool = True,
    ) -> list[str]:
        """The results of instructions of PTX.

        Args:
            types: the LLVM types of the results.
            text: the instructions, `$0`, `$1`, … for results and operands.
            operands: types and values.
            constraints: of LLVM: `=r,l,b`; by default registers of the types' kinds.
            effects: they do more than compute their results.
        """
        if constraints is None:
            constraints = constraints_of(types, operands)
        call = _assembly(struct(types), text, constraints, operands, effects=effects)
        if not types:
            self.w.do(call)
            return []
        return self.extract(struct(types), self.w.emit(call), len(types))

    def computed(self, result: str, text: str, operands: Sequence[Typed]) -> str:
        """The result of instructions that read nothing but operands: LLVM may move them, and do them once."""
        call = _assembly(result, text, constraints_of([result], operands), operands, effects=False)
        return self.w.emit(f"{call} nounwind willreturn memory(none)")

    def extract(self, type: str, value: str, count: int) -> list[str]:
        """The fields of a struct of `count` fields; a struct of one is the field."""
        if count == 1:
            return [value]
        return [self.w.emit(f"extractvalue {type} {value}, {index}") for index in range(count)]

    @contextmanager
    def where(self, condition: str | None) -> Iterator[None]:
        """Code that only threads for which the condition holds execute; None: all do."""
        if condition is None:
            yield
        else:
            with self.w.branch(condition) as branch, branch.then():
                yield

    def op(self, op: Op) -> None:
        """Write one op."""
        self.current = op
        with nullcontext() if self.w.debug is None else self.w.debug.inside(op):
            lower = self.module.table.get(op.name)
            if lower is None:
                raise unsupported(op)
            if missing := missing_instruction(op, self.target.capability):
                raise missing
            lower(self, op)

    def block(self, block: Block) -> None:
        """Write the ops of a block, but not its terminator."""
        for op in block:
            if not op.definition.terminator:
                self.op(op)

    def region_values(self, region: Region, arguments: Sequence[str]) -> list[str]:
        """Write a region of scalars, such as the combination of a reduction; returns what its terminator passes on."""
        for value, name in zip(region.block.args, arguments, strict=True):
            self.bind(value, [name])
        self.block(region.block)
        return [self.scalar(value) for value in region.block.terminator.operands]

    @cached_property
    def is_kernel(self) -> bool:
        """Whether it is the function that the host starts."""
        return self.function.is_public


CONSTRAINTS = {
    "i1": "b",
    "i8": "h",
    "i16": "h",
    "i32": "r",
    "i64": "l",
    "float": "f",
    "double": "d",
    "ptr": "l",
    SHARED_POINTER: "r",
    GLOBAL_POINTER: "l",
}
"""Kinds of registers in inline assembly, by LLVM type."""


def constraints_of(results: Sequence[str], operands: Sequence[Typed], *, tied: int = 0) -> str:
    """The constraints of inline assembly: results, operands that share the registers of the first ones, and others."""
    written = [f"={CONSTRAINTS[type]}" for type in results]
    return ",".join([*written, *map(str, range(tied)), *(CONSTRAINTS[type] for type, _ in operands)])


def _assembly(result: str, text: str, constraints: str, operands: Sequence[Typed], *, effects: bool) -> str:
    kind = "sideeffect " if effects else ""
    escaped = text.replace("\\", "\\5C").replace("\n", "\\0A").replace("\t", "\\09").replace('"', "\\22")
    values = ", ".join(f"{type} {value}" for type, value in operands)
    return f'call {result} asm {kind}"{escaped}", "{constraints}"({values})'


def shared_results(keys: Iterable[Key], write: Callable[[Key], Result]) -> list[Result]:
    """The results of `write` for each key, in order; equal keys share one result."""
    known: dict[Key, Result] = {}
    found = []
    for key in keys:
        if key not in known:
            known[key] = write(key)
        found.append(known[key])
    return found


def llvm_element(type: Type) -> str:
    """The LLVM type of one element in a register."""
    scalar = type.scalar
    if isinstance(scalar, PointerType):
        return f"ptr addrspace({scalar.space})"
    return "ptr" if isinstance(scalar, TensorDescType) else element_of(scalar)


def struct(types: Sequence[str]) -> str:
    """The type of several results; one is itself, none is void."""
    return "void" if not types else types[0] if len(types) == 1 else f"{{ {', '.join(types)} }}"


def layout_of(type: TensorType) -> Distributed:
    """The layout of a tile."""
    return encoding_as(Distributed, type.encoding)


def scratch_offset(op: Op) -> int:
    """The offset of the op's scratch memory, in bytes."""
    return number(op, OFFSET)
