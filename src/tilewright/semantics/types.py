"""The types of the tile language: scalars with a sign, pointers, tiles. Interned, so compare them with `is`.

The IR is signless: `int32` and `uint32` have the same IR type (`type.ir`); only the language distinguishes them.

    block_type(pointer_type(float32), (128,)).ir      tensor<128x!tt.ptr<f32>>
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from math import prod
from typing import Any, ClassVar, TypeAlias

from tilewright.ir.types import FLOATS, FloatType, IntType, PointerType, TensorType, Type, none
from tilewright.semantics.errors import EmptyShape, ExtentNotPowerOfTwo, TileTooLarge
from tilewright.semantics.tile import ValueType
from tilewright.support.diagnostics import SemanticError

MAX_TILE_ELEMENTS = 1048576
FP8_KINDS = ("fp8e4b15", "fp8e4nv", "fp8e4b8", "fp8e5", "fp8e5b16")


class ScalarKind(Enum):
    """The sort of number that an element is."""

    BOOLEAN = 0
    INTEGRAL = 1
    FLOATING = 2


def _is(name: str) -> Callable[[dtype], bool]:
    """The question whether a type has this name."""
    return lambda self: self.name == name


class dtype(ValueType):  # noqa: N801 - Triton's name
    """An element type, by Triton's short name: `dtype("fp32")`.

    Attributes:
        name: `int1 … int64`, `uint8 … uint64`, `fp8e4nv …`, `fp16`, `bf16`, `fp32`, `fp64`, `void`.
        primitive_bitwidth: width of one element; booleans count 1.
        ir: the type of one element in the IR.
        floating, integer, signed: what the element is; booleans are unsigned integers.
    """

    class SIGNEDNESS(Enum):
        """Triton's name for the sign of an integer type."""

        SIGNED = 0
        UNSIGNED = 1

    KIND = ScalarKind
    SINT_TYPES: ClassVar[list[str]] = ["int8", "int16", "int32", "int64"]
    UINT_TYPES: ClassVar[list[str]] = ["int1", "uint8", "uint16", "uint32", "uint64"]
    STANDARD_FP_TYPES: ClassVar[list[str]] = ["fp16", "bf16", "fp32", "fp64"]
    FP_TYPES: ClassVar[list[str]] = [
        *FP8_KINDS,
        *STANDARD_FP_TYPES,
    ]
    OTHER_TYPES: ClassVar[list[str]] = ["void"]
    layout: ClassVar[Any] = None
    """None: a scalar is in all threads."""

    __slots__ = (
        "_kind",
        "exponent_bias",
        "floating",
        "fp_mantissa_width",
        "integer",
        "ir",
        "name",
        "primitive_bitwidth",
        "scalar",
        "signed",
    )
    _interned: ClassVar[dict[str, dtype]] = {}
    name: str
    primitive_bitwidth: int
    ir: Type
    floating: bool
    integer: bool
    signed: bool
    fp_mantissa_width: int
    exponent_bias: int
    scalar: dtype
    _kind: ScalarKind

    def __new__(cls, name: str) -> dtype:
        found = dtype._interned.get(name)
        if found is not None:
            return found
        self = object.__new__(cls)
        self.name = name
        self.floating = name in cls.FP_TYPES
        self.signed = name in cls.SINT_TYPES
        self.integer = self.signed or name in cls.UINT_TYPES
        if not (self.floating or self.integer or name in cls.OTHER_TYPES):
            raise ValueError(f"there is no type {name!r}")
        self.ir, self.primitive_bitwidth, self.fp_mantissa_width, self.exponent_bias = _facts(name)
        self._kind = (
            ScalarKind.FLOATING if self.floating else ScalarKind.BOOLEAN if name == "int1" else ScalarKind.INTEGRAL
        )
        self.scalar = self
        dtype._interned[name] = self
        return self

    def __reduce__(self) -> tuple[type[dtype], tuple[str]]:
        return dtype, (self.name,)

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def int_bitwidth(self) -> int:
        return self.primitive_bitwidth

    @property
    def itemsize(self) -> int:
        return self.primitive_bitwidth // 8

    @property
    def int_signedness(self) -> SIGNEDNESS:
        return self.SIGNEDNESS.SIGNED if self.signed else self.SIGNEDNESS.UNSIGNED

    def kind(self) -> ScalarKind:
        return self._kind

    def is_fp8(self) -> bool:
        return self.floating and self.primitive_bitwidth == 8

    is_fp8e4nv = _is("fp8e4nv")
    is_fp8e4b8 = _is("fp8e4b8")
    is_fp8e4b15 = _is("fp8e4b15")
    is_fp8e5 = _is("fp8e5")
    is_fp8e5b16 = _is("fp8e5b16")
    is_fp16 = _is("fp16")
    is_bf16 = _is("bf16")
    is_fp32 = _is("fp32")
    is_fp64 = _is("fp64")
    is_int1 = _is("int1")
    is_int8 = _is("int8")
    is_int16 = _is("int16")
    is_int32 = _is("int32")
    is_int64 = _is("int64")
    is_uint8 = _is("uint8")
    is_uint16 = _is("uint16")
    is_uint32 = _is("uint32")
    is_uint64 = _is("uint64")
    is_bool = _is("int1")
    is_void = _is("void")

    def is_floating(self) -> bool:
        return self.floating

    def is_standard_floating(self) -> bool:
        return self.name in dtype.STANDARD_FP_TYPES

    def is_int_signed(self) -> bool:
        return self.signed

    def is_int_unsigned(self) -> bool:
        return self.integer and not self.signed

    def is_int(self) -> bool:
        return self.integer

    def is_block(self) -> bool:
        return False

    def is_ptr(self) -> bool:
        return False

    def is_const(self) -> bool:
        return False

    @staticmethod
    def is_dtype(name: str) -> bool:
        """Whether `name` names an element type."""
        return name in dtype.SINT_TYPES + dtype.UINT_TYPES + dtype.FP_TYPES + dtype.OTHER_TYPES

    def get_int_max_value(self) -> int:
        return int(2 ** (self.primitive_bitwidth - (1 if self.signed else 0)) - 1)

    def get_int_min_value(self) -> int:
        return -int(2 ** (self.primitive_bitwidth - 1)) if self.signed else 0

    @property
    def cache_key_part(self) -> str:
        return self.name

    def codegen_name(self) -> str:
        """Triton's long name without the module: `float32`, `bfloat16`, `float8e5`."""
        for short, long in (("fp", "float"), ("bf", "bfloat")):
            if self.name.startswith(short):
                return long + self.name[len(short) :]
        return self.name

    def mangle(self) -> str:
        """The part of a mangled function name for this type."""
        if not self.integer:
            return self.name
        return f"{'i' if self.signed else 'u'}{self.primitive_bitwidth}"

    def with_element_ty(self, element_ty: AnyType) -> AnyType:
        """`element_ty`: a scalar has no shape to keep."""
        return element_ty

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"triton.language.{self.codegen_name()}"


class pointer_type(dtype):  # noqa: N801 - Triton's name
    """A pointer to `element_ty` (an element type, or a tile for block pointers); `const` forbids stores.

    Attributes:
        address_space: 1, which is global memory; other numbers are those of GPUs.
    """

    __slots__ = ("address_space", "const", "element_ty")
    _pointers: ClassVar[dict[tuple[AnyType, int, bool], pointer_type]] = {}
    element_ty: AnyType
    address_space: int
    const: bool

    def __new__(cls, element_ty: AnyType, address_space: int | str = 1, const: bool = False) -> pointer_type:
        space = 1 if address_space == "global" else int(address_space)
        key = (element_ty, space, bool(const))
        found = cls._pointers.get(key)
        if found is not None:
            return found
        self = object.__new__(cls)
        self.element_ty, self.address_space, self.const = element_ty, space, bool(const)
        self.name = f"pointer<{element_ty}>" if not const else f"const_pointer<{element_ty}>"
        self.ir = PointerType(element_ty.ir, space)
        self.primitive_bitwidth, self.fp_mantissa_width, self.exponent_bias = 64, 0, 0
        self.floating = self.integer = self.signed = False
        self._kind = ScalarKind.INTEGRAL
        self.scalar = self
        cls._pointers[key] = self
        return self

    def __reduce__(self) -> tuple[type[pointer_type], tuple[AnyType, int, bool]]:  # type: ignore[override]  # own arguments
        return pointer_type, (self.element_ty, self.address_space, self.const)

    def is_ptr(self) -> bool:
        return True

    def is_const(self) -> bool:
        return self.const

    @property
    def cache_key_part(self) -> str:
        return f"*{'k' if self.const else ''}{self.element_ty.cache_key_part}"

    def mangle(self) -> str:
        return f"P{self.element_ty.mangle()}"

    def __repr__(self) -> str:
        return str(self)


class block_type(ValueType):  # noqa: N801 - Triton's name
    """A tile of `element_ty` with the static `shape`, whose extents are powers of two."""

    __slots__ = ("element_ty", "ir", "name", "numel", "scalar", "shape")
    _interned: ClassVar[dict[tuple[dtype, tuple[int, ...]], block_type]] = {}
    layout: ClassVar[Any] = None
    """The thread that holds each element; None if the compiler decides."""
    element_ty: dtype
    scalar: dtype
    shape: tuple[int, ...]
    numel: int
    ir: Type
    name: str

    def __new__(cls, element_ty: dtype, shape: Sequence[int]) -> block_type:
        extents = tuple(shape)
        found = cls._interned.get((element_ty, extents))
        if found is not None:
            return found
        extents = tuple(int(extent) for extent in extents)
        check_shape(extents)
        self = object.__new__(cls)
        self.element_ty = self.scalar = element_ty
        self.shape, self.numel = extents, prod(extents)
        self.ir = TensorType(extents, element_ty.ir)
        self.name = f"<{list(extents)}, {element_ty}>"
        cls._interned[element_ty, extents] = self
        return self

    def __reduce__(self) -> tuple[type[block_type], tuple[dtype, tuple[int, ...]]]:
        return block_type, (self.element_ty, self.shape)

    @property
    def nbytes(self) -> int:
        return self.numel * (self.element_ty.primitive_bitwidth // 8)

    @property
    def cache_key_part(self) -> str:
        return self.name

    @property
    def primitive_bitwidth(self) -> int:
        return self.element_ty.primitive_bitwidth

    def is_block(self) -> bool:
        return True

    def is_ptr(self) -> bool:
        return False

    def is_floating(self) -> bool:
        return False

    def is_int(self) -> bool:
        return False

    def get_block_shapes(self) -> tuple[int, ...]:
        return self.shape

    def with_element_ty(self, scalar_ty: dtype) -> block_type:
        """The tile of the same shape with other elements."""
        return block_type(scalar_ty, self.shape)

    def stretched(self, shape: tuple[int, ...]) -> block_type:
        """The type after extents of 1 became those of `shape`."""
        return block_type(self.element_ty, shape)

    def expanded(self, axis: int) -> block_type:
        """The type with a new axis of extent 1 at position `axis`."""
        return block_type(self.element_ty, (*self.shape[:axis], 1, *self.shape[axis:]))

    def reshaped(self, shape: tuple[int, ...]) -> block_type:
        """The type of the same elements in another shape."""
        return block_type(self.element_ty, shape)

    def permuted(self, axes: tuple[int, ...]) -> block_type:
        """The type whose axis i is axis `axes[i]` of this one."""
        return block_type(self.element_ty, tuple(self.shape[axis] for axis in axes))

    def joined(self) -> block_type:
        """The type of two such tiles side by side on a new last axis."""
        return block_type(self.element_ty, (*self.shape, 2))

    def halved(self) -> block_type:
        """The type of each half along the last axis, which has two elements."""
        return block_type(self.element_ty, self.shape[:-1])

    def reduced(self, axis: int) -> AnyType:
        """The type after one axis became a single element."""
        return shaped(self.element_ty, (*self.shape[:axis], *self.shape[axis + 1 :]))

    def mangle(self) -> str:
        return f"{self.scalar.mangle()}S{'_'.join(map(str, self.shape))}S"

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


def _no(_tile: block_type) -> bool:
    """The answer of a tile's type to questions about element types."""
    return False


for _question in vars(dtype):
    if _question.startswith("is_") and not hasattr(block_type, _question):
        setattr(block_type, _question, _no)

AnyType: TypeAlias = "dtype | block_type"


def check_shape(shape: tuple[int, ...]) -> None:
    """Raise unless `shape` can be the shape of a tile."""
    if not shape:
        raise SemanticError(EmptyShape())
    for axis, extent in enumerate(shape):
        if extent < 1 or extent & (extent - 1):
            raise SemanticError(ExtentNotPowerOfTwo(shape, axis, extent))
    if prod(shape) > MAX_TILE_ELEMENTS:
        raise SemanticError(TileTooLarge(shape, prod(shape), MAX_TILE_ELEMENTS))


def as_block(kind: AnyType) -> block_type:
    """The type of a tile, which `kind` must be."""
    assert isinstance(kind, block_type), f"{kind} is no tile"
    return kind


def shaped(element: dtype, shape: tuple[int, ...]) -> AnyType:
    """The type of a value of `element`s: a tile, or the scalar itself for the empty shape."""
    return block_type(element, shape) if shape else element


_MLIR_FLOATS = {
    "fp8e4b15": ("f8E4M3B11FNUZ", 3, 15),
    "fp8e4nv": ("f8E4M3FN", 3, 7),
    "fp8e4b8": ("f8E4M3FNUZ", 3, 8),
    "fp8e5": ("f8E5M2", 2, 15),
    "fp8e5b16": ("f8E5M2FNUZ", 2, 16),
    "fp16": ("f16", 10, 15),
    "bf16": ("bf16", 7, 127),
    "fp32": ("f32", 23, 127),
    "fp64": ("f64", 52, 1023),
}


def _facts(name: str) -> tuple[Type, int, int, int]:
    """IR type, bits, mantissa bits and exponent bias of the element type `name`."""
    if name == "void":
        return none, 0, 0, 0
    if name in _MLIR_FLOATS:
        mlir, mantissa, bias = _MLIR_FLOATS[name]
        ir: FloatType = FLOATS[mlir]
        return ir, ir.bits, mantissa, bias
    bits = int(name.removeprefix("u").removeprefix("int"))
    return IntType(bits), bits, 0, 0


void = dtype("void")
int1 = dtype("int1")
int8, int16, int32, int64 = dtype("int8"), dtype("int16"), dtype("int32"), dtype("int64")
uint8, uint16, uint32, uint64 = dtype("uint8"), dtype("uint16"), dtype("uint32"), dtype("uint64")
float8e4b15, float8e4nv, float8e4b8 = dtype("fp8e4b15"), dtype("fp8e4nv"), dtype("fp8e4b8")
float8e5, float8e5b16 = dtype("fp8e5"), dtype("fp8e5b16")
float16, bfloat16, float32, float64 = dtype("fp16"), dtype("bf16"), dtype("fp32"), dtype("fp64")
