"""`tt.dot_scaled` by the names of its parts, and turning those around that have only a right scale.

%d = tt.dot_scaled %a, %b scale %s, %c lhs = bf16 rhs = e4m3

    %d1 = tt.dot_scaled %bt scale %s, %at, %ct lhs = e4m3 rhs = bf16
    %d = tt.trans %d1

The scaled operand is then the left one, which may stay in registers.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.dialects.tt_dot import DotScaled
from tilewright.ir.attributes import Attribute, Keyword
from tilewright.ir.core import Value, tile_type
from tilewright.transforms.gpu.tile_ops import TileOps

ROWS_AND_COLUMNS = (1, 0)
PACKED = ("lhs_k_pack", "rhs_k_pack")


class ScaledDot(NamedTuple):
    """A `tt.dot_scaled`; everything there are two of is in the order left, right.

    Attributes:
        op: the op.
        operands: what is multiplied.
        scales: their scales, if they have any.
        kinds: the types of their elements: `e2m1`, `e4m3`, …
        along_k: whether two elements of 4 bits in one byte follow each other along what is summed over.
        fast: NaNs among the scales do not count.
    """

    op: DotScaled
    operands: tuple[Value, Value]
    scales: tuple[Value | None, Value | None]
    kinds: tuple[str, str]
    along_k: tuple[bool, bool]
    fast: bool

    def group(self, index: int) -> int:
        """The number of elements that share one scale of the operand `index`."""
        scale = self.scales[index]
        assert scale is not None, "the operand has a scale"
        axis = -1 if index == 0 else -2
        extent = tile_type(self.operands[index]).shape[axis]
        if self.kinds[index] == "e2m1" and self.along_k[index]:
            extent *= 2
        return extent // tile_type(scale).shape[-1]


def scaled_dot(op: DotScaled) -> ScaledDot:
    """The parts of a `tt.dot_scaled`."""
    scales, kinds = (op.a_scale, op.b_scale), (op.a_type, op.b_type)
    return ScaledDot(op, (op.a, op.b), scales, kinds, (op.lhs_k_pack, op.rhs_k_pack), op.fast_math)


def turn_around(dot: ScaledDot) -> None:
    """Compute the transposed product of the transposed operands."""
    op = dot.op
    ops = TileOps(op)
    left, right, start = (
        ops.transposed(value, ROWS_AND_COLUMNS) for value in (*reversed(dot.operands), op.accumulator)
    )
    scales = [scale for scale in reversed(dot.scales) if scale is not None]
    kept = {name: value for name, value in op.attributes.items() if name not in PACKED}
    packed = dict(zip(PACKED, reversed(dot.along_k), strict=True))
    attributes: dict[str, Attribute] = {
        **kept,
        **{name: False for name, along in packed.items() if not along},
        "a_elem_type": Keyword(dot.kinds[1]),
        "b_elem_type": Keyword(dot.kinds[0]),
        "has_scales": tuple(scale is not None for scale in reversed(dot.scales)),
    }
    product = ops.emit("tt.dot_scaled", (left, right, start, *scales), start.type, attributes)
    ops.replace(ops.transposed(product, ROWS_AND_COLUMNS))
