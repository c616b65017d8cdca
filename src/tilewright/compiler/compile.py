"""The pipeline from a Python function to machine code, on one screen.

read       the function's syntax becomes HIR: calls and control flow, no types
evaluate   HIR and the signature become a module of TTIR, by running the language on the arguments' types
ttir       TTIR → TTIR: the passes that every back end needs
…          the stages of the back end: ttcir, llir, obj for a CPU

Compilation can begin with the text of a stage, and a stage's result can be replaced by text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

from tilewright.backends.base import BaseBackend, Language, StageTable, options_facts
from tilewright.compiler.artifact import PRESUMED, Artifact, Metadata, Stage, Stages, StageSource
from tilewright.compiler.parameters import front_end_parameters
from tilewright.compiler.signature import ArgumentSpec, run_time_arguments
from tilewright.compiler.stages import parse_stage, remade, stage_table, stored
from tilewright.frontends.choice import make_ttir
from tilewright.frontends.evaluate.tiles import EvaluateOptions
from tilewright.ir.core import Op
from tilewright.language.callable import JITCallable
from tilewright.semantics.types import FP8_KINDS
from tilewright.support import knobs
from tilewright.support.collector import resting
from tilewright.support.diagnostics import CompilationError, presented
from tilewright.transforms.pipeline import normalize_ttir


def compile_kernel(
    origin: JITCallable | tuple[str, Stage],
    *,
    name: str,
    signature: Sequence[ArgumentSpec],
    digest: str,
    backend: BaseBackend,
    options: Any,
    source: Callable[[], str] = str,
    edit: Callable[[StageTable], None] = lambda stages: None,
    replacement: Callable[[str], Stage | None] = lambda stage: None,
    dump_ir: bool = False,
) -> Artifact:
    """Compile one kernel for one signature.

    Args:
        origin: the kernel; or the name and the text of the stage at which the pipeline is entered.
        name: the kernel's symbol in the object.
        signature: one entry per parameter.
        digest: the digest of the cache key.
        backend, options: the back end of the machine, and its options.
        source: gives the kernel's text, for `asm["source"]`.
        edit: may change the table of stages.
        replacement: may give text, or bytes, to go on with instead of what a stage made.
        dump_ir: print the module after each pass to stderr.

    Raises:
        CompilationError: the kernel, or what it calls, is wrong.
        Unsupported: the language feature or the target is.
        ParseError, VerificationError: text that was given as a stage is not what it should be.
    """
    with resting():
        clock = _Clock()
        arguments = [argument.type for argument in run_time_arguments(signature)]
        named = {"name": name, "hash": digest, "target": vars(backend.target)}
        facts = {**PRESUMED, **options_facts(options), **named, "arguments": arguments}
        backend.prepare()
        is_gluon = isinstance(origin, JITCallable) and origin.is_gluon()
        stages = stage_table(backend, options, Language.GLUON if is_gluon else Language.TRITON, dump_ir=dump_ir)
        plain = dict(stages)
        edit(stages)
        if isinstance(origin, JITCallable):
            entered, product = "source", evaluate(origin, name, signature, options)
        else:
            entered, product = origin[0], _parsed(backend, *origin)
            if entered == backend.binary_ext:  # no stage follows that would read it
                told = backend.text_facts(entered, product)
                facts |= {"shared": facts.get("min_shared_mem") or 0, **told}  # text from elsewhere does not say
        made: dict[str, StageSource] = {entered: source() if entered == "source" else stored(product)}
        clock.note("begin")
        for stage in _after(entered, stages):
            product = _next(product, stages[stage](product, facts))
            replaced = replacement(stage)
            product = product if replaced is None else _next(product, parse_stage(backend, stage, replaced))
            source_stage = backend.remade.get(stage) if replaced is None and stages == plain else None
            made[stage] = partial(_remade, backend, options, stage, made) if source_stage in made else stored(product)
            clock.note(stage)
        return _artifact(backend, made, facts | {"times": clock.milliseconds})


def _remade(backend: BaseBackend, options: Any, stage: str, made: Mapping[str, StageSource]) -> Stage:
    """See `stages.remade`."""
    text = made[backend.remade[stage]]
    return remade(backend, options, stage, text() if callable(text) else text)


def _next(consumed: Any, product: Any) -> Any:
    """The product of a stage; its input is no longer needed."""
    if isinstance(consumed, Op) and consumed is not product:
        consumed.destroy()
    return product


def _parsed(backend: BaseBackend, stage: str, text: Stage) -> Any:
    product = parse_stage(backend, stage, text)
    return normalize_ttir(product) if stage == "ttir" else product


def evaluate(kernel: JITCallable, name: str, signature: Sequence[ArgumentSpec], options: Any) -> Op:
    """The kernel as TTIR, before any pass."""
    given = {
        "debug": False,
        "sanitize_overflow": True,
        "default_dot_input_precision": "tf32",
        "max_num_imprecise_acc_default": 0,
        "supported_fp8_dtypes": FP8_KINDS,
        "deprecated_fp8_dot_operand_dtypes": (),
        **options_facts(options),
    }
    front_end = EvaluateOptions(
        debug=given["debug"],
        sanitize_overflow=given["sanitize_overflow"],
        dot_precision=given["default_dot_input_precision"],
        imprecise_sums=given["max_num_imprecise_acc_default"],
        allow_globals=knobs.compilation.allow_non_constexpr_globals,
        capability=getattr(options, "capability", 0),
        warps=getattr(options, "num_warps", 1),
        leaves_loops=knobs.tilewright.leave_loops,
        ctas=getattr(options, "num_ctas", 1),
        target=f"cuda:{options.capability}" if kernel.is_gluon() else "",
        fp8_kinds=tuple(given["supported_fp8_dtypes"]),
        deprecated_fp8=tuple(given["deprecated_fp8_dot_operand_dtypes"]),
    )
    parameters = front_end_parameters(signature)
    try:
        return make_ttir(kernel.fn, parameters, name=name, options=front_end, frontend=kernel.frontend)
    except CompilationError as error:
        shown = presented(error)
        if shown is error:
            raise
        raise shown from shown.__cause__


def _after(entered: str, stages: Mapping[str, Any]) -> Iterable[str]:
    names = list(stages)
    return names[names.index(entered) + 1 :] if entered in stages else names


def _artifact(backend: BaseBackend, made: dict[str, StageSource], facts: dict[str, Any]) -> Artifact:
    if backend.assembly_ext and backend.assembly_ext not in made:
        texts = {name: text for name, text in made.items() if isinstance(text, str)}
        binary = made.pop(backend.binary_ext)
        made |= {backend.assembly_ext: lambda: backend.assembly(texts), backend.binary_ext: binary}
    return Artifact(Stages(made, backend.on_request), Metadata(facts), backend.binary_ext)


class _Clock:
    """Milliseconds per step of the pipeline."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}
        self._last = perf_counter()

    def note(self, step: str) -> None:
        """The step that ends now."""
        now = perf_counter()
        self.milliseconds[step] = round((now - self._last) * 1000, 3)
        self._last = now
