"""Reference semantics of the tile dialect's ops that touch no memory, in NumPy; see also `arithmetic_semantics`.

    TILE_SEMANTICS["tt.expand_dims"](op, np.arange(4))      shape (4,) -> (4, 1) for axis = 1

Pointers are addresses in int64, so `tt.addptr` multiplies by the size of what they point at.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dialects.arithmetic_semantics import (
    ARITHMETIC_SEMANTICS,
    UNSIGNED,
    ReferenceSemantics,
    floating,
    larger_number,
    quiet,
    smaller_number,
)
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.ir.types import PointerType
from tilewright.support.diagnostics import NotSupported, located
from tilewright.support.exact_rounding import NEAREST, Array, convert_float, rounded, towards_zero

# --- shapes -------------------------------------------------------------------------------------------------------


def _shape(op: Any) -> tuple[int, ...]:
    shape: tuple[int, ...] = op.results[0].type.shape or ()
    return shape


def _number(op: Any, name: str) -> int:
    return int(op.attributes[name].value)


def _splat(op: Any, a: Array) -> Array:
    return np.broadcast_to(a, _shape(op))


def _gather(op: Any, source: Array, indices: Array) -> Array:
    """Numbers below 32 bits have no sign."""
    places = list(np.indices(indices.shape, sparse=True))
    places[_number(op, "axis")] = indices.view(f"u{indices.itemsize}") if indices.itemsize < 4 else indices
    return source[tuple(places)]


def _histogram(op: Any, a: Array, mask: Array | bool = True) -> Array:
    """The counts of each number below the result's extent; other numbers are not counted."""
    (bins,) = _shape(op)
    counted = a[(a >= 0) & (a < bins) & mask]
    return np.bincount(counted.astype(np.int64), minlength=bins).astype(np.int32)


# --- lanes --------------------------------------------------------------------------------------------------------


def _reinterpret(op: Any, a: Array) -> Array:
    """The bits of all lanes as lanes of the result's width."""
    return np.ascontiguousarray(a).view(numpy_dtype(op.results[0].type)).reshape(_shape(op))


def _wide(a: Array) -> type[np.int64 | np.float64]:
    """The type in which products of numbers like those of `a` are added."""
    return np.int64 if a.dtype.kind in "iu" else np.float64


def _dot_accumulate(op: Any, a: Array, b: Array, accumulator: Array) -> Array:
    """Products and sums of floats in double, rounded at the end; the sums of machines differ by less than 2 ulp."""
    left = a.view(UNSIGNED[a.dtype]) if op.unsigned else a
    wide = _wide(left)
    products = left.astype(wide) * b.astype(wide)
    sums = products.reshape(accumulator.shape[0], -1).sum(axis=1)
    return (accumulator.astype(wide) + sums).astype(accumulator.dtype)


def _matrix_accumulate(op: Any, a: Array, b: Array, accumulator: Array) -> Array:
    """Sums as those of `_dot_accumulate`; 16 bytes of each operand are two rows and two columns."""
    del op
    wide = _wide(a)
    rows, columns = (side.astype(wide).reshape(accumulator.shape[0] // 4, 2, -1) for side in (a, b))
    sums = (rows[:, :, None, :] * columns[:, None, :, :]).sum(axis=3)
    return (accumulator.astype(wide) + sums.reshape(-1)).astype(accumulator.dtype)


def _multiply_tiles(op: Any, a: Array, b: Array, accumulator: Array) -> Array:
    """Sums as those of `_dot_accumulate`; a row of `b` has a group of neighbours along k for each column."""
    del op
    wide = _wide(a)
    columns = accumulator.shape[1]
    left, right = a.astype(wide), b.astype(wide).reshape(b.shape[0], columns, -1).transpose(0, 2, 1)
    return (accumulator.astype(wide) + left @ right.reshape(-1, columns)).astype(accumulator.dtype)


# --- pointers and bits --------------------------------------------------------------------------------------------


def element_bytes(pointer: Any) -> int:
    """The bytes between two elements that a pointer of type `pointer` (or a tile of them) points at."""
    scalar = pointer.scalar
    assert isinstance(scalar, PointerType), f"{pointer} holds no pointers"
    return int(scalar.pointee.bits + 7) // 8


@quiet
def _add_pointer(op: Any, pointer: Array, offset: Array) -> Array:
    return pointer + offset.astype(np.int64) * np.int64(element_bytes(op.results[0].type))


def _convert_integer(op: Any, a: Array) -> Array:
    return a.astype(numpy_dtype(op.results[0].type))


# --- arithmetic ---------------------------------------------------------------------------------------------------


@quiet
def _high_product(op: Any, a: Array, b: Array) -> Array:
    """The upper half of the unsigned product."""
    bits = a.dtype.itemsize * 8
    view = UNSIGNED[a.dtype]
    x, y = (v.view(view).astype(np.uint64) for v in (a, b))
    if bits < 64:
        return (x * y >> np.uint64(bits)).astype(view).view(a.dtype)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    carry = x0 * y1 + (middle & low)
    return (x1 * y1 + (middle >> half) + (carry >> half)).view(a.dtype)


@quiet
def _clamp(op: Any, x: Array, low: Array, high: Array) -> Array:
    """x between low and high; NaN gives `low`, or NaN where it propagates."""
    wide = [v if v.dtype.itemsize > 2 else v.astype(np.float32) for v in (x, low, high)]
    clamped = smaller_number(larger_number(wide[0], wide[1]), wide[2])
    if op.attributes["propagateNan"].name == "all":
        clamped = np.where(np.isnan(wide[0]), wide[0], clamped)
    return convert_float(clamped, x.dtype)


@quiet
def _convert(op: Any, a: Array) -> Array:
    dtype = numpy_dtype(op.results[0].type)
    rounding = op.attributes.get("rounding")
    if rounding is not None and rounding.name == "rtz":
        return towards_zero(a, dtype)
    return convert_float(a, dtype)


# --- library functions --------------------------------------------------------------------------------------------


def _half_away(a: Array) -> Array:
    """The nearest integer; halves go away from zero."""
    whole = np.trunc(a)
    return np.copysign(np.abs(whole) + (np.abs(a - whole) >= 0.5), a)


LIBRARY: dict[str, Any] = {
    **{name: getattr(np, f"arc{name[1:]}") for name in ("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh")},
    "cbrt": np.cbrt,
    "copysign": np.copysign,
    "cosh": np.cosh,
    "exp10": lambda a: np.power(10.0, a),
    "expm1": np.expm1,
    "fmod": np.fmod,
    "log10": np.log10,
    "log1p": np.log1p,
    "pow": np.power,
    "rint": np.rint,
    "round": _half_away,
    "sigmoid": lambda a: 1.0 / (1.0 + np.exp(-a)),
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}
"""Functions of `tt.extern_elementwise` by their symbol without `__tw_`, evaluated in double precision."""


PTX_ROUNDING = {"rn": "rn", "rz": "rz", "rd": "rm", "ru": "rp"}
DIRECTED = {f"{operation}_{name}": (operation, mode) for operation in NEAREST for name, mode in PTX_ROUNDING.items()}
"""Arithmetic of `tt.extern_elementwise` with directed rounding: to nearest, towards zero, down, up."""


@quiet
def _library_function(op: Any, *arrays: Array) -> Array:
    symbol: str = op.attributes["symbol"]
    name = symbol.removeprefix("__tw_")
    if name in DIRECTED:
        return rounded(*DIRECTED[name], arrays)
    compute = LIBRARY.get(name)
    if compute is None:
        reason = "the pass adopt_libraries writes what is known of other libraries in ops"
        raise located(NotSupported(symbol, reason), None)
    return convert_float(compute(*(a.astype(np.float64) for a in arrays)), numpy_dtype(op.results[0].type))


_ONE_BY_ONE = {
    "add": "arith.addf",
    "fma": "math.fma",
    "max": "arith.maxnumf",
    "min": "arith.minnumf",
    "mul": "arith.mulf",
    "sub": "arith.subf",
}
"""The op on single elements, by the operation of `ttng.packed_arith`."""


def _packed_arithmetic(op: Any, *operands: Array) -> Any:
    return ARITHMETIC_SEMANTICS[_ONE_BY_ONE[op.operation]](op, *operands)


TILE_SEMANTICS: dict[str, ReferenceSemantics] = {
    "amx.tile_mulf": _multiply_tiles,
    "amx.tile_muli": _multiply_tiles,
    "tt.addptr": _add_pointer,
    "tt.bitcast": ARITHMETIC_SEMANTICS["arith.bitcast"],
    "tt.broadcast": _splat,
    "tt.cat": lambda op, a, b: np.concatenate((a, b)),
    "tt.clampf": _clamp,
    "tt.expand_dims": lambda op, a: np.expand_dims(a, _number(op, "axis")),
    "tt.extern_elementwise": _library_function,
    "tt.fp_to_fp": _convert,
    "tt.gather": _gather,
    "tt.histogram": _histogram,
    "tt.int_to_ptr": _convert_integer,
    "tt.join": lambda op, a, b: np.stack((a, b), axis=-1),
    "tt.make_range": lambda op: np.arange(_number(op, "start"), _number(op, "end"), dtype=np.int32),
    "tt.mulhiui": _high_product,
    "tt.precise_divf": floating(np.divide),
    "tt.precise_sqrt": floating(np.sqrt),
    "tt.ptr_to_int": _convert_integer,
    "tt.reshape": lambda op, a: a.reshape(_shape(op)),
    "tt.splat": _splat,
    "tt.split": lambda op, a: (a[..., 0], a[..., 1]),
    "tt.trans": lambda op, a: a.transpose(op.attributes["order"].values),
    "tt.unsplat": lambda op, a: a.reshape(())[()],
    "ttng.packed_arith": _packed_arithmetic,
    "vector.bitcast": _reinterpret,
    "vector.broadcast": _splat,
    "vector.dot_accumulate": _dot_accumulate,
    "vector.matrix_accumulate": _matrix_accumulate,
    "vector.extract": lambda op, a: a[op.lane],
    "vector.fma": ARITHMETIC_SEMANTICS["math.fma"],
    "vector.from_elements": lambda op, *elements: np.array(elements, elements[0].dtype),
    "vector.reduction": lambda op, a: np.bitwise_or.reduce(a),
    "vector.shuffle": lambda op, *sources: np.concatenate(sources)[list(op.lanes)],
    "vector.step": lambda op: np.arange(_shape(op)[0]).astype(numpy_dtype(op.results[0].type)),
}
