"""The CPU as a back end: options, machines, and the table of its stages.

    backend = CpuBackend(GPUTarget("cpu", "x86_64", 0))
    backend.machine                         # what llvm/machine.py says of this host
    stages = {}
    backend.add_stages(stages, backend.parse_options({}))       # ttcir, llir, obj; `loops` is made on request

A process whose kernels come from the disk cache needs this file, and never the stages: they are imported when they run.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from tilewright.backends.base import BaseBackend, GPUTarget, Language, StageTable
from tilewright.backends.cpu import launch_facts
from tilewright.backends.cpu.options import CpuOptions, parse_options
from tilewright.backends.llvm.machine import Target, emit_assembly, host_target
from tilewright.support import knobs
from tilewright.support.locks import importing
from tilewright.support.system import machine_name

_FAMILIES = {"x86_64": ("x86_64", "amd64"), "aarch64": ("aarch64", "arm64")}
_OLDEST = {"x86_64": "x86-64-v2", "aarch64": "aarch64"}


class CpuBackend(BaseBackend):
    """Compiles for x86-64 and AArch64; `machine` says for which one."""

    binary_ext = "obj"
    assembly_ext = "asm"
    module_stages = frozenset({"ttir", "ttcir"})
    remade = MappingProxyType({"ttcir": "ttir"})
    makes_objects = True

    def __init__(self, target: GPUTarget) -> None:
        super().__init__(target)
        self.machine = machine_for(str(target.arch))
        self.on_request = MappingProxyType({"loops": ("ttcir", self.loops)})

    @property
    def registers(self) -> int:
        return self.machine.costs.registers

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Whether it is a CPU."""
        return target.backend == "cpu"

    def runs_here(self) -> bool:
        """Whether this machine has the instructions."""
        return self.machine.runs_here()

    def hash(self) -> str:
        """The machine with all its features."""
        return self.machine.identity

    def parse_options(self, options: Mapping[str, Any]) -> CpuOptions:
        """See `options.parse_options`."""
        return parse_options(options)

    def add_stages(self, stages: StageTable, options: CpuOptions, language: Language = Language.TRITON) -> None:
        """TTIR → ttcir → LLVM IR → object."""
        stages["ttcir"] = partial(self.make_ttcir, options=options)
        stages["llir"] = partial(self.make_llir, options=options)
        stages["obj"] = partial(self.make_obj, options=options)

    def make_ttcir(self, module: Any, metadata: dict[str, Any], options: CpuOptions) -> Any:
        """See `pipeline.make_ttcir`."""
        with importing:
            from tilewright.backends.cpu.pipeline import make_ttcir

        return make_ttcir(module, metadata, options, self.machine)

    def make_llir(self, module: Any, metadata: dict[str, Any], options: CpuOptions) -> str:
        """See `pipeline.make_llir`."""
        with importing:
            from tilewright.backends.cpu.pipeline import make_llir

        return make_llir(module, metadata, options, self.machine)

    def loops(self, text: str) -> str:
        """See `pipeline.loops`."""
        with importing:
            from tilewright.backends.cpu.pipeline import loops

        return loops(text, self.machine)

    def make_obj(self, text: str, metadata: dict[str, Any], options: CpuOptions) -> bytes:
        """See `pipeline.make_obj`."""
        with importing:
            from tilewright.backends.cpu.pipeline import make_obj

        return make_obj(text, metadata, options, self.machine)

    def text_facts(self, stage: str, text: str | bytes) -> dict[str, Any]:
        """The first line of LLVM IR, which other texts do not have; see `launch_facts`."""
        return launch_facts.read(text) if isinstance(text, str) else {}

    def assembly(self, texts: Mapping[str, str]) -> str:
        """Assembly text of the LLVM IR in `texts`."""
        return emit_assembly(texts["llir"], self.machine)


def machine_for(arch: str) -> Target:
    """The machine that a target's `arch` names; "" and 0, as others write it, are the default one.

    Raises:
        UnknownCpuError: there is no such CPU.
    """
    if arch in ("", "0"):
        return host_target(knobs.tilewright.cpu)
    family = next((name for name, spellings in _FAMILIES.items() if arch.lower() in spellings), None)
    if family is None:
        return host_target(arch)
    here = machine_name().lower() in _FAMILIES[family]
    return host_target() if here else host_target(_OLDEST[family])
