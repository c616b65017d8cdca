"""TTIR → TTGIR: every tile gets a layout.

    %r = tt.make_range {…} : tensor<64xi32>       %r = tt.make_range {…} : tensor<64xi32, #blocked>
    %c = tt.expand_dims %r {axis = 1} : …         %s = ttg.convert_layout %r : … -> tensor<64xi32, #slice>
                                                  %t = tt.expand_dims %s {axis = 1} : … -> tensor<64x1xi32, #blocked1>
                                                  %c = ttg.convert_layout %t : … -> tensor<64x1xi32, #blocked2>

Each shape has one default layout, which all ops take and return. Operands of ops that require another layout are
converted; results of ops whose layout follows from their operands are converted back. Most of these conversions are
removed by `coalesce` and `remove_layout_conversions`. Types that have a layout already are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.dialects.arith import Constant
from tilewright.dialects.tt_descriptors import DescriptorGather, RowAccess
from tilewright.dialects.tt_dot import Dot
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_reduce import Reduce, Scan
from tilewright.dialects.tt_shape import Broadcast, Cat, ExpandDims, Reshape, Split
from tilewright.ir.attributes import Attribute, Number
from tilewright.ir.core import Op, Value, tile_type
from tilewright.ir.types import FunctionType, TensorType, Type, i32
from tilewright.layouts.blocked import (
    Workers,
    default_blocked,
    fill,
    is_split_by_thread,
    joined,
    split,
    transposed,
    with_dim,
)
from tilewright.layouts.encodings import Blocked, DotOperand, Encoding, Slice
from tilewright.layouts.inference import reshaped
from tilewright.layouts.queries import total_elements_per_thread
from tilewright.transforms.gpu.tile_ops import convert_operand, convert_result, layout_as, layout_of, with_layout


@dataclass(frozen=True)
class ConvertOptions:
    """The device, as `cuda:80`, and the workers that the kernel is for; `num_ctas` CTAs share each tile."""

    target: str
    num_warps: int = 4
    threads_per_warp: int = 32
    num_ctas: int = 1


def convert_to_ttgir(module: Op, options: ConvertOptions) -> bool:
    """Give every tile of `module` a layout, and the module the attributes of TTGIR."""
    conversion = Conversion(Workers(options.num_warps, options.threads_per_warp, options.num_ctas))
    facts: dict[str, Attribute] = {
        "ttg.num-ctas": Number(options.num_ctas, i32),
        "ttg.num-warps": Number(options.num_warps, i32),
        "ttg.target": options.target,
        "ttg.threads-per-warp": Number(options.threads_per_warp, i32),
    }
    module.attributes = dict(sorted({**module.attributes, **facts}.items()))
    for op in list(module.walk()):
        conversion.visit(op)
    return True


class Conversion:
    """The state of one run: the default layout of each type."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self._defaults: dict[Type, Type] = {}

    def visit(self, op: Op) -> None:
        """Give the values that `op` defines their types; its operands have theirs."""
        for region in op.regions:
            for block in region.blocks:
                for value in block.args:
                    value.type = self.default(value.type)
        kinds = [value.type for value in op.results]
        if isinstance(op, Dot) or any(isinstance(kind, TensorType) and not kind.encoding for kind in kinds):
            RULES.get(op.name, _typed)(op, self)
            for value, kind in zip(op.results, kinds, strict=True):
                convert_result(value, self.default(kind))
        elif isinstance(op, RowAccess):
            _take_indices(op, self)
        elif isinstance(op, Func):
            _retype_function(op, self)

    def default(self, type: Type) -> Type:
        """`type` with the default layout of its shape, if it is a tile without one."""
        found = self._defaults.get(type)
        if found is None:
            found = type
            if isinstance(type, TensorType) and type.encoding is None:
                found = with_layout(type, default_blocked(type.shape, self.workers))
            self._defaults[type] = found
        return found


# --- rules: what an op takes, and the types of its results --------------------------------------------------------


def _typed(op: Op, conversion: Conversion) -> None:
    """Most ops take and give default layouts."""
    for value in op.results:
        value.type = conversion.default(value.type)


def _blocked(value: Value) -> Blocked:
    """The layout of a tile that an op takes, which is a default one."""
    return layout_as(value, Blocked)


def _constant(op: Constant, conversion: Conversion) -> None:
    _typed(op, conversion)
    op.attributes = {**op.attributes, "value": op.value._replace(type=op.result.type)}


def _give(op: Op, layout: Encoding) -> None:
    for value in op.results:
        value.type = with_layout(value.type, layout)


def _expand_dims(op: ExpandDims, conversion: Conversion) -> None:
    layout = with_dim(_blocked(op.source), op.axis)
    convert_operand(op, 0, Slice(op.axis, layout))
    _give(op, layout)


def _as_operand(op: Broadcast | Scan, conversion: Conversion) -> None:
    """Broadcasts and scans keep the layout of what they are applied to."""
    for value, source in zip(op.results, op.operands, strict=False):
        value.type = with_layout(value.type, layout_of(source))


def _reduce(op: Reduce, conversion: Conversion) -> None:
    for value, source in zip(op.results, op.sources, strict=True):
        value.type = with_layout(value.type, Slice(op.axis, _blocked(source)))


def _split(op: Split, conversion: Conversion) -> None:
    source = _blocked(op.source)
    if not is_split_by_thread(source):
        source = joined(default_blocked(op.result.type.shape or (), conversion.workers))
        convert_operand(op, 0, source)
    _give(op, split(source))


def _reshape(op: Reshape, conversion: Conversion) -> None:
    """The default layout, unless other CTAs would then have the copies of a tile of few elements."""
    _typed(op, conversion)
    if not op.allow_reorder:
        _give(op, reshaped(_blocked(op.source), tile_type(op.source).shape, tile_type(op.result).shape))


def _cat(op: Cat, conversion: Conversion) -> None:
    """A thread of the result has place for all elements it has of the operands."""
    _typed(op, conversion)
    layout = _blocked(op.result)
    parts = [(_blocked(value), value.type.shape or ()) for value in op.operands]
    needed = sum(total_elements_per_thread(*part) for part in parts)
    place = total_elements_per_thread(layout, op.result.type.shape or ())
    factor = (1 << (needed - 1).bit_length()) // place
    sizes = list(layout.size_per_thread)
    sizes[layout.order[0]] *= max(1, factor)
    _give(op, Blocked(tuple(sizes), layout.threads_per_warp, layout.warps_per_cta, layout.order, layout.cga))


def _dot(op: Dot, conversion: Conversion) -> None:
    """The result is held in squares as large as there are elements for; the operands in the order it needs them in."""
    shape, workers = op.result.type.shape or (), conversion.workers
    assert len(shape) >= 2, "a dot is a matrix"
    share = op.result.type.numel // (workers.warps * workers.lanes) if isinstance(op.result.type, TensorType) else 1
    side = 4 if share >= 16 else 2 if share >= 4 else 1
    sizes = (*(1,) * (len(shape) - 2), *(min(side, extent) for extent in shape[-2:]))
    layout = fill(shape, sizes, tuple(reversed(range(len(shape)))), workers)
    for index, operand in enumerate((op.a, op.b)):
        if not isinstance(layout_of(operand), DotOperand):
            convert_operand(op, index, DotOperand(index, layout))
    convert_operand(op, 2, layout)
    _give(op, layout)


def _take_indices(op: RowAccess, conversion: Conversion) -> None:
    """One instruction takes four rows, so a thread has four in a row, and all warps have all of them."""
    workers = conversion.workers
    cga = fill((1, workers.ctas), (1, 1), (1, 0), workers).cga
    parent = Blocked((1, 4), (workers.lanes, 1), (1, workers.warps), (1, 0), cga)
    convert_operand(op, op.operands.index(op.rows), Slice(0, parent))


def _gather_rows(op: DescriptorGather, conversion: Conversion) -> None:
    _take_indices(op, conversion)
    _typed(op, conversion)


def _retype_function(op: Func, conversion: Conversion) -> None:
    inputs, outputs = (tuple(map(conversion.default, kinds)) for kinds in (op.type.inputs, op.type.outputs))
    op.type = FunctionType(inputs, outputs)


RULES: dict[str, Callable[[Any, Conversion], None]] = {
    "arith.constant": _constant,
    "tt.broadcast": _as_operand,
    "tt.cat": _cat,
    "tt.descriptor_gather": _gather_rows,
    "tt.dot": _dot,
    "tt.expand_dims": _expand_dims,
    "tt.join": lambda op, _: _give(op, joined(_blocked(op.lhs))),
    "tt.reduce": _reduce,
    "tt.reshape": _reshape,
    "tt.scan": _as_operand,
    "tt.split": _split,
    "tt.trans": lambda op, _: _give(op, transposed(_blocked(op.source), op.order)),
}
