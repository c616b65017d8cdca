"""Canonical forms of layout conversions: they are merged into ops that accept another layout.

ttg.convert_layout (ttg.convert_layout %x)      ->  ttg.convert_layout %x
ttg.convert_layout (tt.splat %x)                ->  tt.splat %x, in the layout of the result
ttg.local_alloc (ttg.convert_layout %x)         ->  ttg.local_alloc %x
ttg.convert_layout (ttg.local_load %buffer)     ->  ttg.local_load %buffer, in the layout of the result
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.dialects.tt_shape import Cat, Gather, Histogram, Reshape, Split, Trans
from tilewright.dialects.ttg_memory import LocalAlloc, LocalLoad, LocalStore
from tilewright.dialects.ttg_program import ConvertLayout
from tilewright.dialects.ttg_warp_specialize import warps_of
from tilewright.ir.attributes import Attribute, Number
from tilewright.ir.core import Op, Value, defining
from tilewright.ir.operands import operand
from tilewright.ir.rewriter import Fold, Rewriter, Rule
from tilewright.ir.types import i1, with_element
from tilewright.layouts.encodings import DotOperand, LayoutError, NvidiaMma, TensorMemory, TensorMemoryScales, encoding
from tilewright.layouts.queries import cga_layout, equivalent
from tilewright.layouts.tensor_memory import compatible_layouts
from tilewright.transforms.gpu.layout_transfer import (
    can_give,
    can_reorder,
    has_chosen_layout,
    is_dot_operand,
    layout_of_results,
    moves_data,
    tile_layout,
)
from tilewright.transforms.gpu.tile_ops import layout_of
from tilewright.transforms.matching import number_of

# --- conversions of results ---------------------------------------------------------------------------------------


def fold_conversion(op: ConvertLayout) -> Value | Number | None:
    """convert(x) to x's own layout  ->  x;   convert(constant)  ->  constant"""
    x = op.source
    if x.type is op.result.type:
        return x
    number = number_of(x)
    return None if number is None else Number(number.value, op.result.type)


def conversion_of_result(op: ConvertLayout, rewriter: Rewriter) -> bool:
    """convert(f(x))  ->  f(x) in the layout wanted, for an f that can give any

    Operands of matrix products that come from one are left: what feeds the second of two products is pipelined better
    with its conversion.
    """
    source, wanted = tile_layout(op.source), tile_layout(op.result)
    if isinstance(wanted, DotOperand) and isinstance(source, NvidiaMma):
        return False
    inner = op.source.op
    rule = None if inner is None else _CONVERTED.get(inner.name)
    return inner is not None and rule is not None and rule(op, inner, rewriter)


def _again(op: ConvertLayout, inner: Op, rewriter: Rewriter, *, before: Op | None = None) -> bool:
    new = rewriter.create(before or op, inner.name, inner.operands, (op.result.type,), dict(inner.attributes))
    rewriter.replace(op, new.results)
    return True


def _of_conversion(op: ConvertLayout, inner: ConvertLayout, rewriter: Rewriter) -> bool:
    rewriter.set_operands(op, inner.operands)
    return True


def _of_cat(op: ConvertLayout, inner: Cat, rewriter: Rewriter) -> bool:
    wanted = tile_layout(op.results[0])
    return wanted is not None and can_give(inner, wanted) and _again(op, inner, rewriter)


def _of_reshape(op: ConvertLayout, inner: Reshape, rewriter: Rewriter) -> bool:
    wanted = tile_layout(op.results[0])
    if wanted is None or not can_reorder(inner) or moves_data(inner.source, inner.result, wanted):
        return False
    if any(map(is_dot_operand, (*op.operands, *op.results))):  # registers of such a tile are packed
        return False
    attributes: dict[str, Attribute] = {"allow_reorder": inner.allow_reorder}
    rewriter.replace(op, rewriter.create(op, "tt.reshape", inner.results, (op.result.type,), attributes).results)
    return True


def _of_local_load(op: ConvertLayout, inner: LocalLoad, rewriter: Rewriter) -> bool:
    """Load in the wanted layout, at the place of the old load: the buffer may have changed since."""
    return _again(op, inner, rewriter, before=inner)


_CONVERTED: dict[str, Callable[[ConvertLayout, Any, Rewriter], bool]] = {
    "ttg.convert_layout": _of_conversion,
    "tt.reshape": _of_reshape,
    "tt.histogram": _again,
    "ttg.local_load": _of_local_load,
    "tt.cat": _of_cat,
    "tt.splat": _again,
    "tt.make_range": _again,
}

# --- conversions of operands --------------------------------------------------------------------------------------


def _conversion(value: Value) -> ConvertLayout | None:
    return defining(value, ConvertLayout)


def _is_trivial(conversion: ConvertLayout) -> bool:
    """Whether both layouts put every element in the same place."""
    source, result = tile_layout(conversion.source), tile_layout(conversion.result)
    shape = conversion.result.type.shape
    return source is not None and result is not None and shape is not None and equivalent(source, result, shape)


def _take_unconverted(op: Op, conversion: ConvertLayout, rewriter: Rewriter) -> bool:
    _, *others = op.operands
    rewriter.set_operands(op, [conversion.source, *others])
    return True


def reshape_of_conversion(op: Reshape, rewriter: Rewriter) -> bool:
    """reshape(convert(x))  ->  reshape(x), if nothing moves, or if the order is free"""
    conversion = _conversion(op.source)
    if conversion is None:
        return False
    if not _is_trivial(conversion):
        result = tile_layout(op.results[0])
        moves = result is None or moves_data(conversion.source, op.result, result)
        if moves or not op.allow_reorder:
            return False
    return _take_unconverted(op, conversion, rewriter)


def trans_in_order(op: Trans, rewriter: Rewriter) -> bool:
    """trans(x) in the old order  ->  convert(x)"""
    if op.order != tuple(range(len(op.order))):
        return False
    rewriter.replace(op, rewriter.create(op, "ttg.convert_layout", op.operands, (op.result.type,)).results)
    return True


def trans_of_conversion(op: Trans, rewriter: Rewriter) -> bool:
    """trans(convert(x))  ->  trans(x), if nothing moves"""
    conversion = _conversion(op.source)
    if conversion is None or not _is_trivial(conversion):
        return False
    return _take_unconverted(op, conversion, rewriter)


def split_of_conversion(op: Split, rewriter: Rewriter) -> bool:
    """split(convert(x))  ->  split(x), if the halves have the same layout"""
    conversion = _conversion(op.source)
    source = None if conversion is None else tile_layout(conversion.source)
    if conversion is None or source is None or layout_of_results(op, source) is not tile_layout(op.results[0]):
        return False
    return _take_unconverted(op, conversion, rewriter)


def histogram_of_conversion(op: Histogram, rewriter: Rewriter) -> bool:
    """histogram(convert(x), mask)  ->  histogram(x, convert(mask))"""
    conversion = _conversion(op.source)
    if conversion is None:
        return False
    x, operands = conversion.source, [conversion.source]
    if op.mask is not None:
        operands += rewriter.create(op, "ttg.convert_layout", (op.mask,), (with_element(x.type, i1),)).results
    rewriter.set_operands(op, operands)
    return True


def gather_of_conversion(op: Gather, rewriter: Rewriter) -> bool:
    """gather(convert(x), i)  ->  gather(x, i), unless a layout was chosen with care"""
    conversion = _conversion(op.source)
    if conversion is None or has_chosen_layout(op):
        return False
    return _take_unconverted(op, conversion, rewriter)


def to_memory_of_conversion(op: LocalAlloc | LocalStore, rewriter: Rewriter) -> bool:
    """local_alloc(convert(x))  ->  local_alloc(x);   local_store(convert(x), m)  ->  local_store(x, m)

    A conversion that gives a CTA what others have stays: each stores what is in its own memory.
    """
    tile = op.value if isinstance(op, LocalStore) else op.source
    conversion = None if tile is None else _conversion(tile)
    if conversion is None or cga_layout(layout_of(conversion.source)) != cga_layout(layout_of(conversion.result)):
        return False
    return _take_unconverted(op, conversion, rewriter)


def tensor_memory_store_of_conversion(op: Op, rewriter: Rewriter) -> bool:
    """tmem_store(convert(x), m)  ->  tmem_store(x, m), if tensor memory can be written in x's layout"""
    tile = operand(op, "src")
    conversion = None if tile is None else _conversion(tile)
    if conversion is None or not _can_store(op, conversion.source):
        return False
    rewriter.set_operands(op, [conversion.source if value is tile else value for value in op.operands])
    return True


def _can_store(op: Op, value: Value) -> bool:
    buffer, source, shape = operand(op, "dst"), tile_layout(value), value.type.shape
    memory = encoding(getattr(buffer.type, "encoding", "")) if buffer is not None else None
    if source is None or shape is None or not isinstance(memory, (TensorMemory, TensorMemoryScales)):
        return False
    try:
        candidates = compatible_layouts(memory, shape, bits=value.type.bits, warps=warps_of(op))
    except LayoutError:
        return False
    return any(equivalent(source, candidate, shape) for candidate in candidates)


FOLDS: dict[str, tuple[Fold, ...]] = {"ttg.convert_layout": (fold_conversion,)}
RULES: dict[str, tuple[Rule, ...]] = {
    "ttg.convert_layout": (conversion_of_result,),
    "tt.reshape": (reshape_of_conversion,),
    "tt.trans": (trans_in_order, trans_of_conversion),
    "tt.split": (split_of_conversion,),
    "tt.histogram": (histogram_of_conversion,),
    "tt.gather": (gather_of_conversion,),
    "ttg.local_alloc": (to_memory_of_conversion,),
    "ttg.local_store": (to_memory_of_conversion,),
    "ttng.tmem_store": (tensor_memory_store_of_conversion,),
}
