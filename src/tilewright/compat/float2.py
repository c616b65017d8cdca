"""`triton.experimental.gluon.language.nvidia.blackwell.float2` of Triton 3.6 to 3.8: pairs of float32 numbers.

    pairs = float2.pack(x, axis=1)                        neighbours along axis 1 share a register of 64 bits
    pairs = float2.fma(pairs, float2.full_like(pairs, 2.0), pairs)          fma.rn.f32x2
    y = float2.unpack(pairs, axis=1)

Triton 3.9 has `add2`, `mul2` and similar functions instead, which take the tiles themselves.
"""

from __future__ import annotations

from typing import Any

from tilewright.gluon import constexpr_function, jit, language
from tilewright.language.aggregates import aggregate

gl: Any = language
"""The language, whose members mypy does not know."""

__all__ = ["Float2Tensor", "fma", "full_like", "pack", "pack2", "unpack", "unpack2"]


@jit
def _add(a: Any, b: Any) -> Any:
    return gl.inline_asm_elementwise("add.f32x2 $0, $1, $2;", "=l,l,l", [a, b], gl.int64, is_pure=True, pack=1)


@jit
def _sub(a: Any, b: Any) -> Any:
    return gl.inline_asm_elementwise("sub.f32x2 $0, $1, $2;", "=l,l,l", [a, b], gl.int64, is_pure=True, pack=1)


@jit
def _mul(a: Any, b: Any) -> Any:
    return gl.inline_asm_elementwise("mul.f32x2 $0, $1, $2;", "=l,l,l", [a, b], gl.int64, is_pure=True, pack=1)


@jit
def _fma(a: Any, b: Any, c: Any) -> Any:
    asm: gl.constexpr = "fma.rn.f32x2 $0, $1, $2, $3;"
    return gl.inline_asm_elementwise(asm, "=l,l,l,l", [a, b, c], gl.int64, is_pure=True, pack=1)


@aggregate
class Float2Tensor:
    """A tile of pairs of float32 numbers; `value` has their bits as int64."""

    value: gl.tensor

    @jit
    def __add__(self, rhs: Any) -> Any:
        gl.static_assert(isinstance(rhs, Float2Tensor), "rhs must be a Float2Tensor")
        return Float2Tensor(_add(self.value, rhs.value))

    @jit
    def __sub__(self, rhs: Any) -> Any:
        gl.static_assert(isinstance(rhs, Float2Tensor), "rhs must be a Float2Tensor")
        return Float2Tensor(_sub(self.value, rhs.value))

    @jit
    def __mul__(self, rhs: Any) -> Any:
        gl.static_assert(isinstance(rhs, Float2Tensor), "rhs must be a Float2Tensor")
        return Float2Tensor(_mul(self.value, rhs.value))

    @jit
    def sum(self, axis: gl.constexpr) -> Any:
        """The pairs of sums along `axis`."""
        return Float2Tensor(gl.reduce(self.value, axis=axis, combine_fn=_add))


@jit
def pack2(x0: Any, x1: Any) -> Any:
    """Pairs of the elements of two tiles.

    Args:
        x0, x1: float32 tiles of one shape and layout.
    """
    asm: gl.constexpr = "mov.b64 $0, { $1, $2 };"
    return Float2Tensor(gl.inline_asm_elementwise(asm, "=l,r,r", [x0, x1], gl.int64, is_pure=True, pack=1))


@jit
def unpack2(x: Any) -> Any:
    """The first and the second numbers of the pairs `x`, as two tiles."""
    asm: gl.constexpr = "mov.b64 { $0, $1 }, $2;"
    return gl.inline_asm_elementwise(asm, "=r,=r,l", [x.value], (gl.float32, gl.float32), is_pure=True, pack=1)


@constexpr_function
def _halved(shape: Any, axis: Any) -> Any:
    """The shape with the pairs along `axis` as an axis of its own, and the order that puts it last."""
    assert shape[axis] >= 2, f"there are no pairs along axis {axis}"
    split = [*shape[:axis], shape[axis] // 2, 2, *shape[axis + 1 :]]
    return gl.tuple(split), gl.tuple([number for number in range(len(split)) if number != axis + 1] + [axis + 1])


@constexpr_function
def _doubled(shape: Any, axis: Any) -> Any:
    """The order that puts the last of the axes behind `axis`, and the shape when the two are one."""
    order = [*range(axis + 1), len(shape), *range(axis + 1, len(shape))]
    return gl.tuple(order), gl.tuple([*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]])


@jit
def pack(x: Any, axis: gl.constexpr) -> Any:
    """Pairs of neighbours along an axis.

    Args:
        x: a float32 tile; its extent along `axis` is even.
        axis: the axis, a constant.
    """
    split: gl.constexpr = _halved(x.shape, axis)
    first, second = x.reshape(*split[0]).permute(*split[1]).split()
    return pack2(first, second)


@jit
def unpack(x: Any, axis: gl.constexpr) -> Any:
    """The tile whose neighbours along an axis are the pairs.

    Args:
        x: pairs.
        axis: the axis, a constant.
    """
    joined: gl.constexpr = _doubled(x.value.shape, axis)
    first, second = unpack2(x)
    return gl.join(first, second).permute(*joined[0]).reshape(*joined[1])


@jit
def full_like(x: Any, fill_value: Any) -> Any:
    """Pairs of one number.

    Args:
        x: pairs, for shape and layout.
        fill_value: a float32 scalar.
    """
    gl.static_assert(fill_value.dtype == gl.float32, "fill_value must be a float32")
    fill = gl.full_like(x.value, fill_value, dtype=gl.float32)
    return pack2(fill, fill)


@jit
def fma(a: Any, b: Any, c: Any) -> Any:
    """`a * b + c` of pairs, rounded once.

    Args:
        a, b, c: pairs of one shape and layout.
    """
    return Float2Tensor(_fma(a.value, b.value, c.value))
