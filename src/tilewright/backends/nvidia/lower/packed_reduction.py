"""Two elements of a thread at once, in reductions: `add.f16x2`, `max.bf16x2`, `add.f32x2`.

pairs = PackedReduction(combine)
pairs.halves(pairs.fold(pairs.of(a, b), pairs.of(c, d)))      # a + c and b + d
"""

from __future__ import annotations

from tilewright.analysis.reduction_plan import only_op
from tilewright.backends.llvm.spelling import vector
from tilewright.backends.nvidia.lower.combine import Combination

INSTRUCTIONS = {"arith.addf": "fadd", "arith.mulf": "fmul"}
INTRINSICS = {
    "arith.maximumf": "llvm.maximum",
    "arith.maxnumf": "llvm.maxnum",
    "arith.minimumf": "llvm.minimum",
    "arith.minnumf": "llvm.minnum",
}


class PackedReduction:
    """Pairs of elements of a reduction whose function is one op."""

    def __init__(self, combine: Combination) -> None:
        (self.element,) = combine.elements
        only = only_op(combine.op)
        assert only is not None, "pairs are for functions of one op"
        self.w, self.name = combine.lowerer.w, only.name
        self.type = vector(self.element, 2)

    def of(self, first: str, second: str) -> str:
        """A pair."""
        alone = self.w.insert(self.type, "poison", self.element, first, 0)
        return self.w.insert(self.type, alone, self.element, second, 1)

    def halves(self, pair: str) -> tuple[str, str]:
        """The elements of a pair."""
        return self.w.extract(self.type, pair, 0), self.w.extract(self.type, pair, 1)

    def fold(self, first: str, second: str) -> str:
        """Both elements of two pairs, folded."""
        if self.name in INTRINSICS:
            return self.w.intrinsic(INTRINSICS[self.name], self.type, first, second)
        return self.w.emit(f"{INSTRUCTIONS[self.name]} {self.w.fusion}{self.type} {first}, {second}")
