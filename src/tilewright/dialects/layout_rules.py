"""Verification of layouts: results follow from operands, and every layout fits the number of warps.

#blocked : warpsPerCTA = [4]   in a module with "ttg.num-warps" = 8 : i32      refused
tt.trans %x : tensor<8x4xf32, #blocked> -> tensor<4x8xf32, #blocked>           refused: order must be reversed

The results of checks are kept per type, so that verifying an op again is a table lookup.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from tilewright.ir.attributes import Attribute, DenseArray
from tilewright.ir.core import Op, Region, integer_in
from tilewright.ir.errors import VerificationError
from tilewright.ir.types import MemDescType, TensorType, Type
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import (
    Distributed,
    Encoding,
    LayoutError,
    PaddedShared,
    Shared,
    SharedLinear,
    encoding,
)
from tilewright.layouts.queries import equivalent, num_ctas

Infer: TypeAlias = Callable[..., Encoding]
_LAYOUTS = ("#ttg.", "#ttng.")
_DIALECTS = frozenset(("tt", "ttg", "ttng"))


def layout_of(type: Type) -> Encoding | None:
    """The layout of a tile or a buffer, if it has one; attributes of other dialects are none."""
    text = type.encoding if isinstance(type, (TensorType, MemDescType)) else None
    return encoding(text) if text is not None and text.startswith(_LAYOUTS) else None


# The result's layout


def require_layout(op: Op, infer: Infer, source: Type, result: Type, *details: Any) -> None:
    """`result` has the layout that `infer(layout, shape, *details)` gives for `source`, or one that is as good.

    Args:
        op: the op that is verified.
        infer: gives a layout, or raises LayoutError.
        source, result: types of an operand and of a result.
        details: further arguments of `infer`.
    """
    if _without_layout(source) and _without_layout(result):
        return
    problem = _layout_problem(infer, source, result, details)
    if problem is not None:
        raise VerificationError(op, problem)


def _without_layout(type: Type) -> bool:
    text = getattr(type, "encoding", None)
    return text is None or not text.startswith(_LAYOUTS)


def require_one_layout(op: Op, first: Type, second: Type) -> None:
    """Require that both have the same layout, or none."""
    if getattr(first, "encoding", None) != getattr(second, "encoding", None):
        raise VerificationError(op, f"layouts differ: {first} and {second}")


@cache
def _layout_problem(infer: Infer, source: Type, result: Type, details: tuple[Any, ...]) -> str | None:
    try:
        before, found = layout_of(source), layout_of(result)
        if before is None or found is None:
            return f"either both types have a layout or none: {source} and {result}"
        wanted = infer(before, source.shape, *details)
    except LayoutError as error:
        return str(error)
    if found is wanted or equivalent(found, wanted, result.shape or ()):
        return None
    return f"the result's layout must be {wanted.text}, not {found.text}"


# Layouts and what is around them


def verify_layouts(module: Op) -> None:
    """Every tile and buffer of the dialects tt, ttg and ttng has a layout for the warps and threads it is for.

    Raises:
        VerificationError: names the first op with one that has not.
    """
    warps = integer_in(module, "ttg.num-warps")
    if warps is None:
        return
    around = (integer_in(module, "ttg.threads-per-warp") or 32, integer_in(module, "ttg.num-ctas") or 1)
    for region in module.regions:
        _verify_region(region, warps, around)


def _verify_region(region: Region, warps: int, around: tuple[int, int]) -> None:
    for block in region.blocks:
        for op in block:
            if op.name.partition(".")[0] in _DIALECTS:
                for value in (*op.operands, *op.results):
                    problem = _misfit(value.type, warps, around)
                    if problem is not None:
                        raise VerificationError(op, problem)
            if op.regions:
                _verify_inside(op, warps, around)


def _warps_of_regions(op: Op) -> Attribute | None:
    """The numbers of warps that execute each region of `op`, if they are not those around it."""
    if op.name == "ttg.warp_specialize.partitions" and op.parent is not None:
        return op.parent.attributes.get("partitionNumWarps")
    return op.attributes.get("numWarps") if op.name == "nvws.warp_group" else None


def _verify_inside(op: Op, warps: int, around: tuple[int, int]) -> None:
    counts = _warps_of_regions(op)
    if isinstance(counts, DenseArray):
        for region, count in zip(op.regions, counts.values, strict=False):
            _verify_region(region, count, around)
        return
    own = integer_in(op, "ttg.num-warps") if op.definition.symbol else None
    for region in op.regions:
        _verify_region(region, warps if own is None else own, around)


@cache
def _misfit(type: Type, warps: int, around: tuple[int, int]) -> str | None:
    """The reason why the layout of `type` does not fit so many warps, threads per warp, and blocks; None if it does."""
    layout = layout_of(type)
    if layout is None:
        return None
    if isinstance(type, TensorType):
        return _tile_problem(type, layout, warps, around)
    assert isinstance(type, MemDescType), "only tiles and buffers have layouts"
    blocks = around[1]
    found = num_ctas(layout) if isinstance(layout, Shared) else blocks
    return _memory_problem(type) or _count_problem(layout, found, blocks, "blocks per cluster")


def _tile_problem(type: TensorType, layout: Encoding, warps: int, around: tuple[int, int]) -> str | None:
    threads, blocks = around
    rank = len(type.shape)
    if layout.rank != rank:
        return f"{layout.text} is for {layout.rank} dimensions, not {rank}"
    if not isinstance(layout, Distributed):
        return f"{layout.text} is no layout of tensors"
    if any(extent & (extent - 1) or not extent for extent in type.shape):
        return f"{type} has a layout, so its extents must be powers of two"
    try:
        linear = to_linear_layout(layout, type.shape)
    except LayoutError as error:
        return str(error)
    return (
        _count_problem(layout, num_ctas(layout), blocks, "blocks per cluster")
        or _count_problem(layout, linear.in_size("lane"), threads, "threads per warp")
        or _count_problem(layout, linear.in_size("warp"), warps, "warps")
    )


def _count_problem(layout: Encoding, found: int, wanted: int, what: str) -> str | None:
    return None if found == wanted else f"{layout.text} is for {found} {what}, but here are {wanted}"


# Buffers


def check_type(type: Type) -> None:
    """The layout of a tile or a buffer can be read; that of a buffer, and its memory, fit its shape.

    Raises:
        ValueError: they do not.
    """
    try:
        layout_of(type)
        problem = _memory_problem(type) if isinstance(type, MemDescType) else None
    except LayoutError as error:
        problem = str(error)
    if problem is not None:
        raise ValueError(problem)


@cache
def _memory_problem(type: MemDescType) -> str | None:
    shape, alloc_shape = type.shape, type.alloc_shape
    rank = len(shape)
    if not shape or not all(shape):
        return "a memory descriptor needs one dimension or more, none of them empty"
    if len(alloc_shape) < rank or any(a > b for a, b in zip(shape, alloc_shape[-rank:], strict=True)):
        return f"the shape {list(shape)} is not a part of the allocation's shape {list(alloc_shape)}"
    layout = layout_of(type)
    if layout is None:
        return f"{type.encoding} is no layout of buffers"
    return _buffer_problem(type, layout)


def _buffer_problem(type: MemDescType, layout: Encoding) -> str | None:
    """The reason why the layout does not fit the shape or the memory; None if it does."""
    shape, rank = type.shape, len(type.shape)
    if any(extent & (extent - 1) for extent in shape[1:]) and not isinstance(layout, PaddedShared):
        return f"extents but the first must be powers of two, not {list(shape)}"
    if isinstance(layout, PaddedShared) and layout.rank not in (rank, rank - 1):
        return f"{layout.text} is for {layout.rank} dimensions, not {rank}"
    space = "#ttng.tensor_memory" if layout.text.startswith("#ttng.") else "#ttg.shared_memory"
    if type.space != space:
        return f"{layout.text} is a layout of {space}, not of {type.space}"
    return _extent_problem(layout, type.alloc_shape)


def _extent_problem(layout: Encoding, alloc_shape: tuple[int, ...]) -> str | None:
    """The reason why a layout that says its own extents does not fit an allocation; None if it does."""
    if not isinstance(layout, (PaddedShared, SharedLinear)) or not layout.offset:
        return None
    extents = tuple(1 << max(column).bit_length() for column in zip(*layout.offset, *layout.block, strict=True))
    if not extents or extents == alloc_shape[-layout.rank :]:
        return None
    return f"{layout.text} is for the shape {list(extents)}, not {list(alloc_shape[-layout.rank :])}"
