"""Tiles with layouts: creation, loads, stores, and conversion to another layout."""

from __future__ import annotations

from typing import Any

from tilewright.ir.attributes import Keyword, Number
from tilewright.ir.types import i32
from tilewright.language.core import accept_semantic
from tilewright.language.tuples import tuple
from tilewright.semantics import memory, shapes
from tilewright.semantics.active import context
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.broadcasting import broadcast as broadcast_pair
from tilewright.semantics.broadcasting import stretch
from tilewright.semantics.cache_policies import LOADS, STORES, attributes_of_policy
from tilewright.semantics.casting import cast
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.distributed import distributed_type
from tilewright.semantics.distributed import set_auto_layout as set_layout
from tilewright.semantics.gluon import converted, linear_value
from tilewright.semantics.layout_values import AutoLayout, BlockedLayout, DistributedLayout, DotOperandLayout, plain
from tilewright.semantics.reductions import histogram as counted
from tilewright.semantics.tile import Tile, build


def arange(start: Any, end: Any, layout: Any = None) -> Any:
    """The int32 values `start … end - 1` in this layout; without one the compiler finds it."""
    return shapes.arange(start, end, AutoLayout() if layout is None else unwrap(layout))


def full(shape: Any, value: Any, dtype: Any, layout: Any = None) -> Any:
    """A tile of `shape` and `dtype` with `value` (number or scalar) in every element; `()` gives a scalar."""
    extents = shapes.constant_shape(shape)
    if isinstance(value, Tile):
        element = cast(value, unwrap(dtype))
        if not extents:
            return element
        return stretch(element, distributed_type(element.type.scalar, extents, _or_auto(layout)))
    scalar = shapes.full((), value, dtype)
    if not extents:
        return scalar
    return stretch(scalar, distributed_type(scalar.type.scalar, extents, _or_auto(layout)))


def _or_auto(layout: Any) -> Any:
    return AutoLayout() if unwrap(layout) is None else unwrap(layout)


def zeros(shape: Any, dtype: Any, layout: Any = None) -> Any:
    """A tile of zeros; arguments as for `full`."""
    return full(shape, 0, dtype, layout)


def full_like(input: Any, value: Any, shape: Any = None, dtype: Any = None, layout: Any = None) -> Any:
    """A tile like `input`, with `value` in every element; given arguments override `input`.

    Args:
        input: a tile.
        value: a number or a scalar.
        shape, dtype, layout: extents, element type and layout of the result; None: those of `input`.
    """
    kind = input.type
    return full(
        kind.shape if unwrap(shape) is None else shape,
        value,
        kind.scalar if unwrap(dtype) is None else dtype,
        kind.layout if unwrap(layout) is None else layout,
    )


def zeros_like(input: Any, shape: Any = None, dtype: Any = None, layout: Any = None) -> Any:
    """A tile of zeros like `input`; see `full_like`."""
    return full_like(input, 0, shape, dtype, layout)


def load(
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    *,
    cache_modifier: Any = None,
    eviction_policy: Any = None,
    volatile: Any = False,
    cache_policy: Any = None,
) -> Any:
    """The data at `pointer`, in its layout.

    Args:
        pointer: a tile of pointers, or a scalar pointer.
        mask: where to load; masked-off elements touch no memory.
        other: the value of masked-off elements; without it they are undefined.
        cache_modifier, eviction_policy: hints.
        volatile: the value may change at any time.
        cache_policy: a `CachePolicy`, instead of these hints.
    """
    return memory.load(
        pointer,
        mask,
        other,
        cache_modifier=unwrap(cache_modifier) or "",
        eviction_policy=unwrap(eviction_policy) or "",
        volatile=bool(unwrap(volatile)),
        hints=attributes_of_policy("load", cache_policy, (cache_modifier, eviction_policy), LOADS),
    )


def store(
    pointer: Any,
    value: Any,
    mask: Any = None,
    *,
    cache_modifier: Any = None,
    eviction_policy: Any = None,
    cache_policy: Any = None,
) -> None:
    """Write `value`, converted to the element type, to `pointer` where `mask` holds; arguments as for `load`.

    Args:
        pointer, mask: as for `load`.
        value: a tile, a scalar or a number.
        cache_modifier, eviction_policy: hints.
        cache_policy: a `CachePolicy`, instead of these hints.
    """
    cache, eviction = unwrap(cache_modifier) or "", unwrap(eviction_policy) or ""
    hints = attributes_of_policy("store", cache_policy, (cache, eviction), STORES)
    memory.store(pointer, value, mask, cache_modifier=cache, eviction_policy=eviction, hints=hints)


def broadcast(input: Any, other: Any) -> tuple:
    """Both tiles stretched to their common shape; one of them may have no layout yet."""
    return tuple(broadcast_pair(to_tensor(input), to_tensor(other)))


def convert_layout(value: Any, layout: Any, assert_trivial: Any = False) -> Any:
    """`value` in another layout.

    Args:
        value: a tile.
        layout: the new layout.
        assert_trivial: raise unless every thread has its elements already.
    """
    return converted(value, unwrap(layout), trivial=bool(unwrap(assert_trivial)))


def set_auto_layout(value: Any, layout: Any) -> Any:
    """`value`, whose layout the compiler was to find, in this one."""
    return set_layout(value, unwrap(layout))


def to_linear_layout(layout: Any, shape: Any) -> Any:
    """The layout of tiles of `shape` as a `DistributedLinearLayout` or `SharedLinearLayout`."""
    return linear_value(unwrap(layout), shapes.constant_shape(shape))


def histogram(input: Any, num_bins: Any, mask: Any = None, layout: Any = None) -> Any:
    """The counts of `0 … num_bins - 1` in a one-dimensional tile, where `mask` holds, in this layout."""
    return counted(input, num_bins, unwrap(mask), layout=unwrap(layout))


def fp4_to_fp(src: Any, elem_type: Any, axis: Any) -> Any:
    """The numbers of four bits (e2m1) of a tile of bytes, two from each, side by side along `axis`.

    Args:
        src: the bytes.
        elem_type: the type of the results.
        axis: which extent doubles.
    """
    position = shapes.checked_axis(axis, len(src.type.shape))
    result = src.type.unpacked(position).with_element_ty(unwrap(elem_type))
    return build("ttg.fp4_to_fp", [src.handle], result, {"axis": Number(position, i32)})


def dot_fma(a: Any, b: Any, acc: Any) -> Any:
    """`a @ b + acc` by multiplications and additions of each thread.

    Args:
        a, b: tiles whose layouts are operands of the layout of `acc`.
        acc: a tile with a blocked layout.
    """
    check_operands(a, b, acc, BlockedLayout, "a BlockedLayout")
    return product(a, b, acc)


def check_operands(a: Any, b: Any, acc: Any, kind: type[DistributedLayout], expected: str) -> None:
    """Assert that three tiles are the operands and the sum of a product.

    Args:
        a, b: the operands.
        acc: the sum.
        kind: the class of its layout.
        expected: the name of that class, with an article, for messages.
    """
    for name, value in (("a", a), ("b", b), ("acc", acc)):
        assert isinstance(value, Tile), f"{name} must be a tensor"
    parent = acc.type.layout
    assert isinstance(parent, kind), f"acc must have {expected}"
    for number, (name, value) in enumerate((("a", a), ("b", b))):
        layout = value.type.layout
        assert isinstance(layout, DotOperandLayout), f"{name} must have a DotOperandLayout"
        assert plain(layout.parent) == parent, f"{name}'s parent layout must be the same as acc's layout"
        assert layout.operand_index == number, f"{name}'s operand index must be {number}"
    assert len(acc.type.shape) == len(a.type.shape) == len(b.type.shape), "operands have different ranks"


def product(a: Any, b: Any, acc: Any, precision: str | None = None) -> Any:
    """`a @ b + acc`, whose layouts were checked."""
    wanted = Keyword(precision or context().dot_precision)
    attributes: dict[str, Any] = {"maxNumImpreciseAcc": Number(0, i32), "inputPrecision": wanted}
    return build("tt.dot", [a.handle, b.handle, acc.handle], acc.type, attributes)


accept_semantic(globals())
