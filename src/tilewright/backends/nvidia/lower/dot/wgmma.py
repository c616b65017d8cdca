"""`ttng.warp_group_dot` on `wgmma`: four warps multiply 64 rows, asynchronously.

    %d = ttng.warp_group_dot %a, %b, %c {isAsync = true} : !ttg.memdesc<64x16xf16> * !ttg.memdesc<16x64xf16> -> …

        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {$0, …, $31}, $64, $65, 1, 1, 1, 0, 1;
        wgmma.commit_group.sync.aligned;

    %e = ttng.warp_group_dot_wait %d {pendings = 1 : i32}

        wgmma.wait_group.sync.aligned 1;            the accumulator's registers are operands, so none is read before it

The second operand is in shared memory, the first one there or in registers; descriptors give the addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.backends.llvm.spelling import literal
from tilewright.backends.llvm.writer import Typed
from tilewright.backends.nvidia.lower.access_plan import WORD
from tilewright.backends.nvidia.lower.dot.fragments import elements_of, places, word_of
from tilewright.backends.nvidia.lower.dot.instructions import (
    ACCUMULATORS,
    FP8,
    PRODUCTS,
    WIDTHS,
    Register,
    accumulator_kind,
    kind_of,
)
from tilewright.backends.nvidia.lower.dot.operands_in_memory import OperandInMemory, Tile, demand_own_operands
from tilewright.backends.nvidia.lower.legality import refused
from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering, constraints_of, layout_of
from tilewright.dialects.ttng_mma import WarpGroupDot, WarpGroupDotWait
from tilewright.ir.core import Value, tile_type
from tilewright.ir.types import MemDescType, TensorType, Type
from tilewright.layouts.encodings import NvidiaMma, encoding_as
from tilewright.layouts.queries import cga_layout

ROWS_OF_A_WARP, WARPS = 16, 4
WARPS_OF_A_GROUP = 2
"""Bits of the warp that count the warps of a group."""
WITH_DIRECTION = frozenset({"f16", "bf16"})
"""Kinds of elements that can be read along or across the summed axis."""
INTEGERS = frozenset({"s8"})


def lower_warp_group_dot(lowerer: Lowerer, op: WarpGroupDot) -> None:
    """Write a `ttng.warp_group_dot`."""
    demand_own_operands(op, (op.a, op.b), cga_layout(layout_of(tile_type(op.result))))
    product = _Mma(lowerer, op)
    product.start()
    product.multiply()
    if not op.is_async:
        product.wait()
    lowerer.bind(op.result, product.elements())


def lower_wait(lowerer: Lowerer, op: WarpGroupDotWait) -> None:
    """Write a `ttng.warp_group_dot_wait`: the tiles among its operands can be read behind it."""
    tiles = [value for value in op.inputs if isinstance(value.type, TensorType)]
    words = {value: _Words.of(lowerer, value.type, lowerer.registers(value)) for value in tiles}
    _wait_for(lowerer, list(words.values()), op.pendings)
    for given, result in zip(op.inputs, op.results, strict=True):
        if given in words:
            lowerer.bind(result, words[given].elements())
        else:
            lowerer.bind_buffer(result, lowerer.buffer(given))


@dataclass
class _Words:
    """An accumulator in the registers that the instruction takes: two elements of 16 bits share one.

    Attributes:
        element: the LLVM type of an element.
        kind: what the registers are.
        values: of the registers.
    """

    lowerer: Lowerer
    element: str
    kind: Register
    values: list[str]

    @classmethod
    def of(cls, lowerer: Lowerer, type: Type, elements: Sequence[str]) -> _Words:
        """The words of these elements of a tile of this type."""
        element, kind = lowerer.element(type), ACCUMULATORS[accumulator_kind(type.scalar)]
        if kind.elements == 1:
            return cls(lowerer, element, kind, list(elements))
        starts = range(0, len(elements), kind.elements)
        words = [word_of(lowerer, element, elements[at : at + kind.elements]) for at in starts]
        return cls(lowerer, element, kind, words)

    def unset(self) -> _Words:
        """An accumulator of this form with uninitialised registers."""
        return replace(self, values=["poison"] * len(self.values))

    def elements(self) -> list[str]:
        """One value for each element."""
        count = self.kind.elements
        if count == 1:
            return list(self.values)
        return [one for word in self.values for one in elements_of(self.lowerer, self.element, word, count)]


def _wait_for(lowerer: Lowerer, accumulators: Sequence[_Words], pendings: int) -> None:
    """Wait until at most `pendings` groups of instructions are under way; these sums are complete then."""
    kinds = [accumulator.kind for accumulator in accumulators for _ in accumulator.values]
    values = [value for accumulator in accumulators for value in accumulator.values]
    given: list[Typed] = [(kind.type, value) for kind, value in zip(kinds, values, strict=True)]
    text = f"wgmma.wait_group.sync.aligned {pendings};"
    types = [kind.type for kind in kinds]
    constraints = constraints_of(types, [], tied=len(types))
    found = iter(lowerer.assembly_results(types, text, given, constraints=constraints))
    for accumulator in accumulators:
        accumulator.values = [next(found) for _ in accumulator.values]


def _flag(text: str) -> str:
    """A truth value as an instruction takes it: known ones as numbers."""
    return {"true": "1", "false": "0"}.get(text, text)


class _Mma:
    """A product being written."""

    def __init__(self, lowerer: Lowerer, op: WarpGroupDot) -> None:
        self.lowerer, self.op = lowerer, op
        self.a, self.b, self.flag = op.a, op.b, op.uses_accumulator
        result = tile_type(op.result)
        _, self.columns, self.depth = encoding_as(NvidiaMma, result.encoding).instr_shape
        self.rows = ROWS_OF_A_WARP * WARPS
        self.accumulator_type, self.kind_a, self.kind_b = (
            result,
            kind_of(self.a.type.scalar),
            kind_of(self.b.type.scalar),
        )
        self.tiles = _tiles(lowerer, op.result, self.columns)
        c = lowerer.registers(op.accumulator)
        self.from_zero = set(c) <= {literal(0, lowerer.element(result))}
        self.accumulators = {at: _Words.of(lowerer, result, [c[r] for r in own]) for at, own in self.tiles.items()}

    # ---- the steps ----

    def start(self) -> None:
        """Have everything that is in registers ready before the first instruction."""
        op = self.op
        layout = self.lowerer.layout(op.result)
        warps = layout.bases["warp"]
        shared = range(WARPS_OF_A_GROUP)
        by_axis = [[0 if bit in shared else row[axis] for bit, row in enumerate(warps)] for axis in (0, 1)]
        right = Tile(1, self.columns, self.depth)
        self.right = OperandInMemory(self.lowerer, op, self.b, right, groups=by_axis[1])
        self.left: OperandInMemory | _OperandInRegisters
        if isinstance(self.a.type, MemDescType):
            left = Tile(0, self.rows, self.depth)
            self.left = OperandInMemory(self.lowerer, op, self.a, left, groups=by_axis[0])
        else:
            self.left = _OperandInRegisters(self.lowerer, self.a, self.depth)
        self._demand_readable()
        self._fence()

    def _demand_readable(self) -> None:
        """Demand operands that the instruction reads in the direction in which they lie, and sums of their kind."""
        kinds = self.kind_a, self.kind_b, accumulator_kind(self.accumulator_type.scalar)
        if kinds not in PRODUCTS:
            types = self.a.type.scalar, self.b.type.scalar, self.accumulator_type.scalar
            what = "a product of {} and {} summed in {} by a warp group".format(*(type.text for type in types))
            raise refused(self.op, what, "wgmma has no such form")
        for name, operand in (("left", self.left), ("right", self.right)):
            is_across = isinstance(operand, OperandInMemory) and operand.descriptor.across
            if is_across and self.kind_a not in WITH_DIRECTION:
                what = f"a {name} operand of {self.a.type.scalar.text} whose elements do not follow each other along K"
                raise refused(self.op, what, "wgmma reads only 16 bits across: turn it, with a transposed layout")

    def _fence(self) -> None:
        self.lowerer.w.call_void("llvm.nvvm.wgmma.fence.sync.aligned", [])

    def _commit(self) -> None:
        self.lowerer.w.call_void("llvm.nvvm.wgmma.commit_group.sync.aligned", [])

    def multiply(self) -> None:
        """All instructions."""
        if self._partial_sums:
            self._add_partial_sums()
            return
        flag = "" if self.flag is None else _flag(self.lowerer.scalar(self.flag))
        for at, accumulator in self.accumulators.items():
            use = "0" if self.from_zero else flag or "1"
            for k in range(0, self._k, self.depth):
                accumulator.values = self._instruction(at, k, accumulator.values, use)
                use = "1"
        self._commit()

    def wait(self) -> None:
        """The sums are complete."""
        _wait_for(self.lowerer, list(self.accumulators.values()), 0)

    def elements(self) -> list[str]:
        """The accumulator, by register."""
        own: dict[int, str] = {}
        for at, accumulator in self.accumulators.items():
            own.update(zip(self.tiles[at], accumulator.elements(), strict=True))
        layout = self.lowerer.layout(self.op.result)
        first = places(layout)
        return [own[first[layout.apply(register=register)]] for register in range(layout.in_size("register"))]

    @property
    def _k(self) -> int:
        return (self.a.type.shape or ())[1]

    # ---- sums of fp8 ----

    @property
    def _imprecise(self) -> int:
        """Max products of fp8 that may be added in the matrix unit, which does it with less precision than f32."""
        return self.op.max_imprecise_sums

    @property
    def _partial_sums(self) -> bool:
        return self.kind_a in FP8 and self.accumulator_type.scalar.text == "f32" and self._imprecise <= self._k

    def _add_partial_sums(self) -> None:
        """Write sums of as many products as allowed, each from zero, which the program adds up."""
        step = max(self._imprecise // self.depth, 1) * self.depth
        for first in range(0, self._k, step):
            if first:
                self._fence()
            parts = {at: accumulator.unset() for at, accumulator in self.accumulators.items()}
            for at, part in parts.items():
                use = "0"
                for k in range(first, min(first + step, self._k), self.depth):
                    part.values = self._instruction(at, k, part.values, use)
                    use = "1"
            self._commit()
            _wait_for(self.lowerer, list(parts.values()), 0)
            for at, part in parts.items():
                self.accumulators[at].values = self._added(self.accumulators[at].values, part.values, keep=bool(first))

    def _added(self, accumulators: Sequence[str], parts: Sequence[str], *, keep: bool) -> list[str]:
        w = self.lowerer.w
        if not keep and self.from_zero:
            return list(parts)
        if not keep and self.flag is not None:
            flag = self.lowerer.scalar(self.flag)
            accumulators = [
                w.emit(f"select i1 {flag}, float {accumulator}, float {literal(0, 'float')}")
                for accumulator in accumulators
            ]
        return [
            w.emit(f"fadd {w.fusion}float {accumulator}, {part}")
            for accumulator, part in zip(accumulators, parts, strict=True)
        ]

    # ---- one instruction ----

    def _instruction(self, at: tuple[int, int], k: int, accumulators: Sequence[str], use: str) -> list[str]:
        """Multiply and add; `use` says whether to `accumulators`, and is 0, 1 or an i1."""
        kind, count = ACCUMULATORS[accumulator_kind(self.accumulator_type.scalar)], len(accumulators)
        row, column = at
        tied = [(kind.type, value) for value in accumulators] if use != "0" else []
        after = count + len(tied)
        names = [f"{{{', '.join(f'${index}' for index in range(count))}}}"]
        left, inputs = self.left.at(row, k), list[Typed]()
        if isinstance(left, str):
            inputs.append(("i64", left))
            names.append(f"${after}")
        else:
            inputs += [("i32", word) for word in left]
            names.append(f"{{{', '.join(f'${after + index}' for index in range(len(left)))}}}")
        inputs.append(("i64", self.right.at(column, k)))
        names.append(f"${after + len(inputs) - 1}")
        if use.startswith("%"):
            inputs.append(("i1", use))
            names.append(f"${after + len(inputs) - 1}")
        else:
            names.append(use)
        types = [kind.type] * count
        text = f"{self._name} {', '.join([*names, *self._modifiers()])};"
        constraints = constraints_of(types, inputs, tied=len(tied))
        return self.lowerer.assembly_results(types, text, [*tied, *inputs], constraints=constraints)

    @property
    def _name(self) -> str:
        shape = f"m{self.rows}n{self.columns}k{self.depth}"
        kinds = f"{accumulator_kind(self.accumulator_type.scalar)}.{self.kind_a}.{self.kind_b}"
        return f"wgmma.mma_async.sync.aligned.{shape}.{kinds}"

    def _modifiers(self) -> list[str]:
        """Signs of the operands, and whether each is read across K."""
        if self.kind_a in INTEGERS:
            return []
        signs = ["1", "1"]
        if self.kind_a not in WITH_DIRECTION:
            return signs
        operands = [operand for operand in (self.left, self.right) if isinstance(operand, OperandInMemory)]
        return signs + [str(int(operand.descriptor.across)) for operand in operands]


def _tiles(lowerer: Lowerer, accumulator: Value, columns: int) -> dict[tuple[int, int], list[int]]:
    """The registers of each instruction's accumulator in its order, by the coordinates of its first element."""
    registers = places(lowerer.layout(accumulator))
    found: dict[tuple[int, int], list[int]] = {}
    left = set(registers)
    for m, n in sorted(registers):
        if (m, n) not in left:
            continue
        order = [(m + 8 * (index // 2 % 2), n + index // 4 * 8 + index % 2) for index in range(columns // 2)]
        found[m, n] = [registers[place] for place in order]
        left -= set(order)
    return found


class _OperandInRegisters:
    """The left operand in registers: four words for each instruction."""

    def __init__(self, lowerer: Lowerer, value: Value, depth: int) -> None:
        self.lowerer, self.depth = lowerer, depth
        self._registers, self._places = lowerer.registers(value), places(lowerer.layout(value))
        self._element = lowerer.element(value.type)
        self._per_word = WORD // WIDTHS[kind_of(value.type.scalar)]
        self._moved: dict[tuple[int, int], str] = {}
        for place in sorted(self._places):
            if place[1] % self._per_word == 0:
                self._moved[place[0], place[1]] = self._word(*place)

    def _word(self, row: int, depth: int) -> str:
        """A register of its own: instructions that are still under way may read those that are computed next."""
        registers = [self._registers[self._places[row, depth + index]] for index in range(self._per_word)]
        word = word_of(self.lowerer, self._element, registers)
        (moved,) = self.lowerer.assembly_results(["i32"], "mov.b32 $0, $1;", [("i32", word)])
        return moved

    def at(self, row: int, depth: int) -> list[str]:
        """The words of the instruction that begins there."""
        half = self.depth // 2
        return [self._moved[row + 8 * (index % 2), depth + half * (index // 2)] for index in range(4)]


LOWERINGS: dict[str, Lowering] = {
    "ttng.warp_group_dot": lower_warp_group_dot,
    "ttng.warp_group_dot_wait": lower_wait,
}
