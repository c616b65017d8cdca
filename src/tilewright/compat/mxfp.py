"""Microscaling formats on the host: 4-bit floats in pairs, and scales that are powers of two.

    values = MXFP4Tensor(size=(128, 64), device="cpu").random()
    values.to(torch.float32)              # the numbers
    values.to_packed_tensor(dim=1)        # two in a byte, the first in its low half

The values of a format are a table of 16 or 256 floats: decoding indexes it, and encoding searches it. Where torch finds
no GPU, kernels run on the CPU, and tensors for device "cuda" are kept there too.
"""

from __future__ import annotations

from math import inf, log2, nan
from typing import Any

from tilewright.compat.torch_bridge import torch

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""The numbers with 4 bits, without sign; the code of a number is its place."""
SIGN, LARGEST_SCALE, NOT_A_SCALE, SCALE_BIAS = 8, 254, 255, 127


class _Coded:
    """Numbers of one format in bytes.

    Attributes:
        data: one code per byte.
        size: the shape that `random` fills.
    """

    def __init__(self, data: Any = None, size: Any = None, device: Any = None) -> None:
        if data is None and size is None:
            raise ValueError(f"{type(self).__name__} needs data or a size")
        self.device = _present(device) if data is None else data.device
        self.size = tuple(data.shape) if data is not None else size if isinstance(size, tuple) else (size,)
        self.data: Any = None if data is None else self.encoded(data)

    def encoded(self, values: Any) -> Any:
        """The codes of float32 numbers."""
        raise NotImplementedError


class MXFP4Tensor(_Coded):
    """Floats of 4 bits: a sign, two bits of exponent, one of mantissa."""

    def random(self) -> MXFP4Tensor:
        """Fill with any codes."""
        self.data = torch().randint(0, 16, self.size, dtype=torch().uint8, device=self.device)
        return self

    def to(self, dtype: Any) -> Any:
        """The numbers as a float32 tensor."""
        _check_float32(dtype)
        numbers = torch().tensor([*E2M1, *(-number for number in E2M1)], device=self.device)
        return numbers[self.data.long()]

    def encoded(self, values: Any) -> Any:
        """The nearest codes, of two equally near the even one; what is too large, infinite or NaN gives 6."""
        library = torch()
        numbers = library.tensor(E2M1, device=values.device)
        size = library.nan_to_num(values.abs(), nan=E2M1[-1], posinf=E2M1[-1])
        below = library.searchsorted(numbers, size.contiguous(), right=True) - 1
        above = (below + 1).clamp(max=len(E2M1) - 1)
        middle = (numbers[below] + numbers[above]) / 2
        up = (size > middle) | ((size == middle) & (below % 2 == 1))
        code = library.where(up, above, below)
        return (code + SIGN * library.signbit(values)).to(library.uint8)

    def to_packed_tensor(self, dim: int) -> Any:
        """Two codes in each byte, neighbours along `dim`, the first in the low half; an odd last one alone."""
        library = torch()
        if not 0 <= dim < self.data.ndim:
            raise AssertionError(f"dim {dim} is not an axis of a tensor with {self.data.ndim} axes")
        even = self.data.narrow(dim, 0, self.data.shape[dim]) if self.data.shape[dim] % 2 == 0 else self._padded(dim)
        places = (library.arange(half, even.shape[dim], 2, device=even.device) for half in (0, 1))
        low, high = (even.index_select(dim, each) for each in places)
        return low | (high << 4)

    def unpack_packed_tensor(self, packed_tensor: Any, dim: int, original_shape: Any) -> Any:
        """The codes, one per byte, from two in each byte; `original_shape` says whether the last one was alone."""
        pairs = torch().stack((packed_tensor & 15, packed_tensor >> 4), dim=dim + 1)
        return pairs.flatten(dim, dim + 1).narrow(dim, 0, original_shape[dim])

    def _padded(self, dim: int) -> Any:
        shape = list(self.data.shape)
        shape[dim] = 1
        return torch().cat([self.data, self.data.new_zeros(shape)], dim=dim)


class MXScaleTensor(_Coded):
    """Scales of 8 bits: code n stands for 2 to the power of n - 127, 255 for NaN."""

    def random(self, low: float | None = None, high: float | None = None) -> MXScaleTensor:
        """Fill with any scales from `low` to `high`, both powers of two; without NaN."""
        least = 0 if low is None else max(0, int(log2(low)) + SCALE_BIAS)
        most = LARGEST_SCALE if high is None else min(LARGEST_SCALE, max(0, int(log2(high)) + SCALE_BIAS))
        if least > most:
            raise AssertionError(f"no scale lies from {low} to {high}")
        self.data = torch().randint(least, most + 1, self.size, dtype=torch().uint8, device=self.device)
        return self

    def to(self, dtype: Any) -> Any:
        """The scales as a float32 tensor."""
        _check_float32(dtype)
        scales = [2.0 ** (code - SCALE_BIAS) for code in range(NOT_A_SCALE)]
        return torch().tensor([*scales, nan], device=self.device)[self.data.long()]

    def encoded(self, values: Any) -> Any:
        """The codes of the largest powers of two not above the numbers; of zero, negatives, infinity and NaN: 255."""
        library = torch()
        valid = (values > 0) & (values < inf)
        exponent = library.floor(library.log2(library.where(valid, values, 1.0)))
        code = (exponent + SCALE_BIAS).clamp(0, LARGEST_SCALE)
        return library.where(valid, code, float(NOT_A_SCALE)).to(library.uint8)


def _present(device: Any) -> Any:
    """The device, or the CPU for a GPU that torch does not find."""
    wants_gpu = device is not None and torch().device(device).type == "cuda"
    return "cpu" if wants_gpu and not torch().cuda.is_available() else device


def _check_float32(dtype: Any) -> None:
    if dtype != torch().float32:
        raise AssertionError(f"only conversions to float32 exist, not to {dtype}")
