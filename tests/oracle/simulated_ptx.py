"""PTX that Triton makes of a kernel, run in our simulator with all checks on.

    answers = compiled((request("02-fused-softmax", "softmax_kernel", signature, constants, capability=90),))
    run(answers[0], [Out((6, 800)), x, 800, 800, 6, 800], grid=2)      # arrays: what stood there afterwards

Arguments: arrays, numbers, `Out` (memory without values), `Descriptor` (a tensor), lists of arrays (their addresses).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from test_tritons_ttir import theirs, tutorial

from tilewright.backends.ptxsim import DeviceMemory, Launch, load
from tilewright.backends.ptxsim.tensor_maps import ELEMENTS, SWIZZLES, TensorMap

F16, F32, I32 = "*fp16", "*fp32", "i32"


@dataclass
class Out:
    """Memory for a result."""

    shape: tuple[int, ...]
    dtype: Any = np.float32


@dataclass
class Descriptor:
    """A tensor descriptor made by the host; `tensor` is an array or an `Out`."""

    tensor: Any
    shape: tuple[int, ...] = ()


@dataclass
class Placed:
    """The places of a launch's arguments."""

    memory: DeviceMemory = field(default_factory=DeviceMemory)
    places: list[tuple[int, tuple[int, ...], Any] | None] = field(default_factory=list)

    def address(self, value: Any, number: int) -> int:
        if isinstance(value, Out):
            size = int(np.prod(value.shape)) * np.dtype(value.dtype).itemsize
            place = self.memory.allocate(size, name=f"argument {number}")
        else:
            place = self.memory.copy_in(value, name=f"argument {number}")
        self.places.append((place, value.shape, value.dtype))
        return place

    def results(self) -> list[np.ndarray]:
        return [self.memory.copy_out(*place) for place in self.places if place]


def request(
    file: str, kernel: str, signature: dict[str, str], constants: dict[str, Any], *, capability: int, **more: Any
) -> str:
    """The request that `compiled` takes, as text: `options` and `aligned` are Triton's."""
    found = {"text": tutorial(file), "kernel": kernel, "signature": signature, "constants": constants}
    return json.dumps({**found, "capability": capability, "ptx": 1, **more})


@cache
def compiled(requests: tuple[str, ...]) -> list[dict[str, Any]]:
    """Triton's PTX of kernels, and what their launches must know; `error` where it refuses one."""
    return theirs([json.loads(text) for text in requests])


def run(answer: dict[str, Any], arguments: Sequence[Any], grid: int | tuple[int, int, int]) -> list[np.ndarray]:
    """Launch a kernel.

    Args:
        answer: of `compiled`.
        arguments: without constants.
        grid: how many programs; each is a cluster of CTAs where Triton was told so.

    Returns:
        Every array of the arguments as the kernel leaves it, in order.
    """
    placed, packed = Placed(), list[Any]()
    maps = iter(answer["tensordesc_meta"] or ())
    for number, value in enumerate(arguments):
        if isinstance(value, Descriptor):
            packed += descriptor(value, placed.address(value.tensor, number), next(maps, None))
        elif isinstance(value, list):
            packed.append(placed.address(np.array([placed.address(item, number) for item in value]), number))
        elif isinstance(value, Out | np.ndarray):
            packed.append(placed.address(value, number))
        else:
            packed.append(value)
    programs = (grid, 1, 1) if isinstance(grid, int) else grid
    extents = (programs[0] * answer["num_ctas"], *programs[1:])
    scratch = answer["global_scratch_size"] * int(np.prod(extents))
    packed += [placed.memory.allocate(scratch, name="scratch") if scratch else 0, 0]
    launch = Launch(load(answer["ptx"]), grid=extents, shared=answer["shared"], cluster=(answer["num_ctas"], 1, 1))
    launch.run(placed.memory, packed)
    return placed.results()


def descriptor(value: Descriptor, address: int, meta: dict[str, Any] | None) -> list[Any]:
    """The parameters that a descriptor becomes: with TMA a map by value, else pointer, extents and strides."""
    shape = value.shape or value.tensor.shape
    width = np.dtype(value.tensor.dtype).itemsize
    strides = [int(np.prod(shape[d + 1 :])) for d in range(len(shape))]
    if meta is None:
        return [address, *shape, *strides, 0, 0, *shape, *strides]
    found = TensorMap(
        address=address,
        element=ELEMENTS[meta["elem_type"]],
        shape=(shape[-1] * (1 + meta["fp4_padded"]), *reversed(shape[:-1])),
        strides=tuple(stride * width for stride in reversed(strides[:-1])),
        box=tuple(reversed(meta["block_size"])),
        swizzle=SWIZZLES[meta["swizzle"]],
    )
    return [found.encode(), *shape, *strides]


def floats(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    """Normally distributed numbers."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype)


def fp8(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return floats(shape, ml_dtypes.float8_e4m3fn, seed)
