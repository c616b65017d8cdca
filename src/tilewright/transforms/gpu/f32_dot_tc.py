"""Products of f32 as several products on tensor cores: `tf32x3`, `bf16x3`, `bf16x6`.

    a = a_high + a_low,  b = b_high + b_low        (a_high is a in tf32; in bf16 there are two or three parts)
    a b ≈ a_high b_high + (a_high b_low + a_low b_high)

Small products are added first. Where they are NaN, they count as zero: inf * 1 is inf, but its small part is inf * 0.
Sources: the 3xTF32 method of CUTLASS; G. Henry et al., "Leveraging the bfloat16 artificial intelligence datatype for
higher-precision computations" (arXiv:1904.06376).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.dialects.tt_dot import Dot
from tilewright.ir.attributes import Attribute, Keyword, Number
from tilewright.ir.core import Op, Value
from tilewright.ir.types import bf16, f32, i1, i32, with_element
from tilewright.transforms.op_builder import OpBuilder

TO_TF32 = "cvt.rna.tf32.f32 $0, $1;"
HIGH, MIDDLE, LOW = 0, 1, 2
BF16_PRODUCTS = {
    "bf16x3": ((MIDDLE, HIGH), (HIGH, MIDDLE)),
    "bf16x6": ((MIDDLE, MIDDLE), (LOW, HIGH), (HIGH, LOW), (MIDDLE, HIGH), (HIGH, MIDDLE)),
}
"""The parts of both operands that make the small products, in order."""


@dataclass(frozen=True)
class F32DotOptions:
    """Whether the device multiplies tf32, so that `tf32x3` means three such products."""

    emu_tf32: bool = True


def f32_dot_tc(module: Op, options: F32DotOptions = F32DotOptions()) -> bool:
    """Split every f32 product in `module` whose precision requires it."""
    changed = False
    for dot in [op for op in module.walk() if isinstance(op, Dot)]:
        precision = dot.input_precision
        if dot.a.type.scalar is not f32 or dot.b.type.scalar is not f32:
            continue
        if precision in BF16_PRODUCTS:
            _split_bf16(Splitter(dot), BF16_PRODUCTS[precision])
            changed = True
        elif precision == "tf32x3" and options.emu_tf32:
            _split_tf32(Splitter(dot))
            changed = True
    return changed


class Splitter(OpBuilder):
    """Makes ops before a dot."""

    def __init__(self, dot: Dot) -> None:
        super().__init__(dot)
        self.dot = dot

    def zeros(self) -> Value:
        """A tile of zeros like the result."""
        return self.constant(0.0, self.dot.result.type)

    def product(self, a: Value, b: Value, c: Value, precision: str) -> Value:
        """c + a b."""
        attributes: dict[str, Attribute] = {
            "inputPrecision": Keyword(precision),
            "maxNumImpreciseAcc": Number(self.dot.max_imprecise_sums if precision == "tf32" else 0, i32),
        }
        return self.emit("tt.dot", (a, b, c), c.type, attributes)

    def without_nans(self, value: Value) -> Value:
        """`value` with zeros for NaNs."""
        nans = self.emit("arith.cmpf", (value, value), with_element(value.type, i1), {"predicate": Keyword("uno")})
        return self.compute("arith.select", nans, self.zeros(), value)

    def finish(self, product: Value) -> None:
        """The dot is `product` plus its accumulator."""
        total = self.compute("arith.addf", product, self.dot.accumulator)
        total.name = self.dot.result.name
        self.dot.replace([total])


def _split_bf16(splitter: Splitter, small: Sequence[tuple[int, int]]) -> None:
    count = 1 + max(max(pair) for pair in small)
    a, b = (_parts(splitter, value, count) for value in (splitter.dot.a, splitter.dot.b))
    total = splitter.zeros()
    for i, j in small:
        total = splitter.product(a[i], b[j], total, "ieee")
    splitter.finish(splitter.product(a[HIGH], b[HIGH], splitter.without_nans(total), "ieee"))


def _parts(splitter: Splitter, value: Value, count: int) -> list[Value]:
    """`value` as a sum of bf16 tiles, largest first."""
    parts = [splitter.cast("arith.truncf", value, bf16)]
    while len(parts) < count:
        value = splitter.compute("arith.subf", value, splitter.cast("arith.extf", parts[-1], f32))
        parts.append(splitter.cast("arith.truncf", value, bf16))
    return parts


def _split_tf32(splitter: Splitter) -> None:
    (a_high, a_low), (b_high, b_low) = (_high_and_low(splitter, value) for value in (splitter.dot.a, splitter.dot.b))
    small = splitter.product(a_low, b_high, splitter.zeros(), "tf32")
    small = splitter.product(a_high, b_low, small, "tf32")
    splitter.finish(splitter.product(a_high, b_high, splitter.without_nans(small), "tf32"))


def _high_and_low(splitter: Splitter, value: Value) -> tuple[Value, Value]:
    """`value` in tf32, and what is left of it."""
    attributes: dict[str, Attribute] = {
        "asm_string": TO_TF32,
        "constraints": "=r,r",
        "pure": True,
        "packed_element": Number(1, i32),
    }
    high = splitter.emit("tt.elementwise_inline_asm", (value,), value.type, attributes)
    return high, splitter.compute("arith.subf", value, high)
