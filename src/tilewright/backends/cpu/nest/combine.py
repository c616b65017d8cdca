"""The combine regions of reductions and scans, on vectors."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan

from tilewright.backends.llvm.elementwise import lower_elementwise
from tilewright.backends.llvm.spelling import constant, element_of, in_registers, literal, vector
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.arith import Constant
from tilewright.dialects.tt_reduce import Fold
from tilewright.ir.core import Value, defining
from tilewright.ir.types import FloatType, Type

_IDENTITY: dict[str, float] = {
    "arith.addf": -0.0,
    "arith.addi": 0,
    "arith.andi": -1,
    "arith.maximumf": -inf,
    "arith.maxnumf": nan,
    "arith.maxui": 0,
    "arith.minimumf": inf,
    "arith.minnumf": nan,
    "arith.minui": -1,
    "arith.mulf": 1.0,
    "arith.muli": 1,
    "arith.ori": 0,
    "arith.xori": 0,
}


class Combine:
    """The function of a tt.reduce or tt.scan: (values so far, new values) → values."""

    def __init__(self, op: Fold) -> None:
        self.block = op.combine
        self.count = len(op.operands)
        self.types: list[Type] = [v.type.scalar for v in op.operands]
        self.elements = [element_of(t) for t in self.types]

    def identity(self) -> list[str] | None:
        """The neutral values of a combine that is one well-known op, as literals; None for others."""
        first = self.block.first
        if self.count != 1 or first is None or first.next is not self.block.last or len(first.operands) != 2:
            return None
        arguments = set(self.block.args)
        if not (set(first.operands) == arguments and self.block.terminator.operands == first.results):
            return None
        type = self.types[0]
        if first.name in ("arith.maxsi", "arith.minsi"):
            bits = type.bits
            number: float = -(1 << (bits - 1)) if first.name == "arith.maxsi" else (1 << (bits - 1)) - 1
        elif first.name in _IDENTITY:
            number = _IDENTITY[first.name]
        else:
            return None
        if isinstance(type, FloatType) and type.bits == 8:
            return None
        return [literal(number, self.elements[0])]

    def apply(self, w: LlvmWriter, left: Sequence[str], right: Sequence[str], lanes: int) -> list[str]:
        """combine(left, right) on `lanes` lanes."""
        names: dict[Value, str] = dict(zip(self.block.args, [*left, *right], strict=True))

        def name_of(value: Value) -> str:
            if value in names:
                return names[value]
            number = defining(value, Constant)
            assert number is not None, "a combine region uses its arguments and constants only"
            return constant(in_registers(number.number.value, value.type), element_of(value.type), lanes)

        for op in self.block:
            if op.definition.terminator or op.definition.constant:
                continue
            names[op.result] = lower_elementwise(w, op, [name_of(v) for v in op.operands], lanes)
        return [name_of(v) for v in self.block.terminator.operands]

    def select(self, w: LlvmWriter, condition: str, a: Sequence[str], b: Sequence[str], lanes: int) -> list[str]:
        """`a` where the scalar `condition` holds, else `b`."""
        types = [vector(e, lanes) for e in self.elements]
        return [w.emit(f"select i1 {condition}, {t} {x}, {t} {y}") for t, x, y in zip(types, a, b, strict=True)]

    def across(self, w: LlvmWriter, values: Sequence[str], lanes: int) -> list[str]:
        """Combine all lanes of each vector: log2 steps, halves on halves, lower lanes on the left."""
        current = list(values)
        while lanes > 1:
            half = lanes // 2
            low = [w.slice(v, e, lanes, 0, half) for v, e in zip(current, self.elements, strict=True)]
            high = [w.slice(v, e, lanes, half, half) for v, e in zip(current, self.elements, strict=True)]
            current = self.apply(w, low, high, half)
            lanes = half
        return current

    def scan_lanes(self, w: LlvmWriter, values: Sequence[str], lanes: int, *, reverse: bool) -> list[str]:
        """The inclusive scan of the lanes of one vector."""
        current = list(values)
        step = 1
        while step < lanes:
            sources = [i + step if reverse else i - step for i in range(lanes)]
            inside = [0 <= s < lanes for s in sources]
            shifted = [
                w.shuffle(
                    vector(e, lanes),
                    v,
                    "poison",
                    [s if ok else i for i, (s, ok) in enumerate(zip(sources, inside, strict=True))],
                )
                for v, e in zip(current, self.elements, strict=True)
            ]
            combined = self.apply(w, shifted, current, lanes)
            picks = [i if ok else lanes + i for i, ok in enumerate(inside)]
            current = [
                w.shuffle(vector(e, lanes), new, old, picks)
                for new, old, e in zip(combined, current, self.elements, strict=True)
            ]
            step *= 2
        return current
