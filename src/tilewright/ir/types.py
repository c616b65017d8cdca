"""IR types, interned: two equal types are the same object, so passes compare them with `is`.

The text of a type is MLIR's: `i32`, `f32`, `!tt.ptr<f32>`, `tensor<128x64xf32>`, `(i32) -> f32`. Versions of Triton
differ in some spellings. All are read; one is printed.

3.5    !tt.tensordesc<tensor<8x16xf32>>    tt.load %p cacheModifier = ca : !tt.ptr<f32>
3.7    !tt.tensordesc<8x16xf32>            as 3.5
3.9    as 3.7                              tt.load %p {cachePolicy = #tt.cache_policy<cache_modifier = ca, …>} : …

Layouts for several CTAs have `CTAsPerCGA`, `CTASplitNum` and `CTAOrder` in 3.5, and `CGALayout` since then.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, ClassVar, Self, TypeAlias

from tilewright.support.named_tuple import NamedTuple

Shape: TypeAlias = tuple[int, ...]
"""The extents of a tile or a vector."""


class Version(NamedTuple):
    """The spelling of one version of Triton.

    Attributes:
        tensor_in_descriptor: the block of a tensor descriptor is a tensor type.
        cache_policy: cache options are one attribute.
        cga_layout: layouts say how blocks share a tile in the key `CGALayout`.
    """

    tensor_in_descriptor: bool
    cache_policy: bool
    cga_layout: bool


VERSIONS = {
    "3.5": Version(tensor_in_descriptor=True, cache_policy=False, cga_layout=False),
    "3.7": Version(tensor_in_descriptor=False, cache_policy=False, cga_layout=True),
    "3.9": Version(tensor_in_descriptor=False, cache_policy=True, cga_layout=True),
}
OURS = VERSIONS["3.5"]
OLDER_LAYOUTS: list[Callable[[str], str]] = []
"""Functions from the text of a layout to its text without `cga_layout`. Dialects fill it."""


class Spelling:
    """The spelling of what is inside a type.

    Attributes:
        attribute: from the full text of an attribute to how it is to be written, such as an alias.
        version: the version of Triton for which the text is.
    """

    __slots__ = ("attribute", "version")

    def __init__(self, attribute: Callable[[str], str] = str, version: Version = OURS) -> None:
        self.attribute = attribute
        self.version = version


_FULL = Spelling()


class Type:
    """Base of all types. `text` is the MLIR spelling and identifies the type completely."""

    __slots__ = ("text",)
    text: str

    def spelled(self, spelling: Spelling) -> str:
        """The text with every attribute in it written as `spelling` says."""
        return self.text

    @property
    def scalar(self) -> Type:
        """The element type of a tensor, the type itself otherwise."""
        return self

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The extents per axis of a tensor; None for everything else."""
        return None

    @property
    def bits(self) -> int:
        """Width of one value in memory, in bits; types without one raise TypeError."""
        raise TypeError(f"{self.text} has no width")

    def __repr__(self) -> str:
        return self.text

    def __reduce__(self) -> str:
        raise TypeError("IR types are not pickled: print and parse them")


class IntType(Type):
    """An integer of `bits` bits; `i1` is the truth value. Only blocks of descriptors have a `sign` (s, u)."""

    __slots__ = ("_bits", "sign")
    _interned: ClassVar[dict[tuple[int, str], IntType]] = {}
    _bits: int
    sign: str

    def __new__(cls, bits: int, sign: str = "") -> IntType:
        found = cls._interned.get((bits, sign))
        if found is None:
            found = cls._interned[bits, sign] = object.__new__(cls)
            found._bits, found.sign, found.text = bits, sign, f"{sign}i{bits}"
        return found

    @property
    def bits(self) -> int:
        return self._bits


class NamedType(Type):
    """A type that is determined by its class and its name."""

    __slots__ = ()
    _named: ClassVar[dict[tuple[type, str], Any]] = {}

    def __new__(cls, text: str) -> Self:
        found = cls._named.get((cls, text))
        if found is None:
            found = cls._named[cls, text] = object.__new__(cls)
            found.text = text
        made: Self = found
        return made


class IndexType(NamedType):
    """MLIR's `index`: a loop counter as wide as a pointer."""

    __slots__ = ()

    @property
    def bits(self) -> int:
        return 64


class FloatType(Type):
    """A floating point format, by MLIR's name (`f16`, `bf16`, `f8E4M3FN`, …)."""

    __slots__ = ("_bits",)
    _interned: ClassVar[dict[str, FloatType]] = {}
    _bits: int

    def __new__(cls, name: str, bits: int) -> FloatType:
        found = cls._interned.get(name)
        if found is None:
            found = cls._interned[name] = object.__new__(cls)
            found._bits, found.text = bits, name
        return found

    @property
    def bits(self) -> int:
        return self._bits


class NoneType(NamedType):
    """The type of nothing."""

    __slots__ = ()


class PointerType(Type):
    """A pointer to `pointee` (a scalar, or a tensor for block pointers) in address space `space`."""

    __slots__ = ("pointee", "space")
    _interned: ClassVar[dict[tuple[Type, int], PointerType]] = {}
    pointee: Type
    space: int

    def __new__(cls, pointee: Type, space: int = 1) -> PointerType:
        found = cls._interned.get((pointee, space))
        if found is None:
            found = cls._interned[pointee, space] = object.__new__(cls)
            found.pointee, found.space = pointee, space
            found.text = found.spelled(_FULL)
        return found

    def spelled(self, spelling: Spelling) -> str:
        space = "" if self.space == 1 else f", {self.space}"
        return f"!tt.ptr<{self.pointee.spelled(spelling)}{space}>"

    @property
    def bits(self) -> int:
        return 64


class TensorType(Type):
    """A tile: static `shape`, element type, and an optional layout attribute kept as its text."""

    __slots__ = ("_shape", "element", "encoding", "numel")
    _interned: ClassVar[dict[tuple[tuple[int, ...], Type, str | None], TensorType]] = {}
    _shape: tuple[int, ...]
    element: Type
    encoding: str | None
    numel: int

    def __new__(cls, shape: tuple[int, ...], element: Type, encoding: str | None = None) -> TensorType:
        key = (shape, element, encoding)
        found = cls._interned.get(key)
        if found is None:
            found = cls._interned[key] = object.__new__(cls)
            found._shape, found.element, found.encoding, found.numel = shape, element, encoding, prod(shape)
            found.text = found.spelled(_FULL)
        return found

    def spelled(self, spelling: Spelling) -> str:
        layout = f", {spelling.attribute(self.encoding)}" if self.encoding else ""
        return f"tensor<{extents_text(self._shape)}{self.element.spelled(spelling)}{layout}>"

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def scalar(self) -> Type:
        return self.element

    @property
    def bits(self) -> int:
        return self.element.bits


class VectorType(TensorType):
    """Lanes that are computed at once, in registers: `vector<16xf32>`."""

    __slots__ = ()
    _vectors: ClassVar[dict[tuple[tuple[int, ...], Type], VectorType]] = {}

    def __new__(cls, shape: tuple[int, ...], element: Type) -> VectorType:
        found = cls._vectors.get((shape, element))
        if found is None:
            found = cls._vectors[shape, element] = object.__new__(cls)
            found._shape, found.element, found.encoding, found.numel = shape, element, None, prod(shape)
            found.text = found.spelled(_FULL)
        return found

    def spelled(self, spelling: Spelling) -> str:
        return f"vector<{extents_text(self._shape)}{self.element.spelled(spelling)}>"


class TensorDescType(Type):
    """A tensor descriptor that moves blocks of type `block`.

    Attributes:
        of_images: the tensor has images, and a block has pixels and their channels (im2col).
    """

    __slots__ = ("block", "of_images")
    _interned: ClassVar[dict[tuple[TensorType, bool], TensorDescType]] = {}
    block: TensorType
    of_images: bool

    def __new__(cls, block: TensorType, *, of_images: bool = False) -> TensorDescType:
        found = cls._interned.get((block, of_images))
        if found is None:
            found = cls._interned[block, of_images] = object.__new__(cls)
            found.block, found.of_images = block, of_images
            found.text = found.spelled(_FULL)
        return found

    def spelled(self, spelling: Spelling) -> str:
        block = self.block.spelled(spelling)
        if self.of_images:
            return f"!ttng.tensordesc_im2col{block.removeprefix('tensor')}"
        return (
            f"!tt.tensordesc<{block}>"
            if spelling.version.tensor_in_descriptor
            else f"!tt.tensordesc{block.removeprefix('tensor')}"
        )


class MemDescType(Type):
    """A view of shared (or tensor) memory.

    Attributes:
        shape: extents per axis.
        element: the type of the elements.
        encoding: the layout attribute's full text: `#ttg.swizzled_shared<{…}>`.
        space: the memory's attribute: `#ttg.shared_memory`.
        mutable: whether it may be written more than once.
        alloc_shape: the extents of the allocation of which this is a part; equal to `shape` unless the text says so.
    """

    __slots__ = ("_shape", "alloc_shape", "element", "encoding", "mutable", "numel", "space")
    _interned: ClassVar[dict[tuple[object, ...], MemDescType]] = {}
    _shape: tuple[int, ...]
    element: Type
    encoding: str
    space: str
    mutable: bool
    alloc_shape: tuple[int, ...]
    numel: int

    def __new__(
        cls,
        shape: tuple[int, ...],
        element: Type,
        encoding: str,
        space: str = "#ttg.shared_memory",
        mutable: bool = False,
        alloc_shape: tuple[int, ...] = (),
    ) -> MemDescType:
        alloc_shape = alloc_shape or shape
        key = (shape, element, encoding, space, mutable, alloc_shape)
        found = cls._interned.get(key)
        if found is None:
            found = cls._interned[key] = object.__new__(cls)
            found._shape, found.element, found.encoding, found.space, found.mutable, found.alloc_shape = key
            found.numel = prod(shape)
            found.text = found.spelled(_FULL)
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def scalar(self) -> Type:
        return self.element

    @property
    def bits(self) -> int:
        return self.element.bits

    def spelled(self, spelling: Spelling) -> str:
        mutable = ", mutable" if self.mutable else ""
        alloc = ""
        if self.alloc_shape != self._shape:
            alloc = ", " + "x".join(map(str, self.alloc_shape))
        body = f"{extents_text(self._shape)}{self.element.spelled(spelling)}"
        layout, space = spelling.attribute(self.encoding), spelling.attribute(self.space)
        return f"!ttg.memdesc<{body}, {layout}, {space}{mutable}{alloc}>"


class AsyncTokenType(NamedType):
    """The type of the token that ties an asynchronous copy to the op that waits for it."""

    __slots__ = ()


class OpaqueType(NamedType):
    """A type of a dialect that only carries it, as text: `!llvm.ptr<3>`, `memref<4xf32>`."""

    __slots__ = ()

    def spelled(self, spelling: Spelling) -> str:
        return spelling.attribute(self.text) if "#" in self.text else self.text


class FunctionType(Type):
    """Parameter and result types of a function."""

    __slots__ = ("inputs", "outputs")
    _interned: ClassVar[dict[tuple[tuple[Type, ...], tuple[Type, ...]], FunctionType]] = {}
    inputs: tuple[Type, ...]
    outputs: tuple[Type, ...]

    def __new__(cls, inputs: tuple[Type, ...], outputs: tuple[Type, ...]) -> FunctionType:
        found = cls._interned.get((inputs, outputs))
        if found is None:
            found = cls._interned[inputs, outputs] = object.__new__(cls)
            found.inputs, found.outputs = inputs, outputs
            found.text = found.spelled(_FULL)
        return found

    def spelled(self, spelling: Spelling) -> str:
        """`(i32, f32) -> f32`; several results stand in parentheses."""
        results = ", ".join(t.spelled(spelling) for t in self.outputs)
        if len(self.outputs) != 1 or isinstance(self.outputs[0], FunctionType):
            results = f"({results})"
        return f"({', '.join(t.spelled(spelling) for t in self.inputs)}) -> {results}"


def extents_text(shape: tuple[int, ...]) -> str:
    """`4x8x`."""
    return "".join(f"{extent}x" for extent in shape)


i1, i8, i16, i32, i64 = (IntType(bits) for bits in (1, 8, 16, 32, 64))
index = IndexType("index")
async_token = AsyncTokenType("!ttg.async.token")
none = NoneType("none")
f16, bf16, f32, f64 = FloatType("f16", 16), FloatType("bf16", 16), FloatType("f32", 32), FloatType("f64", 64)
FLOATS: dict[str, FloatType] = {
    t.text: t
    for t in (
        f16,
        bf16,
        f32,
        f64,
        *(FloatType(n, 8) for n in ("f8E5M2", "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2FNUZ", "f8E4M3B11FNUZ")),
        FloatType("tf32", 32),
    )
}


def with_element(type: Type, element: Type) -> Type:
    """`type` with `element` in place of its element type: tensor<4xf32>, i1 -> tensor<4xi1>; f32, i1 -> i1."""
    if isinstance(type, VectorType):
        return VectorType(type.shape, element)
    return TensorType(type.shape, element, type.encoding) if isinstance(type, TensorType) else element


def with_shape(type: Type, shape: tuple[int, ...]) -> Type:
    """`type`'s element type as a tile of `shape`; the empty shape gives the scalar."""
    return TensorType(shape, type.scalar) if shape else type.scalar
