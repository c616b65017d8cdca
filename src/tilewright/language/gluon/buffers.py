"""Buffers in shared memory in Gluon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.language.core import accept_semantic
from tilewright.semantics import buffers
from tilewright.semantics.active import active
from tilewright.semantics.buffers import Buffer, buffer_type
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.layout_values import plain


def _combining(operation: str) -> Callable[..., Any]:
    def function(self: Any, values: Any, indices: Any, axis: Any, mask: Any = None, _semantic: Any = None) -> Any:
        return buffers.combined(operation, self, values, indices, unwrap(axis), unwrap(mask))

    function.__name__ = function.__qualname__ = f"atomic_scatter_{operation}"
    function.__doc__ = (
        f"`{operation}` of `values` and the elements at `indices` along `axis`, where `mask` holds, atomically.\n\n"
        "Returns what was there before."
    )
    return function


class shared_memory_descriptor(Buffer):  # noqa: N801 - Triton's name
    """A buffer in shared memory, or a view of one.

    Attributes:
        type: its type, with `element_ty`, `shape`, `layout` and `alloc_shape`.
    """

    __slots__ = ()

    def load(self, layout: Any, _semantic: Any = None) -> Any:
        """The elements as a tile with this layout."""
        return buffers.loaded(self, unwrap(layout))

    def store(self, value: Any, _semantic: Any = None) -> None:
        """Put a tile of the same shape and elements there."""
        buffers.stored(self, value)

    def gather(self, indices: Any, axis: Any, _semantic: Any = None) -> Any:
        """The elements at `indices` along `axis`: a tile like `indices`."""
        return buffers.gathered(self, unwrap(indices), unwrap(axis))

    def scatter(self, values: Any, indices: Any, axis: Any, _semantic: Any = None) -> None:
        """Put `values` at `indices` along `axis`; the two broadcast."""
        buffers.scattered(self, unwrap(values), unwrap(indices), unwrap(axis))

    atomic_scatter_add = _combining("add")
    atomic_scatter_and = _combining("and")
    atomic_scatter_max = _combining("max")
    atomic_scatter_min = _combining("min")
    atomic_scatter_or = _combining("or")
    atomic_scatter_xchg = _combining("xchg")
    atomic_scatter_xor = _combining("xor")

    def slice(self, start: Any, length: Any, dim: Any = 0, _semantic: Any = None) -> Any:
        """The part of `length` elements from `start` on along axis `dim`; all are constants."""
        return buffers.sliced(self, unwrap(start), unwrap(length), unwrap(dim))

    def index(self, index: Any, _semantic: Any = None) -> Any:
        """One element along the first axis, as a buffer with one axis less."""
        return buffers.indexed(self, unwrap(index))

    def permute(self, order: Any, _semantic: Any = None) -> Any:
        """The view whose axis i is axis `order[i]`."""
        return buffers.permuted(self, plain(order))

    def reshape(self, shape: Any, _semantic: Any = None) -> Any:
        """The elements in another shape, without moving them."""
        return buffers.reshaped(self, plain(shape))

    def reinterpret(self, dtype: Any = None, shape: Any = None, layout: Any = None, _semantic: Any = None) -> Any:
        """The bytes as elements of another type, shape or layout."""
        return buffers.reinterpreted(self, unwrap(dtype), plain(shape), unwrap(layout))

    _reinterpret = reinterpret

    def _keep_alive(self, _semantic: Any = None) -> None:
        """Let the buffer live to here."""
        active().emit("ttg.local_dealloc", [self.handle])


buffer_type.held_by = shared_memory_descriptor


def allocate_shared_memory(element_ty: Any, shape: Any, layout: Any, value: Any = None) -> Any:
    """A buffer in shared memory.

    Args:
        element_ty: the type of an element.
        shape: its extents; with a leading one, several buffers of which `index` takes one.
        layout: a `SharedLayout`.
        value: a tile that it starts with.
    """
    return buffers.allocate(buffer_type(unwrap(element_ty), plain(shape), unwrap(layout), plain(shape)), unwrap(value))


accept_semantic(globals())
