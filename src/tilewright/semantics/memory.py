"""Loads and stores.

    load(tile of pointers, mask, other=0)     tt.load %p, %mask, %other
    store(ptr, value, mask)                   value and mask take the shape of ptr, then tt.store
    load(block pointer, boundary_check=(0,))  tt.load {boundaryCheck = 0}

Booleans are bytes in memory, so they are loaded and stored as int8.
"""

from __future__ import annotations

from typing import Any

from tilewright.ir.attributes import Attribute, DenseArray, Keyword
from tilewright.ir.types import i32
from tilewright.semantics.active import active
from tilewright.semantics.arithmetic import scalar_or_tile, to_tensor
from tilewright.semantics.broadcasting import broadcast_to, stretch
from tilewright.semantics.casting import cast
from tilewright.semantics.constexpr import unwrap, unwrap_all
from tilewright.semantics.distributed import settled
from tilewright.semantics.errors import (
    BadArgument,
    MaskNotBoolean,
    NotAPointer,
    NotForBlockPointers,
    NoWayBetween,
    OnlyForBlockPointers,
    OtherNeedsMask,
    StoreToConst,
    TileThroughScalarPointer,
)
from tilewright.semantics.tile import Tile, build
from tilewright.semantics.types import AnyType, block_type, dtype, int1, int8, pointer_type
from tilewright.support.diagnostics import SemanticError

LOAD_CACHES = {".ca": "ca", ".cg": "cg", ".cs": "cs", ".cv": "cv"}
STORE_CACHES = {".wb": "wb", ".cg": "cg", ".cs": "cs", ".wt": "wt"}
EVICTIONS = ("evict_first", "evict_last", "evict_normal")
PADDINGS = {"zero": "pad_zero", "nan": "pad_nan"}

Attributes = dict[str, Attribute]


def load(
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    *,
    boundary_check: Any = (),
    padding_option: str = "",
    cache_modifier: str = "",
    eviction_policy: str = "",
    volatile: bool = False,
    hints: Attributes | None = None,
) -> Tile:
    """Load what `pointer` points at; masked-off elements are `other` (undefined without it) and touch no memory.

    Cache modifier and eviction policy are words, or attributes (`hints`).

    Args:
        pointer: a tile of pointers, a scalar pointer or a block pointer.
        mask, other: values that broadcast to the shape of `pointer`.
        boundary_check: the axes of a block that may leave the tensor.
        padding_option: `zero` or `nan`, outside of it.
        cache_modifier, eviction_policy: hints, "" for none.
        volatile: the value may change at any time.
        hints: attributes, instead of these words.

    Raises:
        SemanticError: no pointer, a mask that does not fit, an option that does not exist.
    """
    attributes = {**hints} if hints else cache_hints("load", LOAD_CACHES, cache_modifier, eviction_policy)
    if volatile:
        attributes["isVolatile"] = True
    mask, other = unwrap(mask), unwrap(other)
    if mask is None and other is not None:
        raise SemanticError(OtherNeedsMask())
    kind = pointee_of(pointer, "load")
    if kind.is_block():
        if mask is not None or other is not None:
            raise SemanticError(NotForBlockPointers("mask" if mask is not None else "other", pointer.type))
        _describe_bounds(kind, boundary_check, padding_option, attributes)
        return build("tt.load", [pointer.handle], kind, attributes)
    _refuse_block_options(pointer, boundary_check, padding_option)
    is_boolean = kind is int1
    if is_boolean:
        pointer, kind = as_byte_pointer(pointer), int8
    pointer = settled(pointer, mask)
    like = pointer.type
    operands = [pointer.handle]
    if mask is not None:
        operands.append(fitting_mask(mask, like).handle)
        if other is not None:
            operands.append(fitting(_elements(other, kind, like), like, "other").handle)
    loaded = build("tt.load", operands, like.with_element_ty(kind), attributes)
    return cast(loaded, int1) if is_boolean else loaded


def store(
    pointer: Any,
    value: Any,
    mask: Any = None,
    *,
    boundary_check: Any = (),
    cache_modifier: str = "",
    eviction_policy: str = "",
    hints: Attributes | None = None,
) -> None:
    """Write `value`, converted to the element type, where `mask` holds; options as for `load`.

    Raises:
        SemanticError: no pointer or a const one, shapes that do not fit, an option that does not exist.
    """
    attributes = {**hints} if hints else cache_hints("store", STORE_CACHES, cache_modifier, eviction_policy)
    mask = unwrap(mask)
    kind = pointee_of(pointer, "store")
    check_writable(pointer)
    if kind.is_block():
        if mask is not None:
            raise SemanticError(NotForBlockPointers("mask", pointer.type))
        _describe_bounds(kind, boundary_check, "", attributes)
        tile = broadcast_to(_elements(value, kind.element_ty, kind), kind.shape)
        active().emit("tt.store", [pointer.handle, tile.handle], (), attributes)
        return
    _refuse_block_options(pointer, boundary_check, "")
    if kind is int1:
        pointer, kind = as_byte_pointer(pointer), int8
        value = cast(to_tensor(value), int1)
    pointer = settled(settled(pointer, value), mask)
    like = pointer.type
    operands = [pointer.handle, fitting(_elements(value, kind, like), like, "value").handle]
    if mask is not None:
        operands.append(fitting_mask(mask, like).handle)
    active().emit("tt.store", operands, (), attributes)


def pointee_of(pointer: Any, operation: str) -> Any:
    """The type behind `pointer`: an element type, or a tile type for block pointers."""
    if isinstance(pointer, Tile):
        kind = pointer.type.scalar
        if isinstance(kind, pointer_type):
            return kind.element_ty
        raise SemanticError(NotAPointer(operation, pointer.type))
    raise SemanticError(NotAPointer(operation, type(pointer).__name__))


def check_writable(pointer: Tile) -> None:
    """Raise for pointers to const."""
    if pointer.type.scalar.is_const():
        raise SemanticError(StoreToConst(pointer.type.scalar))


def scalar_pointer(pointer: Tile) -> pointer_type:
    """The type of the pointer, or of each of a tile of pointers."""
    scalar = pointer.type.scalar
    assert isinstance(scalar, pointer_type), f"{scalar} is no pointer"
    return scalar


def as_pointer_to(pointer: Tile, element: dtype) -> Tile:
    """The same addresses as pointers to `element`."""
    old = scalar_pointer(pointer)
    return cast(pointer, pointer_type(element, old.address_space, old.const))


def as_byte_pointer(pointer: Tile) -> Tile:
    """A pointer to booleans as a pointer to the bytes that hold them."""
    return as_pointer_to(pointer, int8)


def fitting_mask(mask: Any, like: AnyType) -> Tile:
    """`mask` as booleans in the shape of `like`.

    Raises:
        SemanticError: it has other elements, or another shape.
    """
    if not isinstance(mask, Tile):
        known = unwrap(mask)
        if not isinstance(known, bool):
            raise SemanticError(MaskNotBoolean(to_tensor(known).type.scalar))
        return scalar_or_tile(known, int1, like)
    if mask.type.scalar is not int1:
        raise SemanticError(MaskNotBoolean(mask.type.scalar))
    return fitting(mask, like, "mask")


def fitting(tile: Tile, like: AnyType, name: str) -> Tile:
    """`tile` in the shape of `like`; what is refused is said with the name of the argument."""
    if tile.type.shape and not like.shape:
        raise SemanticError(TileThroughScalarPointer(name))
    return stretch(tile, like)


def cache_hints(function: str, caches: dict[str, str], cache: Any, eviction: Any) -> Attributes:
    """The attributes of the cache and eviction arguments."""
    cache, eviction = unwrap(cache), unwrap(eviction)
    attributes: Attributes = {}
    if cache:
        if cache not in caches:
            raise SemanticError(BadArgument(function, "cache_modifier", cache, ", ".join(caches)))
        attributes["cache"] = Keyword(caches[cache])
    if eviction:
        if eviction not in EVICTIONS:
            raise SemanticError(BadArgument(function, "eviction_policy", eviction, ", ".join(EVICTIONS)))
        if eviction != "evict_normal":
            attributes["evict"] = Keyword(eviction)
    return attributes


def _refuse_block_options(pointer: Tile, boundary_check: Any, padding_option: Any) -> None:
    if unwrap_all(boundary_check):
        raise SemanticError(OnlyForBlockPointers("boundary_check", pointer.type))
    if unwrap(padding_option):
        raise SemanticError(OnlyForBlockPointers("padding_option", pointer.type))


def checked_axes(boundary_check: Any, rank: int) -> tuple[int, ...]:
    """The axes of `boundary_check`, sorted."""
    axes = unwrap_all(boundary_check)
    axes = axes if isinstance(axes, tuple) else (axes,)
    if len(set(axes)) != len(axes) or any(not isinstance(axis, int) or not 0 <= axis < rank for axis in axes):
        raise SemanticError(BadArgument("load/store", "boundary_check", axes, f"different axes from 0 to {rank - 1}"))
    return tuple(sorted(axes))


def _describe_bounds(kind: block_type, boundary_check: Any, padding_option: Any, attributes: Attributes) -> None:
    padding = unwrap(padding_option)
    axes = checked_axes(boundary_check, len(kind.shape))
    if axes:
        attributes["boundaryCheck"] = DenseArray(i32, axes)
    if padding:
        attributes.update(padding_attribute("load", padding, kind.element_ty))


def padding_attribute(function: str, padding: Any, element: dtype) -> Attributes:
    """The attribute `padding`, for what is read outside a tensor.

    Raises:
        SemanticError: there is no such padding, or none for these elements.
    """
    if padding not in PADDINGS:
        raise SemanticError(BadArgument(function, "padding_option", padding, ", ".join(PADDINGS)))
    if padding == "nan" and element.integer:
        raise SemanticError(BadArgument(function, "padding_option", padding, "zero: integers have no NaN"))
    return {"padding": Keyword(PADDINGS[padding])}


def _elements(value: Any, kind: dtype, like: AnyType) -> Tile:
    """A number or tile as elements of `kind`; an integer is none of an 8-bit float."""
    number = unwrap(value)
    if isinstance(number, int) and kind.is_fp8():
        raise SemanticError(NoWayBetween(f"the integer {number}", kind))
    return scalar_or_tile(value, kind, like)
