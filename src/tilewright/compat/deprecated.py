"""Functions of older versions of Triton; each warns and names its replacement.

`triton.runtime.cache` named the cache's folders until 3.2. `triton.testing` compared arrays by `allclose` until 2.0.
`triton.tools.experimental_descriptor` made descriptors of memory whose address and width of elements are known:

desc = create_2d_tma_descriptor(x.data_ptr(), M, N, 16, 32, x.element_size())
kernel[grid](desc, …)                       # tl._experimental_descriptor_load(desc, [i, j], [16, 32], tl.float16)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.compat.tensor_descriptor import TensorDescriptor
from tilewright.support import knobs
from tilewright.support.deprecation import warn_deprecated
from tilewright.testing import assert_close


@dataclass(frozen=True)
class Memory:
    """Elements of `bytes` bytes each from an address on; the maker of the descriptor keeps them alive."""

    address: int
    bytes: int

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """The dtype of whole numbers of that width: their bits count, not what they mean."""
        return np.dtype(f"u{self.bytes}")

    def data_ptr(self) -> int:
        """The address of the first one."""
        return self.address

    def element_size(self) -> int:
        """Bytes of one."""
        return self.bytes


def create_1d_tma_descriptor(ptr: int, dim: int, block_dim: int, element_size: int) -> TensorDescriptor:
    """The descriptor of `dim` elements in a row, of `element_size` bytes each, in blocks of `block_dim`."""
    warn_deprecated("create_1d_tma_descriptor", "triton.tools.tensor_descriptor.TensorDescriptor")
    return TensorDescriptor(Memory(ptr, element_size), [dim], [1], [block_dim])


def create_2d_tma_descriptor(
    ptr: int, dim1: int, dim0: int, block_dim1: int, block_dim0: int, element_size: int
) -> TensorDescriptor:
    """The descriptor of `dim1` rows of `dim0` elements, of `element_size` bytes each, in such blocks.

    Args:
        ptr: the address of the tensor.
        dim1, dim0: its extents, rows first.
        block_dim1, block_dim0: extents of a block.
        element_size: bytes of an element.
    """
    warn_deprecated("create_2d_tma_descriptor", "triton.tools.tensor_descriptor.TensorDescriptor")
    return TensorDescriptor(Memory(ptr, element_size), [dim1, dim0], [dim0, 1], [block_dim1, block_dim0])


def _folder(old: str, knob: str) -> Callable[[], str]:
    def folder() -> str:
        warn_deprecated(f"triton.runtime.cache.{old}()", f"triton.knobs.cache.{knob}")
        return str(getattr(knobs.cache, knob))

    return folder


default_cache_dir = _folder("default_cache_dir", "dir")
default_dump_dir = _folder("default_dump_dir", "dump_dir")
default_override_dir = _folder("default_override_dir", "override_dir")


def assert_almost_equal(x: Any, y: Any, decimal: int = 2, err_msg: str = "") -> None:
    """Raise AssertionError where two arrays differ by 1.5 of the last of `decimal` decimals, or more."""
    warn_deprecated("triton.testing.assert_almost_equal", "triton.testing.assert_close")
    assert_close(x, y, atol=1.5 * 10.0**-decimal, err_msg=err_msg)


def allclose(x: Any, y: Any, tol: float = 1e-2) -> bool:
    """Whether two arrays differ by less than `tol`, relative to the largest number in them."""
    warn_deprecated("triton.testing.allclose", "triton.testing.assert_close")
    first, second = np.asarray(x, np.float64), np.asarray(y, np.float64)
    largest = max(np.abs(first).max(initial=0.0), np.abs(second).max(initial=0.0))
    return bool(np.abs(first - second).max(initial=0.0) <= tol * max(largest, np.finfo(np.float32).tiny))
