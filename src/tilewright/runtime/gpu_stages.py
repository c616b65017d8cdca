"""The stages that a CPU kernel would have on a GPU, compiled on demand.

    kernel = add[grid](x, y, out, n, BLOCK=128)         # runs on the CPU
    kernel.asm["ptx"]                                   # the same source, types, constants and options, for sm_90
    "ptx" in kernel.asm                                 # False: it is no stage of this kernel

TILEWRIGHT_GPU_ARCH names another GPU. Compilation stops at the requested stage, and nothing is kept on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.backends.base import BaseBackend, GPUTarget, StageTable, options_facts
from tilewright.backends.registry import NVIDIA, make_backend
from tilewright.compiler.artifact import Stage
from tilewright.runtime import lazy_imports
from tilewright.runtime.sources import ASTSource, Source
from tilewright.support import knobs
from tilewright.support.diagnostics import TilewrightError

NAMES = ("ttgir", "ptx", "cubin", "sass")


class NoGpuStageError(TilewrightError, RuntimeError):
    """A kernel for a CPU cannot be compiled to the requested stage of a GPU."""


class GpuStages:
    """The stages of one kernel by name, for `Stages`; each is made once."""

    __slots__ = ("_found", "_name", "_options", "_source")

    def __init__(self, source: Source, name: str, options: Mapping[str, Any]) -> None:
        """The stages of a kernel that was compiled for a CPU."""
        self._source, self._name, self._options = source, name, options
        self._found: dict[tuple[str, str], Stage] = {}

    def __call__(self, name: str) -> Stage:
        """A stage.

        Raises:
            KeyError: no GPU has a stage of that name.
            NoGpuStageError: the kernel cannot be compiled for the GPU; the reason is the cause.
        """
        if name not in NAMES:
            raise KeyError(name)
        arch = knobs.tilewright.gpu_arch
        if (name, arch) not in self._found:
            self._found[name, arch] = self._compiled(name, arch)
        return self._found[name, arch]

    def _compiled(self, name: str, arch: str) -> Stage:
        try:
            return self._artifact_for(name, make_backend(GPUTarget(NVIDIA, arch, 32)))
        except Exception as error:
            raise NoGpuStageError(
                f"{self._name} was compiled for a CPU, and there is no asm[{name!r}] of it for {arch} "
                f"(TILEWRIGHT_GPU_ARCH): {error}"
            ) from error

    def _artifact_for(self, name: str, backend: BaseBackend) -> Stage:
        source = self._source
        if isinstance(source, ASTSource):
            source = source.for_target(backend.target)
        elif source.ext not in backend.module_stages:
            raise RuntimeError(f"it was compiled from {source.ext}, which is of a CPU alone")
        made_of, finish = backend.on_request.get(name, (name, None))
        artifact = lazy_imports.compile_kernel(
            source.origin,
            name=self._name,
            source=source.text,
            signature=source.specs,
            digest="",
            backend=backend,
            options=backend.parse_options(self._options_of(backend)),
            edit=lambda stages: _cut_after(made_of, stages),
        )
        return artifact.asm[made_of] if finish is None else finish(artifact.asm[made_of])

    def _options_of(self, backend: BaseBackend) -> dict[str, Any]:
        """Those of the options that mean something there; the CPU has accepted all of them."""
        known = options_facts(backend.parse_options({}))
        return {name: value for name, value in self._options.items() if name in known}


def _cut_after(last: str, stages: StageTable) -> None:
    """Leave the stages up to `last`."""
    names = list(stages)
    if last not in names:
        raise RuntimeError(f"there is no stage {last!r} without NVIDIA's assembler")
    for name in names[names.index(last) + 1 :]:
        del stages[name]
