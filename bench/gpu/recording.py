"""Launches of programs that run on a simulated GPU, written down: memory, what the CPU makes of it, and the simulator.

with recorded(90, folder, "softmax", "examples") as launches:
    softmax(x)
launches            # one `Launch` each; their memory is in the folder
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from launches import Array, Launch

import tilewright
from tilewright.backends.base import GPUTarget
from tilewright.backends.ptxsim import DeviceMemory
from tilewright.runtime.arrays import ArrayView
from tilewright.runtime.devices import using
from tilewright.runtime.drivers.simulated.gpu import ALIGNMENT, Regions, SimulatedGpu
from tilewright.runtime.tensor_maps import HostMap, map_fields

CPU = GPUTarget("cpu", 0, 0)
PRODUCTS = r"^\s*(@!?%\w+ )?(mma|wgmma|tcgen05)\S*\.(f16|f64|bf16|tf32|e\dm\d|f8f6f4)"
FILLS_WITH_NAN = r"fill_mode\S* \[[^]]*\], 1"
UNDEFINED = re.compile(rf"\.approx|div\.full|{FILLS_WITH_NAN}|{PRODUCTS}", re.MULTILINE)
"""Instructions that PTX leaves bits to the hardware of, or the order of sums; it does not say which NaN is outside."""
SUMS = re.compile(r"(atom|red)\S*\.add\S*\.(f16|bf16|f32|f64)")
"""Instructions whose order makes the result."""


def is_exact(ptx: str) -> bool:
    """Does PTX define every bit of what this kernel gives?"""
    return not UNDEFINED.search(ptx) and not SUMS.search(ptx)


class RecordingGpu(SimulatedGpu):
    """A simulated GPU that writes launches down.

    Attributes:
        launches: so far.
    """

    def __init__(self, capability: int, folder: Path, name: str, kind: str, *, is_whole: bool, keeps_ptx: bool) -> None:
        super().__init__(capability)
        self._folder, self._program, self._kind, self._is_whole = folder, name, kind, is_whole
        self._keeps_ptx = keeps_ptx
        self.launches: list[Launch] = []

    def launch(self, kernel: Any, grid: tuple[int, int, int], values: Sequence[Any], stream: int | None) -> None:
        named = zip(kernel.names, values, strict=True)
        arrays = [(name, value) for name, value in named if isinstance(value, ArrayView)]
        regions = Regions(DeviceMemory(), arrays, "array")
        before = _contents(regions)
        on_cpu = _on_cpu(kernel, grid, values, regions)
        _restore(regions, before)
        super().launch(kernel, grid, values, stream)
        stages = [name for name in ("cubin", "ptx") if name in kernel.asm]
        codes = {name: _bytes(kernel.asm[name]) for name in (stages if self._keeps_ptx else stages[:1])}
        launch = self._described(kernel, grid, values, regions)._replace(has_cpu=on_cpu is not None)
        self.launches.append(launch)
        launch.write(self._folder, codes, before=before, cpu=on_cpu or [], simulated=_contents(regions))

    def _described(self, kernel: Any, grid: tuple[int, int, int], values: Sequence[Any], regions: Regions) -> Launch:
        facts, capability = kernel.metadata, int(self.target.arch)
        return Launch(
            name=f"{self._program}_{len(self.launches)}_{capability}",
            kind=self._kind,
            capability=capability,
            symbol=kernel.name,
            grid=list(grid),
            shared=facts.shared,
            warps=facts.num_warps,
            ctas=facts.num_ctas,
            scratch=facts.global_scratch_size,
            dependent=bool(facts.launch_pdl),
            cooperative=bool(facts.launch_cooperative_grid),
            parameters=list(_parameters(kernel, values, regions)),
            pieces=[[_element(region, values), region.low % ALIGNMENT] for region in regions.regions],
            exact=self._is_whole or is_exact(kernel.asm["ptx"]),
            has_cubin="cubin" in kernel.asm,
            has_cpu=False,
        )


@contextmanager
def recorded(
    capability: int, folder: Path, name: str, kind: str, *, is_whole: bool = False, keeps_ptx: bool = True
) -> Iterator[list[Launch]]:
    """Until the end of the `with`, launches are of a simulated GPU, and written down.

    Args:
        capability: of the GPU.
        folder: for the memory.
        name: of the program.
        kind: of the program.
        is_whole: all numbers are whole and small, so that every order of sums gives the same.
        keeps_ptx: also where there is machine code.
    """
    device = RecordingGpu(capability, folder, name, kind, is_whole=is_whole, keeps_ptx=keeps_ptx)
    with using(device):
        yield device.launches


def _bytes(code: Any) -> bytes:
    return code if isinstance(code, bytes) else str(code).encode()


def _contents(regions: Regions) -> list[Array]:
    return [region.host_bytes().copy() for region in regions.regions]


def _restore(regions: Regions, contents: list[Array]) -> None:
    for region, content in zip(regions.regions, contents, strict=True):
        if region.writable:
            region.host_bytes()[:] = content


def _on_cpu(kernel: Any, grid: Sequence[int], values: Sequence[Any], regions: Regions) -> list[Array] | None:
    """The contents of memory behind the launch on this CPU; None for kernels that it cannot run.

    Those of a cooperative launch all have to run at the same time, for which a CPU has too few threads.
    """
    if kernel.metadata.launch_cooperative_grid:
        return None
    try:
        native = tilewright.compile(
            kernel.src, target=CPU, options={"enable_fp_fusion": kernel.metadata.enable_fp_fusion}
        )
    except tilewright.TilewrightError:
        return None
    native.launch(grid, [value for value in values if not isinstance(value, HostMap)])
    return _contents(regions)


def _element(region: Any, values: Sequence[Any]) -> str:
    """The type of the first array there."""
    views = [value for value in values if isinstance(value, ArrayView)]
    return next(view.element for view in views if region.low <= view.address <= region.high)


def _parameters(kernel: Any, values: Sequence[Any], regions: Regions) -> Iterator[list[Any]]:
    maps = iter(kernel.metadata.tensordesc_meta)
    for name, value, kind in zip(kernel.names, values, kernel.types, strict=True):
        if isinstance(value, HostMap):
            fields = map_fields(name, value, next(maps))
            rest = [fields.element, fields.shape, fields.strides, fields.box, fields.swizzle, fields.pads_with_nan]
            yield ["map", *_place(regions, value.base), *rest]
        elif isinstance(value, ArrayView):
            yield ["memory", *_place(regions, value)]
        else:
            yield ["number", _number(value, kind).hex()]


def _place(regions: Regions, view: ArrayView) -> list[int]:
    """Piece and offset; without elements there is no piece."""
    for number, region in enumerate(regions.regions):
        if region.low <= view.address < region.high or region.low == view.address:
            return [number, view.address - region.low]
    return [-1, 0]


FORMATS = {"fp16": "<e", "fp32": "<f", "fp64": "<d"}


def _number(value: float, kind: str) -> bytes:
    """A number as a kernel gets it."""
    if kind == "bf16":
        return np.array(value, ml_dtypes.bfloat16).tobytes()
    if kind in FORMATS:
        return struct.pack(FORMATS[kind], value)
    width = max(8, int(kind[1:]))
    return (int(value) % (1 << width)).to_bytes(width // 8, "little")
