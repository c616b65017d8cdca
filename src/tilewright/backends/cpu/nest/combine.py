"""The combine regions of reductions and scans, on vectors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf, nan

from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.cpu.nest.extremes import extreme_across, extreme_kind
from tilewright.dialects.arith import Constant, NumberExtreme
from tilewright.dialects.scf import Reduce
from tilewright.dialects.tt_reduce import Fold
from tilewright.dialects.vector import lanes_of, wide_type
from tilewright.ir.attributes import Keyword
from tilewright.ir.core import Value, defining
from tilewright.ir.types import FloatType, Type

MIN_LANES = 8
"""Min lanes of which an extreme and its place are found one after the other."""

EITHER_ZERO = Keyword("nsz")
"""The flag of an extreme that may give either of two zeros: AVX2 takes two instructions less than to order them."""

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
    """The function of a tt.reduce, a tt.scan or an scf.reduce: (values so far, new values) → values."""

    def __init__(self, op: Fold | Reduce) -> None:
        self.block = op.combine
        self.types: list[Type] = [v.type for v in self.block.args[: len(self.block.args) // 2]]

    def identity(self, lanes: int, b: LoopBuilder) -> list[Value] | None:
        """The neutral values of a combine that is one well-known op, in every lane; None for others."""
        first = self.block.first
        if len(self.types) != 1 or first is None or first.next is not self.block.last or len(first.operands) != 2:
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
        return [b.constant(number, wide_type(type, lanes))]

    def apply(self, b: LoopBuilder, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        """combine(left, right), lane by lane."""
        lanes = lanes_of(left[0].type)
        found: dict[Value, Value] = dict(zip(self.block.args, [*left, *right], strict=True))

        def value_of(value: Value) -> Value:
            if value not in found:
                number = defining(value, Constant)
                assert number is not None, "a combine region uses its arguments and constants only"
                found[value] = b.constant(number.number.value, wide_type(value.type, lanes))
            return found[value]

        for op in self.block:
            if not op.definition.terminator and not op.definition.constant:
                copy = b.copy(op, [value_of(v) for v in op.operands], lanes)
                if isinstance(op, NumberExtreme):
                    copy.attributes["fastmath"] = EITHER_ZERO
                found[op.result] = copy.result
        return [value_of(v) for v in self.block.terminator.operands]

    def together(self, b: LoopBuilder, rows: Sequence[Sequence[Value]]) -> Sequence[Value]:
        """Combine lists of values, neighbours first; there are a power of two of them."""
        while len(rows) > 1:
            rows = [self.apply(b, x, y) for x, y in zip(rows[::2], rows[1::2], strict=True)]
        return rows[0]

    def across(self, b: LoopBuilder, values: Sequence[Value], *, short: bool = False) -> list[Value]:
        """Combine all lanes of each vector: log2 steps, halves on halves, lower lanes on the left.

        With `short`, little code counts for more than speed.
        """
        kind = None if short or lanes_of(values[0].type) < MIN_LANES else extreme_kind(self.block)
        if kind is not None:
            return extreme_across(b, values, kind, partial(self._step_by_step, b))
        return self._step_by_step(b, values)

    def _step_by_step(self, b: LoopBuilder, values: Sequence[Value]) -> list[Value]:
        current, half = list(values), lanes_of(values[0].type) // 2
        while half:
            low, high = ([b.slice(v, start, half) for v in current] for start in (0, half))
            current, half = self.apply(b, low, high), half // 2
        return current

    def scan_lanes(self, b: LoopBuilder, values: Sequence[Value], *, reverse: bool) -> list[Value]:
        """The inclusive scan of the lanes of one vector.

        Lanes that nothing is before are combined with the neutral value, where there is one, and else kept.
        """
        current, lanes = list(values), lanes_of(values[0].type)
        neutral, step = self.identity(lanes, b), 1
        while step < lanes:
            sources = [i + step if reverse else i - step for i in range(lanes)]
            inside = [0 <= s < lanes for s in sources]
            if neutral is not None:
                places = [s if ok else lanes + i for i, (s, ok) in enumerate(zip(sources, inside, strict=True))]
                shifted = [b.shuffle(v, n, places) for v, n in zip(current, neutral, strict=True)]
                current, step = self.apply(b, shifted, current), step * 2
                continue
            order = [s if ok else i for i, (s, ok) in enumerate(zip(sources, inside, strict=True))]
            combined = self.apply(b, [b.shuffle(v, None, order) for v in current], current)
            picks = [i if ok else lanes + i for i, ok in enumerate(inside)]
            current = [b.shuffle(new, old, picks) for new, old in zip(combined, current, strict=True)]
            step *= 2
        return current
