"""`tensor`: the values that kernels compute with. Operators and methods; their meaning is in `semantics`."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tilewright.language import math, memory, operations, shaping, sorting, standard
from tilewright.language.tuples import tuple
from tilewright.language.values import origin
from tilewright.semantics import arithmetic, shapes
from tilewright.semantics.active import active
from tilewright.semantics.comparison import compare
from tilewright.semantics.errors import NoSingleTruth
from tilewright.semantics.tile import Tile
from tilewright.support.diagnostics import SemanticError

Operator = Callable[["tensor", Any], "tensor"]


def _operators(operation: Callable[[Any, Any], Any]) -> list[Operator]:
    """The method for `self + other`, and the one for `other + self`."""

    def reflected(self: tensor, other: Any) -> Any:
        return operation(other, self)

    return [operation, reflected]


def _unary(operation: Callable[[Any], Any]) -> Callable[[tensor], tensor]:
    return operation


def _comparisons(relation: str) -> list[Operator]:
    def method(self: Any, other: Any) -> Any:
        return compare(relation, self, other)

    return _operators(method)


class tensor(Tile):  # noqa: N801 - Triton's name
    """A tile or scalar of the running kernel.

    Attributes:
        handle: the value in the IR.
        type: `dtype`, `pointer_type` or `block_type`.
    """

    __slots__ = ()

    @property
    def shape(self) -> tuple:
        """The extents; empty for scalars."""
        return tuple(self.type.shape)

    @property
    def numel(self) -> int:
        """The number of elements."""
        return prod(self.type.shape)

    @property
    def T(self) -> Any:  # noqa: N802 - NumPy's name
        """The last two axes swapped."""
        return shapes.transpose(self)

    @classmethod
    def of_number(cls, value: bool | int | float) -> Tile:
        """The number as a scalar."""
        return arithmetic.to_tensor(value)

    __add__, __radd__ = _operators(arithmetic.add)
    __sub__, __rsub__ = _operators(arithmetic.sub)
    __mul__, __rmul__ = _operators(arithmetic.mul)
    __truediv__, __rtruediv__ = _operators(arithmetic.truediv)
    __floordiv__, __rfloordiv__ = _operators(arithmetic.floordiv)
    __mod__, __rmod__ = _operators(arithmetic.mod)
    __and__, __rand__ = _operators(arithmetic.and_)
    __or__, __ror__ = _operators(arithmetic.or_)
    __xor__, __rxor__ = _operators(arithmetic.xor)
    __lshift__, __rlshift__ = _operators(arithmetic.shl)
    __rshift__, __rrshift__ = _operators(arithmetic.shr)
    __neg__ = _unary(arithmetic.minus)
    __pos__ = _unary(arithmetic.plus)
    __invert__ = _unary(arithmetic.invert)
    __not__ = _unary(arithmetic.logical_not)
    __lt__, __rlt__ = _comparisons("<")
    __le__, __rle__ = _comparisons("<=")
    __gt__, __rgt__ = _comparisons(">")
    __ge__, __rge__ = _comparisons(">=")
    __eq__, __req__ = _comparisons("==")  # type: ignore[assignment]  # element by element
    __ne__, __rne__ = _comparisons("!=")  # type: ignore[assignment]  # element by element
    __hash__ = object.__hash__
    __iter__ = None
    __getitem__ = shapes.index_tile

    logical_and = arithmetic.logical_and
    logical_or = arithmetic.logical_or

    def __bool__(self) -> bool:
        return bool(self._known())

    def __index__(self) -> int:
        return int(self._known())

    def __int__(self) -> int:
        return int(self._known())

    def __float__(self) -> float:
        return float(self._known())

    def _known(self) -> int | float | bool:
        """The value when the kernel runs eagerly."""
        value = None if self.type.shape else active().concrete(self.handle)
        if value is None:
            raise SemanticError(NoSingleTruth(self.type, origin(self.handle)))
        return value % 2**self.type.primitive_bitwidth if self._is_unsigned() else value

    def _is_unsigned(self) -> bool:
        return self.type.scalar.integer and not self.type.scalar.signed and self.type.scalar.primitive_bitwidth > 1

    def __repr__(self) -> str:
        elements = getattr(self.handle, "array", None)  # known in a kernel that runs in Python
        if elements is None:
            return f"tensor({self.type})"
        if self._is_unsigned():
            elements = elements.view(f"u{elements.dtype.itemsize}")
        return f"tensor({elements}, {self.type})"

    def __format__(self, specification: str) -> str:
        return format(self._known() if specification else repr(self), specification)

    def to(self, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False, _semantic: Any = None) -> Any:
        """`tl.cast`."""
        return operations.cast(self, dtype, fp_downcast_rounding, bitcast)

    def item(self, _semantic: Any = None) -> Any:
        """The only element as a scalar."""
        return shapes.unsplat(self)

    cast = operations.cast
    where = operations.where
    reduce = operations.reduce
    associative_scan = operations.associative_scan
    histogram = operations.histogram

    abs = math.abs
    ceil = math.ceil
    cos = math.cos
    erf = math.erf
    exp = math.exp
    exp2 = math.exp2
    floor = math.floor
    log = math.log
    log2 = math.log2
    rsqrt = math.rsqrt
    sin = math.sin
    sqrt = math.sqrt
    sqrt_rn = math.sqrt_rn

    broadcast_to = shaping.broadcast_to
    expand_dims = shaping.expand_dims
    gather = shaping.gather
    permute = shaping.permute
    reshape = shaping.reshape
    split = shaping.split
    trans = shaping.trans
    view = shaping.view

    advance = memory.advance
    atomic_add = memory.atomic_add
    atomic_and = memory.atomic_and
    atomic_cas = memory.atomic_cas
    atomic_load = memory.atomic_load
    atomic_max = memory.atomic_max
    atomic_min = memory.atomic_min
    atomic_or = memory.atomic_or
    atomic_poll = memory.atomic_poll
    atomic_store = memory.atomic_store
    atomic_xchg = memory.atomic_xchg
    atomic_xor = memory.atomic_xor
    store = memory.store

    argmax = standard.argmax
    argmin = standard.argmin
    cdiv = standard.cdiv
    cumprod = standard.cumprod
    cumsum = standard.cumsum
    max = standard.max
    min = standard.min
    ravel = standard.ravel
    reduce_or = standard.reduce_or
    sigmoid = standard.sigmoid
    softmax = standard.softmax
    sum = standard.sum
    xor_sum = standard.xor_sum

    flip = sorting.flip
    sort = sorting.sort
    topk = sorting.topk
