"""NVIDIA's GPUs as a back end: options, devices, and the table of its stages.

    backend = NvidiaBackend(GPUTarget("cuda", 90, 32))
    stages = {}
    backend.add_stages(stages, backend.parse_options({"num_warps": 8}))       # ttir, ttgir, llir, ptx, cubin

No GPU and no driver are needed to compile. Without NVIDIA's assembler the last stage is PTX, which drivers accept, too.
A process whose kernels come from the disk cache needs this file only: the stages are imported when they run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import copy
from functools import partial
from types import MappingProxyType
from typing import Any

from tilewright.backends.base import BaseBackend, GPUTarget, Language, StageTable
from tilewright.backends.nvidia import ptx_text, targets
from tilewright.backends.nvidia.options import CudaOptions, parse_options
from tilewright.backends.nvidia.tools import find_ptxas
from tilewright.support import knobs
from tilewright.support.locks import importing

WARP_SIZE = 32


def disassemble(cubin: bytes) -> str:
    """See `ptxas.disassemble`."""
    with importing:
        from tilewright.backends.nvidia.ptxas import disassemble

    return disassemble(cubin)


class NvidiaBackend(BaseBackend):
    """Compiles for one compute capability; `device` says for which."""

    binary_ext = "cubin"
    module_stages = frozenset({"ttir", "ttgir"})
    registers = 255
    on_request = MappingProxyType({"sass": ("cubin", disassemble)})

    def __init__(self, target: GPUTarget) -> None:
        """Compile for a device.

        Raises:
            UnknownDeviceError: we generate no code for it.
        """
        capability = _capability(target.arch)
        super().__init__(GPUTarget(target.backend, capability, WARP_SIZE))
        self.device = targets.find(capability)
        self.ptxas = find_ptxas(capability)
        if self.ptxas is None:
            self.binary_ext, self.binary_is_text = "ptx", True

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Whether it is an NVIDIA GPU."""
        return target.backend == "cuda"

    def hash(self) -> str:
        """The device, which assembler there is, and whether it may optimise."""
        optimizes = "" if knobs.nvidia.disable_ptxas_opt else "/optimized"
        return f"cuda:{self.device.capability}/{_file_identity(self.ptxas)}{optimizes}"

    def parse_options(self, options: Mapping[str, Any]) -> CudaOptions:
        """See `options.parse_options`; `arch`, else the knob `override_arch`, is the device to compile for instead."""
        arch = options.get("arch") or knobs.runtime.override_arch
        if not arch:
            return parse_options(options, self.device.capability)
        capability = _capability(arch)
        return parse_options({**options, "arch": f"sm{capability}"}, capability)

    def prepare(self) -> None:
        """Start the process that LLVM runs in: it gets ready while the front end works."""
        with importing:
            from tilewright.backends.llvm import nvptx

        nvptx.start()

    def add_stages(self, stages: StageTable, options: CudaOptions, language: Language = Language.TRITON) -> None:
        """TTIR (or Gluon's program) → TTGIR → LLVM IR → PTX → cubin."""
        own = self._compiling_for(options.capability or self.device.capability)
        if language is Language.GLUON:
            stages["glir"] = lambda module, metadata: module
            stages["ttgir"] = partial(own.make_ttgir_of_gluon, options=options)
        else:
            stages["ttir"] = own.make_ttir
            stages["ttgir"] = partial(own.make_ttgir, options=options)
        stages["llir"] = partial(own.make_llir, options=options)
        stages["ptx"] = partial(own.make_ptx, options=options)
        if own.ptxas is not None:
            stages["cubin"] = partial(own.make_cubin, options=options)

    def _compiling_for(self, capability: int) -> NvidiaBackend:
        """This back end, or one of the same kind for the device that an option names."""
        if capability == self.device.capability:
            return self
        other = copy(self)
        other.device, other.ptxas = targets.find(capability), find_ptxas(capability)
        return other

    def make_ttir(self, module: Any, metadata: dict[str, Any]) -> Any:
        """See `pipeline.make_ttir`."""
        return _pipeline().make_ttir(module, metadata, self.device)

    def make_ttgir(self, module: Any, metadata: dict[str, Any], options: CudaOptions) -> Any:
        """See `pipeline.make_ttgir`."""
        return _pipeline().make_ttgir(module, metadata, options, self.device)

    def make_ttgir_of_gluon(self, module: Any, metadata: dict[str, Any], options: CudaOptions) -> Any:
        """See `pipeline.make_ttgir_of_gluon`."""
        return _pipeline().make_ttgir_of_gluon(module, metadata, options)

    def make_llir(self, module: Any, metadata: dict[str, Any], options: CudaOptions) -> Any:
        """See `pipeline.make_llir`."""
        return _pipeline().make_llir(module, metadata, options, self.device)

    def make_ptx(self, text: str, metadata: dict[str, Any], options: CudaOptions) -> Any:
        """See `pipeline.make_ptx`."""
        return _pipeline().make_ptx(text, metadata, options, self.device)

    def make_cubin(self, text: str, metadata: dict[str, Any], options: CudaOptions) -> Any:
        """See `pipeline.make_cubin`."""
        assert self.ptxas is not None, "the stage is there only with an assembler"
        return _pipeline().make_cubin(text, metadata, options, self.device, ptxas=self.ptxas)

    def text_facts(self, stage: str, text: str | bytes) -> dict[str, Any]:
        """Facts in the text of LLVM IR or PTX about its kernel; see `ptx_text`."""
        return ptx_text.launch_facts(stage, text) if stage in ("llir", "ptx") and isinstance(text, str) else {}


def _pipeline() -> Any:
    with importing:
        from tilewright.backends.nvidia import pipeline

    return pipeline


def _capability(arch: int | str) -> int:
    """90 for 90, "90", "sm90", "sm_90" and "sm_90a".

    Raises:
        UnknownDeviceError: it is no such name.
    """
    digits = str(arch).lower().removeprefix("sm").lstrip("_").rstrip("af")
    if not digits.isdecimal():
        raise targets.UnknownDeviceError(f"the arch of a cuda target is a compute capability such as 90; got {arch!r}")
    return int(digits)


def _file_identity(path: str | None) -> str:
    """A string that differs whenever a program was reinstalled."""
    if path is None:
        return "none"
    status = os.stat(path)
    return f"{path}/{status.st_size}/{status.st_mtime_ns}"
