"""The road from a Python function to machine code, on one screen.

read      the function's syntax becomes HIR: calls and control flow, no types
evaluate  HIR and the signature become TTIR, by running the language on the arguments' types
optimise  TTIR → TTIR
lower     TTIR → object code, by the back end
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from tilewright.analysis.stored_arguments import stored_arguments
from tilewright.backends.base import Backend, Lowered, MachineTarget
from tilewright.compiler.artifact import Artifact, Metadata, Stages, StageSource
from tilewright.compiler.parameters import front_end_parameters
from tilewright.compiler.signature import ArgumentSpec, run_time_arguments
from tilewright.frontends.evaluate.frame import EvaluateOptions
from tilewright.frontends.evaluate.kernel import evaluate_kernel
from tilewright.frontends.from_ast import read_function_once
from tilewright.ir.core import Op
from tilewright.ir.printer import print_op
from tilewright.language.callable import JITCallable
from tilewright.transforms.pipeline import optimize_ttir


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be compiled.

    Attributes:
        function: the kernel.
        name: its symbol in the object.
        source: gives its text, for `asm["source"]`.
        signature: one entry per parameter.
        digest: of the cache key.
        backend, target, options: for which machine, and how.
        dump_ir: print the module after each pass to stderr.
    """

    function: JITCallable
    name: str
    source: Callable[[], str]
    signature: Sequence[ArgumentSpec]
    digest: str
    backend: Backend
    target: MachineTarget
    options: Any
    dump_ir: bool = False


def compile_kernel(request: Request) -> Artifact:
    """Compile one kernel for one signature.

    Raises:
        CompilationError: the kernel, or what it calls, is wrong.
        Unsupported: the language feature or the target is.
    """
    clock = _Clock()
    module = evaluate(request)
    clock.note("evaluate")
    optimize_ttir(module, dump=_dump if request.dump_ir else None, timings=clock.passes)
    ttir, stored = print_op(module), stored_arguments(module)
    clock.note("optimize")
    lowered = request.backend.lower(module, request.target, request.options)
    clock.note("lower")
    facts = {"stored": sorted(stored), "times": clock.milliseconds}
    return _artifact(request, ttir, lowered, facts)


def evaluate(request: Request) -> Op:
    """The kernel as TTIR, before any pass."""
    function = read_function_once(request.function.fn)
    options = EvaluateOptions(debug=request.options.debug, dot_precision=request.options.default_dot_input_precision)
    return evaluate_kernel(function, front_end_parameters(request.signature), name=request.name, options=options)


def _artifact(request: Request, ttir: str, lowered: Lowered, facts: Mapping[str, Any]) -> Artifact:
    backend, texts = request.backend, lowered.texts
    stages: dict[str, StageSource] = {"source": request.source(), "ttir": ttir, **texts}
    stages[backend.assembly_stage] = lambda: backend.assembly(texts, request.target)
    stages[backend.object_stage] = lowered.object
    arguments = [argument.type for argument in run_time_arguments(request.signature)]
    metadata = {
        "name": request.name,
        "hash": request.digest,
        "backend": backend.name,
        "target": request.target.identity,
        "entry": lowered.entry,
        "scratch_bytes": lowered.scratch_bytes,
        "arguments": arguments,
        **request.options.facts(),
        **lowered.facts,
        **facts,
    }
    return Artifact(Stages(stages), Metadata(metadata), backend.object_stage)


def _dump(name: str, module: Op) -> None:
    sys.stderr.write(f"// -----// IR Dump After {name} //----- //\n{print_op(module)}\n")


class _Clock:
    """Milliseconds per step of the road, and seconds per pass."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}
        self.passes: dict[str, float] = {}
        self._last = perf_counter()

    def note(self, step: str) -> None:
        """The step that ends now."""
        now = perf_counter()
        self.milliseconds[step] = round((now - self._last) * 1000, 3)
        self._last = now
