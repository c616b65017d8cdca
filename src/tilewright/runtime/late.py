"""The one place of the runtime that imports the compiler, and only when something has to be compiled.

A process whose kernels all come from the disk cache never gets here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.backends.cpu.options import CpuOptions
from tilewright.backends.llvm.machine import Target
from tilewright.compiler.artifact import Artifact
from tilewright.compiler.signature import ArgumentSpec
from tilewright.language.callable import JITCallable


def compile_kernel(
    function: JITCallable,
    *,
    name: str,
    source: Callable[[], str],
    signature: Sequence[ArgumentSpec],
    digest: str,
    target: Target,
    options: CpuOptions,
    dump_ir: bool,
) -> Artifact:
    """Compile for the CPU; see `compiler.compile.compile_kernel`."""
    from tilewright.backends.cpu.pipeline import CpuBackend
    from tilewright.compiler.compile import Request, compile_kernel

    request = Request(
        function=function,
        name=name,
        source=source,
        signature=signature,
        digest=digest,
        backend=CpuBackend(),
        target=target,
        options=options,
        dump_ir=dump_ir,
    )
    return compile_kernel(request)


def cpu_assembly(texts: Mapping[str, str], target: Target) -> str:
    """Assembly text of a kernel from the texts of its stages."""
    from tilewright.backends.cpu.pipeline import CpuBackend

    return CpuBackend().assembly(texts, target)


def interpret(python: Any, grid: tuple[int, int, int], arguments: Mapping[str, Any]) -> None:
    """Run every program of the grid in Python; see `interpreter.eager.launch.run_eagerly`."""
    from tilewright.interpreter.eager import run_eagerly

    run_eagerly(python, grid, arguments)
