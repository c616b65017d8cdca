"""Atomic read-modify-write: each returns the old value.

atomic_add(ptr, x, mask)     tt.atomic_rmw fadd, acq_rel, gpu, %ptr, %x, %mask
atomic_cas(ptr, old, new)    tt.atomic_cas acq_rel, gpu, %ptr, %old, %new
"""

from __future__ import annotations

from typing import Any

from tilewright.ir.attributes import Attribute, Keyword
from tilewright.semantics.arithmetic import and_, invert, scalar_or_tile, shr
from tilewright.semantics.casting import bitcast, cast
from tilewright.semantics.comparison import compare, where
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.distributed import settled
from tilewright.semantics.errors import AtomicNotSupported, BadArgument
from tilewright.semantics.memory import as_pointer_to, check_writable, fitting, fitting_mask, pointee_of
from tilewright.semantics.promotion import dtype_of_number
from tilewright.semantics.tile import Tile, build
from tilewright.semantics.types import dtype, float32, int1, int32, int64, pointer_type, uint32, uint64
from tilewright.support.diagnostics import SemanticError

ORDERINGS = {"acquire": "acquire", "release": "release", "acq_rel": "acq_rel", "relaxed": "relaxed"}
LOAD_ORDERINGS = {"acquire": "acquire", "relaxed": "relaxed"}
STORE_ORDERINGS = {"release": "release", "relaxed": "relaxed"}
NARROW = 16
_UNSIGNED = {32: uint32, 64: uint64}
SCOPES = {"gpu": "gpu", "cta": "cta", "sys": "sys", "launch": "launch"}


def atomic_rmw(
    operation: str, pointer: Any, value: Any, mask: Any = None, *, sem: Any = None, scope: Any = None
) -> Tile:
    """Replace memory by `operation(memory, value)`: add, max, min, and, or, xor or xchg.

    Args:
        operation: the name of one of these.
        pointer: a tile of pointers, or a scalar pointer.
        value: the operand.
        mask: which elements take part; None: all.
        sem: the memory ordering; None: `acq_rel`.
        scope: the threads among which the operation is atomic; None: `gpu`.

    Raises:
        SemanticError: no such operation for the element type, or an argument that does not fit.
    """
    element = _element(operation, pointer)
    _check_element(operation, element)
    pointer = settled(settled(pointer, value), mask)
    like = pointer.type
    operand = fitting(scalar_or_tile(value, element, like), like, "val")
    chosen = fitting_mask(True if unwrap(mask) is None else unwrap(mask), like)
    order = (_choice("sem", sem, ORDERINGS, "acq_rel"), _choice("scope", scope, SCOPES, "gpu"))
    if operation in ("max", "min") and element.floating:
        return _float_extremum(operation, pointer, operand, chosen, order)
    return _emit(_keyword(operation, element), pointer, operand, chosen, order)


def atomic_cas(pointer: Any, expected: Any, value: Any, *, sem: Any = None, scope: Any = None) -> Tile:
    """Write `value` where memory equals `expected`.

    Args:
        pointer: a tile of pointers, or a scalar pointer.
        expected, value: the number to compare with, and the new one.
        sem: the memory ordering; None: `acq_rel`.
        scope: the threads among which the operation is atomic; None: `gpu`.

    Raises:
        SemanticError: elements that are not 16, 32 or 64 bits wide, or an argument that does not fit.
    """
    element = _element("cas", pointer)
    if element.primitive_bitwidth not in (16, 32, 64):
        raise SemanticError(AtomicNotSupported("cas", element, "elements of 16, 32 or 64 bits"))
    pointer = settled(settled(pointer, value), expected)
    like = pointer.type
    old = fitting(scalar_or_tile(expected, element, like), like, "cmp")
    new = fitting(scalar_or_tile(value, element, like), like, "val")
    attributes: dict[str, Attribute] = {
        "sem": _choice("sem", sem, ORDERINGS, "acq_rel"),
        "scope": _choice("scope", scope, SCOPES, "gpu"),
    }
    result = build(
        "tt.atomic_cas", [pointer.handle, old.handle, new.handle], pointer.type.with_element_ty(element), attributes
    )
    return cast(result, _sign_of(value, element))


def _sign_of(value: Any, element: dtype) -> dtype:
    """`element` with the sign of `value`, whose type the result has."""
    own = value.type.scalar if isinstance(value, Tile) else dtype_of_number(unwrap(value))
    return own if own.ir is element.ir else element


def atomic_load(pointer: Any, mask: Any = None, *, sem: Any = None, scope: Any = None) -> Tile:
    """Read memory: a read-modify-write of the bits that changes none of them."""
    order = _choice("sem", sem, LOAD_ORDERINGS, "acquire").name
    element = _element("load", pointer, writes=False)
    bits = _UNSIGNED.get(element.primitive_bitwidth)
    if bits is None:
        raise SemanticError(AtomicNotSupported("load", element, "elements of 32 or 64 bits"))
    address = cast(pointer, pointer_type(element if element.integer else bits, pointer.type.scalar.address_space))
    return bitcast(atomic_rmw("or", address, 0, mask, sem=order, scope=scope), element)


def atomic_store(pointer: Any, value: Any, mask: Any = None, *, sem: Any = None, scope: Any = None) -> None:
    """Write memory: an exchange whose result is unused.

    Args:
        pointer: a tile of pointers, or a scalar pointer.
        value: the new numbers.
        mask: which elements are written; None: all.
        sem: the memory ordering; None: `release`.
        scope: the threads among which the operation is atomic; None: `gpu`.
    """
    order = _choice("sem", sem, STORE_ORDERINGS, "release").name
    atomic_rmw("xchg", pointer, value, mask, sem=order, scope=scope)


def polled(pointer: Any, expected: Any, *, sem: Any = None, scope: Any = None) -> Tile:
    """Read memory once, atomically: where it is as expected.

    Raises:
        SemanticError: `pointer` does not point at integers of 16, 32 or 64 bits, or an argument does not fit.
    """
    element = _element("poll", pointer, writes=False)
    if not element.integer or element.primitive_bitwidth not in (16, 32, 64):
        raise SemanticError(AtomicNotSupported("poll", element, "integers of 16, 32 or 64 bits"))
    wanted = fitting(scalar_or_tile(expected, element, pointer.type), pointer.type, "expected_value")
    order = _choice("sem", sem, LOAD_ORDERINGS, "acquire").name
    if element.primitive_bitwidth == NARROW:  # writes what is there already
        return compare("==", atomic_cas(pointer, wanted, wanted, sem=order, scope=scope), wanted)
    return compare("==", atomic_load(pointer, sem=order, scope=scope), wanted)


def _element(operation: str, pointer: Any, *, writes: bool = True) -> dtype:
    kind = pointee_of(pointer, f"atomic_{operation}")
    if writes:
        check_writable(pointer)
    if not isinstance(kind, dtype):
        raise SemanticError(AtomicNotSupported(operation, kind, "a tile of pointers"))
    return kind


def _check_element(operation: str, element: dtype) -> None:
    if operation in ("and", "or", "xor"):
        allowed, expected = element.integer and element.primitive_bitwidth >= 32, "integers of 32 or 64 bits"
    elif operation == "add":
        narrow = element.is_fp16() or element.is_bf16()
        allowed, expected = narrow or element.primitive_bitwidth >= 32, "fp16, bf16 or elements of 32 or 64 bits"
    else:
        allowed, expected = element.primitive_bitwidth >= 32, "elements of 32 or 64 bits"
    if not allowed:
        raise SemanticError(AtomicNotSupported(operation, element, expected))


def _choice(name: str, value: Any, accepted: dict[str, str], default: str) -> Keyword:
    chosen = unwrap(value) or default
    if chosen not in accepted:
        raise SemanticError(BadArgument("atomic", name, chosen, ", ".join(accepted)))
    return Keyword(accepted[chosen])


def _keyword(operation: str, element: dtype) -> Keyword:
    """The operation as the IR calls it: floats add by `fadd`, unsigned integers compare by `umax`."""
    if operation == "xchg":
        return Keyword("exch")
    if operation == "add":
        return Keyword("fadd" if element.floating else "add")
    if operation in ("max", "min"):
        return Keyword(operation if element.signed else f"u{operation}")
    return Keyword(operation)


def _emit(operation: Keyword, pointer: Tile, value: Tile, mask: Tile, order: tuple[Keyword, Keyword]) -> Tile:
    attributes: dict[str, Attribute] = {"atomic_rmw_op": operation, "sem": order[0], "scope": order[1]}
    return build("tt.atomic_rmw", [pointer.handle, value.handle, mask.handle], value.type, attributes)


def _float_extremum(operation: str, pointer: Tile, value: Tile, mask: Tile, order: tuple[Keyword, Keyword]) -> Tile:
    """max and min of floats on their bits: those of positive floats order like signed integers, those of negative
    ones like unsigned integers backwards."""
    element = value.type.scalar
    signed, unsigned = (int32, uint32) if element is float32 else (int64, uint64)
    bits = bitcast(value, unsigned)
    negative = cast(shr(bits, element.primitive_bitwidth - 1), int1)
    positive = invert(negative)
    opposite = "min" if operation == "max" else "max"
    upward = _emit(
        _keyword(operation, signed), as_pointer_to(pointer, signed), bitcast(value, signed), and_(mask, positive), order
    )
    downward = _emit(_keyword(opposite, unsigned), as_pointer_to(pointer, unsigned), bits, and_(mask, negative), order)
    return bitcast(where(positive, upward, downward), element)
